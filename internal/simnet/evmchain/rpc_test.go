package evmchain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/core/types"

	"quorate/internal/chain/evm"
)

// served is a node of a chain, behind HTTP.
func served(t testing.TB, o Options) (*Node, string) {
	t.Helper()
	g, err := New(o)
	require.NoError(t, err)
	n, err := NewNode(g, t.TempDir())
	require.NoError(t, err)
	server := httptest.NewServer(n)
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, n.Close())
	})
	require.NoError(t, n.Grow(t.Context(), o.Txs))
	return n, server.URL
}

type rpcReply struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    string
	}
}

func post(t testing.TB, url, body string) ([]byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

func call(t testing.TB, url, method, params string) rpcReply {
	t.Helper()
	text, err := post(t, url, fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params))
	require.NoError(t, err)
	var answer rpcReply
	require.NoError(t, json.Unmarshal(text, &answer), "%s", text)
	require.Equal(t, "7", string(answer.ID))
	return answer
}

// result is what a call that succeeds gives.
func result(t testing.TB, url, method, params string) string {
	t.Helper()
	answer := call(t, url, method, params)
	require.Nil(t, answer.Error, "%s(%s)", method, params)
	return string(answer.Result)
}

func TestNodeTellsBlocks(t *testing.T) {
	o := Options{Seed: 4, Txs: 600, ChainID: 43113}
	n, url := served(t, o)
	_, blocks := chain(t, o)
	tip := blocks[len(blocks)-1]
	require.Equal(t, tip.Number, n.Tip())
	require.Equal(t, n.Generator().Txs(), n.Txs())
	require.JSONEq(t, `"0xa869"`, result(t, url, "eth_chainId", `[]`))
	require.JSONEq(t, fmt.Sprintf(`"0x%x"`, tip.Number), result(t, url, "eth_blockNumber", `[]`))
	for _, name := range []string{"latest", "accepted", "finalized", "safe"} {
		require.Equal(t, string(tip.Text), result(t, url, "eth_getBlockByNumber", `["`+name+`",true]`), name)
	}
	for _, b := range blocks {
		number, hash := fmt.Sprintf("0x%x", b.Number), b.Hash.Hex()
		require.Equal(t, string(b.Text), result(t, url, "eth_getBlockByNumber", `["`+number+`",true]`))
		require.Equal(t, string(b.Text), result(t, url, "eth_getBlockByHash", `["`+hash+`",true]`))
		require.Equal(t, string(b.Receipts), result(t, url, "eth_getBlockReceipts", `["`+number+`"]`))
		require.Equal(t, string(b.Receipts), result(t, url, "eth_getBlockReceipts", `["`+hash+`"]`))
		short := result(t, url, "eth_getBlockByNumber", `["`+number+`",false]`)
		require.Equal(t, append([]common.Hash{}, b.Txs...), read[struct{ Transactions []common.Hash }](t, []byte(short)).Transactions)
		if b.Number == 0 {
			continue
		}
		require.Equal(t, string(b.Traces), result(t, url, "debug_traceBlockByNumber", `["`+number+`",{"tracer":"callTracer"}]`))
		require.Equal(t, string(b.Traces), result(t, url, "debug_traceBlockByHash", `["`+hash+`",{"tracer":"callTracer"}]`))
	}
	var whole struct{ Transactions []json.RawMessage }
	some := blocks[slices.IndexFunc(blocks, func(b *Block) bool { return len(b.Txs) > 5 })]
	require.NoError(t, json.Unmarshal(some.Text, &whole))
	receipts := read[[]json.RawMessage](t, some.Receipts)
	for i, hash := range some.Txs {
		require.Equal(t, string(whole.Transactions[i]), result(t, url, "eth_getTransactionByHash", `["`+hash.Hex()+`"]`))
		require.Equal(t, string(receipts[i]), result(t, url, "eth_getTransactionReceipt", `["`+hash.Hex()+`"]`))
	}
}

func TestNodeRefusesAsARealOne(t *testing.T) {
	n, url := served(t, Options{Seed: 4, Txs: 60})
	above := fmt.Sprintf(`"0x%x"`, n.Tip()+1)
	absentHash := `"0x` + strings.Repeat("12", 32) + `"`
	for _, test := range []struct {
		method, params string
		code           int
		message        string
	}{
		{"eth_getBlockByNumber", "[" + above + ",true]", -32000, "cannot query unfinalized data"},
		{"eth_getBalance", `["` + Teleporter.Hex() + `",` + above + `]`, -32000, "cannot query unfinalized data"},
		{"eth_call", `[{"to":"` + Teleporter.Hex() + `"},` + above + `]`, -32000, "cannot query unfinalized data"},
		{"debug_traceBlockByNumber", "[" + above + `,{"tracer":"callTracer"}]`, -32000, "cannot query unfinalized data"},
		{"debug_traceBlockByNumber", `["0x0",{"tracer":"callTracer"}]`, -32000, "genesis is not traceable"},
		{"debug_traceBlockByHash", "[" + absentHash + `,{"tracer":"callTracer"}]`, -32000, "header for hash not found"},
		{"debug_traceBlockByNumber", `["0x1"]`, -32000, `the tracer "" is not simulated, callTracer is`},
		{"eth_getLogs", `[{"fromBlock":"0x0","toBlock":` + above + `}]`, -32000, fmt.Sprintf("requested to block %d after last accepted block %d", n.Tip()+1, n.Tip())},
		{"eth_getLogs", `[{"fromBlock":` + above + `}]`, -32000, fmt.Sprintf("requested from block %d after last accepted block %d", n.Tip()+1, n.Tip())},
		{"eth_getLogs", `[{"fromBlock":` + above + `,"toBlock":"0x1"}]`, -32000, "invalid block range params"},
		{"eth_getLogs", `[{"fromBlock":"0x2","toBlock":"0x1"}]`, -32000, "invalid block range params"},
		{"eth_getLogs", `[{"fromBlock":"0x2","toBlock":"earliest"}]`, -32000, "begin block 2 is greater than end block 0"},
		{"eth_getLogs", `[{"toBlock":"0x1"}]`, -32000, fmt.Sprintf("begin block %d is greater than end block 1", n.Tip())},
		{"eth_getLogs", `[{"fromBlock":"2"}]`, -32602, "invalid argument 0: hex string without 0x prefix"},
		{"eth_getBlockByNumber", `["0x01",true]`, -32602, "invalid argument 0: hex number with leading zero digits"},
		{"eth_getBlockByNumber", `[]`, -32602, "missing value for required argument 0"},
		{"eth_mine", `[]`, -32601, "the method eth_mine does not exist/is not available"},
	} {
		answer := call(t, url, test.method, test.params)
		require.NotNil(t, answer.Error, "%s(%s): got %s", test.method, test.params, answer.Result)
		require.Equal(t, test.message, answer.Error.Message)
		require.Equal(t, test.code, answer.Error.Code)
	}
	for method, params := range map[string]string{
		"eth_getBlockByHash": "[" + absentHash + ",true]", "eth_getBlockReceipts": "[" + above + "]",
		"eth_getTransactionByHash": "[" + absentHash + "]", "eth_getTransactionReceipt": "[" + absentHash + "]",
	} {
		require.Equal(t, "null", result(t, url, method, params), method)
	}
	text, err := post(t, url, `{"id":`)
	require.NoError(t, err)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`, string(text))
}

func TestNodeAnswersBatches(t *testing.T) {
	n, url := served(t, Options{Seed: 4, Txs: 300})
	var calls []string
	for i := range n.Tip() + 2 { // the last one is above the tip
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"eth_getBlockByNumber","params":["0x%x",true]}`, i, i))
	}
	text, err := post(t, url, "["+strings.Join(calls, ",")+"]")
	require.NoError(t, err)
	answers := read[[]rpcReply](t, text)
	require.Len(t, answers, len(calls))
	for i, answer := range answers {
		require.Equal(t, fmt.Sprintf(`"%d"`, i), string(answer.ID))
		require.Equal(t, uint64(i) > n.Tip(), answer.Error != nil)
	}
	text, err = post(t, url, "[]")
	require.NoError(t, err)
	require.Equal(t, -32600, read[rpcReply](t, text).Error.Code)
}

func TestNodeFindsLogs(t *testing.T) {
	n, url := served(t, Options{Seed: 4, Txs: 800})
	var all []types.Log
	for number := range n.Tip() + 1 {
		text, err := n.appendPart(nil, number, receiptsPart)
		require.NoError(t, err)
		for _, receipt := range read[[]types.Receipt](t, text) {
			for _, l := range receipt.Logs {
				all = append(all, *l)
			}
		}
	}
	token := all[len(all)/2].Address
	transfer := transferTopic.Hex()
	from := all[len(all)/3].BlockNumber
	for _, test := range []struct {
		filter string
		wants  func(*types.Log) bool
	}{
		{`{"fromBlock":"0x0","toBlock":"latest"}`, func(*types.Log) bool { return true }},
		{fmt.Sprintf(`{"fromBlock":"0x%x","toBlock":"0x%x"}`, from, from+5), func(l *types.Log) bool { return l.BlockNumber >= from && l.BlockNumber <= from+5 }},
		{`{"fromBlock":"0x0","address":"` + token.Hex() + `"}`, func(l *types.Log) bool { return l.Address == token }},
		{`{"fromBlock":"earliest","address":["` + token.Hex() + `","` + Warp.Hex() + `"]}`, func(l *types.Log) bool { return l.Address == token || l.Address == Warp }},
		{`{"fromBlock":"0x0","topics":["` + transfer + `"]}`, func(l *types.Log) bool { return len(l.Topics) > 0 && l.Topics[0] == transferTopic }},
		{`{"fromBlock":"0x0","topics":[["` + transfer + `","` + singleTopic.Hex() + `"],null,"` + (common.Hash{}).Hex() + `"]}`, func(l *types.Log) bool {
			return len(l.Topics) > 2 && (l.Topics[0] == transferTopic || l.Topics[0] == singleTopic) && l.Topics[2] == common.Hash{}
		}},
		{`{"fromBlock":"0x0","topics":[null,null,null,null]}`, func(l *types.Log) bool { return len(l.Topics) > 3 }},
	} {
		var want []types.Log
		for i := range all {
			if test.wants(&all[i]) {
				want = append(want, all[i])
			}
		}
		require.NotEmpty(t, want, test.filter)
		require.Equal(t, want, read[[]types.Log](t, []byte(result(t, url, "eth_getLogs", "["+test.filter+"]"))), test.filter)
	}
	var of []types.Log
	for _, l := range all {
		if l.BlockNumber == from {
			of = append(of, l)
		}
	}
	require.Equal(t, of, read[[]types.Log](t, []byte(result(t, url, "eth_getLogs", `[{"blockHash":"`+of[0].BlockHash.Hex()+`"}]`))))
	require.Equal(t, "[]", result(t, url, "eth_getLogs", `[{"address":"`+Teleporter.Hex()+`","fromBlock":"0x0","toBlock":"0x0"}]`))
}

// asking asks a contract at a block; nil if it reverts.
func asking(t *testing.T, url string, to common.Address, input []byte, block uint64) []byte {
	t.Helper()
	answer := call(t, url, "eth_call", fmt.Sprintf(`[{"to":%q,"data":%q},"0x%x"]`, to.Hex(), hexutil.Encode(input), block))
	if answer.Error != nil {
		require.Equal(t, 3, answer.Error.Code)
		require.True(t, strings.HasPrefix(answer.Error.Message, "execution reverted"))
		return nil
	}
	return read[hexutil.Bytes](t, answer.Result)
}

func TestContractsAnswer(t *testing.T) {
	n, url := served(t, Options{Seed: 6, Txs: 3000, Record: true})
	truth, tip := n.Generator().Truth(), n.Tip()
	asks := func(id uint32) []byte { return append(packed{}, calling("supportsInterface(bytes4)").word4(id)...) }
	number := func(b []byte) string { return new(big.Int).SetBytes(b).String() }
	words := func(s string) []byte { return text(s) }
	kinds, nameless, named32, uris := make(map[evm.Standard]int), 0, 0, make(map[string]int)
	for _, c := range truth.Contracts() {
		kinds[c.Standard]++
		yes721, yes1155 := asking(t, url, c.Address, asks(0x80ac58cd), tip), asking(t, url, c.Address, asks(0xd9b67a26), tip)
		require.Equal(t, c.Standard == evm.ERC721, number(yes721) == "1", "%s is an ERC-721", c.Address)
		require.Equal(t, c.Standard == evm.ERC1155, number(yes1155) == "1", "%s is an ERC-1155", c.Address)
		require.NotEqual(t, "1", number(asking(t, url, c.Address, asks(0xffffffff), tip)))
		isToken := asking(t, url, c.Address, calling("totalSupply()"), tip) != nil && asking(t, url, c.Address, calling("decimals()"), tip) != nil &&
			asking(t, url, c.Address, calling("balanceOf(address)").address(Warp), tip) != nil
		require.Equal(t, c.Standard == evm.ERC20, isToken, "%s is an ERC-20", c.Address)
		if c.Decimals != nil {
			require.Equal(t, fmt.Sprint(*c.Decimals), number(asking(t, url, c.Address, calling("decimals()"), tip)))
		}
		switch name := asking(t, url, c.Address, calling("name()"), tip); {
		case c.Name == "":
			nameless++
			require.Nil(t, name)
			require.Nil(t, asking(t, url, c.Address, calling("symbol()"), tip))
		case len(name) == 32:
			named32++
			require.Equal(t, c.Name, string(bytes.TrimRight(name, "\x00")))
		default:
			require.Equal(t, words(c.Name), name)
			require.Equal(t, words(c.Symbol), asking(t, url, c.Address, calling("symbol()"), tip))
		}
		require.NotEqual(t, `"0x"`, result(t, url, "eth_getCode", `["`+c.Address.Hex()+`","latest"]`))
		if c.Standard == evm.ERC721 {
			for _, token := range truth.Tokens(c.Address, tip) {
				require.Equal(t, []byte(packed(nil).address(*token.Owner)), asking(t, url, c.Address, calling("ownerOf(uint256)").uint(&token.TokenID), tip))
				uri := asking(t, url, c.Address, calling("tokenURI(uint256)").uint(&token.TokenID), tip)
				uris[strings.SplitN(string(uri[64:64+new(big.Int).SetBytes(uri[32:64]).Int64()]), ":", 2)[0]]++
			}
			require.Nil(t, asking(t, url, c.Address, calling("ownerOf(uint256)").uint(&maxNumber), tip))
			require.Nil(t, asking(t, url, c.Address, calling("tokenURI(uint256)").uint(&maxNumber), tip))
		}
		if c.Standard == evm.ERC1155 {
			require.NotNil(t, asking(t, url, c.Address, calling("uri(uint256)").number(3), tip))
		}
	}
	for _, standard := range []evm.Standard{evm.Unknown, evm.ERC20, evm.ERC721, evm.ERC1155} {
		require.NotZero(t, kinds[standard])
	}
	require.NotZero(t, nameless)
	require.NotZero(t, named32)
	for _, scheme := range []string{"data", "ipfs", "http", ""} {
		require.NotZero(t, uris[scheme], "token URIs by %q", scheme)
	}

	// At any block, and before there is a contract.
	for _, d := range truth.Deployments()[:20] {
		at := `["` + d.Contract.Hex() + `","` + fmt.Sprintf("0x%x", d.Block-1) + `"]`
		require.Equal(t, `"0x"`, result(t, url, "eth_getCode", at))
		require.Empty(t, asking(t, url, d.Contract, calling("totalSupply()"), d.Block-1))
	}
	var checked int
	for _, address := range truth.Accounts() {
		for _, block := range []uint64{0, tip / 2, tip} {
			balance := truth.Native(address, block)
			got := read[*hexutil.Big](t, []byte(result(t, url, "eth_getBalance", fmt.Sprintf(`[%q,"0x%x"]`, address, block))))
			require.Equal(t, balance.Dec(), got.ToInt().String())
			all := truth.Balances(address, block)
			for _, b := range all {
				one := asking(t, url, b.Contract, calling("balanceOf(address,uint256)").address(address).uint(&b.TokenID), block)
				require.Equal(t, b.Amount.Dec(), number(one))
				holders := []uint256.Int{*new(uint256.Int).SetBytes(Warp[:]), *new(uint256.Int).SetBytes(address[:])}
				input := calling("balanceOfBatch(address[],uint256[])").number(64).number(160).list(holders).list([]uint256.Int{b.TokenID, b.TokenID})
				require.Equal(t, []byte(packed(nil).number(32).number(2).number(0).uint(&b.Amount)), asking(t, url, b.Contract, input, block))
				checked++
			}
		}
		if checked > 300 {
			break
		}
	}
	require.NotZero(t, checked)
	id := n.Generator().BlockchainID()
	require.Equal(t, id[:], asking(t, url, Warp, calling("getBlockchainID()"), tip))
	require.Empty(t, asking(t, url, common.Address{1, 2, 3}, calling("name()"), tip))
}

// word4 is four bytes, as the ABI has them.
func (p packed) word4(n uint32) packed {
	return append(append(p, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)), make([]byte, 28)...)
}

func TestFaults(t *testing.T) {
	n, url := served(t, Options{Seed: 4, Txs: 300})
	block := `{"jsonrpc":"2.0","id":7,"method":"eth_getBlockByNumber","params":["0x5",true]}`
	whole, err := post(t, url, block)
	require.NoError(t, err)

	n.SetFaults(Faults{Truncated: true})
	text, err := post(t, url, block)
	require.NoError(t, err)
	require.False(t, json.Valid(text))
	require.Equal(t, whole[:len(whole)/2], text)

	n.SetFaults(Faults{Reset: true})
	_, err = post(t, url, block)
	require.Error(t, err)

	n.SetFaults(Faults{HalfBatch: true})
	text, err = post(t, url, "["+block+","+block+","+block+"]")
	require.NoError(t, err)
	require.Len(t, read[[]rpcReply](t, text), 2)

	n.SetFaults(Faults{Every: 2, Truncated: true})
	good := 0
	for range 6 {
		text, err = post(t, url, block)
		require.NoError(t, err)
		if json.Valid(text) {
			good++
		}
	}
	require.Equal(t, 3, good)

	trace := `["0x5",{"tracer":"callTracer"}]`
	n.SetFaults(Faults{Tracing: NoTracer})
	require.Equal(t, -32601, call(t, url, "debug_traceBlockByNumber", trace).Error.Code)

	n.SetFaults(Faults{})
	var sent []struct{ Hash string }
	for number := uint64(1); len(sent) == 0; number++ {
		text := result(t, url, "eth_getBlockByNumber", fmt.Sprintf(`["0x%x",true]`, number))
		sent = read[struct{ Transactions []struct{ Hash string } }](t, []byte(text)).Transactions
	}
	logs := fmt.Sprintf(`[{"fromBlock":"0x1","toBlock":"0x%x"}]`, n.Tip()-1)
	require.NotEqual(t, "[]", result(t, url, "eth_getLogs", logs))
	n.SetFaults(Faults{First: n.Tip()})
	for _, method := range []string{"eth_getTransactionByHash", "eth_getTransactionReceipt"} {
		require.Equal(t, "null", result(t, url, method, fmt.Sprintf("[%q]", sent[0].Hash)))
	}
	require.Equal(t, "[]", result(t, url, "eth_getLogs", logs))
	require.Contains(t, call(t, url, "debug_traceBlockByNumber", trace).Error.Message, "block #5 not found")

	n.SetFaults(Faults{Behind: 10})
	require.Equal(t, fmt.Sprintf(`"0x%x"`, n.Tip()-10), result(t, url, "eth_blockNumber", "[]"))
	require.NotNil(t, call(t, url, "eth_getBlockByNumber", fmt.Sprintf(`["0x%x",true]`, n.Tip()-9)).Error)

	n.SetFaults(Faults{})
	text, err = post(t, url, block)
	require.NoError(t, err)
	require.Equal(t, whole, text)
	require.NotNil(t, result(t, url, "debug_traceBlockByNumber", trace))
}

func TestSocketTellsOfHeads(t *testing.T) {
	n, url := served(t, Options{Seed: 4, Txs: 100})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	conn, response, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	ask := func(body string) []byte {
		require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(body)))
		_, text, err := conn.Read(ctx)
		require.NoError(t, err)
		return text
	}
	require.JSONEq(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":"0x%x"}`, n.Tip()), string(ask(`{"id":1,"method":"eth_blockNumber"}`)))
	require.NotNil(t, read[rpcReply](t, ask(`{"id":1,"method":"eth_subscribe","params":["syncing"]}`)).Error)
	id := read[string](t, read[rpcReply](t, ask(`{"id":1,"method":"eth_subscribe","params":["newHeads"]}`)).Result)
	tip := n.Tip()
	require.NoError(t, n.Grow(ctx, 100))
	for number := tip + 1; number <= n.Tip(); number++ {
		_, text, err := conn.Read(ctx)
		require.NoError(t, err)
		head := read[struct {
			Method string
			Params struct {
				Subscription string
				Result       struct {
					Hash   common.Hash
					Number hexutil.Uint64
				}
			}
		}](t, text)
		require.Equal(t, "eth_subscription", head.Method)
		require.Equal(t, id, head.Params.Subscription)
		require.EqualValues(t, number, head.Params.Result.Number)
		block := read[struct{ Hash common.Hash }](t, []byte(result(t, url, "eth_getBlockByNumber", fmt.Sprintf(`["0x%x",false]`, number))))
		require.Equal(t, block.Hash, head.Params.Result.Hash)
	}
	require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"result":true}`, string(ask(`{"id":2,"method":"eth_unsubscribe","params":["`+id+`"]}`)))
	require.NotNil(t, read[rpcReply](t, ask(`{"id":2,"method":"eth_unsubscribe","params":["`+id+`"]}`)).Error)
	n.sockets.close()
	_, _, err = conn.Read(ctx)
	require.Error(t, err)
}

func TestFollowGoesOn(t *testing.T) {
	n, _ := served(t, Options{Seed: 4, Txs: 100})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	tip := n.Tip()
	n.mu.RLock()
	grown := n.grown
	n.mu.RUnlock()
	go func() { done <- n.Follow(ctx, time.Millisecond) }()
	<-grown
	cancel()
	require.NoError(t, <-done)
	require.Greater(t, n.Tip(), tip)
	last := read[rpcBlock](t, func() []byte {
		text, err := n.appendPart(nil, n.Tip(), textPart)
		require.NoError(t, err)
		return text
	}())
	require.WithinDuration(t, time.Now(), time.Unix(int64(last.Time), 0), time.Minute)
}

func BenchmarkNext(b *testing.B) {
	g, err := New(Options{Seed: 1, Txs: b.N})
	require.NoError(b, err)
	b.ReportAllocs()
	size := 0
	for g.Txs() < b.N {
		one, err := g.Next()
		require.NoError(b, err)
		size += len(one.Text) + len(one.Receipts) + len(one.Traces)
	}
	b.ReportMetric(float64(size)/float64(g.Txs()), "B/tx")
}

// BenchmarkServe serves blocks, receipts and traces in batches over loopback; an operation is a
// transaction.
func BenchmarkServe(b *testing.B) {
	n, url := served(b, Options{Seed: 1, Txs: 20_000})
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		for first := uint64(1); first+32 < n.Tip() && done < b.N; first += 32 {
			var calls []string
			for i := first; i < first+32; i++ {
				for _, c := range []string{`eth_getBlockByNumber","params":["0x%x",true]`, `eth_getBlockReceipts","params":["0x%x"]`, `debug_traceBlockByNumber","params":["0x%x",{"tracer":"callTracer"}]`} {
					calls = append(calls, `{"jsonrpc":"2.0","id":1,"method":"`+fmt.Sprintf(c, i)+"}")
				}
				n.mu.RLock()
				done += int(n.blocks[i].txs)
				n.mu.RUnlock()
			}
			text, err := post(b, url, "["+strings.Join(calls, ",")+"]")
			require.NoError(b, err)
			require.Greater(b, len(text), 1000)
		}
	}
}
