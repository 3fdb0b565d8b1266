package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"quorate/handlers"
	"quorate/handlers/access"
	"quorate/handlers/socket"
)

// surfaceConfig is about who may use the public surface, and how.
type surfaceConfig struct {
	// TLS makes the public surface HTTPS.
	TLS tlsConfig `yaml:"tls"`
	// RateClasses are allowances by name: default is that of clients without a key.
	RateClasses map[string]rateClass `yaml:"rate_classes"`
	// TrustedProxies are address ranges whose ProxyHeader is believed.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// ProxyHeader is X-Forwarded-For or Forwarded.
	ProxyHeader string `yaml:"proxy_header"`
	// CORSOrigins are web sites whose pages may call the service.
	CORSOrigins []string      `yaml:"cors_origins"`
	Limits      limitsConfig  `yaml:"limits"`
	Tracing     tracingConfig `yaml:"tracing"`
}

// tlsConfig are PEM files; both or none.
type tlsConfig struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// rateClass is an access.Class.
type rateClass struct {
	PerSecond float64 `yaml:"per_second"`
	Burst     int     `yaml:"burst"`
	PerDay    int     `yaml:"per_day"`
}

// limitsConfig bounds what clients of the public surface can take.
type limitsConfig struct {
	// Body and Header are the most bytes of a request's body and of its headers.
	Body   size `yaml:"body"`
	Header size `yaml:"header"`
	// HeaderTime and BodyTime are how long their arrival may take, Stall how long
	// a client may take nothing of an answer.
	HeaderTime time.Duration `yaml:"header_time"`
	BodyTime   time.Duration `yaml:"body_time"`
	Stall      time.Duration `yaml:"stall"`
	// Connections bounds all, ConnectionsPerAddress those of one client address;
	// 0 is no bound.
	Connections           int `yaml:"connections"`
	ConnectionsPerAddress int `yaml:"connections_per_address"`
}

// tracingConfig says where traces go; nowhere without OTLP.
type tracingConfig struct {
	// OTLP is the URL of a collector, such as http://127.0.0.1:4318.
	OTLP string `yaml:"otlp"`
	// Share of the requests, 0 to 1, of which traces are made.
	Share float64 `yaml:"share"`
	// FollowClients lets clients that name a trace of theirs decide for it.
	FollowClients bool `yaml:"follow_clients"`
}

func surfaceDefaults() surfaceConfig {
	return surfaceConfig{
		RateClasses:    make(map[string]rateClass),
		TrustedProxies: []string{},
		ProxyHeader:    string(access.XForwardedFor),
		CORSOrigins:    []string{"*"},
		Limits: limitsConfig{
			Body: 256 << 10, Header: 32 << 10,
			HeaderTime: 10 * time.Second, BodyTime: 10 * time.Second, Stall: 30 * time.Second,
			Connections: 8192, ConnectionsPerAddress: 2048,
		},
		Tracing: tracingConfig{Share: 1},
	}
}

// check tells wrong of each mistake, by the name of the key.
func (c *surfaceConfig) check(wrong func(format string, args ...any)) {
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		wrong("tls: cert and key belong together; name both files or none")
	}
	for _, name := range slices.Sorted(maps.Keys(c.RateClasses)) {
		if err := c.RateClasses[name].class().Validate(); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				wrong("rate_classes.%s.%s", name, line)
			}
		}
	}
	if _, err := parsePrefixes(c.TrustedProxies); err != nil {
		wrong("trusted_proxies: %w", err)
	}
	if _, err := access.ParseProxyHeader(c.ProxyHeader); err != nil {
		wrong("proxy_header: %w", err)
	}
	for _, origin := range c.CORSOrigins {
		if u, err := url.Parse(origin); origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "") {
			wrong("cors_origins: %q is neither * nor an origin such as https://example.org", origin)
		}
	}
	if l := c.Limits; l.Body < 1<<10 || l.Body > 64<<20 {
		wrong("limits.body: %s is not between 1KiB and 64MiB", l.Body)
	}
	if l := c.Limits; l.Header < 4<<10 || l.Header > 1<<20 {
		wrong("limits.header: %s is not between 4KiB and 1MiB", l.Header)
	}
	for key, d := range map[string]time.Duration{"header_time": c.Limits.HeaderTime, "body_time": c.Limits.BodyTime, "stall": c.Limits.Stall} {
		if d < 100*time.Millisecond || d > 5*time.Minute {
			wrong("limits.%s: %s is not between 100ms and 5m", key, d)
		}
	}
	if c.Limits.Connections < 0 {
		wrong("limits.connections: %d is negative", c.Limits.Connections)
	}
	if c.Limits.ConnectionsPerAddress < 0 {
		wrong("limits.connections_per_address: %d is negative", c.Limits.ConnectionsPerAddress)
	}
	if u, err := url.Parse(c.Tracing.OTLP); c.Tracing.OTLP != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		wrong("tracing.otlp: it is no URL such as http://127.0.0.1:4318")
	}
	if s := c.Tracing.Share; !(s >= 0 && s <= 1) {
		wrong("tracing.share: %v is not between 0 and 1", s)
	}
}

func (c rateClass) class() access.Class {
	return access.Class{PerSecond: c.PerSecond, Burst: c.Burst, PerDay: c.PerDay}
}

// parsePrefixes reads ranges, or single addresses.
func parsePrefixes(texts []string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, errAddr := netip.ParseAddr(text)
			if errAddr != nil {
				return nil, fmt.Errorf("%q is no range such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		prefixes[i] = p
	}
	return prefixes, nil
}

// keysOf is where a data folder has the API keys.
func keysOf(dataDir string) access.KeyFile {
	return access.KeyFile(filepath.Join(dataDir, "keys.json"))
}

// door is what requests pass before the public surface.
type door struct {
	config  surfaceConfig
	trusted []netip.Prefix
	guard   *access.Guard
	client  echo.IPExtractor
	tls     *tls.Config // nil for plain HTTP
	traces  *traces     // nil if there are none
	log     *slog.Logger
	metrics prometheus.Registerer
}

// newDoor reads the files that the configuration names. Stored and shared are nil if no
// other process serves the same keys. The door is closed with close.
func newDoor(ctx context.Context, c config, stored *access.KeyStore, shared *access.Shared, log *slog.Logger, metrics prometheus.Registerer) (*door, error) {
	d := &door{config: c.surfaceConfig, log: log, metrics: metrics}
	var err error
	if d.trusted, err = parsePrefixes(c.TrustedProxies); err != nil {
		return nil, usage(fmt.Errorf("trusted_proxies: %w", err), "")
	}
	header, err := access.ParseProxyHeader(c.ProxyHeader)
	if err != nil {
		return nil, usage(fmt.Errorf("proxy_header: %w", err), "")
	}
	d.client = access.ClientIP(d.trusted, header)
	classes := make(map[string]access.Class, len(c.RateClasses))
	for name, class := range c.RateClasses {
		classes[name] = class.class()
	}
	d.guard, err = access.New(access.Options{Keys: keysOf(c.DataDir), Stored: stored, Classes: classes, Free: []string{"/health"}, Shared: shared, Metrics: metrics, Log: log})
	if err != nil {
		return nil, usage(err, "Correct rate_classes.")
	}
	if err := d.guard.Load(ctx); err != nil {
		return nil, storeFailure(err, c.storePlace(), "")
	}
	if c.TLS.Cert != "" {
		certificate, err := socket.LoadCertificate(c.TLS.Cert, c.TLS.Key, log)
		if err != nil {
			return nil, usage(fmt.Errorf("tls: %w", err), "Name a certificate and its key in PEM files that this user can read.")
		}
		d.tls = certificate.Config()
	}
	if c.Tracing.OTLP != "" {
		if d.traces, err = newTraces(ctx, c.Tracing, log); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// furnish makes the public surface's options those of the door.
func (d *door) furnish(o handlers.Options) handlers.Options {
	o.Access, o.ClientIP, o.Origins = d.guard, d.client, d.config.CORSOrigins
	if o.Origins == nil {
		o.Origins = []string{}
	}
	o.BodyLimit, o.BodyTimeout = int64(d.config.Limits.Body), d.config.Limits.BodyTime
	if d.traces != nil {
		o.Tracer = d.traces.tracer
	}
	return o
}

// serve guards ln and serves h on it as handlers.Serve does, while it keeps an eye on the
// API keys.
func (d *door) serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	l := d.config.Limits
	guarded, err := socket.Listen(ln, socket.Options{
		Connections: l.Connections, PerAddress: l.ConnectionsPerAddress, Trusted: d.trusted,
		Stall: l.Stall, Metrics: d.metrics, Log: d.log,
	})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		d.guard.Watch(ctx)
	}()
	defer func() {
		stop()
		<-watching
	}()
	return handlers.ServeWith(ctx, guarded, h, handlers.ServeOptions{TLS: d.tls, HeaderBytes: int(l.Header), HeaderTimeout: l.HeaderTime, Stall: l.Stall, Direct: handlers.OfNode, Log: d.log})
}

// scheme is that of the public surface's URLs.
func (c *surfaceConfig) scheme() string {
	if c.TLS.Cert != "" {
		return "https"
	}
	return "http"
}

// close sends the traces that wait to be sent.
func (d *door) close() {
	if d.traces != nil {
		d.traces.close()
	}
}
