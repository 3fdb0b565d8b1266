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
	// coefficientBits is the size of random coefficients. The error of the subgroup check
	// is larger anyway, and coefficients are drawn after the signatures are fixed, so
	// an attacker has one try.
	coefficientBits = 64

	// digits random digits below digitLimit shape the subgroup check. The limit
	// is the smallest prime factor of the cofactor: fewer values would tell fewer
	// points apart, more would cost additions and tell no more apart.
	digits     = 18
	digitLimit = 13
	digitBits  = 4 // size of a digit
	// smallBatch is the size below which a subgroup check each is cheaper.
	smallBatch = 40

	// combinedBytes holds a sum of digits products of a digit and coefficientBits.
	combinedBytes = 9
)

// Verify verifies each signature separately, subgroup included, and returns the positions
// of the invalid ones, ascending. Signatures may be unchecked points of the curve
// (ParseUnchecked). Nil and infinity are invalid, as signature and as key. Verify panics
// if the lengths differ.
//
// With a random coefficient r for each signature,
//
//	e(sum r*key, H(m)) = e(g1, sum r*signature)
//
// holds only if every summand matches. The probability that Verify accepts an invalid
// signature is below 2^-63.
func (v *Verifier) Verify(keys []*PublicKey, signatures []*Signature) (bad []int) {
	if len(keys) != len(signatures) {
		panic(fmt.Sprintf("bls: %d keys for %d signatures", len(keys), len(signatures)))
	}
	b := v.newBatch(keys, signatures)
	if len(b.signatures) >= smallBatch {
		if sums, ok := sumDigits(b.signatures); ok {
			return b.culpritsOf(sums)
		}
	}
	b.leaveOut(func(_ *PublicKey, s *Signature) bool { return !s.InG2() })
	return b.culprits(coefficientBits)
}

// digitSums are the sums S_j = sum_i c_ij*s_i of some signatures s_i with random
// digits c_ij.
type digitSums struct {
	digits []byte // c_ij at j*n+i, one per byte, which is how 4-bit scalars are laid out
	sums   []*Signature
}

// sumDigits forms sums of n > 0 points of the curve; false if a sum, and with it
// a point, is outside the subgroup.
//
// Let t_i be the part of point i that the cofactor is to blame for. Its order is
// 1 or at least 13, so if t_i is not zero, at most one of the 13 values of c_ij
// makes sum_i c_ij*t_i vanish, whatever the others are. All 18 sums hide a point
// outside the subgroup with a probability of at most 13^-18 < 2^-66.
func sumDigits(signatures []*Signature) (digitSums, bool) {
	n := len(signatures)
	d := digitSums{digits: randomDigits(digits * n), sums: make([]*Signature, digits)}
	for j := range d.sums {
		d.sums[j] = blst.P2AffinesMult(signatures, d.digits[j*n:(j+1)*n], digitBits).ToAffine()
		if !d.sums[j].InG2() {
			return digitSums{}, false
		}
	}
	return d, true
}

// randomDigits draws n numbers from 0 up to but excluding digitLimit, each
// equally likely.
func randomDigits(n int) []byte {
	const limit = 256 / digitLimit * digitLimit
	drawn := make([]byte, 0, n)
	random := make([]byte, n+n/16+16) // so that one reading nearly always does
	for {
		_, _ = rand.Read(random) // never fails (crypto/rand)
		for _, r := range random {
			if len(drawn) == n {
				return drawn
			}
			if r < limit {
				drawn = append(drawn, r%digitLimit)
			}
		}
	}
}

// combine draws a coefficient of coefficientBits for each sum and returns them with
// what they make the coefficients of the n summands: e_i = sum_j d_j*c_ij.
func (d digitSums) combine(n int) (ofSums, ofSummands []byte) {
	ofSums = make([]byte, digits*coefficientBits/8)
	_, _ = rand.Read(ofSums)
	ofSummands = make([]byte, n*combinedBytes)
	for i := range n {
		var low, high uint64 // high ends up below 18*12, so it fits a byte
		for j := range digits {
			h, l := bits.Mul64(binary.LittleEndian.Uint64(ofSums[j*8:]), uint64(d.digits[j*n+i]))
			var carry uint64
			low, carry = bits.Add64(low, l, 0)
			high += h + carry
		}
		binary.LittleEndian.PutUint64(ofSummands[i*combinedBytes:], low)
		ofSummands[i*combinedBytes+8] = byte(high)
	}
	return ofSums, ofSummands
}

// batch is a search for bad signatures.
type batch struct {
	verifier     *Verifier
	positions    []int // in the caller's slices
	keys         []*PublicKey
	signatures   []*Signature
	coefficients []byte // coefficient of each, little endian
	bits         int    // their size, a multiple of 8
	bad          []int  // positions in the caller's slices, in any order
}

// newBatch leaves out nil and infinity. Nil must not reach blst, which takes it for the point that
// follows the previous one in memory. Infinity as key and as signature would match anything.
func (v *Verifier) newBatch(keys []*PublicKey, signatures []*Signature) *batch {
	b := &batch{verifier: v, positions: make([]int, len(keys)), keys: slices.Clone(keys), signatures: slices.Clone(signatures)}
	for i := range b.positions {
		b.positions[i] = i
	}
	b.leaveOut(func(key *PublicKey, signature *Signature) bool {
		return key == nil || signature == nil || *key == (PublicKey{}) || *signature == (Signature{})
	})
	return b
}

// leaveOut counts as bad what isBad says and takes it out of the search.
func (b *batch) leaveOut(isBad func(*PublicKey, *Signature) bool) {
	kept := 0
	for i, position := range b.positions {
		if isBad(b.keys[i], b.signatures[i]) {
			b.bad = append(b.bad, position)
			continue
		}
		b.positions[kept], b.keys[kept], b.signatures[kept] = position, b.keys[i], b.signatures[i]
		kept++
	}
	b.positions, b.keys, b.signatures = b.positions[:kept], b.keys[:kept], b.signatures[:kept]
}

// culprits searches with coefficients of the given size.
func (b *batch) culprits(size int) []int {
	n := len(b.keys)
	switch n {
	case 0:
	case 1:
		if !b.verifier.verifyOne(b.keys[0], b.signatures[0]) {
			b.bad = append(b.bad, b.positions[0])
		}
	default:
		b.bits = size
		b.coefficients = make([]byte, n*size/8)
		_, _ = rand.Read(b.coefficients)
		b.search(0, n, b.ratio(0, n), blst.Fp12One())
	}
	slices.Sort(b.bad)
	return b.bad
}

// culpritsOf searches with the sums that have passed the subgroup check, which
// leaves little to do: sum_j d_j*S_j is the sum of the signatures with the
// coefficients e_i, and the keys get the same. A bad signature spoils some S_j
// but for 13^-18, and a spoilt S_j passes with 2^-64.
func (b *batch) culpritsOf(d digitSums) []int {
	n := len(b.keys)
	ofSums, ofSummands := d.combine(n)
	b.coefficients, b.bits = ofSummands, combinedBytes*8
	whole := b.verifier.ratio(
		blst.P1AffinesMult(b.keys, b.coefficients, b.bits).ToAffine(),
		blst.P2AffinesMult(d.sums, ofSums, coefficientBits).ToAffine(),
	)
	b.search(0, n, whole, blst.Fp12One())
	slices.Sort(b.bad)
	return b.bad
}

// ratio checks the signatures from low up to high together.
func (b *batch) ratio(low, high int) *blst.Fp12 {
	r := b.coefficients[low*b.bits/8 : high*b.bits/8]
	return b.verifier.ratio(
		blst.P1AffinesMult(b.keys[low:high], r, b.bits).ToAffine(),
		blst.P2AffinesMult(b.signatures[low:high], r, b.bits).ToAffine(),
	)
}

// search finds the culprits between low and high, whose ratio is over/under, by
// halving: the ratio of a range is the product of its halves', so that one check
// tells both. k culprits among n cost about k*log2(n/k) checks, and n culprits n,
// as many as one by one.
//
// The halves reuse the coefficients. These were drawn after the signatures were
// fixed and independently of each other, and the ranges depend on n alone, so
// each check is as sound as the first; a bad signature is in log2(n) of them.
func (b *batch) search(low, high int, over *blst.Fp12, under blst.Fp12) {
	if over.Equals(&under) {
		return
	}
	if high-low == 1 {
		b.bad = append(b.bad, b.positions[low])
		return
	}
	middle := (low + high) / 2
	left := b.ratio(low, middle)
	b.search(low, middle, left, blst.Fp12One())
	under.MulAssign(left)
	b.search(middle, high, over, under)
}
