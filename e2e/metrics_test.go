package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
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

func newSums() *sums {
	return &sums{fees: new(big.Int), addresses: make(map[common.Address]bool), sender: make(map[common.Address]bool)}
}

// add adds a block. events has the topics of transfers, and which of their topics has the sender.
func (s *sums) add(block *nodeBlock, truth *chainTruth, events map[common.Hash]int) {
	for _, tx := range block.Transactions {
		r := truth.receipts[tx.Hash]
		s.txs, s.gas = s.txs+1, s.gas+float64(r.GasUsed)
		s.fees.Add(s.fees, new(big.Int).Mul(r.EffectiveGasPrice, new(big.Int).SetUint64(r.GasUsed)))
		s.addresses[tx.From], s.sender[tx.From] = true, true
		if tx.To != nil {
			s.addresses[*tx.To] = true
		}
		for _, l := range r.Logs {
			if at := events[l.Topics[0]]; at > 0 {
				from, to := common.BytesToAddress(l.Topics[at][:]), common.BytesToAddress(l.Topics[at+1][:])
				s.addresses[from], s.addresses[to], s.sender[from] = true, true, true
			}
		}
	}
	delete(s.addresses, common.Address{})
	delete(s.sender, common.Address{})
}

// sumMetrics are metrics that follow from sums.
var sumMetrics = map[string]func(*sums) float64{
	"txCount": func(s *sums) float64 { return s.txs }, "gasUsed": func(s *sums) float64 { return s.gas },
	"activeAddresses": func(s *sums) float64 { return float64(len(s.addresses)) }, "activeSenders": func(s *sums) float64 { return float64(len(s.sender)) },
}

// requireMetrics compares the metrics of a chain, by hour and by day, with the receipts.
func (w *evmWorld) requireMetrics(t *testing.T, ctx context.Context, s *service, truth *chainTruth) {
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
			if all[start] == nil {
				all[start] = newSums()
			}
			all[start].add(block, truth, events)
			total += len(block.Transactions)
		}
		metrics := maps.Clone(sumMetrics)
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
	w.requireWindows(t, ctx, s, truth, events)
}

// requireWindows compares the metrics of windows that end with the hour of the last block.
func (w *evmWorld) requireWindows(t *testing.T, ctx context.Context, s *service, truth *chainTruth, events map[common.Hash]int) {
	last := time.Unix(int64(truth.blocks[len(truth.blocks)-1].Timestamp), 0).Truncate(time.Hour)
	windows := make(map[string]*sums)
	for name, hours := range map[string]int{"lastHour": 1, "lastDay": 24, "lastWeek": 7 * 24, "lastMonth": 30 * 24, "last90Days": 90 * 24, "lastYear": 365 * 24, "allTime": 0} {
		windows[name] = newSums()
		for _, block := range truth.blocks {
			if from := last.Add(-time.Duration(hours-1) * time.Hour); hours == 0 || int64(block.Timestamp) >= from.Unix() {
				windows[name].add(block, truth, events)
			}
		}
	}
	for metric, of := range sumMetrics {
		status, content := s.ask(ctx, strings.Replace(evmPath, "/v1/", "/v2/", 1)+"rollingWindowMetrics/"+metric, nil)
		require.Equal(t, http.StatusOK, status, "%s", content)
		var got struct{ Result map[string]float64 }
		require.NoError(t, json.Unmarshal(content, &got))
		want := make(map[string]float64)
		for name, one := range windows {
			want[name] = of(one)
		}
		require.Equal(t, want, got.Result, metric)
	}
}
