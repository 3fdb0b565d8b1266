package store

import (
	"bytes"
	"context"
	"log/slog"
	"time"
)

const (
	// idleInterval is the time between two checks whether the store became idle, and
	// idleChecks how many checks in a row must find nothing written.
	idleInterval = 10 * time.Second
	idleChecks   = 3
	// compactShare bounds the cost: the store is compacted after 1/compactShare of its
	// bytes were written.
	compactShare = 8
	// compactPiece is how many bytes of the last level one compaction rewrites, and so how
	// long Close may have to wait.
	compactPiece = 64 << 20
)

// Compact merges all levels into the last one, piece by piece. Reads and writes go on
// meanwhile. If ctx ends, the pieces done so far stay compacted.
func (s *Pebble) Compact(ctx context.Context) error {
	bounds, err := s.pieces()
	if err != nil {
		return err
	}
	for i, from := range bounds[:len(bounds)-1] {
		if err := s.compactRange(ctx, from, bounds[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// pieces returns the bounds of the key ranges that Compact rewrites one by one.
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
		if size += table.Size; size > compactPiece && bytes.Compare(first, bounds[len(bounds)-1]) > 0 {
			bounds, size = append(bounds, bytes.Clone(first)), table.Size
		}
	}
	return append(bounds, []byte{0xff}), nil
}

func (s *Pebble) compactRange(ctx context.Context, from, until []byte) error {
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

// compactWhenIdle compacts the store each time bulk writing has stopped, until ctx ends.
// Pebble itself leaves several levels that each page has to read.
func (s *Pebble) compactWhenIdle(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(idleInterval)
	defer ticker.Stop()
	var compacted, last uint64 // FlushedBytes at the last compaction and the last check
	for unchanged := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		stats := s.Stats()
		if unchanged++; stats.FlushedBytes != last {
			unchanged, last = 0, stats.FlushedBytes
		}
		written := stats.FlushedBytes - compacted
		if unchanged < idleChecks || written == 0 || written*compactShare < stats.DiskBytes {
			continue
		}
		if err := s.Compact(ctx); err != nil && ctx.Err() == nil {
			log.Warn("compacting the idle store", "error", err)
		}
		compacted = s.Stats().FlushedBytes
		unchanged, last = 0, compacted
	}
}
