package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// movement is a note of a chain for the Matcher: an output was exported, or an exported output arrived.
type movement struct {
	outputID ids.ID
	arrival  bool
}

func (m movement) bytes() []byte {
	w := row.New(ids.IDLen + 2)
	w.Bool(m.arrival)
	w.ID(m.outputID)
	return w.B
}

func parseMovement(v []byte) (movement, error) {
	r := row.Read(v)
	m := movement{arrival: r.Bool(), outputID: r.ID()}
	return m, r.End()
}

// atomicTransfer is an atomic transfer: an output exported by one chain and imported by another.
type atomicTransfer struct {
	output  *Output
	spend   spend
	account account
	id      accountID
}

// events returns the changes of the transfer's account by series. Their rows are separate from those of a chain.
func (p *atomicTransfer) events() map[series][]event {
	made, gone := row.Seconds(p.output.Time), row.Seconds(p.spend.Time)
	// Clocks of two chains differ. The output cannot leave before it is visible.
	seen := max(gone, made)
	number := binary.BigEndian.AppendUint32(nil, p.spend.number)
	one := tallyOf(p.output)
	var sum sums
	sum[p.output.bucketAt(seen)] = one.minus()
	all := map[series][]event{seriesSpent: {{k: eventKey(max(gone, made+1), p.spend.Height, number...), v: sum.bytes()}}}
	for _, ph := range p.output.phases(seen) {
		var sum sums
		sum[ph.from] = one
		sum[ph.to] = one.minus()
		all[seriesUnphase] = append(all[seriesUnphase], event{k: eventKey(ph.at, p.spend.Height, number...), v: sum.bytes()})
	}
	return all
}

// key identifies the row whose existence marks the transfer as indexed.
func (p *atomicTransfer) key() store.PK {
	return store.PK{P: p.id.partition(seriesSpent), K: p.events()[seriesSpent][0].k}
}

// readTransfers returns the transfers among outputs that both left and arrived and have owners. For each transfer,
// indexed reports whether its rows exist.
func readTransfers(ctx context.Context, r store.Reader, networkID uint32, outputs []ids.ID) (found []*atomicTransfer, indexed []bool, err error) {
	keys := make([]store.PK, 0, 2*len(outputs))
	for _, id := range outputs {
		keys = append(keys, outputRow(networkID, id, madeKey), outputRow(networkID, id, spentKey))
	}
	values, err := r.Get(ctx, store.FamilyOutput, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("reading exported outputs: %w", err)
	}
	keys = keys[:0]
	for i, id := range outputs {
		made, spent := values[2*i], values[2*i+1]
		if made == nil || spent == nil {
			continue
		}
		p := &atomicTransfer{}
		if p.output, err = parseOutput(id, made); err != nil {
			return nil, nil, err
		}
		if p.spend, err = parseSpend(spent); err != nil {
			return nil, nil, fmt.Errorf("output %s: %w", id, err)
		}
		var ok bool
		if p.account, _, ok = accountOf(p.output.ChainID, &p.output.Output); !ok || !p.account.atomic() {
			continue
		}
		p.id = p.account.id(networkID)
		found = append(found, p)
		keys = append(keys, p.key())
	}
	if values, err = r.Get(ctx, store.FamilyBalanceEvent, keys); err != nil {
		return nil, nil, fmt.Errorf("reading balance events: %w", err)
	}
	indexed = make([]bool, len(found))
	for i := range found {
		indexed[i] = values[i] != nil
	}
	return found, indexed, nil
}

// readMovements returns the outputs that a chain's notes name, from a height on: all of them, or about limit and the
// rest of the last block. next is the height to continue at; it equals from if there are none.
func readMovements(ctx context.Context, r store.Reader, networkID uint32, chainID ids.ID, from uint64, limit int) (outputs []ids.ID, next uint64, err error) {
	p := row.Network(networkID, chainID[:])
	lo, hi := row.Uint64(from), []byte(nil)
	next = from
	for {
		rows, err := r.Scan(ctx, store.FamilyAtomic, p, lo, hi, store.Ascending, limit)
		if err != nil {
			return nil, 0, fmt.Errorf("reading atomic transfers: %w", err)
		}
		for _, one := range rows {
			m, err := parseMovement(one.V)
			if err == nil && len(one.K) != movementKeySize {
				err = fmt.Errorf("%w: key of %d bytes", store.ErrCorrupt, len(one.K))
			}
			if err != nil {
				return nil, 0, fmt.Errorf("reading atomic transfers: %w", err)
			}
			outputs = append(outputs, m.outputID)
			next = binary.BigEndian.Uint64(one.K) + 1
		}
		if len(rows) < limit {
			return outputs, next, nil
		}
		// Read the rest of the last block.
		lo, hi = store.After(rows[len(rows)-1].K), row.Uint64(next)
	}
}

const movementKeySize = 12

// Matcher indexes atomic transfers. A transfer follows from the blocks of two chains, whose pipelines are independent
// and may run in any order. The Matcher writes a transfer's rows after both pipelines have committed, and is the only
// writer of those rows. The final rows do not depend on the order. Readers include transfers that the Matcher has not
// processed yet, so they never wait for it.
type Matcher struct {
	store     store.Store
	networkID uint32
	log       *slog.Logger
	wake      chan struct{}
	epoch     uint64 // of the fence; used by the goroutine in Run or Settle
	failure   atomic.Pointer[Failure]

	checkpointEvery int
}

// NewMatcher returns the matcher of a network. A nil log discards messages.
func NewMatcher(s store.Store, networkID uint32, log *slog.Logger) *Matcher {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Matcher{
		store: s, networkID: networkID, log: log.With(slog.Uint64("networkID", uint64(networkID))),
		wake: make(chan struct{}, 1), checkpointEvery: checkpointEvery,
	}
}

// Wake notifies the matcher that a pipeline has committed. It does not block.
func (m *Matcher) Wake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

const (
	// matchBatch is the approximate number of notes processed in one commit.
	matchBatch = 1024

	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Failure is why a Matcher does not process notes.
type Failure struct {
	Err   error
	Since time.Time
	// Final reports that the Matcher has ended. Otherwise it retries.
	Final bool
}

// Failure returns why notes are not processed, nil if they are. It is safe for concurrent use.
func (m *Matcher) Failure() *Failure { return m.failure.Load() }

// fail notes a failure, which began with the first of several in a row.
func (m *Matcher) fail(err error, final bool) {
	f := &Failure{Err: err, Since: time.Now(), Final: final}
	if earlier := m.failure.Load(); earlier != nil {
		f.Since = earlier.Since
	}
	m.failure.Store(f)
}

// Run processes notes until ctx ends, and then returns nil. It takes over from another matcher of the same store and
// retries while the store is unavailable. It returns store.ErrFenced if another matcher took over, store.ErrCorrupt or
// store.ErrClosed.
func (m *Matcher) Run(ctx context.Context) error {
	work := m.Settle
	for pause := firstPause; ctx.Err() == nil; {
		err := work(ctx)
		var again <-chan time.Time
		switch {
		case err == nil:
			work, pause = m.settle, firstPause
			m.failure.Store(nil)
		case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrClosed):
			if !errors.Is(err, store.ErrFenced) { // then another one processes them
				m.fail(err, true)
			}
			return fmt.Errorf("matching atomic transfers of network %d: %w", m.networkID, err)
		case ctx.Err() == nil:
			m.fail(err, false)
			m.log.Warn("matching atomic transfers failed; retrying", slog.Any("error", err))
			again = time.After(pause)
			pause = min(2*pause, lastPause)
		}
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-again:
		}
	}
	return nil
}

// Settle processes all current notes once. It must not be called while Run runs.
func (m *Matcher) Settle(ctx context.Context) error {
	if err := m.takeOver(ctx); err != nil {
		return err
	}
	return m.settle(ctx)
}

// fence names the cursor that excludes other matchers. position names the cursor below which a chain's notes are
// processed.
func fence(networkID uint32) string { return fmt.Sprintf("index/%d/passages", networkID) }

func position(networkID uint32, chainID ids.ID) string {
	return fmt.Sprintf("index/%d/passages/%s", networkID, chainID)
}

// isMatcher reports whether a cursor belongs to the Matcher.
func isMatcher(cursor string) bool {
	parts := strings.Split(cursor, "/")
	return len(parts) >= 3 && parts[0] == "index" && parts[2] == "passages"
}

func (m *Matcher) takeOver(ctx context.Context) error {
	was, err := store.ReadCursor(ctx, m.store, fence(m.networkID))
	if err != nil {
		return err
	}
	var batch store.Batch
	batch.Move(fence(m.networkID), was, store.Cursor{Epoch: was.Epoch + 1})
	if err := m.store.Commit(ctx, &batch); err != nil {
		return err
	}
	m.epoch = was.Epoch + 1
	return nil
}

// Behind reports whether so many notes are left that they take several commits.
func (m *Matcher) Behind(ctx context.Context) (bool, error) {
	clocks, err := readClocks(ctx, m.store, m.networkID)
	if err != nil {
		return false, err
	}
	for _, c := range clocks {
		_, outputs, _, err := m.left(ctx, c.chainID)
		if err != nil || len(outputs) >= matchBatch {
			return err == nil, err
		}
	}
	return false, nil
}

// left returns the position of a chain, the outputs that about matchBatch of its next notes name, and the height after them.
func (m *Matcher) left(ctx context.Context, chainID ids.ID) (at store.Cursor, outputs []ids.ID, next uint64, err error) {
	if at, err = store.ReadCursor(ctx, m.store, position(m.networkID, chainID)); err == nil {
		outputs, next, err = readMovements(ctx, m.store, m.networkID, chainID, at.Next, matchBatch)
	}
	return at, outputs, next, err
}

// settle processes all notes of all chains.
func (m *Matcher) settle(ctx context.Context) error {
	clocks, err := readClocks(ctx, m.store, m.networkID)
	if err != nil {
		return err
	}
	for _, c := range clocks {
		for {
			done, err := m.step(ctx, c.chainID)
			if err != nil {
				return err
			}
			if done {
				break
			}
		}
	}
	return nil
}

// step processes some notes of a chain.
func (m *Matcher) step(ctx context.Context, chainID ids.ID) (done bool, err error) {
	at, outputs, next, err := m.left(ctx, chainID)
	if err != nil || len(outputs) == 0 {
		return true, err
	}
	transfers, indexed, err := readTransfers(ctx, m.store, m.networkID, outputs)
	if err != nil {
		return false, err
	}
	var batch store.Batch
	added := make(map[string][]event)
	due := make(map[string][]uint64)
	seen := make(map[ids.ID]bool)
	if err := m.importedActivities(ctx, transfers, &batch); err != nil {
		return false, err
	}
	for i, p := range transfers {
		if indexed[i] || seen[p.output.ID] {
			continue
		}
		seen[p.output.ID] = true
		listOutput(&batch, p.output.placed(m.networkID), p.output, &p.spend)
		if p.account.holding == rights {
			continue
		}
		for s, events := range p.events() {
			partition := p.id.partition(s)
			for _, e := range events {
				batch.Put(store.FamilyBalanceEvent, store.PK{P: partition, K: e.k}, e.v)
				added[string(partition)] = insert(added[string(partition)], e)
			}
			if p.id.checkpoints(p.spend.salt, len(events), m.checkpointEvery) {
				from, err := eventTime(events[0].k)
				if err != nil {
					return false, err
				}
				due[string(partition)] = append(due[string(partition)], from)
			}
		}
	}
	for partition, events := range added {
		if err := amend(ctx, m.store, []byte(partition), events, due[partition], &batch); err != nil {
			return false, err
		}
	}
	batch.Move(fence(m.networkID), store.Cursor{Epoch: m.epoch}, store.Cursor{Epoch: m.epoch})
	batch.Move(position(m.networkID, chainID), at, store.Cursor{Next: next, Epoch: at.Epoch})
	return len(outputs) < matchBatch, m.store.Commit(ctx, &batch)
}

// amend updates the checkpoints of a partition for new events, which may have any times, and adds checkpoints at the
// due times.
func amend(ctx context.Context, r store.Reader, p []byte, events []event, due []uint64, batch *store.Batch) error {
	first, err := eventTime(events[0].k)
	if err != nil {
		return err
	}
	var exist []uint64
	for lo := row.Uint64(first + 1); ; {
		rows, err := r.Scan(ctx, store.FamilyBalanceCheckpoint, p, lo, nil, store.Ascending, scanRows)
		if err != nil {
			return fmt.Errorf("reading balance checkpoints: %w", err)
		}
		for _, one := range rows {
			at, err := eventTime(one.K)
			if err != nil {
				return err
			}
			var sum sums
			if err := sum.addRow(one.V); err != nil {
				return fmt.Errorf("reading balance checkpoints: %w", err)
			}
			if err := sum.addEvents(within(events, nil, one.K)); err != nil {
				return err
			}
			batch.Put(store.FamilyBalanceCheckpoint, store.PK{P: p, K: one.K}, sum.bytes())
			exist = append(exist, at)
		}
		if len(rows) < scanRows {
			break
		}
		lo = store.After(rows[len(rows)-1].K)
	}
	slices.Sort(due)
	for _, at := range slices.Compact(due) {
		if slices.Contains(exist, at) {
			continue
		}
		base, err := lastCheckpoint(ctx, r, p, row.Uint64(at))
		if err != nil {
			return err
		}
		if err := base.sums.addEvents(within(events, nil, base.key)); err != nil {
			return err
		}
		if err := sumEvents(ctx, r, p, base.key, row.Uint64(at), events, &base.sums); err != nil {
			return err
		}
		batch.Put(store.FamilyBalanceCheckpoint, store.PK{P: p, K: row.Uint64(at)}, base.sums.bytes())
	}
	return nil
}

// insert keeps events sorted.
func insert(events []event, e event) []event {
	i, found := slices.BinarySearchFunc(events, e.k, func(e event, k []byte) int { return bytes.Compare(e.k, k) })
	if found {
		events[i] = e
		return events
	}
	return slices.Insert(events, i, e)
}
