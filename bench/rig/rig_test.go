package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/handlers"
	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
)

// TestMain runs the tests, or the simulated network that one of them starts.
func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := serveChild(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// TestGrow reports the growth of each chain with the height and the time at which it is there.
func TestGrow(t *testing.T) {
	o := simnet.Options{Seed: 1, Validators: 1}
	for range 3 {
		o.EVM = append(o.EVM, simnet.EVM{Options: evmchain.Options{L1: true, Txs: 10}, Dir: t.TempDir()})
	}
	network, err := StartNetwork(t.Context(), "", o)
	require.NoError(t, err)
	defer network.Stop()
	before := maps.Clone(network.Heights)
	var growths []Growth
	require.NoError(t, network.Grow(map[int]int{0: 500, 2: 1}, func(g Growth) { growths = append(growths, g) }))
	require.Len(t, growths, 2)
	require.True(t, growths[0].At.Before(growths[1].At))
	for _, g := range growths {
		require.Greater(t, g.Height, before[g.Chain])
		require.Equal(t, network.Heights[g.Chain], g.Height)
	}
	require.Equal(t, before[network.EVM[1].Name()], network.Heights[network.EVM[1].Name()])
	counts, err := network.Counts() // the next order gets its own reply
	require.NoError(t, err)
	require.Zero(t, counts)
}

// TestDelays measures each delay from the growth of that chain on, and while others still grow.
func TestDelays(t *testing.T) {
	var index sync.Map // status by chain
	polls, grew := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case polls <- struct{}{}:
		case <-grew:
		}
		chains := make(map[string]handlers.ChainStatus)
		index.Range(func(chain, next any) bool {
			chains[chain.(string)] = handlers.ChainStatus{Next: next.(uint64)}
			return true
		})
		_ = json.NewEncoder(w).Encode(handlers.IndexStatus{Networks: map[string]map[string]handlers.ChainStatus{NetworkName: chains}})
	}))
	defer server.Close()
	process, err := StartProcess(filepath.Join(t.TempDir(), "log"), "sleep", "600") // the service must run
	require.NoError(t, err)
	defer func() { _ = process.Stop(syscall.SIGKILL) }()
	s := &Service{Private: server.Listener.Addr().String(), client: server.Client(), process: process}

	begun := time.Now()
	var reached time.Time
	delays, err := s.Delays(t.Context(), func(grown func(Growth)) error {
		defer close(grew)
		index.Store("a", uint64(8))
		grown(Growth{Chain: "a", Height: 7, At: begun.Add(-time.Hour)})
		<-polls // its response has a
		<-polls // the response before was read
		reached = time.Now()
		index.Store("b", uint64(4))
		grown(Growth{Chain: "b", Height: 3, At: begun.Add(-time.Minute)})
		return nil
	})
	require.NoError(t, err)
	require.Len(t, delays, 2)
	require.GreaterOrEqual(t, delays[0], time.Hour)
	require.LessOrEqual(t, delays[0], time.Hour+reached.Sub(begun))
	require.GreaterOrEqual(t, delays[1], time.Minute+reached.Sub(begun))
	require.LessOrEqual(t, delays[1], time.Minute+time.Since(begun))

	_, err = s.Delays(t.Context(), func(func(Growth)) error { return io.ErrClosedPipe })
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// TestLoad makes as many requests as it should, reads responses of both forms to their end
// over connections that stay open, and counts failures.
func TestLoad(t *testing.T) {
	var requests, posted atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch r.URL.Path {
		case "/chunked":
			for range 3 {
				_, _ = io.WriteString(w, strings.Repeat("x", 5000))
				w.(http.Flusher).Flush()
			}
		case "/post":
			body, _ := io.ReadAll(r.Body)
			posted.Add(int64(len(body)))
		case "/refused":
			http.Error(w, "not now", http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, "short")
		}
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	paths := []string{"/", "/chunked", "/post", "/refused"}
	request := func(kinds int) func(client, number int) Request {
		return func(_, number int) Request {
			r := Request{Address: address, Path: paths[number%kinds], Kind: number % kinds}
			if r.Path == "/post" {
				r.Body = []byte("12345")
			}
			return r
		}
	}
	outcome, err := (Load{Clients: 3, Requests: 40, Tolerate: true}).Run(t.Context(), request(4))
	require.NoError(t, err)
	require.EqualValues(t, 40, requests.Load())
	require.EqualValues(t, 50, posted.Load())
	require.Equal(t, 10, outcome.Failed)
	require.Len(t, outcome.Times, 30)
	require.Len(t, outcome.ByKind[1], 10)
	require.Empty(t, outcome.ByKind[3])

	_, err = (Load{Clients: 1, Requests: 4}).Run(t.Context(), request(4))
	require.ErrorContains(t, err, "/refused: HTTP/1.1 503 Service Unavailable: not now")

	paced, err := (Load{Clients: 2, For: 50 * time.Millisecond, Every: 5 * time.Millisecond}).Run(t.Context(), request(1))
	require.NoError(t, err)
	require.Len(t, paced.Times, 10)

	ctx, cancel := context.WithCancel(t.Context())
	endless, err := (Load{Clients: 1, Took: func(number int, _ time.Duration) {
		if number == 5 {
			cancel()
		}
	}}).Run(ctx, request(1))
	require.NoError(t, err)
	require.Len(t, endless.Times, 6)
}

// TestHungLoad ends requests that are not answered: at their timeout, and with the context.
func TestHungLoad(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	one := Request{Address: server.Listener.Addr().String(), Path: "/"}
	c := client{timeout: 50 * time.Millisecond}
	defer c.close()
	require.ErrorIs(t, c.do(t.Context(), one), os.ErrDeadlineExceeded)

	for _, test := range []struct {
		load Load
		err  error
	}{{Load{Clients: 2}, nil}, {Load{Clients: 2, Requests: 2, Tolerate: true}, context.Canceled}} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		begun := time.Now()
		outcome, err := test.load.Run(ctx, func(int, int) Request { return one })
		require.ErrorIs(t, err, test.err)
		require.Empty(t, outcome.Times)
		require.Less(t, time.Since(begun), requestTimeout/2)
	}
}

// TestQuantiles of a hundred durations, of one and of none.
func TestQuantiles(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i))
	}
	require.Equal(t, Summary{P50: 51, P99: 100, Worst: 100}, Summarize(all))
	require.Equal(t, Summary{P50: 7, P99: 7, Worst: 7}, Summarize([]time.Duration{7}))
	require.Zero(t, Summarize(nil))
}

// TestOutput reads the tables that it has written.
func TestOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	output, err := openOutput(file)
	require.NoError(t, err)
	first := output.Table("First", []string{"name"}, Column{Title: "ms", Decimals: 1})
	second := output.Table("Second", []string{"name"}, Column{Title: "MB"})
	require.NoError(t, first.Add([]string{"a|b"}, 1.25))
	require.NoError(t, second.Add([]string{"c"}, 2))
	require.NoError(t, first.Add([]string{"d"}, 3))
	require.ErrorContains(t, first.Add([]string{"e"}), `table "First" has 1 labels and 1 numbers, a row has 1 and 0`)
	require.NoError(t, output.close())
	tables, err := ReadTables(file)
	require.NoError(t, err)
	require.Len(t, tables, 2)
	require.Equal(t, []Row{{[]string{"a|b"}, []float64{1.25}}, {[]string{"d"}, []float64{3}}}, tables[0].Rows)
	require.Equal(t, "| name | ms |\n|---|---|\n| a\\|b | 1.2 |\n", fmt.Sprint(tables[0].Head(), tables[0].Line(tables[0].Rows[0])))
}
