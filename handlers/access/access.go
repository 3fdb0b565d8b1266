// Package access limits requests: it checks API keys, charges each request to the allowance of its API key or of its
// client IP address, and finds the client IP address behind proxies. It does not depend on what is requested.
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

// Options configures a Guard. The zero value allows every request.
type Options struct {
	// Keys is the file of API keys. Until the file has an API key, the Guard ignores API keys in requests.
	Keys KeyFile
	// Stored holds API keys in a store and replaces Keys; see Guard.Load.
	Stored *KeyStore
	// Classes holds the classes by name. Without DefaultClass, clients without an API key are not limited.
	Classes map[string]Class
	// Shared shares the allowances of API keys between processes; if nil, each process counts alone. Each process
	// always counts client IP addresses alone.
	Shared *Shared
	// Addresses is the number of client IP addresses whose use is tracked, the most recently active ones; 0 means
	// 65536. Each takes about 300 bytes.
	Addresses int
	// Free lists route patterns that need no API key and have no limit, for example those of health checks.
	Free []string
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Log gets changes and failures of the API keys; nil discards them. API keys are never logged.
	Log *slog.Logger
}

// Guard checks the API key and the allowance of each request. It is safe for concurrent use.
type Guard struct {
	keys    *keyring
	free    []string
	refused *prometheus.CounterVec
	owed    prometheus.Counter

	mu        sync.Mutex       // guarantees one allowance per client IP address
	classes   map[string]Class // guarded by mu; replaced, never changed
	addresses *lru.Cache[netip.Prefix, *allowance]
}

// New returns a Guard.
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
		addresses: lru.NewCache[netip.Prefix, *allowance](o.Addresses),
		refused: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_http_refused_total", Help: "Requests refused before routing, by reason: key (unknown or revoked), rate, day.",
		}, []string{"reason"}),
		owed: metrics.NewCounter(prometheus.CounterOpts{
			Name: "quorate_http_owed_total", Help: "Extra requests charged to clients for signature requests to validators and for events of streams.",
		}),
	}
	if err := checkClasses(o.Classes); err != nil {
		return nil, err
	}
	for _, reason := range []string{"key", "rate", "day"} {
		g.refused.WithLabelValues(reason)
	}
	metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_api_keys", Help: "API keys that are not revoked."}, func() float64 { return float64(g.keys.count()) })
	metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_limited_addresses", Help: "Client IP addresses whose use is counted."}, func() float64 { return float64(g.addresses.Len()) })
	return g, nil
}

func checkClasses(classes map[string]Class) error {
	for name, c := range classes {
		if err := c.Validate(); err != nil {
			return fmt.Errorf("rate class %s: %w", name, err)
		}
	}
	return nil
}

// SetClasses replaces the classes. Clients keep what they have used of their allowances. After an error the classes stay
// as they were.
func (g *Guard) SetClasses(classes map[string]Class) error {
	if err := checkClasses(classes); err != nil {
		return err
	}
	g.keys.setClasses(classes)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.classes = classes
	return nil
}

// Load reads the API keys of Options.Stored. Until then no API key is known. It does nothing if Stored is nil.
func (g *Guard) Load(ctx context.Context) error {
	if g.keys.stored == nil {
		return nil
	}
	return g.keys.load(ctx)
}

// Watch applies changes of the API keys in Options.Stored within about a second, until ctx ends. It returns at once if
// Stored is nil.
func (g *Guard) Watch(ctx context.Context) { g.keys.watch(ctx) }

// Headers with API keys. If both are set, headerKey takes precedence.
const (
	headerKey       = "X-Data-Api-Key"
	headerKeyClient = "X-Glacier-Api-Key"
)

// maxKeyLength is the length of the longest API key that is hashed, in bytes.
const maxKeyLength = 256

// keyName is the context key of the name of the request's API key.
const keyName = "access.key"

// KeyName returns the name of the request's API key, empty without one.
func KeyName(c echo.Context) string {
	name, _ := c.Get(keyName).(string)
	return name
}

// Keyed reports whether there are API keys, revoked ones included.
func (g *Guard) Keyed() bool {
	_, some := g.keys.look("")
	return some
}

// Named reports whether there is an API key with a name that is not revoked.
func (g *Guard) Named(name string) bool { return g.keys.named(name) }

// Middleware answers 401 for an unknown API key, 403 for a revoked one and 429 if the allowance is exceeded. Response
// headers state the remaining allowance.
func (g *Guard) Middleware() echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if slices.Contains(g.free, c.Path()) {
				return next(c)
			}
			header := c.Request().Header
			name, left, err := g.admit(keyOf(header), c.RealIP())
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
			h["Ratelimit-Policy"] = left.policy
			h.Set("Ratelimit-Limit", strconv.Itoa(left.class.burst()))
			v.setHeaders(h)
			if err != nil {
				return err
			}
			return next(c)
		}
	}
}

// keyOf returns the API key of a request, empty without one.
func keyOf(h http.Header) string { return cmp.Or(h.Get(headerKey), h.Get(headerKeyClient)) }

// setHeaders sets the headers that state the remaining allowance.
func (v verdict) setHeaders(h http.Header) {
	h.Set("Ratelimit-Remaining", strconv.Itoa(v.remaining))
	if !v.allowed {
		h.Set("Ratelimit-Reset", seconds(v.reset))
		h.Set(echo.HeaderRetryAfter, seconds(v.reset))
	}
}

// spend charges n requests, all or none. It returns an error if the allowance is exceeded.
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
	if v.owes {
		return v, tooMany("earlier requests cost more than the allowance of %v requests a second; try again in %s s", rounded(left.class.PerSecond), seconds(v.reset))
	}
	return v, tooMany("more than %v requests a second; try again in %s s", rounded(left.class.PerSecond), seconds(v.reset))
}

// Client is the sender of a request that contains several operations: a batch or a WebSocket connection. It is safe
// for concurrent use.
type Client struct {
	guard              *Guard // nil if requests are not counted
	key, name, address string
}

type clientKey struct{}

// Accompany returns a context with the client of c; see ClientOf. Middleware must have admitted the request. A nil
// Guard does not limit the client.
func (g *Guard) Accompany(c echo.Context) (context.Context, *Client) {
	r := c.Request()
	who := &Client{guard: g, key: keyOf(r.Header), name: KeyName(c), address: c.RealIP()}
	return context.WithValue(r.Context(), clientKey{}, who), who
}

// Charge makes an admitted request count as n requests: it charges the other n-1, all or none; see Client.TakeBatch.
// parameter names what the n requests follow from. A nil Guard charges nothing.
func (g *Guard) Charge(c echo.Context, parameter string, n int) error {
	ctx, client := g.Accompany(c)
	if refused := client.TakeBatch(ctx, c.Response().Header(), n); refused != nil {
		if refused.Status == http.StatusBadRequest {
			refused.Message = parameter + ": " + refused.Message
		}
		return refused
	}
	return nil
}

// ClientOf returns the client in ctx, nil without one.
func ClientOf(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}

// ID returns an identifier of the client: its API key, or the prefix of its client IP address.
func (c *Client) ID() string {
	if c.name != "" {
		return "key " + c.name
	}
	return OriginOf(c.address).String()
}

// Take charges n requests that came over a connection, all or none. If the client exceeds its allowance, refused is
// the answer to a request, and wait is the time until n requests are allowed. Wait is 0 if they never will be: the API
// key was revoked, or n exceeds the burst (status 400).
func (c *Client) Take(ctx context.Context, n int) (wait time.Duration, refused *apierr.Error) {
	v, _, refused := c.take(ctx, n, n)
	return v.reset, refused
}

// TakeBatch charges the n-1 requests of a batch that Middleware did not charge, all or none. It writes the remaining
// allowance to header. If the client exceeds its allowance, refused is the answer; its status is 400 if n exceeds the
// burst.
func (c *Client) TakeBatch(ctx context.Context, header http.Header, n int) (refused *apierr.Error) {
	v, limited, refused := c.take(ctx, n-1, n)
	if limited {
		v.setHeaders(header)
	}
	return refused
}

// take charges n requests, all or none. They belong to a batch of all requests.
func (c *Client) take(ctx context.Context, n, all int) (v verdict, limited bool, refused *apierr.Error) {
	if c.guard == nil || n <= 0 {
		return v, false, nil
	}
	_, left, err := c.guard.admit(c.key, c.address)
	if limited = err == nil && left != nil; limited {
		if most := left.class.burst(); all > most {
			c.guard.refused.WithLabelValues("rate").Inc()
			// Not 429: waiting does not help.
			limited, err = false, apierr.BadRequest("%d requests at once are more than the rate limit ever allows; send at most %d in a batch", all, most)
		} else {
			v, err = c.guard.spend(ctx, left, n)
		}
	}
	errors.As(err, &refused)
	return v, limited, refused
}

// Owe charges n requests for what admitted requests cost in the end. It refuses nothing: if they exceed the allowance,
// the allowance goes into debt, at most as much as 30 s restore. Later requests are refused until the debt is restored.
// ctx may have ended.
func (c *Client) Owe(ctx context.Context, n int) {
	if c.guard == nil || n <= 0 {
		return
	}
	_, left, err := c.guard.admit(c.key, c.address)
	if err != nil || left == nil {
		return // the API key was revoked meanwhile, or there is no limit
	}
	left.owe(context.WithoutCancel(ctx), n, time.Now())
	c.guard.owed.Add(float64(n))
}

func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

func tooMany(format string, args ...any) error {
	return &apierr.Error{Status: http.StatusTooManyRequests, Message: fmt.Sprintf(format, args...), Code: "RATE_LIMITED"}
}

// admit returns the name and the allowance of the API key, or the allowance of address without an API key. left is nil if
// there is no limit.
func (g *Guard) admit(key, address string) (name string, left *allowance, err error) {
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
			return h.Name, h.left, nil
		case h != nil:
			g.refused.WithLabelValues("key").Inc()
			return "", nil, &apierr.Error{Status: http.StatusForbidden, Message: "the API key was revoked; ask the operator of this service for another, or send none"}
		case some:
			g.refused.WithLabelValues("key").Inc()
			return "", nil, &apierr.Error{Status: http.StatusUnauthorized, Message: "the API key is not known here; check the header " + headerKey + ", or send none"}
		}
	}
	origin := OriginOf(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	limits, ok := g.classes[DefaultClass]
	if !ok {
		return "", nil, nil
	}
	left, ok = g.addresses.Get(origin)
	if !ok || left.class != limits {
		left = newAllowance(limits, left)
		g.addresses.Put(origin, left)
	}
	return "", left, nil
}

// OriginOf parses text and returns its Origin. All texts that are no IP address share one origin.
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

// Origin returns the prefix of addresses that share one allowance: an IPv4 address itself, or the /64 of an IPv6
// address, since a host may use a whole /64.
func Origin(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // fails only for invalid sizes
	return p
}
