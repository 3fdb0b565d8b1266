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
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/ips"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/version"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
)

// Config of a Network. Only NetworkID is required.
type Config struct {
	// NetworkID of the Avalanche network, as in every handshake (1 mainnet, 5
	// fuji). It also decides the upgrade time, the bootstrappers and the label
	// of the metrics.
	NetworkID uint32
	// Dir keeps the identity (identity/staker.crt, staker.key and signer.key) and
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
	// Log may be nil. What happens to single connections goes to its debug level.
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

// Peer is a node whose handshake is finished.
type Peer struct {
	NodeID ids.NodeID
	// Addr is where we are connected to it, Claimed where it says that it
	// listens.
	Addr, Claimed netip.AddrPort
	// Version of avalanchego that it says it runs, such as "v1.15.0".
	Version string
	// UpgradeTime is the newest upgrade of the network that it knows of.
	UpgradeTime time.Time
	// Since is when the handshake was finished.
	Since time.Time
	// RoundTrip is how long the last ping took; 0 before the first one.
	RoundTrip time.Duration
	// LastSent and LastReceived are when there was a message last, up to a second ago
	// more than it says.
	LastSent, LastReceived time.Time
	// ObservedUptime is how much of the time the node has seen us, in percent.
	ObservedUptime uint32
	// TrackedSubnets are what the node follows, the primary network among them.
	// SupportedACPs and ObjectedACPs are what it thinks of undecided proposals. None
	// may be changed.
	TrackedSubnets              []ids.ID
	SupportedACPs, ObjectedACPs []uint32
}

// Network holds our connections to one Avalanche network. It only dials and
// never listens. Safe for concurrent use.
//
// Each node that is worth a connection has a goroutine that dials it, reads the
// connection and dials again. Writing never waits, so whoever has something to
// say does it on his own goroutine.
type Network struct {
	config        Config
	nodeID        ids.NodeID
	log           *slog.Logger
	tls           *tls.Config
	signer        *peer.IPSigner
	proof         *signer.ProofOfPossession
	compatible    *version.Compatibility
	bootstrappers set.Set[ids.NodeID] // the library's, wanted whether validators or not
	decoder       *decoder
	buffers       sync.Pool // of *[smallMessage]byte
	frames        frames
	dials         *rate.Limiter
	large         *semaphore.Weighted // bytes of large messages that are being received
	places        *places
	book          *book
	sets          sets
	calls         *calls
	metrics       *metrics
	started       atomic.Bool
	learned       atomic.Bool    // addresses, since pull looked last
	backlog       atomic.Int64   // bytes that wait for nodes to read
	keepers       sync.WaitGroup // goroutines of keep; added to with mu held and closed false

	mu        sync.RWMutex
	life      context.Context                //nolint:containedctx // of all keepers; guarded by mu, nil before Run
	closed    bool                           // guarded by mu: no new keepers and sessions
	sessions  map[*session]struct{}          // guarded by mu
	connected map[ids.NodeID]*session        // guarded by mu: handshake finished, not yet lost
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
		config:        config,
		nodeID:        nodeID,
		log:           config.Log,
		tls:           tlsConfig(cert),
		compatible:    version.GetCompatibility(upgradeTime(config)),
		bootstrappers: set.Of[ids.NodeID](),
		dials:         rate.NewLimiter(rate.Limit(config.DialsPerSecond), int(config.DialsPerSecond)),
		buffers:       sync.Pool{New: func() any { return new([smallMessage]byte) }},
		large:         semaphore.NewWeighted(largeBudget),
		places:        newPlaces(config.AllowPrivateIPs),
		book:          openBook(config.Dir, config.Log),
		calls:         newCalls(),
		sessions:      make(map[*session]struct{}),
		connected:     make(map[ids.NodeID]*session),
		onConnect:     make(map[*func(ids.NodeID)]struct{}),
	}
	if config.Bootstrappers {
		for _, b := range genesis.GetBootstrappers(config.NetworkID) {
			n.bootstrappers.Add(b.ID)
		}
	}
	blsKey, err := loadSigner(config.Dir)
	if err != nil {
		return nil, err
	}
	if err := n.build(cert, blsKey); err != nil {
		return nil, fmt.Errorf("setting up the peer-to-peer network %d: %w", config.NetworkID, err)
	}
	return n, nil
}

// build makes the parts that may fail.
func (n *Network) build(cert *tls.Certificate, blsKey bls.Signer) (err error) {
	if n.signer, err = newSigner(cert, blsKey); err != nil {
		return err
	}
	if n.proof, err = signer.NewProofOfPossession(blsKey); err != nil {
		return fmt.Errorf("proving the BLS key: %w", err)
	}
	if n.decoder, err = newDecoder(); err != nil {
		return err
	}
	if n.frames, err = newFrames(); err != nil {
		return err
	}
	n.metrics, err = newMetrics(n.registerer(), n)
	return err
}

// Run connects and stays connected until ctx ends. It returns nil then, after
// every connection has been closed and the address book has been written. It can
// be called once.
func (n *Network) Run(ctx context.Context) error {
	if n.started.Swap(true) {
		return errors.New("p2p: network was already run")
	}
	// Connections outlive ctx until the book is written, while it is still known
	// who is connected.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	n.mu.Lock()
	n.life = life
	n.mu.Unlock()
	n.wantAll()

	group, ctx := errgroup.WithContext(ctx)
	for _, loop := range []func(context.Context){n.followSeeds, n.pull, n.pulse, n.keepBook} {
		group.Go(func() error { // ends with ctx
			loop(ctx)
			return nil
		})
	}
	err := group.Wait()
	end()
	n.close()
	n.keepers.Wait()
	return err
}

// close ends all sessions and lets no others begin.
func (n *Network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for s := range n.sessions {
		s.end(nil)
	}
}

// enter notes a session that begins, false if the network is closed.
func (n *Network) enter(s *session) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.sessions[s] = struct{}{}
	return true
}

// connect notes that a session's handshake is finished.
func (n *Network) connect(s *session) {
	n.book.met(Address{NodeID: s.nodeID, Addr: s.addr})
	n.places.booked(Address{NodeID: s.nodeID, Addr: s.addr})
	claim := s.hello.claim
	n.places.claimed(s.nodeID, ips.NewClaimedIPPort(s.cert, claim.AddrPort, claim.Timestamp, nil))
	n.mu.Lock()
	n.connected[s.nodeID] = s
	hooks := make([]func(ids.NodeID), 0, len(n.onConnect))
	for f := range n.onConnect {
		hooks = append(hooks, *f)
	}
	n.mu.Unlock()
	for _, f := range hooks {
		f(s.nodeID)
	}
}

// leave notes that a session is over. The same node cannot be connected again
// before it returns.
func (n *Network) leave(s *session) {
	n.mu.Lock()
	delete(n.sessions, s)
	connected := n.connected[s.nodeID] == s
	if connected {
		delete(n.connected, s.nodeID)
	}
	n.mu.Unlock()
	if connected {
		n.calls.disconnected(s.nodeID)
	}
}

// NodeID is our own node ID.
func (n *Network) NodeID() ids.NodeID { return n.nodeID }

// Proof is our own BLS public key, and that we have its secret.
func (n *Network) Proof() *signer.ProofOfPossession { return n.proof }

// UpgradeTime is the newest upgrade of the network that we know of.
func (n *Network) UpgradeTime() time.Time { return n.compatible.UpgradeTime }

// Claimed is where we tell others that we listen, which is nowhere.
func (n *Network) Claimed() netip.AddrPort { return nowhere }

// Connected reports whether a request to nodeID can be sent now.
func (n *Network) Connected(nodeID ids.NodeID) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, ok := n.connected[nodeID]
	return ok
}

// ConnectedCount is the number of nodes that requests can be sent to.
func (n *Network) ConnectedCount() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.connected)
}

// ConnectedNodes lists the nodes that requests can be sent to, in no order.
func (n *Network) ConnectedNodes() []ids.NodeID {
	n.mu.RLock()
	defer n.mu.RUnlock()
	list := make([]ids.NodeID, 0, len(n.connected))
	for nodeID := range n.connected {
		list = append(list, nodeID)
	}
	return list
}

// Peers describes every connection whose handshake is finished, in no order.
func (n *Network) Peers() []Peer {
	n.mu.RLock()
	defer n.mu.RUnlock()
	list := make([]Peer, 0, len(n.connected))
	for _, s := range n.connected {
		peer := *s.peer.Load()
		peer.RoundTrip = time.Duration(s.lag.Load())
		peer.LastSent, peer.LastReceived = time.Unix(s.lastSent.Load(), 0).UTC(), time.Unix(s.lastHeard.Load(), 0).UTC()
		peer.ObservedUptime = s.uptime.Load()
		list = append(list, peer)
	}
	return list
}

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
