package peernode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
)

// spool keeps blocks that are believed and not executed yet, on disk, because they come from the tip downwards. It
// survives the process, so that what was downloaded is not asked for again.
type spool struct{ db database.Database }

// descent is how far a download has come: the container at the top, and the one that is wanted next, empty if none is.
type descent struct {
	top    ids.ID
	height uint64 // of top
	wanted ids.ID
}

var descentKey = []byte("descent")

const descentSize = 2*ids.IDLen + 8

// descent returns the unfinished download; false if there is none.
func (s *spool) descent() (d descent, ok bool, err error) {
	b, err := s.db.Get(descentKey)
	if errors.Is(err, database.ErrNotFound) {
		return d, false, nil
	}
	if err == nil && len(b) != descentSize {
		err = fmt.Errorf("%d bytes", len(b))
	}
	if err != nil {
		return d, false, fmt.Errorf("reading how far blocks of the P-Chain are downloaded: %w", err)
	}
	copy(d.top[:], b)
	copy(d.wanted[:], b[ids.IDLen:])
	d.height = binary.BigEndian.Uint64(b[2*ids.IDLen:])
	return d, true, nil
}

// put stores blocks by height and how far the download has come, at once.
func (s *spool) put(d descent, blocks map[uint64][]byte) error {
	batch := s.db.NewBatch()
	for height, b := range blocks {
		if err := batch.Put(blockKey(height), b); err != nil {
			return fmt.Errorf("storing a block of the P-Chain: %w", err)
		}
	}
	if err := batch.Put(descentKey, binary.BigEndian.AppendUint64(append(append(make([]byte, 0, descentSize), d.top[:]...), d.wanted[:]...), d.height)); err != nil {
		return fmt.Errorf("storing a block of the P-Chain: %w", err)
	}
	if err := batch.Write(); err != nil {
		return fmt.Errorf("storing blocks of the P-Chain: %w", err)
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
		return nil, fmt.Errorf("reading block %d of the P-Chain: %w", height, err)
	}
	return b, nil
}

// finish ends the download and removes its blocks.
func (s *spool) finish() error {
	err := s.db.Delete(descentKey) // first: without it nobody misses the blocks
	if err == nil {
		err = database.Clear(s.db, 1<<20)
	}
	if err != nil {
		return fmt.Errorf("removing executed blocks of the P-Chain: %w", err)
	}
	return nil
}

func blockKey(height uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'b'}, height) }
