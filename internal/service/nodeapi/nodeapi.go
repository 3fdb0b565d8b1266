// Package nodeapi puts together what the service answers of one network as a node does, below
// /ext, from its records or by asking its nodes. The answers themselves are made in
// handlers/rpc.
package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers"
	"quorate/handlers/rpc"
	"quorate/handlers/rpc/admin"
	"quorate/internal/config"
	"quorate/internal/node"
	"quorate/internal/service/logs"
	"quorate/internal/service/network"
	"quorate/internal/store"
)

// API is what one network answers as a node does: to everybody, and to its
// operator. Services add what they answer when a network opens; see rpcServices.
type API struct {
	network *network.Network
	// xChainID and cChainID are empty if the network has no such chain.
	xChainID, cChainID ids.ID
	// aliases are the blockchains' names. Safe for concurrent use.
	aliases ids.Aliaser
	// subnets are those that health looks at besides the primary network.
	subnets []ids.ID
	config  config.NodeAPI
	// dir is the network's part of the data folder, store may be nil.
	dir      string
	store    store.Store
	metrics  prometheus.Registerer
	loggers  *logs.Loggers
	profiles *admin.Profiles
	// settings are what the service was started with, without secrets.
	settings map[string]string
	log      *slog.Logger

	// Public is for everybody, Operator for who runs the service.
	Public, Operator *rpc.Surface
	background       []func(context.Context)
}

// rpcServices are what answers, each in a file of its own.
func rpcServices() []func(*API) error {
	return []func(*API) error{addInfo, addHealth, addChains, addIndexes, addCChain, addAdmin}
}

// Options say how a network is to answer.
type Options struct {
	Config config.NodeAPI
	// Network has the subnets that health looks at.
	Network config.Network
	// Dir is the network's part of the data folder, store may be nil.
	Dir      string
	Store    store.Store
	Loggers  *logs.Loggers
	Profiles *admin.Profiles
	// Settings are what the service was started with, without secrets.
	Settings map[string]string
	// Origins are of the web pages that may call what is for everybody.
	Origins []string
	// Metrics are the network's.
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// New asks the network's node for its chains until it answers or ctx ends. What it
// makes answers at once, and is up to date while Run is under way.
func New(ctx context.Context, n *network.Network, o Options) (*API, error) {
	a := &API{
		network: n, aliases: ids.NewAliaser(), config: o.Config, dir: o.Dir, store: o.Store, loggers: o.Loggers, profiles: o.Profiles, settings: o.Settings, log: o.Log,
		metrics: prometheus.WrapRegistererWithPrefix("quorate_health_", o.Metrics),
	}
	surface := rpc.Options{NodeID: n.Peers.NodeID(), AllowedHosts: o.Config.AllowedHosts, AllowedOrigins: o.Origins, Log: o.Log}
	a.Public = rpc.New(surface)
	surface.AllowedOrigins = []string{} // no page has business there
	a.Operator = rpc.New(surface)
	var err error
	if a.subnets, err = o.Network.HealthSubnetIDs(); err != nil {
		return nil, err
	}
	if a.xChainID, a.cChainID, err = findChains(ctx, n, o.Log); err != nil {
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
			return nil, fmt.Errorf("the node API of network %s: %w", n.Name, err)
		}
	}
	return a, nil
}

// name gives a primary network's chain its names, and leads their paths to it.
func (a *API) name(id ids.ID, names []string) error {
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
	return errors.Join(a.Public.Alias(chainBase(id), paths...), a.Operator.Alias(chainBase(id), paths...))
}

// chainBase is the base of a blockchain's endpoints.
func chainBase(id ids.ID) string { return path.Join(constants.ChainAliasPrefix, id.String()) }

// add serves an endpoint (such as /rpc, or nothing) of a base (such as info, or
// chainBase) to everybody.
func (a *API) add(base, endpoint string, h http.Handler) error {
	return errors.Join(a.Public.Add(base, endpoint, h), a.Operator.Add(base, endpoint, h))
}

// addService does so for JSON-RPC. Methods that no service has are the nodes' to
// answer if path, where they have the endpoint, is not empty.
func (a *API) addService(base, endpoint, path string, e rpc.Endpoint) error {
	h, err := a.handler(path, e)
	if err != nil {
		return err
	}
	return a.add(base, endpoint, h)
}

func (a *API) handler(path string, e rpc.Endpoint) (http.Handler, error) {
	e.Path, e.Log, e.BodyLimit = path, a.log, handlers.NodeBodyLimit
	if path != "" && e.Upstream == nil {
		e.Upstream = a.network.Node
	}
	return rpc.NewHandler(e)
}

// during calls f when the network runs, until its context ends, for which f has to
// look.
func (a *API) during(f func(context.Context)) { a.background = append(a.background, f) }

// Run keeps the answers up to date until ctx ends.
func (a *API) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range a.background {
		running.Go(func() { f(ctx) })
	}
	running.Wait()
}

// findChains are the IDs of the X- and the C-Chain, empty if the network has none.
func findChains(ctx context.Context, n *network.Network, log *slog.Logger) (x, c ids.ID, err error) {
	if n.Genesis != nil {
		return n.Genesis.XChainID, n.Genesis.CChainID, nil
	}
	if x, err = askForChain(ctx, n.Node, "X", log); err == nil {
		c, err = askForChain(ctx, n.Node, "C", log)
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
