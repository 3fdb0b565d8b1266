package history

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"
)

// Node is a node's record of a history: it keeps blocks as the index API gives them,
// ready made on disk, so that giving them away costs next to nothing. In memory are
// about 10 bytes a block, 30 a transaction, and the rewards. Its growth is in the
// hands of one goroutine at a time; the rest is safe for concurrent use.
type Node struct {
	*archive
	// ends are the heights beyond which this node has not accepted blocks yet.
	ends     [chains]uint64
	settings atomic.Pointer[NodeSettings] // nil for the zero value
}

// archive is what the nodes of a network have in common.
type archive struct {
	generator *Generator
	sealer    *Sealer

	mu     sync.RWMutex
	chains [chains]record
	// early are transactions and vertices from before the X-Chain had blocks; earlyAt
	// is where the transactions are, by the first bytes of IDs. Guarded by mu.
	early   [2]record
	earlyAt map[uint64]uint32
	// vertices are the places of vertices; guarded by mu.
	vertices map[ids.ID]uint32
	txs      [2]map[uint64]uint32 // guarded by mu; heights by the first bytes of IDs, on P and X
	// rewards are those of all blocks, stakes those of the P-Chain's last block; guarded
	// by mu.
	rewards map[ids.ID]rewarded
	stakes  map[ids.NodeID][]Stake
	staked  map[ids.ID]ids.NodeID
	// genesis are transactions, addresses those of Generator.Addresses; constant.
	genesis   map[ids.ID][]byte
	addresses []ids.ShortID
	// asked counts the requests for rewards.
	asked atomic.Uint64
}

// rewarded are the outputs of a reward, and the block that made them.
type rewarded struct {
	height uint64
	utxos  [][]byte
}

// Other returns another node of the same network, which has accepted no blocks beyond
// some heights yet, and lacks the C-Chain's blocks below synced, because it has synced
// the state of the C-Chain. Only the first node grows.
func (n *Node) Other(p, x, c, synced uint64) *Node {
	other := &Node{archive: n.archive, ends: [chains]uint64{p, x, c}}
	other.Run(NodeSettings{StateSynced: synced})
	return other
}

// NodeSettings are how the node is run. The zero value is a node with an index that has executed
// all blocks itself.
type NodeSettings struct {
	// StateSynced is the height to which the node state-synced its C-Chain, 0 if it did
	// not. It has the genesis block, and no others before that height: a call for one of
	// them gives null (avalanchego, vms/saevm/sae/rpc, readByNumber).
	StateSynced uint64
	// NoIndex is a node without --index-enabled, which has nothing at /ext/index.
	NoIndex bool
}

// Run changes the settings, as a restart of the node does.
func (n *Node) Run(s NodeSettings) { n.settings.Store(&s) }

func (n *Node) run() NodeSettings {
	if s := n.settings.Load(); s != nil {
		return *s
	}
	return NodeSettings{}
}

// What is in Node.early.
const (
	earlyTxs = iota
	earlyVertices
)

// record is the blocks of one chain. The writer alone uses w, size and next; the rest is
// guarded by Node.mu.
type record struct {
	file *os.File
	w    *bufio.Writer
	size int64
	next uint64 // how many containers were written
	// first is the block at height 0.
	first []byte
	txs   int
	// ends are where containers end in the file, the one of height 1 first.
	ends []int64
}

// NewNode makes a node for what a generator makes from its beginning on, with files
// in a directory, or in the usual place for temporary ones if it is empty. Close
// removes them.
func NewNode(g *Generator, dir string) (*Node, error) {
	sealer, err := NewSealer(g)
	if err != nil {
		return nil, err
	}
	n := &Node{ends: [chains]uint64{math.MaxUint64, math.MaxUint64, math.MaxUint64}, archive: &archive{
		generator: g, sealer: sealer, rewards: make(map[ids.ID]rewarded), stakes: make(map[ids.NodeID][]Stake),
		staked: make(map[ids.ID]ids.NodeID), earlyAt: make(map[uint64]uint32), vertices: make(map[ids.ID]uint32), genesis: make(map[ids.ID][]byte), addresses: g.Addresses(),
	}}
	for _, tx := range g.Genesis() {
		n.genesis[tx.ID] = tx.Bytes
	}
	for i := range n.txs {
		n.txs[i] = make(map[uint64]uint32)
	}
	for _, r := range n.records() {
		if r.file, err = os.CreateTemp(dir, "history-"); err != nil {
			_ = n.Close()
			return nil, fmt.Errorf("making a place for blocks: %w", err)
		}
		r.w = bufio.NewWriterSize(r.file, 1<<20)
	}
	return n, nil
}

// Addresses are those that may own something, the busiest ones first.
func (n *Node) Addresses() []ids.ShortID { return n.addresses }

// CurrentStakes are those that go on, by the node that validates.
func (n *Node) CurrentStakes() map[ids.NodeID][]Stake {
	n.mu.RLock()
	defer n.mu.RUnlock()
	all := make(map[ids.NodeID][]Stake, len(n.stakes))
	for nodeID, s := range n.stakes {
		all[nodeID] = slices.Clone(s)
	}
	return all
}

// Generator is what makes the history: to be read while nothing grows.
func (n *Node) Generator() *Generator { return n.generator }

// Close gives up the files. Nothing else may run.
func (n *Node) Close() error {
	var err error
	for _, r := range n.records() {
		if f := r.file; f != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}
	return err
}

func (n *Node) records() []*record {
	var all []*record
	for i := range n.chains {
		all = append(all, &n.chains[i])
	}
	for i := range n.early {
		all = append(all, &n.early[i])
	}
	return all
}

// publishEvery is how many blocks become visible at a time.
const publishEvery = 512

// Grow has the history go on by so many transactions, or a few more.
func (n *Node) Grow(ctx context.Context, transactions int) error {
	until := n.generator.Txs() + transactions
	made := make(chan *Block, publishEvery)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(made)
		for n.generator.Txs() < until || n.generator.Pending() > 0 {
			b, err := n.generator.Next()
			if err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case made <- b:
			}
		}
		return nil
	})
	group.Go(func() error {
		batch := make([]*Block, 0, publishEvery)
		for b := range made {
			if err := n.sealer.Seal(b); err != nil {
				return err
			}
			if batch = append(batch, b); len(batch) == publishEvery {
				if err := n.publish(batch); err != nil {
					return err
				}
				batch = batch[:0]
			}
		}
		return n.publish(batch)
	})
	return group.Wait()
}

// Follow adds blocks of the present until ctx ends, and then returns nil: some
// transactions every so often.
func (n *Node) Follow(ctx context.Context, pace time.Duration) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := n.Step(ctx, time.Now()); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// Step adds some transactions of the present, as Follow does again and again; for
// whoever reads the Truth between two of them.
func (n *Node) Step(ctx context.Context, now time.Time) error {
	n.generator.present(now)
	return n.Grow(ctx, 1)
}

// publish writes blocks and makes them visible.
func (n *Node) publish(batch []*Block) error {
	type end struct {
		record *record
		at     int64
	}
	ends := make([]end, 0, len(batch))
	var text []byte
	keep := func(r *record, index uint64, id ids.ID, content []byte, at time.Time) error {
		text = appendContainer(text[:0], index, id, content, at)
		if _, err := r.w.Write(text); err != nil {
			return fmt.Errorf("keeping blocks: %w", err)
		}
		r.size += int64(len(text))
		r.next++
		ends = append(ends, end{r, r.size})
		return nil
	}
	for _, b := range batch {
		if err := n.keep(b, keep); err != nil {
			return err
		}
	}
	for _, r := range n.records() {
		if err := r.w.Flush(); err != nil {
			return fmt.Errorf("keeping blocks: %w", err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range ends {
		e.record.ends = append(e.record.ends, e.at)
	}
	for _, b := range batch {
		if b.Height == 0 && !b.Early {
			n.chains[b.Chain].first = b.Bytes
		}
		n.note(b)
	}
	return nil
}

// keep hands over the containers of a block.
func (n *Node) keep(b *Block, keep func(r *record, index uint64, id ids.ID, content []byte, at time.Time) error) error {
	if !b.Early {
		if b.Height == 0 {
			return nil
		}
		return keep(&n.chains[b.Chain], b.Height-1, b.ContainerID, b.Container, b.Time)
	}
	// As on a node that was there: each is accepted at a moment of its own.
	for _, tx := range b.Txs {
		r := &n.early[earlyTxs]
		if err := keep(r, r.next, tx.ID, tx.Bytes, b.Time.Add(time.Duration(r.next+1))); err != nil {
			return err
		}
	}
	for _, v := range b.Vertices {
		r := &n.early[earlyVertices]
		if err := keep(r, r.next, v.ID, v.Bytes, b.Time.Add(time.Duration(r.next+1))); err != nil {
			return err
		}
	}
	return nil
}

// note takes in what a block says besides. It needs mu.
func (n *Node) note(b *Block) {
	n.chains[b.Chain].txs += len(b.Txs)
	switch {
	case b.Early:
		for _, tx := range b.Txs {
			n.earlyAt[shortID(tx.ID)] = uint32(len(n.earlyAt))
		}
		for _, v := range b.Vertices {
			n.vertices[v.ID] = uint32(len(n.vertices))
		}
	case b.Chain != C:
		for _, tx := range b.Txs {
			n.txs[b.Chain][shortID(tx.ID)] = uint32(b.Height)
		}
	}
	for _, r := range b.Rewarded {
		n.rewards[r.TxID] = rewarded{b.Height, r.UTXOs}
	}
	for _, txID := range b.Ended {
		nodeID := n.staked[txID]
		delete(n.staked, txID)
		all := n.stakes[nodeID]
		for i := range all {
			if all[i].TxID == txID {
				all = append(all[:i], all[i+1:]...)
				break
			}
		}
		if n.stakes[nodeID] = all; len(all) == 0 {
			delete(n.stakes, nodeID)
		}
	}
	for _, s := range b.Began {
		n.stakes[s.NodeID] = append(n.stakes[s.NodeID], s)
		n.staked[s.TxID] = s.NodeID
	}
}

func shortID(id ids.ID) uint64 { return binary.BigEndian.Uint64(id[:]) }

// appendContainer appends a container as the index API gives it, and a comma.
func appendContainer(to []byte, index uint64, id ids.ID, content []byte, at time.Time) []byte {
	to = append(to, `{"id":"`...)
	to = append(to, id.String()...)
	to = append(to, `","bytes":"`...)
	to = appendHex(to, content)
	to = append(to, `","timestamp":"`...)
	to = at.AppendFormat(to, time.RFC3339Nano)
	to = append(to, `","encoding":"hex","index":"`...)
	to = strconv.AppendUint(to, index, 10)
	return append(to, `"},`...)
}

const hexDigits = "0123456789abcdef"

// appendHex appends bytes as avalanchego does: with a checksum, in hexadecimal.
func appendHex(to, b []byte) []byte {
	to = append(to, "0x"...)
	for _, part := range [][]byte{b, hashing.Checksum(b, 4)} {
		for _, c := range part {
			to = append(to, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return to
}
