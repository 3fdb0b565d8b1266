package p2p

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"math"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/utils/constants"
)

// A node's description of itself takes bounded memory, whatever it says.
func TestAttackHandshakes(t *testing.T) {
	for name, test := range map[string]struct {
		say     func(*p2p.Handshake)
		refused bool
	}{
		"a name of 1 MiB":           {say: func(m *p2p.Handshake) { m.Client.Name = strings.Repeat("x", 1<<20) }},
		"the newest possible minor": {say: func(m *p2p.Handshake) { m.Client.Minor, m.Client.Patch = math.MaxUint32, math.MaxUint32 }},
		"the newest possible major": {say: func(m *p2p.Handshake) { m.Client.Major = math.MaxUint32 }, refused: true},
		"an upgrade at the end":     {say: func(m *p2p.Handshake) { m.UpgradeTime = math.MaxUint64 }},
		"100000 ACPs":               {say: func(m *p2p.Handshake) { m.SupportedAcps = make([]uint32, 100_000) }},
		"a filter of 1 MiB":         {say: func(m *p2p.Handshake) { m.KnownPeers.Filter = append([]byte{1}, make([]byte, 1<<20)...) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, p *partner) {
				if test.refused {
					p.send(p.handshake(test.say))
					require.Equal(t, time.Now(), p.ended())
					return
				}
				p.greet(test.say)
				peers := p.n.Peers()
				require.Len(t, peers, 1)
				require.Less(t, len(peers[0].Version), 64)
				require.LessOrEqual(t, len(peers[0].SupportedACPs), constants.CurrentACPs.Len())
			})
		})
	}
}

// Refusals and answers without a request do not affect other requests, and use up their sender's
// allowance.
func TestAttackUnasked(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *partner) {
		p.greet(nil)
		var got []Answer
		id, c := p.n.calls.open(t.Context(), testChain, []ids.NodeID{p.id}, func(a Answer) { got = append(got, a) })
		defer p.n.calls.close(id, c)
		began := time.Now()
		for i := range uint32(10_000) {
			other := id + 2 + i
			var m *p2p.Message
			if i%2 == 0 {
				m = &p2p.Message{Message: &p2p.Message_AppError{AppError: &p2p.AppError{ChainId: testChain[:], RequestId: other, ErrorCode: math.MinInt32, ErrorMessage: strings.Repeat("\x1b[31m", 200)}}}
			} else {
				m = &p2p.Message{Message: &p2p.Message_AppResponse{AppResponse: &p2p.AppResponse{ChainId: testChain[:], RequestId: other}}}
			}
			framed, err := frame(m)
			require.NoError(t, err)
			_, err = p.conn.Write(framed)
			require.NoError(t, err)
		}
		synctest.Wait()
		require.Empty(t, got)
		require.Greater(t, time.Since(began), 5*time.Second, "beyond 2 MiB, half a MiB a second")
		require.Equal(t, 1, p.n.calls.len())
		p.send(&p2p.Message{Message: &p2p.Message_AppError{AppError: &p2p.AppError{ChainId: testChain[:], RequestId: id, ErrorCode: math.MinInt32, ErrorMessage: strings.Repeat("x", 1<<20)}}})
		require.Len(t, got, 1)
		require.ErrorContains(t, got[0].Err, "x")
		require.Less(t, len(got[0].Err.Error()), 2*maxRefusalText)
	})
}

// Nodes that begin the largest messages and never end them take no memory from a node that sends
// requested blocks.
func TestAttackStalledLargeMessages(t *testing.T) {
	for name, prepare := range map[string]func(other *partner){
		"before the handshake": func(*partner) {},
		"asked for the last block": func(other *partner) {
			other.greet(nil)
			go func() { _, _ = other.n.AcceptedFrontier(other.t.Context(), other.id, testChain) }()
			next[*p2p.Message_GetAcceptedFrontier](other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, p *partner) {
				p.greet(nil)
				for range largeBudget / maxMessage {
					other := meet(t, p.n)
					prepare(other)
					_, _ = other.conn.Write(binary.BigEndian.AppendUint32(nil, maxMessage))
					_, _ = other.conn.Write(make([]byte, smallMessage))
				}
				synctest.Wait()
				began := time.Now()
				sent := make(chan [][]byte, 1)
				go func() {
					got, _ := p.n.Ancestors(t.Context(), p.id, testChain, ids.ID{1}, p2p.EngineType_ENGINE_TYPE_CHAIN)
					sent <- got
				}()
				requestID := next[*p2p.Message_GetAncestors](p).GetAncestors.GetRequestId()
				p.send(&p2p.Message{Message: &p2p.Message_Ancestors_{Ancestors_: &p2p.Ancestors{
					ChainId: testChain[:], RequestId: requestID, Containers: [][]byte{make([]byte, 1<<20)},
				}}})
				require.Len(t, <-sent, 1)
				require.Zero(t, time.Since(began))
			})
		})
	}
}

// Private addresses that validators claim are not dialled, whatever their signatures.
func TestAttackClaimedAddresses(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "224.0.0.1", "::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "0.0.0.0"} {
		t.Run(addr, func(t *testing.T) {
			cs := newCandidates(false)
			claim := claimOf(ids.NodeID{1}, netip.AddrPortFrom(netip.MustParseAddr(addr), 9651), 10)
			p := cs.claimed(ids.NodeID{1}, claim)
			_, err := cs.choose(p)
			require.ErrorIs(t, err, errNoAddress)
		})
	}
}

// odder is a certificate that a node may not have, and what is said of it.
type odder struct {
	tls.Certificate
	want string
}

func certificates(t *testing.T) map[string]odder {
	t.Helper()
	made := make(map[string]odder)
	add := func(name, want string, key, public any, more ...string) {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, DNSNames: more, NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
		require.NoError(t, err)
		made[name] = odder{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, want}
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	add("another curve", "only P256 is allowed for ECDSA", p384, p384.Public())
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	add("Ed25519", "key type is not supported", private, public)
	odd, err := rsa.GenerateKey(rand.Reader, 3072)
	require.NoError(t, err)
	add("RSA of 3072 bits", "unsupported RSA modulus bitlen", odd, odd.Public())
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	names := make([]string, 3000)
	for i := range names {
		names[i] = strings.Repeat("a", 20) + ".example"
	}
	add("too long", "certificate length is greater than", p256, p256.Public(), names...)
	return made
}

// A node with an unknown certificate is not accepted, whatever its claimed address.
func TestAttackCertificates(t *testing.T) {
	n, err := New(Config{NetworkID: testNetworkID, AllowPrivateIPs: true})
	require.NoError(t, err)
	for name, test := range certificates(t) {
		t.Run(name, func(t *testing.T) {
			ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{test.Certificate}, ClientAuth: tls.RequireAnyClientCert})
			require.NoError(t, err)
			defer ln.Close()
			go accept(ln, func(c net.Conn) { _ = c.(*tls.Conn).HandshakeContext(t.Context()) })
			_, err = n.dial(t.Context(), ids.NodeID{1}, ln.Addr().(*net.TCPAddr).AddrPort())
			require.ErrorContains(t, err, test.want)
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		go accept(ln, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
		_, err = n.dial(t.Context(), ids.NodeID{1}, ln.Addr().(*net.TCPAddr).AddrPort())
		require.ErrorContains(t, err, "TLS handshake")
	})
}

// accept serves connections one by one until there are no more.
func accept(ln net.Listener, serve func(net.Conn)) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		serve(c)
		_ = c.Close()
	}
}
