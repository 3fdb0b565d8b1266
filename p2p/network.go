package p2p

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/network"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/utils/set"
)

// Config of a Network. Only NetworkID is required.
type Config struct {
	// NetworkID of the Avalanche network, as in every handshake (1 mainnet, 5
	// fuji). It also decides the upgrade time, the bootstrappers and the label
	// of the metrics.
	NetworkID uint32
	// Dir keeps the identity (identity/staker.crt and identity/staker.key) and
	// the address book (addresses.json); it is made if missing and belongs to
	// one process at a time, because peers keep one connection for each node ID.
	// Empty: a new identity for each start, and no address book on disk.
	Dir string
	// AllowPrivateIPs lets private and loopback addresses be dialled.
	AllowPrivateIPs bool
	// UpgradeTime is when peers older than our minimum version become
	// incompatible, for networks with a schedule of their own. Zero: when the
	// library's newest upgrade (Helicon) activates on NetworkID.
	UpgradeTime time.Time
	// Seeds says where nodes are to be found, best first. It is called at the
	// start and from time to time, often while few nodes are connected. May be
	// nil.
	Seeds func(ctx context.Context) ([]Address, error)
	// Bootstrappers adds the library's bootstrap nodes, which it has for mainnet
	// and fuji.
	Bootstrappers bool
	// MaxReconnectDelay bounds the growing pause between attempts to reach one
	// node. 0: 10 s.
	MaxReconnectDelay time.Duration
	// DialsPerSecond bounds new outgoing connections, which may also come in one
	// burst of that size. 0: 300.
	DialsPerSecond uint32
	// Log may be nil. What the library has to say goes to its debug level.
	Log *slog.Logger
	// Metrics may be nil. Names are prefixed with quorate_p2p_. Several networks
	// on one registry are told apart by a label that the caller wraps it with.
	Metrics prometheus.Registerer
}

// Address is where a node is said to listen.
type Address struct {
	NodeID ids.NodeID
	Addr   netip.AddrPort
}

// Network holds our connections to one Avalanche network. It only dials and
// never listens. Safe for concurrent use.
type Network struct {
	config  Config
	nodeID  ids.NodeID
	log     *slog.Logger
	lib     network.Network
	creator message.OutboundMsgBuilder
	dialer  *dialer
	book    *book
	sets    *sets
	calls   *calls
	metrics *metrics
	started atomic.Bool

	mu        sync.RWMutex
	connected set.Set[ids.NodeID]            // guarded by mu: handshake finished, not yet lost
	onConnect map[*func(ids.NodeID)]struct{} // guarded by mu
}

// New makes a Network, its identity included, without connecting to anything;
// Run does. The error is an ErrIdentity if the identity on disk cannot be used.
func New(config Config) (*Network, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.MaxReconnectDelay <= 0 {
		config.MaxReconnectDelay = 10 * time.Second
	}
	if config.DialsPerSecond == 0 {
		config.DialsPerSecond = 300
	}
	cert, nodeID, err := loadIdentity(config.Dir)
	if err != nil {
		return nil, err
	}
	n := &Network{
		config:    config,
		nodeID:    nodeID,
		log:       config.Log,
		book:      openBook(config.Dir, config.Log),
		sets:      newSets(),
		calls:     newCalls(),
		connected: set.Of[ids.NodeID](),
		onConnect: make(map[*func(ids.NodeID)]struct{}),
	}
	if err := n.build(cert); err != nil {
		return nil, fmt.Errorf("setting up the peer-to-peer network %d: %w", config.NetworkID, err)
	}
	return n, nil
}

// build makes the library's network around our parts.
func (n *Network) build(cert *tls.Certificate) error {
	registerer := n.registerer()
	var err error
	if n.metrics, err = newMetrics(registerer); err != nil {
		return err
	}
	creator, err := newCreator(registerer)
	if err != nil {
		return err
	}
	n.creator = creator
	log := libraryLog{log: n.log}
	n.dialer = newDialer(n.config, n.sets.wants, log)
	settings, err := n.settings(cert)
	if err != nil {
		return err
	}
	n.lib, err = network.NewNetwork(
		settings,
		upgradeTime(n.config),
		creator,
		registerer,
		log,
		newDeafListener(),
		n.dialer,
		inbound{n},
	)
	return err
}

// Run connects and stays connected until ctx ends. It returns nil then, after
// every connection has been closed and the address book has been written. It can
// be called once.
func (n *Network) Run(ctx context.Context) error {
	if n.started.Swap(true) {
		return errors.New("p2p: network was already run")
	}
	group, ctx := errgroup.WithContext(ctx)
	// Ends when the last goroutine has called StartClose.
	group.Go(n.lib.Dispatch)
	// Ends with ctx.
	group.Go(func() error {
		n.followSeeds(ctx)
		return nil
	})
	// Ends after ctx, in an order: the book is written while it is still known
	// who is connected.
	group.Go(func() error {
		n.keepBook(ctx)
		n.lib.StartClose()
		n.dialer.close()
		return nil
	})
	return group.Wait()
}

// NodeID is our own node ID.
func (n *Network) NodeID() ids.NodeID { return n.nodeID }

// Connected reports whether a request to nodeID can be sent now.
func (n *Network) Connected(nodeID ids.NodeID) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.connected.Contains(nodeID)
}

// ConnectedCount is the number of nodes that requests can be sent to.
func (n *Network) ConnectedCount() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.connected.Len()
}

// Peers describes every connection whose handshake is finished.
func (n *Network) Peers() []peer.Info { return n.lib.PeerInfo(nil) }

// OnConnect calls f for every connection made from now on, once its handshake is
// finished, until stop is called. f is called from the connection's own
// goroutine, one call may still be running when stop returns, and it must not
// block.
func (n *Network) OnConnect(f func(ids.NodeID)) (stop func()) {
	key := &f
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onConnect[key] = struct{}{}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.onConnect, key)
	}
}
