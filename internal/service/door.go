package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"quorate/handlers"
	"quorate/handlers/access"
	"quorate/handlers/socket"
	"quorate/internal/config"
	"quorate/internal/service/hint"
	"quorate/internal/service/keep"
	"quorate/internal/service/tracing"
)

// door is what requests pass before the public surface.
type door struct {
	config  config.Surface
	trusted []netip.Prefix
	guard   *access.Guard
	client  echo.IPExtractor
	tls     *tls.Config     // nil for plain HTTP
	traces  *tracing.Traces // nil if there are none
	log     *slog.Logger
	metrics prometheus.Registerer
}

// newDoor reads the files that the configuration names. Stored and shared are nil if no
// other process serves the same keys. The door is closed with close.
func newDoor(ctx context.Context, c config.Config, version string, stored *access.KeyStore, shared *access.Shared, log *slog.Logger, metrics prometheus.Registerer) (*door, error) {
	d := &door{config: c.Surface, log: log, metrics: metrics}
	var err error
	if d.trusted, err = config.ParsePrefixes(c.TrustedProxies); err != nil {
		return nil, hint.Mistake(fmt.Errorf("trusted_proxies: %w", err), "")
	}
	header, err := access.ParseProxyHeader(c.ProxyHeader)
	if err != nil {
		return nil, hint.Mistake(fmt.Errorf("proxy_header: %w", err), "")
	}
	d.client = access.ClientIP(d.trusted, header)
	classes := make(map[string]access.Class, len(c.RateClasses))
	for name, class := range c.RateClasses {
		classes[name] = class.Class()
	}
	d.guard, err = access.New(access.Options{Keys: c.KeyFile(), Stored: stored, Classes: classes, Free: []string{"/health"}, Shared: shared, Metrics: metrics, Log: log})
	if err != nil {
		return nil, hint.Mistake(err, "Correct rate_classes.")
	}
	if err := d.guard.Load(ctx); err != nil {
		return nil, keep.Failure(err, keep.PlaceOf(c), "")
	}
	if c.TLS.Cert != "" {
		certificate, err := socket.LoadCertificate(c.TLS.Cert, c.TLS.Key, log)
		if err != nil {
			return nil, hint.Mistake(fmt.Errorf("tls: %w", err), "Name a certificate and its key in PEM files that this user can read.")
		}
		d.tls = certificate.Config()
	}
	if c.Tracing.OTLP != "" {
		if d.traces, err = tracing.New(ctx, c.Tracing, version, log); err != nil {
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
		o.Tracer = d.traces.Tracer
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
	return handlers.ServeWith(ctx, guarded, h, handlers.ServeOptions{TLS: d.tls, HeaderBytes: int(l.Header), HeaderTimeout: l.HeaderTime, Stall: l.Stall, Log: d.log})
}

// close sends the traces that wait to be sent.
func (d *door) close() {
	if d.traces != nil {
		d.traces.Close()
	}
}
