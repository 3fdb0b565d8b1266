package bls

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	blst "github.com/supranational/blst/bindings/go"

	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
)

var message = []byte("one message")

type signed struct {
	keys       []*PublicKey
	signatures []*Signature
	signers    []*localsigner.LocalSigner
}

func signAll(t testing.TB, n int) signed {
	var s signed
	for range n {
		signer, err := localsigner.New()
		require.NoError(t, err)
		signature, err := signer.Sign(message)
		require.NoError(t, err)
		s.signers = append(s.signers, signer)
		s.keys = append(s.keys, signer.PublicKey())
		s.signatures = append(s.signatures, signature)
	}
	return s
}

// offSubgroup is a point of the curve outside the subgroup.
func offSubgroup(rng *rand.Rand) []byte {
	for {
		b := make([]byte, SignatureLen)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		b[0] = compressedFlag | b[0]&0x0f
		b[48] &= 0x0f
		if p := new(blst.P2Affine).Uncompress(b); p != nil && !p.InG2() {
			return b
		}
	}
}

func add(a, b *Signature, minus bool) *Signature {
	var p, q blst.P2
	p.FromAffine(a)
	q.FromAffine(b)
	if minus {
		return p.Sub(&q).ToAffine()
	}
	return p.Add(&q).ToAffine()
}

func TestParseRefuses(t *testing.T) {
	valid := signAll(t, 1).signatures[0].Compress()
	infinity := make([]byte, SignatureLen)
	infinity[0] = compressedFlag | infinityFlag
	uncompressed := signAll(t, 1).signatures[0].Serialize()
	flagless := slices.Clone(valid)
	flagless[0] &^= compressedFlag
	for name, test := range map[string]struct {
		bytes []byte
		err   error
	}{
		"nothing":                    {nil, ErrLength},
		"1 byte":                     {valid[:1], ErrLength},
		"95 bytes":                   {valid[:95], ErrLength},
		"97 bytes":                   {append(slices.Clone(valid), 0), ErrLength},
		"uncompressed":               {uncompressed, ErrLength},
		"half an uncompressed point": {uncompressed[:96], ErrEncoding},
		"without the flag":           {flagless, ErrEncoding},
		"infinity":                   {infinity, ErrInfinity},
		"infinity with a tail":       {append(slices.Clone(infinity[:95]), 1), ErrInfinity},
		"off the curve":              {bytes.Repeat([]byte{0x85}, 96), ErrEncoding},
		"x above the modulus":        {bytes.Repeat([]byte{0x9f}, 96), ErrEncoding},
		"zeros":                      {make([]byte, 96), ErrEncoding},
	} {
		_, err := ParseUnchecked(test.bytes)
		require.ErrorIs(t, err, test.err, name)
	}
	_, err := ParseUnchecked(valid)
	require.NoError(t, err)
}

func TestVerifyAgreesWithTheLibrary(t *testing.T) {
	s := signAll(t, 2)
	v := NewVerifier(message)
	for i := range 2 {
		for j := range 2 {
			require.Equal(t, bls.Verify(s.keys[i], s.signatures[j], message), v.verifyOne(s.keys[i], s.signatures[j]))
		}
	}
	require.False(t, NewVerifier([]byte("another")).verifyOne(s.keys[0], s.signatures[0]))
}

// Verify names exactly the wrong signatures, whatever is wrong with them.
func TestVerifyNamesExactlyTheCulprits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const most = 64
	whole := signAll(t, most)
	for _, n := range []int{0, 1, 2, 3, 7, 20, most} {
		for _, k := range []int{0, 1, 2, n / 3, n / 2, n} {
			if k > n {
				continue
			}
			signatures := slices.Clone(whole.signatures[:n])
			var want []int
			for _, i := range rng.Perm(n)[:k] {
				want = append(want, i)
				switch rng.IntN(4) {
				case 0: // another message
					s, err := whole.signers[i].Sign([]byte("another"))
					require.NoError(t, err)
					signatures[i] = s
				case 1: // another's signature
					signatures[i] = whole.signatures[(i+1)%most]
				case 2: // off the subgroup
					s, err := ParseUnchecked(offSubgroup(rng))
					require.NoError(t, err)
					signatures[i] = s
				case 3: // the valid one, shifted by a point of the curve outside the subgroup
					s, err := ParseUnchecked(offSubgroup(rng))
					require.NoError(t, err)
					signatures[i] = add(signatures[i], s, false)
				}
			}
			slices.Sort(want)
			require.Equal(t, want, NewVerifier(message).Verify(whole.keys[:n], signatures), "n=%d k=%d", n, k)
		}
	}
}

func TestCancellingSharesAreBothNamed(t *testing.T) {
	s := signAll(t, 5)
	x := signAll(t, 1).signatures[0]
	s.signatures[1] = add(s.signatures[1], x, false)
	s.signatures[3] = add(s.signatures[3], x, true)
	require.Equal(t, []int{1, 3}, NewVerifier(message).Verify(s.keys, s.signatures))
	sum, ok := Aggregate(s.signatures)
	require.True(t, ok)
	key, err := bls.AggregatePublicKeys(s.keys)
	require.NoError(t, err)
	require.True(t, bls.Verify(key, sum, message), "their sum is valid, which is the point")
}

func TestRepeatedAndNegatedKeys(t *testing.T) {
	s := signAll(t, 1)
	var p blst.P1
	negated := new(blst.P1).Sub(fromAffine(&p, s.keys[0])).ToAffine()
	var q blst.P2
	q.FromAffine(s.signatures[0])
	signature := new(blst.P2).Sub(&q).ToAffine()
	keys := []*PublicKey{s.keys[0], negated, s.keys[0]}
	require.Empty(t, NewVerifier(message).Verify(keys, []*Signature{s.signatures[0], signature, s.signatures[0]}))
	require.Equal(t, []int{0, 1}, NewVerifier(message).Verify(keys, []*Signature{signature, s.signatures[0], s.signatures[0]}))
}

func fromAffine(p *blst.P1, a *blst.P1Affine) *blst.P1 {
	p.FromAffine(a)
	return p
}

// Inputs that blst would read past the slice for, and inputs that would match anything.
func TestNilAndInfinityAreBad(t *testing.T) {
	for _, n := range []int{1, 3, smallBatch + 5} {
		s := signAll(t, n+4)
		keys, signatures := s.keys, s.signatures
		keys[n] = nil
		signatures[n+1] = nil
		keys[n+2], signatures[n+2] = new(PublicKey), new(Signature) // infinity signs everything with infinity
		signatures[n+3] = new(Signature)
		want := []int{n, n + 1, n + 2, n + 3}
		require.Equal(t, want, NewVerifier(message).Verify(keys, signatures), n)
		for _, i := range want {
			require.False(t, NewVerifier(message).verifyOne(keys[i], signatures[i]))
		}
	}
	require.Panics(t, func() { NewVerifier(message).Verify(nil, make([]*Signature, 1)) })
}

// A valid signature plus a point outside the subgroup is named, in batches of all sizes.
func TestVerifyNamesPointsOutsideTheSubgroup(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 7, smallBatch, 150} {
		s := signAll(t, n)
		require.Empty(t, NewVerifier(message).Verify(s.keys, s.signatures))
		outside, err := ParseUnchecked(offSubgroup(rng))
		require.NoError(t, err)
		s.signatures[n/2] = add(s.signatures[n/2], outside, false)
		require.Equal(t, []int{n / 2}, NewVerifier(message).Verify(s.keys, s.signatures))
	}
}

func TestAggregateOfNothing(t *testing.T) {
	_, ok := Aggregate(nil)
	require.False(t, ok)
}

// The package accepts what the library accepts, except for infinity.
func FuzzParse(f *testing.F) {
	f.Add(signAll(f, 1).signatures[0].Compress())
	f.Add(offSubgroup(rand.New(rand.NewPCG(1, 2))))
	f.Add(make([]byte, 96))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, err := ParseUnchecked(b)
		if err == nil && !ours.InG2() {
			err = errors.New("outside the subgroup")
		}
		theirs, theirErr := bls.SignatureFromBytes(b)
		if theirErr == nil && b[0]&infinityFlag != 0 {
			theirErr = ErrInfinity
		}
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("got %v, the library says %v", err, theirErr)
		}
		if err == nil && !ours.Equals(theirs) {
			t.Fatal("got another point than the library")
		}
	})
}

// BenchmarkVerify verifies n signatures of one message from bytes to verdict: as one batch, and one by one with
// avalanchego's functions. Both check encoding, curve and subgroup, and decide about each signature.
func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{1, 8, 32, 128, 300, 670, 1000} {
		s := signAll(b, n)
		compressed := make([][]byte, n)
		for i, signature := range s.signatures {
			compressed[i] = bls.SignatureToBytes(signature)
		}
		b.Run(fmt.Sprint(n, "/batch"), func(b *testing.B) {
			for b.Loop() {
				parsed := make([]*Signature, n)
				for i := range compressed {
					var err error
					parsed[i], err = ParseUnchecked(compressed[i])
					require.NoError(b, err)
				}
				require.Empty(b, NewVerifier(message).Verify(s.keys, parsed))
			}
		})
		b.Run(fmt.Sprint(n, "/one by one"), func(b *testing.B) {
			for b.Loop() {
				for i := range compressed {
					signature, err := bls.SignatureFromBytes(compressed[i])
					require.NoError(b, err)
					require.True(b, bls.Verify(s.keys[i], signature, message))
				}
			}
		})
	}
}

// Whatever the points, Verify says of each what verifying it alone says. The input has up to 64 pairs
// of a key's number and a signature.
func FuzzVerify(f *testing.F) {
	var s signed
	for i := range 8 {
		secret := make([]byte, 32)
		secret[31] = byte(i + 1)
		signer, err := localsigner.FromBytes(secret)
		require.NoError(f, err)
		signature, err := signer.Sign(message)
		require.NoError(f, err)
		s.keys = append(s.keys, signer.PublicKey())
		s.signatures = append(s.signatures, signature)
	}
	pairs := func(count int, signature func(i int) []byte) []byte {
		var b []byte
		for i := range count {
			b = append(append(b, byte(i%8)), signature(i)...)
		}
		return b
	}
	good := func(i int) []byte { return s.signatures[i%8].Compress() }
	outside := offSubgroup(rand.New(rand.NewPCG(1, 2)))
	f.Add(pairs(1, good))
	f.Add(pairs(5, good))
	f.Add(pairs(3, func(i int) []byte { return good(i + 1) }))
	f.Add(pairs(smallBatch+1, good))
	f.Add(pairs(smallBatch+1, func(i int) []byte {
		if i == 20 {
			return outside
		}
		return good(i)
	}))
	f.Add(pairs(2, func(i int) []byte { return add(s.signatures[i], s.signatures[5], i == 1).Compress() }))
	f.Fuzz(func(t *testing.T, b []byte) {
		var keys []*PublicKey
		var signatures []*Signature
		var want []int
		for len(b) > SignatureLen && len(keys) < 64 {
			signature, err := ParseUnchecked(b[1 : 1+SignatureLen])
			key := s.keys[b[0]%8]
			b = b[1+SignatureLen:]
			if err != nil {
				continue
			}
			if !signature.InG2() || !bls.Verify(key, signature, message) {
				want = append(want, len(keys))
			}
			keys, signatures = append(keys, key), append(signatures, signature)
		}
		if got := NewVerifier(message).Verify(keys, signatures); !slices.Equal(got, want) {
			t.Fatalf("got %v for bad, one by one it is %v", got, want)
		}
	})
}
