package evm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/compat"
	api "quorate/handlers/evm"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/index/evm/metadata"
	"quorate/internal/node"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/store"
)

// indexed is a made-up chain that is really fetched and indexed.
type indexed struct {
	t     *testing.T
	truth *evmchain.Truth
	node  *evmchain.Node
	chain api.Chain
	wake  func()

	mu      sync.Mutex
	next    uint64        // guarded by mu; the height that is indexed next
	advance chan struct{} // guarded by mu; closed when next changes
}

func newIndexed(t *testing.T, transactions int) *indexed {
	t.Helper()
	const networkID = 5
	documents := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"name":%q,"decimals":2,"properties":{"a":1},"attributes":[1]}`, r.URL.Path)
	}))
	t.Cleanup(documents.Close)
	g, err := evmchain.New(evmchain.Options{Seed: 7, Txs: transactions, NetworkID: networkID, BlockchainID: cChainID, Record: true, MetadataURL: documents.URL})
	require.NoError(t, err)
	n, err := evmchain.NewNode(g, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	require.NoError(t, n.Grow(t.Context(), transactions))
	upstream := httptest.NewServer(n)
	t.Cleanup(upstream.Close)
	client, err := node.New(node.Options{Endpoints: []string{upstream.URL}, Timeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	rows := store.NewMemory()
	t.Cleanup(func() { require.NoError(t, rows.Close()) })
	evmNode := client.EVM("")
	book := contracts.New(contracts.Options{Node: evmNode, Store: rows, NetworkID: networkID, BlockchainID: cChainID})
	t.Cleanup(book.Close)
	fetcher, err := metadata.NewFetcher(metadata.FetchOptions{AllowPrivate: true, Timeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(fetcher.Close)
	keeper := metadata.New(metadata.Options{Contracts: book, Fetcher: fetcher, Store: rows, NetworkID: networkID, BlockchainID: cChainID, Rate: 1000})

	r := &indexed{t: t, truth: g.Truth(), node: n, advance: make(chan struct{})}
	name := index.EVMChain(g.ChainID())
	pipeline, err := index.New(index.Options[*chain.Block]{
		NetworkID: networkID, Chain: name, Store: rows,
		Source:      index.NewEVMSource(index.EVMOptions{Node: evmNode, Chain: name}),
		Projections: []index.Projection[*chain.Block]{evm.NewProjection(networkID, cChainID).With(evm.ChainMetrics)},
		Committed:   r.committed,
	})
	require.NoError(t, err)
	r.wake = pipeline.Wake
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { keeper.Run(ctx) })
	running.Go(func() { _ = pipeline.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	record := evm.New(rows, networkID, cChainID, book)
	r.chain = api.Chain{
		ChainID: g.ChainID(), BlockchainID: cChainID, Primary: true,
		Progress: func(context.Context) reply.Progress {
			status := pipeline.Status()
			p := reply.Progress{Lag: status.Lag(), CaughtUp: status.State == index.Following, Err: status.Err}
			if tip, err := record.Tip(context.Background()); err == nil {
				p.Height, p.Time = tip.Number, time.Unix(int64(tip.Time), 0)
			}
			return p
		},
		Index: record, Contracts: book, URIs: book, Node: evmNode, Metadata: keeper,
	}
	r.await()
	return r
}

func (r *indexed) committed(next uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = next
	close(r.advance)
	r.advance = make(chan struct{})
}

// await returns once all there is has been indexed.
func (r *indexed) await() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		r.mu.Lock()
		next, advance := r.next, r.advance
		r.mu.Unlock()
		if p := r.chain.Progress(r.t.Context()); next == r.node.Tip()+1 && p.CaughtUp && p.Height == r.node.Tip() {
			return
		}
		r.wake()
		select {
		case <-ctx.Done():
			r.t.Fatalf("indexed up to %d of %d: %+v", next, r.node.Tip(), r.chain.Progress(r.t.Context()))
		case <-advance:
		case <-ticker.C:
		}
	}
}

// shown is what the tests look at of any answer's items.
type shown struct {
	BlockNumber, BlockHash, TxHash, TxStatus, Value, Balance string
	BlockIndex, LogIndex                                     int
	From, To                                                 struct{ Address, Name, Symbol string }
	Address, Name, Symbol, ERCType, TokenID, OwnerAddress    string
	InternalTxType, GasUsed, GasLimit                        string
	IsReverted                                               bool
	Decimals                                                 *uint8
	Token                                                    struct{ Address, TokenID, TokenURI string }                       `json:"erc1155Token"`
	Details                                                  struct{ TxHash, DeployerAddress, DeployerContractAddress string } `json:"deploymentDetails"`
}

// all walks the pages of a list. Between two of them it calls between, if that is not
// nil.
func (r *indexed) all(h http.Handler, path, member string, size int, between func()) (items []shown, native []string) {
	r.t.Helper()
	token := ""
	for {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		w := apitest.Get(h, fmt.Sprintf("%s%spageSize=%d&pageToken=%s", path, separator, size, token))
		require.Equal(r.t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
		var page map[string]json.RawMessage
		require.NoError(r.t, json.Unmarshal(w.Body.Bytes(), &page))
		var some []shown
		require.NoError(r.t, json.Unmarshal(page[member], &some))
		items = append(items, some...)
		if page["nativeTokenBalance"] != nil {
			var balance struct{ Balance string }
			require.NoError(r.t, json.Unmarshal(page["nativeTokenBalance"], &balance))
			native = append(native, balance.Balance)
		}
		if page["nextPageToken"] == nil {
			return items, native
		}
		require.Len(r.t, some, size, "only the last page is short")
		require.NoError(r.t, json.Unmarshal(page["nextPageToken"], &token))
		if between != nil {
			between()
		}
	}
}

// texts are what can be compared of items.
func texts(items []shown, text func(*shown) string) []string {
	all := make([]string, len(items))
	for i := range items {
		all[i] = text(&items[i])
	}
	return all
}

// line has all values, with blanks between them.
func line(values ...any) string { return strings.TrimSuffix(fmt.Sprintln(values...), "\n") }

// requireSame says of two lists where they part.
func requireSame(t *testing.T, want, got []string, of string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "%s: item %d", of, i)
	}
	require.Len(t, got, len(want), of)
}

func (r *indexed) latest(success *bool) (want []string) {
	for _, b := range slices.Backward(r.truth.Blocks()) {
		for i, tx := range slices.Backward(b.Transactions) {
			if success == nil || *success == tx.Success {
				to := tx.Created
				if tx.To != nil {
					to = *tx.To
				}
				want = append(want, line(b.Number, b.Hash, i, tx.Hash, tx.Success, tx.From, to, tx.Value.Dec(), tx.GasUsed))
			}
		}
	}
	return want
}

func latestText(s *shown) string {
	return line(s.BlockNumber, s.BlockHash, s.BlockIndex, s.TxHash, s.TxStatus == "1", s.From.Address, s.To.Address, s.Value, s.GasUsed)
}

var frameNames = map[chain.FrameType]string{chain.FrameCall: "CALL", chain.FrameCallCode: "CALLCODE", chain.FrameCreate: "CREATE", chain.FrameCreate2: "CREATE2"}

// busiest are the wallets with the most of something, and their numbers of it.
func busiest(counts map[common.Address]int, most int) []common.Address {
	wallets := make([]common.Address, 0, len(counts))
	for w := range counts {
		wallets = append(wallets, w)
	}
	slices.SortFunc(wallets, func(a, b common.Address) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return bytes.Compare(a[:], b[:])
	})
	return wallets[:min(most, len(wallets))]
}

// TestRecordedChain compares answers from a real index with the generator of the chain.
//
//test:plain
func TestRecordedChain(t *testing.T) {
	r := newIndexed(t, 1500)
	h := surface(t, compat.Auto, api.Options{}, r.chain)
	base := "/v1/chains/" + strconv.FormatUint(r.chain.ChainID, 10)
	rng := rand.New(rand.NewPCG(1, 2))

	t.Run("latest", func(t *testing.T) {
		for status, success := range map[string]*bool{"": nil, "?status=failed": ptr(false), "?status=success": ptr(true)} {
			want := r.latest(success)
			require.NotEmpty(t, want)
			got, _ := r.all(h, base+"/transactions"+status, "transactions", 97, nil)
			requireSame(t, want, texts(got, latestText), status)
		}
	})
	t.Run("blocks", func(t *testing.T) { r.testBlocks(t, h, base) })
	t.Run("transactions", func(t *testing.T) { r.testTransactions(t, h, base) })
	t.Run("rolling windows", func(t *testing.T) { r.testWindows(t, h, strings.Replace(base, "/v1/", "/v2/", 1)) })
	t.Run("ICM messages", func(t *testing.T) {
		var want, got []string
		for _, b := range slices.Backward(r.truth.Blocks()) {
			for _, tx := range slices.Backward(b.Transactions) {
				for _, m := range slices.Backward(chain.Messages(tx.Logs)) {
					want = append(want, line(m.ID, m.Delivered, tx.Hash))
				}
			}
		}
		require.NotEmpty(t, want)
		for _, m := range icmPages(t, h, "/v1/icm/messages?blockchainId="+cChainID.String(), 7) {
			delivered := m["status"] == "delivered_source_not_indexed"
			step := m["lifecycle"].([]any)[0].(map[string]any)
			got = append(got, line(m["messageId"], delivered, step["txHash"]))
		}
		requireSame(t, want, got, "")
	})
	t.Run("internals", func(t *testing.T) {
		counts := make(map[common.Address]int)
		for _, a := range r.truth.Accounts() {
			counts[a] = len(r.truth.Internals(a))
		}
		for _, wallet := range busiest(counts, 40) {
			var want, some []string
			from, to := uint64(5), r.node.Tip()-5
			for _, f := range slices.Backward(r.truth.Internals(wallet)) {
				text := line(f.Block, f.TxHash, f.From, f.To, frameNames[f.Type], f.Value.Dec(), f.Reverted, f.GasUsed, f.Gas)
				want = append(want, text)
				if f.Block >= from && f.Block < to {
					some = append(some, text)
				}
			}
			path := base + "/addresses/" + wallet.Hex() + "/transactions:listInternals"
			text := func(s *shown) string {
				return line(s.BlockNumber, s.TxHash, s.From.Address, s.To.Address, s.InternalTxType, s.Value, s.IsReverted, s.GasUsed, s.GasLimit)
			}
			got, _ := r.all(h, path, "transactions", 7, nil)
			requireSame(t, want, texts(got, text), wallet.Hex())
			got, _ = r.all(h, fmt.Sprintf("%s?startBlock=%d&endBlock=%d", path, from, to), "transactions", 100, nil)
			require.ElementsMatch(t, some, texts(got, text))
		}
	})
	t.Run("transfers", func(t *testing.T) {
		counts := make(map[common.Address]int)
		want := make(map[common.Address][]string)
		for _, x := range slices.Backward(r.truth.Transfers()) {
			if x.Standard != chain.ERC1155 {
				continue
			}
			text := line(x.Block, x.TxHash, x.LogIndex, x.Contract, x.From, x.To, x.TokenID.Dec(), x.Amount.Dec())
			for _, party := range slices.Compact([]common.Address{x.From, x.To}) {
				want[party] = append(want[party], text)
				counts[party]++
			}
		}
		require.NotEmpty(t, counts)
		for _, wallet := range busiest(counts, 40) {
			got, _ := r.all(h, base+"/addresses/"+wallet.Hex()+"/transactions:listErc1155", "transactions", 9, nil)
			requireSame(t, want[wallet], texts(got, func(s *shown) string {
				return line(s.BlockNumber, s.TxHash, s.LogIndex, s.Token.Address, s.From.Address, s.To.Address, s.Token.TokenID, s.Value)
			}), wallet.Hex())
		}
	})
	t.Run("balances", func(t *testing.T) {
		counts := make(map[common.Address]int)
		for _, a := range r.truth.Accounts() {
			if n := len(r.truth.Balances(a, r.node.Tip())); n > 0 {
				counts[a] = n
			}
		}
		for _, wallet := range busiest(counts, 15) {
			for _, at := range []uint64{0, rng.Uint64N(r.node.Tip()), rng.Uint64N(r.node.Tip()), r.node.Tip()} {
				var want []string
				for _, b := range r.truth.Balances(wallet, at) {
					want = append(want, line(b.Contract, b.TokenID.Dec(), b.Amount.Dec()))
				}
				path := base + "/addresses/" + wallet.Hex() + "/balances:listErc1155"
				if at != r.node.Tip() {
					path += fmt.Sprintf("?blockNumber=%d", at)
				}
				got, native := r.all(h, path, "erc1155TokenBalances", 4, nil)
				require.ElementsMatch(t, want, texts(got, func(s *shown) string { return line(s.Address, s.TokenID, s.Balance) }), "%s at %d", wallet, at)
				owned := r.truth.Native(wallet, at)
				for _, n := range native {
					require.Equal(t, owned.Dec(), n)
				}
			}
		}
		requireError(t, apitest.Get(h, base+"/addresses/"+alice.Hex()+"/balances:listErc1155?blockNumber="+fmt.Sprint(r.node.Tip()+1)), 400, "blockNumber: ")
	})
	t.Run("deployments", func(t *testing.T) {
		known := make(map[common.Address]evmchain.Contract)
		for _, c := range r.truth.Contracts() {
			known[c.Address] = c
		}
		kinds := map[chain.Standard]string{chain.Unknown: "UNKNOWN", chain.ERC20: "ERC-20", chain.ERC721: "ERC-721", chain.ERC1155: "ERC-1155"}
		want, counts := make(map[common.Address][]string), make(map[common.Address]int)
		newest := make(map[common.Address]common.Hash)
		for _, d := range slices.Backward(r.truth.Deployments()) {
			creator := ""
			by := []common.Address{d.Deployer}
			if d.Creator != nil {
				creator = d.Creator.Hex()
				by = append(by, *d.Creator)
			}
			for _, who := range by {
				want[who] = append(want[who], line(d.Contract, d.TxHash, d.Deployer, creator))
				counts[who]++
			}
			if _, later := newest[d.Contract]; !later {
				newest[d.Contract] = d.TxHash
			}
		}
		for _, who := range busiest(counts, 20) {
			got, _ := r.all(h, base+"/contracts/"+who.Hex()+"/deployments", "contracts", 3, nil)
			requireSame(t, want[who], texts(got, func(s *shown) string {
				return line(s.Address, s.Details.TxHash, s.Details.DeployerAddress, s.Details.DeployerContractAddress)
			}), who.Hex())
			for _, s := range got {
				c, ok := known[common.HexToAddress(s.Address)]
				if !ok {
					require.Equal(t, "UNKNOWN", s.ERCType)
					continue
				}
				require.Equal(t, kinds[c.Standard], s.ERCType, s.Address)
				require.Equal(t, c.Decimals, s.Decimals)
				if c.Standard != chain.Unknown {
					require.Equal(t, []string{c.Name, c.Symbol}, []string{s.Name, s.Symbol})
				}
			}
		}
		require.NotEmpty(t, newest)
		for at, hash := range newest {
			w := apitest.Get(h, base+"/contracts/"+at.Hex()+"/transactions:getDeployment")
			require.Equal(t, 200, w.Code, w.Body)
			var got struct {
				NativeTransaction    shown
				InternalTransactions []shown
				ERC20                []shown `json:"erc20Transfers"`
				ERC721               []shown `json:"erc721Transfers"`
				ERC1155              []shown `json:"erc1155Transfers"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
			require.Equal(t, hash.Hex(), got.NativeTransaction.TxHash)
			moved := make(map[chain.Standard][]string)
			for _, x := range r.truth.Transfers() {
				if x.TxHash == hash {
					moved[x.Standard] = append(moved[x.Standard], line(x.LogIndex, x.From, x.To))
				}
			}
			for standard, items := range map[chain.Standard][]shown{chain.ERC20: got.ERC20, chain.ERC721: got.ERC721, chain.ERC1155: got.ERC1155} {
				require.NotNil(t, items)
				require.ElementsMatch(t, moved[standard], texts(items, func(s *shown) string { return line(s.LogIndex, s.From.Address, s.To.Address) }))
			}
		}
	})
	t.Run("tokens", func(t *testing.T) {
		collections := 0
		for _, c := range r.truth.Contracts() {
			path := base + "/nfts/collections/" + c.Address.Hex() + "/tokens"
			if c.Standard != chain.ERC721 && c.Standard != chain.ERC1155 {
				requireError(t, apitest.Get(h, path), http.StatusNotFound, "address: ")
				continue
			}
			var want []string
			for _, token := range r.truth.Tokens(c.Address, r.node.Tip()) {
				owner := ""
				if token.Owner != nil {
					owner = token.Owner.Hex()
				}
				want = append(want, line(token.TokenID.Dec(), owner))
			}
			if len(want) == 0 {
				continue
			}
			collections++
			got, _ := r.all(h, path, "tokens", 5, nil)
			requireSame(t, want, texts(got, func(s *shown) string { return line(s.TokenID, s.OwnerAddress) }), c.Address.Hex())
		}
		require.Greater(t, collections, 3)
	})
	t.Run("days", func(t *testing.T) {
		var want []string
		days := r.truth.Days()
		for i, d := range slices.Backward(days) {
			if i > 0 && len(days)-i > 1 { // of the last one only a part has passed on the chain
				want = append(want, line(d.Start, math.Round(float64(d.Transactions)/86400*100)/100))
			}
		}
		// Its blocks are old. Recording has stopped, so that no days without any follow.
		stalled := r.chain
		stalled.Progress = func(context.Context) reply.Progress {
			p := r.chain.Progress(r.t.Context())
			p.Err = node.ErrUnavailable
			return p
		}
		w := apitest.Get(surface(t, compat.Auto, api.Options{}, stalled), "/v1/avg_tps/"+strconv.FormatUint(r.chain.ChainID, 10))
		require.Equal(t, 200, w.Code, w.Body)
		var series struct {
			Results []struct {
				Timestamp int64
				Value     float64
			}
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &series))
		var got []string
		for _, p := range series.Results {
			got = append(got, line(p.Timestamp, p.Value))
		}
		require.Equal(t, want, got[1:1+len(want)])
	})
	// Blocks that arrive while pages are read do not change them.
	t.Run("growth", func(t *testing.T) {
		want := r.latest(nil)
		grow := func() {
			require.NoError(t, r.node.Grow(t.Context(), 10))
			r.await()
		}
		got, _ := r.all(h, base+"/transactions", "transactions", 100, grow)
		requireSame(t, want, texts(got, latestText), "while blocks come")
		require.Greater(t, len(r.latest(nil)), len(want))
	})
}

// TestOfficialClientOnRecord has the official client read a real index to the last page.
func TestOfficialClientOnRecord(t *testing.T) {
	client := chainkit.Install(t)
	r := newIndexed(t, 600)
	holders, callers, movers := make(map[common.Address]int), make(map[common.Address]int), make(map[common.Address]int)
	for _, a := range r.truth.Accounts() {
		holders[a], callers[a] = len(r.truth.Balances(a, r.node.Tip())), len(r.truth.Internals(a))
	}
	for _, x := range r.truth.Transfers() {
		if x.Standard == chain.ERC1155 {
			for _, party := range slices.Compact([]common.Address{x.From, x.To}) {
				movers[party]++
			}
		}
	}
	delete(movers, common.Address{})
	deployers, collections := make(map[common.Address]int), make(map[chain.Standard]map[common.Address]int)
	deployments := r.truth.Deployments()
	for _, d := range deployments {
		deployers[d.Deployer]++
	}
	for _, c := range r.truth.Contracts() {
		if collections[c.Standard] == nil {
			collections[c.Standard] = make(map[common.Address]int)
		}
		collections[c.Standard][c.Address] = len(r.truth.Tokens(c.Address, r.node.Tip()))
	}
	id := fmt.Sprint(r.chain.ChainID)
	list := func(name, path, member string, size int, who common.Address, count int) call {
		request := map[string]any{"chainId": id, "pageSize": size}
		if path != "data.evm.transactions.listLatest" {
			request["address"] = who.Hex()
		}
		return call{Call: chainkit.Call{Name: name, Path: path, List: member, Request: request}, count: count, pages: max(1, (count+size-1)/size)}
	}
	holder, caller, mover, deployer := busiest(holders, 1)[0], busiest(callers, 1)[0], busiest(movers, 1)[0], busiest(deployers, 1)[0]
	cards, items := busiest(collections[chain.ERC721], 1)[0], busiest(collections[chain.ERC1155], 1)[0]
	calls := []call{
		list("latest", "data.evm.transactions.listLatest", "transactions", 50, common.Address{}, len(r.latest(nil))),
		list("internal", "data.evm.address.transactions.listInternal", "transactions", 10, caller, callers[caller]),
		list("transfers", "data.evm.address.transactions.listErc1155", "transactions", 10, mover, movers[mover]),
		list("balances", "data.evm.address.balances.listErc1155", "erc1155TokenBalances", 5, holder, holders[holder]),
		list("deployments", "data.evm.address.contracts.listDeployments", "contracts", 2, deployer, deployers[deployer]),
		list("cards", "data.nfts.list", "tokens", 5, cards, collections[chain.ERC721][cards]),
		list("items", "data.nfts.list", "tokens", 3, items, collections[chain.ERC1155][items]),
	}
	for i, d := range deployments[:min(5, len(deployments))] {
		calls = append(calls, call{Call: chainkit.Call{Name: fmt.Sprint("deployment ", i), Path: "data.evm.contracts.getDeploymentTransaction", Request: map[string]any{"chainId": id, "address": d.Contract.Hex()}}})
	}
	plain := make([]chainkit.Call, len(calls))
	for i, c := range calls {
		plain[i] = c.Call
	}
	for _, mode := range []compat.Mode{compat.Auto, compat.On, compat.Off} {
		t.Run(string(mode), func(t *testing.T) {
			server := httptest.NewServer(surface(t, mode, api.Options{}, r.chain))
			defer server.Close()
			for i, got := range client.Run(t, server.URL, plain) {
				c := calls[i]
				if mode == compat.Off && got.Error != nil {
					// The documented word for metadata that were had is not the client's;
					// which were had by now is not known.
					require.Equal(t, "ResponseValidationError", got.Error.Type, c.Name)
					require.Contains(t, []string{"transfers", "balances", "cards", "items"}, c.Name)
					continue
				}
				require.Nil(t, got.Error, "%s: %+v", c.Name, got.Error)
				if c.List == "" {
					require.NotEmpty(t, got.Pages[0]["nativeTransaction"])
					continue
				}
				require.Len(t, got.Pages, c.pages, c.Name)
				count := 0
				for _, page := range got.Pages {
					count += len(page[c.List].([]any))
				}
				require.Equal(t, c.count, count, c.Name)
			}
		})
	}
}

// testWindows compares rolling windows with the blocks of the chain.
func (r *indexed) testWindows(t *testing.T, h http.Handler, base string) {
	blocks := r.truth.Blocks()
	end := time.Unix(int64(blocks[len(blocks)-1].Time), 0).UTC().Truncate(time.Hour).Add(time.Hour)
	transactions, senders := make(map[string]float64), make(map[string]float64)
	for name, hours := range hosted {
		distinct := make(map[common.Address]bool)
		for _, b := range blocks {
			if name != "allTime" && int64(b.Time) < end.Add(-time.Duration(hours)*time.Hour).Unix() {
				continue
			}
			transactions[name] += float64(len(b.Transactions))
			for i := range b.Transactions {
				tx := &b.Transactions[i]
				distinct[tx.From] = true
				for j := 0; tx.Success && j < len(tx.Logs); j++ {
					for _, transfer := range chain.Transfers(&tx.Logs[j]) {
						distinct[transfer.From] = true
					}
				}
			}
		}
		delete(distinct, common.Address{})
		senders[name] = float64(len(distinct))
	}
	for metric, want := range map[string]map[string]float64{"txCount": transactions, "activeSenders": senders} {
		w := apitest.Get(h, base+"/rollingWindowMetrics/"+metric)
		var got struct{ Result map[string]float64 }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), "%s", w.Body)
		require.Equal(t, want, got.Result, metric)
		require.Positive(t, got.Result["allTime"])
	}
}
