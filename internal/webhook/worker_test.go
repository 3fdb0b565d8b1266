package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"quorate/internal/store"
	"quorate/internal/webhook"
)

// counter is a chain on which each block has an event for each webhook.
type counter struct{ tip atomic.Uint64 }

func (c *counter) Tip() (uint64, bool) { return c.tip.Load(), true }

func (c *counter) Block(_ context.Context, height uint64) (webhook.Block, error) {
	if height > c.tip.Load() {
		return nil, fmt.Errorf("block %d is beyond the tip", height)
	}
	return counted(height), nil
}

type counted uint64

func (b counted) Events(context.Context, *webhook.Webhook) ([]webhook.Event, error) {
	return []webhook.Event{{Name: "one", Body: map[string]any{"height": uint64(b), "text": "<é\u2028\n>"}}}, nil
}

// receiver answers messages as respond says and keeps those that it accepted.
type receiver struct {
	secret  func() string
	respond func(ctx context.Context, height int) (status int, err error)

	mu       sync.Mutex
	accepted []received // guarded by mu
	requests int        // guarded by mu
}

type received struct {
	id     string
	height int
	at     time.Time
}

// RoundTrip implements http.RoundTripper.
func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var m struct {
		WebhookID, EventType, MessageID string
		Event                           struct {
			Height int
			Text   string
		}
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(r.secret())
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	if got, want := request.Header.Get("x-signature"), base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want {
		return nil, fmt.Errorf("got signature %s, want %s", got, want)
	}
	if m.Event.Text != "<é\u2028\n>" || !bytes.Contains(body, []byte("\"<é\u2028\\n>\"")) {
		return nil, fmt.Errorf("the body is not canonical: %s", body)
	}
	r.mu.Lock()
	r.requests++
	r.mu.Unlock()
	status, err := r.respond(request.Context(), m.Event.Height)
	if err != nil {
		return nil, err
	}
	if status == http.StatusOK {
		r.mu.Lock()
		r.accepted = append(r.accepted, received{m.MessageID, m.Event.Height, time.Now()})
		r.mu.Unlock()
	}
	return &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(bytes.NewReader(nil)), Request: request}, nil
}

func (r *receiver) heights() (all []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.accepted {
		all = append(all, one.height)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// await waits until messages about n heights are accepted, or as long as a message may wait.
func (r *receiver) await(n int) {
	for begin := time.Now(); len(r.heights()) < n && time.Since(begin) < 50*time.Hour; {
		time.Sleep(time.Minute)
	}
}

func upTo(first, last int) (all []int) {
	for h := first; h <= last; h++ {
		all = append(all, h)
	}
	return all
}

// bench is a book on an empty store with one webhook of block 1 and later.
type bench struct {
	book  *webhook.Book
	chain *counter
	to    *receiver
	hook  webhook.Webhook
}

func newBench(t *testing.T) *bench { return newBenchOn(t, store.NewMemory()) }

func newBenchOn(t *testing.T, s store.Store) *bench {
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	b := &bench{book: webhook.NewBook(s, 3), chain: new(counter)}
	b.to = &receiver{secret: func() string {
		secret, err := b.book.Secret(t.Context(), "ann")
		require.NoError(t, err)
		return secret
	}}
	var err error
	b.hook, err = b.book.Create(t.Context(), webhook.Webhook{Owner: "ann", URL: "https://example.org/hook", EventType: webhook.AddressActivity, Chain: "test", From: 1})
	require.NoError(t, err)
	return b
}

// work runs a worker until the returned function is called.
func (b *bench) work(t *testing.T, registry prometheus.Registerer) (stop func()) {
	return b.workOn(t, b.chain, registry)
}

// workOn is work with another source of the chain.
func (b *bench) workOn(t *testing.T, source webhook.Source, registry prometheus.Registerer) (stop func()) {
	return runWorker(t, webhook.Options{
		Book: b.book, Transport: b.to, Metrics: registry,
		Source: func(chain string) (webhook.Source, bool) { return source, chain == "test" },
	})
}

// runWorker runs a worker until the returned function is called.
func runWorker(t *testing.T, o webhook.Options) (stop func()) {
	w := webhook.NewWorker(o)
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	return func() {
		end()
		running.Wait()
	}
}

// TestNothingIsLost kills workers at random moments while the receiver fails at random.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			chance := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			b := newBench(t)
			b.to.respond = func(ctx context.Context, _ int) (int, error) {
				switch chance(15) {
				case 0:
					return http.StatusInternalServerError, nil
				case 1:
					<-ctx.Done() // a receiver that never answers
					return 0, ctx.Err()
				case 2:
					return 0, errors.New("connection reset")
				}
				time.Sleep(time.Duration(chance(9)) * time.Second)
				return http.StatusOK, nil
			}
			last := 0
			for range 30 {
				stop := b.work(t, nil)
				for range chance(4) {
					last = int(b.chain.tip.Add(uint64(chance(5))))
					time.Sleep(time.Duration(chance(3000)) * time.Millisecond)
				}
				stop()
			}
			stop := b.work(t, nil)
			b.to.await(last)
			stop()
			require.Equal(t, upTo(1, last), b.to.heights(), "seed %d", seed)
			byHeight := make(map[int]string)
			for _, one := range b.to.accepted {
				if id, again := byHeight[one.height]; again {
					require.Equal(t, id, one.id, "the same event has the same message ID")
				}
				byHeight[one.height] = one.id
			}
		})
	}
}

// TestAttempts has a receiver that accepts all but one message.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begin := time.Now()
		var attempts []time.Duration
		b.to.respond = func(_ context.Context, height int) (int, error) {
			if height == 1 {
				attempts = append(attempts, time.Since(begin))
				return http.StatusFound, nil // redirects are not followed
			}
			return http.StatusOK, nil
		}
		b.chain.tip.Store(1)
		registry := prometheus.NewRegistry()
		stop := b.work(t, registry)
		time.Sleep(time.Minute)
		b.chain.tip.Store(5)
		time.Sleep(time.Minute)
		require.Equal(t, upTo(2, 5), b.to.heights(), "a message that fails does not delay later ones")
		time.Sleep(50 * time.Hour)
		stop()
		require.Len(t, attempts, webhook.Attempts)
		total := attempts[len(attempts)-1] - attempts[0]
		require.InDelta(t, 45, total.Hours(), 1)
		require.Equal(t, upTo(2, 5), b.to.heights())
		problems, err := testutil.GatherAndCount(registry, "quorate_webhook_attempts_total")
		require.NoError(t, err)
		require.Equal(t, 3, problems)
		require.NoError(t, testutil.GatherAndCompare(registry, bytes.NewBufferString(`
# HELP quorate_webhook_attempts_total Attempts to deliver messages of webhooks, by result: delivered, failed (repeated later), given_up.
# TYPE quorate_webhook_attempts_total counter
quorate_webhook_attempts_total{result="delivered"} 4
quorate_webhook_attempts_total{result="failed"} 9
quorate_webhook_attempts_total{result="given_up"} 1
`), "quorate_webhook_attempts_total"))
	})
}

// TestPendingIsBounded has a receiver that is down while more events happen than its outbox takes.
func TestPendingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var up atomic.Bool
		b.to.respond = func(context.Context, int) (int, error) {
			if up.Load() {
				return http.StatusOK, nil
			}
			return http.StatusServiceUnavailable, nil
		}
		const events = webhook.MaxPending + 500
		b.chain.tip.Store(events)
		registry := prometheus.NewRegistry()
		stop := b.work(t, registry)
		time.Sleep(time.Hour)
		require.NoError(t, testutil.GatherAndCompare(registry, bytes.NewBufferString(fmt.Sprintf(`
# HELP quorate_webhook_pending Messages of webhooks that wait for their receivers.
# TYPE quorate_webhook_pending gauge
quorate_webhook_pending %d
`, webhook.MaxPending)), "quorate_webhook_pending"))
		up.Store(true)
		b.to.await(events)
		stop()
		require.Equal(t, upTo(1, events), b.to.heights())
	})
}

// slow takes a second for each block.
type slow struct{ *counter }

func (s slow) Block(ctx context.Context, height uint64) (webhook.Block, error) {
	time.Sleep(time.Second)
	return s.counter.Block(ctx, height)
}

// TestLateWebhookDelaysNoOther has a webhook that has many blocks to search while another one is at the tip.
func TestLateWebhookDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
		b.chain.tip.Store(500)
		defer runWorker(t, webhook.Options{
			Book: b.book, Transport: b.to, Source: func(string) (webhook.Source, bool) { return slow{b.chain}, true },
		})()
		time.Sleep(time.Minute) // the webhook of block 1 and later has begun
		_, err := b.book.Create(t.Context(), webhook.Webhook{Owner: "ann", URL: "https://example.org/other", EventType: webhook.AddressActivity, Chain: "test", From: 501})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		b.chain.tip.Store(501)
		time.Sleep(10 * time.Second)
		require.Contains(t, b.to.heights(), 501, "the other webhook waits until the first has searched all blocks")
		require.NotContains(t, b.to.heights(), 500)
		time.Sleep(20 * time.Minute)
		require.Equal(t, upTo(1, 501), b.to.heights())
	})
}

// limited refuses batches above 100 kB, as any store refuses values above store.MaxValue.
type limited struct{ store.Store }

func (s limited) Commit(ctx context.Context, b *store.Batch) error {
	if b.Bytes() > 100_000 {
		return fmt.Errorf("%w: %d bytes", store.ErrInvalid, b.Bytes())
	}
	return s.Store.Commit(ctx, b)
}

// failingChain is a chain. While broken is set, the events for webhooks with url are slow to find and too large to store.
type failingChain struct {
	*counter
	url    string
	broken atomic.Bool
}

func (c *failingChain) Block(ctx context.Context, height uint64) (webhook.Block, error) {
	b, err := c.counter.Block(ctx, height)
	return failingBlock{b, c}, err
}

type failingBlock struct {
	webhook.Block
	chain *failingChain
}

func (b failingBlock) Events(ctx context.Context, w *webhook.Webhook) ([]webhook.Event, error) {
	if w.URL == b.chain.url && b.chain.broken.Load() {
		time.Sleep(time.Second)
		return []webhook.Event{{Name: "one", Body: strings.Repeat("x", 200_000)}}, nil
	}
	return b.Block.Events(ctx, w)
}

// TestFailureDelaysNoOther has a webhook whose events the store refuses, and another one on the same chain.
func TestFailureDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBenchOn(t, limited{store.NewMemory()})
		b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
		chain := &failingChain{counter: b.chain, url: "https://example.org/other"}
		chain.broken.Store(true)
		chain.tip.Store(5)
		_, err := b.book.Create(t.Context(), webhook.Webhook{
			Owner: "ann", URL: chain.url, EventType: webhook.AddressActivity, Chain: "test", From: 1,
		})
		require.NoError(t, err)
		var log bytes.Buffer // written by one goroutine at a time
		stop := runWorker(t, webhook.Options{
			Book: b.book, Transport: b.to, Source: func(string) (webhook.Source, bool) { return chain, true },
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		time.Sleep(20 * time.Second)
		require.Equal(t, upTo(1, 5), b.to.heights())
		for tip := uint64(6); tip <= 40; tip++ {
			chain.tip.Store(tip)
			time.Sleep(5 * time.Second)
			require.Equal(t, upTo(1, int(tip)), b.to.heights())
		}
		require.Len(t, b.to.accepted, 40)
		chain.broken.Store(false)
		time.Sleep(time.Minute)
		stop()
		require.Len(t, b.to.accepted, 80, "the other webhook gets its events later")
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), "%s", &log)
	})
}

// TestDeactivated checks that an inactive webhook gets nothing, and after reactivation only later
// events.
func TestDeactivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.to.respond = func(_ context.Context, height int) (int, error) {
			if height <= 3 {
				return http.StatusInternalServerError, nil
			}
			return http.StatusOK, nil
		}
		change := func(active bool, from uint64) {
			_, err := b.book.Change(t.Context(), "ann", b.hook.ID, func(w *webhook.Webhook) error {
				w.Active, w.From = active, from
				return nil
			})
			require.NoError(t, err)
			time.Sleep(3 * time.Second)
		}
		b.chain.tip.Store(3)
		defer b.work(t, nil)()
		time.Sleep(3 * time.Second)
		change(false, 1)
		requests := b.to.requests
		require.Positive(t, requests)
		b.chain.tip.Store(10)
		time.Sleep(time.Hour)
		require.Equal(t, requests, b.to.requests, "messages of an inactive webhook are dropped")
		change(true, 11)
		b.chain.tip.Store(12)
		time.Sleep(time.Hour)
		require.Equal(t, upTo(11, 12), b.to.heights())
	})
}

// TestRotation checks that messages have the new secret at once.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
		defer b.work(t, nil)()
		old := b.to.secret()
		b.chain.tip.Store(1)
		time.Sleep(time.Second)
		fresh, err := b.book.Rotate(t.Context(), "ann")
		require.NoError(t, err)
		require.NotEqual(t, old, fresh)
		require.Len(t, fresh, 64)
		b.chain.tip.Store(2)
		time.Sleep(2 * time.Second)
		require.Equal(t, upTo(1, 2), b.to.heights())
	})
}

// TestAdmission checks that an owner without permission gets no messages, and all of them later.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.to.respond = func(context.Context, int) (int, error) { return http.StatusOK, nil }
		var admitted atomic.Bool
		defer runWorker(t, webhook.Options{
			Book: b.book, Transport: b.to, Source: func(string) (webhook.Source, bool) { return b.chain, true },
			Admit: func(owner string) bool { return owner != "ann" || admitted.Load() },
		})()
		b.chain.tip.Store(3)
		time.Sleep(time.Hour)
		require.Zero(t, b.to.requests)
		admitted.Store(true)
		time.Sleep(time.Minute)
		require.Equal(t, upTo(1, 3), b.to.heights())
	})
}
