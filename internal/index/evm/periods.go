package evm

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/bits"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// Interval is the length of a Period.
type Interval uint8

// The intervals. They are stored. Weeks begin on Monday; all are of UTC.
const (
	Hourly Interval = iota + 2 // 0 and 1 would be escaped in a partition
	Daily
	Weekly
	Monthly
)

var intervals = [...]Interval{Hourly, Daily, Weekly, Monthly}

const hourSeconds = 3600

// Begin returns the first second of the interval that has a time, in Unix seconds.
func (n Interval) Begin(at uint64) uint64 {
	day := at - at%daySeconds
	switch n {
	case Hourly:
		return at - at%hourSeconds
	case Weekly:
		return day - min((day/daySeconds+3)%7*daySeconds, day) // 1 January 1970 was a Thursday
	case Monthly:
		y, m, _ := time.Unix(int64(at), 0).UTC().Date()
		return uint64(time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).Unix())
	default:
		return day
	}
}

// previous returns the first second of the interval before the one that begins at a time.
func (n Interval) previous(begin uint64) uint64 { return n.Begin(begin - 1) }

// next returns the first second of the interval after the one that begins at a time.
func (n Interval) next(begin uint64) uint64 {
	switch n {
	case Hourly:
		return begin + hourSeconds
	case Weekly:
		return begin + 7*daySeconds
	case Monthly:
		return n.Begin(begin + 31*daySeconds)
	default:
		return begin + daySeconds
	}
}

// Rate is an amount by time.
type Rate struct{ Amount, Milliseconds uint64 }

// PerSecond returns the amount per second, 0 if the time is 0.
func (r Rate) PerSecond() float64 {
	if r.Milliseconds == 0 {
		return 0
	}
	return float64(r.Amount) / float64(r.Milliseconds) * 1000
}

func (r Rate) above(o Rate) bool {
	if r.Milliseconds == 0 || o.Milliseconds == 0 {
		return r.Milliseconds > 0
	}
	high, low := bits.Mul64(r.Amount, o.Milliseconds)
	otherHigh, otherLow := bits.Mul64(o.Amount, r.Milliseconds)
	return high > otherHigh || high == otherHigh && low > otherLow
}

// Period sums up the blocks of an hour, day, week or month, or of a window.
type Period struct {
	// Start is the first second, in Unix seconds.
	Start                 uint64
	Transactions, GasUsed uint64
	// Fees are in wei, GasPrices is the sum of the effective gas prices of all transactions, in wei, and MaxGasPrice the
	// highest of them.
	Fees, GasPrices *big.Int
	MaxGasPrice     uint256.Int
	// Elapsed is the time from the last block before the period to the last block in it, in milliseconds. If the period has
	// the first block, it begins with that.
	Elapsed uint64
	// MaxGas and MaxTransactions are the highest rates of blocks: what is in a block by the time since the block before it.
	// Blocks of the same time count as one.
	MaxGas, MaxTransactions Rate
	// Addresses counts the distinct addresses in the from and to fields of transactions and of events of ERC-20, ERC-721 and
	// ERC-1155 transfers, Senders those in from fields. The zero address does not count.
	Addresses, Senders uint64
	// AllTransactions and AllAddresses are the numbers at the end of the period since the index began.
	AllTransactions, AllAddresses uint64
}

// running is a period to which blocks may be added.
type running struct {
	Period
	fees, prices wide
	// since is the time of the last block before the period in ms. If that is unknown, or 0 as those of some genesis
	// blocks, since is the time of the first block.
	since uint64
	pace  pace
}

// pace is the same for all intervals.
type pace struct {
	// last is the time of the last block in ms.
	last uint64
	// gas and txs are those of the blocks of time last, and elapsed is the time since the block before them.
	gas, txs, elapsed uint64
}

// blockTotals sums up a block.
type blockTotals struct {
	gas, txs     uint64
	fees, prices wide
	maxGasPrice  uint256.Int
}

func totalsOf(b *evm.Block) *blockTotals {
	t := &blockTotals{txs: uint64(len(b.Transactions))}
	for i := range b.Transactions {
		tx := &b.Transactions[i]
		t.gas += tx.GasUsed
		t.prices.add(&tx.GasPrice)
		fee := new(uint256.Int).SetUint64(tx.GasUsed)
		if _, over := fee.MulOverflow(fee, &tx.GasPrice); over {
			fee.SetAllOne() // no account has that much
		}
		t.fees.add(fee)
		if tx.GasPrice.Gt(&t.maxGasPrice) {
			t.maxGasPrice = tx.GasPrice
		}
	}
	return t
}

// next returns the pace after a block at a time in ms.
func (p pace) next(at uint64, b *blockTotals) pace {
	if at > p.last {
		elapsed := uint64(0)
		if p.last != 0 {
			elapsed = at - p.last
		}
		p = pace{last: at, elapsed: elapsed}
	}
	p.gas, p.txs = p.gas+b.gas, p.txs+b.txs
	return p
}

// milliseconds returns the time of a block. Blocks whose milliseconds contradict their seconds have whole seconds.
func milliseconds(b *BlockRef) uint64 {
	if b.Milliseconds/1000 == b.Time {
		return b.Milliseconds
	}
	return b.Time * 1000
}

// add adds a block, without its addresses.
func (p *running) add(b *blockTotals, now pace) {
	p.Transactions, p.GasUsed, p.AllTransactions = p.Transactions+b.txs, p.GasUsed+b.gas, p.AllTransactions+b.txs
	p.fees.plus(&b.fees)
	p.prices.plus(&b.prices)
	if b.maxGasPrice.Gt(&p.MaxGasPrice) {
		p.MaxGasPrice = b.maxGasPrice
	}
	if p.since == 0 {
		p.since = now.last
	}
	if r := (Rate{now.gas, now.elapsed}); r.above(p.MaxGas) {
		p.MaxGas = r
	}
	if r := (Rate{now.txs, now.elapsed}); r.above(p.MaxTransactions) {
		p.MaxTransactions = r
	}
	p.pace = now
}

// follow returns the empty period that begins at a time after p, which is the last one with blocks.
func (p *running) follow(begin uint64) *running {
	return &running{
		Period: Period{Start: begin, AllTransactions: p.AllTransactions, AllAddresses: p.AllAddresses},
		since:  p.pace.last, pace: p.pace,
	}
}

func (p *running) appendTo(b []byte) []byte {
	for _, n := range [...]uint64{
		p.Transactions, p.GasUsed, p.MaxGas.Amount, p.MaxGas.Milliseconds, p.MaxTransactions.Amount, p.MaxTransactions.Milliseconds,
		p.Addresses, p.Senders, p.AllTransactions, p.AllAddresses, p.pace.last, p.since, p.pace.gas, p.pace.txs, p.pace.elapsed,
	} {
		b = binary.AppendUvarint(b, n)
	}
	return appendUint256(appendWide(appendWide(b, &p.fees), &p.prices), &p.MaxGasPrice)
}

func parseRunning(row store.Row) (*running, error) {
	if len(row.K) != 8 {
		return nil, fmt.Errorf("%w: period %x", store.ErrCorrupt, row.K)
	}
	p, v := &running{}, read(row.V)
	p.Start = binary.BigEndian.Uint64(row.K)
	for _, n := range [...]*uint64{
		&p.Transactions, &p.GasUsed, &p.MaxGas.Amount, &p.MaxGas.Milliseconds, &p.MaxTransactions.Amount, &p.MaxTransactions.Milliseconds,
		&p.Addresses, &p.Senders, &p.AllTransactions, &p.AllAddresses, &p.pace.last, &p.since, &p.pace.gas, &p.pace.txs, &p.pace.elapsed,
	} {
		*n = v.Number()
	}
	p.fees, p.prices = v.wide(), v.wide()
	p.MaxGasPrice = v.uint256()
	p.Fees, p.GasPrices = p.fees.big(), p.prices.big()
	p.Elapsed = p.pace.last - p.since
	return p, v.End()
}

// actor says when an address was last in a block, and when it was last a sender: the number of the hour plus one, or 0.
type actor struct{ active, sender uint64 }

// has reports whether an hour of an actor is in the period.
func (p *running) has(n Interval, hour uint64) bool {
	return hour != 0 && n.Begin((hour-1)*hourSeconds) == p.Start
}

// changePeriods adds the block to the periods of its time.
func (a *application) changePeriods(ctx context.Context, r store.Reader) error {
	if !a.chainMetrics.on {
		return nil
	}
	if err := a.openPeriods(ctx, r); err != nil {
		return err
	}
	totals := totalsOf(a.block)
	now := a.periods[0].pace.next(milliseconds(&a.head.tip), totals)
	for _, p := range a.periods {
		p.add(totals, now)
	}
	if err := a.countActors(ctx, r); err != nil {
		return err
	}
	for i, p := range a.periods {
		a.batch.Put(store.FamilyEVMPeriod, store.PK{P: a.in([]byte{byte(intervals[i])}), K: binary.BigEndian.AppendUint64(a.reserve(8), p.Start)}, a.kept(p.appendTo(a.value())))
	}
	return nil
}

// openPeriods makes the periods those of the block's time. The first ones of an index are empty.
func (a *application) openPeriods(ctx context.Context, r store.Reader) error {
	if a.periods[0] == nil && a.block.Number != a.chainMetrics.first {
		rows := make([]store.PK, len(intervals))
		for i, n := range intervals {
			rows[i] = store.PK{P: a.chain.partition([]byte{byte(n)}), K: uint64Key(n.Begin(a.parentTime))}
		}
		values, err := r.Get(ctx, store.FamilyEVMPeriod, rows)
		if err != nil {
			return fmt.Errorf("reading periods: %w", err)
		}
		for i, v := range values {
			if v == nil {
				return fmt.Errorf("%w: no period of block %d", store.ErrCorrupt, a.block.Number-1)
			}
			if a.periods[i], err = parseRunning(store.Row{K: rows[i].K, V: v}); err != nil {
				return err
			}
		}
	}
	for i, n := range intervals {
		switch begin := n.Begin(a.block.Time); {
		case a.periods[i] == nil:
			a.periods[i] = &running{Period: Period{Start: begin}}
		case a.periods[i].Start != begin:
			a.periods[i] = a.periods[i].follow(begin)
		}
	}
	return nil
}

// countActors counts the addresses of the block that the periods do not have yet.
func (a *application) countActors(ctx context.Context, r store.Reader) error {
	clear(a.acting)
	note := func(who common.Address, sends bool) {
		if who != (common.Address{}) {
			a.acting[who] = a.acting[who] || sends
		}
	}
	for i := range a.block.Transactions {
		tx := &a.block.Transactions[i]
		note(tx.From, true)
		if tx.To != nil {
			note(*tx.To, false)
		}
	}
	for i := range a.transfers {
		note(a.transfers[i].From, true)
		note(a.transfers[i].To, false)
	}
	if err := a.resolveActors(ctx, r); err != nil {
		return err
	}
	clear(a.shifts)
	hour := a.block.Time/hourSeconds + 1
	for who, sends := range a.acting {
		last, _ := a.actors.Get(who)
		now := actor{hour, last.sender}
		if sends {
			now.sender = hour
		}
		if now == last {
			continue
		}
		for i, n := range intervals {
			p := a.periods[i]
			if !p.has(n, last.active) {
				p.Addresses++
				a.shift(n, p.Start, last.active, shift{active: 1})
			}
			if sends && !p.has(n, last.sender) {
				p.Senders++
				a.shift(n, p.Start, last.sender, shift{senders: 1})
			}
			if last.active == 0 {
				p.AllAddresses++
			}
		}
		a.actors.Put(who, now, a.block.Number)
		v := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(a.value(), a.block.Number), now.active), now.sender)
		a.batch.Put(store.FamilyEVMActor, store.PK{P: a.in(who[:])}, a.kept(v))
	}
	return a.changeTallies(ctx, r)
}

// resolveActors reads the rows of acting addresses that are not cached.
func (a *application) resolveActors(ctx context.Context, r store.Reader) error {
	var ask []common.Address
	var rows []store.PK
	for who := range a.acting {
		if _, ok := a.actors.Get(who); !ok {
			ask, rows = append(ask, who), append(rows, store.PK{P: a.in(who[:])})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	values, err := r.Get(ctx, store.FamilyEVMActor, rows)
	if err != nil {
		return fmt.Errorf("reading when addresses were active: %w", err)
	}
	for i, value := range values {
		var last actor
		if value != nil {
			v := read(value)
			number := v.Number()
			row := actor{v.Number(), v.Number()}
			if err := v.End(); err != nil {
				return err
			}
			// A row from this block or later belongs to an earlier index of these blocks, one from before the index began to an
			// earlier one of others.
			if number < a.block.Number && number >= a.chainMetrics.first {
				last = row
			}
		}
		a.actors.Put(ask[i], last, 0)
	}
	return nil
}

// PeriodQuery selects periods, newest first.
type PeriodQuery struct {
	Interval Interval
	// From and Before bound the first second of a period: From <= Start < Before; nil means no bound.
	From, Before *uint64
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
}

// PeriodPage is a page of periods.
type PeriodPage struct {
	// Periods have no gaps: those without blocks are there as well. They begin with the first block that has transactions or
	// follows the first one, whose time is often 0, and end with the period of the last block.
	Periods []Period
	// First is the first block that the periods cover. Unless it is 0, AllTransactions and AllAddresses lack what was
	// before, and the first period is not whole.
	First uint64
	// More reports that there are earlier periods.
	More bool
}

// Periods lists periods. It returns an OffError if ChainMetrics is off.
func (r *Index) Periods(ctx context.Context, q PeriodQuery) (*PeriodPage, error) {
	q.Limit = limitOf(q.Limit)
	s, first, err := r.viewOf(ctx, ChainMetrics)
	if err != nil {
		return nil, err
	}
	defer s.close()
	p := &PeriodPage{First: first}
	begun, err := s.block(ctx, p.First)
	if err != nil {
		return nil, err
	}
	partition, lo := s.chain.partition([]byte{byte(q.Interval)}), uint64Key(q.Interval.Begin(begun.Time))
	rows, err := s.Scan(ctx, store.FamilyEVMPeriod, partition, lo, nil, store.Ascending, 2)
	if err != nil || len(rows) == 0 {
		return p, err
	}
	oldest, err := parseRunning(rows[0])
	if err != nil {
		return nil, err
	}
	if oldest.Transactions == 0 && len(rows) == 2 {
		if oldest, err = parseRunning(rows[1]); err != nil {
			return nil, err
		}
	}
	// earliest and last are the bounds of what there is and is selected.
	earliest, last := oldest.Start, q.Interval.Begin(s.head.tip.Time)
	if q.From != nil && *q.From > earliest {
		if *q.From > last { // such as one whose interval ends beyond 64 bits
			return p, nil
		}
		if earliest = q.Interval.Begin(*q.From); earliest < *q.From {
			earliest = q.Interval.next(earliest)
		}
	}
	if q.Before != nil {
		if *q.Before == 0 {
			return p, nil
		}
		if *q.Before <= last {
			last = q.Interval.Begin(*q.Before - 1)
		}
	}
	if last < earliest {
		return p, nil
	}
	// The row before the page may hold the totals of its oldest periods.
	rows, err = s.Scan(ctx, store.FamilyEVMPeriod, partition, lo, uint64Key(last+1), store.Descending, q.Limit+1)
	if err != nil {
		return nil, fmt.Errorf("reading periods: %w", err)
	}
	for begin := last; ; begin = q.Interval.previous(begin) {
		if len(p.Periods) == q.Limit {
			p.More = true
			return p, nil
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("%w: no period from %d on", store.ErrCorrupt, earliest)
		}
		one, err := parseRunning(rows[0])
		if err != nil {
			return nil, err
		}
		if one.Start == begin {
			p.Periods, rows = append(p.Periods, one.Period), rows[1:]
		} else {
			p.Periods = append(p.Periods, Period{
				Start: begin, Fees: new(big.Int), GasPrices: new(big.Int), AllTransactions: one.AllTransactions, AllAddresses: one.AllAddresses,
			})
		}
		if begin == earliest {
			return p, nil
		}
	}
}
