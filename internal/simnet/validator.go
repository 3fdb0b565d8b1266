package simnet

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	"github.com/ava-labs/avalanchego/network/p2p"
	"github.com/ava-labs/avalanchego/network/p2p/acp118"
	"github.com/ava-labs/avalanchego/network/peer"
	p2ppb "github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// Validator is one endpoint of the network. It is safe for concurrent use.
type Validator struct {
	// Index is its position among the network's validators.
	Index  int
	NodeID ids.NodeID

	network  *Network
	identity *identity
	signer   *localsigner.LocalSigner
	requests atomic.Uint64

	mu        sync.Mutex
	behaviour Behaviour             // guarded by mu
	hook      Hook                  // guarded by mu
	refusal   *common.AppError      // guarded by mu; nil means that of the chain's VM
	malformed int                   // guarded by mu; number of malformed answers so far
	addr      netip.AddrPort        // guarded by mu; unchanged by Stop
	ips       *peer.IPSigner        // guarded by mu; of addr
	listener  net.Listener          // guarded by mu; nil when stopped
	conns     map[net.Conn]struct{} // guarded by mu
	asked     map[ids.ID]struct{}   // guarded by mu; recent messages
	apps      map[ids.ID]app        // guarded by mu; by chain
}

func newValidator(n *Network, i int, behaviour Behaviour) (*Validator, error) {
	identity, err := newIdentity(n.options.Seed, i)
	if err != nil {
		return nil, err
	}
	signer, err := n.keys.signer(n.options.key(i))
	if err != nil {
		return nil, err
	}
	return &Validator{
		Index:     i,
		NodeID:    identity.nodeID,
		network:   n,
		identity:  identity,
		signer:    signer,
		behaviour: behaviour,
		addr:      netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0),
		conns:     make(map[net.Conn]struct{}),
		asked:     make(map[ids.ID]struct{}),
		apps:      make(map[ids.ID]app),
	}, nil
}

// Requests returns the number of signature requests that v received.
func (v *Validator) Requests() uint64 { return v.requests.Load() }

// Behaviour returns how v handles requests.
func (v *Validator) Behaviour() Behaviour {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.behaviour
}

// SetBehaviour changes how v handles requests. Offline stops v; any other behaviour starts
// it if it was stopped.
func (v *Validator) SetBehaviour(b Behaviour) error {
	v.mu.Lock()
	v.behaviour = b
	v.mu.Unlock()
	if b == Offline {
		v.Stop()
		return nil
	}
	return v.Start()
}

// SetRefusal sets the error with which a Refusing validator answers what others sign.
// Without it, v answers as a node that has not accepted the message's block.
func (v *Validator) SetRefusal(code int32, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refusal = &common.AppError{Code: code, Message: text}
}

// SetHook replaces the behaviour by h; nil restores it.
func (v *Validator) SetHook(h Hook) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hook = h
}

// Addr returns the address of v's listener.
func (v *Validator) Addr() netip.AddrPort {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.addr
}

// listening returns whether v's node runs, so that others are connected to it.
func (v *Validator) listening() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.listener != nil
}

// Start opens v's listener, each time on the same port.
func (v *Validator) Start() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp4", v.addr.String())
	if err != nil {
		return fmt.Errorf("starting validator %d: %w", v.Index, err)
	}
	v.listener = l
	v.addr = l.Addr().(*net.TCPAddr).AddrPort()
	v.addr = netip.AddrPortFrom(v.addr.Addr().Unmap(), v.addr.Port())
	if v.ips == nil {
		v.ips = ipSigner(v.identity, v.addr, v.signer)
	}
	v.network.running.Go(func() { v.accept(l) })
	return nil
}

// Stop closes v's listener and all its connections.
func (v *Validator) Stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.listener == nil {
		return
	}
	_ = v.listener.Close()
	v.listener = nil
	for c := range v.conns {
		_ = c.Close()
	}
}

func (v *Validator) accept(l net.Listener) {
	config := peer.TLSConfig(v.identity.tls, nil)
	for {
		raw, err := l.Accept()
		if err != nil {
			return // stopped
		}
		v.mu.Lock()
		if v.listener != l {
			v.mu.Unlock()
			_ = raw.Close()
			return
		}
		v.conns[raw] = struct{}{}
		v.network.running.Add(1)
		v.mu.Unlock()
		go func() {
			defer v.network.running.Done()
			ctx, cancel := context.WithCancel(context.Background())
			v.serve(ctx, raw, config)
			cancel()
			_ = raw.Close()
			v.mu.Lock()
			delete(v.conns, raw)
			v.mu.Unlock()
		}()
	}
}

// session is one connection after the TLS handshake.
type session struct {
	v      *Validator
	conn   *tls.Conn
	ctx    context.Context //nolint:containedctx // ends with the connection
	cert   *staking.Certificate
	nodeID ids.NodeID
	mu     sync.Mutex  // held while a message is written
	pinged atomic.Bool // a ping has no pong yet

	// Owned by the goroutine that reads. A peer is served once it has sent a valid handshake
	// and a peer list.
	gotHandshake, finished bool
}

const maxMessage = constants.DefaultMaxMessageSize

func (v *Validator) serve(ctx context.Context, raw net.Conn, config *tls.Config) {
	_ = raw.SetDeadline(time.Now().Add(15 * time.Second))
	conn := tls.Server(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return
	}
	_ = raw.SetDeadline(time.Time{})
	cert, err := staking.ParseCertificate(conn.ConnectionState().PeerCertificates[0].Raw)
	if err != nil {
		return
	}
	s := &session{v: v, conn: conn, ctx: ctx, cert: cert, nodeID: ids.NodeIDFromCert(cert)}
	if err := s.sendHandshake(); err != nil {
		return
	}
	v.network.running.Go(s.ping)
	var header [4]byte
	for {
		// Peers send pings, so that a node ends a connection without any message.
		_ = conn.SetReadDeadline(time.Now().Add(constants.DefaultPingPongTimeout))
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(header[:])
		if size > maxMessage {
			return
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		arrived := time.Now()
		msg, err := v.network.messages.Parse(body, ids.EmptyNodeID, func() {})
		if err != nil {
			continue // a node ignores what it cannot parse
		}
		if err := s.handle(msg, arrived); err != nil {
			v.network.log.Debug("connection ended", slog.Int("validator", v.Index), slog.Any("error", err))
			return
		}
	}
}

func (s *session) send(msg *message.OutboundMessage, err error) error {
	return s.sendDripping(0, msg, err)
}

// sendDripping sends a message with a pause before each byte.
func (s *session) sendDripping(pause time.Duration, msg *message.OutboundMessage, err error) error {
	if err != nil {
		return err
	}
	framed := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(msg.Bytes)), uint32(len(msg.Bytes)))
	framed = append(framed, msg.Bytes...)
	step := len(framed)
	if pause > 0 {
		step = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for piece := range slices.Chunk(framed, step) {
		if pause > 0 {
			s.v.network.wait(s.ctx, pause)
		}
		_ = s.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if _, err := s.conn.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// handle handles a message. An error ends the connection. Until the handshake is finished, a
// node drops all messages that are not about the connection.
func (s *session) handle(msg *message.InboundMessage, arrived time.Time) error {
	switch m := msg.Message.(type) {
	case *p2ppb.Handshake:
		return s.onHandshake(m)
	case *p2ppb.PeerList:
		return s.onPeerList(m)
	case *p2ppb.GetPeerList:
		return s.onGetPeerList(m)
	case *p2ppb.Ping:
		if m.Uptime > maxUptime {
			return fmt.Errorf("%w: uptime of %d%%", errPeer, m.Uptime)
		}
		return s.send(s.v.network.messages.Pong())
	case *p2ppb.Pong:
		if !s.pinged.Swap(false) {
			return fmt.Errorf("%w: pong", errPeer)
		}
		return nil
	}
	if !s.finished {
		return nil
	}
	switch m := msg.Message.(type) {
	case *p2ppb.AppRequest:
		s.onAppRequest(m, arrived)
	case *p2ppb.GetAncestors:
		return s.onGetAncestors(m)
	}
	return nil
}

// onGetAncestors sends vertices of the X-Chain. Nodes serve them to every peer that requests
// the DAG engine, also after linearisation, and drop requests for vertices that they do not
// have (avalanchego, snow/networking/handler and snow/engine/avalanche/getter). A Validator
// serves no blocks.
func (s *session) onGetAncestors(m *p2ppb.GetAncestors) error {
	v := s.v
	chainID, err := ids.ToID(m.ChainId)
	if err != nil {
		return nil //nolint:nilerr // dropped
	}
	id, err := ids.ToID(m.ContainerId)
	past := v.network.past
	if err != nil || past == nil || chainID != v.network.xChain || m.EngineType != p2ppb.EngineType_ENGINE_TYPE_DAG {
		return nil //nolint:nilerr // dropped
	}
	found, err := past.Ancestors(id)
	if err != nil || len(found) == 0 {
		return err
	}
	switch v.Behaviour() {
	case Silent, Refusing:
		return nil
	case Malformed, WrongSignature:
		for i := range found {
			found[i] = append([]byte{0xff}, found[i]...)
		}
	}
	return s.send(v.network.messages.Ancestors(chainID, m.RequestId, found))
}

// onAppRequest answers requests to the VM of a chain. The time for signing counts towards the
// simulated answer time.
func (s *session) onAppRequest(m *p2ppb.AppRequest, arrived time.Time) {
	v := s.v
	chainID, err := ids.ToID(m.ChainId)
	if err != nil || !v.validates(chainID) {
		return // a node drops messages for chains that it does not have
	}
	answer, err := v.request(s.ctx, chainID, s.nodeID, m.RequestId, arrived.Add(time.Duration(m.Deadline)), m.AppBytes)
	if err != nil {
		v.network.log.Error("answering an application request", slog.Any("chain", chainID), slog.Any("error", err))
		return
	}
	due := arrived
	if msg, justification := signatureRequest(m.AppBytes); msg != nil && answer.Times > 0 && v.signs(chainID) {
		v.count(msg.ID())
		answer = v.answer(msg, justification, answer)
		due = due.Add(v.network.AnswerTime(v.Index, msg.ID()) + answer.Delay)
	}
	if answer.Times == 0 {
		return
	}
	reply := func() {
		for range answer.Times {
			var out *message.OutboundMessage
			var err error
			if answer.Refuse {
				out, err = v.network.messages.AppError(chainID, m.RequestId, answer.Code, answer.Text)
			} else {
				out, err = v.network.messages.AppResponse(chainID, m.RequestId, answer.Bytes)
			}
			if s.sendDripping(answer.Drip, out, err) != nil {
				return
			}
		}
	}
	if !time.Now().Before(due) && answer.Drip == 0 {
		reply()
		return
	}
	v.network.running.Add(1)
	time.AfterFunc(time.Until(due), func() {
		defer v.network.running.Done()
		if s.ctx.Err() == nil {
			reply()
		}
	})
}

// validates returns whether v's node runs a chain.
func (v *Validator) validates(chainID ids.ID) bool {
	if chainID == constants.PlatformChainID {
		return true
	}
	subnetID, ok := v.network.chains[chainID]
	return ok && (subnetID == constants.PrimaryNetworkID || v.inL1())
}

// inL1 returns whether v tracks the L1: from the start or as one of its current validators.
func (v *Validator) inL1() bool {
	if v.network.l1 == ids.Empty {
		return false
	}
	if v.Index < v.network.options.L1Validators {
		return true
	}
	_, err := v.network.l1Validator(v.validationID())
	return err == nil
}

// signs returns whether the VM of a chain has an ACP-118 handler.
func (v *Validator) signs(chainID ids.ID) bool {
	return v.network.past == nil || chainID != v.network.xChain
}

// signatureRequest returns the message and the justification of an ACP-118 request, or nil.
func signatureRequest(b []byte) (msg *warp.UnsignedMessage, justification []byte) {
	handler, content, ok := p2p.ParseMessage(b)
	var request sdk.SignatureRequest
	if !ok || handler != acp118.HandlerID || proto.Unmarshal(content, &request) != nil {
		return nil, nil
	}
	msg, err := warp.ParseUnsignedMessage(request.Message)
	if err != nil {
		return nil, nil
	}
	return msg, request.Justification
}

// count adds a request to the statistics.
func (v *Validator) count(id ids.ID) {
	v.requests.Add(1)
	v.network.requests.Add(1)
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.asked[id]; ok {
		v.network.repeated.Add(1)
		return
	}
	if len(v.asked) >= recentMessages {
		clear(v.asked)
	}
	v.asked[id] = struct{}{}
}

// answer returns the answer to a signature request that v's node would answer with honest.
// Faults other than silence only change signatures.
func (v *Validator) answer(msg *warp.UnsignedMessage, justification []byte, honest Answer) Answer {
	v.mu.Lock()
	behaviour, hook, refusal := v.behaviour, v.hook, v.refusal
	kind := v.malformed
	if behaviour == Malformed {
		v.malformed++
	}
	v.mu.Unlock()
	switch {
	case hook != nil:
		return hook(msg, justification, honest)
	case behaviour == Silent, behaviour == Offline:
		return Answer{}
	case behaviour == Refusing && refusal != nil && !invalidRequest(honest):
		return Answer{Refuse: true, Code: refusal.Code, Text: refusal.Message, Times: 1}
	case honest.Refuse:
		return honest
	case behaviour == WrongSignature:
		return Answer{Bytes: response(v.network.wrongSignature(msg, v)), Times: 1}
	case behaviour == Malformed:
		return Answer{Bytes: garbage(kind, v.network.signature(msg, v.Index)), Times: 1}
	}
	return honest
}

// invalidRequest returns whether the ACP-118 handler refuses a request whatever its chain has accepted.
func invalidRequest(a Answer) bool { return a.Refuse && a.Code == p2p.ErrUnexpected.Code }

// wrongSignature returns what a validator with the behaviour WrongSignature answers, which may be
// a valid signature.
func (n *Network) wrongSignature(msg *warp.UnsignedMessage, v *Validator) []byte {
	rank := slices.Index(n.liars, v.Index)
	lies := n.options.Lies
	if rank < 0 { // became one later
		lies = OtherMessage
	}
	switch {
	case !lies.lie(rank, len(n.liars), v.requests.Load(), msg.ID()):
		return n.signature(msg, v.Index)
	case lies == Negated:
		negated := slices.Clone(n.signature(msg, v.Index))
		negated[0] ^= 0x20 // the sign of y
		return negated
	case lies == SwappedKeys && rank^1 < len(n.liars):
		return n.signature(msg, n.liars[rank^1])
	}
	return n.signature(n.Message([]byte("something else")), v.Index)
}

// garbage returns a malformed answer; kind selects which.
func garbage(kind int, valid []byte) []byte {
	infinity := make([]byte, bls.SignatureLen)
	infinity[0] = 0xc0
	offCurve := append([]byte{valid[0]}, make([]byte, bls.SignatureLen-1)...)
	offCurve[bls.SignatureLen-1] = 1
	sorts := [][]byte{
		nil,
		response(nil),
		response(valid[:1]),
		response(valid[:95]),
		response(append(valid[:96:96], 0)),
		response(infinity),
		response(offCurve),
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		response(make([]byte, 100<<10)),
	}
	return sorts[kind%len(sorts)]
}

func response(signature []byte) []byte {
	b, err := proto.Marshal(&sdk.SignatureResponse{Signature: signature})
	if err != nil {
		panic(fmt.Sprintf("simnet: encoding a response: %v", err))
	}
	return b
}
