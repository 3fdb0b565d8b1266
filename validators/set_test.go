package validators

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

func TestMinWeight(t *testing.T) {
	for _, test := range []struct{ total, percent, want uint64 }{
		{0, 67, 0},
		{1, 0, 0},
		{1, 1, 1},
		{7, 67, 5}, // 4.69
		{100, 67, 67},
		{101, 67, 68},
		{math.MaxUint64, 100, math.MaxUint64},
		{math.MaxUint64, 50, 1 << 63},
		{math.MaxUint64, 1, 184467440737095517},
		{math.MaxUint64, 101, math.MaxUint64},
		{math.MaxUint64, math.MaxUint64, math.MaxUint64},
		{10, 110, 11},
	} {
		got := NewSet(ids.Empty, 1, validators.WarpSet{TotalWeight: test.total}).MinWeight(test.percent)
		require.Equal(t, test.want, got, "%d %% of %d", test.percent, test.total)
	}
}

func TestMinWeightIsWhatTheVerifierWants(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		total := rng.Uint64() >> rng.IntN(64)
		percent := rng.Uint64N(101)
		got := NewSet(ids.Empty, 1, validators.WarpSet{TotalWeight: total}).MinWeight(percent)
		require.NoError(t, warp.VerifyWeight(got, total, percent, 100), "%d %% of %d: got %d", percent, total, got)
		if got > 0 {
			require.Error(t, warp.VerifyWeight(got-1, total, percent, 100), "%d %% of %d: got %d, less would do", percent, total, got)
		}
	}
}

func TestFingerprint(t *testing.T) {
	_, flat := randomSet(t, rand.New(rand.NewPCG(1, 2)), 6)
	same := NewSet(ids.Empty, 1, flat)
	require.Equal(t, same.Fingerprint(), NewSet(ids.Empty, 2, flat).Fingerprint(), "the height alone changes nothing")
	heavier, shorter := flat, flat
	heavier.TotalWeight++
	shorter.Validators = flat.Validators[1:]
	for _, other := range []*Set{NewSet(ids.ID{1}, 1, flat), NewSet(ids.Empty, 1, heavier), NewSet(ids.Empty, 1, shorter)} {
		require.NotEqual(t, same.Fingerprint(), other.Fingerprint())
	}
	moved := flat
	moved.Validators = slices.Clone(flat.Validators)
	first := *flat.Validators[0]
	first.NodeIDs = []ids.NodeID{{254}}
	moved.Validators[0] = &first
	require.Equal(t, same.Fingerprint(), NewSet(ids.Empty, 1, moved).Fingerprint(), "the nodes do not sign")
	require.NotEqual(t, same.Nodes(), NewSet(ids.Empty, 1, moved).Nodes())
	require.Equal(t, same.Nodes(), NewSet(ids.Empty, 2, flat).Nodes())
	_, ok := same.Index(ids.NodeID{255})
	require.False(t, ok)
}
