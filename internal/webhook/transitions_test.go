package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// pruned lacks blocks below 10.
type pruned struct{ *counter }

func (c pruned) Block(ctx context.Context, height uint64) (webhook.Block, error) {
	if height < 10 {
		return nil, fmt.Errorf("block %d is pruned", height)
	}
	return c.counter.Block(ctx, height)
}

// TestMissingBlock has a webhook need a block that no node has. Another one that is behind goes on.
func TestMissingBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t) // a webhook at block 1
		b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
		b.chain.tip.Store(60)
		_, err := b.book.Create(t.Context(), webhook.Webhook{Owner: "ann", URL: "https://example.org/other", EventType: webhook.AddressActivity, Chain: "test", From: 40})
		require.NoError(t, err)
		defer b.workOn(t, pruned{b.chain}, nil)()
		time.Sleep(time.Hour)
		got := b.to.heights()
		require.Len(t, got, 21)
		require.EqualValues(t, 40, got[0])
	})
}
