package e2e

import (
	"context"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
)

// sums is what the receipts of an hour or a day add up to.
type sums struct {
	txs, gas          float64
	fees              *big.Int
	addresses, sender map[common.Address]bool
}

// requireMetrics compares the metrics of a chain, by hour and by day, with the receipts.
func (w *evmWorld) requireMetrics(t *testing.T, ctx context.Context, s *service, truth *told) {
	events := make(map[common.Hash]int) // the topic that has the sender
	for name, at := range map[string]int{
		"Transfer(address,address,uint256)": 1, "TransferSingle(address,address,address,uint256,uint256)": 2,
		"TransferBatch(address,address,address,uint256[],uint256[])": 2,
	} {
		events[crypto.Keccak256Hash([]byte(name))] = at
	}
	path := strings.Replace(evmPath, "/v1/", "/v2/", 1) + "metrics/"
	type point struct {
		Value     float64
		Timestamp int64
	}
	for interval, length := range map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour} {
		all := make(map[int64]*sums)
		total := 0
		for _, block := range truth.blocks {
			start := time.Unix(int64(block.Timestamp), 0).Truncate(length).Unix()
			one := all[start]
			if one == nil {
				one = &sums{fees: new(big.Int), addresses: make(map[common.Address]bool), sender: make(map[common.Address]bool)}
				all[start] = one
			}
			for _, tx := range block.Transactions {
				r := truth.receipts[tx.Hash]
				total++
				one.txs, one.gas = one.txs+1, one.gas+float64(r.GasUsed)
				one.fees.Add(one.fees, new(big.Int).Mul(r.EffectiveGasPrice, new(big.Int).SetUint64(r.GasUsed)))
				one.addresses[tx.From], one.sender[tx.From] = true, true
				if tx.To != nil {
					one.addresses[*tx.To] = true
				}
				for _, l := range r.Logs {
					if at := events[l.Topics[0]]; at > 0 {
						from, to := common.BytesToAddress(l.Topics[at][:]), common.BytesToAddress(l.Topics[at+1][:])
						one.addresses[from], one.addresses[to], one.sender[from] = true, true, true
					}
				}
			}
			delete(one.addresses, common.Address{})
			delete(one.sender, common.Address{})
		}
		metrics := map[string]func(*sums) float64{
			"txCount": func(s *sums) float64 { return s.txs }, "gasUsed": func(s *sums) float64 { return s.gas },
			"activeAddresses": func(s *sums) float64 { return float64(len(s.addresses)) }, "activeSenders": func(s *sums) float64 { return float64(len(s.sender)) },
		}
		if interval == "day" {
			metrics["feesPaid"] = func(s *sums) float64 { f, _ := new(big.Float).SetInt(s.fees).Float64(); return f }
		}
		for metric, of := range metrics {
			points := list[point](ctx, s, path+metric, "results", url.Values{"timeInterval": {interval}}, 2)
			require.NotEmpty(t, points)
			counted := 0
			for _, p := range points {
				want := 0.0
				if one := all[p.Timestamp]; one != nil {
					want, counted = of(one), counted+int(one.txs)
				}
				require.InEpsilon(t, 1+want, 1+p.Value, 1e-12, "%s of the %s %d", metric, interval, p.Timestamp)
			}
			require.Equal(t, total, counted, "all transactions are in one of the points")
		}
	}
	points := list[point](ctx, s, path+"cumulativeTxCount", "results", nil, 1)
	total := 0
	for _, block := range truth.blocks {
		total += len(block.Transactions)
	}
	require.InDelta(t, total, points[0].Value, 0)
}
