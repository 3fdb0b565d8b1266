// Package stakes returns the potential rewards of current validations and delegations.
// Blocks do not contain them, so it asks nodes and caches their replies: a request for a
// list of stakes does not cause one call for each.
package stakes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/bounded"
	"quorate/internal/node"
)

// Validator is a node that validates a subnet.
type Validator struct {
	SubnetID ids.ID
	NodeID   ids.NodeID
}

// Node is the client of an upstream node. *node.Client implements it.
type Node interface {
	CurrentStakes(ctx context.Context, subnetID ids.ID, nodeID ids.NodeID) ([]node.CurrentStake, error)
}

const (
	// maxBytes bounds the cache.
	maxBytes = 32 << 20
	// stakeBytes and validatorBytes are the approximate sizes of cached entries.
	stakeBytes, validatorBytes = 64, 256
	// freshFor is how long a reply is valid whatever the chain does. A reward is fixed when
	// a stake begins, but an auto-renewed validator gets a new one for each period.
	freshFor = 30 * time.Second
	// failedFor is the pause after a failed request.
	failedFor = 2 * time.Second
	// atOnce is the number of concurrent requests.
	atOnce = 8
	// lackingFor is how long a reply is valid that lacks an indexed stake, while the chain
	// does not move. The node may have been behind the index.
	lackingFor = 2 * time.Second
	// timeout bounds one request to the node, and the wait of one call of Potential.
	timeout = 5 * time.Second
)

// nodeReply is what the node reported.
type nodeReply struct {
	rewards map[ids.ID]uint64 // by transaction, in nAVAX or the subnet's own unit
	height  uint64            // of the P-Chain before the request
	at      time.Time
	err     error
}

// Cache asks a node and caches its replies. It is safe for concurrent use.
type Cache struct {
	node Node
	// height returns the height of the P-Chain. It does not block.
	height  func() uint64
	answers *bounded.Cache[Validator, *nodeReply]
	asking  singleflight.Group
}

// New returns a cache of n's replies. A reply is valid while the P-Chain's height stays the
// same.
func New(n Node, height func() uint64) *Cache {
	return &Cache{node: n, height: height, answers: bounded.New(bounded.Options[Validator, *nodeReply]{
		Weight: maxBytes,
		Weigh:  func(_ Validator, a *nodeReply) uint32 { return uint32(validatorBytes + stakeBytes*len(a.rewards)) },
	})}
}

// Potential returns the potential rewards of the stakes with the given transactions, in
// nAVAX (or the subnet's own unit), before commission. It leaves out stakes that the node
// does not list as current. If the node fails, it returns the known rewards together with
// the node's error. It takes 5 s at most.
func (c *Cache) Potential(ctx context.Context, of map[ids.ID]Validator) (map[ids.ID]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	wanted := make(map[Validator][]ids.ID)
	for txID, v := range of {
		wanted[v] = append(wanted[v], txID)
	}
	var mu sync.Mutex
	known := make(map[ids.ID]uint64, len(of))
	var failures []error
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, v := range slices.Collect(maps.Keys(wanted)) {
		group.Go(func() error {
			a := c.of(ctx, v, wanted[v])
			mu.Lock()
			defer mu.Unlock()
			if a.err != nil {
				failures = append(failures, a.err)
			}
			for _, txID := range wanted[v] {
				if r, ok := a.rewards[txID]; ok {
					known[txID] = r
				}
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	return known, errors.Join(failures...)
}

// of returns the cached reply about a validator, or a new one.
func (c *Cache) of(ctx context.Context, v Validator, wanted []ids.ID) *nodeReply {
	before, _ := c.answers.Get(v)
	if before != nil && c.good(before, wanted) {
		return before
	}
	late := func() *nodeReply {
		a := &nodeReply{err: fmt.Errorf("reading the rewards of %s: %w", v.NodeID, context.Cause(ctx))}
		if before != nil {
			a.rewards = before.rewards // most of them still hold
		}
		return a
	}
	if ctx.Err() != nil {
		return late() // the caller's time is over
	}
	// Concurrent callers share one request. It does not end with the caller that began it.
	asked := c.asking.DoChan(v.SubnetID.String()+v.NodeID.String(), func() (any, error) {
		height := c.height()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		a := &nodeReply{height: height}
		all, err := c.node.CurrentStakes(ctx, v.SubnetID, v.NodeID)
		if err != nil {
			a.err = fmt.Errorf("reading the rewards of %s: %w", v.NodeID, err)
			if before != nil {
				a.rewards = before.rewards // most of them still hold
			}
		} else {
			a.rewards = make(map[ids.ID]uint64, len(all))
			for _, s := range all {
				a.rewards[s.TxID] = s.PotentialReward
			}
		}
		a.at = time.Now()
		c.answers.Set(v, a)
		return a, nil
	})
	select {
	case <-ctx.Done():
		return late()
	case done := <-asked:
		return done.Val.(*nodeReply)
	}
}

// good reports whether a reply is still valid.
func (c *Cache) good(a *nodeReply, wanted []ids.ID) bool {
	age := time.Since(a.at)
	if a.err != nil {
		return age < failedFor
	}
	still := a.height == c.height()
	for _, txID := range wanted {
		if _, ok := a.rewards[txID]; !ok {
			// The stake may have begun since, or the node may have been behind.
			return still && age < lackingFor
		}
	}
	return still || age < freshFor
}
