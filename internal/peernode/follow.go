package peernode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/database/prefixdb"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"

	"quorate/internal/chain/envelope"
	"quorate/internal/peernode/pchainvm"
)

const (
	// pollInterval is the time between two questions for the tip.
	pollInterval = time.Second
	// containerTimeout bounds one request for blocks.
	containerTimeout = 10 * time.Second
	// rest is how long a node that sent something wrong, or nothing, is not asked for blocks.
	rest = 30 * time.Second
	// tellAgain is the least time between two log lines of a kind.
	tellAgain = 10 * time.Second
	// maxKnown bounds the containers that are remembered.
	maxKnown = 1024
)

// errOther means that the executed chain is not the one that the network has.
var errOther = errors.New("the network's P-Chain does not have the last block that was executed here; it is another network, or the state is of one that no longer exists")

// errNewer means that the believed blocks can be old.
var errNewer = fmt.Errorf("most of the stake asked has a newer block that less than %d%% of it has accepted; wait until those nodes agree", needed)

// follower downloads blocks and executes them. Only one goroutine uses it.
type follower struct {
	node   *Node
	peers  Peers
	chain  *pchainvm.Chain
	blocks *spool
	known  set.Set[ids.ID] // containers of executed blocks, not all
	failed map[ids.NodeID]time.Time
	told   time.Time // when progress was logged last
	// unverified says that the state is that of a checkpoint, and that no believed block is known to descend from it.
	unverified bool
}

func newFollower(n *Node, peers Peers, chain *pchainvm.Chain, db database.Database) *follower {
	return &follower{
		node: n, peers: peers, chain: chain, blocks: &spool{prefixdb.New([]byte("blocks"), db)},
		known: set.Set[ids.ID]{}, failed: make(map[ids.NodeID]time.Time), told: time.Now(),
		unverified: n.origin != nil && n.origin.Height == n.Status().Height,
	}
}

// run follows the chain until ctx ends. It returns nil then, and an error if the state cannot be written or is of
// another network.
func (f *follower) run(ctx context.Context) error {
	var told string
	var toldAt time.Time
	for ctx.Err() == nil {
		began := time.Now()
		err := f.step(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ctx ended it
		}
		if fatal := (*fatalError)(nil); errors.As(err, &fatal) {
			return fatal.err
		}
		if err == nil {
			told = ""
		} else if text := err.Error(); text != told && time.Since(toldAt) > tellAgain {
			told, toldAt = text, time.Now()
			f.node.log.Warn("the P-Chain cannot be followed; trying again", slog.Any("error", err))
		}
		f.node.change(func(s *Status) { s.Err = err })
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval - min(time.Since(began), pollInterval)):
		}
	}
	return nil
}

// progress tells the status and, now and then, the log how far a long download or execution is.
func (f *follower) progress(change func(*Status)) {
	f.node.change(change)
	if time.Since(f.told) < tellAgain {
		return
	}
	f.told = time.Now()
	s := f.node.Status()
	f.node.log.Info("following the P-Chain", slog.Uint64("height", s.Height), slog.Uint64("tip", s.Target), slog.Uint64("lowestDownloaded", s.Lowest))
}

// fatalError ends Run.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

// step asks for the tip once, and executes what is new.
func (f *follower) step(ctx context.Context) error {
	// What an earlier process left is finished first: a believed block is believed for good.
	if d, ok, err := f.blocks.descent(); err != nil {
		return &fatalError{err}
	} else if ok {
		if err := f.resume(ctx, d); err != nil {
			return err
		}
	}
	weights, who, err := f.voters(ctx)
	if err != nil {
		return &fatalError{err}
	}
	p, err := ask(ctx, f.peers, constants.PlatformChainID, weights, who, f.node.disputed)
	if err != nil {
		return err
	}
	for _, tip := range p.accepted {
		if f.known.Contains(tip) {
			continue
		}
		switch err := f.advance(ctx, descent{top: tip, wanted: tip}, p.holders[tip]); {
		case err == nil:
			f.unverified = false
		case !errors.Is(err, errBelowCheckpoint):
			return err
		}
	}
	if f.unverified {
		return errBelowCheckpoint
	}
	if p.behind {
		if time.Since(f.node.Status().Confirmed) < tellAgain {
			return nil // usually a new block, which nodes accept one after the other
		}
		return errNewer
	}
	f.node.change(func(s *Status) { s.Confirmed, s.Target, s.Lowest = time.Now(), s.Height, s.Height })
	f.node.confirmed.Store(true)
	return nil
}

// resume continues an unfinished download. It drops a complete one that does not begin after the last executed block. That
// happens when the process ends after a proposal: the VM stores a proposal with the block that decides about it.
func (f *follower) resume(ctx context.Context, d descent) error {
	_, height, err := f.chain.LastAccepted(ctx)
	if err != nil {
		return &fatalError{err}
	}
	if d.wanted == ids.Empty && d.height > height {
		b, err := f.blocks.block(height + 1)
		if err == nil && b == nil {
			err = f.blocks.finish()
			if err == nil {
				return nil
			}
		}
		if err != nil {
			return &fatalError{err}
		}
		f.node.change(func(s *Status) { s.Target, s.Lowest = d.height, height+1 })
	}
	return f.advance(ctx, d, nil)
}

// voters returns the nodes that decide about the tip, and what they are.
func (f *follower) voters(ctx context.Context) (weights map[ids.NodeID]uint64, who string, err error) {
	if f.node.Status().Confirmed.IsZero() {
		weights = make(map[ids.NodeID]uint64, len(f.node.o.Beacons))
		for _, nodeID := range f.node.o.Beacons {
			weights[nodeID] = 1
		}
		return weights, "nodes to begin with", nil
	}
	weights, err = weightsOf(ctx, f.chain, constants.PrimaryNetworkID)
	return weights, "validators", err
}

// weightsOf returns the weights of a subnet's current validators.
func weightsOf(ctx context.Context, chain *pchainvm.Chain, subnetID ids.ID) (map[ids.NodeID]uint64, error) {
	set, err := chain.CurrentValidators(ctx, subnetID)
	if err != nil {
		return nil, err
	}
	weights := make(map[ids.NodeID]uint64, len(set))
	for nodeID, v := range set {
		weights[nodeID] = v.Weight
	}
	return weights, nil
}

// advance downloads what is missing below a believed container, and executes it. holders are the nodes that have it; nil
// means that any may.
func (f *follower) advance(ctx context.Context, d descent, holders []ids.NodeID) error {
	last, height, err := f.chain.LastAccepted(ctx)
	if err != nil {
		return &fatalError{err}
	}
	for d.wanted != ids.Empty {
		found, complete, err := f.fetch(ctx, &d, holders, last, height)
		if err != nil {
			return err
		}
		if complete {
			d.wanted = ids.Empty
		}
		f.progress(func(s *Status) { s.Target, s.Lowest = d.height, lowestOf(found, s.Lowest) })
		if err := f.blocks.put(d, found); err != nil {
			return &fatalError{err}
		}
	}
	if err := f.execute(ctx, height+1, d.height); err != nil {
		return err
	}
	return f.finish(d)
}

// lowestOf returns the lowest height of blocks, or otherwise if there is none.
func lowestOf(found map[uint64][]byte, otherwise uint64) uint64 {
	if len(found) == 0 {
		return otherwise
	}
	return slices.Min(slices.Collect(maps.Keys(found)))
}

// finish ends a download.
func (f *follower) finish(d descent) error {
	if len(f.known) >= maxKnown {
		f.known.Clear()
	}
	f.known.Add(d.top)
	if err := f.blocks.finish(); err != nil {
		return &fatalError{err}
	}
	return nil
}

// fetch asks one node for the container that is wanted next and, if more is missing, its ancestors. It verifies that they
// are a chain, moves d down, and returns the blocks by height. complete says that the lowest follows the last executed
// block, or is one that was executed.
func (f *follower) fetch(ctx context.Context, d *descent, holders []ids.NodeID, last ids.ID, height uint64) (found map[uint64][]byte, complete bool, err error) {
	nodeID, ok := f.choose(holders)
	if !ok {
		return nil, false, errors.New("no connected node has the blocks that are missing")
	}
	limited, cancel := context.WithTimeout(ctx, containerTimeout)
	defer cancel()
	var containers [][]byte
	if d.wanted == d.top { // usually one block is new
		var one []byte
		one, err = f.peers.Container(limited, nodeID, constants.PlatformChainID, d.wanted)
		containers = [][]byte{one}
	} else {
		containers, err = f.peers.Ancestors(limited, nodeID, constants.PlatformChainID, d.wanted, p2p.EngineType_ENGINE_TYPE_CHAIN)
	}
	if err == nil {
		found, complete, err = descend(d, containers, last, height)
	}
	switch {
	case errors.Is(err, errOther) && f.unverified:
		return nil, false, &fatalError{errOtherCheckpoint}
	case errors.Is(err, errOther):
		return nil, false, &fatalError{err}
	case err == nil && f.unverified && d.height < height:
		return nil, false, errBelowCheckpoint
	}
	if err == nil && len(found) == 0 && !complete {
		err = errors.New("it sent no block")
	}
	if err != nil {
		f.failed[nodeID] = time.Now()
		if ctx.Err() == nil {
			f.node.log.Debug("a node did not send blocks of the P-Chain", slog.Any("nodeID", nodeID), slog.Any("error", err))
		}
		return nil, false, fmt.Errorf("downloading blocks of the P-Chain from %s: %w", nodeID, err)
	}
	return found, complete, nil
}

// descend verifies containers, which begin with the one that is wanted. It stops without an error at the first that is
// something else, if there was a good one before.
func descend(d *descent, containers [][]byte, last ids.ID, height uint64) (found map[uint64][]byte, complete bool, err error) {
	found = make(map[uint64][]byte, len(containers))
	for i, b := range containers {
		e := open(b)
		if e.ID != d.wanted {
			if i == 0 {
				return nil, false, fmt.Errorf("it sent %s instead of %s", e.ID, d.wanted)
			}
			return found, false, nil
		}
		parsed, err := block.Parse(block.Codec, e.Block)
		if err != nil {
			return nil, false, fmt.Errorf("block %s cannot be read: %w", e.ID, err) // no node sends a believed container that is none
		}
		at := parsed.Height()
		if d.wanted == d.top {
			d.height = at
		}
		if at <= height {
			if at == height && parsed.ID() != last || len(found) > 0 {
				return nil, false, errOther
			}
			return found, true, nil
		}
		found[at] = e.Block
		d.wanted = e.ParentID
		if at == height+1 {
			if parsed.Parent() != last {
				return nil, false, errOther
			}
			return found, true, nil
		}
	}
	return found, false, nil
}

// open opens a container. A block from before the proposer envelopes is its own container.
func open(b []byte) envelope.Envelope {
	if e, ok := envelope.Open(b); ok {
		return e
	}
	e := envelope.Envelope{ID: hashing.ComputeHash256Array(b), Block: b}
	if parsed, err := block.Parse(block.Codec, b); err == nil {
		e.ParentID = parsed.Parent()
	}
	return e
}

// choose picks a connected node that has not failed lately.
func (f *follower) choose(holders []ids.NodeID) (ids.NodeID, bool) {
	if holders == nil {
		holders = f.peers.ConnectedNodes()
	}
	var rested []ids.NodeID
	for _, nodeID := range holders {
		if at, ok := f.failed[nodeID]; ok {
			if time.Since(at) < rest {
				continue
			}
			delete(f.failed, nodeID)
		}
		rested = append(rested, nodeID)
	}
	if len(rested) == 0 {
		return ids.EmptyNodeID, false
	}
	return rested[rand.IntN(len(rested))], true
}

// execute executes downloaded blocks, both heights included.
func (f *follower) execute(ctx context.Context, from, to uint64) error {
	for h := from; h <= to; h++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := f.blocks.block(h)
		if err == nil && b == nil {
			err = fmt.Errorf("block %d of the P-Chain is missing between downloaded ones", h)
		}
		if err == nil {
			err = f.chain.Execute(ctx, b)
		}
		if err == nil {
			err = f.node.offer(ctx, f.chain, h)
		}
		if err != nil {
			return &fatalError{err}
		}
		f.progress(func(s *Status) { s.Height = h })
	}
	return nil
}
