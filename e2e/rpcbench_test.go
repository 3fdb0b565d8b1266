package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/e2e/localnet"
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
func take(t testing.TB, ctx context.Context, pid, connections int, span time.Duration, url, body string) turn {
	t.Helper()
	var mu sync.Mutex
	var result turn
	var running sync.WaitGroup
	var asked atomic.Uint32
	cpu, start := cpuTime(t, pid), time.Now()
	asked.Store(uint32(start.UnixNano())) // no turn repeats another one's
	for range connections {
		running.Go(func() {
			answers, err := askUntil(ctx, start.Add(span), url, body, &asked)
			if err != nil {
				t.Errorf("%s: %v", url, err)
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

// turnMark stands in a body for a text that is another one each time.
const turnMark = "00000000"

// askUntil asks again and again over a connection of its own. It costs far less than
// http.Client, whose processor time would be that of most requests. Asked counts the
// requests of all connections.
func askUntil(ctx context.Context, end time.Time, url, body string, asked *atomic.Uint32) (answers []time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	var sent bytes.Buffer
	if err := request.Write(&sent); err != nil {
		return nil, err
	}
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", request.URL.Host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	mark := bytes.Index(sent.Bytes(), []byte(turnMark))
	received := bufio.NewReaderSize(connection, 64<<10)
	for time.Now().Before(end) {
		began := time.Now()
		if mark >= 0 {
			hex.Encode(sent.Bytes()[mark:], binary.BigEndian.AppendUint32(nil, asked.Add(1)))
		}
		if _, err := connection.Write(sent.Bytes()); err != nil {
			return answers, err
		}
		response, err := http.ReadResponse(received, request)
		if err != nil {
			return answers, err
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return answers, err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return answers, errors.New(response.Status)
		}
		answers = append(answers, time.Since(began))
	}
	return answers, nil
}

// side is a node or the service.
type side struct {
	url  string
	pid  int
	turn // all of its turns together
}

func (s *side) rate() float64 { return float64(len(s.answers)) / s.took.Seconds() }

func (s *side) cpuEach() float64 { return s.cpu.Seconds() / float64(len(s.answers)) }

func (s *side) quantile(of int) float64 {
	slices.Sort(s.answers)
	return s.answers[(len(s.answers)-1)*of/100].Seconds()
}

// BenchmarkNodeAPI sends the same calls to a node and to the service, in turns, and reports the ratios
// of rates, times and processor time: for repeated calls, and for calls that all differ. See
// bench/README.md.
func BenchmarkNodeAPI(b *testing.B) {
	const (
		connections = 16
		turns       = 6 // of each
		span        = time.Second
	)
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	n := startNodeAPI(b, ctx, localnet.Options{}, nil)
	x := n.addresses(b, "X")
	for _, test := range []struct{ path, method, params string }{
		{"/ext/bc/P", "platform.getCurrentValidators", "{}"},
		{"/ext/bc/X", "avm.getUTXOs", `{"addresses":["` + strings.Join(x[len(n.keys)], `","`) + `"],"limit":1024}`},
		{"/ext/index/P/block", "index.getContainerRange", `{"startIndex":0,"numToFetch":1024}`},
		{"/ext/bc/P", "platform.getBlockByHeight", `{"height":5}`},
	} {
		b.Run(test.method+"/repeated", func(b *testing.B) {
			compare(b, ctx, n, connections, turns, span, test.path, callBody(test.method, test.params))
		})
		b.Run(test.method+"/varied", func(b *testing.B) {
			marked := strings.Replace(test.params[:len(test.params)-1]+`,"turn":"`+turnMark+`"}`, "{,", "{", 1)
			compare(b, ctx, n, connections, turns, span, test.path, callBody(test.method, marked))
		})
	}
}

// compare asks both sides in turns.
func compare(b *testing.B, ctx context.Context, n *nodeAPI, connections, turns int, span time.Duration, path, body string) {
	b.Helper()
	var node, service side
	node.url, node.pid = n.node, n.network.PID(0)
	service.url, service.pid = n.service.url, n.service.process.Process.Pid
	for _, s := range []*side{&node, &service} {
		take(b, ctx, s.pid, connections, span/4, s.url+path, body)
	}
	for b.Loop() {
		for range turns {
			for _, s := range []*side{&node, &service} {
				t := take(b, ctx, s.pid, connections, span, s.url+path, body)
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
}
