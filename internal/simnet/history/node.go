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

// Node serves a history like a node. It stores blocks on disk as the index API returns them, so that serving them is
// cheap. It holds about 10 bytes per block, 30 bytes per transaction, and the rewards in memory. Only one goroutine at
// a time may grow it; all other methods are safe for concurrent use.
type Node struct {
	*archive
	// ends are the heights up to which this node has accepted blocks.
	ends     [chains]uint64
	settings atomic.Pointer[NodeSettings] // nil for the zero value
}

// archive is the data that all nodes of a network share.
type archive struct {
	generator *Generator
	sealer    *Sealer

	mu     sync.RWMutex
	chains [chains]record
	// early are transactions and vertices from before the X-Chain had blocks. earlyAt maps ID prefixes to the positions
	// of the transactions. Guarded by mu.
	early   [2]record
	earlyAt map[uint64]uint32
	// vertices are the indexes of vertices; guarded by mu.
	vertices map[ids.ID]uint32
	txs      [2]map[uint64]uint32 // guarded by mu; heights by ID prefix, on P and X
	// rewards are those of all blocks, stakes those of the P-Chain's last block; guarded by mu.
	rewards map[ids.ID]rewarded
	stakes  map[ids.NodeID][]Stake
	staked  map[ids.ID]ids.NodeID
	l1s     l1State // guarded by mu
	// genesis are the genesis transactions, addresses those of Generator.Addresses; both constant.
	genesis   map[ids.ID][]byte
	addresses []ids.ShortID
	// asked counts the requests for rewards.
	asked atomic.Uint64
	grown func() // owned by the writer
}

// rewarded holds the outputs of a reward and the height of their block.
type rewarded struct {
	height uint64
	utxos  [][]byte
}

// Other returns another node of the same network. It has accepted blocks only up to the given heights and lacks C-Chain
// blocks below synced, like a node after state sync. Only the first node grows.
func (n *Node) Other(p, x, c, synced uint64) *Node {
	other := &Node{archive: n.archive, ends: [chains]uint64{p, x, c}}
	other.Run(NodeSettings{StateSynced: synced})
	return other
}

// NodeSettings are the settings of a node. The zero value is a node with an index that has executed all blocks itself.
type NodeSettings struct {
	// StateSynced is the height to which the node state-synced its C-Chain, 0 without state sync. Below that height it
	// has only the genesis block and answers null for others (avalanchego vms/saevm/sae/rpc, readByNumber).
	StateSynced uint64
	// NoIndex disables /ext/index, as on a node without --index-enabled.
	NoIndex bool
}

// Run changes the settings, like a restart of the node.
func (n *Node) Run(s NodeSettings) { n.settings.Store(&s) }

func (n *Node) run() NodeSettings {
	if s := n.settings.Load(); s != nil {
		return *s
	}
	return NodeSettings{}
}

// Indexes of archive.early.
const (
	earlyTxs = iota
	earlyVertices
)

// record holds the containers of one chain. Only the writer uses w, size and next; the other fields are guarded by
// Node.mu.
type record struct {
	file *os.File
	w    *bufio.Writer
	size int64
	next uint64 // number of containers written
	// first is the block at height 0.
	first []byte
	txs   int
	// ends are the end offsets of the containers in the file, beginning with height 1.
	ends []int64
}

// NewNode returns a node for the blocks of a new generator. It stores files in dir, or in the default directory for
// temporary files if dir is empty. Close removes them.
func NewNode(g *Generator, dir string) (*Node, error) {
	sealer, err := NewSealer(g)
	if err != nil {
		return nil, err
	}
	n := &Node{ends: [chains]uint64{math.MaxUint64, math.MaxUint64, math.MaxUint64}, archive: &archive{
		generator: g, sealer: sealer, rewards: make(map[ids.ID]rewarded), stakes: make(map[ids.NodeID][]Stake),
		staked: make(map[ids.ID]ids.NodeID), l1s: newL1State(), earlyAt: make(map[uint64]uint32), vertices: make(map[ids.ID]uint32), genesis: make(map[ids.ID][]byte), addresses: g.Addresses(),
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
			return nil, fmt.Errorf("creating a file for blocks: %w", err)
		}
		r.w = bufio.NewWriterSize(r.file, 1<<20)
	}
	return n, nil
}

// Addresses returns the addresses that may have outputs, busiest first.
func (n *Node) Addresses() []ids.ShortID { return n.addresses }

// CurrentStakes returns the current stakes by validator node.
func (n *Node) CurrentStakes() map[ids.NodeID][]Stake {
	n.mu.RLock()
	defer n.mu.RUnlock()
	all := make(map[ids.NodeID][]Stake, len(n.stakes))
	for nodeID, s := range n.stakes {
		all[nodeID] = slices.Clone(s)
	}
	return all
}

// Generator returns the generator. It must not be read while the node grows.
func (n *Node) Generator() *Generator { return n.generator }

// Close removes the files. No other method may run.
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

// OnGrown sets a function that is called whenever blocks become visible. Like Grow, only one goroutine at a time may call
// it.
func (n *Node) OnGrown(f func()) { n.grown = f }

// publishEvery is the number of blocks that become visible at once.
const publishEvery = 512

// Grow extends the history by at least the given number of transactions, and at least until the X-Chain is linear: nodes
// of today have its first block.
func (n *Node) Grow(ctx context.Context, transactions int) error {
	until := n.generator.Txs() + transactions
	made := make(chan *Block, publishEvery)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(made)
		for n.generator.Txs() < until || n.generator.Pending() > 0 || !n.generator.early.over {
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

// Follow adds transactions with the current time at every pace until ctx ends, and then returns nil.
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

// Step adds some transactions with the given time, like one round of Follow. Between two steps the Truth may be read.
func (n *Node) Step(ctx context.Context, now time.Time) error {
	n.generator.present(now)
	return n.Grow(ctx, 1)
}

// publish writes blocks and makes them visible.
func (n *Node) publish(batch []*Block) error {
	if err := n.write(batch); err != nil {
		return err
	}
	if n.grown != nil {
		n.grown()
	}
	return nil
}

func (n *Node) write(batch []*Block) error {
	type end struct {
		record *record
		at     int64
	}
	ends := make([]end, 0, len(batch))
	var text []byte
	keep := func(r *record, index uint64, id ids.ID, content []byte, at time.Time) error {
		text = appendContainer(text[:0], index, id, content, at)
		if _, err := r.w.Write(text); err != nil {
			return fmt.Errorf("writing blocks: %w", err)
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
			return fmt.Errorf("writing blocks: %w", err)
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
		for _, tx := range b.L1 {
			if err := n.l1s.apply(tx); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep passes the containers of a block to the function keep.
func (n *Node) keep(b *Block, keep func(r *record, index uint64, id ids.ID, content []byte, at time.Time) error) error {
	if !b.Early {
		if b.Height == 0 {
			return nil
		}
		return keep(&n.chains[b.Chain], b.Height-1, b.ContainerID, b.Container, b.Time)
	}
	// Each has its own acceptance time, as on a node that accepted it live.
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

// note updates the in-memory data for a block. It requires mu.
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

// appendContainer appends a container in the index API's format, and a comma.
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

// appendHex appends bytes in avalanchego's hex encoding with a checksum.
func appendHex(to, b []byte) []byte {
	to = append(to, "0x"...)
	for _, part := range [][]byte{b, hashing.Checksum(b, 4)} {
		for _, c := range part {
			to = append(to, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return to
}
