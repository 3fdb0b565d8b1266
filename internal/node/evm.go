package node

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
)

// CChainRPC is the path of the C-Chain's Ethereum API.
const CChainRPC = "/ext/bc/C/rpc"

// SentMessage is a message that an account or contract sent through the Warp precompile of
// an EVM chain.
type SentMessage struct {
	// Block is the block's height, Index the index of the log in the block.
	Block, Index uint64
	TxHash       [32]byte
	// Message is the unsigned message.
	Message []byte
}

const (
	// warpPrecompile is the address of the Warp precompile (ACP-30; avalanchego,
	// graft/coreth/precompile/contracts/warp).
	warpPrecompile = "0x0200000000000000000000000000000000000005"
	// sendWarpMessage is keccak256("SendWarpMessage(address,bytes32,bytes)").
	sendWarpMessage = "0x56600c567728a800c0aa927500f831cb451df66a7af570eb4df4dfbf4674887d"
)

// EVMHeight returns the height of the newest accepted block of an EVM chain whose Ethereum
// API is at path. Accepted blocks are final.
func (c *Client) EVMHeight(ctx context.Context, path string) (uint64, error) {
	var height string
	if err := c.Call(ctx, path, "eth_blockNumber", []any{}, &height); err != nil {
		return 0, err
	}
	return quantity("eth_blockNumber", height)
}

// SentMessages returns the messages sent in the blocks from one height through another, in
// order, and the last of these blocks that the node has executed. Logs of later blocks are
// missing without an error from the node. Errors are those of Call, ErrBeyondTip if the
// node has not executed the first block, and ErrPruned if no node has the first block or, if
// it is the only one, its logs.
func (c *Client) SentMessages(ctx context.Context, path string, from, through uint64) (sent []SentMessage, last uint64, err error) {
	const method = "eth_getLogs"
	// One node answers all three calls, in this order (see EVM.Blocks), because nodes are
	// at different heights. Without the first block a node returns no logs of the others
	// either.
	calls := []invocation{{heightMethod, []any{}}, {blockMethod, []any{hexNumber(from), false}}, {method, []any{sentFilter(from, through)}}}
	answers, err := c.batch(ctx, path, calls, func(answers []outcome) error {
		about := 2 // answers about the first block
		if from == through && answers[2].refused != nil {
			about = 3
		}
		return cmp.Or(askAnotherNode(from, calls[:about], answers[:about]), notOffered(answers[2].refused))
	})
	if err != nil {
		return nil, 0, err
	}
	height, known := heightOf(answers[0])
	switch {
	case answers[0].refused != nil:
		return nil, 0, answers[0].refused
	case !known:
		return nil, 0, fmt.Errorf("%s: %w: no height", heightMethod, ErrMalformed)
	case height < from:
		return nil, 0, fmt.Errorf("%w: block %d is not executed, the last executed block is %d", ErrBeyondTip, from, height)
	case answers[2].refused != nil:
		return nil, 0, answers[2].refused
	}
	last = min(through, height)
	var logs []sentLog
	if err := json.Unmarshal(answers[2].result, &logs); err != nil {
		return nil, 0, fmt.Errorf("%s: %w: %w", method, ErrMalformed, err)
	}
	sent, err = sentMessages(method, logs, last)
	return sent, last, err
}

// sentFilter is the argument of eth_getLogs for the messages sent in the blocks from one height through another. topics
// are the further topics of their logs.
func sentFilter(from, through uint64, topics ...any) map[string]any {
	return map[string]any{
		"fromBlock": hexNumber(from),
		"toBlock":   hexNumber(through),
		"address":   warpPrecompile,
		"topics":    append([]any{sendWarpMessage}, topics...),
	}
}

func hexNumber(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

// sentLog is a log of the Warp precompile in a node's JSON.
type sentLog struct {
	BlockNumber     string
	LogIndex        string
	TransactionHash string
	Data            string
	Removed         bool
}

// sentMessages parses logs of blocks up to last.
func sentMessages(method string, logs []sentLog, last uint64) (sent []SentMessage, err error) {
	for _, l := range logs {
		if l.Removed {
			continue
		}
		var m SentMessage
		if m.Block, err = quantity(method, l.BlockNumber); err != nil {
			return nil, err
		}
		if m.Index, err = quantity(method, l.LogIndex); err != nil {
			return nil, err
		}
		hash, err := hexData(method, l.TransactionHash)
		if err != nil {
			return nil, err
		}
		if len(hash) != ids.IDLen {
			return nil, fmt.Errorf("%s: %w: a transaction hash of %d bytes", method, ErrMalformed, len(hash))
		}
		copy(m.TxHash[:], hash)
		data, err := hexData(method, l.Data)
		if err != nil {
			return nil, err
		}
		if m.Message, err = abiBytes(data); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", method, ErrMalformed, err)
		}
		if m.Block <= last { // later blocks are fetched again
			sent = append(sent, m)
		}
	}
	return sent, nil
}

// abiBytes returns the one dynamic bytes value that data encodes (Solidity ABI).
func abiBytes(data []byte) ([]byte, error) {
	const word = 32
	offset, err := abiLength(data, 0)
	if err != nil {
		return nil, err
	}
	length, err := abiLength(data, offset)
	if err != nil {
		return nil, err
	}
	if length > uint64(len(data))-offset-word {
		return nil, fmt.Errorf("log data of %d bytes cannot hold %d", len(data), length)
	}
	return data[offset+word:][:length], nil
}

// abiLength returns the word at offset, which must be less than len(data).
func abiLength(data []byte, offset uint64) (uint64, error) {
	const word = 32
	if uint64(len(data)) < word || offset > uint64(len(data))-word {
		return 0, fmt.Errorf("log data of %d bytes ends early", len(data))
	}
	var n uint64
	for i, b := range data[offset:][:word] {
		if i < word-8 && b != 0 {
			return 0, fmt.Errorf("log data of %d bytes announces a greater size", len(data))
		}
		n = n<<8 | uint64(b)
	}
	if n > uint64(len(data)) {
		return 0, fmt.Errorf("log data of %d bytes announces a greater size", len(data))
	}
	return n, nil
}

// quantity parses a number in the Ethereum API's encoding.
func quantity(method, text string) (uint64, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("%s: %w: %q is not a quantity", method, ErrMalformed, clipped(text))
	}
	return n, nil
}

func hexData(method, text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	b, err := hex.DecodeString(digits)
	if !ok || err != nil {
		return nil, fmt.Errorf("%s: %w: %q is not hex data", method, ErrMalformed, clipped(text))
	}
	return b, nil
}

// clipped shortens text of a node for an error.
func clipped(text string) string { return text[:min(len(text), 40)] }
