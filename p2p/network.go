package p2p

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
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
	// NetworkID is the ID in every handshake (1 mainnet, 5 fuji). It also determines the
	// upgrade time and the bootstrappers.
	NetworkID uint32
	// Dir is the folder of the identity (identity/staker.crt, staker.key and signer.key)
	// and the address book (addresses.json). New creates it if it is missing. Only one
	// process may use it, because peers keep one connection for each node ID. Empty means a
	// new identity for each start and no address book on disk.
	Dir string
	// AllowPrivateIPs allows dialling private and loopback addresses.
	AllowPrivateIPs bool
	// UpgradeTime is when peers older than the minimum version become incompatible, for
	// networks with their own schedule. Zero means the activation of avalanchego's newest
	// upgrade (Helicon) on NetworkID.
	UpgradeTime time.Time
	// Seeds returns addresses of nodes, best first. Network calls it at the start and
	// regularly, more often while few nodes are connected. It may be nil.
	Seeds func(ctx context.Context) ([]Address, error)
	// Bootstrappers adds avalanchego's bootstrap nodes of mainnet and fuji.
	Bootstrappers bool
	// Manual are nodes to connect to whether they are validators or not. Their addresses
	// take precedence over those from Seeds.
	Manual []Address
	// MaxReconnectDelay bounds the growing pause between attempts to reach one node; 0
	// means 10 s.
	MaxReconnectDelay time.Duration
	// Log may be nil. Events of single connections have the level debug.
	Log *slog.Logger
	// Metrics may be nil. Names begin with quorate_p2p_. For several networks on one
	// registry, the caller wraps it with a label.
	Metrics prometheus.Registerer
}

// Address is where a node reportedly listens.
type Address struct {
	NodeID ids.NodeID
	Addr   netip.AddrPort
}

// Peer is a node with a finished handshake.
type Peer struct {
	NodeID ids.NodeID
	// Addr is the address of the connection, Claimed the one that the node claims.
	Addr, Claimed netip.AddrPort
	// Version is the avalanchego version that the node reports, for example "v1.15.0".
	Version string
	// UpgradeTime is the newest upgrade that the node knows.
	UpgradeTime time.Time
	// Since is when the handshake finished.
	Since time.Time
	// RoundTrip is the duration of the last ping; 0 before the first one.
	RoundTrip time.Duration
	// LastSent and LastReceived are the times of the last messages, up to one second early.
	LastSent, LastReceived time.Time
	// ObservedUptime is this service's uptime as the node sees it, in percent.
	ObservedUptime uint32
	// TrackedSubnets are the subnets that the node follows, including the primary network.
	// SupportedACPs and ObjectedACPs are its votes on undecided proposals. The caller must
	// not modify them.
	TrackedSubnets              []ids.ID
	SupportedACPs, ObjectedACPs []uint32
}

// Network is the connections to one Avalanche network. It dials and never listens. It is
// safe for concurrent use.
//
// Each node worth a connection has a goroutine that dials it, reads the connection, and
// dials again. Writes never block, so callers write on their own goroutine.
type Network struct {
	config        Config
	nodeID        ids.NodeID
	log           *slog.Logger
	tls           *tls.Config
	signer        *peer.IPSigner
	proof         *signer.ProofOfPossession
	compatible    *version.Compatibility
	bootstrappers set.Set[ids.NodeID] // the library's and manual nodes, wanted whether validators or not
	decoder       *decoder
	buffers       sync.Pool // of *[smallMessage]byte
	frames        frames
	dials         *rate.Limiter
	large         *semaphore.Weighted // bytes of large messages that are being received
	unasked       *semaphore.Weighted // the part of large for nodes that are not asked for blocks
	candidates    *candidates
	book          *book
	sets          sets
	calls         *calls
	metrics       *metrics
	started       atomic.Bool
	learned       atomic.Bool    // new addresses were learned since pull last looked
	added         chan struct{}  // holds one token if there are validators that pull has not asked peers for
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
		dials:         rate.NewLimiter(dialsPerSecond, dialsPerSecond),
		buffers:       sync.Pool{New: func() any { return new([smallMessage]byte) }},
		large:         semaphore.NewWeighted(largeBudget),
		unasked:       semaphore.NewWeighted(largeBudget / 2),
		candidates:    newCandidates(config.AllowPrivateIPs),
		book:          openBook(config.Dir, config.Log),
		calls:         newCalls(),
		added:         make(chan struct{}, 1),
		sessions:      make(map[*session]struct{}),
		connected:     make(map[ids.NodeID]*session),
		onConnect:     make(map[*func(ids.NodeID)]struct{}),
	}
	if config.Bootstrappers {
		for _, b := range genesis.GetBootstrappers(config.NetworkID) {
			n.bootstrappers.Add(b.ID)
		}
	}
	for _, a := range config.Manual {
		n.bootstrappers.Add(a.NodeID)
	}
	blsKey, err := loadSigner(config.Dir)
	if err != nil {
		return nil, err
	}
	warnOfReaders(config.Dir, config.Log)
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
	// Connections outlive ctx until the book is written, because it notes the connected nodes.
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

// close ends all sessions. No others begin afterwards.
func (n *Network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for s := range n.sessions {
		s.end(nil)
	}
}

// enter notes a new session. It returns false if the network is closed.
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
	n.candidates.booked(Address{NodeID: s.nodeID, Addr: s.addr})
	claim := s.handshake.claim
	n.candidates.claimed(s.nodeID, ips.NewClaimedIPPort(s.cert, claim.AddrPort, claim.Timestamp, nil))
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

// NodeID returns the service's own node ID.
func (n *Network) NodeID() ids.NodeID { return n.nodeID }

// Proof returns the service's BLS public key with its proof of possession.
func (n *Network) Proof() *signer.ProofOfPossession { return n.proof }

// UpgradeTime returns the time of the newest known upgrade of the network.
func (n *Network) UpgradeTime() time.Time { return n.compatible.UpgradeTime }

// Claimed returns the address in the service's handshakes, at which nothing listens.
func (n *Network) Claimed() netip.AddrPort { return nowhere }

// Connected reports whether a request to nodeID can be sent now.
func (n *Network) Connected(nodeID ids.NodeID) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, ok := n.connected[nodeID]
	return ok
}

// Tracks reports whether nodeID said in its handshake that it tracks a subnet; every node tracks
// the primary network. known is false if it is not connected.
func (n *Network) Tracks(nodeID ids.NodeID, subnetID ids.ID) (tracks, known bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	s, ok := n.connected[nodeID]
	return ok && slices.Contains(s.peer.Load().TrackedSubnets, subnetID), ok
}

// ConnectedCount returns the number of nodes that requests can be sent to.
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
		peer.LastSent, peer.LastReceived = time.Unix(s.lastSent.Load(), 0).UTC(), time.Unix(s.lastReceived.Load(), 0).UTC()
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
