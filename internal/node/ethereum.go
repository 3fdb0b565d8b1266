package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
)

var (
	// ErrPruned reports a block that no node has although their last block is higher. A
	// state-synced node has the genesis block and the blocks from shortly before its sync
	// height on.
	ErrPruned = errors.New("not available from the node, which was state-synced or has pruned it: set state-sync-enabled to false in the chain's config.json and resync the node, or configure an archive node")
	// ErrNoTraces reports that no node can trace a block, because the API is disabled or
	// the state of the parent block is pruned (ErrNoState).
	ErrNoTraces = errors.New("the node has no debug_traceBlockByNumber for these blocks")
	// ErrNoState is an ErrNoTraces for single blocks: the node can trace others.
	ErrNoState = fmt.Errorf("%w: it has pruned the state", ErrNoTraces)
	// ErrTraceRefused reports that the node failed to trace one block, both as a whole and
	// transaction by transaction: the execution timed out, the response is too large, or
	// the method failed.
	ErrTraceRefused = errors.New("the node failed to trace the block")
)

// EVM is the Ethereum API of one EVM chain. It is safe for concurrent use.
type EVM struct {
	client *Client
	path   string
	// collecting holds an element while receiptsSingly collects the receipts of a block.
	collecting chan struct{}
}

// EVM returns the chain whose API is at path. An empty path means that the endpoints are
// URLs of the API itself.
func (c *Client) EVM(path string) *EVM {
	return &EVM{client: c, path: path, collecting: make(chan struct{}, 1)}
}

// EVMBlock is a block in unparsed JSON.
type EVMBlock struct {
	// Block includes whole transactions.
	Block []byte
	// Receipts are nil for the genesis block.
	Receipts []byte
	// Traces are those of callTracer; nil for the genesis block and if none were requested.
	Traces []byte
}

// Tip returns the height of the newest block that is accepted and executed, so that its
// receipts exist. Accepted blocks are final.
func (e *EVM) Tip(ctx context.Context) (uint64, error) {
	// This also holds with asynchronous execution: see avalanchego vms/saevm, on "latest".
	return e.client.EVMHeight(ctx, e.path)
}

// BlockHash returns the hash of the accepted block at a height. Errors are those of Call, and
// ErrBeyondTip if the node does not have the block.
func (e *EVM) BlockHash(ctx context.Context, height uint64) (ids.ID, error) {
	answers, err := e.client.batch(ctx, e.path, []invocation{{blockMethod, []any{hexNumber(height), false}}}, nil)
	if err != nil {
		return ids.Empty, err
	}
	a := answers[0]
	switch {
	case a.refused != nil:
		return ids.Empty, a.refused
	case len(a.result) == 0 || string(a.result) == "null":
		return ids.Empty, fmt.Errorf("%w: block %d", ErrBeyondTip, height)
	}
	var block struct{ Hash string }
	if err := json.Unmarshal(a.result, &block); err != nil {
		return ids.Empty, fmt.Errorf("%s: %w: %w", blockMethod, ErrMalformed, err)
	}
	hash, err := hexData(blockMethod, block.Hash)
	if err != nil || len(hash) != ids.IDLen {
		return ids.Empty, fmt.Errorf("%s: %w: hash %q", blockMethod, ErrMalformed, clipped(block.Hash))
	}
	return ids.ID(hash), nil
}

// BlockNumber returns the number of the block with a hash. ok is false if no such block is known to the node.
func (e *EVM) BlockNumber(ctx context.Context, hash common.Hash) (number uint64, ok bool, err error) {
	const method = "eth_getBlockByHash"
	answers, err := e.client.batch(ctx, e.path, []invocation{{method, []any{hash, false}}}, nil)
	if err != nil {
		return 0, false, err
	}
	a := answers[0]
	switch {
	case a.refused != nil:
		return 0, false, a.refused
	case len(a.result) == 0 || string(a.result) == "null":
		return 0, false, nil
	}
	var block struct{ Number string }
	if err := json.Unmarshal(a.result, &block); err != nil {
		return 0, false, fmt.Errorf("%s: %w: %w", method, ErrMalformed, err)
	}
	number, err = quantity(method, block.Number)
	return number, err == nil, err
}

// ChainID returns the chain's ID for signatures (EIP-155).
func (e *EVM) ChainID(ctx context.Context) (uint64, error) {
	const method = "eth_chainId"
	var id string
	if err := e.client.Call(ctx, e.path, method, []any{}, &id); err != nil {
		return 0, err
	}
	return quantity(method, id)
}

// blockchainInPath matches the blockchain in the URL of an API.
var blockchainInPath = regexp.MustCompile(`/ext/bc/([^/]+)/`)

// BlockchainID returns the ID of the blockchain on the P-Chain, from the Warp precompile or
// from the URL. It is empty if neither has it.
func (e *EVM) BlockchainID(ctx context.Context) (ids.ID, error) {
	// The selector of getBlockchainID().
	returned, err := e.Calls(ctx, nil, []EVMCall{{To: common.HexToAddress(warpPrecompile), Data: []byte{0x42, 0x13, 0xcf, 0x78}}})
	if err != nil {
		return ids.Empty, err
	}
	if r := returned[0]; !r.Failed && len(r.Data) == ids.IDLen {
		return ids.ID(r.Data), nil
	}
	for _, endpoint := range e.client.endpoints {
		if found := blockchainInPath.FindStringSubmatch(endpoint.base.Path + e.path + "/"); found != nil {
			if id, err := ids.FromString(found[1]); err == nil {
				return id, nil
			}
		}
	}
	return ids.Empty, nil
}

const (
	blockMethod    = "eth_getBlockByNumber"
	receiptsMethod = "eth_getBlockReceipts"
	tracesMethod   = "debug_traceBlockByNumber"
	traceMethod    = "debug_traceTransaction"
	heightMethod   = "eth_blockNumber"
	// tooLarge is go-ethereum's code for a batch whose responses are too large. The
	// responses before the limit are present.
	tooLarge = -32003
)

// Blocks fetches up to n blocks from a height on in one request, with call traces if traces
// is set. The result has at least one block. It has fewer than n if the others are too
// large for one response, beyond the tip, or cannot be traced in the same way. Errors are
// those of Call, ErrBeyondTip, ErrPruned, ErrNoTraces, ErrTraceRefused, and an error if
// receipts exceed their bounds, all about the block at from.
func (e *EVM) Blocks(ctx context.Context, from uint64, n int, traces bool) ([]EVMBlock, error) {
	// The height comes first. A node executes a batch in order, so a block at or below the
	// height that is missing from the same batch is permanently missing.
	calls := []invocation{{heightMethod, []any{}}}
	ends := make([]int, 0, n) // index after the last call of each block
	for height := from; height < from+uint64(n); height++ {
		calls = append(calls, blockCalls(height, traces)...)
		ends = append(ends, len(calls))
	}
	answers, err := e.client.batch(ctx, e.path, calls, func(answers []outcome) error {
		return askAnotherNode(from, calls[:ends[0]], answers[:ends[0]])
	})
	switch {
	case err == nil:
	case n == 1 && ctx.Err() == nil && (errors.Is(err, ErrTooLong) || RefusesBatch(err) || traces && (errors.Is(err, ErrMalformed) || errors.Is(err, ErrUnavailable))):
		return e.large(ctx, from, traces, err)
	default:
		return nil, err
	}
	var blocks []EVMBlock
	first := 1
	for i, end := range ends {
		b, err := readBlock(calls[first:end], answers[first:end])
		var refused *RPCError
		switch {
		case err == nil:
		case len(blocks) > 0:
			return blocks, nil
		case errors.As(err, &refused) && refused.Code == tooLarge:
			return e.large(ctx, from, traces, err)
		case errors.As(err, &refused) && refused.Method == tracesMethod:
			if b.Traces, err = e.traceSingly(ctx, from+uint64(i), b.Block, refused); err != nil {
				return nil, err
			}
			return []EVMBlock{b}, nil
		default:
			return nil, err
		}
		blocks = append(blocks, b)
		first = end
	}
	return blocks, nil
}

// Has reports whether a node has the block at height with its receipts. The height must not
// exceed Tip. Errors are those of Call and ErrBeyondTip.
func (e *EVM) Has(ctx context.Context, height uint64) (bool, error) {
	_, err := e.Blocks(ctx, height, 1, false)
	if errors.Is(err, ErrPruned) {
		return false, nil
	}
	return err == nil, err
}

func blockCalls(height uint64, traces bool) []invocation {
	number := hexNumber(height)
	calls := []invocation{{blockMethod, []any{number, true}}}
	if height == 0 {
		return calls // the genesis block executed nothing
	}
	calls = append(calls, invocation{receiptsMethod, []any{number}})
	if traces {
		calls = append(calls, invocation{tracesMethod, []any{number, traceOptions()}})
	}
	return calls
}

// traceTimeout is how long the node may take to trace one transaction. The default of nodes
// is 5 s (libevm eth/tracers).
const traceTimeout = 60 * time.Second

func traceOptions() map[string]any {
	return map[string]any{"tracer": "callTracer", "timeout": traceTimeout.String()}
}

// large fetches the parts of one block one by one, after they failed together because of
// cause.
func (e *EVM) large(ctx context.Context, height uint64, traces bool, cause error) ([]EVMBlock, error) {
	calls := blockCalls(height, false)
	answers := make([]outcome, 0, len(calls))
	for i := range calls {
		one, err := e.client.batch(ctx, e.path, calls[i:i+1], nil)
		if calls[i].method == receiptsMethod && (errors.Is(err, ErrTooLong) || err == nil && one[0].tooLarge()) {
			receipts, err := e.receiptsSingly(ctx, height, answers[0].result)
			if err != nil {
				return nil, err
			}
			answers = append(answers, outcome{result: receipts})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w (%w)", err, cause)
		}
		answers = append(answers, one...)
	}
	b, err := readBlock(calls, answers)
	if err != nil {
		return nil, err
	}
	if traces && height > 0 {
		if b.Traces, err = e.traceWhole(ctx, height, b.Block); err != nil {
			return nil, err
		}
	}
	return []EVMBlock{b}, nil
}

const (
	// maxBlockReceipts and maxReceipt bound the receipts of one block, and one receipt, in
	// multiples of Client.limit. The gas of a block is their only other bound.
	maxBlockReceipts = 4
	maxReceipt       = 2
)

// receiptsSingly fetches the receipts of a block by the hashes of its transactions, after
// the response with all of them was too large. It does so for one block at a time, to bound
// the memory of concurrent calls.
func (e *EVM) receiptsSingly(ctx context.Context, height uint64, block []byte) ([]byte, error) {
	hashes, err := hashesIn(block)
	if err != nil {
		return nil, err
	}
	select {
	case e.collecting <- struct{}{}:
		defer func() { <-e.collecting }()
	case <-ctx.Done():
		return nil, fmt.Errorf("fetching the receipts of block %d: %w", height, ctx.Err())
	}
	limit := maxBlockReceipts * e.client.limit
	all := []byte{'['}
	for atOnce := MaxCalls; len(hashes) > 0; {
		some := hashes[:min(atOnce, len(hashes))]
		receipts, err := e.someReceipts(ctx, height, some)
		if err != nil {
			return nil, err
		}
		if len(receipts) == 0 {
			atOnce = len(some) / 2
			continue
		}
		for _, receipt := range receipts {
			if int64(len(all)+len(receipt)) > limit {
				return nil, fmt.Errorf("the receipts of block %d have more than %d bytes, the limit for one block", height, limit)
			}
			if len(all) > 1 {
				all = append(all, ',')
			}
			all = append(all, receipt...)
		}
		hashes = hashes[len(receipts):]
		atOnce = min(2*len(receipts), MaxCalls)
	}
	return append(all, ']'), nil
}

// someReceipts fetches the receipts of some transactions of a block. It returns those of
// the first ones that fit into a response, or none if there are several transactions and
// fewer may fit. A single receipt may be larger than other responses.
func (e *EVM) someReceipts(ctx context.Context, height uint64, hashes []string) (receipts [][]byte, err error) {
	calls := make([]invocation, len(hashes))
	for i, hash := range hashes {
		calls[i] = invocation{receiptMethod, []any{hash}}
	}
	several, limit := len(hashes) > 1, e.client.limit
	if !several {
		limit *= maxReceipt
	}
	timeout := max(e.client.timeout, batchTimeout)
	answers, err := e.client.batchWithin(ctx, e.path, timeout, limit, calls, func(answers []outcome) error {
		for i, a := range answers {
			if a.refused == nil && a.result == nil {
				return missingReceipt(height, hashes[i])
			}
			if err := notOffered(a.refused); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case several && (errors.Is(err, ErrTooLong) || RefusesBatch(err)):
		return nil, nil
	case errors.Is(err, ErrTooLong):
		return nil, fmt.Errorf("the receipt of transaction %.66s in block %d has more than %d bytes, the limit for one receipt",
			hashes[0], height, limit)
	case err != nil:
		return nil, err
	}
	for _, a := range answers {
		switch {
		case several && a.tooLarge():
			return receipts, nil
		case a.refused != nil:
			return nil, a.refused
		}
		receipts = append(receipts, a.result)
	}
	return receipts, nil
}

// missingReceipt returns an error that makes the Client ask another node, because this
// node has a block but does not find the receipt of one of its transactions.
func missingReceipt(height uint64, hash string) error {
	cause := fmt.Errorf("the node has block %d but no receipt of its transaction %.66s: "+
		"set skip-tx-indexing to false and transaction-history to 0 (unlimited) in the configuration of its chain", height, hash)
	return &RPCError{Method: receiptMethod, Code: methodNotFound, Message: "no such receipt", cause: cause}
}

// hashesIn returns the hashes of the transactions of a block.
func hashesIn(block []byte) ([]string, error) {
	var content struct{ Transactions []struct{ Hash string } }
	if err := json.Unmarshal(block, &content); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", blockMethod, ErrMalformed, err)
	}
	hashes := make([]string, len(content.Transactions))
	for i := range hashes {
		hashes[i] = content.Transactions[i].Hash
	}
	return hashes, nil
}

// traceWhole traces a block in one call or, if that fails, transaction by transaction.
func (e *EVM) traceWhole(ctx context.Context, height uint64, block []byte) ([]byte, error) {
	calls := blockCalls(height, true)
	calls = calls[len(calls)-1:]
	answers, err := e.client.batchWithin(ctx, e.path, traceTimeout+batchTimeout, e.client.limit, calls, func(answers []outcome) error {
		return untraceable(answers[0].refused)
	})
	if err == nil {
		var b EVMBlock
		if b, err = readBlock(calls, answers); err == nil {
			return b.Traces, nil
		}
	}
	if ctx.Err() != nil || errors.Is(err, ErrNoTraces) {
		return nil, err
	}
	return e.traceSingly(ctx, height, block, err)
}

// maxTraces bounds the traces of one block in bytes, like one response.
const maxTraces = maxResponse

// traceSingly traces a block transaction by transaction after the node failed to trace it
// as a whole because of cause.
func (e *EVM) traceSingly(ctx context.Context, height uint64, block []byte, cause error) ([]byte, error) {
	hashes, err := hashesIn(block)
	if err != nil {
		return nil, err
	}
	all := []byte{'['}
	for i, hash := range hashes {
		call := []invocation{{traceMethod, []any{hash, traceOptions()}}}
		answers, err := e.client.batchWithin(ctx, e.path, traceTimeout+batchTimeout, e.client.limit, call, func(answers []outcome) error {
			return untraceable(answers[0].refused)
		})
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("tracing block %d: %w", height, ctx.Err())
		case errors.Is(err, ErrNoState):
			return nil, err
		case err != nil:
		case answers[0].refused != nil:
			err = answers[0].refused
		case answers[0].result == nil:
			err = fmt.Errorf("%s: %w: null", traceMethod, ErrMalformed)
		case len(all)+len(answers[0].result) > maxTraces:
			err = fmt.Errorf("the traces have more than %d bytes", maxTraces)
		}
		if err != nil {
			return nil, fmt.Errorf("%w %d, as a whole (%w) and transaction %d of %d: %w", ErrTraceRefused, height, cause, i, len(hashes), err)
		}
		if i > 0 {
			all = append(all, ',')
		}
		all = fmt.Appendf(all, `{"txHash":%q,"result":`, hash)
		all = append(append(all, answers[0].result...), '}')
	}
	return append(all, ']'), nil
}

// askAnotherNode returns an error that makes the Client ask another node for a block, if this
// node lacks the block or cannot trace it. The first reply is the node's height.
func askAnotherNode(height uint64, calls []invocation, answers []outcome) error {
	if tip, known := heightOf(answers[0]); known && height <= tip {
		for i, a := range answers[1:] {
			if method := calls[1+i].method; method != tracesMethod && a.pruned() {
				return &RPCError{
					Method: method, Code: methodNotFound, Message: "no such block",
					cause: fmt.Errorf("block %d is %w (its last block is %d)", height, ErrPruned, tip),
				}
			}
		}
	}
	for _, a := range answers[1:] {
		if a.refused != nil && a.refused.Method == tracesMethod {
			return untraceable(a.refused)
		}
		if err := notOffered(a.refused); err != nil {
			return err
		}
	}
	return nil
}

// notOffered returns an error that makes the Client ask another node, if this node does not
// offer one method of a batch. The Client does not remember it, because it knows a batch by
// its first method.
func notOffered(refused *RPCError) error {
	if refused == nil || !refused.NotOffered() {
		return nil
	}
	return &RPCError{Method: refused.Method, Code: methodNotFound, Message: refused.Message, cause: errors.New(refused.Error())}
}

func heightOf(a outcome) (height uint64, known bool) {
	var text string
	if a.refused != nil || json.Unmarshal(a.result, &text) != nil {
		return 0, false
	}
	height, err := quantity(heightMethod, text)
	return height, err == nil
}

// prunedCode is the code of go-ethereum's PrunedHistoryError.
const prunedCode = 4444

// tooLarge reports whether the node left out the reply because the batch is too large.
func (o *outcome) tooLarge() bool { return o.refused != nil && o.refused.Code == tooLarge }

// pruned reports whether the reply for an executed block says that the node lacks the block
// or its receipts.
func (o *outcome) pruned() bool {
	if o.refused == nil {
		return o.result == nil
	}
	// A state-synced node has the last blocks before its sync without receipts (avalanchego
	// graft/coreth internal/ethapi; of logs, vms/saevm/sae/rpc and libevm eth/filters).
	return o.refused.Code == prunedCode || strings.Contains(o.refused.Message, "receipts length mismatch") ||
		strings.Contains(o.refused.Message, "failed to get logs for block")
}

// untraceable returns an error that makes the Client ask another node, if this node would
// refuse the traces again.
func untraceable(refused *RPCError) error {
	if refused == nil {
		return nil
	}
	cause := ErrNoTraces
	if !refused.NotOffered() {
		if !slices.ContainsFunc([]string{"missing trie node", "historical state", "state unavailable", "not supported", "not allowed"}, func(text string) bool {
			return strings.Contains(refused.Message, text)
		}) {
			return nil
		}
		if strings.Contains(refused.Message, "state") || strings.Contains(refused.Message, "trie") {
			cause = ErrNoState
		}
	}
	return &RPCError{Method: refused.Method, Code: methodNotFound, Message: refused.Message, cause: fmt.Errorf("%w: %s", cause, refused.Message)}
}

// readBlock combines the replies for one block. If the error is a refused trace, the rest
// of the block is set.
func readBlock(calls []invocation, answers []outcome) (b EVMBlock, err error) {
	for i, a := range answers {
		method := calls[i].method
		switch {
		case a.refused != nil && slices.ContainsFunc([]string{"unfinalized data", "after last accepted", "future block", "header not found"}, func(text string) bool {
			return strings.Contains(a.refused.Message, text)
		}):
			return b, fmt.Errorf("%w: %w", ErrBeyondTip, a.refused)
		case a.refused != nil:
			return b, a.refused
		case a.result == nil && method != tracesMethod:
			return b, fmt.Errorf("%w: %s has no result yet", ErrBeyondTip, method)
		case a.result == nil:
			return b, fmt.Errorf("%s: %w: null", method, ErrMalformed)
		}
		switch method {
		case blockMethod:
			b.Block = a.result
		case receiptsMethod:
			b.Receipts = a.result
		case tracesMethod:
			b.Traces = a.result
		}
	}
	return b, nil
}

// stateless returns an error that makes the Client ask another node, if this node lacks the
// state after a block: it pruned the state, or has not executed the block. Another node may
// be an archive node, or have more blocks.
func stateless(refused *RPCError) error {
	if refused == nil || executionFailed(refused) || !slices.ContainsFunc([]string{"missing trie node", "historical state", "state unavailable", "header not found", "block not found", "unfinalized data", "after last accepted"}, func(text string) bool {
		return strings.Contains(refused.Message, text)
	}) {
		return nil
	}
	return &RPCError{Method: refused.Method, Code: methodNotFound, Message: refused.Message, cause: errors.New(refused.Error())}
}

// NativeBalance returns the balance of an address in the chain's native token after a
// block, in wei.
func (e *EVM) NativeBalance(ctx context.Context, address common.Address, block uint64) (*uint256.Int, error) {
	const method = "eth_getBalance"
	var text string
	if err := e.client.try(ctx, e.path, method, func(ctx context.Context, at *endpoint) error {
		err := e.client.ask(ctx, at, e.path, method, []any{address, hexNumber(block)}, &text)
		if refused, ok := errors.AsType[*RPCError](err); ok {
			return cmp.Or(stateless(refused), err)
		}
		return err
	}); err != nil {
		return nil, err
	}
	balance, err := hexutil.DecodeBig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", method, ErrMalformed, err)
	}
	n, _ := uint256.FromBig(balance) // it has at most 256 bits
	return n, nil
}

// EVMCall is a read-only call of a contract.
type EVMCall struct {
	To   common.Address
	Data []byte
	// Gas bounds the execution; 0 means the node's bound.
	Gas uint64
	// Code asks the node that makes the call whether To has code.
	Code bool
}

// EVMReturn is the result of a call.
type EVMReturn struct {
	Data []byte
	// Failed reports that the contract did not return; Data is then empty.
	Failed bool
	// NoCode reports that EVMCall.Code is set and the node that made the call has no code at To.
	NoCode bool
}

// MaxCalls is the largest number of calls in one request. Successive calls of an address with
// EVMCall.Code count as one more.
const MaxCalls = 100

const (
	callMethod = "eth_call"
	codeMethod = "eth_getCode"
)

// Calls makes up to MaxCalls calls after a block; nil stands for the newest block. A
// contract that fails sets Failed and causes no error. A result that is too large for one
// response also sets Failed; Calls then repeats the other calls without it. A node that
// cannot execute is an error. Errors are those of Call.
func (e *EVM) Calls(ctx context.Context, block *uint64, calls []EVMCall) ([]EVMReturn, error) {
	at := "latest"
	if block != nil {
		at = hexNumber(*block)
	}
	left := make([]int, len(calls)) // indexes of calls without a reply
	for i := range calls {
		left[i] = i
	}
	if asked, _ := invocationsOf(calls, left, at); len(asked) > MaxCalls {
		return nil, fmt.Errorf("%s: %d calls; the limit is %d", callMethod, len(asked), MaxCalls)
	}
	returned := make([]EVMReturn, len(calls))
	for atOnce := len(calls); len(left) > 0; {
		some := left[:min(atOnce, len(left))]
		tooMuch, err := e.someCalls(ctx, calls, some, at, returned)
		if err != nil {
			return nil, err
		}
		answered := len(some) - len(tooMuch)
		switch {
		case answered > 0:
			atOnce = answered
		case len(some) == 1:
			returned[some[0]].Failed, tooMuch = true, nil
		default:
			atOnce = len(some) / 2
		}
		left = append(tooMuch, left[len(some):]...)
	}
	return returned, nil
}

// placed has the places in a batch of a call and of the code of its address, -1 for none.
type placed struct{ call, code int }

// invocationsOf returns the batch for some of the calls: the code of an address precedes its
// calls.
func invocationsOf(calls []EVMCall, some []int, at string) (batch []invocation, places []placed) {
	code := -1
	for i, n := range some {
		call := &calls[n]
		if !call.Code || i > 0 && calls[some[i-1]].To != call.To {
			code = -1
		}
		if call.Code && code < 0 {
			code = len(batch)
			batch = append(batch, invocation{codeMethod, []any{call.To, at}})
		}
		params := map[string]any{"to": call.To, "data": hexutil.Bytes(call.Data)}
		if call.Gas > 0 {
			params["gas"] = hexutil.Uint64(call.Gas)
		}
		places = append(places, placed{len(batch), code})
		batch = append(batch, invocation{callMethod, []any{params, at}})
	}
	return batch, places
}

// someCalls makes some of the calls in one request and returns those whose results did not
// fit.
func (e *EVM) someCalls(ctx context.Context, calls []EVMCall, some []int, at string, returned []EVMReturn) (tooMuch []int, err error) {
	batch, places := invocationsOf(calls, some, at)
	answers, err := e.client.batch(ctx, e.path, batch, func(answers []outcome) error {
		for _, a := range answers {
			if err := stateless(a.refused); err != nil {
				return err
			}
		}
		return nil
	})
	var refused *RPCError
	switch {
	case errors.Is(err, ErrTooLong), errors.As(err, &refused) && refused.Code == tooLarge, len(some) > 1 && RefusesBatch(err):
		return slices.Clone(some), nil
	case err != nil:
		return nil, err
	}
	for i, place := range places {
		call, r := answers[place.call], &returned[some[i]]
		if call.tooLarge() || place.code >= 0 && answers[place.code].tooLarge() {
			tooMuch = append(tooMuch, some[i])
			continue
		}
		if place.code >= 0 {
			code, err := answers[place.code].text(codeMethod)
			if err != nil {
				return nil, err
			}
			r.NoCode = len(code) <= len("0x")
		}
		if call.refused != nil && executionFailed(call.refused) {
			r.Failed = true
			continue
		}
		text, err := call.text(callMethod)
		if err == nil {
			r.Data, err = hexData(callMethod, string(text))
		}
		if err != nil {
			return nil, err
		}
	}
	return tooMuch, nil
}

// RefusesBatch reports whether err may be a node's refusal of a batch, or of a range of blocks, because of its size. Providers
// have different codes and texts for it. The node may accept a smaller one.
func RefusesBatch(err error) bool {
	refused, ok := errors.AsType[*RPCError](err)
	return ok && !refused.NotOffered() && !errors.Is(err, ErrBeyondTip) && !errors.Is(err, ErrTraceRefused)
}

// text returns the result of a method that returns a string.
func (o *outcome) text(method string) ([]byte, error) {
	switch {
	case o.refused != nil:
		return nil, o.refused
	case len(o.result) < len(`""`) || o.result[0] != '"':
		return nil, fmt.Errorf("%s: %w: not a string", method, ErrMalformed)
	}
	return o.result[1 : len(o.result)-1], nil
}

// executionFailed reports whether the contract failed, as opposed to the node. Code 3 is
// go-ethereum's for a revert with a reason; other failures of a contract have only the
// texts of core/vm, and those of a stateful precompile that lacks the method its own
// (avalanchego, graft/subnet-evm/precompile/contract). A timeout ("execution aborted") does not count: it depends on the node
// as well.
func executionFailed(refused *RPCError) bool {
	if refused.Code == 3 {
		return true
	}
	for _, text := range []string{"execution reverted", "out of gas", "invalid opcode", "invalid jump", "stack underflow", "stack limit reached", "write protection", "return data out of bounds", "gas uint64 overflow", "max call depth", "intrinsic gas", "invalid function selector"} {
		if strings.Contains(refused.Message, text) {
			return true
		}
	}
	return false
}

// webSocketURL returns the URL of an endpoint's WebSocket for the API at path.
func webSocketURL(base *url.URL, path string) string {
	u := *base
	u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
	u.Path = strings.TrimSuffix(u.Path+path, "/rpc") + "/ws"
	return u.String()
}
