package warplog

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"quorate/internal/node"
)

// public is a public provider: nodes at different heights that share the calls of a batch,
// logs of 10 blocks, 20 calls a second, and a 503 now and then.
type public struct {
	balanced
	second int64
	calls  int
	worst  int // most calls in a second
	denied int
}

func (p *public) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_ = r.Body.Close()
	var batch []json.RawMessage
	n := 1
	if json.Unmarshal(body, &batch) == nil {
		n = len(batch)
	}
	p.mu.Lock()
	if now := time.Now().Unix(); now != p.second {
		p.second, p.calls = now, 0
	}
	p.calls += n
	p.worst = max(p.worst, p.calls)
	denied := p.calls > 20
	if denied {
		p.denied++
	}
	p.mu.Unlock()
	w := httptest.NewRecorder()
	if denied {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	} else {
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.ServeHTTP(w, r)
	}
	return w.Result(), nil
}

// TestHourBehindAPublicProvider follows a chain for an hour. It gets each message once and
// soon, and neither lags nor tells of failures.
func TestHourBehindAPublicProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const start, hour = 3000, 1800 // blocks, one every 2 s
		rng := rand.New(rand.NewPCG(7, 7))
		p := &public{balanced: balanced{rng: rng, executed: make([]uint64, 3), most: 10, flaky: 50, split: true}}
		messages := 0
		for block := range uint64(start + hour) {
			log := ""
			if rng.IntN(3) == 0 {
				log = message(t, block)
				if block >= start-1024 {
					messages++
				}
			}
			p.logs = append(p.logs, log)
		}
		for i := range p.executed {
			p.executed[i] = start - 1
		}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		client, err := node.New(node.Options{Endpoints: []string{"http://provider"}, HTTP: &http.Client{Transport: p}, Log: logger})
		require.NoError(t, err)
		metrics, known := newMetrics("x"), 0
		began := time.Now()
		got := make(map[uint64]int)
		latest := time.Duration(0)
		go func() {
			_ = Follow(t.Context(), Options{
				Source: client, Path: node.CChainRPC, Lookback: 1023, QuietPoll: 2 * time.Second, Metrics: metrics, Log: logger,
				OnMessage: func(m node.SentMessage) {
					got[m.Block]++
					if m.Block >= start {
						latest = max(latest, time.Since(began)-time.Duration(m.Block-start+1)*2*time.Second)
					}
				},
			})
		}()
		// Each node executes a block at its own time, up to 3 blocks late.
		for second := range 2*hour + 20 {
			time.Sleep(time.Second)
			p.mu.Lock()
			for i := range p.executed {
				tip := start + uint64(second/2) - 1
				p.executed[i] = min(max(p.executed[i], tip-min(rng.Uint64N(4), tip)), start+hour-1)
			}
			p.mu.Unlock()
			if second > 600 && second < 2*hour && testutil.CollectAndCount(metrics.lag) > 0 { // it has caught up
				require.LessOrEqual(t, testutil.ToFloat64(metrics.lag), 20.0)
				known++
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Len(t, got, messages)
		for block, n := range got {
			require.Equal(t, 1, n, "block %d", block)
		}
		require.Empty(t, log.String())
		require.Greater(t, known, 2*hour-1000)
		t.Logf("%d messages, %v of them left out at first, the latest after %s; %d calls in the busiest second, %d requests denied",
			messages, testutil.ToFloat64(metrics.late), latest, p.worst, p.denied)
		require.Less(t, latest, 3*time.Minute)
	})
}
