package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"quorate/internal/config"
	"quorate/internal/service/hint"
	"quorate/internal/service/logs"
	"quorate/internal/service/storage"
)

// process holds what all parts of the process share.
type process struct {
	options         Options
	config          config.Config // of the start; see surface.running
	loggers         *logs.Loggers
	log             *slog.Logger
	registry        *prometheus.Registry
	public, private net.Listener
	kept            *storage.State
	limits          atomic.Pointer[config.Limits] // those in use; never nil
}

// open opens the listeners and the store, and sets the memory limit.
func open(ctx context.Context, o Options) (p *process, err error) {
	p = &process{options: o, config: o.Config, loggers: logs.New(o.Config.LogLevel, o.Config.LogFormat, o.Log), registry: prometheus.NewRegistry()}
	p.log = p.loggers.Named(logs.Main)
	p.limits.Store(&o.Config.Limits)
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promauto.With(p.registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_build_info", Help: "Always 1. The labels say what the program was built from.",
	}, []string{"version", "commit", "go"}).WithLabelValues(o.Version, o.Commit, runtime.Version()).Set(1)
	defer func() {
		if err != nil {
			_ = p.close() // the first error says why
		}
	}()
	if p.public, err = listen("listen", p.config.Listen); err != nil {
		return p, err
	}
	if p.private, err = listen("private-listen", p.config.PrivateListen); err != nil {
		return p, err
	}
	if err = p.openStorage(ctx); err != nil {
		return p, err
	}
	limit := int64(p.config.MemoryLimit)
	debug.SetMemoryLimit(limit - limit/4) // the embedded store's buffers and cache are outside the Go heap
	// Memory may be used up to the limit; earlier collections would take processor time from requests.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	return p, nil
}

// openStorage opens the store. It returns soon after ctx ends, even if the disk or the server does not answer.
func (p *process) openStorage(ctx context.Context) error {
	opened := make(chan error, 1)
	var kept *storage.State
	go func() { // ends with storage.Open, at the latest with the process
		var err error
		kept, err = storage.Open(ctx, p.config, p.log, p.registry)
		opened <- err
	}()
	select {
	case err := <-opened:
		p.kept = kept
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-opened:
		p.kept = kept
		return err
	case <-time.After(interruption):
		return hint.Failure(fmt.Errorf("interrupted while opening the store in %s, which does not answer", storage.LocationOf(p.config)), "Does its disk or its server answer?")
	}
}

const (
	// interruption is the time that the store has to be opened once the process is to end.
	interruption = 5 * time.Second
	// closing is the time that the store has to write what is pending and close.
	closing = 20 * time.Second
)

// close closes what open opened.
func (p *process) close() error {
	var err error
	if p.kept != nil {
		closed := make(chan struct{})
		go func() { // ends with Close, at the latest with the process
			p.kept.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(closing):
			err = hint.Failure(fmt.Errorf("the store in %s does not close within %s; what it has acknowledged is safe", p.kept.Place, closing), "Does its disk or its server answer?")
		}
	}
	for _, l := range []net.Listener{p.private, p.public} {
		if l != nil {
			_ = l.Close() // the server may have closed it
		}
	}
	return err
}

func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		remedy := "Is another program using it? Choose another address with --%s."
		if errors.Is(err, fs.ErrPermission) {
			remedy = "Ports below 1024 need a permission (CAP_NET_BIND_SERVICE). Choose a higher one with --%s."
		}
		return nil, hint.Failure(fmt.Errorf("listening: %w", err), hint.OpenFiles(err, fmt.Sprintf(remedy, flag)))
	}
	return l, nil
}
