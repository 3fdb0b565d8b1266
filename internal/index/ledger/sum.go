package ledger

import (
	"fmt"
	"math/big"
	"math/bits"

	"quorate/internal/index/internal/row"
)

// quantity is a signed 128-bit number; the holdings of an account may exceed 64 bits.
type quantity struct {
	hi int64
	lo uint64
}

func (q quantity) plus(p quantity) quantity {
	lo, carry := bits.Add64(q.lo, p.lo, 0)
	return quantity{hi: q.hi + p.hi + int64(carry), lo: lo}
}

func (q quantity) minus() quantity {
	lo, borrow := bits.Sub64(0, q.lo, 0)
	return quantity{hi: -q.hi - int64(borrow), lo: lo}
}

func (q quantity) big() *big.Int {
	b := big.NewInt(q.hi)
	return b.Lsh(b, 64).Add(b, new(big.Int).SetUint64(q.lo))
}

// tally is an amount and a number of outputs, or a change of both.
type tally struct {
	amount quantity
	count  int64
}

func tallyOf(o *Output) tally {
	return tally{amount: quantity{lo: o.ListAmount()}, count: 1}
}

func (t tally) plus(o tally) tally {
	return tally{amount: t.amount.plus(o.amount), count: t.count + o.count}
}
func (t tally) minus() tally { return tally{amount: t.amount.minus(), count: -t.count} }

// sums are tallies by bucket.
type sums [buckets]tally

func (s *sums) add(o *sums) {
	for i := range s {
		s[i] = s[i].plus(o[i])
	}
}

// Flags of a tally in a row. Each non-zero tally begins with a byte that combines its bucket with these flags.
const (
	sumNegative = 1 << 7 // the amount is negative; its absolute value follows
	sumWide     = 1 << 6 // the amount has more than 64 bits
	sumFewer    = 1 << 5 // the count is negative; its absolute value follows
	sumBucket   = sumFewer - 1
)

func (s *sums) bytes() []byte {
	w := row.New(24)
	for b, t := range s {
		if t == (tally{}) {
			continue
		}
		flags, amount, count := byte(b), t.amount, t.count
		if amount.hi < 0 {
			flags |= sumNegative
			amount = amount.minus()
		}
		if amount.hi != 0 {
			flags |= sumWide
		}
		if count < 0 {
			flags |= sumFewer
			count = -count
		}
		w.Byte(flags)
		w.Number(amount.lo)
		if amount.hi != 0 {
			w.Number(uint64(amount.hi))
		}
		w.Number(uint64(count))
	}
	return w.B
}

// addRow adds the sums of a row.
func (s *sums) addRow(v []byte) error {
	r := row.Read(v)
	for r.Len() > 0 {
		flags := r.Byte()
		t := tally{amount: quantity{lo: r.Number()}}
		if flags&sumWide != 0 {
			t.amount.hi = int64(r.Number())
		}
		if flags&sumNegative != 0 {
			t.amount = t.amount.minus()
		}
		t.count = int64(r.Number())
		if flags&sumFewer != 0 {
			t.count = -t.count
		}
		b := flags & sumBucket
		if b >= byte(buckets) {
			r.Fail(fmt.Errorf("bucket %d", b))
			break
		}
		s[b] = s[b].plus(t)
	}
	return r.End()
}
