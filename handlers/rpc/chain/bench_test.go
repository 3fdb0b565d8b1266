package chain_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/simnet/history"
)

// discard is a client that does not read.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }

func (d *discard) Write(b []byte) (int, error) {
	d.bytes += len(b)
	return len(b), nil
}

func (d *discard) WriteHeader(int) {}

// BenchmarkCalls measures the handler for calls that clients make often, without the network.
func BenchmarkCalls(b *testing.B) {
	w := newWorld(b, 3000, 0)
	w.upstream.set(func(string) string {
		one := `{"txID":"2fBZb","startTime":"1","endTime":"2","weight":"2000000","nodeID":"NodeID-7Xhw2mDxuDS44j42TCB6U5579esbSt3Lg","uptime":"99.9"}`
		return `{"jsonrpc":"2.0","result":{"validators":[` + strings.Repeat(one+",", 1000) + one + `]},"id":1}`
	})
	owner := w.past.Addresses()[0]
	height := w.past.Height(history.P)
	for name, of := range map[string]func(i int) (chain, method, params string){
		"getCurrentValidators": func(int) (string, string, string) { return "P", "platform.getCurrentValidators", `{}` },
		"getBlockByHeight": func(i int) (string, string, string) {
			return "P", "platform.getBlockByHeight", fmt.Sprintf(`{"height":"%d","encoding":"hex"}`, uint64(i)%height)
		},
		"getUTXOs": func(int) (string, string, string) {
			return "X", "avm.getUTXOs", `{"addresses":["` + w.address(b, history.X, owner) + `"],"limit":1024,"encoding":"hex"}`
		},
	} {
		for _, anew := range []bool{false, true} {
			if anew {
				name += " anew" // no two have the same text
			}
			b.Run(name, func(b *testing.B) { benchmarkCalls(b, w, anew, of) })
		}
	}
}

func benchmarkCalls(b *testing.B, w *world, anew bool, of func(i int) (chain, method, params string)) {
	b.Helper()
	b.ReportAllocs()
	d := &discard{header: make(http.Header)}
	for i := range b.N {
		chain, method, params := of(i)
		if anew {
			params = strings.Replace(strings.Replace(params, "{", fmt.Sprintf(`{"turn":%d,`, i), 1), ",}", "}", 1)
		}
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
		require.NoError(b, err)
		r.Header.Set("Content-Type", "application/json")
		w.handlers[chain].ServeHTTP(d, r)
	}
	require.Greater(b, d.bytes, 100*b.N)
	b.ReportMetric(float64(d.bytes)/float64(b.N), "bytes/answer")
}
