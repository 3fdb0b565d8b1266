// Package service is what quorate serve runs: the networks of a configuration, each opened
// when its node answers, behind one public address and one for operators.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"quorate/handlers"
	"quorate/handlers/compat"
	handler "quorate/handlers/evm"
	"quorate/handlers/evm/methods"
	"quorate/handlers/evm/tokenlist"
	"quorate/handlers/rpc/admin"
	"quorate/internal/config"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/service/hint"
	"quorate/internal/service/keep"
	"quorate/internal/service/logs"
	"quorate/internal/service/network"
	"quorate/internal/service/nodeapi"
)

// Addresses are what a started service listens on: for everybody, and for operators.
type Addresses struct{ Public, Private net.Addr }

// Options say what to serve. Config and Log are needed.
type Options struct {
	// Config is what was checked: its networks are served.
	Config config.Config
	// Version is the program's, which traces tell.
	Version string
	// Synthetic networks are not taken for the public ones of their names.
	Synthetic bool
	// Example makes messages to try on the console; may be nil.
	Example func(network string) ([]byte, bool)
	// Log is written to, as text on a terminal, else a JSON object a line.
	Log io.Writer
	// Started is called once, when requests are answered; may be nil.
	Started func(Addresses)
}

// Run runs the service until ctx ends or its last network fails. A hint.Error
// says what its operator can do.
func Run(ctx context.Context, o Options) error {
	c := o.Config
	loggers := logs.New(c.LogLevel, o.Log)
	log := loggers.Named(logs.Main)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	public, err := listen("listen", c.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = public.Close() }()
	private, err := listen("private-listen", c.PrivateListen)
	if err != nil {
		return err
	}
	defer func() { _ = private.Close() }()

	kept, err := keep.Open(ctx, c, log, registry)
	if err != nil {
		return err
	}
	defer kept.Close()

	debug.SetMemoryLimit(int64(c.MemoryLimit - c.MemoryLimit/8)) // the store's is not the collector's
	// The limit is what memory may be used up to: collecting more often would only take
	// processor time, of which requests wait for a part.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	names := slices.Sorted(maps.Keys(c.Networks))
	fetcher, err := metadata.NewFetcher(metadata.FetchOptions{Gateways: c.Metadata.IPFSGateways, AllowPrivate: c.Metadata.AllowPrivate})
	if err != nil {
		return hint.Mistake(fmt.Errorf("metadata.ipfs_gateways: %w", err), "")
	}
	defer fetcher.Close()
	words, err := newEVMOptions(c)
	if err != nil {
		return hint.Mistake(err, "Correct the file, or leave it out of the configuration.")
	}
	key, err := kept.PageKey(ctx, c.DataDir)
	if err != nil {
		return hint.Failure(err, "Is --data-dir a folder of yours, with room on its disk?")
	}
	keys, err := kept.Keys(ctx, c.KeyFile())
	if err != nil {
		return err
	}
	entry, err := newDoor(ctx, c, o.Version, keys, kept.Allowances(log), log, registry)
	if err != nil {
		return err
	}
	defer entry.close()
	var surface *reception
	page, err := newConsole(o.Example, func() *reception { return surface }, registry)
	if err != nil {
		return err
	}
	defer page.Close()
	answers, err := newAnswers(c.MemoryLimit, registry)
	if err != nil {
		return err
	}
	surface, err = newReception(names, c.NodeAPI.Main(c.Networks), c.Role, entry.furnish(handlers.Options{
		EVM:            words,
		Answers:        answers,
		Console:        page,
		PageKey:        key,
		Log:            log,
		Metrics:        registry,
		ClientCompat:   compat.Mode(c.ClientCompat),
		RequestTimeout: c.RequestTimeout,
	}))
	if err != nil {
		return err
	}
	operators, err := handlers.NewPrivate(handlers.PrivateOptions{Networks: surface.operators(), Index: surface.recorded, Standbys: kept.Following(), Verify: surface.verify, Slots: kept.Slots, Node: nodeSurface{surface, c.NodeAPI.Main(c.Networks), true}, Answers: answers, Gatherer: registry, Log: log})
	if err != nil {
		return err
	}

	profiles := admin.NewProfiles(cmp.Or(c.NodeAPI.ProfileDir, filepath.Join(c.DataDir, "profiles")))
	defer profiles.Close()

	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	// Networks outlive the surfaces, so that requests in flight can finish.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var alive sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(len(names)))
	for _, name := range names {
		alive.Go(func() {
			dir, own := dirOf(c.DataDir, name), loggers.Named(name).With(slog.String("network", name))
			options := network.Options{
				Name:          name,
				Config:        c.Networks[name],
				Synthetic:     o.Synthetic,
				Dir:           dir,
				Log:           own,
				Metrics:       registry,
				Store:         kept.Store,
				Slots:         kept.Slots,
				Views:         kept.Views(),
				Archive:       kept.Archive,
				Leases:        kept.Leases,
				Role:          c.Role,
				Fetcher:       fetcher,
				Changed:       surface.refresh,
				CallsInFlight: c.NodeAPI.CallsInFlight,
				Observer:      page.Observer(name),
				// What is left of the limit is for the store, the connections and
				// the rounds themselves.
				SignatureBytes: uint64(c.MemoryLimit) / 8 / uint64(len(names)),
				MessageBytes:   uint64(c.MemoryLimit) / 16 / uint64(len(names)),
				BlockBytes:     int64(c.MemoryLimit) / 8 / int64(len(names)),
			}
			if entry.traces != nil {
				options.Wrap = entry.traces.Transport
			}
			err := surface.bring(ctx, life, options, nodeapi.Options{
				Config:  c.NodeAPI,
				Network: c.Networks[name],
				Dir:     dir,
				Store:   kept.Store,
				Loggers: loggers, Profiles: profiles, Settings: config.Shown(c),
				Origins: slices.Concat([]string{}, c.CORSOrigins),
				Metrics: prometheus.WrapRegistererWith(prometheus.Labels{"network": name}, registry),
				Log:     own,
			})
			if err == nil {
				return
			}
			// The loss of one network is not the loss of the others.
			log.Error("a network is out of service", slog.String("network", name), slog.Any("error", err))
			surface.fail(name, err)
			if left.Add(-1) == 0 {
				giveUp(&outOfServiceError{err})
			}
		})
	}
	alive.Go(func() { rebuildIndex(life, kept, surface, c.Role, log) })
	if kept.Leases != nil {
		alive.Go(func() { kept.Slots.Follow(life, log) })
	}
	log.Info("serving", slog.String("networks", strings.Join(names, ",")), slog.String("listen", public.Addr().String()), slog.String("private", private.Addr().String()))
	if o.Started != nil {
		o.Started(Addresses{public.Addr(), private.Addr()})
	}

	g, serving := errgroup.WithContext(ctx)
	defer context.AfterFunc(serving, page.Close)() // its streams would go on
	g.Go(func() error { return entry.serve(serving, public, surface) })
	g.Go(func() error { return handlers.Serve(serving, private, operators, log) })
	err = g.Wait()
	giveUp(nil) // a surface that broke ends the waiting for nodes, too
	end()
	alive.Wait()
	log.Info("stopped")
	var last *outOfServiceError
	if errors.As(context.Cause(ctx), &last) && err == nil {
		err = hint.Failure(last.err, "No network is left to serve. Correct what it says, then start again.")
	}
	return err
}

// outOfServiceError is why a service without networks stops.
type outOfServiceError struct{ err error }

func (e *outOfServiceError) Error() string { return e.err.Error() }

func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, hint.Failure(fmt.Errorf("listening: %w", err), fmt.Sprintf("Is another program using it? Choose another address with --%s.", flag))
	}
	return l, nil
}

// newEVMOptions reads what files say of tokens and methods.
func newEVMOptions(c config.Config) (handler.Options, error) {
	var o handler.Options
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

// dirOf is where a network keeps its identity.
func dirOf(dataDir, name string) string { return filepath.Join(dataDir, name) }
