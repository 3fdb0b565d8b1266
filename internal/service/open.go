package service

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"quorate/internal/config"
	"quorate/internal/service/hint"
	"quorate/internal/service/logs"
	"quorate/internal/service/storage"
)

// process holds what all parts of the process share.
type process struct {
	options         Options
	config          config.Config
	loggers         *logs.Loggers
	log             *slog.Logger
	registry        *prometheus.Registry
	public, private net.Listener
	kept            *storage.State
}

// open opens the listeners and the store, and sets the memory limit.
func open(ctx context.Context, o Options) (p *process, err error) {
	p = &process{options: o, config: o.Config, loggers: logs.New(o.Config.LogLevel, o.Log), registry: prometheus.NewRegistry()}
	p.log = p.loggers.Named(logs.Main)
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.public, err = listen("listen", p.config.Listen); err != nil {
		return p, err
	}
	if p.private, err = listen("private-listen", p.config.PrivateListen); err != nil {
		return p, err
	}
	if p.kept, err = storage.Open(ctx, p.config, p.log, p.registry); err != nil {
		return p, err
	}
	limit := int64(p.config.MemoryLimit)
	debug.SetMemoryLimit(limit - limit/8) // the store's memory is outside the Go heap
	// Memory may be used up to the limit; earlier collections would take processor time from requests.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	return p, nil
}

// close closes what open opened.
func (p *process) close() {
	if p.kept != nil {
		p.kept.Close()
	}
	for _, l := range []net.Listener{p.private, p.public} {
		if l != nil {
			_ = l.Close() // the server may have closed it
		}
	}
}

func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, hint.Failure(fmt.Errorf("listening: %w", err), fmt.Sprintf("Is another program using it? Choose another address with --%s.", flag))
	}
	return l, nil
}
