package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"quorate/handlers"
	"quorate/handlers/compat"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve networks until stopped",
		Long: `Serve signed Warp messages of one or more networks.

Each network needs a node to learn validators from; signatures come from the
validators themselves, over the peer-to-peer network. Only outgoing connections
are made. The first start of a network makes an identity in the data folder.

  quorate serve --network fuji=http://127.0.0.1:9650
  quorate serve --config quorate.yaml

Then:

  curl -X POST http://127.0.0.1:8080/v1/signatureAggregator/fuji/aggregateSignatures \
       -H 'Content-Type: application/json' -d '{"message": "0x..."}'

Existing relayers find the stand-alone aggregator's POST /aggregate-signatures at
the same address. Health and metrics: /readyz and /metrics at --private-listen.`,
		Args: cobra.NoArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd, os.Environ())
			if err != nil {
				return err
			}
			if len(c.Networks) == 0 {
				return usage(errors.New("no network is given"), "Name one and a node of it: quorate serve --network fuji=http://127.0.0.1:9650")
			}
			return serve(cmd.Context(), c, cmd.ErrOrStderr(), nil)
		}),
	}
	addFlags(cmd.Flags())
	return cmd
}

func newLogger(level string, w io.Writer) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // checked with the configuration
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
}

// serve runs the service until ctx ends. Started, if not nil, is called with the
// public address once requests are answered.
func serve(ctx context.Context, c config, errOut io.Writer, started func(address string)) error {
	log := newLogger(c.LogLevel, errOut)
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

	networks, err := openNetworks(ctx, c, log, registry)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while waiting for a node
		}
		return err
	}
	served := make(map[string]handlers.Network, len(networks))
	for name, n := range networks {
		served[name] = n.handler()
	}
	surface, err := handlers.New(handlers.Options{
		Networks:       served,
		Log:            log,
		Metrics:        registry,
		ClientCompat:   compat.Mode(c.ClientCompat),
		RequestTimeout: c.RequestTimeout,
	})
	if err != nil {
		return err
	}
	operators, err := handlers.NewPrivate(handlers.PrivateOptions{Networks: served, Gatherer: registry, Log: log})
	if err != nil {
		return err
	}

	// Networks outlive the surfaces, so that requests in flight can finish.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var alive sync.WaitGroup
	for name, n := range networks {
		alive.Go(func() {
			// The loss of one network is not the loss of the others.
			if err := n.run(life); err != nil {
				log.Error("a network stopped", slog.String("network", name), slog.Any("error", err))
			}
		})
	}
	names := slices.Sorted(maps.Keys(networks))
	log.Info("serving", slog.String("networks", strings.Join(names, ",")), slog.String("listen", public.Addr().String()), slog.String("private", private.Addr().String()))
	if started != nil {
		started(public.Addr().String())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return handlers.Serve(ctx, public, surface, log) })
	g.Go(func() error { return handlers.Serve(ctx, private, operators, log) })
	err = g.Wait()
	end()
	alive.Wait()
	log.Info("stopped")
	return err
}

func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &exitError{code: exitFailed, err: fmt.Errorf("listening: %w", err), hint: fmt.Sprintf("Is another program using it? Choose another address with --%s.", flag)}
	}
	return l, nil
}

// openNetworks puts all networks together, side by side.
func openNetworks(ctx context.Context, c config, log *slog.Logger, registry prometheus.Registerer) (map[string]*network, error) {
	var mu sync.Mutex
	networks := make(map[string]*network, len(c.Networks))
	g, ctx := errgroup.WithContext(ctx)
	for name, nc := range c.Networks {
		g.Go(func() error {
			n, err := newNetwork(ctx, networkOptions{
				name:    name,
				config:  nc,
				dir:     dirOf(c.DataDir, name),
				log:     log.With(slog.String("network", name)),
				metrics: registry,
			})
			if err != nil {
				return err
			}
			log.Info("our identity on the network", slog.String("network", name), slog.String("nodeID", n.peers.NodeID().String()))
			mu.Lock()
			defer mu.Unlock()
			networks[name] = n
			return nil
		})
	}
	return networks, g.Wait()
}
