package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/container"
	"quorate/internal/store"
)

// lane is the progress of one projection, or of container storage.
type lane[B any] struct {
	projection string
	apply      func(ctx context.Context, r store.Reader, block *Block[B], batch *store.Batch) error
	name       string       // name of the cursor
	cursor     store.Cursor // value in the store after the last commit
	mark       mark
	next       uint64 // next height to apply
}

// mark is the row stored beside a cursor. It holds the first indexed height and the ID of the last indexed block, so
// that the next block can be checked to follow it.
type mark struct {
	from  uint64
	last  ids.ID
	begun bool // reports whether there is a last block
}

const markVersion = 1

func (m mark) bytes() []byte {
	b := binary.AppendUvarint([]byte{markVersion}, m.from)
	if m.begun {
		b = append(b, m.last[:]...)
	}
	return b
}

func parseMark(b []byte) (mark, error) {
	if len(b) == 0 || b[0] != markVersion {
		return mark{}, fmt.Errorf("%w: %d bytes, not of version %d", store.ErrCorrupt, len(b), markVersion)
	}
	from, n := binary.Uvarint(b[1:])
	if n <= 0 {
		return mark{}, fmt.Errorf("%w: no height", store.ErrCorrupt)
	}
	m := mark{from: from}
	switch rest := b[1+n:]; len(rest) {
	case 0:
	case len(m.last):
		m.last, m.begun = ids.ID(rest), true
	default:
		return mark{}, fmt.Errorf("%w: %d bytes after the height", store.ErrCorrupt, len(rest))
	}
	return m, nil
}

func (l *lane[B]) key() store.PK { return store.PK{P: []byte(l.name)} }

// start returns the height at which a new projection begins: Options.Start, or a later height if the source lacks
// earlier blocks.
func (p *Pipeline[B]) start(ctx context.Context) (uint64, error) {
	o := &p.options
	source, ok := o.Source.(Beginner)
	if !ok {
		return o.Start, nil
	}
	begins := false
	if err := p.withStore(ctx, "opening the index", func() error {
		for _, t := range o.Projections {
			keys := []store.PK{{P: []byte(Cursor(o.NetworkID, o.Chain, t.Name()))}}
			values, err := o.Store.Get(ctx, store.FamilyIndexed, keys)
			if err != nil {
				return fmt.Errorf("reading where the index begins: %w", err)
			}
			if values[0] == nil {
				begins = true
				continue
			}
			m, err := parseMark(values[0])
			if err != nil {
				return fmt.Errorf("reading where the index begins: %w", err)
			}
			begins = begins || !m.begun
		}
		return nil
	}); err != nil || !begins {
		return o.Start, err
	}
	var first uint64
	err := p.retry(ctx, "looking for the first block that the node has", func() (err error) {
		first, err = source.First(ctx)
		return err
	})
	return max(o.Start, first), err
}

// takeOver reads the position of each projection and raises the epoch of its cursor, so that earlier writers can no
// longer commit. A new projection begins at start.
func (p *Pipeline[B]) takeOver(ctx context.Context, start uint64) (lanes []*lane[B], err error) {
	err = p.withStore(ctx, "opening the index", func() error {
		var batch store.Batch
		lanes = nil
		for _, projection := range p.options.Projections {
			apply := func(ctx context.Context, r store.Reader, block *Block[B], batch *store.Batch) error {
				return projection.Apply(ctx, r, block.Content, batch)
			}
			l, err := p.lane(ctx, projection.Name(), start, apply, &batch)
			if err != nil {
				return err
			}
			lanes = append(lanes, l)
		}
		if p.options.Keep {
			// New container storage begins at the current position: indexed blocks are not fetched again for it.
			start := lanes[0].next
			for _, l := range lanes {
				start = min(start, l.next)
			}
			writer := container.NewWriter(container.Chain{NetworkID: p.options.NetworkID, Name: p.options.Chain})
			l, err := p.lane(ctx, Containers, start, p.keep(writer), &batch)
			if err != nil {
				return err
			}
			if err := writer.Resume(ctx, p.options.Store, l.next); err != nil {
				return err
			}
			lanes = append(lanes, l)
		}
		return p.options.Store.Commit(ctx, &batch)
	})
	if err != nil {
		return nil, err
	}
	for _, l := range lanes {
		if l.projection != Containers && l.mark.from > p.options.Start {
			p.log.Warn("the index begins later than configured; earlier blocks take a node that has them and a new index",
				slog.String("projection", l.projection), slog.Uint64("from", l.mark.from), slog.Uint64("configured", p.options.Start))
		}
	}
	return lanes, nil
}

// lane reads the position of a projection and adds its takeover to a batch. A new projection begins at start.
func (p *Pipeline[B]) lane(ctx context.Context, projection string, start uint64, apply func(context.Context, store.Reader, *Block[B], *store.Batch) error, batch *store.Batch) (*lane[B], error) {
	o := &p.options
	l := &lane[B]{projection: projection, apply: apply, name: Cursor(o.NetworkID, o.Chain, projection)}
	was, err := store.ReadCursor(ctx, o.Store, l.name)
	if err != nil {
		return nil, err
	}
	l.cursor = store.Cursor{Next: was.Next, Epoch: was.Epoch + 1}
	values, err := o.Store.Get(ctx, store.FamilyIndexed, []store.PK{l.key()})
	if err == nil && was.Next == 0 && values[0] == nil { // new or rebuilt
		l.cursor.Next, l.mark = start, mark{from: start}
	} else if err == nil {
		l.mark, err = parseMark(values[0])
		if err == nil && !l.mark.begun && start > l.mark.from { // no block indexed yet
			l.cursor.Next, l.mark = start, mark{from: start}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading how far %s goes: %w", l.name, err)
	}
	l.next = l.cursor.Next
	batch.Put(store.FamilyIndexed, l.key(), l.mark.bytes())
	batch.Move(l.name, was, l.cursor)
	return l, nil
}

// withStore calls f until the store replies, either with success or with a permanent error: store.ErrFenced,
// store.ErrClosed, store.ErrInvalid or store.ErrCorrupt.
func (p *Pipeline[B]) withStore(ctx context.Context, what string, f func() error) error {
	var final error
	err := p.retry(ctx, what, func() error {
		err := f()
		switch {
		case errors.Is(err, store.ErrFenced):
			final = fmt.Errorf("another process has taken over indexing chain %s of network %d in this store: %w",
				p.options.Chain, p.options.NetworkID, err)
		case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrCorrupt):
			final = fmt.Errorf("%s of chain %s: %w", what, p.options.Chain, err)
		default:
			return err
		}
		return nil
	})
	return errors.Join(err, final)
}

// committer turns blocks into rows and commits them. Only its own goroutine accesses it.
type committer[B any] struct {
	*Pipeline[B]
	window *window
	lanes  []*lane[B]
	next   uint64 // height of the next expected block

	batch  *store.Batch
	blocks uint64 // applied to the batch
	size   int64  // bytes of those blocks
	timer  *time.Timer
	// reader is what projections read from.
	reader store.Reader

	// flight is the commit in progress, or nil. spare is the batch that flight does not use. One batch is written while
	// the other one fills.
	flight *flight
	spare  *store.Batch
}

// flight is a batch that is being written to the store.
type flight struct {
	batch *store.Batch
	next  uint64
	size  int64
	to    []store.Cursor // per lane
	// reached is the position of each projection after the write.
	reached map[string]reach
	done    chan error // receives the result
}

// landed returns the channel that receives the result of the write. It blocks forever if f is nil.
func (f *flight) landed() <-chan error {
	if f == nil {
		return nil
	}
	return f.done
}

func newCommitter[B any](p *Pipeline[B], lanes []*lane[B]) *committer[B] {
	c := &committer[B]{Pipeline: p, lanes: lanes, next: math.MaxUint64, batch: new(store.Batch), spare: new(store.Batch)}
	for _, l := range lanes {
		c.next = min(c.next, l.next)
	}
	c.window = newWindow(p.options.WindowBytes, p.options.Room, c.next)
	c.reader = retryReader{p.options.Store, func(ctx context.Context, f func() error) error {
		if f() == nil {
			return nil // withStore would take a microsecond more
		}
		return p.withStore(ctx, "reading the index", f)
	}}
	return c
}

// from returns the first height that all projections have or will have indexed.
func (c *committer[B]) from() uint64 {
	var from uint64
	for _, l := range c.lanes {
		from = max(from, l.mark.from)
	}
	return from
}

// reached returns the position of each projection after the commit in progress.
func (c *committer[B]) reached() map[string]reach {
	at := make(map[string]reach, len(c.lanes))
	for _, l := range c.lanes {
		at[l.projection] = reach{l.mark.from, l.next}
	}
	return at
}

func (c *committer[B]) run(ctx context.Context, queue <-chan *job[B]) (err error) {
	c.timer = time.NewTimer(batchAge)
	defer c.timer.Stop()
	c.timer.Stop()
	defer func() { err = errors.Join(err, c.land()) }()
	var current *job[B]
	for {
		var jobs <-chan *job[B]
		var pieces <-chan piece[B]
		if current == nil {
			jobs = queue
		} else {
			pieces = current.pieces
		}
		if c.blocks > 0 && len(jobs) == 0 && len(pieces) == 0 && (c.atTip() || c.window.full()) {
			// No further blocks can join the batch.
			if err := c.commit(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case current = <-jobs:
		case one, ok := <-pieces:
			if !ok {
				current = nil
				continue
			}
			if err := c.apply(ctx, one); err != nil {
				return err
			}
		case err := <-c.flight.landed():
			if err := c.arrived(err); err != nil {
				return err
			}
		case <-c.window.hungry: // full also reports it
		case <-c.timer.C:
			if err := c.commit(ctx); err != nil {
				return err
			}
		}
	}
}

func (c *committer[B]) atTip() bool {
	now := c.Status()
	return now.TipKnown && c.next > now.Tip
}

// apply adds blocks to the batch and commits the batch whenever it is large enough.
func (c *committer[B]) apply(ctx context.Context, one piece[B]) error {
	if one.err != nil {
		return c.stop(ctx, one.err)
	}
	for i := range one.blocks {
		b := &one.blocks[i]
		if b.Height != c.next {
			return c.stop(ctx, fmt.Errorf("%w: the source gives block %d", ErrDiscontinuity, b.Height))
		}
		for _, l := range c.lanes {
			if l.next != b.Height {
				continue
			}
			if l.mark.begun && l.mark.last != b.ParentID {
				return c.stop(ctx, fmt.Errorf("%w: its parent is %s, but block %d is indexed as %s; if the network was reset, choose another data directory or database",
					ErrDiscontinuity, b.ParentID, b.Height-1, l.mark.last))
			}
		}
		for _, l := range c.lanes {
			if l.next != b.Height {
				continue
			}
			if err := c.applyTo(ctx, l, b); err != nil {
				return &BlockError{c.options.Chain, b.Height, fmt.Errorf("%s: %w", l.projection, err)}
			}
			l.next, l.mark.last, l.mark.begun = b.Height+1, b.ID, true
		}
		// Let requests run: with all processors busy indexing they would wait for time slices of 10 ms.
		runtime.Gosched()
		c.next++
		if c.blocks++; c.blocks == 1 {
			c.timer.Reset(c.age())
		}
		c.size += int64(b.Size)
		if c.batch.Len() >= batchRows || c.batch.Bytes() >= batchBytes || c.size >= c.options.WindowBytes/4 {
			if err := c.commit(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// applyTo adds a block to one lane. While that fails with a RetryError, applyTo commits the preceding blocks and
// reports the cause in the status.
func (c *committer[B]) applyTo(ctx context.Context, l *lane[B], b *Block[B]) error {
	err := l.apply(ctx, c.reader, b, c.batch)
	var passes *RetryError
	if !errors.As(err, &passes) {
		return err
	}
	if err := errors.Join(c.commit(ctx), c.land()); err != nil {
		return err
	}
	var final error
	err = c.retry(ctx, passes.What, func() error {
		var again *RetryError
		if final = l.apply(ctx, c.reader, b, c.batch); errors.As(final, &again) {
			return again.Err
		}
		return nil
	})
	if err != nil {
		return err
	}
	return final
}

func (c *committer[B]) age() time.Duration {
	if c.Status().Lag() > NearTip {
		return batchAge
	}
	return batchAgeAtTip
}

// stop ends the pipeline with err after committing the blocks before the failed one.
func (c *committer[B]) stop(ctx context.Context, err error) error {
	return errors.Join(&BlockError{c.options.Chain, c.next, err}, c.commit(ctx))
}

// commit waits for the commit in progress, then starts writing the batch and its cursors.
func (c *committer[B]) commit(ctx context.Context) error {
	if c.blocks == 0 {
		return nil
	}
	if err := c.land(); err != nil {
		return err
	}
	c.timer.Stop()
	f := &flight{batch: c.batch, next: c.next, size: c.size, done: make(chan error, 1)}
	for _, l := range c.lanes {
		// A projection that is ahead writes no rows, but its cursor must still carry this epoch.
		to := store.Cursor{Next: l.next, Epoch: l.cursor.Epoch}
		f.batch.Move(l.name, l.cursor, to)
		if l.next != l.cursor.Next {
			f.batch.Put(store.FamilyIndexed, l.key(), l.mark.bytes())
		}
		f.to, l.cursor = append(f.to, to), to
	}
	c.putCaughtUp(f.batch)
	f.reached = c.reached()
	c.flight, c.batch, c.spare = f, c.spare, nil
	c.blocks, c.size = 0, 0
	go func() { f.done <- c.write(ctx, f) }() // land waits for it
	return nil
}

// land waits for the commit in progress.
func (c *committer[B]) land() error {
	if c.flight == nil {
		return nil
	}
	return c.arrived(<-c.flight.done)
}

// arrived handles the result of a commit.
func (c *committer[B]) arrived(err error) error {
	f := c.flight
	c.flight = nil
	if err != nil {
		return err
	}
	c.window.committed(f.size, f.next)
	c.status.committed(f.next, f.reached)
	if f.batch.Len() > keptRows && c.atTip() {
		f.batch = new(store.Batch) // later batches are small, and many pipelines may run
	}
	f.batch.Reset()
	c.spare = f.batch
	c.options.Committed(f.next)
	return nil
}

// write commits a batch exactly once, even if the store fails to reply.
func (c *committer[B]) write(ctx context.Context, f *flight) error {
	unsure := false
	return c.withStore(ctx, "writing the index", func() error {
		err := c.options.Store.Commit(ctx, f.batch)
		if unsure && errors.Is(err, store.ErrFenced) {
			// An earlier attempt of this call may have moved the cursor.
			written, readErr := c.written(ctx, f)
			if written || readErr != nil {
				return readErr
			}
		}
		unsure = true
		return err
	})
}

// written reports whether the cursors are at the positions that the batch moves them to.
func (c *committer[B]) written(ctx context.Context, f *flight) (bool, error) {
	for i, l := range c.lanes {
		at, err := store.ReadCursor(ctx, c.options.Store, l.name)
		if err != nil {
			return false, err
		}
		if at != f.to[i] {
			return false, nil
		}
	}
	return true, nil
}
