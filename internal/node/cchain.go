package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// CChainBlock is what of a C-Chain block concerns the other chains.
type CChainBlock struct {
	Height           uint64
	Hash, ParentHash [ids.IDLen]byte
	// Time is to the second.
	Time time.Time
	// ExtraData has the block's atomic transactions; empty if there are none.
	ExtraData []byte
}

// CChainBlock is an accepted C-Chain block by its height. Errors are those of Call,
// ErrBeyondTip, or ErrPruned.
func (c *Client) CChainBlock(ctx context.Context, height uint64) (CChainBlock, error) {
	const method = "eth_getBlockByNumber"
	var reply struct {
		Number, Hash, ParentHash, Timestamp, BlockExtraData string
	}
	var raw json.RawMessage
	params := []any{"0x" + strconv.FormatUint(height, 16), false}
	if err := c.Call(ctx, CChainRPC, method, params, &raw); err != nil {
		if errors.Is(err, ErrMalformed) {
			// It may have been null. The height comes first: see EVM.Blocks.
			calls := []invocation{{heightMethod, []any{}}, {method, params}}
			if _, why := c.batch(ctx, CChainRPC, calls, func(answers []outcome) error { return elsewhere(height, calls, answers) }); errors.Is(why, ErrPruned) {
				return CChainBlock{}, why
			}
		}
		return CChainBlock{}, beyondTip(err, "cannot query unfinalized data")
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
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
