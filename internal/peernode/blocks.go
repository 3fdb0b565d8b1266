package peernode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/chain/cchain"
	"quorate/internal/chain/xchain"
)

// ErrNotDownloaded means that blocks of the X- or C-Chain are not there yet.
var ErrNotDownloaded = errors.New("not downloaded from the network yet")

// blocksInterval is the time between two questions for the tip of the X- or C-Chain.
const blocksInterval = 2 * time.Second

// blockStore has the accepted blocks of the X- or C-Chain, which a Node downloads from genesis on. It is safe for
// concurrent use.
//
// Places count them: place 1 has the block at height 0, which is downloaded too, and place 0 has none.
type blockStore struct {
	name    string
	chainID ids.ID
	trusted []ids.ID
	decode  func(b []byte) (chainBlock, error) // with the height in place of the place
	id      func(kept []byte) ids.ID
	progress

	mu sync.RWMutex
	db database.Database // guarded by mu; nil unless the Node runs
}

// newXChain returns the X-Chain. It keeps whole blocks without their envelopes.
func newXChain(chainID ids.ID, trusted []ids.ID) (*blockStore, error) {
	parser, err := xchain.NewParser()
	if err != nil {
		return nil, err
	}
	return &blockStore{
		name: "X-Chain", chainID: chainID, trusted: trusted, progress: progress{first: 1},
		decode: func(b []byte) (chainBlock, error) {
			parsed, err := parser.ParseBlock(b)
			if err != nil {
				return chainBlock{}, fmt.Errorf("reading a block of the X-Chain: %w", err)
			}
			return chainBlock{parsed.ID(), parsed.Parent(), parsed.Height(), b}, nil
		},
		id: func(kept []byte) ids.ID { return hashing.ComputeHash256Array(kept) },
	}, nil
}

// newCChain returns the C-Chain. It keeps what atomic transactions need.
func newCChain(networkID uint32, chainID ids.ID, trusted []ids.ID) *blockStore {
	return &blockStore{
		name: "C-Chain", chainID: chainID, trusted: trusted, progress: progress{first: 1},
		decode: func(b []byte) (chainBlock, error) {
			parsed, err := cchain.ParseBlock(b)
			if err == nil {
				err = parsed.VerifyExtraData(networkID)
			}
			if err != nil {
				return chainBlock{}, err
			}
			kept := binary.BigEndian.AppendUint64(slices.Concat(parsed.ID[:], parsed.ParentID[:]), uint64(parsed.Time.Unix()))
			return chainBlock{parsed.ID, parsed.ParentID, parsed.Height, append(kept, parsed.ExtraData...)}, nil
		},
		id: func(kept []byte) ids.ID { return ids.ID(kept[:ids.IDLen]) },
	}
}

func (c *blockStore) parse(b []byte) (chainBlock, error) {
	parsed, err := c.decode(b)
	if err != nil {
		return chainBlock{}, err
	}
	if parsed.height == 0 {
		// The parent of the X-Chain's first block is a vertex.
		parsed.parentID = ids.Empty
	}
	parsed.height++
	return parsed, nil
}

func (c *blockStore) idOf(kept []byte) ids.ID {
	if len(kept) == 0 {
		return ids.Empty
	}
	return c.id(kept)
}

// lastKey is the key of the number of blocks.
var lastKey = []byte("last")

// LastAccepted implements blockchain.
func (c *blockStore) LastAccepted(context.Context) (ids.ID, uint64, error) {
	b, err := c.db.Get(lastKey)
	if errors.Is(err, database.ErrNotFound) {
		return ids.Empty, 0, nil
	}
	if err == nil && len(b) != 8 {
		err = fmt.Errorf("%d bytes", len(b))
	}
	if err != nil {
		return ids.Empty, 0, fmt.Errorf("reading how many blocks of the %s there are: %w", c.name, err)
	}
	place := binary.BigEndian.Uint64(b)
	id, err := c.BlockID(context.Background(), place)
	return id, place, err
}

// BlockID implements blockchain.
func (c *blockStore) BlockID(_ context.Context, place uint64) (ids.ID, error) {
	if place == 0 {
		return ids.Empty, nil
	}
	kept, err := c.db.Get(blockKey(place))
	if err != nil {
		return ids.Empty, fmt.Errorf("reading block %d of the %s: %w", place-1, c.name, err)
	}
	return c.id(kept), nil
}

// execute implements blockchain. It stores the block.
func (c *blockStore) execute(_ context.Context, place uint64, kept []byte) error {
	batch := c.db.NewBatch()
	err := batch.Put(blockKey(place), kept)
	if err == nil {
		err = batch.Put(lastKey, binary.BigEndian.AppendUint64(nil, place))
	}
	if err == nil {
		err = batch.Write()
	}
	if err != nil {
		return fmt.Errorf("storing block %d of the %s: %w", place-1, c.name, err)
	}
	return nil
}

// open has the blocks be read from a database, until it is called with nil.
func (c *blockStore) open(db database.Database) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db = db
}

// tip returns the height of the last accepted block.
func (c *blockStore) tip() (uint64, error) {
	s := c.Status()
	return s.Height, s.ready(fmt.Errorf("%w: the %s", ErrNotDownloaded, c.name))
}

// at returns what is kept of the block at a height. The error is ErrNotDownloaded if it is not there.
func (c *blockStore) at(height uint64) ([]byte, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.db == nil {
		return nil, fmt.Errorf("%w: the %s is being opened", ErrNotDownloaded, c.name)
	}
	kept, err := c.db.Get(blockKey(height + 1))
	switch {
	case errors.Is(err, database.ErrNotFound):
		return nil, fmt.Errorf("%w: block %d of the %s", ErrNotDownloaded, height, c.name)
	case err != nil:
		return nil, fmt.Errorf("reading block %d of the %s: %w", height, c.name, err)
	}
	return kept, nil
}

// XHeight returns the height of the X-Chain's last accepted block. The error is ErrNotDownloaded if that is not known.
func (n *Node) XHeight() (uint64, error) { return n.x.tip() }

// CHeight returns the height of the C-Chain's last accepted block. The error is ErrNotDownloaded if that is not known.
func (n *Node) CHeight() (uint64, error) { return n.c.tip() }

// XBlock returns the block of the X-Chain at a height, without its envelope. The error is ErrNotDownloaded if it is not there.
func (n *Node) XBlock(height uint64) ([]byte, error) { return n.x.at(height) }

// CBlock returns the block of the C-Chain at a height. The error is ErrNotDownloaded if it is not there.
func (n *Node) CBlock(height uint64) (*cchain.Block, error) {
	kept, err := n.c.at(height)
	if err != nil {
		return nil, err
	}
	b := &cchain.Block{Height: height, ID: ids.ID(kept[:ids.IDLen]), ParentID: ids.ID(kept[ids.IDLen : 2*ids.IDLen])}
	kept = kept[2*ids.IDLen:]
	b.Time, b.ExtraData = time.Unix(int64(binary.BigEndian.Uint64(kept)), 0).UTC(), kept[8:]
	return b, nil
}
