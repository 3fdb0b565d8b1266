package evm_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/handlers"
	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	api "quorate/handlers/evm"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/node"
	"quorate/internal/store"
)

// The operations, with what they need to succeed.
var (
	base        = "/v1/chains/43113"
	latest      = base + "/transactions?"
	internals   = base + "/addresses/" + alice.Hex() + "/transactions:listInternals?"
	transfers   = base + "/addresses/" + bob.Hex() + "/transactions:listErc1155?"
	balances    = base + "/addresses/" + alice.Hex() + "/balances:listErc1155?"
	deployment  = base + "/contracts/" + cards.Hex() + "/transactions:getDeployment"
	blocks      = base + "/blocks?"
	oneBlock    = base + "/blocks/999?"
	inBlock     = base + "/blocks/998/transactions?"
	transaction = base + "/transactions/" + hash(9_996).Hex()
	deployments = base + "/contracts/" + alice.Hex() + "/deployments?"
	oneToken    = base + "/nfts/collections/" + cards.Hex() + "/tokens/9"
	oneContract = base + "/addresses/" + coin.Hex()
	tokens      = base + "/nfts/collections/" + cards.Hex() + "/tokens?"

	// lists by the member that has the items.
	pagedBy = map[string]string{
		latest: "transactions", internals: "transactions", transfers: "transactions", balances: "erc1155TokenBalances",
		blocks: "blocks", deployments: "contracts", tokens: "tokens",
		erc20Balances: "erc20TokenBalances", erc721Balances: "erc721TokenBalances", collectibles: "collectibleBalances",
		native: "transactions", erc20s: "transactions", erc721s: "transactions", interactions: "transactions",
	}
	operations = []string{
		latest, blocks, oneBlock, inBlock, transaction, internals, transfers, balances, deployment, deployments, tokens, oneToken, oneContract,
		native, erc20s, erc721s, interactions, nativeBalance, erc20Balances, erc721Balances, collectibles,
	}
)

func requireError(t testing.TB, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	apitest.RequireError(t, w, 500, status, parts...)
}

// TestTokensThatCannotBeAsked: an error of one token affects that token alone.
func TestTokensThatCannotBeAsked(t *testing.T) {
	f := newFake()
	plain := tokensOf(t, fuji(t, f))
	require.Len(t, plain, 10)
	f.tokenErr = map[int]error{
		1: &node.RPCError{Method: "eth_call", Code: -32000, Message: "gas limit is too high"},
		4: node.ErrMalformed,
		9: context.DeadlineExceeded,
	}
	var logged bytes.Buffer
	got := tokensOf(t, must(handlers.New(handlers.Options{
		EVM: api.Options{Chains: must(api.NewChains([]api.Chain{f.chain()}, false))}, ClientCompat: compat.Auto,
		Log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})))
	require.Len(t, got, len(plain))
	require.Empty(t, logged.String(), "contracts of strangers must not fill the log")
	failed := 0
	for i, token := range got {
		want := plain[i]
		if id := want.TokenID; id == "1" || id == "4" || id == "9" {
			failed++
			want.TokenURI = ""
			if want.Metadata.IndexStatus == "UNINDEXED" {
				want.Metadata.IndexStatus = "UNKNOWN"
			}
		}
		require.Equal(t, want, token)
	}
	require.Equal(t, len(f.tokenErr), failed)

	// If it is so with all of them, it is not about the tokens.
	for id := range 100 {
		f.tokenErr[id] = node.ErrMalformed
	}
	requireError(t, apitest.Get(fuji(t, f), tokens), 502, "the node of this chain")
}

type shownToken struct {
	TokenID, TokenURI string
	Metadata          struct{ IndexStatus string }
}

func tokensOf(t *testing.T, h http.Handler) []shownToken {
	t.Helper()
	w := apitest.Get(h, tokens)
	require.Equal(t, 200, w.Code, w.Body)
	var answer struct{ Tokens []shownToken }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer.Tokens
}

func TestMistakes(t *testing.T) {
	h := fuji(t, newFake())
	type mistake struct{ path, parameter, part string }
	var tests []mistake
	for op := range pagedBy {
		sizes := "1 to 100"
		if strings.Contains(op, "/balances:") {
			sizes = "1 to 500"
		}
		for _, bad := range []string{"0", "-1", "1.5", "ten", "", "501", "18446744073709551616", "1e1", "%20", "0x10"} {
			tests = append(tests, mistake{op + "&pageSize=" + bad, "pageSize: must be an integer from " + sizes, ""})
		}
		tests = append(tests,
			mistake{op + "&pageSize=1&pageSize=2", "pageSize: ", "2 times"},
			mistake{op + "&pageToken=x", "pageToken: ", "no token of this service"},
			mistake{op + "&pageToken=" + strings.Repeat("A", 5000), "pageToken: ", "no token"},
			mistake{op + "&pageToken=%zz", "pageToken: ", "percent escape"},
		)
	}
	tests = append(tests, mistake{latest + "&pageSize=101", "pageSize: ", ""}, mistake{tokens + "&pageSize=101", "pageSize: ", ""})
	for _, path := range []string{
		"/addresses/%s/transactions", "/addresses/%s/transactions:listNative", "/addresses/%s/transactions:listErc20", "/addresses/%s/transactions:listErc721",
		"/addresses/%s/transactions:listInternals", "/addresses/%s/transactions:listErc1155", "/addresses/%s/balances:listErc1155",
		"/addresses/%s/balances:getNative", "/addresses/%s/balances:listErc20", "/addresses/%s/balances:listErc721", "/addresses/%s/balances:listCollectibles",
		"/contracts/%s/transactions:getDeployment", "/contracts/%s/deployments", "/nfts/collections/%s/tokens", "/nfts/collections/%s/tokens/1", "/addresses/%s",
	} {
		for _, bad := range []string{
			"0x", "alice", alice.Hex()[2:], alice.Hex() + "00", alice.Hex()[:41], "0xg" + alice.Hex()[3:], "%20" + alice.Hex(), "fuji1qqqq",
			"0x" + strings.Repeat("0", 64), "%00", "0x%D9%A1" + alice.Hex()[3:],
		} {
			tests = append(tests, mistake{base + fmt.Sprintf(path, bad), "address: ", "is no address"})
		}
	}
	for _, bad := range []string{"0x", "1", hash(1).Hex()[2:], hash(1).Hex() + "0", alice.Hex(), "0xg" + hash(1).Hex()[3:], "%20" + hash(1).Hex()} {
		tests = append(tests, mistake{base + "/transactions/" + bad, "txHash: ", "is no hash"})
	}
	for _, bad := range []string{"-1", "0x1", "1e3", "1.0", "%20", strings.Repeat("9", 78), strings.Repeat("0", 79)} {
		tests = append(tests, mistake{base + "/nfts/collections/" + cards.Hex() + "/tokens/" + bad, "tokenId: ", "is no token ID"})
	}
	tests = append(tests,
		mistake{"/v1/address/alice/chains", "address: ", "is no address"}, mistake{"/v1/chains?network=", "network: it is empty", ""},
		mistake{"/v1/chains?network=moon", "network: ", "is no network"}, mistake{"/v1/chains?feature=all", "feature: must be nftIndexing, ", ""},
	)
	for _, bad := range []string{"-1", "101", "", "ten"} {
		tests = append(tests, mistake{inBlock + "&pageSize=" + bad, "pageSize: must be an integer from 0 to 100", ""})
	}
	for _, bad := range []string{"latest", "-1", "0x1", "1.5", "18446744073709551616", "0x", hash(1).Hex()[2:], hash(1).Hex() + "0", "%20"} {
		tests = append(tests, mistake{base + "/blocks/" + bad, "blockId: ", "is no block"}, mistake{base + "/blocks/" + bad + "/transactions", "blockId: ", "is no block"})
	}
	for _, op := range []string{internals, transfers, native, erc20s, erc721s, interactions} {
		for _, key := range []string{"startBlock", "endBlock"} {
			for _, bad := range []string{"-1", "1.5", "", "1e3", "latest", "0x1", "18446744073709551616"} {
				tests = append(tests, mistake{op + "&" + key + "=" + bad, key + ": must be an integer from 0 to ", ""})
			}
			tests = append(tests, mistake{op + "&" + key + "=1&" + key + "=1", key + ": ", "2 times"})
		}
		tests = append(tests, mistake{op + "&startBlock=8&endBlock=7", "startBlock: 8 is after endBlock, which is 7", ""})
	}
	for _, bad := range []string{"-1", "1.5", "", "latest", "0x1", "1e2", "18446744073709551616"} {
		tests = append(tests, mistake{balances + "&blockNumber=" + bad, "blockNumber: must be an integer", ""})
	}
	tests = append(tests, mistake{balances + "&blockNumber=1001", "blockNumber: the chain has no such block yet", ""})
	for _, bad := range []string{"", "x", coin.Hex()[2:], coin.Hex() + "," + coin.Hex()} {
		for _, op := range []string{balances, erc721Balances, collectibles} {
			tests = append(tests, mistake{op + "&contractAddress=" + bad, "contractAddress: ", "is no address"})
		}
	}
	for _, bad := range []string{"x", coin.Hex()[2:], coin.Hex() + "," + coin.Hex() + "0"} {
		tests = append(tests, mistake{erc20Balances + "&contractAddresses=" + bad, "contractAddresses: ", "is no address"})
	}
	tests = append(tests, mistake{erc20Balances + "&filterSpamTokens=yes", "filterSpamTokens: ", ""}, mistake{erc20Balances + "&blockNumber=1001", "blockNumber: the chain has no such block yet", ""})
	tests = append(tests, mistake{balances + "&contractAddress=" + coin.Hex() + "&contractAddress=" + coin.Hex(), "contractAddress: ", "2 times"})
	for _, bad := range []string{"", "Success", "pending", "1", "success,failed"} {
		tests = append(tests, mistake{latest + "&status=" + bad, "status: must be failed or success", ""})
	}
	tests = append(tests, mistake{latest + "&status=failed&status=failed", "status: ", "2 times"})
	for _, bad := range []string{"", "USD", "btc", "usd,eur"} {
		tests = append(tests, mistake{nativeBalance + "&currency=" + bad, "currency: must be usd, eur, ", ""}, mistake{erc20Balances + "&currency=" + bad, "currency: must be usd, eur, ", ""})
		tests = append(tests, mistake{deployment + "?currency=" + bad, "currency: must be usd, eur, ", ""})
	}
	for _, tt := range tests {
		requireError(t, apitest.Get(h, tt.path), http.StatusBadRequest, tt.parameter, tt.part)
	}
}

// TestCollectionThatTheIndexDoesNotKnow: only the node knows a contract that emitted no events yet and was part of the
// genesis, or made by another contract in a block without traces.
func TestCollectionThatTheIndexDoesNotKnow(t *testing.T) {
	f := newFake()
	f.unknown = common.Address{0xcc}
	f.contracts[f.unknown] = &evm.Contract{Standard: chain.ERC721}
	w := apitest.Get(fuji(t, f), base+"/nfts/collections/"+f.unknown.Hex()+"/tokens")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.JSONEq(t, `{"tokens":[]}`, w.Body.String())
}

func TestNotFound(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	forged := cChainID // begins like the blockchain's ID
	forged[31] ^= 1
	for _, op := range operations {
		require.NotEqual(t, http.StatusNotFound, apitest.Get(h, strings.Replace(op, "43113", cChainID.String(), 1)).Code)
		for _, chain := range []string{"1", "043113", "43113.0", "0x0a869", "mainnet", "C", "2q9e4r6Mu3U68nU1fYjgbR6JvwrRx36CohpAX5UQxse55x1Q5", forged.String(), strings.Repeat("9", 300)} {
			requireError(t, apitest.Get(h, strings.Replace(op, "43113", chain, 1)), http.StatusNotFound, "chainId: ", "it indexes 43113")
		}
		requireError(t, apitest.Get(h, strings.Replace(op, "?", "/?", 1)+"/"), http.StatusNotFound, "there is no GET")
		r := httptest.NewRequest(http.MethodPost, op, http.NoBody)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		requireError(t, w, http.StatusNotFound, "there is no POST")
	}
	for _, account := range []common.Address{bob, items, {}} {
		requireError(t, apitest.Get(h, base+"/contracts/"+account.Hex()+"/transactions:getDeployment"), http.StatusNotFound, "address: no transaction of this chain")
	}
	for _, none := range []string{"1001", "18446744073709551615", hash(1001).Hex(), "0x" + strings.Repeat("0", 64)} {
		requireError(t, apitest.Get(h, base+"/blocks/"+none), http.StatusNotFound, "blockId: this chain has no block ", none[:min(len(none), 40)])
		requireError(t, apitest.Get(h, base+"/blocks/"+none+"/transactions"), http.StatusNotFound, "blockId: this chain has no block ", none[:min(len(none), 40)])
	}
	requireError(t, apitest.Get(h, base+"/transactions/"+hash(5).Hex()), http.StatusNotFound, "txHash: blocks 0 to 1000, which this instance indexes, have no transaction "+hash(5).Hex())
	for _, none := range []common.Address{bob, coin, till, odd, gone, {}} {
		requireError(t, apitest.Get(h, base+"/nfts/collections/"+none.Hex()+"/tokens"), http.StatusNotFound, "address: there is no collection")
	}
	for _, none := range []common.Address{bob, {}} {
		requireError(t, apitest.Get(h, base+"/addresses/"+none.Hex()), http.StatusNotFound, "address: there is no contract at "+none.Hex())
	}
	for _, none := range []string{cards.Hex() + "/tokens/2", till.Hex() + "/tokens/0", bob.Hex() + "/tokens/0", items.Hex() + "/tokens/8"} {
		requireError(t, apitest.Get(h, base+"/nfts/collections/"+none), http.StatusNotFound, "tokenId: ")
	}
	requireError(t, apitest.Get(surface(t, compat.Auto, api.Options{}), latest), http.StatusNotFound, "chainId: this instance indexes no EVM chain; its operator can set networks.NAME.record to all")
	starting := api.Options{Chains: must(api.NewChains([]api.Chain{f.chain()}, true))}
	requireError(t, apitest.Get(surface(t, compat.Auto, starting), "/v1/chains/1/transactions"), http.StatusServiceUnavailable, "chainId: ", "starting")
	require.Equal(t, http.StatusOK, apitest.Get(surface(t, compat.Auto, starting), latest).Code)
}

func TestNamesOfChains(t *testing.T) {
	f := newFake()
	l1, mainnet := f.chain(), f.chain()
	l1.ChainID, l1.BlockchainID, l1.Primary = 99_999, l1ID, false
	other := l1
	other.BlockchainID = otherID
	other.NativeToken = api.NativeToken{Name: "Other", Symbol: "OTH", Decimals: 6, LogoURI: "https://example.org/oth", Description: "It is"}
	mainnet.ChainID, mainnet.BlockchainID = 43114, ids.ID{0x33}
	two := surface(t, compat.Auto, api.Options{}, f.chain(), l1)
	for _, name := range []string{"43113", cChainID.String(), "c-chain", "99999", l1ID.String()} {
		require.Equal(t, http.StatusOK, apitest.Get(two, "/v1/chains/"+name+"/transactions").Code, name)
	}
	many := surface(t, compat.Auto, api.Options{}, f.chain(), l1, other, mainnet)
	requireError(t, apitest.Get(many, "/v1/chains/99999/transactions"), http.StatusBadRequest, "chainId: 99999 is the name of several", l1ID.String(), otherID.String())
	requireError(t, apitest.Get(many, "/v1/chains/c-chain/transactions"), http.StatusBadRequest, "chainId: c-chain", cChainID.String())
	requireError(t, apitest.Get(many, "/v1/chains/5/transactions"), http.StatusNotFound, "chainId: ", "it indexes 43113, 43114, 99999")
	for name, want := range map[string]string{
		cChainID.String(): `"networkToken":{"name":"Avalanche","symbol":"AVAX","decimals":18}`,
		l1ID.String():     `"networkToken":{"name":"Native token","symbol":"NATIVE","decimals":18}`,
		otherID.String():  `"networkToken":{"name":"Other","symbol":"OTH","decimals":6,"logoUri":"https://example.org/oth","description":"It is"}`,
	} {
		body := apitest.Get(many, strings.Replace(deployment, "43113", name, 1)).Body.String()
		require.Contains(t, body, want)
	}
	require.Contains(t, apitest.Get(many, strings.Replace(balances, "43113", otherID.String(), 1)).Body.String(), `"nativeTokenBalance":{"name":"Other","symbol":"OTH","decimals":6,"logoUri":"https://example.org/oth","chainId":"99999","balance":"1234567890123456789"}`)
	// Chain IDs in answers are decimal, whatever the path has.
	require.Contains(t, apitest.Get(many, "/v1/chains/"+otherID.String()+"/transactions").Body.String(), `"chainId":"99999"`)
	for _, broken := range []api.Chain{{}, {ChainID: 1, BlockchainID: l1ID}} {
		_, err := api.NewChains([]api.Chain{broken}, false)
		require.ErrorContains(t, err, "are required")
	}
}

// Pages follow each other, each as long as requested except the last.
func TestPages(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	counts := map[string]int{latest: 25, blocks: 25, internals: 23, transfers: 23, balances: 24, deployments: 20, tokens: 23, native: 25, erc20s: 23, erc721s: 23, interactions: 25, erc20Balances: 23, erc721Balances: 23, collectibles: 47}
	for op, member := range pagedBy {
		var whole struct{ Items []any }
		content := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal(apitest.Get(h, op+"&pageSize=100").Body.Bytes(), &content))
		require.NoError(t, json.Unmarshal(content[member], &whole.Items))
		require.Len(t, whole.Items, counts[op], op)
		require.NotContains(t, content, "nextPageToken")
		for _, size := range []int{1, 4, 5, 10, counts[op], counts[op] + 1} {
			var all []any
			token := ""
			for pages := 1; ; pages++ {
				w := apitest.Get(h, fmt.Sprintf("%s&pageSize=%d&pageToken=%s", op, size, token))
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				var page map[string]json.RawMessage
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
				var some []any
				require.NoError(t, json.Unmarshal(page[member], &some))
				all = append(all, some...)
				if page["nextPageToken"] == nil {
					require.Equal(t, (counts[op]+size-1)/size, pages, op)
					break
				}
				require.Len(t, some, size)
				require.NoError(t, json.Unmarshal(page["nextPageToken"], &token))
				require.NotEmpty(t, token)
			}
			require.Equal(t, whole.Items, all, op)
		}
		var usual map[string][]any
		_ = json.Unmarshal(apitest.Get(h, op).Body.Bytes(), &usual)
		require.Len(t, usual[member], 10, "the usual size")
	}
	require.Equal(t, http.StatusOK, apitest.Get(h, balances+"&pageSize=500").Code)
}

// A page token is valid only for its own list.
func TestTokensOfOtherLists(t *testing.T) {
	f := newFake()
	l1 := f.chain()
	l1.ChainID, l1.BlockchainID, l1.Primary = 99_999, l1ID, false
	h := surface(t, compat.Auto, api.Options{}, f.chain(), l1)
	token := func(path string) string {
		var body struct{ NextPageToken string }
		require.NoError(t, json.Unmarshal(apitest.Get(h, path+"&pageSize=2").Body.Bytes(), &body))
		require.NotEmpty(t, body.NextPageToken, path)
		return body.NextPageToken
	}
	others := map[string][]string{
		latest:         {latest + "&status=success", latest + "&status=failed", strings.Replace(latest, "43113", "99999", 1)},
		internals:      {internals + "&startBlock=0", internals + "&endBlock=0", internals + "&endBlock=1000", transfers, strings.Replace(internals, alice.Hex(), bob.Hex(), 1)},
		transfers:      {transfers + "&startBlock=1", strings.Replace(transfers, bob.Hex(), alice.Hex(), 1)},
		balances:       {balances + "&blockNumber=1000", balances + "&contractAddress=" + items.Hex(), strings.Replace(balances, alice.Hex(), bob.Hex(), 1)},
		deployments:    {strings.Replace(deployments, alice.Hex(), till.Hex(), 1), latest},
		erc20Balances:  {erc20Balances + "&blockNumber=1000", erc20Balances + "&contractAddresses=" + coin.Hex(), balances, erc721Balances},
		erc721Balances: {erc721Balances + "&contractAddress=" + cards.Hex(), collectibles},
		collectibles:   {collectibles + "&contractAddress=" + cards.Hex(), erc721Balances},
		native:         {native + "&startBlock=0", latest, interactions, erc20s, strings.Replace(native, alice.Hex(), bob.Hex(), 1)},
		erc20s:         {erc20s + "&endBlock=9", erc721s, transfers, strings.Replace(erc20s, alice.Hex(), bob.Hex(), 1)},
		erc721s:        {erc20s, transfers, strings.Replace(erc721s, "43113", "99999", 1)},
		interactions:   {interactions + "&sortOrder=asc", native, strings.Replace(interactions, alice.Hex(), bob.Hex(), 1)},
		tokens:         {strings.Replace(tokens, cards.Hex(), items.Hex(), 1), strings.Replace(tokens, "43113", "99999", 1)},
	}
	for op, paths := range others {
		mine := token(op)
		for _, path := range paths {
			requireError(t, apitest.Get(h, path+"&pageToken="+mine), http.StatusBadRequest, "pageToken: it belongs to another request")
		}
		// The same list by another name of the chain or another spelling of an address.
		for _, change := range []*strings.Replacer{
			strings.NewReplacer("43113", "c-chain"), strings.NewReplacer("43113", cChainID.String()),
			strings.NewReplacer(alice.Hex(), lower(alice), bob.Hex(), upper(bob), cards.Hex(), upper(cards)), strings.NewReplacer(":", "%3A"), strings.NewReplacer(":", "%3a"),
		} {
			require.Equal(t, http.StatusOK, apitest.Get(h, change.Replace(op)+"&pageSize=3&pageToken="+mine).Code, op)
		}
	}
	for err, want := range map[error]struct {
		status  int
		message string
	}{
		index.ErrViewBehind: {http.StatusServiceUnavailable, "pageToken: the standby that was read lacks blocks of the earlier pages"},
		index.ErrPosition:   {http.StatusBadRequest, "pageToken: it leads nowhere"},
	} {
		f.mu.Lock()
		f.err = fmt.Errorf("reading: %w", err)
		f.mu.Unlock()
		requireError(t, apitest.Get(h, latest), want.status, want.message)
	}
}

// The query of the index follows from the request.
func TestWhatIsAsked(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	for _, op := range []string{internals, strings.Replace(transfers, bob.Hex(), alice.Hex(), 1), native, erc20s, erc721s, interactions} {
		require.Equal(t, 200, apitest.Get(h, op+"&startBlock=7&endBlock=18446744073709551615").Code)
		require.Equal(t, evm.WalletQuery{Wallet: alice, Start: ptr(uint64(7)), End: ptr(uint64(1<<64 - 1)), Limit: 10}, f.askedWallet)
		require.Equal(t, 200, apitest.Get(h, op+"&pageSize=100").Code)
		require.Equal(t, evm.WalletQuery{Wallet: alice, Limit: 100}, f.askedWallet)
		for _, empty := range []string{"&startBlock=5&endBlock=5", "&endBlock=0", "&startBlock=0&endBlock=0"} {
			w := apitest.Get(h, op+empty)
			require.JSONEq(t, `{"transactions":[]}`, w.Body.String())
			require.Equal(t, "1000", w.Header().Get("Indexed-Height"))
		}
	}
	require.Equal(t, 200, apitest.Get(h, balances+"&blockNumber=0012&contractAddress="+upper(items)+"&pageSize=500").Code)
	require.Equal(t, evm.BalanceQuery{Wallet: alice, At: ptr(uint64(12)), Contract: &items, Limit: 500}, f.askedBalance)
	require.EqualValues(t, 12, f.askedNative, "both are of the same block")
	require.Equal(t, 200, apitest.Get(h, balances).Code)
	require.Equal(t, evm.BalanceQuery{Wallet: alice, Limit: 10}, f.askedBalance)
	require.EqualValues(t, height, f.askedNative)
	for text, want := range map[string]*bool{"": nil, "&status=success": ptr(true), "&status=failed": ptr(false)} {
		require.Equal(t, 200, apitest.Get(h, latest+text).Code)
		require.Equal(t, evm.LatestQuery{Success: want, Limit: 10}, f.askedLatest)
	}
	require.Equal(t, 200, apitest.Get(h, latest+"&pageSize=3").Code)
	require.Equal(t, []common.Address{coin, till}, f.askedContract, "no wallets, and each contract once")
	// The same token is asked for once.
	f.askedTokens = 0
	require.Equal(t, 200, apitest.Get(h, transfers+"&pageSize=100").Code)
	require.Equal(t, 5, f.askedTokens)
}

// A transaction may move any number of tokens, but the node is asked about a bounded number.
func TestManyTokens(t *testing.T) {
	f := newFake()
	d := f.details[cards]
	d.Transfers = nil
	for n := range 2_000 {
		d.Transfers = append(d.Transfers, evm.TokenTransfer{Transfer: chain.Transfer{Standard: chain.ERC1155, Contract: items, LogIndex: uint32(n), TokenID: *uint256.NewInt(uint64(n))}})
	}
	var answer struct {
		Transfers []struct {
			Token struct {
				TokenURI string
				Metadata struct{ IndexStatus string }
			} `json:"erc1155Token"`
		} `json:"erc1155Transfers"`
	}
	require.NoError(t, json.Unmarshal(apitest.Get(fuji(t, f), deployment).Body.Bytes(), &answer))
	require.Equal(t, 500, f.askedTokens)
	require.Len(t, answer.Transfers, 2_000)
	require.NotEmpty(t, answer.Transfers[499].Token.TokenURI)
	require.Empty(t, answer.Transfers[500].Token.TokenURI)
	require.Equal(t, "UNINDEXED", answer.Transfers[500].Token.Metadata.IndexStatus)
}

// A token whose details are too large for the answer does not affect others.
// TestLargeDetails moves a token with a long URI in one transaction, as often as its URI fits in an answer, and once more.
func TestLargeDetails(t *testing.T) {
	for _, times := range []int{16, 17} {
		f := newFake()
		f.largeURI = 2
		d := f.details[cards]
		d.Transfers = d.Transfers[len(d.Transfers)-1:]
		large := d.Transfers[0]
		large.TokenID = *uint256.NewInt(2)
		d.Transfers = append(d.Transfers, slices.Repeat([]evm.TokenTransfer{large}, times)...)
		for i := range d.Transfers {
			d.Transfers[i].LogIndex = uint32(i)
		}
		body := apitest.Get(fuji(t, f), deployment).Body.String()
		require.Equal(t, times, strings.Count(body, `"tokenId":"2"`))
		require.Contains(t, body, `"tokenId":"1","tokenUri":"ipfs://items/{id}"`)
		left := strings.Count(body, `"tokenId":"2","tokenUri":"","metadata":{"indexStatus":"METADATA_CONTENT_TOO_LARGE"}`)
		if times == 16 {
			require.Zero(t, left)
			continue
		}
		require.Equal(t, times, left)
		require.Less(t, len(body), 1<<16)
	}
}

// TestManyEffects requests a transaction with thousands of transfers while most of the memory for answers is in use.
func TestManyEffects(t *testing.T) {
	f := newFake()
	d := f.details[cards]
	d.Transfers = slices.Repeat(d.Transfers[:1], 3000)
	for i := range d.Transfers {
		d.Transfers[i].LogIndex = uint32(i)
	}
	answers := node.NewBudget(12<<20, 0)
	h := must(handlers.New(handlers.Options{EVM: api.Options{Chains: must(api.NewChains([]api.Chain{f.chain()}, false))}, Answers: answers}))
	w := apitest.Get(h, deployment)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, 3000, strings.Count(w.Body.String(), `"logIndex":`))

	other, end := answers.Begin(t.Context())
	require.NoError(t, node.Take(other, 8<<20))
	w = apitest.Get(h, deployment)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "more memory than is free for large answers at the moment; try again")
	d.Transfers = d.Transfers[:900]
	require.Equal(t, http.StatusOK, apitest.Get(h, deployment).Code, "ordinary answers do not wait")
	end()
	require.Zero(t, answers.Usage().Bytes)
}

func TestWithoutMetadata(t *testing.T) {
	f := newFake()
	c := f.chain()
	c.Metadata = nil
	body := apitest.Get(surface(t, compat.Auto, api.Options{}, c), transfers+"&pageSize=1").Body.String()
	require.Contains(t, body, `"tokenUri":"ipfs://items/{id}","metadata":{"indexStatus":"UNINDEXED"}`)
}

func TestCatchingUp(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	for _, op := range operations {
		w := apitest.Get(h, op)
		require.Equal(t, 200, w.Code)
		require.Equal(t, []string{"1000", "1700000000", "0", "following"}, []string{
			w.Header().Get("Indexed-Height"), w.Header().Get("Indexed-Timestamp"), w.Header().Get("Indexed-Lag"), w.Header().Get("Indexed-State"),
		})
	}
	f.progress.Err, f.progress.Lag = errors.New("node away"), 3
	w := apitest.Get(h, latest)
	require.Equal(t, 200, w.Code)
	require.Equal(t, "stalled", w.Header().Get("Indexed-State"))
	require.Equal(t, "3", w.Header().Get("Indexed-Lag"))

	f.progress = reply.Progress{Height: 900, Lag: 100, Err: errors.New("secret cause")}
	for _, op := range operations {
		w := apitest.Get(h, op)
		requireError(t, w, http.StatusServiceUnavailable, "the index of this chain is still catching up: it has reached height 900, and 100 further blocks")
		require.Contains(t, w.Body.String(), `"code":"INDEX_CATCHING_UP"`)
		require.NotContains(t, w.Body.String(), "secret")
		require.Empty(t, w.Header().Get("Indexed-Height"))
	}
	// Earlier blocks are known.
	for path, want := range map[string]int{
		internals + "&endBlock=901": 200, transfers + "&endBlock=901": 200, balances + "&blockNumber=900": 200, transfers + "&startBlock=3&endBlock=900": 200,
		internals + "&endBlock=902": 503, transfers + "&endBlock=902": 503, balances + "&blockNumber=901": 503, transfers + "&startBlock=3": 503,
		internals + "&startBlock=950&endBlock=950": 503,
	} {
		require.Equal(t, want, apitest.Get(h, path).Code, path)
	}
}

// TestTracesMissing has blocks without call traces: the answers are of the rest, and name
// them.
func TestTracesMissing(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	whole := make(map[string]string)
	for _, path := range []string{internals, internals + "&pageSize=1", deployments, golden["nothing_internal"]} {
		whole[path] = apitest.Get(h, path).Body.String()
		require.NotContains(t, whole[path], "tracesMissing")
	}
	f.missing = &evm.Span{From: 5, To: 18446744073709551615}
	for path, want := range whole {
		w := apitest.Get(h, path)
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Body.String(), `"tracesMissing":[5,18446744073709551615],`)
		require.Equal(t, want, strings.Replace(w.Body.String(), `"tracesMissing":[5,18446744073709551615],`, "", 1))
	}
	w := apitest.Get(h, base+"/contracts/"+alice.Hex()+"/transactions:getDeployment")
	requireError(t, w, 404, "address: no transaction of this chain is known to have deployed a contract there")
	require.Contains(t, w.Body.String(), "or a call in blocks 5 to 18446744073709551615 made it, some of which have no call traces")

	// The block of a deployment has none.
	w = apitest.Get(h, base+"/contracts/"+coin.Hex()+"/transactions:getDeployment")
	require.Equal(t, 200, w.Code, w.Body)
	require.Regexp(t, `"tracesMissing":\[(\d+),(\d+)\],"internalTransactions":\[\]`, w.Body.String())
	require.NotContains(t, apitest.Get(h, deployment).Body.String(), "tracesMissing")
}

// TestIndexBeginsLater has an index that begins after the genesis block.
func TestIndexBeginsLater(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	require.Empty(t, apitest.Get(h, latest).Header().Values("Indexed-From"))
	f.progress.From = 70
	for _, op := range operations {
		w := apitest.Get(h, op)
		require.Equal(t, "70", w.Header().Get("Indexed-From"), op)
		if op == balances || op == collectibles {
			requireError(t, w, 503, "balances of ERC-1155 tokens follow from all transfers since the genesis block")
			require.Contains(t, w.Body.String(), `"code":"INDEX_BEGINS_LATER"`)
			continue
		}
		require.Equal(t, 200, w.Code)
	}
	w := apitest.Get(h, base+"/contracts/"+alice.Hex()+"/transactions:getDeployment")
	requireError(t, w, 404, "address: no transaction of this chain is known to have deployed a contract there")
	require.Contains(t, w.Body.String(), "or it was deployed before block 70, with which the index begins")
	f.balancesErr = fmt.Errorf("secret: %w", evm.ErrBeforeFirst)
	w = apitest.Get(h, balances+"&blockNumber=7")
	requireError(t, w, 503, "blockNumber: the index of this chain begins with a later block")
	require.Contains(t, w.Body.String(), `"code":"INDEX_BEGINS_LATER"`)
	require.Equal(t, "70", w.Header().Get("Indexed-From"))
}

// TestBlocksAheadOfTheRecord requests blocks that the index lacks, and blocks above the chain's tip.
func TestBlocksAheadOfTheRecord(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	f.progress.Lag = 3
	for path, want := range map[string]int{
		balances + "&blockNumber=1000": 200, balances + "&blockNumber=1001": 503, balances + "&blockNumber=1003": 503, balances + "&blockNumber=1004": 400,
		internals + "&endBlock=1001": 200, internals + "&endBlock=1002": 503, transfers + "&endBlock=1004": 503,
		// A bound above the tip is no bound.
		transfers + "&endBlock=1005": 200, internals + "&endBlock=18446744073709551615": 200,
	} {
		w := apitest.Get(h, path)
		require.Equal(t, want, w.Code, "%s: %s", path, w.Body)
		if want == 503 {
			require.Contains(t, w.Body.String(), "is not indexed yet: ")
			require.Contains(t, w.Body.String(), `"code":"INDEX_CATCHING_UP"`)
		}
	}
	// While the node is away, the chain's tip is unknown.
	f.progress.Err = errors.New("secret")
	requireError(t, apitest.Get(h, balances+"&blockNumber=1004"), 503, "the requested block is not indexed yet")

	// A token may come from an instance that is ahead of this one.
	f.progress.Err, f.progress.Lag = nil, 0
	token := nextToken(t, apitest.Get(h, balances))
	f.balancesErr = evm.ErrBeyondTip
	requireError(t, apitest.Get(h, balances+"&pageToken="+token), 503, "the requested block is not indexed yet")

	// The progress may come from a standby that is ahead of the one that is read.
	f.balancesErr, f.progress.Height = nil, height+1
	for _, path := range []string{balances + "&blockNumber=1001", erc20Balances + "&blockNumber=1001", base + "/blocks/1001"} {
		w := apitest.Get(h, path)
		requireError(t, w, 503, "the standby that was read lacks block 1001")
		require.Contains(t, w.Body.String(), `"code":"INDEX_CATCHING_UP"`)
	}
	requireError(t, apitest.Get(h, balances+"&blockNumber=1002"), 400, "blockNumber: the chain has no such block yet")
	requireError(t, apitest.Get(h, base+"/blocks/1002"), 404, "blockId: this chain has no block 1002")
}

// TestOldStateIsAskedForOnce pages through balances while the node prunes the state of their block.
func TestOldStateIsAskedForOnce(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	w := apitest.Get(h, balances)
	require.Contains(t, w.Body.String(), `"balance":"1234567890123456789"`)
	f.nativeErr = &node.RPCError{Method: "eth_getBalance", Code: -32000, Message: "missing trie node"}
	h = fuji(t, f) // one that remembers nothing
	requireError(t, apitest.Get(h, balances), 502, "the node of this chain")
	pages := 1
	for token := nextToken(t, w); token != ""; pages++ {
		w = apitest.Get(h, balances+"&pageToken="+token)
		require.Equal(t, 200, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"balance":"1234567890123456789"`)
		token = nextToken(t, w)
	}
	require.Equal(t, 3, pages)
}

// A page token does not reveal a balance that the service did not return.
func TestBalanceInATokenIsSealed(t *testing.T) {
	h := fuji(t, newFake())
	good := nextToken(t, apitest.Get(h, balances))
	b, err := base64.RawURLEncoding.DecodeString(good)
	require.NoError(t, err)
	body := b[:len(b)-4]
	for i := range body {
		body[i] ^= 1
		sum := sha256.Sum256(body) // which tells damage alone
		w := apitest.Get(h, balances+"&pageToken="+base64.RawURLEncoding.EncodeToString(append(bytes.Clone(body), sum[:4]...)))
		require.Equal(t, http.StatusBadRequest, w.Code, "byte %d of %d: %s", i, len(body), w.Body)
		body[i] ^= 1
	}
	require.Equal(t, http.StatusOK, apitest.Get(h, balances+"&pageToken="+good).Code)
}

// nextToken is that of a page, empty if it is the last.
func nextToken(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	require.Equal(t, 200, w.Code, w.Body)
	var answer struct{ NextPageToken string }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer.NextPageToken
}

func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		part   string
		code   string
		retry  string // Retry-After
	}{
		{evm.ErrEmpty, 503, "nothing of this chain is indexed yet", "INDEX_CATCHING_UP", ""},
		{evm.ErrUntraced, 503, "internal transactions are not indexed", "INDEX_UNTRACED", ""},
		{store.ErrClosed, 503, "the service is stopping", "SHUTTING_DOWN", ""},
		{store.ErrUnavailable, 503, "the index cannot be read at the moment", "NOT_INDEXED", "5"},
		{errors.New("secret"), 500, "something went wrong", "", ""},
		{node.ErrUnavailable, 503, "the node of this chain", "NODE_UNAVAILABLE", ""},
		{node.ErrMalformed, 502, "the node of this chain", "NODE_FAULTY", ""},
		{&node.RPCError{Method: "eth_call", Message: "secret"}, 502, "the node of this chain", "NODE_FAULTY", ""},
		{context.DeadlineExceeded, 503, "the answer was not complete in the time", "", ""},
	} {
		err := fmt.Errorf("secret: %w", tt.err)
		f := newFake()
		f.err = err
		h := fuji(t, f)
		for _, op := range operations {
			if op == nativeBalance {
				continue // needs no index
			}
			w := apitest.Get(h, op)
			requireError(t, w, tt.status, tt.part)
			require.NotContains(t, w.Body.String(), "secret")
			var body struct{ Code string }
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
			require.Equal(t, tt.code, body.Code, w.Body)
			require.Equal(t, tt.retry, w.Header().Get("Retry-After"), w.Body)
		}
		f.err, f.nodeErr = nil, err
		for _, op := range operations {
			if w := apitest.Get(h, op); op == blocks || op == oneBlock {
				require.Equal(t, 200, w.Code, "blocks by number need no node: %s", w.Body)
			} else {
				requireError(t, w, tt.status, tt.part)
			}
		}
		// Nothing is asked where there is nothing to ask about.
		require.Equal(t, 200, apitest.Get(h, golden["nothing"]).Code)
		require.Equal(t, 200, apitest.Get(h, golden["nothing_deployed"]).Code)
	}
}

// slow answers when the request's time is over, or its client gone.
type slow struct{ *fake }

func (s slow) Latest(ctx context.Context, _ evm.LatestQuery) (*evm.TransactionPage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake().chain()
		c.Index = slow{newFake()}
		h := surface(t, compat.Auto, api.Options{}, c)
		began := time.Now()
		requireError(t, apitest.Get(h, latest), http.StatusServiceUnavailable, "the answer was not complete in the time allowed")
		require.Equal(t, 30*time.Second, time.Since(began))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, latest, http.NoBody).WithContext(ctx))
		require.Empty(t, w.Body.String(), "the client has left")
	})
}
