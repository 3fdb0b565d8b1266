package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// ErrContent means that the destination has rows that do not belong to the copy.
var ErrContent = errors.New("store has other content")

// CopyStep is a step of a copy.
type CopyStep int

// The steps of a copy, in order. Each reads all rows once.
const (
	Counting CopyStep = iota
	Copying
	Comparing
)

// CopyProgress is the progress of a copy.
type CopyProgress struct {
	Step CopyStep
	// Rows and Bytes count the finished rows and the bytes of their keys and values, TotalRows and TotalBytes all of
	// them. The totals are 0 while they are counted. All include rows that an earlier attempt copied.
	Rows, Bytes, TotalRows, TotalBytes uint64
}

// unfinished replaces the format of a store during a copy into it, so that other processes refuse to open it. See
// PebbleOptions.Unfinished.
const unfinished = "copying"

var (
	copyKey    = PK{P: []byte("copy")}
	copyCursor = "copy"
)

// Copy copies all rows and then compares the dumps of both stores. The source should be a View of a store without
// writers. The destination must be empty, or hold part of an earlier copy of the same source, which Copy then resumes.
// No other process can open the destination until the copy is complete. Copy calls tell after each page, and last before it
// completes the copy, unless they are nil. After an error of last the copy is not complete.
//
// It returns ErrContent if the destination has other rows or the source has changed since the copy began, and ErrFenced
// if another process copies into the destination.
func Copy(ctx context.Context, from Reader, to Store, tell func(CopyProgress), last func() error) error {
	if tell == nil {
		tell = func(CopyProgress) {}
	}
	c := &copier{from: from, to: to, tell: tell}
	var err error
	if c.fingerprint, err = fingerprint(ctx, from); err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	if err := c.count(ctx); err != nil {
		return fmt.Errorf("counting rows: %w", err)
	}
	if err := c.run(ctx); err != nil {
		return err
	}
	if err := c.compare(ctx); err != nil {
		return err
	}
	if last != nil {
		if err := last(); err != nil {
			return err
		}
	}
	return c.end(ctx)
}

type copier struct {
	from        Reader
	to          Store
	tell        func(CopyProgress)
	fingerprint [sha256.Size]byte
	now         CopyProgress

	cursor Cursor // current value in the destination
	// at is the last copied row, of family; family is 0 if there is none.
	family Family
	at     PK
}

// fingerprint returns a hash of the cursors and facts of a store, which changes with every indexed block.
func fingerprint(ctx context.Context, r Reader) ([sha256.Size]byte, error) {
	digest := sha256.New()
	for _, family := range []Family{FamilyMeta, FamilyCursor, FamilyIndexed} {
		for record, err := range Rows(ctx, r, family) {
			if err != nil {
				return [sha256.Size]byte{}, err
			}
			for _, part := range [...][]byte{{byte(family)}, record.P, record.K, record.V} {
				digest.Write(binary.AppendUvarint(nil, uint64(len(part))))
				digest.Write(part)
			}
		}
	}
	return [sha256.Size]byte(digest.Sum(nil)), nil
}

// begin takes over the destination, which is empty or holds an earlier copy.
func (c *copier) begin(ctx context.Context) error {
	values, err := c.to.Get(ctx, FamilyMeta, []PK{formatKey, copyKey})
	if err != nil {
		return fmt.Errorf("reading the destination: %w", err)
	}
	if c.cursor, err = ReadCursor(ctx, c.to, copyCursor); err != nil {
		return err
	}
	if string(values[0]) == unfinished {
		if err := c.resume(values[1]); err != nil {
			return err
		}
	} else if err := c.requireEmpty(ctx); err != nil {
		return err
	}
	var b Batch
	b.Put(FamilyMeta, formatKey, []byte(unfinished))
	return c.commit(ctx, &b, Cursor{Next: c.cursor.Next, Epoch: c.cursor.Epoch + 1})
}

func (c *copier) requireEmpty(ctx context.Context) error {
	for _, family := range Families() {
		rows, err := c.to.Walk(ctx, family, nil, 2)
		if err != nil {
			return fmt.Errorf("reading the destination: %w", err)
		}
		for _, row := range rows {
			if family != FamilyMeta || row.compare(formatKey) != 0 {
				return fmt.Errorf("%w: the destination must be empty but its family %s has rows: name another database, schema or folder", ErrContent, family)
			}
		}
	}
	return nil
}

// resume continues an earlier copy.
func (c *copier) resume(note []byte) error {
	rest, ok := bytes.CutPrefix(note, c.fingerprint[:])
	if !ok {
		return fmt.Errorf("%w: the destination holds part of a copy of another source, or of this source before it changed: empty the destination and start again while nothing writes to the source", ErrContent)
	}
	if len(rest) < 1 {
		return fmt.Errorf("%w: state of a copy", ErrCorrupt)
	}
	c.family, rest = Family(rest[0]), rest[1:]
	n, m := binary.Uvarint(rest)
	if m <= 0 || n > uint64(len(rest)-m) {
		return fmt.Errorf("%w: state of a copy", ErrCorrupt)
	}
	c.at = PK{P: rest[m : m+int(n)], K: rest[m+int(n):]}
	return nil
}

// commit writes rows and the position after them, unless another copy has begun.
func (c *copier) commit(ctx context.Context, b *Batch, to Cursor) error {
	note := append(bytes.Clone(c.fingerprint[:]), byte(c.family))
	note = binary.AppendUvarint(note, uint64(len(c.at.P)))
	note = append(append(note, c.at.P...), c.at.K...)
	b.Put(FamilyMeta, copyKey, note)
	b.Move(copyCursor, c.cursor, to)
	b.NoSync = true // the last batch makes all durable; lost rows are copied again
	for attempt := 0; ; attempt++ {
		err := c.to.Commit(ctx, b)
		if errors.Is(err, ErrFenced) && attempt > 0 {
			if at, readErr := ReadCursor(ctx, c.to, copyCursor); readErr == nil && at == to {
				err = nil // the write succeeded but its reply was lost
			}
		}
		switch {
		case err == nil:
			c.cursor = to
			return nil
		case errors.Is(err, ErrFenced):
			return fmt.Errorf("another process copies into the destination: %w", err)
		case !errors.Is(err, ErrUnavailable) || attempt == copyAttempts:
			return fmt.Errorf("writing to the destination: %w", err)
		}
		if err := sleep(ctx, 6+attempt); err != nil {
			return err
		}
	}
}

const (
	// copyAttempts is the number of attempts, one per second, while a server is unavailable.
	copyAttempts = 60
	// copyPage is the number of rows per read, unless rows are large.
	copyPage = 4096
)

// page is the result of one read.
type page struct {
	family  Family
	records []Entry
	bytes   uint64
}

// pages reads all rows after a row, family by family.
func pages(ctx context.Context, r Reader, family Family, after *PK, yield func(page) error) error {
	limit := copyPage
	for _, f := range Families() {
		if f < family {
			continue
		}
		if f != family {
			after = nil
		}
		for {
			records, err := r.Walk(ctx, f, after, limit)
			if err != nil {
				return err
			}
			if len(records) == 0 {
				break
			}
			whole := len(records) < limit
			p := page{family: f, records: records}
			for i := range records {
				p.bytes += uint64(len(records[i].P) + len(records[i].K) + len(records[i].V))
			}
			limit = max(1, min(copyPage, len(records)*pieceBytes/int(p.bytes+1)))
			after = &records[len(records)-1].PK
			if err := yield(p); err != nil {
				return err
			}
			if whole {
				break
			}
		}
	}
	return nil
}

// count counts all rows and those that an earlier attempt copied.
func (c *copier) count(ctx context.Context) error {
	var done CopyProgress
	err := pages(ctx, c.from, 0, nil, func(p page) error {
		c.now.Rows += uint64(len(p.records))
		c.now.Bytes += p.bytes
		if last := p.records[len(p.records)-1].PK; p.family < c.family || p.family == c.family && last.compare(c.at) <= 0 {
			done = c.now // except part of a page
		}
		c.tell(c.now)
		return nil
	})
	c.now = CopyProgress{Step: Copying, Rows: done.Rows, Bytes: done.Bytes, TotalRows: c.now.Rows, TotalBytes: c.now.Bytes}
	return err
}

// run copies. It reads a page while the preceding one is written.
func (c *copier) run(ctx context.Context) error {
	read := make(chan page, 1)
	family, after := c.family, &c.at
	if family == 0 {
		after = nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(read)
		err := pages(ctx, c.from, family, after, func(p page) error {
			select {
			case read <- p:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			return fmt.Errorf("reading the source: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		var b Batch
		for p := range read {
			b.Reset()
			for i := range p.records {
				if r := &p.records[i]; p.family != FamilyMeta || r.compare(formatKey) != 0 {
					b.Add(p.family, r.PK, r.V)
				}
			}
			c.family, c.at = p.family, p.records[len(p.records)-1].PK
			if err := c.commit(ctx, &b, Cursor{Next: c.cursor.Next + uint64(len(p.records)), Epoch: c.cursor.Epoch}); err != nil {
				return err
			}
			c.now.Rows, c.now.Bytes = min(c.now.Rows+uint64(len(p.records)), c.now.TotalRows), min(c.now.Bytes+p.bytes, c.now.TotalBytes)
			c.tell(c.now)
		}
		return ctx.Err()
	})
	return group.Wait()
}

// compare returns ErrContent if the stores differ.
func (c *copier) compare(ctx context.Context) error {
	c.now = CopyProgress{Step: Comparing, TotalRows: c.now.TotalRows, TotalBytes: c.now.TotalBytes}
	var sums [2][sha256.Size]byte
	group, groupCtx := errgroup.WithContext(ctx)
	for i, r := range []Reader{c.from, c.to} {
		group.Go(func() error {
			digest := sha256.New()
			var buf []byte
			err := pages(groupCtx, r, 0, nil, func(p page) error {
				for j := range p.records {
					r := &p.records[j]
					if p.family == FamilyMeta && (r.compare(formatKey) == 0 || r.compare(copyKey) == 0) ||
						p.family == FamilyCursor && string(r.P) == copyCursor && len(r.K) == 0 {
						continue
					}
					buf = append(buf[:0], byte(p.family))
					for _, part := range [...][]byte{r.P, r.K, r.V} {
						buf = append(binary.AppendUvarint(buf, uint64(len(part))), part...)
					}
					digest.Write(buf)
				}
				if i == 0 {
					c.now.Rows, c.now.Bytes = c.now.Rows+uint64(len(p.records)), c.now.Bytes+p.bytes
					c.tell(c.now)
				}
				return nil
			})
			sums[i] = [sha256.Size]byte(digest.Sum(nil))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("comparing source and destination: %w", err)
	}
	if sums[0] != sums[1] {
		return fmt.Errorf("%w: source and destination differ after the copy: stop all processes that write to either, empty the destination and start again", ErrContent)
	}
	return nil
}

// end completes the copy, so that other processes can open the destination.
func (c *copier) end(ctx context.Context) error {
	at, err := ReadCursor(ctx, c.to, copyCursor)
	if err != nil {
		return err
	}
	if at != c.cursor {
		return fmt.Errorf("another process copies into the destination: %w", ErrFenced)
	}
	var b Batch
	b.Delete(FamilyMeta, copyKey)
	b.Delete(FamilyCursor, PK{P: []byte(copyCursor)})
	b.Put(FamilyMeta, formatKey, fmt.Append(nil, Format))
	if err := c.to.Commit(ctx, &b); err != nil {
		return fmt.Errorf("finishing the copy: %w", err)
	}
	return nil
}
