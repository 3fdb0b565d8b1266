package p2p

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/constants"
)

const (
	dialTimeout = 10 * time.Second
	// tlsTimeout bounds a TLS handshake.
	tlsTimeout = constants.DefaultNetworkReadHandshakeTimeout
	// reconnectDelay is the first pause between attempts to reach one node, up
	// to twice as long at random.
	reconnectDelay = time.Second
	// steady is how long a connection must have lasted for the next attempt to
	// come at once. Before, nodes refuse the next connection from the same
	// address (avalanchego, network/throttling, inbound connection cooldown).
	steady = 10 * time.Second
)

var (
	errUnwanted  = errors.New("node validates nothing")
	errNoAddress = errors.New("no address that may be dialled")
	errOtherNode = errors.New("another node answers at this address")
)

// want starts keeping the node of a place connected, if it is wanted and nobody
// does already. p may be nil.
func (n *Network) want(p *place) {
	if p == nil || !n.wants(p.nodeID) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life == nil || n.closed || !n.places.keep(p) {
		return
	}
	life := n.life
	n.keepers.Go(func() { n.keep(life, p) })
}

// wantAll does so for all places.
func (n *Network) wantAll() {
	for _, p := range n.places.unkept() {
		n.want(p)
	}
}

// wants reports whether nodeID is worth a connection.
func (n *Network) wants(nodeID ids.NodeID) bool {
	return n.sets.wants(nodeID) || n.bootstrappers.Contains(nodeID)
}

// keep connects to a node, again and again, until ctx ends or it is not wanted
// any more. It is the goroutine that reads the connection.
func (n *Network) keep(ctx context.Context, p *place) {
	var pause time.Duration
	for {
		if !n.wants(p.nodeID) && n.places.release(p, n.wants) {
			return
		}
		select {
		case <-p.news: // known by now
		default:
		}
		if !p.await(ctx, pause) {
			return
		}
		lasted, err := n.attempt(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			n.log.Debug("node was not reached", slog.Any("nodeID", p.nodeID), slog.Any("error", err))
		}
		if lasted >= steady {
			pause = 0
		} else {
			pause = longer(pause, n.config.MaxReconnectDelay)
		}
	}
}

// await waits for the next attempt, less long if there is a new address, and
// reports false if ctx has ended.
func (p *place) await(ctx context.Context, pause time.Duration) bool {
	began := time.Now()
	for {
		left := pause - time.Since(began)
		if left <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		case <-p.news:
			// Not at once, or a node that signs a new address every moment
			// would have us dial wherever it likes, as often as it likes.
			timer.Stop()
			pause = min(pause, reconnectDelay)
		}
	}
}

// longer is the pause after one that did not help: up to double, at random, so
// that nodes which were lost together are not dialled together.
func longer(pause, longest time.Duration) time.Duration {
	pause = max(pause, reconnectDelay)
	pause += rand.N(pause)
	if pause > longest {
		pause = longest*3/4 + rand.N(longest/4+1)
	}
	return pause
}

// attempt connects to a node once. It returns when the connection is lost, with
// how long it lasted since the handshake was finished, or with the reason why
// there was none.
func (n *Network) attempt(ctx context.Context, p *place) (lasted time.Duration, err error) {
	if _, err := n.places.choose(p); err != nil {
		return 0, err
	}
	if err := n.dials.Wait(ctx); err != nil {
		return 0, err
	}
	// It may have been a long wait.
	if !n.wants(p.nodeID) {
		return 0, errUnwanted
	}
	addr, err := n.places.choose(p)
	if err != nil {
		return 0, err
	}
	n.metrics.dials.Inc()
	s, err := n.dial(ctx, p.nodeID, addr)
	if err != nil {
		n.metrics.dialFailures.Inc()
		n.places.tried(p, false)
		return 0, fmt.Errorf("dialling %s: %w", addr, err)
	}
	if finished := s.run(ctx); !finished {
		n.places.tried(p, false)
		return 0, fmt.Errorf("%s did not finish the handshake", addr)
	}
	n.places.tried(p, true)
	return time.Since(s.peer.Load().Since), nil
}

// dial makes a connection to nodeID at addr, up to the end of the TLS handshake.
func (n *Network) dial(ctx context.Context, nodeID ids.NodeID, addr netip.AddrPort) (*session, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	raw, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	w := newWire(raw, &n.backlog)
	s, err := n.upgrade(ctx, w, nodeID, addr)
	if err != nil {
		w.Close() //nolint:errcheck // it is over either way
		w.wait()
		return nil, err
	}
	return s, nil
}

// upgrade does the TLS handshake, in which nodeID has to prove itself.
func (n *Network) upgrade(ctx context.Context, w *wire, nodeID ids.NodeID, addr netip.AddrPort) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, tlsTimeout)
	defer cancel()
	conn := tls.Client(w, n.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	cert, err := staking.ParseCertificate(conn.ConnectionState().PeerCertificates[0].Raw)
	if err != nil {
		return nil, err
	}
	if met := ids.NodeIDFromCert(cert); met != nodeID {
		return nil, fmt.Errorf("%w: %s", errOtherNode, met)
	}
	return n.newSession(conn, w, cert, nodeID, addr), nil
}

// tlsConfig is for connections to nodes, which prove themselves with their keys
// (avalanchego, network/peer, TLSConfig).
func tlsConfig(cert *tls.Certificate) *tls.Config {
	config := peer.TLSConfig(*cert, nil)
	// A request goes out as a whole or not at all; small first records would
	// only cost calls.
	config.DynamicRecordSizingDisabled = true
	return config
}
