// Package service runs quorate serve: it serves the configured networks at a public and a private address.
//
// Run has three steps. open opens the listeners and the store, newSurface builds the routers of both addresses, and
// networks.start opens each network when its node answers. A request passes the listener, net/http, echo with its
// middleware, one lookup of the network, and the handler. The routers are built once; the lookup finds networks that
// open later.
package service

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"

	"quorate/internal/config"
	"quorate/internal/peernode"
	"quorate/internal/service/hint"
)

// Addresses are the addresses of a running service.
type Addresses struct{ Public, Private net.Addr }

// Options configure Run. Config and Log are required.
type Options struct {
	// Config must have been checked.
	Config config.Config
	// Version is the program's, and Commit what it was built from.
	Version, Commit string
	// Synthetic marks simulated networks, whose C-Chain has no receipts.
	Synthetic bool
	// Aliases are further names of networks in paths, with the names that are configured.
	Aliases map[string]string
	// Example returns messages to try on the console; may be nil.
	Example func(network string) ([]byte, bool)
	// Log receives text if it is a terminal, else a JSON object a line.
	Log io.Writer
	// Reload says when the configuration is read again.
	Reload Reload
	// Following is called a few times a second with how far each P-Chain is that is followed without a node; may be nil.
	Following func(network string, at peernode.Status)
	// Started is called once the service accepts requests; may be nil.
	Started func(Addresses)
}

// Run serves until ctx ends or the last network fails. A hint.Error says what the operator
// can do.
func Run(ctx context.Context, o Options) (err error) {
	p, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if late := p.close(); err == nil {
			err = late
		}
	}()
	all, err := newNetworks(p)
	if err != nil {
		return err
	}
	defer all.close()
	s, err := newSurface(ctx, p, all)
	if err != nil {
		return err
	}
	defer s.close()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	wait := all.start(ctx, s, stop)
	p.log.Info("serving", slog.String("networks", strings.Join(all.names, ",")), slog.String("listen", p.public.Addr().String()), slog.String("private", p.private.Addr().String()))
	if o.Started != nil {
		o.Started(Addresses{p.public.Addr(), p.private.Addr()})
	}
	err = s.serve(ctx)
	stop(nil) // also ends waiting for nodes if a listener failed
	wait()
	p.log.Info("stopped")
	if last := (*outOfServiceError)(nil); errors.As(context.Cause(ctx), &last) && err == nil {
		err = hint.Failure(last.err, "No network is left to serve. Correct what it says, then start again.")
	}
	return err
}

// outOfServiceError reports that the last network failed.
type outOfServiceError struct{ err error }

func (e *outOfServiceError) Error() string { return e.err.Error() }
