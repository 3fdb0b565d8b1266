package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	avainfo "github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	avaversion "github.com/ava-labs/avalanchego/version"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/info"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/service/network"
	"quorate/validators"
)

// addInfo answers about the network, its chains and this service as a peer.
func addInfo(a *API) error {
	n := a.network
	reported := &nodeReport{client: n.Node, networkID: n.ID}
	a.during(reported.follow)
	weights := &weights{client: n.Node, resolver: n.Resolver}
	own := &period{node: n.Node, nodeID: n.Peers.NodeID()}
	public, operator := info.New(info.Options{
		NetworkID: n.ID, Aliases: a.aliases, Bootstrapped: a.bootstrapped,
		NodeID: n.Peers.NodeID(), Proof: n.Peers.Proof(), Address: n.Peers.Claimed(), Peers: n.Peers.Peers, Weights: weights.now, Began: own.began,
		Upgrades: reported.upgrades, EVMVersion: reported.evmVersion,
	})
	for _, s := range []struct {
		surface *rpc.Surface
		methods any
	}{{a.Public, public}, {a.Operator, operator}} {
		h, err := a.handler("", rpc.Endpoint{Services: []rpc.Service{{Names: []string{"info"}, Methods: s.methods}}})
		if err == nil {
			err = s.surface.Add("info", "", h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bootstrapped reports whether the index of a blockchain is ready. It is true if the chain is not indexed: upstream nodes
// answer for it.
func (a *API) bootstrapped(id ids.ID) bool {
	status, indexed := a.status(id)
	return !indexed || status.Ready()
}

// status returns the state of a chain's index, and false if the chain is not indexed. The C-Chain's is that of its atomic
// transactions.
func (a *API) status(id ids.ID) (status index.Status, ok bool) {
	var name string
	switch id { // the P-Chain's ID is empty, as is that of a missing chain
	case constants.PlatformChainID:
		name = index.PChain
	case a.xChainID:
		name = index.XChain
	case a.cChainID:
		name = index.CChain
	default:
		return a.network.EVMStatus(id)
	}
	if a.network.Chains() == nil {
		return status, false
	}
	status, ok = a.network.Chains().Status()[name]
	return status, ok
}

// nodeReport holds values that change only when an upstream node is updated.
type nodeReport struct {
	client    *node.Client
	networkID uint32

	schedule atomic.Pointer[json.RawMessage]
	evm      atomic.Pointer[string]
}

// betweenReports is the pause after a report.
const betweenReports = 10 * time.Minute

// follow asks upstream nodes until ctx ends.
func (t *nodeReport) follow(ctx context.Context) {
	for ctx.Err() == nil {
		_ = askAgain.Do(ctx, func() error { return t.ask(ctx) }, nil) // fails only when ctx ends
		select {
		case <-ctx.Done():
		case <-time.After(betweenReports):
		}
	}
}

func (t *nodeReport) ask(ctx context.Context) error {
	var schedule json.RawMessage
	if err := t.client.Call(ctx, "/ext/info", "info.upgrades", struct{}{}, &schedule); err != nil {
		return err
	}
	t.schedule.Store(&schedule)
	var versions avainfo.GetNodeVersionReply
	if err := t.client.Call(ctx, "/ext/info", "info.getNodeVersion", struct{}{}, &versions); err != nil {
		return err
	}
	evm, ok := versions.VMVersions["evm"]
	if !ok {
		return errors.New("the node does not report the version of its EVM")
	}
	t.evm.Store(&evm)
	return nil
}

// upgrades returns the upgrades that an upstream node reported, which may be newer than the library's. Before that it
// returns the library's.
func (t *nodeReport) upgrades() (json.RawMessage, error) {
	if schedule := t.schedule.Load(); schedule != nil {
		return *schedule, nil
	}
	return json.Marshal(upgrade.GetConfig(t.networkID))
}

func (t *nodeReport) evmVersion() string {
	if evm := t.evm.Load(); evm != nil {
		return *evm
	}
	return avaversion.Current.String()
}

// weights holds the weights of the primary network's validators at the proposed height. It is safe for concurrent use.
type weights struct {
	client   *node.Client
	resolver *validators.Resolver

	mu     sync.Mutex
	height uint64        // of known; guarded by mu
	known  *info.Weights // guarded by mu; nil before the first
	failed time.Time     // when upstream nodes last failed to answer; guarded by mu
}

// now returns the weights. It asks an upstream node when the height has changed. If none answers it returns the last
// known weights; before the first answer, those of the validators with BLS keys.
func (w *weights) now(ctx context.Context) (info.Weights, error) {
	const timeout, pause = 5 * time.Second, 5 * time.Second
	height, ok := w.resolver.ProposedHeight()
	if !ok {
		return info.Weights{}, network.ErrNoHeight
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known != nil && w.height == height {
		return *w.known, nil
	}
	if time.Since(w.failed) >= pause {
		asking, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		set, err := w.client.ValidatorsAt(asking, constants.PrimaryNetworkID, height)
		if err == nil {
			w.height, w.known = height, &info.Weights{Of: make(map[ids.NodeID]uint64, len(set.Validators)), Total: set.TotalWeight}
			for _, v := range set.Validators {
				w.known.Of[v.NodeIDs[0]] = v.Weight
			}
			return *w.known, nil
		}
		if ctx.Err() != nil {
			return info.Weights{}, fmt.Errorf("asking for the validators: %w", ctx.Err())
		}
		w.failed = time.Now()
	}
	if w.known != nil {
		return *w.known, nil
	}
	set, err := w.resolver.Set(ctx, constants.PrimaryNetworkID, height)
	if err != nil {
		return info.Weights{}, err
	}
	known := info.Weights{Of: make(map[ids.NodeID]uint64, len(set.Validators)), Total: set.TotalWeight}
	for _, v := range set.Validators {
		known.Of[v.NodeIDs[0]] = v.Weight
	}
	return known, nil
}

// stakesNode is the part of an upstream node that a period needs; *node.Client implements it.
type stakesNode interface {
	CurrentStakes(ctx context.Context, subnetID ids.ID, nodeID ids.NodeID) ([]node.CurrentStake, error)
}

// period holds when the current period of a validator of the primary network began. It is safe for concurrent use.
type period struct {
	node   stakesNode
	nodeID ids.NodeID

	mu    sync.Mutex
	start time.Time // zero before the first answer; guarded by mu
	err   error     // why start is zero; guarded by mu
	next  time.Time // when to ask again; guarded by mu
}

// errNoPeriod means that the upstream nodes do not list the validator.
var errNoPeriod = errors.New("not found")

// began asks an upstream node, at most once a minute, or every 5 s while none answers. It returns the last known time, or
// before the first answer the error.
func (p *period) began(ctx context.Context) (time.Time, error) {
	const timeout, pause, life = 5 * time.Second, 5 * time.Second, time.Minute
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.next) {
		return p.start, p.err
	}
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stakes, err := p.node.CurrentStakes(asking, constants.PrimaryNetworkID, p.nodeID)
	if ctx.Err() != nil {
		return time.Time{}, fmt.Errorf("asking for the validator: %w", ctx.Err())
	}
	i := slices.IndexFunc(stakes, func(s node.CurrentStake) bool { return !s.Delegator })
	switch {
	case err == nil && i >= 0:
		p.start, p.err, p.next = stakes[i].Start, nil, time.Now().Add(life)
		return p.start, nil
	case err == nil:
		err = errNoPeriod
	}
	p.next = time.Now().Add(pause)
	if p.start.IsZero() {
		p.err = err
	}
	return p.start, p.err
}
