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
	// dialsPerSecond bounds new connections, also the size of a burst.
	dialsPerSecond = 300
	// tlsTimeout bounds a TLS handshake.
	tlsTimeout = constants.DefaultNetworkReadHandshakeTimeout
	// reconnectDelay is the first pause between attempts to reach one node; a random part
	// of up to the same length is added.
	reconnectDelay = time.Second
	// steady is how long a connection must have lasted so that the next attempt follows at
	// once. Nodes refuse an earlier second connection from the same address (avalanchego,
	// network/throttling, inbound connection cooldown).
	steady = 10 * time.Second
)

var (
	errUnwanted  = errors.New("node validates nothing")
	errNoAddress = errors.New("no address that may be dialled")
	// errPrivateAddress is an errNoAddress.
	errPrivateAddress = fmt.Errorf("%w: private addresses are not allowed", errNoAddress)
	errUnreachable    = errors.New("no connection")
	errOtherNode      = errors.New("another node answers at this address")
)

// want keeps the node of a candidate connected, if it is wanted and no goroutine does so
// already. c may be nil.
func (n *Network) want(c *candidate) {
	if c == nil || !n.wants(c.nodeID) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life == nil || n.closed || !n.candidates.keep(c) {
		return
	}
	life := n.life
	n.keepers.Go(func() { n.keep(life, c) })
}

// wantAll calls want for all candidates.
func (n *Network) wantAll() {
	for _, c := range n.candidates.unkept() {
		n.want(c)
	}
}

// wants reports whether nodeID is worth a connection.
func (n *Network) wants(nodeID ids.NodeID) bool {
	return n.sets.wants(nodeID) || n.bootstrappers.Contains(nodeID)
}

// keep connects to a node repeatedly until ctx ends or the node is not wanted any more. Its
// goroutine reads the connection.
func (n *Network) keep(ctx context.Context, c *candidate) {
	var pause time.Duration
	for {
		if !n.wants(c.nodeID) && n.candidates.release(c, n.wants) {
			return
		}
		select {
		case <-c.news: // already known
		default:
		}
		if !c.await(ctx, pause) {
			return
		}
		lasted, err := n.attempt(ctx, c)
		if ctx.Err() != nil {
			return
		}
		failure := failureOf(err)
		n.candidates.fail(c, failure)
		if err != nil {
			n.metrics.failures.WithLabelValues(string(failure.Obstacle)).Inc()
			n.log.Debug("cannot reach node", slog.Any("nodeID", c.nodeID), slog.Any("error", err))
		}
		if lasted >= steady {
			pause = 0
		} else {
			pause = longer(pause, n.config.MaxReconnectDelay)
		}
	}
}

// await waits until the next attempt, shorter if there is a new address. It returns false
// if ctx has ended.
func (c *candidate) await(ctx context.Context, pause time.Duration) bool {
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
		case <-c.news:
			// Wait all the same: a node that signs a new address every moment must not
			// choose what is dialled and how often.
			timer.Stop()
			pause = min(pause, reconnectDelay)
		}
	}
}

// longer returns the pause after a failure: up to twice as long, at random, so that nodes
// lost together are not dialled together.
func longer(pause, longest time.Duration) time.Duration {
	pause = max(pause, reconnectDelay)
	pause += rand.N(pause)
	if pause > longest {
		pause = longest*3/4 + rand.N(longest/4+1)
	}
	return pause
}

// attempt connects to a node once. It returns when the connection is lost, with the time
// since the end of the handshake, or with the reason why there was no connection.
func (n *Network) attempt(ctx context.Context, c *candidate) (lasted time.Duration, err error) {
	if _, err := n.candidates.choose(c); err != nil {
		return 0, err
	}
	if err := n.dials.Wait(ctx); err != nil {
		return 0, err
	}
	// The wait may have been long.
	if !n.wants(c.nodeID) {
		return 0, errUnwanted
	}
	addr, err := n.candidates.choose(c)
	if err != nil {
		return 0, err
	}
	n.metrics.dials.Inc()
	s, err := n.dial(ctx, c.nodeID, addr)
	if err != nil {
		n.metrics.dialFailures.Inc()
		n.candidates.tried(c, false)
		return 0, fmt.Errorf("dialling %s: %w", addr, err)
	}
	if finished := s.run(ctx); !finished {
		n.candidates.tried(c, false)
		return 0, fmt.Errorf("%s did not finish the handshake: %w", addr, s.failure)
	}
	n.candidates.tried(c, true)
	return time.Since(s.peer.Load().Since), nil
}

// dial makes a connection to nodeID at addr, up to the end of the TLS handshake.
func (n *Network) dial(ctx context.Context, nodeID ids.NodeID, addr netip.AddrPort) (*session, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	raw, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	w := newWire(raw, &n.backlog)
	s, err := n.upgrade(ctx, w, nodeID, addr)
	if err != nil {
		w.Close() //nolint:errcheck // close errors do not matter here
		w.wait()
		return nil, err
	}
	return s, nil
}

// upgrade performs the TLS handshake and checks that the node is nodeID.
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

// tlsConfig returns the configuration for connections to nodes, which authenticate with
// their keys (avalanchego, network/peer, TLSConfig).
func tlsConfig(cert *tls.Certificate) *tls.Config {
	config := peer.TLSConfig(*cert, nil)
	// Requests are small and sent whole; small first TLS records would only cost system
	// calls.
	config.DynamicRecordSizingDisabled = true
	return config
}
