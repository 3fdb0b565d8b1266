package validators

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

func TestNodeThatDoesNotReportAllSets(t *testing.T) {
	wantedSubnet, other, unknown := ids.ID{3}, ids.ID{4}, ids.ID{5}
	c := newChain(t)
	c.noAll = true
	c.sets[wantedSubnet], _ = randomSet(t, rand.New(rand.NewPCG(5, 6)), 4)
	c.sets[other], _ = randomSet(t, rand.New(rand.NewPCG(7, 8)), 4)
	var log bytes.Buffer
	var last map[ids.ID]*Set
	r := NewResolver(c, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), OnSets: func(_ uint64, sets map[ids.ID]*Set) { last = sets }})
	f := newFollower(r)
	require.NoError(t, f.follow(t.Context()))
	require.Contains(t, last, constants.PrimaryNetworkID)
	require.Len(t, last, 1)
	_, err := r.Set(t.Context(), wantedSubnet, 0)
	require.NoError(t, err)
	_, err = r.Set(t.Context(), unknown, 0)
	require.ErrorIs(t, err, ErrUnknownSubnet)

	require.NoError(t, f.follow(t.Context()))
	require.Contains(t, last, wantedSubnet, "its validators are dialled before the next block")
	calls := c.setCalls.Load()
	require.NoError(t, f.follow(t.Context()))
	require.Equal(t, calls, c.setCalls.Load(), "once is enough")

	c.height = 11
	require.NoError(t, f.follow(t.Context()))
	require.Len(t, last, 2)
	require.Contains(t, last, wantedSubnet)
	asked := c.setCalls.Load()
	s, err := r.Set(t.Context(), wantedSubnet, 0)
	require.NoError(t, err)
	require.Equal(t, uint64(11), s.Height)
	require.Equal(t, asked, c.setCalls.Load(), "what is wanted is fetched before it is asked for")
	require.Equal(t, 1, strings.Count(log.String(), "all validator sets at once"), "got:\n%s", &log)
}

// TestInvalidSetOfOneSubnetHidesNoOther has a node that reports one set at a time, an invalid one of one wanted subnet.
// Anybody can make the weights of his subnet exceed 64 bits.
func TestInvalidSetOfOneSubnetHidesNoOther(t *testing.T) {
	bad, good := ids.ID{3}, ids.ID{4}
	c := &invalidSubnet{chain: newChain(t), id: bad}
	c.noAll = true
	for i, id := range []ids.ID{bad, good} {
		c.sets[id], _ = randomSet(t, rand.New(rand.NewPCG(5, uint64(i))), 4)
	}
	var log bytes.Buffer
	var last map[ids.ID]*Set
	r := NewResolver(c, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), OnSets: func(_ uint64, sets map[ids.ID]*Set) { last = sets }})
	f := newFollower(r)
	require.NoError(t, f.follow(t.Context()))
	for _, id := range []ids.ID{bad, good} {
		_, err := r.Set(t.Context(), id, 0)
		require.NoError(t, err)
	}
	c.invalid = true
	for range 3 {
		c.height++
		require.NoError(t, f.follow(t.Context()))
		require.Len(t, last, 2)
		require.Equal(t, c.height, last[good].Height)
	}
	require.Equal(t, 1, strings.Count(log.String(), "unusable validator set"), "got:\n%s", &log)
	c.invalid = false
	c.height++
	require.NoError(t, f.follow(t.Context()))
	require.Len(t, last, 3)
}

// invalidSubnet replies with an invalid set for one subnet.
type invalidSubnet struct {
	*chain
	id      ids.ID
	invalid bool
}

func (c *invalidSubnet) ValidatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (node.ValidatorSet, error) {
	if c.invalid && subnetID == c.id {
		return node.ValidatorSet{}, fmt.Errorf("%w: the weights exceed 64 bits", node.ErrMalformed)
	}
	return c.chain.ValidatorsAt(ctx, subnetID, height)
}

func TestOtherRefusalsHideNoSubnet(t *testing.T) {
	c := newChain(t)
	var calls int
	r := NewResolver(refusingAll{c}, Options{OnSets: func(uint64, map[ids.ID]*Set) { calls++ }})
	err := newFollower(r).follow(t.Context())
	var refused *node.RPCError
	require.ErrorAs(t, err, &refused)
	require.Zero(t, calls, "a part of the sets must not pass for all")
	require.Zero(t, c.setCalls.Load())
}

// refusingAll supports the method for all sets but fails now.
type refusingAll struct{ *chain }

func (refusingAll) AllValidatorsAt(context.Context, uint64) (map[ids.ID]node.ValidatorSet, error) {
	return nil, &node.RPCError{Method: "platform.getAllValidatorsAt", Code: -32000, Message: "failed to get validator sets at 10: closed"}
}

func TestUnusableSetHidesNoOther(t *testing.T) {
	bad := ids.ID{3}
	c := newChain(t)
	raw, _ := randomSet(t, rand.New(rand.NewPCG(5, 6)), 4)
	good := raw
	raw.TotalWeight = 1
	c.sets[bad] = raw
	var log bytes.Buffer
	r := NewResolver(c, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	f := newFollower(r)
	for range 3 {
		require.NoError(t, f.follow(t.Context()))
		_, err := r.Set(t.Context(), constants.PrimaryNetworkID, 0)
		require.NoError(t, err)
		_, err = r.Set(t.Context(), bad, 0)
		require.ErrorIs(t, err, node.ErrMalformed)
		c.height++
	}
	require.Equal(t, 1, strings.Count(log.String(), "unusable validator set"), "got:\n%s", &log)
	c.sets[bad] = good
	require.NoError(t, f.follow(t.Context()))
	_, err := r.Set(t.Context(), bad, 0)
	require.NoError(t, err)
}

func TestFullCacheKeepsTheNewestSets(t *testing.T) {
	c := newChain(t)
	c.height = 1000
	// Room for three sets of five validators.
	const room = 3 * (5 + setCost)
	r := NewResolver(c, Options{MaxValidators: room})
	f := newFollower(r)
	for range 20 {
		c.height++
		require.NoError(t, f.follow(t.Context()))
		for h := range uint64(20) {
			_, err := r.Set(t.Context(), constants.PrimaryNetworkID, h+2)
			require.NoError(t, err)
		}
		asked := c.setCalls.Load()
		_, err := r.Set(t.Context(), constants.PrimaryNetworkID, 0)
		require.NoError(t, err)
		require.Equal(t, asked, c.setCalls.Load(), "the newest set was turned away")
	}
	r.sets.Trim()
	require.LessOrEqual(t, r.sets.Weight(), uint64(room))
	require.Zero(t, r.fetches.answers.Len())
}

func TestUnknownSubnetIsCachedBriefly(t *testing.T) {
	c := newChain(t)
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{})
		for range 3 {
			_, err := r.Set(t.Context(), ids.ID{9}, 5)
			require.ErrorIs(t, err, ErrUnknownSubnet)
		}
		require.Equal(t, int64(1), c.setCalls.Load())
		time.Sleep(3 * time.Second)
		c.l1 = map[ids.ID]bool{{9}: false}
		_, err := r.Set(t.Context(), ids.ID{9}, 5)
		require.NoError(t, err, "and only for a moment")
	})
}

func TestMissingMethodIsNotAnUnknownSubnet(t *testing.T) {
	c := newChain(t)
	c.err = &node.RPCError{Method: "m", Code: 404, Message: "no such API at /ext/bc/P"}
	r := NewResolver(c, Options{})
	_, err := r.SubnetOf(t.Context(), ids.ID{1})
	require.NotErrorIs(t, err, ErrUnknownBlockchain)
	require.ErrorIs(t, err, c.err)
	_, err = r.Set(t.Context(), constants.PrimaryNetworkID, 5)
	require.NotErrorIs(t, err, ErrHeightUnavailable)
	require.ErrorIs(t, err, c.err)
}

func TestRunBacksOffAndEndsAtOnce(t *testing.T) {
	c := newChain(t)
	c.err = node.ErrUnavailable
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := NewResolver(c, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		require.InDelta(t, 15, c.calls.Load(), 2, "a failing node is asked every 5 s")
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "got:\n%s", &log)

		c.mu.Lock()
		c.err, c.delay = nil, time.Hour // now it hangs
		c.mu.Unlock()
		time.Sleep(10 * time.Second)
		start := time.Now()
		cancel()
		require.NoError(t, <-done)
		require.Zero(t, time.Since(start))
	})
}

func TestManyCallersWhileTheHeightMoves(t *testing.T) {
	c := newChain(t)
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{PollInterval: 100 * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		synctest.Wait() // until warm: before, callers may be ahead of the follower
		for i := range 20 {
			running.Go(func() {
				var before uint64
				for range 50 {
					s, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
					if err != nil {
						t.Errorf("got %v", err)
						return
					}
					if s.Height < before {
						t.Errorf("height went back from %d to %d", before, s.Height)
					}
					before = s.Height
					time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				}
			})
		}
		for range 50 {
			c.mu.Lock()
			c.height++
			c.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
	})
}

// While no node answers, the last proposed height stays in use for one minute.
func TestOutageOfTheNodes(t *testing.T) {
	c := newChain(t)
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(time.Second)
		before, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
		require.NoError(t, err)
		c.mu.Lock()
		c.err = node.ErrUnavailable
		c.mu.Unlock()
		time.Sleep(45 * time.Second)
		s, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
		require.NoError(t, err)
		require.Same(t, before, s)
		time.Sleep(20 * time.Second)
		_, err = r.Set(ctx, constants.PrimaryNetworkID, 0)
		require.ErrorIs(t, err, node.ErrUnavailable)
		cancel()
		require.NoError(t, <-done)
	})
}
