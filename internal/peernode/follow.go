package peernode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/peernode/pchainvm"
)

const (
	// pollInterval is the time between two requests for the tip.
	pollInterval = time.Second
	// logPause is the least time between two log lines of a kind.
	logPause = 10 * time.Second
)

// errOther means that the executed chain is not the one that the network has.
var errOther = errors.New("the network does not have the last block that was executed here; it is another network, or the state is of one that no longer exists")

// errNewer means that the believed blocks can be old.
var errNewer = fmt.Errorf("most of the votes name a newer block that has less than %d%% of the votes, or no block; wait until those nodes agree", needed)

// blockchain executes the blocks of a chain, one after the other.
type blockchain interface {
	// parse reads a block without its proposer envelope.
	parse(b []byte) (chainBlock, error)
	// idOf returns the ID of a block from what parse keeps of it.
	idOf(kept []byte) ids.ID
	// execute executes the next block, from what parse keeps of it.
	execute(ctx context.Context, height uint64, kept []byte) error
	// executed returns the ID of the last executed block, and the height of the next one. Both are zero if there is none.
	executed(ctx context.Context) (last ids.ID, next uint64, err error)
	// BlockID returns the ID of the executed block at a height. The error is database.ErrNotFound if there is none.
	BlockID(ctx context.Context, height uint64) (ids.ID, error)
}

// chainBlock is a block without its proposer envelope.
type chainBlock struct {
	id, parentID ids.ID
	height       uint64
	kept         []byte // what executing it needs
}

// following says what a follower follows.
type following struct {
	name    string // in errors and logs
	chainID ids.ID
	chain   blockchain
	db      database.Database
	peers   Peers
	// origin is the checkpoint that the state began with; nil if there is none.
	origin *origin
	// allTrusted are Options.Trusted of this chain.
	allTrusted []ids.ID
	// voters returns the nodes that decide about the tip, and what they are. An error ends the follower only if it is a
	// fatalError.
	voters   func(context.Context) (weights map[ids.NodeID]uint64, who string, err error)
	interval time.Duration // between two requests for the tip
	log      *slog.Logger
	disputed prometheus.Counter
}

// follower downloads blocks and executes them. Only one goroutine uses it, but for its progress.
type follower struct {
	following
	*progress
	blocks   *spool
	last     ids.ID // the last executed block; empty if there is none
	next     uint64 // the height of the block after it
	descents []*descent
	swept    bool              // the spool has only blocks of descents
	trusted  []ids.ID          // not among descents yet
	known    map[ids.ID]uint64 // heights of containers that were believed, not of all
	believed uint64            // the greatest height that voters are known to have accepted, or that was executed at the start
	failed   map[ids.NodeID]time.Time
	loggedAt time.Time // when progress was logged last
}

func newFollower(ctx context.Context, o following, p *progress) (*follower, error) {
	f := &follower{
		following: o, progress: p, blocks: &spool{o.name, o.db}, trusted: o.allTrusted,
		known: make(map[ids.ID]uint64), failed: make(map[ids.NodeID]time.Time), loggedAt: time.Now(),
	}
	var err error
	if f.descents, err = f.blocks.descents(); err != nil {
		return nil, err
	}
	if f.last, f.next, err = o.chain.executed(ctx); err != nil {
		return nil, err
	}
	height := max(f.next, 1) - 1
	if o.origin == nil || o.origin.Height < height {
		// An earlier process executed it. Voters that are behind for a moment confirm it.
		f.believed = height
	}
	f.change(func(s *Status) { *s = Status{Height: height} })
	return f, nil
}

// run follows the chain until ctx ends. It returns nil then, and an error if the state cannot be written or is of
// another network.
func (f *follower) run(ctx context.Context) error {
	var logged string
	var loggedAt time.Time
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
			logged = ""
		} else if text := err.Error(); !errors.Is(err, ErrBehind) && text != logged && time.Since(loggedAt) > logPause {
			// The P-Chain's follower says why that is behind.
			logged, loggedAt = text, time.Now()
			f.log.Warn("the "+f.name+" cannot be followed; trying again", slog.Any("error", err))
		}
		f.change(func(s *Status) { s.Err = err })
		select {
		case <-ctx.Done():
		case <-time.After(f.interval - min(time.Since(began), f.interval)):
		}
	}
	return nil
}

// report changes the status, and logs it at most once each logPause.
func (f *follower) report(change func(*Status)) {
	f.change(change)
	if time.Since(f.loggedAt) < logPause {
		return
	}
	f.loggedAt = time.Now()
	s := f.Status()
	f.log.Info("following the "+f.name, slog.Uint64("height", s.Height), slog.Uint64("tip", s.Target), slog.Uint64("notDownloaded", s.Missing))
}

// fatalError ends Run.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

// step asks for the tip once, and executes what is new. If that takes long, the votes are too old to confirm a tip, and the
// next step asks again.
func (f *follower) step(ctx context.Context) error {
	// Finish what an earlier process began: a believed block stays believed.
	if err := f.advance(ctx); err != nil {
		return err
	}
	weights, who, err := f.voters(ctx)
	if err != nil {
		return err
	}
	polled := time.Now()
	p, err := ask(ctx, f.peers, f.chainID, weights, who, f.disputed)
	if err != nil {
		return err
	}
	f.change(func(s *Status) { s.Err = nil })
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
	if time.Since(polled) >= stale {
		return nil
	}
	if p.behind {
		if time.Since(f.Status().Confirmed) < logPause {
			return nil // usually a new block, which nodes accept one after the other
		}
		return errNewer
	}
	f.change(func(s *Status) { s.Confirmed, s.Target, s.Missing = polled, s.Height, 0 })
	return nil
}

// below returns an error if no believed tip is as high as the last executed block. That block is then of a checkpoint or
// a trusted one, and the voters can be of another chain.
func (f *follower) below() error {
	switch {
	case f.believed+1 >= f.next:
		return nil
	case f.atOrigin():
		return errBelowCheckpoint
	}
	name := f.last
	for id, height := range f.known {
		if height+1 == f.next {
			name = id
		}
	}
	return fmt.Errorf("the network's last accepted block is at height %d, below block %s at height %d, which was executed here; wait until the nodes asked have that one", f.believed, name, f.next-1)
}

// atOrigin says that the state is that of a checkpoint, and that no believed tip is known to descend from it.
func (f *follower) atOrigin() bool {
	return f.origin != nil && f.origin.Height+1 == f.next && f.believed < f.origin.Height
}

// other returns what it means that a believed block is of another chain than the last executed one.
func (f *follower) other(top ids.ID) error {
	err := errOther
	if f.atOrigin() {
		err = errOtherCheckpoint
	}
	return &fatalError{fmt.Errorf("%w (block %s is not of the chain of block %s at height %d)", err, top, f.last, f.next-1)}
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
