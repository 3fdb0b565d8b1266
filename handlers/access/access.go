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
	g := &Guard{
		keys:      &keyring{file: o.Keys, stored: o.Stored, classes: o.Classes, shared: o.Shared, log: o.Log},
		classes:   o.Classes,
		free:      o.Free,
		policies:  make(map[string][]string, len(o.Classes)),
		addresses: lru.NewCache[netip.Prefix, *allowance](o.Addresses),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
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
	if o.Metrics != nil {
		for _, c := range []prometheus.Collector{
			g.refused,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_api_keys", Help: "API keys that are good."}, func() float64 { return float64(g.keys.count()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_limited_addresses", Help: "Client addresses whose use is remembered."}, func() float64 { return float64(g.addresses.Len()) }),
		} {
			if err := o.Metrics.Register(c); err != nil {
				return nil, fmt.Errorf("registering the metrics of access: %w", err)
			}
		}
	}
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
// what exceeds the allowance, and says in headers what is left of it. Who asks for a
// connection to talk on is passed on, see ClientOf.
func (g *Guard) Middleware() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if slices.Contains(g.free, c.Path()) {
				return next(c)
			}
			header := c.Request().Header
			who := Client{guard: g, key: cmp.Or(header.Get(headerKey), header.Get(headerKeyClient)), address: c.RealIP()}
			name, class, left, err := g.admit(who.key, who.address)
			if err != nil {
				return err
			}
			if name != "" {
				c.Set(keyName, name)
			}
			if header.Get(echo.HeaderUpgrade) != "" {
				who.id = "key " + name
				if name == "" {
					who.id = OriginOf(who.address).String()
				}
				c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), clientKey{}, &who)))
			}
			if left == nil {
				return next(c)
			}
			v, err := g.spend(c.Request().Context(), left)
			h := c.Response().Header()
			h["Ratelimit-Policy"] = g.policies[class]
			h.Set("Ratelimit-Limit", strconv.Itoa(left.class.burst()))
			h.Set("Ratelimit-Remaining", strconv.Itoa(v.remaining))
			if err != nil {
				h.Set("Ratelimit-Reset", seconds(v.reset))
				h.Set(echo.HeaderRetryAfter, seconds(v.reset))
				return err
			}
			return next(c)
		}
	}
}

// spend uses one request up; the error is that of one too many.
func (g *Guard) spend(ctx context.Context, left *allowance) (verdict, error) {
	v := left.use(ctx, time.Now())
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

// Client is who has a connection to talk on. Safe for concurrent use.
type Client struct {
	guard            *Guard
	key, address, id string
}

type clientKey struct{}

// ClientOf is who a request to change protocols came from, nil without a Guard.
func ClientOf(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}

// ID tells clients apart: by their keys, else by what counts as one client of an
// address.
func (c *Client) ID() string { return c.id }

// Take uses one request up for what came over the connection. Refused is what a request
// would be answered, nil if it is allowed, and wait after how long one will be, 0 if none
// will: the key was revoked meanwhile.
func (c *Client) Take(ctx context.Context) (wait time.Duration, refused *apierr.Error) {
	_, _, left, err := c.guard.admit(c.key, c.address)
	var v verdict
	if err == nil && left != nil {
		v, err = c.guard.spend(ctx, left)
	}
	errors.As(err, &refused)
	return v.reset, refused
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
