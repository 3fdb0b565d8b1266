package nodeapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

// stakesOf is a node with the stakes of one validator.
type stakesOf struct {
	t      *testing.T
	stakes []node.CurrentStake
	err    error
	asked  int
}

func (s *stakesOf) CurrentStakes(_ context.Context, subnetID ids.ID, nodeID ids.NodeID) ([]node.CurrentStake, error) {
	require.Equal(s.t, constants.PrimaryNetworkID, subnetID)
	require.Equal(s.t, ids.NodeID{3}, nodeID)
	s.asked++
	return s.stakes, s.err
}

// TestPeriod asks for the period of a validator once a minute, and keeps the last one while nodes are away.
func TestPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
		away := errors.New("no answer")
		s := &stakesOf{t: t, err: away}
		p := &period{node: s, nodeID: ids.NodeID{3}}
		_, err := p.began(t.Context())
		require.ErrorIs(t, err, away)
		s.err = nil
		_, err = p.began(t.Context())
		require.ErrorIs(t, err, away)
		require.Equal(t, 1, s.asked)
		time.Sleep(5 * time.Second)
		_, err = p.began(t.Context())
		require.ErrorIs(t, err, errNoPeriod)
		time.Sleep(5 * time.Second)

		began := func(want time.Time, asked int) {
			t.Helper()
			got, err := p.began(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, asked, s.asked)
		}
		s.stakes = []node.CurrentStake{{Delegator: true, Start: second}, {Start: first}}
		began(first, 3)
		s.stakes = []node.CurrentStake{{Start: second}} // the validator has renewed its stake
		time.Sleep(59 * time.Second)
		began(first, 3)
		time.Sleep(time.Second)
		began(second, 4)

		time.Sleep(time.Hour)
		s.err = away
		began(second, 5)
		began(second, 5)
		time.Sleep(5 * time.Second)
		began(second, 6)

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(time.Hour)
		_, err = p.began(ended)
		require.ErrorIs(t, err, context.Canceled)
	})
}
