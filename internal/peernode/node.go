// Package peernode stands for an upstream node where there is none: it follows the P-Chain over the peer-to-peer network
// and executes it, and answers the calls of package node from that. It can download the blocks of the X- and C-Chain, too.
//
// A Node believes a block once it has at least 80% of the votes. The weight of a vote is the voter's stake, unless the
// voters are drawn by stake. The voters are the beacons until the chain is executed to its tip for the first time, and the
// validators of the primary network afterwards. A Node also believes blocks with compiled-in IDs, and the ancestors of
// each believed block.
package peernode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/database/leveldb"
	"github.com/ava-labs/avalanchego/database/memdb"
	"github.com/ava-labs/avalanchego/database/prefixdb"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/logging"

	"quorate/internal/chain/genesis"
	"quorate/internal/peernode/pchainvm"
)

// Peers are the nodes of the network; *p2p.Network has these methods. What they return is unverified.
type Peers interface {
	ConnectedNodes() []ids.NodeID
	AcceptedFrontier(ctx context.Context, nodeID ids.NodeID, chainID ids.ID) (ids.ID, error)
	Accepted(ctx context.Context, nodeID ids.NodeID, chainID ids.ID, of []ids.ID) ([]ids.ID, error)
	Container(ctx context.Context, nodeID ids.NodeID, chainID, containerID ids.ID) ([]byte, error)
	Ancestors(ctx context.Context, nodeID ids.NodeID, chainID, containerID ids.ID, engine p2p.EngineType) ([][]byte, error)
}

// Options of a Node. Genesis and Beacons are required.
type Options struct {
	Genesis  *genesis.Genesis
	Upgrades upgrade.Config
	// Dir is where Run keeps the chain's state; empty means in memory.
	Dir string
	// Beacons are the nodes that decide about the tip at the beginning, with equal weight.
	Beacons []ids.NodeID
	// Trusted are containers that the network is known to have accepted. With them, parts of a long chain are downloaded at
	// the same time. The tip is not confirmed until they are found in its chain, or below the block to begin with.
	Trusted []ids.ID
	// Ledger says to download the X- and the C-Chain, too. TrustedX and TrustedC are what Trusted is for the P-Chain.
	Ledger             bool
	TrustedX, TrustedC []ids.ID
	// Checkpoint is what to begin with if there is no state; nil means the genesis.
	Checkpoint *Checkpoint
	Log        *slog.Logger
}

// Node follows one network's P-Chain. It is safe for concurrent use.
type Node struct {
	o        Options
	log      *slog.Logger
	info     http.Handler
	disputed prometheus.Counter
	tips     *tips
	origin   *origin        // what the state began with; nil means the genesis
	fresh    bool           // Run has to import the checkpoint; only Run uses it
	exports  sync.WaitGroup // ends before the state is closed

	// Answers hold mu for reading, so that Run closes the chain after them. It is locked before the other mutexes.
	mu     sync.RWMutex
	chain  *pchainvm.Chain // guarded by mu; nil unless Run runs
	peers  Peers           // guarded by mu; with chain
	ending chan struct{}   // guarded by mu; with chain, and closed before it

	exportMu  sync.Mutex
	exporting int       // guarded by exportMu
	awaited   []*export // guarded by exportMu

	progress
	x, c *blockStore // nil unless Options.Ledger
}

// progress holds a Status.
type progress struct {
	statusMu sync.RWMutex
	status   Status // guarded by statusMu
}

// Status is how far a chain is.
type Status struct {
	// Height is that of the last executed block, 0 if there is none. Target is the height of the tip. Missing is how many of the blocks
	// between them are not downloaded.
	Height, Target, Missing uint64
	// Confirmed is when the voters were last asked for the tip that they confirmed. Everything up to it was executed less
	// than a minute later. It is zero until the chain is executed to its tip for the first time.
	Confirmed time.Time
	// Err is why the node makes no progress; nil if it does.
	Err error
}

// ErrBehind means that the chain is not executed to its tip.
var ErrBehind = errors.New("the P-Chain is not executed to its tip")

// stale is how long the node answers after the last confirmation of the tip.
const stale = time.Minute

// New returns a Node. It does nothing until Run, but returns an error if the checkpoint is needed and is not of this
// network.
func New(o Options) (*Node, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Beacons) == 0 {
		return nil, errors.New("no nodes to begin with are known; name some in manual_peers")
	}
	n := &Node{o: o, log: o.Log, tips: newTips(), disputed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quorate_peernode_unconfirmed_tips_total",
		Help: "Blocks that a node called its last accepted one although they did not have enough votes. New blocks are among them for a moment.",
	})}
	if err := n.findOrigin(); err != nil {
		return nil, err
	}
	var err error
	if o.Ledger {
		if n.x, err = newXChain(o.Genesis.XChainID, o.TrustedX); err != nil {
			return nil, err
		}
		n.c = newCChain(o.Genesis.NetworkID, o.Genesis.CChainID, o.TrustedC)
	}
	n.info, err = newInfo(n)
	return n, err
}

// Collectors returns the metrics.
func (n *Node) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		n.disputed,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quorate_peernode_height", Help: "Height of the last P-Chain block that this process executed.",
		}, func() float64 { return float64(n.Status().Height) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quorate_peernode_confirmed_timestamp_seconds",
			Help: "When enough of the stake last confirmed the tip of the P-Chain, in Unix time; 0 before the first time.",
		}, func() float64 {
			if at := n.Status().Confirmed; !at.IsZero() {
				return float64(at.Unix())
			}
			return 0
		}),
	}
}

// Run opens the state and follows the chain until ctx ends. It returns nil then, and an error if the state cannot be
// used.
func (n *Node) Run(ctx context.Context, peers Peers) (err error) {
	db, err := n.openState(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	g := n.o.Genesis
	chain, err := pchainvm.Open(ctx, pchainvm.Options{
		Genesis: g.Bytes, NetworkID: g.NetworkID, AVAXAssetID: g.AVAXAssetID, XChainID: g.XChainID, CChainID: g.CChainID,
		Upgrades: n.o.Upgrades, Database: prefixdb.New(stateSection, db),
	})
	if err != nil {
		return err
	}
	defer func() {
		for _, blocks := range n.blocks() {
			blocks.open(nil)
		}
	}()
	followers, err := n.followers(ctx, peers, chain, db)
	if err == nil {
		ending := make(chan struct{})
		n.mu.Lock()
		n.chain, n.peers, n.ending = chain, peers, ending
		n.mu.Unlock()
		running, ctx := errgroup.WithContext(ctx)
		for _, f := range followers {
			running.Go(func() error { return f.run(ctx) })
		}
		err = running.Wait()
		n.mu.Lock() // waits for answers in progress
		n.chain = nil
		n.mu.Unlock()
		close(ending)
		n.exports.Wait()
	}
	return errors.Join(err, chain.Close())
}

// blocks returns the chains that are downloaded and not executed.
func (n *Node) blocks() []*blockStore {
	if !n.o.Ledger {
		return nil
	}
	return []*blockStore{n.x, n.c}
}

// followers returns the followers of all chains.
func (n *Node) followers(ctx context.Context, peers Peers, chain *pchainvm.Chain, db database.Database) ([]*follower, error) {
	f, err := newFollower(ctx, following{
		name: "P-Chain", chainID: constants.PlatformChainID, chain: pChain{chain, n}, db: prefixdb.New([]byte("blocks"), db), peers: peers,
		origin: n.origin, allTrusted: n.o.Trusted, interval: pollInterval, log: n.log, disputed: n.disputed,
		voters: func(ctx context.Context) (map[ids.NodeID]uint64, string, error) { return n.voters(ctx, chain) },
	}, &n.progress)
	if err != nil {
		return nil, err
	}
	all := []*follower{f}
	for _, blocks := range n.blocks() {
		blocks.open(prefixdb.New([]byte(blocks.name), db))
		f, err := newFollower(ctx, following{
			name: blocks.name, chainID: blocks.chainID, chain: blocks, db: prefixdb.New([]byte("downloads of the "+blocks.name), db), peers: peers,
			allTrusted: blocks.trusted, interval: blocksInterval, log: n.log, disputed: n.disputed,
			voters: func(ctx context.Context) (map[ids.NodeID]uint64, string, error) { return n.validators(ctx, chain) },
		}, &blocks.progress)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func openDatabase(dir string) (database.Database, error) {
	if dir == "" {
		return memdb.New(), nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the P-Chain: %w", err)
	}
	db, err := leveldb.New(dir, nil, logging.NoLog{}, prometheus.NewRegistry())
	if err != nil {
		return nil, fmt.Errorf("opening the state of the P-Chain in %s: %w", dir, err)
	}
	return db, nil
}

// Status returns how far the chain is.
func (p *progress) Status() Status {
	p.statusMu.RLock()
	defer p.statusMu.RUnlock()
	return p.status
}

func (p *progress) change(f func(*Status)) {
	p.statusMu.Lock()
	defer p.statusMu.Unlock()
	f(&p.status)
}

// Ready returns nil if the node knows the tip, and otherwise why it does not.
func (n *Node) Ready() error { return n.Status().Ready() }

// Ready is Node.Ready at the time of the status.
func (s Status) Ready() error { return s.ready(ErrBehind) }

// ready returns nil if the tip is known, and otherwise an error that wraps behind and says why it is not.
func (s Status) ready(behind error) error {
	switch {
	case !s.Confirmed.IsZero() && time.Since(s.Confirmed) < stale:
		return nil
	case s.Err != nil:
		return fmt.Errorf("%w: it is at height %d; %w", behind, s.Height, s.Err)
	case s.Missing > 0:
		return fmt.Errorf("%w: it is at height %d of %d, and %d blocks are not downloaded", behind, s.Height, s.Target, s.Missing)
	case s.Target > s.Height:
		return fmt.Errorf("%w: it is at height %d of %d", behind, s.Height, s.Target)
	}
	return fmt.Errorf("%w: it is at height %d, and the tip is not known", behind, s.Height)
}
