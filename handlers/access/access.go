// Package access decides who may ask how much: API keys, allowances of requests by
// key and by client address, and which address a client behind proxies has. It knows
// nothing of what is asked.
package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/cache/lru"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"quorate/handlers/apierr"
)

// Options of a Guard. The zero value lets everybody in.
type Options struct {
	// Keys is the file of API keys. While it has never had one, keys that clients
	// send are ignored.
	Keys KeyFile
	// Stored are API keys in a store, instead of those in Keys; see Guard.Load.
	Stored *KeyStore
	// Classes by name. Without DefaultClass clients without a key are not limited.
	Classes map[string]Class
	// Shared has the allowances of keys count for several processes together; nil counts
	// here alone. Those of addresses always are of this process.
	Shared *Shared
	// Addresses is how many client addresses' use is remembered, those that were
	// heard of last; 0 means 65536. One takes about 300 bytes.
	Addresses int
	// Free are patterns of routes that anybody may ask as often as they like, such as
	// those that load balancers watch.
	Free []string
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Log gets what becomes of the keys; nil drops it. Keys are never logged.
	Log *slog.Logger
}

// Guard checks the key and the allowance of each request. Safe for concurrent use.
type Guard struct {
	keys     *keyring
	classes  map[string]Class
	free     []string
	refused  *prometheus.CounterVec
	policies map[string][]string // header values by class

	mu        sync.Mutex // so that an address has one allowance
	addresses *lru.Cache[netip.Prefix, *allowance]
}

// New makes a Guard.
func New(o Options) (*Guard, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Addresses <= 0 {
		o.Addresses = 65536
	}
	metrics := promauto.With(o.Metrics) // which may be nil
	g := &Guard{
		keys:      &keyring{file: o.Keys, stored: o.Stored, classes: o.Classes, shared: o.Shared, log: o.Log},
		classes:   o.Classes,
		free:      o.Free,
		policies:  make(map[string][]string, len(o.Classes)),
		addresses: lru.NewCache[netip.Prefix, *allowance](o.Addresses),
		refused: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_http_refused_total", Help: "Requests refused before they were looked at, by reason: key (unknown or revoked), rate, day.",
		}, []string{"reason"}),
	}
	for name, c := range o.Classes {
		if err := c.Validate(); err != nil {
			return nil, fmt.Errorf("rate class %s: %w", name, err)
		}
		g.policies[name] = []string{c.policy()}
	}
	for _, reason := range []string{"key", "rate", "day"} {
		g.refused.WithLabelValues(reason)
	}
	metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_api_keys", Help: "API keys that are good."}, func() float64 { return float64(g.keys.count()) })
	metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_limited_addresses", Help: "Client addresses whose use is remembered."}, func() float64 { return float64(g.addresses.Len()) })
	return g, nil
}

// Load reads the keys of Options.Stored, before which none is known; without, it does
// nothing.
func (g *Guard) Load(ctx context.Context) error {
	if g.keys.stored == nil {
		return nil
	}
	return g.keys.load(ctx)
}

// Watch has changes of the keys in Options.Stored take effect, within about a second,
// until ctx ends; without, it returns at once.
func (g *Guard) Watch(ctx context.Context) { g.keys.watch(ctx) }

// The headers that keys come in. The documented one counts if both are there.
const (
	headerKey       = "X-Data-Api-Key"
	headerKeyClient = "X-Glacier-Api-Key"
)

// maxKeyLength bounds what is hashed, in bytes.
const maxKeyLength = 256

// keyName is where the context of a request has the name of its key.
const keyName = "access.key"

// KeyName is the name of the key that a request came with, empty without one.
func KeyName(c echo.Context) string {
	name, _ := c.Get(keyName).(string)
	return name
}

// Middleware answers 401 for an unknown key, 403 for one that was revoked and 429 for
// what exceeds the allowance, and says in headers what is left of it.
func (g *Guard) Middleware() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if slices.Contains(g.free, c.Path()) {
				return next(c)
			}
			header := c.Request().Header
			name, class, left, err := g.admit(keyOf(header), c.RealIP())
			if err != nil {
				return err
			}
			if name != "" {
				c.Set(keyName, name)
			}
			if left == nil {
				return next(c)
			}
			v, err := g.spend(c.Request().Context(), left, 1)
			h := c.Response().Header()
			h["Ratelimit-Policy"] = g.policies[class]
			h.Set("Ratelimit-Limit", strconv.Itoa(left.class.burst()))
			v.tell(h)
			if err != nil {
				return err
			}
			return next(c)
		}
	}
}

// keyOf is the key that a request comes with, empty without one.
func keyOf(h http.Header) string { return cmp.Or(h.Get(headerKey), h.Get(headerKeyClient)) }

// tell says in headers what is left.
func (v verdict) tell(h http.Header) {
	h.Set("Ratelimit-Remaining", strconv.Itoa(v.remaining))
	if !v.allowed {
		h.Set("Ratelimit-Reset", seconds(v.reset))
		h.Set(echo.HeaderRetryAfter, seconds(v.reset))
	}
}

// spend uses n requests up, or none; the error is that of too many.
func (g *Guard) spend(ctx context.Context, left *allowance, n int) (verdict, error) {
	v := left.use(ctx, n, time.Now())
	switch {
	case v.allowed:
		return v, nil
	case v.daily:
		g.refused.WithLabelValues("day").Inc()
		return v, tooMany("the allowance of %d requests a day is used up; try again in %s s", left.class.PerDay, seconds(v.reset))
	}
	g.refused.WithLabelValues("rate").Inc()
	return v, tooMany("more than %v requests a second; try again in %s s", rounded(left.class.PerSecond), seconds(v.reset))
}

// Client is who made a request that brings more than one thing to do: a batch, or a
// connection to talk on. Safe for concurrent use.
type Client struct {
	guard              *Guard // nil if nothing is counted
	key, name, address string
}

type clientKey struct{}

// Accompany makes a context that has the client of a request, see ClientOf. Of a request
// that Middleware has let in; a nil Guard lets everybody in.
func (g *Guard) Accompany(c echo.Context) (context.Context, *Client) {
	r := c.Request()
	who := &Client{guard: g, key: keyOf(r.Header), name: KeyName(c), address: c.RealIP()}
	return context.WithValue(r.Context(), clientKey{}, who), who
}

// Charge has a request that was let in count as n, all or none besides itself; see
// Client.TakeBatch. A nil Guard lets everybody in.
func (g *Guard) Charge(c echo.Context, n int) error {
	ctx, client := g.Accompany(c)
	if refused := client.TakeBatch(ctx, c.Response().Header(), n); refused != nil {
		return refused
	}
	return nil
}

// ClientOf is who a request came from, nil if that was not noted.
func ClientOf(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}

// ID tells clients apart: by their keys, else by what counts as one client of an
// address.
func (c *Client) ID() string {
	if c.name != "" {
		return "key " + c.name
	}
	return OriginOf(c.address).String()
}

// Take uses n requests up, or none, for what came over a connection. Refused is what a
// request would be answered, nil if they are allowed, and wait after how long they will
// be, 0 if never: the key was revoked meanwhile, or so many are not allowed at once.
func (c *Client) Take(ctx context.Context, n int) (wait time.Duration, refused *apierr.Error) {
	v, _, refused := c.take(ctx, n, n)
	return v.reset, refused
}

// TakeBatch uses up what a batch of n takes besides the request that it came with, which
// was counted, or nothing. Header gets what is left. Refused is what the request is to be
// answered, nil if it is allowed.
func (c *Client) TakeBatch(ctx context.Context, header http.Header, n int) (refused *apierr.Error) {
	v, limited, refused := c.take(ctx, n-1, n)
	if limited {
		v.tell(header)
	}
	return refused
}

// take uses up n requests of those that belong together, which are all.
func (c *Client) take(ctx context.Context, n, all int) (v verdict, limited bool, refused *apierr.Error) {
	if c.guard == nil || n <= 0 {
		return v, false, nil
	}
	_, _, left, err := c.guard.admit(c.key, c.address)
	if limited = err == nil && left != nil; limited {
		if most := left.class.burst(); all > most {
			c.guard.refused.WithLabelValues("rate").Inc()
			limited, err = false, tooMany("%d requests at once are more than are ever allowed, which is %d; send them in parts", all, most)
		} else {
			v, err = c.guard.spend(ctx, left, n)
		}
	}
	errors.As(err, &refused)
	return v, limited, refused
}

func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

func tooMany(format string, args ...any) error {
	return &apierr.Error{Status: http.StatusTooManyRequests, Message: fmt.Sprintf(format, args...), Code: "RATE_LIMITED"}
}

// admit finds whose allowance a request uses, and the name of its key; left is nil if
// there is no limit.
func (g *Guard) admit(key, address string) (name, class string, left *allowance, err error) {
	if key != "" {
		var h *holder
		var some bool
		if len(key) <= maxKeyLength {
			h, some = g.keys.look(key)
		} else {
			_, some = g.keys.look("")
		}
		switch {
		case h != nil && h.Revoked.IsZero():
			return h.Name, h.class, h.left, nil
		case h != nil:
			g.refused.WithLabelValues("key").Inc()
			return "", "", nil, &apierr.Error{Status: http.StatusForbidden, Message: "the API key was revoked; ask the operator of this service for another, or send none"}
		case some:
			g.refused.WithLabelValues("key").Inc()
			return "", "", nil, &apierr.Error{Status: http.StatusUnauthorized, Message: "the API key is not known here; check the header " + headerKey + ", or send none"}
		}
	}
	limits, ok := g.classes[DefaultClass]
	if !ok {
		return "", "", nil, nil
	}
	origin := OriginOf(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	left, ok = g.addresses.Get(origin)
	if !ok {
		left = newAllowance(limits)
		g.addresses.Put(origin, left)
	}
	return "", DefaultClass, left, nil
}

// OriginOf is Origin of a text. What is no address counts as one client, too.
func OriginOf(text string) netip.Prefix {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}
	}
	return Origin(a)
}

// Origin is what counts as one client of an address: itself, if it is one of IPv4, or
// its /64, of which a single host has all.
func Origin(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // fails for sizes that are not an address's
	return p
}
