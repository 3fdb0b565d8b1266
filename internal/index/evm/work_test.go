package evm_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// counting is a store that counts the rows that are read by scans, and the scans.
type counting struct {
	store.Store
	rows, scans atomic.Int64
}

func (c *counting) View(ctx context.Context) (store.View, error) {
	v, err := c.Store.View(ctx)
	return &countingView{v, c}, err
}

type countingView struct {
	store.View
	count *counting
}

func (v *countingView) Scan(ctx context.Context, f store.Family, p, lo, hi []byte, dir store.Direction, limit int) ([]store.Row, error) {
	rows, err := v.View.Scan(ctx, f, p, lo, hi, dir, limit)
	v.count.rows.Add(int64(len(rows)))
	v.count.scans.Add(1)
	return rows, err
}

// TestWork bounds the cost of a page that leaves out nearly everything.
func TestWork(t *testing.T) {
	wallet := address(1)
	var blocks []*chain.Block
	add := func(success bool, logs ...chain.Log) {
		b := &chain.Block{Number: uint64(len(blocks)), Time: uint64(len(blocks)), Traced: true}
		b.Transactions = []chain.Transaction{{Success: success, To: &wallet, Hash: common.Hash{byte(len(blocks)), byte(len(blocks) >> 8)}, Logs: logs}}
		blocks = append(blocks, b)
	}
	give := func(contract common.Address, first, n uint64) (logs []chain.Log) {
		for i := range n {
			id, amount := uint256.NewInt(first+i).Bytes32(), uint256.NewInt(1).Bytes32()
			logs = append(logs, chain.Log{
				Index: uint32(i), Address: contract, Topics: []common.Hash{topicSingle, {}, {}, topicOf(wallet)}, Data: append(id[:], amount[:]...),
			})
		}
		return logs
	}
	// Two transactions that succeeded among ten thousand that failed; a token that
	// counts among ten thousand that do not.
	add(true, give(multi, 7, 1)...)
	for range 5000 {
		add(false)
	}
	add(true, give(impostor, 0, 10_000)...)
	for range 5000 {
		add(false)
	}
	s := &counting{Store: store.NewMemory()}
	w := newWorld(t, &past{blocks: blocks}, s)
	w.advance(len(blocks))
	ctx := t.Context()
	costs := func(what string, most int64, read func() (int, error), want int) {
		t.Helper()
		s.rows.Store(0)
		s.scans.Store(0)
		got, err := read()
		require.NoError(t, err)
		require.Equal(t, want, got, what)
		require.LessOrEqual(t, s.rows.Load(), most, "rows read for %s", what)
		require.LessOrEqual(t, s.scans.Load(), int64(12), "scans for %s", what)
	}
	yes := true
	costs("those that succeeded", 20, func() (int, error) {
		page, err := w.record.Latest(ctx, evm.LatestQuery{Success: &yes, Limit: 10})
		return len(page.Transactions), err
	}, 2)
	costs("the latest", 40, func() (int, error) {
		page, err := w.record.Latest(ctx, evm.LatestQuery{Limit: 10})
		return len(page.Transactions), err
	}, 10)
	costs("balances", 40, func() (int, error) {
		page, err := w.record.Balances(ctx, evm.BalanceQuery{Wallet: wallet, Limit: 10})
		return len(page.Balances), err
	}, 1)
	costs("transfers, which have to be gone through", 10_100, func() (int, error) {
		page, err := w.record.Transfers(ctx, evm.WalletQuery{Wallet: wallet, Limit: 10})
		return len(page.Transfers), err
	}, 1)
}
