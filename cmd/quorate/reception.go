package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers"
	"quorate/handlers/apierr"
	"quorate/handlers/data"
	"quorate/handlers/signing"
	"quorate/index"
)

// slot is the place of one configured network, from before its node has answered
// until the process ends. It is the handlers' Signer throughout.
type slot struct {
	name  string
	state atomic.Pointer[slotState]
}

// slotState is one of three: waiting for the node (both nil), open, or failed
// for good.
type slotState struct {
	network *network
	failed  error
}

// unavailable is what clients hear of a network that does not sign; the reason is
// for operators.
func (s *slot) unavailable() *aggregator.Error {
	message := fmt.Sprintf("the network %s is starting and its node has not answered yet; try again in a moment", s.name)
	state := s.state.Load()
	if state.failed != nil {
		message = fmt.Sprintf("the network %s is out of service; its operator finds the reason at /readyz", s.name)
	}
	return &aggregator.Error{Code: aggregator.CodeNodeUnavailable, Message: message, Err: state.failed}
}

func (s *slot) waiting() bool {
	state := s.state.Load()
	return state.network == nil && state.failed == nil
}

// open is the network, nil while or once there is none.
func (s *slot) open() *network {
	if state := s.state.Load(); state.failed == nil {
		return state.network
	}
	return nil
}

func (s *slot) Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
	if n := s.open(); n != nil {
		return n.signer.Sign(ctx, req)
	}
	return nil, s.unavailable()
}

func (s *slot) SignTransaction(ctx context.Context, txID ids.ID) (*aggregator.Result, error) {
	if n := s.open(); n != nil {
		return n.messages.Sign(ctx, txID, nil)
	}
	return nil, s.unavailable()
}

func (s *slot) Verify(ctx context.Context, req aggregator.VerifyRequest) (*aggregator.Verdict, error) {
	if n := s.open(); n != nil {
		return n.signer.Verify(ctx, req)
	}
	return nil, s.unavailable()
}

// ready is what /readyz shows: nil, or why requests cannot be expected to succeed.
func (s *slot) ready() error {
	if n := s.open(); n != nil {
		return n.ready()
	}
	if failed := s.state.Load().failed; failed != nil {
		return failed
	}
	return errors.New("the node has not answered yet; is it up, and is networks." + s.name + ".nodes right?")
}

// subnetReady is ready for the validators of one subnet.
func (s *slot) subnetReady(subnet ids.ID) error {
	if err := s.ready(); err != nil {
		return err
	}
	share, ok := s.open().coverage.Share(subnet)
	if !ok {
		return fmt.Errorf("subnet %s: %w", subnet, signing.ErrNoSubnet)
	}
	return enough(share, "subnet")
}

// reception is the public surface while networks come and go. The surface wants
// to know every network's ID, which only its node can tell: so there is a new
// surface each time a network opens, and requests for the others get 503.
type reception struct {
	role    role
	options handlers.Options // all but Networks
	slots   map[string]*slot
	surface atomic.Pointer[echo.Echo]

	mu  sync.Mutex
	ids map[string]uint32 // guarded by mu; by name, those that nodes have told
}

// newReception is for the networks of these names, of which main is at /ext, and the
// requests that are for a role.
func newReception(names []string, main string, as role, o handlers.Options) (*reception, error) {
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
func (r *reception) open(n *network) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[n.name].state.Store(&slotState{network: n})
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
			n.Signer = tracedSigner{s, name, r.options.Tracer}
		}
		networks[name] = n
	}
	return networks
}

// recorded tells how far the chains of the open networks are recorded.
func (r *reception) recorded() map[string]map[string]index.Status {
	networks := make(map[string]map[string]index.Status)
	for name, s := range r.slots {
		n := s.open()
		if n == nil || n.chains == nil {
			continue
		}
		networks[name] = n.chains.Status()
		if n.evm != nil {
			n.evm.addStatus(networks[name])
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
			if d, ok := records(n); ok {
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
		id, public := knownNetworks[name]
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
			if why := r.role.refuses(c.Path()); why != "" {
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
func (r *reception) bring(ctx, life context.Context, o networkOptions) error {
	o.changed = r.refresh
	n, err := r.assemble(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while waiting for the node
		}
		return err
	}
	defer n.close()
	o.log.Info("network open", slog.Uint64("networkID", uint64(n.id)), slog.String("ourNodeID", n.peers.NodeID().String()))
	if err := r.open(n); err != nil {
		return err
	}
	return n.run(life)
}

func (r *reception) assemble(ctx context.Context, o networkOptions) (*network, error) {
	client, err := newClient(o)
	if err != nil {
		return nil, err
	}
	id, err := awaitID(ctx, client, o.log)
	if err == nil {
		err = r.claim(o.name, id)
	}
	if err == nil && o.store != nil && o.config.ledger() {
		o.genesis, o.validatorFees, err = awaitGenesis(ctx, client, id, o)
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	n, err := newNetwork(client, id, o)
	if err != nil {
		return nil, err
	}
	if n.api, err = newNodeAPI(ctx, n, o); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}
