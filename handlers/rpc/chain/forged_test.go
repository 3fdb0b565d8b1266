package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	avmblock "github.com/ava-labs/avalanchego/vms/avm/block"

	"quorate/handlers/apitest"
	"quorate/handlers/rpc"
	rpcindex "quorate/handlers/rpc/index"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/simnet/history"
)

// forged returns the IDs that begin as id does and have other last 12 bytes. As text they
// have a checksum of their own.
func forged(id ids.ID) []ids.ID {
	var all []ids.ID
	for _, at := range []int{20, 27, 31} {
		other := id
		other[at] ^= 0x5a
		all = append(all, other)
	}
	var other ids.ID
	copy(other[:20], id[:])
	if other != id {
		all = append(all, other)
	}
	return all
}

// TestForgedIDsAreUnknown asks each method that takes an ID for one that differs from an
// existing ID in its last bytes: before and after the existing ID is asked for, so that no
// cache answers either.
//
//test:plain
func TestForgedIDsAreUnknown(t *testing.T) {
	w := newWorld(t, 400, 30)
	parser, err := xchain.NewParser()
	require.NoError(t, err)
	for service, c := range map[string]history.Chain{"platform": history.P, "avm": history.X} {
		known := w.idsOf(t, parser, c)
		for _, id := range known.blocks {
			w.refuses(t, service+".getBlock", `{"blockID":"%s"}`, id, func(id ids.ID) string {
				return "couldn't get block with id " + id.String() + ": not found"
			})
		}
		for _, id := range known.txs {
			notFound := "not found"
			if c == history.P {
				notFound = "couldn't get tx: not found"
			}
			for _, encoding := range []string{"hex", "json"} {
				w.refuses(t, service+".getTx", `{"txID":"%s","encoding":"`+encoding+`"}`, id, func(ids.ID) string { return notFound })
			}
			w.answers(t, service+".getTxStatus", `{"txID":"%s"}`, id, `{"status":"Unknown"}`)
		}
	}

	avax := w.genesis.AVAXAssetID
	w.refuses(t, "avm.getAssetDescription", `{"assetID":"%s"}`, avax, func(ids.ID) string { return "not found" })
	for _, tx := range w.idsOf(t, parser, history.X).txs[:20] {
		for _, other := range forged(tx) {
			_, failure := w.call(t, "avm.getAssetDescription", fmt.Sprintf(`{"assetID":"%s"}`, other))
			require.Equal(t, "not found", failure, "which is not a transaction either")
		}
	}
	rich := ""
	for _, a := range w.past.Generator().Addresses() {
		for _, o := range w.outputs(history.X, history.X, a) {
			if o.AssetID == avax && o.Kind == history.Transfer && len(o.Addresses) == 1 && o.Locktime == 0 {
				rich = w.address(t, history.X, a)
			}
		}
	}
	require.NotEmpty(t, rich)
	w.answers(t, "avm.getBalance", `{"address":"`+rich+`","assetID":"%s"}`, avax, `{"balance":"0","utxoIDs":[]}`)
	for _, id := range []ids.ID{w.genesis.XChainID, w.genesis.CChainID, w.founded(t)[0].ID} {
		w.answers(t, "platform.getBlockchainStatus", `{"blockchainID":"%s"}`, id, `{"status":"Unknown"}`)
	}
	for service, id := range map[string]ids.ID{"platform": w.genesis.XChainID, "avm": constants.PlatformChainID} {
		alias := map[string]history.Chain{"platform": history.P, "avm": history.X}[service]
		owner := w.address(t, alias, ids.ShortID{1})
		w.refuses(t, service+".getUTXOs", `{"addresses":["`+owner+`"],"sourceChain":"%s"}`, id, func(id ids.ID) string {
			return fmt.Sprintf("problem parsing source chainID %q: there is no ID with alias: %s", id.String(), id)
		})
	}

	// Answers of nodes are cached by the whole ID.
	w.upstream.set(func(body string) string {
		var call struct {
			Params struct{ SubnetID ids.ID }
		}
		require.NoError(t, json.Unmarshal([]byte(body), &call))
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"of":%q}}`, call.Params.SubnetID)
	})
	subnetID := w.founded(t)[0].SubnetID
	for _, method := range []string{"platform.getCurrentValidators", "platform.getCurrentSupply"} {
		for _, id := range append(forged(subnetID), subnetID) {
			result, failure := w.call(t, method, fmt.Sprintf(`{"subnetID":"%s"}`, id))
			require.Empty(t, failure)
			require.JSONEq(t, fmt.Sprintf(`{"of":%q}`, id), string(result))
		}
	}
}

func TestForgedContainerIDsAreUnknown(t *testing.T) {
	w := newWorld(t, 300, 30)
	for _, name := range []string{index.PChain, index.XChain, index.CChain} {
		kept := container.Chain{NetworkID: w.genesis.NetworkID, Name: name}
		from, until, err := index.ContainersUntil(t.Context(), w.rows, w.genesis.NetworkID, name)
		require.NoError(t, err)
		h, err := rpc.NewHandler(rpc.Endpoint{Services: []rpc.Service{{Names: []string{"index"}, Methods: rpcindex.New(rpcindex.Options{
			Reader: w.rows, Chain: kept, Heights: func(context.Context) (uint64, uint64, error) { return from, until, nil },
		})}}})
		require.NoError(t, err)
		asked := 0
		for height := from; height < until; height++ {
			one, err := kept.Get(t.Context(), w.rows, height)
			require.NoError(t, err)
			if one.Form != container.Accepted {
				continue
			}
			asked++
			for _, other := range forged(one.ID) {
				_, err := kept.ByID(t.Context(), w.rows, other)
				require.ErrorIs(t, err, container.ErrMissing)
				for _, method := range []string{"getContainerByID", "getIndex"} {
					_, failure := apitest.Call(t, h, "index."+method, fmt.Sprintf(`{"id":"%s","encoding":"hex"}`, other))
					require.NotEmpty(t, failure, "index.%s of a forged ID", method)
				}
				result, _ := apitest.Call(t, h, "index.isAccepted", fmt.Sprintf(`{"id":"%s"}`, other))
				require.NotContains(t, string(result), "true", "index.isAccepted of a forged ID")
			}
			for _, method := range []string{"getContainerByID", "getIndex", "isAccepted"} {
				_, failure := apitest.Call(t, h, "index."+method, fmt.Sprintf(`{"id":"%s","encoding":"hex"}`, one.ID))
				require.Empty(t, failure)
			}
		}
		t.Logf("%s: %d containers", name, asked)
		require.True(t, asked > 0 || name == index.CChain)
	}
}

// existing are IDs that a chain has.
type existing struct{ blocks, txs []ids.ID }

func (w *world) idsOf(t *testing.T, parser avmblock.Parser, c history.Chain) (all existing) {
	t.Helper()
	for _, b := range w.inner(t, c) {
		if c == history.P {
			block, err := pchain.ParseBlock(b)
			require.NoError(t, err)
			all.blocks = append(all.blocks, block.ID)
			for _, tx := range block.Txs {
				all.txs = append(all.txs, tx.ID())
			}
			if block.Proposal != nil {
				all.txs = append(all.txs, block.Proposal.ID())
			}
			continue
		}
		block, err := parser.ParseBlock(b)
		require.NoError(t, err)
		all.blocks = append(all.blocks, block.ID())
		for _, tx := range block.Txs() {
			all.txs = append(all.txs, tx.ID())
		}
	}
	genesis := w.genesis.PTxs
	if c == history.X {
		genesis = w.genesis.XTxs
		all.txs = append(all.txs, w.truth.EarlyTxIDs...)
	}
	for id := range genesis {
		all.txs = append(all.txs, id)
	}
	require.NotEmpty(t, all.blocks)
	require.NotEmpty(t, all.txs)
	return all
}

// refuses asks for forged IDs, before and after the existing one.
func (w *world) refuses(t *testing.T, method, params string, id ids.ID, failure func(id ids.ID) string) {
	t.Helper()
	for range 2 {
		for _, other := range forged(id) {
			result, got := w.call(t, method, fmt.Sprintf(params, other))
			require.Equal(t, failure(other), got, "%s of an ID that begins as %s: %s", method, id, result)
		}
		_, got := w.call(t, method, fmt.Sprintf(params, id))
		require.Empty(t, got)
	}
}

// answers does as refuses where what does not exist has an answer.
func (w *world) answers(t *testing.T, method, params string, id ids.ID, want string) {
	t.Helper()
	for range 2 {
		for _, other := range forged(id) {
			result, failure := w.call(t, method, fmt.Sprintf(params, other))
			require.Empty(t, failure)
			require.JSONEq(t, want, string(result), "%s of an ID that begins as %s", method, id)
		}
		result, failure := w.call(t, method, fmt.Sprintf(params, id))
		require.Empty(t, failure)
		require.NotEqual(t, want, string(result))
	}
}
