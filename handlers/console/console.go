// Package console serves the web console: embedded pages that show the running service. It is read-only, omits what
// only operators may see (peer addresses, reasons of failures), and loads nothing from other hosts.
//
// The pages are at /console/. They use the public API and these endpoints, which may change with the pages:
//
//	GET /console/api/live             server-sent events, see below
//	GET /console/api/sets/{set}       the validators of a round in live
//	GET /console/api/latency          the durations of signing requests
//	GET /console/api/history          what was signed and what failed, ?range=hour or day
//	GET /console/api/validators       the validators of a subnet with their connections, ?network=, subnet=, offset=,
//	                                  limit= (50), state=missing; or the subnets of one, node=
//	GET /console/api/messages         the signed messages that are stored, newest first, ?network=, before=, limit=
//	                                  and id= (of a message, source blockchain or signing subnet)
//	GET /console/api/messages/{number}
//	GET /console/api/failures         the requests that failed and are stored, with the same parameters
//	GET /console/api/example          an unsigned message to try, ?network=; 404
//	                                  without Options.Example
//
// Live sends these events. rounds holds all rounds; it is sent first and whenever a client was too slow. round is a
// round that started, step holds changes in a round's replies, and end is the outcome of a round. status holds the
// networks and the progress of their indexes, every two seconds.
//
// Run takes samples of metrics for the history: 240 of the last hour and 288 of the last day.
//
// At most 64 clients are connected, 8 of them from one client IP address, each with at most 1 MiB queued. At most 64
// running and 16 finished rounds are stored, and none while no client is connected.
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

// policy lets pages load content of this service only, and forbids inline scripts.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Options configures a Console. Only Networks is required.
type Options struct {
	// Networks returns the state of the networks. It is called at most once a second.
	Networks func() []Network
	// Resolve returns the name of the network that a request names, which may be an alias; false if there is none. Nil
	// stands for a service without aliases.
	Resolve func(name string) (string, bool)
	// Index returns the state of the chains' indexes, by network and chain.
	Index func() map[string]map[string]index.Status
	// Validators returns the validators of a subnet, the heaviest first, and their total weight; false if it has none.
	Validators func(network string, subnet ids.ID) (all []Validator, totalWeight uint64, ok bool)
	// Memberships returns the subnets that a node is a validator of.
	Memberships func(network string, node ids.NodeID) []Membership
	// Archive returns the signed messages of a network, nil if they are not stored.
	Archive func(network string) Archive
	// Failures returns the requests of a network that failed, nil if they are not stored.
	Failures func(network string) Failures
	// Gatherer provides the latencies that the aggregators measure.
	Gatherer prometheus.Gatherer
	// Example returns a message that the network's validators sign, a different one at each call; false if there is
	// none.
	Example func(network string) (message []byte, ok bool)
}

// Network is the state of a network.
type Network struct {
	Name      string
	NetworkID uint32
	Ready     bool
	Reason    string // if it is not ready
	// Degraded is what fails although the network is ready.
	Degraded string
	// Height is the proposed P-Chain height, if HeightKnown.
	Height      uint64
	HeightKnown bool
	// Peers is the number of connections to validators and other peers.
	Peers int
	// Subnets are the largest of AllSubnets, and the required ones.
	Subnets    []Subnet
	AllSubnets int
	// Aliases are further names of the network.
	Aliases []string
	// Nodes are the upstream nodes that lag or lie, compared with the P-Chain that the service executes.
	Nodes []Node
}

// Node is an upstream node that lags or lies.
type Node struct {
	// Host is the node's host and port.
	Host string
	// Lies reports whether it contradicts the P-Chain; otherwise it lags.
	Lies bool
	// Found says what differs.
	Found string
	Since time.Time
}

// Subnet is the connected weight of a subnet.
type Subnet struct {
	ID         ids.ID
	Validators int // with a BLS key
	Weight     uint64
	// Connected is the connected share of Weight, 0 to 1.
	Connected float64
	// Required reports whether the service is not healthy without the subnet's validators.
	Required bool
}

// Console serves the pages. It may outlive the routers that use it. It is safe for concurrent use.
type Console struct {
	options Options
	files   map[string]file // by path below /console/
	feed    *feed
	started time.Time
	status  cached
	timings cached
	life    context.Context //nolint:containedctx // ends the streams, which would delay shutdown
	end     context.CancelFunc

	tallying sync.Mutex
	tallies  map[string]*tally // by network; guarded by tallying
	since    since             // guarded by the lock of status
	counters cached
	counted  *sample // the latest; guarded by the lock of counters
	history  sync.Mutex
	hour     ring // guarded by history
	day      ring // guarded by history
}

type file struct {
	content   []byte
	kind, tag string
}

// New returns a Console. Close ends its streams.
func New(o Options) (*Console, error) {
	if o.Networks == nil {
		return nil, errors.New("console: Options.Networks is missing")
	}
	c := &Console{options: o, started: time.Now(), files: make(map[string]file), feed: newFeed(), tallies: make(map[string]*tally)}
	c.status.make, c.timings.make, c.counters.make = c.readStatus, c.readLatency, c.readCounters
	c.hour, c.day = ring{step: sampleInterval, span: hour}, ring{step: longInterval, span: day}
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

// kindOf returns a content type that does not depend on the machine's MIME types.
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
	return echo.MIMEOctetStream
}

// Close ends the streams.
func (c *Console) Close() { c.end() }

// Observer returns an observer that shows the rounds of a network.
func (c *Console) Observer(network string) aggregator.Observer {
	return observer{c.feed, network}
}

// Route adds the console to e.
func (c *Console) Route(e *echo.Echo) {
	e.GET("/", func(ctx echo.Context) error { // for people; programs know the paths
		return ctx.Redirect(http.StatusFound, "/console/")
	})
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
	e.GET("/console/api/history", func(ctx echo.Context) error {
		span := ctx.QueryParam("range")
		if span != "" && span != "hour" && span != "day" {
			return apierr.BadRequest("range: %q is neither hour nor day", apierr.Excerpt(span))
		}
		history, err := c.readHistory(span == "day")
		if err != nil {
			return apierr.Internal(err)
		}
		return send(ctx, history)
	})
	e.GET("/console/api/validators", c.listValidators)
	e.GET("/console/api/messages", c.listMessages)
	e.GET("/console/api/messages/:number", c.oneMessage)
	e.GET("/console/api/failures", c.listFailures)
	e.GET("/console/api/example", func(ctx echo.Context) error {
		if c.options.Example != nil {
			if message, ok := c.options.Example(c.network(ctx)); ok {
				return send(ctx, map[string]string{"message": "0x" + hex.EncodeToString(message)})
			}
		}
		return apierr.NotFound("network: there is no example for %q", apierr.Excerpt(ctx.QueryParam("network")))
	})
}

// network returns the name of the network that a request is for.
func (c *Console) network(ctx echo.Context) string {
	name := ctx.QueryParam("network")
	if c.options.Resolve != nil {
		if resolved, ok := c.options.Resolve(name); ok {
			return resolved
		}
	}
	return name
}

// send sends an answer that must not be cached.
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
	h.Set(echo.HeaderCacheControl, "no-cache") // clients revalidate with the tag
	h.Set("ETag", f.tag)
	http.ServeContent(ctx.Response(), ctx.Request(), name, time.Time{}, bytes.NewReader(f.content))
	return nil
}

// cached caches a value for a second. One caller at a time computes it.
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
