package evm

import (
	"context"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/operation"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
)

type listedERC20 struct {
	block
	TxHash common.Hash `json:"txHash"`
	erc20Transfer
}

type listedERC721 struct {
	block
	TxHash common.Hash `json:"txHash"`
	erc721Transfer
}

// interaction is a transaction with its effects on an address. Lists without items are empty.
type interaction struct {
	Native nativeTransaction `json:"nativeTransaction"`
	transfers
	Internals []internalTransaction `json:"internalTransactions"`
}

// showFirst states the first block that a list covers, if the index of the chain begins earlier.
func showFirst(c echo.Context, of *Chain, first uint64) {
	if first > of.Progress(c.Request().Context()).From {
		c.Response().Header().Set("Indexed-From", strconv.FormatUint(first, 10))
	}
}

func (a *API) listNative(ctx context.Context, r operation.Request, of *Chain) error {
	want, p, err := a.readWallet(r, of, "native transactions")
	if err != nil {
		return err
	}
	found, err := of.Index.NativeTransactions(ctx, want)
	if err != nil {
		return err
	}
	showFirst(r, of, found.First)
	return a.showTransactions(ctx, r, of, p, found)
}

// listTokenTransfers returns the handler of the list of ERC-20 or ERC-721 transfers.
func (a *API) listTokenTransfers(standard chain.Standard) func(ctx context.Context, r operation.Request, of *Chain) error {
	return func(ctx context.Context, r operation.Request, of *Chain) error {
		want, p, err := a.readWallet(r, of, "token transfers "+strconv.Itoa(int(standard)))
		if err != nil {
			return err
		}
		found, err := of.Index.TokenTransfers(ctx, standard, want)
		if err != nil {
			return err
		}
		shown, err := a.shownTransfers(ctx, r, of, standard, found)
		if err != nil {
			return err
		}
		return reply.JSON(r, page{Next: p.Token(found.Next), Transactions: shown})
	}
}

// listContractTransfers lists the transfers of a token.
func (a *API) listContractTransfers(ctx context.Context, r operation.Request, of *Chain) error {
	want, p, err := a.readWallet(r, of, "transfers of a token")
	if err != nil {
		return err
	}
	found, err := of.Index.ContractTransfers(ctx, want)
	if err != nil {
		return err
	}
	standard := chain.Unknown
	if len(found.Transfers) > 0 {
		standard = found.Transfers[0].Standard
	}
	shown, err := a.shownTransfers(ctx, r, of, standard, found)
	if err != nil {
		return err
	}
	return reply.JSON(r, page{Next: p.Token(found.Next), Transfers: shown})
}

// shownTransfers returns transfers, all of one standard, as lists show them.
func (a *API) shownTransfers(ctx context.Context, r operation.Request, of *Chain, standard chain.Standard, found *evm.TransferPage) (any, error) {
	showFirst(r, of, found.First)
	parties := make([]common.Address, 0, 3*len(found.Transfers))
	for i := range found.Transfers {
		t := &found.Transfers[i].Transfer
		parties = append(parties, t.From, t.To, t.Contract)
	}
	d, err := a.directory(ctx, of, parties)
	if err != nil {
		return nil, err
	}
	transfers, details, err := a.believed(ctx, d, found.Transfers)
	if err != nil {
		return nil, err
	}
	switch standard {
	case chain.ERC721:
		return listOf(len(transfers), func(i int, x *listedERC721) {
			t := &transfers[i]
			*x = listedERC721{shownBlock(&t.Block), t.TxHash, d.erc721Transfer(&t.Transfer, details[i])}
		}), nil
	case chain.ERC1155:
		return listOf(len(transfers), func(i int, x *listedTransfer) {
			t := &transfers[i]
			*x = listedTransfer{shownBlock(&t.Block), t.TxHash, d.erc1155Transfer(&t.Transfer, details[i])}
		}), nil
	default:
		return listOf(len(transfers), func(i int, x *listedERC20) {
			t := &transfers[i]
			*x = listedERC20{shownBlock(&t.Block), t.TxHash, d.erc20Transfer(&t.Transfer)}
		}), nil
	}
}

func (a *API) listInteractions(ctx context.Context, r operation.Request, of *Chain) error {
	order := r.Query.OneOf(sortOrder.Name)
	want, p, err := a.readWallet(r, of, "transactions "+order)
	if err != nil {
		return err
	}
	found, err := of.Index.Interactions(ctx, evm.InteractionQuery{WalletQuery: want, Oldest: order == "asc"})
	if err != nil {
		return err
	}
	showFirst(r, of, found.First)
	var parties []common.Address
	var all []evm.TokenTransfer
	for i := range found.Transactions {
		tx := &found.Transactions[i]
		parties = append(parties, tx.Transaction.From, tx.Transaction.Recipient)
		for j := range tx.Transfers {
			t := &tx.Transfers[j]
			parties = append(parties, t.From, t.To, t.Contract)
		}
		for j := range tx.Internals {
			parties = append(parties, tx.Internals[j].From, tx.Internals[j].To)
		}
		all = append(all, tx.Transfers...)
	}
	d, err := a.directory(ctx, of, parties)
	if err != nil {
		return err
	}
	shown, details, err := a.believed(ctx, d, all)
	if err != nil {
		return err
	}
	list := listOf(len(found.Transactions), func(i int, x *interaction) {
		tx := &found.Transactions[i]
		x.transfers, x.Internals = noTransfers(), make([]internalTransaction, 0, len(tx.Internals))
		a.transaction(d, &tx.Transaction, &x.Native)
		for len(shown) > 0 && shown[0].TxHash == tx.Transaction.Hash {
			d.sort(&shown[0].Transfer, details[0], &x.transfers)
			shown, details = shown[1:], details[1:]
		}
		for j := range tx.Internals {
			x.Internals = append(x.Internals, d.internal(&tx.Internals[j].Frame))
		}
	})
	return reply.JSON(r, page{Next: p.Token(found.Next), Missing: (*blockSpan)(found.TracesMissing), Transactions: list})
}
