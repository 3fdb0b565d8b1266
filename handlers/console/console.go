// Package console is the web console: pages in the binary that show a service at
// work. It is read-only, has nothing that is for operators alone (no peer's address,
// no reason of a failure), and asks no other host for anything.
//
// The pages are at /console/. What they show comes from the public API, and from
// these endpoints of their own, which may change with the pages:
//
//	GET /console/api/live             server-sent events, as below
//	GET /console/api/sets/{set}       the validators of a round that live told of
//	GET /console/api/latency          how long requests for signatures took
//	GET /console/api/example          an unsigned message to try, ?network=; only
//	                                  where Options.Example offers one, else 404
//
// Live sends: rounds, all that is known, first of all and whenever a client was too
// slow for what happened; round, one that has begun; step, what validators of a
// round did since; end, how it ended; status, the networks and how far their chains
// are recorded, every two seconds.
//
// At most 64 clients listen at a time, 8 of them from one address, each with at most
// 1 MiB waiting; at most 64 rounds that run and 16 that are over are known. While nobody
// listens, nothing is collected.
package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/reply"
	"quorate/internal/index"
)

//go:embed assets
var assets embed.FS

// policy lets pages load what this service has, and run no text as code.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Options of a Console. All but Networks may be left out.
type Options struct {
	// Networks tells how the networks stand. It is called at most once a second.
	Networks func() []Network
	// Index tells how far chains are recorded, by network and chain.
	Index func() map[string]map[string]index.Status
	// Gatherer has the latencies that the aggregators measure.
	Gatherer prometheus.Gatherer
	// Example makes a message of a network that its validators sign, another one each
	// time; false if it has none.
	Example func(network string) (message []byte, ok bool)
}

// Network is how a network stands.
type Network struct {
	Name      string
	NetworkID uint32
	Ready     bool
	// Height is the proposed P-Chain height, if HeightKnown.
	Height      uint64
	HeightKnown bool
	// Peers counts connections, to validators and others.
	Peers int
	// Subnets are the largest of AllSubnets.
	Subnets    []Subnet
	AllSubnets int
}

// Subnet is how much of a subnet's weight is connected.
type Subnet struct {
	ID         ids.ID
	Validators int // with a BLS key
	Weight     uint64
	// Connected is the connected share of Weight, 0 to 1.
	Connected float64
}

// Console serves the pages. It outlives the surface it is on. Safe for concurrent
// use.
type Console struct {
	options Options
	files   map[string]file // by path below /console/
	feed    *feed
	status  cached
	timings cached
	life    context.Context //nolint:containedctx // ends the streams, which would hold up the end of the service
	end     context.CancelFunc
}

type file struct {
	content   []byte
	kind, tag string
}

// New makes a Console. Close ends its streams.
func New(o Options) (*Console, error) {
	if o.Networks == nil {
		return nil, errors.New("console: Options.Networks is missing")
	}
	c := &Console{options: o, files: make(map[string]file), feed: newFeed()}
	c.status.make, c.timings.make = c.readStatus, c.readLatency
	c.life, c.end = context.WithCancel(context.Background())
	root, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		digest := sha256.Sum256(content)
		c.files[name] = file{content, kindOf(name), `"` + hex.EncodeToString(digest[:12]) + `"`}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("console: reading the pages: %w", err)
	}
	return c, nil
}

// kindOf does not depend on what the machine's own list of types says of these.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		return kind
	}
	return echo.MIMEOctetStream
}

// Close ends the streams.
func (c *Console) Close() { c.end() }

// Observer shows the rounds of a network on the console.
func (c *Console) Observer(network string) aggregator.Observer {
	return observer{c.feed, network}
}

// Route adds the console to e.
func (c *Console) Route(e *echo.Echo) {
	e.GET("/console", func(ctx echo.Context) error {
		return ctx.Redirect(http.StatusMovedPermanently, "/console/")
	})
	e.GET("/console/*", c.serveFile)
	e.HEAD("/console/*", c.serveFile)
	e.GET("/console/api/live", c.live)
	e.GET("/console/api/sets/:set", func(ctx echo.Context) error {
		set, ok := c.feed.set(ctx.Param("set"))
		if !ok {
			return apierr.NotFound("set: no round that is shown here has this validator set")
		}
		return send(ctx, newSetView(set))
	})
	e.GET("/console/api/latency", func(ctx echo.Context) error {
		latency, err := c.timings.get()
		if err != nil {
			return apierr.Internal(err)
		}
		return send(ctx, latency)
	})
	e.GET("/console/api/example", func(ctx echo.Context) error {
		if c.options.Example != nil {
			if message, ok := c.options.Example(ctx.QueryParam("network")); ok {
				return send(ctx, map[string]string{"message": "0x" + hex.EncodeToString(message)})
			}
		}
		return apierr.NotFound("network: there is no example for %q", apierr.Excerpt(ctx.QueryParam("network")))
	})
}

// send answers with what is only true now.
func send(ctx echo.Context, body any) error {
	ctx.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return reply.JSON(ctx, body)
}

func (c *Console) serveFile(ctx echo.Context) error {
	name := ctx.Param("*")
	if name == "" {
		name = "index.html"
	}
	f, ok := c.files[name]
	if !ok {
		return apierr.NotFound("the console has no file %q; its pages begin at /console/", apierr.Excerpt(name))
	}
	h := ctx.Response().Header()
	h.Set(echo.HeaderContentType, f.kind)
	h.Set(echo.HeaderContentSecurityPolicy, policy)
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	h.Set(echo.HeaderReferrerPolicy, "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set(echo.HeaderCacheControl, "no-cache") // the tag tells whether there is news
	h.Set("ETag", f.tag)
	http.ServeContent(ctx.Response(), ctx.Request(), name, time.Time{}, bytes.NewReader(f.content))
	return nil
}

// cached spares work that many clients ask for: what it holds is a second old at
// most, and one client at a time makes it.
type cached struct {
	make func() (any, error)

	mu    sync.Mutex
	made  time.Time // guarded by mu
	value any       // guarded by mu
	err   error     // guarded by mu
}

func (c *cached) get() (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made.IsZero() || time.Since(c.made) >= time.Second {
		c.value, c.err = c.make()
		c.made = time.Now()
	}
	return c.value, c.err
}
