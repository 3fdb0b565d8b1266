package nodeapi

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
)

func TestHealthNamesWhatKeepsARecord(t *testing.T) {
	for state, want := range map[index.State]string{
		index.Idle:       "no node has told of the chain yet",
		index.CatchingUp: "the record is 0 blocks behind and catching up",
		index.Rebuilding: "the record is being made again, 100 % so far",
		index.Retrying:   "recording waits, and goes on by itself: the cause",
		index.Stalled:    "recording waits, and goes on by itself: the cause",
		index.Stopped:    "the chain is not recorded any more: the cause",
	} {
		require.EqualError(t, recorded(&index.Status{State: state, Err: errors.New("the cause")}), want, state)
	}
	require.NoError(t, recorded(&index.Status{State: index.Following}))
}
