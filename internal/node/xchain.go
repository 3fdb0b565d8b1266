package node

import (
	"context"
	"fmt"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"
)

// Index names an index of what consensus accepted that a node keeps (avalanchego indexer).
type Index string

// Indexes of a node of the primary network.
const (
	PChainBlocks Index = "P/block"
	XChainBlocks Index = "X/block"
	CChainBlocks Index = "C/block"
)

func (i Index) path() string { return "/ext/index/" + string(i) }

// Containers returns up to n containers of an index, in its order, beginning at index
// start. It returns at least one, and fewer than n if there are no more or the node limits
// them. n is 1 to MaxBlockRange. Blocks are in their proposer envelopes; the block of
// height h has index h-1.
//
// Errors are those of Call, including an *RPCError that is NotOffered if the node has no
// index, and ErrBeyondTip.
func (c *Client) Containers(ctx context.Context, index Index, start uint64, n int) ([]Container, error) {
	return containers(ctx, c.Call, index, start, n)
}

// caller is Client.Call, or the same for one endpoint.
type caller func(ctx context.Context, path, method string, args, reply any) error

func containers(ctx context.Context, call caller, index Index, start uint64, n int) ([]Container, error) {
	const method = "index.getContainerRange"
	var reply containerRange
	if err := call(ctx, index.path(), method, indexer.GetContainerRangeArgs{
		StartIndex: avajson.Uint64(start), NumToFetch: avajson.Uint64(n), Encoding: formatting.Hex,
	}, &reply); err != nil {
		return nil, beyondTip(beyondTip(err, "start index", "last accepted index"), noContainers)
	}
	found, err := reply.containers(method)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || len(found) > n {
		return nil, fmt.Errorf("%s: %w: asked for 1 to %d containers, got %d", method, ErrMalformed, n, len(found))
	}
	for i := range found {
		if want := start + uint64(i); found[i].Index != want {
			return nil, fmt.Errorf("%s: %w: container %d, want %d", method, ErrMalformed, found[i].Index, want)
		}
	}
	return found, nil
}

// LastContainer returns the last container of an index. Errors are those of Containers.
func (c *Client) LastContainer(ctx context.Context, index Index) (Container, error) {
	return lastContainer(ctx, c.Call, index)
}

func lastContainer(ctx context.Context, call caller, index Index) (Container, error) {
	const method = "index.getLastAccepted"
	var reply indexer.FormattedContainer
	if err := call(ctx, index.path(), method, indexer.GetLastAcceptedArgs{Encoding: formatting.Hex}, &reply); err != nil {
		return Container{}, beyondTip(err, noContainers)
	}
	return decodeContainer(method, &reply)
}

// XChainHeight returns the height of the last accepted X-Chain block.
func (c *Client) XChainHeight(ctx context.Context) (uint64, error) {
	var reply api.GetHeightResponse
	err := c.Call(ctx, xChainPath, "avm.getHeight", none{}, &reply)
	return uint64(reply.Height), err
}

// XChainBlock returns the bytes of an accepted X-Chain block without its proposer envelope.
// Errors are those of Call and ErrBeyondTip.
func (c *Client) XChainBlock(ctx context.Context, height uint64) ([]byte, error) {
	return c.blockByHeight(ctx, xChainPath, "avm.getBlockByHeight", height)
}
