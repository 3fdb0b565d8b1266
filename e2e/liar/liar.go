// Package liar is a validator that lies about what it has accepted. It presents a real validator's certificate and signs
// with its key, so a service that reaches it cannot tell it from the real one.
package liar

import (
	"context"
	"crypto"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/network/p2p/acp118"
	"github.com/ava-labs/avalanchego/network/peer"
	p2ppb "github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils"
	"github.com/ava-labs/avalanchego/utils/bloom"
	"github.com/ava-labs/avalanchego/utils/compression"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/version"
)

// Story is what a liar says of a chain.
type Story struct {
	// Tip is its last accepted block; empty means that it does not say.
	Tip ids.ID
	// Accepted reports whether it says that it has accepted a block.
	Accepted func(id ids.ID) bool
	// Container is what it sends for any block; nil means nothing.
	Container []byte
}

// Liar is a running liar.
type Liar struct {
	// Addr is where it listens.
	Addr netip.AddrPort

	networkID uint32
	tls       *tls.Certificate
	signer    bls.Signer
	messages  message.Creator

	mu     sync.Mutex
	tell   func(chainID ids.ID) Story // guarded by mu
	asked  int                        // guarded by mu
	conns  map[net.Conn]struct{}      // guarded by mu
	closed bool                       // guarded by mu
}

// Start starts a liar with the keys of staker i, from 1 on, in a folder. It ends with the test.
func Start(t testing.TB, networkID uint32, keys string, i int, tell func(chainID ids.ID) Story) *Liar {
	t.Helper()
	file := func(format string) string { return filepath.Join(keys, fmt.Sprintf(format, i)) }
	cert, err := staking.LoadTLSCertFromFiles(file("staker%d.key"), file("staker%d.crt"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := localsigner.FromFile(file("signer%d.key"))
	if err != nil {
		t.Fatal(err)
	}
	messages, err := message.NewCreator(prometheus.NewRegistry(), compression.TypeNone, constants.DefaultNetworkMaximumInboundTimeout)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Liar{networkID: networkID, tls: cert, signer: signer, messages: messages, tell: tell, conns: make(map[net.Conn]struct{})}
	l.Addr = netip.MustParseAddrPort(listener.Addr().String())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.conns[conn] = struct{}{}
			closed := l.closed
			l.mu.Unlock()
			if closed {
				_ = conn.Close()
				return
			}
			running.Go(func() { l.serve(t.Context(), conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.mu.Lock()
		l.closed = true
		for conn := range l.conns {
			_ = conn.Close()
		}
		l.mu.Unlock()
		running.Wait()
	})
	return l
}

// Tell replaces what it says.
func (l *Liar) Tell(tell func(chainID ids.ID) Story) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell = tell
}

// Asked returns how often it was asked for its last accepted block.
func (l *Liar) Asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

func (l *Liar) serve(ctx context.Context, raw net.Conn) {
	defer func() { _ = raw.Close() }()
	conn := tls.Server(raw, peer.TLSConfig(*l.tls, nil))
	if conn.HandshakeContext(ctx) != nil || l.shakeHands(conn) != nil {
		return
	}
	for {
		var header [4]byte
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		body := make([]byte, min(binary.BigEndian.Uint32(header[:]), constants.DefaultMaxMessageSize))
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		m, err := l.messages.Parse(body, ids.EmptyNodeID, func() {})
		if err != nil || l.answer(conn, m) != nil {
			return
		}
	}
}

func send(conn net.Conn, m *message.OutboundMessage, err error) error {
	if err == nil {
		_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(m.Bytes))), m.Bytes...))
	}
	return err
}

func (l *Liar) shakeHands(conn net.Conn) error {
	signed, err := peer.NewIPSigner(utils.NewAtomic(l.Addr), l.tls.PrivateKey.(crypto.Signer), l.signer).GetSignedIP()
	if err != nil {
		return err
	}
	m, err := l.messages.Handshake(
		l.networkID, uint64(time.Now().Unix()), signed.AddrPort, version.Current.Name,
		uint32(version.Current.Major), uint32(version.Current.Minor), uint32(version.Current.Patch), 0,
		signed.Timestamp, signed.TLSSignature, signed.BLSSignatureBytes, nil, nil, nil, bloom.EmptyFilter.Marshal(), nil, false,
	)
	return send(conn, m, err)
}

// story returns what it says of a chain.
func (l *Liar) story(chain []byte) (ids.ID, Story) {
	id, _ := ids.ToID(chain)
	l.mu.Lock()
	defer l.mu.Unlock()
	return id, l.tell(id)
}

func (l *Liar) answer(conn net.Conn, in *message.InboundMessage) error {
	switch m := in.Message.(type) {
	case *p2ppb.Handshake, *p2ppb.GetPeerList:
		out, err := l.messages.PeerList(nil, true)
		return send(conn, out, err)
	case *p2ppb.Ping:
		out, err := l.messages.Pong()
		return send(conn, out, err)
	case *p2ppb.GetAcceptedFrontier:
		chainID, s := l.story(m.ChainId)
		l.mu.Lock()
		l.asked++
		l.mu.Unlock()
		if s.Tip == ids.Empty {
			return nil
		}
		out, err := l.messages.AcceptedFrontier(chainID, m.RequestId, s.Tip)
		return send(conn, out, err)
	case *p2ppb.GetAccepted:
		chainID, s := l.story(m.ChainId)
		var accepted []ids.ID
		for _, b := range m.ContainerIds {
			if id, err := ids.ToID(b); err == nil && s.Accepted != nil && s.Accepted(id) {
				accepted = append(accepted, id)
			}
		}
		out, err := l.messages.Accepted(chainID, m.RequestId, accepted)
		return send(conn, out, err)
	case *p2ppb.Get:
		chainID, s := l.story(m.ChainId)
		if s.Container == nil {
			return nil
		}
		out, err := l.messages.Put(chainID, m.RequestId, s.Container)
		return send(conn, out, err)
	case *p2ppb.AppRequest:
		return l.sign(conn, m)
	}
	return nil
}

// sign signs what it is asked to, as an honest validator would.
func (l *Liar) sign(conn net.Conn, m *p2ppb.AppRequest) error {
	chainID, err := ids.ToID(m.ChainId)
	if err != nil {
		return err
	}
	handler, n := binary.Uvarint(m.AppBytes)
	if n <= 0 || handler != acp118.HandlerID {
		return nil
	}
	var request sdk.SignatureRequest
	if err := proto.Unmarshal(m.AppBytes[n:], &request); err != nil {
		return err
	}
	signature, err := l.signer.Sign(request.Message)
	if err != nil {
		return err
	}
	response, err := proto.Marshal(&sdk.SignatureResponse{Signature: bls.SignatureToBytes(signature)})
	if err != nil {
		return err
	}
	out, err := l.messages.AppResponse(chainID, m.RequestId, response)
	return send(conn, out, err)
}
