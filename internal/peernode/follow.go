package peernode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/database/prefixdb"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/peernode/pchainvm"
)

const (
	// pollInterval is the time between two questions for the tip.
	pollInterval = time.Second
	// tellAgain is the least time between two log lines of a kind.
	tellAgain = 10 * time.Second
)

// errOther means that the executed chain is not the one that the network has.
var errOther = errors.New("the network's P-Chain does not have the last block that was executed here; it is another network, or the state is of one that no longer exists")

// errNewer means that the believed blocks can be old.
var errNewer = fmt.Errorf("most of the stake asked has a newer block that less than %d%% of it has accepted, or named none; wait until those nodes agree", needed)

// follower downloads blocks and executes them. Only one goroutine uses it.
type follower struct {
	node     *Node
	peers    Peers
	chain    *pchainvm.Chain
	blocks   *spool
	last     ids.ID // the last executed block
	height   uint64 // of last
	descents []*descent
	trusted  []ids.ID          // not among descents yet
	known    map[ids.ID]uint64 // heights of containers that were believed, not of all
	believed uint64            // the greatest height that voters are known to have accepted, or that was executed at the start
	failed   map[ids.NodeID]time.Time
	told     time.Time // when progress was logged last
}

func newFollower(ctx context.Context, n *Node, peers Peers, chain *pchainvm.Chain, db database.Database) (*follower, error) {
	f := &follower{
		node: n, peers: peers, chain: chain, blocks: &spool{prefixdb.New([]byte("blocks"), db)}, trusted: n.o.Trusted,
		known: make(map[ids.ID]uint64), failed: make(map[ids.NodeID]time.Time), told: time.Now(),
	}
	var err error
	if f.descents, err = f.blocks.descents(); err != nil {
		return nil, err
	}
	if f.last, f.height, err = chain.LastAccepted(ctx); err == nil && (n.origin == nil || n.origin.Height < f.height) {
		// An earlier process executed it. Voters that are behind for a moment confirm it.
		f.believed = f.height
	}
	return f, err
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

// progress changes the status, and logs it at most once each tellAgain.
func (f *follower) progress(change func(*Status)) {
	f.node.change(change)
	if time.Since(f.told) < tellAgain {
		return
	}
	f.told = time.Now()
	s := f.node.Status()
	f.node.log.Info("following the P-Chain", slog.Uint64("height", s.Height), slog.Uint64("tip", s.Target), slog.Uint64("notDownloaded", s.Missing))
}

// fatalError ends Run.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

// step asks for the tip once, and executes what is new.
func (f *follower) step(ctx context.Context) error {
	// Finish what an earlier process began: a believed block stays believed.
	if err := f.advance(ctx); err != nil {
		return err
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
		f.want(tip, p.holders[tip])
	}
	if err := f.advance(ctx); err != nil {
		return err
	}
	for _, tip := range p.accepted {
		f.believed = max(f.believed, f.known[tip])
	}
	if err := f.below(); err != nil {
		return err
	}
	if p.behind {
		if time.Since(f.node.Status().Confirmed) < tellAgain {
			return nil // usually a new block, which nodes accept one after the other
		}
		return errNewer
	}
	f.node.change(func(s *Status) { s.Confirmed, s.Target, s.Missing = time.Now(), s.Height, 0 })
	f.node.confirmed.Store(true)
	return nil
}

// below returns an error if no believed tip is as high as the last executed block. That block is then of a checkpoint or
// a trusted one, and the voters can be of another chain.
func (f *follower) below() error {
	switch {
	case f.believed >= f.height:
		return nil
	case f.atOrigin():
		return errBelowCheckpoint
	}
	name := f.last
	for id, height := range f.known {
		if height == f.height {
			name = id
		}
	}
	return fmt.Errorf("the network's last accepted block is at height %d, below block %s at height %d, which was executed here; wait until the nodes asked have that one", f.believed, name, f.height)
}

// atOrigin says that the state is that of a checkpoint, and that no believed tip is known to descend from it.
func (f *follower) atOrigin() bool {
	o := f.node.origin
	return o != nil && o.Height == f.height && f.believed < f.height
}

// other returns what it means that a believed block is of another chain than the last executed one.
func (f *follower) other(top ids.ID) error {
	err := errOther
	if f.atOrigin() {
		err = errOtherCheckpoint
	}
	return &fatalError{fmt.Errorf("%w (block %s is not of the chain of block %s at height %d)", err, top, f.last, f.height)}
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
