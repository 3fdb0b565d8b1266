package evm

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"quorate/internal/store"
)

// Optional names an index that a Projection writes only if it is turned on.
//
// An optional index covers the blocks since it was turned on. If it was off in between, it starts over. After a rebuild
// it covers all blocks.
type Optional string

// The optional indexes.
const (
	// AddressTransactions lists the transactions, and the ERC-20 and ERC-721 transfers, of each address, and all transfers
	// of each contract. A transaction has a row for its sender and one for its recipient, and a transfer one for each side
	// and one for its contract. With the traffic of bench/evm that is 3.3 rows and 220 bytes a transaction before
	// compression.
	AddressTransactions Optional = "address_transactions"
	// TokenBalances adds up the ERC-20 transfers of each wallet, and lists its ERC-721 tokens. A transfer changes two sums,
	// each of which has a row, and a row for each block that changed it. With the traffic of bench/evm that is 0.6 rows and
	// 43 bytes a transaction before compression.
	TokenBalances Optional = "token_balances"
	// ChainMetrics sums up the blocks of hours, days, weeks and months, and counts the addresses in them and in windows of
	// any length that end with the last block. A block changes four rows. An address has a row. The row changes when the
	// address is first active, or first sends, in an hour; the counts of the hours, days and months that it moves between
	// change as well. With the traffic of bench/evm that is 0.24 rows and 13 bytes a transaction before compression.
	ChainMetrics Optional = "chain_metrics"
)

// Optionals returns all optional indexes.
func Optionals() []Optional { return []Optional{AddressTransactions, TokenBalances, ChainMetrics} }

// OffError means that an optional index is off.
type OffError struct{ Index Optional }

func (e *OffError) Error() string { return fmt.Sprintf("index %s is off", e.Index) }

// BeginsLaterError wraps ErrBeforeFirst for a block that is indexed, but that an optional index does not cover.
type BeginsLaterError struct {
	Index Optional
	// First is the first block that the index covers.
	First uint64
}

func (e *BeginsLaterError) Error() string {
	return fmt.Sprintf("%s: the index %s begins with block %d", ErrBeforeFirst, e.Index, e.First)
}

// Unwrap returns ErrBeforeFirst.
func (e *BeginsLaterError) Unwrap() error { return ErrBeforeFirst }

// family returns the family that has the row of the covered blocks.
func (o Optional) family() store.Family {
	switch o {
	case TokenBalances:
		return store.FamilyEVMTokenBalance
	case ChainMetrics:
		return store.FamilyEVMPeriod
	default:
		return store.FamilyEVMAddressTx
	}
}

// form returns the version of the index's rows. An index of another version starts over.
func (o Optional) form() uint64 {
	switch o {
	case AddressTransactions:
		return 2 // has FamilyEVMContractTransfer
	case ChainMetrics:
		return 2 // has FamilyEVMLastActive
	default:
		return 1
	}
}

// coverage returns the row that says which blocks an index covers. Its last number is the form, unless that is 1.
func (o Optional) coverage(first, last uint64) []byte {
	v := binary.AppendUvarint(binary.AppendUvarint([]byte{version}, first), last)
	if form := o.form(); form > 1 {
		v = binary.AppendUvarint(v, form)
	}
	return v
}

// optional is an optional index of a Projection.
type optional struct {
	index Optional
	on    bool
	// begun reports that first is known, or that the index is off and its row is deleted.
	begun bool
	first uint64
}

func (t *Projection) optionals() []*optional {
	return []*optional{&t.addressTxs, &t.tokenBalances, &t.chainMetrics}
}

// With turns on optional indexes of a new projection.
func (t *Projection) With(optionals ...Optional) *Projection {
	for _, o := range t.optionals() {
		o.on = o.on || slices.Contains(optionals, o.index)
	}
	return t
}

// beginOptional writes which blocks an optional index covers. An index that is off, or lacks the preceding block, starts
// over when it is on.
func (t *Projection) beginOptional(ctx context.Context, r store.Reader, batch *store.Batch, o *optional) error {
	number := t.head.tip.Number
	if !o.on {
		if !o.begun {
			batch.Delete(o.index.family(), t.chain.headRow())
		}
		o.begun = true
		return nil
	}
	if !o.begun {
		o.first = number
		if number != t.head.first {
			first, last, ok, err := readOptional(ctx, r, &t.chain, o.index)
			if err != nil {
				return err
			}
			if ok && last+1 == number {
				o.first = first
			}
		}
		o.begun = true
	}
	batch.Put(o.index.family(), t.chain.headRow(), o.index.coverage(o.first, number))
	return nil
}

// readOptional returns the first and the last block that an optional index covers. ok is false if there are none, or if
// another version wrote the index.
func readOptional(ctx context.Context, r store.Reader, chain *chainKey, index Optional) (first, last uint64, ok bool, err error) {
	values, err := r.Get(ctx, index.family(), []store.PK{chain.headRow()})
	if err != nil {
		return 0, 0, false, fmt.Errorf("reading which blocks the index %s covers: %w", index, err)
	}
	if values[0] == nil {
		return 0, 0, false, nil
	}
	v := read(values[0])
	first, last = v.Number(), v.Number()
	form := uint64(1)
	if v.Len() > 0 {
		form = v.Number()
	}
	return first, last, form == index.form(), v.End()
}

// viewOf returns a view and the first block that an optional index covers. It returns an OffError unless that index
// covers the last block.
func (r *Index) viewOf(ctx context.Context, index Optional) (s *state, first uint64, err error) {
	if s, err = r.view(ctx); err != nil {
		return nil, 0, err
	}
	if first, err = s.firstOf(ctx, index); err != nil {
		s.close()
		return nil, 0, err
	}
	return s, first, nil
}

// firstOf returns the first block that an optional index covers. It returns an OffError unless that index covers the last
// block.
func (s *state) firstOf(ctx context.Context, index Optional) (uint64, error) {
	first, last, ok, err := readOptional(ctx, s, &s.chain, index)
	if err == nil && (!ok || last != s.head.tip.Number) {
		err = &OffError{index}
	}
	return first, err
}
