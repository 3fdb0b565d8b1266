package main

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

	"github.com/mattn/go-isatty"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"quorate/handlers"
	"quorate/handlers/compat"
	"quorate/handlers/rpc/admin"
	"quorate/index/evm/metadata"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve networks until stopped",
		Long: `Serve signed Warp messages of one or more networks.

Each network needs a node to learn validators from; signatures come from the
validators themselves, over the peer-to-peer network. Only outgoing connections
are made. The first start of a network makes an identity in the data folder.

The service answers at once. A network whose node does not answer yet gets 503
until it does; the others are not held up.

  quorate serve --network fuji=http://127.0.0.1:9650
  quorate serve --config quorate.yaml

Then:

  curl -X POST http://127.0.0.1:8080/v1/signatureAggregator/fuji/aggregateSignatures \
       -H 'Content-Type: application/json' -d '{"message": "0x..."}'

Existing relayers find the stand-alone aggregator's POST /aggregate-signatures at
the same address. Clients of a node find one at it, too: /ext of the only network, of
mainnet or as the configuration says (node_api.network), /NAME/ext of each. Health and
metrics: /readyz, /ext/health and /metrics at --private-listen.`,
		Args: cobra.NoArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd, os.Environ())
			if err != nil {
				return err
			}
			if len(c.Networks) == 0 {
				return usage(errors.New("no network is given"), "Name one and a node of it: quorate serve --network fuji=http://127.0.0.1:9650")
			}
			return serve(cmd.Context(), c, cmd.ErrOrStderr(), func(a addresses) {
				announce(cmd.OutOrStdout(), c, a)
			})
		}),
	}
	addFlags(cmd.Flags())
	return cmd
}

func newLogger(level string, w io.Writer) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // checked with the configuration
	return slog.New(newLogHandler(l, w))
}

func newLogHandler(l slog.Level, w io.Writer) slog.Handler {
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})
	}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l})
}

// addresses are what a started service listens on.
type addresses struct{ public, private net.Addr }

// serve runs the service until ctx ends or its last network fails. Started is
// called once, when requests are answered.
func serve(ctx context.Context, c config, errOut io.Writer, started func(addresses)) error {
	logs := newLoggers(c.LogLevel, errOut)
	log := logs.named(mainLogger)
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

	kept, err := openKeep(ctx, c, log, registry)
	if err != nil {
		return err
	}
	defer kept.close()

	debug.SetMemoryLimit(int64(c.MemoryLimit - c.MemoryLimit/8)) // the store's is not the collector's
	// The limit is what memory may be used up to: collecting more often would only take
	// processor time, of which requests wait for a part.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	names := slices.Sorted(maps.Keys(c.Networks))
	fetcher, err := metadata.NewFetcher(metadata.FetchOptions{Gateways: c.Metadata.IPFSGateways, AllowPrivate: c.Metadata.AllowPrivate})
	if err != nil {
		return usage(fmt.Errorf("metadata.ipfs_gateways: %w", err), "")
	}
	defer fetcher.Close()
	words, err := newEVMOptions(c)
	if err != nil {
		return usage(err, "Correct the file, or leave it out of the configuration.")
	}
	key, err := kept.pageKey(ctx, c.DataDir)
	if err != nil {
		return &exitError{code: exitFailed, err: err, hint: "Is --data-dir a folder of yours, with room on its disk?"}
	}
	keys, err := kept.keys(ctx, keysOf(c.DataDir))
	if err != nil {
		return err
	}
	entry, err := newDoor(ctx, c, keys, kept.allowances(log), log, registry)
	if err != nil {
		return err
	}
	defer entry.close()
	var surface *reception
	page, err := newConsole(c, func() *reception { return surface }, registry)
	if err != nil {
		return err
	}
	defer page.Close()
	answers, err := newAnswers(c.MemoryLimit, registry)
	if err != nil {
		return err
	}
	surface, err = newReception(names, c.NodeAPI.main(c.Networks), c.Role, entry.furnish(handlers.Options{
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
	operators, err := handlers.NewPrivate(handlers.PrivateOptions{Networks: surface.operators(), Index: surface.recorded, Standbys: kept.following(), Verify: surface.verify, Node: nodeSurface{surface, c.NodeAPI.main(c.Networks), true}, Answers: answers, Gatherer: registry, Log: log})
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
			err := surface.bring(ctx, life, networkOptions{
				name:    name,
				config:  c.Networks[name],
				dir:     dirOf(c.DataDir, name),
				log:     logs.named(name).With(slog.String("network", name)),
				metrics: registry,
				store:   kept.store,
				views:   kept.views(),
				archive: kept.archive,
				leases:  kept.leases,
				role:    c.Role,
				fetcher: fetcher,
				nodeAPI: c.NodeAPI,
				loggers: logs, profiles: profiles, settings: shown(c),
				traces:   entry.traces,
				observer: page.Observer(name),
				origins:  slices.Concat([]string{}, c.CORSOrigins),
				// What is left of the limit is for the store, the connections and
				// the rounds themselves.
				signatureBytes: uint64(c.MemoryLimit) / 8 / uint64(len(names)),
				messageBytes:   uint64(c.MemoryLimit) / 16 / uint64(len(names)),
				blockBytes:     int64(c.MemoryLimit) / 8 / int64(len(names)),
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
	log.Info("serving", slog.String("networks", strings.Join(names, ",")), slog.String("listen", public.Addr().String()), slog.String("private", private.Addr().String()))
	started(addresses{public.Addr(), private.Addr()})

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
		err = &exitError{code: exitFailed, err: last.err, hint: "No network is left to serve. Correct what it says, then start again."}
	}
	return err
}

// outOfServiceError is why a service without networks stops.
type outOfServiceError struct{ err error }

func (e *outOfServiceError) Error() string { return e.err.Error() }

// announce says what is served and where.
func announce(out io.Writer, c config, a addresses) {
	_, _ = fmt.Fprintf(out, "quorate serves Warp signatures on %s://%s\n", c.scheme(), a.public)
	for _, name := range slices.Sorted(maps.Keys(c.Networks)) {
		_, _ = fmt.Fprintf(out, "  POST /v1/signatureAggregator/%s/aggregateSignatures, GET .../aggregateSignatures/{txHash}\n", name)
		if c.Networks[name].ledger() {
			_, _ = fmt.Fprintf(out, "  GET  /v1/networks/%s/...\n", name)
		}
		if name == c.NodeAPI.main(c.Networks) {
			_, _ = fmt.Fprintf(out, "  POST /ext/..., /%s/ext/... as a node\n", name)
		} else {
			_, _ = fmt.Fprintf(out, "  POST /%s/ext/... as a node\n", name)
		}
	}
	_, _ = fmt.Fprintf(out, "  POST /aggregate-signatures\nConsole: %s\nHealth and metrics: http://%s/readyz and /metrics\nStop with Ctrl-C.\n", consoleURL(c.scheme(), a.public), a.private)
}

func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &exitError{code: exitFailed, err: fmt.Errorf("listening: %w", err), hint: fmt.Sprintf("Is another program using it? Choose another address with --%s.", flag)}
	}
	return l, nil
}
