package simnet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/primary"
	"quorate/internal/index/vertices"
	"quorate/internal/node"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

func dial(t *testing.T, n *Network) *node.Client {
	t.Helper()
	client, err := node.New(node.Options{Endpoints: []string{n.NodeURL()}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// begun is the genesis, found as the service finds it.
func begun(t *testing.T, n *Network, client *node.Client) *genesis.Genesis {
	t.Helper()
	b, err := client.BlockByHeight(t.Context(), 0)
	require.NoError(t, err)
	first, err := pchain.ParseBlock(b)
	require.NoError(t, err)
	g, err := genesis.Of(n.NetworkID(), first.ID)
	require.NoError(t, err)
	return g
}

// TestRecordOfTheChainsIsTrue indexes the chains from the node API, while they grow, and compares the
// index with the generator.
func TestRecordOfTheChainsIsTrue(t *testing.T) {
	for name, earlyTxs := range map[string]int{"always with blocks": 0, "first with vertices": 250} {
		t.Run(name, func(t *testing.T) { testRecordIsTrue(t, earlyTxs) })
	}
}

func testRecordIsTrue(t *testing.T, earlyTxs int) {
	n := start(t, Options{Seed: 3, Validators: 2, History: &History{Options: history.Options{Txs: 1500, Addresses: 60, EarlyTxs: earlyTxs, Record: true}, Dir: t.TempDir()}})
	client := dial(t, n)
	begin := begun(t, n, client)
	rows := store.NewMemory()
	defer func() { _ = rows.Close() }()
	chains, err := primary.New(primary.Options{NetworkID: n.NetworkID(), Node: client, Peers: history.Peer{Node: n.past}, Store: rows, Genesis: begin})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, chains.Run(ctx))
	}()
	for range 5 {
		require.NoError(t, n.past.Grow(t.Context(), 100))
	}
	awaitIndexed(t, n, chains)
	require.Eventually(t, func() bool {
		_, _, err := chains.Vertices.At(t.Context(), 0, true, 1, nil)
		return !errors.Is(err, vertices.ErrIncomplete)
	}, 3*time.Minute, 10*time.Millisecond, "vertices are not complete")
	cancel()
	<-done
	require.NoError(t, ledger.NewMatcher(rows, n.NetworkID(), nil).Settle(t.Context()))
	requireTruth(t, n, rows)
}

// awaitIndexed waits until all that was accepted is indexed.
func awaitIndexed(t *testing.T, n *Network, chains *primary.Network) {
	t.Helper()
	for name, c := range map[string]history.Chain{"P": history.P, "X": history.X, "C": history.C} {
		want := n.past.Height(c) + 1
		if txs := uint64(len(n.past.Generator().Truth().EarlyTxIDs)); c == history.X && txs > 0 {
			want += txs + 1 // and the genesis
		}
		require.Eventually(t, func() bool {
			s := chains.Status()[name]
			require.NotEqual(t, index.Stopped, s.State, "%s: %v", name, s.Err)
			return s.Next == want
		}, 3*time.Minute, 10*time.Millisecond, "chain %s is at %d, want %d", name, chains.Status()[name].Next, want)
	}
}

// requireTruth compares a record with what the generator knows.
func requireTruth(t *testing.T, n *Network, rows store.Store) {
	t.Helper()
	g := n.past.Generator()
	record := ledger.New(rows, n.NetworkID())
	begin, err := index.NewXChainOrigin(nil, nil, rows, n.NetworkID()).Begin(t.Context())
	require.NoError(t, err)
	early := make(map[ids.ID]bool)
	for _, id := range g.Truth().EarlyTxIDs {
		early[id] = true
	}
	// when is what the index can know of a time.
	when := func(txID ids.ID, at time.Time) time.Time {
		if early[txID] {
			require.False(t, at.After(begin.Time), "%s is no upper bound of the time of %s", begin.Time, txID)
			return begin.Time
		}
		return at
	}
	height, _, err := record.Tip(t.Context(), g.ChainID(history.X))
	require.NoError(t, err)
	require.Equal(t, n.past.Height(history.X), height)
	for _, c := range []history.Chain{history.P, history.X} {
		for _, address := range g.Addresses() {
			want := make(map[ids.ID]*history.Output)
			amounts := new(big.Int)
			for o := range g.Truth().Outputs() {
				if (o.Chain == c || o.Destination == c) && o.Threshold == 1 && slices.Contains(o.Addresses, address) {
					want[o.ID] = o
					if o.Spent == nil && o.AssetID == g.AVAXAssetID() && o.Kind == history.Transfer {
						amounts.Add(amounts, new(big.Int).SetUint64(o.Amount))
					}
				}
			}
			for after := (*ledger.Position)(nil); ; {
				page, err := record.UTXOs(t.Context(), ledger.OutputQuery{ChainID: g.ChainID(c), Addresses: []ids.ShortID{address}, IncludeSpent: true, Limit: 50, After: after})
				require.NoError(t, err)
				for _, o := range page.Outputs {
					truth := want[o.ID]
					require.NotNil(t, truth, "output %s of %s on %s is not there, or twice in the list", o.ID, address, c)
					delete(want, o.ID)
					require.Equal(t, []any{truth.TxID, truth.Amount, truth.Height, when(truth.TxID, truth.Time)}, []any{o.TxID, o.Amount, o.Height, o.Time}, "output %s on %s", o.ID, c)
					require.Equal(t, truth.Spent == nil, o.Spent == nil, "output %s on %s is spent", o.ID, c)
					if truth.Spent != nil {
						require.Equal(t, []any{truth.Spent.TxID, truth.Spent.Height, when(truth.Spent.TxID, truth.Spent.Time)}, []any{o.Spent.TxID, o.Spent.Height, o.Spent.Time}, "spend of %s", o.ID)
					}
				}
				if after = page.Next; after == nil {
					break
				}
			}
			require.Empty(t, want, "outputs of %s on %s are left out", address, c)
			balances, _, err := record.Balances(t.Context(), g.ChainID(c), []ids.ShortID{address}, time.Time{})
			require.NoError(t, err)
			sum := new(big.Int)
			for _, b := range balances {
				if b.AssetID == g.AVAXAssetID() {
					sum.Add(sum, b.Amount)
				}
			}
			require.Equal(t, amounts.String(), sum.String(), "AVAX of %s on %s", address, c)
		}
	}
	byHeight := make(map[uint64][]history.Vertex)
	several := 0
	for _, v := range g.Truth().EarlyVertices {
		byHeight[v.Height] = append(byHeight[v.Height], v)
		several = max(several, len(byHeight[v.Height]))
	}
	if len(byHeight) > 0 {
		require.Greater(t, several, 1, "no height has several vertices")
	}
	indexed := vertices.New(vertices.Options{Store: rows, NetworkID: n.NetworkID()})
	for height, want := range byHeight {
		slices.SortFunc(want, func(a, b history.Vertex) int { return a.ID.Compare(b.ID) })
		got, _, err := indexed.At(t.Context(), height, true, 100, nil)
		require.NoError(t, err)
		require.Len(t, got, len(want), "vertices at height %d", height)
		for i, v := range want {
			require.Equal(t, []any{v.ID, v.TxIDs, v.ParentIDs, len(v.Bytes)}, []any{got[i].ID, got[i].TxIDs, got[i].ParentIDs, got[i].Size}, "vertex %d at height %d", i, height)
		}
	}
}

// call asks the node API for a result, as text.
func call(t *testing.T, n *Network, path, method, params string) (result json.RawMessage, failure string) {
	t.Helper()
	response, err := http.Post(n.NodeURL()+path, "application/json", bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`)))
	require.NoError(t, err)
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var reply struct {
		ID     int
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	require.NoError(t, json.Unmarshal(b, &reply), "%s", b)
	require.Equal(t, 7, reply.ID)
	if reply.Error != nil {
		return nil, reply.Error.Message
	}
	return reply.Result, ""
}

func TestNodeAnswersAboutItsPast(t *testing.T) {
	n := start(t, Options{Seed: 4, Validators: 2, History: &History{Options: history.Options{Txs: 3000}, Dir: t.TempDir()}})
	client := dial(t, n)
	ctx := t.Context()
	tip := n.Height()
	require.Equal(t, n.past.Height(history.P), tip)

	t.Run("ranges end with the last block", func(t *testing.T) {
		for _, one := range []struct {
			index node.Index
			chain history.Chain
		}{{node.PChainBlocks, history.P}, {node.XChainBlocks, history.X}, {node.CChainBlocks, history.C}} {
			height := n.past.Height(one.chain)
			got, err := client.Containers(ctx, one.index, height-3, 1024)
			require.NoError(t, err)
			require.Len(t, got, 3)
			last, err := client.LastContainer(ctx, one.index)
			require.NoError(t, err)
			require.Equal(t, got[2], last)
			require.Equal(t, height-1, last.Index)
			_, err = client.Containers(ctx, one.index, height, 1)
			require.ErrorIs(t, err, node.ErrBeyondTip)
		}
		_, err := client.Containers(ctx, "X/vtx", 0, 1)
		require.ErrorIs(t, err, node.ErrBeyondTip)
	})
	t.Run("blocks by height are those without envelopes", func(t *testing.T) {
		containers, err := client.BlockRange(ctx, 0, 40)
		require.NoError(t, err)
		for i, container := range containers {
			bare, err := client.BlockByHeight(ctx, uint64(i)+1)
			require.NoError(t, err)
			b, err := pchain.ParseBlock(container.Bytes)
			require.NoError(t, err)
			require.Equal(t, b.Bytes, bare)
		}
		_, err = client.BlockByHeight(ctx, tip+1)
		require.ErrorIs(t, err, node.ErrBeyondTip)
		_, err = client.XChainBlock(ctx, n.past.Height(history.X)+1)
		require.ErrorIs(t, err, node.ErrBeyondTip)
		_, err = client.XChainBlock(ctx, 0)
		require.NoError(t, err)
	})
	t.Run("C-Chain blocks are the same both ways", func(t *testing.T) {
		height, err := client.EVMHeight(ctx, node.CChainRPC)
		require.NoError(t, err)
		require.Equal(t, n.past.Height(history.C), height)
		var parent [32]byte
		for h := uint64(0); h <= height; h++ {
			b, err := client.CChainBlock(ctx, h)
			require.NoError(t, err)
			require.Equal(t, parent, b.ParentHash, "block %d", h)
			parent = b.Hash
		}
		_, err = client.CChainBlock(ctx, height+1)
		require.ErrorIs(t, err, node.ErrBeyondTip)
	})
	t.Run("transactions and what became of them", func(t *testing.T) {
		rewarded, stakes := 0, 0
		for h := uint64(1); h <= tip; h++ {
			bare, err := client.BlockByHeight(ctx, h)
			require.NoError(t, err)
			b, err := pchain.ParseBlock(bare)
			require.NoError(t, err)
			for _, tx := range b.Txs {
				raw, err := client.Tx(ctx, tx.ID())
				require.NoError(t, err)
				require.Equal(t, tx.Bytes(), raw)
				utxos, err := client.RewardUTXOs(ctx, tx.ID(), tip)
				require.NoError(t, err)
				if len(utxos) > 0 {
					rewarded++
				}
			}
		}
		require.Greater(t, rewarded, 20)
		for nodeID, want := range n.past.CurrentStakes() {
			got, err := client.CurrentStakes(ctx, constants.PrimaryNetworkID, nodeID)
			require.NoError(t, err)
			require.Len(t, got, len(want))
			for _, s := range got {
				stakes++
				require.True(t, slices.ContainsFunc(want, func(w history.Stake) bool {
					return w.TxID == s.TxID && w.PotentialReward == s.PotentialReward && w.Delegator == s.Delegator
				}), "%+v is not among %+v", s, want)
			}
		}
		require.Greater(t, stakes, 20)
		_, err := client.Tx(ctx, ids.GenerateTestID())
		var refused *node.RPCError
		require.True(t, errors.As(err, &refused), "got %v, want a refusal", err)
	})
	t.Run("what a node refuses", func(t *testing.T) {
		for _, c := range []struct{ path, method, params, want string }{
			{"/ext/index/P/block", "index.getContainerRange", `{"startIndex":"0","numToFetch":"0","encoding":"hex"}`, "numToFetch must be in [1,1024] but is 0"},
			{"/ext/index/P/block", "index.getContainerRange", `{"startIndex":"0","numToFetch":"1025","encoding":"hex"}`, "numToFetch must be in [1,1024] but is 1025"},
			{"/ext/index/P/block", "index.getContainerRange", `{"startIndex":"18446744073709551615","numToFetch":"9","encoding":"hex"}`, "start index (18446744073709551615) > last accepted index"},
			{"/ext/index/P/block", "index.getContainerRange", `{"startIndex":"0","numToFetch":"1","encoding":"json"}`, "unsupported encoding"},
			{"/ext/index/P/block", "index.frobnicate", `{"encoding":"hex"}`, "can't find method"},
			{"/ext/index/X/tx", "index.getLastAccepted", `{"encoding":"hex"}`, "no containers have been accepted"},
			{"/ext/bc/X", "avm.frobnicate", `{}`, "can't find method"},
			{"/ext/bc/C/rpc", "eth_getBlockByNumber", `["0xffffffff",false]`, "cannot query unfinalized data"},
			{"/ext/bc/C/rpc", "eth_getBlockByNumber", `["0xffffffffffffffffff",false]`, "invalid argument 0"},
			{"/ext/bc/C/rpc", "eth_getBlockByNumber", `[]`, "missing value"},
			{"/ext/bc/P", "platform.frobnicate", `{}`, "can't find method"},
		} {
			_, failure := call(t, n, c.path, c.method, c.params)
			require.Contains(t, failure, c.want, "%s %s", c.method, c.params)
		}
	})
	t.Run("the validators that sign are the network's", func(t *testing.T) {
		require.Len(t, n.Set(constants.PrimaryNetworkID, tip).Validators, 2)
		all, err := client.AllValidatorsAt(ctx, tip)
		require.NoError(t, err)
		require.Len(t, all[constants.PrimaryNetworkID].Validators, 2)
		n.Advance(constants.PrimaryNetworkID, func(members map[ids.NodeID]Member) { delete(members, n.Validators()[1].NodeID) })
		require.Len(t, n.Set(constants.PrimaryNetworkID, tip).Validators, 2)
		require.Len(t, n.Set(constants.PrimaryNetworkID, tip+1).Validators, 1)
	})
}

func TestHistoryGoesOn(t *testing.T) {
	n := start(t, Options{Seed: 5, Validators: 1, History: &History{Options: history.Options{Txs: 200}, Dir: t.TempDir(), Pace: time.Millisecond}})
	client := dial(t, n)
	was := n.past.Height(history.P) + n.past.Height(history.X)
	require.Eventually(t, func() bool {
		return n.past.Height(history.P)+n.past.Height(history.X) > was+20
	}, 2*time.Minute, 5*time.Millisecond, "still at %d", was)
	last, err := client.LastContainer(t.Context(), node.PChainBlocks)
	require.NoError(t, err)
	b, err := pchain.ParseBlock(last.Bytes)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), b.Time, time.Minute)
}
