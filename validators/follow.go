package validators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

// Run follows the proposed height until ctx ends, fetches the sets of each new
// one before anyone asks, and hands them to OnSets. It returns nil. Failures are
// logged when they begin and end; meanwhile what is cached is served.
func (r *Resolver) Run(ctx context.Context) error {
	const slowest = 5 * time.Second
	f := newFollower(r)
	pause, failing := r.poll, false
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
			failing, pause = false, r.poll
		}
		timer.Reset(pause)
	}
}

// follower is what only the goroutine of Run touches.
type follower struct {
	*Resolver
	unusable map[ids.ID]bool // subnets whose newest set cannot be used
	partial  bool            // the node does not offer all sets at once
}

func newFollower(r *Resolver) *follower {
	return &follower{Resolver: r, unusable: make(map[ids.ID]bool)}
}

func (f *follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	height, err := f.chain.ProposedHeight(ctx)
	if err != nil {
		return fmt.Errorf("asking for the proposed height: %w", err)
	}
	f.mu.Lock()
	// A node that lags behind another one must not turn time back.
	if !f.seenAt.IsZero() && height <= f.height {
		f.seenAt = time.Now()
		f.mu.Unlock()
		return nil
	}
	f.mu.Unlock()
	raw, err := f.all(ctx, height)
	if err != nil {
		return err
	}
	sets := make(map[ids.ID]*Set, len(raw))
	for subnetID, one := range raw {
		s, err := f.canonical(subnetID, height, one)
		if err != nil {
			// One subnet's nonsense must not hide the others.
			if !f.unusable[subnetID] {
				f.log.Warn("unusable validator set", slog.String("subnetID", subnetID.String()), slog.Uint64("height", height), slog.Any("error", err))
			}
			f.unusable[subnetID] = true
			continue
		}
		delete(f.unusable, subnetID)
		sets[subnetID] = s
		f.sets.Set(setID{subnetID, height}, s)
	}
	f.mu.Lock()
	f.height, f.seenAt, f.latest = height, time.Now(), sets
	f.mu.Unlock()
	if f.onSet != nil {
		f.onSet(height, sets)
	}
	return nil
}

// all asks the node for the sets of all subnets at a height. A node that does not
// offer that is asked for the primary network's and for those that were wanted
// lately.
func (f *follower) all(ctx context.Context, height uint64) (map[ids.ID]node.ValidatorSet, error) {
	all, err := f.chain.AllValidatorsAt(ctx, height)
	var rpc *node.RPCError
	switch {
	case err == nil:
		f.partial = false
		return all, nil
	case !errors.As(err, &rpc) || !rpc.NotOffered():
		return nil, fmt.Errorf("asking for all sets at height %d: %w", height, err)
	}
	if !f.partial {
		f.partial = true
		f.log.Warn("the node does not tell all validator sets at once; subnets are known once asked for", slog.Any("error", err))
	}
	f.mu.Lock()
	subnets := f.wanted.list()
	f.mu.Unlock()
	all = make(map[ids.ID]node.ValidatorSet, 1+len(subnets))
	for _, subnetID := range append(subnets, constants.PrimaryNetworkID) {
		one, err := f.chain.ValidatorsAt(ctx, subnetID, height)
		if refused(err) && subnetID != constants.PrimaryNetworkID {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("asking for the set of subnet %s at height %d: %w", subnetID, height, err)
		}
		if len(one.Validators) > 0 { // else there may be no such subnet
			all[subnetID] = one
		}
	}
	return all, nil
}

// wanted remembers the subnets that were asked for lately; the zero value is
// ready. Bounded to maxWanted.
type wanted struct {
	at map[ids.ID]time.Time
}

// Each wanted subnet is a question to the node for each new height, as long as the node
// does not offer all sets at once.
const (
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
