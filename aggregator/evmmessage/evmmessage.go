// Package evmmessage finds the messages that a transaction of an EVM chain sent. It reads the transaction's receipt from
// a node of the chain, so the chain need not be indexed.
package evmmessage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/aggregator/l1message"
	"quorate/internal/node"
)

// Codes of the errors of Chain.Sent, in addition to those of package l1message.
const (
	// CodeUnknownChain means that no Ethereum API of the chain is configured.
	CodeUnknownChain aggregator.Code = "CHAIN_NOT_CONFIGURED"
	// CodeReverted means that the transaction failed, so that it sent nothing.
	CodeReverted aggregator.Code = "TRANSACTION_REVERTED"
)

// Node reads receipts; *node.Client implements it. Its errors are those of that type. It must be safe for concurrent use.
type Node interface {
	// SentBy returns the messages that an accepted transaction sent, in order. path is that of the chain's Ethereum API.
	SentBy(ctx context.Context, path string, hash ids.ID) ([]node.SentMessage, error)
}

var _ Node = (*node.Client)(nil)

// Chain is an EVM chain of a network.
type Chain struct {
	NetworkID    uint32
	BlockchainID ids.ID
	Node         Node
	Path         string // of the Ethereum API on Node
}

// Sent is a message that a transaction sent.
type Sent struct {
	// LogIndex is the index of the message's log in its block.
	LogIndex uint64
	Message  *warp.UnsignedMessage
}

// Sent returns the messages that an accepted transaction sent, in order, at least one. Its error is an
// *aggregator.Error, or ctx's error once ctx was cancelled.
func (c Chain) Sent(ctx context.Context, hash ids.ID) ([]Sent, error) {
	logs, err := c.Node.SentBy(ctx, c.Path, hash)
	if err != nil {
		return nil, c.failure(ctx, hash, err)
	}
	if len(logs) == 0 {
		return nil, &aggregator.Error{Code: l1message.CodeNoMessage, Message: fmt.Sprintf("txHash: transaction 0x%s sent no Warp message: its receipt has no SendWarpMessage log of the Warp precompile", hash.Hex())}
	}
	all := make([]Sent, len(logs))
	for i, l := range logs {
		m, err := warp.ParseUnsignedMessage(l.Message)
		if err != nil {
			return nil, c.faulty(fmt.Sprintf("log %d of the receipt holds no Warp message", l.Index), err)
		}
		if m.SourceChainID != c.BlockchainID || m.NetworkID != c.NetworkID {
			return nil, c.faulty(fmt.Sprintf("log %d of the receipt holds a message of blockchain %s on network %d", l.Index, m.SourceChainID, m.NetworkID), nil)
		}
		all[i] = Sent{LogIndex: l.Index, Message: m}
	}
	return all, nil
}

func (c Chain) faulty(what string, err error) error {
	return &aggregator.Error{Code: aggregator.CodeNodeFaulty, Message: fmt.Sprintf("%s; the node should serve blockchain %s on network %d, check its URL", what, c.BlockchainID, c.NetworkID), Err: err}
}

// failure returns the *aggregator.Error for an error of the node.
func (c Chain) failure(ctx context.Context, hash ids.ID, err error) error {
	switch {
	case errors.Is(err, node.ErrUnknownTransaction):
		return &aggregator.Error{Code: l1message.CodeUnknownTransaction, Message: fmt.Sprintf("txHash: the node of blockchain %s does not know transaction 0x%s; if it was issued only now, ask again in a moment", c.BlockchainID, hash.Hex()), Err: err}
	case errors.Is(err, node.ErrPendingTransaction):
		return &aggregator.Error{Code: l1message.CodeProcessing, RetryAfter: time.Second, Message: fmt.Sprintf("transaction 0x%s is not accepted on blockchain %s yet; ask again in a moment", hash.Hex(), c.BlockchainID), Err: err}
	case errors.Is(err, node.ErrReverted):
		return &aggregator.Error{Code: CodeReverted, Message: fmt.Sprintf("txHash: transaction 0x%s was reverted, so it sent no message", hash.Hex()), Err: err}
	case errors.Is(err, node.ErrPruned):
		return &aggregator.Error{Code: aggregator.CodeNodeUnavailable, Message: fmt.Sprintf("the node of blockchain %s has pruned the receipt of transaction 0x%s; use a node with all receipts", c.BlockchainID, hash.Hex()), Err: err}
	}
	return aggregator.NodeFailure(ctx, err)
}
