package evmchain

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ava-labs/libevm/common"
)

// Node serves a chain like a node. It stores blocks, receipts and traces on disk as the API
// returns them, about 3 kB a transaction, so that serving them is cheap. Besides the
// Generator it holds about 40 bytes a block and 20 bytes a transaction in memory. Only one
// goroutine at a time may grow it; all other methods are safe for concurrent use.
type Node struct {
	generator *Generator
	file      *os.File
	w         *bufio.Writer // owned by the writer
	size      int64         // owned by the writer
	onGrown   func()        // owned by the writer; nil or called when there are more blocks

	mu     sync.RWMutex
	blocks []place           // guarded by mu, by number
	byHash map[uint64]uint32 // guarded by mu; numbers of blocks by hash prefix
	txs    map[uint64]uint32 // guarded by mu; numbers of blocks by hash prefix of their transactions
	grown  chan struct{}     // guarded by mu; closed when there are more blocks

	faults  atomic.Pointer[Faults]
	answers atomic.Uint64
	buffers sync.Pool // of *[]byte, for answers
	sockets sockets
}

// place is the position of a block's text, receipts and traces in the file, in this order.
type place struct {
	at                     int64
	text, receipts, traces uint32
	txs                    uint32
	settled                uint32 // see Block
}

// NewNode returns a node for the blocks of a new generator; it has the genesis. It stores a
// file in dir, or in the default directory for temporary files if dir is empty. Close removes
// the file.
func NewNode(g *Generator, dir string) (*Node, error) {
	file, err := os.CreateTemp(dir, "evmchain-")
	if err != nil {
		return nil, fmt.Errorf("creating a file for blocks: %w", err)
	}
	n := &Node{
		generator: g, file: file, w: bufio.NewWriterSize(file, 1<<20),
		byHash: make(map[uint64]uint32), txs: make(map[uint64]uint32), grown: make(chan struct{}),
	}
	n.faults.Store(new(Faults))
	b, err := g.Next()
	if err == nil {
		err = n.publish([]*Block{b})
	}
	if err != nil {
		_ = n.Close()
		return nil, err
	}
	return n, nil
}

// Close closes all WebSocket connections and removes the file. No other method may be called
// afterwards.
func (n *Node) Close() error {
	n.sockets.close()
	return errors.Join(n.file.Close(), os.Remove(n.file.Name()))
}

// Generator returns the generator of the chain.
func (n *Node) Generator() *Generator { return n.generator }

// Tip returns the number of the last block.
func (n *Node) Tip() uint64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return uint64(len(n.blocks)) - 1
}

// Has returns whether n has accepted a block.
func (n *Node) Has(hash common.Hash) bool {
	_, err := n.blockOfHash(hash, &Faults{})
	return err == nil
}

// Txs returns the number of transactions up to the last block.
func (n *Node) Txs() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.txs)
}

// OnGrown sets a function that is called whenever blocks become visible. Like Grow, only one goroutine at a time may call
// it.
func (n *Node) OnGrown(f func()) { n.onGrown = f }

// publishBytes is the approximate size of the blocks that become visible at once.
const publishBytes = 1 << 20

// Grow extends the chain by at least the given number of transactions.
func (n *Node) Grow(ctx context.Context, transactions int) error {
	until := n.generator.Txs() + transactions
	var batch []*Block
	size := 0
	for n.generator.Txs() < until {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := n.generator.Next()
		if err != nil {
			return err
		}
		batch = append(batch, b)
		if size += len(b.Text) + len(b.Receipts) + len(b.Traces); size >= publishBytes {
			if err := n.publish(batch); err != nil {
				return err
			}
			batch, size = batch[:0], 0
		}
	}
	return n.publish(batch)
}

// Follow adds a block with the present time at every pace until ctx ends, and then returns nil.
func (n *Node) Follow(ctx context.Context, pace time.Duration) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		n.generator.present(time.Now())
		b, err := n.generator.Next()
		if err == nil {
			err = n.publish([]*Block{b})
		}
		if err != nil {
			return err
		}
	}
}

// publish writes blocks and makes them visible.
func (n *Node) publish(batch []*Block) error {
	if err := n.write(batch); err != nil {
		return err
	}
	if n.onGrown != nil {
		n.onGrown()
	}
	return nil
}

func (n *Node) write(batch []*Block) error {
	places := make([]place, 0, len(batch))
	for _, b := range batch {
		p := place{at: n.size, text: uint32(len(b.Text)), receipts: uint32(len(b.Receipts)), traces: uint32(len(b.Traces)), txs: uint32(len(b.Txs)), settled: uint32(b.settled)}
		for _, part := range [][]byte{b.Text, b.Receipts, b.Traces} {
			if len(part) > math.MaxUint32 {
				return fmt.Errorf("block %d is too large", b.Number)
			}
			if _, err := n.w.Write(part); err != nil {
				return fmt.Errorf("writing blocks: %w", err)
			}
			n.size += int64(len(part))
		}
		places = append(places, p)
	}
	if err := n.w.Flush(); err != nil {
		return fmt.Errorf("writing blocks: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocks = append(n.blocks, places...)
	for _, b := range batch {
		n.byHash[short(b.Hash)] = uint32(b.Number)
		for _, hash := range b.Txs {
			n.txs[short(hash)] = uint32(b.Number)
		}
	}
	close(n.grown)
	n.grown = make(chan struct{})
	return nil
}

func short(h common.Hash) uint64 { return binary.BigEndian.Uint64(h[:]) }

// part is one of the texts that are stored of a block.
type part uint8

const (
	textPart part = iota
	receiptsPart
	tracesPart
)

// appendPart appends a part of a block. The node must have the block.
func (n *Node) appendPart(to []byte, number uint64, what part) ([]byte, error) {
	n.mu.RLock()
	p := n.blocks[number]
	n.mu.RUnlock()
	at, size := p.at, p.text
	switch what {
	case receiptsPart:
		at, size = at+int64(p.text), p.receipts
	case tracesPart:
		at, size = at+int64(p.text)+int64(p.receipts), p.traces
	}
	from := len(to)
	to = append(to, make([]byte, size)...)
	if _, err := n.file.ReadAt(to[from:], at); err != nil {
		return nil, fmt.Errorf("reading block %d: %w", number, err)
	}
	return to, nil
}
