// Package bls verifies many BLS signatures of one message at once. It is a thin layer
// over blst with the scheme that Avalanche uses: public keys in G1, signatures in G2, and
// the proof-of-possession cipher suite. Keys and signatures are blst's affine points,
// which avalanchego's verification takes as they are. The package knows no validators
// and no weights.
package bls

import (
	"errors"
	"fmt"

	blst "github.com/supranational/blst/bindings/go"

	"github.com/ava-labs/avalanchego/utils/crypto/bls"
)

// SignatureLen is the length in bytes of a compressed signature.
const SignatureLen = blst.BLST_P2_COMPRESS_BYTES

type (
	// PublicKey is a point of G1 that has passed its subgroup check.
	PublicKey = blst.P1Affine
	// Signature is a point of G2.
	Signature = blst.P2Affine
)

var (
	// ErrLength says that a compressed signature does not have SignatureLen bytes.
	ErrLength = errors.New("wrong length of a signature")
	// ErrEncoding says that the bytes are no compressed point of the curve.
	ErrEncoding = errors.New("no point of the curve")
	// ErrInfinity says that the signature is the point at infinity.
	ErrInfinity = errors.New("the point at infinity")
)

// compressedFlag marks a compressed encoding, infinityFlag the point at
// infinity, in the first byte.
const (
	compressedFlag = 0x80
	infinityFlag   = 0x40
)

// ParseUnchecked reads a compressed signature that is a point of the curve and not
// infinity. It does not check the subgroup: do not count or keep the signature before
// Verify has accepted it. It may go into an aggregate that is verified as a whole.
// Errors are ErrLength, ErrEncoding and ErrInfinity.
func ParseUnchecked(b []byte) (*Signature, error) {
	if len(b) != SignatureLen {
		return nil, fmt.Errorf("%w: %d bytes, not %d", ErrLength, len(b), SignatureLen)
	}
	if b[0]&compressedFlag == 0 {
		return nil, fmt.Errorf("%w: not in compressed form", ErrEncoding)
	}
	if b[0]&infinityFlag != 0 {
		return nil, ErrInfinity
	}
	s := new(Signature).Uncompress(b)
	if s == nil {
		return nil, ErrEncoding
	}
	return s, nil
}

// Aggregate returns the sum of signatures, and false if there are none.
func Aggregate(signatures []*Signature) (*Signature, bool) {
	var sum blst.P2Aggregate
	if len(signatures) == 0 || !sum.Aggregate(signatures, false) {
		return nil, false
	}
	return sum.ToAffine(), true
}

// Verifier verifies signatures of one message, which it hashes to the curve only once.
// It is safe for concurrent use.
type Verifier struct {
	hash    *blst.P2Affine
	negated *blst.P1Affine // generator of G1, times -1
}

// NewVerifier makes a Verifier for message.
func NewVerifier(message []byte) *Verifier {
	return &Verifier{
		hash:    blst.HashToG2(message, bls.CiphersuiteSignature.Bytes()).ToAffine(),
		negated: new(blst.P1).Sub(blst.P1Generator()).ToAffine(),
	}
}

// verifyOne checks one signature, which must be in the subgroup. Nil and infinity are
// no signatures, and no keys.
func (v *Verifier) verifyOne(key *PublicKey, signature *Signature) bool {
	if key == nil || signature == nil || *key == (PublicKey{}) || *signature == (Signature{}) {
		return false
	}
	one := blst.Fp12One()
	return v.ratio(key, signature).Equals(&one)
}

// ratio is e(key, H(m)) / e(g1, signature): one if the signature is the key's,
// and of a sum of keys and signatures the product of theirs.
func (v *Verifier) ratio(key *PublicKey, signature *Signature) *blst.Fp12 {
	f := blst.Fp12MillerLoop(v.hash, key)
	f.MulAssign(blst.Fp12MillerLoop(signature, v.negated))
	f.FinalExp()
	return f
}
