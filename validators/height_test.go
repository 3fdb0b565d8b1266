package validators

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

// change changes what the chain replies.
func (c *chain) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// following runs test while r.Run runs.
func following(t *testing.T, r *Resolver, test func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	time.Sleep(time.Second)
	test(ctx)
	cancel()
	require.NoError(t, <-done)
}

// fails has the node fail for a time, after which it reports a height.
func (c *chain) fails(d time.Duration, height uint64) {
	c.change(func() { c.err = node.ErrUnavailable })
	time.Sleep(d + time.Millisecond)
	c.change(func() { c.err, c.height = nil, height })
}

// TestOutageWithAMomentaryReply: during an outage, a node replies for a moment, and the set of one subnet is requested at
// its new height. The last sets of the other subnets stay in use for the rest of the minute.
func TestOutageWithAMomentaryReply(t *testing.T) {
	subnet := ids.ID{3}
	for name, pause := range map[string]time.Duration{"at once": 0, "after the height is cached no more": time.Second} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t)
			c.sets[subnet], _ = randomSet(t, rand.New(rand.NewPCG(5, 6)), 4)
			synctest.Test(t, func(t *testing.T) {
				r := NewResolver(c, Options{})
				following(t, r, func(ctx context.Context) {
					before, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
					require.NoError(t, err)
					c.fails(30*time.Second, 11)
					s, err := r.Set(ctx, subnet, 0)
					require.NoError(t, err)
					require.EqualValues(t, 11, s.Height)
					c.change(func() { c.err = node.ErrUnavailable })
					time.Sleep(pause)
					s, err = r.Set(ctx, constants.PrimaryNetworkID, 0)
					require.NoError(t, err)
					require.Same(t, before, s)
					s, err = r.Set(ctx, subnet, 0)
					require.NoError(t, err)
					require.EqualValues(t, 11, s.Height)
					time.Sleep(31 * time.Second)
					_, err = r.Set(ctx, constants.PrimaryNetworkID, 0)
					require.ErrorIs(t, err, node.ErrUnavailable, "more than a minute after the last reply about it")
				})
			})
		})
	}
}

// TestNodeThatHangs: a node accepts requests and does not answer. Callers get the last height and its sets soon, for the time
// of an outage.
func TestNodeThatHangs(t *testing.T) {
	subnet := ids.ID{3}
	for name, requested := range map[string]bool{"at the followed height": false, "at a height that was requested for a caller": true} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t)
			c.sets[subnet], _ = randomSet(t, rand.New(rand.NewPCG(5, 6)), 4)
			synctest.Test(t, func(t *testing.T) {
				r := NewResolver(c, Options{})
				following(t, r, func(ctx context.Context) {
					before, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
					require.NoError(t, err)
					if requested {
						c.fails(10*time.Second, 11)
						s, err := r.Set(ctx, subnet, 0)
						require.NoError(t, err)
						require.EqualValues(t, 11, s.Height)
					}
					c.change(func() { c.delay = time.Hour })
					time.Sleep(10 * time.Second)
					for range 10 {
						began := time.Now()
						s, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
						require.NoError(t, err)
						require.Same(t, before, s)
						require.LessOrEqual(t, time.Since(began), 2*lastAfter)
					}
					hasty, cancel := context.WithTimeout(ctx, lastAfter/2)
					defer cancel()
					_, err = r.Set(hasty, constants.PrimaryNetworkID, 0)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					time.Sleep(outage)
					_, err = r.Set(ctx, constants.PrimaryNetworkID, 0)
					require.ErrorIs(t, err, node.ErrUnavailable)
				})
			})
		})
	}
}

// TestSlowNode: callers do not wait for a node that answers slowly, and nevertheless get the heights that it reports.
func TestSlowNode(t *testing.T) {
	c := newChain(t)
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{}) // without Run
		_, err := r.Set(t.Context(), constants.PrimaryNetworkID, 0)
		require.NoError(t, err)
		time.Sleep(time.Second)
		c.change(func() { c.delay, c.height = 2*time.Second, 11 })
		began := time.Now()
		s, err := r.Set(t.Context(), constants.PrimaryNetworkID, 0)
		require.NoError(t, err)
		require.EqualValues(t, 10, s.Height)
		require.Equal(t, lastAfter, time.Since(began))
		time.Sleep(3 * time.Second)
		s, err = r.Set(t.Context(), constants.PrimaryNetworkID, 0)
		require.NoError(t, err)
		require.EqualValues(t, 11, s.Height)
		time.Sleep(fetchTimeout) // until the last query ends
	})
}

// TestHeightThatWasTooHigh: a node reports a height by mistake, or its network is restarted. After two minutes of
// lower heights the resolver follows these, and uses no answer from before.
func TestHeightThatWasTooHigh(t *testing.T) {
	for name, height := range map[string]uint64{"by mistake": 1 << 40, "restarted network": 20} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t)
			synctest.Test(t, func(t *testing.T) {
				r := NewResolver(c, Options{})
				c.height = height
				following(t, r, func(ctx context.Context) {
					old, err := r.Set(ctx, constants.PrimaryNetworkID, 9)
					require.NoError(t, err)
					c.change(func() {
						c.height, c.sets = 10, map[ids.ID]node.ValidatorSet{constants.PrimaryNetworkID: setOf(t, 1, 1)}
					})
					time.Sleep(lowerFor - 10*time.Second)
					s, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
					require.NoError(t, err)
					require.Equal(t, height, s.Height, "it may be a node that lags")
					time.Sleep(20 * time.Second)
					s, err = r.Set(ctx, constants.PrimaryNetworkID, 0)
					require.NoError(t, err)
					require.EqualValues(t, 10, s.Height)
					last, ok := r.LastHeight()
					require.True(t, ok)
					require.EqualValues(t, 10, last)
					s, err = r.Set(ctx, constants.PrimaryNetworkID, 9)
					require.NoError(t, err)
					require.NotEqual(t, old.Fingerprint(), s.Fingerprint(), "a set from before")
					c.change(func() { c.height = 9 }) // a node that lags
					time.Sleep(10 * time.Second)
					s, err = r.Set(ctx, constants.PrimaryNetworkID, 0)
					require.NoError(t, err)
					require.EqualValues(t, 10, s.Height)
				})
			})
		})
	}
	t.Run("a node lags again and again", func(t *testing.T) {
		c := newChain(t)
		synctest.Test(t, func(t *testing.T) {
			r := NewResolver(c, Options{})
			following(t, r, func(ctx context.Context) {
				for i := range 10 {
					c.change(func() { c.height = 9 + uint64(i%2) })
					time.Sleep(20 * time.Second)
					s, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
					require.NoError(t, err)
					require.EqualValues(t, 10, s.Height)
				}
			})
		})
	})
	t.Run("reported to a caller", func(t *testing.T) {
		c := newChain(t)
		synctest.Test(t, func(t *testing.T) {
			r := NewResolver(c, Options{})
			c.height = 1 << 40
			for i := range 80 {
				_, err := r.Set(t.Context(), constants.PrimaryNetworkID, 0)
				require.NoError(t, err)
				last, ok := r.LastHeight()
				require.True(t, ok)
				if i < 50 {
					require.EqualValues(t, 1<<40, last)
				} else if i > 70 {
					require.EqualValues(t, 10, last)
				}
				c.height = 10
				time.Sleep(time.Second)
			}
		})
	})
}

// TestNewestSet: the proposed height rises while Run waits two seconds until its next request, and then the node fails.
func TestNewestSet(t *testing.T) {
	c := newChain(t)
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(c, Options{})
		following(t, r, func(ctx context.Context) {
			time.Sleep(time.Minute + 100*time.Millisecond)
			before, err := r.NewestSet(ctx, constants.PrimaryNetworkID)
			require.NoError(t, err)
			time.Sleep(defaultPoll)
			c.change(func() { c.height++ })
			followed, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
			require.NoError(t, err)
			require.Equal(t, before.Height, followed.Height)
			newest, err := r.NewestSet(ctx, constants.PrimaryNetworkID)
			require.NoError(t, err)
			require.Equal(t, before.Height+1, newest.Height)
			time.Sleep(5 * time.Second) // Run follows
			c.change(func() { c.err = node.ErrUnavailable })
			last, err := r.NewestSet(ctx, constants.PrimaryNetworkID)
			require.NoError(t, err)
			require.Equal(t, newest.Height, last.Height)
		})
	})
}
