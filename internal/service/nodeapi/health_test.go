package nodeapi

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
)

func TestHealthNamesWhatKeepsARecord(t *testing.T) {
	for state, want := range map[index.State]string{
		index.Idle:       "no node has reported the chain yet",
		index.CatchingUp: "the index is 0 blocks behind and catching up",
		index.Rebuilding: "the index is being rebuilt, 100% is done",
		index.Retrying:   "indexing fails at the moment, and goes on by itself: the cause",
		index.Stalled:    "indexing fails at the moment, and goes on by itself: the cause",
		index.Stopped:    "the index of the chain has stopped: the cause",
		index.Waiting:    "indexing waits for the operator: the cause",
	} {
		require.EqualError(t, outdated(&index.Status{State: state, Err: errors.New("the cause")}), want, state)
	}
	require.NoError(t, outdated(&index.Status{State: index.Following}))
}

// The heights of the X-Chain begin with its block 0, although the genesis and the pre-Cortina transactions are indexed
// before.
func TestHealthReportsHeightsOfTheChain(t *testing.T) {
	for _, test := range []struct {
		name   string
		status index.Status
		before uint64
		want   string
	}{
		{"nothing yet", index.Status{}, 0, `{"state":"","lag":0}`},
		{"a chain of blocks", index.Status{Next: 8, TipKnown: true, Tip: 9}, 0, `{"state":"","lastIndexedHeight":7,"lastAcceptedHeight":9,"lag":2}`},
		{"within what precedes the blocks", index.Status{Next: 50, TipKnown: true, Tip: 109}, 100, `{"state":"","lastAcceptedHeight":9,"lag":60}`},
		{"before block 0", index.Status{Next: 100, TipKnown: true, Tip: 100}, 100, `{"state":"","lastAcceptedHeight":0,"lag":1}`},
		{"after block 0", index.Status{Next: 101, TipKnown: true, Tip: 109}, 100, `{"state":"","lastIndexedHeight":0,"lastAcceptedHeight":9,"lag":9}`},
		{"without a tip", index.Status{Next: 105}, 100, `{"state":"","lastIndexedHeight":4,"lag":0}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := json.Marshal(newChainReport(&test.status, test.before))
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(got))
		})
	}
}
