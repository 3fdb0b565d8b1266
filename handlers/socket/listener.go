// Package socket limits the connections of a listener: their number, and how long a client
// may leave a response unread. It also loads TLS certificates from files.
package socket

import (
	"container/list"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"quorate/handlers/access"
)

// Options configure a Listener. 0 means no limit.
type Options struct {
	// Connections limits the open connections, PerAddress those of one client IP address
	// (IPv4 address or IPv6 /64).
	Connections, PerAddress int
	// Trusted are proxies that PerAddress does not limit.
	Trusted []netip.Prefix
	// Stall is how long a client may read less than 64 KiB of a response before its
	// connection is closed.
	Stall time.Duration
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Log receives at most one line in ten seconds about refused connections. Nil discards
	// them.
	Log *slog.Logger
}

// Listener is a net.Listener that closes connections beyond its limits: if a server reports the state of connections to
// ConnState, the one that has been idle for longest, else the new one.
type Listener struct {
	net.Listener
	o       Options
	refused *prometheus.CounterVec
	evicted prometheus.Counter

	mu     sync.Mutex
	limits limits                   // guarded by mu
	open   int                      // guarded by mu
	by     map[netip.Prefix]*origin // guarded by mu; each has open connections
	logged time.Time                // guarded by mu
}

// limits are the most open connections in all, and of one client IP address. 0 means no limit.
type limits struct{ all, perAddress int }

// SetLimits replaces Options.Connections and Options.PerAddress. Open connections beyond them stay open.
func (l *Listener) SetLimits(connections, perAddress int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits{connections, perAddress}
}

// origin is the connections of one client IP address. Listener.mu guards it.
type origin struct {
	from    netip.Prefix // the zero value for connections that PerAddress does not limit
	counted bool
	open    int
	idle    list.List // of *conn, longest idle first
}

// Listen returns a listener that limits the connections of inner, which it owns.
func Listen(inner net.Listener, o Options) *Listener {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	metrics := promauto.With(o.Metrics) // which may be nil
	l := &Listener{
		Listener: inner, o: o, limits: limits{o.Connections, o.PerAddress}, by: make(map[netip.Prefix]*origin),
		refused: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_http_connections_refused_total", Help: "Connections closed as they came, by the bound that they exceeded: all or address.",
		}, []string{"bound"}),
		evicted: metrics.NewCounter(prometheus.CounterOpts{
			Name: "quorate_http_connections_evicted_total", Help: "Idle connections closed to make room for new ones.",
		}),
	}
	for _, bound := range []string{boundAll, boundAddress} {
		l.refused.WithLabelValues(bound)
	}
	metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_http_connections", Help: "Connections of clients that are open."}, func() float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return float64(l.open)
	})
	return l
}

const (
	boundAll     = "all"
	boundAddress = "address"
)

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: inner, stall: l.o.Stall, listener: l}
		victim, ok := l.enter(c)
		if victim != nil {
			_ = victim.Conn.Close()
		}
		if !ok {
			_ = inner.Close() // without a response, which could block on the client
			continue
		}
		return c, nil
	}
}

// ConnState records which connections wait for a request. It has the signature of http.Server's field.
func (l *Listener) ConnState(of net.Conn, state http.ConnState) {
	for {
		if c, ok := of.(*conn); ok {
			l.setIdle(c, state == http.StateNew || state == http.StateIdle)
			return
		}
		outer, ok := of.(interface{ NetConn() net.Conn }) // a TLS connection
		if !ok {
			return
		}
		of = outer.NetConn()
	}
}

func (l *Listener) setIdle(c *conn, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.idle != nil {
		c.origin.idle.Remove(c.idle)
		c.idle = nil
	}
	if idle && !c.left {
		c.idle = c.origin.idle.PushBack(c)
	}
}

// prefixOf returns the prefix of the client IP address that a connection counts for, false if none.
func (l *Listener) prefixOf(c net.Conn) (netip.Prefix, bool) {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}, false
	}
	a := tcp.AddrPort().Addr().Unmap().WithZone("")
	for _, p := range l.o.Trusted {
		if p.Contains(a) {
			return netip.Prefix{}, false
		}
	}
	p := access.Origin(a)
	return p, p.IsValid()
}

// enter counts a connection. If a limit is reached it returns an idle connection, which it no longer counts and which
// the caller must close; without one it returns false.
func (l *Listener) enter(c *conn) (victim *conn, ok bool) {
	from, counted := l.prefixOf(c.Conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.by[from]
	if o == nil {
		o = &origin{from: from, counted: counted}
	}
	var (
		full  *origin
		bound string
	)
	switch {
	case counted && l.limits.perAddress > 0 && o.open >= l.limits.perAddress:
		full, bound = o, boundAddress
	case l.limits.all > 0 && l.open >= l.limits.all:
		full, bound = l.mostIdle(), boundAll
	default:
		l.add(c, o)
		return nil, true
	}
	if full != nil && full.idle.Len() > 0 {
		victim = full.idle.Front().Value.(*conn)
		l.remove(victim)
		l.evicted.Inc()
		l.add(c, o)
		return victim, true
	}
	l.refused.WithLabelValues(bound).Inc()
	if now := time.Now(); now.Sub(l.logged) > 10*time.Second {
		l.logged = now
		l.o.Log.Warn("connections are refused", slog.String("bound", bound), slog.Int("open", l.open), slog.String("from", from.String()))
	}
	return nil, false
}

// mostIdle returns the origin with the most idle connections, so that a client that holds many cannot displace
// others. Those of trusted proxies come last. It returns nil if no connection is idle.
func (l *Listener) mostIdle() (most *origin) {
	for _, o := range l.by {
		switch {
		case o.idle.Len() == 0:
		case most == nil, o.counted && !most.counted, o.counted == most.counted && o.idle.Len() > most.idle.Len():
			most = o
		}
	}
	return most
}

// add requires mu.
func (l *Listener) add(c *conn, o *origin) {
	c.origin = o
	o.open++
	l.open++
	l.by[o.from] = o
}

// remove requires mu. A second call does nothing.
func (l *Listener) remove(c *conn) {
	if c.left {
		return
	}
	c.left = true
	if c.idle != nil {
		c.origin.idle.Remove(c.idle)
		c.idle = nil
	}
	l.open--
	if c.origin.open--; c.origin.open == 0 {
		delete(l.by, c.origin.from)
	}
}

func (l *Listener) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(c)
}

// piece is how much a client must read within the stall time, in bytes.
const piece = 64 << 10

// conn is a counted connection whose writes have a time limit.
type conn struct {
	net.Conn
	stall    time.Duration
	listener *Listener

	// The next fields belong to the listener, whose mu guards them.
	origin *origin
	idle   *list.Element // in origin.idle; nil while the connection has a request
	left   bool          // no longer counted

	mu    sync.Mutex
	outer time.Time // guarded by mu; the deadline that net/http set, zero for none
}

func (c *conn) Close() error {
	defer c.listener.leave(c)
	return c.Conn.Close()
}

// CloseWrite lets net/http end the response before it closes the connection: closing at
// once while request data is unread would discard the response.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outer = t
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outer = t
	return c.Conn.SetDeadline(t)
}

func (c *conn) Write(p []byte) (int, error) {
	if c.stall <= 0 {
		return c.Conn.Write(p)
	}
	written := 0
	for {
		next := p[written:min(len(p), written+piece)]
		if err := c.startStall(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(next)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// startStall sets the deadline of the next write to the stall time, unless net/http set an
// earlier one.
func (c *conn) startStall() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(c.stall)
	if !c.outer.IsZero() && c.outer.Before(deadline) {
		deadline = c.outer
	}
	return c.Conn.SetWriteDeadline(deadline)
}
