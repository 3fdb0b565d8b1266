package webhook_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"quorate/internal/store"
	"quorate/internal/webhook"
)

// results runs a worker with one webhook and one event, and returns the results of the attempts once there is one.
func results(t *testing.T, url string, allowPrivate bool) map[string]float64 {
	t.Helper()
	s := store.NewMemory()
	defer func() { require.NoError(t, s.Close()) }()
	book := webhook.NewBook(s, 1)
	_, err := book.Create(t.Context(), webhook.Webhook{URL: url, EventType: webhook.AddressActivity, Chain: "test", From: 1})
	require.NoError(t, err)
	chain := new(counter)
	chain.tip.Store(1)
	registry := prometheus.NewRegistry()
	defer runWorker(t, webhook.Options{
		Book: book, AllowPrivate: allowPrivate, Metrics: registry,
		Source: func(string) (webhook.Source, bool) { return chain, true },
	})()
	counts := make(map[string]float64)
	require.Eventually(t, func() bool {
		families, err := registry.Gather()
		require.NoError(t, err)
		sum := 0.0
		for _, f := range families {
			if f.GetName() != "quorate_webhook_attempts_total" {
				continue
			}
			for _, m := range f.GetMetric() {
				counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
				sum += m.GetCounter().GetValue()
			}
		}
		return sum > 0
	}, 30*time.Second, 10*time.Millisecond)
	return counts
}

// TestPrivateReceivers checks that names that resolve to addresses of this machine or its network are refused when the
// connection is made, and that a redirect is not followed.
func TestPrivateReceivers(t *testing.T) {
	var requests atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer inside.Close()
	port := inside.URL[strings.LastIndex(inside.URL, ":"):]
	for _, url := range []string{inside.URL, "http://localhost" + port, "http://[::ffff:127.0.0.1]" + port, "http://0.0.0.0" + port, "http://169.254.169.254/latest"} {
		require.Equal(t, map[string]float64{"delivered": 0, "failed": 1, "given_up": 0}, results(t, url, false), url)
	}
	require.Zero(t, requests.Load())
	require.Equal(t, map[string]float64{"delivered": 1, "failed": 0, "given_up": 0}, results(t, inside.URL, true))
	require.EqualValues(t, 1, requests.Load())

	redirecting := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	defer redirecting.Close()
	require.Equal(t, map[string]float64{"delivered": 0, "failed": 1, "given_up": 0}, results(t, redirecting.URL, true))
	require.EqualValues(t, 1, requests.Load(), "the redirect is not followed")
}

// TestHostileAnswers has receivers whose answers are large or never end.
func TestHostileAnswers(t *testing.T) {
	var sent atomic.Int64
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			n, err := io.WriteString(w, strings.Repeat("x", 64<<10))
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	require.Equal(t, map[string]float64{"delivered": 1, "failed": 0, "given_up": 0}, results(t, endless.URL, true), "the status counts")
	endless.CloseClientConnections()
	require.Less(t, sent.Load(), int64(64<<20))

	header := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
	}))
	defer header.Close()
	require.Equal(t, map[string]float64{"delivered": 0, "failed": 1, "given_up": 0}, results(t, header.URL, true))
}
