package evm

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"quorate/internal/store"
)

// tally counts the addresses that were last active in an interval, and those that last sent in it. Each address counts
// once among the intervals of a length, so the sum over a window that ends with the last block is the number of distinct
// addresses in that window.
type tally struct{ active, senders uint64 }

type tallyKey struct {
	interval Interval
	start    uint64
}

// shift is a change of a tally.
type shift struct{ active, senders int64 }

func (s shift) plus(o shift) shift { return shift{s.active + o.active, s.senders + o.senders} }

// changed returns the tally after a shift. ok is false if the tally has fewer addresses than the shift takes.
func (t tally) changed(s shift) (after tally, ok bool) {
	after = tally{t.active + uint64(s.active), t.senders + uint64(s.senders)} // negative shifts wrap
	return after, max(after.active, after.senders) <= math.MaxInt64
}

// shift moves an address from the interval of its last hour, as in actor, to the one that begins at start. by is 1 for
// the counts that change.
func (a *application) shift(n Interval, start, lastHour uint64, by shift) {
	if n == Weekly {
		return // windows consist of hours, days and months
	}
	to := tallyKey{n, start}
	a.shifts[to] = a.shifts[to].plus(by)
	if lastHour != 0 {
		from := tallyKey{n, n.Begin((lastHour - 1) * hourSeconds)}
		a.shifts[from] = a.shifts[from].plus(shift{-by.active, -by.senders})
	}
}

// changeTallies writes the tallies that the block changes.
func (a *application) changeTallies(ctx context.Context, r store.Reader) error {
	if err := a.resolveTallies(ctx, r); err != nil {
		return err
	}
	for key, s := range a.shifts {
		before, _ := a.tallies.Get(key)
		after, ok := before.changed(s)
		if !ok {
			return fmt.Errorf("%w: fewer addresses than were last active from %d on", store.ErrCorrupt, key.start)
		}
		a.tallies.Put(key, after, a.block.Number)
		pk := a.tallyRow(key)
		if after == (tally{}) {
			a.batch.Delete(store.FamilyEVMLastActive, pk)
			continue
		}
		v := a.value()
		for _, n := range [...]uint64{a.chainMetrics.first, a.block.Number, after.active, after.senders} {
			v = binary.AppendUvarint(v, n)
		}
		a.batch.Put(store.FamilyEVMLastActive, pk, a.kept(v))
	}
	return nil
}

func (a *application) tallyRow(key tallyKey) store.PK {
	return store.PK{P: a.in([]byte{byte(key.interval)}), K: binary.BigEndian.AppendUint64(a.reserve(8), key.start)}
}

// resolveTallies reads the tallies that the block changes and that are not cached.
func (a *application) resolveTallies(ctx context.Context, r store.Reader) error {
	var ask []tallyKey
	var rows []store.PK
	for key := range a.shifts {
		if _, ok := a.tallies.Get(key); !ok {
			ask, rows = append(ask, key), append(rows, a.tallyRow(key))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	values, err := r.Get(ctx, store.FamilyEVMLastActive, rows)
	if err != nil {
		return fmt.Errorf("reading how many addresses were last active: %w", err)
	}
	for i, v := range values {
		var before tally
		if v != nil {
			if before, err = parseTally(v, a.chainMetrics.first, a.block.Number); err != nil {
				return err
			}
		}
		a.tallies.Put(ask[i], before, 0)
	}
	return nil
}

// parseTally reads a row of the index that begins with block first, before the block with a number. A row of an index
// that began elsewhere, or a row from that block on, which an earlier index of the same blocks wrote, counts as empty.
func parseTally(value []byte, first, before uint64) (tally, error) {
	v := read(value)
	began, number := v.Number(), v.Number()
	t := tally{v.Number(), v.Number()}
	if began != first || number >= before {
		t = tally{}
	}
	return t, v.End()
}

// Windows sums up the blocks of windows that end with the last block.
type Windows struct {
	// Windows has one Period for each length, nil for a window that begins before First. Start is the first second of the
	// window. Rates divide by the time since the last block before the window, as those of other periods.
	Windows []*Period
	// First is the first block that the index covers.
	First uint64
}

// Windows returns windows of the given lengths in hours, where 0 means all blocks. A window ends with the hour of the last
// block. Windows returns an OffError if ChainMetrics is off.
func (r *Index) Windows(ctx context.Context, hours []uint64) (*Windows, error) {
	s, first, err := r.viewOf(ctx, ChainMetrics)
	if err != nil {
		return nil, err
	}
	defer s.close()
	w := &windowReader{state: s, first: first}
	if first > 0 {
		block, err := s.block(ctx, first)
		if err != nil {
			return nil, err
		}
		w.begun = block.Time
	}
	midnight := uint64(math.MaxUint64)
	for _, n := range hours {
		if start := w.start(n); n > 0 && w.covers(start) {
			midnight = min(midnight, midnightAfter(start))
		}
	}
	if w.days, err = w.read(ctx, Daily, midnight, s.head.tip.Time+1); err != nil {
		return nil, err
	}
	all := &Windows{Windows: make([]*Period, len(hours)), First: first}
	for i, n := range hours {
		if all.Windows[i], err = w.window(ctx, n); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// windowReader reads windows.
type windowReader struct {
	*state
	first uint64
	// begun is the time of the first block, if that is not block 0.
	begun uint64
	// days has the days of the longest window.
	days *windowRows
}

// windowRows has the rows of a range of intervals, oldest first.
type windowRows struct {
	periods []*running
	tallies []startedTally
}

type startedTally struct {
	tally
	start uint64
}

// start returns the first second of a window.
func (w *windowReader) start(hours uint64) uint64 {
	if hours == 0 {
		return 0
	}
	hour := w.head.tip.Time / hourSeconds
	return (hour - min(hours-1, hour)) * hourSeconds
}

// covers reports whether the index has all blocks since a time. If the first indexed block is later, the block before it
// may be later as well.
func (w *windowReader) covers(start uint64) bool { return w.first == 0 || w.begun < start }

// midnightAfter returns the first midnight that is not before a time.
func midnightAfter(at uint64) uint64 { return Daily.Begin(at + daySeconds - 1) }

// window returns nil if the index does not cover the window.
func (w *windowReader) window(ctx context.Context, hours uint64) (*Period, error) {
	start, end := w.start(hours), w.head.tip.Time+1
	if !w.covers(start) {
		return nil, nil
	}
	if hours == 0 {
		months, err := w.read(ctx, Monthly, start, end)
		if err != nil {
			return nil, err
		}
		return w.sum(start, months)
	}
	midnight := midnightAfter(start)
	untilMidnight, err := w.read(ctx, Hourly, start, min(midnight, end))
	if err != nil {
		return nil, err
	}
	return w.sum(start, untilMidnight, w.days.from(midnight))
}

// from returns the rows from a time on.
func (r *windowRows) from(start uint64) *windowRows {
	p, _ := slices.BinarySearchFunc(r.periods, start, func(p *running, start uint64) int { return cmp.Compare(p.Start, start) })
	t, _ := slices.BinarySearchFunc(r.tallies, start, func(t startedTally, start uint64) int { return cmp.Compare(t.start, start) })
	return &windowRows{r.periods[p:], r.tallies[t:]}
}

// read returns the intervals that begin within [from, before).
func (w *windowReader) read(ctx context.Context, n Interval, from, before uint64) (*windowRows, error) {
	all := &windowRows{}
	err := w.rows(ctx, store.FamilyEVMPeriod, n, from, before, func(row store.Row) error {
		p, err := parseRunning(row)
		all.periods = append(all.periods, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, w.rows(ctx, store.FamilyEVMLastActive, n, from, before, func(row store.Row) error {
		if len(row.K) != 8 {
			return fmt.Errorf("%w: interval %x", store.ErrCorrupt, row.K)
		}
		t, err := parseTally(row.V, w.first, w.head.tip.Number+1)
		all.tallies = append(all.tallies, startedTally{t, binary.BigEndian.Uint64(row.K)})
		return err
	})
}

// rows calls each with the rows of intervals that begin within [from, before), oldest first.
func (w *windowReader) rows(ctx context.Context, family store.Family, n Interval, from, before uint64, each func(store.Row) error) error {
	partition, hi := w.chain.partition([]byte{byte(n)}), uint64Key(before)
	for lo := uint64Key(from); string(lo) < string(hi); {
		rows, err := w.Scan(ctx, family, partition, lo, hi, store.Ascending, scanRows)
		if err != nil {
			return fmt.Errorf("reading a window: %w", err)
		}
		for _, row := range rows {
			if err := each(row); err != nil {
				return err
			}
		}
		if len(rows) < scanRows {
			return nil
		}
		lo = store.After(rows[len(rows)-1].K)
	}
	return nil
}

// sum adds up the parts of a window, oldest first.
func (w *windowReader) sum(start uint64, parts ...*windowRows) (*Period, error) {
	var all running
	for _, part := range parts {
		for _, p := range part.periods {
			all.join(p)
		}
		for i := range part.tallies {
			all.Addresses += part.tallies[i].active
			all.Senders += part.tallies[i].senders
		}
	}
	if all.pace.last == 0 && w.head.tip.Time > 0 {
		return nil, fmt.Errorf("%w: no period from %d on", store.ErrCorrupt, start)
	}
	all.Start, all.Elapsed = start, all.pace.last-all.since
	all.Fees, all.GasPrices = all.fees.big(), all.prices.big()
	return &all.Period, nil
}

// join adds a later period, without its addresses.
func (p *running) join(next *running) {
	p.Transactions, p.GasUsed = p.Transactions+next.Transactions, p.GasUsed+next.GasUsed
	p.AllTransactions, p.AllAddresses = next.AllTransactions, next.AllAddresses
	p.fees.plus(&next.fees)
	p.prices.plus(&next.prices)
	if next.MaxGasPrice.Gt(&p.MaxGasPrice) {
		p.MaxGasPrice = next.MaxGasPrice
	}
	if p.since == 0 {
		p.since = next.since
	}
	if next.MaxGas.above(p.MaxGas) {
		p.MaxGas = next.MaxGas
	}
	if next.MaxTransactions.above(p.MaxTransactions) {
		p.MaxTransactions = next.MaxTransactions
	}
	p.pace = next.pace
}
