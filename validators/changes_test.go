package validators

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"

	"quorate/internal/node"
)

// pastChain is a P-Chain that has the set of one subnet at each height.
type pastChain struct {
	*chain
	subnet ids.ID
	past   []map[ids.NodeID]Member
	merged bool // report nodes of one key together
	down   error

	counting sync.Mutex
	asked    []uint64 // heights; guarded by counting
}

func (c *pastChain) ValidatorsAt(_ context.Context, subnetID ids.ID, height uint64) (node.ValidatorSet, error) {
	c.counting.Lock()
	c.asked = append(c.asked, height)
	c.counting.Unlock()
	if c.down != nil {
		return node.ValidatorSet{}, c.down
	}
	if subnetID != c.subnet {
		return node.ValidatorSet{}, nil
	}
	return c.at(height), nil
}

func (c *pastChain) at(height uint64) (s node.ValidatorSet) {
	for nodeID, m := range c.past[height] {
		one := node.Validator{Key: m.Key, Weight: m.Weight, NodeIDs: []ids.NodeID{nodeID}}
		if c.merged {
			one.NodeIDs = append(one.NodeIDs, ids.NodeID{0xff})
		}
		s.Validators, s.TotalWeight = append(s.Validators, one), s.TotalWeight+m.Weight
	}
	return s
}

func (c *pastChain) AllValidatorsAt(_ context.Context, height uint64) (map[ids.ID]node.ValidatorSet, error) {
	return map[ids.ID]node.ValidatorSet{c.subnet: c.at(height)}, nil
}

// proposes makes the resolver follow a height.
func (c *pastChain) proposes(t *testing.T, r *Resolver, height uint64) {
	t.Helper()
	c.mu.Lock()
	c.height = height
	c.mu.Unlock()
	require.NoError(t, newFollower(r).follow(t.Context()))
}

func newPast(t *testing.T, history ...map[ids.NodeID]Member) *pastChain {
	t.Helper()
	c := &pastChain{chain: newChain(t), subnet: ids.GenerateTestID(), past: history}
	c.l1 = map[ids.ID]bool{c.subnet: true}
	return c
}

func newKey(t *testing.T) []byte {
	t.Helper()
	signer, err := localsigner.New()
	require.NoError(t, err)
	return bls.PublicKeyToCompressedBytes(signer.PublicKey())
}

// wantChange compares two sets, one validator at a time.
func wantChange(height uint64, before, after map[ids.NodeID]Member) *Change {
	want := &Change{Height: height, InactiveWeight: after[ids.EmptyNodeID].Weight}
	for _, m := range after {
		want.TotalWeight += m.Weight
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	delete(all, ids.EmptyNodeID)
	for _, nodeID := range slices.SortedFunc(maps.Keys(all), ids.NodeID.Compare) {
		one := NodeChange{NodeID: nodeID}
		if m, ok := before[nodeID]; ok {
			one.Before = &m
		}
		if m, ok := after[nodeID]; ok {
			one.After = &m
		}
		if one.Before == nil || one.After == nil || one.Before.Weight != one.After.Weight || string(one.Before.Key) != string(one.After.Key) {
			want.Nodes = append(want.Nodes, one)
		}
	}
	return want
}

// randomPast returns a history in which no set occurs again.
func randomPast(t *testing.T, rng *rand.Rand, heights int) (history []map[ids.NodeID]Member, want []*Change) {
	t.Helper()
	keys := make([][]byte, 12)
	for i := range keys {
		keys[i] = newKey(t)
	}
	now, weight := map[ids.NodeID]Member{{1}: {1, keys[0]}}, uint64(1)
	for height := range heights {
		before := maps.Clone(now)
		if height > 0 && rng.IntN(6) == 0 {
			for range 1 + rng.IntN(3) {
				weight++ // never used again
				switch nodeID := (ids.NodeID{byte(1 + rng.IntN(12))}); rng.IntN(5) {
				case 0:
					delete(now, nodeID)
					now[ids.EmptyNodeID] = Member{Weight: weight}
				case 1:
					now[nodeID] = Member{Weight: weight} // without a key
				default:
					now[nodeID] = Member{weight, keys[rng.IntN(len(keys))]}
				}
			}
			want = append(want, wantChange(uint64(height), before, now))
		}
		history = append(history, maps.Clone(now))
	}
	return history, want
}

// TestChangesAreThoseOfEachHeight follows random histories at random heights.
func TestChangesAreThoseOfEachHeight(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		const first = 2 // the fake chain has pruned height 1
		history, want := randomPast(t, rng, 300)
		want = slices.DeleteFunc(want, func(c *Change) bool { return c.Height <= first })
		c := newPast(t, history...)
		r := NewResolver(c, Options{})
		changes := NewChanges(r, nil)
		var got []*Change
		for at, tip := uint64(first), uint64(first); tip < uint64(len(history)-1); {
			tip = min(tip+rng.Uint64N(60)+1, uint64(len(history)-1))
			c.proposes(t, r, tip)
			for at < tip {
				found, reached, err := changes.Next(t.Context(), c.subnet, at)
				require.NoError(t, err)
				require.Greater(t, reached, at)
				if found != nil {
					require.Equal(t, found.Height, reached)
					got = append(got, found)
				}
				at = reached
			}
		}
		require.Equal(t, want, got, "seed %d", seed)
	}
}

// TestUnchangedSetsCostNothing follows a subnet without changes, and one that changes once.
func TestUnchangedSetsCostNothing(t *testing.T) {
	one := map[ids.NodeID]Member{{1}: {1, newKey(t)}}
	two := map[ids.NodeID]Member{{1}: {2, one[ids.NodeID{1}].Key}}
	history := slices.Repeat([]map[ids.NodeID]Member{one}, 1000)
	for i := 700; i < len(history); i++ {
		history[i] = two
	}
	c := newPast(t, history...)
	r := NewResolver(c, Options{})
	changes := NewChanges(r, nil)
	c.proposes(t, r, 500)
	for height := uint64(501); height < 600; height += 9 {
		c.proposes(t, r, height)
		found, reached, err := changes.Next(t.Context(), c.subnet, reachedBefore(height, 500))
		require.NoError(t, err)
		require.Nil(t, found)
		require.Equal(t, height, reached)
	}
	require.Empty(t, c.asked)
	c.proposes(t, r, 999)
	for range 50 { // as many streams
		found, _, err := changes.Next(t.Context(), c.subnet, 500)
		require.NoError(t, err)
		require.EqualValues(t, 700, found.Height)
		require.Len(t, found.Nodes, 1)
	}
	require.LessOrEqual(t, len(c.asked), 12, "a binary search of 500 heights and the two sets of the change")
}

// reachedBefore returns the height that the test followed before.
func reachedBefore(height, first uint64) uint64 {
	if height < first+9 {
		return first
	}
	return height - 9
}

// TestTouchedHeightsFindWhatWasUndone has a change that is undone between the heights that are followed. The sets of these
// do not show it; the index does.
func TestTouchedHeightsFindWhatWasUndone(t *testing.T) {
	one := map[ids.NodeID]Member{{1}: {1, newKey(t)}}
	two := map[ids.NodeID]Member{{1}: one[ids.NodeID{1}], {2}: {7, newKey(t)}}
	c := newPast(t, one, one, one, one, two, two, one, one, one)
	r := NewResolver(c, Options{})
	c.proposes(t, r, 8)
	for _, test := range []struct {
		touched Touched
		want    []uint64
	}{
		{nil, nil},
		{func(_ context.Context, _ ids.ID, after, to uint64) ([]uint64, uint64, error) {
			require.Less(t, after, to)
			// The index ends with height 7.
			return slices.DeleteFunc([]uint64{4, 6}, func(h uint64) bool { return h <= after }), max(7, after+1), nil
		}, []uint64{4, 6}},
	} {
		changes := NewChanges(r, test.touched)
		var got []uint64
		for at := uint64(2); at < 8; {
			found, reached, err := changes.Next(t.Context(), c.subnet, at)
			require.NoError(t, err)
			if found != nil {
				got = append(got, found.Height)
			}
			at = reached
		}
		require.Equal(t, test.want, got)
	}
}

func TestChangesThatCannotBeRead(t *testing.T) {
	one := map[ids.NodeID]Member{{1}: {1, newKey(t)}}
	two := map[ids.NodeID]Member{{1}: {2, one[ids.NodeID{1}].Key}}
	c := newPast(t, one, one, one, two, two)
	r := NewResolver(c, Options{MaxHeightAge: 2})
	changes := NewChanges(r, nil)
	_, _, ok := changes.Range()
	require.False(t, ok)
	c.proposes(t, r, 2)
	c.proposes(t, r, 4)
	oldest, newest, ok := changes.Range()
	require.True(t, ok)
	require.Equal(t, [2]uint64{2, 4}, [2]uint64{oldest, newest})
	require.ErrorIs(t, changes.Check(t.Context(), ids.GenerateTestID()), ErrUnknownSubnet)
	require.NoError(t, changes.Check(t.Context(), c.subnet))

	c.down = node.ErrUnavailable
	found, reached, err := changes.Next(t.Context(), c.subnet, 2)
	require.ErrorIs(t, err, node.ErrUnavailable)
	require.Nil(t, found)
	require.EqualValues(t, 2, reached)
	c.down, c.merged = nil, true
	_, _, err = changes.Next(t.Context(), c.subnet, 2)
	require.ErrorIs(t, err, ErrMerged)
	c.merged = false
	found, _, err = changes.Next(t.Context(), c.subnet, 2)
	require.NoError(t, err, "an error is not cached")
	require.EqualValues(t, 3, found.Height)
}
