package evm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	paging "quorate/handlers/query/page"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/node"
)

// Sources of ERC-20 balances.
const (
	sourceContract  = "contract"
	sourceTransfers = "transfers"
)

type erc20Balance struct {
	erc20Token
	ChainID number `json:"chainId"`
	Balance amount `json:"balance"`
	// Source is sourceContract if the contract reported the balance.
	Source string `json:"balanceSource"`
	// TransferSum is what the transfers add up to, if the contract reported something else.
	TransferSum string `json:"transferSum,omitempty"`
	Reputation  *int   `json:"tokenReputation"` // always null
}

type erc721Balance struct {
	erc721Token
	ChainID number `json:"chainId"`
}

// nativeAt returns the native balance of a wallet after a block of the chain, from its node.
func nativeAt(ctx context.Context, of *Chain, wallet common.Address, number uint64) (*uint256.Int, error) {
	balance, err := of.Node.NativeBalance(ctx, wallet, number)
	if err != nil {
		return nil, fmt.Errorf("asking for the balance of %s after block %d: %w", wallet, number, err)
	}
	return balance, nil
}

func (a *API) getNativeBalance(ctx context.Context, r operation.Request, of *Chain) error {
	wallet, err := address(r)
	if err != nil {
		return err
	}
	q := r.Query
	at := q.Optional("blockNumber")
	q.OneOf("currency")
	if err := q.Err(); err != nil {
		return err
	}
	progress, err := current(r, of, at)
	switch {
	case err != nil:
		return err
	case at == nil:
		at = &progress.Height
	case *at > progress.Height:
		return fmt.Errorf("%w: %d", evm.ErrBeyondTip, *at)
	}
	balance, err := nativeAt(ctx, of, wallet, *at)
	if err != nil {
		return err
	}
	return reply.JSON(r, page{Native: of.native(balance)})
}

// balanceRequest is a request for a page of balances.
type balanceRequest struct {
	wallet    common.Address
	at        *uint64
	contracts []common.Address
	list      paging.List
	page      query.Page
	progress  reply.Progress
	// native is the native balance of the first page, nil for the first page. after is the position of a later page.
	native *uint256.Int
	after  []byte
}

// readBalances parses the parameters that lists of balances with the native balance share.
func (a *API) readBalances(r operation.Request, of *Chain, operation string, contracts []common.Address, at *uint64) (b balanceRequest, err error) {
	if b, err = a.readTokens(r, of, operation, contracts, at); err == nil {
		b.native, b.after, err = a.splitBalances(b.list, b.page.After)
	}
	return b, err
}

// readTokens parses the parameters that lists of balances share.
func (a *API) readTokens(r operation.Request, of *Chain, operation string, contracts []common.Address, at *uint64) (b balanceRequest, err error) {
	b = balanceRequest{at: at, contracts: contracts}
	if b.wallet, err = address(r); err != nil {
		return b, err
	}
	filters := []string{of.name, b.wallet.Hex(), ""}
	if at != nil {
		filters[2] = fmt.Sprint(*at)
	}
	for _, contract := range contracts {
		filters = append(filters, contract.Hex())
	}
	b.list = paging.List{Key: a.key, Operation: operation, Filters: filters}
	b.page = r.Query.Page(b.list)
	if err := r.Query.Err(); err != nil {
		return b, err
	}
	b.after = b.page.After
	b.progress, err = current(r, of, at)
	return b, err
}

// nextBalances returns the token of the next page, empty if there is none.
func (a *API) nextBalances(b *balanceRequest, position []byte) string {
	if position == nil {
		return ""
	}
	return b.page.Token(a.joinBalances(b.list, b.native, position))
}

// readAddresses parses a list of addresses.
func readAddresses(q *query.Values, key string) (all []common.Address) {
	for _, text := range q.List(key) {
		if !addressShape.MatchString(text) {
			q.Fail(key, "%q is no address; give 0x and 40 hexadecimal digits", apierr.Excerpt(text))
			return nil
		}
		all = append(all, common.HexToAddress(text[2:]))
	}
	return all
}

// maxSums is the number of tokens that one request looks at, sumsAtOnce the number that it asks the node about together.
// Tokens without a balance are left out.
const (
	maxSums    = 1000
	sumsAtOnce = 100
)

func (a *API) listERC20Balances(ctx context.Context, r operation.Request, of *Chain) error {
	q := r.Query
	contracts := readAddresses(q, "contractAddresses")
	q.Bool("filterSpamTokens")
	q.OneOf("currency")
	b, err := a.readBalances(r, of, "ERC-20 balances", contracts, q.Optional("blockNumber"))
	if err != nil {
		return err
	}
	want := evm.TokenSumQuery{Wallet: b.wallet, Contracts: b.contracts, At: b.at, After: b.after, Limit: max(b.page.Size, sumsAtOnce)}
	var found *evm.TokenSumPage
	var shown []placedBalance
	var next []byte
	for examined := 0; examined < maxSums; examined += len(found.Sums) {
		found, err = of.Index.TokenSums(ctx, want)
		if err != nil {
			return beyondTipError(err, b.progress, b.at)
		}
		if b.native == nil {
			if b.native, err = a.nativeBalance(ctx, of, b.wallet, &found.At); err != nil {
				return err
			}
		}
		some, err := a.erc20Balances(ctx, of, b.wallet, found)
		if err != nil {
			return err
		}
		next = found.Next
		if room := b.page.Size - len(shown); len(some) > room {
			some, next = some[:room], some[room-1].position
		}
		shown, want.After = append(shown, some...), next
		if next == nil || len(shown) == b.page.Size || len(found.Sums) < want.Limit {
			break // the index may end a page early
		}
	}
	showFirst(r, of, found.First)
	return reply.JSON(r, page{
		Next: a.nextBalances(&b, next), Native: of.native(b.native),
		ERC20: listOf(len(shown), func(i int, x *erc20Balance) { *x = shown[i].erc20Balance }),
	})
}

// placedBalance is a balance and the position of a page that begins after it.
type placedBalance struct {
	erc20Balance
	position []byte
}

// balanceOfGas bounds a call of balanceOf. Tokens behind proxies that compute balances use some tens of thousands.
const balanceOfGas = 1_000_000

// erc20Balances returns the balances of a page of sums that are above 0. What the contract reports counts; the sum of
// the transfers counts only if it reports nothing and the sum is possible and complete.
func (a *API) erc20Balances(ctx context.Context, of *Chain, wallet common.Address, found *evm.TokenSumPage) ([]placedBalance, error) {
	contracts := make([]common.Address, len(found.Sums))
	for i := range contracts {
		contracts[i] = found.Sums[i].Contract
	}
	d, err := a.directoryOf(ctx, of, contracts...) // all are named or emitted transfers
	if err != nil {
		return nil, err
	}
	reported, err := a.balancesOf(ctx, of, wallet, contracts, found.At.Number, found.First == 0)
	if err != nil {
		return nil, err
	}
	var shown []placedBalance
	for i := range found.Sums {
		one := &found.Sums[i]
		if d.standard(one.Contract) != chain.ERC20 {
			continue
		}
		x := erc20Balance{erc20Token: d.erc20(one.Contract), ChainID: number(of.ChainID), Source: sourceContract}
		sum, over := uint256.FromBig(one.Sum)
		possible := !over && one.Sum.Sign() >= 0
		switch balance := reported[i]; {
		case balance != nil:
			x.Balance = amount(*balance)
			if found.First == 0 && !(possible && sum.Eq(balance)) {
				x.TransferSum = one.Sum.String()
			}
		case possible && found.First == 0:
			x.Balance, x.Source = amount(*sum), sourceTransfers
		default:
			continue
		}
		if x.Balance != (amount{}) {
			shown = append(shown, placedBalance{x, one.Position})
		}
	}
	return shown, nil
}

// balancesOf returns what contracts report as the balance of a wallet after a block, nil for those that report nothing.
// If no node answers, it returns nil for all contracts if otherwise is set, which means that another source knows the
// balances, and else the error. The method is balanceOf(address).
func (a *API) balancesOf(ctx context.Context, of *Chain, wallet common.Address, contracts []common.Address, number uint64, otherwise bool) ([]*uint256.Int, error) {
	data := append([]byte{0x70, 0xa0, 0x82, 0x31}, common.LeftPadBytes(wallet[:], 32)...)
	balances := make([]*uint256.Int, len(contracts))
	for from := 0; from < len(contracts); from += node.MaxCalls {
		some := contracts[from:min(from+node.MaxCalls, len(contracts))]
		calls := make([]node.EVMCall, len(some))
		for i, contract := range some {
			calls[i] = node.EVMCall{To: contract, Data: data, Gas: balanceOfGas}
		}
		returned, err := of.Node.Calls(ctx, &number, calls)
		if err != nil {
			if ctx.Err() != nil || !otherwise || errors.Is(err, node.ErrBusy) || errors.Is(err, node.ErrNoRoom) {
				return nil, fmt.Errorf("asking contracts for the balances of %s after block %d: %w", wallet, number, err)
			}
			a.log.Warn("balances cannot be verified with their contracts", slog.Uint64("evmChainID", of.ChainID), slog.Uint64("height", number), slog.Any("error", err))
			return make([]*uint256.Int, len(contracts)), nil
		}
		for i := range returned {
			if r := &returned[i]; !r.Failed && len(r.Data) >= 32 {
				balances[from+i] = new(uint256.Int).SetBytes(r.Data[:32])
			}
		}
	}
	return balances, nil
}

// readContract parses the contract whose tokens a list has, nil for all, and returns it as a filter, too.
func readContract(q *query.Values) (contract *common.Address, filter []common.Address) {
	if contract = readAddress(q, "contractAddress"); contract != nil {
		filter = append(filter, *contract)
	}
	return contract, filter
}

func (a *API) listERC721Balances(ctx context.Context, r operation.Request, of *Chain) error {
	contract, filter := readContract(r.Query)
	b, err := a.readBalances(r, of, "ERC-721 balances", filter, nil)
	if err == nil && b.native == nil {
		b.native, err = nativeAt(ctx, of, b.wallet, b.progress.Height)
	}
	if err != nil {
		return err
	}
	found, err := of.Index.Holdings(ctx, evm.HoldingQuery{Wallet: b.wallet, Contract: contract, Limit: b.page.Size, After: b.after})
	if err != nil {
		return err
	}
	showFirst(r, of, found.First)
	all := make([]held, len(found.Tokens))
	for i := range all {
		all[i].nft = nft{standard: chain.ERC721, contract: found.Tokens[i].Contract, id: found.Tokens[i].TokenID}
	}
	shown, err := a.collectibles(ctx, of, &b, all)
	if err != nil {
		return err
	}
	return reply.JSON(r, page{Next: a.nextBalances(&b, found.Next), Native: of.native(b.native), ERC721: shown})
}

// held is a token that a wallet holds. amount is 0 for ERC-721.
type held struct {
	nft
	amount uint256.Int
}

// key returns the position of a token in a list.
func (h *held) key() []byte {
	id := h.id.Bytes32()
	return append(h.contract.Bytes(), id[:]...)
}

func (a *API) listCollectibles(ctx context.Context, r operation.Request, of *Chain) error {
	contract, filter := readContract(r.Query)
	b, err := a.readTokens(r, of, "collectibles", filter, nil)
	if err != nil {
		return err
	}
	const pinned = 8 // the number of the block of the ERC-1155 balances
	if b.after != nil && len(b.after) <= pinned {
		return fmt.Errorf("%w: %d bytes", index.ErrPosition, len(b.after))
	}
	unique := evm.HoldingQuery{Wallet: b.wallet, Contract: contract, Limit: b.page.Size}
	fungible := evm.BalanceQuery{Wallet: b.wallet, Contract: contract, Limit: b.page.Size, After: b.after}
	if b.after != nil {
		unique.After = b.after[pinned:]
	}
	tokens, err := of.Index.Holdings(ctx, unique)
	if err != nil {
		return err
	}
	balances, err := of.Index.Balances(ctx, fungible)
	switch {
	case errors.Is(err, evm.ErrBeyondTip):
		return b.progress.NotYet(err, "the requested block")
	case err != nil:
		return err
	case balances.First > 0:
		return balancesUnknown(balances.First)
	}
	showFirst(r, of, tokens.First)
	var all []held
	for t, f := tokens.Tokens, balances.Balances; len(t)+len(f) > 0; {
		var first held
		if len(t) > 0 {
			first.nft = nft{standard: chain.ERC721, contract: t[0].Contract, id: t[0].TokenID}
		}
		if len(f) > 0 {
			other := held{nft{standard: chain.ERC1155, contract: f[0].Contract, id: f[0].TokenID}, f[0].Amount}
			if len(t) == 0 || bytes.Compare(other.key(), first.key()) < 0 {
				all, f = append(all, other), f[1:]
				continue
			}
		}
		all, t = append(all, first), t[1:]
	}
	// Each list is known up to its next page, which may begin early. Both are known up to the lesser of these keys.
	end := tokens.Next
	if balances.Next != nil && (end == nil || bytes.Compare(balances.Next[pinned:], end) < 0) {
		end = balances.Next[pinned:]
	}
	if end != nil {
		all = slices.DeleteFunc(all, func(h held) bool { return bytes.Compare(h.key(), end) > 0 })
	}
	if len(all) > b.page.Size {
		all = all[:b.page.Size]
		end = all[len(all)-1].key()
	}
	var next []byte
	if end != nil {
		next = append(binary.BigEndian.AppendUint64(nil, balances.At.Number), end...)
	}
	shown, err := a.collectibles(ctx, of, &b, all)
	if err != nil {
		return err
	}
	return reply.JSON(r, page{Next: b.page.Token(next), Collectibles: shown})
}

// collectibles returns tokens that a wallet holds as a list shows them: erc1155Balances and erc721Balances.
func (a *API) collectibles(ctx context.Context, of *Chain, b *balanceRequest, all []held) ([]any, error) {
	contracts := make([]common.Address, len(all))
	for i := range all {
		contracts[i] = all[i].contract
	}
	d, err := a.directory(ctx, of, contracts)
	if err != nil {
		return nil, err
	}
	// A contract may have destroyed itself meanwhile.
	all = slices.DeleteFunc(all, func(h held) bool { return d.standard(h.contract) != h.standard })
	tokens := make([]nft, len(all))
	for i := range all {
		tokens[i] = all[i].nft
	}
	details, err := a.details(ctx, of, tokens)
	if err != nil {
		return nil, err
	}
	shown := make([]any, len(all))
	for i := range all {
		if all[i].standard == chain.ERC1155 {
			shown[i] = erc1155Balance{d.erc1155(tokens[i], details[i]), number(of.ChainID), amount(all[i].amount)}
			continue
		}
		shown[i] = erc721Balance{d.erc721(tokens[i], &b.wallet, details[i]), number(of.ChainID)}
	}
	return shown, nil
}
