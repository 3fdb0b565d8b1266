package index

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/container"
	"quorate/internal/store"
)

// Containers replaces the projection's name in the cursor of container storage. See Cursor.
const Containers = "containers"

// ContainersUntil returns the range of a chain's stored containers: from the first height until, not including, the second.
// Both are 0 if no containers are stored.
func ContainersUntil(ctx context.Context, r store.Reader, networkID uint32, chain string) (from, until uint64, err error) {
	name := Cursor(networkID, chain, Containers)
	at, err := store.ReadCursor(ctx, r, name)
	if err != nil || at.Next == 0 {
		return 0, 0, err
	}
	m, err := readMark(ctx, r, name)
	return m.from, at.Next, err
}

// Indexed returns the range of blocks that a projection has indexed, from one height until, not including, another, and
// the ID of the last block. Both heights are equal if there are none.
func Indexed(ctx context.Context, r store.Reader, networkID uint32, chain, projection string) (from, until uint64, last ids.ID, err error) {
	name := Cursor(networkID, chain, projection)
	at, err := store.ReadCursor(ctx, r, name)
	if err != nil || at.Next == 0 {
		return 0, 0, ids.Empty, err
	}
	m, err := readMark(ctx, r, name)
	if err != nil || !m.begun {
		return 0, 0, ids.Empty, err
	}
	return m.from, at.Next, m.last, nil
}

func readMark(ctx context.Context, r store.Reader, name string) (mark, error) {
	values, err := r.Get(ctx, store.FamilyIndexed, []store.PK{{P: []byte(name)}})
	if err != nil {
		return mark{}, fmt.Errorf("reading how far %s goes: %w", name, err)
	}
	return parseMark(values[0])
}

// keep returns a function that writes the containers of blocks.
func (p *Pipeline[B]) keep(writer *container.Writer) func(_ context.Context, _ store.Reader, block *Block[B], batch *store.Batch) error {
	return func(_ context.Context, _ store.Reader, block *Block[B], batch *store.Batch) error {
		if block.Container.Form == 0 {
			return fmt.Errorf("%w: the source gives no container", ErrUnreadable)
		}
		one := block.Container
		one.Kept = p.options.Now()
		writer.Put(batch, &one)
		return nil
	}
}

// source returns the source of blocks from next on. For projections that are rebuilt, stored containers come from the
// store. stored is the first height that is not stored, or 0 if no block comes from the store.
func (p *Pipeline[B]) source(ctx context.Context, next uint64) (from Source[B], stored uint64, err error) {
	o := &p.options
	keeper, ok := o.Source.(ContainerSource[B])
	if !ok {
		return o.Source, 0, nil
	}
	var first uint64
	if err := p.withStore(ctx, "looking for containers", func() (err error) {
		first, stored, err = ContainersUntil(ctx, o.Store, o.NetworkID, o.Chain)
		return err
	}); err != nil {
		return nil, 0, err
	}
	if next < first || next >= stored {
		return o.Source, 0, nil
	}
	p.log.Info("rebuilding an index from stored containers", slog.Uint64("from", next), slog.Uint64("storedUntil", stored))
	return &again[B]{
		ContainerSource: keeper, stored: stored, store: o.Store, log: p.log,
		chain: container.Chain{NetworkID: o.NetworkID, Name: o.Chain},
	}, stored, nil
}

// again is a source that reads stored blocks first and fetches the following blocks from a node. It calls no node while
// stored blocks remain.
type again[B any] struct {
	ContainerSource[B]
	chain  container.Chain
	store  store.Store
	log    *slog.Logger
	stored uint64        // the first height that is not stored
	given  atomic.Uint64 // the height after the last returned block
}

// local reports whether stored blocks remain.
func (a *again[B]) local() bool { return a.given.Load() < a.stored }

// Tip implements Source. While stored blocks remain, it returns the last of them.
func (a *again[B]) Tip(ctx context.Context) (uint64, error) {
	if a.local() {
		return a.stored - 1, nil
	}
	return a.ContainerSource.Tip(ctx)
}

// Fetch implements Source.
func (a *again[B]) Fetch(ctx context.Context, from uint64, n int) ([]Block[B], error) {
	if from >= a.stored {
		return a.ContainerSource.Fetch(ctx, from, n)
	}
	blocks, err := a.read(ctx, from, min(n, int(a.stored-from)))
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		a.log.Warn("a stored block cannot be read; asking a node for it", slog.Uint64("height", from), slog.Any("error", err))
		if blocks, err = a.ContainerSource.Fetch(ctx, from, 1); err != nil {
			return nil, err
		}
	}
	for end := from + uint64(len(blocks)); ; {
		given := a.given.Load()
		if given >= end || a.given.CompareAndSwap(given, end) {
			return blocks, nil
		}
	}
}

func (a *again[B]) read(ctx context.Context, from uint64, n int) ([]Block[B], error) {
	found, err := a.chain.Range(ctx, a.store, from, n)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: %d", container.ErrMissing, from)
	}
	if err != nil {
		return nil, err
	}
	blocks := make([]Block[B], 0, len(found))
	for i := range found {
		runtime.Gosched() // lets requests run, as committer.apply does
		b, err := a.Again(ctx, found[i])
		if err != nil {
			return before(blocks, err)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}
