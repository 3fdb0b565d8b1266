package evm

import (
	"context"
	"errors"
	"strconv"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	paging "quorate/handlers/query/page"
	"quorate/handlers/reply"
	"quorate/internal/index/evm"
)

type wholeBlock struct {
	block
	MinDelayExcess *uint64     `json:"blockMinDelayExcess,omitempty"`
	ChainID        number      `json:"chainId"`
	TxCount        uint64      `json:"txCount"`
	BaseFee        amount      `json:"baseFee"`
	GasUsed        number      `json:"gasUsed"`
	GasLimit       number      `json:"gasLimit"`
	GasCost        amount      `json:"gasCost"`
	ParentHash     common.Hash `json:"parentHash"`
	FeesSpent      amount      `json:"feesSpent"`
	Cumulative     number      `json:"cumulativeTransactions"`
}

func shownWholeBlock(of *Chain, b *evm.Block) wholeBlock {
	x := wholeBlock{
		block: shownBlock(&b.BlockRef), MinDelayExcess: b.MinDelayExcess, ChainID: number(of.ChainID), TxCount: b.Transactions,
		GasUsed: number(b.GasUsed), GasLimit: number(b.GasLimit), GasCost: amount(b.GasCost), ParentHash: b.ParentHash,
		FeesSpent: amount(b.Fees), Cumulative: number(b.Cumulative),
	}
	if b.BaseFee != nil {
		x.BaseFee = amount(*b.BaseFee)
	}
	return x
}

func (a *API) listBlocks(ctx context.Context, r operation.Request, of *Chain) error {
	q := r.Query
	p := q.Page(paging.List{Key: a.key, Operation: "blocks", Filters: []string{of.name}})
	if err := q.Err(); err != nil {
		return err
	}
	if _, err := current(r, of, nil); err != nil {
		return err
	}
	found, err := of.Index.Blocks(ctx, evm.BlockQuery{Limit: p.Size, After: p.After})
	if err != nil {
		return err
	}
	return reply.JSON(r, page{
		Next:   p.Token(found.Next),
		Blocks: listOf(len(found.Blocks), func(i int, x *wholeBlock) { *x = shownWholeBlock(of, &found.Blocks[i]) }),
	})
}

func (a *API) getBlock(ctx context.Context, r operation.Request, of *Chain) error {
	found, err := blockInPath(ctx, r, of)
	if err != nil {
		return err
	}
	return reply.JSON(r, shownWholeBlock(of, found))
}

// blockInPath returns the block whose number or hash is in the path. The index finds blocks by number; the chain's node
// returns the number of a hash, and the index has to have that hash there.
func blockInPath(ctx context.Context, r operation.Request, of *Chain) (*evm.Block, error) {
	text := r.Param(blockIDParameter.Name)
	unknown := apierr.NotFound("%s: this chain has no block %s", blockIDParameter.Name, apierr.Excerpt(text))
	n, err := strconv.ParseUint(text, 10, 64)
	byHash := err != nil
	var hash common.Hash
	if byHash {
		if hash, err = readHash(r, blockIDParameter.Name); err != nil {
			return nil, apierr.BadRequest("%s: %q is no block; give its number, or its hash with 0x and 64 hexadecimal digits", blockIDParameter.Name, apierr.Excerpt(text))
		}
		var ok bool
		if n, ok, err = of.Node.BlockNumber(ctx, hash); err != nil {
			return nil, err
		} else if !ok {
			if _, err := current(r, of, nil); err != nil {
				return nil, err
			}
			return nil, unknown
		}
	}
	progress, err := current(r, of, &n)
	if err != nil {
		return nil, err
	}
	found, err := of.Index.Block(ctx, n)
	switch {
	case errors.Is(err, evm.ErrBeyondTip) && n > progress.Height, err == nil && byHash && found.Hash != hash:
		return nil, unknown
	case errors.Is(err, evm.ErrBeyondTip):
		return nil, beyondTipError(err, progress, &n)
	case errors.Is(err, evm.ErrBeforeFirst):
		e := apierr.Unavailable(err, "%s: the index of this chain begins with a later block (header Indexed-From), as the node of this instance lacks earlier ones; ask another instance", blockIDParameter.Name)
		e.Code = codeBeginsLater
		return nil, e
	}
	return found, err
}

func (a *API) listBlockTransactions(ctx context.Context, r operation.Request, of *Chain) error {
	in, err := blockInPath(ctx, r, of)
	if err != nil {
		return err
	}
	p := r.Query.Page(paging.List{Key: a.key, Operation: "transactions of a block", Filters: []string{of.name, in.Hash.Hex()}})
	if err := r.Query.Err(); err != nil {
		return err
	}
	if p.Size == 0 {
		p.Size = mostPerBlock
	}
	return a.sendTransactions(ctx, r, of, p, evm.LatestQuery{Block: &in.Number})
}
