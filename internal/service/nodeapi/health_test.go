package nodeapi

import (
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
