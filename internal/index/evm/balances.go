package evm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/store"
)

// sumKey identifies what the transfers of an ERC-20 token add up to for a wallet: the wallet and the contract.
type sumKey [2 * common.AddressLength]byte

func sumKeyOf(wallet, contract common.Address) (k sumKey) {
	copy(k[:], wallet[:])
	copy(k[common.AddressLength:], contract[:])
	return k
}

// sumRow returns the key of the row of a sum.
func (t *Projection) sumRow(k *sumKey) store.PK {
	return store.PK{P: t.in(k[:common.AddressLength], []byte{erc20Transfers}), K: t.keep(k[common.AddressLength:])}
}

// resolveSums reads the sums that the block may change and that are not cached.
func (a *application) resolveSums(ctx context.Context, r store.Reader) error {
	if !a.tokenBalances.on {
		return nil
	}
	var sums []sumKey
	var rows []store.PK
	for i := range a.transfers {
		t := &a.transfers[i]
		if t.Standard != evm.ERC20 {
			continue
		}
		wallets, n := sides(t)
		for _, wallet := range wallets[:n] {
			k := sumKeyOf(wallet, t.Contract)
			if _, ok := a.sums.Get(k); !ok {
				a.sums.Put(k, new(supply), 0)
				sums, rows = append(sums, k), append(rows, a.sumRow(&k))
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	values, err := r.Get(ctx, store.FamilyEVMTokenBalance, rows)
	if err != nil {
		return fmt.Errorf("reading balances: %w", err)
	}
	for i, v := range values {
		since, total, err := parseSupply(v)
		if err != nil {
			return err
		}
		// A row from this block or later belongs to an earlier index of these blocks. One from before the index began lacks
		// transfers.
		if s, _ := a.sums.Get(sums[i]); since < a.block.Number && since >= a.tokenBalances.first {
			s.total = total
		}
	}
	return nil
}

// hold changes the sums of ERC-20 transfers and lists the ERC-721 tokens of their owners.
func (a *application) hold(transfers []evm.Transfer) {
	for i := range transfers {
		t := &transfers[i]
		switch t.Standard {
		case evm.ERC20:
			if t.From != (common.Address{}) {
				a.sum(t.From, t.Contract).sub(&t.Amount)
			}
			if t.To != (common.Address{}) {
				a.sum(t.To, t.Contract).add(&t.Amount)
			}
		case evm.ERC721:
			id := t.TokenID.Bytes32()
			token := tokenKeyOf(t.Contract, &id)
			k := a.keep(token[:])
			if t.From != (common.Address{}) {
				a.batch.Delete(store.FamilyEVMTokenBalance, store.PK{P: a.in(t.From[:], []byte{erc721Transfers}), K: k})
			}
			if t.To != (common.Address{}) {
				a.batch.Put(store.FamilyEVMTokenBalance, store.PK{P: a.in(t.To[:], []byte{erc721Transfers}), K: k}, a.kept(a.value()))
			}
		}
	}
}

// sum returns a sum that is about to change.
func (a *application) sum(wallet, contract common.Address) *wide {
	k := sumKeyOf(wallet, contract)
	s, _ := a.sums.Get(k)
	if s.touched.by(a.block.Number) {
		a.changedSums = append(a.changedSums, k)
		a.sums.Put(k, s, a.block.Number)
	}
	return &s.total
}

// sumBalances writes the changes of the whole block. A sum that the block did not change has a row all the same, since
// the contract may count otherwise.
func (a *application) sumBalances() {
	for i := range a.changedSums {
		k := &a.changedSums[i]
		s, _ := a.sums.Get(*k)
		row := a.sumRow(k)
		a.batch.Put(store.FamilyEVMTokenBalance, row, a.kept(appendWide(binary.AppendUvarint(a.value(), a.block.Number), &s.total)))
		at := binary.BigEndian.AppendUint64(append(a.reserve(len(row.K)+8), row.K...), a.block.Number)
		a.batch.Put(store.FamilyEVMTokenBalanceAt, store.PK{P: row.P, K: at}, a.kept(appendWide(a.value(), &s.total)))
	}
}

// appendWide appends an integer, which may be negative.
func appendWide(b []byte, w *wide) []byte {
	return binary.AppendUvarint(appendUint256(b, &w.low), w.high)
}

func (r *reader) wide() wide { return wide{low: r.uint256(), high: r.Number()} }

// big returns the integer. Its high part is negative if transfers took more than they gave.
func (w *wide) big() *big.Int {
	n := new(big.Int).Lsh(big.NewInt(int64(w.high)), 256)
	return n.Add(n, w.low.ToBig())
}

// TokenSum is what the transfers of an ERC-20 token add up to for a wallet.
type TokenSum struct {
	Contract common.Address
	// Sum is the balance, unless the contract changes balances without transfers, or its transfers lie. It may then be
	// negative, or exceed 2^256-1.
	Sum *big.Int
	// Position is that of a page that begins after this sum.
	Position []byte
}

// TokenSumQuery selects the sums of a wallet's transfers, by contract, ascending.
type TokenSumQuery struct {
	Wallet common.Address
	// Contracts, if not empty, selects tokens. Those without transfers of the wallet have the sum 0.
	Contracts []common.Address
	// At is the number of the block after which the sums hold; nil means the last block.
	At *uint64
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the preceding page, nil for the first page.
	After []byte
}

// TokenSumPage is a page of sums, some of which are 0.
type TokenSumPage struct {
	Sums []TokenSum
	// First is the first block that the sums cover. Unless it is 0, they lack earlier transfers, and tokens are missing.
	First uint64
	// At is the block after which the sums hold; the same on all pages.
	At BlockRef
	// Next is the position of the next page, nil on the last page.
	Next []byte
}

// mostUnknown is the number of named contracts that the index does not know after which a page ends short: a node is called
// to find out what each is.
const mostUnknown = 25

// sumPosition is the size of a position: the block number of all pages, and the last contract of the preceding page.
const sumPosition = 8 + common.AddressLength

// TokenSums lists what the ERC-20 transfers of a wallet add up to after a block. All pages refer to the block of the
// first one. It returns an OffError if TokenBalances is off, ErrBeyondTip or ErrBeforeFirst if the block is not indexed,
// and a BeginsLaterError if TokenBalances does not cover it.
func (r *Index) TokenSums(ctx context.Context, q TokenSumQuery) (*TokenSumPage, error) {
	q.Limit = limitOf(q.Limit)
	return classified(ctx, r, func(s *state, c *classifier) (*TokenSumPage, error) { return s.tokenSums(ctx, c, q) })
}

func (s *state) tokenSums(ctx context.Context, c *classifier, q TokenSumQuery) (*TokenSumPage, error) {
	first, err := s.firstOf(ctx, TokenBalances)
	if err != nil {
		return nil, err
	}
	p := &TokenSumPage{First: first}
	number := s.head.tip.Number
	if q.At != nil {
		number = *q.At
	}
	var lo []byte
	if q.After != nil {
		if len(q.After) != sumPosition {
			return nil, fmt.Errorf("%w: %d bytes", index.ErrPosition, len(q.After))
		}
		pinned := binary.BigEndian.Uint64(q.After)
		if q.At != nil && pinned != number {
			return nil, fmt.Errorf("%w: of balances after another block", index.ErrPosition)
		}
		number, lo = pinned, store.After(q.After[8:])
	}
	if p.At, err = s.block(ctx, number); err != nil {
		return nil, err
	}
	if number < p.First {
		return nil, &BeginsLaterError{TokenBalances, p.First}
	}
	t := tokenSums{state: s, classifier: c, partition: s.chain.partition(q.Wallet[:], []byte{erc20Transfers}), page: p}
	named := len(q.Contracts) > 0
	for chunk, full := range chunks(q.Limit) {
		rows, end, err := t.rows(ctx, q.Contracts, lo, chunk)
		if err != nil {
			return nil, fmt.Errorf("reading balances: %w", err)
		}
		if err := t.read(ctx, rows, named); err != nil {
			return nil, err
		}
		if len(p.Sums) > q.Limit {
			p.Sums = p.Sums[:q.Limit]
			p.Next = p.Sums[q.Limit-1].Position
			return p, nil
		}
		if end {
			break
		}
		last := rows[len(rows)-1].K
		if full || named {
			p.Next = t.position(common.BytesToAddress(last))
			break
		}
		lo = store.After(last)
	}
	return p, nil
}

// tokenSums is a page of sums being built.
type tokenSums struct {
	*state
	*classifier
	partition []byte
	page      *TokenSumPage
}

// position returns the position of a page that begins after a contract.
func (t *tokenSums) position(contract common.Address) []byte {
	return append(uint64Key(t.page.At.Number), contract[:]...)
}

// rows returns rows from a key on: those of some contracts, or at most limit. end reports that there are no more. The value is
// nil for a named contract without a row.
func (t *tokenSums) rows(ctx context.Context, contracts []common.Address, lo []byte, limit int) (rows []store.Row, end bool, err error) {
	if len(contracts) == 0 {
		rows, err = t.Scan(ctx, store.FamilyEVMTokenBalance, t.partition, lo, nil, store.Ascending, limit)
		return rows, len(rows) < limit, err
	}
	contracts = slices.Clone(contracts)
	slices.SortFunc(contracts, common.Address.Cmp)
	var keys []store.PK
	for _, contract := range slices.Compact(contracts) {
		if bytes.Compare(contract[:], lo) >= 0 {
			keys = append(keys, store.PK{P: t.partition, K: bytes.Clone(contract[:])})
		}
	}
	if len(keys) == 0 {
		return nil, true, nil
	}
	values, err := t.Get(ctx, store.FamilyEVMTokenBalance, keys)
	if err != nil {
		return nil, false, err
	}
	contractRows := make([]store.PK, len(keys))
	for i := range keys {
		contractRows[i] = store.PK{P: t.chain.partition(keys[i].K)}
	}
	known, err := t.Get(ctx, store.FamilyEVMContract, contractRows)
	if err != nil {
		return nil, false, err
	}
	unknown := 0
	for i, v := range values {
		if v == nil && known[i] == nil {
			if unknown++; unknown > mostUnknown {
				return rows, false, nil
			}
		}
		rows = append(rows, store.Row{K: keys[i].K, V: v})
	}
	return rows, true, nil
}

// read appends the sums of rows as of the page's block, of contracts that follow the standard and had transfers or are
// named.
func (t *tokenSums) read(ctx context.Context, rows []store.Row, named bool) error {
	for _, row := range rows {
		if len(row.K) != common.AddressLength {
			return fmt.Errorf("%w: balance of %x", store.ErrCorrupt, row.K)
		}
	}
	if err := t.learn(len(rows), func(i int) common.Address { return common.BytesToAddress(rows[i].K) }); err != nil {
		return err
	}
	begin := len(t.page.Sums)
	var ranges []store.Range
	var of []int // indexes of the sums that changed after the block
	for _, row := range rows {
		contract := common.BytesToAddress(row.K)
		if !t.follows(contract, evm.ERC20) {
			continue
		}
		none := TokenSum{Contract: contract, Sum: new(big.Int), Position: t.position(contract)}
		if row.V == nil {
			t.page.Sums = append(t.page.Sums, none)
			continue
		}
		since, total, err := parseSupply(row.V)
		switch {
		case err != nil:
			return err
		case since < t.page.First: // from before the index began
			if named {
				t.page.Sums = append(t.page.Sums, none)
			}
			continue
		case since <= t.page.At.Number:
			t.page.Sums = append(t.page.Sums, TokenSum{contract, total.big(), t.position(contract)})
			continue
		}
		of, t.page.Sums = append(of, len(t.page.Sums)), append(t.page.Sums, TokenSum{Contract: contract, Position: t.position(contract)})
		ranges = append(ranges, store.Range{
			Lo: binary.BigEndian.AppendUint64(bytes.Clone(row.K), t.page.First), Hi: binary.BigEndian.AppendUint64(bytes.Clone(row.K), t.page.At.Number),
		})
	}
	if len(ranges) == 0 {
		return nil
	}
	found, err := t.Floor(ctx, store.FamilyEVMTokenBalanceAt, t.partition, ranges)
	if err != nil {
		return fmt.Errorf("reading past balances: %w", err)
	}
	for i, row := range found {
		if row.V == nil { // no transfer yet
			if named {
				t.page.Sums[of[i]].Sum = new(big.Int)
			}
			continue
		}
		v := read(row.V)
		total := v.wide()
		if err := v.End(); err != nil {
			return err
		}
		t.page.Sums[of[i]].Sum = total.big()
	}
	t.page.Sums = append(t.page.Sums[:begin], slices.DeleteFunc(t.page.Sums[begin:], func(s TokenSum) bool { return s.Sum == nil })...)
	return nil
}

// HoldingQuery selects the tokens of a wallet that have an ID, by contract and token ID, both ascending.
type HoldingQuery struct {
	Wallet common.Address
	// Contract, if not nil, selects the tokens of one contract.
	Contract *common.Address
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
	// After is the Next of the preceding page, nil for the first page.
	After []byte
}

// HoldingPage is a page of tokens.
type HoldingPage struct {
	Tokens []Token
	// First is the first block that the list covers. Unless it is 0, tokens received before it are missing.
	First uint64
	// Next is the position of the next page, nil on the last page.
	Next []byte
}

// Holdings lists the ERC-721 tokens of a wallet. It returns an OffError if TokenBalances is off.
func (r *Index) Holdings(ctx context.Context, q HoldingQuery) (*HoldingPage, error) {
	q.Limit = limitOf(q.Limit)
	return classified(ctx, r, func(s *state, c *classifier) (*HoldingPage, error) { return s.holdings(ctx, c, q) })
}

func (s *state) holdings(ctx context.Context, c *classifier, q HoldingQuery) (*HoldingPage, error) {
	first, err := s.firstOf(ctx, TokenBalances)
	if err != nil {
		return nil, err
	}
	p := &HoldingPage{First: first}
	var lo, hi []byte
	if q.Contract != nil {
		lo, hi = q.Contract[:], successor(q.Contract[:])
	}
	if q.After != nil {
		if len(q.After) != len(tokenKey{}) {
			return nil, fmt.Errorf("%w: %d bytes", index.ErrPosition, len(q.After))
		}
		if bytes.Compare(q.After, lo) >= 0 {
			lo = store.After(q.After)
		}
	}
	partition := s.chain.partition(q.Wallet[:], []byte{erc721Transfers})
	for chunk, full := range chunks(q.Limit) {
		if hi != nil && bytes.Compare(lo, hi) >= 0 {
			break
		}
		rows, err := s.Scan(ctx, store.FamilyEVMTokenBalance, partition, lo, hi, store.Ascending, chunk)
		if err != nil {
			return nil, fmt.Errorf("reading tokens: %w", err)
		}
		owned, err := s.owned(ctx, c, q.Wallet, rows)
		if err != nil {
			return nil, err
		}
		p.Tokens = append(p.Tokens, owned...)
		if len(p.Tokens) > q.Limit {
			p.Tokens = p.Tokens[:q.Limit]
			id := p.Tokens[q.Limit-1].TokenID.Bytes32()
			last := tokenKeyOf(p.Tokens[q.Limit-1].Contract, &id)
			p.Next = last[:]
			return p, nil
		}
		if len(rows) < chunk {
			break
		}
		last := rows[len(rows)-1].K
		if full {
			p.Next = last
			break
		}
		lo = store.After(last)
	}
	return p, nil
}

// owned returns the tokens of rows that follow the standard and that the wallet owns. A contract may report that someone
// else sent the token.
func (s *state) owned(ctx context.Context, c *classifier, wallet common.Address, rows []store.Row) ([]Token, error) {
	tokens, keys := make([]Token, len(rows)), make([]store.PK, len(rows))
	for i, row := range rows {
		if len(row.K) != len(tokenKey{}) {
			return nil, fmt.Errorf("%w: token %x", store.ErrCorrupt, row.K)
		}
		tokens[i] = Token{Contract: common.BytesToAddress(row.K[:common.AddressLength]), Owner: &wallet}
		tokens[i].TokenID.SetBytes(row.K[common.AddressLength:])
		keys[i] = store.PK{P: s.chain.partition(row.K[:common.AddressLength]), K: row.K[common.AddressLength:]}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if err := c.learn(len(tokens), func(i int) common.Address { return tokens[i].Contract }); err != nil {
		return nil, err
	}
	owners, err := s.Get(ctx, store.FamilyEVMOwner, keys)
	if err != nil {
		return nil, fmt.Errorf("reading owners: %w", err)
	}
	var owned []Token
	for i, value := range owners {
		if value == nil || !c.follows(tokens[i].Contract, evm.ERC721) {
			continue
		}
		v := read(value)
		owner := v.address()
		if err := v.End(); err != nil {
			return nil, err
		}
		if owner == wallet {
			owned = append(owned, tokens[i])
		}
	}
	return owned, nil
}
