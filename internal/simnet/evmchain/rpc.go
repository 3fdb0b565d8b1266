package evmchain

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
)

// maxRequest bounds a request in bytes.
const maxRequest = 5 << 20

// rpcError is an error of JSON-RPC.
type rpcError struct {
	code    int
	message string
	data    string
	is      error // for errors.Is; may be nil
}

func (e *rpcError) Error() string { return e.message }
func (e *rpcError) Unwrap() error { return e.is }

// The errors of an avalanchego node.
var (
	errUnfinalized  = &rpcError{code: -32000, message: "cannot query unfinalized data"}
	errGenesisTrace = &rpcError{code: -32000, message: "genesis is not traceable"}
	errNoHeader     = &rpcError{code: -32000, message: "header for hash not found"}
)

func invalid(argument int, text string) error {
	return &rpcError{code: -32602, message: fmt.Sprintf("invalid argument %d: %s", argument, text)}
}

// request is a call.
type request struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// ServeHTTP serves the Ethereum API over HTTP and WebSocket, batches included.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		n.serveSocket(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	f := *n.faults.Load()
	if count := n.answers.Add(1); f.Every > 0 && count%f.Every != 0 {
		f.Truncated, f.Reset, f.HalfBatch = false, false, false
	}
	buffer, _ := n.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	answer := n.answer((*buffer)[:0], body, &f)
	defer func() {
		if cap(answer) <= maxBuffer {
			*buffer = answer
			n.buffers.Put(buffer)
		}
	}()
	w.Header().Set("Content-Type", "application/json")
	if !f.Reset && !f.Truncated {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	}
	f.write(w, answer)
}

// maxBuffer bounds the buffers that are reused, in bytes.
const maxBuffer = 16 << 20

// A batch has at most batchCalls calls. Calls after batchBytes of results are not answered. Both are a node's defaults
// (avalanchego, graft/coreth/plugin/evm/config; libevm, rpc.handler).
const (
	batchCalls = 1000
	batchBytes = 25_000_000
)

// answer appends the answer to a call or to a batch of calls.
func (n *Node) answer(out, body []byte, f *Faults) []byte {
	var calls []request
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '[' {
		calls = make([]request, 1)
		if err := json.Unmarshal(body, &calls[0]); err != nil {
			return appendError(out, nil, &rpcError{code: -32700, message: "parse error"})
		}
		return append(n.appendAnswer(out, &calls[0], f), '\n')
	}
	if err := json.Unmarshal(body, &calls); err != nil {
		return appendError(out, nil, &rpcError{code: -32700, message: "parse error"})
	}
	if len(calls) == 0 {
		return appendError(out, nil, &rpcError{code: -32600, message: "empty batch"})
	}
	out = append(out, '[')
	if len(calls) > batchCalls {
		return append(appendError(out, calls[0].ID, &rpcError{code: -32600, message: "batch too large"}), ']')
	}
	begin := len(out)
	for i := range calls {
		if f.HalfBatch && i%2 == 1 {
			continue
		}
		full := len(out)-begin > batchBytes
		if len(out) > begin {
			out = append(out, ',')
		}
		if full {
			out = appendError(out, calls[i].ID, &rpcError{code: -32003, message: "response too large"})
		} else {
			out = n.appendAnswer(out, &calls[i], f)
		}
	}
	return append(out, ']')
}

func (n *Node) appendAnswer(to []byte, r *request, f *Faults) []byte {
	from := len(to)
	to = append(to, `{"jsonrpc":"2.0","id":`...)
	to = appendID(to, r.ID)
	to = append(to, `,"result":`...)
	to, err := n.appendResult(to, r, f)
	if err != nil {
		return appendError(to[:from], r.ID, err)
	}
	return append(to, '}')
}

func appendID(to []byte, id json.RawMessage) []byte {
	if len(id) == 0 {
		return append(to, "null"...)
	}
	return append(to, id...)
}

func appendError(to []byte, id json.RawMessage, err error) []byte {
	e, ok := errors.AsType[*rpcError](err)
	if !ok {
		e = &rpcError{code: -32603, message: err.Error()}
	}
	to = append(to, `{"jsonrpc":"2.0","id":`...)
	to = appendID(to, id)
	to = append(to, `,"error":{"code":`...)
	to = strconv.AppendInt(to, int64(e.code), 10)
	to = append(to, `,"message":`...)
	text, _ := json.Marshal(e.message) // never fails for a string
	to = append(to, text...)
	if e.data != "" {
		to = append(to, `,"data":"`...)
		to = append(to, e.data...)
		to = append(to, '"')
	}
	return append(to, `}}`...)
}

// lacks reports whether the node does not have a block, because it state-synced above it.
func (f *Faults) lacks(number uint64) bool { return number > 0 && number < f.First }

// tip returns the number of the last block that the node knows.
func (n *Node) tip(f *Faults) uint64 {
	tip := n.Tip()
	return tip - min(tip, f.Behind)
}

// appendResult appends the result of a call. With an error, the returned slice begins with to,
// and what follows is undefined.
func (n *Node) appendResult(to []byte, r *request, f *Faults) ([]byte, error) {
	switch r.Method {
	case "eth_blockNumber":
		return strconv.AppendQuote(to, hexutil.EncodeUint64(n.tip(f))), nil
	case "eth_chainId":
		return strconv.AppendQuote(to, hexutil.EncodeUint64(n.generator.o.ChainID)), nil
	case "net_version":
		return strconv.AppendQuote(to, strconv.FormatUint(n.generator.o.ChainID, 10)), nil
	case "web3_clientVersion":
		return append(to, `"evmchain"`...), nil
	case "eth_getBlockByNumber", "eth_getBlockByHash":
		return n.appendBlock(to, r, f)
	case "eth_getBlockReceipts":
		number, err := n.blockArgument(r, 0, f)
		if errors.Is(err, errUnfinalized) || errors.Is(err, errNoHeader) {
			return append(to, "null"...), nil
		}
		if err != nil {
			return to, err
		}
		if f.lacks(number) {
			return append(to, "null"...), nil
		}
		return or(to)(n.appendPart(to, number, receiptsPart))
	case "eth_getTransactionByHash":
		return n.appendItemOf(to, r, f, textPart, `"hash":"`)
	case "eth_getTransactionReceipt":
		return n.appendItemOf(to, r, f, receiptsPart, `"transactionHash":"`)
	case "debug_traceBlockByNumber", "debug_traceBlockByHash":
		if err := n.mayTrace(r, f); err != nil {
			return to, err
		}
		number, err := n.blockArgument(r, 0, f)
		switch {
		case n.generator.o.SAE && errors.Is(err, errUnfinalized):
			err = &rpcError{code: -32000, message: fmt.Sprintf("block #%d not found", number)}
		case err != nil:
		case number == 0:
			err = errGenesisTrace
		case f.lacks(number):
			err = &rpcError{code: -32000, message: fmt.Sprintf("block #%d not found", number)}
		}
		if err != nil {
			return to, err
		}
		return or(to)(n.appendPart(to, number, tracesPart))
	case "eth_getLogs":
		return n.appendLogs(to, r, f)
	case "eth_getBalance", "eth_getCode":
		return n.appendState(to, r, f)
	case "eth_call":
		return n.appendCall(to, r, f)
	}
	return to, &rpcError{code: -32601, message: fmt.Sprintf("the method %s does not exist/is not available", r.Method)}
}

// or returns a function that replaces a result by to if there is an error.
func or(to []byte) func([]byte, error) ([]byte, error) {
	return func(b []byte, err error) ([]byte, error) {
		if err != nil {
			return to, err
		}
		return b, nil
	}
}

// text returns an argument that is a string.
func (r *request) text(i int) (string, error) {
	var s string
	if i >= len(r.Params) {
		return "", &rpcError{code: -32602, message: fmt.Sprintf("missing value for required argument %d", i)}
	}
	if err := json.Unmarshal(r.Params[i], &s); err != nil {
		return "", invalid(i, err.Error())
	}
	return s, nil
}

func (r *request) hash(i int) (h common.Hash, err error) {
	s, err := r.text(i)
	if err != nil {
		return h, err
	}
	if err := h.UnmarshalText([]byte(s)); err != nil {
		return h, invalid(i, err.Error())
	}
	return h, nil
}

func (r *request) address(i int) (a common.Address, err error) {
	s, err := r.text(i)
	if err != nil {
		return a, err
	}
	if err := a.UnmarshalText([]byte(s)); err != nil {
		return a, invalid(i, err.Error())
	}
	return a, nil
}

// blockArgument returns the number of the block that an argument names: by number, hash, tag
// or EIP-1898 object.
func (n *Node) blockArgument(r *request, i int, f *Faults) (uint64, error) {
	if i < len(r.Params) && len(r.Params[i]) > 0 && r.Params[i][0] == '{' {
		var by struct {
			BlockNumber *string      `json:"blockNumber"`
			BlockHash   *common.Hash `json:"blockHash"`
		}
		if err := json.Unmarshal(r.Params[i], &by); err != nil {
			return 0, invalid(i, err.Error())
		}
		switch {
		case by.BlockHash != nil:
			return n.blockOfHash(*by.BlockHash, f)
		case by.BlockNumber != nil:
			return n.blockOfNumber(*by.BlockNumber, i, f)
		}
		return 0, invalid(i, "neither block nor hash specified")
	}
	s, err := r.text(i)
	if err != nil {
		return 0, err
	}
	if len(s) == 66 {
		h, err := r.hash(i)
		if err != nil {
			return 0, err
		}
		return n.blockOfHash(h, f)
	}
	return n.blockOfNumber(s, i, f)
}

// tagged returns the number of the block that a tag names, if a string is one.
func (n *Node) tagged(s string, tip uint64) (number uint64, ok bool) {
	switch s {
	case "finalized", "safe":
		if n.generator.o.SAE {
			return n.settledBy(tip), true
		}
		return tip, true
	case "latest", "accepted", "pending":
		return tip, true
	case "earliest":
		return 0, true
	}
	return 0, false
}

// blockOfNumber returns the number that a string names. Above the last block it returns it with errUnfinalized.
func (n *Node) blockOfNumber(s string, i int, f *Faults) (uint64, error) {
	tip := n.tip(f)
	if number, ok := n.tagged(s, tip); ok {
		return number, nil
	}
	number, err := hexutil.DecodeUint64(s)
	if err != nil {
		return 0, invalid(i, err.Error())
	}
	switch {
	case number <= tip:
		return number, nil
	case n.generator.o.SAE:
		return number, &rpcError{code: -32000, message: fmt.Sprintf("block not found: not accepted yet: block %d", number), is: errUnfinalized}
	}
	return number, errUnfinalized
}

func (n *Node) blockOfHash(h common.Hash, f *Faults) (uint64, error) {
	n.mu.RLock()
	number, ok := n.byHash[short(h)]
	n.mu.RUnlock()
	if !ok || uint64(number) > n.tip(f) {
		return 0, errNoHeader
	}
	return uint64(number), nil
}

func (n *Node) appendBlock(to []byte, r *request, f *Faults) ([]byte, error) {
	number, err := n.blockArgument(r, 0, f)
	if errors.Is(err, errNoHeader) || n.generator.o.SAE && errors.Is(err, errUnfinalized) {
		return append(to, "null"...), nil
	}
	if err != nil {
		return to, err
	}
	if f.lacks(number) {
		return append(to, "null"...), nil
	}
	var full bool
	if len(r.Params) > 1 {
		if err := json.Unmarshal(r.Params[1], &full); err != nil {
			return to, invalid(1, err.Error())
		}
	}
	from := len(to)
	b, err := n.appendPart(to, number, textPart)
	if err != nil || full {
		return or(to)(b, err)
	}
	// Replace the transactions by their hashes.
	at := from + bytes.Index(b[from:], []byte(listOfTransactions)) + len(listOfTransactions)
	rest, comma := b[at:], ""
	b = append([]byte(nil), b[:at]...)
	for {
		_, after, found := bytes.Cut(rest, []byte(`"hash":"`))
		if !found {
			return append(b, `]}`...), nil
		}
		b = append(b, comma+`"`...)
		b = append(b, after[:66]...)
		b = append(b, '"')
		rest, comma = after[66:], ","
	}
}

// appendItemOf appends the item of a part of a block that is about one transaction, or null.
// field is the field with the transaction's hash.
func (n *Node) appendItemOf(to []byte, r *request, f *Faults, what part, field string) ([]byte, error) {
	h, err := r.hash(0)
	if err != nil {
		return to, err
	}
	n.mu.RLock()
	number, ok := n.txs[short(h)]
	n.mu.RUnlock()
	if !ok || uint64(number) > n.tip(f) || f.lacks(uint64(number)) {
		return append(to, "null"...), nil
	}
	b, err := n.appendPart(nil, uint64(number), what)
	if err != nil {
		return to, err
	}
	var items []json.RawMessage
	if what == textPart {
		var whole struct{ Transactions []json.RawMessage }
		if err := json.Unmarshal(b, &whole); err != nil {
			return to, fmt.Errorf("reading block %d: %w", number, err)
		}
		items = whole.Transactions
	} else if err := json.Unmarshal(b, &items); err != nil {
		return to, fmt.Errorf("reading block %d: %w", number, err)
	}
	wanted := []byte(field + h.Hex())
	for _, item := range items {
		if bytes.Contains(item, wanted) {
			return append(to, item...), nil
		}
	}
	return append(to, "null"...), nil
}

func (n *Node) mayTrace(r *request, f *Faults) error {
	switch f.Tracing {
	case NoTracer:
		return &rpcError{code: -32601, message: fmt.Sprintf("the method %s does not exist/is not available", r.Method)}
	case TraceCrash:
		return &rpcError{code: -32603, message: "method handler crashed"}
	}
	var options struct {
		Tracer string `json:"tracer"`
	}
	if len(r.Params) > 1 {
		if err := json.Unmarshal(r.Params[1], &options); err != nil {
			return invalid(1, err.Error())
		}
	}
	if options.Tracer != "callTracer" {
		return &rpcError{code: -32000, message: fmt.Sprintf("the tracer %q is not simulated, callTracer is", options.Tracer)}
	}
	return nil
}

// filter selects logs.
type filter struct {
	addresses []string
	topics    [][]string
}

// oneOrMore parses a string, a list of strings, or null.
func oneOrMore(raw json.RawMessage) (all []string, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '[' {
		raw = append(append(json.RawMessage{'['}, raw...), ']')
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = strings.ToLower(all[i])
	}
	return all, nil
}

// logRange returns the blocks that the arguments of eth_getLogs name, with the errors of a node
// (avalanchego, graft/coreth/eth/filters). There are none if first is above last.
func (n *Node) logRange(from, to string, f *Faults) (first, last uint64, err error) {
	fail := func(format string, args ...any) (uint64, uint64, error) {
		return 0, 0, &rpcError{code: -32000, message: fmt.Sprintf(format, args...)}
	}
	tip := n.tip(f)
	var firstNamed, lastNamed bool // by number, not by a tag
	if first, firstNamed, err = n.logBound(from, tip); err != nil {
		return 0, 0, err
	}
	if last, lastNamed, err = n.logBound(to, tip); err != nil {
		return 0, 0, err
	}
	switch {
	case firstNamed && lastNamed && last > 0 && first > last:
		return fail("invalid block range params")
	case n.generator.o.SAE: // the range ends with the last block
		return first, min(last, tip), nil
	case first > tip:
		return fail("requested from block %d after last accepted block %d", first, tip)
	case last > tip:
		return fail("requested to block %d after last accepted block %d", last, tip)
	case first > last:
		return fail("begin block %d is greater than end block %d", first, last)
	}
	return first, last, nil
}

// logBound returns the number of the block that a bound of eth_getLogs names, and whether it names the number. Without a
// bound it is the tip.
func (n *Node) logBound(text string, tip uint64) (number uint64, named bool, err error) {
	if text == "" {
		return tip, false, nil
	}
	if number, ok := n.tagged(text, tip); ok {
		return number, text == "earliest", nil
	}
	if number, err = hexutil.DecodeUint64(text); err != nil {
		return 0, false, invalid(0, err.Error())
	}
	return number, true, nil
}

func (n *Node) appendLogs(to []byte, r *request, f *Faults) ([]byte, error) {
	var args struct {
		FromBlock, ToBlock string
		BlockHash          *common.Hash
		Address            json.RawMessage
		Topics             []json.RawMessage
	}
	if len(r.Params) == 0 {
		return to, &rpcError{code: -32602, message: "missing value for required argument 0"}
	}
	if err := json.Unmarshal(r.Params[0], &args); err != nil {
		return to, invalid(0, err.Error())
	}
	var wanted filter
	var err error
	if wanted.addresses, err = oneOrMore(args.Address); err != nil {
		return to, invalid(0, err.Error())
	}
	for _, raw := range args.Topics {
		topics, err := oneOrMore(raw)
		if err != nil {
			return to, invalid(0, err.Error())
		}
		wanted.topics = append(wanted.topics, topics)
	}
	var first, last uint64
	if args.BlockHash != nil {
		if first, err = n.blockOfHash(*args.BlockHash, f); err != nil {
			return to, &rpcError{code: -32000, message: "unknown block"}
		}
		last = first
	} else if first, last, err = n.logRange(args.FromBlock, args.ToBlock, f); err != nil {
		return to, err
	}
	out := to
	out = append(out, '[')
	var receipts []byte
	for number := first; number <= last; number++ {
		if f.lacks(number) {
			continue
		}
		if receipts, err = n.appendPart(receipts[:0], number, receiptsPart); err != nil {
			return to, err
		}
		out = wanted.appendLogs(out, receipts)
	}
	if out[len(out)-1] == ',' {
		out = out[:len(out)-1]
	}
	return append(out, ']'), nil
}

// appendLogs appends the selected logs of receipts, each with a comma.
func (w *filter) appendLogs(to, receipts []byte) []byte {
	begin := []byte(`{"address":"`)
	for {
		at := bytes.Index(receipts, begin)
		if at < 0 {
			return to
		}
		receipts = receipts[at:]
		l := receipts[:bytes.IndexByte(receipts, '}')+1]
		receipts = receipts[len(l):]
		if w.wants(l) {
			to = append(append(to, l...), ',')
		}
	}
}

// wants reports whether a log is selected. It depends on how render.go encodes logs.
func (w *filter) wants(l []byte) bool {
	address := string(l[len(`{"address":"`):][:42])
	if len(w.addresses) > 0 && !slices.Contains(w.addresses, address) {
		return false
	}
	_, topics, _ := bytes.Cut(l, []byte(`"topics":[`))
	for _, wanted := range w.topics {
		if len(topics) < 68 || topics[0] != '"' {
			return false
		}
		if len(wanted) > 0 && !slices.Contains(wanted, string(topics[1:67])) {
			return false
		}
		if topics = topics[68:]; topics[0] == ',' {
			topics = topics[1:]
		}
	}
	return true
}

// stateArgument returns the number of the block that an argument names, or of the last block
// without the argument.
func (n *Node) stateArgument(r *request, i int, f *Faults) (uint64, error) {
	if i >= len(r.Params) || string(r.Params[i]) == "null" {
		return n.tip(f), nil
	}
	return n.blockArgument(r, i, f)
}

func (n *Node) appendState(to []byte, r *request, f *Faults) ([]byte, error) {
	address, err := r.address(0)
	if err != nil {
		return to, err
	}
	number, err := n.stateArgument(r, 1, f)
	if err != nil {
		return to, err
	}
	if r.Method == "eth_getBalance" {
		balance := n.generator.nativeAt(address, uint32(number))
		return strconv.AppendQuote(to, balance.Hex()), nil
	}
	return strconv.AppendQuote(to, hexutil.Encode(n.generator.codeAt(address, uint32(number)))), nil
}

func (n *Node) appendCall(to []byte, r *request, f *Faults) ([]byte, error) {
	var args struct {
		To          *common.Address
		Data, Input hexutil.Bytes
	}
	if len(r.Params) == 0 {
		return to, &rpcError{code: -32602, message: "missing value for required argument 0"}
	}
	if err := json.Unmarshal(r.Params[0], &args); err != nil {
		return to, invalid(0, err.Error())
	}
	number, err := n.stateArgument(r, 1, f)
	if err != nil {
		return to, err
	}
	if args.To == nil {
		return to, &rpcError{code: -32000, message: "a creation is not simulated"}
	}
	input := args.Input
	if input == nil {
		input = args.Data
	}
	output, ok := n.generator.call(*args.To, input, uint32(number))
	if !ok {
		e := &rpcError{code: 3, message: reverted, data: hexutil.Encode(output)}
		if reason := reasonOf(output); reason != "" {
			e.message += ": " + reason
		}
		return to, e
	}
	return strconv.AppendQuote(to, hexutil.Encode(output)), nil
}

// contractAt returns the contract at an address at the end of a block, or nil. It requires mu.
func (g *Generator) contractAt(address common.Address, block uint32) *contract {
	a := g.accounts[address]
	if a == nil || a.code == nil || a.code.since > block {
		return nil
	}
	return a.code
}

func (g *Generator) codeAt(address common.Address, block uint32) []byte {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if address == Warp {
		return []byte{1} // as all stateful precompiles
	}
	if c := g.contractAt(address, block); c != nil {
		return c.code()
	}
	return nil
}

// call returns the output of a call at the end of a block; false if it reverts with that.
func (g *Generator) call(address common.Address, input []byte, block uint32) ([]byte, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if address == Warp {
		if hex.EncodeToString(input) == fmt.Sprintf("%08x", getBlockchainID) {
			return g.o.BlockchainID[:], true
		}
		return nil, false
	}
	c := g.contractAt(address, block)
	if c == nil {
		return nil, true
	}
	return g.answer(c, input, block)
}
