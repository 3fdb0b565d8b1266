package index_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/retry"
	"quorate/internal/store"
)

// oneForm is an index with one row per block of a chain.
var oneForm = index.Form{Name: "one", Version: 2, Families: []store.Family{store.FamilyL1Tx}, Cursor: index.CursorOf("one")}

const oneChain = "P"

// fakePart indexes numbered rows up to a height.
type fakePart struct {
	store store.Store
	chain string // default oneChain
	until uint64
	fails error
	lacks atomic.Pointer[string]
}

func (p *fakePart) Run(ctx context.Context) error {
	if p.fails != nil {
		return p.fails
	}
	name := p.Cursors()[0]
	at, err := store.ReadCursor(ctx, p.store, name)
	if err != nil {
		return err
	}
	for next := at.Next; next < p.until; next++ {
		var b store.Batch
		b.Put(store.FamilyL1Tx, store.PK{P: []byte{byte(next)}}, []byte("new"))
		b.Move(name, at, store.Cursor{Next: next + 1, Epoch: at.Epoch})
		if err := p.store.Commit(ctx, &b); err != nil {
			return err
		}
		at.Next++
	}
	<-ctx.Done()
	return nil
}

func (p *fakePart) Cursors() []string {
	return []string{index.Cursor(5, cmp.Or(p.chain, oneChain), "one")}
}

func (*fakePart) Stopped() error { return nil }

func (p *fakePart) Lacks(context.Context) (string, error) {
	if text := p.lacks.Load(); text != nil {
		return *text, nil
	}
	return "", nil
}

// served returns slots whose active rows are old.
func served(t *testing.T, raw store.Store, blocks uint64) *index.Slots {
	t.Helper()
	slots, err := index.OpenSlots(t.Context(), raw, index.PrimarySlots, oneForm)
	require.NoError(t, err)
	require.NoError(t, index.Upgrade(t.Context(), slots.Store(), slog.New(slog.DiscardHandler), oneForm))
	var b store.Batch
	b.Put(store.FamilyL1Tx, store.PK{P: []byte{0}}, []byte("old"))
	b.Move(index.Cursor(5, oneChain, "one"), store.Cursor{}, store.Cursor{Next: blocks, Epoch: 1})
	require.NoError(t, slots.Store().Commit(t.Context(), &b))
	return slots
}

func valueOf(t *testing.T, slots *index.Slots) string {
	t.Helper()
	values, err := slots.Store().Get(t.Context(), store.FamilyL1Tx, []store.PK{{P: []byte{0}}})
	require.NoError(t, err)
	return string(values[0])
}

// TestFailedRebuildIsRepeated lets a rebuild fail in Open and in a part, wait for what the new rows lack, and end. The
// status of another process and the metrics have the reason meanwhile.
func TestFailedRebuildIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := store.NewMemory()
		slots := served(t, raw, 9)
		other, err := index.OpenSlots(t.Context(), raw, index.PrimarySlots, oneForm)
		require.NoError(t, err)
		require.NoError(t, slots.Ask(t.Context()))
		var failure atomic.Pointer[string]
		text := "no room on the disk"
		failure.Store(&text)
		var opened atomic.Int64
		lacks := "call traces of 3 blocks"
		part := &fakePart{until: 9}
		part.lacks.Store(&lacks)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- slots.Run(ctx, index.Rebuilder{Log: slog.New(slog.DiscardHandler), Open: func(_ context.Context, beside store.Store, _ func(string)) ([]index.Part, error) {
				opened.Add(1)
				if text := failure.Load(); text != nil && opened.Load()%2 == 0 {
					return nil, errors.New(*text)
				} else if text != nil {
					return []index.Part{&fakePart{fails: errors.New(*text)}}, nil
				}
				part.store = beside
				return []index.Part{part}, nil
			}})
		}()
		status := func() *index.RebuildStatus {
			synctest.Wait()
			s, err := other.Status(t.Context())
			require.NoError(t, err)
			return s
		}
		metric := func(name string) float64 { return metricOf(t, slots, "quorate_index_rebuild_"+name) }

		time.Sleep(10 * time.Minute)
		got := status()
		require.NotNil(t, got.Trouble, "a failing rebuild gives no reason")
		require.Contains(t, got.Trouble.Reason, "no room on the disk")
		require.False(t, got.Trouble.Waiting)
		require.WithinDuration(t, time.Now().Add(-10*time.Minute), got.Trouble.Since, time.Minute)
		require.Equal(t, 1.0, metric("failing"))
		require.InDelta(t, float64(opened.Load()), metric("failures_total"), 1)
		require.Greater(t, opened.Load(), int64(8), "attempts in 10 minutes")
		require.Less(t, opened.Load(), int64(40), "attempts in 10 minutes")
		require.Equal(t, "old", valueOf(t, other), "the old rows serve")

		failure.Store(nil)
		time.Sleep(5 * time.Minute)
		got = status()
		require.NotNil(t, got.Trouble)
		require.True(t, got.Trouble.Waiting)
		require.Equal(t, lacks, got.Trouble.Reason)
		require.Equal(t, 100, got.Percent)
		require.Equal(t, index.RebuildBeside, got.Stage)
		require.Equal(t, "old", valueOf(t, other))

		part.lacks.Store(nil)
		time.Sleep(10 * time.Second)
		got = status()
		require.Equal(t, index.RebuildDone, got.Stage)
		require.Nil(t, got.Trouble)
		require.Zero(t, metric("failing"))
		require.NoError(t, other.Refresh(t.Context()))
		require.Equal(t, "new", valueOf(t, other))
		time.Sleep(2 * time.Minute)
		require.Nil(t, status(), "the rebuild is over")
		end()
		require.NoError(t, <-done)
	})
}

// TestRebuildHasChainsThatBegin has a chain begin to be indexed after the parts of a rebuild were opened. The switch would
// lose its rows. The rows of a chain that is not indexed any more do not hold it up.
func TestRebuildHasChainsThatBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := store.NewMemory()
		slots := served(t, raw, 9)
		advance := func(chain string, from, to store.Cursor) {
			var b store.Batch
			b.Move(index.Cursor(5, chain, "one"), from, to)
			require.NoError(t, slots.Store().Commit(t.Context(), &b))
		}
		advance("gone", store.Cursor{}, store.Cursor{Next: 100, Epoch: 1})
		require.NoError(t, slots.Ask(t.Context()))
		ctx, end := context.WithCancel(t.Context())
		done, opened := make(chan error, 1), new(atomic.Int64)
		lacks := "a trace"
		go func() {
			pauses := retry.Pauses{First: 10 * time.Second, Longest: time.Minute}
			done <- slots.Run(ctx, index.Rebuilder{Log: slog.New(slog.DiscardHandler), Pauses: pauses, Open: func(_ context.Context, beside store.Store, _ func(string)) ([]index.Part, error) {
				first := &fakePart{store: beside, until: 9}
				if opened.Add(1) == 1 {
					first.lacks.Store(&lacks)
					time.AfterFunc(time.Minute, func() {
						advance("late", store.Cursor{}, store.Cursor{Next: 3, Epoch: 1})
						first.lacks.Store(nil)
					})
					return []index.Part{first}, nil
				}
				return []index.Part{first, &fakePart{store: beside, chain: "late", until: 3}}, nil
			}})
		}()
		time.Sleep(62 * time.Second)
		got, err := slots.Status(t.Context())
		require.NoError(t, err)
		require.Contains(t, got.Trouble.Reason, "index/5/late/one is indexed, but not rebuilt")
		time.Sleep(30 * time.Second)
		require.EqualValues(t, 2, opened.Load())
		require.EqualValues(t, 1, slots.Switches())
		at, err := store.ReadCursor(t.Context(), slots.Store(), index.Cursor(5, "late", "one"))
		require.NoError(t, err)
		require.EqualValues(t, 3, at.Next)
		end()
		require.NoError(t, <-done)
	})
}

// TestRebuildWithoutParts rebuilds an index that no configured chain has. The rebuild ends at once and keeps the rows that
// are there. If nothing is indexed, it is not requested again because of their version.
func TestRebuildWithoutParts(t *testing.T) {
	for name, blocks := range map[string]uint64{"indexed": 9, "not indexed": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := slog.New(slog.DiscardHandler)
				raw := store.NewMemory()
				served(t, raw, blocks)
				form := oneForm
				form.Version, form.Reads = 3, 2
				slots, err := index.OpenSlots(t.Context(), raw, index.PrimarySlots, form)
				require.NoError(t, err)
				require.NoError(t, index.Upgrade(t.Context(), slots.Store(), log, form))
				require.NoError(t, slots.AskIfOlder(t.Context()))
				ctx, end := context.WithCancel(t.Context())
				done, opened := make(chan error, 1), 0
				go func() {
					done <- slots.Run(ctx, index.Rebuilder{Log: log, Open: func(context.Context, store.Store, func(string)) ([]index.Part, error) {
						if opened++; opened > 9 {
							end() // a loop without a pause would last forever: it does not advance the clock
						}
						return nil, nil
					}})
				}()
				time.Sleep(5 * time.Second)
				end()
				require.NoError(t, <-done)
				require.Equal(t, 1, opened)
				stage, err := slots.Stage(t.Context())
				require.NoError(t, err)
				require.Equal(t, index.NoRebuild, stage)
				require.Zero(t, slots.Switches())
				require.Equal(t, "old", valueOf(t, slots), "the rows are deleted")

				require.NoError(t, slots.AskIfOlder(t.Context()))
				stage, err = slots.Stage(t.Context())
				require.NoError(t, err)
				if blocks > 0 {
					require.Equal(t, index.RebuildAsked, stage, "the rows are of an older version")
				} else {
					require.Equal(t, index.NoRebuild, stage)
				}
			})
		})
	}
}

// metricOf returns the value of a metric without labels that vary.
func metricOf(t *testing.T, c prometheus.Collector, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestRebuildIsCancelled cancels a rebuild that waits in Open, and one that fills the other slot.
func TestRebuildIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := store.NewMemory()
		slots := served(t, raw, 9)
		require.ErrorIs(t, slots.Cancel(t.Context()), index.ErrNoRebuild)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		var waits atomic.Bool
		waits.Store(true)
		go func() {
			done <- slots.Run(ctx, index.Rebuilder{Log: slog.New(slog.DiscardHandler), Open: func(ctx context.Context, beside store.Store, waiting func(string)) ([]index.Part, error) {
				if waits.Load() {
					waiting("network fuji is not open")
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return []index.Part{&fakePart{store: beside, until: 5}}, nil
			}})
		}()
		for _, waiting := range []bool{true, false} {
			waits.Store(waiting)
			require.NoError(t, slots.Ask(t.Context()))
			time.Sleep(time.Minute)
			got, err := slots.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, index.RebuildBeside, got.Stage)
			require.Equal(t, waiting, got.Trouble != nil)
			require.NoError(t, slots.Cancel(t.Context()))
			time.Sleep(time.Minute)
			got, err = slots.Status(t.Context())
			require.NoError(t, err)
			require.Nil(t, got)
			rows, err := raw.Walk(t.Context(), store.FamilyL1Tx.Twin(), nil, 10)
			require.NoError(t, err)
			require.Empty(t, rows)
			require.Equal(t, "old", valueOf(t, slots))
		}
		end()
		require.NoError(t, <-done)
	})
}

// TestUnreadableRowsAreNamed upgrades a form whose old rows cannot be read. The status says so until as many blocks are
// indexed again.
func TestUnreadableRowsAreNamed(t *testing.T) {
	raw := store.NewMemory()
	served(t, raw, 8)
	newer := oneForm
	newer.Version++
	slots, err := index.OpenSlots(t.Context(), raw, index.PrimarySlots, newer)
	require.NoError(t, err)
	require.NoError(t, index.Upgrade(t.Context(), slots.Store(), slog.New(slog.DiscardHandler), newer))
	name := index.Cursor(5, oneChain, "one")
	for _, next := range []uint64{0, 4, 8} {
		at, err := store.ReadCursor(t.Context(), slots.Store(), name)
		require.NoError(t, err)
		var b store.Batch
		b.Move(name, at, store.Cursor{Next: next, Epoch: at.Epoch})
		require.NoError(t, slots.Store().Commit(t.Context(), &b))
		got, err := slots.Status(t.Context())
		require.NoError(t, err)
		if next == 8 {
			require.Nil(t, got)
			continue
		}
		require.Equal(t, []index.Replaced{{FormChange: index.FormChange{Name: "one", From: 2, To: 3}, Percent: int(100 * next / 8)}}, got.Replaced)
		require.Equal(t, index.NoRebuild, got.Stage)
	}
}

// TestSwitchFencesWriters switches slots while a writer of each has the same height and the same epoch. Neither may write
// to the slot that serves from then on: the state in memory of the one belongs to the other slot, and the other one may
// write beside the indexer that takes over.
func TestSwitchFencesWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := store.NewMemory()
		slots := served(t, raw, 9)
		name, at := index.Cursor(5, oneChain, "one"), store.Cursor{Next: 9, Epoch: 1}
		var beside store.Store
		require.NoError(t, slots.Ask(t.Context()))
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- slots.Run(ctx, index.Rebuilder{Log: slog.New(slog.DiscardHandler), Open: func(ctx context.Context, s store.Store, _ func(string)) ([]index.Part, error) {
				var b store.Batch
				b.Move(name, store.Cursor{}, store.Cursor{Epoch: at.Epoch}) // as a pipeline takes over
				beside = s
				return []index.Part{&fakePart{store: s, until: at.Next}}, s.Commit(ctx, &b)
			}})
		}()
		time.Sleep(10 * time.Second)
		got, err := slots.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, index.RebuildDone, got.Stage)
		for who, writer := range map[string]store.Store{"the old slot": slots.Store(), "the rebuilt slot": beside} {
			var b store.Batch
			b.Put(store.FamilyL1Tx, store.PK{P: []byte{9}}, []byte("from memory"))
			b.Move(name, at, store.Cursor{Next: at.Next + 1, Epoch: at.Epoch})
			require.ErrorIs(t, writer.Commit(t.Context(), &b), store.ErrFenced, "the writer of %s", who)
		}
		end()
		require.NoError(t, <-done)
	})
}

// TestSwitchFencesLateTakeover has a process take over the old slot because it has not observed the switch. Once it
// observes it, it must not write to the slot that serves: its state in memory belongs to the other slot.
func TestSwitchFencesLateTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := store.NewMemory()
		slots := served(t, raw, 9)
		late, err := index.OpenSlots(t.Context(), raw, index.PrimarySlots, oneForm)
		require.NoError(t, err)
		name := index.Cursor(5, oneChain, "one")
		require.NoError(t, slots.Ask(t.Context()))
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- slots.Run(ctx, index.Rebuilder{Log: slog.New(slog.DiscardHandler), Open: func(ctx context.Context, s store.Store, _ func(string)) ([]index.Part, error) {
				var b store.Batch
				b.Move(name, store.Cursor{}, store.Cursor{Epoch: 2}) // as a pipeline that was begun twice
				return []index.Part{&fakePart{store: s, until: 9}}, s.Commit(ctx, &b)
			}})
		}()
		time.Sleep(10 * time.Second)
		stage, err := slots.Stage(t.Context())
		require.NoError(t, err)
		require.Equal(t, index.RebuildDone, stage)

		for range 3 {
			was, err := store.ReadCursor(t.Context(), late.Store(), name)
			require.NoError(t, err)
			own := store.Cursor{Next: was.Next, Epoch: was.Epoch + 1}
			var b store.Batch
			b.Move(name, was, own)
			require.NoError(t, late.Store().Commit(t.Context(), &b), "taking over the old slot")

			now, err := index.OpenSlots(t.Context(), raw, index.PrimarySlots, oneForm)
			require.NoError(t, err)
			b.Reset()
			b.Put(store.FamilyL1Tx, store.PK{P: []byte{9}}, []byte("from memory"))
			b.Move(name, own, store.Cursor{Next: own.Next + 1, Epoch: own.Epoch})
			require.ErrorIs(t, now.Store().Commit(t.Context(), &b), store.ErrFenced, "epoch %d", own.Epoch)
		}
		end()
		require.NoError(t, <-done)
	})
}
