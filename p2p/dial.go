package p2p

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	avadialer "github.com/ava-labs/avalanchego/network/dialer"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/ips"
	"github.com/ava-labs/avalanchego/utils/logging"
)

// maxPlaces bounds the nodes whose addresses we were told.
const maxPlaces = 20_000

var (
	errUnwanted  = errors.New("node validates nothing")
	errNoAddress = errors.New("no address that may be dialled")
	errOtherNode = errors.New("another node answers at this address")

	_ avadialer.Dialer = (*dialer)(nil)
)

// dialer makes the library's outgoing connections.
//
// The library learns most addresses from peer lists, signed by the node
// concerned, and replaces them by newer ones. Those from seeds and from the
// address book are hearsay: they may be out of date, and somebody else may answer
// there by now. Given such an address, the library would try it for ever, or take
// the other node and never try the right one again (avalanchego, network, dial
// and ManuallyTrack). So for each node that we were told about it gets a token,
// an address that means nothing but this node, and the token is resolved here,
// at each attempt anew, to what is known at that time. An attempt that meets
// another node fails, and the next one takes the next address.
type dialer struct {
	base         avadialer.Dialer
	allowPrivate bool
	wants        func(ids.NodeID) bool

	mu        sync.Mutex
	places    map[ids.NodeID]*place         // guarded by mu
	tokens    map[netip.AddrPort]ids.NodeID // guarded by mu
	claims    map[netip.AddrPort]ids.NodeID // guarded by mu: signed addresses of nodes that we met
	upgrading map[*conn]struct{}            // guarded by mu: before the end of the TLS handshake
	closed    bool                          // guarded by mu

	// busy counts dials, from the start to the end of the TLS handshake. Add
	// happens with mu held and closed false.
	busy sync.WaitGroup
}

// place is what we know of where a node is.
type place struct {
	token  netip.AddrPort
	seed   netip.AddrPort // as the seeds last said; may be invalid
	booked netip.AddrPort // where it was last met; may be invalid
	claim  netip.AddrPort // what it claims itself; may be invalid
	failed uint           // attempts in vain
	proven bool           // showed its certificate during the current attempt
}

func newDialer(config Config, wants func(ids.NodeID) bool, log logging.Logger) *dialer {
	return &dialer{
		base: avadialer.NewDialer(constants.NetworkType, avadialer.Config{
			ThrottleRps:       config.DialsPerSecond,
			ConnectionTimeout: dialTimeout,
		}, log),
		allowPrivate: config.AllowPrivateIPs,
		wants:        wants,
		places:       make(map[ids.NodeID]*place),
		tokens:       make(map[netip.AddrPort]ids.NodeID),
		claims:       make(map[netip.AddrPort]ids.NodeID),
		upgrading:    make(map[*conn]struct{}),
	}
}

// seeded notes what the seeds say, and booked what the address book says. Both
// return the token to give to the library, unless there are too many nodes
// already.
func (d *dialer) seeded(a Address) (netip.AddrPort, bool) {
	return d.told(a.NodeID, func(p *place) { p.seed = a.Addr })
}

func (d *dialer) booked(a Address) (netip.AddrPort, bool) {
	return d.told(a.NodeID, func(p *place) { p.booked = a.Addr })
}

func (d *dialer) told(nodeID ids.NodeID, note func(*place)) (netip.AddrPort, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.place(nodeID)
	if p == nil {
		return netip.AddrPort{}, false
	}
	note(p)
	return p.token, true
}

// place of a node, made if there is none; nil if there are too many. d.mu is
// held.
func (d *dialer) place(nodeID ids.NodeID) *place {
	if p := d.places[nodeID]; p != nil {
		return p
	}
	if len(d.places) >= maxPlaces {
		return nil
	}
	p := &place{token: newToken()}
	d.places[nodeID] = p
	d.tokens[p.token] = nodeID
	return p
}

// newToken is an address of the range reserved for documentation, which the
// library takes for public and nobody can guess.
func newToken() netip.AddrPort {
	addr := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	_, _ = rand.Read(addr[4:]) // never fails
	return netip.AddrPortFrom(netip.AddrFrom16(addr), 1)
}

// claimed notes the address that a connected node signed. The library dials
// that one after the connection is lost.
func (d *dialer) claimed(nodeID ids.NodeID, addr netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.place(nodeID)
	if p == nil {
		return
	}
	if d.claims[p.claim] == nodeID {
		delete(d.claims, p.claim)
	}
	p.claim = addr
	d.claims[addr] = nodeID
}

// Dial connects to a token's node, or to an address out of a peer list.
func (d *dialer) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, net.ErrClosed
	}
	d.busy.Add(1)
	nodeID, hearsay := d.tokens[addr]
	d.mu.Unlock()

	c, err := d.dial(ctx, addr, nodeID, hearsay)
	if err != nil {
		d.busy.Done()
		return nil, err
	}
	return c, nil
}

func (d *dialer) dial(ctx context.Context, addr netip.AddrPort, nodeID ids.NodeID, hearsay bool) (net.Conn, error) {
	if !hearsay {
		raw, err := d.base.Dial(ctx, addr)
		if err == nil {
			return d.adopt(raw, nil)
		}
		// A node that we met may have moved, and its new claim reach us only
		// through others. The seeds may know already.
		p, moved, ok := d.moved(addr)
		if !ok {
			return nil, err
		}
		if raw, err = d.base.Dial(ctx, moved); err != nil {
			return nil, err
		}
		return d.adopt(raw, p)
	}

	p, addr, err := d.attempt(nodeID)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", nodeID, err)
	}
	raw, err := d.base.Dial(ctx, addr)
	if err != nil {
		d.mu.Lock()
		p.failed++
		d.mu.Unlock()
		return nil, err
	}
	return d.adopt(raw, p)
}

// attempt chooses where to look for a node this time.
func (d *dialer) attempt(nodeID ids.NodeID) (*place, netip.AddrPort, error) {
	if !d.wants(nodeID) {
		return nil, netip.AddrPort{}, errUnwanted
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.places[nodeID]
	var candidates []netip.AddrPort
	if d.permitted(p.seed) {
		candidates = append(candidates, p.seed)
	}
	if d.permitted(p.booked) && p.booked != p.seed {
		candidates = append(candidates, p.booked)
	}
	if len(candidates) == 0 {
		return nil, netip.AddrPort{}, errNoAddress
	}
	p.proven = false
	return p, candidates[p.failed%uint(len(candidates))], nil
}

// moved is where the node that claims addr is according to the seeds, if that is
// somewhere else.
func (d *dialer) moved(addr netip.AddrPort) (*place, netip.AddrPort, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.places[d.claims[addr]]
	if p == nil || p.claim != addr || p.seed == addr || !d.permitted(p.seed) {
		return nil, netip.AddrPort{}, false
	}
	p.proven = false
	return p, p.seed, true
}

func (d *dialer) permitted(addr netip.AddrPort) bool {
	return dialable(addr) && (d.allowPrivate || ips.IsPublic(addr.Addr()))
}

// adopt hands a connection on, if it is still wanted. p is whose it should be,
// or nil if that is the library's business.
func (d *dialer) adopt(raw net.Conn, p *place) (net.Conn, error) {
	c := &conn{Conn: raw, dialer: d, place: p}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.Join(net.ErrClosed, raw.Close())
	}
	d.upgrading[c] = struct{}{}
	return c, nil
}

// verifyConnection is part of the TLS handshake. It notes whom we met.
func (d *dialer) verifyConnection(state tls.ConnectionState) error {
	if err := peer.ValidateCertificate(state); err != nil {
		return err
	}
	cert, err := staking.ParseCertificate(state.PeerCertificates[0].Raw)
	if err != nil {
		return err
	}
	nodeID := ids.NodeIDFromCert(cert)
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.places[nodeID]; p != nil {
		p.proven = true
	}
	return nil
}

// upgraded ends the care for a connection whose TLS handshake has succeeded.
func (d *dialer) upgraded(c *conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released(c)
	if c.place == nil {
		return nil
	}
	if !c.place.proven {
		c.place.failed++
		return errOtherNode
	}
	c.place.failed = 0
	return nil
}

// released ends the care for a connection and reports whether there was any
// still. d.mu is held.
func (d *dialer) released(c *conn) bool {
	if _, ok := d.upgrading[c]; !ok {
		return false
	}
	delete(d.upgrading, c)
	d.busy.Done()
	return true
}

// close ends all dials and waits for them. The library does not: some of its
// dials would linger for as long as their handshakes may take.
func (d *dialer) close() {
	d.mu.Lock()
	d.closed = true
	for c := range d.upgrading {
		c.Conn.Close() //nolint:errcheck // its owner sees the failure
	}
	d.mu.Unlock()
	d.busy.Wait()
}

// conn is a connection that knows when its TLS handshake is over.
type conn struct {
	net.Conn

	dialer *dialer
	place  *place // whose it should be; nil if we do not know
	over   bool   // owned by the goroutine that dials, then by the one that reads
}

// SetReadDeadline is called with the zero time once, right after the TLS
// handshake and by whoever dialled, to lift the handshake's deadline
// (avalanchego, network, upgrade). An error makes that a failed attempt.
func (c *conn) SetReadDeadline(t time.Time) error {
	if t.IsZero() && !c.over {
		c.over = true
		if err := c.dialer.upgraded(c); err != nil {
			return err
		}
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) Close() error {
	c.dialer.mu.Lock()
	if c.dialer.released(c) && c.place != nil {
		c.place.failed++ // the TLS handshake did not succeed
	}
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}
