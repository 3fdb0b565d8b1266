package p2p

import (
	"crypto"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/network/peer"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils"
	"github.com/ava-labs/avalanchego/utils/bloom"
	"github.com/ava-labs/avalanchego/utils/compression"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/utils/ips"
	"github.com/ava-labs/avalanchego/version"
)

const testNetworkID = 1337

// remote is the other side: a node on loopback that speaks the wire by itself,
// so that it can also speak it wrongly.
type remote struct {
	id       ids.NodeID
	cert     *tls.Certificate
	listener net.Listener
	codec    message.Creator
	signed   *peer.SignedIP
	running  sync.WaitGroup

	// onRequest answers application requests; nil is silence.
	onRequest func(*remoteConn, *p2p.AppRequest)
	// peers is what the peer list of the handshake says.
	peers []*ips.ClaimedIPPort
	// peersNow returns the answer to requests for addresses; with nil there is none.
	peersNow func() []*ips.ClaimedIPPort
	// beforeRead is called before each message is read, once pause is set.
	beforeRead func()
	pause      atomic.Bool
	// skew is added to the clock, major to the major version of its handshakes. closes makes
	// it close connections before its handshake.
	skew   time.Duration
	major  int
	closes bool
	// got gets each message that is not part of the handshake.
	got func(*message.InboundMessage)

	mu       sync.Mutex
	conns    map[*remoteConn]struct{}
	accepted int
	down     bool
}

type remoteConn struct {
	net.Conn
	r      *remote
	writes sync.Mutex
}

var testCodec = sync.OnceValues(func() (message.Creator, error) {
	return message.NewCreator(prometheus.NewRegistry(), compression.TypeZstd, 10*time.Second)
})

func newRemote(t testing.TB, options ...func(*remote)) *remote {
	t.Helper()
	cert, err := staking.NewTLSCert()
	require.NoError(t, err)
	return startRemote(t, cert, "127.0.0.1:0", options...)
}

func startRemote(t testing.TB, cert *tls.Certificate, addr string, options ...func(*remote)) *remote {
	t.Helper()
	nodeID, err := nodeIDOf(cert)
	require.NoError(t, err)
	codec, err := testCodec()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	blsKey, err := localsigner.New()
	require.NoError(t, err)
	r := &remote{id: nodeID, cert: cert, listener: listener, codec: codec, conns: make(map[*remoteConn]struct{})}
	signer := peer.NewIPSigner(utils.NewAtomic(r.addr()), cert.PrivateKey.(crypto.Signer), blsKey)
	r.signed, err = signer.GetSignedIP()
	require.NoError(t, err)
	for _, o := range options {
		o(r)
	}
	r.running.Go(r.accept)
	t.Cleanup(r.stop)
	return r
}

func (r *remote) addr() netip.AddrPort {
	return r.listener.Addr().(*net.TCPAddr).AddrPort()
}

func (r *remote) address() Address { return Address{NodeID: r.id, Addr: r.addr()} }

func (r *remote) claim(t testing.TB) *ips.ClaimedIPPort {
	t.Helper()
	cert, err := staking.ParseCertificate(r.cert.Leaf.Raw)
	require.NoError(t, err)
	return ips.NewClaimedIPPort(cert, r.signed.AddrPort, r.signed.Timestamp, r.signed.TLSSignature)
}

// claimAt is a claim signed at another time.
func (r *remote) claimAt(t testing.TB, at time.Time) *ips.ClaimedIPPort {
	t.Helper()
	blsKey, err := localsigner.New()
	require.NoError(t, err)
	cert, err := staking.ParseCertificate(r.cert.Leaf.Raw)
	require.NoError(t, err)
	unsigned := peer.UnsignedIP{AddrPort: r.addr(), Timestamp: uint64(at.Unix())}
	signed, err := unsigned.Sign(r.cert.PrivateKey.(crypto.Signer), blsKey)
	require.NoError(t, err)
	return ips.NewClaimedIPPort(cert, signed.AddrPort, signed.Timestamp, signed.TLSSignature)
}

func (r *remote) stop() {
	r.mu.Lock()
	r.down = true
	r.mu.Unlock()
	_ = r.listener.Close()
	r.hangUp()
	r.running.Wait()
}

// hangUp closes the connections but keeps listening.
func (r *remote) hangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Conn.Close()
	}
}

func (r *remote) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

// awaitConnections waits until it has accepted so many connections.
func (r *remote) awaitConnections(t testing.TB, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return r.connections() >= want }, timeout, time.Millisecond, "connections to %s", r.id)
}

func (r *remote) accept() {
	config := peer.TLSConfig(*r.cert, nil)
	for {
		raw, err := r.listener.Accept()
		if err != nil {
			return
		}
		c := &remoteConn{Conn: tls.Server(raw, config), r: r}
		r.mu.Lock()
		if r.down {
			r.mu.Unlock()
			_ = raw.Close()
			return
		}
		r.conns[c] = struct{}{}
		r.accepted++
		r.mu.Unlock()
		r.running.Go(func() {
			c.serve()
			_ = c.Conn.Close()
			r.mu.Lock()
			delete(r.conns, c)
			r.mu.Unlock()
		})
	}
}

func (c *remoteConn) serve() {
	filter, err := bloom.New(1, 1)
	if err != nil {
		panic(err)
	}
	v := version.Current
	if c.r.closes {
		_ = c.Conn.(*tls.Conn).Handshake()
		return
	}
	c.send(c.r.codec.Handshake(
		testNetworkID, uint64(time.Now().Add(c.r.skew).Unix()), c.r.signed.AddrPort,
		v.Name, uint32(v.Major+c.r.major), uint32(v.Minor), uint32(v.Patch), 0,
		c.r.signed.Timestamp, c.r.signed.TLSSignature, c.r.signed.BLSSignatureBytes,
		nil, nil, nil, filter.Marshal(), nil, false,
	))
	for {
		if c.r.pause.Load() {
			c.r.beforeRead()
		}
		var length [4]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		data := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(c, data); err != nil {
			return
		}
		msg, err := c.r.codec.Parse(data, ids.EmptyNodeID, nil)
		if err != nil {
			return
		}
		switch m := msg.Message.(type) {
		case *p2p.Handshake:
			c.send(c.r.codec.PeerList(c.r.peers, true))
		case *p2p.GetPeerList:
			if c.r.peersNow != nil {
				c.send(c.r.codec.PeerList(c.r.peersNow(), true))
			}
		case *p2p.Ping:
			c.send(c.r.codec.Pong())
		case *p2p.AppRequest:
			if c.r.onRequest != nil {
				c.r.onRequest(c, m)
			}
		}
		if c.r.got != nil {
			c.r.got(msg)
		}
	}
}

func (c *remoteConn) send(msg *message.OutboundMessage, err error) {
	if err != nil {
		panic(err)
	}
	c.write(msg.Bytes)
}

func (c *remoteConn) write(b []byte) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	c.writes.Lock()
	defer c.writes.Unlock()
	_, _ = c.Write(append(frame, b...)) // a lost connection is seen by the reader
}

func (c *remoteConn) respond(m *p2p.AppRequest, b []byte) {
	c.send(c.r.codec.AppResponse(ids.ID(m.ChainId), m.RequestId, b))
}

func (c *remoteConn) refuse(m *p2p.AppRequest, code int32, text string) {
	c.send(c.r.codec.AppError(ids.ID(m.ChainId), m.RequestId, code, text))
}

// echo answers with the request.
func echo(r *remote) {
	r.onRequest = func(c *remoteConn, m *p2p.AppRequest) { c.respond(m, m.AppBytes) }
}

// stalledListener accepts connections and never says a word.
func stalledListener(t testing.TB) stalled {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := stalled{addr: listener.Addr().(*net.TCPAddr).AddrPort(), accepted: make(chan struct{}, 100)}
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			running.Go(func() {
				// The handshake has begun.
				if _, err := c.Read(make([]byte, 1)); err == nil {
					s.accepted <- struct{}{}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return s
}
