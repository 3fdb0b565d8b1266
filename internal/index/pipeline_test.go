package index_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/store"
)

// numbers is a chain whose blocks say nothing but their height. Its fields may be
// changed while holding mu.
type numbers struct {
	mu   sync.Mutex
	tip  uint64
	size int // of a block, in bytes
	most int // that one answer has; 0 means no bound
	// trouble is asked before each answer, and delay for how late it comes; height
	// is 0 for Tip.
	trouble func(height uint64) error
	delay   func(height uint64) time.Duration
	// fork is where another chain begins, 0 if none does.
	fork uint64
	// bad is the height of a block that cannot be read, 0 if there is none.
	bad uint64
	// fetched counts blocks that were given out.
	fetched uint64
}

var errAway = errors.New("node is away")

func (n *numbers) id(height uint64) ids.ID {
	id := ids.ID{1}
	if n.fork != 0 && height >= n.fork {
		id[0] = 2
	}
	binary.BigEndian.PutUint64(id[8:], height)
	return id
}

func (n *numbers) block(height uint64) index.Block[uint64] {
	b := index.Block[uint64]{Height: height, ID: n.id(height), Size: n.size, Content: height}
	if height > 0 {
		b.ParentID = n.id(height - 1)
		if height == n.fork {
			b.ParentID[0] = 2
		}
	}
	return b
}

// wait sleeps without the lock, because synctest's clock stands still while a goroutine waits for a mutex.
func (n *numbers) wait(height uint64) {
	n.mu.Lock()
	delay := time.Duration(0)
	if n.delay != nil {
		delay = n.delay(height)
	}
	n.mu.Unlock()
	time.Sleep(delay)
}

func (n *numbers) Tip(context.Context) (uint64, error) {
	n.wait(0)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trouble != nil {
		if err := n.trouble(0); err != nil {
			return 0, err
		}
	}
	return n.tip, nil
}

func (n *numbers) Fetch(_ context.Context, from uint64, most int) ([]index.Block[uint64], error) {
	n.wait(from)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trouble != nil {
		if err := n.trouble(from); err != nil {
			return nil, err
		}
	}
	if from > n.tip {
		return nil, fmt.Errorf("height %d is beyond the tip %d", from, n.tip)
	}
	if n.most > 0 {
		most = min(most, n.most)
	}
	if n.bad != 0 && from == n.bad {
		return nil, fmt.Errorf("%w: of a kind to come", index.ErrUnreadable)
	}
	var blocks []index.Block[uint64]
	for h := from; h <= n.tip && len(blocks) < most && (n.bad == 0 || h != n.bad); h++ {
		blocks = append(blocks, n.block(h))
	}
	n.fetched += uint64(len(blocks))
	return blocks, nil
}

// grow accepts more blocks.
func (n *numbers) grow(blocks uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tip += blocks
}

func (n *numbers) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// ledger is a projection with so many rows per block; each says when it was written.
type ledger struct {
	name string
	rows int
	fail uint64 // the height that it cannot apply, if any

	mu   sync.Mutex
	seen []uint64 // guarded by mu
}

func (l *ledger) Name() string { return l.name }

func (l *ledger) Apply(_ context.Context, _ store.Reader, height uint64, batch *store.Batch) error {
	l.mu.Lock()
	l.seen = append(l.seen, height)
	l.mu.Unlock()
	if l.fail != 0 && l.fail == height {
		return errors.New("it makes no sense")
	}
	for i := range l.rows {
		batch.Put(store.FamilySignature, row(l.name, height, i), binary.BigEndian.AppendUint64(nil, height))
	}
	return nil
}

func row(name string, height uint64, i int) store.PK {
	return store.PK{P: []byte(name), K: binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, height), uint32(i))}
}

// requireRows checks that a ledger's rows are those of the blocks of a range.
func requireRows(t testing.TB, s store.Store, l *ledger, from, next uint64) {
	t.Helper()
	rows, err := s.Scan(t.Context(), store.FamilySignature, []byte(l.name), nil, nil, store.Ascending, 1<<30)
	require.NoError(t, err)
	require.Len(t, rows, int(next-from)*l.rows, "rows of blocks %d to %d", from, next-1)
	for i, r := range rows {
		if want := row(l.name, from+uint64(i/l.rows), i%l.rows).K; !bytes.Equal(r.K, want) {
			t.Fatalf("row %d: got key %x, want %x", i, r.K, want)
		}
	}
	at, err := store.ReadCursor(t.Context(), s, index.Cursor(5, "N", l.name))
	require.NoError(t, err)
	require.Equal(t, next, at.Next, "cursor of %s", l.name)
}

// started is a pipeline that runs until the test stops it.
type started struct {
	*index.Pipeline[uint64]
	cancel context.CancelCauseFunc
	ended  chan error
}

func options(source index.Source[uint64], s store.Store, projections ...index.Projection[uint64]) index.Options[uint64] {
	return index.Options[uint64]{NetworkID: 5, Chain: "N", Source: source, Store: s, Projections: projections}
}

func start(t testing.TB, o index.Options[uint64]) *started {
	t.Helper()
	return succeed(t, nil, o)
}

// startFailing starts a pipeline that fails for an hour because of cause, and returns what it logs. It is for tests with
// simulated time.
func startFailing(t testing.TB, o index.Options[uint64], cause error) (*started, *bytes.Buffer) {
	t.Helper()
	logged := new(bytes.Buffer)
	o.Log = slog.New(slog.NewTextHandler(logged, nil))
	p := start(t, o)
	time.Sleep(time.Hour)
	synctest.Wait()
	status := p.Status()
	require.Equal(t, index.Retrying, status.State)
	require.ErrorIs(t, status.Err, cause)
	return p, logged
}

// succeed starts a pipeline that continues the index of last, unless that is nil.
func succeed(t testing.TB, last *index.Pipeline[uint64], o index.Options[uint64]) *started {
	t.Helper()
	p, err := index.New(o)
	require.NoError(t, err)
	if last != nil {
		last.IndexedBy(p)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &started{p, cancel, make(chan error, 1)}
	go func() { r.ended <- p.Run(ctx) }()
	return r
}

func (s *started) stop(t testing.TB) {
	t.Helper()
	s.end(t, nil)
}

// end stops the pipeline for a cause, which is store.ErrFenced at a switch of slots.
func (s *started) end(t testing.TB, cause error) {
	t.Helper()
	s.cancel(cause)
	require.NoError(t, <-s.ended)
}

// await sleeps until the pipeline has indexed all blocks below next.
func (s *started) await(t testing.TB, next uint64) {
	t.Helper()
	for begun := time.Now(); s.Status().Next < next; time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Hour {
			t.Fatalf("got %+v after an hour, want blocks below %d", s.Status(), next)
		}
	}
}

// TestCatchUpAndFollow indexes a chain from a node that answers in pieces of any size, late, and
// sometimes not at all.
func TestCatchUpAndFollow(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			source := &numbers{tip: rng.Uint64N(20_000), size: 1 + rng.IntN(2000), most: rng.IntN(3) * rng.IntN(1500)}
			source.delay = func(uint64) time.Duration { return rand.N(20 * time.Millisecond) }
			source.trouble = func(uint64) error {
				if rng.IntN(10) == 0 {
					return errAway
				}
				return nil
			}
			memory, l := store.NewMemory(), &ledger{name: "l", rows: 1 + rng.IntN(3)}
			o := options(source, memory, l)
			o.Fetchers = 1 + rng.IntN(6)
			o.WindowBytes = 1 << (8 + rng.IntN(16))
			var last uint64
			o.Committed = func(next uint64) {
				if next <= last {
					t.Errorf("%d was reported after %d", next, last)
				}
				last = next
			}
			p := start(t, o)
			p.await(t, source.tip+1)
			growth := rand.New(rand.NewPCG(seed, 2)) // rng is the source's
			for range 10 {
				source.grow(growth.Uint64N(100))
				time.Sleep(time.Duration(growth.Int64N(int64(time.Second))))
			}
			p.await(t, source.tip+1)
			require.Eventually(t, func() bool { return p.Status().State == index.Following }, time.Minute, time.Second)
			require.Equal(t, index.Status{State: index.Following, Next: source.tip + 1, Tip: source.tip, TipKnown: true, CaughtUp: true, BlocksPerSecond: p.Status().BlocksPerSecond}, p.Status())
			p.stop(t)
			require.Equal(t, index.Idle, p.Status().State)
			requireRows(t, memory, l, 0, source.tip+1)
			require.Equal(t, source.tip+1, last)
			for i, height := range l.seen {
				require.Equal(t, uint64(i), height, "every block once, in order")
			}
			require.Equal(t, source.tip+1, source.fetched, "no block is fetched twice")
		})
	}
}

// TestAtTheTip measures how long a block takes from acceptance to its rows.
func TestAtTheTip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory, l := &numbers{tip: 10}, store.NewMemory(), &ledger{name: "l", rows: 1}
		p := start(t, options(source, memory, l))
		defer p.stop(t)
		p.await(t, 11)
		synctest.Wait()
		took := func() time.Duration {
			begun := time.Now()
			p.await(t, source.tip+1)
			return time.Since(begun)
		}
		for range 20 {
			time.Sleep(37 * time.Millisecond)
			source.grow(1)
			if got := took(); got > 202*time.Millisecond {
				t.Errorf("polling: a block took %s, want at most the 200 ms between polls", got)
			}
			source.grow(1)
			p.Wake()
			if got := took(); got > time.Millisecond {
				t.Errorf("woken: a block took %s, want it at once", got)
			}
		}
		// While blocks keep coming, none waits for a batch to fill.
		for range 100 {
			source.grow(1)
			p.Wake()
			time.Sleep(10 * time.Millisecond)
			if lag := source.tip + 1 - p.Status().Next; lag > 5 {
				t.Errorf("got %d blocks that wait, want none for over 50 ms", lag)
			}
		}
	})
}

// TestNodeAway stops the node for a long time, several times.
func TestNodeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory, l := &numbers{tip: 5000, size: 100}, store.NewMemory(), &ledger{name: "l", rows: 1}
		asked := 0
		source.trouble = func(uint64) error { asked++; return errAway }
		p, logged := startFailing(t, options(source, memory, l), errAway)
		require.False(t, p.Status().CaughtUp)
		source.set(func() {
			if asked < 700 || asked > 1500 {
				t.Errorf("got %d calls in an hour, want one every 2.5 to 5 seconds", asked)
			}
			source.trouble = nil
		})
		p.await(t, 5001)
		require.Equal(t, index.Following, p.Status().State)
		require.NoError(t, p.Status().Err)
		require.True(t, p.Status().CaughtUp)
		for range 5 { // gone in the middle of things
			source.set(func() {
				source.tip += 3000
				answers := 3
				source.trouble = func(uint64) error {
					if answers--; answers > 0 {
						return nil
					}
					return errAway
				}
			})
			p.Wake()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			status := p.Status()
			require.Equal(t, index.Stalled, status.State)
			require.ErrorIs(t, status.Err, errAway)
			require.True(t, status.CaughtUp, "what was indexed is there")
			require.Positive(t, status.Lag())
			source.set(func() { source.trouble = nil })
			p.await(t, source.tip+1)
		}
		p.stop(t)
		require.False(t, p.Status().CaughtUp, "the pipeline has ended")
		requireRows(t, memory, l, 0, source.tip+1)
		require.Equal(t, source.tip+1, source.fetched)
		lines := strings.Count(logged.String(), "\n")
		if lines > 40 {
			t.Errorf("got %d lines of log, want few:\n%s", lines, logged.String())
		}
	})
}

func TestChainsThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, l := store.NewMemory(), &ledger{name: "l", rows: 1}
		source := &numbers{tip: 4000, fork: 3333}
		p := start(t, options(source, memory, l))
		err := <-p.ended
		var at *index.BlockError
		require.ErrorAs(t, err, &at)
		require.Equal(t, uint64(3333), at.Height)
		require.Equal(t, "N", at.Chain)
		require.ErrorIs(t, err, index.ErrDiscontinuity)
		require.ErrorContains(t, err, source.id(3332).String(), "it says what is indexed")
		require.Equal(t, index.Stopped, p.Status().State)
		require.Equal(t, err, p.Status().Err)
		requireRows(t, memory, l, 0, 3333)

		// A restart begins with the same block, and so do nodes of a network that was
		// reset, whatever their height.
		for name, other := range map[string]*numbers{
			"the same":           source,
			"forked at the end":  {tip: 4000, fork: 3332},
			"another from 0 on":  {tip: 4000, fork: 1},
			"another and lower?": {tip: 3333, fork: 1},
		} {
			err = <-start(t, options(other, memory, l)).ended
			require.ErrorAs(t, err, &at, name)
			require.Equal(t, uint64(3333), at.Height)
			requireRows(t, memory, l, 0, 3333)
		}
		source.fork = 0
		p = start(t, options(source, memory, l))
		p.await(t, 4001)
		p.stop(t)
		requireRows(t, memory, l, 0, 4001)
	})
}

func TestSourceWithGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, l := store.NewMemory(), &ledger{name: "l", rows: 1}
		err := <-start(t, options(gaps{&numbers{tip: 100}}, memory, l)).ended
		var at *index.BlockError
		require.ErrorAs(t, err, &at)
		require.Equal(t, uint64(51), at.Height)
		requireRows(t, memory, l, 0, 51)
	})
}

// gaps leaves out block 51.
type gaps struct{ *numbers }

func (g gaps) Fetch(ctx context.Context, from uint64, most int) ([]index.Block[uint64], error) {
	blocks, err := g.numbers.Fetch(ctx, from, most)
	for i := range blocks {
		if blocks[i].Height >= 51 {
			blocks[i].Height++
		}
	}
	return blocks, err
}

func TestUnreadableBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory, l := &numbers{tip: 4000, most: 50, bad: 2000}, store.NewMemory(), &ledger{name: "l", rows: 1}
		err := <-start(t, options(source, memory, l)).ended
		var at *index.BlockError
		require.ErrorAs(t, err, &at)
		require.ErrorIs(t, err, index.ErrUnreadable)
		require.Equal(t, uint64(2000), at.Height)
		requireRows(t, memory, l, 0, 2000)
	})
}

func TestStatusSaysWhichBlockCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, bad := range []uint64{1, 49, 50, 51, 2000} {
			p := start(t, options(&numbers{tip: 4000, most: 50, bad: bad}, store.NewMemory(), &ledger{name: "l", rows: 1}))
			require.Error(t, <-p.ended)
			s := p.Status()
			require.Equal(t, index.Stopped, s.State)
			require.Equal(t, bad, s.Next, "where it stands")
			require.ErrorContains(t, s.Err, fmt.Sprintf("indexing block %d of chain N", bad))
			require.ErrorContains(t, s.Err, "of a kind to come")
		}
	})
}

// joined are the options of a pipeline whose first projection has 3000 blocks, and whose
// second one, which is new, reads them from what is kept, slowly.
func joined(t testing.TB) (*keptNumbers, index.Options[uint64]) {
	t.Helper()
	source, memory := &keptNumbers{numbers{tip: 3000}}, store.NewMemory()
	first, second := &ledger{name: "first", rows: 1}, &ledger{name: "second", rows: 1}
	o := options(source, memory, first)
	o.Keep = true
	p := start(t, o)
	p.await(t, 3001)
	p.stop(t)
	o = options(source, &slowStore{Store: memory, delay: time.Second}, first, second)
	o.Keep, o.WindowBytes = true, 1
	return source, o
}

// TestProjectionsHaveTheirOwnStatus rebuilds one projection from stored blocks while the node is
// slow: the other one is not rebuilt, and reports its own lag.
func TestProjectionsHaveTheirOwnStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, o := joined(t)
		source.grow(10)
		p := start(t, o)
		for p.Status().State != index.Rebuilding || p.Status().Next == 0 || !p.Status().TipKnown {
			time.Sleep(time.Millisecond)
		}
		whole, one, other := p.Status(), p.StatusOf("first"), p.StatusOf("second")
		require.Equal(t, index.Rebuilding, other.State)
		require.Equal(t, whole.Next, other.Next)
		require.Equal(t, index.Following, one.State)
		require.Equal(t, uint64(3001), one.Next)
		require.Equal(t, uint64(10), one.Lag())
		p.await(t, 3011)
		for _, projection := range []string{"first", "second"} {
			require.Equal(t, index.Following, p.StatusOf(projection).State)
			require.Zero(t, p.StatusOf(projection).Lag())
		}
		p.stop(t)
	})
}

// TestProjectionStaysCaughtUp: a projection that was near the tip counts as caught up until the end,
// whatever is rebuilt meanwhile.
func TestProjectionStaysCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, o := joined(t)
		p := start(t, o)
		defer p.stop(t)
		for !p.StatusOf("first").CaughtUp {
			time.Sleep(time.Millisecond)
		}
		source.grow(100)
		for p.StatusOf("first").Lag() < 100 {
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, index.Rebuilding, p.Status().State)
		require.True(t, p.StatusOf("first").CaughtUp, "it follows, if late")
		require.False(t, p.StatusOf("second").CaughtUp)
		require.False(t, p.Status().CaughtUp)
	})
}

// TestAbsurdTip has a node that reported a height above its tip: the pipeline drops the height and all
// that was planned for it.
func TestAbsurdTip(t *testing.T) {
	for name, absurd := range map[string]uint64{"far": 1 << 60, "farther than possible": 1<<64 - 1, "a few jobs": 9000, "nearby": 520} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, first %t", name, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					source, memory, l := &numbers{tip: 500}, store.NewMemory(), &ledger{name: "l", rows: 1}
					liar := &lying{numbers: source}
					p := start(t, options(liar, memory, l))
					if !first {
						p.await(t, 501)
						time.Sleep(time.Minute)
					}
					liar.lie.Store(absurd)
					time.Sleep(10 * time.Second)
					require.Equal(t, min(absurd, 1<<63-1), p.Status().Tip)
					liar.lie.Store(0)
					time.Sleep(time.Minute)
					if absurd == 520 { // a node may lag so far
						require.Equal(t, absurd, p.Status().Tip)
						time.Sleep(5 * time.Minute)
					}
					status := p.Status()
					require.Equal(t, index.Following, status.State, "%+v", status)
					require.Equal(t, []uint64{500, 0, 501}, []uint64{status.Tip, status.Lag(), status.Next})
					require.True(t, status.CaughtUp)
					for range 10 {
						source.grow(60)
						time.Sleep(time.Second)
						require.Equal(t, source.tip+1, p.Status().Next)
						require.Equal(t, index.Following, p.Status().State)
					}
					p.stop(t)
					requireRows(t, memory, l, 0, 1101)
				})
			})
		}
	}
}

// TestLaggingNode has nodes that take turns, one of which is behind.
func TestLaggingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory, l := &numbers{tip: 5000}, store.NewMemory(), &ledger{name: "l", rows: 1}
		liar := &lying{numbers: source}
		p := start(t, options(liar, memory, l))
		defer p.stop(t)
		p.await(t, 5001)
		for i := range 100 {
			liar.lie.Store([]uint64{4990, 4000, 0}[i%3])
			time.Sleep(5 * time.Second)
			require.Equal(t, uint64(5000), p.Status().Tip)
		}
		liar.lie.Store(4000) // indexed blocks remain, whatever a node reports
		time.Sleep(time.Hour)
		require.Equal(t, uint64(5000), p.Status().Tip)
		require.Equal(t, index.Following, p.Status().State)
	})
}

// lying are numbers with another tip, unless it is 0.
type lying struct {
	*numbers
	lie atomic.Uint64
}

func (l *lying) Tip(ctx context.Context) (uint64, error) {
	if lie := l.lie.Load(); lie != 0 {
		return lie, nil
	}
	return l.numbers.Tip(ctx)
}

// keptNumbers are numbers with containers.
type keptNumbers struct{ numbers }

func (n *keptNumbers) Fetch(ctx context.Context, from uint64, most int) ([]index.Block[uint64], error) {
	blocks, err := n.numbers.Fetch(ctx, from, most)
	for i := range blocks {
		blocks[i].Container = container.Container{Height: blocks[i].Height, Form: container.Bare, Bytes: []byte("n")}
	}
	return blocks, err
}

func (n *keptNumbers) Again(_ context.Context, c container.Container) (index.Block[uint64], error) {
	b := n.block(c.Height)
	b.Container = c
	return b, nil
}

// slowStore takes its time for each commit.
type slowStore struct {
	store.Store
	delay time.Duration
}

func (s *slowStore) Commit(ctx context.Context, b *store.Batch) error {
	time.Sleep(s.delay)
	return s.Store.Commit(ctx, b)
}

func TestProjectionThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, l := store.NewMemory(), &ledger{name: "l", rows: 1, fail: 2000}
		err := <-start(t, options(&numbers{tip: 4000}, memory, l)).ended
		var at *index.BlockError
		require.ErrorAs(t, err, &at)
		require.Equal(t, uint64(2000), at.Height)
		require.ErrorContains(t, err, "it makes no sense")
		at0, err := store.ReadCursor(t.Context(), memory, index.Cursor(5, "N", "l"))
		require.NoError(t, err)
		requireRows(t, memory, l, 0, at0.Next)
	})
}

// TestProjectionsJoin adds projections to a store that has others already.
func TestProjectionsJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &numbers{tip: 3000}, store.NewMemory()
		first, second, third := &ledger{name: "first", rows: 1}, &ledger{name: "second", rows: 2}, &ledger{name: "third", rows: 1}
		p := start(t, options(source, memory, first))
		p.await(t, 3001)
		p.stop(t)
		source.grow(500)
		o := options(source, memory, first, second)
		o.Start = 1000
		p = start(t, o)
		p.await(t, 3501)
		require.Equal(t, uint64(1000), p.Status().From)
		p.stop(t)
		source.grow(500)
		p = start(t, options(source, memory, second, third, first))
		p.await(t, 4001)
		p.stop(t)
		requireRows(t, memory, first, 0, 4001)
		requireRows(t, memory, second, 1000, 4001)
		requireRows(t, memory, third, 0, 4001)
		for _, l := range []*ledger{first, second, third} {
			for i, height := range l.seen {
				require.Equal(t, l.seen[0]+uint64(i), height, "%s: every block once", l.name)
			}
		}
	})
}

func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		source, memory, l := &numbers{tip: 100}, store.NewMemory(), &ledger{name: "l", rows: 1}
		o := options(source, memory, l)
		o.Start = 150 // above the tip: it waits
		o.Log = slog.New(slog.NewTextHandler(&logged, nil))
		p := start(t, o)
		time.Sleep(time.Minute)
		require.Equal(t, index.Status{State: index.Following, From: 150, Next: 150, Tip: 100, TipKnown: true, CaughtUp: true}, p.Status())
		source.grow(100)
		p.await(t, 201)
		p.stop(t)
		requireRows(t, memory, l, 150, 201)
		require.NotContains(t, logged.String(), "reach back")
		o.Start = 0
		source.grow(1)
		p = start(t, o)
		p.await(t, 202)
		p.stop(t)
		requireRows(t, memory, l, 150, 202)
		require.Contains(t, logged.String(), "begins later than configured")
	})
}

// TestFencing has two pipelines on one store: only the later one continues.
func TestFencing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory, l := &numbers{tip: 10_000, most: 10}, store.NewMemory(), &ledger{name: "l", rows: 1}
		source.delay = func(uint64) time.Duration { return 10 * time.Millisecond }
		first := start(t, options(source, memory, l))
		first.await(t, 500)
		second := start(t, options(source, memory, &ledger{name: "l", rows: 1}))
		err := <-first.ended
		require.ErrorIs(t, err, store.ErrFenced)
		require.ErrorContains(t, err, "taken over")
		status := first.Status()
		require.Equal(t, index.CatchingUp, status.State) // the index goes on
		require.NoError(t, status.Err)
		first.Fail(err) // as if it did not
		require.Equal(t, index.Stopped, first.Status().State)
		second.await(t, 10_001)
		second.stop(t)
		requireRows(t, memory, l, 0, 10_001)
	})
}

// TestFencedWithOthers has a pipeline of another chain notice that both were taken over, or that the store is away.
// What is indexed stays caught up, unlike after a stop.
func TestFencedWithOthers(t *testing.T) {
	for _, test := range []struct {
		name  string
		cause error
		want  bool
	}{
		{"fenced", fmt.Errorf("indexing the X-Chain: %w", store.ErrFenced), true},
		{"asked to stop", nil, false},
		{"the store was away", fmt.Errorf("indexing the X-Chain: %w", store.ErrUnavailable), true},
		{"another failure", store.ErrCorrupt, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, memory := &numbers{tip: 100}, store.NewMemory()
				p, err := index.New(options(source, memory, &ledger{name: "l", rows: 1}))
				require.NoError(t, err)
				ctx, end := context.WithCancelCause(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- p.Run(ctx) }()
				synctest.Wait()
				time.Sleep(time.Minute)
				require.True(t, p.StatusOf("l").CaughtUp)
				end(test.cause)
				require.NoError(t, <-ended)
				require.Equal(t, test.want, p.Status().CaughtUp)
				require.Equal(t, test.want, p.StatusOf("l").CaughtUp)
			})
		})
	}
}

// TestRace starts many pipelines at once: exactly one continues.
func TestRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, memory := &numbers{tip: 2000}, store.NewMemory()
		all := make([]*started, 8)
		for i := range all {
			all[i] = start(t, options(source, memory, &ledger{name: "l", rows: 1}))
		}
		for range 5 {
			source.grow(100)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		alive := 0
		for _, p := range all {
			select {
			case err := <-p.ended:
				require.ErrorIs(t, err, store.ErrFenced)
			default:
				alive++
				p.stop(t)
			}
		}
		require.Equal(t, 1, alive)
		requireRows(t, memory, &ledger{name: "l", rows: 1}, 0, 2501)
	})
}

// watched checks what is committed, and fails if check does.
type watched struct {
	store.Store
	check func(*store.Batch)
	// fail is asked at each commit: whether to write, and what to answer.
	fail func() (write bool, err error)
}

func (w *watched) Commit(ctx context.Context, b *store.Batch) error {
	if w.check != nil {
		w.check(b)
	}
	if w.fail != nil {
		write, err := w.fail()
		if write {
			if err := w.Store.Commit(ctx, b); err != nil {
				return err
			}
		}
		return err
	}
	return w.Store.Commit(ctx, b)
}

// TestStoreThatFails fails commits in both ways: after the write, and before it.
func TestStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 3))
		memory, l := store.NewMemory(), &ledger{name: "l", rows: 1}
		w := &watched{Store: memory}
		w.fail = func() (bool, error) {
			write := rng.IntN(2) == 0
			if rng.IntN(3) == 0 {
				return true, nil
			}
			return write, errors.New("connection lost")
		}
		source := &numbers{tip: 3000, size: 1000}
		o := options(source, w, l)
		o.WindowBytes = 400_000
		p := start(t, o)
		for range 20 {
			source.grow(10)
			time.Sleep(30 * time.Second)
		}
		p.await(t, source.tip+1)
		p.stop(t)
		requireRows(t, memory, l, 0, source.tip+1)

		// An error that a retry cannot mend ends the pipeline.
		for _, final := range []error{store.ErrClosed, store.ErrCorrupt, store.ErrInvalid} {
			begun := false
			w.fail = func() (bool, error) {
				if !begun {
					begun = true
					return true, nil
				}
				return false, fmt.Errorf("committing: %w", final)
			}
			source.grow(10)
			require.ErrorIs(t, <-start(t, o).ended, final)
		}
		// Taken over while it was not sure.
		tries := 0
		w.fail = func() (bool, error) {
			if tries++; tries == 1 {
				return true, nil
			}
			if tries == 2 {
				name := index.Cursor(5, "N", "l")
				at, err := store.ReadCursor(t.Context(), memory, name)
				require.NoError(t, err)
				var b store.Batch
				b.Move(name, at, store.Cursor{Next: at.Next, Epoch: at.Epoch + 1})
				require.NoError(t, memory.Commit(t.Context(), &b))
				return false, errors.New("connection lost")
			}
			return true, nil
		}
		require.ErrorIs(t, <-start(t, o).ended, store.ErrFenced)
	})
}

// TestBounds checks the memory that fetched blocks and batches take.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window, fetchers, size = 16 << 20, 3, 1 << 20
		memory, l := store.NewMemory(), &ledger{name: "l", rows: 7000}
		source := &numbers{tip: 60, size: size, most: 5}
		var committed atomic.Uint64
		source.trouble = func(uint64) error {
			if held := (source.fetched - committed.Load()) * size; held > window+fetchers*5*size {
				t.Errorf("got %d bytes fetched and not committed, want at most %d and an answer per fetcher", held, window)
			}
			return nil
		}
		commits := 0
		w := &watched{Store: memory, check: func(b *store.Batch) {
			commits++
			if b.Len() > 20_000+7000 || b.Bytes() > 4<<20+7000*100 {
				t.Errorf("got a batch of %d rows and %d bytes", b.Len(), b.Bytes())
			}
			time.Sleep(50 * time.Millisecond) // slower than fetching
		}}
		o := options(source, w, l)
		o.Fetchers, o.WindowBytes = fetchers, window
		o.Committed = committed.Store
		p := start(t, o)
		p.await(t, 61)
		p.stop(t)
		requireRows(t, memory, l, 0, 61)
		if commits < 15 {
			t.Errorf("got %d commits, want one per 3 blocks or so", commits)
		}
	})
}

// TestBlocksGreaterThanTheWindow must not wait for room that never comes.
func TestBlocksGreaterThanTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, l := store.NewMemory(), &ledger{name: "l", rows: 1}
		o := options(&numbers{tip: 3000, size: 5000, most: 3}, memory, l)
		o.WindowBytes = 1000
		p := start(t, o)
		begun := time.Now()
		p.await(t, 3001)
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("took %s", took)
		}
		p.stop(t)
		requireRows(t, memory, l, 0, 3001)
	})
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &numbers{tip: 100_000, most: 10}
		source.delay = func(uint64) time.Duration { return 10 * time.Millisecond } // 1,000 blocks/s
		o := options(source, store.NewMemory(), &ledger{name: "l", rows: 1})
		o.Fetchers = 1
		p := start(t, o)
		defer p.stop(t)
		for range 10 {
			time.Sleep(5 * time.Second)
			status := p.Status()
			require.Equal(t, index.CatchingUp, status.State)
			require.Equal(t, 100_001-status.Next, status.Lag())
			require.InDelta(t, 1000, status.BlocksPerSecond, 150)
		}
	})
}

// An index that stands still has no rate, from which the time that is left would be computed.
func TestRateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &numbers{tip: 100_000, most: 10}
		source.delay = func(height uint64) time.Duration {
			if height > 30_000 {
				return time.Hour
			}
			return 10 * time.Millisecond
		}
		o := options(source, store.NewMemory(), &ledger{name: "l", rows: 1})
		o.Fetchers = 1
		p := start(t, o)
		defer p.stop(t)
		p.await(t, 30_001)
		require.InDelta(t, 1000, p.Status().BlocksPerSecond, 150)
		time.Sleep(time.Minute)
		require.Equal(t, index.CatchingUp, p.Status().State)
		require.Zero(t, p.Status().BlocksPerSecond)
		require.Zero(t, p.StatusOf("l").BlocksPerSecond)
	})
}

func TestMistakes(t *testing.T) {
	source, memory := &numbers{}, store.NewMemory()
	defer memory.Close()
	for name, o := range map[string]index.Options[uint64]{
		"no source":      options(nil, memory, &ledger{name: "l"}),
		"no store":       options(source, nil, &ledger{name: "l"}),
		"no projections": options(source, memory),
		"the same name":  options(source, memory, &ledger{name: "l"}, &ledger{name: "l"}),
	} {
		_, err := index.New(o)
		require.Error(t, err, name)
	}
	synctest.Test(t, func(t *testing.T) {
		p := start(t, options(source, store.NewMemory(), &ledger{name: "l"}))
		p.await(t, 1)
		require.ErrorContains(t, p.Run(t.Context()), "runs already")
		p.stop(t)
		require.NoError(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return p.Run(ctx)
		}(), "once it has ended it may run again")
	})
}

// TestMarkDamaged: a store without the row that goes with a cursor is damaged.
func TestMarkDamaged(t *testing.T) {
	for _, v := range [][]byte{nil, {}, {1}, {9, 0}, {1, 0, 1}, {1, 0x80}} {
		memory := store.NewMemory()
		name := index.Cursor(5, "N", "l")
		var b store.Batch
		b.Move(name, store.Cursor{}, store.Cursor{Next: 7, Epoch: 1})
		if v != nil {
			b.Put(store.FamilyIndexed, store.PK{P: []byte(name)}, v)
		}
		require.NoError(t, memory.Commit(t.Context(), &b))
		p, err := index.New(options(&numbers{tip: 10}, memory, &ledger{name: "l"}))
		require.NoError(t, err)
		require.ErrorIs(t, p.Run(t.Context()), store.ErrCorrupt, "%x", v)
		require.NoError(t, memory.Close())
	}
}

// TestOneBatchAhead: while a batch is written, which takes a second, only the next one fills.
// The pipeline ends after both.
func TestOneBatchAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, l := store.NewMemory(), &ledger{name: "l", rows: 5000} // 4 blocks are a batch
		var writing atomic.Int32
		var ahead atomic.Int64
		w := &watched{Store: memory, check: func(b *store.Batch) {
			if b.Len() < 5000 {
				return // taking over
			}
			require.Equal(t, int32(1), writing.Add(1), "batches being written at a time")
			time.Sleep(time.Second)
			l.mu.Lock()
			ahead.Store(max(ahead.Load(), int64(l.seen[len(l.seen)-1])))
			l.mu.Unlock()
			writing.Add(-1)
		}}
		p := start(t, options(&numbers{tip: 100}, w, l))
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, int64(7), ahead.Load(), "the last block applied when blocks 0 to 3 were written")
		require.Equal(t, uint64(4), p.Status().Next)
		p.stop(t)
		require.Equal(t, int32(0), writing.Load(), "batches being written when the pipeline has ended")
		// The second batch was called off before it was written.
		requireRows(t, memory, l, 0, 4)
	})
}
