package nodeapi

import (
	"context"
	"encoding/json"
	"fmt"
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

// addInfo answers about the network, its chains and our place in it.
func addInfo(a *API) error {
	n := a.network
	told := &told{client: n.Node, networkID: n.ID}
	a.during(told.ask)
	weights := &weights{client: n.Node, resolver: n.Resolver}
	public, operator := info.New(info.Options{
		NetworkID: n.ID, Aliases: a.aliases, Bootstrapped: a.bootstrapped,
		NodeID: n.Peers.NodeID(), Proof: n.Peers.Proof(), Address: n.Peers.Claimed(), Peers: n.Peers.Peers, Weights: weights.now,
		Upgrades: told.upgrades, EVMVersion: told.evmVersion,
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

// bootstrapped reports whether a blockchain has been recorded up to the tip since the
// start; one that is not recorded is the nodes' to answer for, who have it.
func (a *API) bootstrapped(id ids.ID) bool {
	status, recorded := a.status(id)
	return !recorded || status.CaughtUp
}

// status tells how far a primary network's chain is recorded, false if it is not at
// all.
func (a *API) status(id ids.ID) (status index.Status, ok bool) {
	var name string
	switch id { // the P-Chain's ID is the empty one, as is that of a chain which is not there
	case constants.PlatformChainID:
		name = index.PChain
	case a.xChainID:
		name = index.XChain
	case a.cChainID:
		name = index.CChain
	}
	if a.network.Chains == nil {
		return status, false
	}
	status, ok = a.network.Chains.Status()[name]
	return status, ok
}

// told is what is asked of a node once.
type told struct {
	client    *node.Client
	networkID uint32

	schedule atomic.Pointer[json.RawMessage]
	evm      atomic.Pointer[string]
}

// ask asks until a node answers or ctx ends.
func (t *told) ask(ctx context.Context) {
	const longest = time.Minute
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, longest) {
		var schedule json.RawMessage
		var versions avainfo.GetNodeVersionReply
		err := t.client.Call(ctx, "/ext/info", "info.upgrades", struct{}{}, &schedule)
		if err == nil {
			t.schedule.Store(&schedule)
			err = t.client.Call(ctx, "/ext/info", "info.getNodeVersion", struct{}{}, &versions)
		}
		if evm, ok := versions.VMVersions["evm"]; err == nil && ok {
			t.evm.Store(&evm)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// upgrades are as a node tells them, which may know of later ones than the library,
// and the library's as long as none does.
func (t *told) upgrades() (json.RawMessage, error) {
	if schedule := t.schedule.Load(); schedule != nil {
		return *schedule, nil
	}
	return json.Marshal(upgrade.GetConfig(t.networkID))
}

func (t *told) evmVersion() string {
	if evm := t.evm.Load(); evm != nil {
		return *evm
	}
	return avaversion.Current.String()
}

// weights are those of the primary network's validators at the proposed height. Safe
// for concurrent use.
type weights struct {
	client   *node.Client
	resolver *validators.Resolver

	mu     sync.Mutex
	height uint64        // of known; guarded by mu
	known  *info.Weights // guarded by mu; nil before the first
	failed time.Time     // when the nodes did not answer; guarded by mu
}

// now asks a node when the height has changed. What was known before has to do while
// none answers, and before that what the validators with keys are known to weigh.
func (w *weights) now(ctx context.Context) (info.Weights, error) {
	const patience, pause = 5 * time.Second, 5 * time.Second
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
		asking, cancel := context.WithTimeout(ctx, patience)
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
