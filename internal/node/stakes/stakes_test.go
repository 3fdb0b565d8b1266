package stakes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/node"
	"quorate/internal/testenv"
)

// fake is a node.
type fake struct {
	mu     sync.Mutex
	stakes map[Validator][]node.CurrentStake
	err    error
	calls  int
	wait   time.Duration
}

func (f *fake) CurrentStakes(ctx context.Context, subnetID ids.ID, nodeID ids.NodeID) ([]node.CurrentStake, error) {
	f.mu.Lock()
	f.calls++
	wait, stakes, err := f.wait, f.stakes[Validator{subnetID, nodeID}], f.err
	f.mu.Unlock()
	if err := testenv.Delay(ctx, wait); err != nil {
		return nil, err
	}
	return stakes, err
}

var (
	one, other = Validator{NodeID: ids.NodeID{1}}, Validator{SubnetID: ids.ID{7}, NodeID: ids.NodeID{1}}
	errAway    = errors.New("away")
)

func TestRewardsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{stakes: map[Validator][]node.CurrentStake{
			one:   {{TxID: ids.ID{1}, PotentialReward: 10}, {TxID: ids.ID{2}, PotentialReward: 0, Delegator: true}},
			other: {{TxID: ids.ID{3}, PotentialReward: 30}},
		}}
		height := uint64(5)
		c := New(f, func() uint64 { return height })
		ask := func(calls int, of ...map[ids.ID]Validator) map[ids.ID]uint64 {
			t.Helper()
			f.calls = 0
			got, err := c.Potential(t.Context(), of[0])
			require.NoError(t, err)
			require.Equal(t, calls, f.calls, "calls to the node")
			return got
		}
		all := map[ids.ID]Validator{{1}: one, {2}: one, {3}: other, {4}: one}
		want := map[ids.ID]uint64{{1}: 10, {2}: 0, {3}: 30}
		require.Equal(t, want, ask(2, all))
		require.Equal(t, want, ask(0, all), "the chain has not moved")

		height++
		delete(all, ids.ID{4})
		require.Equal(t, want, ask(0, all), "a reward does not change in a moment")
		f.stakes[one] = append(f.stakes[one], node.CurrentStake{TxID: ids.ID{4}, PotentialReward: 40})
		all[ids.ID{4}] = one
		want[ids.ID{4}] = 40
		require.Equal(t, want, ask(1, all), "a stake that is new")
		time.Sleep(freshFor)
		require.Equal(t, want, ask(1, all), "that of the other subnet is old")
		height++
		time.Sleep(freshFor)
		require.Equal(t, want, ask(2, all))

		f.err = errAway
		height++
		time.Sleep(freshFor)
		for range 3 {
			got, err := c.Potential(t.Context(), all)
			require.ErrorIs(t, err, errAway)
			require.Equal(t, want, got, "what was known before")
		}
		f.calls, f.err = 0, nil
		_, err := c.Potential(t.Context(), all)
		require.ErrorIs(t, err, errAway, "it is left in peace for a moment")
		require.Zero(t, f.calls)
		time.Sleep(failedFor)
		require.Equal(t, want, ask(2, all))
	})
}

func TestOneDeadlineForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{wait: time.Hour}
		c := New(f, func() uint64 { return 1 })
		of := make(map[ids.ID]Validator)
		for i := range byte(100) {
			of[ids.ID{i}] = Validator{NodeID: ids.NodeID{i}}
		}
		begun := time.Now()
		_, err := c.Potential(t.Context(), of)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, timeout, time.Since(begun))
		synctest.Wait() // for those under way, which count
		require.LessOrEqual(t, f.calls, 2*atOnce, "requests without a caller")
		time.Sleep(2 * time.Hour) // requests under way end
	})
}

func TestNodeBehindTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{stakes: map[Validator][]node.CurrentStake{}}
		c := New(f, func() uint64 { return 1 })
		ask := func() map[ids.ID]uint64 {
			got, err := c.Potential(t.Context(), map[ids.ID]Validator{{1}: one})
			require.NoError(t, err)
			return got
		}
		require.Empty(t, ask())
		f.stakes[one] = []node.CurrentStake{{TxID: ids.ID{1}, PotentialReward: 10}}
		require.Empty(t, ask(), "not each time anew")
		require.Equal(t, 1, f.calls)
		time.Sleep(lackingFor)
		require.Equal(t, map[ids.ID]uint64{{1}: 10}, ask())
		time.Sleep(time.Hour)
		require.Equal(t, map[ids.ID]uint64{{1}: 10}, ask())
		require.Equal(t, 2, f.calls, "the chain has not moved")
	})
}

func TestManyAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{wait: time.Second, stakes: map[Validator][]node.CurrentStake{one: {{TxID: ids.ID{1}, PotentialReward: 10}}}}
		c := New(f, func() uint64 { return 1 })
		gone, leave := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			_, err := c.Potential(gone, map[ids.ID]Validator{{1}: one})
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		for range 20 {
			asking.Go(func() {
				got, err := c.Potential(t.Context(), map[ids.ID]Validator{{1}: one})
				require.NoError(t, err)
				require.Equal(t, map[ids.ID]uint64{{1}: 10}, got)
			})
		}
		synctest.Wait()
		leave()
		asking.Wait()
		require.Equal(t, 1, f.calls)
	})
}
