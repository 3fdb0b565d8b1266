package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"quorate/internal/store"
	"quorate/internal/webhook"
)

// unsure writes one batch of a webhook and says that it does not know whether it did.
type unsure struct {
	store.Store
	next *atomic.Bool
}

func (s unsure) Commit(ctx context.Context, b *store.Batch) error {
	err := s.Store.Commit(ctx, b)
	if err == nil && s.next.CompareAndSwap(true, false) {
		return fmt.Errorf("%w: unknown whether a batch was written", store.ErrUnavailable)
	}
	return err
}

// TestUnsureWrite has a message be written by a commit whose result is unknown. It is delivered, once.
func TestUnsureWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := new(atomic.Bool)
		b := newBenchOn(t, unsure{store.NewMemory(), next})
		b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
		defer b.work(t, nil)()
		time.Sleep(5 * time.Second)
		next.Store(true)
		b.chain.tip.Store(1)
		time.Sleep(5 * time.Minute)
		require.False(t, next.Load())
		require.Equal(t, []int{1}, b.to.heights())
	})
}

// addressed has events for webhooks that watch "x".
type addressed struct{ *counter }

type addressedBlock struct{ webhook.Block }

func (c addressed) Block(ctx context.Context, height uint64) (webhook.Block, error) {
	b, err := c.counter.Block(ctx, height)
	return addressedBlock{b}, err
}

func (b addressedBlock) Events(ctx context.Context, w *webhook.Webhook) ([]webhook.Event, error) {
	if !slices.Contains(w.Addresses, "x") {
		return nil, nil
	}
	return b.Block.Events(ctx, w)
}

// TestBlockAfterChange has a block be indexed just after an address was added. Its events are reported, whenever that is
// between two looks of the worker.
func TestBlockAfterChange(t *testing.T) {
	for i := range 10 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
			defer b.workOn(t, addressed{b.chain}, nil)()
			time.Sleep(5*time.Second + time.Duration(i)*100*time.Millisecond)
			_, err := b.book.Change(t.Context(), "ann", b.hook.ID, func(w *webhook.Webhook) error {
				w.Addresses = []string{"x"}
				return nil
			})
			require.NoError(t, err)
			b.chain.tip.Store(1)
			time.Sleep(time.Minute)
			require.Equal(t, []int{1}, b.to.heights(), "%d ms after a look", 100*i)
		})
	}
}

// TestManyChanges has a webhook change all the time. Events are reported meanwhile.
func TestManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
		defer b.work(t, nil)()
		for i := range 600 {
			_, err := b.book.Change(t.Context(), "ann", b.hook.ID, func(w *webhook.Webhook) error {
				w.Addresses = []string{fmt.Sprint(i)}
				return nil
			})
			require.NoError(t, err)
			if i%10 == 9 {
				b.chain.tip.Add(1)
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.GreaterOrEqual(t, len(b.to.heights()), 57)
	})
}

// pruned lacks blocks below 10 until restored is set.
type pruned struct {
	*counter
	restored atomic.Bool
}

func (c *pruned) Block(ctx context.Context, height uint64) (webhook.Block, error) {
	if height < 10 && !c.restored.Load() {
		return nil, fmt.Errorf("block %d is pruned", height)
	}
	return c.counter.Block(ctx, height)
}

// TestMissingBlock has a webhook need a block that no node has. Another one that is behind goes on. The log and the
// metrics show the first one until a node has the block; then it reports all events.
func TestMissingBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t) // a webhook at block 1
		b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
		b.chain.tip.Store(60)
		other, err := b.book.Create(t.Context(), webhook.Webhook{Owner: "ann", URL: "https://example.org/other", EventType: webhook.AddressActivity, Chain: "test", From: 40})
		require.NoError(t, err)
		chain := &pruned{counter: b.chain}
		registry := prometheus.NewRegistry()
		var log bytes.Buffer // written by one goroutine at a time
		defer runWorker(t, webhook.Options{
			Book: b.book, Transport: b.to, Metrics: registry, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Source: func(string) (webhook.Source, bool) { return chain, true },
		})()
		time.Sleep(time.Hour)
		require.Equal(t, upTo(40, 60), b.to.heights())
		require.Equal(t, 1.0, valueOf(t, registry, "quorate_webhook_failing"))
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), "%s", &log)
		require.Contains(t, log.String(), "webhook="+b.hook.ID)
		require.Contains(t, log.String(), "block=1 ")
		require.NotContains(t, log.String(), other.ID)
		chain.restored.Store(true)
		time.Sleep(time.Minute)
		require.Equal(t, upTo(1, 60), b.to.heights())
		require.Zero(t, valueOf(t, registry, "quorate_webhook_failing"))
	})
}

// valueOf returns the value of a metric without labels.
func valueOf(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "no metric "+name)
	return 0
}

// TestFailureOfStorePasses has the store fail while a chain has no new blocks. The webhook does not fail any more once the
// store is back.
func TestFailureOfStorePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := new(atomic.Bool)
		b := newBenchOn(t, unsure{store.NewMemory(), next})
		b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
		registry := prometheus.NewRegistry()
		defer b.work(t, registry)()
		time.Sleep(5 * time.Second)
		next.Store(true)
		b.chain.tip.Store(1)
		time.Sleep(5 * time.Minute)
		require.Equal(t, []int{1}, b.to.heights())
		require.Zero(t, valueOf(t, registry, "quorate_webhook_failing"))
	})
}

// TestReactivated deactivates a webhook with waiting messages, or with blocks to search, and activates it at once, so
// that no worker sees it inactive. It gets no event of the time before.
func TestReactivated(t *testing.T) {
	const busy = http.StatusServiceUnavailable
	for name, c := range map[string]struct {
		tip    uint64
		slow   bool // the worker is still searching blocks
		hangs  bool // the receiver takes 10 s to fail
		stops  bool // no worker runs meanwhile
		second bool // another worker runs on the same store
	}{
		"messages wait":                   {tip: 3},
		"a message is being sent":         {tip: 3, hangs: true},
		"the outbox is full":              {tip: webhook.MaxPending + 100},
		"blocks are being searched":       {tip: 500, slow: true},
		"the process dies":                {tip: 3, stops: true},
		"the process dies with a backlog": {tip: 500, slow: true, stops: true},
		"two workers":                     {tip: 500, slow: true, hangs: true, second: true},
	} {
		t.Run(name, func(t *testing.T) {
			for delay := range 3 {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					var mu sync.Mutex
					old := 0 // requests about events of the time before; guarded by mu
					b.to.respond = func(ctx context.Context, height int) (int, error) {
						if height > int(c.tip) {
							return http.StatusOK, nil
						}
						mu.Lock()
						old++
						mu.Unlock()
						if c.hangs {
							<-ctx.Done()
							return 0, ctx.Err()
						}
						return busy, nil
					}
					b.chain.tip.Store(c.tip)
					var chain webhook.Source = b.chain
					if c.slow {
						chain = slow{b.chain}
					}
					registry := prometheus.NewRegistry()
					stop := b.workOn(t, chain, registry)
					if c.second {
						defer b.workOn(t, chain, nil)()
					}
					time.Sleep(time.Minute + time.Duration(delay)*400*time.Millisecond)
					if c.stops {
						stop()
					}
					for _, active := range []bool{false, true} {
						_, err := b.book.Change(t.Context(), "ann", b.hook.ID, func(w *webhook.Webhook) error {
							w.Active, w.From = active, c.tip+1
							return nil
						})
						require.NoError(t, err)
					}
					if c.stops {
						registry = prometheus.NewRegistry()
						stop = b.workOn(t, chain, registry)
					}
					defer stop()
					time.Sleep(2 * time.Second) // for the next look of the worker, and the block that it reads
					mu.Lock()
					require.Positive(t, old)
					old = 0
					mu.Unlock()
					if !c.second { // who may have removed a message that this one counts until it looks again
						require.Zero(t, valueOf(t, registry, "quorate_webhook_pending"))
					}
					b.chain.tip.Add(2)
					time.Sleep(time.Minute)
					require.Equal(t, upTo(int(c.tip)+1, int(c.tip)+2), b.to.heights(), "%d ms", 400*delay)
					time.Sleep(10 * time.Minute) // for two attempts
					require.Zero(t, valueOf(t, registry, "quorate_webhook_pending"))
					mu.Lock()
					defer mu.Unlock()
					require.Zero(t, old, "requests about old events, %d ms", 400*delay)
				})
			}
		})
	}
}
