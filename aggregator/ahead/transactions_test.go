package ahead

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/aggregator/l1message"
	"quorate/internal/chain/pchain"
)

// fakeRecord has one transaction for each block.
type fakeRecord struct {
	mu    sync.Mutex
	txs   []*pchain.L1Transaction // guarded by mu; by height
	fails bool                    // guarded by mu
}

func (r *fakeRecord) add(age time.Duration) ids.ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	height := uint64(len(r.txs))
	id := ids.ID{byte(height), byte(height >> 8), 1}
	r.txs = append(r.txs, &pchain.L1Transaction{TxID: id, Height: height, Time: time.Now().Add(-age)})
	return id
}

func (r *fakeRecord) Height(context.Context) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails {
		return 0, errors.New("broken")
	}
	return uint64(len(r.txs)), nil
}

func (r *fakeRecord) Since(_ context.Context, height uint64, limit int) ([]*pchain.L1Transaction, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails {
		return nil, 0, errors.New("broken")
	}
	found := r.txs[min(height, uint64(len(r.txs))):]
	found = found[:min(len(found), limit)]
	return found, height + uint64(len(found)), nil
}

// fakeMessages counts how often each transaction is asked for.
type fakeMessages struct {
	errs map[ids.ID]error

	mu    sync.Mutex
	asked map[ids.ID]int // guarded by mu
}

func (m *fakeMessages) Request(_ context.Context, txID ids.ID) (aggregator.Request, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[txID]++
	return aggregator.Request{}, m.errs[txID]
}

// count is how often a transaction was asked for.
func (m *fakeMessages) count(txID ids.ID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[txID]
}

func TestL1TransactionsAreSignedAsTheyAreRecorded(t *testing.T) {
	s := &fakeSigner{}
	run(t, Options{Signer: s}, func(t *testing.T, a *Ahead) {
		r := &fakeRecord{}
		m := &fakeMessages{errs: make(map[ids.ID]error), asked: make(map[ids.ID]int)}
		old := r.add(2 * time.Hour)
		for range 600 {
			r.add(time.Minute) // while the index was not followed
		}
		superseded := r.add(0)
		m.errs[superseded] = &aggregator.Error{Code: l1message.CodeSuperseded}
		undecided := r.add(0)
		m.errs[undecided] = errors.New("not yet")
		ctx, cancel := context.WithCancel(t.Context())
		wake := make(chan struct{})
		var following sync.WaitGroup
		following.Go(func() { a.FollowL1(ctx, r, m, wake) })
		synctest.Wait()
		require.Zero(t, m.count(old), "too old")
		require.Equal(t, 600, s.called())
		require.Equal(t, 1, m.count(superseded))

		// A record that cannot be read for a while.
		r.mu.Lock()
		r.fails = true
		r.mu.Unlock()
		wake <- struct{}{}
		late := r.add(0)
		r.mu.Lock()
		r.fails = false
		r.mu.Unlock()
		wake <- struct{}{}
		synctest.Wait()
		require.Equal(t, 1, m.count(late))
		require.Equal(t, 601, s.called())

		time.Sleep(10 * time.Second)
		require.Equal(t, 1, m.count(superseded), "it is obsolete")
		require.Greater(t, m.count(undecided), 2, "it is tried again")
		require.InDelta(t, 1, testutil.ToFloat64(a.jobs.WithLabelValues("obsolete")), 0)
		cancel()
		following.Wait()
	})
}
