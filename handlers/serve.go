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
	"quorate/handlers/direct"
)

const (
	// grace is how long requests in flight may go on once the server stops.
	grace = 10 * time.Second
	// farewell is how long requests that outlast the grace have to say so.
	farewell = 3 * time.Second
)

// Serve answers requests on ln with h until ctx ends, then stops accepting,
// lets requests in flight finish within 10 s, cancels the rest with the cause
// apierr.ErrStopping, and returns when no handler runs any more. It closes ln.
// The result is nil after an orderly stop.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	return ServeWith(ctx, ln, h, ServeOptions{Log: log})
}

// ServeOptions are Serve's; the zero value is fit for use.
type ServeOptions struct {
	// TLS makes it HTTPS, with HTTP/2; nil means plain HTTP/1.1.
	TLS *tls.Config
	// HeaderBytes bounds the headers of a request; 0 means 32 KiB.
	HeaderBytes int
	// HeaderTimeout bounds their arrival, and that of a TLS handshake; 0 means 10 s.
	HeaderTimeout time.Duration
	// Idle is how long a connection may be without a request; 0 means 2 min.
	Idle time.Duration
	// Stall is how long a client of HTTP/2 may take none of 16 KiB of an answer, which
	// is reset then, or be silent while it has one under way before it is asked whether
	// it is there. 0 is no bound. Connections have one of their own, see socket.Options.
	Stall time.Duration
	// Direct says for which paths plain requests are answered without net/http, which
	// takes most of the time of a short answer; see package direct. Nil: for none. It
	// has no effect with TLS.
	Direct func(path string) bool
	// Log gets what goes wrong below requests; nil drops it.
	Log *slog.Logger
}

// ServeWith is Serve with options.
func ServeWith(ctx context.Context, ln net.Listener, h http.Handler, o ServeOptions) error {
	return serve(ctx, ln, h, o, grace, farewell)
}

func serve(ctx context.Context, ln net.Listener, h http.Handler, o ServeOptions, grace, farewell time.Duration) error {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var running gate
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !running.enter() {
			panic(http.ErrAbortHandler) // the connection is being closed anyway
		}
		defer running.leave()
		if len(r.TransferEncoding) > 0 {
			// There may have been a length as well, which net/http does not tell. A proxy
			// that went by it would take what follows for a part of this request
			// (RFC 9112, 6.1).
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
	server := &http.Server{
		Handler:           unread(guarded, o.Stall),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: cmp.Or(o.HeaderTimeout, 10*time.Second),
		IdleTimeout:       cmp.Or(o.Idle, 2*time.Minute),
		MaxHeaderBytes:    cmp.Or(o.HeaderBytes, 32<<10),
		TLSConfig:         o.TLS,
		// Each stream may hold an answer that its client does not read.
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 32, SendPingTimeout: o.Stall, PingTimeout: o.Stall},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// No ReadTimeout: it would cancel requests that are worked on for longer.
		// Bodies have a deadline of their own. Answers are small and of bounded
		// work, so that a generous limit on the whole exchange suffices.
		WriteTimeout: 5 * time.Minute,
	}
	shutdown, cut, ended := server.Shutdown, func() {}, func() {}
	if o.Direct != nil && o.TLS == nil {
		l := direct.Listen(ln, direct.Options{
			Handler: guarded, Serves: o.Direct, Base: base, Log: log,
			First: server.ReadHeaderTimeout, Idle: server.IdleTimeout, Answer: server.WriteTimeout,
		})
		ln, cut, ended = l, l.Cut, l.Wait
		shutdown = func(ctx context.Context) error {
			other := make(chan error, 1)
			go func() { other <- server.Shutdown(ctx) }()
			return errors.Join(l.Shutdown(ctx), <-other)
		}
	}
	served := make(chan error, 1)
	go func() {
		if o.TLS != nil {
			served <- server.ServeTLS(ln, "", "") // the files are the configuration's
			return
		}
		served <- server.Serve(ln)
	}()

	var failed error
	select {
	case failed = <-served: // the listener broke
		served <- http.ErrServerClosed
	case <-ctx.Done():
	}
	stop := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return shutdown(ctx)
	}
	if err := stop(grace); err != nil {
		log.Warn("requests in flight outlast the grace and are cancelled", "grace", grace)
		cancel(apierr.ErrStopping)
		_ = stop(farewell) // what still remains is cut off
	}
	cut()
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) && failed == nil {
		failed = err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) && failed == nil {
		failed = err
	}
	cancel(apierr.ErrStopping) // for connections that are passed through, which nothing else ends
	running.shut()
	ended()
	if failed != nil {
		return fmt.Errorf("serving HTTP on %s: %w", ln.Addr(), failed)
	}
	return nil
}

// gate counts the handlers that run. net/http closes connections without waiting
// for their handlers.
type gate struct {
	mu      sync.Mutex
	closed  bool // guarded by mu
	running sync.WaitGroup
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

func (g *gate) leave() { g.running.Done() }

// shut lets nobody in any more and waits for those inside.
func (g *gate) shut() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}
