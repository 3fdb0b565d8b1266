package evm

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/ava-labs/libevm/common"
	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/node"
)

var hashShape = regexp.MustCompile("^0[xX][0-9a-fA-F]{64}$")

// readHash parses a hash in the path.
func readHash(c echo.Context, name string) (common.Hash, error) {
	text := c.Param(name)
	if !hashShape.MatchString(text) {
		return common.Hash{}, apierr.BadRequest("%s: %q is no hash; give 0x and 64 hexadecimal digits", name, apierr.Excerpt(text))
	}
	return common.HexToHash(text[2:]), nil
}

func (a *API) getTransaction(ctx context.Context, r operation.Request, of *Chain) error {
	hash, err := readHash(r, "txHash")
	if err != nil {
		return err
	}
	found, whole, err := of.Index.Details(ctx, hash)
	if err != nil {
		return err
	}
	if found == nil {
		p, err := current(r, of, nil)
		if err != nil {
			return err
		}
		return apierr.NotFound("txHash: blocks %d to %d, which this instance indexes, have no transaction %s", p.From, p.Height, hash)
	}
	if _, err := current(r, of, &found.Transaction.Block.Number); err != nil {
		return err
	}
	if !whole {
		var covered bool
		if found, covered, err = fetchDetails(ctx, of, &found.Transaction); err != nil {
			return fmt.Errorf("asking for transaction %s: %w", hash, err)
		}
		if !covered {
			reply.Unproven(r.Response().Header())
		}
	}
	return a.showDetails(ctx, r, of, found)
}

// fetchDetails returns an indexed transaction with its effects from the chain's node. It verifies that the node returns
// the indexed block. covered reports whether the roots in the block's header cover the transaction and its logs; since
// Helicon they do not cover logs. The internal transactions are unknown if the node does not trace the block.
func fetchDetails(ctx context.Context, of *Chain, tx *evm.Transaction) (d *evm.TransactionDetails, covered bool, err error) {
	block, err := fetchBlock(ctx, of.Node, &tx.Block, true)
	if errors.Is(err, node.ErrNoTraces) || errors.Is(err, node.ErrTraceRefused) || errors.Is(err, chain.ErrInconsistent) {
		block, err = fetchBlock(ctx, of.Node, &tx.Block, false)
	}
	if err != nil {
		return nil, false, err
	}
	if int(tx.Index) >= len(block.Transactions) || block.Transactions[tx.Index].Hash != tx.Hash || block.Transactions[tx.Index].From != tx.From {
		return nil, false, fmt.Errorf("%w: block %d has no transaction %s at index %d from its sender", chain.ErrInconsistent, tx.Block.Number, tx.Hash, tx.Index)
	}
	return evm.DetailsOf(block, int(tx.Index)), !block.Unhashed && !block.Unchecked && block.Settled == nil, nil
}

// fetchBlock returns an indexed block from a node.
func fetchBlock(ctx context.Context, n Node, ref *evm.BlockRef, traces bool) (*chain.Block, error) {
	blocks, err := n.Blocks(ctx, ref.Number, 1, traces)
	if err != nil {
		return nil, err
	}
	b := &blocks[0]
	block, err := chain.Decode(chain.Answers{Block: b.Block, Receipts: b.Receipts, Traces: b.Traces, Confirmed: &ref.Hash})
	if err != nil {
		return nil, err
	}
	if block.Hash != ref.Hash {
		return nil, fmt.Errorf("%w: block %d is %s, and %s is indexed", chain.ErrInconsistent, ref.Number, block.Hash, ref.Hash)
	}
	return block, nil
}
