package simnet

import (
	"crypto"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/network/peer"
	p2ppb "github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils"
	"github.com/ava-labs/avalanchego/utils/bloom"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/utils/ips"
	"github.com/ava-labs/avalanchego/version"
)

// rawPeer is a peer that may break the protocol.
type rawPeer struct {
	*tls.Conn
	t        *testing.T
	messages message.Creator
	claim    *peer.SignedIP
}

func dialRaw(t *testing.T, v *Validator) *rawPeer {
	t.Helper()
	cert, err := staking.NewTLSCert()
	require.NoError(t, err)
	key, err := localsigner.New()
	require.NoError(t, err)
	claim, err := peer.NewIPSigner(utils.NewAtomic(netip.MustParseAddrPort("127.0.0.1:9651")), cert.PrivateKey.(crypto.Signer), key).GetSignedIP()
	require.NoError(t, err)
	conn, err := tls.Dial("tcp", v.Addr().String(), peer.TLSConfig(*cert, nil))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	p := &rawPeer{Conn: conn, t: t, messages: v.network.messages, claim: claim}
	require.IsType(t, &p2ppb.Handshake{}, p.next(time.Minute))
	return p
}

func (p *rawPeer) send(m *message.OutboundMessage, err error) {
	p.t.Helper()
	require.NoError(p.t, err)
	p.write(m.Bytes)
}

func (p *rawPeer) write(b []byte) {
	_, _ = p.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)) // the connection may be closed
}

// next returns the next message, nil if there is none in time, or an error if the connection ended.
func (p *rawPeer) next(timeout time.Duration) any {
	p.t.Helper()
	require.NoError(p.t, p.SetReadDeadline(time.Now().Add(timeout)))
	var header [4]byte
	_, err := io.ReadFull(p, header[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err != nil {
		return err
	}
	body := make([]byte, binary.BigEndian.Uint32(header[:]))
	_, err = io.ReadFull(p, body)
	require.NoError(p.t, err)
	m, err := p.messages.Parse(body, ids.EmptyNodeID, func() {})
	require.NoError(p.t, err)
	return m.Message
}

// handshake is what a peer sends about itself.
type handshake struct {
	network              uint32
	time                 time.Time
	addr                 netip.AddrPort
	tlsSignature, blsSig []byte
	major                uint32
	tracked              []ids.ID
	supported, objected  []uint32
	salt                 []byte
}

func (p *rawPeer) handshake(v *Validator, change func(*handshake)) {
	p.t.Helper()
	h := &handshake{
		network: v.network.NetworkID(), time: time.Now(), addr: p.claim.AddrPort,
		tlsSignature: p.claim.TLSSignature, blsSig: p.claim.BLSSignatureBytes, major: uint32(version.Current.Major),
	}
	if change != nil {
		change(h)
	}
	p.send(p.messages.Handshake(h.network, uint64(h.time.Unix()), h.addr, version.Client, h.major, uint32(version.Current.Minor), uint32(version.Current.Patch),
		0, p.claim.Timestamp, h.tlsSignature, h.blsSig, h.tracked, h.supported, h.objected, bloom.EmptyFilter.Marshal(), h.salt, true))
}

// A validator answers a peer once it has its handshake and its peer list.
func TestHandshakeBeforeRequests(t *testing.T) {
	n := start(t, Options{Seed: 1, Validators: 2})
	v := n.Validators()[0]
	p := dialRaw(t, v)
	const quiet = 200 * time.Millisecond
	request := func() {
		m := n.Message([]byte("m"))
		p.send(p.messages.AppRequest(n.Blockchain(), 1, time.Minute, signatureOf(t, m.Bytes(), nil)))
	}
	p.send(p.messages.GetPeerList(bloom.EmptyFilter.Marshal(), nil, true))
	p.send(p.messages.PeerList(nil, true))
	request()
	require.Nil(t, p.next(quiet), "before the handshake")
	p.send(p.messages.Ping(100))
	require.IsType(t, &p2ppb.Pong{}, p.next(time.Minute))

	p.handshake(v, nil)
	require.IsType(t, &p2ppb.PeerList{}, p.next(time.Minute))
	request()
	require.Nil(t, p.next(quiet), "before the peer list")
	require.Zero(t, n.Requests())

	p.send(p.messages.PeerList(nil, true))
	p.write([]byte{0xff}) // ignored
	request()
	require.IsType(t, &p2ppb.AppResponse{}, p.next(time.Minute))
	require.EqualValues(t, 1, n.Requests())
}

func TestPeersThatNodesDisconnect(t *testing.T) {
	n := start(t, Options{Seed: 1, Validators: 1})
	v := n.Validators()[0]
	ended := func(p *rawPeer, name string) {
		t.Helper()
		require.Implements(t, (*error)(nil), p.next(time.Minute), name)
	}
	var undecided uint32
	for acp := range constants.CurrentACPs {
		undecided = acp
	}
	for name, change := range map[string]func(*handshake){
		"network":         func(h *handshake) { h.network++ },
		"clock":           func(h *handshake) { h.time = h.time.Add(2 * time.Minute) },
		"port 0":          func(h *handshake) { h.addr = netip.AddrPortFrom(h.addr.Addr(), 0) },
		"another address": func(h *handshake) { h.addr = netip.AddrPortFrom(h.addr.Addr(), 1) },
		"TLS signature":   func(h *handshake) { h.tlsSignature = nil },
		"BLS signature":   func(h *handshake) { h.blsSig = make([]byte, bls.SignatureLen) },
		"version":         func(h *handshake) { h.major-- },
		"subnets":         func(h *handshake) { h.tracked = make([]ids.ID, maxTrackedSubnets+1) },
		"salt":            func(h *handshake) { h.salt = make([]byte, maxBloomSalt+1) },
		"ACPs": func(h *handshake) {
			if len(constants.CurrentACPs) == 0 {
				h.network++ // all ACPs are decided
			}
			h.supported, h.objected = []uint32{undecided}, []uint32{undecided}
		},
	} {
		p := dialRaw(t, v)
		p.handshake(v, change)
		ended(p, name)
	}

	p := dialRaw(t, v)
	p.handshake(v, nil)
	require.IsType(t, &p2ppb.PeerList{}, p.next(time.Minute))
	p.handshake(v, nil)
	ended(p, "second handshake")

	p = dialRaw(t, v)
	p.send(p.messages.Pong())
	ended(p, "pong without ping")

	p = dialRaw(t, v)
	p.send(p.messages.Ping(101))
	ended(p, "uptime of 101%")
}

func TestPings(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a ping")
	}
	t.Parallel()
	n := start(t, Options{Seed: 1, Validators: 1})
	p := dialRaw(t, n.Validators()[0])
	require.IsType(t, &p2ppb.Ping{}, p.next(2*constants.DefaultPingFrequency))
	p.send(p.messages.Pong())
	p.send(p.messages.Ping(100))
	require.IsType(t, &p2ppb.Pong{}, p.next(time.Minute), "one pong is expected")
}

// A peer list has at most 15 addresses, none of them known to the peer or of stopped validators.
func TestPeerLists(t *testing.T) {
	n := start(t, Options{Seed: 1, Validators: 40, L1Validators: 1})
	p := connect(t, n.Validators()[0])
	require.Contains(t, p.TrackedSubnets(), n.l1)
	raw := dialRaw(t, n.Validators()[1])
	raw.handshake(n.Validators()[1], nil)
	require.IsType(t, &p2ppb.PeerList{}, raw.next(time.Minute))
	raw.send(raw.messages.PeerList(nil, true))

	n.Validators()[5].Stop()
	known, err := bloom.New(10, 1<<10)
	require.NoError(t, err)
	seen := make(map[uint32]bool)
	for len(seen) < 39 {
		raw.send(raw.messages.GetPeerList(known.Marshal(), nil, true))
		list, ok := raw.next(time.Minute).(*p2ppb.PeerList)
		require.True(t, ok, "%d of 39 addresses", len(seen))
		require.LessOrEqual(t, len(list.ClaimedIpPorts), 15)
		for _, c := range list.ClaimedIpPorts {
			require.False(t, seen[c.IpPort], "a known address")
			seen[c.IpPort] = true
			cert, err := staking.ParseCertificate(c.X509Certificate)
			require.NoError(t, err)
			claim := peer.SignedIP{UnsignedIP: peer.UnsignedIP{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(c.IpPort)), Timestamp: c.Timestamp}, TLSSignature: c.Signature}
			require.NoError(t, claim.Verify(cert, time.Now().Add(time.Minute)))
			id := ips.NewClaimedIPPort(cert, claim.AddrPort, c.Timestamp, c.Signature).GossipID
			bloom.Add(known, id[:], nil)
		}
	}
	require.NotContains(t, seen, uint32(n.Validators()[5].Addr().Port()))
	raw.send(raw.messages.GetPeerList(known.Marshal(), nil, true))
	require.Nil(t, raw.next(200*time.Millisecond), "an empty list is not sent")
}
