package p2p

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/DataDog/zstd"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/ips"
)

// talker answers as the request says, and then answers "ping".
func talker(t testing.TB) *remote {
	return newRemote(t, func(r *remote) {
		r.onRequest = func(c *remoteConn, m *p2p.AppRequest) {
			switch string(m.AppBytes) {
			case "ping":
				c.respond(m, nil)
			case "repeat":
				for i := range 1000 {
					c.respond(m, binary.BigEndian.AppendUint32(nil, uint32(i)))
				}
			case "refuse first":
				c.refuse(m, 1, "no")
				c.respond(m, []byte("yes"))
			case "refuse last":
				c.respond(m, []byte("yes"))
				c.refuse(m, 1, "no")
			case "other chain":
				c.send(c.r.codec.AppResponse(ids.ID{9}, m.RequestId, nil))
				c.send(c.r.codec.AppError(ids.ID{9}, m.RequestId, 1, ""))
			case "other request":
				c.send(c.r.codec.AppResponse(testChain, m.RequestId+2, nil))
				c.send(c.r.codec.AppResponse(testChain, m.RequestId-1, nil))
			}
		}
	})
}

// settle returns when everything that a talker has sent so far was handled.
func settle(t testing.TB, n *Network, r *remote) {
	t.Helper()
	got, _ := ask(t, n, "ping", r)
	require.NoError(t, got.next(t).Err)
}

func TestScenario_7_2_06_SameNodeAnswersAThousandTimes(t *testing.T) {
	loud, other := talker(t), talker(t)
	n, _ := start(t, Config{Seeds: seeds(loud, other)})
	awaitConnected(t, n, loud, other)
	got, _ := ask(t, n, "repeat", loud)
	require.Equal(t, []byte{0, 0, 0, 0}, got.next(t).Bytes, "the first of its answers")
	settle(t, n, loud)
	got.none(t)
	// It does not answer for another node either.
	both, cancel := ask(t, n, "repeat", loud, other)
	nodes := map[ids.NodeID]bool{both.next(t).NodeID: true, both.next(t).NodeID: true}
	require.Len(t, nodes, 2, "nodes that answered")
	settle(t, n, loud)
	settle(t, n, other)
	both.none(t)
	cancel()
	require.Equal(t, 1, loud.connections(), "connections to the loud node")
}

func TestScenario_7_2_07_AnswerFromANodeNotAskedOrForAnotherChain(t *testing.T) {
	loud, silent := talker(t), newRemote(t)
	n, _ := start(t, Config{Seeds: seeds(loud, silent)})
	awaitConnected(t, n, loud, silent)
	for _, kind := range []string{"other chain", "other request", "silence"} {
		t.Run(kind, func(t *testing.T) {
			got, cancel := ask(t, n, kind, loud)
			settle(t, n, loud)
			got.none(t)
			cancel()
		})
	}
	t.Run("node that was not asked", func(t *testing.T) {
		got, _ := ask(t, n, "question", silent)
		// IDs go up by two.
		n.calls.mu.RLock()
		requestID := n.calls.nextID - 2
		n.calls.mu.RUnlock()
		loud.each(func(c *remoteConn) {
			c.send(c.r.codec.AppResponse(testChain, requestID, nil))
			c.send(c.r.codec.AppError(testChain, requestID, 1, ""))
		})
		settle(t, n, loud)
		got.none(t)
		silent.each(func(c *remoteConn) { c.send(c.r.codec.AppResponse(testChain, requestID, []byte("mine"))) })
		a := got.next(t)
		require.Equal(t, silent.id, a.NodeID)
		require.Equal(t, "mine", string(a.Bytes))
	})
}

func TestScenario_7_2_08_AnswerAfterTheTimeout(t *testing.T) {
	hold := make(chan struct{})
	r := newRemote(t, func(r *remote) {
		r.onRequest = func(c *remoteConn, m *p2p.AppRequest) {
			if string(m.AppBytes) == "slow" {
				<-hold
			}
			c.respond(m, nil)
		}
	})
	n, _ := start(t, Config{Seeds: seeds(r)})
	awaitConnected(t, n, r)
	ctx, timeOut := context.WithCancel(t.Context())
	defer timeOut()
	const many = 50
	late := make(answers, many)
	for range many {
		require.Len(t, n.Request(ctx, testChain, []ids.NodeID{r.id}, []byte("slow"), func(a Answer) { late <- a }), 1)
	}
	timeOut()
	close(hold)
	settle(t, n, r)
	late.none(t)
	// They are forgotten on goroutines of their own.
	require.Eventually(t, func() bool { return n.calls.len() == 0 }, timeout, time.Millisecond, "requests that still wait")
	require.Zero(t, n.backlog.Load(), "bytes that still wait")
}

// answeringConn answers a request while it is being written.
type answeringConn struct {
	s       *session
	written int
}

func (c *answeringConn) Read([]byte) (int, error) { select {} }

func (c *answeringConn) Write(b []byte) (int, error) {
	codec, err := testCodec()
	if err != nil {
		return 0, err
	}
	msg, err := codec.Parse(b[frameHeader:], c.s.nodeID, nil)
	if err != nil {
		return 0, err
	}
	m := msg.Message.(*p2p.AppRequest)
	reply, err := codec.AppResponse(ids.ID(m.ChainId), m.RequestId, m.AppBytes)
	if err != nil {
		return 0, err
	}
	c.written++
	return len(b), c.s.handle(reply.Bytes)
}

func TestScenario_7_2_09_AnswerBeforeSendReturns(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(t, err)
	nodes := testNodes(3)
	for _, nodeID := range nodes {
		s := connectedSession(n, nodeID)
		s.conn = &answeringConn{s: s}
		n.connected[nodeID] = s
	}
	var got []Answer
	sent := n.Request(t.Context(), testChain, nodes, []byte("hello"), func(a Answer) { got = append(got, a) })
	require.Equal(t, nodes, sent)
	require.Len(t, got, len(nodes), "answers when Request returned")
	for i, a := range got {
		require.NoError(t, a.Err)
		require.Equal(t, nodes[i], a.NodeID)
		require.Equal(t, "hello", string(a.Bytes))
	}
	require.Zero(t, n.calls.len(), "requests that still wait")
}

func TestScenario_7_2_10_RefusalAndAnswer(t *testing.T) {
	loud := talker(t)
	n, _ := start(t, Config{Seeds: seeds(loud)})
	awaitConnected(t, n, loud)
	for _, tc := range []struct {
		kind    string
		refused bool
	}{{"refuse first", true}, {"refuse last", false}} {
		t.Run(tc.kind, func(t *testing.T) {
			got, _ := ask(t, n, tc.kind, loud)
			require.Equal(t, tc.refused, got.next(t).Err != nil, "refused")
			settle(t, n, loud)
			got.none(t)
		})
	}
}

// odd are messages that no node sends, by what they are.
func odd(t testing.TB, requestID uint32) map[string][]byte {
	codec, err := testCodec()
	require.NoError(t, err)
	plain, err := codec.AppResponse(testChain, requestID, []byte("yes"))
	require.NoError(t, err)
	groups := bytes.Repeat(protowire.AppendTag(nil, 99, protowire.StartGroupType), 200_000)
	field := func(number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	nested := []byte{}
	for range 1000 {
		nested = field(fieldZstd, nested)
	}
	return map[string][]byte{
		"groups within groups":         groups,
		"answer of groups":             field(fieldAppResponse, groups),
		"compressed of nothing":        field(fieldZstd, nil),
		"compressed within compressed": nested,
		"compressed bomb":              field(fieldZstd, bomb(t)),
		"length beyond the end":        append(protowire.AppendTag(nil, fieldAppResponse, protowire.BytesType), 0xff, 0xff, 0xff, 0x7f),
		"varint without end":           bytes.Repeat([]byte{0xff}, 1000),
		"field number zero":            {0x02, 0x00},
		"short chain ID":               field(fieldAppResponse, field(1, []byte{1})),
		"zeros":                        make([]byte, maxMessage),
		"2 MiB of gossip":              field(32, make([]byte, maxMessage-8)),
		"2 MiB of an unknown kind":     field(1000, make([]byte, maxMessage-8)),
		"2 MiB for no request":         field(fieldAppResponse, field(3, make([]byte, maxMessage-16))),
		"empty":                        {},
		"compressed garbage":           field(fieldZstd, plain.Bytes[:4]),
	}
}

// bomb is a few hundred bytes that decompress to far more than a message.
func bomb(t testing.TB) []byte {
	t.Helper()
	b, err := zstd.Compress(nil, make([]byte, 16*maxMessage))
	require.NoError(t, err)
	require.Less(t, len(b), 4096)
	return b
}

func TestScenario_7_2_11_HugeAnswersAndOddProto(t *testing.T) {
	r := newRemote(t, func(r *remote) {
		r.onRequest = func(c *remoteConn, m *p2p.AppRequest) {
			switch string(m.AppBytes) {
			case "large":
				c.respond(m, bytes.Repeat([]byte{7}, maxMessage-1024))
			case "ping":
				c.respond(m, nil)
			}
		}
	})
	n, _ := start(t, Config{Seeds: seeds(r)})
	awaitConnected(t, n, r)
	got, _ := ask(t, n, "large", r)
	require.Equal(t, bytes.Repeat([]byte{7}, maxMessage-1024), got.next(t).Bytes)
	for name, b := range odd(t, 1) {
		t.Run(name, func(t *testing.T) {
			// A connection of its own, since a node may send so much in a while.
			n, _ := start(t, Config{Seeds: seeds(r)})
			awaitConnected(t, n, r)
			r.each(func(c *remoteConn) { c.write(b) })
			settle(t, n, r)
			require.True(t, n.Connected(r.id))
		})
	}
	require.Zero(t, n.calls.len())
}

func TestScenario_7_2_13_DisconnectAndReconnectMidRequest(t *testing.T) {
	var asked atomic.Int32
	r := newRemote(t, func(r *remote) {
		r.onRequest = func(c *remoteConn, m *p2p.AppRequest) {
			if asked.Add(1) == 1 {
				_ = c.Close()
				return
			}
			c.respond(m, []byte("back"))
		}
	})
	steady := newRemote(t, echo)
	n, _ := start(t, Config{Seeds: seeds(r, steady)})
	awaitConnected(t, n, r, steady)
	got, _ := ask(t, n, "question", r)
	lost := got.next(t)
	require.ErrorIs(t, lost.Err, ErrDisconnected)
	require.Equal(t, r.id, lost.NodeID)
	awaitConnected(t, n, r)
	again, _ := ask(t, n, "question", r, steady)
	require.NoError(t, again.next(t).Err)
	require.NoError(t, again.next(t).Err)
	got.none(t)
}

// Node A has moved, node B listens where A was, node C is gone, node D has a new
// certificate at the old address, and E is no validator any more.
func TestScenario_7_2_32_RestartWithAStaleAddressBook(t *testing.T) {
	dir := t.TempDir()
	a, b, d, e := newRemote(t, echo), newRemote(t, echo), newRemote(t, echo), newRemote(t)
	gone := newRemote(t)
	gone.stop()
	now := time.Now()
	oldD := ids.NodeID{4}
	writeBook(t, dir, map[ids.NodeID]bookEntry{
		a.id:    {Addr: b.addr(), Seen: now},
		b.id:    {Addr: gone.addr(), Seen: now},
		gone.id: {Addr: gone.addr(), Seen: now},
		oldD:    {Addr: d.addr(), Seen: now},
		e.id:    {Addr: e.addr(), Seen: now},
	})
	n, err := New(Config{NetworkID: testNetworkID, AllowPrivateIPs: true, Dir: dir, Seeds: seeds(a, b, d), MaxReconnectDelay: time.Second})
	require.NoError(t, err)
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{
		constants.PrimaryNetworkID: warpSet(1, a.id, b.id, d.id, gone.id, oldD),
	})
	run(t, n)
	awaitConnected(t, n, a, b, d)
	got, _ := ask(t, n, "hello", a, b, d)
	for range 3 {
		require.NoError(t, got.next(t).Err)
	}
	require.Equal(t, 3, n.ConnectedCount())
	require.Zero(t, e.connections(), "connections to a former validator")
}

// The only node returns on another port, which only the seeds know.
func TestScenario_7_2_33_MovedNodeIsFoundThroughSeeds(t *testing.T) {
	cert, err := staking.NewTLSCert()
	require.NoError(t, err)
	old := startRemote(t, cert, "127.0.0.1:0", echo)
	var current atomic.Pointer[remote]
	current.Store(old)
	n, _ := start(t, Config{MaxReconnectDelay: 200 * time.Millisecond, Seeds: func(context.Context) ([]Address, error) {
		return []Address{current.Load().address()}, nil
	}})
	awaitConnected(t, n, old)
	moved := startRemote(t, cert, "127.0.0.1:0", echo)
	current.Store(moved)
	back := make(chan struct{}, 10)
	defer n.OnConnect(func(ids.NodeID) { back <- struct{}{} })()
	old.stop()
	select {
	case <-back:
	case <-time.After(timeout):
		t.Fatal("was not found again")
	}
	got, _ := ask(t, n, "hello", moved)
	require.Equal(t, "hello", string(got.next(t).Bytes))
}

// The only node returns on another port, which another node reports.
func TestScenario_7_2_33_MovedNodeIsFoundThroughPeers(t *testing.T) {
	cert, err := staking.NewTLSCert()
	require.NoError(t, err)
	old := startRemote(t, cert, "127.0.0.1:0", echo)
	var news atomic.Pointer[ips.ClaimedIPPort]
	friend := newRemote(t, func(r *remote) {
		r.peersNow = func() []*ips.ClaimedIPPort {
			if claim := news.Load(); claim != nil {
				return []*ips.ClaimedIPPort{claim}
			}
			return nil
		}
	})
	n, _ := start(t, Config{MaxReconnectDelay: 200 * time.Millisecond})
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, old.id, friend.id)})
	track(t, n, old.address())
	track(t, n, friend.address())
	awaitConnected(t, n, old, friend)
	back := make(chan struct{}, 10)
	defer n.OnConnect(func(ids.NodeID) { back <- struct{}{} })()
	moved := startRemote(t, cert, "127.0.0.1:0", echo)
	news.Store(moved.claimAt(t, time.Now().Add(5*time.Second)))
	old.stop()
	select {
	case <-back:
	case <-time.After(timeout):
		t.Fatal("was not found again")
	}
	got, _ := ask(t, n, "hello", moved)
	require.Equal(t, "hello", string(got.next(t).Bytes))
}

// A node with a new certificate is another node: the service no longer reaches the old one, and
// reaches the new one once it is a validator.
func TestScenario_7_2_33_RotatedCertificate(t *testing.T) {
	before := newRemote(t, echo)
	addr := before.addr().String()
	n, _ := start(t, Config{MaxReconnectDelay: 200 * time.Millisecond})
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, before.id)})
	track(t, n, before.address())
	awaitConnected(t, n, before)
	before.stop()
	cert, err := staking.NewTLSCert()
	require.NoError(t, err)
	after := startRemote(t, cert, addr, echo)
	after.awaitConnections(t, 1)
	require.False(t, n.Connected(before.id), "another certificate passes for the old one")
	require.False(t, n.Connected(after.id), "connected before it validates anything")
	n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, after.id)})
	track(t, n, after.address())
	awaitConnected(t, n, after)
	require.Equal(t, 1, n.ConnectedCount())
}

func TestScenario_7_2_34_RequestIDsStayOddWhenTheyWrap(t *testing.T) {
	cs := newCalls()
	require.EqualValues(t, 1, cs.nextID%2, "first ID is odd")
	cs.nextID = math.MaxUint32 - 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []uint32
	for range 4 {
		requestID, _ := cs.open(ctx, testChain, testNodes(1), func(Answer) {})
		got = append(got, requestID)
	}
	require.Equal(t, []uint32{math.MaxUint32 - 2, math.MaxUint32, 1, 3}, got)

	// One that is still waiting keeps its ID.
	cs.nextID = 1
	requestID, _ := cs.open(ctx, testChain, testNodes(1), func(Answer) {})
	require.EqualValues(t, 5, requestID)
}
