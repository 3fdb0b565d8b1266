package evm_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/apitest"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/node"
)

// The operations on balances but for ERC-1155.
var (
	ofAlice        = base + "/addresses/" + alice.Hex()
	nativeBalance  = ofAlice + "/balances:getNative?"
	erc20Balances  = ofAlice + "/balances:listErc20?"
	erc721Balances = ofAlice + "/balances:listErc721?"
	collectibles   = ofAlice + "/balances:listCollectibles?"
)

// fungible returns the contract of the n-th ERC-20 token of alice.
func fungible(n int) common.Address { return common.Address{0x20, 19: byte(n)} }

// holdFungible gives alice n+1 units of n tokens each. The node agrees with that.
func (f *fake) holdFungible(n int) {
	f.sums, f.reported = nil, make(map[common.Address][]byte)
	for i := range n {
		contract := fungible(i)
		f.contracts[contract] = &evm.Contract{Address: contract, Standard: chain.ERC20, Name: "Token", Symbol: "TOK", Decimals: ptr(uint8(18))}
		f.sums = append(f.sums, evm.TokenSum{Contract: contract, Sum: big.NewInt(int64(i + 1))})
		f.reported[contract] = common.LeftPadBytes([]byte{byte(i + 1)}, 32)
	}
}

func (f *fake) TokenSums(ctx context.Context, q evm.TokenSumQuery) (*evm.TokenSumPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedSums = q
	at := uint64(height)
	if q.At != nil {
		at = *q.At
	}
	if at > height {
		return nil, evm.ErrBeyondTip
	}
	if at < f.first {
		return nil, fmt.Errorf("secret: %w", &evm.BeginsLaterError{Index: evm.TokenBalances, First: f.first})
	}
	all := slices.DeleteFunc(slices.Clone(f.sums), func(s evm.TokenSum) bool {
		return q.Wallet != alice || len(q.Contracts) > 0 && !slices.Contains(q.Contracts, s.Contract)
	})
	for i := range all {
		if _, all[i].Position, _ = page(ctx, f, all, i+1, nil); all[i].Position == nil {
			all[i].Position = []byte("the end") // nothing follows the last one
		}
	}
	some, next, err := page(ctx, f, all, q.Limit, q.After)
	return &evm.TokenSumPage{Sums: some, First: f.first, At: blockOf(int(at)), Next: next}, err
}

func (f *fake) Holdings(ctx context.Context, q evm.HoldingQuery) (*evm.HoldingPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []evm.Token
	for _, t := range f.tokens[cards] {
		key := t.TokenID.Bytes32()
		if *t.Owner == q.Wallet && (q.Contract == nil || *q.Contract == cards) && string(append(cards.Bytes(), key[:]...)) > string(q.After) {
			all = append(all, t)
		}
	}
	if err := cmp.Or(f.err, ctx.Err()); err != nil {
		return nil, err
	}
	p := &evm.HoldingPage{Tokens: all, First: f.first}
	if n := f.most(q.Limit); len(all) > n {
		p.Tokens = all[:n]
		key := all[n-1].TokenID.Bytes32()
		p.Next = append(cards.Bytes(), key[:]...)
	}
	return p, nil
}

func (f fakeNode) Calls(_ context.Context, block *uint64, calls []node.EVMCall) ([]node.EVMReturn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmp.Or(f.nodeErr, f.callErr); err != nil {
		return nil, err
	}
	f.askedCalls = append(f.askedCalls, *block)
	returned := make([]node.EVMReturn, len(calls))
	for i, call := range calls {
		if want := append(common.FromHex("70a08231"), common.LeftPadBytes(alice[:], 32)...); string(want) != string(call.Data) {
			return nil, errors.New("another call")
		}
		returned[i].Data = f.reported[call.To]
		returned[i].Failed = returned[i].Data == nil
	}
	return returned, nil
}

type shownBalance struct {
	Address, Balance, BalanceSource, TransferSum string
}

func shownBalances(t *testing.T, h http.Handler, path string) (all []shownBalance, next string) {
	t.Helper()
	w := apitest.Get(h, path)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var body struct {
		Erc20TokenBalances []shownBalance
		NextPageToken      string
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	return body.Erc20TokenBalances, body.NextPageToken
}

// TestWhichBalance has contracts that agree with their transfers, and others.
func TestWhichBalance(t *testing.T) {
	f := newFake()
	f.holdFungible(9)
	word := func(n int64) []byte { return common.LeftPadBytes(big.NewInt(n).Bytes(), 32) }
	over := new(big.Int).Add(most.ToBig(), big.NewInt(1))
	f.reported[fungible(1)] = word(7) // rebases
	f.reported[fungible(2)] = word(0) // transfers that were never made
	f.sums[3].Sum, f.reported[fungible(3)] = big.NewInt(-2), word(5)
	delete(f.reported, fungible(4)) // fails
	f.reported[fungible(5)] = []byte{1}
	f.sums[6].Sum, f.reported[fungible(6)] = over, nil
	f.sums[7].Sum, f.reported[fungible(7)] = big.NewInt(0), word(4)
	f.sums[8].Sum, f.reported[fungible(8)] = most.ToBig(), most.Bytes()
	h := fuji(t, f)
	want := []shownBalance{
		{fungible(0).Hex(), "1", "contract", ""}, {fungible(1).Hex(), "7", "contract", "2"}, {fungible(3).Hex(), "5", "contract", "-2"},
		{fungible(4).Hex(), "5", "transfers", ""}, {fungible(5).Hex(), "6", "transfers", ""},
		{fungible(7).Hex(), "4", "contract", "0"}, {fungible(8).Hex(), most.Dec(), "contract", ""},
	}
	got, _ := shownBalances(t, h, erc20Balances)
	require.Equal(t, want, got)
	require.Equal(t, []uint64{height}, f.askedCalls)

	// Pages are full though tokens without a balance are left out.
	for size := 1; size <= 8; size++ {
		var all []shownBalance
		for path, next := erc20Balances+"&pageSize="+big.NewInt(int64(size)).String(), ""; ; {
			some, more := shownBalances(t, h, path+"&pageToken="+next)
			all = append(all, some...)
			if next = more; next == "" {
				break
			}
			require.Len(t, some, size)
		}
		require.Equal(t, want, all)
	}

	// The index began later: only contracts know balances.
	f.first = 5
	got, _ = shownBalances(t, h, erc20Balances+"&blockNumber=900&contractAddresses="+fungible(1).Hex()+","+lower(fungible(4)))
	require.Equal(t, []shownBalance{{fungible(1).Hex(), "7", "contract", ""}}, got)
	require.Equal(t, []common.Address{fungible(1), fungible(4)}, f.askedSums.Contracts)
	require.Equal(t, uint64(900), f.askedCalls[len(f.askedCalls)-1])
	require.Equal(t, "5", apitest.Get(h, erc20Balances).Header().Get("Indexed-From"))
	f.unknown = fungible(1) // to the index
	got, _ = shownBalances(t, h, erc20Balances+"&blockNumber=900&contractAddresses="+fungible(1).Hex())
	require.Equal(t, []shownBalance{{fungible(1).Hex(), "7", "contract", ""}}, got)
	earlier := apitest.Get(h, erc20Balances+"&blockNumber=4")
	requireError(t, earlier, http.StatusServiceUnavailable, "blockNumber: the index token_balances of this instance begins with block 5", "quorate index rebuild evm")
	require.Contains(t, earlier.Body.String(), `"code":"INDEX_BEGINS_LATER"`)
	asked := len(f.askedCalls)
	f.callErr = node.ErrUnavailable
	requireError(t, apitest.Get(h, erc20Balances), http.StatusServiceUnavailable, "the node of this chain")
	f.first, f.callErr = 0, nil

	// Many tokens without a balance take few calls.
	for i := range f.sums {
		f.reported[f.sums[i].Contract] = word(0)
	}
	got, _ = shownBalances(t, h, erc20Balances+"&pageSize=1")
	require.Empty(t, got)
	require.Len(t, f.askedCalls, asked+1)

	// No node executes calls: what the transfers add up to is the balance, where it can be one.
	f.callErr = node.ErrUnavailable
	got, _ = shownBalances(t, h, erc20Balances)
	require.Len(t, got, 6)
	for _, one := range got {
		require.Equal(t, "transfers", one.BalanceSource)
		require.NotContains(t, []string{fungible(3).Hex(), fungible(6).Hex(), fungible(7).Hex()}, one.Address)
	}
	f.nativeErr = node.ErrUnavailable
	requireError(t, apitest.Get(h, erc20Balances+"&blockNumber=899"), http.StatusServiceUnavailable, "the node of this chain")
}

func TestNativeBalance(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	const answer = `{"nativeTokenBalance":{"name":"Avalanche","symbol":"AVAX","decimals":18,"chainId":"43113","balance":"1234567890123456789"}}`
	require.Equal(t, answer, apitest.Get(h, nativeBalance).Body.String())
	require.Equal(t, uint64(height), f.askedNative)
	require.Equal(t, answer, apitest.Get(h, nativeBalance+"&blockNumber=7&currency=eur").Body.String())
	require.Equal(t, uint64(7), f.askedNative)
	requireError(t, apitest.Get(h, nativeBalance+"&blockNumber=1001"), http.StatusBadRequest, "blockNumber: the chain has no such block yet")
	f.progress.Lag = 5
	requireError(t, apitest.Get(h, nativeBalance+"&blockNumber=1001"), http.StatusServiceUnavailable, "block 1001 is not indexed yet")
	for _, bad := range []string{"-1", "latest", "0x1", ""} {
		requireError(t, apitest.Get(h, nativeBalance+"&blockNumber="+bad), http.StatusBadRequest, "blockNumber: must be an integer")
	}
}

func TestCollectibles(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	ids := func(path, name string) (all []string) {
		for next := ""; ; {
			w := apitest.Get(h, path+"&pageToken="+next)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			var body map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
			var tokens []struct{ Address, TokenID, Balance string }
			require.NoError(t, json.Unmarshal(body[name], &tokens))
			for _, one := range tokens {
				all = append(all, one.Address+" "+one.TokenID+" "+one.Balance)
			}
			if body["nextPageToken"] == nil {
				return all
			}
			require.NoError(t, json.Unmarshal(body["nextPageToken"], &next))
		}
	}
	var want []string
	for _, t := range f.tokens[cards] {
		want = append(want, cards.Hex()+" "+t.TokenID.Dec()+" ")
	}
	require.Equal(t, want, ids(erc721Balances+"&pageSize=3", "erc721TokenBalances"))
	for _, b := range f.balances {
		want = append(want, b.Contract.Hex()+" "+b.TokenID.Dec()+" "+b.Amount.Dec())
	}
	for _, size := range []string{"1", "3", "23", "500"} {
		require.Equal(t, want, ids(collectibles+"&pageSize="+size, "collectibleBalances"))
	}
	f.scanned = 2 // the index ends pages early, each list elsewhere
	for _, size := range []string{"1", "3", "500"} {
		require.Equal(t, want, ids(collectibles+"&pageSize="+size, "collectibleBalances"))
	}
	require.Equal(t, want[:len(f.tokens[cards])], ids(erc721Balances+"&pageSize=3", "erc721TokenBalances"))
	f.scanned = 0
	f.progress.From = 7
	requireError(t, apitest.Get(h, collectibles), http.StatusServiceUnavailable, "balances of ERC-1155 tokens follow from all transfers")
	require.Equal(t, http.StatusOK, apitest.Get(h, erc721Balances).Code)
}
