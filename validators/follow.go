package validators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

// Run follows the proposed height until ctx ends. It fetches the sets of each new height
// ahead of requests and passes them to OnSets. It returns nil. It logs when failures begin
// and end; meanwhile the cached sets stay in use.
func (r *Resolver) Run(ctx context.Context) error {
	const slowest = 5 * time.Second
	f := newFollower(r)
	pause, failing := r.poll, false
	changed, last := time.Now(), uint64(0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := f.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !failing {
				r.log.Warn("cannot follow the P-Chain's validator sets", slog.Any("error", err))
			}
			failing, pause = true, min(2*pause, max(slowest, r.poll))
		default:
			if failing {
				r.log.Info("following the P-Chain's validator sets again")
			}
			if height, _ := f.ProposedHeight(); last != height {
				changed, last = time.Now(), height
			}
			failing, pause = false, min(max(time.Since(changed)/quietPart, r.poll), max(quietPoll, r.poll))
		}
		timer.Reset(pause)
	}
}

// While the proposed height does not change, the time between two requests for it grows to a
// part of the time since its last change, up to quietPoll.
const (
	quietPart = 8
	quietPoll = 2 * time.Second
)

// follower is the state of the goroutine in Run.
type follower struct {
	*Resolver
	unusable map[ids.ID]bool // subnets whose newest set is invalid
	partial  bool            // the node does not report all sets at once
	passed   []ids.ID        // if partial, subnets that need not be passed to OnSets until the next height
	// lowerSince is when nodes began to report heights below the followed one; zero if the last report was not lower.
	lowerSince time.Time
}

func newFollower(r *Resolver) *follower {
	return &follower{Resolver: r, unusable: make(map[ids.ID]bool)}
}

func (f *follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	generation := f.refresh()
	height, err := f.chain.ProposedHeight(ctx)
	if err != nil {
		f.lowerSince = time.Time{}
		return fmt.Errorf("requesting the proposed height: %w", err)
	}
	f.mu.Lock()
	before, wrong := f.height, f.generation == generation && f.noteReport(height)
	if wrong {
		f.forget()
		generation, f.lowerSince = f.generation, time.Time{}
	}
	// A node that lags behind another one must not decrease the height.
	if !f.seenAt.IsZero() && height <= f.height {
		f.seenAt = time.Now()
		f.mu.Unlock()
		f.more(ctx)
		return nil
	}
	f.mu.Unlock()
	if wrong {
		f.log.Warn("the proposed height of the P-Chain decreases: the higher one was wrong, or the network was restarted", slog.Uint64("from", before), slog.Uint64("to", height))
	}
	raw, err := f.all(ctx, height)
	if err != nil {
		return err
	}
	sets := make(map[ids.ID]*Set, len(raw))
	for subnetID, one := range raw {
		s, err := f.canonical(subnetID, height, one)
		if err != nil {
			// An invalid set of one subnet must not hide the others.
			f.noteUnusable(subnetID, height, err)
			continue
		}
		delete(f.unusable, subnetID)
		sets[subnetID] = s
		f.keep(generation, s)
	}
	f.mu.Lock()
	if f.generation != generation {
		f.mu.Unlock()
		return nil // the next call has the sets from the other source
	}
	f.height, f.seenAt, f.latest = height, time.Now(), sets
	f.mu.Unlock()
	f.forgetRefusals()
	if f.onSet != nil {
		f.onSet(height, sets)
	}
	return nil
}

// lowerFor is how long nodes report only heights below the followed one until that is taken for wrong. A node that lags
// for so long is asked only if the others fail.
const lowerFor = 2 * time.Minute

// noteReport notes the height that a node reports now, and returns whether the followed one was too high. It requires mu.
func (f *follower) noteReport(height uint64) bool {
	switch {
	case height >= f.height:
		f.lowerSince = time.Time{}
	case f.lowerSince.IsZero():
		f.lowerSince = time.Now()
	}
	return !f.lowerSince.IsZero() && time.Since(f.lowerSince) >= lowerFor
}

// all requests the sets of all subnets at a height. From a node without that method it
// requests the sets of the primary network and of recently wanted subnets.
func (f *follower) all(ctx context.Context, height uint64) (map[ids.ID]node.ValidatorSet, error) {
	all, err := f.chain.AllValidatorsAt(ctx, height)
	var rpc *node.RPCError
	switch {
	case err == nil:
		f.partial = false
		return all, nil
	case !errors.As(err, &rpc) || !rpc.NotOffered():
		return nil, fmt.Errorf("requesting all sets at height %d: %w", height, err)
	}
	if !f.partial {
		f.partial = true
		f.log.Warn("the node does not report all validator sets at once; subnets are fetched on first use", slog.Any("error", err))
	}
	f.mu.Lock()
	subnets := f.wanted.list()
	f.mu.Unlock()
	f.passed = slices.Clone(subnets)
	subnets = append(subnets, constants.PrimaryNetworkID)
	sets := make([]node.ValidatorSet, len(subnets))
	invalid := make([]error, len(subnets))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for i, id := range subnets {
		work.Go(func() (err error) {
			sets[i], err = f.chain.ValidatorsAt(ctx, id, height)
			switch {
			case err == nil, id != constants.PrimaryNetworkID && refused(err):
			case id != constants.PrimaryNetworkID && errors.Is(err, node.ErrMalformed):
				invalid[i] = err // it must not hide the others
			default:
				return fmt.Errorf("requesting the set of subnet %s at height %d: %w", id, height, err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	all = make(map[ids.ID]node.ValidatorSet, len(subnets))
	for i, id := range subnets {
		if invalid[i] != nil {
			f.noteUnusable(id, height, invalid[i])
		}
		if len(sets[i].Validators) > 0 { // otherwise there may be no such subnet
			all[id] = sets[i]
		}
	}
	return all, nil
}

// noteUnusable logs that the set of a subnet cannot be used, if the one before could.
func (f *follower) noteUnusable(subnetID ids.ID, height uint64, err error) {
	if !f.unusable[subnetID] {
		f.log.Warn("unusable validator set", slog.String("subnetID", subnetID.String()), slog.Uint64("height", height), slog.Any("error", err))
	}
	f.unusable[subnetID] = true
}

// moreTime bounds more, so that the height is followed meanwhile.
const moreTime = 2 * time.Second

// more passes to OnSets the sets of subnets that became wanted after the last call of all: connections to their validators
// must not wait for the next block.
func (f *follower) more(ctx context.Context) {
	if !f.partial {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, moreTime)
	defer cancel()
	f.mu.Lock()
	height, generation, sets := f.height, f.generation, maps.Clone(f.latest)
	if sets == nil { // forgotten in between
		f.mu.Unlock()
		return
	}
	subnets := slices.DeleteFunc(f.wanted.list(), func(id ids.ID) bool { return slices.Contains(f.passed, id) })
	f.mu.Unlock()
	for _, id := range subnets {
		s, err := f.at(ctx, setID{id, height}) // most are cached
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			sets[id] = s
		}
		f.passed = append(f.passed, id)
	}
	f.mu.Lock()
	changed := f.generation == generation && len(sets) > len(f.latest)
	if changed {
		f.latest = sets
	}
	f.mu.Unlock()
	if changed && f.onSet != nil {
		f.onSet(height, sets)
	}
}

// wanted holds the subnets of recent requests, at most maxWanted. The zero value is ready
// to use.
type wanted struct {
	at map[ids.ID]time.Time
}

// If the node does not report all sets at once, each wanted subnet costs one request at
// each new height.
const (
	atOnce     = 8 // requests at a time
	maxWanted  = 64
	wantedLife = 10 * time.Minute
)

func (w *wanted) note(subnetID ids.ID) {
	if subnetID == constants.PrimaryNetworkID {
		return
	}
	if _, ok := w.at[subnetID]; !ok && len(w.at) >= maxWanted {
		var oldest ids.ID
		for id, at := range w.at {
			if oldest == ids.Empty || at.Before(w.at[oldest]) {
				oldest = id
			}
		}
		delete(w.at, oldest)
	}
	if w.at == nil {
		w.at = make(map[ids.ID]time.Time)
	}
	w.at[subnetID] = time.Now()
}

func (w *wanted) list() []ids.ID {
	var subnets []ids.ID
	for id, at := range w.at {
		if time.Since(at) > wantedLife {
			delete(w.at, id)
			continue
		}
		subnets = append(subnets, id)
	}
	return subnets
}
