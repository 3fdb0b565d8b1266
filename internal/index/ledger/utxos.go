package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// OutputQuery selects outputs created on a chain or exported to it.
type OutputQuery struct {
	ChainID ids.ID
	// Addresses own an output if at least threshold of its owners are among them.
	Addresses []ids.ShortID
	// AssetID selects an asset; ids.Empty selects all.
	AssetID ids.ID
	// Without are chains without a usable index. This page and later pages omit outputs created on them or exported to
	// them.
	Without []ids.ID
	// MinAmount is the minimum amount; outputs without an amount count as 1.
	MinAmount uint64
	// IncludeSpent includes consumed outputs.
	IncludeSpent bool
	// ByAmount orders by amount instead of creation time. Equal values are ordered by ID text. Ascending returns the
	// smallest first.
	ByAmount  bool
	Ascending bool
	// Limit is the page size, at least 1.
	Limit int
	// After is the end of the previous page, nil for the first page.
	After *Position
}

// Position is the end of a page, with the state that the first page read.
type Position struct {
	// Key is the time or amount that orders the list. ID orders equal keys.
	Key uint64
	ID  ids.ID
	// Pins are the heights of the chains at the first page. Later pages omit outputs created after them and all outputs
	// of chains without a pin.
	Pins []Pin
}

// Pin is the last block of a chain that a list includes.
type Pin struct {
	ChainID ids.ID
	Height  uint64
}

// Bytes encodes the position for page tokens.
func (p *Position) Bytes() []byte {
	w := row.New(64 + len(p.Pins)*40)
	w.Number(p.Key)
	w.ID(p.ID)
	w.Number(uint64(len(p.Pins)))
	for _, pin := range p.Pins {
		w.ChainID(pin.ChainID)
		w.Number(pin.Height)
	}
	return w.B
}

// ParsePosition decodes the result of Bytes. Errors wrap index.ErrPosition.
func ParsePosition(b []byte) (*Position, error) {
	r := row.Read(b)
	p := &Position{Key: r.Number(), ID: r.ID()}
	n := r.Number()
	if n > maxChains {
		return nil, index.ErrPosition
	}
	for range n {
		p.Pins = append(p.Pins, Pin{ChainID: r.ChainID(), Height: r.Number()})
	}
	if r.End() != nil {
		return nil, index.ErrPosition
	}
	return p, nil
}

// pins returns the pins of a position, or the current heights of all chains but those in without. See checkPins for errors.
func (s *snapshot) pins(after *Position, without ...ids.ID) (pins []Pin, err error) {
	if after != nil {
		return after.Pins, s.checkPins(after.Pins, without...)
	}
	for _, c := range s.clocks {
		if !slices.Contains(without, c.chainID) {
			pins = append(pins, Pin{c.chainID, c.height})
		}
	}
	return pins, nil
}

// checkPins returns index.ErrViewBehind or ErrUnknownChain unless the snapshot has the blocks of all pins, except pins of
// chains in without.
func (s *snapshot) checkPins(pins []Pin, without ...ids.ID) error {
	for _, p := range pins {
		if slices.Contains(without, p.ChainID) {
			continue
		}
		c, err := s.clock(p.ChainID)
		if err == nil {
			err = index.CheckPin(c.height, p.Height)
		}
		if err != nil {
			return fmt.Errorf("reading a page of chain %s: %w", p.ChainID, err)
		}
	}
	return nil
}

// Has reports whether a list includes a chain.
func (p *Position) Has(chainID ids.ID) bool {
	return slices.ContainsFunc(p.Pins, func(pin Pin) bool { return pin.ChainID == chainID })
}

// pinned reports whether a list includes a block of a chain.
func pinned(pins []Pin, chainID ids.ID, height uint64) bool {
	for _, p := range pins {
		if p.ChainID == chainID {
			return height <= p.Height
		}
	}
	return false
}

// bounds returns the key range after a position in a direction.
func bounds(after *Position, dir store.Direction) (lo, hi []byte) {
	switch {
	case after == nil:
		return nil, nil
	case dir == store.Ascending:
		return store.After(listKey(after.Key, after.ID)), nil
	default:
		return nil, listKey(after.Key, after.ID)
	}
}

func direction(ascending bool) store.Direction {
	if ascending {
		return store.Ascending
	}
	return store.Descending
}

// OutputPage is a page of outputs.
type OutputPage struct {
	Outputs []*Output
	// Next is the beginning of the next page, nil if there is none.
	Next *Position
	// Now is the chain's time.
	Now time.Time
}

// maxOwners is the number of owners with which a page of outputs ends before its limit. An output can have 3,200.
const maxOwners = 50_000

// UTXOs returns a page of outputs. It may be shorter than the limit if they have many owners. Pages neither repeat nor skip
// outputs while new blocks arrive: together they show the state at the first page. The exception is a query without spent
// outputs, which omits an output consumed before its page is read.
func (r *Index) UTXOs(ctx context.Context, q OutputQuery) (*OutputPage, error) {
	// Read the lists of cached accounts together with the search for accounts.
	expected := &outputWalk{query: &q, accounts: q.accounts(r.cache.of(q.ChainID, q.Addresses))}
	var queries []store.Query
	if len(expected.accounts) > 0 && !q.gathers() {
		expected.merge = expected.mergeOf()
		queries = expected.merge.queries(expected.merge.lists)
	}
	s, c, accounts, found, err := r.viewOf(ctx, q.ChainID, q.Addresses, queries...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	page := &OutputPage{Now: row.Unix(c.time)}
	defer func() { s.number(page.Outputs) }()
	pins, err := s.pins(q.After, q.Without...)
	if err != nil {
		return nil, err
	}
	walk := &outputWalk{snapshot: s, query: &q, accounts: q.accounts(accounts), pins: pins}
	if expected.merge != nil && sameAccounts(expected.accounts, walk.accounts) {
		walk.merge = expected.merge
		walk.merge.begin(s.View, found)
	} else if err := walk.begin(ctx); err != nil {
		return nil, err
	}
	for owners := 0; len(page.Outputs) < q.Limit && owners < maxOwners; {
		o, err := walk.next(ctx)
		if err != nil {
			return nil, err
		}
		if o == nil {
			return page, nil
		}
		page.Outputs = append(page.Outputs, o)
		owners += len(o.Addresses)
	}
	if beyond, err := walk.next(ctx); err != nil || beyond == nil {
		return page, err
	}
	last := page.Outputs[len(page.Outputs)-1]
	page.Next = &Position{Key: row.Seconds(last.Time), ID: last.ID, Pins: walk.pins}
	if q.ByAmount {
		page.Next.Key = last.ListAmount()
	}
	return page, nil
}

// outputWalk iterates over outputs in the order of a query.
type outputWalk struct {
	*snapshot
	query    *OutputQuery
	accounts []owned
	pins     []Pin
	merge    *merge
	// few are the time keys of all remaining outputs if there are so few that sorting is faster than merging. It
	// replaces merge.
	few [][]byte
	// ready are outputs that were read but not returned.
	ready []*Output
}

// fewOutputs is the maximum number of outputs that are sorted instead of merged.
const fewOutputs = 4096

// lists tags each list with twice its account's index, plus 1 for spent outputs.
func (w *outputWalk) lists(byAmount bool) []*list {
	unspent, spent := store.FamilyUnspentByTime, store.FamilySpentByTime
	if byAmount {
		unspent, spent = store.FamilyUnspentByAmount, store.FamilySpentByAmount
	}
	var lists []*list
	for i := range w.accounts {
		p := w.accounts[i].id[:]
		lists = append(lists, &list{family: unspent, p: p, tag: 2 * i})
		if w.query.IncludeSpent {
			lists = append(lists, &list{family: spent, p: p, tag: 2*i + 1})
		}
	}
	return lists
}

// accounts returns the accounts that the query selects.
func (q *OutputQuery) accounts(all []owned) []owned {
	var some []owned
	for _, a := range all {
		if (q.AssetID == ids.Empty || a.assetID == q.AssetID) && (!a.atomic() || q.takes(a.source) && q.takes(a.destination)) {
			some = append(some, a)
		}
	}
	return some
}

// takes reports whether the query includes a chain.
func (q *OutputQuery) takes(chainID ids.ID) bool {
	return !slices.Contains(q.Without, chainID) && (q.After == nil || q.After.Has(chainID))
}

// gathers reports whether few outputs may match, so that sorting them may be faster.
func (q *OutputQuery) gathers() bool { return !q.ByAmount && q.MinAmount > 1 }

// keys returns the key range of the page.
func (q *OutputQuery) keys() (lo, hi []byte) {
	lo, hi = bounds(q.After, direction(q.Ascending))
	if least := row.Uint64(q.MinAmount); q.ByAmount && bytes.Compare(lo, least) < 0 {
		lo = least
	}
	return lo, hi
}

// mergeOf returns the merge of the lists that contain the page.
func (w *outputWalk) mergeOf() *merge {
	lo, hi := w.query.keys()
	return mergeOf(w.lists(w.query.ByAmount), lo, hi, direction(w.query.Ascending), w.query.Limit+1)
}

func (w *outputWalk) begin(ctx context.Context) (err error) {
	q := w.query
	lo, hi := q.keys()
	if q.gathers() {
		if done, err := w.gather(ctx, lo, hi); err != nil || done {
			return err
		}
	}
	w.merge, err = newMerge(ctx, w.View, w.lists(q.ByAmount), lo, hi, direction(q.Ascending), q.Limit+1)
	return err
}

// gather reads the outputs of at least MinAmount from the lists by amount and sorts them by time. It reports false if
// there are too many; then a merge finds matches often enough.
func (w *outputWalk) gather(ctx context.Context, lo, hi []byte) (done bool, err error) {
	n := 0
	w.few = [][]byte{}
	for _, l := range w.lists(true) {
		rows, err := w.Scan(ctx, l.family, l.p, row.Uint64(w.query.MinAmount), nil, store.Ascending, fewOutputs+1-n)
		if err != nil {
			return false, fmt.Errorf("reading %s: %w", l.family, err)
		}
		if n += len(rows); n > fewOutputs {
			w.few = nil
			return false, nil
		}
		for _, one := range rows {
			r := row.Read(one.V)
			k := row.Uint64(r.Number(), one.K[min(8, len(one.K)):])
			if err := r.Err(); err != nil {
				return false, err
			}
			if bytes.Compare(k, lo) >= 0 && (hi == nil || bytes.Compare(k, hi) < 0) {
				w.few = append(w.few, k)
			}
		}
	}
	slices.SortFunc(w.few, bytes.Compare)
	if !w.query.Ascending {
		slices.Reverse(w.few)
	}
	return true, nil
}

// next returns nil after the last output.
func (w *outputWalk) next(ctx context.Context) (*Output, error) {
	for {
		if len(w.ready) == 0 {
			if err := w.read(ctx); err != nil || len(w.ready) == 0 {
				return nil, err
			}
		}
		o := w.ready[0]
		w.ready = w.ready[1:]
		if o.ListAmount() >= w.query.MinAmount && pinned(w.pins, o.ChainID, o.Height) && (o.Spent == nil || w.query.IncludeSpent) {
			return o, nil
		}
	}
}

// read fills ready with more outputs, if any.
func (w *outputWalk) read(ctx context.Context) error {
	w.ready = nil
	var incomplete []ids.ID
	for len(w.ready) <= w.query.Limit {
		o, complete, err := w.take(ctx)
		if err != nil {
			return err
		}
		if o == nil {
			break
		}
		if !complete {
			incomplete = append(incomplete, o.ID)
		}
		w.ready = append(w.ready, o)
	}
	if len(incomplete) == 0 {
		return nil
	}
	outputs, err := w.outputs(ctx, incomplete)
	if err != nil {
		return err
	}
	for i := range w.ready {
		if len(outputs) == 0 {
			break
		}
		if w.ready[i].ID != incomplete[0] {
			continue
		}
		if outputs[0] == nil {
			return fmt.Errorf("%w: output %s is in a list but has no row", store.ErrCorrupt, incomplete[0])
		}
		w.ready[i] = outputs[0]
		outputs, incomplete = outputs[1:], incomplete[1:]
	}
	return nil
}

// take returns the next output, or nil after the last one, and whether it has more than its ID.
func (w *outputWalk) take(ctx context.Context) (o *Output, complete bool, err error) {
	if w.merge == nil {
		if len(w.few) == 0 {
			return nil, false, nil
		}
		_, id, err := parseKey(w.few[0])
		o = new(Output)
		o.ID = id
		w.few = w.few[1:]
		return o, false, err
	}
	one, l, ok, err := w.merge.next(ctx)
	if err != nil || !ok {
		return nil, false, err
	}
	a, spent := &w.accounts[l.tag/2], l.tag%2 == 1
	o, complete, err = parseListed(&a.account, a.group, one.K, one.V, w.query.ByAmount, spent)
	// An output between two chains may have arrived before the Matcher processed it.
	return o, complete && (spent || !a.atomic()), err
}
