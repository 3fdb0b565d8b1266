package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index"
	"quorate/internal/index/internal/recent"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// name is the name of the projection in cursors.
const name = "ledger"

// Form returns the format of the rows of Projection and Matcher. The first version is 1.
func Form() index.Form {
	projection := index.CursorOf(name)
	return index.Form{
		// 2: lists by address. 3: shorter keys, and fewer data about outputs consumed on the chain that created them.
		// 4: stakers and supply in the P-Chain's state, no bonus blocks, checkpoints within the second of Cortina, and
		// pre-Cortina transactions in vertex order. 5: the last activity of addresses; see ErrNoActivity. 6: the rewards of
		// ended delegations before commission, and one copy of what more than 16 own together.
		Name: name, Version: 6, Reads: 4,
		Cursor: func(cursor string) bool { return projection(cursor) || isMatcher(cursor) },
		Families: []store.Family{
			store.FamilyOutput, store.FamilyUnspentByTime, store.FamilySpentByTime, store.FamilyUnspentByAmount, store.FamilySpentByAmount,
			store.FamilyAccount, store.FamilyOwners, store.FamilyBalanceEvent, store.FamilyBalanceCheckpoint, store.FamilyAtomic,
			store.FamilyClock, store.FamilyAsset, store.FamilyStaking, store.FamilyStakingByAddress, store.FamilyDelegation,
			store.FamilyDelegationByNode, store.FamilyDelegationByAddress, store.FamilyValidation, store.FamilyOwned, store.FamilyActivity,
		},
	}
}

var (
	// ErrMissing means that a block refers to something that an earlier block must have created but that is not
	// indexed. The index must begin at genesis.
	ErrMissing = errors.New("not indexed; rebuild the index from genesis")
	// ErrSpent means that a block consumes an output that another transaction consumed before.
	ErrSpent = errors.New("already consumed")
	// ErrTime means that a block's time is before the previous block's time.
	ErrTime = errors.New("time goes backwards")
	// ErrChain means that a block belongs to another chain.
	ErrChain = errors.New("block of another chain")
)

// Sizes of a projection's caches in entries.
const (
	recentOutputs  = 30_000
	recentImports  = 10_000
	recentAccounts = 50_000
	recentStakes   = 5_000
	pendingEvents  = 50_000
)

// Projection indexes the outputs of one chain. Each chain's pipeline has its own Projection. It is the only writer of its rows,
// which follow from the blocks of its chain alone. The Matcher writes the rows that follow from two chains.
//
// Heights, including those before block 0, identify the blocks of a chain. Block times never decrease. The blocks must
// begin with the genesis block.
type Projection struct {
	networkID       uint32
	chainID         ids.ID
	checkpointEvery int

	// begun reports that last and lastTime are those of the previous block.
	begun    bool
	last     uint64
	lastTime uint64

	outputs  *recent.Map[ids.ID, *Output]
	imports  *recent.Map[ids.ID, ids.ID]      // consumers of other chains' outputs
	accounts *recent.Map[accountID, struct{}] // accounts whose rows were written
	stakes   *recent.Map[ids.ID, *Staking]
	nodes    *recent.Map[string, []validation] // started validations, by partition

	// pending are events by partition that may not be committed yet, sorted.
	pending      map[string][]event
	pendingCount int

	// scratch is reused for each block.
	scratch scratch
}

var _ index.Projection[*chain.Block] = (*Projection)(nil)

// NewProjection returns the projection that indexes one chain of a network. It serves one pipeline.
func NewProjection(networkID uint32, chainID ids.ID) *Projection {
	t := &Projection{networkID: networkID, chainID: chainID, checkpointEvery: checkpointEvery}
	t.reset()
	return t
}

// Name implements index.Projection.
func (*Projection) Name() string { return name }

func (t *Projection) reset() {
	t.begun = false
	t.outputs = recent.New[ids.ID, *Output](recentOutputs)
	t.imports = recent.New[ids.ID, ids.ID](recentImports)
	t.accounts = recent.New[accountID, struct{}](recentAccounts)
	t.stakes = recent.New[ids.ID, *Staking](recentStakes)
	t.nodes = recent.New[string, []validation](recentStakes)
	t.pending, t.pendingCount = make(map[string][]event), 0
}

// Apply implements index.Projection. Errors wrap ErrMissing, ErrSpent, ErrTime or ErrChain, or come from the store.
func (t *Projection) Apply(ctx context.Context, r store.Reader, block *chain.Block, batch *store.Batch) error {
	if block.ChainID != t.chainID {
		return fmt.Errorf("%w: got %s, want %s", ErrChain, block.ChainID, t.chainID)
	}
	if err := t.begin(ctx, r, block); err != nil {
		return err
	}
	b := &application{
		Projection: t, r: r, block: block, batch: batch,
		time: row.Seconds(block.Time), salt: binary.BigEndian.Uint64(block.ID[:]),
		scratch: &t.scratch,
	}
	b.scratch.reset()
	if err := b.resolve(ctx); err != nil {
		return err
	}
	for i := range block.Txs {
		if err := b.tx(ctx, &block.Txs[i]); err != nil {
			return fmt.Errorf("transaction %s: %w", block.Txs[i].ID, err)
		}
	}
	if err := b.events(ctx); err != nil {
		return err
	}
	b.activities()
	batch.Put(store.FamilyClock, store.PK{P: row.Network(t.networkID), K: t.chainID[:]}, clock{block.Height, b.time, block.Before}.bytes())
	t.begun, t.last, t.lastTime = true, block.Height, b.time
	return nil
}

// begin ensures that the caches belong to the blocks before this one.
func (t *Projection) begin(ctx context.Context, r store.Reader, block *chain.Block) error {
	full := t.outputs.Full() || t.imports.Full() || t.accounts.Full() || t.stakes.Full() || t.nodes.Full() || t.pendingCount > pendingEvents
	if t.begun && block.Height == t.last+1 && !full {
		return t.inTime(block)
	}
	values, err := r.Get(ctx, store.FamilyClock, []store.PK{{P: row.Network(t.networkID), K: t.chainID[:]}})
	if err != nil {
		return fmt.Errorf("reading the chain's tip: %w", err)
	}
	committed, err := parseClock(values[0])
	if err != nil {
		return err
	}
	if !t.begun || block.Height != t.last+1 {
		// The cached rows may not have been committed.
		t.reset()
		if values[0] != nil && committed.height < block.Height {
			t.lastTime, t.begun = committed.time, true
		}
		return t.inTime(block)
	}
	if values[0] != nil {
		t.outputs.Forget(committed.height)
		t.imports.Forget(committed.height)
		t.accounts.Forget(committed.height)
		t.stakes.Forget(committed.height)
		t.nodes.Forget(committed.height)
		t.forgetEvents(committed.height)
	}
	return t.inTime(block)
}

func (t *Projection) inTime(block *chain.Block) error {
	if t.begun && row.Seconds(block.Time) < t.lastTime {
		return fmt.Errorf("%w: %s after %s", ErrTime, block.Time, row.Unix(t.lastTime))
	}
	return nil
}

func (t *Projection) forgetEvents(committed uint64) {
	if t.pendingCount <= pendingEvents {
		return
	}
	t.pendingCount = 0
	for p, events := range t.pending {
		kept := events[:0]
		for _, e := range events {
			if binary.BigEndian.Uint64(e.k[8:]) > committed {
				kept = append(kept, e)
			}
		}
		if len(kept) == 0 {
			delete(t.pending, p)
			continue
		}
		t.pending[p] = kept
		t.pendingCount += len(kept)
	}
}

// clock is the tip of an indexed chain.
type clock struct {
	height, time uint64
	// before is the number of heights before the chain's block 0.
	before uint64
}

func (c clock) bytes() []byte {
	w := row.New(24)
	w.Number(c.height)
	w.Number(c.time)
	if c.before > 0 {
		w.Number(c.before)
	}
	return w.B
}

// number returns the block number of a height; 0 for heights before block 0.
func (c clock) number(height uint64) uint64 { return height - min(height, c.before) }

// chainClock is the clock of a chain of a network.
type chainClock struct {
	chainID ids.ID
	clock
}

// maxChains is the maximum number of indexed chains of a network.
const maxChains = 64

func readClocks(ctx context.Context, r store.Reader, networkID uint32) ([]chainClock, error) {
	rows, err := store.Scans(ctx, r, clockQuery(networkID))
	if err != nil {
		return nil, fmt.Errorf("reading chain tips: %w", err)
	}
	return parseClocks(rows[0])
}

func clockQuery(networkID uint32) store.Query {
	return store.Query{Family: store.FamilyClock, P: row.Network(networkID), Limit: maxChains}
}

func parseClocks(rows []store.Row) (_ []chainClock, err error) {
	clocks := make([]chainClock, len(rows))
	for i, one := range rows {
		if clocks[i].chainID, err = ids.ToID(one.K); err == nil {
			clocks[i].clock, err = parseClock(one.V)
		}
		if err != nil {
			return nil, fmt.Errorf("reading chain tips: %w: %w", store.ErrCorrupt, err)
		}
	}
	return clocks, nil
}

// parseClock returns the zero clock for a missing row.
func parseClock(v []byte) (c clock, err error) {
	if v == nil {
		return clock{}, nil
	}
	r := row.Read(v)
	c = clock{height: r.Number(), time: r.Number()}
	if r.Len() > 0 {
		c.before = r.Number()
	}
	return c, r.End()
}

// touched is an account series that a block changes.
type touched struct {
	account accountID
	series  series
}

// change is a balance change with the time from which it counts.
type change struct {
	touched
	from uint64
}

// scratch collects the balance changes of a block.
type scratch struct {
	changes []change
	sums    []sums         // sum of each change
	at      map[change]int // indexes in changes
	counts  map[touched]int
	due     []touched
	active  map[ids.ShortID]active // of the owners of the block's outputs
}

// keepScratch is the number of changes above which memory is not reused.
const keepScratch = 1024

func (s *scratch) reset() {
	if s.at == nil || len(s.changes) > keepScratch || len(s.active) > keepScratch {
		*s = scratch{at: make(map[change]int), counts: make(map[touched]int), active: make(map[ids.ShortID]active)}
		return
	}
	s.changes, s.sums, s.due = s.changes[:0], s.sums[:0], s.due[:0]
	clear(s.at)
	clear(s.counts)
	clear(s.active)
}

// application is one block being applied.
type application struct {
	*Projection
	r     store.Reader
	block *chain.Block
	batch *store.Batch
	time  uint64
	salt  uint64

	scratch *scratch
	// inputs, made and movements number the block's inputs, outputs and movements.
	inputs, made, movements uint32
	// arrived are exports of the block that the Matcher has already processed. They occur when an index is rebuilt in
	// place.
	arrived map[ids.ID]bool
}

// resolve reads consumed outputs that are not cached.
func (b *application) resolve(ctx context.Context) error {
	var missing, exported, imported []ids.ID
	var keys []store.PK
	for i := range b.block.Txs {
		for j := range b.block.Txs[i].Made {
			if o := &b.block.Txs[i].Made[j]; o.DestinationID != b.chainID {
				exported = append(exported, o.ID)
			}
		}
		for _, in := range b.block.Txs[i].Consumed {
			if in.SourceChainID != b.chainID {
				imported = append(imported, in.OutputID)
			} else if _, ok := b.outputs.Get(in.OutputID); !ok {
				missing = append(missing, in.OutputID)
			}
		}
	}
	if len(exported) > 0 {
		transfers, indexed, err := readTransfers(ctx, b.r, b.networkID, exported)
		if err != nil {
			return err
		}
		b.arrived = make(map[ids.ID]bool)
		for i, p := range transfers {
			b.arrived[p.output.ID] = indexed[i]
		}
	}
	for _, id := range missing {
		keys = append(keys, outputRow(b.networkID, id, madeKey), outputRow(b.networkID, id, spentKey))
	}
	for _, id := range imported {
		keys = append(keys, outputRow(b.networkID, id, spentKey))
	}
	if len(keys) == 0 {
		return nil
	}
	values, err := b.r.Get(ctx, store.FamilyOutput, keys)
	if err != nil {
		return fmt.Errorf("reading consumed outputs: %w", err)
	}
	for i, id := range missing {
		made, spent := values[2*i], values[2*i+1]
		if made == nil {
			continue // the block itself may create it
		}
		o, err := parseOutput(id, made)
		if err != nil {
			return err
		}
		if o.consumer, err = consumer(id, spent); err != nil {
			return err
		}
		b.outputs.Put(o.ID, o, 0)
	}
	for i, id := range imported {
		by, err := consumer(id, values[2*len(missing)+i])
		if err != nil {
			return err
		}
		if by != ids.Empty {
			b.imports.Put(id, by, 0)
		}
	}
	return nil
}

// consumer returns the consuming transaction in a spend row, or the empty ID without a row.
func consumer(outputID ids.ID, row []byte) (ids.ID, error) {
	if row == nil {
		return ids.Empty, nil
	}
	s, err := parseSpend(row)
	if err != nil {
		return ids.Empty, fmt.Errorf("output %s: %w", outputID, err)
	}
	return s.TxID, nil
}

// consume registers txID as consumer of an output. It fails if another transaction consumed the output before.
// Reapplying a block succeeds.
func (b *application) consume(txID ids.ID, in *chain.Input) (o *Output, err error) {
	var by ids.ID
	if in.SourceChainID == b.chainID {
		var ok bool
		if o, ok = b.outputs.Get(in.OutputID); !ok {
			return nil, ErrMissing
		}
		by, o.consumer = o.consumer, txID
		b.outputs.Put(in.OutputID, o, b.block.Height)
	} else {
		by, _ = b.imports.Get(in.OutputID)
		b.imports.Put(in.OutputID, txID, b.block.Height)
	}
	if by != ids.Empty && by != txID {
		return nil, fmt.Errorf("%w by transaction %s", ErrSpent, by)
	}
	return o, nil
}

func (b *application) tx(ctx context.Context, tx *chain.Tx) error {
	var staking *Staking
	if tx.Staker != nil && !tx.Aborted {
		staking = newStaking(b.block, tx)
	}
	for i := range tx.Consumed {
		in := &tx.Consumed[i]
		s := &spend{
			Spend:   chain.Spend{ChainID: b.chainID, TxID: tx.ID, Height: b.block.Height, Time: b.block.Time},
			arrival: in.SourceChainID != b.chainID, number: b.inputs, salt: b.salt,
		}
		b.inputs++
		o, err := b.consume(tx.ID, in)
		if err != nil {
			return fmt.Errorf("input %d: output %s: %w", i, in.OutputID, err)
		}
		b.batch.Add(store.FamilyOutput, outputRow(b.networkID, in.OutputID, spentKey), s.bytes())
		if s.arrival {
			b.queue(movement{outputID: in.OutputID, arrival: true})
			continue
		}
		b.spend(o, s)
		b.touch(o.Addresses, consumed(b.block.Height, s.number, o.ID))
		if staking != nil {
			staking.involve(o.Addresses)
		}
	}
	for i := range tx.Made {
		if tx.Settled != nil && tx.Made[i].Role == chain.Stake {
			continue // the staking transaction created it
		}
		o := &Output{Output: tx.Made[i], ChainID: b.chainID, Height: b.block.Height, Time: b.block.Time}
		if staking != nil {
			staking.involve(o.Addresses)
			if o.Role == chain.Stake {
				o.StakeStart, o.StakeEnd = tx.Staker.Start, tx.Staker.End
			}
		}
		b.make(o)
		b.touch(o.Addresses, created(b.block.Height, b.inputs, b.made, o.ID))
		b.made++
	}
	if tx.Asset != nil {
		b.batch.Put(store.FamilyAsset, store.PK{P: row.Network(b.networkID, tx.Asset.ID[:])}, assetBytes(tx.Asset))
	}
	if staking != nil {
		if err := b.stake(ctx, staking); err != nil {
			return err
		}
	}
	if tx.Settled != nil {
		return b.settle(ctx, tx)
	}
	return nil
}

// make indexes a new output.
func (b *application) make(o *Output) {
	b.outputs.Put(o.ID, o, o.Height)
	b.batch.Add(store.FamilyOutput, outputRow(b.networkID, o.ID, madeKey), o.bytes())
	if o.DestinationID != b.chainID {
		b.queue(movement{outputID: o.ID})
	}
	at := o.placed(b.networkID)
	if at == nil {
		return
	}
	b.know(o, at.account)
	if !b.arrived[o.ID] {
		listOutput(b.batch, at, o, nil)
	}
	if !o.IsBalance() {
		return
	}
	one := tallyOf(o)
	b.change(at.account, seriesMade, b.time+1, o.bucketAt(b.time), one)
	b.phase(at.account, o, b.time, one)
}

// listOutput adds an output to the lists of its account and its owners.
func listOutput(batch *store.Batch, at *place, o *Output, s *spend) {
	switch {
	case s != nil:
		for _, pk := range at.owned {
			batch.Delete(store.FamilyOwned, pk)
		}
	case o.Role != chain.Stake: // stake outputs are listed when the stake ends
		own(batch, at, o)
	}
	byTime, byAmount := store.PK{P: at.account[:], K: o.timeKey()}, store.PK{P: at.account[:], K: o.amountKey()}
	if s == nil {
		batch.Add(store.FamilyUnspentByTime, byTime, o.listed(false, nil))
		batch.Add(store.FamilyUnspentByAmount, byAmount, o.listed(true, nil))
		return
	}
	batch.Delete(store.FamilyUnspentByTime, byTime)
	batch.Delete(store.FamilyUnspentByAmount, byAmount)
	batch.Add(store.FamilySpentByTime, byTime, o.listed(false, s))
	batch.Add(store.FamilySpentByAmount, byAmount, o.listed(true, s))
}

// relist rewrites an unspent output's rows in the lists of its account.
func relist(batch *store.Batch, at *place, o *Output) {
	batch.Put(store.FamilyUnspentByTime, store.PK{P: at.account[:], K: o.timeKey()}, o.listed(false, nil))
	batch.Put(store.FamilyUnspentByAmount, store.PK{P: at.account[:], K: o.amountKey()}, o.listed(true, nil))
}

// own adds an output to the lists of its owners.
func own(batch *store.Batch, at *place, o *Output) {
	for _, pk := range at.owned {
		batch.Add(store.FamilyOwned, pk, o.owned(at))
	}
}

// spend indexes the consumption of an output on the chain that created it.
func (b *application) spend(o *Output, s *spend) {
	at := o.placed(b.networkID)
	if at == nil {
		return
	}
	listOutput(b.batch, at, o, s)
	if !o.IsBalance() {
		return
	}
	made, gone := row.Seconds(o.Time), tallyOf(o).minus()
	b.change(at.account, seriesMade, b.goneFrom(made), o.bucketAt(b.time), gone)
	b.phase(at.account, o, b.time, gone)
}

// queue writes a note for the Matcher.
func (b *application) queue(m movement) {
	b.batch.Put(store.FamilyAtomic, store.PK{
		P: row.Network(b.networkID, b.chainID[:]),
		K: binary.BigEndian.AppendUint32(row.Uint64(b.block.Height), b.movements),
	}, m.bytes())
	b.movements++
}

// know writes the rows that lead to an output's account.
func (b *application) know(o *Output, id accountID) {
	if _, ok := b.accounts.Get(id); ok {
		return
	}
	b.accounts.Put(id, struct{}{}, b.block.Height)
	a, g, _ := accountOf(o.ChainID, &o.Output)
	a.paths(b.networkID, &g, b.batch.Put)
}

// change adds a balance change that counts from a time on.
func (b *application) change(id accountID, s series, from uint64, bucket Bucket, by tally) {
	c := change{touched{id, s}, from}
	at, ok := b.scratch.at[c]
	if !ok {
		at = len(b.scratch.changes)
		b.scratch.at[c] = at
		b.scratch.changes = append(b.scratch.changes, c)
		b.scratch.sums = append(b.scratch.sums, sums{})
	}
	sum := &b.scratch.sums[at]
	sum[bucket] = sum[bucket].plus(by)
}

// phase adds the output's changes of bucket after a time.
func (b *application) phase(id accountID, o *Output, after uint64, by tally) {
	for _, p := range o.phases(after) {
		b.change(id, seriesPhases, p.at, p.from, by.minus())
		b.change(id, seriesPhases, p.at, p.to, by)
	}
}

// events writes the block's balance changes and the checkpoints that are due.
func (b *application) events(ctx context.Context) error {
	now := b.scratch
	for i := range now.changes {
		at, sum := &now.changes[i], &now.sums[i]
		if *sum == (sums{}) {
			continue
		}
		p := at.account.partition(at.series)
		e := event{k: eventKey(at.from, b.block.Height), v: sum.bytes()}
		b.batch.Add(store.FamilyBalanceEvent, store.PK{P: p, K: e.k}, e.v)
		b.pending[string(p)] = insert(b.pending[string(p)], e)
		b.pendingCount++
		if now.counts[at.touched]++; now.counts[at.touched] == 1 {
			now.due = append(now.due, at.touched)
		}
	}
	for _, in := range now.due {
		if !in.account.checkpoints(b.salt, now.counts[in], b.checkpointEvery) {
			continue
		}
		p, key := in.account.partition(in.series), b.known()
		sum, err := sumBefore(ctx, b.r, p, key, b.pending[string(p)])
		if err != nil {
			return err
		}
		b.batch.Put(store.FamilyBalanceCheckpoint, store.PK{P: p, K: key}, sum.bytes())
	}
	return nil
}

// atCortina reports whether the block has the time of the chain's block 0, which all earlier ledger blocks share.
func (b *application) atCortina() bool {
	return b.block.Before > 0 && b.time == row.Seconds(b.block.Cortina)
}

// known returns the key below which no later block adds events. The key is the block's time, or at Cortina the next
// second with the block's height.
func (b *application) known() []byte {
	if b.atCortina() {
		return eventKey(b.time+1, b.block.Height)
	}
	return row.Uint64(b.time)
}

// goneFrom returns the time from which an output created at a time no longer counts if the block consumes it. At
// Cortina all events count from the next second on, so that events are ordered by block.
func (b *application) goneFrom(made uint64) uint64 {
	if b.atCortina() {
		made = max(made, b.time)
	}
	return max(b.time, made+1)
}

func assetBytes(a *chain.Asset) []byte {
	w := row.New(16 + len(a.Name) + len(a.Symbol))
	w.Bytes([]byte(a.Name))
	w.Bytes([]byte(a.Symbol))
	w.Byte(a.Denomination)
	return w.B
}

func parseAsset(id ids.ID, v []byte) (*chain.Asset, error) {
	r := row.Read(v)
	a := &chain.Asset{ID: id, Name: string(r.Bytes()), Symbol: string(r.Bytes()), Denomination: r.Byte()}
	return a, r.End()
}
