package evmmessage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/aggregator/l1message"
	"quorate/internal/node"
)

type fakeNode struct {
	sent []node.SentMessage
	err  error
}

func (f fakeNode) SentBy(context.Context, string, ids.ID) ([]node.SentMessage, error) {
	return f.sent, f.err
}

func TestSent(t *testing.T) {
	chain := ids.ID{1}
	unsigned := func(networkID uint32, source ids.ID, content string) []byte {
		m, err := warp.NewUnsignedMessage(networkID, source, []byte(content))
		require.NoError(t, err)
		return m.Bytes()
	}
	good := []node.SentMessage{{Index: 2, Message: unsigned(5, chain, "a")}, {Index: 4, Message: unsigned(5, chain, "b")}}
	for name, test := range map[string]struct {
		node fakeNode
		code aggregator.Code // empty: both messages
	}{
		"two messages":                 {node: fakeNode{sent: good}},
		"none":                         {fakeNode{}, l1message.CodeNoMessage},
		"a message of another chain":   {fakeNode{sent: append(good[:1:1], node.SentMessage{Message: unsigned(5, ids.ID{2}, "b")})}, aggregator.CodeNodeFaulty},
		"a message on another network": {fakeNode{sent: append(good[:1:1], node.SentMessage{Message: unsigned(1, chain, "b")})}, aggregator.CodeNodeFaulty},
		"no message in the log":        {fakeNode{sent: []node.SentMessage{{Message: []byte("nonsense")}}}, aggregator.CodeNodeFaulty},
		"unknown":                      {fakeNode{err: fmt.Errorf("x: %w", node.ErrUnknownTransaction)}, l1message.CodeUnknownTransaction},
		"not accepted":                 {fakeNode{err: fmt.Errorf("x: %w", node.ErrPendingTransaction)}, l1message.CodeProcessing},
		"reverted":                     {fakeNode{err: fmt.Errorf("x: %w", node.ErrReverted)}, CodeReverted},
		"pruned":                       {fakeNode{err: fmt.Errorf("x: %w", node.ErrPruned)}, aggregator.CodeNodeUnavailable},
		"no node":                      {fakeNode{err: fmt.Errorf("x: %w", node.ErrUnavailable)}, aggregator.CodeNodeUnavailable},
		"nonsense":                     {fakeNode{err: fmt.Errorf("x: %w", node.ErrMalformed)}, aggregator.CodeNodeFaulty},
		"refused":                      {fakeNode{err: &node.RPCError{Code: -32000, Message: "no"}}, aggregator.CodeNodeFaulty},
	} {
		t.Run(name, func(t *testing.T) {
			sent, err := Chain{NetworkID: 5, BlockchainID: chain, Node: test.node}.Sent(t.Context(), ids.ID{7})
			if test.code != "" {
				var failed *aggregator.Error
				require.True(t, errors.As(err, &failed), "%v", err)
				require.Equal(t, test.code, failed.Code, failed.Message)
				require.Empty(t, sent)
				return
			}
			require.NoError(t, err)
			require.Len(t, sent, 2)
			for i, s := range sent {
				require.Equal(t, good[i].Index, s.LogIndex)
				require.Equal(t, good[i].Message, s.Message.Bytes())
			}
		})
	}
}
