package data_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/internal/index/archive"
	"quorate/internal/index/lookup"
	"quorate/internal/simnet/history"
)

// proposed returns the blocks that each node signed, newest first.
func (a *archived) proposed(on history.Chain) map[ids.NodeID][]string {
	all := make(map[ids.NodeID][]string)
	for _, b := range slices.Backward(a.blocks[on]) {
		around, err := proposer.ParseWithoutVerification(b.Container)
		if err != nil {
			continue
		}
		if signed, ok := around.(proposer.SignedBlock); ok && signed.Proposer() != ids.EmptyNodeID {
			all[signed.Proposer()] = append(all[signed.Proposer()], b.ID.String())
		}
	}
	return all
}

// ofAsset returns the transactions in blocks that consume or make an output of each asset, newest first.
func (a *archived) ofAsset() map[ids.ID][]string {
	truth, all := a.moved(), make(map[ids.ID][]string)
	for _, b := range slices.Backward(a.blocks[history.X][1:]) {
		for _, tx := range slices.Backward(b.Txs) {
			moves := make(map[ids.ID]bool)
			for _, o := range slices.Concat(truth[tx.ID].consumed, truth[tx.ID].made) {
				if !moves[o.AssetID] {
					all[o.AssetID] = append(all[o.AssetID], tx.ID.String())
				}
				moves[o.AssetID] = true
			}
		}
	}
	return all
}

// busiest returns the key of the longest list that is shorter than most.
func busiest[K comparable](lists map[K][]string, most int) (best K) {
	for key, list := range lists {
		if len(list) < most && (len(list) > len(lists[best]) || len(list) == len(lists[best]) && fmt.Sprint(key) > fmt.Sprint(best)) {
			best = key
		}
	}
	return best
}

// TestProposedBlockAnswers compares the list of each node with the envelopes that the generator sealed.
func TestProposedBlockAnswers(t *testing.T) {
	a := simulatedArchive()
	n := a.network()
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	for on, name := range map[history.Chain]string{history.P: "p-chain", history.X: "x-chain"} {
		truth := a.proposed(on)
		require.Greater(t, len(truth), 2)
		truth[ids.NodeID{1}] = nil
		for by, want := range truth {
			var got []string
			for _, b := range followed(t, h, "/blockchains/"+name+"/nodes/"+by.String()+"/blocks?pageSize=5", "blocks") {
				got = append(got, b["blockHash"].(string))
				require.Equal(t, by.String(), b["proposerDetails"].(map[string]any)["proposerNodeId"])
			}
			require.Equal(t, want, got, "%s %s", name, by)
		}
	}
	p := base + "/blockchains/p-chain/nodes/"
	requireError(t, apitest.Get(h, p+"nonsense/blocks"), 400, "nodeId: ")
	requireError(t, apitest.Get(h, p+ids.EmptyNodeID.String()+"/blocks"), 400, "nodeId: ")
	node := ids.NodeID{1}.String()
	requireError(t, apitest.Get(h, base+"/blockchains/c-chain/nodes/"+node+"/blocks"), 400, "blockchainId: ")
	requireError(t, apitest.Get(h, p+node+"/blocks?startTimestamp=2&endTimestamp=1"), 400, "startTimestamp: ")

	// A token belongs to the list of one node.
	by := busiest(a.proposed(history.P), 1<<30)
	token := answer(t, h, "/blockchains/p-chain/nodes/"+by.String()+"/blocks?pageSize=1")["nextPageToken"].(string)
	requireError(t, apitest.Get(h, p+node+"/blocks?pageSize=1&pageToken="+token), 400, "pageToken: ")

	n.Archives = map[ids.ID]data.Archive{pID: withoutLists{a.chains[history.P]}, n.XChainID: withoutLists{a.chains[history.X]}}
	h = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	requireError(t, apitest.Get(h, p+node+"/blocks"), 503, "an older version began the index")
	asset := busiest(a.ofAsset(), 100)
	requireError(t, apitest.Get(h, base+"/blockchains/x-chain/assets/"+asset.String()+"/transactions"), 503, "an older version began the index")
}

// withoutLists is an Archive whose index an older version began.
type withoutLists struct{ *archive.Chain }

func (withoutLists) Blocks(context.Context, archive.Query) ([]*archive.Block, bool, error) {
	return nil, false, lookup.ErrNoLists
}

func (withoutLists) Txs(context.Context, archive.TxQuery) (*archive.TxPage, error) {
	return nil, lookup.ErrNoLists
}

// TestAssetTransactionAnswers compares the list of each asset with the outputs that the generator made.
//
//test:plain
func TestAssetTransactionAnswers(t *testing.T) {
	a := simulatedArchive()
	h := surface(t, map[string]data.Network{"fuji": a.network()}, compat.Auto)
	truth := a.ofAsset()
	require.Greater(t, len(truth), 10)
	require.NotEmpty(t, truth[a.genesis.AVAXAssetID])
	for asset, want := range truth {
		var got []string
		path := "/blockchains/x-chain/assets/" + asset.String() + "/transactions"
		for _, tx := range followed(t, h, path+"?pageSize=7", "transactions") {
			got = append(got, tx["txHash"].(string))
			require.Equal(t, answer(t, h, "/blockchains/x-chain/transactions/"+got[len(got)-1]), tx)
		}
		require.Equal(t, want, got, asset)
		created := followed(t, h, path+"?pageSize=7&txTypes=CreateAssetTx", "transactions")
		if asset != a.genesis.AVAXAssetID {
			require.Len(t, created, 1)
			require.Equal(t, asset.String(), created[0]["txHash"])
		}
	}
	path := base + "/blockchains/x-chain/assets/"
	requireError(t, apitest.Get(h, path+ids.ID{1}.String()+"/transactions"), 404, "assetId: ")
	requireError(t, apitest.Get(h, path+a.txFrom(history.X, 1).String()+"/transactions"), 404, "assetId: ", "creates no asset")
	requireError(t, apitest.Get(h, path+"nonsense/transactions"), 400, "assetId: ")
	known := busiest(truth, 100).String()
	requireError(t, apitest.Get(h, base+"/blockchains/p-chain/assets/"+known+"/transactions"), 400, "blockchainId: ")
	requireError(t, apitest.Get(h, path+known+"/transactions?txTypes=x"), 400, "txTypes")
}

// listCalls are calls of the official client for the blocks of a node and the transactions of an asset.
func listCalls() []call {
	const network = "data.primaryNetwork."
	a := simulatedArchive()
	blocks := func(name string, on history.Chain, size int) call {
		truth := a.proposed(on)
		by := busiest(truth, 1<<30)
		return call{
			Call: chainkit.Call{Name: "blocks of a node on the " + name, Path: network + "blocks.listByNodeId", List: "blocks", Request: map[string]any{
				"blockchainId": name, "nodeId": by.String(), "pageSize": size, "startTimestamp": 1, "endTimestamp": 2_000_000_000,
			}},
			id: "blockHash", count: len(truth[by]), pages: pages(len(truth[by]), size),
		}
	}
	truth := a.ofAsset()
	asset := busiest(truth, 100)
	activity := func(method, chain string, request map[string]any) call {
		request["blockchainId"] = chain
		return call{
			Call: chainkit.Call{Name: method + " of the " + chain, Path: network + "utxos." + method, Request: request}, pages: 1, field: "txHash",
		}
	}
	const ofQuery, ofBody = "getLastActivityTimestampByAddresses", "getLastActivityTimestampByAddressesV2"
	both := map[string]any{"addresses": "P-" + text(alice) + "," + text(bob)}
	return []call{
		activity(ofQuery, "p-chain", map[string]any{"addresses": text(alice)}),
		activity(ofQuery, "x-chain", map[string]any{"addresses": "X-" + text(alice)}),
		activity(ofQuery, "c-chain", map[string]any{"addresses": text(alice)}),
		activity(ofBody, "p-chain", map[string]any{"primaryNetworkAddressesBodyDto": both}),
		blocks("p-chain", history.P, 3),
		blocks("x-chain", history.X, 2),
		{
			Call: chainkit.Call{Name: "transactions of an asset", Path: network + "transactions.listAssetTransactions", List: "transactions", Request: map[string]any{
				"blockchainId": "x-chain", "assetId": asset.String(), "pageSize": 3, "startTimestamp": 1, "endTimestamp": 2_000_000_000,
			}},
			id: "txHash", count: len(truth[asset]), pages: pages(len(truth[asset]), 3),
		},
		{
			Call: chainkit.Call{Name: "creation of an asset", Path: network + "transactions.listAssetTransactions", List: "transactions", Request: map[string]any{
				"blockchainId": "x-chain", "assetId": asset.String(), "txTypes": []string{"CreateAssetTx"},
			}},
			id: "txHash", count: 1, pages: 1,
		},
	}
}
