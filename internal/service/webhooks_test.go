package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/handlers/evm"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	chainindex "quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/node"
	"quorate/internal/store"
	"quorate/internal/webhook"
)

// transferBlock is a source of one block with an ERC-20 transfer of 1.5 tokens of the contract 20 from address 1.
type transferBlock struct {
	index.Source[*chain.Block]
	time uint64
}

func (b transferBlock) Fetch(context.Context, uint64, int) ([]index.Block[*chain.Block], error) {
	party := common.BytesToHash([]byte{1})
	transfer := chain.Log{
		Address: common.Address{19: 20}, Data: common.BigToHash(common.Big1).Bytes(),
		Topics: []common.Hash{common.HexToHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"), party, party},
	}
	transfer.Data[31] = 15
	to := common.Address{19: 1}
	return []index.Block[*chain.Block]{{Height: 1, Content: &chain.Block{
		Number: 1, Time: b.time, Traced: true, Transactions: []chain.Transaction{{To: &to, Logs: []chain.Log{transfer}}},
	}}}, nil
}

// tokenNode is a node with the contract 20, an ERC-20 token with one decimal place. Until end, it fails with err or, if that
// is nil, lacks the contract. Until initialised, each call of the contract fails.
type tokenNode struct {
	err              error
	end, initialised time.Time

	mu    sync.Mutex
	calls int // requests; guarded by mu
}

func (n *tokenNode) requests() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls
}

func (n *tokenNode) Calls(_ context.Context, _ *uint64, calls []node.EVMCall) ([]node.EVMReturn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	lacks := time.Now().Before(n.end)
	if lacks && n.err != nil {
		return nil, n.err
	}
	returned := make([]node.EVMReturn, len(calls))
	for i, call := range calls {
		returned[i].NoCode = lacks && call.Code
		token := !lacks && !time.Now().Before(n.initialised)
		switch method := common.Bytes2Hex(call.Data[:4]); {
		case token && slices.Contains([]string{"313ce567", "18160ddd", "70a08231"}, method): // decimals(), totalSupply(), balanceOf(address)
			returned[i].Data = common.BigToHash(common.Big1).Bytes()
		default:
			returned[i].Failed = true
		}
	}
	return returned, nil
}

// amounts is a receiver that keeps the amounts of transfers.
type amounts struct {
	mu  sync.Mutex
	all []string // guarded by mu
	n   int      // messages; guarded by mu
}

func (a *amounts) RoundTrip(r *http.Request) (*http.Response, error) {
	var m struct {
		Event struct {
			Transaction struct {
				ERC20Transfers []struct {
					ERC20Token struct{ ValueWithDecimals string }
				}
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	for _, transfer := range m.Event.Transaction.ERC20Transfers {
		a.all = append(a.all, transfer.ERC20Token.ValueWithDecimals)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func (a *amounts) received() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

func (a *amounts) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

// TestTokensOfFailingNode has a node fail to call a contract for a while. The webhook's message waits for the decimals.
func TestTokensOfFailingNode(t *testing.T) {
	for name, err := range map[string]error{
		"rate limit":    &node.RPCError{Method: "eth_call", Code: -32005, Message: "rate limit exceeded"},
		"timeout":       &node.RPCError{Method: "eth_call", Code: -32000, Message: "execution aborted (timeout = 5s)"},
		"no state":      &node.RPCError{Method: "eth_call", Code: -32601, Message: "header not found"},
		"error page":    fmt.Errorf("eth_call: %w", node.ErrMalformed),
		"node is down":  fmt.Errorf("eth_call: %w", node.ErrUnavailable),
		"node is tardy": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				receiver := receive(t, &tokenNode{err: err, end: time.Now().Add(time.Minute)}, transferBlock{})
				time.Sleep(59 * time.Second)
				require.Zero(t, receiver.count())
				time.Sleep(12 * time.Second) // the longest pause, and the look for blocks
				require.Equal(t, []string{"1.5"}, receiver.received())
			})
		})
	}
}

// TestNewTokens has a node that lacks a contract which has just emitted a log, because the node lags or because the
// contract has destroyed itself.
func TestNewTokens(t *testing.T) {
	for name, c := range map[string]struct {
		age, lacks, atMost time.Duration
		want               []string
	}{
		"node lags":              {0, 2 * time.Second, 25 * time.Second, []string{"1.5"}},
		"contract is destroyed":  {0, time.Hour, absentTime, nil},
		"destroyed in old block": {time.Minute, time.Hour, 2 * time.Second, nil},
		"clock is slow":          {-5 * time.Second, 2 * time.Second, 25 * time.Second, []string{"1.5"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				block := transferBlock{time: uint64(time.Now().Add(-c.age).Unix())}
				receiver := receive(t, &tokenNode{end: time.Now().Add(c.lacks)}, block)
				time.Sleep(c.atMost)
				require.Equal(t, 1, receiver.count())
				require.Equal(t, c.want, receiver.received())
			})
		})
	}
}

// TestContractsBeforeTheirFirstTransfer asks about a contract that follows no standard before it emits a transfer
// in a block.
func TestContractsBeforeTheirFirstTransfer(t *testing.T) {
	for name, c := range map[string]struct {
		asked       time.Duration // before now
		age         time.Duration // of the block
		initialised time.Duration // from now on, in the node that is asked
		atMost      time.Duration
		want        []string
		requests    int // at most, after the first one
	}{
		"proxy is initialised":               {asked: time.Minute, want: []string{"1.5"}, atMost: 2 * time.Second, requests: 1},
		"same in an old block":               {asked: 9 * time.Minute, age: time.Minute, want: []string{"1.5"}, atMost: 2 * time.Second, requests: 1},
		"node lags":                          {asked: time.Minute, initialised: 12 * time.Second, want: []string{"1.5"}, atMost: 31 * time.Second, requests: 3},
		"asked about the time of block":      {initialised: 12 * time.Second, want: []string{"1.5"}, atMost: 31 * time.Second, requests: 3},
		"no token":                           {asked: time.Minute, initialised: time.Hour, atMost: absentTime, requests: 4},
		"no token in an old block":           {asked: 9 * time.Minute, age: time.Minute, initialised: time.Hour, atMost: 2 * time.Second, requests: 1},
		"no token, asked after the block":    {asked: time.Minute, age: 2 * time.Minute, initialised: time.Hour, atMost: 2 * time.Second},
		"asked soon after an old block":      {asked: time.Minute, age: 70 * time.Second, want: []string{"1.5"}, atMost: 2 * time.Second, requests: 1},
		"block of a chain with a fast clock": {asked: time.Minute, age: -time.Hour, want: []string{"1.5"}, atMost: 2 * time.Second, requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &tokenNode{initialised: time.Now().Add(c.asked + c.initialised)}
				s := store.NewMemory()
				book := contracts.New(contracts.Options{Node: n, Store: s})
				found, err := book.Contracts(t.Context(), []common.Address{{19: 20}})
				require.NoError(t, err)
				require.Equal(t, chain.Unknown, found[0].Standard)
				time.Sleep(c.asked)
				receiver := receiveOf(t, s, book, transferBlock{time: uint64(time.Now().Add(-c.age).Unix())})
				time.Sleep(c.atMost)
				require.Equal(t, 1, receiver.count())
				require.Equal(t, c.want, receiver.received())
				require.LessOrEqual(t, n.requests(), 1+c.requests)
			})
		})
	}
}

// TestNodesAtDifferentHeights has a URL whose second node has not executed the block that created a contract. In its state,
// each call of the contract returns nothing.
func TestNodesAtDifferentHeights(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lags := requests.Add(1) == 2
		var calls []struct {
			ID     int
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&calls); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for i, call := range calls {
			answer := fmt.Sprintf("0x%064x", 1)
			switch {
			case lags:
				answer = "0x"
			case call.Method == "eth_getCode":
				answer = "0x60"
			}
			fmt.Fprintf(w, `%c{"jsonrpc":"2.0","id":%d,"result":%q}`, "[,"[min(i, 1)], call.ID, answer)
		}
		fmt.Fprint(w, "]")
	}))
	defer server.Close()
	client, err := node.New(node.Options{Endpoints: []string{server.URL}})
	require.NoError(t, err)
	s := store.NewMemory()
	defer func() { require.NoError(t, s.Close()) }()
	book := contracts.New(contracts.Options{Node: client.EVM(""), Store: s, BlockchainID: ids.ID{1}})
	defer book.Close()
	found, err := tokens(t.Context(), book, []common.Address{{19: 20}}, time.Time{})
	require.NoError(t, err)
	require.Equal(t, chain.ERC20, found[0].Standard)
	found, err = tokens(t.Context(), book, []common.Address{{19: 21}}, time.Time{})
	require.NoError(t, err)
	require.Nil(t, found[0], "the node that lags has no contract")
	require.EqualValues(t, 2, requests.Load())
}

// absentTime is the time until a message is sent whose contract stays absent, with the longest pause after it.
const absentTime = 41 * time.Second

// receive sends the messages about a block to a receiver until the test ends. It runs in a bubble.
func receive(t *testing.T, n *tokenNode, block transferBlock) *amounts {
	t.Helper()
	s := store.NewMemory()
	return receiveOf(t, s, contracts.New(contracts.Options{Node: n, Store: s}), block)
}

// receiveOf is receive with a given store and Book, which it closes.
func receiveOf(t *testing.T, s store.Store, book *contracts.Book, block transferBlock) *amounts {
	t.Helper()
	source := newEVMWebhooks(&evm.Chain{
		Contracts: book, Progress: func(context.Context) reply.Progress { return reply.Progress{Height: 1, CaughtUp: true} },
	}, block)
	hooks := webhook.NewBook(s, 1)
	_, err := hooks.Create(t.Context(), webhook.Webhook{
		URL: "https://example.org", EventType: webhook.AddressActivity, From: 1, Addresses: []string{common.Address{19: 1}.Hex()},
	})
	require.NoError(t, err)
	receiver := new(amounts)
	worker := webhook.NewWorker(webhook.Options{
		Book: hooks, Transport: receiver, Source: func(string) (webhook.Source, bool) { return source, true },
	})
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { worker.Run(ctx) })
	t.Cleanup(func() {
		end()
		running.Wait()
		book.Close()
		require.NoError(t, s.Close())
	})
	return receiver
}

// internalsOf is an index whose blocks have an internal transaction.
type internalsOf struct {
	evm.Index
	traced bool
	err    error
}

func (i internalsOf) BlockInternals(context.Context, uint64, []common.Address) ([]chainindex.Internal, bool, error) {
	return []chainindex.Internal{{TxHash: common.Hash{1}, Frame: chain.Frame{Gas: 7}}}, i.traced, i.err
}

// TestInternals has an index with the call traces of a block, without them, and without any call traces.
func TestInternals(t *testing.T) {
	for name, c := range map[string]struct {
		index internalsOf
		want  map[common.Hash][]chain.Frame
		err   error
	}{
		"traced":           {internalsOf{traced: true}, map[common.Hash][]chain.Frame{{1}: {{Gas: 7}}}, nil},
		"block not traced": {internalsOf{}, nil, webhook.ErrNoTraces},
		"no block traced":  {internalsOf{err: chainindex.ErrUntraced}, nil, nil},
		"error":            {internalsOf{err: store.ErrClosed}, nil, store.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := internals(t.Context(), c.index, 1, nil)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.want, got)
		})
	}
}

// TestTokens has a node answer calls of a contract in different ways. A failure of the contract is an answer, one of the
// node is an error.
func TestTokens(t *testing.T) {
	one := uint8(1)
	word := fmt.Sprintf(`"result":"0x%064x"`, 1)
	for name, c := range map[string]struct {
		call string // the node's answer to each eth_call, or to the whole request if it is no member of an object
		want *webhook.Token
	}{
		"decimals":        {word, &webhook.Token{Standard: chain.ERC20, Decimals: &one}},
		"revert":          {`"error":{"code":3,"message":"execution reverted: no","data":"0x"}`, &webhook.Token{}},
		"out of gas":      {`"error":{"code":-32000,"message":"out of gas"}`, &webhook.Token{}},
		"rate limit":      {`"error":{"code":-32005,"message":"rate limit exceeded"}`, nil},
		"busy":            {`"error":{"code":-32000,"message":"server is busy"}`, nil},
		"timeout":         {`"error":{"code":-32000,"message":"execution aborted (timeout = 5s)"}`, nil},
		"null":            {`"result":null`, nil},
		"one rate limit":  {`{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"rate limit exceeded"}}`, nil},
		"page of a proxy": {`<html>please wait</html>`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var called atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var calls []struct {
					ID     int
					Method string
				}
				if err := json.NewDecoder(r.Body).Decode(&calls); err != nil {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				if calls[0].Method == "eth_call" && c.call[0] != '"' {
					called.Store(true)
					fmt.Fprint(w, c.call)
					return
				}
				for i, call := range calls {
					answer := `"result":"0x60"` // code
					if call.Method == "eth_call" {
						called.Store(true)
						answer = c.call
					}
					fmt.Fprintf(w, `%c{"jsonrpc":"2.0","id":%d,%s}`, "[,"[min(i, 1)], call.ID, answer)
				}
				fmt.Fprint(w, "]")
			}))
			defer server.Close()
			client, err := node.New(node.Options{Endpoints: []string{server.URL}})
			require.NoError(t, err)
			s := store.NewMemory()
			defer func() { require.NoError(t, s.Close()) }()
			book := contracts.New(contracts.Options{Node: client.EVM(""), Store: s, BlockchainID: ids.ID{1}})
			defer book.Close()
			address := common.Address{19: 20}
			found, err := tokens(t.Context(), book, []common.Address{address, address}, time.Time{})
			require.True(t, called.Load())
			if c.want == nil {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []*webhook.Token{c.want, c.want}, found)
		})
	}
}
