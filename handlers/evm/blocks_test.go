package evm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
	"quorate/internal/index/evm"
	"quorate/internal/node"
)

// readBlock is a block in an answer.
type readBlock struct {
	ChainID, BlockNumber, BlockHash, ParentHash, BaseFee, GasUsed, GasLimit, GasCost, FeesSpent, CumulativeTransactions string
	BlockTimestamp, BlockTimestampMilliseconds, BlockMinDelayExcess, TxCount                                            uint64
}

// testBlocks compares blocks and their transactions with those that the generator made.
func (r *indexed) testBlocks(t *testing.T, h http.Handler, base string) {
	var want []readBlock
	cumulative := 0
	for _, b := range r.truth.Blocks() {
		cumulative += len(b.Transactions)
		one := readBlock{
			ChainID: fmt.Sprint(r.chain.ChainID), BlockNumber: fmt.Sprint(b.Number), BlockHash: b.Hash.Hex(), ParentHash: b.ParentHash.Hex(),
			BaseFee: b.BaseFee.Dec(), GasLimit: fmt.Sprint(b.GasLimit), GasCost: b.GasCost.Dec(), CumulativeTransactions: fmt.Sprint(cumulative),
			BlockTimestamp: b.Time, BlockTimestampMilliseconds: b.Milliseconds, TxCount: uint64(len(b.Transactions)),
		}
		if b.MinDelayExcess != nil {
			one.BlockMinDelayExcess = *b.MinDelayExcess
		}
		used, fees := uint64(0), new(uint256.Int)
		for i := range b.Transactions {
			tx := &b.Transactions[i]
			used += tx.GasUsed
			fees.Add(fees, new(uint256.Int).Mul(&tx.GasPrice, uint256.NewInt(tx.GasUsed)))
		}
		one.GasUsed, one.FeesSpent = fmt.Sprint(used), fees.Dec()
		want = append(want, one)
	}
	slices.Reverse(want)
	for _, size := range []int{3, 100} {
		var got []readBlock
		for token := ""; ; {
			w := apitest.Get(h, fmt.Sprintf("%s/blocks?pageSize=%d&pageToken=%s", base, size, token))
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			var page struct {
				Blocks        []readBlock
				NextPageToken string
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
			got = append(got, page.Blocks...)
			if token = page.NextPageToken; token == "" {
				break
			}
			require.Len(t, page.Blocks, size)
		}
		require.Equal(t, want, got)
	}
	transactions := make(map[string][]string)
	for _, b := range slices.Backward(r.truth.Blocks()) {
		for i, tx := range slices.Backward(b.Transactions) {
			transactions[b.Hash.Hex()] = append(transactions[b.Hash.Hex()], line(b.Number, i, tx.Hash))
		}
	}
	for _, b := range want {
		for _, id := range []string{b.BlockNumber, b.BlockHash} {
			w := apitest.Get(h, base+"/blocks/"+id)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			var one readBlock
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &one))
			require.Equal(t, b, one)
		}
		got, _ := r.all(h, base+"/blocks/"+b.BlockNumber+"/transactions", "transactions", 3, nil)
		requireSame(t, transactions[b.BlockHash], texts(got, func(s *shown) string { return line(s.BlockNumber, s.BlockIndex, s.TxHash) }), b.BlockNumber)
	}
	requireError(t, apitest.Get(h, base+"/blocks/"+hash(1).Hex()), http.StatusNotFound, "blockId: this chain has no block")
}

func TestBlocksThatAreNotIndexed(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	f.progress.Lag = 3
	requireError(t, apitest.Get(h, base+"/blocks/1003"), http.StatusServiceUnavailable, "")
	requireError(t, apitest.Get(h, base+"/blocks/1004"), http.StatusNotFound, "blockId: ")
	f.progress.From = 500
	w := apitest.Get(h, base+"/blocks/499")
	requireError(t, w, http.StatusServiceUnavailable, "blockId: the index of this chain begins with a later block")
	require.Contains(t, w.Body.String(), "INDEX_BEGINS_LATER")
	f.nodeErr = node.ErrUnavailable
	require.Equal(t, http.StatusOK, apitest.Get(h, base+"/blocks/700").Code)
	requireError(t, apitest.Get(h, base+"/blocks/"+hash(700).Hex()), http.StatusServiceUnavailable, "the node of this chain")
	f.nodeErr, f.err = nil, evm.ErrNoBlocks
	for _, path := range []string{blocks, oneBlock, inBlock} {
		requireError(t, apitest.Get(h, path), http.StatusServiceUnavailable, "the index of this chain was begun by an older version")
	}
}
