package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// turn is what came of asking one side for a while.
type turn struct {
	took, cpu time.Duration
	answers   []time.Duration
}

// cpuTime is what a process has used so far, user and system.
func cpuTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(after)
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// take asks over connections of its own until the time is over.
func take(t testing.TB, ctx context.Context, client *http.Client, pid, connections int, span time.Duration, url, body string) turn {
	t.Helper()
	var mu sync.Mutex
	var result turn
	var running sync.WaitGroup
	cpu, start := cpuTime(t, pid), time.Now()
	for range connections {
		running.Go(func() {
			var answers []time.Duration
			for time.Since(start) < span {
				began := time.Now()
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("Content-Type", "application/json")
				response, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("%s: status %d, %v", url, response.StatusCode, err)
					return
				}
				answers = append(answers, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			result.answers = append(result.answers, answers...)
		})
	}
	running.Wait()
	result.took, result.cpu = time.Since(start), cpuTime(t, pid)-cpu
	return result
}

// side is a node or the service.
type side struct {
	url    string
	pid    int
	client *http.Client
	turn   // all of its turns together
}

func (s *side) rate() float64 { return float64(len(s.answers)) / s.took.Seconds() }

func (s *side) cpuEach() float64 { return s.cpu.Seconds() / float64(len(s.answers)) }

func (s *side) quantile(of int) float64 {
	slices.Sort(s.answers)
	return s.answers[(len(s.answers)-1)*of/100].Seconds()
}

// BenchmarkNodeAPI asks a node and the service the same, in turns, and says how many
// times the node's rate the service has, and what it takes of the node's times. See
// bench/README.md.
func BenchmarkNodeAPI(b *testing.B) {
	const (
		connections = 16
		turns       = 6 // of each
		span        = time.Second
	)
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	n := startNodeAPI(b, ctx)
	x := n.addresses(b, "X")
	for _, test := range []struct{ path, method, params string }{
		{"/ext/bc/P", "platform.getCurrentValidators", "{}"},
		{"/ext/bc/X", "avm.getUTXOs", `{"addresses":["` + strings.Join(x[len(n.keys)], `","`) + `"],"limit":1024}`},
		{"/ext/index/P/block", "index.getContainerRange", `{"startIndex":0,"numToFetch":1024}`},
		{"/ext/bc/P", "platform.getBlockByHeight", `{"height":5}`},
	} {
		b.Run(test.method, func(b *testing.B) {
			var node, service side
			node.url, node.pid = n.node, n.network.PID(0)
			service.url, service.pid = n.service.url, n.service.process.Process.Pid
			for _, s := range []*side{&node, &service} {
				s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
				defer s.client.CloseIdleConnections()
				take(b, ctx, s.client, s.pid, connections, span/4, s.url+test.path, callBody(test.method, test.params))
			}
			for b.Loop() {
				for range turns {
					for _, s := range []*side{&node, &service} {
						t := take(b, ctx, s.client, s.pid, connections, span, s.url+test.path, callBody(test.method, test.params))
						s.took, s.cpu, s.answers = s.took+t.took, s.cpu+t.cpu, append(s.answers, t.answers...)
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(node.rate(), "node-req/s")
			b.ReportMetric(service.rate(), "service-req/s")
			b.ReportMetric(service.rate()/node.rate(), "x-rate")
			b.ReportMetric(service.quantile(50)/node.quantile(50), "x-p50")
			b.ReportMetric(service.quantile(99)/node.quantile(99), "x-p99")
			b.ReportMetric(service.cpuEach()/node.cpuEach(), "x-cpu")
		})
	}
}
