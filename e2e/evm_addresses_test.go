package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
)

// optionalIndexes returns the flags of a service with all optional indexes of EVM chains.
func optionalIndexes(t *testing.T, node string) []string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "quorate.yaml")
	text := fmt.Sprintf("networks:\n  local:\n    nodes: [%q]\n    evm_indexes: [address_transactions, token_balances, chain_metrics]\n", node)
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	return []string{"--config", config}
}

// transfer is an ERC-20 or ERC-721 transfer as the receipts have it.
type transfer struct {
	text     string
	contract common.Address
	from, to common.Address
}

// text returns what a transfer has in the receipts.
func (x *tokenTransfer) text() string {
	what := x.Value
	if x.Erc721Token != nil {
		what = x.Erc721Token.TokenID
	}
	return fmt.Sprintln(x.BlockNumber, x.TxHash, x.LogIndex, x.From.Address, x.To.Address, what)
}

// transfersOf returns the transfers of a contract, newest first. The last topic or the data has the token or the amount.
func (w *evmWorld) transfersOf(truth *chainTruth, contract common.Address) (all []transfer) {
	for _, block := range slices.Backward(truth.blocks) {
		for _, tx := range slices.Backward(block.Transactions) {
			for _, l := range slices.Backward(truth.receipts[tx.Hash].Logs) {
				if l.Address != contract || l.Topics[0] != w.coin.abi.Events["Transfer"].ID {
					continue
				}
				t := transfer{contract: contract, from: common.BytesToAddress(l.Topics[1][:]), to: common.BytesToAddress(l.Topics[2][:])}
				what := new(big.Int).SetBytes(l.Data)
				if len(l.Topics) == 4 {
					what = l.Topics[3].Big()
				}
				t.text = fmt.Sprintln(l.BlockNumber, tx.Hash, l.Index, t.from, t.to, what)
				all = append(all, t)
			}
		}
	}
	return all
}

// requireAddresses compares the transactions and transfers of all addresses with the receipts and traces.
func (w *evmWorld) requireAddresses(t *testing.T, ctx context.Context, s *service, truth *chainTruth) {
	coins, cards := w.transfersOf(truth, w.coinAt), w.transfersOf(truth, w.cardsAt)
	require.NotEmpty(t, coins)
	require.NotEmpty(t, cards)
	for contract, all := range map[common.Address][]transfer{w.coinAt: coins, w.cardsAt: cards, w.tillAt: nil} {
		var want, got []string
		for _, one := range all {
			want = append(want, one.text)
		}
		for _, x := range list[tokenTransfer](ctx, s, evmPath+"tokens/"+contract.Hex()+"/transfers", "transfers", nil, 3) {
			got = append(got, x.text())
		}
		require.Equal(t, want, got, "transfers of %s", contract)
	}
	for _, who := range append(slices.Clone(w.wallets), w.tillAt, w.coinAt, w.itemsAt, common.Address{}) {
		concerned := make(map[common.Hash]bool)
		for name, all := range map[string][]transfer{"transactions:listErc20": coins, "transactions:listErc721": cards} {
			var want, got []string
			for _, one := range all {
				if one.from == who || one.to == who {
					want = append(want, one.text)
				}
			}
			for _, x := range list[tokenTransfer](ctx, s, evmPath+"addresses/"+who.Hex()+"/"+name, "transactions", nil, 3) {
				concerned[common.HexToHash(x.TxHash)] = true
				got = append(got, x.text())
			}
			require.Equal(t, want, got, "%s of %s", name, who)
		}
		for _, m := range w.movements(truth) {
			if m.from == who || m.to == who {
				concerned[m.tx] = true
			}
		}
		for _, f := range truth.internals {
			failed := strings.HasPrefix(f.Type, "CREATE") && f.To == common.Address{} // before it had an address
			if f.From == who || f.To == who && !failed {
				concerned[f.txHash] = true
			}
		}
		var native, all []string
		for _, block := range slices.Backward(truth.blocks) {
			for _, tx := range slices.Backward(block.Transactions) {
				party := tx.From == who || truth.receipts[tx.Hash].ContractAddress == who && tx.To == nil || tx.To != nil && *tx.To == who
				if party {
					native = append(native, tx.Hash.Hex())
				}
				if party || concerned[tx.Hash] {
					all = append(all, tx.Hash.Hex())
				}
			}
		}
		var got []string
		for _, tx := range list[nativeTransaction](ctx, s, evmPath+"addresses/"+who.Hex()+"/transactions:listNative", "transactions", nil, 2) {
			got = append(got, tx.TxHash)
		}
		require.Equal(t, native, got, "native transactions of %s", who)
		got = nil
		for _, one := range list[struct{ NativeTransaction nativeTransaction }](ctx, s, evmPath+"addresses/"+who.Hex()+"/transactions", "transactions", nil, 3) {
			got = append(got, one.NativeTransaction.TxHash)
		}
		require.Equal(t, all, got, "transactions of %s", who)
	}
}

// requireTokenBalances compares native and ERC-20 balances after all blocks with the node's, and ERC-721 tokens with
// their owners.
func (w *evmWorld) requireTokenBalances(t *testing.T, ctx context.Context, s *service, tip uint64) {
	type balance struct{ Balance, Symbol, BalanceSource, TransferSum string }
	for height := range tip + 1 {
		for _, wallet := range w.wallets {
			at := url.Values{"blockNumber": {fmt.Sprint(height)}}
			ask := func(what string) (page struct {
				NativeTokenBalance balance
				Erc20TokenBalances []balance
			},
			) {
				status, content := s.ask(ctx, evmPath+"addresses/"+wallet.Hex()+"/balances:"+what, at)
				require.Equal(t, http.StatusOK, status, "%s", content)
				require.NoError(t, json.Unmarshal(content, &page))
				return page
			}
			want, err := w.client.BalanceAt(ctx, wallet, new(big.Int).SetUint64(height))
			require.NoError(t, err)
			require.Equal(t, want.String(), ask("getNative").NativeTokenBalance.Balance, "%s at %d", wallet, height)
			var coins []balance
			if n, ok := w.ask(ctx, w.coinAt, w.coin, height, "balanceOf", wallet).(*big.Int); ok && n.Sign() > 0 {
				coins = append(coins, balance{Balance: n.String(), Symbol: "COIN", BalanceSource: "contract"})
			}
			require.ElementsMatch(t, coins, ask("listErc20").Erc20TokenBalances, "%s at %d", wallet, height)
		}
	}
	owners := make(map[string]string)
	for id := range int64(12) {
		if owner, ok := w.ask(ctx, w.cardsAt, w.cards, tip, "ownerOf", big.NewInt(id*id*id)).(common.Address); ok {
			owners[fmt.Sprint(id*id*id)] = owner.Hex()
		}
	}
	got := make(map[string]string)
	for _, wallet := range w.wallets {
		for _, one := range list[struct{ Address, TokenID string }](ctx, s, evmPath+"addresses/"+wallet.Hex()+"/balances:listErc721", "erc721TokenBalances", nil, 1) {
			require.Equal(t, w.cardsAt.Hex(), one.Address)
			got[one.TokenID] = wallet.Hex()
		}
	}
	require.Equal(t, owners, got)
	require.Len(t, got, 11)
}
