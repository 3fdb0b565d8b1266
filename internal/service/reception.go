package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"quorate/handlers"
	"quorate/handlers/apierr"
	"quorate/handlers/data"
	handler "quorate/handlers/evm"
	"quorate/handlers/signing"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/primary"
	"quorate/internal/service/network"
	"quorate/internal/service/nodeapi"
	"quorate/internal/service/tracing"
)

// reception is the public surface while networks come and go. The surface wants
// to know every network's ID, which only its node can tell: so there is a new
// surface each time a network opens, and requests for the others get 503.
type reception struct {
	role    config.Role
	options handlers.Options // all but Networks
	slots   map[string]*slot
	surface atomic.Pointer[echo.Echo]

	mu  sync.Mutex
	ids map[string]uint32 // guarded by mu; by name, those that nodes have told
}

// newReception is for the networks of these names, of which main is at /ext, and the
// requests that are for a role.
func newReception(names []string, main string, as config.Role, o handlers.Options) (*reception, error) {
	r := &reception{role: as, options: o, slots: make(map[string]*slot, len(names)), ids: make(map[string]uint32, len(names))}
	r.options.Node = nodeSurface{reception: r, main: main}
	if o.Metrics != nil {
		r.options.Metrics = replacing{o.Metrics}
	}
	for _, name := range names {
		s := &slot{name: name}
		s.state.Store(&slotState{})
		r.slots[name] = s
	}
	return r, r.rebuild()
}

// ServeHTTP implements http.Handler.
func (r *reception) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.surface.Load().ServeHTTP(w, req)
}

// claim reserves a network ID for a name, before anything is started for it.
func (r *reception) claim(name string, id uint32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, taken := range r.ids {
		if taken == id && other != name {
			return fmt.Errorf("networks %s and %s have nodes of one network, ID %d; configure one of them", other, name, id)
		}
	}
	r.ids[name] = id
	return nil
}

// open lets requests in to a network whose ID is claimed.
func (r *reception) open(n *network.Network, api *nodeapi.API) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[n.Name].state.Store(&slotState{network: n, api: api})
	return r.rebuild()
}

// refresh lets requests in to EVM chains that are new.
func (r *reception) refresh() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rebuild()
}

// fail takes a network out of service for good.
func (r *reception) fail(name string, err error) {
	r.slots[name].state.Store(&slotState{failed: err})
}

// operators are the networks as the private surface shows them.
func (r *reception) operators() map[string]handlers.Network {
	networks := make(map[string]handlers.Network, len(r.slots))
	for name, s := range r.slots {
		n := handlers.Network{Signer: s, Ready: s.ready, SubnetReady: s.subnetReady}
		if r.options.Tracer != nil {
			n.Signer = tracing.NewSigner(s, name, r.options.Tracer)
		}
		networks[name] = n
	}
	return networks
}

// recorded tells how far the chains of the open networks are recorded.
func (r *reception) recorded() map[string]map[string]index.Status {
	networks := make(map[string]map[string]index.Status)
	for name, s := range r.slots {
		if n := s.open(); n != nil && n.Chains != nil {
			networks[name] = n.Status()
		}
	}
	return networks
}

// rebuild needs mu, but in newReception.
func (r *reception) rebuild() error {
	o := r.options
	o.Networks = r.operators()
	for name, id := range r.presumed() {
		n := o.Networks[name]
		n.NetworkID = id
		o.Networks[name] = n
	}
	o.Data = make(map[string]data.Network)
	known := make(map[*slot]bool, len(r.slots))
	for name, s := range r.slots {
		if n := s.open(); n != nil {
			known[s] = true
			if d, ok := n.Data(); ok {
				o.Data[name] = d
			}
		}
	}
	var err error
	if o.EVM.Chains, err = r.evmSurface(); err != nil {
		return err
	}
	surface, err := handlers.New(o)
	if err != nil {
		return err
	}
	surface.Use(r.holdBack(known))
	r.surface.Store(surface)
	return nil
}

// presumed gives every network an ID: the node's; until that is known, the public
// network's of that name, so that a message for it is told to wait; failing that
// one that no network has.
func (r *reception) presumed() map[string]uint32 {
	all := maps.Clone(r.ids)
	used := make(map[uint32]bool, len(r.slots))
	for _, id := range all {
		used[id] = true
	}
	placeholder := uint32(math.MaxUint32)
	for _, name := range slices.Sorted(maps.Keys(r.slots)) {
		if _, told := all[name]; told {
			continue
		}
		id, public := network.PublicIDs[name]
		if !public || used[id] {
			id = placeholder
			placeholder--
		}
		all[name], used[id] = id, true
	}
	return all
}

// holdBack answers 503 for networks that are not open, before anything in the
// request is held against an ID that is only presumed. Where the path does not
// name the network, it does so as long as none is open. What opened after the surface
// was made is not open to it: the next one is about to take its place.
func (r *reception) holdBack(known map[*slot]bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if why := refuses(r.role, c.Path()); why != "" {
				return apierr.Unavailable(nil, "%s", why)
			}
			s := r.named(c.Param("network"))
			if c.Path() == signing.PeerPath {
				s = r.anyShut(known)
			}
			if s == nil || known[s] && s.open() != nil {
				return next(c)
			}
			why := s.unavailable()
			e := apierr.Unavailable(why, "%s", why.Message)
			e.Code = string(why.Code)
			return e
		}
	}
}

// named is the slot that a path means, nil if there is none.
func (r *reception) named(name string) *slot {
	if s, ok := r.slots[name]; ok {
		return s
	}
	switch name {
	case "testnet":
		return r.slots["fuji"]
	case "fuji":
		return r.slots["testnet"]
	}
	return nil
}

// anyShut is nil once a network is open that the surface knows; a waiting one comes
// before failed ones.
func (r *reception) anyShut(known map[*slot]bool) *slot {
	var shut *slot
	for _, s := range r.slots {
		if known[s] && s.open() != nil {
			return nil
		}
		if shut == nil || s.waiting() {
			shut = s
		}
	}
	return shut
}

// replacing registers a collector in the place of one that describes the same
// metrics: each new surface brings its own, which count from zero.
type replacing struct{ prometheus.Registerer }

// Register implements prometheus.Registerer.
func (r replacing) Register(c prometheus.Collector) error {
	err := r.Registerer.Register(c)
	var taken prometheus.AlreadyRegisteredError
	if errors.As(err, &taken) {
		r.Unregister(taken.ExistingCollector)
		err = r.Registerer.Register(c)
	}
	return err
}

// bring opens a network and runs it: it asks the node until ctx ends, and runs
// until life ends. The result is nil if one of the two ended it.
func (r *reception) bring(ctx, life context.Context, o network.Options, answers nodeapi.Options) error {
	n, err := network.Open(ctx, o, r.claim)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while waiting for the node
		}
		return err
	}
	defer n.Close()
	api, err := nodeapi.New(ctx, n, answers)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	o.Log.Info("network open", slog.Uint64("networkID", uint64(n.ID)), slog.String("ourNodeID", n.Peers.NodeID().String()))
	if err := r.open(n, api); err != nil {
		return err
	}
	g, life := errgroup.WithContext(life)
	g.Go(func() error { return n.Run(life) })
	g.Go(func() error {
		api.Run(life)
		return nil
	})
	return g.Wait()
}

// refuses says why a request is for another role, empty if it is not.
func refuses(r config.Role, path string) string {
	signs := path == signing.PeerPath || strings.HasPrefix(path, "/v1/signatureAggregator/")
	reads := !signs && (strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/ext/") || strings.Contains(path, "/ext/"))
	switch {
	case signs && !r.Signs():
		return fmt.Sprintf("this replica has the role %s and signs nothing; ask one with the role sign or all", r)
	case reads && !r.Answers():
		return fmt.Sprintf("this replica has the role %s and answers no such question; ask one with the role api or all", r)
	}
	return ""
}

// evmSurface are the EVM chains of all networks, as they are served now.
func (r *reception) evmSurface() (*handler.Chains, error) {
	var all []handler.Chain
	starting := false
	for _, name := range slices.Sorted(maps.Keys(r.slots)) {
		s := r.slots[name]
		n := s.open()
		switch {
		case n == nil:
			starting = starting || s.waiting()
		default:
			served, more := n.EVM()
			all, starting = append(all, served...), starting || more
		}
	}
	return handler.NewChains(all, starting)
}

// verify checks what a network has recorded, for the private surface.
func (r *reception) verify(ctx context.Context, name string, o primary.VerifyOptions, tell func(primary.Verification)) error {
	s, ok := r.slots[name]
	if !ok {
		return handlers.ErrNotRecorded
	}
	n := s.open()
	if n == nil || n.Chains == nil {
		return handlers.ErrNotRecorded
	}
	_, err := n.Chains.Verify(ctx, o, tell)
	return err
}
