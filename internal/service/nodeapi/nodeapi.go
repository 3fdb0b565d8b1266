// Package nodeapi builds the node API of one network, below /ext, from its index and its upstream nodes. The folders
// of handlers/rpc implement the methods.
package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
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
	"quorate/internal/config"
	"quorate/internal/node"
	"quorate/internal/retry"
	"quorate/internal/service/logs"
	"quorate/internal/service/network"
	"quorate/internal/store"
)

// API is the node API of one network, with a public and an operator's surface. rpcServices add their endpoints when
// the network opens.
type API struct {
	network *network.Network
	// xChainID and cChainID are empty if the network has no such chain.
	xChainID, cChainID ids.ID
	// aliases holds the aliases of the blockchains. It is safe for concurrent use.
	aliases ids.Aliaser
	// subnets are checked by health in addition to the primary network.
	subnets []ids.ID
	config  config.NodeAPI
	// dir is the network's part of the data directory; store may be nil.
	dir     string
	store   store.Store
	metrics prometheus.Registerer
	// registered are the API's own metrics in metrics.
	registered *prometheus.Registry
	loggers    *logs.Loggers
	profiles   *admin.Profiles
	// settings are the settings that the service was started with, without secrets.
	settings map[string]string
	log      *slog.Logger

	// Public is for all clients, Operator for the operator of the service.
	Public, Operator *rpc.Surface
	background       []func(context.Context)
}

// rpcServices lists the functions that add endpoints, one per file.
func rpcServices() []func(*API) error {
	return []func(*API) error{addInfo, addHealth, addChains, addIndexes, addCChain, addL1s, addAdmin}
}

// Options configures an API.
type Options struct {
	Config config.NodeAPI
	// Network has the subnets that health checks.
	Network config.Network
	// Dir is the network's part of the data directory; store may be nil.
	Dir      string
	Store    store.Store
	Loggers  *logs.Loggers
	Profiles *admin.Profiles
	// Settings are the settings that the service was started with, without secrets.
	Settings map[string]string
	// Origins are the web origins that may call Public.
	Origins []string
	// Metrics are the network's.
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// New returns the API for the network's present index. It asks the network's nodes for its chains until they answer or
// ctx ends, and calls waiting with each reason why they have not. The API answers at once, and is kept up to date by
// Run. The caller closes it.
func New(ctx context.Context, n *network.Network, o Options, waiting func(error)) (*API, error) {
	a := &API{
		network: n, aliases: ids.NewAliaser(), config: o.Config, dir: o.Dir, store: o.Store, loggers: o.Loggers, profiles: o.Profiles, settings: o.Settings, log: o.Log,
		metrics: o.Metrics, registered: prometheus.NewRegistry(),
	}
	surface := rpc.Options{NodeID: n.Peers.NodeID(), AllowedHosts: o.Config.AllowedHosts, AllowedOrigins: o.Origins, Log: o.Log}
	a.Public = rpc.New(surface)
	surface.AllowedOrigins = []string{} // no web page may call it
	a.Operator = rpc.New(surface)
	var err error
	if a.subnets, err = o.Network.HealthSubnetIDs(); err != nil {
		return nil, err
	}
	if a.xChainID, a.cChainID, err = findChains(ctx, n, o.Log, waiting); err != nil {
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
	if err := a.metrics.Register(a.registered); err != nil {
		return nil, fmt.Errorf("the node API of network %s: registering metrics: %w", n.Name, err)
	}
	return a, nil
}

// Close removes the API's metrics. Another one may then be created for the network.
func (a *API) Close() { a.metrics.Unregister(a.registered) }

// name adds the aliases of a primary network's chain, and of its paths.
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

// chainBase returns the base of a blockchain's endpoints.
func chainBase(id ids.ID) string { return path.Join(constants.ChainAliasPrefix, id.String()) }

// add adds an endpoint (/rpc, for example, or the empty path) of a base (info, for example, or chainBase) to the
// public surface.
func (a *API) add(base, endpoint string, h http.Handler) error {
	return errors.Join(a.Public.Add(base, endpoint, h), a.Operator.Add(base, endpoint, h))
}

// addService does what add does for JSON-RPC. If path is not empty, it forwards methods that no service has to path on
// the upstream nodes; e.Upstream replaces them, also with an empty path.
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

// during makes Run call f, which must return when its context ends.
func (a *API) during(f func(context.Context)) { a.background = append(a.background, f) }

// Run keeps the answers up to date until ctx ends.
func (a *API) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range a.background {
		running.Go(func() { f(ctx) })
	}
	running.Wait()
}

// askAgain are the pauses between questions to an upstream node whose answer nothing waits for.
var askAgain = retry.Pauses{First: time.Second, Longest: time.Minute}

// findChains returns the IDs of the X-Chain and the C-Chain, empty if the network has none.
func findChains(ctx context.Context, n *network.Network, log *slog.Logger, waiting func(error)) (x, c ids.ID, err error) {
	if g := n.Genesis(); g != nil {
		return g.XChainID, g.CChainID, nil
	}
	err = retry.Pauses{First: time.Second, Longest: 30 * time.Second}.Do(ctx, func() error {
		if x, err = askForChain(ctx, n.Node, "X"); err == nil {
			c, err = askForChain(ctx, n.Node, "C")
		}
		return err
	}, func(err error, pause time.Duration) {
		waiting(err)
		log.Warn("the node has not reported its chains, so its APIs are not served yet; asking again", slog.Duration("in", pause), slog.Any("error", err))
	})
	if err != nil {
		err = fmt.Errorf("asking the node for its chains: %w", err)
	}
	return x, c, err
}

// askForChain asks upstream nodes for the ID of the chain with an alias. It is empty if there is none, or if the nodes
// do not offer the call.
func askForChain(ctx context.Context, client *node.Client, name string) (ids.ID, error) {
	id, err := client.BlockchainID(ctx, name)
	var refused *node.RPCError
	if errors.As(err, &refused) && (refused.NotOffered() || strings.Contains(refused.Message, ids.ErrNoIDWithAlias.Error())) {
		return ids.Empty, nil
	}
	return id, err
}
