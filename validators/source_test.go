package validators

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
)

// TestAnotherSourceReplacesEverything: answers of a forging node are gone once the source changes,
// also those to requests under way.
func TestAnotherSourceReplacesEverything(t *testing.T) {
	honest, forged := newChain(t), newChain(t)
	blockchain, subnet := ids.ID{1}, ids.ID{2}
	honest.owner = map[ids.ID]ids.ID{blockchain: constants.PrimaryNetworkID}
	forged.owner = map[ids.ID]ids.ID{blockchain: subnet}
	honest.epoch, honest.epochNumber, forged.epoch, forged.epochNumber = 8, 4, 9, 5
	forged.height = 1 << 40
	set := forged.sets[constants.PrimaryNetworkID]
	set.Validators = append([]node.Validator(nil), set.Validators...)
	set.Validators[0].Weight += 1000
	set.TotalWeight += 1000
	forged.sets = map[ids.ID]node.ValidatorSet{constants.PrimaryNetworkID: set}
	synctest.Test(t, func(t *testing.T) {
		var source atomic.Uint64
		c := &replacedChain{before: forged, after: honest, source: &source}
		var followed atomic.Uint64
		r := NewResolver(c, Options{Source: source.Load, OnSets: func(_ uint64, sets map[ids.ID]*Set) {
			followed.Store(sets[constants.PrimaryNetworkID].TotalWeight)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		look := func() (weight, atHeight, epoch uint64, owner ids.ID) {
			now, err := r.Set(ctx, constants.PrimaryNetworkID, 0)
			require.NoError(t, err)
			at, err := r.Set(ctx, constants.PrimaryNetworkID, 5)
			require.NoError(t, err)
			epoch, err = r.EpochHeight(ctx, constants.PlatformChainID)
			require.NoError(t, err)
			owner, err = r.SubnetOf(ctx, blockchain)
			require.NoError(t, err)
			return now.TotalWeight, at.TotalWeight, epoch, owner
		}
		right := honest.sets[constants.PrimaryNetworkID].TotalWeight
		now, at, epoch, owner := look()
		require.Equal(t, []any{right + 1000, right + 1000, uint64(9), subnet}, []any{now, at, epoch, owner})
		height, ok := r.LastHeight()
		require.True(t, ok)
		require.Equal(t, uint64(1<<40), height)

		// One query is under way when the source changes.
		forged.mu.Lock()
		forged.delay = time.Second
		forged.mu.Unlock()
		asking := make(chan uint64, 1)
		go func() {
			s, err := r.Set(ctx, constants.PrimaryNetworkID, 6)
			if err != nil {
				t.Error(err)
				close(asking)
				return
			}
			asking <- s.TotalWeight
		}()
		synctest.Wait()
		source.Store(1)
		now, at, epoch, owner = look()
		require.Equal(t, []any{right, right, uint64(8), constants.PrimaryNetworkID}, []any{now, at, epoch, owner})
		require.Equal(t, right, <-asking)
		height, ok = r.LastHeight()
		require.True(t, ok)
		require.Equal(t, uint64(10), height)
		time.Sleep(10 * time.Second)
		require.Equal(t, right, followed.Load())
		_, ok = r.ProposedHeight()
		require.True(t, ok)
		now, at, epoch, owner = look()
		require.Equal(t, []any{right, right, uint64(8), constants.PrimaryNetworkID}, []any{now, at, epoch, owner}, "a late answer was kept")
		cancel()
		require.NoError(t, <-done)
	})
}

// replacedChain asks one chain until the source changes, then another.
type replacedChain struct {
	PChain
	before, after *chain
	source        *atomic.Uint64
}

func (c *replacedChain) now() *chain {
	if c.source.Load() == 0 {
		return c.before
	}
	return c.after
}

func (c *replacedChain) Height(ctx context.Context) (uint64, error) { return c.now().Height(ctx) }
func (c *replacedChain) ProposedHeight(ctx context.Context) (uint64, error) {
	return c.now().ProposedHeight(ctx)
}

func (c *replacedChain) ValidatorsAt(ctx context.Context, subnetID ids.ID, height uint64) (node.ValidatorSet, error) {
	return c.now().ValidatorsAt(ctx, subnetID, height)
}

func (c *replacedChain) AllValidatorsAt(ctx context.Context, height uint64) (map[ids.ID]node.ValidatorSet, error) {
	return c.now().AllValidatorsAt(ctx, height)
}

func (c *replacedChain) ValidatedBy(ctx context.Context, id ids.ID) (ids.ID, error) {
	return c.now().ValidatedBy(ctx, id)
}

func (c *replacedChain) CurrentEpoch(ctx context.Context, id ids.ID) (node.Epoch, error) {
	return c.now().CurrentEpoch(ctx, id)
}
