package p2p

import (
	"context"
	"crypto"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	snowvalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/bloom"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/version"
)

// partner is the other end of a session, in simulated time and without TLS.
type partner struct {
	t    *testing.T
	n    *Network
	s    *session
	id   ids.NodeID
	cert *tls.Certificate
	conn net.Conn
	got  chan *p2p.Message // what it was sent
	over chan struct{}     // closed when the session has ended
	gone time.Time         // when it ended; after over
	done bool              // whether it finished the handshake; after over
}

// meet begins a session within a synctest bubble.
func meet(t *testing.T, n *Network) *partner {
	t.Helper()
	cert, err := staking.NewTLSCert()
	require.NoError(t, err)
	parsed, err := staking.ParseCertificate(cert.Leaf.Raw)
	require.NoError(t, err)
	ours, theirs := net.Pipe()
	w := newWire(ours, &n.backlog)
	p := &partner{
		t: t, n: n, id: ids.NodeIDFromCert(parsed), cert: cert, conn: theirs,
		got: make(chan *p2p.Message, 1000), over: make(chan struct{}),
	}
	p.s = n.newSession(w, w, parsed, p.id, netip.MustParseAddrPort("127.0.0.1:1"))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.pulse(ctx) })
	running.Go(func() {
		p.done = p.s.run(ctx)
		p.gone = time.Now()
		close(p.over)
	})
	running.Go(func() {
		for {
			m, err := readFrame(theirs)
			if err != nil {
				return
			}
			p.got <- m
		}
	})
	t.Cleanup(func() {
		p.s.end(nil)
		cancel()
		_ = theirs.Close()
		running.Wait()
	})
	return p
}

func readFrame(r io.Reader) (*p2p.Message, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(header[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	m := new(p2p.Message)
	return m, proto.Unmarshal(b, m)
}

func (p *partner) send(m *p2p.Message) {
	p.t.Helper()
	framed, err := frame(m)
	require.NoError(p.t, err)
	_, _ = p.conn.Write(framed) // a lost connection shows in over
	synctest.Wait()
}

// next is the next message of the wanted kind; others are passed over.
func next[T any](p *partner) (found T) {
	p.t.Helper()
	for {
		select {
		case m := <-p.got:
			if v, ok := m.GetMessage().(T); ok {
				return v
			}
		case <-p.over:
			p.t.Fatalf("session ended before a %T", found)
		case <-time.After(time.Hour):
			p.t.Fatalf("no %T within an hour", found)
		}
	}
}

// handshake is what a proper node says; change may spoil it.
func (p *partner) handshake(change func(*p2p.Handshake)) *p2p.Message {
	p.t.Helper()
	blsKey, err := localsigner.New()
	require.NoError(p.t, err)
	unsigned := peer.UnsignedIP{AddrPort: netip.MustParseAddrPort("1.2.3.4:9651"), Timestamp: uint64(time.Now().Unix())}
	signed, err := unsigned.Sign(p.cert.PrivateKey.(crypto.Signer), blsKey)
	require.NoError(p.t, err)
	m := &p2p.Handshake{
		NetworkId:     testNetworkID,
		MyTime:        uint64(time.Now().Unix()),
		IpAddr:        signed.AddrPort.Addr().AsSlice(),
		IpPort:        uint32(signed.AddrPort.Port()),
		UpgradeTime:   12345,
		IpSigningTime: signed.Timestamp,
		IpNodeIdSig:   signed.TLSSignature,
		IpBlsSig:      signed.BLSSignatureBytes,
		Client:        &p2p.Client{Name: "other", Major: uint32(version.Current.Major), Minor: uint32(version.Current.Minor), Patch: uint32(version.Current.Patch)},
		KnownPeers:    &p2p.BloomFilter{Filter: bloom.EmptyFilter.Marshal()},
	}
	if change != nil {
		change(m)
	}
	return &p2p.Message{Message: &p2p.Message_Handshake{Handshake: m}}
}

var (
	messagePing     = &p2p.Message{Message: &p2p.Message_Ping{Ping: &p2p.Ping{}}}
	messagePong     = &p2p.Message{Message: &p2p.Message_Pong{Pong: &p2p.Pong{}}}
	messagePeerList = &p2p.Message{Message: &p2p.Message_PeerList_{PeerList_: &p2p.PeerList{}}}
)

// greet does a proper node's part of the handshake.
func (p *partner) greet(change func(*p2p.Handshake)) {
	p.t.Helper()
	p.send(p.handshake(change))
	next[*p2p.Message_PeerList_](p)
	p.send(messagePeerList)
	require.True(p.t, p.n.Connected(p.id))
}

// ended waits for the end of the session.
func (p *partner) ended() time.Time {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(24 * time.Hour):
		p.t.Fatal("session has not ended within a day")
	}
	require.False(p.t, p.n.Connected(p.id), "connected after the end")
	return p.gone
}

func (p *partner) cause() error {
	if cause := p.s.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

func inBubble(t *testing.T, config Config, f func(*testing.T, *partner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config.NetworkID = testNetworkID
		n, err := New(config)
		require.NoError(t, err)
		f(t, meet(t, n))
	})
}

func TestHandshakeComesFirstAndPeerListEndsIt(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		_, first := (<-p.got).GetMessage().(*p2p.Message_Handshake)
		require.True(t, first, "first message is our handshake")
		p.send(messagePeerList) // before its handshake, it says nothing
		require.False(t, p.n.Connected(p.id))
		p.greet(nil)
		require.Equal(t, []Peer{{
			NodeID:      p.id,
			Addr:        netip.MustParseAddrPort("127.0.0.1:1"),
			Claimed:     netip.MustParseAddrPort("1.2.3.4:9651"),
			Version:     version.Current.Semantic(),
			UpgradeTime: time.Unix(12345, 0).UTC(),
			Since:       time.Now(),

			LastSent: time.Now().UTC(), LastReceived: time.Now().UTC(),
			TrackedSubnets: []ids.ID{constants.PrimaryNetworkID}, SupportedACPs: []uint32{}, ObjectedACPs: []uint32{},
		}}, p.n.Peers())
		p.send(&p2p.Message{Message: &p2p.Message_GetPeerList{GetPeerList: &p2p.GetPeerList{}}})
		require.Empty(t, next[*p2p.Message_PeerList_](p).PeerList_.ClaimedIpPorts)
		p.send(messagePing)
		next[*p2p.Message_Pong](p)
	})
}

// info.peers reports what a node said, and when.
func TestPeersTellWhatANodeSays(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		subnet := ids.ID{1}
		undecided, _ := constants.CurrentACPs.Peek()
		p.greet(func(m *p2p.Handshake) {
			m.TrackedSubnets = [][]byte{subnet[:], subnet[:]}
			m.SupportedAcps, m.ObjectedAcps = []uint32{1, 7, 7, undecided}, []uint32{7}
		})
		peer := p.n.Peers()[0]
		require.ElementsMatch(t, []ids.ID{constants.PrimaryNetworkID, subnet}, peer.TrackedSubnets)
		require.Equal(t, []uint32{undecided}, peer.SupportedACPs)
		require.Empty(t, peer.ObjectedACPs)

		require.Zero(t, peer.ObservedUptime)
		time.Sleep(10 * time.Second)
		p.send(&p2p.Message{Message: &p2p.Message_Ping{Ping: &p2p.Ping{Uptime: 83}}})
		next[*p2p.Message_Pong](p)
		heard := time.Now()
		time.Sleep(2 * pulseInterval)
		after := p.n.Peers()[0]
		require.Equal(t, uint32(83), after.ObservedUptime)
		require.Less(t, after.LastReceived.Sub(heard).Abs(), time.Second)
		require.LessOrEqual(t, after.LastSent.Sub(heard).Abs(), time.Second, "a ping may have been sent meanwhile")
		time.Sleep(3 * time.Second)
		require.Equal(t, after.LastReceived, p.n.Peers()[0].LastReceived, "while the node is silent")
		p.s.unsent.Add(p.s.sent.Load())
		traffic := p.n.Traffic()
		require.Equal(t, after.LastReceived.Unix(), traffic.LastReceived.Unix())
		require.Equal(t, Traffic{Connected: 1, FailRate: 0.5, LastSent: traffic.LastSent, LastReceived: traffic.LastReceived}, traffic)
	})
}

func TestHandshakeIsChecked(t *testing.T) {
	manySubnets := make([][]byte, maxTrackedSubnets+1)
	for i := range manySubnets {
		manySubnets[i] = make([]byte, ids.IDLen)
	}
	bad := map[string]func(*p2p.Handshake){
		"other network":           func(m *p2p.Handshake) { m.NetworkId++ },
		"clock 61 s ahead":        func(m *p2p.Handshake) { m.MyTime += 61 },
		"clock 61 s behind":       func(m *p2p.Handshake) { m.MyTime -= 61 },
		"no clock":                func(m *p2p.Handshake) { m.MyTime = 0 },
		"clock at the end":        func(m *p2p.Handshake) { m.MyTime = 1<<64 - 1 },
		"no version":              func(m *p2p.Handshake) { m.Client = nil },
		"old version":             func(m *p2p.Handshake) { m.Client.Minor = 13 },
		"greater major version":   func(m *p2p.Handshake) { m.Client.Major++ },
		"too many subnets":        func(m *p2p.Handshake) { m.TrackedSubnets = manySubnets },
		"short subnet ID":         func(m *p2p.Handshake) { m.TrackedSubnets = [][]byte{{1}} },
		"for and against an ACP":  func(m *p2p.Handshake) { m.SupportedAcps, m.ObjectedAcps = []uint32{194}, []uint32{194} },
		"broken filter":           func(m *p2p.Handshake) { m.KnownPeers.Filter = []byte{1} },
		"long salt":               func(m *p2p.Handshake) { m.KnownPeers.Salt = make([]byte, maxBloomSalt+1) },
		"IP address of 5 bytes":   func(m *p2p.Handshake) { m.IpAddr = make([]byte, 5) },
		"no IP address":           func(m *p2p.Handshake) { m.IpAddr = nil },
		"no port":                 func(m *p2p.Handshake) { m.IpPort = 0 },
		"port beyond 16 bits":     func(m *p2p.Handshake) { m.IpPort = 1 << 16 },
		"another port":            func(m *p2p.Handshake) { m.IpPort++ },
		"another signing time":    func(m *p2p.Handshake) { m.IpSigningTime-- },
		"signed in the future":    func(m *p2p.Handshake) { m.IpSigningTime += 61 },
		"no TLS signature":        func(m *p2p.Handshake) { m.IpNodeIdSig = nil },
		"no BLS signature":        func(m *p2p.Handshake) { m.IpBlsSig = nil },
		"BLS signature of zeros":  func(m *p2p.Handshake) { m.IpBlsSig = make([]byte, 96) },
		"BLS signature too short": func(m *p2p.Handshake) { m.IpBlsSig = m.IpBlsSig[:95] },
	}
	for name, spoil := range bad {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, p *partner) {
				p.send(p.handshake(spoil))
				require.Equal(t, time.Now(), p.ended(), "ended at once")
				require.False(t, p.done)
			})
		})
	}
	good := map[string]func(*p2p.Handshake){
		"clock 60 s ahead":        func(m *p2p.Handshake) { m.MyTime += 60 },
		"clock 60 s behind":       func(m *p2p.Handshake) { m.MyTime -= 60 },
		"version before upgrade":  func(m *p2p.Handshake) { m.Client.Minor, m.Client.Patch = 14, 0 },
		"newer version":           func(m *p2p.Handshake) { m.Client.Minor += 5 },
		"no filter":               func(m *p2p.Handshake) { m.KnownPeers = nil },
		"as many subnets as may":  func(m *p2p.Handshake) { m.TrackedSubnets = manySubnets[1:] },
		"for and against unknown": func(m *p2p.Handshake) { m.SupportedAcps, m.ObjectedAcps = []uint32{1, 1}, []uint32{1} },
	}
	for name, change := range good {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(_ *testing.T, p *partner) { p.greet(change) })
		})
	}
}

func TestOutOfTurnEndsTheSession(t *testing.T) {
	for _, tc := range []struct {
		name string
		say  func(*partner)
	}{
		{"second handshake", func(p *partner) { p.send(p.handshake(nil)) }},
		{"pong without a ping", func(p *partner) { p.send(messagePong) }},
		{"uptime of 101 %", func(p *partner) {
			p.send(&p2p.Message{Message: &p2p.Message_Ping{Ping: &p2p.Ping{Uptime: 101}}})
		}},
		{"message longer than 2 MiB", func(p *partner) {
			_, _ = p.conn.Write(binary.BigEndian.AppendUint32(nil, maxMessage+1))
		}},
		{"longest length", func(p *partner) { _, _ = p.conn.Write([]byte{255, 255, 255, 255}) }},
		{"hanging up", func(p *partner) { _ = p.conn.Close() }},
		{"hanging up within a message", func(p *partner) {
			_, _ = p.conn.Write([]byte{0, 0, 1, 0, 1, 2, 3})
			_ = p.conn.Close()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, p *partner) {
				p.greet(nil)
				began := time.Now()
				tc.say(p)
				require.Equal(t, began, p.ended(), "ended at once")
				require.True(t, p.done)
			})
		})
	}
}

func TestSilentNodesAreLeft(t *testing.T) {
	t.Run("without a handshake", func(t *testing.T) {
		inBubble(t, Config{}, func(t *testing.T, p *partner) {
			began := time.Now()
			require.InDelta(t, silence, p.ended().Sub(began), float64(2*pulseInterval))
			require.ErrorIs(t, p.cause(), errSilent)
		})
	})
	t.Run("that ping but never finish the handshake", func(t *testing.T) {
		inBubble(t, Config{}, func(t *testing.T, p *partner) {
			began := time.Now()
			p.send(p.handshake(nil))
			for range 5 {
				time.Sleep(silence / 5)
				p.send(messagePing)
			}
			require.InDelta(t, silence, p.ended().Sub(began), float64(2*pulseInterval))
			require.ErrorIs(t, p.cause(), errSilent)
		})
	})
	t.Run("that do not answer pings", func(t *testing.T) {
		inBubble(t, Config{}, func(t *testing.T, p *partner) {
			p.greet(nil)
			began := time.Now()
			require.InDelta(t, silence, p.ended().Sub(began), float64(2*pulseInterval))
			require.ErrorIs(t, p.cause(), errSilent)
		})
	})
	t.Run("in the middle of a message", func(t *testing.T) {
		inBubble(t, Config{}, func(t *testing.T, p *partner) {
			p.greet(nil)
			began := time.Now()
			for _, b := range []byte{0, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8} {
				_, _ = p.conn.Write([]byte{b})
				time.Sleep(3 * time.Second)
			}
			// The length took 9 s, the rest is not worth more than another 30.
			require.InDelta(t, 9*time.Second+silence, p.ended().Sub(began), float64(2*pulseInterval))
			require.ErrorIs(t, p.cause(), errSilent)
		})
	})
	t.Run("while largest messages wait for memory", func(t *testing.T) {
		inBubble(t, Config{}, func(t *testing.T, p *partner) {
			p.greet(nil)
			require.True(t, p.n.large.TryAcquire(largeBudget), "all of it")
			began := time.Now()
			_, _ = p.conn.Write(binary.BigEndian.AppendUint32(nil, maxMessage))
			_, _ = p.conn.Write(make([]byte, smallMessage))
			require.InDelta(t, silence, p.ended().Sub(began), float64(2*pulseInterval))
		})
	})
}

func TestPings(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		p.greet(nil)
		began := time.Now()
		next[*p2p.Message_Ping](p)
		require.Less(t, time.Since(began), pingInterval+2*pulseInterval, "time to the first ping")
		for range 20 {
			last := time.Now()
			time.Sleep(70 * time.Millisecond)
			p.send(messagePong)
			require.Equal(t, 70*time.Millisecond, p.n.Peers()[0].RoundTrip)
			next[*p2p.Message_Ping](p)
			require.InDelta(t, pingInterval, time.Since(last), float64(2*pulseInterval))
		}
	})
}

func TestUnwantedNodesAreLeft(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		p.n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, p.id)})
		p.greet(nil)
		for range 5 {
			next[*p2p.Message_Ping](p)
			p.send(messagePong)
		}
		p.n.SetValidators(map[ids.ID]snowvalidators.WarpSet{constants.PrimaryNetworkID: warpSet(1, ids.NodeID{1})})
		began := time.Now()
		for time.Since(began) < formerFor-pingInterval { // an epoch may still have it
			next[*p2p.Message_Ping](p)
			p.send(messagePong)
		}
		require.LessOrEqual(t, p.ended().Sub(began), formerFor+pingInterval+2*pulseInterval)
		require.ErrorIs(t, p.cause(), errUnwanted)
	})
}

// The service disconnects nodes that miss an upgrade of the network when it takes effect.
func TestVersionIsCheckedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upgrade := time.Now().Add(10 * time.Minute)
		n, err := New(Config{NetworkID: testNetworkID, UpgradeTime: upgrade})
		require.NoError(t, err)
		p := meet(t, n)
		p.greet(func(m *p2p.Handshake) { m.Client.Minor, m.Client.Patch = 14, 2 })
		for time.Until(upgrade) > pingInterval {
			next[*p2p.Message_Ping](p)
			p.send(messagePong)
		}
		require.InDelta(t, 0, p.ended().Sub(upgrade), float64(pingInterval+2*pulseInterval))
		require.ErrorIs(t, p.cause(), errIncompatible)
	})
}

// A node may send 512 KiB a second, and 2 MiB at once.
func TestFloodIsSlowedDown(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		p.greet(nil)
		gossip, err := frame(&p2p.Message{Message: &p2p.Message_AppGossip{AppGossip: &p2p.AppGossip{AppBytes: make([]byte, 512<<10-100)}}})
		require.NoError(t, err)
		began := time.Now()
		for range 24 { // 12 MiB
			if _, err := p.conn.Write(gossip); err != nil {
				t.Fatal(err)
			}
		}
		require.InDelta(t, 20*time.Second, time.Since(began), float64(2*time.Second))
		require.True(t, p.n.Connected(p.id))
	})
}

// Compressed messages count with their uncompressed size.
func TestBombsAreSlowedDown(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		p.greet(nil)
		b, err := frame(&p2p.Message{Message: &p2p.Message_CompressedZstd{CompressedZstd: bomb(t)}})
		require.NoError(t, err)
		began := time.Now()
		for range 6 { // 12 MiB
			if _, err := p.conn.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = p.conn.Write(b[:1]) // when the last one was handled
		require.InDelta(t, 20*time.Second, time.Since(began), float64(2*time.Second))
	})
}

// Even empty messages count.
func TestEmptyMessagesAreSlowedDown(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		p.greet(nil)
		began := time.Now()
		for range 12 << 20 / leastMessage {
			if _, err := p.conn.Write(make([]byte, frameHeader)); err != nil {
				t.Fatal(err)
			}
		}
		require.InDelta(t, 20*time.Second, time.Since(began), float64(2*time.Second))
	})
}

// An announced length takes no memory before the bytes arrive.
func TestMemoryGrowsWithWhatArrives(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		p.greet(nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = p.conn.Write(binary.BigEndian.AppendUint32(nil, maxMessage))
		_, _ = p.conn.Write(append(protowire.AppendTag(nil, fieldAppResponse, protowire.BytesType), make([]byte, 2*smallMessage)...))
		synctest.Wait()
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<10), "bytes taken for 8 KiB of an announced 2 MiB")
	})
}

func TestBackoffGrowsWithinBounds(t *testing.T) {
	for _, longest := range []time.Duration{200 * time.Millisecond, 10 * time.Second, time.Minute} {
		for range 100 {
			var pause time.Duration
			for i := range 20 {
				before := pause
				pause = longer(pause, longest)
				require.LessOrEqual(t, pause, longest)
				require.GreaterOrEqual(t, pause, min(reconnectDelay, longest*3/4))
				if pause < longest*3/4 {
					require.GreaterOrEqual(t, pause, before, "attempt %d", i)
				}
			}
			require.GreaterOrEqual(t, pause, longest*3/4, "after many attempts")
		}
	}
}

// A new address ends a long pause, but not at once.
func TestNewsShortensThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := newCandidates(true)
		p := cs.seeded(Address{NodeID: ids.NodeID{1}, Addr: netip.MustParseAddrPort("1.2.3.4:1")})
		<-p.news
		began := time.Now()
		require.True(t, p.await(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(began))

		began = time.Now()
		for range 100 {
			cs.seeded(Address{NodeID: ids.NodeID{1}, Addr: netip.MustParseAddrPort("1.2.3.4:2")})
			cs.seeded(Address{NodeID: ids.NodeID{1}, Addr: netip.MustParseAddrPort("1.2.3.4:3")})
		}
		require.True(t, p.await(t.Context(), time.Minute))
		require.Equal(t, reconnectDelay, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.False(t, p.await(ctx, time.Minute), "after the end")
	})
}

// scriptConn reads what a node sends and forgets what it is sent.
type scriptConn struct{ io.Reader }

func (scriptConn) Write(b []byte) (int, error) { return len(b), nil }

// Whatever a node sends, its session ends without harm and delivers only what was requested.
func FuzzSession(f *testing.F) {
	for _, b := range odd(f, 1) {
		if len(b) < 1<<16 {
			f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...), true)
		}
	}
	for _, m := range []*p2p.Message{messagePing, messagePong, messagePeerList} {
		framed, err := frame(m)
		require.NoError(f, err)
		f.Add(framed, true)
		f.Add(framed, false)
	}
	f.Add([]byte{0, 32, 0, 0}, true)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0}, true)
	n, err := New(Config{NetworkID: testNetworkID})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte, connected bool) {
		s := n.newSession(nil, newWire(nil, &n.backlog), &staking.Certificate{}, ids.NodeID{1}, netip.AddrPort{})
		if connected {
			s = connectedSession(n, ids.NodeID{1})
		}
		s.conn = scriptConn{&limitedReader{b: b}}
		id, c := n.calls.open(t.Context(), testChain, []ids.NodeID{{2}}, func(Answer) { t.Error("answer of a node that was not asked") })
		defer n.calls.close(id, c)
		if err := s.read(t.Context()); err == nil {
			t.Error("session went on after its end")
		} else if errors.Is(err, context.Canceled) {
			t.Errorf("session ended by %v", err)
		}
		require.Nil(t, n.connected[ids.NodeID{1}])
	})
}

// limitedReader gives a few bytes at a time.
type limitedReader struct{ b []byte }

func (r *limitedReader) Read(b []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 700)], r.b)
	r.b = r.b[n:]
	return n, nil
}
