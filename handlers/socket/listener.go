// Package socket guards the listening side of a surface: how many connections there
// may be, how long a client may leave an answer unread, and TLS by certificate files.
package socket

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/handlers/access"
)

// Options of a Listener. What is 0 is not bounded.
type Options struct {
	// Connections bounds those that are open, PerAddress those of one client address
	// (IPv4 address or IPv6 /64).
	Connections, PerAddress int
	// Trusted are proxies, for which PerAddress does not count.
	Trusted []netip.Prefix
	// Stall is how long a client may take none of 64 KiB of an answer; then the
	// connection ends.
	Stall time.Duration
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Log gets a line at most every ten seconds while connections are refused; nil
	// drops them.
	Log *slog.Logger
}

// Listener is a net.Listener that closes connections beyond its bounds as they come.
type Listener struct {
	net.Listener
	o       Options
	refused *prometheus.CounterVec

	mu     sync.Mutex
	open   int                  // guarded by mu
	by     map[netip.Prefix]int // guarded by mu; never has zeros
	logged time.Time            // guarded by mu
}

// Listen guards inner, which it owns from then on.
func Listen(inner net.Listener, o Options) (*Listener, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Listener{
		Listener: inner, o: o, by: make(map[netip.Prefix]int),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_http_connections_refused_total", Help: "Connections closed as they came, by the bound that they exceeded: all or address.",
		}, []string{"bound"}),
	}
	if o.Metrics == nil {
		return l, nil
	}
	for _, bound := range []string{boundAll, boundAddress} {
		l.refused.WithLabelValues(bound)
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_http_connections", Help: "Connections of clients that are open."}, func() float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return float64(l.open)
	})
	if err := errors.Join(o.Metrics.Register(l.refused), o.Metrics.Register(open)); err != nil {
		return nil, fmt.Errorf("registering the metrics of connections: %w", err)
	}
	return l, nil
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
			_ = c.Close() // nobody is told, since a reply could wait for its reader, too
			continue
		}
		return &conn{Conn: c, stall: l.o.Stall, leave: sync.OnceFunc(func() { l.leave(from, counted) })}, nil
	}
}

// origin is whom a connection counts for; false if for nobody.
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

// piece is what a client has to take within the stall time, in bytes.
const piece = 64 << 10

// conn counts until it is closed, and does not wait for ever for its reader.
type conn struct {
	net.Conn
	stall time.Duration
	leave func()

	mu    sync.Mutex
	outer time.Time // guarded by mu; the deadline that others set, zero for none
}

func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite lets net/http say that nothing more comes before it closes, so that the
// last answer is not lost with data that was not read.
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
		if err := c.patience(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(next)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// patience makes the deadline of the next write the stall time, unless there is an
// earlier one.
func (c *conn) patience() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(c.stall)
	if !c.outer.IsZero() && c.outer.Before(deadline) {
		deadline = c.outer
	}
	return c.Conn.SetWriteDeadline(deadline)
}
