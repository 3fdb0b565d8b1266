package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// CChainBlock is the part of a C-Chain block that concerns other chains.
type CChainBlock struct {
	Height           uint64
	Hash, ParentHash [ids.IDLen]byte
	// Time has a precision of one second.
	Time time.Time
	// ExtraData has the block's atomic transactions; empty if there are none.
	ExtraData []byte
}

// noBlock explains that endpoint e answered null for the block at height of the EVM chain at
// path: a node says so of blocks it has not accepted yet (avalanchego vms/saevm/blocks,
// ErrFutureBlockNotResolved) and of those it lacks. Errors are ErrBeyondTip, ErrPruned, or
// those of ask.
func (c *Client) noBlock(ctx context.Context, e *endpoint, path string, height uint64) error {
	const method = "eth_blockNumber"
	var text string
	if err := c.ask(ctx, e, path, method, []any{}, &text); err != nil {
		return err
	}
	tip, err := quantity(method, text)
	switch {
	case err != nil:
		return err
	case tip < height:
		return fmt.Errorf("%s: %w", e.name, ErrBeyondTip)
	default:
		return fmt.Errorf("%s: block %d is %w (its last block is %d)", e.name, height, ErrPruned, tip)
	}
}

// CChainBlock returns the accepted C-Chain block at height. Errors are those of Call,
// ErrBeyondTip, or ErrPruned.
func (c *Client) CChainBlock(ctx context.Context, height uint64) (CChainBlock, error) {
	const method = "eth_getBlockByNumber"
	var reply struct {
		Number, Hash, ParentHash, Timestamp, BlockExtraData string
	}
	var raw nullable
	if err := c.try(ctx, CChainRPC, method, func(ctx context.Context, e *endpoint) error {
		raw = nullable{}
		err := c.ask(ctx, e, CChainRPC, method, []any{hexNumber(height), false}, &raw)
		if err != nil || raw.RawMessage != nil {
			return err
		}
		return c.noBlock(ctx, e, CChainRPC, height)
	}); err != nil {
		return CChainBlock{}, beyondTip(err, "cannot query unfinalized data")
	}
	if err := json.Unmarshal(raw.RawMessage, &reply); err != nil {
		return CChainBlock{}, fmt.Errorf("%s: %w: %w", method, ErrMalformed, err)
	}
	var b CChainBlock
	var err error
	if b.Height, err = quantity(method, reply.Number); err != nil {
		return CChainBlock{}, err
	}
	if b.Height != height {
		return CChainBlock{}, fmt.Errorf("%s: %w: block %d, want %d", method, ErrMalformed, b.Height, height)
	}
	seconds, err := quantity(method, reply.Timestamp)
	if err != nil {
		return CChainBlock{}, err
	}
	b.Time = time.Unix(int64(seconds), 0).UTC()
	if b.Time.Unix() < 0 {
		return CChainBlock{}, fmt.Errorf("%s: %w: time %d", method, ErrMalformed, seconds)
	}
	for _, hash := range []struct {
		text string
		to   *[ids.IDLen]byte
	}{{reply.Hash, &b.Hash}, {reply.ParentHash, &b.ParentHash}} {
		data, err := hexData(method, hash.text)
		if err != nil {
			return CChainBlock{}, err
		}
		if len(data) != ids.IDLen {
			return CChainBlock{}, fmt.Errorf("%s: %w: a hash of %d bytes", method, ErrMalformed, len(data))
		}
		copy(hash.to[:], data)
	}
	if b.ExtraData, err = hexData(method, reply.BlockExtraData); err != nil {
		return CChainBlock{}, err
	}
	return b, nil
}
