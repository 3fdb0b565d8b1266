package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/store"
)

// lane is how far a tenant has come, or the keeping of containers.
type lane[B any] struct {
	tenant string
	apply  func(ctx context.Context, r store.Reader, block *Block[B], batch *store.Batch) error
	name   string       // of the cursor
	cursor store.Cursor // as it is in the store
	mark   mark
	next   uint64 // the height of the next block to apply
}

// mark is the row that goes with a cursor: where the record begins, and which
// block it ends with, so that the next one can be seen to follow.
type mark struct {
	from  uint64
	last  ids.ID
	begun bool // whether there is a last block
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

// takeOver finds out where each tenant stands and raises the epoch of its cursor:
// whoever wrote before can no longer commit.
func (p *Pipeline[B]) takeOver(ctx context.Context) (lanes []*lane[B], err error) {
	err = p.withStore(ctx, "opening the index", func() error {
		var batch store.Batch
		lanes = nil
		for _, tenant := range p.options.Tenants {
			apply := func(ctx context.Context, r store.Reader, block *Block[B], batch *store.Batch) error {
				return tenant.Apply(ctx, r, block.Content, batch)
			}
			l, err := p.lane(ctx, tenant.Name(), apply, &batch)
			if err != nil {
				return err
			}
			lanes = append(lanes, l)
		}
		if p.options.Keep {
			l, err := p.lane(ctx, Containers, p.keep, &batch)
			if err != nil {
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
		if l.mark.from > p.options.Start {
			p.log.Warn("the record does not reach back as far as configured; it would have to be made anew",
				slog.String("tenant", l.tenant), slog.Uint64("from", l.mark.from), slog.Uint64("configured", p.options.Start))
		}
	}
	return lanes, nil
}

// lane reads where a tenant stands, and has a batch take over from there.
func (p *Pipeline[B]) lane(ctx context.Context, tenant string, apply func(context.Context, store.Reader, *Block[B], *store.Batch) error, batch *store.Batch) (*lane[B], error) {
	o := &p.options
	l := &lane[B]{tenant: tenant, apply: apply, name: Cursor(o.NetworkID, o.Chain, tenant)}
	was, err := store.ReadCursor(ctx, o.Store, l.name)
	if err != nil {
		return nil, err
	}
	l.cursor = store.Cursor{Next: was.Next, Epoch: was.Epoch + 1}
	values, err := o.Store.Get(ctx, store.FamilyIndexed, []store.PK{l.key()})
	if err == nil && was.Next == 0 && values[0] == nil { // new, or to begin anew
		l.cursor.Next, l.mark = o.Start, mark{from: o.Start}
	} else if err == nil {
		l.mark, err = parseMark(values[0])
	}
	if err != nil {
		return nil, fmt.Errorf("reading how far %s goes: %w", l.name, err)
	}
	l.next = l.cursor.Next
	batch.Put(store.FamilyIndexed, l.key(), l.mark.bytes())
	batch.Move(l.name, was, l.cursor)
	return l, nil
}

// withStore calls f until the store answers: with success, or with an error that
// trying again does not change.
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

// committer turns blocks into rows and commits them. Only its own goroutine
// touches it.
type committer[B any] struct {
	*Pipeline[B]
	window *window
	lanes  []*lane[B]
	next   uint64 // the height of the next block to come

	batch  store.Batch
	blocks uint64 // applied to the batch
	size   int64  // of those
	timer  *time.Timer
}

func newCommitter[B any](p *Pipeline[B], lanes []*lane[B]) *committer[B] {
	c := &committer[B]{Pipeline: p, lanes: lanes, next: math.MaxUint64}
	for _, l := range lanes {
		c.next = min(c.next, l.next)
	}
	c.window = newWindow(p.options.WindowBytes, c.next)
	return c
}

// from is the first height that all tenants have or will have.
func (c *committer[B]) from() uint64 {
	var from uint64
	for _, l := range c.lanes {
		from = max(from, l.mark.from)
	}
	return from
}

func (c *committer[B]) run(ctx context.Context, queue <-chan *job[B]) error {
	c.timer = time.NewTimer(batchAge)
	defer c.timer.Stop()
	c.timer.Stop()
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
			// Nothing is to come that the batch could wait for.
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

// apply adds blocks to the batch, and commits whenever it is big enough.
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
				return c.stop(ctx, fmt.Errorf("%w: its parent is %s, but block %d is recorded as %s; was the network made anew? Then give its record another place",
					ErrDiscontinuity, b.ParentID, b.Height-1, l.mark.last))
			}
		}
		for _, l := range c.lanes {
			if l.next != b.Height {
				continue
			}
			if err := l.apply(ctx, c.options.Store, b, &c.batch); err != nil {
				return &BlockError{c.options.Chain, b.Height, fmt.Errorf("%s: %w", l.tenant, err)}
			}
			l.next, l.mark.last, l.mark.begun = b.Height+1, b.ID, true
		}
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

func (c *committer[B]) age() time.Duration {
	if c.Status().Lag() > nearTip {
		return batchAge
	}
	return batchAgeAtTip
}

// stop ends the pipeline at the block that comes next; those before are recorded.
func (c *committer[B]) stop(ctx context.Context, err error) error {
	return errors.Join(&BlockError{c.options.Chain, c.next, err}, c.commit(ctx))
}

// commit writes the batch and how far it goes.
func (c *committer[B]) commit(ctx context.Context) error {
	if c.blocks == 0 {
		return nil
	}
	c.timer.Stop()
	for _, l := range c.lanes {
		// A tenant that is ahead has nothing to write, but must not be ours no more.
		c.batch.Move(l.name, l.cursor, store.Cursor{Next: l.next, Epoch: l.cursor.Epoch})
		if l.next != l.cursor.Next {
			c.batch.Put(store.FamilyIndexed, l.key(), l.mark.bytes())
		}
	}
	if err := c.write(ctx); err != nil {
		return err
	}
	for _, l := range c.lanes {
		l.cursor.Next = l.next
	}
	c.window.committed(c.size, c.next)
	c.status.committed(c.next)
	c.batch.Reset()
	c.blocks, c.size = 0, 0
	c.options.Committed(c.next)
	return nil
}

// write commits the batch, once, however often the store fails to answer.
func (c *committer[B]) write(ctx context.Context) error {
	unsure := false
	return c.withStore(ctx, "writing the index", func() error {
		err := c.options.Store.Commit(ctx, &c.batch)
		if unsure && errors.Is(err, store.ErrFenced) {
			// It may have been ourselves who moved the cursor.
			written, readErr := c.written(ctx)
			if written || readErr != nil {
				return readErr
			}
		}
		unsure = true
		return err
	})
}

// written reports whether the cursors are where the batch moves them.
func (c *committer[B]) written(ctx context.Context) (bool, error) {
	for _, l := range c.lanes {
		at, err := store.ReadCursor(ctx, c.options.Store, l.name)
		if err != nil {
			return false, err
		}
		if at != (store.Cursor{Next: l.next, Epoch: l.cursor.Epoch}) {
			return false, nil
		}
	}
	return true, nil
}
