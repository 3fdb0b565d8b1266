package index_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"

	"quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/store"
)

// evmNode serves a chain of blocks, each with as many transactions as its number has
// ones in its last two bits, by the Ethereum API. Its fields may be changed while
// holding mu.
type evmNode struct {
	url    string
	blocks []evmAnswers

	mu     sync.Mutex
	tip    uint64
	traces bool
	first  uint64 // the first block after genesis that it has
	// refuses has errors for requests of traces, by block number.
	refuses map[uint64]string
	// drops is a member that it leaves out of headers; empty for none.
	drops    string
	requests int
	// spoil changes the answer to a request of a number; nil leaves it.
	spoil func(request int, answer []byte) []byte
}

type evmAnswers struct{ block, receipts, traces string }

func newEVMNode(t testing.TB, blocks int) *evmNode {
	n := &evmNode{traces: true, tip: uint64(blocks - 1)}
	parent := common.Hash{}
	for number := range blocks {
		h := &types.Header{
			ParentHash: parent, UncleHash: types.EmptyUncleHash, TxHash: types.EmptyTxsHash, ReceiptHash: types.EmptyReceiptsHash,
			Difficulty: big.NewInt(1), Number: big.NewInt(int64(number)), GasLimit: 15_000_000, Time: 1_700_000_000 + uint64(number), BaseFee: big.NewInt(1),
		}
		parent = h.Hash()
		var members map[string]any
		header, err := json.Marshal(h)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(header, &members))
		delete(members, "withdrawalsRoot")
		var a evmAnswers
		var txs, receipts, traces []string
		for i := range []int{0, 1, 1, 2}[number%4] {
			hash, from := common.BigToHash(big.NewInt(int64(1+number*10+i))), common.Address{19: 1}
			txs = append(txs, fmt.Sprintf(`{"hash":%q,"from":%q,"to":%q,"transactionIndex":"0x%x","nonce":"0x0","value":"0x1","gas":"0x5208","input":"0x","type":"0x0"}`, hash, from, from, i))
			receipts = append(receipts, fmt.Sprintf(`{"transactionHash":%q,"blockHash":%q,"transactionIndex":"0x%x","status":"0x1","gasUsed":"0x5208","effectiveGasPrice":"0x1","logs":[]}`, hash, parent, i))
			traces = append(traces, fmt.Sprintf(`{"txHash":%q,"result":{"type":"CALL","from":%q,"to":%q,"calls":[{"type":"CALL","from":%q,"to":%q,"value":"0x1"}]}}`, hash, from, from, from, from))
		}
		members["hash"], members["transactions"] = parent, json.RawMessage("["+strings.Join(txs, ",")+"]")
		block, err := json.Marshal(members)
		require.NoError(t, err)
		a.block, a.receipts, a.traces = string(block), "["+strings.Join(receipts, ",")+"]", "["+strings.Join(traces, ",")+"]"
		n.blocks = append(n.blocks, a)
	}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

func (n *evmNode) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *evmNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type call struct {
		ID     uint64
		Method string
		Params []any
	}
	var raw json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&raw)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests++
	var calls []call
	var body []byte
	if raw[0] == '{' {
		var c call
		_ = json.Unmarshal(raw, &c)
		body = fmt.Appendf(nil, `{"id":%d,%s}`, c.ID, n.answer(c.Method, c.Params))
	} else {
		_ = json.Unmarshal(raw, &calls)
		var answers []string
		for _, c := range calls {
			answers = append(answers, fmt.Sprintf(`{"id":%d,%s}`, c.ID, n.answer(c.Method, c.Params)))
		}
		body = []byte("[" + strings.Join(answers, ",") + "]")
	}
	if n.spoil != nil {
		if body = n.spoil(n.requests, body); body == nil {
			panic(http.ErrAbortHandler)
		}
	}
	_, _ = w.Write(body)
}

func (n *evmNode) answer(method string, params []any) string {
	if method == "eth_blockNumber" {
		return fmt.Sprintf(`"result":"0x%x"`, n.tip)
	}
	if method == "debug_traceTransaction" {
		return `"error":{"code":-32000,"message":"execution timeout"}`
	}
	number, _ := strconv.ParseUint(params[0].(string)[2:], 16, 64)
	if number > 0 && number < n.first {
		return `"result":null`
	}
	if number > n.tip {
		return `"error":{"code":-32000,"message":"cannot query unfinalized data"}`
	}
	b := n.blocks[number]
	switch {
	case method == "eth_getBlockByNumber" && n.drops != "":
		return `"result":` + strings.ReplaceAll(b.block, `"`+n.drops+`"`, `"dropped"`)
	case method == "eth_getBlockByNumber":
		return `"result":` + b.block
	case method == "eth_getBlockReceipts":
		return `"result":` + b.receipts
	case method == "debug_traceBlockByNumber" && n.refuses[number] != "":
		return fmt.Sprintf(`"error":{"code":-32000,"message":%q}`, n.refuses[number])
	case method == "debug_traceBlockByNumber" && n.traces:
		return `"result":` + b.traces
	}
	return `"error":{"code":-32601,"message":"the method does not exist"}`
}

// evmProjection keeps a row for each block: its hash, and whether it was traced.
type evmProjection struct{}

func (evmProjection) Name() string { return "test" }

func (evmProjection) Apply(_ context.Context, _ store.Reader, b *evm.Block, batch *store.Batch) error {
	traced := byte(0)
	if b.Traced {
		traced = 1
	}
	batch.Put(store.FamilyMeta, store.PK{P: []byte("evm"), K: binary.BigEndian.AppendUint64(nil, b.Number)}, append(b.Hash[:], traced, byte(len(b.Transactions))))
	return nil
}

func evmSource(t testing.TB, n *evmNode) *index.EVMSource { return evmSourceWith(t, n, nil) }

func evmSourceWith(t testing.TB, n *evmNode, indexed func() uint64) *index.EVMSource {
	client, err := node.New(node.Options{Endpoints: []string{n.url}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return index.NewEVMSource(index.EVMOptions{Node: client.EVM(""), Chain: "evm-1", Indexed: indexed})
}

func evmPipeline(t testing.TB, source *index.EVMSource, s store.Store) *index.Pipeline[*evm.Block] {
	p, err := index.New(index.Options[*evm.Block]{NetworkID: 5, Chain: "evm-1", Source: source, Store: s, Projections: []index.Projection[*evm.Block]{evmProjection{}}, Poll: 5 * time.Millisecond})
	require.NoError(t, err)
	return p
}

// runEVM runs a pipeline until the condition holds.
func runEVM(t testing.TB, p *index.Pipeline[*evm.Block], until func(index.Status) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Errorf("got %v, want a pipeline that waits", err)
		}
	})
	defer running.Wait()
	defer cancel()
	require.Eventually(t, func() bool { return until(p.Status()) }, 2*time.Minute, 2*time.Millisecond, "%+v", p.Status())
}

func recordedTo(next uint64) func(index.Status) bool {
	return func(s index.Status) bool { return s.Next >= next }
}

// evmRows are the rows of the projection, in order.
func evmRows(t testing.TB, s store.Store) []store.Row {
	rows, err := s.Scan(t.Context(), store.FamilyMeta, []byte("evm"), nil, nil, store.Ascending, 100_000)
	require.NoError(t, err)
	return rows
}

func TestEVMSource(t *testing.T) {
	n := newEVMNode(t, 300)
	s := store.NewMemory()
	source := evmSource(t, n)
	p := evmPipeline(t, source, s)
	runEVM(t, p, recordedTo(300))
	rows := evmRows(t, s)
	require.Len(t, rows, 300)
	for i, row := range rows {
		require.Equal(t, uint64(i), binary.BigEndian.Uint64(row.K))
		require.Equal(t, []byte{1, byte([]int{0, 1, 1, 2}[i%4])}, row.V[32:], "block %d", i)
	}
	require.NotContains(t, p.Status().Note, "traces")
}

// TestEVMFaults has a node that dies in the middle of answers, cuts them short, damages them and jumps
// back. The index is the same as without.
func TestEVMFaults(t *testing.T) {
	n := newEVMNode(t, 300)
	want := store.NewMemory()
	runEVM(t, evmPipeline(t, evmSource(t, n), want), recordedTo(300))

	n.set(func() {
		n.requests = 0
		n.spoil = func(request int, answer []byte) []byte {
			switch request % 16 {
			case 1:
				return nil
			case 2:
				return answer[:len(answer)*request%len(answer)]
			case 3:
				return []byte(strings.ReplaceAll(string(answer), `"status":"0x1"`, `"state":"0x1"`))
			case 4:
				return []byte(strings.ReplaceAll(string(answer), `"gasLimit":"0xe4e1c0"`, `"gasLimit":"0xe4e1c1"`))
			case 5:
				n.tip = uint64(request) % 300
			case 6:
				n.tip = 299
			}
			return answer
		}
	})
	got := store.NewMemory()
	runEVM(t, evmPipeline(t, evmSource(t, n), got), recordedTo(300))
	require.Equal(t, evmRows(t, want), evmRows(t, got))
}

func TestEVMWithoutTraces(t *testing.T) {
	n := newEVMNode(t, 50)
	n.traces = false
	s := store.NewMemory()
	p := evmPipeline(t, evmSource(t, n), s)
	runEVM(t, p, recordedTo(50))
	require.Contains(t, p.Status().Note, "call traces are not indexed")
	for i, row := range evmRows(t, s) {
		require.Equal(t, i%4 == 0, row.V[32] == 1, "only blocks without transactions are known wholly: block %d", i)
	}
}

// TestEVMTracesComeLater requests traces again from a node that had none, ever more rarely. Blocks
// that were indexed without traces stay without.
func TestEVMTracesComeLater(t *testing.T) {
	block := []byte(newEVMNode(t, 1).blocks[0].block)
	synctest.Test(t, func(t *testing.T) {
		n := &tracingNode{block: block}
		source := index.NewEVMSource(index.EVMOptions{Node: n, Chain: "evm"})
		fetch := func() {
			t.Helper()
			_, err := source.Fetch(t.Context(), 0, 1)
			require.NoError(t, err)
		}
		fetch()
		require.NotEmpty(t, source.Note())
		n.asked = 0
		for range 24 * 60 {
			time.Sleep(time.Minute)
			fetch()
		}
		require.True(t, n.asked > 20 && n.asked < 40, "asked for traces %d times in a day", n.asked)
		n.traces = true
		time.Sleep(time.Hour)
		fetch()
		require.Empty(t, source.Note())
		n.traces = false
		fetch()
		require.NotEmpty(t, source.Note())
	})
}

// TestEVMTracesThatFail continues without traces while the node fails to make them for any other
// reason.
func TestEVMTracesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &tracingNode{}
		source := index.NewEVMSource(index.EVMOptions{Node: n, Chain: "evm"})
		_, err := source.Fetch(t.Context(), 0, 1)
		require.NotErrorIs(t, err, node.ErrNoTraces)
		n.fails = fmt.Errorf("%w: execution timeout", node.ErrUnavailable)
		n.asked = 0
		for range 60 {
			time.Sleep(time.Minute)
			_, err := source.Fetch(t.Context(), 0, 1)
			require.NotErrorIs(t, err, node.ErrUnavailable, "it can be had without")
		}
		require.True(t, n.asked > 2 && n.asked < 10, "asked for traces %d times in an hour", n.asked)
		require.NotEmpty(t, source.Note())
	})
}

// tracingNode has blocks that cannot be read.
type tracingNode struct {
	traces bool
	block  []byte // nil: none that can be read
	away   error  // the error of all requests
	fails  error  // the error of requests for traces
	asked  int    // how often for traces
}

func (*tracingNode) Tip(context.Context) (uint64, error) { return 0, nil }

func (*tracingNode) Has(context.Context, uint64) (bool, error) { return true, nil }

func (n *tracingNode) Blocks(_ context.Context, _ uint64, _ int, traces bool) ([]node.EVMBlock, error) {
	if traces {
		n.asked++
		if n.fails != nil {
			return nil, n.fails
		}
		if !n.traces {
			return nil, node.ErrNoTraces
		}
	}
	if n.away != nil {
		return nil, n.away
	}
	if n.block != nil {
		return []node.EVMBlock{{Block: n.block}}, nil
	}
	return []node.EVMBlock{{Block: []byte("{}")}}, nil
}

// TestEVMTraced requests blocks with traces or not at all, and requests new ones with traces soon
// after old ones have some.
func TestEVMTraced(t *testing.T) {
	block := []byte(newEVMNode(t, 1).blocks[0].block)
	synctest.Test(t, func(t *testing.T) {
		n := &tracingNode{}
		source := index.NewEVMSource(index.EVMOptions{Node: n, Chain: "evm"})
		for range 24 * 60 {
			_, _ = source.Fetch(t.Context(), 0, 1)
			time.Sleep(time.Minute)
		}
		require.NotEmpty(t, source.Note())
		_, err := source.Traced(t.Context(), 0, 1)
		require.ErrorIs(t, err, node.ErrNoTraces)
		require.NotErrorIs(t, err, index.ErrTraces)
		n.traces, n.block = true, block
		blocks, err := source.Traced(t.Context(), 0, 1)
		require.NoError(t, err)
		require.Len(t, blocks, 1)
		time.Sleep(time.Minute)
		_, _ = source.Fetch(t.Context(), 0, 1)
		require.Empty(t, source.Note(), "a minute after traces came")

		n.fails = node.ErrMalformed
		_, err = source.Traced(t.Context(), 0, 1)
		require.ErrorIs(t, err, index.ErrTraces)
		_, err = source.Traced(t.Context(), 0, 2)
		require.NotErrorIs(t, err, index.ErrTraces)
		n.away = node.ErrUnavailable
		_, err = source.Traced(t.Context(), 0, 1)
		require.NotErrorIs(t, err, index.ErrTraces, "the node is away")
	})
}

// TestEVMTracesLost waits for traces, but not for ever, once the chain was traced.
func TestEVMTracesLost(t *testing.T) {
	n := newEVMNode(t, 50)
	n.tip = 20
	s := store.NewMemory()
	p := evmPipeline(t, evmSource(t, n), s)
	waited := false
	runEVM(t, p, func(status index.Status) bool {
		if status.Next == 21 {
			n.set(func() { n.tip, n.traces = 49, false })
		}
		waited = waited || status.Err != nil && strings.Contains(status.Err.Error(), "waiting for a node that traces, attempt ")
		return status.Next == 50
	})
	require.True(t, waited, "its status did not say what it waits for")
	require.Contains(t, p.Status().Note, "call traces are not indexed")
	for i, row := range evmRows(t, s) {
		require.Equal(t, i < 21 || i%4 == 0, row.V[32] == 1, "block %d", i)
	}
}

// TestEVMStatesPruned has a node that keeps the states of its last blocks only, as nodes do since
// Helicon. It traced before, near its tip, and the index waits for no trace that cannot come.
func TestEVMStatesPruned(t *testing.T) {
	const states = 128
	n := newEVMNode(t, 400)
	n.tip = 20
	s := store.NewMemory()
	p := evmPipeline(t, evmSource(t, n), s)
	runEVM(t, p, func(status index.Status) bool {
		if status.Next == 21 {
			n.set(func() {
				n.tip, n.refuses = 399, make(map[uint64]string)
				for number := n.tip - states; number > 20; number-- {
					n.refuses[number] = "missing trie node 6d5f (path ) <nil>"
				}
			})
		}
		if status.Err != nil {
			t.Errorf("got %v, want no wait", status.Err)
		}
		return status.Next == 400 || t.Failed()
	})
	for i, row := range evmRows(t, s) {
		if refused := i > 20 && i <= 399-states; refused || i < 21 || i > 399-states/2 {
			require.Equal(t, !refused || i%4 == 0, row.V[32] == 1, "block %d", i)
		}
	}
}

// TestEVMOldBlocks fetches blocks of a pruned node from a source whose Tip is never called.
func TestEVMOldBlocks(t *testing.T) {
	n := newEVMNode(t, 400)
	n.refuses = make(map[uint64]string)
	for number := range uint64(300) {
		n.refuses[number] = "missing trie node 6d5f (path ) <nil>"
	}
	source := evmSourceWith(t, n, func() uint64 { return 399 })
	for _, from := range []uint64{21, 37} {
		blocks, err := source.Fetch(t.Context(), from, 16)
		require.NoError(t, err)
		require.Len(t, blocks, 16)
		require.False(t, blocks[0].Content.Traced)
	}
	blocks, err := source.Fetch(t.Context(), 390, 1)
	require.NoError(t, err)
	require.True(t, blocks[0].Content.Traced)
}

// TestEVMTracesRefused has a node that cannot trace single blocks, for every reason that
// nodes have: each comes without traces after a bounded number of attempts.
func TestEVMTracesRefused(t *testing.T) {
	n := newEVMNode(t, 50)
	n.refuses = map[uint64]string{
		5: "execution timeout", 9: "method handler crashed", 14: "required historical state unavailable (reexec=128)", 22: "missing trie node 12", 49: "response too large",
	}
	s := store.NewMemory()
	p := evmPipeline(t, evmSource(t, n), s)
	attempts := false
	runEVM(t, p, func(status index.Status) bool {
		attempts = attempts || status.Err != nil && strings.Contains(status.Err.Error(), "execution timeout")
		return status.Next == 50
	})
	require.True(t, attempts, "its status did not say why it waits")
	for i, row := range evmRows(t, s) {
		require.Equal(t, n.refuses[uint64(i)] == "", row.V[32] == 1, "block %d", i)
	}
}

// TestEVMNodeRefusesTraces has a provider that refuses all traces in words of its own: after a few blocks it is taken for
// a node that does not trace.
func TestEVMNodeRefusesTraces(t *testing.T) {
	const blocks = 2000
	n := newEVMNode(t, blocks)
	n.refuses = make(map[uint64]string)
	for height := range uint64(blocks) {
		n.refuses[height] = "upgrade your plan"
	}
	s := store.NewMemory()
	p := evmPipeline(t, evmSource(t, n), s)
	runEVM(t, p, recordedTo(blocks))
	require.Contains(t, p.Status().Note, "upgrade your plan")
	require.Less(t, n.requests, 500)
	require.Len(t, evmRows(t, s), blocks)
}

// TestEVMProviderLimits has providers that limit calls, in the ways that providers have.
func TestEVMProviderLimits(t *testing.T) {
	calls := func(answer []byte) int { return strings.Count(string(answer), `"id":`) }
	for name, limit := range map[string]func(n *evmNode) func(request int, answer []byte) []byte{
		"calls in a batch": func(*evmNode) func(int, []byte) []byte {
			return func(_ int, answer []byte) []byte {
				if answer[0] == '[' && calls(answer) > 20 {
					return fmt.Appendf(nil, `{"id":null,"error":{"code":-32000,"message":"batch limit 20 exceeded: %d requests given"}}`, calls(answer))
				}
				return answer
			}
		},
		"a call in a batch": func(*evmNode) func(int, []byte) []byte {
			return func(_ int, answer []byte) []byte {
				if answer[0] == '[' && calls(answer) > 1 {
					return []byte(`{"error":{"code":31,"message":"batch of more than 1 requests is not allowed on the free plan"}}`)
				}
				return answer
			}
		},
		"calls in a batch, state-synced": func(n *evmNode) func(int, []byte) []byte {
			n.first = 100
			return func(_ int, answer []byte) []byte {
				if answer[0] == '[' && calls(answer) > 20 {
					return []byte(`{"id":null,"error":{"code":-32602,"message":"too many calls"}}`)
				}
				return answer
			}
		},
		"calls in a second": func(*evmNode) func(int, []byte) []byte {
			return func(request int, answer []byte) []byte {
				if request%3 == 0 && answer[0] == '[' {
					var all []json.RawMessage
					_ = json.Unmarshal(answer, &all)
					last := len(all) - 1
					all[last] = fmt.Appendf(nil, `{"id":%d,"error":{"code":429,"message":"rate limit exceeded"}}`, last)
					answer, _ = json.Marshal(all)
				}
				return answer
			}
		},
		"the first blocks, on one of its nodes": func(n *evmNode) func(int, []byte) []byte {
			n.first = 200
			return func(request int, answer []byte) []byte {
				if request == 2 {
					n.first = 0
				}
				return answer
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newEVMNode(t, 300)
			n.spoil = limit(n)
			s := store.NewMemory()
			p := evmPipeline(t, evmSource(t, n), s)
			runEVM(t, p, recordedTo(300))
			require.Equal(t, n.first, p.Status().From)
			rows := evmRows(t, s)
			require.Len(t, rows, 300-int(n.first))
			for _, row := range rows {
				require.EqualValues(t, 1, row.V[32], "block %d has traces", binary.BigEndian.Uint64(row.K))
			}
		})
	}
}

// TestEVMBeginsWithTheFirstBlock has a node that state-synced.
func TestEVMBeginsWithTheFirstBlock(t *testing.T) {
	for _, first := range []uint64{2, 17, 100, 299} {
		n := newEVMNode(t, 300)
		n.first = first
		s := store.NewMemory()
		p := evmPipeline(t, evmSource(t, n), s)
		runEVM(t, p, recordedTo(300))
		require.Equal(t, first, p.Status().From)
		rows := evmRows(t, s)
		require.Len(t, rows, 300-int(first))
		require.Equal(t, first, binary.BigEndian.Uint64(rows[0].K))

		// An index that has begun goes on where it is, whatever the node has.
		n.set(func() { n.first = 0 })
		p = evmPipeline(t, evmSource(t, n), s)
		runEVM(t, p, recordedTo(300))
		require.Equal(t, first, p.Status().From)
	}
}

// TestEVMNodeLosesBlocks resyncs the node while the index is behind: it says what it
// lacks and what to configure.
func TestEVMNodeLosesBlocks(t *testing.T) {
	n := newEVMNode(t, 300)
	n.tip = 20
	s := store.NewMemory()
	p := evmPipeline(t, evmSource(t, n), s)
	runEVM(t, p, recordedTo(21))
	n.set(func() { n.tip, n.first = 299, 200 })
	runEVM(t, p, func(status index.Status) bool {
		return status.Err != nil && status.State == index.Retrying &&
			strings.Contains(status.Err.Error(), "block 21 is not available from the node") && strings.Contains(status.Err.Error(), "set state-sync-enabled to false")
	})
	n.set(func() { n.first = 0 })
	runEVM(t, p, recordedTo(300))
}

// TestEVMRetyped has a provider that leaves a field out of headers: the parent hashes of
// children make up for it, and the status says so.
func TestEVMRetyped(t *testing.T) {
	n := newEVMNode(t, 100)
	want := store.NewMemory()
	runEVM(t, evmPipeline(t, evmSource(t, n), want), recordedTo(100))
	n.set(func() { n.drops, n.tip = "baseFeePerGas", 98 })
	got := store.NewMemory()
	p := evmPipeline(t, evmSource(t, n), got)
	runEVM(t, p, recordedTo(98)) // the last has no child yet
	require.Contains(t, p.Status().Note, "header fields dropped by the provider; hashes confirmed by children")
	require.Equal(t, evmRows(t, want)[:98], evmRows(t, got))

	n.set(func() { n.drops, n.tip = "", 99 })
	runEVM(t, p, recordedTo(100))
	require.NotContains(t, p.Status().Note, "dropped by the provider")
	require.Equal(t, evmRows(t, want), evmRows(t, got))
}

// TestEVMHashNotConfirmed changes a block and says another hash of it, which its child
// does not confirm.
func TestEVMHashNotConfirmed(t *testing.T) {
	n := newEVMNode(t, 100)
	block := []byte(n.blocks[50].block)
	at := strings.Index(string(block), `"hash":"0x`) + len(`"hash":"0x`)
	block[at] = "0123456789abcdef0"[strings.IndexByte("0123456789abcdef", block[at])+1]
	n.blocks[50].block = string(block)
	n.blocks[50].receipts = strings.ReplaceAll(n.blocks[50].receipts, `"blockHash"`, `"of"`)
	p := evmPipeline(t, evmSource(t, n), store.NewMemory())
	runEVM(t, p, func(status index.Status) bool {
		return status.Next == 50 && status.Err != nil && strings.Contains(status.Err.Error(), "the header does not have the hash of the block") && strings.Contains(status.Note, "confirmed by children")
	})
}

// BenchmarkEVM indexes blocks from a node on this machine.
func BenchmarkEVM(b *testing.B) {
	n := newEVMNode(b, 4000)
	for b.Loop() {
		p := evmPipeline(b, evmSource(b, n), store.NewMemory())
		runEVM(b, p, recordedTo(4000))
	}
	b.ReportMetric(float64(4000*b.N)/b.Elapsed().Seconds(), "blocks/s")
}
