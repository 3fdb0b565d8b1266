package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
)

// ethereum answers each call of a batch.
func ethereum(t *testing.T, answer func(method string, params []json.RawMessage) string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		type call struct {
			ID     json.RawMessage
			Method string
			Params []json.RawMessage
		}
		var one call
		if json.Unmarshal(body, &one) == nil {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, one.ID, answer(one.Method, one.Params))
			return
		}
		var calls []call
		if err := json.Unmarshal(body, &calls); err != nil {
			t.Error(err)
		}
		var answers []string
		for _, c := range calls {
			answers = append(answers, fmt.Sprintf(" {\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n", c.ID, answer(c.Method, c.Params)))
		}
		slices.Reverse(answers) // replies may have any order
		fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// blockOf has blocks up to 4, with traces unless disabled.
func blockOf(untraced string) func(string, []json.RawMessage) string {
	return func(method string, params []json.RawMessage) string {
		if len(params) == 0 {
			return `"result":"` + strings.Repeat("x", 1000) + `"`
		}
		number := string(params[0])
		switch {
		case number > `"0x4"`:
			return `"error":{"code":-32000,"message":"cannot query unfinalized data"}`
		case method == tracesMethod && untraced != "":
			return untraced
		}
		return fmt.Sprintf(`"result":{"said":"%s %s, \"]}\\"}`, method, strings.Trim(number, `"`))
	}
}

func said(method string, height int) []byte {
	return fmt.Appendf(nil, `{"said":"%s 0x%x, \"]}\\"}`, method, height)
}

func TestBlocks(t *testing.T) {
	const missing = `"error":{"code":-32601,"message":"the method debug_traceBlockByNumber does not exist/is not available"}`
	whole := func(height int) EVMBlock {
		return EVMBlock{Block: said(blockMethod, height), Receipts: said(receiptsMethod, height), Traces: said(tracesMethod, height)}
	}
	chain := newClient(t, ethereum(t, blockOf(""))).EVM("")
	got, err := chain.Blocks(t.Context(), 0, 3, true)
	require.NoError(t, err)
	require.Equal(t, []EVMBlock{{Block: said(blockMethod, 0)}, whole(1), whole(2)}, got)

	first := got
	got, err = chain.Blocks(t.Context(), 3, 9, true)
	require.NoError(t, err)
	require.Equal(t, []EVMBlock{whole(3), whole(4)}, got)
	_, err = chain.Tip(t.Context()) // the fake's reply is not a height
	require.Error(t, err)
	require.Equal(t, []EVMBlock{{Block: said(blockMethod, 0)}, whole(1), whole(2)}, first, "what came before, after other answers")
	_, err = chain.Blocks(t.Context(), 5, 1, true)
	require.ErrorIs(t, err, ErrBeyondTip)

	for _, refusal := range []string{missing, `"error":{"code":-32000,"message":"required historical state unavailable (reexec=128)"}`} {
		bare := ethereum(t, blockOf(refusal))
		chain = newClient(t, bare).EVM("")
		_, err = chain.Blocks(t.Context(), 1, 2, true)
		require.ErrorIs(t, err, ErrNoTraces)
		got, err = chain.Blocks(t.Context(), 1, 2, false)
		require.NoError(t, err)
		require.Equal(t, EVMBlock{Block: said(blockMethod, 1), Receipts: said(receiptsMethod, 1)}, got[0])

		// Another node may trace.
		got, err = newClient(t, bare, ethereum(t, blockOf(""))).EVM("").Blocks(t.Context(), 1, 1, true)
		require.NoError(t, err)
		require.Equal(t, []EVMBlock{whole(1)}, got)
	}
}

func TestBlockHash(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for name, test := range map[string]struct {
		answer string
		want   error
	}{
		"known":     {`"result":{"number":"0x7","hash":"0x` + hash + `"}`, nil},
		"beyond":    {`"result":null`, ErrBeyondTip},
		"too short": {`"result":{"hash":"0xab"}`, ErrMalformed},
		"not hex":   {`"result":{"hash":"` + hash + `"}`, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Options{Endpoints: []string{ethereum(t, func(method string, params []json.RawMessage) string {
				require.Equal(t, blockMethod, method)
				require.Equal(t, []json.RawMessage{json.RawMessage(`"0x7"`), json.RawMessage("false")}, params)
				return test.answer
			})}})
			require.NoError(t, err)
			defer c.Close()
			got, err := c.EVM("").BlockHash(t.Context(), 7)
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				require.Equal(t, hash, got.Hex())
			}
		})
	}
}

// TestBlocksTooLarge uses a node that bounds the bytes of a batch but not those of a single
// call.
func TestBlocksTooLarge(t *testing.T) {
	var left, batches int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var calls []request
		_ = json.NewDecoder(r.Body).Decode(&calls)
		batches++
		var answers []string
		for i, c := range calls {
			answer := fmt.Sprintf(`{"id":%d,"result":%q}`, c.ID, c.Method)
			if len(calls) > 1 && i >= left {
				answer = fmt.Sprintf(`{"id":%d,"error":{"code":-32003,"message":"response too large"}}`, c.ID)
			}
			answers = append(answers, answer)
		}
		fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
	}))
	defer server.Close()
	chain := newClient(t, server.URL).EVM("")
	for bytes, want := range map[int]struct{ blocks, batches int }{10: {3, 1}, 9: {2, 1}, 4: {1, 1}, 3: {1, 4}, 0: {1, 4}} {
		left, batches = bytes, 0
		got, err := chain.Blocks(t.Context(), 1, 3, true)
		require.NoError(t, err)
		require.Len(t, got, want.blocks)
		require.Equal(t, want.batches, batches)
	}
}

func TestBlocksNotExecutedYet(t *testing.T) {
	_, err := newClient(t, ethereum(t, func(method string, _ []json.RawMessage) string {
		if method == receiptsMethod {
			return `"result":null`
		}
		return `"result":{}`
	})).EVM("").Blocks(t.Context(), 1, 1, false)
	require.ErrorIs(t, err, ErrBeyondTip)
}

func TestBatchMalformed(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":         ``,
		"no JSON":         `<html>`,
		"cut short":       `[{"id":0,"result":{"a":1}},{"id":1,"res`,
		"cut in a string": `[{"id":0,"result":"0x12`,
		"one answer":      `[{"id":0,"result":{}}]`,
		"twice the same":  `[{"id":0,"result":{}},{"id":0,"result":{}}]`,
		"unknown ID":      `[{"id":0,"result":{}},{"id":7,"result":{}}]`,
		"null ID":         `[{"id":null,"result":{}},{"id":1,"result":{}}]`,
		"no ID":           `[{"result":{}},{"id":1,"result":{}}]`,
		"numbers":         `[1,2]`,
		"empty":           `[]`,
		"something more":  `[{"id":0,"result":{}},{"id":1,"result":{}}] x`,
		"wrong brackets":  `[{"id":0,"result":{]},{"id":1}]`,
		"not a batch":     `{"id":0,"result":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, 200, body)
			_, err := newClient(t, url).EVM("").Blocks(t.Context(), 1, 1, false)
			require.Error(t, err)
			if name != "wrong brackets" { // its content is parsed elsewhere
				require.ErrorIs(t, err, ErrMalformed)
			}
		})
	}
	url, _ := serve(t, 200, `{"id":null,"error":{"code":-32600,"message":"batch too large"}}`)
	_, err := newClient(t, url).EVM("").Blocks(t.Context(), 1, 1, false)
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, -32600, refused.Code)
}

func FuzzReadBatch(f *testing.F) {
	f.Add(`[{"id":0,"result":{"a":["\"]",1]}},{"id":1,"error":{"code":-1,"message":"x"}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		answers, err := readBatch(200, []byte(text), "", []invocation{{method: "a"}, {method: "b"}})
		if err != nil {
			return
		}
		for _, a := range answers {
			require.Contains(t, text, string(a.result))
		}
		if json.Valid([]byte(text)) {
			var want []struct{ Result json.RawMessage }
			require.NoError(t, json.Unmarshal([]byte(text), &want))
			require.Len(t, want, 2)
		}
	})
}

func TestCalls(t *testing.T) {
	refusal := `"error":{"code":3,"message":"execution reverted: no","data":"0x"}`
	var at string
	chain := newClient(t, ethereum(t, func(method string, params []json.RawMessage) string {
		var call struct{ To, Data, Gas string }
		_ = json.Unmarshal(params[0], &call)
		at = string(params[1])
		if call.Data == "0x02" {
			return refusal
		}
		return fmt.Sprintf(`"result":%q`, call.Data+strings.TrimPrefix(call.Gas, "0x"))
	})).EVM("")
	calls := []EVMCall{{To: common.Address{19: 1}, Data: []byte{1}}, {Data: []byte{2}}, {Data: []byte{3}, Gas: 0x10}}
	got, err := chain.Calls(t.Context(), nil, calls)
	require.NoError(t, err)
	require.Equal(t, []EVMReturn{{Data: []byte{1}}, {Failed: true}, {Data: []byte{3, 0x10}}}, got)
	require.Equal(t, `"latest"`, at)
	height := uint64(17)
	_, err = chain.Calls(t.Context(), &height, calls)
	require.NoError(t, err)
	require.Equal(t, `"0x11"`, at)

	for _, nodes := range []string{"missing trie node 12 (path )", "header not found", "rate limit"} {
		refusal = fmt.Sprintf(`"error":{"code":-32000,"message":%q}`, nodes)
		_, err = chain.Calls(t.Context(), nil, calls)
		var refused *RPCError
		require.ErrorAs(t, err, &refused, "what a node cannot do is not what a contract did")
	}
	_, err = chain.Calls(t.Context(), nil, make([]EVMCall, MaxCalls+1))
	require.Error(t, err)
	none, err := chain.Calls(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// TestCallsWithCode has a node whose responses are short, so that the calls of an address take several requests. Each
// of them has the address's code: another node may answer it.
func TestCallsWithCode(t *testing.T) {
	for name, tt := range map[string]struct {
		most     int  // limit of calls for a batch, 0 for none
		lacksAt  int  // the request from which on the node lacks address 1, 0 for none
		tooLarge bool // the code does not fit into the first response
		want     [5]bool
		methods  []string // of the first request, nil for any
	}{
		"one request": {
			want:    [5]bool{3: true},
			methods: []string{"eth_getCode", "eth_call", "eth_call", "eth_call", "eth_getCode", "eth_call", "eth_call"},
		},
		"another node lacks it": {most: 3, lacksAt: 4, want: [5]bool{2: true, 3: true}},
		"code does not fit":     {tooLarge: true, want: [5]bool{3: true}},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				var asked []struct {
					ID     int
					Method string
					Params []json.RawMessage
				}
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					t.Error(err)
				}
				if tt.most > 0 && len(asked) > tt.most {
					fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}`)
					return
				}
				var methods, answers []string
				for _, c := range asked {
					methods = append(methods, c.Method)
					result := `"result":"0x01"`
					switch {
					case c.Method != "eth_getCode":
					case tt.tooLarge && requests == 1:
						result = `"error":{"code":-32003,"message":"response too large"}`
					case strings.Contains(string(c.Params[0]), "02") || tt.lacksAt > 0 && requests >= tt.lacksAt:
						result = `"result":"0x"`
					}
					answers = append(answers, fmt.Sprintf(`{"id":%d,%s}`, c.ID, result))
				}
				if requests == 1 && tt.methods != nil && !slices.Equal(tt.methods, methods) {
					t.Errorf("got %v, want %v", methods, tt.methods)
				}
				fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
			}))
			defer server.Close()
			one, two := common.Address{19: 1}, common.Address{19: 2}
			got, err := newClient(t, server.URL).EVM("").Calls(t.Context(), nil, []EVMCall{
				{To: one, Code: true}, {To: one, Code: true}, {To: one, Code: true}, {To: two, Code: true}, {To: two},
			})
			require.NoError(t, err)
			for i, r := range got {
				require.Equal(t, EVMReturn{Data: []byte{1}, NoCode: tt.want[i]}, r, i)
			}
		})
	}
	_, err := newClient(t, "http://127.0.0.1:1").EVM("").Calls(t.Context(), nil, slices.Repeat([]EVMCall{{Code: true}}, MaxCalls))
	require.ErrorContains(t, err, "101 calls")
}

// TestCallsTooLarge calls contracts whose results exceed the node's limit for a batch, or
// the client's limit for a response.
func TestCallsTooLarge(t *testing.T) {
	calls := make([]EVMCall, MaxCalls)
	for i := range calls {
		calls[i].Data = []byte{byte(i)}
	}
	for name, tt := range map[string]struct {
		batch int            // limit of bytes for a batch, 0 for none
		most  int            // limit of calls for a batch, 0 for none
		long  map[string]int // length of results by call, in bytes
		fails []int
	}{
		"each is short":             {batch: 1000},
		"one is more than a batch":  {batch: 1000, long: map[string]int{"0x07": 2000}, fails: []int{7}},
		"many are":                  {batch: 1000, long: map[string]int{"0x00": 2000, "0x07": 600, "0x08": 600, "0x63": 2000}, fails: []int{0, 99}},
		"one is more than is read":  {long: map[string]int{"0x07": 60_000}, fails: []int{7}},
		"all together are":          {long: map[string]int{"0x01": 15_000, "0x20": 15_000, "0x40": 15_000}},
		"the batch has many calls":  {most: 30},
		"all of that, in one batch": {batch: 30_000, most: 64, long: map[string]int{"0x01": 29_000, "0x02": 29_000, "0x07": 60_000}, fails: []int{7}},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				var asked []struct {
					ID     int
					Params []json.RawMessage
				}
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					t.Error(err)
				}
				if tt.most > 0 && len(asked) > tt.most {
					fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}`)
					return
				}
				var answers []string
				left := tt.batch
				for _, c := range asked {
					var call struct{ Data string }
					_ = json.Unmarshal(c.Params[0], &call)
					result := call.Data + strings.Repeat("00", max(0, tt.long[call.Data]/2))
					if left -= len(result); tt.batch > 0 && left < 0 {
						left = 0
						answers = append(answers, fmt.Sprintf(`{"id":%d,"error":{"code":-32003,"message":"response too large"}}`, c.ID))
						continue
					}
					answers = append(answers, fmt.Sprintf(`{"id":%d,"result":%q}`, c.ID, result))
				}
				fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
			}))
			defer server.Close()
			client := newClient(t, server.URL)
			client.limit = 40_000
			got, err := client.EVM("").Calls(t.Context(), nil, calls)
			require.NoError(t, err)
			for i, r := range got {
				if slices.Contains(tt.fails, i) {
					require.Equal(t, EVMReturn{Failed: true}, r, i)
				} else {
					require.False(t, r.Failed, i)
					require.Equal(t, byte(i), r.Data[0])
				}
			}
			require.Less(t, requests, 2*MaxCalls)
			require.False(t, client.endpoints[0].cooling(), "the node did nothing wrong")
		})
	}
}

// TestCallsThatAreAborted distinguishes failures of a contract from those of a node: a
// timeout says nothing about the contract.
func TestCallsThatAreAborted(t *testing.T) {
	for _, text := range []string{"out of gas", "contract creation code storage out of gas"} {
		chain := newClient(t, ethereum(t, func(string, []json.RawMessage) string {
			return fmt.Sprintf(`"error":{"code":-32000,"message":%q}`, text)
		})).EVM("")
		got, err := chain.Calls(t.Context(), nil, []EVMCall{{}})
		require.NoError(t, err, text)
		require.Equal(t, []EVMReturn{{Failed: true}}, got, text)
	}
	slow := newClient(t, ethereum(t, func(string, []json.RawMessage) string {
		return `"error":{"code":-32000,"message":"execution aborted (timeout = 5s)"}`
	})).EVM("")
	_, err := slow.Calls(t.Context(), nil, []EVMCall{{}})
	require.ErrorContains(t, err, "execution aborted")
}

func TestNativeBalance(t *testing.T) {
	result := `"0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"`
	chain := newClient(t, ethereum(t, func(_ string, params []json.RawMessage) string {
		require.Equal(t, `"0x5"`, string(params[1]))
		return `"result":` + result
	})).EVM("")
	got, err := chain.NativeBalance(t.Context(), common.Address{}, 5)
	require.NoError(t, err)
	require.Equal(t, new(uint256.Int).SetAllOne(), got)
	for _, result = range []string{`"0x1` + strings.Repeat("0", 64) + `"`, `"12"`, `""`} {
		_, err = chain.NativeBalance(t.Context(), common.Address{}, 5)
		require.ErrorIs(t, err, ErrMalformed)
	}
}

// TestMethodOfAnotherNode has a node without one of the methods that a batch needs, as some providers are, before one
// with all.
func TestMethodOfAnotherNode(t *testing.T) {
	all := func(method string, params []json.RawMessage) string {
		switch method {
		case heightMethod:
			return `"result":"0x4"`
		case "eth_getLogs":
			return `"result":[]`
		}
		return blockOf("")(method, params)
	}
	without := func(missing string) string {
		return ethereum(t, func(method string, params []json.RawMessage) string {
			if method == missing {
				return `"error":{"code":-32601,"message":"the method does not exist/is not available"}`
			}
			return all(method, params)
		})
	}
	whole := ethereum(t, all)
	blocks, err := newClient(t, without(receiptsMethod), whole).EVM("").Blocks(t.Context(), 1, 2, true)
	require.NoError(t, err)
	require.Len(t, blocks, 2)
	_, last, err := newClient(t, without("eth_getLogs"), whole).SentMessages(t.Context(), "", 1, 4)
	require.NoError(t, err)
	require.Equal(t, uint64(4), last)

	c := newClient(t, without(receiptsMethod))
	_, err = c.EVM("").Blocks(t.Context(), 1, 1, false)
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.NotOffered())
	require.Equal(t, receiptsMethod, refused.Method)
	_, _, err = c.SentMessages(t.Context(), "", 1, 4)
	require.NoError(t, err, "another batch, whose first method is the same")
}

// TestStateOfAnotherNode has a node that pruned the state or lags, before one that has it.
func TestStateOfAnotherNode(t *testing.T) {
	asked := 0
	archive := ethereum(t, func(method string, _ []json.RawMessage) string {
		asked++
		if method == callMethod {
			return `"result":"0x07"`
		}
		return `"result":"0x7"`
	})
	for _, refusal := range []string{"missing trie node 12 (path )", "header not found", "cannot query unfinalized data"} {
		first := ethereum(t, func(string, []json.RawMessage) string {
			return fmt.Sprintf(`"error":{"code":-32000,"message":%q}`, refusal)
		})
		chain := newClient(t, first, archive).EVM("")
		balance, err := chain.NativeBalance(t.Context(), common.Address{}, 5)
		require.NoError(t, err, refusal)
		require.Equal(t, uint256.NewInt(7), balance)
		height := uint64(5)
		returned, err := chain.Calls(t.Context(), &height, []EVMCall{{}})
		require.NoError(t, err, refusal)
		require.Equal(t, []EVMReturn{{Data: []byte{7}}}, returned)

		_, err = newClient(t, first).EVM("").NativeBalance(t.Context(), common.Address{}, 5)
		var refused *RPCError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, refusal)
	}
	require.Equal(t, 6, asked)

	reverts := ethereum(t, func(string, []json.RawMessage) string {
		return `"error":{"code":3,"message":"execution reverted: missing trie node"}`
	})
	returned, err := newClient(t, reverts, archive).EVM("").Calls(t.Context(), nil, []EVMCall{{}})
	require.NoError(t, err)
	require.Equal(t, []EVMReturn{{Failed: true}}, returned, "a contract chooses the reason for its failure")
}

func TestBlockchainID(t *testing.T) {
	want := ids.ID{1, 2, 3}
	result := fmt.Sprintf(`"0x%x"`, want[:])
	url := ethereum(t, func(string, []json.RawMessage) string { return `"result":` + result })
	got, err := newClient(t, url).EVM(CChainRPC).BlockchainID(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
	result = `"0x"` // there is no such contract
	got, err = newClient(t, url+"/ext/bc/"+want.String()+"/rpc").EVM("").BlockchainID(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = newClient(t, url).EVM(CChainRPC).BlockchainID(t.Context())
	require.NoError(t, err)
	require.Empty(t, got)
}

// TestHeads uses a node that reports two blocks and disconnects.
func TestHeads(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ext/bc/C/ws" {
			t.Errorf("got %s, want the path of the WebSocket", r.URL.Path)
		}
		connection, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = connection.CloseNow() }()
		_, asked, _ := connection.Read(r.Context())
		if !strings.Contains(string(asked), "newHeads") {
			t.Errorf("got %s, want a subscription", asked)
		}
		for _, message := range []string{`{"id":1,"result":"0x1"}`, `{"method":"eth_subscription","params":{}}`, `{"method":"eth_subscription","params":{}}`} {
			_ = connection.Write(r.Context(), websocket.MessageText, []byte(message))
		}
	}))
	defer server.Close()
	woken := make(chan struct{}, 10)
	subscribed, err := newClient(t, server.URL).EVM(CChainRPC).listen(t.Context(), func() { woken <- struct{}{} })
	require.Error(t, err)
	require.True(t, subscribed)
	require.Len(t, woken, 2)

	url, _ := serve(t, 404, ``)
	subscribed, err = newClient(t, url).EVM(CChainRPC).listen(t.Context(), func() {})
	require.ErrorContains(t, err, "404")
	require.False(t, subscribed)
}

// TestHeadsTriesAgain checks that pauses grow for a node without WebSocket.
func TestHeadsTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		client, err := New(Options{Endpoints: []string{"http://node"}, Log: slog.New(slog.DiscardHandler), HTTP: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			tries++
			return nil, io.ErrUnexpectedEOF
		})}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		client.EVM("").Heads(ctx, func() {})
		require.Greater(t, tries, 8)
		require.Less(t, tries, 25)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stateSynced answers like a node that has the genesis block and then blocks from first
// to tip, those before receipts without their receipts.
func stateSynced(first, receipts, tip uint64) func(string, []json.RawMessage) string {
	return func(method string, params []json.RawMessage) string {
		if method == heightMethod {
			return fmt.Sprintf(`"result":"0x%x"`, tip)
		}
		var text string
		_ = json.Unmarshal(params[0], &text)
		height, _ := quantity(method, text)
		switch {
		case method == blockMethod && height > 0 && (height < first || height > tip):
			return `"result":null`
		case method == receiptsMethod && (height < receipts || height > tip):
			return `"result":null`
		}
		return `"result":{}`
	}
}

func TestBlocksOfAStateSyncedNode(t *testing.T) {
	synced := ethereum(t, stateSynced(500, 700, 1000))
	chain := newClient(t, synced).EVM("")
	for height, want := range map[uint64]error{0: nil, 1: ErrPruned, 499: ErrPruned, 500: ErrPruned, 699: ErrPruned, 700: nil, 1000: nil, 1001: ErrBeyondTip} {
		_, err := chain.Blocks(t.Context(), height, 8, false)
		require.ErrorIs(t, err, want, "block %d", height)
		if errors.Is(want, ErrPruned) {
			require.Contains(t, err.Error(), fmt.Sprintf("block %d is not available from the node", height))
			require.Contains(t, err.Error(), "its last block is 1000")
			require.Contains(t, err.Error(), "set state-sync-enabled to false")
		}
	}
	has, err := chain.Has(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, has)

	// Another node may have the block; one that does not answer might.
	archive := ethereum(t, stateSynced(0, 0, 1000))
	_, err = newClient(t, synced, archive).EVM("").Blocks(t.Context(), 1, 8, false)
	require.NoError(t, err)
	_, err = newClient(t, synced, away).EVM("").Blocks(t.Context(), 1, 8, false)
	require.ErrorIs(t, err, ErrUnavailable)

	_, err = newClient(t, synced).CChainBlock(t.Context(), 17)
	require.ErrorIs(t, err, ErrPruned)
	_, err = newClient(t, synced).CChainBlock(t.Context(), 1001)
	require.ErrorIs(t, err, ErrBeyondTip)
}

// TestBlocksTracedSingly uses a node that fails to trace block 2 as a whole.
func TestBlocksTracedSingly(t *testing.T) {
	const refusal = `"error":{"code":-32000,"message":"execution timeout"}`
	var single func(hash string) string
	url := ethereum(t, func(method string, params []json.RawMessage) string {
		switch {
		case method == heightMethod:
			return `"result":"0x9"`
		case method == blockMethod:
			return `"result":{"transactions":[{"hash":"0xa"},{"hash":"0xb"}]}`
		case method == traceMethod:
			require.JSONEq(t, `{"tracer":"callTracer","timeout":"1m0s"}`, string(params[1]))
			return single(string(params[0]))
		case method == tracesMethod && string(params[0]) == `"0x2"`:
			return refusal
		}
		return `"result":[]`
	})
	chain := newClient(t, url).EVM("")
	single = func(hash string) string { return `"result":` + hash }
	blocks, err := chain.Blocks(t.Context(), 1, 8, true)
	require.NoError(t, err)
	require.Len(t, blocks, 1, "those before the block that is refused")
	blocks, err = chain.Blocks(t.Context(), 2, 8, true)
	require.NoError(t, err)
	require.Len(t, blocks, 1)
	require.JSONEq(t, `[{"txHash":"0xa","result":"0xa"},{"txHash":"0xb","result":"0xb"}]`, string(blocks[0].Traces))

	single = func(string) string { return refusal }
	_, err = chain.Blocks(t.Context(), 2, 8, true)
	require.ErrorIs(t, err, ErrTraceRefused)
	require.NotErrorIs(t, err, ErrNoTraces)
	require.Contains(t, err.Error(), "execution timeout")
	single = func(string) string { return `"error":{"code":-32000,"message":"missing trie node 12"}` }
	_, err = chain.Blocks(t.Context(), 2, 8, true)
	require.ErrorIs(t, err, ErrNoState)
	blocks, err = chain.Blocks(t.Context(), 2, 8, false)
	require.NoError(t, err)
	require.Len(t, blocks, 8)
}

// TestBlocksWithLargeReceipts uses a block whose receipts are larger than a response.
func TestBlocksWithLargeReceipts(t *testing.T) {
	const limit = 40_000 // of a response
	// node returns a node with a block of receipts of these sizes, in bytes. It bounds the bytes and the calls of a batch,
	// unless 0, and has receipts by hash unless they are absent.
	node := func(t *testing.T, sizes []int, bytes, calls int, absent bool) (url string, requests *int) {
		var hashes, all []string
		receipts := make(map[string]string)
		for i, size := range sizes {
			hash := fmt.Sprintf("0x%064x", i)
			hashes = append(hashes, fmt.Sprintf(`{"hash":%q}`, hash))
			receipts[hash] = fmt.Sprintf(`{"transactionHash":%q,"logs":["%s"]}`, hash, strings.Repeat("0", size))
			all = append(all, receipts[hash])
		}
		result := func(method string, params []any) string {
			switch {
			case method == heightMethod:
				return `"0x9"`
			case method == blockMethod:
				return `{"transactions":[` + strings.Join(hashes, ",") + `]}`
			case method == receiptsMethod:
				return "[" + strings.Join(all, ",") + "]"
			case method == receiptMethod && !absent:
				hash, _ := params[0].(string)
				return receipts[hash]
			case method == receiptMethod:
				return "null"
			}
			return "[]"
		}
		requests = new(int)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*requests++
			var asked []struct {
				ID     int
				Method string
				Params []any
			}
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
				t.Error(err)
			}
			if calls > 0 && len(asked) > calls {
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}`)
				return
			}
			var answers []string
			sum := 0
			for _, c := range asked {
				if bytes > 0 && sum > bytes {
					answers = append(answers, fmt.Sprintf(`{"id":%d,"error":{"code":-32003,"message":"response too large"}}`, c.ID))
					continue
				}
				one := result(c.Method, c.Params)
				sum += len(one)
				answers = append(answers, fmt.Sprintf(`{"id":%d,"result":%s}`, c.ID, one))
			}
			fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
		}))
		t.Cleanup(server.Close)
		return server.URL, requests
	}
	same := slices.Repeat([]int{500}, 230)
	one := slices.Concat(same[:70], []int{70_000}, same[:70])
	for name, tt := range map[string]struct {
		sizes        []int
		bytes, calls int    // limits of a batch
		fails        string // text of the error
	}{
		"many":                         {sizes: same},
		"one is larger than others":    {sizes: one},
		"the batch has few bytes":      {sizes: same, bytes: 10_000},
		"the batch has few calls":      {sizes: one, calls: 20},
		"one is too large":             {sizes: []int{100, 90_000}, fails: "1 in block 2 has more than 80000 bytes"},
		"all together are too large":   {sizes: slices.Repeat([]int{15_000}, 12), fails: "the receipts of block 2 have more than 160000 bytes"},
		"all of that, in small groups": {sizes: one, bytes: 3000, calls: 7},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := node(t, tt.sizes, tt.bytes, tt.calls, false)
			client := newClient(t, url)
			client.limit = limit
			for _, traces := range []bool{false, true} {
				*requests = 0
				got, err := client.EVM("").Blocks(t.Context(), 2, 1, traces)
				require.Less(t, *requests, 80, "requests for %d receipts", len(tt.sizes))
				require.False(t, client.endpoints[0].cooling(), "the node did nothing wrong")
				if tt.fails != "" {
					require.ErrorContains(t, err, tt.fails)
					require.NotErrorIs(t, err, ErrMalformed, "the error is not about traces")
					continue
				}
				require.NoError(t, err)
				whole, _ := node(t, tt.sizes, 0, 0, false)
				want, err := newClient(t, whole).EVM("").Blocks(t.Context(), 2, 1, traces)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}

	// A node need not index transactions; another one may.
	bare, _ := node(t, same, 0, 0, true)
	client := newClient(t, bare)
	client.limit = limit
	_, err := client.EVM("").Blocks(t.Context(), 2, 1, true)
	require.ErrorContains(t, err, "the node has block 2 but no receipt of its transaction 0x0000")
	indexes, _ := node(t, same, 0, 0, false)
	client = newClient(t, bare, indexes)
	client.limit = limit
	_, err = client.EVM("").Blocks(t.Context(), 2, 1, true)
	require.NoError(t, err)
}
