// Package socket limits the connections of a listener: their number, and how long a client
// may leave a response unread. It also loads TLS certificates from files.
package socket

import (
	"errors"
	"log/slog"
	"net"
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

// Listener is a net.Listener that closes new connections beyond its limits.
type Listener struct {
	net.Listener
	o       Options
	refused *prometheus.CounterVec

	mu     sync.Mutex
	open   int                  // guarded by mu
	by     map[netip.Prefix]int // guarded by mu; never has zeros
	logged time.Time            // guarded by mu
}

// Listen returns a listener that limits the connections of inner, which it owns.
func Listen(inner net.Listener, o Options) *Listener {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	metrics := promauto.With(o.Metrics) // which may be nil
	l := &Listener{
		Listener: inner, o: o, by: make(map[netip.Prefix]int),
		refused: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_http_connections_refused_total", Help: "Connections closed as they came, by the bound that they exceeded: all or address.",
		}, []string{"bound"}),
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
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, counted := l.origin(c)
		if !l.enter(from, counted) {
			_ = c.Close() // without a response, which could block on the client
			continue
		}
		return &conn{Conn: c, stall: l.o.Stall, leave: sync.OnceFunc(func() { l.leave(from, counted) })}, nil
	}
}

// origin returns the prefix of the client IP address that a connection counts for, false if none.
func (l *Listener) origin(c net.Conn) (netip.Prefix, bool) {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok || l.o.PerAddress <= 0 {
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

func (l *Listener) enter(from netip.Prefix, counted bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var bound string
	switch {
	case l.o.Connections > 0 && l.open >= l.o.Connections:
		bound = boundAll
	case counted && l.by[from] >= l.o.PerAddress:
		bound = boundAddress
	default:
		l.open++
		if counted {
			l.by[from]++
		}
		return true
	}
	l.refused.WithLabelValues(bound).Inc()
	if now := time.Now(); now.Sub(l.logged) > 10*time.Second {
		l.logged = now
		l.o.Log.Warn("connections are refused", slog.String("bound", bound), slog.Int("open", l.open), slog.String("from", from.String()))
	}
	return false
}

func (l *Listener) leave(from netip.Prefix, counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !counted {
		return
	}
	if l.by[from]--; l.by[from] == 0 {
		delete(l.by, from)
	}
}

// piece is how much a client must read within the stall time, in bytes.
const piece = 64 << 10

// conn is a counted connection whose writes have a time limit.
type conn struct {
	net.Conn
	stall time.Duration
	leave func()

	mu    sync.Mutex
	outer time.Time // guarded by mu; the deadline that net/http set, zero for none
}

func (c *conn) Close() error {
	defer c.leave()
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
