package p2p

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/version"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var testChain = ids.ID{1, 2, 3}

// timeout is how long tests wait for what normally takes milliseconds.
const timeout = 2 * time.Minute

// start runs a network until the test or stop ends it.
func start(t testing.TB, config Config) (n *Network, stop func()) {
	t.Helper()
	config.NetworkID = testNetworkID
	config.AllowPrivateIPs = true
	n, err := New(config)
	require.NoError(t, err)
	return n, run(t, n)
}

// run does so with one that was made already.
func run(t testing.TB, n *Network) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(timeout):
			t.Error("Run did not return after its context ended")
		}
	})
	t.Cleanup(stop)
	return stop
}

func seeds(remotes ...*remote) func(context.Context) ([]Address, error) {
	return func(context.Context) ([]Address, error) {
		var list []Address
		for _, r := range remotes {
			list = append(list, r.address())
		}
		return list, nil
	}
}

// awaitConnected waits until exactly the remotes are connected.
func awaitConnected(t testing.TB, n *Network, remotes ...*remote) {
	t.Helper()
	connected := make(chan ids.NodeID, 10*len(remotes)+10)
	defer n.OnConnect(func(nodeID ids.NodeID) {
		select {
		case connected <- nodeID:
		default:
		}
	})()
	deadline := time.After(timeout)
	for {
		missing := 0
		for _, r := range remotes {
			if !n.Connected(r.id) {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		select {
		case <-connected:
		case <-deadline:
			t.Fatalf("%d of %d nodes are not connected", missing, len(remotes))
		}
	}
}

// answers collects what a request brings.
type answers chan Answer

func (a answers) next(t testing.TB) Answer {
	t.Helper()
	select {
	case got := <-a:
		return got
	case <-time.After(timeout):
		t.Fatal("no answer")
		return Answer{}
	}
}

// none checks that nothing came. It is to be called when whatever could have
// come has been handled.
func (a answers) none(t testing.TB) {
	t.Helper()
	select {
	case got := <-a:
		t.Fatalf("got an answer too many: %+v", got)
	default:
	}
}

func ask(t testing.TB, n *Network, body string, remotes ...*remote) (answers, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	got := make(answers, 10_000)
	var nodes []ids.NodeID
	for _, r := range remotes {
		nodes = append(nodes, r.id)
	}
	sent := n.Request(ctx, testChain, nodes, []byte(body), func(a Answer) { got <- a })
	require.Equal(t, nodes, sent, "nodes that the request was sent to")
	return got, cancel
}

func TestRequestIsAnswered(t *testing.T) {
	var deadline atomic.Uint64
	first := newRemote(t, func(r *remote) {
		r.onRequest = func(c *remoteConn, m *p2p.AppRequest) {
			deadline.Store(m.Deadline)
			c.respond(m, append([]byte("got "), m.AppBytes...))
		}
	})
	second := newRemote(t, func(r *remote) {
		r.onRequest = func(c *remoteConn, m *p2p.AppRequest) { c.refuse(m, 7, "not mine") }
	})
	absent := newRemote(t)
	n, stop := start(t, Config{Seeds: seeds(first, second)})
	awaitConnected(t, n, first, second)
	require.Equal(t, 2, n.ConnectedCount())
	require.Len(t, n.Peers(), 2)

	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	got := make(answers, 10)
	sent := n.Request(ctx, testChain, []ids.NodeID{first.id, absent.id, second.id, first.id}, []byte("hello"), func(a Answer) { got <- a })
	require.Equal(t, []ids.NodeID{first.id, second.id}, sent)
	for range sent {
		switch a := got.next(t); a.NodeID {
		case first.id:
			require.NoError(t, a.Err)
			require.Equal(t, "got hello", string(a.Bytes))
			require.Positive(t, a.Elapsed)
		case second.id:
			var refusal *common.AppError
			require.ErrorAs(t, a.Err, &refusal)
			require.Equal(t, common.AppError{Code: 7, Message: "not mine"}, *refusal)
		default:
			t.Fatalf("answer of %s, which was not asked", a.NodeID)
		}
	}
	require.Equal(t, uint64(maxDeadline), deadline.Load(), "deadline on the wire")
	require.Zero(t, n.calls.len(), "requests still waiting")

	stop()
	require.Zero(t, n.ConnectedCount())
	require.Empty(t, n.Request(context.Background(), testChain, []ids.NodeID{first.id}, nil, nil), "sent after the end")
	require.Error(t, n.Run(context.Background()), "second run")
}

func (r *remote) each(f func(*remoteConn)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		f(c)
	}
}

// Unexpected messages are dropped, whatever their number.
func TestUnexpectedMessagesAreDropped(t *testing.T) {
	r := newRemote(t, func(r *remote) {
		r.onRequest = func(c *remoteConn, m *p2p.AppRequest) {
			if string(m.AppBytes) == "flood" {
				for i := range uint32(600) {
					c.respond(m, []byte("again"))
					c.send(c.r.codec.AppError(testChain, i, 1, "what"))
					c.send(c.r.codec.AppGossip(testChain, []byte("news")))
					c.send(c.r.codec.AppRequest(testChain, i, time.Second, []byte("question")))
					c.send(c.r.codec.PullQuery(testChain, i, time.Second, ids.ID{1}, 1))
				}
			}
			c.respond(m, m.AppBytes)
		}
	})
	n, _ := start(t, Config{Seeds: seeds(r)})
	awaitConnected(t, n, r)
	flood, _ := ask(t, n, "flood", r)
	require.Equal(t, "again", string(flood.next(t).Bytes))
	after, _ := ask(t, n, "still there?", r)
	require.Equal(t, "still there?", string(after.next(t).Bytes))
	flood.none(t)
	require.Equal(t, 1, r.connections(), "connections that the node saw")
}

func TestMessagesAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	n, err := New(Config{NetworkID: testNetworkID, Metrics: registry})
	require.NoError(t, err)
	codec, err := testCodec()
	require.NoError(t, err)
	nodeID := ids.NodeID{7}
	s := connectedSession(n, nodeID)
	requestID, _ := n.calls.open(t.Context(), testChain, []ids.NodeID{nodeID}, func(Answer) {})
	refused, _ := n.calls.open(t.Context(), testChain, []ids.NodeID{nodeID}, func(Answer) {})

	must := func(msg *message.OutboundMessage, err error) []byte {
		require.NoError(t, err)
		return msg.Bytes
	}
	for _, tc := range []struct {
		name    string
		message []byte
		counter string
	}{
		{"response", must(codec.AppResponse(testChain, requestID, []byte{1})), "responses_total"},
		{"second response", must(codec.AppResponse(testChain, requestID, []byte{1})), "unexpected_answers_total"},
		{"unknown request", must(codec.AppResponse(testChain, requestID+20, nil)), "unexpected_answers_total"},
		{"other chain", must(codec.AppResponse(ids.ID{5}, requestID, nil)), "unexpected_answers_total"},
		{"error", must(codec.AppError(testChain, refused, 1, "text")), "refusals_total"},
		{"second error", must(codec.AppError(testChain, refused, 1, "text")), "unexpected_answers_total"},
		{"request", must(codec.AppRequest(testChain, 1, time.Second, nil)), "unhandled_messages_total"},
		{"gossip", must(codec.AppGossip(testChain, nil)), "unhandled_messages_total"},
		{"get", must(codec.Get(testChain, 1, time.Second, ids.Empty)), "unhandled_messages_total"},
		{"chits", must(codec.Chits(testChain, 1, ids.Empty, ids.Empty, ids.Empty, 0)), "unhandled_messages_total"},
		{"state summary", must(codec.GetStateSummaryFrontier(testChain, 1, time.Second)), "unhandled_messages_total"},
		{"simplex without any", must(codec.SimplexMessage(&p2p.Simplex{ChainId: testChain[:]})), "unhandled_messages_total"},
		{"nothing", nil, "malformed_messages_total"},
		{"garbage", []byte{0xff, 0xff, 0xff}, "malformed_messages_total"},
		{"garbage compressed", []byte{0x12, 0x03, 1, 2, 3}, "malformed_messages_total"},
	} {
		before := counted(t, registry, tc.counter)
		require.NoError(t, s.handle(tc.message), tc.name)
		require.InDelta(t, before+1, counted(t, registry, tc.counter), 0, "count after %q", tc.name)
	}
}

// counted is the value of one of our counters.
func counted(t testing.TB, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "quorate_p2p_"+name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

// connectedSession is one without a connection, as if its handshake were
// finished.
func connectedSession(n *Network, nodeID ids.NodeID) *session {
	s := n.newSession(nil, newWire(nil, &n.backlog), nil, nodeID, netip.AddrPort{})
	s.handshake = &handshake{version: version.Current}
	s.peer.Store(&Peer{NodeID: nodeID})
	return s
}

func TestStopWithRequestsInFlight(t *testing.T) {
	var remotes []*remote
	for range 5 {
		remotes = append(remotes, newRemote(t))
	}
	n, stop := start(t, Config{Seeds: seeds(remotes...)})
	awaitConnected(t, n, remotes...)
	got, _ := ask(t, n, "question", remotes...)
	stop()
	for range remotes {
		require.ErrorIs(t, got.next(t).Err, ErrDisconnected)
	}
	require.Zero(t, n.calls.len())
}

// A node that accepts connections and stays silent must not delay the end until its handshake times
// out.
func TestStopWhileDialling(t *testing.T) {
	stalled := stalledListener(t)
	n, stop := start(t, Config{Seeds: func(context.Context) ([]Address, error) {
		return []Address{{NodeID: ids.NodeID{1}, Addr: stalled.addr}}, nil
	}})
	select {
	case <-stalled.accepted:
	case <-time.After(timeout):
		t.Fatal("was not dialled")
	}
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), tlsTimeout)
	require.Zero(t, n.ConnectedCount())
}

func TestPeersAreFoundThroughPeerLists(t *testing.T) {
	hidden := newRemote(t, echo)
	stranger := newRemote(t)
	seed := newRemote(t, func(r *remote) {
		r.peers = append(r.peers, hidden.claim(t), stranger.claim(t))
	})
	n, _ := start(t, Config{Seeds: func(ctx context.Context) ([]Address, error) {
		<-ctx.Done() // let the sets be known first
		return nil, ctx.Err()
	}})
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{
		constants.PrimaryNetworkID: warpSet(1, seed.id),
		{9}:                        warpSet(1, hidden.id),
	})
	track(t, n, seed.address())
	awaitConnected(t, n, seed, hidden)
	got, _ := ask(t, n, "hello", hidden)
	require.Equal(t, "hello", string(got.next(t).Bytes))
	require.Zero(t, stranger.connections(), "connections to a node that validates nothing")
}

// track does what the loop over the seeds does, once.
func track(t testing.TB, n *Network, a Address) {
	t.Helper()
	p := n.candidates.seeded(a)
	require.NotNil(t, p)
	n.want(p)
}

func warpSet(weight uint64, nodes ...ids.NodeID) snowvalidators.WarpSet {
	var s snowvalidators.WarpSet
	for _, nodeID := range nodes {
		s.Validators = append(s.Validators, &snowvalidators.Warp{Weight: weight, NodeIDs: []ids.NodeID{nodeID}})
		s.TotalWeight += weight
	}
	return s
}

func TestRestartWithTheAddressBook(t *testing.T) {
	dir := t.TempDir()
	first, second := newRemote(t), newRemote(t, echo)
	n, stop := start(t, Config{Dir: dir, Seeds: seeds(first, second)})
	awaitConnected(t, n, first, second)
	nodeID := n.NodeID()
	stop()

	n, _ = start(t, Config{Dir: dir})
	require.Equal(t, nodeID, n.NodeID(), "node ID after a restart")
	awaitConnected(t, n, first, second)
	got, _ := ask(t, n, "hello", second)
	require.Equal(t, "hello", string(got.next(t).Bytes))
}

// Until the seeds report a newer address, the service looks for A where B listens. The attempt must
// not count as the last one for A.
func TestAnotherNodeAtTheAddress(t *testing.T) {
	dir := t.TempDir()
	a, b := newRemote(t, echo), newRemote(t, echo)
	writeBook(t, dir, map[ids.NodeID]bookEntry{a.id: {Addr: b.addr(), Seen: time.Now()}})
	n, _ := start(t, Config{Dir: dir, MaxReconnectDelay: 100 * time.Millisecond, Seeds: func(context.Context) ([]Address, error) {
		if b.connections() < 2 {
			return nil, errors.New("not yet")
		}
		return []Address{a.address()}, nil
	}})
	awaitConnected(t, n, a)
	require.False(t, n.Connected(b.id))
}

func TestSeedsThatFailAreAskedAgain(t *testing.T) {
	r := newRemote(t)
	var asked atomic.Int32
	n, _ := start(t, Config{Seeds: func(context.Context) ([]Address, error) {
		if asked.Add(1) == 1 {
			return nil, errors.New("node is starting")
		}
		return []Address{r.address(), {NodeID: ids.NodeID{1}}}, nil
	}})
	awaitConnected(t, n, r)
}

func TestPrivateAddressesNeedPermission(t *testing.T) {
	r := newRemote(t)
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	_, err = n.attempt(t.Context(), n.candidates.seeded(r.address()))
	require.ErrorIs(t, err, errNoAddress)
	require.Zero(t, r.connections())
}

func TestTwoNetworksShareARegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, networkID := range []uint32{constants.MainnetID, constants.FujiID, testNetworkID} {
		labelled := prometheus.WrapRegistererWith(prometheus.Labels{"network": constants.NetworkName(networkID)}, registry)
		_, err := New(Config{NetworkID: networkID, Metrics: labelled})
		require.NoError(t, err, "network %d", networkID)
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	names := make(map[string]int)
	for _, f := range families {
		names[f.GetName()] = len(f.Metric)
	}
	require.Equal(t, 3, names["quorate_p2p_requests_total"], "series, one for each network")
	require.Equal(t, 3, names["quorate_p2p_peers"], "series, one for each network")
}

func TestVersionFollowsTheUpgrade(t *testing.T) {
	before := &version.Application{Name: version.Client, Major: 1, Minor: 14, Patch: 2}
	current := &version.Application{Name: version.Client, Major: 1, Minor: 15, Patch: 0}
	custom := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name    string
		config  Config
		upgrade time.Time
		old     bool // 1.14.2 is compatible today
	}{
		{"mainnet", Config{NetworkID: constants.MainnetID}, time.Date(2026, 9, 22, 15, 0, 0, 0, time.UTC), false},
		{"fuji", Config{NetworkID: constants.FujiID}, time.Date(2026, 7, 28, 15, 0, 0, 0, time.UTC), false},
		{"local", Config{NetworkID: constants.LocalID}, time.Date(9999, 12, 1, 0, 0, 0, 0, time.UTC), true},
		{"custom", Config{NetworkID: 1337}, time.Date(9999, 12, 1, 0, 0, 0, 0, time.UTC), true},
		{"scheduled by configuration", Config{NetworkID: 1337, UpgradeTime: custom}, custom, time.Now().Before(custom)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			compatible := version.GetCompatibility(upgradeTime(tc.config))
			require.Equal(t, tc.upgrade, compatible.UpgradeTime)
			require.Equal(t, tc.old, compatible.Compatible(before), "1.14.2 is compatible")
			require.True(t, compatible.Compatible(current), "1.15.0 is compatible")
			require.True(t, compatible.Compatible(compatible.Current), "we are compatible")
		})
	}
}

// Peers get the version and upgrade time.
func TestHandshakeSaysWhoWeAre(t *testing.T) {
	upgrade := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	seen := make(chan *p2p.Handshake, 1)
	r := newRemote(t, func(r *remote) {
		r.got = func(msg *message.InboundMessage) {
			if m, ok := msg.Message.(*p2p.Handshake); ok {
				select {
				case seen <- m:
				default:
				}
			}
		}
	})
	start(t, Config{Seeds: seeds(r), UpgradeTime: upgrade})
	select {
	case m := <-seen:
		require.Equal(t, uint32(testNetworkID), m.NetworkId)
		require.Equal(t, "avalanchego", m.Client.Name)
		require.Equal(t, []uint32{1, 15, 0}, []uint32{m.Client.Major, m.Client.Minor, m.Client.Patch})
		require.Equal(t, uint64(upgrade.Unix()), m.UpgradeTime)
		require.True(t, m.AllSubnets, "asks for the addresses of all subnets")
		require.Empty(t, m.TrackedSubnets)
		require.NotZero(t, m.IpPort)
	case <-time.After(timeout):
		t.Fatal("no handshake")
	}
}

func writeBook(t testing.TB, dir string, entries map[ids.NodeID]bookEntry) {
	t.Helper()
	data, err := json.Marshal(entries)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, bookFile), data, 0o600))
}

type stalled struct {
	addr     netip.AddrPort
	accepted chan struct{}
}
