package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/hashing"
)

// ErrBeyondTip reports that the node has not accepted that many blocks yet.
var ErrBeyondTip = errors.New("beyond the node's last accepted block")

// MaxBlockRange is the largest number of containers in one reply of the index API.
const MaxBlockRange = indexer.MaxFetchedByRange

// Container is an accepted container of consensus, for example a P-Chain block in its
// proposer envelope if it has one.
type Container struct {
	// ID is that of the envelope, not of the block inside.
	ID ids.ID
	// Index counts containers from 0. The genesis block has none, so a complete index has
	// the block of height h at index h-1.
	Index uint64
	Bytes []byte
	// Digest is the SHA-256 of Bytes; zero if unknown.
	Digest ids.ID
	// Accepted is when this node accepted it. It differs from node to node.
	Accepted time.Time
}

// BlockByHeight returns the bytes of an accepted P-Chain block without its proposer
// envelope. Height 0 is the genesis block. Errors are those of Call and ErrBeyondTip.
func (c *Client) BlockByHeight(ctx context.Context, height uint64) ([]byte, error) {
	return c.blockByHeight(ctx, platformPath, "platform.getBlockByHeight", height)
}

// BlockRange is Containers for P-Chain blocks.
func (c *Client) BlockRange(ctx context.Context, start uint64, n int) ([]Container, error) {
	return c.Containers(ctx, PChainBlocks, start, n)
}

const noContainers = "no containers have been accepted"

// beyondTip returns ErrBeyondTip if err is a refusal with all of texts; avalanchego has no
// code for it. It returns other errors unchanged.
func beyondTip(err error, texts ...string) error {
	var refused *RPCError
	if !errors.As(err, &refused) {
		return err
	}
	for _, text := range texts {
		if !strings.Contains(refused.Message, text) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrBeyondTip, err)
}

func decodeContainer(method string, c *indexer.FormattedContainer) (Container, error) {
	b, err := decodeBytes(method, c.Encoding, c.Bytes)
	if err != nil {
		return Container{}, err
	}
	return Container{ID: c.ID, Index: uint64(c.Index), Bytes: b, Digest: hashing.ComputeHash256Array(b), Accepted: c.Timestamp.UTC()}, nil
}

// decodeBytes decodes text in the encoding that the node reports.
func decodeBytes(method string, encoding formatting.Encoding, text string) ([]byte, error) {
	b, err := formatting.Decode(encoding, text)
	if err == nil && len(b) == 0 {
		err = errors.New("no bytes")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", method, ErrMalformed, err)
	}
	return b, nil
}
