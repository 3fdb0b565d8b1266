package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/simnet/history"
)

// owner draws an address, a few of them often, and returns the path of its lists on the chain.
func (s *soak) owner(c history.Chain, rng *rand.Rand) (owner ids.ShortID, path string, err error) {
	all := s.primary.node.Addresses()
	owner = all[min(int(rng.ExpFloat64()*float64(len(all))/8), len(all)-1)]
	text, err := address.FormatBech32(constants.GetHRP(s.net.NetworkID()), owner[:])
	name := map[history.Chain]string{history.P: "p-chain", history.X: "x-chain", history.C: "c-chain"}[c]
	return owner, "/v1/networks/fuji/blockchains/" + name + "/%s?addresses=" + text, err
}

type utxo struct {
	UTXOID, TxHash, AssetID, Amount, BlockNumber, CreatedOnChainID, ConsumedOnChainID string
	OutputIndex                                                                       uint32
	BlockTimestamp                                                                    int64
}

// utxos requests the newest unspent outputs of an address, or of the C-Chain all outputs, spent or not: the chains that they
// are exported to decide whether they are spent. They must be those at a height between the one that the response names and
// the chain's height afterwards.
func (s *soak) utxos(c history.Chain) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		const size = 100
		owner, path, err := s.owner(c, rng)
		if err != nil {
			return err
		}
		var page struct {
			NextPageToken string
			UTXOs         []utxo
		}
		header, err := s.ask(ctx, http.MethodGet, fmt.Sprintf(path, "utxos")+"&pageSize="+strconv.Itoa(size)+"&includeSpent="+strconv.FormatBool(c == history.C), nil, &page)
		if err != nil {
			return err
		}
		from, err := strconv.ParseUint(header.Get("Indexed-Height"), 10, 64)
		if err != nil {
			return wrong("Indexed-Height: %v", err)
		}
		to := s.primary.node.Height(c)
		if from > to {
			return wrong("Indexed-Height %d, the chain has %d", from, to)
		}
		if c == history.P {
			for seen := s.primary.indexed.Load(); seen < from && !s.primary.indexed.CompareAndSwap(seen, from); seen = s.primary.indexed.Load() {
			}
		}
		truth := s.primary.outputs(c, owner)
		if page.NextPageToken != "" && len(page.UTXOs) != size {
			return wrong("a page of %d with another after it", len(page.UTXOs))
		}
		var oldest int64 // of the page, if there are more
		if page.NextPageToken != "" {
			oldest = page.UTXOs[size-1].BlockTimestamp
		}
		// Outputs of other chains, and whether one between chains is spent, depend on the index of both; they are not compared.
		got := slices.DeleteFunc(page.UTXOs, func(u utxo) bool {
			if c == history.C {
				return u.CreatedOnChainID != s.net.Blockchain().String()
			}
			return u.CreatedOnChainID != u.ConsumedOnChainID
		})
		var why error
		for height := from; height <= to; height++ {
			if why = compare(got, truth, height, oldest); why == nil {
				return nil
			}
		}
		return wrong("%s: at no height from %d to %d: %v", fmt.Sprintf(path, "utxos"), from, to, why)
	}
}

// compare returns how outputs differ from the truth at a height. Those up to the second oldest may be missing.
func compare(got []utxo, truth []output, height uint64, oldest int64) error {
	want := make(map[string]*output)
	for i := range truth {
		if o := &truth[i]; o.height <= height && o.spent > height {
			want[o.id.String()] = o
		}
	}
	for _, u := range got {
		o := want[u.UTXOID]
		if o == nil {
			return fmt.Errorf("%s is not there, or twice", u.UTXOID)
		}
		if o.txID.String() != u.TxHash || o.index != u.OutputIndex || o.assetID.String() != u.AssetID ||
			strconv.FormatUint(o.height, 10) != u.BlockNumber || o.time.Unix() != u.BlockTimestamp ||
			o.transfer && strconv.FormatUint(o.amount, 10) != u.Amount {
			return fmt.Errorf("got %+v, want %+v", u, *o)
		}
		delete(want, u.UTXOID)
	}
	for id, o := range want {
		if o.time.Unix() > oldest {
			return fmt.Errorf("%s of height %d is missing", id, o.height)
		}
	}
	return nil
}

// balances requests a balance at a past second, which no further block changes. It returns errNotAsked if the address that
// it draws has no outputs, or the second that of a block.
func (s *soak) balances(c history.Chain) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, rng *rand.Rand) error {
		owner, path, err := s.owner(c, rng)
		if err != nil {
			return err
		}
		truth := s.primary.outputs(c, owner)
		if len(truth) == 0 {
			return errNotAsked
		}
		// The last minute may not be indexed yet.
		span := time.Since(truth[0].time) - time.Minute
		at := truth[0].time.Add(time.Duration(rng.Float64() * float64(span))).Unix()
		var want uint64
		avax := s.primary.node.Generator().AVAXAssetID()
		for _, o := range truth {
			if !o.transfer || o.assetID != avax {
				continue
			}
			if o.time.Unix() == at || o.spentTime.Unix() == at {
				return errNotAsked // the response may hold before or after the block
			}
			if o.time.Unix() < at && (o.spentTime.IsZero() || o.spentTime.Unix() > at) {
				want += o.amount
			}
		}
		var answer struct {
			Balances map[string][]struct{ AssetID, Amount string }
		}
		if _, err := s.ask(ctx, http.MethodGet, fmt.Sprintf(path, "balances")+"&blockTimestamp="+strconv.FormatInt(at, 10), nil, &answer); err != nil {
			return err
		}
		var got uint64
		for name, bucket := range answer.Balances {
			if strings.HasPrefix(name, "atomicMemory") || name == "locked" || name == "unlocked" { // the X-Chain has these twice
				continue
			}
			for _, b := range bucket {
				if b.AssetID != avax.String() {
					continue
				}
				amount, err := strconv.ParseUint(b.Amount, 10, 64)
				if err != nil {
					return wrong("amount: %v", err)
				}
				got += amount
			}
		}
		if got != want {
			return wrong("%s at %d: got %d nAVAX, want %d", fmt.Sprintf(path, "balances"), at, got, want)
		}
		return nil
	}
}

// settled is the number of newest EVM blocks that are not requested.
const settled = 100

// tokens requests ERC-1155 balances after a past block.
func (s *soak) tokens(ctx context.Context, rng *rand.Rand) error {
	truth := s.evm.Generator().Truth()
	transfers := truth.Transfers()
	one := transfers[rng.IntN(len(transfers))]
	wallet := [...]common.Address{one.From, one.To}[rng.IntN(2)]
	block := rng.Uint64N(s.evm.Tip() - settled)
	var want, got []string
	for _, b := range truth.Balances(wallet, block) {
		want = append(want, b.Contract.Hex()+" "+b.TokenID.Dec()+" "+b.Amount.Dec())
	}
	path := fmt.Sprintf("/v1/chains/%d/addresses/%s/balances:listErc1155?pageSize=100&blockNumber=%d", s.evm.Generator().ChainID(), wallet.Hex(), block)
	for token := ""; ; {
		var page struct {
			NextPageToken        string
			Erc1155TokenBalances []struct{ Address, TokenID, Balance string }
		}
		if _, err := s.ask(ctx, http.MethodGet, path+"&pageToken="+token, nil, &page); err != nil {
			return err
		}
		for _, b := range page.Erc1155TokenBalances {
			got = append(got, b.Address+" "+b.TokenID+" "+b.Balance)
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		return wrong("%s: got %.500q, want %.500q", path, got, want)
	}
	return nil
}

// latest requests the newest transactions of the EVM chain.
func (s *soak) latest(ctx context.Context, _ *rand.Rand) error {
	var page struct {
		Transactions []struct{ BlockNumber, BlockHash, TxHash string }
	}
	if _, err := s.ask(ctx, http.MethodGet, fmt.Sprintf("/v1/chains/%d/transactions?pageSize=100", s.evm.Generator().ChainID()), nil, &page); err != nil {
		return err
	}
	blocks := s.evm.Generator().Truth().Blocks()
	if len(page.Transactions) != 100 {
		return wrong("got %d transactions, want 100", len(page.Transactions))
	}
	// They must be all transactions of consecutive blocks, from some block down.
	var want []string
	first, err := strconv.ParseUint(page.Transactions[0].BlockNumber, 10, 64)
	if err != nil || first >= uint64(len(blocks)) {
		return wrong("block %q, the chain has %d", page.Transactions[0].BlockNumber, len(blocks))
	}
	for i := int(first); i >= 0 && len(want) < 100; i-- {
		for _, tx := range slices.Backward(blocks[i].Transactions) {
			want = append(want, fmt.Sprint(blocks[i].Number, " ", blocks[i].Hash.Hex(), " ", tx.Hash.Hex()))
		}
	}
	for i, tx := range page.Transactions {
		if got := tx.BlockNumber + " " + tx.BlockHash + " " + tx.TxHash; got != want[i] {
			return wrong("transaction %d of the latest: got %s, want %s", i, got, want[i])
		}
	}
	return nil
}
