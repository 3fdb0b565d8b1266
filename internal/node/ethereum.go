package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
)

var (
	// ErrPruned reports a block that no node has, although their last block is higher.
	// A node that state-synced has the genesis block, and then only blocks from shortly
	// before the height at which it synced.
	ErrPruned = errors.New("not available from the node, which was state-synced or has pruned it: set state-sync-enabled to false in the chain's config.json and resync the node, or configure an archive node")
	// ErrNoTraces reports that no node can trace a block: the API is disabled, or the
	// state of the parent block is pruned (ErrNoState).
	ErrNoTraces = errors.New("the node has no debug_traceBlockByNumber for these blocks")
	// ErrNoState is an ErrNoTraces of single blocks: the node can trace others.
	ErrNoState = fmt.Errorf("%w: it has pruned the state", ErrNoTraces)
	// ErrTraceRefused reports that the node failed to trace one block, also transaction by
	// transaction: the execution timed out, the answer is too large, or the method failed.
	ErrTraceRefused = errors.New("the node failed to trace the block")
)

// EVM is the Ethereum API of one EVM chain. Safe for concurrent use.
type EVM struct {
	client *Client
	path   string
}

// EVM is the chain whose API the nodes have at path; empty, if the endpoints are the
// API's own URLs.
func (c *Client) EVM(path string) *EVM { return &EVM{client: c, path: path} }

// EVMBlock is what a node says of a block, in JSON that was not looked into.
type EVMBlock struct {
	// Block has whole transactions.
	Block []byte
	// Receipts are nil for the genesis block.
	Receipts []byte
	// Traces are callTracer's; nil for the genesis block, and where none were asked for.
	Traces []byte
}

// Tip is the height of the newest block that is accepted and executed, so that its
// receipts are there. Accepted blocks are final.
func (e *EVM) Tip(ctx context.Context) (uint64, error) {
	// With asynchronous execution, too: see avalanchego vms/saevm, on "latest".
	return e.client.EVMHeight(ctx, e.path)
}

// ChainID is the chain's ID in signatures (EIP-155).
func (e *EVM) ChainID(ctx context.Context) (uint64, error) {
	const method = "eth_chainId"
	var id string
	if err := e.client.Call(ctx, e.path, method, []any{}, &id); err != nil {
		return 0, err
	}
	return quantity(method, id)
}

// blockchainInPath finds the blockchain in the URL of an API.
var blockchainInPath = regexp.MustCompile(`/ext/bc/([^/]+)/`)

// BlockchainID is the ID of the blockchain on the P-Chain: as the Warp precompile tells
// it, or the URL. It is empty if neither does.
func (e *EVM) BlockchainID(ctx context.Context) (ids.ID, error) {
	// Keccak-256 of getBlockchainID() begins with it.
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
	// tooLarge is go-ethereum's code for a batch whose answers are too many bytes:
	// those before the limit are there.
	tooLarge = -32003
	// invalidRequest is JSON-RPC 2.0's, and go-ethereum's for a batch of too many calls.
	invalidRequest = -32600
)

// Blocks fetches up to n blocks from a height on in one request, with call traces if
// traces is set. The result has at least one block. It has fewer than n if the rest is
// too large for one answer, beyond the tip, or cannot be traced in the same way.
// Errors are those of Call, ErrBeyondTip, ErrPruned, ErrNoTraces and ErrTraceRefused,
// each of the block at from.
func (e *EVM) Blocks(ctx context.Context, from uint64, n int, traces bool) ([]EVMBlock, error) {
	// The height comes first: a node executes a batch in order, so a block at or below it
	// that is missing from the same batch is missing for good.
	calls := []invocation{{heightMethod, []any{}}}
	ends := make([]int, 0, n) // of the calls of each block
	for height := from; height < from+uint64(n); height++ {
		calls = append(calls, blockCalls(height, traces)...)
		ends = append(ends, len(calls))
	}
	answers, err := e.client.batch(ctx, e.path, calls, func(answers []outcome) error {
		return elsewhere(from, calls[:ends[0]], answers[:ends[0]])
	})
	switch {
	case err == nil:
	case n == 1 && ctx.Err() == nil && (errors.Is(err, errOversized) || traces && (errors.Is(err, ErrMalformed) || errors.Is(err, ErrUnavailable))):
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

// Has reports whether a node has the block at height with its receipts, which must not
// be higher than Tip. Errors are those of Call and ErrBeyondTip.
func (e *EVM) Has(ctx context.Context, height uint64) (bool, error) {
	_, err := e.Blocks(ctx, height, 1, false)
	if errors.Is(err, ErrPruned) {
		return false, nil
	}
	return err == nil, err
}

func blockCalls(height uint64, traces bool) []invocation {
	number := "0x" + strconv.FormatUint(height, 16)
	calls := []invocation{{blockMethod, []any{number, true}}}
	if height == 0 {
		return calls // it executed nothing
	}
	calls = append(calls, invocation{receiptsMethod, []any{number}})
	if traces {
		calls = append(calls, invocation{tracesMethod, []any{number, traceOptions()}})
	}
	return calls
}

// traceTimeout is how long the node may take to trace one transaction. The default of
// nodes is 5 s (libevm eth/tracers).
const traceTimeout = 60 * time.Second

func traceOptions() map[string]any {
	return map[string]any{"tracer": "callTracer", "timeout": traceTimeout.String()}
}

// large fetches the parts of one block one by one, after they failed together. Cause is
// why they did.
func (e *EVM) large(ctx context.Context, height uint64, traces bool, cause error) ([]EVMBlock, error) {
	calls := blockCalls(height, false)
	answers := make([]outcome, 0, len(calls))
	for i := range calls {
		one, err := e.client.batch(ctx, e.path, calls[i:i+1], nil)
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

// traceWhole traces a block in one call, or else transaction by transaction.
func (e *EVM) traceWhole(ctx context.Context, height uint64, block []byte) ([]byte, error) {
	calls := blockCalls(height, true)
	calls = calls[len(calls)-1:]
	answers, err := e.client.batchWithin(ctx, e.path, traceTimeout+batchTimeout, calls, func(answers []outcome) error {
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

// maxTraces is the most bytes of the traces of one block: what one answer may have.
const maxTraces = maxResponse

// traceSingly traces a block transaction by transaction, after the node failed to trace
// it as a whole for the given reason.
func (e *EVM) traceSingly(ctx context.Context, height uint64, block []byte, cause error) ([]byte, error) {
	var content struct{ Transactions []struct{ Hash string } }
	if err := json.Unmarshal(block, &content); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", blockMethod, ErrMalformed, err)
	}
	all := []byte{'['}
	for i, tx := range content.Transactions {
		call := []invocation{{traceMethod, []any{tx.Hash, traceOptions()}}}
		answers, err := e.client.batchWithin(ctx, e.path, traceTimeout+batchTimeout, call, func(answers []outcome) error {
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
			return nil, fmt.Errorf("%w %d, as a whole (%w) and transaction %d of %d: %w", ErrTraceRefused, height, cause, i, len(content.Transactions), err)
		}
		if i > 0 {
			all = append(all, ',')
		}
		all = fmt.Appendf(all, `{"txHash":%q,"result":`, tx.Hash)
		all = append(append(all, answers[0].result...), '}')
	}
	return append(all, ']'), nil
}

// elsewhere returns an error if another node should be asked for a block: this one lacks
// the block, or cannot trace it. The first answer is the node's height.
func elsewhere(height uint64, calls []invocation, answers []outcome) error {
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
	}
	return nil
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

// pruned reports whether the answer for an executed block says that the node lacks the
// block or its receipts.
func (a *outcome) pruned() bool {
	if a.refused == nil {
		return a.result == nil
	}
	// A state-synced node has the last blocks before its sync without their receipts
	// (avalanchego graft/coreth internal/ethapi).
	return a.refused.Code == prunedCode || strings.Contains(a.refused.Message, "receipts length mismatch")
}

// untraceable returns an error that has another node asked, if it is of no use to ask
// this one again for the traces that it refused.
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

// readBlock sorts the answers for one block. With an error that is a refusal to trace,
// the rest of the block is there.
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
			return b, fmt.Errorf("%w: %s says there is nothing yet", ErrBeyondTip, method)
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

// NativeBalance is what an address owns of the chain's own token after a block, in wei.
func (e *EVM) NativeBalance(ctx context.Context, address common.Address, block uint64) (*uint256.Int, error) {
	const method = "eth_getBalance"
	var text string
	if err := e.client.Call(ctx, e.path, method, []any{address, "0x" + strconv.FormatUint(block, 16)}, &text); err != nil {
		return nil, err
	}
	balance, err := hexutil.DecodeBig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", method, ErrMalformed, err)
	}
	n, _ := uint256.FromBig(balance) // it has 256 bits at most
	return n, nil
}

// EVMCall is a call of a contract that changes nothing.
type EVMCall struct {
	To   common.Address
	Data []byte
	// Gas bounds the execution; 0 leaves it to the node.
	Gas uint64
}

// EVMReturn is what a call came to.
type EVMReturn struct {
	Data []byte
	// Failed says that the contract did not return; Data is then empty.
	Failed bool
}

// MaxCalls is how many calls go into one request.
const MaxCalls = 100

const callMethod = "eth_call"

// Calls makes up to MaxCalls calls after a block, nil being the newest one. A contract
// that fails is no error, nor is one whose answer is too long for the node or for us:
// it has failed, too, and the others are asked again without it. A node that cannot
// execute is an error. Errors are those of Call.
func (e *EVM) Calls(ctx context.Context, block *uint64, calls []EVMCall) ([]EVMReturn, error) {
	if len(calls) > MaxCalls {
		return nil, fmt.Errorf("%s: %d calls, at most %d are possible", callMethod, len(calls), MaxCalls)
	}
	at := "latest"
	if block != nil {
		at = "0x" + strconv.FormatUint(*block, 16)
	}
	left := make([]int, len(calls)) // which have no answer yet
	invocations := make([]invocation, len(calls))
	for i, call := range calls {
		params := map[string]any{"to": call.To, "data": hexutil.Bytes(call.Data)}
		if call.Gas > 0 {
			params["gas"] = hexutil.Uint64(call.Gas)
		}
		left[i], invocations[i] = i, invocation{callMethod, []any{params, at}}
	}
	returned := make([]EVMReturn, len(calls))
	for atOnce := len(calls); len(left) > 0; {
		some := left[:min(atOnce, len(left))]
		tooMuch, err := e.someCalls(ctx, invocations, some, returned)
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

// someCalls makes some of the calls in one request, and returns those that were too
// much for it.
func (e *EVM) someCalls(ctx context.Context, calls []invocation, some []int, returned []EVMReturn) (tooMuch []int, err error) {
	asked := make([]invocation, len(some))
	for i, call := range some {
		asked[i] = calls[call]
	}
	answers, err := e.client.batch(ctx, e.path, asked, nil)
	var refused *RPCError
	switch {
	case errors.Is(err, errOversized),
		errors.As(err, &refused) && (refused.Code == tooLarge || refused.Code == invalidRequest && len(some) > 1):
		return slices.Clone(some), nil
	case err != nil:
		return nil, err
	}
	for i, a := range answers {
		r := &returned[some[i]]
		switch {
		case a.refused != nil && a.refused.Code == tooLarge:
			tooMuch = append(tooMuch, some[i])
		case a.refused != nil && executionFailed(a.refused):
			r.Failed = true
		case a.refused != nil:
			return nil, a.refused
		case len(a.result) < 2 || a.result[0] != '"':
			return nil, fmt.Errorf("%s: %w: no string", callMethod, ErrMalformed)
		default:
			if r.Data, err = hexData(callMethod, string(a.result[1:len(a.result)-1])); err != nil {
				return nil, err
			}
		}
	}
	return tooMuch, nil
}

// HaveCode reports which of up to MaxCalls addresses are contracts now. Errors are those
// of Call.
func (e *EVM) HaveCode(ctx context.Context, addresses []common.Address) ([]bool, error) {
	const method = "eth_getCode"
	if len(addresses) == 0 {
		return nil, nil
	}
	if len(addresses) > MaxCalls {
		return nil, fmt.Errorf("%s: %d addresses, at most %d are possible", method, len(addresses), MaxCalls)
	}
	calls := make([]invocation, len(addresses))
	for i, address := range addresses {
		calls[i] = invocation{method, []any{address, "latest"}}
	}
	answers, err := e.client.batch(ctx, e.path, calls, nil)
	if err != nil {
		return nil, err
	}
	have := make([]bool, len(addresses))
	for i, a := range answers {
		switch {
		case a.refused != nil:
			return nil, a.refused
		case len(a.result) < len(`"0x"`) || a.result[0] != '"':
			return nil, fmt.Errorf("%s: %w: no string", method, ErrMalformed)
		}
		have[i] = len(a.result) > len(`"0x"`)
	}
	return have, nil
}

// executionFailed tells what the contract did from what the node could not do. The
// code 3 is go-ethereum's for a revert with a reason; for the other failures there are
// only the texts of its core/vm. That an execution took too long ("execution aborted")
// says as much of the node as of the contract.
func executionFailed(refused *RPCError) bool {
	if refused.Code == 3 {
		return true
	}
	for _, text := range []string{"execution reverted", "out of gas", "invalid opcode", "invalid jump", "stack underflow", "stack limit reached", "write protection", "return data out of bounds", "gas uint64 overflow", "max call depth", "intrinsic gas"} {
		if strings.Contains(refused.Message, text) {
			return true
		}
	}
	return false
}

// webSocketURL is where an endpoint has the WebSocket that goes with the API at path.
func webSocketURL(base *url.URL, path string) string {
	u := *base
	u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
	u.Path = strings.TrimSuffix(u.Path+path, "/rpc") + "/ws"
	return u.String()
}
