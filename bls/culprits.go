package bls

import (
	"slices"

	blst "github.com/supranational/blst/bindings/go"
)

// Culprits returns positions of invalid signatures whose sum is not a valid signature of the sum
// of the keys, ascending. It is much faster than Verify if there are few: it halves the sums,
// which need no coefficients, because each culprit is verified by itself. The signatures that
// it does not return are not verified; if several are invalid and cancel each other out, it may
// return none of them. It returns nil if the sum is valid, or if a point is outside the
// subgroup; Verify decides then. Culprits panics if the lengths differ.
func (v *Verifier) Culprits(keys []*PublicKey, signatures []*Signature) []int {
	if len(keys) != len(signatures) {
		panic("bls: keys and signatures differ in number")
	}
	b := v.newBatch(keys, signatures)
	if n := len(b.keys); n > 0 {
		whole, ok := b.sum(0, n)
		if !ok || !b.halve(0, n, whole, blst.Fp12One()) {
			return nil
		}
	}
	slices.Sort(b.bad)
	return b.bad
}

// sum returns the ratio of the sums from low up to high. It returns false if the ratio means
// nothing: if the sum of the signatures is outside the subgroup, or a sum is infinity.
func (b *batch) sum(low, high int) (*blst.Fp12, bool) {
	key := blst.P1AffinesAdd(b.keys[low:high]).ToAffine()
	signature := blst.P2AffinesAdd(b.signatures[low:high]).ToAffine()
	if *key == (PublicKey{}) || *signature == (Signature{}) || !signature.InG2() {
		return nil, false
	}
	return b.verifier.ratio(key, signature), true
}

// halve is search with sums. It returns false if a sum means nothing.
func (b *batch) halve(low, high int, over *blst.Fp12, under blst.Fp12) bool {
	if over.Equals(&under) {
		return true
	}
	if high-low == 1 {
		if !b.signatures[low].InG2() || !b.verifier.verifyOne(b.keys[low], b.signatures[low]) {
			b.bad = append(b.bad, b.positions[low])
		}
		return true
	}
	middle := (low + high) / 2
	left, ok := b.sum(low, middle)
	if !ok || !b.halve(low, middle, left, blst.Fp12One()) {
		return false
	}
	under.MulAssign(left)
	return b.halve(middle, high, over, under)
}
