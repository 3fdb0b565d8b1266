package evm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/node"
	"quorate/internal/store"
)

// bare is the past as a node without traces tells it, where untraced says so.
func (p *past) bare(untraced func(number uint64) bool) *past {
	bare := *p
	bare.blocks = nil
	for _, b := range p.blocks {
		if untraced(b.Number) && len(b.Transactions) > 0 {
			without := *b
			without.Traced, without.Transactions = false, append([]chain.Transaction(nil), b.Transactions...)
			for i := range without.Transactions {
				without.Transactions[i].Frames = nil
			}
			b = &without
		}
		bare.blocks = append(bare.blocks, b)
	}
	return &bare
}

// tracer tells all of a past. Its fields may be changed while holding mu.
type tracer struct {
	*past
	mu    sync.Mutex
	fails func(number uint64) error // nil: it never does
	most  int                       // blocks of an answer, 0 for any number
	asked int
}

func (n *tracer) Traced(_ context.Context, from uint64, most int) (blocks []index.Block[*chain.Block], err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if n.most > 0 {
		most = min(most, n.most)
	}
	for number := from; number < from+uint64(most); number++ {
		if n.fails != nil {
			if err := n.fails(number); err != nil && (errors.Is(err, node.ErrNoTraces) || most == 1) {
				return nil, err
			} else if err != nil {
				return nil, node.ErrMalformed
			}
		}
		b := n.at(number)
		blocks = append(blocks, index.Block[*chain.Block]{Height: number, Content: b})
	}
	return blocks, nil
}

func (n *tracer) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func newFiller(s store.Store, n evm.Tracer) *evm.Filler {
	return evm.NewFiller(evm.FillerOptions{Store: s, NetworkID: network, BlockchainID: chainID, Tracer: n})
}

// filling runs a filler until the end of the test or until it is stopped.
func filling(t *testing.T, f *evm.Filler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// known are all rows but those that say how they came to be.
func known(t testing.TB, s store.Store) map[string]string {
	all := rows(t, s)
	for k := range all {
		if strings.HasPrefix(k, store.FamilyEVMHead.String()) {
			delete(all, k)
		}
	}
	return all
}

// filled is how many blocks were filled in.
func filled(t testing.TB, s store.Store) uint64 {
	at, err := store.ReadCursor(t.Context(), s, fmt.Sprintf("evm-calls/%d/%s", network, chainID))
	require.NoError(t, err)
	return at.Next
}

// missing is how many blocks lie in ranges without calls.
func (p *past) missing() (n uint64) {
	var first, last *chain.Block
	for _, b := range p.blocks {
		switch {
		case len(b.Transactions) == 0:
		case !b.Traced && first == nil:
			first, last = b, b
		case !b.Traced:
			last = b
		case first != nil:
			n, first = n+last.Number-first.Number+1, nil
		}
	}
	if first != nil {
		n += last.Number - first.Number + 1
	}
	return n
}

// checkCalls compares what depends on calls with the oracle.
func (w *world) checkCalls(p *past) {
	w.t.Helper()
	for _, wallet := range append(p.wallets, p.created...) {
		q := evm.WalletQuery{Wallet: wallet, Limit: 10_000}
		internals, err := w.record.Internals(w.t.Context(), q)
		require.NoError(w.t, err)
		require.Nil(w.t, internals.TracesMissing)
		require.Equal(w.t, p.internals(w.tip(), &q), internals.Internals)
		_, err = w.record.Deployments(w.t.Context(), evm.DeploymentQuery{Address: wallet, Limit: 10})
		require.NoError(w.t, err)
		d, err := w.record.Deployment(w.t.Context(), wallet)
		if !errors.Is(err, evm.ErrNotDeployed) {
			require.NoError(w.t, err)
			require.True(w.t, d.Traced, "the transaction that deployed %s", wallet)
		}
	}
}

var fillPatterns = map[string]func(n uint64) bool{
	"at first":           func(n uint64) bool { return n < 150 },
	"at last":            func(n uint64) bool { return n >= 250 },
	"throughout":         func(uint64) bool { return true },
	"here and there":     func(n uint64) bool { return n%7 == 0 },
	"at first and later": func(n uint64) bool { return n < 90 || n > 200 && n < 230 },
}

// TestFill indexes a history that the node traced in part, and fills in the rest once the node traces,
// while new blocks arrive. The index then equals that of a node that always traced.
func TestFill(t *testing.T) {
	for name, pattern := range fillPatterns {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPast(4, pastOptions{blocks: 400, first: 10})
				bare := p.bare(pattern)
				whole := newWorld(t, p, store.NewMemory())
				whole.advance(400)
				w := newWorld(t, bare, store.NewMemory())
				w.advance(300)

				n := &tracer{past: p, fails: func(uint64) error { return node.ErrNoTraces }}
				f := newFiller(w.store, n)
				stop := filling(t, f)
				time.Sleep(time.Hour)
				missing, why := f.Missing()
				require.Positive(t, missing)
				require.ErrorIs(t, why, node.ErrNoTraces)
				require.Contains(t, f.Note(), fmt.Sprintf("traces missing for %d blocks, waiting", missing))
				require.Less(t, n.asked, 400, "an hour of asking in vain")
				require.Zero(t, filled(t, w.store))
				page, err := w.record.Internals(t.Context(), evm.WalletQuery{Wallet: address(1), Limit: 10})
				if name == "throughout" {
					require.ErrorIs(t, err, evm.ErrUntraced)
				} else {
					require.NoError(t, err)
					require.NotNil(t, page.TracesMissing)
				}

				n.set(func() { n.fails, n.most = nil, 5 })
				for !w.done() {
					w.advance(1)
					time.Sleep(5 * time.Second)
				}
				time.Sleep(time.Hour)
				stop()
				require.Equal(t, known(t, whole.store), known(t, w.store))
				require.Empty(t, f.Note())
				require.Equal(t, bare.missing(), filled(t, w.store), "each block once")
				w.checkCalls(p)

				// Another one finds nothing to do.
				n.asked = 0
				stop = filling(t, newFiller(w.store, n))
				time.Sleep(time.Hour)
				stop()
				require.Zero(t, n.asked)
			})
		})
	}
}

// TestFillBeginsWithTheNewest never gets the traces of the oldest blocks: lists of later blocks are
// complete, and lists of all blocks name the missing ones.
func TestFillBeginsWithTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(4, pastOptions{blocks: 300})
		w := newWorld(t, p.bare(func(n uint64) bool { return n < 200 }), store.NewMemory())
		w.advance(300)
		n := &tracer{past: p, fails: func(number uint64) error {
			if number < 20 {
				return node.ErrNoTraces // its state is gone
			}
			return nil
		}}
		f := newFiller(w.store, n)
		defer filling(t, f)()
		time.Sleep(time.Hour)
		missing, _ := f.Missing()
		require.True(t, missing > 0 && missing <= 20, "%d blocks are missing", missing)
		start := uint64(20)
		q := evm.WalletQuery{Wallet: address(1), Start: &start, Limit: 1000}
		page, err := w.record.Internals(t.Context(), q)
		require.NoError(t, err)
		require.Nil(t, page.TracesMissing)
		require.Equal(t, p.internals(w.tip(), &q), page.Internals)
		deployments, err := w.record.Deployments(t.Context(), evm.DeploymentQuery{Address: address(1), Limit: 10})
		require.NoError(t, err)
		require.Less(t, deployments.TracesMissing.To, uint64(20))
	})
}

// dying is a store whose process ends with a commit, before it is written or after.
type dying struct {
	store.Store
	left    int // commits before that
	written bool
}

func (d *dying) Commit(ctx context.Context, b *store.Batch) error {
	if d.left--; d.left >= 0 {
		return d.Store.Commit(ctx, b)
	}
	if d.written && d.left == -1 {
		if err := d.Store.Commit(ctx, b); err != nil {
			return err
		}
	}
	return fmt.Errorf("killed: %w", store.ErrClosed)
}

// TestFillSurvivesDeath ends the filling with every few commits.
func TestFillSurvivesDeath(t *testing.T) {
	for name, pattern := range fillPatterns {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPast(6, pastOptions{blocks: 400})
				bare := p.bare(pattern)
				whole := newWorld(t, p, store.NewMemory())
				whole.advance(400)
				w := newWorld(t, bare, store.NewMemory())
				w.advance(350)
				deaths := 0
				for ; ; deaths++ {
					require.Less(t, deaths, 1000)
					w.advance(1)
					d := &dying{Store: w.store, left: 1 + deaths%4, written: deaths%2 == 0}
					f := newFiller(d, &tracer{past: p, most: 3})
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					err := f.Run(ctx)
					cancel()
					if err == nil && w.done() {
						break
					}
					if err != nil {
						require.ErrorIs(t, err, store.ErrClosed)
					}
				}
				require.Greater(t, deaths, 2)
				require.Equal(t, known(t, whole.store), known(t, w.store))
				require.Equal(t, bare.missing(), filled(t, w.store), "each block once")
			})
		})
	}
}

// flaky is a store that does not answer every other commit, having written it or not.
type flaky struct {
	store.Store
	rng *rand.Rand
}

func (s *flaky) Commit(ctx context.Context, b *store.Batch) error {
	switch s.rng.IntN(4) {
	case 0:
		return errors.New("no answer")
	case 1:
		if err := s.Store.Commit(ctx, b); err != nil {
			return err
		}
		return errors.New("no answer")
	}
	return s.Store.Commit(ctx, b)
}

func TestFillStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(6, pastOptions{blocks: 300})
		bare := p.bare(fillPatterns["here and there"])
		whole := newWorld(t, p, store.NewMemory())
		whole.advance(300)
		w := newWorld(t, bare, store.NewMemory())
		w.advance(300)
		f := newFiller(&flaky{w.store, rand.New(rand.NewPCG(1, 2))}, &tracer{past: p})
		stop := filling(t, f)
		time.Sleep(24 * time.Hour)
		stop()
		require.Empty(t, f.Note())
		require.Equal(t, known(t, whole.store), known(t, w.store))
		require.Equal(t, bare.missing(), filled(t, w.store), "each block once")
	})
}

// TestFillEnds has a store with rows that cannot be read. The note has the reason after the end.
func TestFillEnds(t *testing.T) {
	p := newPast(6, pastOptions{blocks: 30})
	w := newWorld(t, p.bare(func(uint64) bool { return true }), store.NewMemory())
	w.advance(30)
	f := newFiller(&unreadable{w.store, store.ErrCorrupt}, &tracer{past: p})
	require.ErrorIs(t, f.Run(t.Context()), store.ErrCorrupt)
	require.Contains(t, f.Note(), store.ErrCorrupt.Error())
}

// unreadable is a store that cannot be read.
type unreadable struct {
	store.Store
	err error
}

func (s *unreadable) Scan(context.Context, store.Family, []byte, []byte, []byte, store.Direction, int) ([]store.Row, error) {
	return nil, s.err
}

func (s *unreadable) Get(context.Context, store.Family, []store.PK) ([][]byte, error) {
	return nil, s.err
}

// TestFillGivesUp has blocks whose traces no node has.
func TestFillGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(4, pastOptions{blocks: 200})
		var huge uint64
		for _, b := range p.blocks[50:] {
			if len(b.Transactions) > 0 {
				huge = b.Number
				break
			}
		}
		w := newWorld(t, p.bare(func(n uint64) bool { return n > 10 && n < 100 }), store.NewMemory())
		w.advance(200)
		n := &tracer{past: p, fails: func(number uint64) error {
			if number == huge {
				return fmt.Errorf("%w: too much", index.ErrTraces)
			}
			return nil
		}}
		f := newFiller(w.store, n)
		stop := filling(t, f)
		time.Sleep(24 * time.Hour)
		stop()
		require.Empty(t, f.Note())
		require.Less(t, n.asked, 400)
		missing := func(start, end uint64) *evm.Span {
			q := evm.WalletQuery{Wallet: address(1), Start: &start, End: &end, Limit: 1000}
			page, err := w.record.Internals(t.Context(), q)
			require.NoError(t, err)
			want := p.internals(w.tip(), &q)
			if page.TracesMissing != nil {
				want = slices.DeleteFunc(want, func(i evm.Internal) bool { return i.Block.Number == huge })
			}
			require.ElementsMatch(t, want, page.Internals)
			return page.TracesMissing
		}
		require.Nil(t, missing(0, huge))
		require.Nil(t, missing(huge+1, 300))
		require.Equal(t, &evm.Span{From: huge, To: huge}, missing(huge, huge+1))
		require.Equal(t, &evm.Span{From: huge, To: huge}, missing(0, 300))
		_, err := w.record.Deployments(t.Context(), evm.DeploymentQuery{Address: address(1), Limit: 10})
		require.NoError(t, err)

		// A node with other bounds may have them.
		n.fails = nil
		stop = filling(t, newFiller(w.store, n))
		time.Sleep(time.Hour)
		stop()
		require.Nil(t, missing(0, 300))
		w.checkCalls(p)
	})
}

// TestBlockInternals reads blocks one by one. Some of them have no call traces.
func TestBlockInternals(t *testing.T) {
	p := newPast(6, pastOptions{blocks: 200, first: 10})
	untraced := func(n uint64) bool { return n%7 == 0 }
	w := newWorld(t, p.bare(untraced), store.NewMemory())
	_, _, err := w.record.BlockInternals(t.Context(), 10, p.wallets)
	require.ErrorIs(t, err, evm.ErrEmpty)
	w.advance(200)
	count := 0
	for _, b := range p.blocks {
		var want []evm.Internal
		for _, wallet := range p.wallets {
			end := b.Number + 1
			want = append(want, p.internals(w.tip(), &evm.WalletQuery{Wallet: wallet, Start: &b.Number, End: &end, Limit: 1000})...)
		}
		found, traced, err := w.record.BlockInternals(t.Context(), b.Number, p.wallets)
		require.NoError(t, err)
		if !traced {
			require.True(t, untraced(b.Number))
			require.Empty(t, found)
			continue
		}
		require.False(t, untraced(b.Number) && len(b.Transactions) > 0)
		require.Equal(t, want, found)
		count += len(found)
	}
	require.Greater(t, count, 100)
	_, traced, err := w.record.BlockInternals(t.Context(), 9, p.wallets)
	require.NoError(t, err)
	require.False(t, traced, "the index begins later")
	_, _, err = w.record.BlockInternals(t.Context(), 210, p.wallets)
	require.ErrorIs(t, err, evm.ErrBeyondTip)

	w = newWorld(t, p.bare(func(uint64) bool { return true }), store.NewMemory())
	w.advance(200)
	_, _, err = w.record.BlockInternals(t.Context(), 100, p.wallets)
	require.ErrorIs(t, err, evm.ErrUntraced)
}

// TestFillOfEarlierVersions fills an index that names only the first and the last block without
// traces.
func TestFillOfEarlierVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(4, pastOptions{blocks: 300})
		bare := p.bare(func(n uint64) bool { return n > 20 && n < 100 || n > 150 && n < 200 || n > 250 })
		whole := newWorld(t, p, store.NewMemory())
		whole.advance(300)
		w := newWorld(t, bare, store.NewMemory())
		w.advance(220)
		var batch store.Batch
		for row, err := range store.Rows(t.Context(), w.store, store.FamilyEVMUntraced) {
			require.NoError(t, err)
			batch.Delete(store.FamilyEVMUntraced, row.PK)
		}
		require.NoError(t, w.store.Commit(t.Context(), &batch))
		start := uint64(120)
		page, err := w.record.Internals(t.Context(), evm.WalletQuery{Wallet: address(1), Start: &start, Limit: 10})
		require.NoError(t, err)
		require.NotNil(t, page.TracesMissing)
		w.projection = testProjection()

		n := &tracer{past: p}
		stop := filling(t, newFiller(w.store, n))
		time.Sleep(time.Second)
		w.advance(80)
		time.Sleep(time.Hour)
		stop()
		require.Equal(t, known(t, whole.store), known(t, w.store))
		w.checkCalls(p)
	})
}

// TestFillAfterReindexing indexes a chain again over rows that were filled in, and fills them in again.
func TestFillAfterReindexing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(4, pastOptions{blocks: 100})
		bare := p.bare(func(n uint64) bool { return n < 80 })
		w := newWorld(t, bare, store.NewMemory())
		w.advance(100)
		stop := filling(t, newFiller(w.store, &tracer{past: p}))
		time.Sleep(time.Hour)
		stop()
		w.next, w.projection = 0, testProjection()
		w.advance(100)
		deployments, err := w.record.Deployments(t.Context(), evm.DeploymentQuery{Address: address(1), Limit: 10})
		require.NoError(t, err)
		require.NotNil(t, deployments.TracesMissing)
		stop = filling(t, newFiller(w.store, &tracer{past: p}))
		time.Sleep(time.Hour)
		stop()
		w.checkCalls(p)
	})
}

// TestFillOfAnotherChain gets blocks of another chain, and writes nothing.
func TestFillOfAnotherChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newPast(4, pastOptions{blocks: 100}).bare(func(uint64) bool { return true }), store.NewMemory())
		w.advance(100)
		before := rows(t, w.store)
		f := newFiller(w.store, &tracer{past: newPast(5, pastOptions{blocks: 100})})
		stop := filling(t, f)
		time.Sleep(time.Hour)
		stop()
		require.Equal(t, before, rows(t, w.store))
		require.Contains(t, f.Note(), "another block")
	})
}

// TestFillIsTakenOver has two Fillers: the later one continues.
func TestFillIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(4, pastOptions{blocks: 300})
		w := newWorld(t, p.bare(func(uint64) bool { return true }), store.NewMemory())
		w.advance(300)
		ended := make(chan error, 1)
		slow := &slowTracer{tracer: &tracer{past: p, most: 2}}
		go func() { ended <- newFiller(w.store, slow).Run(t.Context()) }()
		time.Sleep(10 * time.Second)
		stop := filling(t, newFiller(w.store, &tracer{past: p}))
		require.ErrorIs(t, <-ended, store.ErrFenced)
		time.Sleep(time.Hour)
		stop()
		require.Equal(t, w.missing(), filled(t, w.store))
		w.checkCalls(p)
	})
}

type slowTracer struct{ *tracer }

func (s *slowTracer) Traced(ctx context.Context, from uint64, n int) ([]index.Block[*chain.Block], error) {
	time.Sleep(time.Second)
	return s.tracer.Traced(ctx, from, n)
}

// TestFillComesSecond leaves most of the time to new blocks while some wait.
func TestFillComesSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(4, pastOptions{blocks: 2000, quiet: 95})
		w := newWorld(t, p.bare(func(uint64) bool { return true }), store.NewMemory())
		w.advance(2000)
		asked := func(behind bool) int {
			slow := &slowTracer{tracer: &tracer{past: p}}
			f := evm.NewFiller(evm.FillerOptions{Store: w.store, NetworkID: network, BlockchainID: chainID, Tracer: slow, Behind: func() bool { return behind }})
			stop := filling(t, f)
			time.Sleep(40 * time.Second)
			stop()
			return slow.asked
		}
		behind, ahead := asked(true), asked(false)
		require.InDelta(t, 4, behind, 1, "of 40 seconds")
		require.InDelta(t, 20, ahead, 2, "of 40 seconds")
	})
}

var _ evm.Tracer = (*index.EVMSource)(nil)

func TestFormHasTheFiller(t *testing.T) {
	form := evm.Form()
	for name, want := range map[string]bool{
		fmt.Sprintf("evm-calls/%d/%s", network, chainID): true, index.Cursor(network, "evm-1/"+ids.ID{1}.String(), "evm"): true,
		"index/1/P/pchain": false,
	} {
		require.Equal(t, want, form.Cursor(name), name)
	}
	require.Contains(t, form.Families, store.FamilyEVMUntraced)
}
