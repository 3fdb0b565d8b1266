package store

import (
	"bytes"
	"context"
	"log/slog"
	"time"
)

const (
	// settleEvery is how often it is looked whether much was written and writing has
	// ceased, and settleQuiet how many looks in a row must have found nothing new.
	settleEvery = 10 * time.Second
	settleQuiet = 3
	// settleShare is the part of the store, one in so many bytes, that must have been
	// written since it was settled for it to be settled again: so doing it never costs much
	// more than what was written.
	settleShare = 8
	// settlePiece is how many bytes of the last level are written again at a time: as long
	// as Close may have to wait.
	settlePiece = 64 << 20
)

// Settle merges what was written into the last level, so that a read has one place to look
// at, not one for each level and for each table in the first. It takes about as long as
// writing half of the store once, waits for nothing that reads or writes, and can be
// ended: what has been merged stays so. The store does so by itself when much was written
// and nothing is any more, which is after chains were caught up with.
func (s *Pebble) Settle(ctx context.Context) error {
	pieces, err := s.pieces()
	if err != nil {
		return err
	}
	for at, from := range pieces[:len(pieces)-1] {
		if err := s.merge(ctx, from, pieces[at+1]); err != nil {
			return err
		}
	}
	return nil
}

// pieces are where parts of the store begin that are rewritten one by one, and its end.
func (s *Pebble) pieces() (bounds [][]byte, err error) {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	levels, err := s.db.SSTables()
	if err != nil {
		return nil, s.wrap(err)
	}
	bounds = append(bounds, []byte{0})
	size := uint64(0)
	for _, table := range levels[len(levels)-1] {
		first := table.Smallest.UserKey
		if size += table.Size; size > settlePiece && bytes.Compare(first, bounds[len(bounds)-1]) > 0 {
			bounds, size = append(bounds, bytes.Clone(first)), table.Size
		}
	}
	return append(bounds, []byte{0xff}), nil
}

func (s *Pebble) merge(ctx context.Context, from, until []byte) error {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.db.Compact(ctx, from, until, false); err != nil {
		return s.wrap(err)
	}
	return nil
}

// settler has a store settled.
type settler struct {
	// stats are how much was written since the store was opened, and how much there is.
	stats  func() (written, all uint64)
	settle func(context.Context) error
	log    *slog.Logger
}

// run settles the store when it is worth while, until ctx ends.
func (s *settler) run(ctx context.Context) {
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	var settled, before uint64 // written then
	quiet := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		written, all := s.stats()
		if quiet++; written != before {
			quiet, before = 0, written
		}
		if quiet < settleQuiet || (written-settled)*settleShare < all || written == settled {
			continue
		}
		begun := time.Now()
		if err := s.settle(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			s.log.Warn("merging what was written", slog.Any("error", err))
		}
		settled, _ = s.stats()
		before, quiet = settled, 0
		s.log.Debug("what was written is merged", slog.Duration("took", time.Since(begun)))
	}
}

func newSettler(s *Pebble, log *slog.Logger) *settler {
	return &settler{
		stats: func() (written, all uint64) {
			stats := s.Stats()
			return stats.FlushedBytes, stats.DiskBytes
		},
		settle: s.Settle,
		log:    log,
	}
}
