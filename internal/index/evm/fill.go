package evm

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/store"
)

// Tracer fetches the blocks of a chain with their call traces. *index.EVMSource implements it.
type Tracer interface {
	// Traced returns between one and n blocks from a height on. It returns node.ErrNoTraces if no node traces these
	// blocks, index.ErrTraces if a single block is available only without traces, and temporary errors.
	Traced(ctx context.Context, from uint64, n int) ([]index.Block[*evm.Block], error)
}

// FillerOptions configures a Filler. Store, NetworkID, BlockchainID and Tracer are required.
type FillerOptions struct {
	Store        store.Store
	NetworkID    uint32
	BlockchainID ids.ID
	Tracer       Tracer
	// Behind reports whether new blocks wait to be indexed, which have priority; nil means never.
	Behind func() bool
	// Log may be nil.
	Log *slog.Logger
}

// Filler adds call traces to blocks that were indexed without them. It begins with the newest such blocks and resumes
// where it stopped. A chain has one Filler at a time: a new one takes over.
type Filler struct {
	store  store.Store
	chain  chainKey
	id     ids.ID
	tracer Tracer
	behind func() bool
	log    *slog.Logger

	// The fields below belong to Run, except those guarded by mu.
	cursor  string
	at      store.Cursor // Next counts blocks that were filled in
	most    int          // blocks per request
	scratch *Projection
	turn    int            // the range tried beside the newest
	lost    []uint64       // blocks to try once more
	failed  map[uint64]int // failures by block

	mu      sync.Mutex
	missing uint64 // guarded by mu
	why     error  // why nothing is filled in; guarded by mu
}

const (
	fillPrefix = "evm-calls/"
	// maxFill is the number of blocks per request.
	maxFill = 32
	// fillBytes is the size of rows above which the next piece is smaller.
	fillBytes = 2 << 20
	// fillAttempts is the number of requests for the traces of one block before the Filler gives up on it. Anyone can
	// create a block whose traces exceed every response limit. A restart of the process tries it again.
	fillAttempts = 10
	// maxLost limits the number of such blocks that are tried again.
	maxLost = 1024

	// Pauses: between checks for work; after failures, growing; and after work, to leave capacity of the node and the
	// store to other work. The last equals the time the work took, multiplied by restBehind while new blocks wait.
	fillIdle      = 5 * time.Second
	firstFillWait = time.Second
	lastFillWait  = 5 * time.Minute
	maxRest       = 10 * time.Second
	restBehind    = 10
)

// NewFiller returns a Filler. It works while Run runs.
func NewFiller(o FillerOptions) *Filler {
	f := &Filler{
		store: o.Store, chain: keyOf(o.NetworkID, o.BlockchainID), id: o.BlockchainID, tracer: o.Tracer, behind: o.Behind, log: o.Log,
		cursor: fmt.Sprintf("%s%d/%s", fillPrefix, o.NetworkID, o.BlockchainID),
		most:   maxFill, scratch: NewProjection(o.NetworkID, o.BlockchainID), failed: make(map[uint64]int),
	}
	if f.behind == nil {
		f.behind = func() bool { return false }
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	return f
}

// Missing returns the number of blocks that lack call traces, as far as Run knows, and the reason why the Filler waits,
// nil if it works.
func (f *Filler) Missing() (blocks uint64, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missing, f.why
}

// Note describes Missing in words, empty if no traces are missing and nothing fails.
func (f *Filler) Note() string {
	switch missing, why := f.Missing(); {
	case missing == 0 && why == nil:
		return ""
	case missing == 0:
		return fmt.Sprintf("missing traces cannot be looked for: %v", why)
	case why != nil:
		return fmt.Sprintf("traces missing for %d blocks, waiting to fill them in: %v", missing, why)
	default:
		return fmt.Sprintf("traces missing for %d blocks, filling them in", missing)
	}
}

// fail notes why nothing is filled in. It reports whether something was before.
func (f *Filler) fail(why error) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, f.why = f.why == nil, why
	return first
}

// note notes what is missing, and that nothing fails.
func (f *Filler) note(missing uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missing, f.why = missing, nil
}

// Run fills in traces until ctx ends, and then returns nil. It waits for unavailable nodes and stores. It returns
// store.ErrFenced if another process took over, and permanent errors of the store.
func (f *Filler) Run(ctx context.Context) error {
	begun := false
	for wait := firstFillWait; ; {
		var did bool
		var err error
		began := time.Now()
		if !begun {
			if err = f.takeOver(ctx); err == nil {
				begun = true
			}
		}
		if begun {
			did, err = f.step(ctx)
		}
		pause := fillIdle
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Run was asked to stop
		case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrCorrupt):
			f.fail(err)
			return fmt.Errorf("filling in call traces of chain %s: %w", f.id, err)
		case err != nil:
			if f.fail(err) {
				f.log.Warn("call traces cannot be filled in at the moment", slog.Any("error", err))
			}
			pause, wait = wait, min(2*wait, lastFillWait)
		case did:
			wait = firstFillWait
			rest := time.Since(began)
			if f.behind() {
				rest *= restBehind
			}
			pause = min(rest, maxRest)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// takeOver fences the previous Filler.
func (f *Filler) takeOver(ctx context.Context) error {
	was, err := store.ReadCursor(ctx, f.store, f.cursor)
	if err != nil {
		return err
	}
	f.lost = nil
	for row, err := range partitionRows(ctx, f.store, f.chain.partition([]byte{untracedLost})) {
		if err != nil {
			return err
		}
		if f.lost = append(f.lost, binary.BigEndian.Uint64(row.K)); len(f.lost) == maxLost {
			break
		}
	}
	f.at = was
	return f.commit(ctx, new(store.Batch), store.Cursor{Next: was.Next, Epoch: was.Epoch + 1})
}

// commit tries once to write a batch. After an error, settle determines whether the batch was written.
func (f *Filler) commit(ctx context.Context, batch *store.Batch, to store.Cursor) error {
	batch.Move(f.cursor, f.at, to)
	err := f.store.Commit(ctx, batch)
	if err == nil {
		f.at = to
	}
	return err
}

// settle determines whether the last commit was written, if it failed.
func (f *Filler) settle(ctx context.Context, r store.Reader) error {
	at, err := store.ReadCursor(ctx, r, f.cursor)
	if err != nil {
		return err
	}
	if at.Epoch != f.at.Epoch {
		return fmt.Errorf("%w: another process fills it in", store.ErrFenced)
	}
	f.at = at
	return nil
}

// step fills in the traces of a few blocks and reports whether there were any.
func (f *Filler) step(ctx context.Context) (did bool, err error) {
	all, err := f.look(ctx)
	if err != nil {
		return false, err
	}
	missing := uint64(0)
	for i := range all {
		missing += all[i].missing()
	}
	if missing == 0 {
		f.note(0)
		if len(f.lost) == 0 {
			return false, nil
		}
		number := f.lost[0]
		if err := f.fill(ctx, span{number, number}, nil); err != nil && !errors.Is(err, index.ErrTraces) {
			return false, err
		}
		f.lost = f.lost[1:]
		f.note(0)
		return true, nil
	}
	if before, _ := f.Missing(); before == 0 {
		f.log.Info("blocks were indexed without call traces, which follow as soon as a node traces them", slog.Uint64("blocks", missing))
		f.note(missing)
	}
	var pending []*gap // newest first
	for i := range slices.Backward(all) {
		g := &all[i]
		switch {
		case g.missing() > 0:
			pending = append(pending, g)
		case g.row && !g.last:
			if err := f.forget(ctx, g); err != nil {
				return false, err
			}
		}
	}
	if n := len(pending) - 1; n > 0 {
		// If the newest range fails, another one may work: try one of them each time.
		pending[1] = pending[1+f.turn%n]
		pending = pending[:2]
		f.turn++
	}
	for _, g := range pending {
		piece := f.piece(g)
		failed := f.fill(ctx, piece, g)
		if failed == nil {
			if missing -= piece.size(); missing == 0 {
				f.log.Info("call traces are complete")
			}
			f.note(missing)
			return true, nil
		}
		var asking *askingError
		if !errors.As(failed, &asking) || ctx.Err() != nil {
			return false, failed
		}
		err = cmp.Or(err, failed)
	}
	return false, err
}

// look reads which blocks lack traces.
func (f *Filler) look(ctx context.Context) ([]gap, error) {
	v, err := f.store.View(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = v.Close() }()
	if err := f.settle(ctx, v); err != nil {
		return nil, err
	}
	h, err := readHead(ctx, v, &f.chain)
	if err != nil || h == nil {
		return nil, err
	}
	if h.chainID != f.id {
		return nil, fmt.Errorf("%w: of %s, not of %s", ErrChain, h.chainID, f.id)
	}
	return gaps(ctx, v, &f.chain, h)
}

// piece returns the part of a range to fill in next: first blocks added at its end, then from the newest block to the
// oldest. The first block of a range therefore lacks traces until the whole range has them.
func (f *Filler) piece(g *gap) span {
	n := uint64(f.most)
	if g.hi < g.to {
		return span{g.hi + 1, min(g.hi+n, g.to)}
	}
	if g.lo-g.from > n {
		return span{g.lo - n, g.lo - 1}
	}
	return span{g.from, g.lo - 1}
}

// forget deletes a filled range. The last range stays, because the Projection may extend it.
func (f *Filler) forget(ctx context.Context, g *gap) error {
	var batch store.Batch
	for _, kind := range []byte{untracedRange, untracedFilled} {
		batch.Delete(store.FamilyEVMUntraced, store.PK{P: f.chain.partition([]byte{kind}), K: uint64Key(g.from)})
	}
	return f.commit(ctx, &batch, f.at)
}

// fill adds the traces of the blocks in a piece of range g, or of a block that was given up before if g is nil.
func (f *Filler) fill(ctx context.Context, piece span, g *gap) error {
	blocks, err := f.fetch(ctx, piece)
	switch {
	case err == nil:
		delete(f.failed, piece.from)
	case ctx.Err() != nil:
		return err
	case errors.Is(err, index.ErrTraces) && g != nil && piece.size() == 1:
		if len(f.failed) >= maxLost {
			clear(f.failed)
		}
		if f.failed[piece.from]++; f.failed[piece.from] < fillAttempts {
			return err
		}
		f.log.Warn("a block stays without call traces, because no node returns them", slog.Uint64("height", piece.from), slog.Any("cause", err))
		delete(f.failed, piece.from)
	default:
		f.most = max(f.most/2, 1)
		return err
	}
	batch := new(store.Batch)
	lost := store.PK{P: f.chain.partition([]byte{untracedLost}), K: uint64Key(piece.from)}
	switch {
	case err != nil:
		batch.Put(store.FamilyEVMUntraced, lost, []byte{version})
	case g == nil:
		batch.Delete(store.FamilyEVMUntraced, lost)
	}
	for _, b := range blocks {
		f.rows(b.Content, batch)
	}
	if g != nil {
		lo, hi := min(g.lo, piece.from), max(g.hi, piece.to)
		batch.Put(store.FamilyEVMUntraced, store.PK{P: f.chain.partition([]byte{untracedFilled}), K: uint64Key(g.from)}, filledBytes(lo, hi))
	}
	if batch.Bytes() > fillBytes {
		f.most = max(f.most/2, 1)
	} else if err == nil {
		f.most = min(2*f.most, maxFill)
	}
	return f.commit(ctx, batch, store.Cursor{Next: f.at.Next + uint64(len(blocks)), Epoch: f.at.Epoch})
}

var errOtherChain = errors.New("the node has another block at this height than the index")

// askingError marks an error of a node rather than of the store.
type askingError struct{ error }

func (e *askingError) Unwrap() error { return e.error }

// fetch fetches all blocks of a piece and checks that they are the indexed ones.
func (f *Filler) fetch(ctx context.Context, piece span) (blocks []index.Block[*evm.Block], err error) {
	for next := piece.from; next <= piece.to; next = piece.from + uint64(len(blocks)) {
		some, err := f.tracer.Traced(ctx, next, int(piece.to-next)+1)
		if err == nil && len(some) == 0 {
			err = fmt.Errorf("%w: no blocks", node.ErrMalformed)
		}
		if err != nil {
			return nil, &askingError{fmt.Errorf("block %d: %w", next, err)}
		}
		blocks = append(blocks, some...)
	}
	keys := make([]store.PK, len(blocks))
	for i := range keys {
		keys[i] = f.chain.blockRow(piece.from + uint64(i))
	}
	indexed, err := f.store.Get(ctx, store.FamilyEVMBlock, keys)
	if err != nil {
		return nil, err
	}
	for i, b := range blocks {
		number := piece.from + uint64(i)
		v, ref := read(indexed[i]), Block{}
		v.block(number, &ref)
		if err := v.End(); err != nil {
			return nil, fmt.Errorf("block %d: %w", number, err)
		}
		switch {
		case b.Content.Number != number || ref.Hash != b.Content.Hash:
			return nil, &askingError{fmt.Errorf("block %d: %w: %s, not %s", number, errOtherChain, b.Content.Hash, ref.Hash)}
		case !b.Content.Traced:
			return nil, &askingError{fmt.Errorf("block %d: %w", number, node.ErrNoTraces)}
		}
	}
	return blocks, nil
}

// rows writes the rows that the Projection would have written if the traces had been known.
func (f *Filler) rows(block *evm.Block, batch *store.Batch) {
	f.scratch.emitters = make(map[common.Address]struct{}) // earlier batches may not have been written
	ref := refOf(block)
	a := &application{Projection: f.scratch, block: block, batch: batch, ref: appendRef(nil, &ref)}
	a.readLogs()
	for i := range block.Transactions {
		tx, at := &block.Transactions[i], place{number: block.Number, major: uint32(i)}
		partition := a.calls(tx, at)
		if partition == nil {
			continue
		}
		transfers := a.transfersOf(i)
		for j := range transfers {
			a.deployedTransfer(&transfers[j], partition, a.moved(tx, &transfers[j]))
		}
	}
}
