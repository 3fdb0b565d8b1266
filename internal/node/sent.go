package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
)

// sentRanges are the numbers of newest blocks in which MessageSent searches. Providers limit
// the range of eth_getLogs, many to 10 blocks.
var sentRanges = []uint64{1024, 10}

// MessageSent reports whether the Warp precompile of an EVM chain sent the message with this
// ID in one of the newest blocks: 1,024, or 10 if the node allows no more. Errors are those
// of Call.
func (c *Client) MessageSent(ctx context.Context, path string, id ids.ID) (bool, error) {
	height, err := c.EVMHeight(ctx, path)
	if err != nil {
		return false, err
	}
	topic := "0x" + id.Hex()
	for _, blocks := range sentRanges {
		var logs []struct{ Topics []string }
		err = c.Call(ctx, path, "eth_getLogs", []any{sentFilter(height-min(height, blocks-1), height, nil, topic)}, &logs)
		if err == nil {
			for _, l := range logs {
				if slices.ContainsFunc(l.Topics, func(t string) bool { return strings.EqualFold(t, topic) }) {
					return true, nil
				}
			}
			return false, nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrUnavailable) {
			break
		}
	}
	return false, err
}

// BlockAccepted reports whether an EVM chain has accepted the block with this hash. Errors
// are those of Call.
func (c *Client) BlockAccepted(ctx context.Context, path string, hash ids.ID) (bool, error) {
	answers, err := c.batch(ctx, path, []invocation{{"eth_getBlockByHash", []any{"0x" + hash.Hex(), false}}}, nil)
	if err != nil {
		return false, err
	}
	if refused := answers[0].refused; refused != nil {
		return false, refused
	}
	return len(answers[0].result) > 0 && string(answers[0].result) != "null", nil
}

// Errors of SentBy.
var (
	// ErrUnknownTransaction reports a transaction that no node knows.
	ErrUnknownTransaction = errors.New("no node knows the transaction")
	// ErrPendingTransaction reports a transaction that is in no accepted and executed block yet.
	ErrPendingTransaction = errors.New("the transaction is not accepted yet")
	// ErrReverted reports a transaction that failed, so that it had no effect.
	ErrReverted = errors.New("the transaction was reverted")
)

const (
	transactionMethod = "eth_getTransactionByHash"
	receiptMethod     = "eth_getTransactionReceipt"
)

// SentBy returns the messages that an accepted transaction of an EVM chain sent through the Warp precompile, in order.
// Nodes have receipts only of accepted transactions: coreth and subnet-evm store where a transaction is when they
// accept its block, even with allow-unfinalized-queries, and saevm executes only accepted blocks. Errors are those of
// Call, ErrUnknownTransaction, ErrPendingTransaction, ErrReverted, and ErrPruned if the node lacks the receipt.
func (c *Client) SentBy(ctx context.Context, path string, hash ids.ID) ([]SentMessage, error) {
	argument := []any{"0x" + hash.Hex()}
	// One node answers all calls, in this order. If it has the transaction in a block, it has its receipt. The height
	// is at least that of the receipt's block.
	calls := []invocation{{transactionMethod, argument}, {receiptMethod, argument}, {heightMethod, []any{}}}
	answers, err := c.batch(ctx, path, calls, func(answers []outcome) error {
		for _, a := range answers {
			if a.refused != nil && a.refused.NotOffered() {
				return a.refused
			}
		}
		if answers[1].result == nil && answers[1].refused == nil { // another node may have the receipt
			cause := withoutReceipt(answers[0], answers[2])
			return &RPCError{Method: receiptMethod, Code: methodNotFound, Message: cause.Error(), cause: cause}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.refused != nil {
			return nil, a.refused
		}
	}
	height, known := heightOf(answers[2])
	if !known {
		return nil, fmt.Errorf("%s: %w: no height", heightMethod, ErrMalformed)
	}
	return sentIn(answers[1].result, hash, height)
}

// withoutReceipt returns why a node has no receipt of a transaction.
func withoutReceipt(transaction, height outcome) error {
	var in struct{ BlockNumber *string }
	if transaction.result == nil {
		return ErrUnknownTransaction
	}
	if json.Unmarshal(transaction.result, &in) != nil || in.BlockNumber == nil {
		return ErrPendingTransaction
	}
	number, err := quantity(transactionMethod, *in.BlockNumber)
	if tip, known := heightOf(height); err == nil && known && number <= tip {
		return ErrPruned
	}
	return ErrPendingTransaction
}

// sentIn returns the messages in the receipt of a transaction. height is that of the last block.
func sentIn(content []byte, hash ids.ID, height uint64) ([]SentMessage, error) {
	var receipt struct {
		TransactionHash, BlockNumber, Status string
		Logs                                 []struct {
			sentLog
			Address string
			Topics  []string
		}
	}
	if err := json.Unmarshal(content, &receipt); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", receiptMethod, ErrMalformed, err)
	}
	if !strings.EqualFold(receipt.TransactionHash, "0x"+hash.Hex()) {
		return nil, fmt.Errorf("%s: %w: the receipt of another transaction, %q", receiptMethod, ErrMalformed, clipped(receipt.TransactionHash))
	}
	number, err := quantity(receiptMethod, receipt.BlockNumber)
	if err != nil {
		return nil, err
	}
	switch status, err := quantity(receiptMethod, receipt.Status); {
	case err != nil || status > 1:
		return nil, fmt.Errorf("%s: %w: status %q", receiptMethod, ErrMalformed, clipped(receipt.Status))
	case number > height:
		return nil, fmt.Errorf("%s: %w: it is in block %d, the last block is %d", receiptMethod, ErrPendingTransaction, number, height)
	case status == 0:
		return nil, fmt.Errorf("%s: %w in block %d", receiptMethod, ErrReverted, number)
	}
	var logs []sentLog
	for _, l := range receipt.Logs {
		if strings.EqualFold(l.Address, warpPrecompile) && len(l.Topics) > 0 && strings.EqualFold(l.Topics[0], sendWarpMessage) {
			logs = append(logs, l.sentLog)
		}
	}
	sent, err := sentMessages(receiptMethod, logs, math.MaxUint64)
	if err != nil {
		return nil, err
	}
	for i, m := range sent {
		if m.Block != number || m.TxHash != hash || i > 0 && m.Index <= sent[i-1].Index {
			return nil, fmt.Errorf("%s: %w: log %d is not in order, or is of another transaction", receiptMethod, ErrMalformed, m.Index)
		}
	}
	return sent, nil
}
