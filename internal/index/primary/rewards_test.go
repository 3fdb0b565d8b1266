package primary

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/pchain"
	"quorate/internal/chain/pchain/pchaintest"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/store"
)

// lister is a slow node that lists rewards.
type lister struct {
	takes time.Duration

	mu           sync.Mutex
	err          error             // guarded by mu
	asked        map[ids.ID]uint64 // heights; guarded by mu
	outputs      [][]byte          // guarded by mu
	atOnce, most int               // guarded by mu
}

func (l *lister) RewardUTXOs(_ context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	l.mu.Lock()
	l.asked[txID] = height
	l.atOnce++
	l.most = max(l.most, l.atOnce)
	l.mu.Unlock()
	time.Sleep(l.takes)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.atOnce--
	return slices.Clone(l.outputs), l.err // the caller sorts them
}

func newRewards(l *lister) *rewards {
	return &rewards{node: l, reader: store.NewMemory(), networkID: 5, keep: true, log: slog.New(slog.DiscardHandler)}
}

// proposals returns blocks that alternately propose a reward and decide it.
func proposals(t *testing.T, n int) (blocks []index.Block[*pchain.Block], rewarded []ids.ID) {
	t.Helper()
	for i := range n {
		id := ids.ID{1, byte(i), byte(i >> 8)}
		proposal := &txs.Tx{Unsigned: &txs.RewardValidatorTx{TxID: id}}
		require.NoError(t, proposal.Initialize(txs.Codec))
		rewarded = append(rewarded, id)
		blocks = append(blocks,
			index.Block[*pchain.Block]{Height: uint64(2 * i), Content: &pchain.Block{Height: uint64(2 * i), Kind: pchain.Proposal, Proposal: proposal}},
			index.Block[*pchain.Block]{Height: uint64(2*i + 1), Content: &pchain.Block{Height: uint64(2*i + 1), Kind: pchain.Commit}},
		)
	}
	return blocks, rewarded
}

// TestRewardsAreAskedForAhead requests the rewards of fetched blocks in parallel, at the height of the deciding block,
// and passes them to the committer without another request.
func TestRewardsAreAskedForAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lister{takes: 20 * time.Millisecond, asked: make(map[ids.ID]uint64), outputs: [][]byte{{0, 2}, {0, 1}}}
		r := newRewards(l)
		blocks, rewarded := proposals(t, 400)
		begun := time.Now()
		r.askAhead(t.Context(), blocks)
		require.Equal(t, 400/rewardsAtOnce*l.takes, time.Since(begun))
		require.Equal(t, rewardsAtOnce, l.most)
		require.LessOrEqual(t, time.Since(begun), 400*l.takes/4, "in parallel")
		for i, id := range rewarded {
			require.Equal(t, uint64(2*i+1), l.asked[id])
		}
		clear(l.asked)
		begun = time.Now()
		var batch store.Batch
		for _, id := range rewarded {
			got, err := r.RewardUTXOs(t.Context(), id, 9)
			require.NoError(t, err)
			require.Equal(t, [][]byte{{0, 1}, {0, 2}}, got, "in the order of indexes")
			r.take(&batch)
		}
		require.Zero(t, time.Since(begun))
		require.Empty(t, l.asked)
		require.Equal(t, 400, batch.Len(), "answers are stored")
		require.Empty(t, r.ahead)

		// Stored answers need no node unless the answer did not fit.
		require.NoError(t, r.reader.(store.Store).Commit(t.Context(), &batch))
		_, err := r.RewardUTXOs(t.Context(), rewarded[0], 1)
		require.NoError(t, err)
		require.Empty(t, l.asked)
		_, err = r.RewardUTXOs(t.Context(), rewarded[0], 1)
		require.NoError(t, err)
		require.Len(t, l.asked, 1, "requested again")
	})
}

// blockNode is a node with a P-Chain.
type blockNode struct{ *pchaintest.Chain }

func (n blockNode) Height(context.Context) (uint64, error) { return n.Next() - 1, nil }

func (n blockNode) BlockByHeight(_ context.Context, height uint64) ([]byte, error) {
	return n.Blocks[height].Bare, nil
}

func (n blockNode) BlockRange(_ context.Context, start uint64, size int) (all []node.Container, err error) {
	for _, b := range n.Blocks[start+1 : min(start+1+uint64(size), n.Next())] { // without the genesis block
		all = append(all, node.Container{Bytes: b.Enveloped})
	}
	return all, nil
}

// TestFetchedBlocksHaveTheirRewards fetches blocks as the pipeline does: when the committer comes to their decisions, it
// has the rewards without another request.
func TestFetchedBlocksHaveTheirRewards(t *testing.T) {
	chain := pchaintest.New(5)
	var rewarded []ids.ID
	for i := range byte(30) {
		id := ids.ID{1, i}
		rewarded = append(rewarded, id)
		chain.Proposal(chain.Reward(id), i%3 > 0)
		chain.Standard(chain.Transfer(uint64(i)))
	}
	l := &lister{asked: make(map[ids.ID]uint64), outputs: [][]byte{{0, 1}}}
	source := rewardSource{index.NewPChainSource(blockNode{chain}, nil), newRewards(l)}
	for next := uint64(1); next < chain.Next(); {
		blocks, err := source.Fetch(t.Context(), next, int(chain.Next()-next))
		require.NoError(t, err)
		require.NotEmpty(t, blocks)
		next += uint64(len(blocks))
	}
	for i, id := range rewarded {
		require.Equal(t, uint64(3*i+2), l.asked[id], "the height of its decision")
	}
	clear(l.asked)
	for _, id := range rewarded {
		_, err := source.rewards.RewardUTXOs(t.Context(), id, 9)
		require.NoError(t, err)
	}
	require.Empty(t, l.asked)
}

// TestRewardsThatCannotBeHadAhead leaves failed requests and undecided proposals to the committer.
func TestRewardsThatCannotBeHadAhead(t *testing.T) {
	l := &lister{asked: make(map[ids.ID]uint64), err: errors.New("away")}
	r := newRewards(l)
	blocks, rewarded := proposals(t, 3)
	r.askAhead(t.Context(), blocks[:5])
	require.Len(t, l.asked, 2, "the third is undecided")
	require.Empty(t, r.ahead)
	_, err := r.RewardUTXOs(t.Context(), rewarded[0], 1)
	require.ErrorIs(t, err, l.err)
	require.Empty(t, r.fresh)
	require.Empty(t, r.note())

	l.err = node.ErrNotOffered
	_, err = r.RewardUTXOs(t.Context(), rewarded[0], 1)
	require.ErrorIs(t, err, pchain.ErrNotOffered)
	require.Equal(t, "1 rewards were computed from the supply because no node offers platform.getRewardUTXOs", r.note())
}

// TestStoredRewardAfterAnOutage repeats a request during which the store was away: the node is not asked for what is stored.
func TestStoredRewardAfterAnOutage(t *testing.T) {
	l := &lister{asked: make(map[ids.ID]uint64), outputs: [][]byte{{1}}}
	r, id := newRewards(l), ids.ID{7}
	_, err := r.RewardUTXOs(t.Context(), id, 1)
	require.NoError(t, err)
	batch := new(store.Batch)
	r.take(batch)
	stored := r.reader.(store.Store)
	require.NoError(t, stored.Commit(t.Context(), batch))
	clear(l.asked)

	r = newRewards(l)
	r.reader = away{stored}
	_, err = r.RewardUTXOs(t.Context(), id, 1)
	require.ErrorIs(t, err, store.ErrUnavailable)
	r.reader = stored
	got, err := r.RewardUTXOs(t.Context(), id, 1)
	require.NoError(t, err)
	require.Equal(t, l.outputs, got)
	require.Empty(t, l.asked)
}

// away is a store whose server does not answer.
type away struct{ store.Reader }

func (away) Get(context.Context, store.Family, []store.PK) ([][]byte, error) {
	return nil, store.ErrUnavailable
}

// TestDifferencesAreShown logs the first difference and counts all differences in the status and the metrics.
func TestDifferencesAreShown(t *testing.T) {
	var logged bytes.Buffer
	r := newRewards(&lister{})
	r.log = slog.New(slog.NewTextHandler(&logged, nil))
	registry := prometheus.NewRegistry()
	require.NoError(t, r.register(registry))
	for height := range uint64(3) {
		r.differ(&pchain.DifferenceError{Height: height, Node: []pchain.Payment{{Index: 3, Amount: 7}}})
	}
	require.Equal(t, 1, bytes.Count(logged.Bytes(), []byte("the node paid 7 as output 3, the supply gives nothing")), logged.String())
	require.Contains(t, r.note(), "3 rewards differ from the computed ones; the last one: reward of staking transaction 11111111111111111111111111111111LpoYY, decided at height 2:")
	families, err := registry.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		values[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
	}
	require.Equal(t, map[string]float64{"quorate_index_reward_differences_total": 3, "quorate_index_rewards_computed_total": 0}, values)
}
