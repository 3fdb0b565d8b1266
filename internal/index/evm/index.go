package evm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/bounded"
	"quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/store"
)

// Viewer is the part of a store that an Index reads.
type Viewer = store.Viewer

// Contracts returns the standards of contracts.
type Contracts interface {
	// Contracts returns the contract at each address, nil for addresses without one. It may call a node, and returns an
	// error rather than a guess.
	Contracts(ctx context.Context, addresses []common.Address) ([]*Contract, error)
	// Cached does the same from memory. ok is false unless all are there.
	Cached(addresses []common.Address) (contracts []*Contract, ok bool)
}

// Index reads the index of one chain in a store. Each call reads one snapshot. It is safe for concurrent use. Its
// methods return ErrEmpty while no block is indexed, their own errors, and those of Contracts and of the store.
//
// Transfers, balances and tokens come from the events of contracts that follow the standard according to Contracts.
// Lists end when ctx does, because skipped rows also cost time.
type Index struct {
	viewer    store.Viewer
	chainID   ids.ID
	chain     chainKey
	contracts Contracts
	known     *bounded.Cache[common.Address, cachedKnown]
}

// New returns an Index of a chain, whose index may be empty.
func New(v Viewer, networkID uint32, blockchainID ids.ID, contracts Contracts) *Index {
	return &Index{viewer: v, chainID: blockchainID, chain: keyOf(networkID, blockchainID), contracts: contracts, known: newKnown(knownRoom)}
}

// Among reduces the caches of a new Index in a process with that many chains.
func (r *Index) Among(chains int) *Index {
	r.known = newKnown(share(knownRoom, chains))
	return r
}

// state is one snapshot of an index.
type state struct {
	store.View
	*Index
	head *head
}

func (r *Index) view(ctx context.Context) (*state, error) {
	v, err := r.viewer.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the index of chain %s: %w", r.chainID, err)
	}
	s := &state{View: v, Index: r}
	s.head, err = readHead(ctx, v, &r.chain)
	switch {
	case err != nil:
	case s.head == nil:
		err = ErrEmpty
	case s.head.chainID != r.chainID:
		err = fmt.Errorf("%w: of %s, not of %s", ErrChain, s.head.chainID, r.chainID)
	default:
		return s, nil
	}
	return nil, errors.Join(err, v.Close())
}

func (s *state) close() { _ = s.Close() }

// Tip returns the last indexed block.
func (r *Index) Tip(ctx context.Context) (BlockRef, error) {
	s, err := r.view(ctx)
	if err != nil {
		return BlockRef{}, err
	}
	defer s.close()
	return s.head.tip, nil
}

// block returns the reference of an indexed block.
func (s *state) block(ctx context.Context, number uint64) (BlockRef, error) {
	if number == s.head.tip.Number {
		return s.head.tip, nil
	}
	if number > s.head.tip.Number {
		return BlockRef{}, fmt.Errorf("%w: %d, the last one is %d", ErrBeyondTip, number, s.head.tip.Number)
	}
	values, err := s.Get(ctx, store.FamilyEVMBlock, []store.PK{s.chain.blockRow(number)})
	if err != nil {
		return BlockRef{}, fmt.Errorf("reading block %d: %w", number, err)
	}
	if values[0] == nil {
		return BlockRef{}, fmt.Errorf("%w: the index begins with block %d, not with %d", ErrBeforeFirst, s.head.first, number)
	}
	v, b := read(values[0]), Block{}
	v.block(number, &b)
	return b.BlockRef, v.End()
}

// checkPosition returns index.ErrPosition unless a position in a list has size bytes, and index.ErrViewBehind if the view lacks
// its block. The position may be nil.
func (s *state) checkPosition(position []byte, size int) error {
	if position == nil {
		return nil
	}
	if len(position) != size {
		return fmt.Errorf("%w: %d bytes", index.ErrPosition, len(position))
	}
	return index.CheckPin(s.head.tip.Number, ^binary.BigEndian.Uint64(position)) // list keys begin with the inverted block number
}

// listKeys returns the keys lo <= k < hi of a list, newest first, within Start <= number < End and after a position. ok
// is false if there are none.
func (s *state) listKeys(start, end *uint64, after []byte, size int) (lo, hi []byte, ok bool, err error) {
	if err := s.checkPosition(after, size); err != nil {
		return nil, nil, false, err
	}
	if end != nil {
		if *end == 0 {
			return nil, nil, false, nil
		}
		lo = newestKey(*end - 1)
	}
	if start != nil && *start > 0 {
		hi = newestKey(*start - 1)
	}
	if after != nil && string(after) >= string(lo) {
		lo = store.After(after)
	}
	return lo, hi, hi == nil || string(lo) < string(hi), nil
}

// maxLimit is the maximum length of a page.
const maxLimit = 10_000

func limitOf(limit int) int { return min(max(limit, 1), maxLimit) }

// page cuts rows to a limit and returns the position of the next page, or nil on the last page.
func page(rows []store.Row, limit int) ([]store.Row, []byte) {
	if len(rows) <= limit {
		return rows, nil
	}
	return rows[:limit], rows[limit-1].K
}

// Deployments lists the contracts that an address deployed, including destroyed ones. A contract deployed twice at the
// same address appears twice. The page states the blocks without call traces; contracts that calls made there may be
// missing.
func (r *Index) Deployments(ctx context.Context, q DeploymentQuery) (*DeploymentPage, error) {
	q.Limit = limitOf(q.Limit)
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	lo, _, _, err := s.listKeys(nil, nil, q.After, placeSize)
	if err != nil {
		return nil, err
	}
	missing, err := s.tracesMissing(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	rows, err := s.Scan(ctx, store.FamilyEVMDeployer, s.chain.partition(q.Address[:]), lo, nil, store.Ascending, q.Limit+1)
	if err != nil {
		return nil, fmt.Errorf("reading deployments: %w", err)
	}
	p := &DeploymentPage{TracesMissing: missing}
	rows, p.Next = page(rows, q.Limit)
	p.Deployments, err = inPlaces(rows, "deployment", (*reader).deployment)
	return p, err
}

// deploymentRows is the number of rows of a deployment per read.
const deploymentRows = 1024

// Deployment returns the transaction that deployed a contract, the last one if there were several, with all its
// effects. If there is none, it returns a NotDeployedError with the untraced blocks that may have deployed it.
func (r *Index) Deployment(ctx context.Context, contract common.Address) (*TransactionDetails, error) {
	return classified(ctx, r, func(s *state, c *classifier) (*TransactionDetails, error) {
		return s.deploymentOf(ctx, c, contract)
	})
}

func (s *state) deploymentOf(ctx context.Context, c *classifier, contract common.Address) (*TransactionDetails, error) {
	newest, err := s.lastDeployment(ctx, contract)
	if err != nil {
		return nil, err
	}
	if len(newest) == 0 {
		missing, err := s.tracesMissing(ctx, nil, nil)
		if err != nil {
			return nil, err
		}
		return nil, &NotDeployedError{Contract: contract, First: s.head.first, TracesMissing: missing}
	}
	at, ok := placeOf(newest[0].K)
	if !ok {
		return nil, fmt.Errorf("%w: deployment at %x", store.ErrCorrupt, newest[0].K)
	}
	return s.deployment(ctx, c, at)
}

// deployment returns the details of the deploying transaction at a place. They are empty if that transaction deployed
// nothing.
func (s *state) deployment(ctx context.Context, c *classifier, at place) (*TransactionDetails, error) {
	d := &TransactionDetails{}
	p := s.chain.deploymentPartition(at)
	for lo := []byte(nil); ; {
		rows, err := s.Scan(ctx, store.FamilyEVMDeployment, p, lo, nil, store.Ascending, deploymentRows)
		if err != nil {
			return nil, fmt.Errorf("reading a deployment: %w", err)
		}
		for _, row := range rows {
			if err := d.add(at, row); err != nil {
				return nil, err
			}
		}
		if len(rows) < deploymentRows {
			break
		}
		lo = store.After(rows[len(rows)-1].K)
	}
	if err := c.learn(len(d.Transfers), func(i int) common.Address { return d.Transfers[i].Contract }); err != nil {
		return nil, err
	}
	believed := d.Transfers[:0]
	for i := range d.Transfers {
		if t := &d.Transfers[i]; c.follows(t.Contract, t.Standard) {
			believed = append(believed, *t)
		}
	}
	d.Transfers = believed
	return d, nil
}

// add decodes a row of a deployment.
func (d *TransactionDetails) add(at place, row store.Row) error {
	if len(row.K) == 0 {
		return fmt.Errorf("%w: part of a deployment without a key", store.ErrCorrupt)
	}
	r := read(row.V)
	switch kind, k := row.K[0], row.K[1:]; {
	case kind == deploymentTx && len(k) == 0:
		d.Traced = r.Byte() != 0
		r.tx(at, &d.Transaction)
		d.Message = r.message()
	case kind == deploymentTransfer && len(k) == 8:
		d.Transfers = append(d.Transfers, TokenTransfer{})
		r.tokenTransfer(place{number: at.number, major: binary.BigEndian.Uint32(k), minor: binary.BigEndian.Uint32(k[4:])}, &d.Transfers[len(d.Transfers)-1])
	case kind == deploymentInternal && len(k) == 4:
		d.Internals = append(d.Internals, Internal{})
		r.internal(at, &d.Internals[len(d.Internals)-1])
	default:
		return fmt.Errorf("%w: part %x of a deployment", store.ErrCorrupt, row.K)
	}
	return r.End()
}

// Days returns the number of transactions of each day, newest first: at most limit days that begin before a time in
// Unix seconds, 0 for no bound. The days range from the first with transactions to that of the last block, without
// gaps.
func (r *Index) Days(ctx context.Context, before int64, limit int) ([]Day, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	last := s.head.tip.Time / daySeconds
	if before != 0 {
		if before < 0 {
			return nil, nil
		}
		begun := (uint64(before) + daySeconds - 1) / daySeconds // the number of days that begin before
		if begun == 0 {
			return nil, nil
		}
		last = min(last, begun-1)
	}
	if limit <= 0 {
		return nil, nil
	}
	// The row before the requested days holds the count at which the first of them began.
	rows, err := s.Scan(ctx, store.FamilyEVMDay, s.chain.partition(), nil, uint64Key(last+1), store.Descending, limit+1)
	if err != nil {
		return nil, fmt.Errorf("reading days: %w", err)
	}
	counts := make([]uint64, len(rows)+1)
	for i, row := range rows {
		v := read(row.V)
		counts[i] = v.Number()
		if err := v.End(); err != nil {
			return nil, err
		}
		if len(row.K) != 8 {
			return nil, fmt.Errorf("%w: day %x", store.ErrCorrupt, row.K)
		}
	}
	var days []Day
	day := last
	for i := 0; i < len(rows) && len(days) < limit; day-- {
		one := Day{Start: int64(day * daySeconds)}
		if binary.BigEndian.Uint64(rows[i].K) == day {
			one.Transactions = counts[i] - counts[i+1]
			i++
		}
		days = append(days, one)
	}
	return days, nil
}

// classifier caches the standards of contracts during one call.
type classifier struct {
	contracts Contracts
	standards map[common.Address]evm.Standard
	ask       []common.Address // contracts that are not in memory
}

// errAsk means that the standards of the classifier's ask have to be fetched before the call can be answered.
var errAsk = errors.New("the standards of contracts are not in memory")

// classified returns what read returns, which reads from one view. A view must not stay open while a node answers,
// because a store has few. If read needs standards that are not in memory, classified therefore closes the view, fetches
// them, and begins again with a new view.
func classified[T any](ctx context.Context, r *Index, read func(*state, *classifier) (T, error)) (T, error) {
	c := &classifier{contracts: r.contracts, standards: make(map[common.Address]evm.Standard)}
	for {
		found, err := viewed(ctx, r, c, read)
		if !errors.Is(err, errAsk) {
			return found, err
		}
		if err := c.fetch(ctx); err != nil {
			return found, err
		}
	}
}

func viewed[T any](ctx context.Context, r *Index, c *classifier, read func(*state, *classifier) (T, error)) (found T, err error) {
	s, err := r.view(ctx)
	if err != nil {
		return found, err
	}
	defer s.close()
	return read(s, c)
}

// learn caches the standards of n contracts. It returns errAsk if it needs some that are not in memory.
func (c *classifier) learn(n int, contract func(int) common.Address) error {
	var ask []common.Address
	var last common.Address
	for i := range n {
		address := contract(i)
		if i > 0 && address == last {
			continue // balances are in the order of contracts
		}
		last = address
		if _, ok := c.standards[address]; !ok {
			c.standards[address] = evm.Unknown
			ask = append(ask, address)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	contracts, ok := c.contracts.Cached(ask)
	if !ok {
		c.ask = ask
		return errAsk
	}
	c.note(ask, contracts)
	return nil
}

// fetch caches the standards that learn lacked.
func (c *classifier) fetch(ctx context.Context) error {
	contracts, err := c.contracts.Contracts(ctx, c.ask)
	if err != nil {
		return fmt.Errorf("reading the standards of contracts: %w", err)
	}
	c.note(c.ask, contracts)
	return nil
}

func (c *classifier) note(addresses []common.Address, contracts []*Contract) {
	for i, one := range contracts {
		if one != nil {
			c.standards[addresses[i]] = one.Standard
		}
	}
}

// follows reports whether a contract passed to learn follows a standard.
func (c *classifier) follows(contract common.Address, standard evm.Standard) bool {
	return standard != evm.Unknown && c.standards[contract] == standard
}
