package peernode

import (
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

// finish ends the downloads and removes their blocks.
func (s *spool) finish() error {
	err := s.db.Delete(descentsKey) // first: without it the blocks are not missed
	if err == nil {
		err = database.Clear(s.db, 1<<20)
	}
	if err != nil {
		return fmt.Errorf("removing executed blocks of the %s: %w", s.chain, err)
	}
	return nil
}

func blockKey(height uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'b'}, height) }
