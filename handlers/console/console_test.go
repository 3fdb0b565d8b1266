package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"

	"quorate/aggregator"
	"quorate/handlers/access"
	"quorate/handlers/apierr"
	"quorate/internal/index"
	"quorate/validators"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTest makes a console and a surface with it alone.
func newTest(t testing.TB, o Options) (*Console, *echo.Echo) {
	t.Helper()
	if o.Networks == nil {
		o.Networks = func() []Network { return nil }
	}
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	e := echo.New()
	e.HTTPErrorHandler = apierr.Handler(func(string) apierr.Form { return apierr.DataAPI })
	c.Route(e)
	return c, e
}

func get(e *echo.Echo, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestPagesAreServedWithAStrictPolicy(t *testing.T) {
	_, e := newTest(t, Options{})
	root, err := fs.Sub(assets, "assets")
	require.NoError(t, err)
	require.NoError(t, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		if entry.IsDir() {
			return nil
		}
		w := get(e, "/console/"+name)
		require.Equal(t, http.StatusOK, w.Code, name)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'self';", name)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), name)
		want, err := fs.ReadFile(root, name)
		require.NoError(t, err)
		require.Equal(t, want, w.Body.Bytes(), name)

		again := httptest.NewRequest(http.MethodGet, "/console/"+name, nil)
		again.Header.Set("If-None-Match", w.Header().Get("ETag"))
		unchanged := httptest.NewRecorder()
		e.ServeHTTP(unchanged, again)
		require.Equal(t, http.StatusNotModified, unchanged.Code, name)
		return nil
	}))
	require.Contains(t, get(e, "/console/").Body.String(), "<title>")
	for _, path := range []string{"/", "/console"} {
		require.Equal(t, "/console/", get(e, path).Header().Get("Location"), path)
	}
	for path, want := range map[string]string{
		"/console/style.css": "text/css; charset=utf-8", "/console/app.js": "text/javascript; charset=utf-8", "/console/icon.svg": "image/svg+xml",
	} {
		require.Equal(t, want, get(e, path).Header().Get("Content-Type"))
	}
	for _, path := range []string{"/console/nothing", "/console/../console.go", "/console/lib", "/console/api/nothing", "/console/%2e%2e/console.go"} {
		require.Equal(t, http.StatusNotFound, get(e, path).Code, path)
	}
}

// Pages load nothing from other hosts, and name other hosts only in licence notices and in the name of
// a format.
func TestPagesNameNoOtherHost(t *testing.T) {
	require.NoError(t, fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		if entry.IsDir() || strings.HasPrefix(name, "assets/lib/") {
			return nil
		}
		content, err := fs.ReadFile(assets, name)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "")
		for _, no := range []string{"http://", "https://", "innerHTML", "eval(", " style=", "onclick=\""} {
			require.NotContains(t, text, no, name)
		}
		return nil
	}))
}

func set(weights ...uint64) *validators.Set {
	w := snow.WarpSet{}
	for i, weight := range weights {
		w.Validators = append(w.Validators, &snow.Warp{PublicKeyBytes: []byte{byte(i)}, Weight: weight, NodeIDs: []ids.NodeID{{byte(i + 1)}}})
		w.TotalWeight += weight
	}
	return validators.NewSet(ids.Empty, 7, w)
}

func snapshot(s *validators.Set, n uint64, replies string, outcome aggregator.Code) aggregator.Snapshot {
	return aggregator.Snapshot{
		Round: n, MessageID: ids.ID{byte(n)}, Set: s, TargetWeight: 67, Started: time.UnixMilli(1000),
		Elapsed: 12345 * time.Microsecond, Replies: []aggregator.Reply(replies), Outcome: outcome,
	}
}

func TestFeedTellsWhatChanged(t *testing.T) {
	c, e := newTest(t, Options{})
	o := c.Observer("fuji")
	require.False(t, o.Watching())
	three := set(40, 30, 30)
	o.Observe(snapshot(three, 1, "uuu", "")) // no client is subscribed
	s := c.feed.subscribe(client(1))
	require.True(t, o.Watching())
	require.Equal(t, `event: rounds
data: {"running":[],"recent":[]}

`, join(c.feed.take(s)))

	o.Observe(snapshot(three, 2, "uou", ""))
	id := c.feed.id("fuji", 2)
	require.Equal(t, fmt.Sprintf(`event: round
data: {"id":"%s","network":"fuji","messageId":"%s","messageHash":"02%s","sourceBlockchainId":"11111111111111111111111111111111LpoYY","signingSubnetId":"11111111111111111111111111111111LpoYY","pChainHeight":7,"set":"%s","totalWeight":"100","targetWeight":"67","startedAt":1000,"elapsed":12.35,"replies":"uou","outcome":""}

`, id, ids.ID{2}, strings.Repeat("00", 31), three.Fingerprint()), join(c.feed.take(s)))
	o.Observe(snapshot(three, 2, "aos", ""))
	o.Observe(snapshot(three, 2, "sos", aggregator.OutcomeSigned))
	require.Equal(t, fmt.Sprintf(`event: step
data: {"id":"%s","elapsed":12.35,"targetWeight":"67","changes":"0a 2s"}

event: end
data: {"id":"%s","elapsed":12.35,"targetWeight":"67","changes":"0s","outcome":"SIGNED"}

`, id, id), join(c.feed.take(s)))

	w := get(e, "/console/api/sets/"+three.Fingerprint().String())
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, fmt.Sprintf(`{"subnetId":"11111111111111111111111111111111LpoYY","totalWeight":"100","validators":[
		{"nodeId":"%s","nodes":1,"weight":"40"},{"nodeId":"%s","nodes":1,"weight":"30"},{"nodeId":"%s","nodes":1,"weight":"30"}]}`,
		ids.NodeID{1}, ids.NodeID{2}, ids.NodeID{3}), w.Body.String())
	require.Equal(t, http.StatusNotFound, get(e, "/console/api/sets/other").Code)

	o.Observe(snapshot(three, 3, "aaa", ""))
	c.feed.unsubscribe(s)
	require.False(t, o.Watching())
	late := c.feed.subscribe(client(1))
	defer c.feed.unsubscribe(late)
	all := join(c.feed.take(late))
	require.Contains(t, all, `"running":[]`, "no client saw the rest of round 3")
	require.Contains(t, all, `"`+id+`"`)
}

// A page outlives a restart of the service, and may connect to another replica. Rounds of two processes have different IDs,
// so that the page does not take them for one.
func TestRoundsOfTwoProcesses(t *testing.T) {
	seen := make(map[string]bool)
	for range 2 {
		f := newFeed()
		s := f.subscribe(client(1))
		observer{f, "fuji"}.Observe(snapshot(set(60, 40), 1, "us", ""))
		_, all := f.fetch(s)
		require.Len(t, all.Running, 1)
		seen[all.Running[0].ID] = true
	}
	require.Len(t, seen, 2)
}

func join(events [][]byte) string {
	var b strings.Builder
	for _, e := range events {
		b.Write(e)
	}
	return b.String()
}

// client is one of many addresses.
func client(i int) netip.Prefix { return access.OriginOf(fmt.Sprintf("198.51.100.%d", i)) }

// The state for a late subscriber is encoded while rounds continue.
func TestLateListenerHoldsUpNothing(t *testing.T) {
	f := newFeed()
	s := f.subscribe(client(1))
	f.take(s)
	o := observer{f, "fuji"}
	o.Observe(snapshot(set(60, 40), 1, "us", ""))
	late := f.subscribe(client(2))
	_, all := f.fetch(late)
	require.True(t, f.mu.TryLock(), "nothing is locked any more")
	f.mu.Unlock()
	o.Observe(snapshot(set(60, 40), 1, "ss", aggregator.OutcomeSigned))
	require.Equal(t, "us", all.Running[0].Replies, "as it was when it was asked for")
	require.Len(t, f.take(late), 1, "the end, which is later")
}

func TestFeedIsBounded(t *testing.T) {
	f := newFeed()
	o := observer{f, "fuji"}
	s := f.subscribe(client(0))
	for i := range maxSubscribers - 1 {
		require.NotNil(t, f.subscribe(client(i+1)))
	}
	require.Nil(t, f.subscribe(client(maxSubscribers)), "one client too many")
	f.take(s)
	one := set(100)
	for n := range uint64(3 * maxRunning) {
		o.Observe(snapshot(one, n+1, "a", ""))
	}
	require.Len(t, f.running, maxRunning)
	// A client that does not read keeps nothing but the debt of a new beginning.
	for n := range 2 * maxEvents {
		o.Observe(snapshot(one, uint64(n%maxRunning)+1, string("as"[n%2]), ""))
		require.LessOrEqual(t, len(s.queue), maxEvents)
	}
	require.True(t, s.behind)
	require.Empty(t, s.queue)
	events := f.take(s)
	require.Len(t, events, 1)
	require.True(t, strings.HasPrefix(string(events[0]), "event: rounds\n"))
	// A large set does not cost more either.
	o.Observe(snapshot(one, 1, "s", aggregator.OutcomeSigned))
	large := set(make([]uint64, 5000)...)
	for n := range uint64(400) {
		o.Observe(snapshot(large, 1000, strings.Repeat(string("as"[n%2]), 5000), ""))
		require.LessOrEqual(t, s.bytes, maxQueued)
	}
	require.Contains(t, f.running, f.id("fuji", 1000))
	o.Observe(snapshot(large, 1000, strings.Repeat("s", 5000), aggregator.OutcomeSigned))
	for n := range uint64(maxRunning - 1) {
		o.Observe(snapshot(one, n+2, "s", aggregator.OutcomeSigned))
	}
	require.Empty(t, f.running)
	require.Len(t, f.recent, maxRecent)
	require.Equal(t, f.id("fuji", maxRunning), f.recent[0].ID)
}

func TestStatusIsPublic(t *testing.T) {
	c, _ := newTest(t, Options{
		Networks: func() []Network {
			return []Network{
				{Name: "mainnet"},
				{Name: "fuji", NetworkID: 5, Ready: true, Height: 12, HeightKnown: true, Peers: 3, AllSubnets: 2, Subnets: []Subnet{{Validators: 4, Weight: 1 << 63, Connected: 0.5}}},
			}
		},
		Index: func() map[string]map[string]index.Status {
			return map[string]map[string]index.Status{"fuji": {"P": {State: index.CatchingUp, Next: 10, Tip: 109, TipKnown: true, BlocksPerSecond: 5, Err: errors.New("http://10.0.0.7:9650 is down")}}}
		},
		Example: func(string) ([]byte, bool) { return nil, false },
	})
	event := c.statusEvent()
	require.Equal(t, fmt.Sprintf(`event: status
data: {"networks":[{"name":"fuji","networkId":5,"ready":true,"pChainHeight":12,"peers":3,"subnets":[{"subnetId":"11111111111111111111111111111111LpoYY","validators":4,"weight":"9223372036854775808","connected":0.5,"since":%d}],"allSubnets":2},{"name":"mainnet","networkId":0,"ready":false,"pChainHeight":null,"peers":0,"subnets":[],"allSubnets":0}],"chains":[{"network":"fuji","chain":"P","state":"catching up","from":0,"next":10,"tip":109,"lag":100,"rebuilt":0,"blocksPerSecond":5}],"example":true,"readiness":"not ready","problems":[{"severity":"bad","kind":"network","network":"mainnet","title":"mainnet is not ready to sign","since":%d}]}

`, c.since.of("subnet", "fuji", ids.Empty.String()), c.since.of("ready", "mainnet")), string(event))
}

func TestLatency(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: signSeconds, Buckets: []float64{0.1, 1}, ConstLabels: prometheus.Labels{"network": "fuji"}}, []string{"outcome", "origin"})
	registry.MustRegister(h)
	for _, seconds := range []float64{0.05, 0.5, 5} {
		h.WithLabelValues("signed", "client").Observe(seconds)
		h.WithLabelValues("signed", "ahead").Observe(seconds)
	}
	_, e := newTest(t, Options{Gatherer: registry})
	w := get(e, "/console/api/latency")
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.JSONEq(t, `{"requests":[{"network":"fuji","outcome":"signed","count":3,"seconds":5.55,"buckets":[{"upTo":0.1,"count":1},{"upTo":1,"count":2}]}]}`, w.Body.String())
	_, e = newTest(t, Options{})
	require.JSONEq(t, `{"requests":[]}`, get(e, "/console/api/latency").Body.String())
}

func TestExample(t *testing.T) {
	_, e := newTest(t, Options{Example: func(network string) ([]byte, bool) { return []byte{1, 2}, network == "fuji" }})
	require.JSONEq(t, `{"message":"0x0102"}`, get(e, "/console/api/example?network=fuji").Body.String())
	require.Equal(t, http.StatusNotFound, get(e, "/console/api/example?network=other").Code)
	_, e = newTest(t, Options{})
	require.Equal(t, http.StatusNotFound, get(e, "/console/api/example?network=fuji").Code)
}

// events reads a stream's events as name and data.
func events(body *bufio.Reader) (name, data string, err error) {
	for {
		line, err := body.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		case line == "":
			return name, data, nil
		}
	}
}

func TestLiveStream(t *testing.T) {
	c, e := newTest(t, Options{})
	server := httptest.NewServer(e)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/console/api/live", nil)
	require.NoError(t, err)
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	body := bufio.NewReader(response.Body)
	for _, want := range []string{"status", "rounds"} {
		name, data, err := events(body)
		require.NoError(t, err)
		require.Equal(t, want, name)
		require.True(t, json.Valid([]byte(data)))
	}
	c.Observer("fuji").Observe(snapshot(set(60, 40), 1, "us", ""))
	for {
		name, data, err := events(body)
		require.NoError(t, err)
		if name == "status" {
			continue
		}
		require.Equal(t, "round", name)
		require.Contains(t, data, `"replies":"us"`)
		break
	}
	// Only the end of the service ends the stream.
	c.Close()
	for err == nil {
		_, _, err = events(body)
	}
	require.NoError(t, ctx.Err())
	require.Eventually(t, func() bool { return !c.Observer("fuji").Watching() }, time.Minute, time.Millisecond)

	var mine []*subscriber
	for range maxOfOne {
		mine = append(mine, c.feed.subscribe(access.OriginOf("192.0.2.1")))
	}
	require.NotContains(t, mine, (*subscriber)(nil))
	require.Equal(t, http.StatusServiceUnavailable, get(e, "/console/api/live").Code, "one client does not get all streams")
	c.feed.unsubscribe(mine[0])
	require.NotNil(t, c.feed.subscribe(access.OriginOf("192.0.2.1")))
	for i := range maxSubscribers - maxOfOne {
		require.NotNil(t, c.feed.subscribe(client(i)))
	}
	require.Equal(t, http.StatusServiceUnavailable, get(e, "/console/api/live").Code)
}
