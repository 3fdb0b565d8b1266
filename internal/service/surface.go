package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"quorate/handlers"
	"quorate/handlers/access"
	"quorate/handlers/apierr"
	"quorate/handlers/compat"
	"quorate/handlers/console"
	handler "quorate/handlers/evm"
	"quorate/handlers/evm/methods"
	"quorate/handlers/evm/tokenlist"
	"quorate/handlers/rpc/admin"
	"quorate/handlers/signing"
	"quorate/handlers/socket"
	"quorate/handlers/stream"
	"quorate/internal/config"
	"quorate/internal/node"
	"quorate/internal/service/hint"
	"quorate/internal/service/storage"
	"quorate/internal/service/tracing"
)

// surface holds the routers of both addresses.
type surface struct {
	process         *process
	public, private http.Handler
	guard           *access.Guard
	trusted         []netip.Prefix      // proxies
	running         config.Config       // what is in use since the last reload; belongs to reloads
	certificate     *socket.Certificate // nil for plain HTTP
	listener        *socket.Listener    // of the public address, with its limits
	traces          *tracing.Traces     // nil without tracing
	console         *console.Console
	streams         *stream.Streams
	webhooks        *webhooks // nil if they are off
	profiles        *admin.Profiles
}

// newSurface builds the routers of both addresses.
func newSurface(ctx context.Context, p *process, n *networks) (s *surface, err error) {
	s = &surface{process: p, running: p.config, profiles: admin.NewProfiles(cmp.Or(p.config.NodeAPI.ProfileDir, filepath.Join(p.config.DataDir, "profiles")))}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	o := handlers.Options{
		Networks:       n.forSigning(),
		Data:           n.forData(),
		Answers:        newAnswers(p.config.MemoryLimit, p.registry),
		Log:            p.log,
		Metrics:        p.registry,
		ClientCompat:   compat.Mode(p.config.ClientCompat),
		Body:           p.body,
		RequestTimeout: p.config.RequestTimeout,
		Origins:        append([]string{}, p.config.CORSOrigins...), // not nil, which means all
		AllowedHosts:   p.config.NodeAPI.AllowedHosts,
	}
	if o.EVM, err = newEVMOptions(p.config, n.evm); err != nil {
		return s, hint.Mistake(err, "Correct the file, or leave it out of the configuration.")
	}
	o.EVM.SignedAt = p.kept.Archive.SignedAt
	if o.PageKey, err = p.kept.PageKey(ctx, p.config.DataDir); err != nil {
		return s, hint.Failure(err, "Is --data-dir a folder of yours, with room on its disk?")
	}
	if err = s.openAccess(ctx, &o); err != nil {
		return s, err
	}
	s.console, err = console.New(console.Options{Networks: n.status, Resolve: n.forSigning().Resolve, Index: n.indexed, Archive: n.archived, Failures: n.failed, Validators: n.validators, Memberships: n.memberships, Gatherer: p.registry, Example: p.options.Example})
	if err != nil {
		return s, err
	}
	o.Console = s.console
	s.streams = stream.New(stream.Options{Metrics: p.registry, Keys: s.guard.Keyed})
	o.Streams = s.streams
	if s.webhooks = newWebhooks(p, n, s.guard); s.webhooks != nil {
		o.Webhooks = s.webhooks.book
	}
	main := p.config.NodeAPI.Main(p.config.Networks)
	o.Node = nodeSurface{networks: n.nodeAPIs(), main: main}
	public, err := handlers.New(o)
	if err != nil {
		return s, err
	}
	public.Use(refuseOtherRoles(p.config.Role))
	s.public = public
	s.private, err = handlers.NewPrivate(handlers.PrivateOptions{
		Networks: n.operators(), Index: n.indexed, Unopened: n.unopened, Standbys: p.kept.Following(), Verify: n.verify, Export: n.export, Slots: p.kept.AllSlots(),
		Node: nodeSurface{n.nodeAPIs(), main, true}, Answers: o.Answers, Gatherer: p.registry, Log: p.log,
		AllowedHosts: p.config.NodeAPI.AllowedHosts,
	})
	return s, err
}

// openAccess sets up what requests pass before the handlers: client IP addresses, API keys and allowances, TLS and
// tracing.
func (s *surface) openAccess(ctx context.Context, o *handlers.Options) (err error) {
	c, log := s.process.config, s.process.log
	if s.trusted, err = config.ParsePrefixes(c.TrustedProxies); err != nil {
		return hint.Mistake(fmt.Errorf("trusted_proxies: %w", err), "")
	}
	header, err := access.ParseProxyHeader(c.ProxyHeader)
	if err != nil {
		return hint.Mistake(fmt.Errorf("proxy_header: %w", err), "")
	}
	stored, err := s.process.kept.Keys(ctx, c.KeyFile())
	if err != nil {
		return err
	}
	s.guard, err = access.New(access.Options{
		Keys: c.KeyFile(), Stored: stored, Classes: classesOf(c), Free: []string{"/health"},
		Shared: s.process.kept.Allowances(log), Metrics: s.process.registry, Log: log,
	})
	if err != nil {
		return hint.Mistake(err, "Correct rate_classes.")
	}
	if err := s.guard.Load(ctx); err != nil {
		return storage.Failure(err, storage.LocationOf(c), "")
	}
	if c.TLS.Cert != "" {
		if s.certificate, err = socket.LoadCertificate(c.TLS.Cert, c.TLS.Key, log); err != nil {
			return hint.Mistake(fmt.Errorf("tls: %w", err), "Name a certificate and its key in PEM files that this user can read.")
		}
		promauto.With(s.process.registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quorate_tls_certificate_expiry_timestamp_seconds", Help: "When the certificate of the public address expires, as Unix time.",
		}, func() float64 { return float64(s.certificate.NotAfter().Unix()) })
	}
	if c.Tracing.OTLP != "" {
		if s.traces, err = tracing.New(ctx, c.Tracing, s.process.options.Version, log); err != nil {
			return err
		}
	}
	o.Access, o.ClientIP, o.Tracer = s.guard, access.ClientIP(s.trusted, header), s.tracer()
	return nil
}

// tracer returns nil without tracing.
func (s *surface) tracer() trace.Tracer {
	if s.traces == nil {
		return nil
	}
	return s.traces.Tracer
}

// serve serves both addresses until ctx ends.
func (s *surface) serve(ctx context.Context) error {
	p, l := s.process, s.process.config.Limits
	s.listener = socket.Listen(p.public, socket.Options{
		Connections: l.Connections, PerAddress: l.ConnectionsPerAddress, Trusted: s.trusted,
		Stall: l.Stall, Metrics: p.registry, Log: p.log,
	})
	var https *tls.Config
	if s.certificate != nil {
		https = s.certificate.Config()
	}
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, s.console.Close)() // its streams do not end by themselves
	defer context.AfterFunc(ctx, s.streams.Close)()
	watching, unwatch := context.WithCancel(ctx)
	g.Go(func() error {
		s.guard.Watch(watching)
		return nil
	})
	g.Go(func() error {
		s.reloads(watching)
		return nil
	})
	g.Go(func() error {
		s.console.Run(watching)
		return nil
	})
	g.Go(func() error {
		s.webhooks.run(watching)
		return nil
	})
	g.Go(func() error {
		defer unwatch()
		return handlers.Serve(ctx, s.listener, s.public, handlers.ServeOptions{TLS: https, HeaderBytes: int(l.Header), HeaderTimeout: l.HeaderTime, Stall: l.Stall, ConnState: s.listener.ConnState, Log: p.log})
	})
	g.Go(func() error { return handlers.Serve(ctx, p.private, s.private, handlers.ServeOptions{Log: p.log}) })
	return g.Wait()
}

// close closes what newSurface opened, and sends the waiting traces.
func (s *surface) close() {
	s.profiles.Close()
	if s.console != nil {
		s.console.Close()
	}
	if s.streams != nil {
		s.streams.Close()
	}
	if s.traces != nil {
		s.traces.Close()
	}
}

// newEVMOptions reads the files about tokens and methods.
func newEVMOptions(c config.Config, chains *handler.Chains) (handler.Options, error) {
	o := handler.Options{Chains: chains}
	var err error
	if len(c.TokenLists) > 0 {
		if o.Lists, err = tokenlist.Open(c.TokenLists...); err != nil {
			return o, fmt.Errorf("token_lists: %w", err)
		}
	}
	if c.MethodSignatures != "" {
		if o.Methods, err = methods.Open(c.MethodSignatures); err != nil {
			return o, fmt.Errorf("method_signatures: %w", err)
		}
	}
	return o, nil
}

// refuseOtherRoles answers 503 to requests for another role.
func refuseOtherRoles(r config.Role) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			path := c.Path()
			signs := path == signing.PeerPath || strings.HasPrefix(path, "/v1/signatureAggregator/")
			reads := !signs && (strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v2/") || strings.HasPrefix(path, "/ext/") || strings.Contains(path, "/ext/"))
			switch {
			case signs && !r.Signs():
				return apierr.Unavailable(nil, "this replica has the role %s and signs nothing; ask one with the role sign or all", r)
			case reads && !r.Answers():
				return apierr.Unavailable(nil, "this replica has the role %s and does not serve this operation; ask one with the role api or all", r)
			}
			return next(c)
		}
	}
}

// newAnswers returns the memory budget for upstream nodes' answers, shared by all networks and both addresses: an
// eighth of the memory, but enough for the longest answer.
func newAnswers(limit config.Size, r prometheus.Registerer) *node.Budget {
	const least, longestWait = 144 << 20, 2 * time.Second
	b := node.NewBudget(max(int64(limit)/8, least), longestWait)
	metrics := promauto.With(r)
	gauge := func(name, help string, of func(node.Usage) int64) {
		metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_rpc_answers_" + name, Help: help}, func() float64 { return float64(of(b.Usage())) })
	}
	refused := func(bound string, of func(node.Refused) uint64) {
		metrics.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_rpc_answers_refused_total", ConstLabels: prometheus.Labels{"bound": bound},
			Help: "Answers of nodes and bodies of calls refused for lack of memory, by bound: answer (larger than the maximum), client (this client used most of the budget), all (other clients did).",
		}, func() float64 { return float64(of(b.Usage().Refused)) })
	}
	gauge("bytes", "Memory that answers of nodes under way take, in bytes.", func(u node.Usage) int64 { return u.Bytes })
	gauge("limit_bytes", "Memory budget for answers of nodes, in bytes.", func(u node.Usage) int64 { return u.Size })
	gauge("largest_client_bytes", "Largest part of the budget that one client holds, in bytes.", func(u node.Usage) int64 { return u.Largest })
	gauge("clients", "Clients that hold a part of the budget.", func(u node.Usage) int64 { return int64(u.Clients) })
	gauge("waiting", "Answers that wait for memory.", func(u node.Usage) int64 { return int64(u.Waiting) })
	refused("answer", func(r node.Refused) uint64 { return r.Size })
	refused("client", func(r node.Refused) uint64 { return r.Client })
	refused("all", func(r node.Refused) uint64 { return r.All })
	return b
}
