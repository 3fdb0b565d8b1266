package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers"
	"quorate/handlers/rpc"
	"quorate/handlers/rpc/admin"
	"quorate/handlers/rpc/health"
	"quorate/node"
	"quorate/store"
)

// nodeAPIConfig is about what the service answers as a node does, below /ext.
type nodeAPIConfig struct {
	// Network is the one that /ext is of; the others are at /NAME/ext. Empty stands
	// for the only one, else mainnet, else the first by name.
	Network string `yaml:"network"`
	// AllowedHosts are the names by which clients may address it.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// Admin lets the operator change names and levels of loggers, and write profiles.
	Admin bool `yaml:"admin"`
	// ProfileDir is where profiles are written; empty stands for profiles in the data
	// folder.
	ProfileDir string `yaml:"profile_dir"`
	// HealthInterval is between two runs of the checks behind health.
	HealthInterval time.Duration `yaml:"health_interval"`
	// CallsInFlight is how many calls are forwarded to one node at a time.
	CallsInFlight int `yaml:"calls_in_flight"`
	// CChainNamespaces are those of the C-Chain's Ethereum API that are for everybody;
	// "*" is all.
	CChainNamespaces []string `yaml:"c_chain_namespaces"`
	// SocketsPerClient bounds the WebSockets of one client, SocketIdle how long one may
	// be silent, and SocketLife how long it lasts; 0 is no bound.
	SocketsPerClient int           `yaml:"sockets_per_client"`
	SocketIdle       time.Duration `yaml:"socket_idle"`
	SocketLife       time.Duration `yaml:"socket_life"`
}

func defaultNodeAPI() nodeAPIConfig {
	return nodeAPIConfig{
		AllowedHosts: []string{"localhost"}, HealthInterval: 30 * time.Second, CallsInFlight: 256,
		CChainNamespaces: []string{"eth", "net", "web3", "warp"},
		SocketsPerClient: 64, SocketIdle: 10 * time.Minute, SocketLife: 24 * time.Hour,
	}
}

// cChainNamespaces is nil for all.
func (c nodeAPIConfig) cChainNamespaces() []string {
	if slices.Contains(c.CChainNamespaces, "*") {
		return nil
	}
	return slices.Concat([]string{}, c.CChainNamespaces)
}

// main is the network whose surface is at /ext.
func (c nodeAPIConfig) main(networks map[string]networkConfig) string {
	if c.Network != "" {
		return c.Network
	}
	if _, ok := networks["mainnet"]; ok {
		return "mainnet"
	}
	names := slices.Sorted(maps.Keys(networks))
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// check tells wrong of each mistake, by the name of the key.
func (c nodeAPIConfig) check(networks map[string]networkConfig, wrong func(format string, args ...any)) {
	if _, ok := networks[c.Network]; c.Network != "" && !ok {
		wrong("node_api.network: %q is none of the networks%s", c.Network, suggest(c.Network, slices.Collect(maps.Keys(networks))))
	}
	if c.HealthInterval < 100*time.Millisecond || c.HealthInterval > time.Hour {
		wrong("node_api.health_interval: %s is not between 100ms and 1h", c.HealthInterval)
	}
	if c.CallsInFlight < 1 || c.CallsInFlight > 65536 {
		wrong("node_api.calls_in_flight: %d is not between 1 and 65536", c.CallsInFlight)
	}
	for _, name := range c.CChainNamespaces {
		if strings.ContainsAny(name, "_. ") || name == "" {
			wrong("node_api.c_chain_namespaces: %q is no namespace such as eth", name)
		}
	}
	if c.SocketsPerClient < 0 {
		wrong("node_api.sockets_per_client: %d is negative", c.SocketsPerClient)
	}
	for key, d := range map[string]time.Duration{"socket_idle": c.SocketIdle, "socket_life": c.SocketLife} {
		if d < 0 || d > 0 && d < 100*time.Millisecond {
			wrong("node_api.%s: %s is neither 0 nor at least 100ms", key, d)
		}
	}
}

// nodeAPI is what one network answers as a node does: to everybody, and to its
// operator. Services add what they answer when a network opens; see rpcServices.
type nodeAPI struct {
	network *network
	// xChainID and cChainID are empty if the network has no such chain.
	xChainID, cChainID ids.ID
	// aliases are the blockchains' names. Safe for concurrent use.
	aliases ids.Aliaser
	// subnets are those that health looks at besides the primary network.
	subnets []ids.ID
	config  nodeAPIConfig
	// dir is the network's part of the data folder, store may be nil.
	dir      string
	store    store.Store
	metrics  prometheus.Registerer
	loggers  *loggers
	profiles *admin.Profiles
	// settings are what the service was started with, without secrets.
	settings map[string]string
	log      *slog.Logger

	public, operator *rpc.Surface
	background       []func(context.Context)
}

// rpcServices are what answers, each in a file of its own.
func rpcServices() []func(*nodeAPI) error {
	return []func(*nodeAPI) error{addInfo, addHealth, addChains, addIndexes, addCChain, addAdmin}
}

func newNodeAPI(ctx context.Context, n *network, o networkOptions) (*nodeAPI, error) {
	a := &nodeAPI{
		network: n, aliases: ids.NewAliaser(), config: o.nodeAPI, dir: o.dir, store: o.store, loggers: o.loggers, profiles: o.profiles, settings: o.settings, log: o.log,
		metrics: prometheus.WrapRegistererWith(prometheus.Labels{"network": o.name}, prometheus.WrapRegistererWithPrefix("quorate_health_", o.metrics)),
	}
	surface := rpc.Options{NodeID: n.peers.NodeID(), AllowedHosts: o.nodeAPI.AllowedHosts, AllowedOrigins: o.origins, Log: o.log}
	a.public = rpc.New(surface)
	surface.AllowedOrigins = []string{} // no page has business there
	a.operator = rpc.New(surface)
	var err error
	if a.subnets, err = o.config.healthSubnets(); err != nil {
		return nil, err
	}
	if a.xChainID, a.cChainID, err = findChains(ctx, n, o.log); err != nil {
		return nil, err
	}
	for id, names := range map[ids.ID][]string{
		constants.PlatformChainID: avagenesis.PChainAliases,
		a.xChainID:                avagenesis.XChainAliases,
		a.cChainID:                avagenesis.CChainAliases,
	} {
		if id == ids.Empty && names[0] != avagenesis.PChainAliases[0] {
			continue
		}
		if err := a.name(id, names); err != nil {
			return nil, err
		}
	}
	for _, add := range rpcServices() {
		if err := add(a); err != nil {
			return nil, fmt.Errorf("the node API of network %s: %w", n.name, err)
		}
	}
	return a, nil
}

// name gives a primary network's chain its names, and leads their paths to it.
func (a *nodeAPI) name(id ids.ID, names []string) error {
	var paths []string
	for _, name := range names {
		if err := a.aliases.Alias(id, name); err != nil {
			return err
		}
		paths = append(paths, name, path.Join(constants.ChainAliasPrefix, name))
	}
	if err := a.aliases.Alias(id, id.String()); err != nil {
		return err
	}
	return errors.Join(a.public.Alias(chainBase(id), paths...), a.operator.Alias(chainBase(id), paths...))
}

// chainBase is the base of a blockchain's endpoints.
func chainBase(id ids.ID) string { return path.Join(constants.ChainAliasPrefix, id.String()) }

// add serves an endpoint (such as /rpc, or nothing) of a base (such as info, or
// chainBase) to everybody.
func (a *nodeAPI) add(base, endpoint string, h http.Handler) error {
	return errors.Join(a.public.Add(base, endpoint, h), a.operator.Add(base, endpoint, h))
}

// addService does so for JSON-RPC. Methods that no service has are the nodes' to
// answer if path, where they have the endpoint, is not empty.
func (a *nodeAPI) addService(base, endpoint, path string, e rpc.Endpoint) error {
	h, err := a.handler(path, e)
	if err != nil {
		return err
	}
	return a.add(base, endpoint, h)
}

func (a *nodeAPI) handler(path string, e rpc.Endpoint) (http.Handler, error) {
	e.Path, e.Log, e.BodyLimit = path, a.log, handlers.NodeBodyLimit
	if path != "" && e.Upstream == nil {
		e.Upstream = a.network.node
	}
	return rpc.NewHandler(e)
}

// run calls f when the network runs, until its context ends, for which f has to
// look.
func (a *nodeAPI) run(f func(context.Context)) { a.background = append(a.background, f) }

// work does what was given to run, and waits for it to end.
func (a *nodeAPI) work(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range a.background {
		running.Go(func() { f(ctx) })
	}
	running.Wait()
}

// findChains are the IDs of the X- and the C-Chain, empty if the network has none.
func findChains(ctx context.Context, n *network, log *slog.Logger) (x, c ids.ID, err error) {
	if n.genesis != nil {
		return n.genesis.XChainID, n.genesis.CChainID, nil
	}
	if x, err = askForChain(ctx, n.node, "X", log); err == nil {
		c, err = askForChain(ctx, n.node, "C", log)
	}
	return x, c, err
}

// askForChain asks the nodes what a name stands for, until one answers or ctx ends.
func askForChain(ctx context.Context, client *node.Client, name string, log *slog.Logger) (ids.ID, error) {
	const pause = time.Second
	for {
		id, err := client.BlockchainID(ctx, name)
		var refused *node.RPCError
		switch {
		case err == nil:
			return id, nil
		case errors.As(err, &refused):
			return ids.Empty, nil
		case ctx.Err() != nil:
			return ids.Empty, fmt.Errorf("asking the node for its chains: %w", context.Cause(ctx))
		}
		log.Warn("the node does not tell its chains; asking again", slog.Any("error", err))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// healthSubnets are HealthSubnets' IDs.
func (n networkConfig) healthSubnets() ([]ids.ID, error) {
	all := make([]ids.ID, len(n.HealthSubnets))
	for i, text := range n.HealthSubnets {
		id, err := ids.FromString(text)
		if err != nil || id == constants.PrimaryNetworkID || slices.Contains(all[:i], id) {
			return nil, fmt.Errorf("%q is not the ID of one more subnet", text)
		}
		all[i] = id
	}
	return all, nil
}

// nodeSurface finds the surface of the network that a path is for.
type nodeSurface struct {
	reception *reception
	main      string
	operator  bool
}

// newAnswers bounds what nodes' answers take, of all networks and at both addresses: an
// eighth of the memory, or so much that one client may have the longest one.
func newAnswers(limit size, r prometheus.Registerer) (*node.Budget, error) {
	const least, patience = 144 << 20, 2 * time.Second
	b := node.NewBudget(max(int64(limit)/8, least), patience)
	gauge := func(name, help string, of func(node.Usage) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_rpc_answers_" + name, Help: help}, func() float64 { return float64(of(b.Usage())) })
	}
	refused := func(why string, of func(node.Refused) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_rpc_answers_refused_total", ConstLabels: prometheus.Labels{"bound": why},
			Help: "Answers of nodes and bodies of calls that got no memory, by bound: answer (larger than one may be), client (its client held most of what was taken itself), all.",
		}, func() float64 { return float64(of(b.Usage().Refused)) })
	}
	for _, c := range []prometheus.Collector{
		gauge("bytes", "Memory that answers of nodes under way take, in bytes.", func(u node.Usage) int64 { return u.Bytes }),
		gauge("limit_bytes", "How much they may take, in bytes.", func(u node.Usage) int64 { return u.Size }),
		gauge("largest_client_bytes", "What those of one client take, of the one with most, in bytes.", func(u node.Usage) int64 { return u.Largest }),
		gauge("clients", "Clients that such answers are under way to.", func(u node.Usage) int64 { return int64(u.Clients) }),
		gauge("waiting", "Answers that wait for memory.", func(u node.Usage) int64 { return int64(u.Waiting) }),
		refused("answer", func(r node.Refused) uint64 { return r.Size }),
		refused("client", func(r node.Refused) uint64 { return r.Client }),
		refused("all", func(r node.Refused) uint64 { return r.All }),
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of answers: %w", err)
		}
	}
	return b, nil
}

// ServeHTTP implements http.Handler.
func (s nodeSurface) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	clean := path.Clean(r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") {
		clean += "/"
	}
	name, prefix := s.main, ""
	if first, _, _ := strings.Cut(clean[1:], "/"); first != "ext" {
		name, prefix = first, "/"+first
	}
	slot := s.reception.named(name)
	if slot == nil {
		http.NotFound(w, r)
		return
	}
	n := slot.open()
	if n == nil {
		if s.operator && strings.HasPrefix(strings.TrimPrefix(clean, prefix), "/ext/health") {
			health.Failing("network", slot.ready).ServeHTTP(w, r)
			return
		}
		http.Error(w, slot.unavailable().Message, http.StatusServiceUnavailable)
		return
	}
	surface := n.api.public
	if s.operator {
		surface = n.api.operator
	}
	if clean != r.URL.Path {
		u := *r.URL
		u.Path, u.RawPath = clean, ""
		surface.Moved(&u).ServeHTTP(w, r)
		return
	}
	http.StripPrefix(prefix, surface).ServeHTTP(w, r)
}
