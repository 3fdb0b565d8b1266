package evm_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/apitest"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
)

// The operations on addresses that need an optional index.
var (
	native       = base + "/addresses/" + alice.Hex() + "/transactions:listNative?"
	erc20s       = base + "/addresses/" + alice.Hex() + "/transactions:listErc20?"
	erc721s      = base + "/addresses/" + alice.Hex() + "/transactions:listErc721?"
	ofToken      = base + "/tokens/" + coin.Hex() + "/transfers?"
	interactions = base + "/addresses/" + alice.Hex() + "/transactions?"
)

// tokenTransfers are transfers from or to alice, each in the transaction with the same number.
func tokenTransfers(standard chain.Standard) (all []evm.TokenTransfer) {
	for n := range 23 {
		t := chain.Transfer{Standard: standard, Contract: coin, LogIndex: uint32(n), From: alice, To: bob, Amount: *uint256.NewInt(uint64(n))}
		switch n {
		case 1:
			t.From, t.To, t.Amount = common.Address{}, alice, *most
		case 2:
			t.To = alice
		}
		if standard == chain.ERC721 {
			t.Contract, t.TokenID, t.Amount = cards, *uint256.NewInt(uint64(n % 5)), *uint256.NewInt(1)
		}
		all = append(all, evm.TokenTransfer{Block: blockOf(height - n/2), TxHash: hash(10_000 - n), Transfer: t})
	}
	return all
}

func (f *fake) NativeTransactions(ctx context.Context, q evm.WalletQuery) (*evm.TransactionPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedWallet = q
	all := slices.DeleteFunc(slices.Clone(f.transactions), func(tx evm.Transaction) bool {
		return tx.From != q.Wallet && tx.Recipient != q.Wallet || !inside(tx.Block, &q)
	})
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.TransactionPage{Transactions: some, First: f.first, Next: next}, err
}

func (f *fake) TokenTransfers(ctx context.Context, standard chain.Standard, q evm.WalletQuery) (*evm.TransferPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedWallet = q
	all := slices.DeleteFunc(tokenTransfers(standard), func(t evm.TokenTransfer) bool {
		return t.From != q.Wallet && t.To != q.Wallet || !inside(t.Block, &q)
	})
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.TransferPage{Transfers: some, First: f.first, Next: next}, err
}

// ContractTransfers has the transfers of coin and cards, and the ERC-1155 transfers of items.
func (f *fake) ContractTransfers(ctx context.Context, q evm.WalletQuery) (*evm.TransferPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedWallet = q
	all := slices.Concat(tokenTransfers(chain.ERC20), tokenTransfers(chain.ERC721), f.transfers)
	all = slices.DeleteFunc(all, func(t evm.TokenTransfer) bool { return t.Contract != q.Wallet || !inside(t.Block, &q) })
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.TransferPage{Transfers: some, First: f.first, Next: next}, err
}

func (f *fake) Interactions(ctx context.Context, q evm.InteractionQuery) (*evm.InteractionPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedWallet = q.WalletQuery
	var all []evm.TransactionDetails
	for _, tx := range f.transactions {
		if tx.From != q.Wallet || !inside(tx.Block, &q.WalletQuery) {
			continue
		}
		d := evm.TransactionDetails{Transaction: tx}
		for _, t := range slices.Concat(tokenTransfers(chain.ERC20), tokenTransfers(chain.ERC721), f.transfers) {
			if t.TxHash == tx.Hash {
				d.Transfers = append(d.Transfers, t)
			}
		}
		for _, i := range f.internals {
			if i.TxHash == tx.Hash {
				d.Internals = append(d.Internals, i)
			}
		}
		all = append(all, d)
	}
	if q.Oldest {
		slices.Reverse(all)
	}
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.InteractionPage{Transactions: some, TracesMissing: f.missing, First: f.first, Next: next}, err
}

func TestOldestFirst(t *testing.T) {
	h := fuji(t, newFake())
	first := func(path string) string {
		w := apitest.Get(h, path)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		_, body, _ := strings.Cut(w.Body.String(), `"txHash":"`)
		return body[:66]
	}
	require.Equal(t, hash(10_000).Hex(), first(interactions))
	require.Equal(t, hash(10_000).Hex(), first(interactions+"&sortOrder=desc"))
	require.Equal(t, hash(10_000-24).Hex(), first(interactions+"&sortOrder=asc"))
	for _, bad := range []string{"", "ASC", "up"} {
		requireError(t, apitest.Get(h, interactions+"&sortOrder="+bad), http.StatusBadRequest, "sortOrder: must be desc or asc")
	}
}

// TestOptionalIndex has an index that is off, and one that was turned on at a later block.
func TestOptionalIndex(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	for _, op := range []string{native, erc20s, erc721s, ofToken, interactions} {
		f.first = 0
		require.Empty(t, apitest.Get(h, op).Header().Get("Indexed-From"), op)
		f.first = 990
		require.Equal(t, "990", apitest.Get(h, op).Header().Get("Indexed-From"), op)
		f.progress.From = 995
		require.Equal(t, "995", apitest.Get(h, op).Header().Get("Indexed-From"), op)
		f.progress.From = 0
		f.err = &evm.OffError{Index: evm.AddressTransactions}
		w := apitest.Get(h, op)
		requireError(t, w, http.StatusServiceUnavailable, "this instance does not index it", "add address_transactions to networks.NAME.evm_indexes")
		require.Contains(t, w.Body.String(), `"code":"INDEX_OFF"`)
		f.err = nil
	}
	f.missing = &evm.Span{From: 3, To: 9}
	require.Contains(t, apitest.Get(h, interactions).Body.String(), `"tracesMissing":[3,9]`)
}
