package peernode

import (
	"context"
	"errors"
	"fmt"
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

// blocksInterval is the time between two requests for the tip of the X- or C-Chain.
const blocksInterval = 2 * time.Second

// blockStore stores the accepted blocks of the X- or C-Chain, which a Node downloads from the block at height 0 on. It is safe
// for concurrent use.
type blockStore struct {
	name    string
	chainID ids.ID
	trusted []ids.ID
	read    func(b []byte) (chainBlock, error) // see blockchain.parse
	id      func(kept []byte) ids.ID           // see blockchain.idOf
	progress

	mu     sync.RWMutex
	blocks *spool // guarded by mu; nil unless the Node runs
}

// newXChain returns the X-Chain. It stores whole blocks without their envelopes.
func newXChain(chainID ids.ID, trusted []ids.ID) (*blockStore, error) {
	parser, err := xchain.NewParser()
	if err != nil {
		return nil, err
	}
	return &blockStore{
		name: "X-Chain", chainID: chainID, trusted: trusted,
		read: func(b []byte) (chainBlock, error) {
			parsed, err := parser.ParseBlock(b)
			if err != nil {
				return chainBlock{}, fmt.Errorf("reading a block of the X-Chain: %w", err)
			}
			return chainBlock{parsed.ID(), parsed.Parent(), parsed.Height(), b}, nil
		},
		id: func(kept []byte) ids.ID { return hashing.ComputeHash256Array(kept) },
	}, nil
}

// newCChain returns the C-Chain. It stores what atomic transactions need.
func newCChain(networkID uint32, chainID ids.ID, trusted []ids.ID) *blockStore {
	return &blockStore{
		name: "C-Chain", chainID: chainID, trusted: trusted,
		read: func(b []byte) (chainBlock, error) {
			parsed, err := cchain.ParseBlock(b)
			if err == nil {
				err = parsed.VerifyExtraData(networkID)
			}
			if err != nil {
				return chainBlock{}, err
			}
			return chainBlock{parsed.ID, parsed.ParentID, parsed.Height, parsed.Part()}, nil
		},
		id: func(kept []byte) ids.ID { return ids.ID(kept[:ids.IDLen]) },
	}
}

// open has the blocks be in a database, until it is called with nil.
func (c *blockStore) open(db database.Database) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks = nil
	if db != nil {
		c.blocks = &spool{c.name, db}
	}
}

func (c *blockStore) parse(b []byte) (chainBlock, error) { return c.read(b) }

func (c *blockStore) idOf(kept []byte) ids.ID { return c.id(kept) }

// nextKey is the key of the height after the last block.
var nextKey = []byte("next")

func (c *blockStore) executed(ctx context.Context) (last ids.ID, next uint64, err error) {
	next, err = database.GetUInt64(c.blocks.db, nextKey)
	if errors.Is(err, database.ErrNotFound) {
		return ids.Empty, 0, nil
	}
	if err != nil {
		return ids.Empty, 0, fmt.Errorf("reading how many blocks of the %s are stored: %w", c.name, err)
	}
	last, err = c.BlockID(ctx, next-1)
	return last, next, err
}

// BlockID implements blockchain.
func (c *blockStore) BlockID(_ context.Context, height uint64) (ids.ID, error) {
	kept, err := c.blocks.block(height)
	if err == nil && kept == nil {
		err = database.ErrNotFound
	}
	if err != nil {
		return ids.Empty, err
	}
	return c.id(kept), nil
}

// execute stores the block.
func (c *blockStore) execute(_ context.Context, height uint64, kept []byte) error {
	batch := c.blocks.db.NewBatch()
	err := batch.Put(blockKey(height), kept)
	if err == nil {
		err = database.PutUInt64(batch, nextKey, height+1)
	}
	if err == nil {
		err = batch.Write()
	}
	if err != nil {
		return fmt.Errorf("storing block %d of the %s: %w", height, c.name, err)
	}
	return nil
}

// tip returns the height of the last accepted block.
func (c *blockStore) tip() (uint64, error) {
	s := c.Status()
	return s.Height, s.ready(fmt.Errorf("%w: the %s", ErrNotDownloaded, c.name))
}

// at returns what is stored of the block at a height.
func (c *blockStore) at(height uint64) ([]byte, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.blocks == nil {
		return nil, fmt.Errorf("%w: the %s is being opened", ErrNotDownloaded, c.name)
	}
	kept, err := c.blocks.block(height)
	if err == nil && kept == nil {
		err = fmt.Errorf("%w: block %d of the %s", ErrNotDownloaded, height, c.name)
	}
	return kept, err
}

// XHeight returns the height of the X-Chain's last accepted block. The error is ErrNotDownloaded if that is not known.
func (n *Node) XHeight() (uint64, error) { return n.x.tip() }

// CHeight returns the height of the C-Chain's last accepted block. The error is ErrNotDownloaded if that is not known.
func (n *Node) CHeight() (uint64, error) { return n.c.tip() }

// XBlock returns the block of the X-Chain at a height, without its envelope. The error is ErrNotDownloaded if the block is
// not stored.
func (n *Node) XBlock(height uint64) ([]byte, error) { return n.x.at(height) }

// CBlock returns the block of the C-Chain at a height. The error is ErrNotDownloaded if the block is not stored.
func (n *Node) CBlock(height uint64) (*cchain.Block, error) {
	part, err := n.c.at(height)
	if err != nil {
		return nil, err
	}
	return cchain.ParsePart(height, part)
}
