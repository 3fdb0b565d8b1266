package validators

import (
	"testing"

	"github.com/stretchr/testify/require"

	blst "github.com/supranational/blst/bindings/go"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"

	"quorate/internal/node"
)

// A set with an invalid key, or with weights that do not add up, is rejected as a whole.
func TestAttackKeys(t *testing.T) {
	signer, err := localsigner.New()
	require.NoError(t, err)
	good := bls.PublicKeyToCompressedBytes(signer.PublicKey())
	infinity := make([]byte, bls.PublicKeyLen)
	infinity[0] = 0xc0
	outside := func() []byte { // a point of the curve outside the subgroup
		for i := range 1000 {
			b := make([]byte, bls.PublicKeyLen)
			b[0], b[46], b[47] = 0x80, byte(i>>8), byte(i)
			if p := new(blst.P1Affine).Uncompress(b); p != nil && !p.KeyValidate() {
				return b
			}
		}
		t.Fatal("no such point was found")
		return nil
	}()
	off := make([]byte, bls.PublicKeyLen)
	for i := range off {
		off[i] = 0x9f
	}
	one := func(key []byte, weight, total uint64) node.ValidatorSet {
		return node.ValidatorSet{TotalWeight: total, Validators: []node.Validator{{NodeIDs: []ids.NodeID{{1}}, Key: key, Weight: weight}}}
	}
	for name, raw := range map[string]node.ValidatorSet{
		"the point at infinity":        one(infinity, 1, 1),
		"a point outside the subgroup": one(outside, 1, 1),
		"x above the modulus":          one(off, 1, 1),
		"47 bytes":                     one(good[:47], 1, 1),
		"96 bytes":                     one(append(append([]byte{}, good...), good...), 1, 1),
		"more weight than in total":    one(good, 2, 1),
		"a key without a node":         {TotalWeight: 1, Validators: []node.Validator{{Key: good, Weight: 1}}},
		"weights beyond 2^64": {TotalWeight: 1<<64 - 1, Validators: []node.Validator{
			{NodeIDs: []ids.NodeID{{1}}, Key: good, Weight: 1<<64 - 1}, {NodeIDs: []ids.NodeID{{2}}, Key: good, Weight: 1},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(Resolver)
			_, err := r.canonical(ids.ID{1}, 7, raw)
			require.ErrorIs(t, err, node.ErrMalformed)
			require.Empty(t, r.latest)
		})
	}
	t.Run("one key of two nodes", func(t *testing.T) {
		r := new(Resolver)
		s, err := r.canonical(ids.ID{1}, 7, node.ValidatorSet{TotalWeight: 5, Validators: []node.Validator{
			{NodeIDs: []ids.NodeID{{2}}, Key: good, Weight: 3}, {NodeIDs: []ids.NodeID{{1}}, Key: good, Weight: 2},
		}})
		require.NoError(t, err)
		require.Len(t, s.Validators, 1)
		require.EqualValues(t, 5, s.Validators[0].Weight)
		require.Equal(t, []ids.NodeID{{1}, {2}}, s.Validators[0].NodeIDs)
	})
}
