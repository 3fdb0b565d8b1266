package chain_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	pblock "github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/asset"
	"quorate/handlers/rpc/chain"
	"quorate/handlers/rpc/platform"
	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/ledger"
	"quorate/internal/index/primary"
	"quorate/internal/node"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// upstream counts what is asked of the node, and may answer itself.
type upstream struct {
	node  rpc.Upstream
	calls atomic.Int64

	mu     sync.Mutex
	answer func(body string) string // guarded by mu; nil: the node
}

func (u *upstream) set(answer func(body string) string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answer = answer
}

func (u *upstream) Forward(ctx context.Context, path string, body []byte, hedged bool) (*node.Forwarded, error) {
	u.calls.Add(1)
	u.mu.Lock()
	answer := u.answer
	u.mu.Unlock()
	if answer == nil {
		return u.node.Forward(ctx, path, body, hedged)
	}
	text := answer(string(body))
	if text == "" {
		return nil, errors.New("it is away")
	}
	return &node.Forwarded{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, Body: []byte(text)}, nil
}

// world is a network with a history, what is indexed of it, and a service.
type world struct {
	stalled  atomic.Bool
	past     *history.Node
	truth    *history.Truth
	genesis  *genesis.Genesis
	chains   *primary.Network
	rows     store.Store
	upstream *upstream
	handlers map[string]http.Handler // by chain
	url      string
	sources  map[ids.ID]func() bool
}

func newWorld(t testing.TB, txs, early int) *world {
	t.Helper()
	n, err := simnet.Start(simnet.Options{Seed: 5, Validators: 1, NetworkID: constants.LocalID, History: &simnet.History{
		Options: history.Options{Txs: txs, Addresses: 40, EarlyTxs: early, Record: true}, Dir: t.TempDir(),
	}})
	require.NoError(t, err)
	t.Cleanup(n.Close)
	client, err := node.New(node.Options{Endpoints: []string{n.NodeURL()}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	b, err := client.BlockByHeight(t.Context(), 0)
	require.NoError(t, err)
	first, err := pchain.ParseBlock(b)
	require.NoError(t, err)
	w := &world{past: n.History(), truth: n.History().Generator().Truth(), rows: store.NewMemory(), upstream: &upstream{node: client}}
	t.Cleanup(func() { _ = w.rows.Close() })
	w.genesis, err = genesis.Of(n.NetworkID(), first.ID)
	require.NoError(t, err)
	w.chains, err = primary.New(primary.Options{NetworkID: n.NetworkID(), Node: client, Peers: history.Peer{Node: n.History()}, Store: w.rows, Genesis: w.genesis})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.chains.Run(ctx) })
	w.await(t)
	cancel()
	running.Wait()
	require.NoError(t, ledger.NewMatcher(w.rows, n.NetworkID(), nil).Settle(t.Context()))
	w.serve(t)
	return w
}

// await waits until all that was accepted is indexed.
func (w *world) await(t testing.TB) {
	t.Helper()
	for name, c := range map[string]history.Chain{"P": history.P, "X": history.X, "C": history.C} {
		want := w.past.Height(c) + 1
		if txs := uint64(len(w.truth.EarlyTxIDs)); c == history.X && txs > 0 {
			want += txs + 1 // and the genesis
		}
		require.Eventually(t, func() bool { return w.chains.ChainStatus(name).Next == want }, 3*time.Minute, 5*time.Millisecond, "chain %s", name)
	}
}

func (w *world) serve(t testing.TB) {
	t.Helper()
	aliases := ids.NewAliaser()
	for id, names := range map[ids.ID][]string{
		constants.PlatformChainID: avagenesis.PChainAliases, w.genesis.XChainID: avagenesis.XChainAliases, w.genesis.CChainID: avagenesis.CChainAliases,
	} {
		for _, name := range append(slices.Clone(names), id.String()) {
			require.NoError(t, aliases.Alias(id, name))
		}
	}
	w.sources = map[ids.ID]func() bool{}
	for _, id := range []ids.ID{constants.PlatformChainID, w.genesis.XChainID, w.genesis.CChainID} {
		w.sources[id] = func() bool { return true }
	}
	options := func(name string, id ids.ID) chain.Options {
		return chain.Options{
			NetworkID: w.genesis.NetworkID, ID: id, Name: name, Aliases: aliases, Store: w.rows, Ledger: w.chains.Ledger,
			Status: func() index.Status { // as if recording went on
				status := w.chains.ChainStatus(name)
				if status.State = index.Following; w.stalled.Load() {
					status.State = index.Stalled
				}
				return status
			},
			Sources: w.sources,
		}
	}
	p, x := options(index.PChain, constants.PlatformChainID), options(index.XChain, w.genesis.XChainID)
	p.Genesis, x.Genesis, x.Before = w.genesis.PTxs, w.genesis.XTxs, w.chains.XChainBefore
	about := platform.New(platform.Options{
		Chain: p, AVAXAssetID: w.genesis.AVAXAssetID, Subnets: w.chains.Subnets, Upstream: w.upstream, Path: "/ext/bc/P",
		Follows: func(id ids.ID) bool { return id == w.genesis.XChainID || id == w.genesis.CChainID },
	})
	assets, err := asset.New(asset.Options{Chain: x, Assets: w.chains.Ledger, Aliases: w.genesis.Aliases, Upstream: w.upstream, Path: "/ext/bc/X"})
	require.NoError(t, err)
	mux := http.NewServeMux()
	w.handlers = make(map[string]http.Handler)
	for name, e := range map[string]rpc.Endpoint{
		"P": {Services: []rpc.Service{{Names: platform.Names, Methods: about}}, Upstream: w.upstream, Path: "/ext/bc/P"},
		"X": {Services: []rpc.Service{{Names: asset.Names, Methods: assets}}, Upstream: w.upstream, Path: "/ext/bc/X", Rename: map[string]string{"xvm": "avm"}},
	} {
		h, err := rpc.NewHandler(e)
		require.NoError(t, err)
		w.handlers[name] = h
		mux.Handle("/"+name, h)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.url = server.URL
}

// call asks the service. The error is what it says.
func (w *world) call(t testing.TB, method, params string) (result json.RawMessage, failure string) {
	t.Helper()
	path := "/X"
	if strings.HasPrefix(method, "platform.") {
		path = "/P"
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, strings.NewReader(`{"jsonrpc":"2.0","id":"a","method":"`+method+`","params":`+params+`}`))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", b)
	var reply struct {
		Result json.RawMessage
		Error  *struct {
			Code    int
			Message string
		}
	}
	require.NoError(t, json.Unmarshal(b, &reply), "%s", b)
	if reply.Error != nil {
		require.Equal(t, -32000, reply.Error.Code)
		return nil, reply.Error.Message
	}
	return reply.Result, ""
}

func (w *world) ask(t testing.TB, method, params string, to any) {
	t.Helper()
	result, failure := w.call(t, method, params)
	require.Empty(t, failure, "%s %s", method, params)
	require.NoError(t, json.Unmarshal(result, to), "%s %s: %s", method, params, result)
}

// native is ask for what no node may be asked for.
func (w *world) native(t testing.TB, method, params string, to any) {
	t.Helper()
	before := w.upstream.calls.Load()
	w.ask(t, method, params, to)
	require.Equal(t, before, w.upstream.calls.Load(), "%s %s was forwarded", method, params)
}

// bytes asks for something in all hex forms.
func (w *world) bytes(t testing.TB, method, params, member string) []byte {
	t.Helper()
	var first []byte
	for i, e := range []formatting.Encoding{formatting.Hex, formatting.HexC, formatting.HexNC} {
		var reply map[string]string
		w.native(t, method, fmt.Sprintf(`{%s,"encoding":"%s"}`, params, strings.ToUpper(e.String())), &reply)
		require.Equal(t, e.String(), reply["encoding"])
		b, err := formatting.Decode(e, reply[member])
		require.NoError(t, err, "%s %s", method, params)
		if i == 0 {
			first = b
		}
		require.Equal(t, first, b)
	}
	return first
}

func (w *world) address(t testing.TB, c history.Chain, a ids.ShortID) string {
	t.Helper()
	text, err := address.Format(c.String(), constants.GetHRP(w.genesis.NetworkID), a[:])
	require.NoError(t, err)
	return text
}

// inner are blocks without envelopes, by height.
func (w *world) inner(t testing.TB, c history.Chain) (all [][]byte) {
	t.Helper()
	for height := range w.past.Height(c) + 1 {
		method := map[history.Chain]string{history.P: "platform", history.X: "avm"}[c]
		got, err := w.past.Call("/ext/bc/"+c.String(), method+".getBlockByHeight", fmt.Appendf(nil, `{"height":%d,"encoding":"hex"}`, height))
		require.NoError(t, err)
		var b bytes.Buffer
		_, err = got.(*history.Result).WriteTo(&b)
		require.NoError(t, err)
		var reply struct{ Block string }
		require.NoError(t, json.Unmarshal(b.Bytes(), &reply))
		raw, err := formatting.Decode(formatting.Hex, reply.Block)
		require.NoError(t, err)
		all = append(all, raw)
	}
	return all
}

//test:plain
func TestBlocksAndTransactions(t *testing.T) {
	for _, early := range []int{0, 60} {
		t.Run(strconv.Itoa(early), func(t *testing.T) { testBlocksAndTransactions(t, newWorld(t, 700, early)) })
	}
}

func testBlocksAndTransactions(t *testing.T, w *world) {
	parser, err := xchain.NewParser()
	require.NoError(t, err)
	kinds := make(map[string]bool) // members of transactions that were shown
	shown := func(raw json.RawMessage) {
		var tx struct {
			ID          ids.ID
			UnsignedTx  map[string]json.RawMessage
			Credentials json.RawMessage
		}
		require.NoError(t, json.Unmarshal(raw, &tx), "%s", raw)
		for name := range tx.UnsignedTx {
			kinds[name] = true
		}
		require.NotContains(t, string(raw), `"fxID":"11111111111111111111111111111111LpoYY"`)
	}
	transaction := func(service string, id ids.ID, want []byte) {
		params := `"txID":"` + id.String() + `"`
		got := w.bytes(t, service+".getTx", params, "tx")
		require.Equal(t, want, got)
		var reply struct {
			Tx       json.RawMessage
			Encoding string
		}
		for range 2 { // the second time as remembered
			w.native(t, service+".getTx", `{`+params+`,"encoding":"json"}`, &reply)
			require.Equal(t, "json", reply.Encoding)
		}
		shown(reply.Tx)
		require.Contains(t, string(reply.Tx), `"id":"`+id.String()+`"`)
	}
	heights := map[history.Chain]string{history.P: "platform", history.X: "xvm"}
	for c, service := range heights {
		blocks := w.inner(t, c)
		var height struct{ Height string }
		w.native(t, service+".getHeight", `{}`, &height)
		require.Equal(t, strconv.Itoa(len(blocks)-1), height.Height)
		for i, want := range blocks {
			got := w.bytes(t, service+".getBlockByHeight", fmt.Sprintf(`"height":"%d"`, i), "block")
			require.Equal(t, want, got, "%s block %d", c, i)
			var id, parent ids.ID
			txs := make(map[ids.ID][]byte)
			proposal := ids.Empty
			if c == history.P {
				b, err := pblock.Parse(pblock.Codec, want)
				require.NoError(t, err)
				id, parent = b.ID(), b.Parent()
				for _, tx := range b.Txs() {
					txs[tx.ID()] = tx.Bytes()
				}
				if read, err := pchain.ParseBlock(want); err == nil && read.Proposal != nil {
					proposal = read.Proposal.ID()
				}
			} else {
				b, err := parser.ParseBlock(want)
				require.NoError(t, err)
				id, parent = b.ID(), b.Parent()
				for _, tx := range b.Txs() {
					txs[tx.ID()] = tx.Bytes()
				}
			}
			got = w.bytes(t, service+".getBlock", `"blockID":"`+id.String()+`"`, "block")
			require.Equal(t, want, got)
			var reply struct {
				Block struct {
					ID, ParentID ids.ID
					Height       uint64
					Txs          []json.RawMessage
				}
				Encoding string
			}
			w.native(t, service+".getBlockByHeight", fmt.Sprintf(`{"height":%d,"encoding":"json"}`, i), &reply)
			require.Equal(t, id, reply.Block.ID)
			require.Equal(t, parent, reply.Block.ParentID)
			require.Equal(t, uint64(i), reply.Block.Height)
			for _, raw := range reply.Block.Txs {
				shown(raw)
			}
			for id, tx := range txs {
				transaction(service, id, tx)
				var status struct{ Status string }
				w.native(t, service+".getTxStatus", `{"txID":"`+id.String()+`"}`, &status)
				want := map[history.Chain]string{history.P: "Committed", history.X: "Accepted"}[c]
				if id == proposal {
					next, err := pchain.ParseBlock(blocks[i+1])
					require.NoError(t, err)
					if next.Kind == pchain.Abort {
						want = "Aborted"
						kinds["(aborted)"] = true
					}
				}
				require.Equal(t, want, status.Status)
			}
		}
		// A container's ID is not a block's.
		for i := range w.past.Height(c) {
			result, err := w.past.Call("/ext/index/"+c.String()+"/block", "index.getContainerByIndex", fmt.Appendf(nil, `{"index":%d,"encoding":"hex"}`, i))
			require.NoError(t, err)
			var b bytes.Buffer
			_, err = result.(*history.Result).WriteTo(&b)
			require.NoError(t, err)
			var container struct {
				ID    ids.ID
				Bytes string
			}
			require.NoError(t, json.Unmarshal(b.Bytes(), &container))
			raw, err := formatting.Decode(formatting.Hex, container.Bytes)
			require.NoError(t, err)
			if _, err := proposer.ParseWithoutVerification(raw); err == nil {
				_, failure := w.call(t, service+".getBlock", `{"blockID":"`+container.ID.String()+`"}`)
				require.Equal(t, "couldn't get block with id "+container.ID.String()+": not found", failure)
				kinds["(envelope)"] = true
			}
		}
	}
	_, failure := w.call(t, "platform.getTx", `{}`) // which is not the block at height 0
	require.Equal(t, "couldn't get tx: not found", failure)
	raw, _ := w.call(t, "avm.getBlockByHeight", `{"encoding":"json"}`)
	require.Contains(t, string(raw), `"txs":[]`)
	raw, _ = w.call(t, "avm.getTx", `{"txID":"`+w.genesis.AVAXAssetID.String()+`","encoding":"json"}`)
	require.Contains(t, string(raw), `"credentials":[]`)
	for _, id := range w.truth.EarlyTxIDs {
		got := w.bytes(t, "avm.getTx", `"txID":"`+id.String()+`"`, "tx")
		transaction("avm", id, got)
		tx, err := parser.ParseTx(got)
		require.NoError(t, err)
		require.Equal(t, id, tx.ID())
	}
	for service, all := range map[string]map[ids.ID][]byte{"platform": w.genesis.PTxs, "avm": w.genesis.XTxs} {
		require.NotEmpty(t, all)
		for id, want := range all {
			transaction(service, id, want)
		}
	}
	for _, name := range []string{
		"outputs", "importedInputs", "exportedOutputs", "operations", "initialStates", "stake", "signer", "subnetAuthorization",
		"genesisData", "(aborted)", "(envelope)",
	} {
		require.True(t, kinds[name], "no transaction with %s was shown", name)
	}
}

// outputs are those of an address that can be consumed on a chain.
func (w *world) outputs(c, source history.Chain, a ids.ShortID) map[ids.ID]*history.Output {
	staked := make(map[ids.ID]bool)
	for _, stakes := range w.past.CurrentStakes() {
		for _, s := range stakes {
			staked[s.TxID] = true
		}
	}
	all := make(map[ids.ID]*history.Output)
	for _, o := range w.truth.Unspent(c, a) {
		if o.Chain == source && (o.StakeEnd.IsZero() || !staked[o.TxID]) {
			all[o.ID] = o
		}
	}
	return all
}

// madeOf is what made a UTXO, of its bytes, which begin with the codec's version.
func madeOf(t *testing.T, utxo []byte) avax.UTXOID {
	t.Helper()
	require.GreaterOrEqual(t, len(utxo), 2+ids.IDLen+4)
	return avax.UTXOID{TxID: ids.ID(utxo[2:][:ids.IDLen]), OutputIndex: binary.BigEndian.Uint32(utxo[2+ids.IDLen:])}
}

type utxoPage struct {
	NumFetched string
	UTXOs      []string
	EndIndex   struct{ Address, UTXO string }
	Encoding   string
}

func TestUTXOsAndBalances(t *testing.T) {
	w := newWorld(t, 900, 0)
	parser, err := xchain.NewParser()
	require.NoError(t, err)
	services := map[history.Chain]string{history.P: "platform", history.X: "avm"}
	sum, exported, several, stakes := 0, 0, 0, 0
	for c, service := range services {
		for source := range history.C + 1 {
			for _, a := range w.past.Addresses() {
				want := w.outputs(c, source, a)
				for _, limit := range []int{0, 3, 1} {
					if limit == 1 && len(want) > 12 {
						continue
					}
					got := make(map[ids.ID]bool)
					start := "null"
					for range 200 {
						var page utxoPage
						w.native(t, service+".getUTXOs", fmt.Sprintf(`{"addresses":["%s"],"sourceChain":"%s","limit":"%d","startIndex":%s}`,
							w.address(t, c, a), source, limit, start), &page)
						require.Equal(t, strconv.Itoa(len(page.UTXOs)), page.NumFetched)
						require.NotNil(t, page.UTXOs)
						require.Equal(t, w.address(t, c, a), page.EndIndex.Address)
						last := ids.Empty
						for _, text := range page.UTXOs {
							b, err := formatting.Decode(formatting.Hex, text)
							require.NoError(t, err)
							made := madeOf(t, b)
							id := made.InputID()
							require.False(t, got[id], "UTXO %s comes twice", id)
							require.Positive(t, id.Compare(last))
							got[id], last = true, id
							require.NotNil(t, want[id], "%s of %s: UTXO %s", service, a, id)
						}
						if len(page.UTXOs) > 0 {
							require.Equal(t, last.String(), page.EndIndex.UTXO)
						}
						if limit == 0 || len(page.UTXOs) < limit {
							break
						}
						raw, err := json.Marshal(map[string]string{"address": page.EndIndex.Address, "utxo": page.EndIndex.UTXO})
						require.NoError(t, err)
						start = string(raw)
					}
					require.Len(t, got, len(want), "%s of %s from %s", service, a, source)
				}
				sum += len(want)
				for _, o := range want {
					if source != c {
						exported++
					}
					if len(o.Addresses) > 1 {
						several++
					}
					if !o.StakeEnd.IsZero() {
						stakes++
					}
				}
			}
		}
	}
	require.NotZero(t, sum)
	require.NotZero(t, exported)
	require.NotZero(t, several)
	require.NotZero(t, stakes, "no stake has ended")

	// Several addresses: each once, by address.
	var all []string
	want := make(map[ids.ID]*history.Output)
	for _, a := range w.past.Addresses() {
		all = append(all, `"`+a.String()+`"`) // as official clients send them
		for id, o := range w.outputs(history.P, history.P, a) {
			want[id] = o
		}
	}
	var page utxoPage
	w.native(t, "platform.getUTXOs", `{"addresses":[`+strings.Join(all, ",")+`]}`, &page)
	require.Len(t, page.UTXOs, min(len(want), 1024))
	got := make(map[string]bool)
	for start, round := "null", 0; ; round++ {
		require.Less(t, round, 1000)
		w.native(t, "platform.getUTXOs", `{"addresses":[`+strings.Join(all, ",")+`],"limit":17,"startIndex":`+start+`}`, &page)
		for _, u := range page.UTXOs {
			got[u] = true
		}
		if len(page.UTXOs) < 17 {
			break
		}
		start = fmt.Sprintf(`{"address":"%s","utxo":"%s"}`, page.EndIndex.Address, page.EndIndex.UTXO)
	}
	require.Len(t, got, len(want))

	now := uint64(time.Now().Unix())
	avax := w.genesis.AVAXAssetID
	found := 0
	for _, a := range w.past.Addresses() {
		var reply struct {
			Balance, Unlocked, LockedStakeable, LockedNotStakeable     string
			Balances, Unlockeds, LockedStakeables, LockedNotStakeables map[ids.ID]string
			UTXOIDs                                                    []struct {
				TxID        ids.ID
				OutputIndex uint32
			}
		}
		raw, failure := w.call(t, "platform.getBalance", `{"addresses":["`+w.address(t, history.P, a)+`"]}`)
		require.Empty(t, failure)
		require.NoError(t, json.Unmarshal(raw, &reply))
		sums := [4]uint64{}
		n := 0
		for _, o := range w.outputs(history.P, history.P, a) {
			if o.Kind != history.Transfer || o.AssetID != avax {
				continue
			}
			n++
			at := 1
			switch {
			case o.Locktime > now:
				at = 3
			case o.StakeableLocktime > now:
				at = 2
			}
			sums[0] += o.Amount
			sums[at] += o.Amount
		}
		for i, got := range []string{reply.Balance, reply.Unlocked, reply.LockedStakeable, reply.LockedNotStakeable} {
			require.Equal(t, strconv.FormatUint(sums[i], 10), got, "sum %d of %s", i, a)
		}
		if n == 0 {
			require.Contains(t, string(raw), `"balances":{},"unlockeds":{},"lockedStakeables":{},"lockedNotStakeables":{},"utxoIDs":null`)
		}
		found += n

		for _, partial := range []bool{false, true} {
			sums := make(map[ids.ID]uint64)
			for _, o := range w.outputs(history.X, history.X, a) {
				if o.Kind == history.Transfer && (partial || len(o.Addresses) == 1 && o.Locktime <= now) {
					sums[o.AssetID] += o.Amount
				}
			}
			var all struct {
				Balances []struct{ Asset, Balance string }
			}
			w.native(t, "xvm.getAllBalances", fmt.Sprintf(`{"address":"%s","includePartial":%t}`, w.address(t, history.X, a), partial), &all)
			require.NotNil(t, all.Balances)
			require.Len(t, all.Balances, len(sums))
			for _, one := range all.Balances {
				id := w.genesis.Aliases[one.Asset]
				if id == ids.Empty {
					id, err = ids.FromString(one.Asset)
					require.NoError(t, err)
				}
				require.Equal(t, strconv.FormatUint(sums[id], 10), one.Balance)
				var reply struct {
					Balance string
					UTXOIDs []json.RawMessage
				}
				w.native(t, "avm.getBalance", fmt.Sprintf(`{"address":"%s","assetID":"%s","includePartial":%t}`, a, one.Asset, partial), &reply)
				require.Equal(t, one.Balance, reply.Balance)
				require.NotEmpty(t, reply.UTXOIDs)
				found++
			}
		}
	}
	require.NotZero(t, found)
	raw, failure := w.call(t, "avm.getBalance", `{"address":"`+ids.ShortID{9}.String()+`","assetID":"AVAX"}`)
	require.Empty(t, failure)
	require.JSONEq(t, `{"balance":"0","utxoIDs":[]}`, string(raw))
	require.NotNil(t, parser)
}

func TestAssetsAndChains(t *testing.T) {
	w := newWorld(t, 300, 0)
	var asset struct {
		AssetID                    ids.ID
		Name, Symbol, Denomination string
	}
	w.native(t, "xvm.getAssetDescription", `{"assetID":"AVAX"}`, &asset)
	require.Equal(t, w.genesis.AVAXAssetID, asset.AssetID)
	require.Equal(t, "Avalanche AVAX 9", asset.Name+" "+asset.Symbol+" "+asset.Denomination)
	w.native(t, "avm.getAssetDescription", `{"assetID":"`+w.genesis.AVAXAssetID.String()+`"}`, &asset)
	raw, _ := w.call(t, "avm.getTxFee", `{}`)
	require.JSONEq(t, `{"txFee":"1000000","createAssetTxFee":"1000000"}`, string(raw))

	var reply struct{ Blockchains []founded }
	w.native(t, "platform.getBlockchains", `{}`, &reply)
	last := reply.Blockchains[len(reply.Blockchains)-2:]
	require.Equal(t, []ids.ID{w.genesis.CChainID, w.genesis.XChainID}, []ids.ID{last[0].ID, last[1].ID})
	require.Equal(t, "C-Chain", last[0].Name)
	require.Equal(t, constants.EVMID, last[0].VMID)
	require.Equal(t, constants.PrimaryNetworkID, last[0].SubnetID)
	require.Equal(t, w.founded(t), reply.Blockchains[:len(reply.Blockchains)-2])
	for argument, want := range map[string]string{
		"P": "Syncing", "X": "Syncing", "evm": "Syncing", constants.PlatformChainID.String(): "Syncing", w.genesis.CChainID.String(): "Syncing",
		reply.Blockchains[0].ID.String(): "Created", ids.ID{1, 2}.String(): "Unknown",
	} {
		var reply struct{ Status string }
		w.native(t, "platform.getBlockchainStatus", `{"blockchainID":"`+argument+`"}`, &reply)
		require.Equal(t, want, reply.Status, argument)
	}
}

// founded is a blockchain as platform.getBlockchains shows it.
type founded struct {
	ID, SubnetID, VMID ids.ID
	Name               string
}

// founded are the blockchains of subnets, as blocks tell: by the order in which their
// subnets were made, and within each the newest first.
func (w *world) founded(t testing.TB) (all []founded) {
	t.Helper()
	var subnets []ids.ID
	chains := make(map[ids.ID][]founded)
	for _, raw := range w.inner(t, history.P)[1:] {
		b, err := pchain.ParseBlock(raw)
		require.NoError(t, err)
		for _, tx := range b.Txs {
			switch u := tx.Unsigned.(type) {
			case *txs.CreateSubnetTx:
				subnets = append(subnets, tx.ID())
			case *txs.CreateChainTx:
				chains[u.SubnetID] = slices.Insert(chains[u.SubnetID], 0, founded{tx.ID(), u.SubnetID, u.VMID, u.ChainName})
			}
		}
	}
	for _, id := range subnets {
		all = append(all, chains[id]...)
	}
	require.Greater(t, len(subnets), 1)
	require.Greater(t, len(all), len(chains), "no subnet has two, so that nothing is known of their order")
	return all
}

func TestErrors(t *testing.T) {
	w := newWorld(t, 200, 0)
	const argument = "couldn't unmarshal an argument. Ensure arguments are valid and properly formatted. See documentation for example calls"
	absent := ids.ID{1, 2, 3}
	zero := ids.Empty.String()
	owner := w.past.Addresses()[0]
	x, p := w.address(t, history.X, owner), w.address(t, history.P, owner)
	var someTx ids.ID
	for _, o := range w.outputs(history.X, history.X, owner) {
		if o.TxID != w.genesis.AVAXAssetID && o.Chain == history.X && !o.Time.IsZero() && o.Height > 0 {
			someTx = o.TxID
		}
	}
	require.NotEqual(t, ids.Empty, someTx)
	type refused struct{ method, params, want string }
	tests := []refused{
		{"avm.getTx", `{}`, "nil transaction ID"},
		{"avm.getTx", `{"txID":null}`, "nil transaction ID"},
		{"avm.getTx", `{"txID":"` + absent.String() + `"}`, "not found"},
		{"avm.getTx", `{"txID":""}`, argument},
		{"avm.getTx", `{"txID":"` + zero + `","encoding":"cb58"}`, argument},
		{"avm.getTxStatus", `{}`, "nil transaction ID"},
		{"avm.getBalance", `{"address":"X-a","assetID":"AVAX"}`, `problem parsing address 'X-a': couldn't parse address "X-a": invalid bech32 string length 1`},
		{"avm.getBalance", `{"address":"` + x + `"}`, "asset '' not found"},
		{"avm.getBalance", `{"address":"` + p + `","assetID":"AVAX"}`, `problem parsing address '` + p + `': couldn't parse address "` + p + `": mismatched chainIDs: expected "` + w.genesis.XChainID.String() + `" but got "` + zero + `"`},
		{"avm.getBalance", `{"address":"` + strings.TrimPrefix(x, "X-") + `"}`, `problem parsing address '` + x[2:] + `': couldn't parse address "` + x[2:] + `": no separator found in address`},
		{"avm.getAllBalances", `{"address":""}`, `problem parsing address '': couldn't parse address "": no separator found in address`},
		{"avm.getAssetDescription", `{"assetID":"ETH"}`, "asset 'ETH' not found"},
		{"avm.getAssetDescription", `{}`, "asset '' not found"},
		{"avm.getAssetDescription", `{"assetID":"` + absent.String() + `"}`, "not found"},
		{"avm.getAssetDescription", `{"assetID":"` + someTx.String() + `"}`, "transaction doesn't create an asset"},
		{"avm.getUTXOs", `{"addresses":["` + x + `"],"encoding":"json"}`, "as string: unsupported encoding in method"},
		{"platform.getUTXOs", `{"addresses":["` + p + `"],"encoding":"json"}`, "as json: unsupported encoding in method"},
		{"platform.getTx", `{}`, "couldn't get tx: not found"},
		{"platform.getTx", `{"txID":"` + absent.String() + `"}`, "couldn't get tx: not found"},
		{"platform.getBalance", `{"addresses":["P-custom1"]}`, `couldn't parse address "P-custom1": invalid bech32 string length 7`},
		{"platform.getBalance", `{"addresses":"` + p + `"}`, argument},
		{"platform.getBlockchainStatus", `{}`, "argument 'blockchainID' not given"},
		{"platform.getBlockchainStatus", `{"blockchainID":"Q"}`, `problem parsing blockchainID "Q": input string is smaller than the checksum size`},
		{"platform.getCurrentValidators", `{"nodeIDs":["` + ids.NodeID{1}.String()[7:] + `"]}`, argument},
	}
	for service, own := range map[string]string{"platform": p, "avm": x} {
		many := strings.Repeat(`"`+own+`",`, 1024)
		tests = append(tests,
			refused{service + ".getBlock", `{}`, "couldn't get block with id " + zero + ": not found"},
			refused{service + ".getBlock", `{"blockID":"` + absent.String() + `"}`, "couldn't get block with id " + absent.String() + ": not found"},
			refused{service + ".getBlockByHeight", `{"height":"18446744073709551615"}`, "couldn't get block at height 18446744073709551615: not found"},
			refused{service + ".getBlockByHeight", `{"height":-1}`, argument},
			refused{service + ".getBlockByHeight", `{"height":1.5}`, argument},
			refused{service + ".getBlockByHeight", `{"height":1,"encoding":""}`, argument},
			refused{service + ".getUTXOs", `{}`, "no addresses provided"},
			refused{service + ".getUTXOs", `{"addresses":[` + many + `"` + own + `"]}`, "number of addresses given, 1025, exceeds maximum, 1024"},
			refused{service + ".getUTXOs", `{"addresses":["` + own + `"],"limit":-1}`, argument},
			refused{service + ".getUTXOs", `{"addresses":["` + own + `"],"sourceChain":"Q"}`, `problem parsing source chainID "Q": there is no ID with alias: Q`},
			refused{service + ".getUTXOs", `{"addresses":["a"]}`, `couldn't parse address "a": no separator found in address`},
			refused{service + ".getUTXOs", `{"addresses":["` + own + `"],"startIndex":{"utxo":"` + zero + `"}}`, `couldn't parse start index address "": couldn't parse address "": no separator found in address`},
			refused{service + ".getUTXOs", `{"addresses":["` + own + `"],"startIndex":{"address":"` + own + `"}}`, "couldn't parse start index utxo: base58 decoding error: zero length string"},
			refused{service + ".getUTXOs", `{"addresses":["` + strings.Replace(own, "local", "avax", 1) + `"]}`, "couldn't parse address"},
		)
	}
	before := w.upstream.calls.Load()
	for _, test := range tests {
		_, failure := w.call(t, test.method, test.params)
		require.Contains(t, failure, test.want, "%s %s", test.method, test.params)
		if strings.HasPrefix(test.want, "couldn't get") || test.want == argument {
			require.Equal(t, test.want, failure)
		}
	}
	require.Equal(t, before, w.upstream.calls.Load(), "nodes were asked")
	w.stalled.Store(true)
	for i, service := range []string{"platform", "avm"} {
		_, failure := w.call(t, service+".getBlockByHeight", `{"height":"18446744073709551615"}`)
		require.NotContains(t, failure, "upstream")
		require.EqualValues(t, i+1, w.upstream.calls.Load()-before, "nodes that may be ahead were not asked")
	}
	w.stalled.Store(false)
	raw, failure := w.call(t, "avm.getTxStatus", `{"txID":"`+absent.String()+`"}`)
	require.Empty(t, failure)
	require.JSONEq(t, `{"status":"Unknown"}`, string(raw))
	raw, failure = w.call(t, "platform.getBalance", `{}`)
	require.Empty(t, failure)
	require.Contains(t, string(raw), `"balance":"0"`)
}

// TestStatusOfANewTransaction indexes a transaction of the X-Chain while an upstream node reports that it is accepted, or
// never.
func TestStatusOfANewTransaction(t *testing.T) {
	w := newWorld(t, 100, 0)
	w.stalled.Store(true)
	blocks := w.inner(t, history.X)
	parser, err := xchain.NewParser()
	require.NoError(t, err)
	last, err := parser.ParseBlock(blocks[len(blocks)-1])
	require.NoError(t, err)
	id := last.Txs()[0].ID()
	var b, again store.Batch
	for row, err := range store.Rows(t.Context(), w.rows, store.FamilyTxPlace) {
		require.NoError(t, err)
		b.Delete(store.FamilyTxPlace, row.PK)
		again.Put(store.FamilyTxPlace, row.PK, row.V)
	}
	require.NoError(t, w.rows.Commit(t.Context(), &b))
	requireStatus := func(want string) {
		t.Helper()
		raw, failure := w.call(t, "avm.getTxStatus", `{"txID":"`+id.String()+`"}`)
		require.Empty(t, failure)
		require.JSONEq(t, `{"status":"`+want+`"}`, string(raw))
	}
	indexes := func() error { return nil }
	w.upstream.set(func(string) string {
		if err := indexes(); err != nil {
			return err.Error()
		}
		return `{"jsonrpc":"2.0","result":{"status":"Accepted"},"id":1}`
	})
	requireStatus("Processing")
	indexes = func() error { return w.rows.Commit(t.Context(), &again) }
	requireStatus("Accepted")
	// Without the store, the node's answer is the best.
	indexes = func() error { return nil }
	require.NoError(t, w.rows.Close())
	requireStatus("Accepted")
}

// TestStatusOfANewBlockchain asks nodes about a blockchain that an index that is behind lacks.
func TestStatusOfANewBlockchain(t *testing.T) {
	w := newWorld(t, 100, 0)
	w.upstream.set(func(string) string { return `{"jsonrpc":"2.0","result":{"status":"Preferred"},"id":"a"}` })
	requireStatus := func(want string) {
		t.Helper()
		raw, failure := w.call(t, "platform.getBlockchainStatus", `{"blockchainID":"`+ids.ID{1}.String()+`"}`)
		require.Empty(t, failure)
		require.JSONEq(t, `{"status":"`+want+`"}`, string(raw))
	}
	requireStatus("Unknown")
	w.stalled.Store(true)
	requireStatus("Preferred")
	w.upstream.set(func(string) string { return "" })
	requireStatus("Unknown")
}

func TestWhatOnlyNodesKnow(t *testing.T) {
	w := newWorld(t, 100, 0)
	asked := atomic.Int64{}
	hold := make(chan struct{})
	close(hold)
	w.upstream.set(func(body string) string {
		asked.Add(1)
		<-hold
		if strings.Contains(body, ids.GenerateTestID().String()) || strings.Contains(body, "getCurrentSupply") {
			return `{"jsonrpc":"2.0","error":{"code":-32000,"message":"fetching current supply failed: not found","data":null},"id":1}`
		}
		return `{"jsonrpc":"2.0","result":{"validators":[{"txID":"a\\u003cb"}]},"id":1}` + "\n"
	})
	one, two := ids.NodeID{1}, ids.NodeID{2}
	for _, params := range []string{
		fmt.Sprintf(`{"nodeIDs":["%s","%s"]}`, one, two), fmt.Sprintf(`{"nodeIDs":["%s","%s","%s"]}`, two, one, two), fmt.Sprintf(`[{"nodeIDs":["%s","%s"]}]`, two, one),
	} {
		raw, failure := w.call(t, "platform.getCurrentValidators", params)
		require.Empty(t, failure)
		require.Equal(t, `{"validators":[{"txID":"a\\u003cb"}]}`, string(raw))
	}
	require.EqualValues(t, 1, asked.Load(), "one question is asked once")
	for range 2 {
		_, failure := w.call(t, "platform.getCurrentSupply", `{"subnetID":"`+ids.ID{7}.String()+`"}`)
		require.Equal(t, "fetching current supply failed: not found", failure)
	}
	require.EqualValues(t, 2, asked.Load(), "a refusal is remembered, too")

	// Many at once share an answer.
	hold = make(chan struct{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			raw, _ := w.call(t, "platform.getCurrentValidators", `{}`)
			if !strings.Contains(string(raw), "validators") {
				t.Errorf("got %s", raw)
			}
		})
	}
	require.Eventually(t, func() bool { return asked.Load() == 3 }, time.Minute, time.Millisecond)
	close(hold)
	group.Wait()
	require.EqualValues(t, 3, asked.Load())

	// A transaction that is not indexed may be on its way.
	id := ids.ID{1}
	for said, want := range map[string]string{
		`{"status":"Processing"}`:              `{"status":"Processing"}`,
		`{"status":"Dropped","reason":"why"}`:  `{"status":"Dropped","reason":"why"}`,
		`{"status":"Committed"}`:               `{"status":"Processing"}`,
		`{"status":"Unknown"}`:                 `{"status":"Unknown"}`,
		`{"status":"Aborted","reason":"none"}`: `{"status":"Processing","reason":"none"}`,
	} {
		w.upstream.set(func(string) string { return `{"jsonrpc":"2.0","result":` + said + `,"id":1}` })
		raw, failure := w.call(t, "platform.getTxStatus", `{"txID":"`+id.String()+`"}`)
		require.Empty(t, failure)
		require.JSONEq(t, want, string(raw))
	}
	w.upstream.set(func(string) string { return "" })
	raw, failure := w.call(t, "platform.getTxStatus", `{"txID":"`+id.String()+`"}`)
	require.Equal(t, "the upstream node does not answer platform.getTxStatus", failure, "no node knows is another answer: %s", raw)
	_, failure = w.call(t, "platform.getCurrentValidators", `{"subnetID":"`+id.String()+`"}`)
	require.Equal(t, "the upstream node does not answer platform.getCurrentValidators", failure)

	// From a chain whose exports are not indexed yet, nodes answer.
	w.sources[constants.PlatformChainID] = func() bool { return false }
	w.upstream.set(func(string) string { return `{"jsonrpc":"2.0","result":"from upstream","id":"a"}` })
	raw, _ = w.call(t, "xvm.getUTXOs", `{"addresses":["`+ids.ShortID{1}.String()+`"],"sourceChain":"P"}`)
	require.Equal(t, `"from upstream"`, string(raw))
	// Nodes may have what an index that is behind lacks.
	w.stalled.Store(true)
	for method, params := range map[string]string{
		"avm.getBlock": `{"blockID":"` + id.String() + `"}`, "avm.getBlockByHeight": `{"height":"1000"}`, "avm.getTx": `{"txID":"` + id.String() + `"}`,
		"platform.getBlock": `{"blockID":"` + id.String() + `"}`, "platform.getTx": `{"txID":"` + id.String() + `"}`,
		"avm.getAssetDescription": `{"assetID":"` + id.String() + `"}`,
	} {
		raw, _ = w.call(t, method, params)
		require.Equal(t, `"from upstream"`, string(raw), method)
	}
	for said, want := range map[string]string{"Processing": "Processing", "Accepted": "Processing", "Unknown": "Unknown"} {
		w.upstream.set(func(string) string { return `{"jsonrpc":"2.0","result":{"status":"` + said + `"},"id":1}` })
		raw, failure := w.call(t, "avm.getTxStatus", `{"txID":"`+id.String()+`"}`)
		require.Empty(t, failure)
		require.JSONEq(t, `{"status":"`+want+`"}`, string(raw), "its outputs are not indexed")
	}
	w.upstream.set(func(string) string { return `{"jsonrpc":"2.0","result":"from upstream","id":"a"}` })
	// And what the record has lost.
	require.NoError(t, w.rows.Close())
	for _, method := range []string{"avm.getBlockByHeight", "platform.getBlockchains", "avm.getBlock", "platform.getBlock"} {
		raw, _ = w.call(t, method, `{}`)
		require.Equal(t, `"from upstream"`, string(raw), method)
	}
}
