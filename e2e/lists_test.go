package e2e

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/stretchr/testify/require"

	"quorate/e2e/localnet"
)

// compareProposed compares the blocks of each node with the envelopes that the node's index has.
func (s *service) compareProposed(ctx context.Context, chain string, blocks []decodedBlock) {
	t := s.t
	t.Helper()
	want := map[ids.NodeID][]ids.ID{ids.GenerateTestNodeID(): nil}
	named := 0
	for _, b := range slices.Backward(blocks) {
		if e := b.ProposerDetails; e != nil && e.ProposerNodeID != ids.EmptyNodeID {
			want[e.ProposerNodeID] = append(want[e.ProposerNodeID], b.BlockHash)
			named++
		}
	}
	require.Positive(t, named, "no block of the %s has a proposer", chain)
	for by, listed := range want {
		var got []ids.ID
		for _, b := range archived[archivedBlock](ctx, s, "blockchains/"+chain+"/nodes/"+by.String()+"/blocks", url.Values{}) {
			got = append(got, b.BlockHash)
		}
		require.Equal(t, listed, got, "%s %s", chain, by)
	}
	t.Logf("%s: %d of %d blocks name %d proposers", chain, named, len(blocks), len(want)-1)
}

// compareAssetTxs compares the transactions of each asset with those in which the node's JSON names it.
func (s *service) compareAssetTxs(ctx context.Context, blocks []decodedBlock) {
	t := s.t
	t.Helper()
	want := make(map[string][]ids.ID)
	for _, b := range slices.Backward(blocks) {
		for _, id := range slices.Backward(b.Transactions) {
			var reply struct{ Tx json.RawMessage }
			require.NoError(t, localnet.Call(ctx, s.node, "/ext/bc/X", "avm.getTx", map[string]any{"txID": id, "encoding": "json"}, &reply))
			var content any
			require.NoError(t, json.Unmarshal(reply.Tx, &content))
			named := make(map[string]bool)
			assetIDs(content, named)
			if b.txs[id].kind == "CreateAssetTx" {
				named[id.String()] = true
			}
			for asset := range named {
				want[asset] = append(want[asset], id)
			}
		}
	}
	require.Greater(t, len(want), 1)
	for asset, listed := range want {
		var got []ids.ID
		for _, tx := range archived[archivedTx](ctx, s, "blockchains/x-chain/assets/"+asset+"/transactions", url.Values{}) {
			got = append(got, tx.TxHash)
		}
		require.Equal(t, listed, got, asset)
		t.Logf("asset %s: %d transactions are equal", asset, len(got))
	}
}

// assetIDs adds the assets that a transaction in JSON names to found.
func assetIDs(content any, found map[string]bool) {
	switch content := content.(type) {
	case map[string]any:
		for key, value := range content {
			if id, ok := value.(string); ok && key == "assetID" {
				found[id] = true
			}
			assetIDs(value, found)
		}
	case []any:
		for _, one := range content {
			assetIDs(one, found)
		}
	}
}
