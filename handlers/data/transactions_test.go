package data_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/internal/index/ledger"
	"quorate/internal/simnet/history"
)

// moved is what a transaction consumes and makes by the generator.
type moved struct {
	consumed, made []*history.Output
}

func (a *archived) moved() map[ids.ID]*moved {
	all := make(map[ids.ID]*moved)
	of := func(id ids.ID) *moved {
		if all[id] == nil {
			all[id] = new(moved)
		}
		return all[id]
	}
	for o := range a.truth.Outputs() {
		of(o.TxID).made = append(of(o.TxID).made, o)
		if o.Spent != nil {
			of(o.Spent.TxID).consumed = append(of(o.Spent.TxID).consumed, o)
		}
	}
	return all
}

// TestTransactionAnswers compares each transaction's outputs and amounts with those that the generator made.
//
//test:plain
func TestTransactionAnswers(t *testing.T) {
	a := simulatedArchive()
	h := surface(t, map[string]data.Network{"fuji": a.network()}, compat.Auto)
	truth := a.moved()
	types := make(map[string]int)
	for on, name := range map[history.Chain]string{history.P: "p-chain", history.X: "x-chain"} {
		all := followed(t, h, "/blockchains/"+name+"/transactions?sortOrder=asc&pageSize=100", "transactions")
		for _, b := range a.blocks[on][1:] {
			for i, tx := range b.Txs {
				require.NotEmpty(t, all)
				got := all[0]
				all = all[1:]
				types[got["txType"].(string)]++
				require.Equal(t, tx.ID.String(), got["txHash"])
				require.Equal(t, b.ID.String(), got["blockHash"])
				if i == 0 && b.Height%5 == 0 {
					require.Equal(t, got, answer(t, h, "/blockchains/"+name+"/transactions/"+tx.ID.String()))
				}
				want := truth[tx.ID]
				if want == nil {
					want = new(moved)
				}
				if got["txType"] != "RewardValidatorTx" && got["stakingTxHash"] == nil {
					requireOutputs(t, want.made, got["emittedUtxos"], got["txType"])
				}
				requireOutputs(t, want.consumed, got["consumedUtxos"], got["txType"])
				if kind := got["txType"]; on == history.P && got["startTimestamp"] == nil && kind != "RewardValidatorTx" && kind != "UNKNOWN" &&
					kind != "SetL1ValidatorWeightTx" && kind != "DisableL1ValidatorTx" {
					require.Equal(t, transfers(want.made), amounts(got["value"]), "%s %s", kind, tx.ID)
					left := difference(transfers(want.consumed), transfers(want.made))
					require.Equal(t, difference(left, amounts(got["amountL1ValidatorBalanceBurned"])), amounts(got["amountBurned"]), "%s %s", kind, tx.ID)
				}
				if on == history.X {
					require.Equal(t, transfers(want.consumed), amounts(got["amountUnlocked"]), "%s %s", got["txType"], tx.ID)
					require.Equal(t, transfers(want.made), amounts(got["amountCreated"]), "%s %s", got["txType"], tx.ID)
				}
			}
		}
		require.Empty(t, all)
	}
	for _, kind := range simulatedKinds {
		require.Positive(t, types[kind], "%s: %v", kind, types)
	}
}

// simulatedKinds are types of transactions in the simulated network.
var simulatedKinds = []string{
	"AddValidatorTx", "AddDelegatorTx", "CreateChainTx", "CreateSubnetTx", "ImportTx", "ExportTx", "AdvanceTimeTx", "RewardValidatorTx",
	"AddPermissionlessValidatorTx", "AddPermissionlessDelegatorTx", "BaseTx", "TransferSubnetOwnershipTx",
	"ConvertSubnetToL1Tx", "RegisterL1ValidatorTx", "SetL1ValidatorWeightTx", "DisableL1ValidatorTx", "IncreaseL1ValidatorBalanceTx",
	"CreateAssetTx", "OperationTx", "UNKNOWN",
}

func requireOutputs(t *testing.T, want []*history.Output, got, txType any) {
	t.Helper()
	wantIDs, gotIDs := make([]string, 0, len(want)), make([]string, 0, len(want))
	for _, o := range want {
		wantIDs = append(wantIDs, o.ID.String())
	}
	for _, o := range got.([]any) {
		gotIDs = append(gotIDs, o.(map[string]any)["utxoId"].(string))
	}
	require.ElementsMatch(t, wantIDs, gotIDs, txType)
}

// transfers returns the amounts of outputs by asset.
func transfers(all []*history.Output) map[string]string {
	sums := make(map[string]uint64)
	for _, o := range all {
		switch o.Kind {
		case history.Transfer:
			sums[o.AssetID.String()] += o.Amount
		case history.NFTTransfer:
			sums[o.AssetID.String()]++
		}
	}
	texts := make(map[string]string)
	for id, sum := range sums {
		texts[id] = fmt.Sprint(sum)
	}
	return texts
}

// difference returns what is in from and not in to.
func difference(from, to map[string]string) map[string]string {
	left := make(map[string]string)
	for id, text := range from {
		left[id] = fmt.Sprint(must(strconv.ParseUint(text, 10, 64)) - must(strconv.ParseUint(cmp.Or(to[id], "0"), 10, 64)))
	}
	return left
}

func amounts(list any) map[string]string {
	all := make(map[string]string)
	for _, one := range list.([]any) {
		entry := one.(map[string]any)
		all[entry["assetId"].(string)] = entry["amount"].(string)
	}
	return all
}

// TestRewardTransactions requires that a reward's transaction emits the rewards of its stake, and that both name each other.
func TestRewardTransactions(t *testing.T) {
	a := simulatedArchive()
	h := surface(t, map[string]data.Network{"fuji": a.network()}, compat.Auto)
	paid := 0
	for _, reward := range followed(t, h, "/blockchains/p-chain/transactions?txTypes=RewardValidatorTx&pageSize=3", "transactions") {
		staking := answer(t, h, "/blockchains/p-chain/transactions/"+reward["stakingTxHash"].(string))
		require.Equal(t, reward["txHash"], staking["rewardTxHash"])
		var rewards []any
		for _, o := range staking["emittedUtxos"].([]any) {
			if o.(map[string]any)["rewardType"] != nil {
				rewards = append(rewards, o)
			}
		}
		require.Empty(t, reward["consumedUtxos"])
		require.ElementsMatch(t, rewards, reward["emittedUtxos"])
		if len(rewards) > 0 {
			paid++
		}
	}
	require.Greater(t, paid, 10)
}

// TestPermissionedStakesAskNoNode requires that only stakes that may earn a reward cause a call to the node.
func TestPermissionedStakesAskNoNode(t *testing.T) {
	a, r := simulatedArchive(), &rewards{}
	n := a.network()
	n.Rewards = r
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	require.NotEmpty(t, followed(t, h, "/blockchains/p-chain/transactions?pageSize=100&txTypes=AddSubnetValidatorTx", "transactions"))
	require.Empty(t, r.asked)
	require.NotEmpty(t, followed(t, h, "/blockchains/p-chain/transactions?pageSize=100&txTypes=AddPermissionlessValidatorTx", "transactions"))
	require.NotEmpty(t, r.asked)
}

// TestTransactionRefusals requests transactions that do not exist.
func TestTransactionRefusals(t *testing.T) {
	a := simulatedArchive()
	n := a.network()
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	p := base + "/blockchains/p-chain/transactions"
	requireError(t, apitest.Get(h, base+"/blockchains/c-chain/transactions"), 400, "blockchainId: ")
	requireError(t, apitest.Get(h, p+"?txTypes=Nonsense"), 400, "txTypes: ")
	requireError(t, apitest.Get(h, p+"?startTimestamp=2&endTimestamp=1"), 400, "startTimestamp: ")
	requireError(t, apitest.Get(h, p+"?addresses="+text(alice)), 400, "addresses: ")
	requireError(t, apitest.Get(h, p+"?l1ValidationId=x"), 400, "l1ValidationId: ")
	requireError(t, apitest.Get(h, p+"/nonsense"), 400, "txHash: ")
	requireError(t, apitest.Get(h, p+"/"+ids.ID{1}.String()), 404, "txHash: ")
	for id := range a.genesis.XTxs {
		requireError(t, apitest.Get(h, base+"/blockchains/x-chain/transactions/"+id.String()), 404, "txHash: ")
	}
	for id := range a.genesis.PTxs {
		got := answer(t, h, "/blockchains/p-chain/transactions/"+id.String())
		require.Equal(t, []any{id.String(), "0", a.blocks[history.P][0].ID.String()}, []any{got["txHash"], got["blockNumber"], got["blockHash"]})
	}

	// An import cannot be described before the chain that it is from is indexed.
	imports := followed(t, h, "/blockchains/p-chain/transactions?txTypes=ImportTx&pageSize=100", "transactions")
	n.Ledger = unknowing{a.ledger}
	progress := n.Progress
	n.Progress = func(_ context.Context, id ids.ID) data.Progress {
		at := progress(t.Context(), id)
		at.CaughtUp = id == pID
		return at
	}
	h = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	requireError(t, apitest.Get(h, p+"/"+imports[0]["txHash"].(string)), 503, "the index of the ")
	n.Archives = nil
	h = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	requireError(t, apitest.Get(h, p), 503, "the blocks of the p-chain are not stored here", "keep_containers")
}

// unknowing is a ledger that has no outputs.
type unknowing struct{ *ledger.Index }

func (unknowing) Outputs(_ context.Context, outputIDs []ids.ID) ([]*ledger.Output, error) {
	return make([]*ledger.Output, len(outputIDs)), nil
}

// TestOfficialClientReadsAllTransactions requires that the client decodes every type of transaction.
func TestOfficialClientReadsAllTransactions(t *testing.T) {
	a := simulatedArchive()
	server := httptest.NewServer(surface(t, map[string]data.Network{"fuji": a.network()}, compat.Auto))
	defer server.Close()
	const path = "data.primaryNetwork.transactions.listLatest"
	results := chainkit.Install(t).Run(t, server.URL, []chainkit.Call{
		{Name: "p-chain", Path: path, List: "transactions", Request: map[string]any{"blockchainId": "p-chain", "pageSize": 100}},
		{Name: "x-chain", Path: path, List: "transactions", Request: map[string]any{"blockchainId": "x-chain", "pageSize": 100}},
		{Name: "some", Path: path, List: "transactions", Request: map[string]any{"blockchainId": "p-chain", "pageSize": 3, "txTypes": []string{"ConvertSubnetToL1Tx", "RegisterL1ValidatorTx"}}},
	})
	for i, on := range []history.Chain{history.P, history.X} {
		require.Nil(t, results[i].Error, "%+v", results[i].Error)
		want := 0
		for _, b := range a.blocks[on][1:] {
			want += len(b.Txs)
		}
		got := 0
		for _, page := range results[i].Pages {
			got += len(page["transactions"].([]any))
		}
		require.Equal(t, want, got)
	}
	require.Nil(t, results[2].Error, "%+v", results[2].Error)
	details := results[2].Pages[0]["transactions"].([]any)[0].(map[string]any)["l1ValidatorDetails"]
	require.NotEmpty(t, details)
}
