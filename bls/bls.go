// Package bls checks many BLS signatures of one message at once. It is a thin
// layer over blst with the scheme that Avalanche uses (public keys in G1,
// signatures in G2, proof-of-possession cipher suite); keys and signatures are
// blst's own affine points, so they pass to avalanchego's verification as they
// are. Whose keys they are and how much weight they carry is not its business.
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
	// ErrLength: a compressed signature has SignatureLen bytes.
	ErrLength = errors.New("wrong length of a signature")
	// ErrEncoding: the bytes are no compressed point of the curve.
	ErrEncoding = errors.New("no point of the curve")
	// ErrInfinity: the point at infinity signs nothing.
	ErrInfinity = errors.New("the point at infinity")
	// ErrSubgroup: the point is on the curve and outside its subgroup.
	ErrSubgroup = errors.New("not in the subgroup")
	// ErrPairs: keys and signatures come in pairs.
	ErrPairs = errors.New("numbers of keys and signatures differ")
)

// compressedFlag marks a compressed encoding, infinityFlag the point at
// infinity, in the first byte.
const (
	compressedFlag = 0x80
	infinityFlag   = 0x40
)

// ParseUnchecked reads a compressed signature that is a point of the curve and
// not infinity. Its subgroup is not checked: it must not be counted, kept or
// handed to Verify or VerifyBatch before it has passed InG2, CheckSubgroup or
// Prove, but it may go into an aggregate that is checked as a whole. Errors are
// ErrLength, ErrEncoding and ErrInfinity.
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

// ParseSignature reads a compressed signature and checks its subgroup. Errors are those
// of ParseUnchecked, and ErrSubgroup.
func ParseSignature(b []byte) (*Signature, error) {
	s, err := ParseUnchecked(b)
	if err != nil {
		return nil, err
	}
	if !s.InG2() {
		return nil, ErrSubgroup
	}
	return s, nil
}

// Aggregate adds signatures up; false if there are none.
func Aggregate(signatures []*Signature) (*Signature, bool) {
	var sum blst.P2Aggregate
	if len(signatures) == 0 || !sum.Aggregate(signatures, false) {
		return nil, false
	}
	return sum.ToAffine(), true
}

// Verifier checks signatures of one message, which it hashes to the curve only
// once. Safe for concurrent use.
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

// Verify checks one signature, which is in the subgroup. Nil and infinity are
// no signatures, and no keys.
func (v *Verifier) Verify(key *PublicKey, signature *Signature) bool {
	if key == nil || signature == nil || *key == (PublicKey{}) || *signature == (Signature{}) {
		return false
	}
	one := blst.Fp12One()
	return v.ratio(key, signature).Equals(&one)
}

// Verify is Verifier.Verify for a message that is not needed again.
func Verify(message []byte, key *PublicKey, signature *Signature) bool {
	return NewVerifier(message).Verify(key, signature)
}

// ratio is e(key, H(m)) / e(g1, signature): one if the signature is the key's,
// and of a sum of keys and signatures the product of theirs.
func (v *Verifier) ratio(key *PublicKey, signature *Signature) *blst.Fp12 {
	f := blst.Fp12MillerLoop(v.hash, key)
	f.MulAssign(blst.Fp12MillerLoop(signature, v.negated))
	f.FinalExp()
	return f
}
