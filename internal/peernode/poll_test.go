package peernode

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/testenv"
)

// voting is a network whose nodes vote on the last blocks of chains and serve them.
type voting struct {
	Peers
	weights map[ids.NodeID]uint64
	tips    map[ids.NodeID]ids.ID
	// oldest is a block that all nodes have accepted, besides their tips.
	oldest ids.ID
	// delay is how long the votes of a node about a chain take; it may be nil.
	delay func(nodeID ids.NodeID, chainID ids.ID) time.Duration
	// container serves blocks; it may be nil.
	container func(ctx context.Context, nodeID ids.NodeID, id ids.ID) ([]byte, error)
}

// newVoting returns nodes of equal weight with the same tip.
func newVoting(nodes int, tip ids.ID) *voting {
	v := &voting{weights: make(map[ids.NodeID]uint64), tips: make(map[ids.NodeID]ids.ID)}
	v.add(nodes, 1, tip)
	return v
}

func (v *voting) add(nodes int, weight uint64, tip ids.ID) (added []ids.NodeID) {
	for range nodes {
		nodeID := ids.GenerateTestNodeID()
		v.weights[nodeID], v.tips[nodeID] = weight, tip
		added = append(added, nodeID)
	}
	return added
}

func (v *voting) ConnectedNodes() (nodes []ids.NodeID) {
	for nodeID := range v.tips {
		nodes = append(nodes, nodeID)
	}
	return nodes
}

func (v *voting) await(ctx context.Context, nodeID ids.NodeID, chainID ids.ID) error {
	if v.delay == nil {
		return nil
	}
	return testenv.Delay(ctx, v.delay(nodeID, chainID))
}

func (v *voting) AcceptedFrontier(ctx context.Context, nodeID ids.NodeID, chainID ids.ID) (ids.ID, error) {
	if err := v.await(ctx, nodeID, chainID); err != nil {
		return ids.Empty, err
	}
	return v.tips[nodeID], nil
}

func (v *voting) Accepted(ctx context.Context, nodeID ids.NodeID, chainID ids.ID, of []ids.ID) ([]ids.ID, error) {
	var accepted []ids.ID
	if err := v.await(ctx, nodeID, chainID); err != nil {
		return nil, err
	}
	for _, id := range of {
		if id == v.tips[nodeID] || id == v.oldest {
			accepted = append(accepted, id)
		}
	}
	return accepted, nil
}

func (v *voting) Container(ctx context.Context, nodeID ids.NodeID, _, id ids.ID) ([]byte, error) {
	if v.container == nil {
		return nil, errors.New("no answer")
	}
	return v.container(ctx, nodeID, id)
}

func newCounter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "disputed"})
}

// only delays the votes of some nodes.
func only(delay time.Duration, nodes ...ids.NodeID) func(ids.NodeID, ids.ID) time.Duration {
	return func(nodeID ids.NodeID, _ ids.ID) time.Duration {
		if slices.Contains(nodes, nodeID) {
			return delay
		}
		return 0
	}
}

func (v *voting) ask(t testing.TB, chainID ids.ID) (*poll, error) {
	t.Helper()
	return ask(t.Context(), v, chainID, v.weights, "validators", newCounter())
}

// TestMinorityIsNotBelieved polls networks that are too large to ask every node. Some of the stake claims that a forged
// block is the tip. It is not believed, however many nodes have that stake.
func TestMinorityIsNotBelieved(t *testing.T) {
	const polls = 300
	honest, forged := ids.ID{'h'}, ids.ID{'f'}
	for name, test := range map[string]struct {
		attackers, others         int
		attackerStake, otherStake uint64 // of each node
		followed                  int    // the least number of polls that believe the others
	}{
		"12% of two nodes":    {2, 1000, 60_000, 880, polls * 4 / 5},
		"12% of many nodes":   {1000, 5, 120, 176_000, polls * 4 / 5},
		"a third of one node": {1, 500, 250_000, 1000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVoting(0, ids.Empty)
			v.add(test.attackers, test.attackerStake, forged)
			v.add(test.others, test.otherStake, honest)
			followed := 0
			for range polls {
				p, err := v.ask(t, ids.ID{'c'})
				if err != nil {
					require.ErrorContains(t, err, "do not agree")
					continue
				}
				require.NotContains(t, p.accepted, forged)
				if !p.behind {
					followed++
				}
			}
			require.GreaterOrEqual(t, followed, test.followed)
		})
	}
}

// TestVotesAreWeighed polls few enough nodes that each is asked. Their stake counts.
func TestVotesAreWeighed(t *testing.T) {
	v := newVoting(0, ids.Empty)
	v.add(maxVotes-1, 1, ids.ID{'f'})
	v.add(1, 4*(maxVotes-1), ids.ID{'h'})
	p, err := v.ask(t, ids.ID{'c'})
	require.NoError(t, err)
	require.Equal(t, []ids.ID{{'h'}}, p.accepted)
	require.False(t, p.behind)
	require.Len(t, p.holders[ids.ID{'h'}], 1)
}

// TestPollDoesNotWaitForUnansweredRequest: first one of 32 voters never answers, then none does.
func TestPollDoesNotWaitForUnansweredRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVoting(31, ids.ID{'h'})
		silent := v.add(1, 1, ids.ID{'h'})[0]
		v.delay = only(time.Hour, silent)
		began := time.Now()
		p, err := v.ask(t, ids.ID{'c'})
		require.NoError(t, err)
		require.Less(t, time.Since(began), 500*time.Millisecond)
		require.Equal(t, []ids.ID{{'h'}}, p.accepted)
		require.False(t, p.behind)
		require.Len(t, p.holders[ids.ID{'h'}], 31)

		v.delay = only(time.Hour, v.ConnectedNodes()...)
		began = time.Now()
		_, err = v.ask(t, ids.ID{'c'})
		require.ErrorContains(t, err, "none of 32 nodes reported")
		require.Equal(t, voteTimeout, time.Since(began))
	})
}

// TestVotesAreAwaited: five of nine voters answer late. Without their votes the block is not accepted.
func TestVotesAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVoting(4, ids.ID{'h'})
		slow := v.add(5, 1, ids.ID{'h'})
		v.delay = only(time.Second, slow...)
		p, err := v.ask(t, ids.ID{'c'})
		require.NoError(t, err)
		require.Equal(t, []ids.ID{{'h'}}, p.accepted)
		require.False(t, p.behind)
		require.Len(t, p.holders[ids.ID{'h'}], 9)
	})
}
