package evm

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// concerning merges the lists of an address: of its transactions, its transfers and its internal transactions. It returns
// up to limit rows as partyRows does. more is set if there may be others after them.
func (s *state) concerning(ctx context.Context, who common.Address, k keyRange, limit int) (rows []store.Row, more bool, err error) {
	erc1155, complete, err := s.erc1155Txs(ctx, who, k, limit)
	if err != nil {
		return nil, false, err
	}
	if !complete {
		k.endWith(erc1155[len(erc1155)-1].K) // erc1155 lacks the transactions after it
	}
	if rows, err = s.partyRows(ctx, who, &k, limit); err != nil {
		return nil, false, err
	}
	hashes := make(map[string]common.Hash) // of the transactions with internal transactions, by place
	for _, read := range []func() ([]store.Row, error){
		func() ([]store.Row, error) { return s.tokenTxs(ctx, who, evm.ERC20, k, limit) },
		func() ([]store.Row, error) { return s.tokenTxs(ctx, who, evm.ERC721, k, limit) },
		func() ([]store.Row, error) { return erc1155, nil },
		func() ([]store.Row, error) { return s.internalTxs(ctx, who, k, limit, hashes) },
	} {
		others, err := read()
		if err != nil {
			return nil, false, err
		}
		rows = union(rows, others, k.dir, limit)
	}
	return rows, !complete || len(rows) == limit, s.readOutcomes(ctx, rows, hashes)
}

// union merges rows of both lists, which have the same order. Of two rows with the same key it has that of a.
func union(a, b []store.Row, dir store.Direction, limit int) []store.Row {
	if len(b) == 0 {
		return a
	}
	rows := make([]store.Row, 0, min(limit, len(a)+len(b)))
	for len(rows) < limit && len(a)+len(b) > 0 {
		order := -1
		switch {
		case len(a) == 0:
			order = 1
		case len(b) > 0:
			order = bytes.Compare(a[0].K, b[0].K)
			if dir == store.Descending {
				order = -order
			}
		}
		if order <= 0 {
			rows, a = append(rows, a[0]), a[1:]
		} else {
			rows = append(rows, b[0])
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return rows
}

// succeeded is the value of rows of transactions that succeeded, as all with logs did.
var succeeded = appendOutcome([]byte{version}, true)

func (s *state) tokenTxs(ctx context.Context, who common.Address, standard evm.Standard, k keyRange, limit int) ([]store.Row, error) {
	rows, err := s.transactionsIn(ctx, store.FamilyEVMTokenTransfer, s.chain.partition(who[:], []byte{transfersKind(standard)}), k, limit)
	for i := range rows {
		rows[i].V = succeeded
	}
	return rows, err
}

// internalTxs returns rows without values, and adds the hashes of the transactions by key.
func (s *state) internalTxs(ctx context.Context, who common.Address, k keyRange, limit int, hashes map[string]common.Hash) ([]store.Row, error) {
	rows, err := s.transactionsIn(ctx, store.FamilyEVMInternal, s.chain.partition(who[:]), k, limit)
	if err != nil {
		return nil, err
	}
	internals, err := inPlaces(rows, "internal transaction", (*reader).internal)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		hashes[string(rows[i].K)], rows[i].V = internals[i].TxHash, nil
	}
	return rows, nil
}

// transactionsIn returns the first row of each transaction in a list whose keys are places in transactions. The keys of
// the rows are those of the transactions.
func (s *state) transactionsIn(ctx context.Context, family store.Family, p []byte, k keyRange, limit int) (rows []store.Row, err error) {
	if len(k.lo) > txPlaceSize && !k.skipPrefix(k.lo[:txPlaceSize]) {
		return nil, nil
	}
	for chunk := limit; ; chunk = min(2*chunk, max(chunk, scanRows)) {
		some, err := s.Scan(ctx, family, p, k.lo, k.hi, k.dir, chunk)
		if err != nil {
			return nil, fmt.Errorf("reading the transactions of an address: %w", err)
		}
		for _, row := range some {
			if len(row.K) != placeSize {
				return nil, fmt.Errorf("%w: place %x", store.ErrCorrupt, row.K)
			}
			if n := len(rows); n > 0 && bytes.HasPrefix(row.K, rows[n-1].K) {
				continue
			}
			if len(rows) == limit {
				return rows, nil
			}
			rows = append(rows, store.Row{K: row.K[:txPlaceSize:txPlaceSize], V: row.V})
		}
		if len(some) < chunk || len(rows) == limit || !k.skipPrefix(rows[len(rows)-1].K) {
			return rows, nil
		}
	}
}

// skipPrefix removes the rows up to the last one whose key has a prefix, and reports whether any may be left.
func (k *keyRange) skipPrefix(prefix []byte) bool {
	if k.dir == store.Descending {
		return k.skip(prefix)
	}
	k.lo = successor(prefix)
	return k.lo != nil && (k.hi == nil || bytes.Compare(k.lo, k.hi) < 0)
}

// endWith removes the rows after the last one whose key has a prefix. The range must have keys with it.
func (k *keyRange) endWith(prefix []byte) {
	if k.dir == store.Descending {
		k.lo = prefix
	} else if end := successor(prefix); end != nil {
		k.hi = end
	}
}

// successor returns the first key after all keys with a prefix, or nil if there is none.
func successor(prefix []byte) []byte {
	next := bytes.Clone(prefix)
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next
		}
	}
	return nil
}

// erc1155Txs reads whole blocks, because the keys of ERC-1155 transfers do not say which transaction they belong to.
// Keys begin with the position of the log, so erc1155Txs skips the rest of a log at the end of a chunk. After maxEffects
// rows it returns the transactions so far, at least one, and complete is false.
func (s *state) erc1155Txs(ctx context.Context, who common.Address, within keyRange, limit int) (rows []store.Row, complete bool, err error) {
	k := within
	k.lo = k.lo[:min(len(k.lo), 8)]
	if len(k.hi) > 8 {
		k.hi = successor(k.hi[:8])
	}
	scanned := 0
	for chunk := limit; ; chunk = min(2*chunk, max(chunk, scanRows)) {
		some, err := s.Scan(ctx, store.FamilyEVMTransfer, s.chain.partition(who[:]), k.lo, k.hi, k.dir, chunk)
		if err != nil {
			return nil, false, fmt.Errorf("reading the transactions of an address: %w", err)
		}
		transfers, err := inPlaces(some, "transfer", (*reader).tokenTransfer)
		if err != nil {
			return nil, false, err
		}
		transfers = slices.CompactFunc(transfers, func(a, b TokenTransfer) bool { return a.TxHash == b.TxHash })
		places, err := s.placesOf(ctx, len(transfers), func(i int) common.Hash { return transfers[i].TxHash })
		if err != nil {
			return nil, false, err
		}
		for _, at := range places {
			key := at.appendTx(nil)
			if !within.has(key) || len(rows) > 0 && bytes.Equal(key, rows[len(rows)-1].K) {
				continue
			}
			if rows = append(rows, store.Row{K: key, V: succeeded}); len(rows) == limit {
				return rows, true, nil
			}
		}
		if len(some) < chunk || !k.skipPrefix(some[len(some)-1].K[:txPlaceSize]) {
			return rows, true, nil
		}
		if scanned += len(some); scanned > maxEffects && len(rows) > 0 {
			return rows, false, nil
		}
	}
}

func (k *keyRange) has(key []byte) bool {
	return bytes.Compare(key, k.lo) >= 0 && (k.hi == nil || bytes.Compare(key, k.hi) < 0)
}

// readOutcomes sets the values of rows that have none.
func (s *state) readOutcomes(ctx context.Context, rows []store.Row, hashes map[string]common.Hash) error {
	var of []int
	for i := range rows {
		if rows[i].V == nil {
			of = append(of, i)
		}
	}
	places, err := s.placesOf(ctx, len(of), func(i int) common.Hash { return hashes[string(rows[of[i]].K)] })
	for i := range places {
		rows[of[i]].V = appendOutcome([]byte{version}, places[i].success)
	}
	return err
}

// txPlace is the place of a transaction and how it ended.
type txPlace struct {
	place
	success bool
}

// placesOf returns the places of n indexed transactions.
func (s *state) placesOf(ctx context.Context, n int, hash func(i int) common.Hash) ([]txPlace, error) {
	if n == 0 {
		return nil, nil
	}
	keys := make([]store.PK, n)
	for i := range keys {
		h := hash(i)
		keys[i].P = s.chain.partition(h[:])
	}
	values, err := s.Get(ctx, store.FamilyEVMTxHash, keys)
	if err != nil {
		return nil, fmt.Errorf("reading where %d transactions are: %w", n, err)
	}
	places := make([]txPlace, n)
	for i, value := range values {
		if value == nil {
			return nil, fmt.Errorf("%w: no transaction %s", store.ErrCorrupt, hash(i))
		}
		v := read(value)
		if places[i] = v.txPlace(); v.End() != nil {
			return nil, v.End()
		}
	}
	return places, nil
}

func (r *reader) txPlace() txPlace {
	return txPlace{success: r.Byte() != 0, place: place{number: r.Number(), major: r.Uint32()}}
}
