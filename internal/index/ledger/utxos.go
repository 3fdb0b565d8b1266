package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// OutputQuery asks for outputs that were made on a chain or are destined to it.
type OutputQuery struct {
	ChainID ids.ID
	// Addresses own an output if as many of them are among its owners as its
	// threshold says.
	Addresses []ids.ShortID
	// AssetID is the only asset, ids.Empty for all.
	AssetID ids.ID
	// Without are chains whose index is of no use: outputs made on one of them or destined
	// to one are left out, on the pages that follow, too.
	Without []ids.ID
	// MinAmount is the least amount; outputs that hold none count as 1.
	MinAmount uint64
	// IncludeSpent adds those that are consumed.
	IncludeSpent bool
	// ByAmount orders by amount in place of the time of creation; what is equal is
	// ordered by ID as text. Ascending begins with the least.
	ByAmount  bool
	Ascending bool
	// Limit is the size of a page, at least 1.
	Limit int
	// After is where the page before ended, nil for the first one.
	After *Position
}

// Position is where a page ended, and of which state the first one was.
type Position struct {
	// Key is what the list is ordered by, and ID what is ordered by where that is
	// equal.
	Key uint64
	ID  ids.ID
	// Pins are the heights of the chains at the first page: what was made after them
	// is not on later pages, nor is anything of a chain without a pin.
	Pins []Pin
}

// Pin is the last block of a chain that a list takes into account.
type Pin struct {
	ChainID ids.ID
	Height  uint64
}

// ErrPosition says that a position cannot be read.
var ErrPosition = errors.New("not a position in a list")

// Bytes is the position in a form for tokens.
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

// ParsePosition reads what Bytes wrote. The error is ErrPosition.
func ParsePosition(b []byte) (*Position, error) {
	r := row.Read(b)
	p := &Position{Key: r.Number(), ID: r.ID()}
	n := r.Number()
	if n > maxChains {
		return nil, ErrPosition
	}
	for range n {
		p.Pins = append(p.Pins, Pin{ChainID: r.ChainID(), Height: r.Number()})
	}
	if r.End() != nil {
		return nil, ErrPosition
	}
	return p, nil
}

// pins are those of a position, or of now, where some chains may be left out.
func (s *state) pins(after *Position, without ...ids.ID) []Pin {
	if after != nil {
		return after.Pins
	}
	var pins []Pin
	for _, c := range s.clocks {
		if !slices.Contains(without, c.chainID) {
			pins = append(pins, Pin{c.chainID, c.height})
		}
	}
	return pins
}

// Has reports whether a list takes a chain into account.
func (p *Position) Has(chainID ids.ID) bool {
	return slices.ContainsFunc(p.Pins, func(pin Pin) bool { return pin.ChainID == chainID })
}

// pinned reports whether a block of a chain is to be taken into account.
func pinned(pins []Pin, chainID ids.ID, height uint64) bool {
	for _, p := range pins {
		if p.ChainID == chainID {
			return height <= p.Height
		}
	}
	return false
}

// bounds are where a list goes on, in its direction.
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

// OutputPage is a part of a list of outputs.
type OutputPage struct {
	Outputs []*Output
	// Next is where the following page begins, nil if there is none.
	Next *Position
	// Now is the chain's time.
	Now time.Time
}

// UTXOs returns a page of outputs. While blocks arrive between pages, no output is
// on two of them and none is left out: all pages together are those of the state at
// the first one, except that, unless the query includes spent ones, an output that
// is consumed before its page is read is not on it.
func (r *Record) UTXOs(ctx context.Context, q OutputQuery) (*OutputPage, error) {
	// The lists of the accounts that it had are read while it is found out what it has.
	expected := &outputWalk{query: &q, accounts: q.accounts(r.seen.of(q.ChainID, q.Addresses))}
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
	walk := &outputWalk{state: s, query: &q, accounts: q.accounts(accounts), pins: s.pins(q.After, q.Without...)}
	if expected.merge != nil && sameAccounts(expected.accounts, walk.accounts) {
		walk.merge = expected.merge
		walk.merge.begin(s.View, found)
	} else if err := walk.begin(ctx); err != nil {
		return nil, err
	}
	for len(page.Outputs) < q.Limit {
		o, err := walk.next(ctx)
		if err != nil {
			return nil, err
		}
		if o == nil {
			return page, nil
		}
		page.Outputs = append(page.Outputs, o)
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

// outputWalk goes through outputs in the order of a query.
type outputWalk struct {
	*state
	query    *OutputQuery
	accounts []owned
	pins     []Pin
	merge    *merge
	// few are the keys by time of all that is left, in place of merge, if they are so
	// few that sorting them is better than looking for them.
	few [][]byte
	// ready are outputs that were read already.
	ready []*Output
}

// fewOutputs is how many outputs are rather sorted than looked for.
const fewOutputs = 4096

// tags of lists are twice the account's number, and one more for spent outputs.
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

// accounts are those of all that the query is about.
func (q *OutputQuery) accounts(all []owned) []owned {
	var some []owned
	for _, a := range all {
		if (q.AssetID == ids.Empty || a.assetID == q.AssetID) && (!a.atomic() || q.takes(a.source) && q.takes(a.destination)) {
			some = append(some, a)
		}
	}
	return some
}

// takes reports whether the query takes a chain into account.
func (q *OutputQuery) takes(chainID ids.ID) bool {
	return !slices.Contains(q.Without, chainID) && (q.After == nil || q.After.Has(chainID))
}

// gathers tells whether the outputs may be so few that they are rather sorted.
func (q *OutputQuery) gathers() bool { return !q.ByAmount && q.MinAmount > 1 }

// keys are the bounds of the lists in which the page is.
func (q *OutputQuery) keys() (lo, hi []byte) {
	lo, hi = bounds(q.After, direction(q.Ascending))
	if least := row.Uint64(q.MinAmount); q.ByAmount && bytes.Compare(lo, least) < 0 {
		lo = least
	}
	return lo, hi
}

// mergeOf is the merge of the lists in which the page is.
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

// gather takes the outputs of at least the amount from the lists by amount, and
// sorts them by time, unless they are many: then one of them is met often enough
// among all.
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

// read makes more outputs ready, if there are any.
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
			return fmt.Errorf("%w: output %s is listed and missing", store.ErrCorrupt, incomplete[0])
		}
		w.ready[i] = outputs[0]
		outputs, incomplete = outputs[1:], incomplete[1:]
	}
	return nil
}

// take returns the next output, nil after the last one, and whether it has more than
// its ID.
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
	// What is between two chains may have arrived without the Matcher having noticed.
	return o, complete && (spent || !a.atomic()), err
}
