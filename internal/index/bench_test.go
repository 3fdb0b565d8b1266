package index_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"

	"quorate/internal/chain/pchain"
	"quorate/internal/cputime"
	"quorate/internal/index"
	"quorate/internal/index/l1"
	"quorate/internal/node"
	"quorate/internal/store"
)

// benchBlocks is how many blocks the benchmarks catch up with. Every block has a
// transaction or two; one in ten is about L1s.
const benchBlocks = 100_000

var benchHistory = sync.OnceValue(func() (all struct {
	answers map[uint64][]byte // of the index API, by the first index
	genesis string
	blocks  [][]byte
	txs     int
}) {
	chain := history(benchBlocks)
	all.genesis, _ = formatting.Encode(formatting.Hex, chain.Blocks[0].Bare)
	all.answers = make(map[uint64][]byte)
	// The pipeline asks for 1,024 blocks at a time from the genesis block on, which
	// it gets by itself.
	for start, end := 1, 1024; start < len(chain.Blocks); start, end = end, min(end+1024, len(chain.Blocks)) {
		var containers []any
		for i, b := range chain.Blocks[start:end] {
			text, _ := formatting.Encode(formatting.Hex, b.Enveloped)
			containers = append(containers, map[string]any{
				"id": b.ID, "bytes": text, "timestamp": time.Unix(0, 1), "encoding": "hex", "index": avajson.Uint64(start - 1 + i),
			})
		}
		answer, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{"containers": containers}})
		all.answers[uint64(start-1)] = answer
	}
	for _, b := range chain.Blocks {
		bytes := b.Enveloped
		if bytes == nil {
			bytes = b.Bare
		}
		all.blocks = append(all.blocks, bytes)
		parsed, err := pchain.ParseBlock(bytes)
		if err != nil {
			panic(err)
		}
		all.txs += len(parsed.Txs)
		if parsed.Proposal != nil {
			all.txs++
		}
	}
	return all
})

// reportBlocks reports what catching up so often took: the processor time is that of
// the whole process, the stub of a node included.
func reportBlocks(b *testing.B, begun time.Duration) {
	all := benchHistory()
	b.ReportMetric(float64(b.N)*float64(len(all.blocks))/b.Elapsed().Seconds(), "blocks/s")
	b.ReportMetric(float64((cputime.Used()-begun).Microseconds())/float64(b.N)/float64(all.txs), "CPU-us/tx")
}

func catchUp(b *testing.B, from index.Source[*pchain.Block], s store.Store) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	p, err := index.New(index.Options[*pchain.Block]{
		NetworkID: 5, Chain: index.PChain, Source: from, Store: s, Projections: []index.Projection[*pchain.Block]{l1.NewProjection(5)},
		Committed: func(next uint64) {
			if next >= benchBlocks {
				cancel()
			}
		},
	})
	require.NoError(b, err)
	require.NoError(b, p.Run(ctx))
	at, err := store.ReadCursor(b.Context(), s, index.Cursor(5, index.PChain, "l1"))
	require.NoError(b, err)
	require.GreaterOrEqual(b, at.Next, uint64(benchBlocks))
}

// BenchmarkCatchUp indexes a chain from a node's index API over loopback HTTP, with prepared answers.
func BenchmarkCatchUp(b *testing.B) {
	all := benchHistory()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string `json:"method"`
			Params struct {
				StartIndex avajson.Uint64 `json:"startIndex"`
			} `json:"params"`
		}
		_ = json.NewDecoder(r.Body).Decode(&call)
		switch call.Method {
		case "platform.getHeight":
			_, _ = fmt.Fprintf(w, `{"result":{"height":"%d"}}`, len(all.blocks)-1)
		case "platform.getBlockByHeight":
			_, _ = fmt.Fprintf(w, `{"result":{"block":%q,"encoding":"hex"}}`, all.genesis)
		default:
			answer, ok := all.answers[uint64(call.Params.StartIndex)]
			if !ok {
				b.Errorf("asked for a range from %d on, for which there is no answer", call.Params.StartIndex)
			}
			_, _ = w.Write(answer)
		}
	}))
	defer server.Close()
	for name, open := range map[string]func(b *testing.B) store.Store{
		"memory": func(*testing.B) store.Store { return store.NewMemory() },
		"pebble": func(b *testing.B) store.Store {
			s, err := store.OpenPebble(b.Context(), store.PebbleOptions{Dir: b.TempDir()})
			require.NoError(b, err)
			return s
		},
	} {
		b.Run(name, func(b *testing.B) {
			begun := cputime.Used()
			for b.Loop() {
				client, err := node.New(node.Options{Endpoints: []string{server.URL}})
				require.NoError(b, err)
				s := open(b)
				catchUp(b, index.NewPChainSource(client, nil), s)
				require.NoError(b, s.Close())
				client.Close()
			}
			reportBlocks(b, begun)
		})
	}
}

// BenchmarkParse measures the part of it that decodes blocks.
func BenchmarkParse(b *testing.B) {
	all := benchHistory()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := pchain.ParseBlock(all.blocks[i%len(all.blocks)]); err != nil {
			b.Fatal(err)
		}
	}
}
