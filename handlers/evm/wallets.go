package evm

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/operation"
	"quorate/handlers/query"
	paging "quorate/handlers/query/page"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
)

type internalTransaction struct {
	From     *addressParty `json:"from"`
	To       *addressParty `json:"to"`
	Type     string        `json:"internalTxType"`
	Value    amount        `json:"value"`
	Reverted bool          `json:"isReverted"`
	GasUsed  number        `json:"gasUsed"`
	GasLimit number        `json:"gasLimit"`
}

type listedInternal struct {
	block
	TxHash common.Hash `json:"txHash"`
	internalTransaction
}

func (d *directory) internal(f *chain.Frame) internalTransaction {
	shown := internalTransaction{
		From: d.party(f.From), To: d.party(f.To), Type: f.Type.String(), Value: amount(f.Value),
		Reverted: f.Reverted, GasUsed: number(f.GasUsed), GasLimit: number(f.Gas),
	}
	if f.Type == chain.FrameSelfDestruct { // the API has no name for it
		shown.Type = chain.FrameUnknown.String()
	}
	return shown
}

// readWallet parses the parameters that lists of a wallet share. It fails if the index does not have all of their blocks yet.
func (a *API) readWallet(r operation.Request, of *Chain, operation string) (want evm.WalletQuery, p query.Page, err error) {
	if want.Wallet, err = address(r); err != nil {
		return want, p, err
	}
	q := r.Query
	want.Start, want.End = q.Optional("startBlock"), q.Optional("endBlock")
	filters := []string{of.name, want.Wallet.Hex()}
	for _, bound := range []*uint64{want.Start, want.End} {
		text := ""
		if bound != nil {
			text = fmt.Sprint(*bound)
		}
		filters = append(filters, text)
	}
	if want.Start != nil && want.End != nil && *want.Start > *want.End {
		q.Fail("startBlock", "%d is after endBlock, which is %d; blocks from startBlock on and before endBlock are listed", *want.Start, *want.End)
	}
	p = q.Page(paging.List{Key: a.key, Operation: operation, Filters: filters})
	want.Limit, want.After = p.Size, p.After
	if err := q.Err(); err != nil {
		return want, p, err
	}
	var last *uint64
	if end := want.End; end != nil && *end > 0 && (want.Start == nil || *want.Start < *end) {
		before := *end - 1
		last = &before
	}
	_, err = current(r, of, last)
	return want, p, err
}

func (a *API) listInternals(ctx context.Context, r operation.Request, of *Chain) error {
	want, p, err := a.readWallet(r, of, "internal transactions")
	if err != nil {
		return err
	}
	found, err := of.Index.Internals(ctx, want)
	if err != nil {
		return err
	}
	parties := make([]common.Address, 0, 2*len(found.Internals))
	for i := range found.Internals {
		parties = append(parties, found.Internals[i].From, found.Internals[i].To)
	}
	d, err := a.directory(ctx, of, parties)
	if err != nil {
		return err
	}
	list := listOf(len(found.Internals), func(i int, x *listedInternal) {
		internal := &found.Internals[i]
		*x = listedInternal{shownBlock(&internal.Block), internal.TxHash, d.internal(&internal.Frame)}
	})
	return reply.JSON(r, page{Next: p.Token(found.Next), Missing: (*blockSpan)(found.TracesMissing), Transactions: list})
}

type erc1155Transfer struct {
	From     *addressParty `json:"from"`
	To       *addressParty `json:"to"`
	LogIndex uint32        `json:"logIndex"`
	Value    amount        `json:"value"`
	Token    erc1155Token  `json:"erc1155Token"`
}

type listedTransfer struct {
	block
	TxHash common.Hash `json:"txHash"`
	erc1155Transfer
}

func (d *directory) erc1155Transfer(t *chain.Transfer, details *nftDetails) erc1155Transfer {
	return erc1155Transfer{From: d.party(t.From), To: d.party(t.To), LogIndex: t.LogIndex, Value: amount(t.Amount), Token: d.erc1155(moved(t), details)}
}

// moved returns the token that a transfer moves.
func moved(t *chain.Transfer) nft {
	return nft{standard: t.Standard, contract: t.Contract, id: t.TokenID}
}

func (a *API) listTransfers(ctx context.Context, r operation.Request, of *Chain) error {
	want, p, err := a.readWallet(r, of, "ERC-1155 transfers")
	if err != nil {
		return err
	}
	found, err := of.Index.Transfers(ctx, want)
	if err != nil {
		return err
	}
	parties := make([]common.Address, 0, 2*len(found.Transfers))
	tokens := make([]nft, 0, len(found.Transfers))
	for i := range found.Transfers {
		t := &found.Transfers[i].Transfer
		parties = append(parties, t.From, t.To)
		tokens = append(tokens, moved(t))
	}
	d, err := a.directory(ctx, of, parties)
	if err != nil {
		return err
	}
	details, err := a.details(ctx, of, tokens)
	if err != nil {
		return err
	}
	list := listOf(len(found.Transfers), func(i int, x *listedTransfer) {
		t := &found.Transfers[i]
		*x = listedTransfer{shownBlock(&t.Block), t.TxHash, d.erc1155Transfer(&t.Transfer, details[i])}
	})
	return reply.JSON(r, page{Next: p.Token(found.Next), Transactions: list})
}

type nativeBalance struct {
	Name     string `json:"name"`
	Symbol   string `json:"symbol"`
	Decimals uint8  `json:"decimals"`
	LogoURI  string `json:"logoUri,omitempty"`
	ChainID  string `json:"chainId"`
	Balance  string `json:"balance"`
}

type erc1155Balance struct {
	erc1155Token
	ChainID number `json:"chainId"`
	Balance amount `json:"balance"`
}

// balanceOf is the cache key of a native balance.
type balanceOf struct {
	wallet common.Address
	after  common.Hash // hash of a final block
}

// native returns an amount of the chain's native token in the API's format.
func (c *Chain) native(balance *uint256.Int) *nativeBalance {
	t := &c.NativeToken
	return &nativeBalance{Name: t.Name, Symbol: t.Symbol, Decimals: t.Decimals, LogoURI: t.LogoURI, ChainID: decimal(c.ChainID), Balance: balance.Dec()}
}

// balanceRoom is the number of cached native balances, about 150 bytes each.
const balanceRoom = 1 << 13

// nativeBalance returns the native balance of a wallet after a block, from the cache or the chain's node.
func (a *API) nativeBalance(ctx context.Context, of *Chain, wallet common.Address, after *evm.BlockRef) (*uint256.Int, error) {
	key := balanceOf{wallet, after.Hash}
	if balance, ok := a.balances.Get(key); ok {
		return &balance, nil
	}
	balance, err := nativeAt(ctx, of, wallet, after.Number)
	if err == nil {
		a.balances.Set(key, *balance)
	}
	return balance, err
}

// sealSize is the size of a sealed balance's seal, in bytes.
const sealSize = 16

// seal returns the seal of a balance and a position in a list, which its filters identify.
func (a *API) seal(list paging.List, b []byte) []byte {
	mac := hmac.New(sha256.New, a.key)
	for _, part := range append([]string{list.Operation}, list.Filters...) {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	mac.Write(b)
	return mac.Sum(nil)[:sealSize]
}

// joinBalances puts the native balance before the position of a page, because the node may have dropped the block's
// state when a later page needs it. The seal keeps clients from changing the balance.
func (a *API) joinBalances(list paging.List, native *uint256.Int, position []byte) []byte {
	number := native.Bytes32()
	b := append(number[:], position...)
	return append(b, a.seal(list, b)...)
}

// splitBalances parses the result of joinBalances. It returns nothing for the first page.
func (a *API) splitBalances(list paging.List, b []byte) (native *uint256.Int, position []byte, err error) {
	const size = 32
	switch {
	case b == nil:
		return nil, nil, nil
	case len(b) <= size+sealSize:
		return nil, nil, fmt.Errorf("%w: %d bytes", index.ErrPosition, len(b))
	}
	b, seal := b[:len(b)-sealSize], b[len(b)-sealSize:]
	if !hmac.Equal(seal, a.seal(list, b)) {
		return nil, nil, fmt.Errorf("%w: its seal is wrong", index.ErrPosition)
	}
	return new(uint256.Int).SetBytes(b[:size]), b[size:], nil
}

func (a *API) listBalances(ctx context.Context, r operation.Request, of *Chain) error {
	wallet, err := address(r)
	if err != nil {
		return err
	}
	q := r.Query
	want := evm.BalanceQuery{Wallet: wallet, At: q.Optional("blockNumber"), Contract: readAddress(q, "contractAddress")}
	filters := []string{of.name, wallet.Hex(), "", ""}
	if want.At != nil {
		filters[2] = fmt.Sprint(*want.At)
	}
	if want.Contract != nil {
		filters[3] = want.Contract.Hex()
	}
	list := paging.List{Key: a.key, Operation: "ERC-1155 balances", Filters: filters}
	p := q.Page(list)
	if err := q.Err(); err != nil {
		return err
	}
	progress, err := current(r, of, want.At)
	if err != nil {
		return err
	}
	want.Limit = p.Size
	native, after, err := a.splitBalances(list, p.After)
	if err != nil {
		return err
	}
	want.After = after
	found, err := of.Index.Balances(ctx, want)
	if err != nil {
		return beyondTipError(err, progress, want.At)
	}
	if found.First > 0 {
		return balancesUnknown(found.First)
	}
	if native == nil {
		if native, err = a.nativeBalance(ctx, of, wallet, &found.At); err != nil {
			return err
		}
	}
	tokens := make([]nft, 0, len(found.Balances))
	for _, b := range found.Balances {
		tokens = append(tokens, nft{standard: chain.ERC1155, contract: b.Contract, id: b.TokenID})
	}
	details, err := a.details(ctx, of, tokens)
	if err != nil {
		return err
	}
	shown := a.newDirectory(of)
	next := ""
	if found.Next != nil {
		next = p.Token(a.joinBalances(list, native, found.Next))
	}
	balances := listOf(len(tokens), func(i int, x *erc1155Balance) {
		*x = erc1155Balance{
			erc1155Token: shown.erc1155(tokens[i], details[i]),
			ChainID:      number(of.ChainID), Balance: amount(found.Balances[i].Amount),
		}
	})
	return reply.JSON(r, page{Next: next, Native: of.native(native), ERC1155: balances})
}
