package peernode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
)

// spool keeps blocks that are believed and not executed yet, on disk, because they come from trusted ones downwards. It
// survives the process, so that what was downloaded is not asked for again.
type spool struct {
	chain string // in errors
	db    database.Database
}

var descentsKey = []byte("descents")

const descentSize = 2*ids.IDLen + 2*8

// descents returns the unfinished downloads.
func (s *spool) descents() (all []*descent, err error) {
	b, err := s.db.Get(descentsKey)
	if errors.Is(err, database.ErrNotFound) {
		return nil, nil
	}
	if err == nil && len(b)%descentSize != 0 {
		err = fmt.Errorf("%d bytes", len(b))
	}
	if err != nil {
		return nil, fmt.Errorf("reading how far blocks of the %s are downloaded: %w", s.chain, err)
	}
	for ; len(b) > 0; b = b[descentSize:] {
		d := &descent{height: binary.BigEndian.Uint64(b[2*ids.IDLen:]), lowest: binary.BigEndian.Uint64(b[2*ids.IDLen+8:])}
		copy(d.top[:], b)
		copy(d.wanted[:], b[ids.IDLen:])
		all = append(all, d)
	}
	return all, nil
}

// put stores blocks by height and how far the downloads have come, at once.
func (s *spool) put(all []*descent, blocks map[uint64][]byte) error {
	batch := s.db.NewBatch()
	for height, b := range blocks {
		if err := batch.Put(blockKey(height), b); err != nil {
			return fmt.Errorf("storing a block of the %s: %w", s.chain, err)
		}
	}
	list := make([]byte, 0, len(all)*descentSize)
	for _, d := range all {
		list = append(append(list, d.top[:]...), d.wanted[:]...)
		list = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(list, d.height), d.lowest)
	}
	err := batch.Put(descentsKey, list)
	if err == nil {
		err = batch.Write()
	}
	if err != nil {
		return fmt.Errorf("storing blocks of the %s: %w", s.chain, err)
	}
	return nil
}

// block returns the block at a height, nil if it is not there.
func (s *spool) block(height uint64) ([]byte, error) {
	b, err := s.db.Get(blockKey(height))
	if errors.Is(err, database.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading block %d of the %s: %w", height, s.chain, err)
	}
	return b, nil
}

const (
	// removeBatch is how many blocks are removed at once. Fewer are not worth a compaction.
	removeBatch = 1 << 14
	// compactAfter is how many blocks are removed until the database is compacted.
	compactAfter = 16 * removeBatch
)

// finish ends the downloads and removes their blocks. If all is set, it also removes other blocks: those of a call that
// did not end, and those of earlier versions. If ctx ends, finish returns an error, and a later call with all removes
// the rest.
func (s *spool) finish(ctx context.Context, executed []*descent, all bool) error {
	err := s.db.Delete(descentsKey) // first: without it the blocks are not missed
	for _, d := range executed {
		if err == nil {
			err = s.remove(ctx, d.keysAfter)
		}
	}
	if err == nil && all {
		err = s.remove(ctx, s.keysAfter)
	}
	if err != nil {
		return fmt.Errorf("removing executed blocks of the %s: %w", s.chain, err)
	}
	return nil
}

// remove deletes keys. keysAfter returns those after last, or the first ones if last is nil, in ascending order. It
// returns fewer than removeBatch only at the end.
//
// A deleted key costs each later iterator a step until LevelDB compacts the tables that have it. remove compacts the
// range of many keys, because LevelDB does not do that by itself while a chain is only followed.
func (s *spool) remove(ctx context.Context, keysAfter func(last []byte) ([][]byte, error)) error {
	var first, last []byte // first since the last compaction
	removed := 0
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		keys, err := keysAfter(last)
		if err != nil {
			return err
		}
		if more = len(keys) == removeBatch; len(keys) > 0 {
			last = keys[len(keys)-1]
			if first == nil {
				first = keys[0]
			}
		}
		batch := s.db.NewBatch()
		for _, key := range keys {
			if err := batch.Delete(key); err != nil {
				return err
			}
		}
		if err := batch.Write(); err != nil {
			return err
		}
		removed += len(keys)
		if removed >= compactAfter || !more && removed >= removeBatch {
			if err := s.db.Compact(first, append(bytes.Clone(last), 0)); err != nil {
				return err
			}
			first, removed = nil, 0
		}
	}
	return nil
}

// keysAfter returns up to removeBatch keys of downloaded blocks. See spool.remove.
func (d *descent) keysAfter(last []byte) (keys [][]byte, _ error) {
	height := d.lowest
	if last != nil {
		height = heightOf(last) + 1
	}
	for ; height <= d.height && len(keys) < removeBatch; height++ {
		keys = append(keys, blockKey(height))
	}
	return keys, nil
}

// keysAfter returns up to removeBatch keys that are stored. See remove.
func (s *spool) keysAfter(last []byte) (keys [][]byte, _ error) {
	it := s.db.NewIteratorWithStart(last) // last itself is deleted
	defer it.Release()
	for len(keys) < removeBatch && it.Next() {
		keys = append(keys, bytes.Clone(it.Key()))
	}
	return keys, it.Error()
}

func blockKey(height uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'b'}, height) }

// heightOf returns the height of a blockKey.
func heightOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }
