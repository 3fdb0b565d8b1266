package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/rpc/health"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/node"
	"quorate/internal/service/network"
	"quorate/internal/store"
)

// addHealth reports the health of the network's parts to the operator.
func addHealth(a *API) error {
	checks := &checks{api: a}
	reporter, err := health.New(health.Options{Interval: a.config.HealthInterval, Metrics: prometheus.WrapRegistererWithPrefix("quorate_health_", a.registered), Checks: checks.all()})
	if err != nil {
		return err
	}
	a.during(reporter.Run)
	endpoints, err := reporter.Endpoints(a.log)
	if err != nil {
		return err
	}
	for name, h := range endpoints {
		if err := a.Operator.Add("health", name, h); err != nil {
			return err
		}
	}
	return nil
}

// checks checks a network's parts.
type checks struct{ api *API }

func (c *checks) all() []health.Check {
	application := []string{health.Application}
	all := []health.Check{
		{Name: "bls", Tags: application, Run: c.bls},
		{Name: "bootstrapped", Tags: application, Ready: true, Run: c.bootstrapped},
		{Name: "database", Tags: application, Run: c.database},
		{Name: "diskspace", Tags: application, Run: c.disk},
		{Name: "futureupgrade", Tags: application, Run: c.upgrade},
		{Name: "network", Tags: application, Run: c.network},
		{Name: "router", Tags: application, Run: c.router},
	}
	primary := []string{constants.PrimaryNetworkID.String()}
	for name, id := range c.chains() {
		all = append(all, health.Check{Name: name, Tags: primary, Run: func(ctx context.Context) (any, error) { return c.chain(ctx, name, id) }})
	}
	for _, id := range c.api.subnets {
		all = append(all, health.Check{Name: id.String(), Tags: []string{id.String()}, Run: func(ctx context.Context) (any, error) { return c.subnet(ctx, id) }})
	}
	return all
}

// chains returns the primary network's existing chains, by name.
func (c *checks) chains() map[string]ids.ID {
	all := map[string]ids.ID{index.PChain: constants.PlatformChainID}
	for name, id := range map[string]ids.ID{index.XChain: c.api.xChainID, index.CChain: c.api.cChainID} {
		if id != ids.Empty {
			all[name] = id
		}
	}
	return all
}

func (c *checks) bls(context.Context) (any, error) {
	if err := c.api.network.Peers.Proof().Verify(); err != nil {
		return nil, fmt.Errorf("our BLS key: %w", err)
	}
	return "node is not a validator", nil // as a node puts it; signing requires no validator
}

// bootstrapped lists the subnets with a chain whose index is not ready.
func (c *checks) bootstrapped(context.Context) (any, error) {
	for _, id := range c.chains() {
		if !c.api.bootstrapped(id) {
			return []ids.ID{constants.PrimaryNetworkID}, errors.New("subnets not bootstrapped")
		}
	}
	return []ids.ID{}, nil
}

func (c *checks) database(ctx context.Context) (any, error) {
	if c.api.store == nil {
		return nil, nil
	}
	if _, err := c.api.store.Walk(ctx, store.FamilyCursor, nil, 1); err != nil {
		return nil, fmt.Errorf("reading from the store: %w", err)
	}
	return nil, nil
}

// leastDisk is the minimum free space on the data directory's disk, in bytes.
const leastDisk = 512 << 20

func (c *checks) disk(context.Context) (any, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(c.api.dir, &disk); err != nil {
		return nil, fmt.Errorf("looking at the disk of the data folder: %w", err)
	}
	left := disk.Bavail * uint64(disk.Bsize)
	said := map[string]any{"availableDiskBytes": left, "availableDiskPercentage": 100 * disk.Bavail / max(disk.Blocks, 1)}
	if left < leastDisk {
		return said, fmt.Errorf("the data folder's disk has %s left, less than %s", humanize.IBytes(left), humanize.IBytes(leastDisk))
	}
	return said, nil
}

func (c *checks) network(context.Context) (any, error) {
	t := c.api.network.Peers.Traffic()
	said := map[string]any{"connectedPeers": t.Connected, "sendFailRate": t.FailRate}
	if t.Connected > 0 {
		said["timeSinceLastMsgReceived"] = time.Since(t.LastReceived).Round(time.Second).String()
		said["timeSinceLastMsgSent"] = time.Since(t.LastSent).Round(time.Second).String()
	}
	return said, c.api.network.Ready()
}

func (c *checks) router(context.Context) (any, error) {
	t, calls := c.api.network.Peers.Traffic(), c.api.network.Node.Load()
	said := map[string]any{"longestRunningRequest": t.Longest.String(), "outstandingRequests": t.Requests, "outstandingUpstreamCalls": calls.InFlight}
	if calls.Failing == calls.Endpoints {
		return said, fmt.Errorf("none of the %d configured nodes answers", calls.Endpoints)
	}
	return said, nil
}

// chainReport is the progress of a chain's index.
type chainReport struct {
	State             index.State `json:"state"`
	LastIndexedHeight *uint64     `json:"lastIndexedHeight,omitempty"`
	// LastIndexedID is the consensus ID of the block, if upstream nodes reported it.
	LastIndexedID *ids.ID `json:"lastIndexedID,omitempty"`
	// LastAcceptedHeight is the upstream nodes'.
	LastAcceptedHeight *uint64 `json:"lastAcceptedHeight,omitempty"`
	// Lag includes what the X-Chain accepted before its block 0.
	Lag uint64 `json:"lag"`
}

// newChainReport returns the report of an index with a number of places before the block at height 0.
func newChainReport(status *index.Status, before uint64) chainReport {
	r := chainReport{State: status.State, Lag: status.Lag()}
	if status.Next > before {
		height := status.Next - 1 - before
		r.LastIndexedHeight = &height
	}
	if status.TipKnown && status.Tip >= before {
		height := status.Tip - before
		r.LastAcceptedHeight = &height
	}
	return r
}

func (c *checks) chain(ctx context.Context, name string, id ids.ID) (any, error) {
	status, ok := c.api.status(id)
	if !ok {
		return c.forwarded(ctx, name)
	}
	before := uint64(0)
	if name == index.XChain {
		var err error
		if before, err = c.api.network.Chains().XChainBefore(ctx); err != nil { // no height is known
			return chainReport{State: status.State, Lag: status.Lag()}, outdated(&status)
		}
	}
	r := newChainReport(&status, before)
	if r.LastIndexedHeight != nil {
		kept, err := container.Chain{NetworkID: c.api.network.ID, Name: name}.Get(ctx, c.api.store, status.Next-1)
		if err == nil && kept.Form == container.Accepted {
			r.LastIndexedID = &kept.ID
		}
	}
	return r, outdated(&status)
}

// outdated returns why a chain's index is not up to date; nil if it is.
func outdated(status *index.Status) error {
	switch status.State {
	case index.Following:
		return nil
	case index.CatchingUp:
		return fmt.Errorf("the index is %d blocks behind and catching up", status.Lag())
	case index.Rebuilding:
		return fmt.Errorf("the index is being rebuilt, %d%% is done", status.Rebuilt())
	case index.Stopped:
		return fmt.Errorf("the index of the chain has stopped: %w", status.Err)
	case index.Waiting:
		return fmt.Errorf("indexing waits for the operator: %w", status.Err)
	case index.Retrying, index.Stalled:
		return fmt.Errorf("indexing fails at the moment, and goes on by itself: %w", status.Err)
	}
	return errors.New("no node has reported the chain yet")
}

// forwarded asks upstream nodes about a chain that is not indexed.
func (c *checks) forwarded(ctx context.Context, name string) (any, error) {
	var height uint64
	var err error
	switch name {
	case index.PChain:
		height, err = c.api.network.Node.Height(ctx)
	case index.XChain:
		height, err = c.api.network.Node.XChainHeight(ctx)
	case index.CChain:
		height, err = c.api.network.Node.EVMHeight(ctx, node.CChainRPC)
	}
	if err != nil {
		return nil, fmt.Errorf("the chain is not indexed, and asking its nodes failed: %w", err)
	}
	return chainReport{State: "not indexed", LastAcceptedHeight: &height}, nil
}

// subnet checks that enough of a subnet's validators are connected to sign.
func (c *checks) subnet(ctx context.Context, id ids.ID) (any, error) {
	n := c.api.network
	height, ok := n.Resolver.ProposedHeight()
	if !ok {
		return nil, network.ErrNoHeight
	}
	set, err := n.Resolver.Set(ctx, id, height)
	if err != nil {
		return nil, err
	}
	share := n.Coverage.Of(set)
	return map[string]any{"connectedWeightPercentage": 100 * share, "validators": len(set.Validators), "pChainHeight": height}, network.Enough(share, "subnet")
}
