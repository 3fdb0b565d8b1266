package data_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/archive"
	"quorate/internal/simnet/history"
)

// assets returns the transactions of the X-Chain's blocks that create an asset with an output of a kind.
func (a *archived) assets(kind chain.OutputKind) (all []*archive.Tx) {
	c, tip := a.chains[history.X], a.tip(history.X).Height
	page := must(c.Txs(context.Background(), archive.TxQuery{Tip: tip, Kinds: []chain.Kind{"CreateAssetTx"}, Limit: 1000}))
	for _, tx := range page.Txs {
		if slices.ContainsFunc(tx.Made, func(o chain.Output) bool { return o.AssetID == tx.ID && o.Kind == kind }) {
			all = append(all, tx)
		}
	}
	return all
}

// TestAssets compares the description of assets with the transactions that created them, and with the genesis.
func TestAssets(t *testing.T) {
	a := simulatedArchive()
	n := a.network()
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	path := "/blockchains/x-chain/assets/"
	seen := make(map[string]bool)
	for _, kind := range []chain.OutputKind{chain.Transfer, chain.Mint, chain.NFTMint, chain.PropertyMint} {
		for _, tx := range a.assets(kind) {
			got := answer(t, h, path+tx.ID.String())
			require.Equal(t, []any{tx.ID.String(), tx.Asset.Name, tx.Asset.Symbol, fmt.Sprint(tx.Asset.Denomination), fmt.Sprint(tx.Block.Time.Unix())}, []any{
				got["assetId"], got["name"], got["symbol"], fmt.Sprint(got["denomination"]), fmt.Sprint(got["createdAtTimestamp"]),
			})
			if kind != chain.Transfer {
				require.Equal(t, "variable", got["cap"])
			}
			require.Equal(t, kind == chain.NFTMint || slices.ContainsFunc(a.assets(chain.NFTMint), func(o *archive.Tx) bool { return o.ID == tx.ID }), got["type"] == "nft")
			require.NotContains(t, got, "createdAtTimestampIsUpperBound")
			seen[got["cap"].(string)], seen[got["type"].(string)] = true, true
		}
	}
	require.Len(t, seen, 4, "%v", seen)
	avax := answer(t, h, path+a.genesis.AVAXAssetID.String())
	require.Equal(t, []any{"Avalanche", "AVAX", "9", "secp256k1", "fixed", fmt.Sprint(a.genesis.Time.Unix())}, []any{
		avax["name"], avax["symbol"], fmt.Sprint(avax["denomination"]), avax["type"], avax["cap"], fmt.Sprint(avax["createdAtTimestamp"]),
	})

	// The time of an asset from before Cortina has an upper bound.
	early := a.assets(chain.Transfer)[0]
	n.Archives = map[ids.ID]data.Archive{n.XChainID: earlyTx{upTo{a, history.X}, early}}
	n.Cortina = func(context.Context) (time.Time, error) { return time.Unix(5000, 0), nil }
	got := answer(t, surface(t, map[string]data.Network{"fuji": n}, compat.Auto), path+early.ID.String())
	require.Equal(t, []any{"5000", true}, []any{fmt.Sprint(got["createdAtTimestamp"]), got["createdAtTimestampIsUpperBound"]})

	requireError(t, apitest.Get(h, base+"/blockchains/p-chain/assets/"+early.ID.String()), 400, "blockchainId: ")
	requireError(t, apitest.Get(h, base+path+"nonsense"), 400, "assetId: ")
	requireError(t, apitest.Get(h, base+path+ids.ID{1}.String()), 404, "assetId: ")
	requireError(t, apitest.Get(h, base+path+a.txFrom(history.X, 1).String()), 404, "assetId: ", "creates no asset")
}

// earlyTx is an Archive with one transaction from before the X-Chain had blocks.
type earlyTx struct {
	upTo
	tx *archive.Tx
}

func (e earlyTx) Tx(context.Context, ids.ID, uint64) (*archive.Tx, error) {
	return &archive.Tx{Tx: e.tx.Tx}, nil
}

// TestChainIDs compares the chains of each address with the outputs that the generator made.
func TestChainIDs(t *testing.T) {
	a := simulatedArchive()
	n := a.network()
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	want := make(map[ids.ShortID]map[string]bool)
	for o := range a.truth.Outputs() {
		for _, owner := range o.Addresses {
			if want[owner] == nil {
				want[owner] = make(map[string]bool)
			}
			want[owner][a.ids[o.Chain].String()], want[owner][a.ids[o.Destination].String()] = true, true
		}
	}
	want[ids.ShortID{9}] = nil
	spelt := func(id ids.ShortID) string {
		return must(address.FormatBech32(constants.GetHRP(archivedNetwork), id[:]))
	}
	counts := make(map[int]bool)
	for chunk := range slices.Chunk(slices.SortedFunc(maps.Keys(want), ids.ShortID.Compare), 50) {
		query := make([]string, len(chunk))
		for i, id := range chunk {
			query[i] = "X-" + spelt(id)
		}
		got := answer(t, h, "/addresses:listChainIds?addresses="+strings.Join(query, ","))["addresses"].([]any)
		require.Len(t, got, len(chunk))
		for i, id := range chunk {
			entry := got[i].(map[string]any)
			require.Equal(t, spelt(id), entry["address"])
			chains := entry["blockchainIds"].([]any)
			require.Len(t, chains, len(want[id]))
			for _, one := range chains {
				require.True(t, want[id][one.(string)])
			}
			counts[len(chains)] = true
		}
	}
	require.Len(t, counts, 4, "addresses on no chain and on up to three")

	path := base + "/addresses:listChainIds"
	requireError(t, apitest.Get(h, path), 400, "addresses: ")
	requireError(t, apitest.Get(h, path+"?addresses=nobody"), 400, "addresses: ")
	progress := n.Progress
	n.Progress = func(_ context.Context, id ids.ID) data.Progress {
		at := progress(t.Context(), id)
		at.CaughtUp = id != n.CChainID
		return at
	}
	h = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	requireError(t, apitest.Get(h, path+"?addresses="+spelt(ids.ShortID{9})), 503, "the index of the c-chain is still catching up")
}
