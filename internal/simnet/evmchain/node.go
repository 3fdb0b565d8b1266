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

// Node is a node's record of a chain: it keeps blocks, receipts and traces as it
// tells them, ready made on disk, so that telling them costs next to nothing: about
// 3 kB a transaction. In memory are about 40 bytes a block and 20 a transaction beside
// what the Generator has there. Its growth is in the hands of one goroutine at a
// time; the rest is safe for concurrent use.
type Node struct {
	generator *Generator
	file      *os.File
	w         *bufio.Writer // the writer's alone
	size      int64         // the writer's alone

	mu     sync.RWMutex
	blocks []place           // guarded by mu, by number
	byHash map[uint64]uint32 // guarded by mu; numbers of blocks by the first bytes of their hashes
	txs    map[uint64]uint32 // guarded by mu; the same of transactions
	grown  chan struct{}     // guarded by mu; closed when there are more blocks

	faults  atomic.Pointer[Faults]
	answers atomic.Uint64
	buffers sync.Pool // of *[]byte, for answers
	sockets sockets
}

// place is where a block is in the file: its text, receipts and traces, in this order.
type place struct {
	at                     int64
	text, receipts, traces uint32
	txs                    uint32
}

// NewNode makes a node for what a generator makes from its beginning on, with a file
// in a directory, or in the usual place for temporary ones if it is empty. Close
// removes it. The genesis is there at once.
func NewNode(g *Generator, dir string) (*Node, error) {
	file, err := os.CreateTemp(dir, "evmchain-")
	if err != nil {
		return nil, fmt.Errorf("making a place for blocks: %w", err)
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

// Close ends the connections that go on, and gives up the file. The node serves
// nothing after that.
func (n *Node) Close() error {
	n.sockets.close()
	return errors.Join(n.file.Close(), os.Remove(n.file.Name()))
}

// Generator is what makes the chain.
func (n *Node) Generator() *Generator { return n.generator }

// Tip is the number of the last block, Txs how many transactions there are up to it.
func (n *Node) Tip() uint64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return uint64(len(n.blocks)) - 1
}

// Txs is explained at Tip.
func (n *Node) Txs() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.txs)
}

// publishBytes is how much becomes visible at a time.
const publishBytes = 1 << 20

// Grow has the chain go on by so many transactions, or a few more.
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

// Follow adds blocks of the present until ctx ends, and then returns nil: one every so
// often.
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
	places := make([]place, 0, len(batch))
	for _, b := range batch {
		p := place{at: n.size, text: uint32(len(b.Text)), receipts: uint32(len(b.Receipts)), traces: uint32(len(b.Traces)), txs: uint32(len(b.Txs))}
		for _, part := range [][]byte{b.Text, b.Receipts, b.Traces} {
			if len(part) > math.MaxUint32 {
				return fmt.Errorf("block %d is too large", b.Number)
			}
			if _, err := n.w.Write(part); err != nil {
				return fmt.Errorf("keeping blocks: %w", err)
			}
			n.size += int64(len(part))
		}
		places = append(places, p)
	}
	if err := n.w.Flush(); err != nil {
		return fmt.Errorf("keeping blocks: %w", err)
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

// part is one of the things that are kept of a block.
type part uint8

const (
	textPart part = iota
	receiptsPart
	tracesPart
)

// appendPart appends what is kept of a block, which must be there.
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
