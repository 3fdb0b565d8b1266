package index_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/store"
)

// held counts the bytes of blocks that were fetched and are not committed, of all chains.
type held struct {
	mu        sync.Mutex
	now, most int64 // guarded by mu
}

func (h *held) add(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += n
	h.most = max(h.most, h.now)
}

// oneOfMany is a chain among others.
type oneOfMany struct {
	numbers
	held *held
	tips int    // how often its node was asked for the height; guarded by mu
	next uint64 // the first that is not committed; guarded by mu
}

func (w *oneOfMany) Tip(ctx context.Context) (uint64, error) {
	w.set(func() { w.tips++ })
	return w.numbers.Tip(ctx)
}

func (w *oneOfMany) Fetch(ctx context.Context, from uint64, n int) ([]index.Block[uint64], error) {
	blocks, err := w.numbers.Fetch(ctx, from, n)
	w.held.add(int64(len(blocks) * w.size))
	return blocks, err
}

func (w *oneOfMany) committed(next uint64) {
	w.set(func() {
		w.held.add(-int64(next-w.next) * int64(w.size))
		w.next = next
	})
}

// behind is how many blocks of a chain are not committed.
func (w *oneOfMany) behind() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tip + 1 - w.next
}

// TestManyChains indexes fifty chains at a time: their memory is bounded together, none delays the
// others, and at the tip they cost next to nothing.
func TestManyChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			chains, size, roomBytes = 50, 10_000, 8 << 20
			quiet, pause            = 2 * time.Second, 100 * time.Millisecond
		)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rows, room, all := store.NewMemory(), index.NewRoom(roomBytes), new(held)
		list := make([]*oneOfMany, chains)
		pipelines := make([]*index.Pipeline[uint64], chains)
		var running sync.WaitGroup
		before := runtime.NumGoroutine()
		for i := range list {
			w := &oneOfMany{held: all, numbers: numbers{tip: 1000, size: size, delay: func(uint64) time.Duration { return pause }}}
			list[i] = w
			o := options(w, rows, &ledger{name: "l" + strconv.Itoa(i), rows: 1})
			o.Chain, o.Poll, o.QuietPoll, o.Room, o.Committed = strconv.Itoa(i), 0, quiet, room, w.committed
			p, err := index.New(o)
			require.NoError(t, err)
			pipelines[i] = p
			running.Go(func() {
				if err := p.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		others := func() (most uint64) {
			for _, w := range list[1:] {
				most = max(most, w.behind())
			}
			return most
		}
		for begun := time.Now(); others() > 0 || list[0].behind() > 0; time.Sleep(pause) {
			require.Less(t, time.Since(begun), 10*time.Minute, "a chain is %d blocks behind", max(others(), list[0].behind()))
		}
		// Each may have a block that it cannot go on without.
		require.LessOrEqual(t, all.most, int64(roomBytes+chains*size), "bytes in memory of all chains")
		require.Greater(t, all.most, int64(roomBytes/2), "bytes in memory: the room is made use of")

		time.Sleep(time.Minute) // until nodes are asked as rarely as they ever are
		require.LessOrEqual(t, runtime.NumGoroutine()-before, chains*12, "goroutines at the tip")
		require.Zero(t, room.Held(), "bytes in memory at the tip")
		asked := make([]int, chains)
		for i, w := range list {
			w.set(func() { asked[i] = w.tips })
		}
		const idle = time.Minute
		time.Sleep(idle)
		for i, w := range list {
			w.set(func() { asked[i] = w.tips - asked[i] })
			require.LessOrEqual(t, asked[i], int(idle/quiet)+1, "requests in a minute to chain %d", i)
			require.GreaterOrEqual(t, asked[i], int(idle/(quiet+pause))-1, "requests in a minute to chain %d", i)
		}

		// While one catches up again, the others stay where their chains are.
		cycles := 0
		list[0].grow(20_000)
		pipelines[0].Wake()
		time.Sleep(time.Second)
		for list[0].behind() > 0 {
			for i, w := range list[1:] {
				w.grow(1)
				pipelines[i+1].Wake()
			}
			cycles++
			left := list[0].behind()
			require.Less(t, cycles, 200, "one chain is kept waiting, with %d blocks to go", left)
			time.Sleep(3*pause + 100*time.Millisecond) // asking, asking again, fetching and committing
			require.Zero(t, others(), "blocks that others are behind, while one has %d to go", left)
		}
		require.LessOrEqual(t, all.most, int64(roomBytes+chains*size), "bytes in memory of all chains")
		cancel()
		running.Wait()
	})
}
