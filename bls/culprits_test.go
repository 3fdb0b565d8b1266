package bls

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	blst "github.com/supranational/blst/bindings/go"
)

// Culprits and Verify name the same signatures if these do not cancel each other out.
func TestCulpritsAgreesWithVerify(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	const most = 50
	s := signAll(t, most)
	v := NewVerifier(message)
	for range 40 {
		n := 1 + rng.IntN(most)
		signatures := append([]*Signature(nil), s.signatures[:n]...)
		for i := range n {
			switch rng.IntN(2 * n / (1 + rng.IntN(4))) {
			case 0:
				signatures[i] = add(signatures[i], blst.HashToG2(fmt.Append(nil, i), nil).ToAffine(), false)
			case 1:
				signatures[i] = nil
			case 2:
				signatures[i] = new(Signature)
			}
		}
		require.Equal(t, v.Verify(s.keys[:n], signatures), v.Culprits(s.keys[:n], signatures))
	}
	require.Empty(t, v.Culprits(nil, nil))
	require.Panics(t, func() { v.Culprits(s.keys, nil) })
}

func TestCulpritsThatCancelOut(t *testing.T) {
	s := signAll(t, 8)
	x := blst.HashToG2([]byte("x"), nil).ToAffine()
	v := NewVerifier(message)
	s.signatures[1], s.signatures[6] = add(s.signatures[1], x, false), add(s.signatures[6], x, true)
	require.Empty(t, v.Culprits(s.keys, s.signatures), "the sum is valid")
	s.signatures[3] = s.signatures[2]
	require.Equal(t, []int{1, 3, 6}, v.Culprits(s.keys, s.signatures), "the halves are not")
	require.Equal(t, []int{1}, v.Culprits(s.keys[2:6], s.signatures[2:6]), "no other is named")
}

func TestCulpritsOutsideTheSubgroup(t *testing.T) {
	s := signAll(t, 8)
	off, err := ParseUnchecked(offSubgroup(rand.New(rand.NewPCG(1, 3))))
	require.NoError(t, err)
	v := NewVerifier(message)
	honest := append([]*Signature(nil), s.signatures...)
	s.signatures[1] = add(s.signatures[1], off, false)
	require.Nil(t, v.Culprits(s.keys, s.signatures))
	s.signatures[6], s.signatures[4] = add(s.signatures[6], off, true), s.signatures[3]
	require.Nil(t, v.Culprits(s.keys, s.signatures), "the sum is in the subgroup, the halves are not")
	require.Equal(t, []int{1, 4, 6}, v.Verify(s.keys, s.signatures))
	honest[5] = honest[4]
	require.Equal(t, []int{5}, v.Culprits(s.keys, honest))
	// Sums that are infinity mean nothing.
	keys := []*PublicKey{s.keys[0], new(blst.P1).Sub(s.keys[0]).ToAffine()}
	require.Nil(t, v.Culprits(keys, []*Signature{honest[0], honest[1]}))
}

func BenchmarkCulprits(b *testing.B) {
	for _, n := range []int{100, 670} {
		s := signAll(b, n)
		s.signatures[n/3] = s.signatures[0]
		v := NewVerifier(message)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if len(v.Culprits(s.keys, s.signatures)) != 1 {
					b.Fatal("not found")
				}
			}
		})
		b.Run(fmt.Sprint(n, " verified"), func(b *testing.B) {
			for b.Loop() {
				if len(v.Verify(s.keys, s.signatures)) != 1 {
					b.Fatal("not found")
				}
			}
		})
	}
}
