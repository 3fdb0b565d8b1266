package history

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/ava-labs/avalanchego/api"
	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
)

// ErrNotServed means that a Node does not handle the call; another handler must answer it.
var ErrNotServed = errors.New("call not served by the history")

// Result is the text of a JSON value, which need not fit in memory.
type Result struct {
	parts []io.Reader
	size  int64
}

// Size returns the length in bytes.
func (r *Result) Size() int64 { return r.size }

// WriteTo writes the text. It may be called only once.
func (r *Result) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, io.MultiReader(r.parts...)) }

func (r *Result) text(s string) *Result {
	r.parts = append(r.parts, strings.NewReader(s))
	r.size += int64(len(s))
	return r
}

// Height returns the height of a chain's last block.
func (n *Node) Height(c Chain) uint64 {
	return n.count(&n.chains[c])
}

// Txs returns the number of transactions in a chain's blocks.
func (n *Node) Txs(c Chain) int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.chains[c].txs
}

// Call answers a call of the node API like avalanchego. The result is a *Result or a value for encoding/json. Errors
// are ErrNotServed or have avalanchego's text.
func (n *Node) Call(path, method string, params json.RawMessage) (any, error) {
	if index, ok := strings.CutPrefix(path, "/ext/index/"); ok {
		return n.index(index, method, params)
	}
	switch path {
	case "/ext/P", "/ext/bc/P":
		return n.platform(method, params)
	case "/ext/bc/X", "/ext/X":
		return n.avm(method, params)
	case "/ext/bc/C/rpc":
		return n.ethereum(method, params)
	}
	return nil, ErrNotServed
}

func (n *Node) index(name, method string, params json.RawMessage) (any, error) {
	r, ok := map[string]*record{
		"P/block": &n.chains[P], "X/block": &n.chains[X], "C/block": &n.chains[C],
		"X/tx": &n.early[earlyTxs], "X/vtx": &n.early[earlyVertices],
	}[name]
	if !ok || n.run().NoIndex || n.run().StateSynced > 0 && r == &n.chains[C] { // an incomplete index is not served
		return nil, ErrNotServed
	}
	var args indexer.GetContainerRangeArgs
	if err := json.Unmarshal(params, &args); err != nil {
		return nil, err
	}
	if args.Encoding != formatting.Hex {
		return nil, fmt.Errorf("unsupported encoding %q", args.Encoding)
	}
	count := n.count(r)
	first, last := uint64(args.StartIndex), uint64(args.StartIndex)+uint64(args.NumToFetch)
	switch method {
	case "index.getContainerRange":
		if args.NumToFetch == 0 || args.NumToFetch > indexer.MaxFetchedByRange {
			return nil, fmt.Errorf("numToFetch must be in [1,%d] but is %d", indexer.MaxFetchedByRange, args.NumToFetch)
		}
	case "index.getLastAccepted":
		first, last = max(count, 1)-1, count
	case "index.getContainerByIndex":
		var args indexer.GetContainerByIndexArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		first, last = uint64(args.Index), uint64(args.Index)+1
	default:
		return nil, fmt.Errorf("rpc: can't find method %q", method)
	}
	switch {
	case count == 0:
		return nil, errors.New("no containers have been accepted")
	case first >= count && method == "index.getContainerByIndex":
		return nil, fmt.Errorf("no container at index %d", first)
	case first >= count:
		return nil, fmt.Errorf("start index (%d) > last accepted index (%d)", first, count-1)
	}
	file, from, to := n.span(r, first, min(last, count))
	section := io.NewSectionReader(file, from, to-from-1) // without the last comma
	result := &Result{size: section.Size()}
	if method != "index.getContainerRange" {
		result.parts = append(result.parts, section)
		return result, nil
	}
	result.text(`{"containers":[`)
	result.parts = append(result.parts, section)
	return result.text(`]}`), nil
}

// count returns the number of containers.
func (n *Node) count(r *record) uint64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	count := uint64(len(r.ends))
	for c := range n.chains {
		if r == &n.chains[c] {
			return min(count, n.ends[c])
		}
	}
	return count
}

// span returns the file range of the containers from first to last-1, which must exist.
func (n *Node) span(r *record, first, last uint64) (file io.ReaderAt, from, to int64) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if first > 0 {
		from = r.ends[first-1]
	}
	return r.file, from, r.ends[last-1]
}

// block returns the bytes of a block without its envelope, or false above the tip.
func (n *Node) block(c Chain, height uint64) ([]byte, bool, error) {
	if height > n.Height(c) {
		return nil, false, nil
	}
	if height == 0 {
		n.mu.RLock()
		defer n.mu.RUnlock()
		return n.chains[c].first, n.chains[c].first != nil, nil
	}
	b, err := n.container(&n.chains[c], height-1)
	if err != nil {
		return nil, false, fmt.Errorf("reading a block: %w", err)
	}
	if wrapped, err := proposer.ParseWithoutVerification(b); err == nil {
		return wrapped.Block(), true, nil
	}
	return b, true, nil
}

// container returns the bytes of an existing container.
func (n *Node) container(r *record, index uint64) ([]byte, error) {
	file, from, to := n.span(r, index, index+1)
	text := make([]byte, to-from)
	if _, err := file.ReadAt(text, from); err != nil {
		return nil, err
	}
	_, text, _ = bytes.Cut(text, []byte(`"bytes":"0x`))
	text, _, _ = bytes.Cut(text, []byte(`"`))
	b := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(b, text); err != nil {
		return nil, err
	}
	return b[:len(b)-4], nil // without the checksum
}

// blockByHeight answers getBlockByHeight.
func (n *Node) blockByHeight(c Chain, params json.RawMessage) (any, error) {
	var args api.GetBlockByHeightArgs
	if err := json.Unmarshal(params, &args); err != nil {
		return nil, err
	}
	if args.Encoding != formatting.Hex {
		return nil, fmt.Errorf("unsupported encoding %q", args.Encoding)
	}
	b, ok, err := n.block(c, uint64(args.Height))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("couldn't get block at height %d: not found", uint64(args.Height))
	}
	return new(Result).text(`{"block":"` + string(appendHex(nil, b)) + `","encoding":"hex"}`), nil
}

// tx returns the bytes of a transaction, or false if it does not exist.
func (n *Node) tx(c Chain, id ids.ID) ([]byte, bool, error) {
	if b, ok := n.genesis[id]; ok && c == P {
		return b, true, nil
	}
	n.mu.RLock()
	early, isEarly := n.earlyAt[shortID(id)]
	height, ok := n.txs[c][shortID(id)]
	ok = ok && uint64(height) <= n.ends[c]
	n.mu.RUnlock()
	if isEarly && c == X {
		b, err := n.container(&n.early[earlyTxs], uint64(early))
		return b, err == nil, err
	}
	if !ok {
		return nil, false, nil
	}
	b, ok, err := n.block(c, uint64(height))
	if !ok || err != nil {
		return nil, false, err
	}
	if c == X {
		parsed, err := n.generator.xParser.ParseBlock(b)
		if err != nil {
			return nil, false, err
		}
		for _, tx := range parsed.Txs() {
			if tx.ID() == id {
				return tx.Bytes(), true, nil
			}
		}
		return nil, false, nil
	}
	parsed, err := block.Parse(block.Codec, b)
	if err != nil {
		return nil, false, err
	}
	for _, tx := range parsed.Txs() {
		if tx.ID() == id {
			return tx.Bytes(), true, nil
		}
	}
	return nil, false, nil
}

func (n *Node) getTx(c Chain, params json.RawMessage) (any, error) {
	var args api.GetTxArgs
	if err := json.Unmarshal(params, &args); err != nil {
		return nil, err
	}
	b, ok, err := n.tx(c, args.TxID)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("couldn't get tx: not found")
	}
	return new(Result).text(`{"tx":"` + string(appendHex(nil, b)) + `","encoding":"hex"}`), nil
}

func (n *Node) platform(method string, params json.RawMessage) (any, error) {
	switch method {
	case "platform.getHeight":
		return api.GetHeightResponse{Height: avajson.Uint64(n.Height(P))}, nil
	case "platform.getBlockByHeight":
		return n.blockByHeight(P, params)
	case "platform.getTx":
		return n.getTx(P, params)
	case "platform.getTxStatus":
		var args platformvm.GetTxStatusArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		_, ok, err := n.tx(P, args.TxID)
		if err != nil {
			return nil, err
		}
		if ok {
			return map[string]any{"status": "Committed"}, nil
		}
		return map[string]any{"status": "Unknown"}, nil
	case "platform.getRewardUTXOs":
		var args api.GetTxArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		n.mu.RLock()
		defer n.mu.RUnlock()
		reply := platformvm.GetRewardUTXOsReply{Encoding: formatting.Hex, UTXOs: []string{}}
		if r := n.rewards[args.TxID]; r.height <= n.ends[P] {
			for _, utxo := range r.utxos {
				reply.UTXOs = append(reply.UTXOs, string(appendHex(nil, utxo)))
			}
		}
		// A node lists outputs in order of creation while they are in memory, and newest first once it reads them from
		// disk.
		if order := draw(n.generator.o.Seed, "order of rewards", n.asked.Add(1)); order[0]&1 == 0 {
			slices.Reverse(reply.UTXOs)
		}
		reply.NumFetched = avajson.Uint64(len(reply.UTXOs))
		return reply, nil
	case "platform.getCurrentValidators":
		return n.currentValidators(params)
	case "platform.getValidatorFeeConfig":
		return avagenesis.GetTxFeeConfig(n.generator.NetworkID()).ValidatorFeeConfig, nil
	}
	return nil, ErrNotServed
}

type stakeJSON struct {
	TxID            ids.ID         `json:"txID"`
	NodeID          ids.NodeID     `json:"nodeID"`
	StartTime       avajson.Uint64 `json:"startTime"`
	EndTime         avajson.Uint64 `json:"endTime"`
	Weight          avajson.Uint64 `json:"weight"`
	PotentialReward avajson.Uint64 `json:"potentialReward"`
	Delegators      []stakeJSON    `json:"delegators,omitempty"`
}

// currentValidators returns the named primary network validators that have a history.
func (n *Node) currentValidators(params json.RawMessage) (any, error) {
	var args platformvm.GetCurrentValidatorsArgs
	if err := json.Unmarshal(params, &args); err != nil {
		return nil, err
	}
	if args.SubnetID != constants.PrimaryNetworkID || len(args.NodeIDs) == 0 {
		return nil, ErrNotServed
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	validators := []stakeJSON{}
	for _, nodeID := range args.NodeIDs {
		all := n.stakes[nodeID]
		if len(all) == 0 {
			return nil, ErrNotServed
		}
		var whole stakeJSON
		for _, s := range all {
			one := stakeJSON{
				TxID: s.TxID, NodeID: s.NodeID, StartTime: avajson.Uint64(s.Start.Unix()), EndTime: avajson.Uint64(s.End.Unix()),
				Weight: avajson.Uint64(s.Weight), PotentialReward: avajson.Uint64(s.PotentialReward),
			}
			if s.Delegator {
				whole.Delegators = append(whole.Delegators, one)
			} else {
				one.Delegators, whole = whole.Delegators, one
			}
		}
		validators = append(validators, whole)
	}
	return map[string]any{"validators": validators}, nil
}

func (n *Node) avm(method string, params json.RawMessage) (any, error) {
	switch method {
	case "avm.getHeight":
		return api.GetHeightResponse{Height: avajson.Uint64(n.Height(X))}, nil
	case "avm.getBlockByHeight":
		return n.blockByHeight(X, params)
	case "avm.getTx":
		return n.getTx(X, params)
	}
	return nil, fmt.Errorf("rpc: can't find method %q", method)
}

// ethereum answers like a C-Chain whose only transactions are atomic.
func (n *Node) ethereum(method string, params json.RawMessage) (any, error) {
	switch method {
	case "eth_chainId":
		return "0xa868", nil // 43112, the local network's
	case "eth_blockNumber":
		return fmt.Sprintf("0x%x", n.Height(C)), nil
	case "eth_getLogs":
		return []any{}, nil
	case "eth_getTransactionReceipt", "eth_getTransactionByHash":
		return nil, nil
	case "eth_getBlockByNumber":
		var args []json.RawMessage
		var text string
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		if len(args) == 0 || json.Unmarshal(args[0], &text) != nil {
			return nil, errors.New("missing value for required argument 0")
		}
		return n.evmBlock(text)
	}
	return nil, fmt.Errorf("the method %s does not exist/is not available", method)
}

func (n *Node) evmBlock(text string) (any, error) {
	tip := n.Height(C)
	height := tip
	switch text {
	case "latest", "accepted", "finalized", "safe", "pending":
	case "earliest":
		height = 0
	default:
		number, ok := new(big.Int).SetString(strings.TrimPrefix(text, "0x"), 16)
		if !ok || !number.IsUint64() {
			return nil, fmt.Errorf("invalid argument 0: %q", text)
		}
		height = number.Uint64()
	}
	if height > 0 && height < n.run().StateSynced {
		return nil, nil // missing like all blocks before the synced state
	}
	b, ok, err := n.block(C, height)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("cannot query unfinalized data")
	}
	var parts struct {
		Header      rlp.RawValue
		Txs, Uncles rlp.RawValue
		Version     uint32
		ExtraData   []byte
	}
	if err := rlp.DecodeBytes(b, &parts); err != nil {
		return nil, fmt.Errorf("reading block %d: %w", height, err)
	}
	h := new(header)
	if err := rlp.DecodeBytes(parts.Header, h); err != nil {
		return nil, fmt.Errorf("reading the header of block %d: %w", height, err)
	}
	bytesOf := func(b []byte) string { return "0x" + hex.EncodeToString(b) }
	return map[string]any{
		"number": fmt.Sprintf("0x%x", h.Number), "hash": bytesOf(crypto.Keccak256(parts.Header)), "parentHash": bytesOf(h.ParentHash[:]),
		"timestamp": fmt.Sprintf("0x%x", h.Time), "timestampMilliseconds": fmt.Sprintf("0x%x", h.TimestampMilliseconds),
		"stateRoot": bytesOf(h.Root[:]), "miner": bytesOf(h.Coinbase[:]), "difficulty": "0x1", "gasLimit": fmt.Sprintf("0x%x", h.GasLimit),
		"gasUsed": "0x0", "baseFeePerGas": fmt.Sprintf("0x%x", h.BaseFee), "logsBloom": bytesOf(h.Bloom[:]), "extraData": "0x",
		"nonce": "0x0000000000000000", "size": fmt.Sprintf("0x%x", len(b)), "transactions": []any{}, "uncles": []any{},
		"transactionsRoot": bytesOf(h.TxHash[:]), "receiptsRoot": bytesOf(h.ReceiptHash[:]), "sha3Uncles": bytesOf(h.UncleHash[:]),
		"mixHash": bytesOf(h.MixDigest[:]), "extDataHash": bytesOf(h.ExtDataHash[:]), "extDataGasUsed": fmt.Sprintf("0x%x", h.ExtDataGasUsed),
		"blockGasCost": "0x0", "blockExtraData": bytesOf(parts.ExtraData),
	}, nil
}
