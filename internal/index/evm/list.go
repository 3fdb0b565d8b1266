package evm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/store"
)

// Latest lists the transactions of the chain, newest first.
func (r *Index) Latest(ctx context.Context, q LatestQuery) (*TransactionPage, error) {
	q.Limit = limitOf(q.Limit)
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var start, end *uint64
	if q.Block != nil {
		after := *q.Block + 1
		start, end = q.Block, &after
	}
	lo, hi, ok, err := s.listKeys(start, end, q.After, txPlaceSize)
	if err != nil {
		return nil, err
	}
	if !ok {
		return &TransactionPage{First: s.head.first}, nil
	}
	var rows []store.Row
	if q.Success != nil {
		rows, err = s.ended(ctx, *q.Success, lo, hi, q.Limit+1)
	} else {
		rows, err = s.latest(ctx, lo, hi, q.Limit+1)
	}
	if err != nil {
		return nil, err
	}
	p := &TransactionPage{First: s.head.first}
	rows, p.Next = page(rows, q.Limit)
	p.Transactions, err = inPlaces(rows, "transaction", (*reader).tx)
	return p, err
}

// inPlaces decodes the rows of a list whose keys are places. what names them in errors.
func inPlaces[T any](rows []store.Row, what string, of func(*reader, place, *T)) ([]T, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	all := make([]T, len(rows))
	v := new(reader)
	for i, row := range rows {
		at, ok := placeOf(row.K)
		if !ok {
			return nil, fmt.Errorf("%w: %s at %x", store.ErrCorrupt, what, row.K)
		}
		v.Begin(row.V)
		of(v, at, &all[i])
		if err := v.End(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// latest merges the lists of successful and failed transactions.
func (s *state) latest(ctx context.Context, lo, hi []byte, limit int) ([]store.Row, error) {
	succeeded, err := s.ended(ctx, true, lo, hi, limit)
	if err != nil {
		return nil, err
	}
	if len(succeeded) == limit {
		hi = succeeded[limit-1].K // older ones are not needed
	}
	failed, err := s.ended(ctx, false, lo, hi, limit)
	if err != nil {
		return nil, err
	}
	if len(failed) == 0 {
		return succeeded, nil
	}
	rows := make([]store.Row, 0, min(limit, len(succeeded)+len(failed)))
	for len(rows) < limit && len(succeeded)+len(failed) > 0 {
		if len(failed) == 0 || len(succeeded) > 0 && bytes.Compare(succeeded[0].K, failed[0].K) < 0 {
			rows, succeeded = append(rows, succeeded[0]), succeeded[1:]
		} else {
			rows, failed = append(rows, failed[0]), failed[1:]
		}
	}
	return rows, nil
}

// rangesAtOnce is the number of ranges of a list that are looked up at a time.
const rangesAtOnce = 16

// ended returns the rows of successful or failed transactions with keys lo <= k < hi.
func (s *state) ended(ctx context.Context, success bool, lo, hi []byte, limit int) (rows []store.Row, err error) {
	var from []byte // positions in the list of ranges
	if lo != nil {
		at := ^binary.BigEndian.Uint64(lo)
		from = newestKey(at >> rangeBits)
	}
	for {
		ranges, err := s.Scan(ctx, store.FamilyEVMTxRange, s.chain.txRanges(success), from, nil, store.Ascending, rangesAtOnce)
		if err != nil {
			return nil, fmt.Errorf("reading transactions: %w", err)
		}
		for _, one := range ranges {
			if len(one.K) != 8 {
				return nil, fmt.Errorf("%w: range %x of transactions", store.ErrCorrupt, one.K)
			}
			numbers := ^binary.BigEndian.Uint64(one.K)
			if hi != nil && numbers < ^binary.BigEndian.Uint64(hi)>>rangeBits {
				return rows, nil
			}
			some, err := s.Scan(ctx, store.FamilyEVMTx, s.chain.txPartition(success, numbers), lo, hi, store.Ascending, limit-len(rows))
			if err != nil {
				return nil, fmt.Errorf("reading transactions: %w", err)
			}
			if rows == nil {
				rows = some
			} else {
				rows = append(rows, some...)
			}
			if len(rows) == limit {
				return rows, nil
			}
		}
		if len(ranges) < rangesAtOnce {
			return rows, nil
		}
		from = store.After(ranges[len(ranges)-1].K)
	}
}

// Transaction returns the transaction with a hash, as in lists, or nil if it is not indexed.
func (r *Index) Transaction(ctx context.Context, hash common.Hash) (*Transaction, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.transaction(ctx, hash)
}

func (s *state) transaction(ctx context.Context, hash common.Hash) (*Transaction, error) {
	values, err := s.Get(ctx, store.FamilyEVMTxHash, []store.PK{{P: s.chain.partition(hash[:])}})
	if err != nil {
		return nil, fmt.Errorf("reading where transaction %s is: %w", hash, err)
	}
	if values[0] == nil {
		return nil, nil
	}
	v := read(values[0])
	at := v.txPlace()
	if err := v.End(); err != nil {
		return nil, err
	}
	values, err = s.Get(ctx, store.FamilyEVMTx, []store.PK{{P: s.chain.txPartition(at.success, at.number>>rangeBits), K: at.appendTx(nil)}})
	if err != nil {
		return nil, fmt.Errorf("reading transaction %s: %w", hash, err)
	}
	v = read(values[0])
	tx := new(Transaction)
	v.tx(at.place, tx)
	return tx, v.End()
}

// Internals lists the internal transactions of a wallet, newest first. The page states the blocks whose call traces are
// missing. It returns ErrUntraced if the index has no call traces at all.
func (r *Index) Internals(ctx context.Context, q WalletQuery) (*InternalPage, error) {
	q.Limit = limitOf(q.Limit)
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	lo, hi, ok, err := s.listKeys(q.Start, q.End, q.After, placeSize)
	if err != nil {
		return nil, err
	}
	p := &InternalPage{}
	if p.TracesMissing, err = s.missing(ctx, q.Start, q.End); err != nil || !ok {
		return p, err
	}
	rows, err := s.Scan(ctx, store.FamilyEVMInternal, s.chain.partition(q.Wallet[:]), lo, hi, store.Ascending, q.Limit+1)
	if err != nil {
		return nil, fmt.Errorf("reading internal transactions: %w", err)
	}
	rows, p.Next = page(rows, q.Limit)
	p.Internals, err = inPlaces(rows, "internal transaction", (*reader).internal)
	return p, err
}

// BlockInternals returns the internal transactions of a block that involve any of the wallets, wallet by wallet. traced is
// false if the index lacks the call traces of the block. BlockInternals returns ErrBeyondTip for a block that is not
// indexed yet, and ErrUntraced if the index has no call traces at all.
func (r *Index) BlockInternals(ctx context.Context, number uint64, wallets []common.Address) (found []Internal, traced bool, err error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, false, err
	}
	defer s.close()
	switch {
	case number > s.head.tip.Number:
		return nil, false, fmt.Errorf("%w: %d, the last one is %d", ErrBeyondTip, number, s.head.tip.Number)
	case number < s.head.first:
		return nil, false, nil
	}
	end := number + 1
	if missing, err := s.missing(ctx, &number, &end); missing != nil || err != nil {
		return nil, false, err
	}
	lo, hi, _, err := s.listKeys(&number, &end, nil, placeSize)
	for i := 0; i < len(wallets) && err == nil; i++ {
		found, err = s.appendInternals(ctx, found, wallets[i], lo, hi)
	}
	return found, err == nil, err
}

// appendInternals appends the internal transactions of a wallet with keys lo <= k < hi.
func (s *state) appendInternals(ctx context.Context, found []Internal, wallet common.Address, lo, hi []byte) ([]Internal, error) {
	for {
		rows, err := s.Scan(ctx, store.FamilyEVMInternal, s.chain.partition(wallet[:]), lo, hi, store.Ascending, scanRows)
		if err != nil {
			return nil, fmt.Errorf("reading internal transactions: %w", err)
		}
		internals, err := inPlaces(rows, "internal transaction", (*reader).internal)
		if err != nil {
			return nil, err
		}
		found = append(found, internals...)
		if len(rows) < scanRows {
			return found, nil
		}
		lo = store.After(rows[len(rows)-1].K)
	}
}

func (r *reader) internal(at place, i *Internal) {
	i.Frame, i.TxHash = r.frame(), r.hash()
	r.readRef(at.number, &i.Block)
}

const (
	// scanRows is the maximum number of rows per read where some rows are skipped.
	scanRows = 2048
	// maxScanned is the number of rows after which a page ends short, if most of them are skipped.
	maxScanned = 8 * scanRows
)

// chunks yields the number of rows to read next, and whether the page must end with them.
func chunks(limit int) iter.Seq2[int, bool] {
	return func(yield func(int, bool) bool) {
		scanned := 0
		for chunk := limit + 1; yield(chunk, scanned+chunk >= maxScanned); chunk = min(2*chunk, max(chunk, scanRows)) {
			scanned += chunk
		}
	}
}

// Transfers lists transfers of ERC-1155 tokens from or to a wallet, newest first.
func (r *Index) Transfers(ctx context.Context, q WalletQuery) (*TransferPage, error) {
	q.Limit = limitOf(q.Limit)
	return classified(ctx, r, func(s *state, c *classifier) (*TransferPage, error) { return s.transfers(ctx, c, q) })
}

func (s *state) transfers(ctx context.Context, c *classifier, q WalletQuery) (*TransferPage, error) {
	lo, hi, ok, err := s.listKeys(q.Start, q.End, q.After, placeSize)
	if err != nil {
		return nil, err
	}
	p := &TransferPage{First: s.head.first}
	if !ok {
		return p, nil
	}
	var last []byte // the key of the page's last item
	for chunk, full := range chunks(q.Limit) {
		rows, err := s.Scan(ctx, store.FamilyEVMTransfer, s.chain.partition(q.Wallet[:]), lo, hi, store.Ascending, chunk)
		if err != nil {
			return nil, fmt.Errorf("reading transfers: %w", err)
		}
		some, err := inPlaces(rows, "transfer", (*reader).tokenTransfer)
		if err != nil {
			return nil, err
		}
		if err := c.learn(len(some), func(i int) common.Address { return some[i].Contract }); err != nil {
			return nil, err
		}
		for i := range some {
			if !c.follows(some[i].Contract, evm.ERC1155) {
				continue
			}
			if len(p.Transfers) == q.Limit {
				p.Next = last
				return p, nil
			}
			if p.Transfers == nil {
				p.Transfers = some[:0] // the other items are not reused
			}
			p.Transfers, last = append(p.Transfers, some[i]), rows[i].K
		}
		if len(rows) < chunk {
			break
		}
		last = rows[len(rows)-1].K
		if full {
			p.Next = last
			break
		}
		lo = store.After(last)
	}
	return p, nil
}

func (r *reader) tokenTransfer(at place, t *TokenTransfer) {
	t.Transfer, t.TxHash = r.transfer(at.major, at.minor), r.hash()
	r.readRef(at.number, &t.Block)
}

// Tokens lists the tokens of a collection by ID, as reported by its events.
func (r *Index) Tokens(ctx context.Context, q TokenQuery) (*TokenPage, error) {
	q.Limit = limitOf(q.Limit)
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	p := &TokenPage{}
	family, ok := tokenFamilies[q.Standard]
	if !ok {
		return p, nil
	}
	var lo []byte
	if q.After != nil {
		if len(q.After) != 32 {
			return nil, fmt.Errorf("%w: %d bytes", index.ErrPosition, len(q.After))
		}
		lo = store.After(q.After)
	}
	rows, err := s.Scan(ctx, family, s.chain.partition(q.Contract[:]), lo, nil, store.Ascending, q.Limit+1)
	if err != nil {
		return nil, fmt.Errorf("reading tokens: %w", err)
	}
	rows, p.Next = page(rows, q.Limit)
	for _, row := range rows {
		t, err := tokenOf(q.Standard, q.Contract, row)
		if err != nil {
			return nil, err
		}
		p.Tokens = append(p.Tokens, t)
	}
	return p, nil
}

// balancePosition is the size of a position: the block number of all pages, and the last token of the preceding page.
const balancePosition = 8 + len(tokenKey{})

// Balances lists a wallet's balances of ERC-1155 tokens after a block. All pages refer to the block of the first one.
// It returns ErrBeyondTip or ErrBeforeFirst if that block is not indexed.
func (r *Index) Balances(ctx context.Context, q BalanceQuery) (*BalancePage, error) {
	q.Limit = limitOf(q.Limit)
	return classified(ctx, r, func(s *state, c *classifier) (*BalancePage, error) { return s.balances(ctx, c, q) })
}

func (s *state) balances(ctx context.Context, c *classifier, q BalanceQuery) (*BalancePage, error) {
	number := s.head.tip.Number
	if q.At != nil {
		number = *q.At
	}
	var lo, hi []byte
	if q.Contract != nil {
		lo, hi = q.Contract[:], successor(q.Contract[:])
	}
	if q.After != nil {
		if len(q.After) != balancePosition {
			return nil, fmt.Errorf("%w: %d bytes", index.ErrPosition, len(q.After))
		}
		pinned := binary.BigEndian.Uint64(q.After)
		if q.At != nil && pinned != number {
			return nil, fmt.Errorf("%w: of balances after another block", index.ErrPosition)
		}
		number = pinned
		if k := q.After[8:]; bytes.Compare(k, lo) >= 0 {
			lo = store.After(k)
		}
	}
	p := &BalancePage{First: s.head.first}
	var err error
	if p.At, err = s.block(ctx, number); err != nil {
		return nil, err
	}
	b := balances{state: s, page: p, classifier: c, wallet: s.chain.partition(q.Wallet[:]), limit: q.Limit}
	return p, b.read(ctx, lo, hi)
}

// balances is a page of balances being built.
type balances struct {
	*state
	*classifier
	page   *BalancePage
	wallet []byte
	limit  int
}

// position returns the position of a page that begins after a token.
func (b *balances) position(token []byte) []byte {
	return append(uint64Key(b.page.At.Number), token...)
}

func (b *balances) read(ctx context.Context, lo, hi []byte) error {
	for chunk, full := range chunks(b.limit) {
		if hi != nil && bytes.Compare(lo, hi) >= 0 {
			return nil
		}
		rows, err := b.Scan(ctx, store.FamilyEVMBalance, b.wallet, lo, hi, store.Ascending, chunk)
		if err != nil {
			return fmt.Errorf("reading balances: %w", err)
		}
		for _, row := range rows {
			if len(row.K) != len(tokenKey{}) {
				return fmt.Errorf("%w: balance of %x", store.ErrCorrupt, row.K)
			}
		}
		contract := func(i int) common.Address { return common.BytesToAddress(rows[i].K[:common.AddressLength]) }
		if err := b.learn(len(rows), contract); err != nil {
			return err
		}
		amounts, err := b.amounts(ctx, rows)
		if err != nil {
			return err
		}
		for i := range amounts {
			if amounts[i].Amount.IsZero() {
				continue
			}
			if len(b.page.Balances) == b.limit {
				last := &b.page.Balances[b.limit-1]
				id := last.TokenID.Bytes32()
				k := tokenKeyOf(last.Contract, &id)
				b.page.Next = b.position(k[:])
				return nil
			}
			if b.page.Balances == nil {
				b.page.Balances = amounts[:0] // the other items are not reused
			}
			b.page.Balances = append(b.page.Balances, amounts[i])
		}
		if len(rows) < chunk {
			return nil
		}
		last := contract(len(rows) - 1)
		if full {
			b.page.Next = b.position(rows[len(rows)-1].K)
			return nil
		}
		lo = store.After(rows[len(rows)-1].K)
		if !b.follows(last, evm.ERC1155) {
			// Skip the remaining tokens of that contract.
			if lo = successor(last[:]); lo == nil {
				return nil
			}
		}
	}
	return nil
}

// amounts returns the balances of rows as of the page's block. Balances of contracts that do not follow the standard
// are 0.
func (b *balances) amounts(ctx context.Context, rows []store.Row) ([]TokenBalance, error) {
	found := make([]TokenBalance, len(rows))
	var ranges []store.Range
	var of []int
	for i, row := range rows {
		t := &found[i]
		t.Contract = common.BytesToAddress(row.K[:common.AddressLength])
		if !b.follows(t.Contract, evm.ERC1155) {
			continue
		}
		t.TokenID.SetBytes(row.K[common.AddressLength:])
		since, amount, err := parseBalance(row.V)
		if err != nil {
			return nil, err
		}
		if since <= b.page.At.Number {
			t.Amount = amount
			continue
		}
		of = append(of, i)
		ranges = append(ranges, store.Range{
			Lo: binary.BigEndian.AppendUint64(bytes.Clone(row.K), 0),
			Hi: binary.BigEndian.AppendUint64(bytes.Clone(row.K), b.page.At.Number),
		})
	}
	if len(ranges) == 0 {
		return found, nil
	}
	then, err := b.Floor(ctx, store.FamilyEVMBalanceAt, b.wallet, ranges)
	if err != nil {
		return nil, fmt.Errorf("reading past balances: %w", err)
	}
	for i, row := range then {
		if row.V == nil {
			continue // no balance yet
		}
		v := read(row.V)
		found[of[i]].Amount = v.uint256()
		if err := v.End(); err != nil {
			return nil, err
		}
	}
	return found, nil
}
