package handlers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"quorate/handlers/apierr"
)

const (
	// gracePeriod is how long requests in flight may continue after the server stops.
	gracePeriod = 10 * time.Second
	// replyPeriod is how long cancelled requests may take to send their error.
	replyPeriod = 3 * time.Second
)

// Serve serves h on ln until ctx ends. Then it stops accepting connections, lets requests in flight finish within 10 s
// and cancels the rest with the cause apierr.ErrStopping. It closes ln and returns when no handler runs any more. It
// returns nil after an orderly stop.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, o ServeOptions) error {
	return serve(ctx, ln, h, o, gracePeriod, replyPeriod)
}

// ServeOptions configures Serve. The zero value has usable defaults.
type ServeOptions struct {
	// TLS serves HTTPS with HTTP/2. Nil serves plain HTTP/1.1.
	TLS *tls.Config
	// HeaderBytes limits the headers of a request; 0 means 32 KiB.
	HeaderBytes int
	// HeaderTimeout limits how long headers and TLS handshakes may take; 0 means 10 s.
	HeaderTimeout time.Duration
	// Idle is how long a connection may stay open without a request; 0 means 2 min.
	Idle time.Duration
	// Stall is how long an HTTP/2 client may read less than 16 KiB of a response before
	// its stream is reset, and how long it may send nothing during a request before it is
	// pinged. 0 means no limit. Package socket has the limit for connections.
	Stall time.Duration
	// ConnState may be nil; see http.Server.
	ConnState func(net.Conn, http.ConnState)
	// Log receives errors below the level of requests. Nil discards them.
	Log *slog.Logger
}

func serve(ctx context.Context, ln net.Listener, h http.Handler, o ServeOptions, grace, reply time.Duration) error {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var running gate
	server := newServer(base, running.wrap(h), o, log)
	served := make(chan error, 1)
	go func() { // ends when server is closed
		if o.TLS != nil {
			served <- server.ServeTLS(ln, "", "") // the certificate is part of TLSConfig
			return
		}
		served <- server.Serve(ln)
	}()

	var failed error
	select {
	case failed = <-served: // the listener failed
		served <- http.ErrServerClosed
	case <-ctx.Done():
	}
	if err := shutdown(server, grace); err != nil {
		log.Warn("cancelling the requests that outlast the grace period", slog.String("grace", grace.String()))
		cancel(apierr.ErrStopping)
		_ = shutdown(server, reply) // Close ends what remains
	}
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) && failed == nil {
		failed = err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) && failed == nil {
		failed = err
	}
	cancel(apierr.ErrStopping) // ends hijacked connections, which Close does not know
	running.shut()
	if failed != nil {
		return fmt.Errorf("serving HTTP on %s: %w", ln.Addr(), failed)
	}
	return nil
}

func newServer(base context.Context, h http.Handler, o ServeOptions, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           limitStreams(h, o.Stall),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: cmp.Or(o.HeaderTimeout, 10*time.Second),
		IdleTimeout:       cmp.Or(o.Idle, 2*time.Minute),
		MaxHeaderBytes:    cmp.Or(o.HeaderBytes, 32<<10),
		TLSConfig:         o.TLS,
		ConnState:         o.ConnState,
		// Each stream may hold a response that its client does not read.
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 32, SendPingTimeout: o.Stall, PingTimeout: o.Stall},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// ReadTimeout stays unset: it would cancel requests that take longer. Package
		// middleware sets a deadline for each body. WriteTimeout covers a whole exchange.
		WriteTimeout: 5 * time.Minute,
	}
}

func shutdown(s *http.Server, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return s.Shutdown(ctx)
}

// gate counts running handlers, because net/http closes connections without waiting for
// their handlers.
type gate struct {
	mu      sync.Mutex
	closed  bool // guarded by mu
	running sync.WaitGroup
}

func (g *gate) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.enter() {
			panic(http.ErrAbortHandler) // the server is closing the connection
		}
		defer g.running.Done()
		if len(r.TransferEncoding) > 0 {
			// The request may have had a Content-Length as well, which net/http hides. A
			// proxy that used it would read what follows as part of this request
			// (RFC 9112, 6.1).
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Add(1)
	return true
}

// shut refuses further handlers and waits for the running ones.
func (g *gate) shut() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}
