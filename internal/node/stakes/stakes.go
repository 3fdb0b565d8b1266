// Package stakes knows what current validations and delegations will be paid, which
// no block says: nodes do. It remembers their answers, so that a request for a list
// of stakes is not one call for each of them.
package stakes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/node"
)

// Validator is a node that validates a subnet.
type Validator struct {
	SubnetID ids.ID
	NodeID   ids.NodeID
}

// Node is what is asked of an upstream node; *node.Client has it.
type Node interface {
	CurrentStakes(ctx context.Context, subnetID ids.ID, nodeID ids.NodeID) ([]node.CurrentStake, error)
}

const (
	// maxBytes bounds what is remembered.
	maxBytes = 32 << 20
	// stakeBytes and validatorBytes are about what remembering one takes.
	stakeBytes, validatorBytes = 64, 256
	// freshFor is how long an answer is good whatever the chain does. A reward is fixed
	// when a stake begins; but a validator that renews itself has another one each time.
	freshFor = 30 * time.Second
	// failedFor is how long a node that did not answer is not asked again.
	failedFor = 2 * time.Second
	// atOnce is how many validators are asked for at a time.
	atOnce = 8
	// lackingFor is how long an answer is good that lacks a stake which the record has,
	// while the chain does not move: the node may have been behind the record.
	lackingFor = 2 * time.Second
	// patience bounds the time for one request to the node, and for all that one call
	// of Potential waits for.
	patience = 5 * time.Second
)

// answer is what the node said.
type answer struct {
	rewards map[ids.ID]uint64 // by transaction, in nAVAX or the subnet's own unit
	height  uint64            // of the P-Chain before it was asked
	at      time.Time
	err     error
}

// Cache asks a node and remembers. Safe for concurrent use.
type Cache struct {
	node Node
	// height is how far the P-Chain is; it does not block.
	height  func() uint64
	answers *otter.Cache[Validator, *answer]
	asking  singleflight.Group
}

// New makes a cache of what the node says, which is believed to be the same as long as
// the P-Chain's height is.
func New(n Node, height func() uint64) (*Cache, error) {
	answers, err := otter.New(&otter.Options[Validator, *answer]{
		MaximumWeight: maxBytes,
		Weigher:       func(_ Validator, a *answer) uint32 { return uint32(validatorBytes + stakeBytes*len(a.rewards)) },
	})
	if err != nil {
		return nil, fmt.Errorf("making room for rewards: %w", err)
	}
	return &Cache{node: n, height: height, answers: answers}, nil
}

// Potential is what the stakes with the given transactions will be paid, in nAVAX (or
// the subnet's own unit), before commission. What the node does not list as current is
// left out. With an error, which is that of the node, what could be learnt comes, too.
// It takes five seconds at most, however many validators there are.
func (c *Cache) Potential(ctx context.Context, of map[ids.ID]Validator) (map[ids.ID]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// of is what is remembered of a validator, or what the node says now.
func (c *Cache) of(ctx context.Context, v Validator, wanted []ids.ID) *answer {
	before, _ := c.answers.GetIfPresent(v)
	if before != nil && c.good(before, wanted) {
		return before
	}
	late := func() *answer {
		a := &answer{err: fmt.Errorf("asking what the stakes of %s will be paid: %w", v.NodeID, context.Cause(ctx))}
		if before != nil {
			a.rewards = before.rewards // which were true, and mostly are
		}
		return a
	}
	if ctx.Err() != nil {
		return late() // without a request that nobody waits for
	}
	// Whoever asks first does so for the others, and is not the one whose leaving ends it.
	asked := c.asking.DoChan(v.SubnetID.String()+v.NodeID.String(), func() (any, error) {
		height := c.height()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		a := &answer{height: height, at: time.Now()}
		all, err := c.node.CurrentStakes(ctx, v.SubnetID, v.NodeID)
		if err != nil {
			a.err = fmt.Errorf("asking what the stakes of %s will be paid: %w", v.NodeID, err)
			if before != nil {
				a.rewards = before.rewards // which were true, and mostly are
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
		return done.Val.(*answer)
	}
}

// good reports whether an answer need not be asked for again.
func (c *Cache) good(a *answer, wanted []ids.ID) bool {
	age := time.Since(a.at)
	if a.err != nil {
		return age < failedFor
	}
	still := a.height == c.height()
	for _, txID := range wanted {
		if _, ok := a.rewards[txID]; !ok {
			// It may have begun since, or the node had not come to it.
			return still && age < lackingFor
		}
	}
	return still || age < freshFor
}
