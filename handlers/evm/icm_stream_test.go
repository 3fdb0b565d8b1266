package evm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/handlers"
	"quorate/handlers/access"
	"quorate/handlers/apitest"
	api "quorate/handlers/evm"
	"quorate/handlers/reply"
	"quorate/handlers/stream"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

const icmStreamPath = "/v1/icm/messages:stream"

// growing indexes a history while it is served.
type growing struct {
	*icmHistory
	url     string
	store   store.Store
	writers map[ids.ID]*evm.Projection
	indexed map[ids.ID]*atomic.Uint64 // blocks
	order   []ids.ID
}

// grow serves a history whose first blocks are indexed.
func (h *icmHistory) grow(s store.Store, o stream.Options, indexed ...ids.ID) *growing {
	h.t.Helper()
	return h.growFor(nil, s, o, indexed...)
}

// growFor is grow with a guard.
func (h *icmHistory) growFor(guard *access.Guard, s store.Store, o stream.Options, indexed ...ids.ID) *growing {
	h.t.Helper()
	g := &growing{icmHistory: h, store: s, writers: make(map[ids.ID]*evm.Projection), indexed: make(map[ids.ID]*atomic.Uint64)}
	f := newFake()
	var chains []api.Chain
	for _, id := range indexed {
		g.writers[id], g.indexed[id] = evm.NewProjection(5, id), new(atomic.Uint64)
		g.order = append(g.order, slices.Repeat([]ids.ID{id}, len(h.blocks[id])-1)...)
		one := f.chain()
		one.BlockchainID, one.Index = id, evm.New(s, 5, id, f)
		one.Progress = func(context.Context) reply.Progress {
			return reply.Progress{Height: g.indexed[id].Load() - 1, CaughtUp: true}
		}
		if id == l1ID {
			one.ChainID, one.Primary = l1ChainID, false
		}
		chains = append(chains, one)
		g.index(id)
	}
	h.rng.Shuffle(len(g.order), func(i, j int) { g.order[i], g.order[j] = g.order[j], g.order[i] })
	all := new(api.Chains)
	require.NoError(h.t, all.Set("fuji", chains, false))
	streams := stream.New(o)
	e, err := handlers.New(handlers.Options{EVM: api.Options{Chains: all}, Streams: streams, Access: guard})
	require.NoError(h.t, err)
	server := httptest.NewServer(e)
	h.t.Cleanup(func() {
		streams.Close()
		server.Close()
	})
	g.url = server.URL
	return g
}

// index indexes the next block of a chain.
func (g *growing) index(id ids.ID) {
	g.t.Helper()
	var batch store.Batch
	require.NoError(g.t, g.writers[id].Apply(g.t.Context(), g.store, g.blocks[id][g.indexed[id].Load()], &batch))
	require.NoError(g.t, g.store.Commit(g.t.Context(), &batch))
	g.indexed[id].Add(1)
}

// icmStepWant is what a stream says of a step.
func (s *icmStep) want(l *icmLife) string {
	return fmt.Sprint(s.at, " ", s.block.Number, " ", s.tx.Hex(), " ", l.id.Hex(), " ", map[chain.ICMEventKind]string{
		chain.ICMSent: "SENT", chain.ICMDelivered: "DELIVERED", chain.ICMExecutionFailed: "EXECUTION_FAILED",
		chain.ICMExecuted: "EXECUTED", chain.ICMReceiptReturned: "RECEIPT_RETURNED",
	}[s.kind])
}

// logs returns the steps of each chain in the order of its blocks.
func (g *growing) logs(selects func(l *icmLife) bool) map[string][]string {
	type placed struct {
		at *icmStep
		of *icmLife
	}
	by := make(map[ids.ID][]placed)
	for _, l := range g.lives {
		for i := range l.steps {
			if s := &l.steps[i]; g.writers[s.at] != nil && s.kind != chain.ICMFeeAdded && selects(l) {
				by[s.at] = append(by[s.at], placed{s, l})
			}
		}
	}
	all := make(map[string][]string)
	for id, steps := range by {
		slices.SortFunc(steps, func(a, b placed) int {
			return evm.ICMPosition{Number: a.at.block.Number, LogIndex: a.at.log}.Compare(evm.ICMPosition{Number: b.at.block.Number, LogIndex: b.at.log})
		})
		for _, s := range steps {
			all[id.String()] = append(all[id.String()], s.at.want(s.of))
		}
	}
	return all
}

// icmReader follows a stream that is cut.
type icmReader struct {
	query, cursor string
	got           map[string][]string // by chain
	wrong         []string
	opened        func()
	unconfirmed   int
}

func (r *icmReader) note(name, cursor, data string) {
	switch name {
	case "open":
		r.opened()
	case "end":
		return
	case "step":
		var e struct {
			Step, BlockchainID, TxHash, BlockNumber, MessageID string
			Unconfirmed                                        bool
			Message                                            *struct{ MessageID string }
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Message != nil && e.Message.MessageID != e.MessageID {
			r.wrong = append(r.wrong, data)
		}
		if e.Unconfirmed {
			r.unconfirmed++
		}
		r.got[e.BlockchainID] = append(r.got[e.BlockchainID], strings.Join([]string{e.BlockchainID, e.BlockNumber, e.TxHash, e.MessageID, e.Step}, " "))
	default:
		r.wrong = append(r.wrong, name+" "+data)
	}
	r.cursor = cursor
}

// steps returns the number of steps that the reader has got.
func (r *icmReader) steps() (n int) {
	for _, steps := range r.got {
		n += len(steps)
	}
	return n
}

func (r *icmReader) overSSE(ctx context.Context, url string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+icmStreamPath+"?"+r.query, http.NoBody)
	if err != nil {
		return
	}
	request.Header.Set("Last-Event-ID", r.cursor)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	var name, cursor, data string
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "event":
			name = value
		case "id":
			cursor = value
		case "data":
			data = value
		case "":
			if name != "" {
				r.note(name, cursor, data)
			}
			name, cursor = "", ""
		}
	}
}

func (r *icmReader) overWebSocket(ctx context.Context, url string) {
	conn, _, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1)+icmStreamPath+"?"+r.query+"&cursor="+r.cursor, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	for {
		_, content, err := conn.Read(ctx)
		if err != nil {
			return
		}
		var e struct {
			Event, Cursor string
			Data          json.RawMessage
		}
		if err := json.Unmarshal(content, &e); err != nil {
			r.wrong = append(r.wrong, err.Error())
			return
		}
		r.note(e.Event, e.Cursor, string(e.Data))
	}
}

// TestICMStreamResumes cuts streams at random moments, by the client and by the server, while blocks of two chains are
// indexed. Nothing may be lost or doubled, with and without filters.
func TestICMStreamResumes(t *testing.T) {
	const cuts = 100
	history := newICMHistory(t, 6, 400)
	s := store.NewMemory()
	defer s.Close()
	g := history.grow(s, stream.Options{Life: 25 * time.Millisecond}, cChainID, l1ID)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	opened := make(chan struct{})
	selects := []func(l *icmLife) bool{
		func(*icmLife) bool { return true },
		func(*icmLife) bool { return true },
		func(l *icmLife) bool { return l.content.Sender == alice && (l.source == l1ID || l.destination == l1ID) },
	}
	readers := []*icmReader{{}, {query: "network=fuji"}, {query: "from=" + alice.Hex() + "&blockchainId=" + fmt.Sprint(l1ChainID)}}
	var running sync.WaitGroup
	for i, r := range readers {
		r.got, r.cursor = make(map[string][]string), "oldest"
		r.opened = func() {
			select {
			case opened <- struct{}{}:
			case <-ctx.Done():
			}
		}
		random := rand.New(rand.NewPCG(uint64(i), 1))
		running.Go(func() {
			for ctx.Err() == nil {
				one, cancel := context.WithTimeout(ctx, time.Duration(random.Int64N(int64(50*time.Millisecond))))
				if i == 1 {
					r.overWebSocket(one, g.url)
				} else {
					r.overSSE(one, g.url)
				}
				cancel()
			}
		})
	}
	seen := 0
	for i, id := range g.order {
		g.index(id)
		for ; seen < 3*cuts*(i+1)/len(g.order); seen++ {
			<-opened
		}
	}
	// Each connection of the last ones may read all that is left.
	for range 60 {
		<-opened
	}
	stop()
	running.Wait()
	for i, r := range readers {
		require.Empty(t, r.wrong)
		require.Equal(t, g.logs(selects[i]), r.got, "reader %d", i)
	}
	require.NotZero(t, readers[0].unconfirmed, "the chains are indexed in a random order")
}

// TestICMStreamCursors connects with cursors that are not valid here, and with filters.
func TestICMStreamCursors(t *testing.T) {
	history := newICMHistory(t, 7, 60)
	s := store.NewMemory()
	defer s.Close()
	g := history.grow(s, stream.Options{Life: 100 * time.Millisecond}, cChainID)
	for _, id := range g.order {
		g.index(id)
	}
	get := func(query string) *icmReader {
		r := &icmReader{query: query, got: make(map[string][]string), opened: func() {}}
		for idle := 0; idle < 5; idle++ { // a busy machine may send little in the life of one stream, or nothing
			before := r.steps()
			r.overSSE(t.Context(), g.url)
			if r.steps() > before {
				idle = -1
			}
		}
		require.Empty(t, r.wrong)
		return r
	}
	all := get("cursor=oldest")
	require.Equal(t, g.logs(func(*icmLife) bool { return true }), all.got)
	require.Empty(t, get("cursor="+all.cursor).got)
	require.Empty(t, get("").got, "only new events")
	require.Equal(t, g.logs(func(l *icmLife) bool { return l.content.Recipient == bob }), get("cursor=oldest&to="+bob.Hex()).got)
	require.Equal(t, g.logs(func(l *icmLife) bool { return l.source == cChainID }), get("cursor=oldest&sourceBlockchainId="+cChainID.String()).got)

	e, err := http.Get(g.url + icmStreamPath + "?cursor=nonsense")
	require.NoError(t, err)
	require.NoError(t, e.Body.Close())
	require.Equal(t, http.StatusBadRequest, e.StatusCode)
	for _, test := range []struct {
		first  uint64
		cursor string
		status int
	}{
		{0, "x", http.StatusBadRequest},
		{0, "Ag", http.StatusBadRequest},              // another version
		{0, all.cursor + "AA", http.StatusBadRequest}, // cut
		{5, all.cursor, http.StatusGone},
	} {
		f := newFake()
		f.log = evm.ICMLog{From: evm.ICMPosition{Number: test.first + 1_000_000}}
		one := f.chain()
		one.BlockchainID = cChainID
		h := must(handlers.New(handlers.Options{EVM: api.Options{Chains: must(api.NewChains([]api.Chain{one}, false))}}))
		w := apitest.Get(h, icmStreamPath+"?cursor="+test.cursor)
		require.Equal(t, test.status, w.Code, w.Body)
		require.Contains(t, w.Body.String(), "cursor: ")
	}
}

// A stream without a cursor needs only the chains that its filter selects.
func TestICMStreamOfSomeChains(t *testing.T) {
	chains := make([]api.Chain, 3) // the last one lags
	for i := range chains {
		f := newFake()
		f.progress = reply.Progress{Height: 7, CaughtUp: i < 2, Lag: 5}
		chains[i] = f.chain()
		chains[i].BlockchainID, chains[i].ChainID, chains[i].Primary = ids.ID{byte(i + 1)}, uint64(100+i), i == 0
	}
	streams := stream.New(stream.Options{Life: 10 * time.Millisecond})
	defer streams.Close()
	h := must(handlers.New(handlers.Options{EVM: api.Options{Chains: must(api.NewChains(chains, false))}, Streams: streams}))
	for query, want := range map[string]int{
		"sourceBlockchainId=100&destinationBlockchainId=101": http.StatusOK,
		"sourceBlockchainId=100&destinationBlockchainId=102": http.StatusServiceUnavailable,
		"": http.StatusServiceUnavailable,
	} {
		w := apitest.Get(h, icmStreamPath+"?"+query)
		require.Equal(t, want, w.Code, "%s: %s", query, w.Body)
		require.Equal(t, want != http.StatusOK, strings.Contains(w.Body.String(), "INDEX_CATCHING_UP"), w.Body)
	}
}

// While the height of a chain cannot be read, a valid cursor gets 503, so that clients connect again with it: 400 would end
// their streams.
func TestICMStreamWhileTheStoreIsUnavailable(t *testing.T) {
	f := newFake()
	f.log = evm.ICMLog{From: evm.ICMPosition{Number: 5}}
	f.progress = reply.Progress{Height: 1_000_000, CaughtUp: true}
	one := f.chain()
	one.BlockchainID = cChainID
	streams := stream.New(stream.Options{Life: 10 * time.Millisecond})
	defer streams.Close()
	h := must(handlers.New(handlers.Options{EVM: api.Options{Chains: must(api.NewChains([]api.Chain{one}, false))}, Streams: streams}))
	open := apitest.Get(h, icmStreamPath)
	require.Equal(t, http.StatusOK, open.Code, open.Body)
	_, cursor, _ := strings.Cut(open.Body.String(), "id: ")
	cursor, _, _ = strings.Cut(cursor, "\n")
	require.NotEmpty(t, cursor)
	for _, err := range []error{store.ErrUnavailable, context.DeadlineExceeded} {
		f.progress = reply.Progress{Unreadable: fmt.Errorf("reading the last block: %w", err)}
		w := apitest.Get(h, icmStreamPath+"?cursor="+cursor)
		require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
		require.Contains(t, w.Body.String(), "the index cannot be read at the moment")
	}
}

// Steps that a filter does not select count as requests, as those that are sent do.
func TestICMStreamChargesWhatItReads(t *testing.T) {
	for name, query := range map[string]string{"none selected": "&to=" + common.Address{1}.Hex(), "all selected": ""} {
		t.Run(name, func(t *testing.T) {
			history := newICMHistory(t, 8, 1200)
			s := store.NewMemory()
			defer s.Close()
			metrics := prometheus.NewRegistry()
			guard, err := access.New(access.Options{Classes: map[string]access.Class{access.DefaultClass: {PerSecond: 1000, Burst: 1000}}, Metrics: metrics})
			require.NoError(t, err)
			g := history.growFor(guard, s, stream.Options{}, cChainID)
			for _, id := range g.order {
				g.index(id)
			}
			steps := len(g.logs(func(*icmLife) bool { return true })[cChainID.String()])
			require.Greater(t, steps, 3*stream.EventsPerRequest)
			response, err := http.Get(g.url + icmStreamPath + "?cursor=oldest" + query)
			require.NoError(t, err)
			defer response.Body.Close()
			running := make(chan struct{})
			go func() {
				defer close(running)
				_, _ = io.Copy(io.Discard, response.Body)
			}()
			require.Eventually(t, func() bool {
				families, err := metrics.Gather()
				require.NoError(t, err)
				for _, f := range families {
					if f.GetName() == "quorate_http_owed_total" {
						return int(f.GetMetric()[0].GetCounter().GetValue()) == steps/stream.EventsPerRequest
					}
				}
				return false
			}, time.Minute, 10*time.Millisecond)
			require.NoError(t, response.Body.Close())
			<-running
		})
	}
}

// unread is an index whose log cannot be read from a position on. It counts how often that is tried.
type unread struct {
	*fake
	asked *atomic.Int64
}

func (u unread) ICMLog(_ context.Context, from evm.ICMPosition, _ int) (evm.ICMLog, error) {
	u.asked.Add(1)
	return evm.ICMLog{Next: from}, u.err
}

// TestICMStreamWaits has an index without blocks, and one that is behind its progress, as that of a standby may be.
func TestICMStreamWaits(t *testing.T) {
	for name, err := range map[string]error{"empty": evm.ErrEmpty, "behind": nil} {
		t.Run(name, func(t *testing.T) {
			f, asked := newFake(), new(atomic.Int64)
			f.err = err
			f.progress = reply.Progress{}
			one := f.chain()
			one.Index = unread{f, asked}
			streams := stream.New(stream.Options{Life: time.Second})
			defer streams.Close()
			h := must(handlers.New(handlers.Options{EVM: api.Options{Chains: must(api.NewChains([]api.Chain{one}, false))}, Streams: streams}))
			w := apitest.Get(h, icmStreamPath+"?cursor=oldest")
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Less(t, asked.Load(), int64(20), "the stream must wait between two attempts")
		})
	}
}

// twoStandbys reads the log of messages from one standby and the messages from another one, as a request does that
// takes a view twice.
type twoStandbys struct {
	*evm.Index
	messages *evm.Index
}

func (x twoStandbys) ICMMessages(ctx context.Context, of []common.Hash) ([]evm.ICMEvents, error) {
	return x.messages.ICMMessages(ctx, of)
}

// TestICMStreamFromStandbys streams the messages of a sender while the standby with their content lags. All are streamed
// once it has caught up.
func TestICMStreamFromStandbys(t *testing.T) {
	past := newICMHistory(t, 6, 60)
	blocks := past.blocks[cChainID]
	var standbys [2]store.Store
	var grow [2]func(to int)
	for i := range standbys {
		s, projection, next := store.NewMemory(), evm.NewProjection(5, cChainID), 0
		defer s.Close()
		standbys[i] = s
		grow[i] = func(to int) {
			for ; next < to; next++ {
				var batch store.Batch
				assert.NoError(t, projection.Apply(context.Background(), s, blocks[next], &batch))
				assert.NoError(t, s.Commit(context.Background(), &batch))
			}
		}
	}
	f := newFake()
	one := f.chain()
	var height atomic.Uint64
	one.BlockchainID, one.Index = cChainID, twoStandbys{evm.New(standbys[0], 5, cChainID, f), evm.New(standbys[1], 5, cChainID, f)}
	one.Progress = func(context.Context) reply.Progress { return reply.Progress{Height: height.Load(), CaughtUp: true} }
	all := new(api.Chains)
	require.NoError(t, all.Set("fuji", []api.Chain{one}, false))
	stream := func(lag int) int {
		streams := stream.New(stream.Options{Life: 3 * time.Second, Beat: 100 * time.Millisecond})
		e, err := handlers.New(handlers.Options{EVM: api.Options{Chains: all}, Streams: streams})
		require.NoError(t, err)
		server := httptest.NewServer(e)
		defer server.Close()
		defer streams.Close()
		r := &icmReader{query: "from=" + alice.Hex(), cursor: "oldest", got: make(map[string][]string), opened: func() {}}
		grow[0](len(blocks) - 1)
		grow[1](len(blocks) - 1 - lag)
		height.Store(uint64(len(blocks) - 2))
		caughtUp := make(chan struct{})
		time.AfterFunc(time.Second, func() {
			defer close(caughtUp)
			grow[0](len(blocks))
			grow[1](len(blocks))
			height.Store(uint64(len(blocks) - 1))
		})
		r.overSSE(t.Context(), server.URL)
		<-caughtUp
		return r.steps()
	}
	lagging := stream(len(blocks) / 2)
	require.Equal(t, stream(0), lagging)
	require.Positive(t, lagging)
}
