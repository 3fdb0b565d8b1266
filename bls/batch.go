package bls

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	blst "github.com/supranational/blst/bindings/go"
)

const (
	// coefficientBits is the size of random coefficients: a batch with a bad
	// signature passes with a probability of 2^-64, and nobody can try twice,
	// as the coefficients are drawn after the signatures are fixed.
	coefficientBits = 64
	// digits and digitBits shape the coefficients of the subgroup check.
	digits    = 22
	digitBits = 4
	// smallProof is the size below which each subgroup check by itself is cheaper.
	smallProof = 16
)

// Prove checks every signature on its own account, subgroup included, and
// returns the positions of the bad ones, ascending. Signatures may be unchecked
// points of the curve (ParseUnchecked). It panics if the lengths differ.
func (v *Verifier) Prove(keys []*PublicKey, signatures []*Signature) (bad []int) {
	mustMatch(keys, signatures)
	if len(signatures) >= smallProof && v.holdAll(keys, signatures) {
		return nil
	}
	positions := make([]int, 0, len(signatures))
	goodKeys := make([]*PublicKey, 0, len(signatures))
	good := make([]*Signature, 0, len(signatures))
	for i, s := range signatures {
		if !s.SigValidate(true) { // subgroup, and not infinity
			bad = append(bad, i)
			continue
		}
		positions = append(positions, i)
		goodKeys = append(goodKeys, keys[i])
		good = append(good, s)
	}
	for _, i := range v.VerifyBatch(goodKeys, good) {
		bad = append(bad, positions[i])
	}
	slices.Sort(bad)
	return bad
}

// holdAll checks signatures and their subgroups in one go.
//
// With random digits c_ij of 4 bits it forms the sums S_j = sum_i c_ij*s_i, j up
// to 22, and checks the subgroup of each. The smallest factor of the cofactor is
// 13, and a random digit has a given residue modulo 13 with a probability of at
// most 1/8, so a point outside the subgroup passes all with at most 2^-66.
//
// The sums then serve as the batch check's own: with random d_j of 64 bits,
// sum_j d_j*S_j is the sum of the signatures with the coefficients
// e_i = sum_j d_j*c_ij, which the keys get too. A bad signature leaves some S_j
// wrong but for (1/16)^22, and a wrong S_j passes with 2^-64.
func (v *Verifier) holdAll(keys []*PublicKey, signatures []*Signature) bool {
	n := len(signatures)
	c := make([]byte, digits*n) // one digit per byte, which is how 4-bit scalars are laid out
	d := make([]byte, digits*coefficientBits/8)
	_, _ = rand.Read(c) // never fails (crypto/rand)
	_, _ = rand.Read(d)
	for i := range c {
		c[i] &= 1<<digitBits - 1
	}
	sums := make([]*Signature, digits)
	for j := range sums {
		s := blst.P2AffinesMult(signatures, c[j*n:(j+1)*n], digitBits).ToAffine()
		if !s.InG2() {
			return false
		}
		sums[j] = s
	}
	// e_i < 22 * 15 * 2^64 takes at most 73 bits.
	const keyBytes = 10
	e := make([]byte, keyBytes*n)
	for i := range n {
		var low, high uint64
		for j := range digits {
			digit := uint64(c[j*n+i])
			coefficient := binary.LittleEndian.Uint64(d[j*8:])
			h, l := bits.Mul64(coefficient, digit)
			sum := low + l
			if sum < low {
				high++
			}
			low, high = sum, high+h
		}
		binary.LittleEndian.PutUint64(e[i*keyBytes:], low)
		binary.LittleEndian.PutUint16(e[i*keyBytes+8:], uint16(high))
	}
	return v.Verify(
		blst.P1AffinesMult(keys, e, keyBytes*8).ToAffine(),
		blst.P2AffinesMult(sums, d, coefficientBits).ToAffine(),
	)
}

// VerifyBatch checks that every signature is its key's signature of the message
// and returns the positions of those that are not, ascending. It vouches for
// each single one, not just for their sum: with a random coefficient r for each,
//
//	e(sum r*key, H(m)) = e(g1, sum r*signature)
//
// holds only if every summand matches, but for a probability of 2^-64. All
// signatures must be in the subgroup: the curve's cofactor has small prime
// factors, so a point of small order could vanish under a random coefficient.
//
// If the check fails, the culprits are found by halving. The halves reuse the
// coefficients: they were drawn after the signatures were fixed, so each subset
// is a sound check of its own. It panics if the lengths differ.
func (v *Verifier) VerifyBatch(keys []*PublicKey, signatures []*Signature) (bad []int) {
	mustMatch(keys, signatures)
	if len(keys) == 0 {
		return nil
	}
	b := &batch{
		verifier:     v,
		keys:         keys,
		signatures:   signatures,
		coefficients: make([]byte, len(keys)*coefficientBits/8),
		// Beyond this many checks halving costs more than one by one.
		budget: len(keys)/2 + 1,
	}
	_, _ = rand.Read(b.coefficients)
	if !b.holds(0, len(keys)) {
		b.search(0, len(keys))
	}
	return b.bad
}

func mustMatch(keys []*PublicKey, signatures []*Signature) {
	if len(keys) != len(signatures) {
		panic(fmt.Sprintf("bls: %d keys for %d signatures", len(keys), len(signatures)))
	}
}

type batch struct {
	verifier     *Verifier
	keys         []*PublicKey
	signatures   []*Signature
	coefficients []byte
	budget       int // checks that may still be spent on halving
	bad          []int
}

// holds checks the signatures from low up to high together.
func (b *batch) holds(low, high int) bool {
	b.budget--
	if high-low == 1 {
		return b.verifier.Verify(b.keys[low], b.signatures[low])
	}
	r := b.coefficients[low*coefficientBits/8 : high*coefficientBits/8]
	return b.verifier.Verify(
		blst.P1AffinesMult(b.keys[low:high], r, coefficientBits).ToAffine(),
		blst.P2AffinesMult(b.signatures[low:high], r, coefficientBits).ToAffine(),
	)
}

// search finds the culprits of a range that is known to hold at least one.
func (b *batch) search(low, high int) {
	if high-low == 1 {
		b.bad = append(b.bad, low)
		return
	}
	if b.budget <= 0 || high-low == 2 {
		for i := low; i < high; i++ {
			if !b.verifier.Verify(b.keys[i], b.signatures[i]) {
				b.bad = append(b.bad, i)
			}
		}
		return
	}
	middle := (low + high) / 2
	if b.holds(low, middle) {
		b.search(middle, high) // so the culprit is here
		return
	}
	b.search(low, middle)
	if !b.holds(middle, high) {
		b.search(middle, high)
	}
}
