package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"quorate/aggregator"
	"quorate/aggregator/evmmessage"
	"quorate/handlers"
	"quorate/handlers/apierr"
	"quorate/handlers/data"
	handler "quorate/handlers/evm"
	lookup "quorate/handlers/networks"
	"quorate/handlers/signing"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/index/primary"
	"quorate/internal/node"
	"quorate/internal/peernode/checkpoint"
	"quorate/internal/service/hint"
	"quorate/internal/service/network"
	"quorate/internal/service/nodeapi"
	"quorate/internal/service/tracing"
	"quorate/internal/service/upstream"
)

// networks holds the configured networks, from the start until the process ends.
type networks struct {
	process *process
	names   []string // sorted
	entries map[string]*entry
	evm     *handler.Chains
	fetcher *metadata.Fetcher
	calls   *upstream.Calls

	mu sync.Mutex
	// ids holds the IDs that nodes reported, by name; guarded by mu, which also orders changes of entries and of evm.
	ids map[string]uint32
}

// newNetworks returns the networks; none is open.
func newNetworks(p *process) (*networks, error) {
	n := &networks{
		process: p, names: slices.Sorted(maps.Keys(p.config.Networks)),
		entries: make(map[string]*entry), evm: &handler.Chains{Aliases: p.options.Aliases}, ids: make(map[string]uint32),
		calls: upstream.NewCalls(p.registry),
	}
	for _, name := range n.names {
		e := &entry{name: name}
		promauto.With(p.registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quorate_network_ready", ConstLabels: prometheus.Labels{"network": name},
			Help: "1 if the network is ready, as at /readyz; 0 if not, which includes the time before it is open and after it has failed.",
		}, func() float64 {
			if e.ready() != nil {
				return 0
			}
			return 1
		})
		id, _ := lookup.PublicID(name)
		e.state.Store(&entryState{signing: e.unavailable(id, starting(nil), nil)})
		n.entries[name] = e
		if err := n.evm.Set(name, nil, true); err != nil {
			return nil, err
		}
	}
	var err error
	n.fetcher, err = metadata.NewFetcher(metadata.FetchOptions{Gateways: p.config.Metadata.IPFSGateways, AllowPrivate: p.config.Metadata.AllowPrivate})
	if err != nil {
		return nil, hint.Mistake(fmt.Errorf("metadata.ipfs_gateways: %w", err), "")
	}
	return n, nil
}

func (n *networks) close() { n.fetcher.Close() }

// start opens and runs each network. It asks nodes until ctx ends. wait ends the networks and returns when they have
// ended; call it when no request is in flight. If one network fails, the others continue; stop is called when the last
// one has failed.
func (n *networks) start(ctx context.Context, s *surface, stop context.CancelCauseFunc) (wait func()) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(len(n.names)))
	for _, name := range n.names {
		running.Go(func() {
			err := n.run(ctx, life, name, s)
			if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return
			}
			n.process.log.Error("a network is out of service", slog.String("network", name), slog.Any("error", err))
			n.fail(name, err)
			if left.Add(-1) == 0 {
				stop(&outOfServiceError{err})
			}
		})
	}
	for slots, of := range map[*index.Slots]besideOf{
		n.process.kept.Slots: (*network.Network).Beside,
		n.process.kept.EVM:   (*network.Network).BesideEVM,
	} {
		running.Go(func() { n.rebuild(life, slots, of) })
		if n.process.kept.Leases != nil {
			running.Go(func() { slots.Follow(life, n.process.log) })
		}
	}
	if n.process.options.Following != nil {
		running.Go(func() { n.tellFollowing(life) })
	}
	return func() {
		end()
		running.Wait()
	}
}

// tellFollowing calls Options.Following for each P-Chain that is followed without a node, until ctx ends.
func (n *networks) tellFollowing(ctx context.Context) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, name := range n.names {
			if opened := n.entries[name].open(); opened != nil {
				if at, ok := opened.Following(); ok {
					n.process.options.Following(name, at)
				}
			}
		}
	}
}

// run opens a network and runs it. It asks the node until ctx ends, and runs until life ends. It returns nil if ctx or
// life ended it. The network signs as soon as it is open; its node API follows.
func (n *networks) run(ctx, life context.Context, name string, s *surface) error {
	p := n.process
	dir, log := filepath.Join(p.config.DataDir, name), p.loggers.Named(name).With(slog.String("network", name))
	opened, err := network.Open(ctx, n.options(name, dir, log, s), n.claim, func(err error) { n.waits(name, err) })
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while waiting for the node
		}
		return err
	}
	defer opened.Close()
	log.Info("network open", slog.Uint64("networkID", uint64(opened.ID)), slog.String("ourNodeID", opened.Peers.NodeID().String()))
	if estimate := p.config.Networks[name].Estimate(opened.ID).Text; estimate != "" && p.config.Role.Indexes() {
		log.Info("indexing more than signing needs; set record to l1 to avoid it", slog.String("record", p.config.Networks[name].Record), slog.String("estimate", estimate))
	}
	if err := n.open(opened, s); err != nil {
		return err
	}
	g, life := errgroup.WithContext(life)
	g.Go(func() error { return opened.Run(life) })
	g.Go(func() error { return n.runNodeAPI(ctx, life, opened, dir, log, s) })
	return g.Wait()
}

// runNodeAPI serves the node API of a network until life ends. It starts over whenever the network's index is replaced.
// It waits for the node until ctx ends.
func (n *networks) runNodeAPI(ctx, life context.Context, opened *network.Network, dir string, log *slog.Logger, s *surface) error {
	p := n.process
	for life.Err() == nil {
		current, end := context.WithCancel(life)
		stop := context.AfterFunc(ctx, end) // only while the node is asked
		replaced := opened.Replaced()
		var watching sync.WaitGroup
		watching.Go(func() {
			select {
			case <-replaced:
				end()
			case <-current.Done():
			}
		})
		api, err := nodeapi.New(current, opened, nodeapi.Options{
			Config:  p.config.NodeAPI,
			Network: p.config.Networks[opened.Name],
			Dir:     dir,
			Store:   p.kept.Store,
			Loggers: p.loggers, Profiles: s.profiles, Settings: config.Shown(p.config),
			Origins: slices.Concat([]string{}, p.config.CORSOrigins),
			Metrics: prometheus.WrapRegistererWith(prometheus.Labels{"network": opened.Name}, p.registry),
			Log:     log,
		}, func(err error) { n.waits(opened.Name, err) })
		stop()
		if err == nil {
			n.serve(opened.Name, api)
			api.Run(current)
			api.Close()
		}
		interrupted := current.Err() != nil
		end()
		watching.Wait()
		switch {
		case ctx.Err() != nil && err != nil:
			return nil //nolint:nilerr // stopped while waiting for the node
		case err != nil && !interrupted:
			return err
		}
	}
	return nil
}

func (n *networks) options(name, dir string, log *slog.Logger, s *surface) network.Options {
	p := n.process
	share := uint64(p.config.MemoryLimit) / uint64(len(n.names))
	o := network.Options{
		Name:          name,
		Config:        p.config.Networks[name],
		Synthetic:     p.options.Synthetic,
		Dir:           dir,
		Log:           log,
		Metrics:       p.registry,
		Store:         p.kept.Store,
		StorePlace:    p.kept.Place,
		Slots:         p.kept.Slots,
		EVMSlots:      p.kept.EVM,
		Views:         p.kept.Views(),
		Archive:       p.kept.Archive,
		Group:         p.kept.Group(),
		Role:          p.config.Role,
		Fetcher:       n.fetcher,
		Changed:       func() error { return n.refresh(name) },
		CallsInFlight: p.config.NodeAPI.CallsInFlight,
		Observer:      s.console.Observer(name),
		Rounds:        p.rounds,
		// The rest of the memory is for the store, connections and rounds.
		SignatureBytes: share / 8,
		MessageBytes:   share / 16,
		BlockBytes:     int64(share / 8),
	}
	o.Wrap = func(next http.RoundTripper) http.RoundTripper {
		if s.traces != nil {
			next = s.traces.Transport(next)
		}
		return n.calls.Transport(name, next)
	}
	return o
}

// claim reserves a network ID for a name before anything starts for it.
func (n *networks) claim(name string, id uint32) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other, taken := range n.ids {
		if taken == id && other != name {
			return fmt.Errorf("networks %s and %s have nodes of one network, ID %d; configure one of them", other, name, id)
		}
	}
	n.ids[name] = id
	e := n.entries[name]
	e.state.Store(&entryState{signing: e.unavailable(id, "starting; try again in a moment", nil)})
	return nil
}

// change changes the state of a network.
func (n *networks) change(name string, f func(*entryState)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := *n.entries[name].state.Load()
	f(&s)
	n.entries[name].state.Store(&s)
}

// waits stores why the node of a network has not reported what is needed next.
func (n *networks) waits(name string, why error) {
	n.change(name, func(s *entryState) {
		if s.waiting = why; s.network == nil {
			s.signing = n.entries[name].unavailable(s.signing.NetworkID, starting(why), nil)
		}
	})
}

// serve makes the node API of an open network available to requests.
func (n *networks) serve(name string, api *nodeapi.API) {
	n.change(name, func(s *entryState) { s.api, s.waiting = api, nil })
}

// open makes a network available to requests.
func (n *networks) open(opened *network.Network, on *surface) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[opened.Name]
	s := &entryState{network: opened}
	s.signing = handlers.Network{
		NetworkID: opened.ID, Signer: signer{opened.Signer, opened}, Deliveries: opened.Deliveries,
		Ready: e.ready, SubnetReady: e.subnetReady, Stream: n.process.kept.Archive.Stream(opened.ID), Changes: opened.Changes,
	}
	if tracer := on.tracer(); tracer != nil {
		s.signing.Signer = tracing.NewSigner(s.signing.Signer, opened.Name, tracer)
	}
	return n.update(e, s)
}

// refresh makes indexes available to requests that have become readable since the network opened.
func (n *networks) refresh(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[name]
	s := *e.state.Load()
	if s.network == nil {
		return nil // open does it
	}
	return n.update(e, &s)
}

// update sets the state of an open network, with its readable indexes. Requires mu.
func (n *networks) update(e *entry, s *entryState) error {
	if d, ok := s.network.Data(); ok {
		s.data = &d
	}
	served, starting := s.network.EVM()
	e.state.Store(s)
	return n.evm.Set(e.name, served, starting)
}

// fail takes a network out of service for good.
func (n *networks) fail(name string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[name]
	e.state.Store(&entryState{failed: err, signing: e.unavailable(e.state.Load().signing.NetworkID, "out of service; its operator finds the reason at /readyz", err)})
	_ = n.evm.Set(name, nil, false) // without chains there is no error
}

// forSigning finds networks for the signing operations.
func (n *networks) forSigning() lookup.Directory[handlers.Network] {
	return lookup.New(n.names, func(name string) (handlers.Network, error) { return n.entries[name].state.Load().signing, nil }).Also(n.process.options.Aliases)
}

// forData finds the indexed data of networks.
func (n *networks) forData() lookup.Directory[data.Network] {
	return lookup.New(n.names, func(name string) (data.Network, error) {
		switch s := n.entries[name].state.Load(); {
		case s.network == nil:
			return data.Network{}, s.signing.Unavailable
		case s.data == nil:
			return data.Network{}, apierr.NotFound("network: chain data of %s is not indexed here", name)
		default:
			return *s.data, nil
		}
	}).Also(n.process.options.Aliases)
}

// operators returns the networks for the private surface, by name.
func (n *networks) operators() map[string]handlers.Network {
	all := make(map[string]handlers.Network, len(n.entries))
	for name, e := range n.entries {
		all[name] = handlers.Network{Ready: e.ready, Degraded: e.degraded, SubnetReady: e.subnetReady}
	}
	return all
}

// indexed returns how far the chains of the open networks are indexed.
func (n *networks) indexed() map[string]map[string]index.Status {
	all := make(map[string]map[string]index.Status)
	for name, e := range n.entries {
		if opened := e.open(); opened != nil && opened.Chains() != nil {
			all[name] = opened.Status()
		}
	}
	return all
}

// unopened returns the networks that are not open, and why.
func (n *networks) unopened() map[string]error {
	all := make(map[string]error)
	for name, e := range n.entries {
		if state := e.state.Load(); state.network == nil {
			all[name] = state.ready(name)
		}
	}
	return all
}

// verify checks the index of a network, for the private surface.
func (n *networks) verify(ctx context.Context, name string, o primary.VerifyOptions, tell func(primary.Verification)) error {
	e, ok := n.entries[name]
	if !ok {
		return handlers.ErrNotIndexed
	}
	opened := e.open()
	if opened == nil || opened.Chains() == nil {
		return handlers.ErrNotIndexed
	}
	_, err := opened.Chains().Verify(ctx, o, tell)
	return err
}

// export exports a checkpoint of a network's P-Chain, for the private surface. An empty name stands for the only network.
func (n *networks) export(ctx context.Context, name string, height uint64, begin func(checkpoint.Header) io.Writer) error {
	if name == "" && len(n.names) == 1 {
		name = n.names[0]
	}
	e, ok := n.entries[name]
	if !ok {
		return handlers.ErrNotExecuted
	}
	opened := e.open()
	if opened == nil {
		return e.ready()
	}
	return opened.Export(ctx, height, begin)
}

// entry is one configured network.
type entry struct {
	name  string
	state atomic.Pointer[entryState]
}

// entryState is immutable. It is waiting for the node (network and failed are nil), open,
// or failed for good.
type entryState struct {
	network *network.Network
	api     *nodeapi.API  // with network; nil until the node has reported its chains
	data    *data.Network // with network; nil without an index
	waiting error         // why the node has not reported what is needed next; nil before the first reason
	failed  error
	// signing is the network as handlers see it, in each state.
	signing handlers.Network
}

// open returns the network, nil unless it is open.
func (e *entry) open() *network.Network { return e.state.Load().network }

// starting returns the state, for clients, of a network whose ID is not known because of why, which is for operators. Nil
// means that no node has been asked.
func starting(why error) string {
	refused, ok := errors.AsType[*node.RPCError](why)
	switch {
	case ok && (refused.Code == http.StatusUnauthorized || refused.Code == http.StatusForbidden):
		return fmt.Sprintf("starting, but its node refuses access with status %d; its operator finds the reason at /readyz", refused.Code)
	case why == nil, errors.Is(why, node.ErrUnavailable):
		return "starting and its node has not answered yet; try again in a moment"
	}
	return "starting and its node has not reported the network ID yet; try again in a moment"
}

// unavailable returns the network as handlers see it before it is open, or after it has failed. id may be 0. The state is
// for clients.
func (e *entry) unavailable(id uint32, state string, failed error) handlers.Network {
	why := apierr.Unavailable(failed, "the network %s is %s", e.name, state)
	why.Code = string(aggregator.CodeNodeUnavailable)
	return handlers.Network{NetworkID: id, Unavailable: why, Ready: e.ready, SubnetReady: e.subnetReady}
}

// ready returns nil, or why requests cannot be expected to succeed, for /readyz.
func (e *entry) ready() error { return e.state.Load().ready(e.name) }

// ready is entry.ready in one state. It fails unless the network is open.
func (s *entryState) ready(name string) error {
	switch {
	case s.network != nil:
		return s.network.Ready()
	case s.failed != nil:
		return s.failed
	}
	return s.awaited(name)
}

// awaited returns what the network waits for.
func (s *entryState) awaited(name string) error {
	if s.waiting == nil {
		return fmt.Errorf("no node of network %s has answered yet; start one, or correct networks.%s.nodes", name, name)
	}
	return fmt.Errorf("no node of network %s answers as it must (%w); start one, or correct networks.%s.nodes", name, s.waiting, name)
}

// apiReady returns why there is no node API yet, for operators. It is nil if there is one.
func (s *entryState) apiReady(name string) error {
	switch {
	case s.api != nil:
		return nil
	case s.failed != nil:
		return s.failed
	}
	return s.awaited(name)
}

// degraded returns what fails in a network that is ready.
func (e *entry) degraded() error {
	if opened := e.open(); opened != nil {
		return cmp.Or(opened.Degraded(), opened.Outvoted())
	}
	return nil
}

// subnetReady is ready for the validators of one subnet.
func (e *entry) subnetReady(subnet ids.ID) error {
	s := e.state.Load()
	if err := s.ready(e.name); err != nil {
		return err
	}
	err, ok := s.network.SubnetReady(subnet)
	if !ok {
		return fmt.Errorf("subnet %s: %w", subnet, signing.ErrNoSubnet)
	}
	return err
}

// signer implements signing.Signer for an open network.
type signer struct {
	*aggregator.Aggregator
	network *network.Network
}

// SignTransaction implements signing.Signer.
func (s signer) SignTransaction(ctx context.Context, txID ids.ID) (*aggregator.Result, error) {
	return s.network.Messages.Sign(ctx, txID, nil)
}

// Sent implements signing.Signer.
func (s signer) Sent(ctx context.Context, chain string, hash ids.ID) ([]evmmessage.Sent, error) {
	return s.network.Sent(ctx, chain, hash)
}
