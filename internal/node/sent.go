package node

import (
	"context"
	"errors"
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
