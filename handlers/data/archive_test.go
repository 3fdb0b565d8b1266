package data_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/internal/chain/cchain"
	"quorate/internal/chain/genesis"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/archive"
	"quorate/internal/index/container"
	"quorate/internal/index/ledger"
	"quorate/internal/index/lookup"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// archived is the index of a simulated network with its blocks.
type archived struct {
	store  store.Store
	blocks map[history.Chain][]*history.Block
	truth  *history.Truth
	ids    map[history.Chain]ids.ID
	// genesis, ledger and chains are what the service reads.
	genesis *genesis.Genesis
	ledger  *ledger.Index
	chains  map[history.Chain]*archive.Chain
}

const archivedNetwork = 12345

// computedRewards is a node that knows no rewards.
type computedRewards struct{}

func (computedRewards) RewardUTXOs(context.Context, ids.ID, uint64) ([][]byte, error) {
	return nil, pchain.ErrNotOffered
}

// simulatedArchive indexes a simulated network once.
var simulatedArchive = sync.OnceValue(func() *archived {
	generator := must(history.New(history.Options{Seed: 3, NetworkID: archivedNetwork, Txs: 1500, Record: true}))
	sealer := must(history.NewSealer(generator))
	a := &archived{
		store: store.NewMemory(), blocks: make(map[history.Chain][]*history.Block), truth: generator.Truth(), ids: make(map[history.Chain]ids.ID),
		chains: make(map[history.Chain]*archive.Chain),
	}
	for generator.Txs() < 1500 || generator.Pending() > 0 {
		b := must(generator.Next())
		if err := sealer.Seal(b); err != nil {
			panic(err)
		}
		a.blocks[b.Chain] = append(a.blocks[b.Chain], b)
	}
	a.genesis = must(genesis.Of(archivedNetwork, a.blocks[history.P][0].ID))
	a.ids = map[history.Chain]ids.ID{history.P: pID, history.X: a.genesis.XChainID, history.C: a.genesis.CChainID}
	a.index(context.Background())
	a.ledger = ledger.New(a.store, archivedNetwork)
	for on, name := range map[history.Chain]string{history.P: index.PChain, history.X: index.XChain} {
		o := archive.Options{Viewer: a.store, NetworkID: archivedNetwork, Name: name, ID: a.ids[on], Begun: a.genesis.Time, Genesis: a.genesis.PTxs}
		if on == history.X {
			o.Genesis, o.AVAXAssetID = a.genesis.XTxs, a.genesis.AVAXAssetID
		}
		a.chains[on] = must(archive.New(o))
	}
	return a
})

// index writes the rows that the service writes.
func (a *archived) index(ctx context.Context) {
	g := a.genesis
	p := must(pchain.NewDecoder(pchain.DecoderOptions{
		NetworkID: archivedNetwork, Genesis: g.P, AVAXAssetID: g.AVAXAssetID, Validators: g.Validators, Supply: g.Supply, Node: computedRewards{},
	}))
	x, c := must(xchain.NewDecoder(g.XChainID, g.X)), must(cchain.NewDecoder(archivedNetwork, g.CChainID, nil))
	onP, onX := lookup.PChain(archivedNetwork), lookup.XChain(archivedNetwork, g.AVAXAssetID)
	state := pchain.NewState()
	for on, name := range map[history.Chain]string{history.P: index.PChain, history.X: index.XChain, history.C: index.CChain} {
		projection := ledger.NewProjection(archivedNetwork, a.ids[on])
		writer := container.NewWriter(container.Chain{NetworkID: archivedNetwork, Name: name})
		for _, b := range a.blocks[on] {
			bytes := b.Bytes
			if b.Container != nil {
				bytes = b.Container
			}
			var batch store.Batch
			var read *chain.Block
			var err error
			switch on {
			case history.P:
				parsed := must(pchain.ParseBlock(bytes))
				err = onP.Apply(ctx, a.store, parsed, &batch)
				read = must(p.Ledger(ctx, state, parsed))
			case history.X:
				parsed := must(x.ParseBlock(bytes))
				err = onX.Apply(ctx, a.store, parsed, &batch)
				read = must(x.Ledger(parsed))
			default:
				read = must(c.Ledger(must(cchain.ParseBlock(bytes))))
			}
			if err != nil {
				panic(err)
			}
			if on != history.C {
				writer.Put(&batch, &container.Container{Height: b.Height, Form: container.Bare, Bytes: bytes})
			}
			if err := projection.Apply(ctx, a.store, read, &batch); err != nil {
				panic(err)
			}
			if err := a.store.Commit(ctx, &batch); err != nil {
				panic(err)
			}
		}
	}
	if err := ledger.NewMatcher(a.store, archivedNetwork, nil).Settle(ctx); err != nil {
		panic(err)
	}
}

// network returns the simulated network as the service has it.
func (a *archived) network() data.Network {
	n := data.Network{
		NetworkID: archivedNetwork, XChainID: a.genesis.XChainID, CChainID: a.genesis.CChainID, AVAXAssetID: a.genesis.AVAXAssetID,
		Ledger: a.ledger, Archives: map[ids.ID]data.Archive{pID: a.chains[history.P], a.genesis.XChainID: a.chains[history.X]},
	}
	n.Progress = func(_ context.Context, id ids.ID) data.Progress {
		for on, chainID := range a.ids {
			if chainID == id {
				return data.Progress{Height: a.tip(on).Height, Time: a.tip(on).Time, CaughtUp: true}
			}
		}
		return data.Progress{}
	}
	progress := n.Progress
	n.ArchiveProgress = func(id ids.ID) data.Progress { return progress(context.Background(), id) }
	return n
}

// upTo is an Archive for a network whose chains are longer than the simulated ones.
type upTo struct {
	*archived
	on history.Chain
}

func (u upTo) Block(ctx context.Context, number uint64) (*archive.Block, error) {
	return u.chains[u.on].Block(ctx, number)
}

func (u upTo) BlockByID(ctx context.Context, id ids.ID) (*archive.Block, error) {
	return u.chains[u.on].BlockByID(ctx, id)
}

func (u upTo) Blocks(ctx context.Context, q archive.Query) ([]*archive.Block, bool, error) {
	q.Tip = u.tip(u.on).Height
	return u.chains[u.on].Blocks(ctx, q)
}

func (u upTo) Tx(ctx context.Context, id ids.ID, _ uint64) (*archive.Tx, error) {
	return u.chains[u.on].Tx(ctx, id, u.tip(u.on).Height)
}

func (u upTo) Txs(ctx context.Context, q archive.TxQuery) (*archive.TxPage, error) {
	q.Tip = u.tip(u.on).Height
	return u.chains[u.on].Txs(ctx, q)
}

func (a *archived) tip(on history.Chain) *history.Block { return a.blocks[on][len(a.blocks[on])-1] }

// answer requests a path of the simulated network and decodes the answer.
func answer(t *testing.T, h http.Handler, path string) map[string]any {
	t.Helper()
	w := apitest.Get(h, base+path)
	require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	var body map[string]any
	decoder := json.NewDecoder(w.Body)
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&body))
	return body
}

// followed returns the items of all pages.
func followed(t *testing.T, h http.Handler, path, list string) (all []map[string]any) {
	t.Helper()
	for token := ""; ; {
		body := answer(t, h, path+token)
		for _, item := range body[list].([]any) {
			all = append(all, item.(map[string]any))
		}
		next, more := body["nextPageToken"].(string)
		if !more {
			return all
		}
		token = "&pageToken=" + next
	}
}

// TestBlockAnswers compares each block with the one that the generator made.
func TestBlockAnswers(t *testing.T) {
	a := simulatedArchive()
	h := surface(t, map[string]data.Network{"fuji": a.network()}, compat.Auto)
	for on, name := range map[history.Chain]string{history.P: "p-chain", history.X: "x-chain"} {
		all := followed(t, h, "/blockchains/"+name+"/blocks?pageSize=100", "blocks")
		slices.Reverse(all)
		require.Len(t, all, len(a.blocks[on]))
		enveloped := 0
		for i, b := range a.blocks[on] {
			txs := make([]any, 0, len(b.Txs))
			for _, tx := range b.Txs {
				txs = append(txs, tx.ID.String())
			}
			if b.Height == 0 {
				txs = []any{} // no block has the transactions of the genesis
			}
			got := all[i]
			require.Equal(t, []any{
				fmt.Sprint(b.Height), b.ID.String(), b.ParentID.String(), fmt.Sprint(b.Time.Unix()), fmt.Sprint(len(txs)), txs, fmt.Sprint(len(b.Bytes)),
			}, []any{
				got["blockNumber"], got["blockHash"], got["parentHash"], fmt.Sprint(got["blockTimestamp"]), fmt.Sprint(got["txCount"]), got["transactions"],
				fmt.Sprint(got["blockSizeBytes"]),
			})
			if details, ok := got["proposerDetails"].(map[string]any); ok {
				enveloped++
				require.Equal(t, b.ContainerID.String(), details["proposerId"])
			}
			for _, id := range []string{fmt.Sprint(b.Height), b.ID.String()} {
				if i%7 == 0 {
					require.Equal(t, got, answer(t, h, "/blockchains/"+name+"/blocks/"+id))
				}
			}
		}
		require.Greater(t, enveloped, len(all)/2)
	}
}

// TestBlockRefusals requests blocks that do not exist.
func TestBlockRefusals(t *testing.T) {
	a := simulatedArchive()
	n := a.network()
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	p := base + "/blockchains/p-chain/blocks"
	tip := a.tip(history.P).Height
	requireError(t, apitest.Get(h, base+"/blockchains/c-chain/blocks"), 400, "blockchainId: ")
	requireError(t, apitest.Get(h, base+"/blockchains/c-chain/blocks/1"), 400, "blockchainId: ")
	requireError(t, apitest.Get(h, p+"?startTimestamp=2&endTimestamp=1"), 400, "startTimestamp: ")
	requireError(t, apitest.Get(h, p+"?startTimestamp=x"), 400, "startTimestamp: ")
	requireError(t, apitest.Get(h, p+"?pageSize=101"), 400, "pageSize: ")
	requireError(t, apitest.Get(h, p+"/nonsense"), 400, "blockId: ")
	requireError(t, apitest.Get(h, p+fmt.Sprintf("/%d", tip+1)), 404, "blockId: ")
	requireError(t, apitest.Get(h, p+"/"+ids.ID{1}.String()), 404, "blockId: ")

	// An index that an older tip is served from does not show later blocks.
	progress := n.Progress
	n.Progress = func(_ context.Context, id ids.ID) data.Progress {
		at := progress(t.Context(), id)
		at.Height -= 5
		return at
	}
	h = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	requireError(t, apitest.Get(h, p+fmt.Sprintf("/%d", tip)), 404, "blockId: ")
	requireError(t, apitest.Get(h, p+"/"+a.tip(history.P).ID.String()), 404, "blockId: ")
	require.Equal(t, fmt.Sprint(tip-5), answer(t, h, "/blockchains/p-chain/blocks?pageSize=1")["blocks"].([]any)[0].(map[string]any)["blockNumber"])

	begun := n.Archives
	lost := must(archive.New(archive.Options{
		Viewer: a.store, NetworkID: archivedNetwork, Name: index.XChain, ID: n.XChainID, AVAXAssetID: n.AVAXAssetID,
		Before: func(context.Context) (uint64, error) { return 0, index.ErrVerticesMissing },
	}))
	none := must(archive.New(archive.Options{Viewer: a.store, NetworkID: archivedNetwork + 1, Name: index.PChain}))
	n.Archives = map[ids.ID]data.Archive{n.XChainID: lost, pID: none}
	h = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	requireError(t, apitest.Get(h, base+"/blockchains/x-chain/blocks"), 503, "it is not known yet where the blocks of the x-chain begin")
	requireError(t, apitest.Get(h, p), 503, "a block of the p-chain is not stored")
	requireError(t, apitest.Get(h, p+"/1"), 503, "a block of the p-chain is not stored")

	n.Archives, n.ArchiveProgress = begun, func(ids.ID) data.Progress { return data.Progress{} }
	h = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	requireError(t, apitest.Get(h, p), 503, "the index of the p-chain is still catching up")
	n.Archives = nil
	h = surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	requireError(t, apitest.Get(h, p), 503, "the blocks of the p-chain are not stored here", "keep_containers")
	requireError(t, apitest.Get(h, p+"/1"), 503, "the blocks of the p-chain are not stored here", "keep_containers")
}

// archiveCalls are calls of the official client for blocks. The fake network has the simulated blocks.
func archiveCalls() []call {
	const network = "data.primaryNetwork."
	a := simulatedArchive()
	blocks := func(name string, on history.Chain, size int, after, before time.Time, request map[string]any) call {
		count := 0
		for _, b := range a.blocks[on] {
			if b.Time.After(after) && b.Time.Before(before) {
				count++
			}
		}
		request["pageSize"], request["startTimestamp"], request["endTimestamp"] = size, after.Unix(), before.Unix()
		return call{
			Call: chainkit.Call{Name: name, Path: network + "blocks.listLatest", List: "blocks", Request: request},
			id:   "blockHash", count: count, pages: pages(count, size),
		}
	}
	of := func(on history.Chain, from, to int) (after, before time.Time) {
		return a.blocks[on][from].Time.Add(-time.Second), a.blocks[on][to].Time.Add(time.Second)
	}
	pFrom, pTo := of(history.P, 1, 20)
	xFrom, xTo := of(history.X, 30, 50)
	one := a.blocks[history.P][9]
	txs := func(name string, on history.Chain, size int, after, before time.Time, request map[string]any) call {
		count := 0
		for _, b := range a.blocks[on][1:] {
			if b.Time.After(after) && b.Time.Before(before) {
				count += len(b.Txs)
			}
		}
		request["pageSize"], request["startTimestamp"], request["endTimestamp"] = size, after.Unix(), before.Unix()
		return call{
			Call: chainkit.Call{Name: name, Path: network + "transactions.listLatest", List: "transactions", Request: request},
			id:   "txHash", count: count, pages: pages(count, size),
		}
	}
	tx := func(name string, id ids.ID) call {
		return call{Call: chainkit.Call{Name: "a transaction of the " + name, Path: network + "transactions.get", Request: map[string]any{"blockchainId": name, "txHash": id.String()}}, pages: 1, field: "txHash"}
	}
	return []call{
		{Call: chainkit.Call{Name: "an asset", Path: network + "getAssetDetails", Request: map[string]any{"blockchainId": "x-chain", "assetId": a.assets(chain.Transfer)[0].ID.String()}}, pages: 1, field: "assetId"},
		{Call: chainkit.Call{Name: "chains of addresses", Path: network + "getChainIdsForAddresses", Request: map[string]any{"addresses": text(alice) + ",P-" + text(carol)}}, pages: 1, field: "addresses"},
		{
			Call: chainkit.Call{Name: "UTXOs of a body", Path: network + "utxos.listByAddressesV2", List: "utxos", Request: map[string]any{
				"blockchainId": "p-chain", "includeSpent": true, "pageSize": 3, "primaryNetworkAddressesBodyDto": map[string]any{"addresses": text(alice)},
			}},
			id: "utxoId", count: 41, pages: 14,
		},
		txs("transactions of the P-Chain", history.P, 3, pFrom, pTo, map[string]any{"blockchainId": "p-chain"}),
		txs("oldest transactions of the P-Chain", history.P, 2, pFrom, pTo, map[string]any{"blockchainId": "p-chain", "sortOrder": "asc"}),
		txs("transactions of the X-Chain", history.X, 1, xFrom, xTo, map[string]any{"blockchainId": "x-chain"}),
		tx("p-chain", a.txFrom(history.P, 5)),
		tx("x-chain", a.txFrom(history.X, 40)),
		blocks("blocks of the P-Chain", history.P, 3, pFrom, pTo, map[string]any{"blockchainId": "p-chain"}),
		blocks("blocks of the X-Chain", history.X, 2, xFrom, xTo, map[string]any{"blockchainId": "x-chain", "network": "testnet"}),
		blocks("no blocks", history.P, 1, time.Unix(1, 0), time.Unix(2, 0), map[string]any{"blockchainId": "p-chain"}),
		{Call: chainkit.Call{Name: "a block by number", Path: network + "blocks.get", Request: map[string]any{"blockchainId": "p-chain", "blockId": fmt.Sprint(one.Height)}}, pages: 1, field: "blockHash"},
		{Call: chainkit.Call{Name: "a block by ID", Path: network + "blocks.get", Request: map[string]any{"blockchainId": "p-chain", "blockId": one.ID.String()}}, pages: 1, field: "blockHash"},
	}
}

// txFrom returns the first transaction in blocks from a height on.
func (a *archived) txFrom(on history.Chain, height int) ids.ID {
	for _, b := range a.blocks[on][height:] {
		if len(b.Txs) > 0 {
			return b.Txs[0].ID
		}
	}
	panic("no transactions")
}
