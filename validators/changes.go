package validators

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// Change is what the P-Chain block of a height changed in the validator set of a subnet.
type Change struct {
	Height uint64
	// TotalWeight is the weight of the new set. It includes InactiveWeight, which is that of L1 validators whose balance
	// is used up (ACP-77).
	TotalWeight, InactiveWeight uint64
	// Nodes has the changed validators in the order of their node IDs. It is empty if only the weight of inactive
	// validators changed.
	Nodes []NodeChange
}

// NodeChange is a change of one validator. Before is nil if it joined, and After is nil if it left. A validator of an L1
// leaves when its balance is used up and joins again when that is increased.
type NodeChange struct {
	NodeID        ids.NodeID
	Before, After *Member
}

// Member is a validator in a set. Key is its compressed BLS public key, nil without one.
type Member struct {
	Weight uint64
	Key    []byte
}

// Touched returns heights in (after, to] with P-Chain transactions that may have changed a subnet's set, in ascending
// order, and the last height that it examined. That is more than after and at most to.
type Touched func(ctx context.Context, subnetID ids.ID, after, to uint64) (heights []uint64, upTo uint64, err error)

// Changes derives the changes of subnets' validator sets from the sets of a Resolver. It is safe for concurrent use.
//
// It compares the sets of two heights and searches for the height of a change only if they differ, so a subnet without
// changes costs no requests: the Resolver has the sets of proposed heights. Callers share the sets and the changes. A
// change that is undone between the compared heights does not appear, unless Touched names its height.
type Changes struct {
	resolver *Resolver
	touched  Touched // may be nil
	diffs    *cache[setID, *Change]
	// generation is that of the Resolver's cache when diffs were derived.
	generation atomic.Uint64
}

// longChange is the number of changed validators from which on a change is cached only briefly.
const longChange = 64

// NewChanges returns the changes of the sets of r. touched may be nil.
func NewChanges(r *Resolver, touched Touched) *Changes {
	c := &Changes{resolver: r, touched: touched}
	c.diffs = newCache(fetchTimeout, func(found *Change, err error) time.Duration {
		switch {
		case err != nil:
			return 0
		case len(found.Nodes) > longChange:
			return brief
		}
		return forever
	}, c.diff)
	c.diffs.enter = r.fetches.enter
	return c
}

// Range returns the heights between which changes can be derived: the oldest height that clients may name, and the
// newest proposed height. It returns false if no node has reported a height recently.
func (c *Changes) Range() (oldest, newest uint64, ok bool) {
	newest, ok = c.resolver.ProposedHeight()
	if !ok {
		newest, ok = c.resolver.LastHeight()
	}
	if age := c.resolver.maxAge; age > 0 && newest > age {
		oldest = newest - age
	}
	return oldest, newest, ok
}

// Check returns an error if the set of a subnet is not available: ErrUnknownSubnet, or those of Resolver.Set.
func (c *Changes) Check(ctx context.Context, subnetID ids.ID) error {
	_, err := c.resolver.Set(ctx, subnetID, 0)
	return err
}

// Next returns the next change of a subnet's set after a height, and its height. Without one it returns nil and the
// height up to which there is none. If it fails, reached is nevertheless a height up to which there is none. Errors are
// those of Resolver.Set.
func (c *Changes) Next(ctx context.Context, subnetID ids.ID, after uint64) (found *Change, reached uint64, err error) {
	if generation := c.resolver.refresh(); c.generation.Swap(generation) != generation {
		c.diffs.forget()
	}
	_, to, ok := c.Range()
	if !ok || to <= after {
		return nil, after, nil
	}
	var heights []uint64
	if c.touched != nil {
		if heights, to, err = c.touched(ctx, subnetID, after, to); err != nil {
			return nil, after, fmt.Errorf("searching for changes of subnet %s after height %d: %w", subnetID, after, err)
		}
	}
	last, err := c.resolver.concrete(ctx, setID{subnetID, after})
	if err != nil {
		return nil, after, err
	}
	for _, height := range append(heights, to) {
		if height <= last.Height {
			continue
		}
		next, err := c.resolver.concrete(ctx, setID{subnetID, height})
		if err != nil {
			return nil, last.Height, err
		}
		if last.same(next) {
			last = next
			continue
		}
		height, err := c.between(ctx, last, next)
		if err != nil {
			return nil, last.Height, err
		}
		if found, err = c.diffs.get(ctx, setID{subnetID, height}); err != nil {
			return nil, height - 1, err
		}
		return found, height, nil
	}
	return nil, last.Height, nil
}

// between returns the height at which one set ended, if the set of a later height differs.
func (c *Changes) between(ctx context.Context, one, other *Set) (uint64, error) {
	lo, hi := one.Height, other.Height
	for hi-lo > 1 {
		middle := lo + (hi-lo)/2
		s, err := c.resolver.concrete(ctx, setID{one.SubnetID, middle})
		if err != nil {
			return 0, err
		}
		if one.same(s) {
			lo = middle
		} else {
			hi = middle
		}
	}
	return hi, nil
}

// members is a set by node ID. The entry of the empty node ID has the weight of inactive L1 validators.
type members map[ids.NodeID]Member

// diff compares the sets of a height and of the one before it, which must not be 0.
func (c *Changes) diff(ctx context.Context, id setID) (*Change, error) {
	before, _, err := c.members(ctx, setID{id.subnet, id.height - 1})
	if err != nil {
		return nil, err
	}
	after, total, err := c.members(ctx, id)
	if err != nil {
		return nil, err
	}
	found := &Change{Height: id.height, TotalWeight: total, InactiveWeight: after[ids.EmptyNodeID].Weight}
	delete(before, ids.EmptyNodeID)
	delete(after, ids.EmptyNodeID)
	for nodeID, then := range before {
		switch now, ok := after[nodeID]; {
		case !ok:
			found.Nodes = append(found.Nodes, NodeChange{NodeID: nodeID, Before: &then})
		case then.Weight != now.Weight || !bytes.Equal(then.Key, now.Key):
			found.Nodes = append(found.Nodes, NodeChange{NodeID: nodeID, Before: &then, After: &now})
		}
	}
	for nodeID, now := range after {
		if _, ok := before[nodeID]; !ok {
			found.Nodes = append(found.Nodes, NodeChange{NodeID: nodeID, After: &now})
		}
	}
	slices.SortFunc(found.Nodes, func(a, b NodeChange) int { return a.NodeID.Compare(b.NodeID) })
	return found, nil
}

// ErrMerged reports that the upstream node does not report the weights of validators that share a BLS key.
var ErrMerged = errors.New("the upstream node reports validators with one BLS key only together; configure one that offers platform.getValidatorsAt")

func (c *Changes) members(ctx context.Context, id setID) (all members, total uint64, err error) {
	raw, err := c.resolver.chain.ValidatorsAt(ctx, id.subnet, id.height)
	if refused(err) {
		return nil, 0, c.resolver.unavailable(ctx, id, err)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("requesting the set of subnet %s at height %d: %w", id.subnet, id.height, err)
	}
	all = make(members, len(raw.Validators))
	for _, v := range raw.Validators {
		if len(v.NodeIDs) != 1 {
			return nil, 0, fmt.Errorf("reading the set of subnet %s at height %d: %w", id.subnet, id.height, ErrMerged)
		}
		all[v.NodeIDs[0]] = Member{v.Weight, v.Key}
	}
	return all, raw.TotalWeight, nil
}
