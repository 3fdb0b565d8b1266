package handlers

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"quorate/aggregator"
	"quorate/handlers/networks"
)

// dropped discards a response.
type dropped struct {
	header http.Header
	status int
}

func (d *dropped) Header() http.Header         { return d.header }
func (d *dropped) Write(b []byte) (int, error) { return len(b), nil }
func (d *dropped) WriteHeader(status int)      { d.status = status }

// BenchmarkRepeat measures what the handlers add to a cached message.
func BenchmarkRepeat(b *testing.B) {
	s := new(repeatSigner)
	e, err := New(Options{
		Networks: networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: s}}),
		Metrics:  prometheus.NewRegistry(),
		Log:      slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	require.NoError(b, err)
	body := `{"message":"0x` + hexOf(message(b, 5).Bytes()) + `"}`
	w := &dropped{}
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, fujiPath, strings.NewReader(body))
		w.header = make(http.Header)
		e.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatalf("got status %d, want 200", w.status)
		}
	}
}

// repeatSigner has signed everything before.
type repeatSigner struct {
	fakeSigner
	result *aggregator.Result
}

func (s *repeatSigner) Sign(_ context.Context, req aggregator.Request) (*aggregator.Result, error) {
	if s.result == nil {
		s.result = signed(req)
	}
	return s.result, nil
}
