package p2p

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/staking"
	"github.com/ava-labs/avalanchego/utils/constants"
)

const (
	pingInterval = constants.DefaultPingFrequency
	// silence is how long a node may send no complete message. A node that answers pings sends
	// messages more often.
	silence = constants.DefaultPingPongTimeout
	// pulseInterval is the time between two checks of a session.
	pulseInterval = 500 * time.Millisecond

	// leastMessage is the least that a message counts against a node's rate limit, in bytes:
	// even an empty message takes processor time.
	leastMessage = 256
	// smallMessage is the size in bytes up to which messages are read into reused buffers.
	// Nearly all messages are smaller.
	smallMessage = 4 << 10
	// mediumMessage is the size in bytes up to which messages do not count against largeBudget.
	// Answers with signatures are much smaller.
	mediumMessage = 64 << 10
	// largeBudget bounds the large messages that are being received, in bytes. Nodes that are not
	// asked for blocks may use half of it.
	largeBudget = 64 << 20

	// maxRefusalText bounds the stored text of a refusal, in bytes.
	maxRefusalText = 1024
)

var (
	errMalformed    = errors.New("malformed message")
	errUnexpected   = errors.New("unexpected message")
	errIncompatible = errors.New("version is not compatible")
	errSilent       = errors.New("node sent nothing for too long")
)

// session is one connection to a node, from the end of its TLS handshake. The goroutine that
// dialled reads it; any goroutine may write.
type session struct {
	n      *Network
	nodeID ids.NodeID
	cert   *staking.Certificate
	addr   netip.AddrPort // the dialled address
	conn   io.ReadWriter  // TLS
	wire   *wire
	since  time.Time

	// Owned by the reader.
	header    [frameHeader]byte
	handler   func(content) error // onMessage; a field, because a method value allocates
	allow     *rate.Limiter       // bytes that the node may send
	debt      int                 // bytes that the last message had more than it seemed
	handshake *handshake          // the node's; nil before; unchanged once peer is set
	// failure is why the session ended. Set when run returns.
	failure error

	// peer describes the node; nil before the handshake is finished.
	peer   atomic.Pointer[Peer]
	quiet  atomic.Int32  // pulses since the last message
	pings  atomic.Int32  // sent and not answered
	pinged atomic.Int64  // when the last one was sent, in ns since the start of the session
	lag    atomic.Int64  // between the last ping and its pong, in ns; 0: not known
	uptime atomic.Uint32 // percent, of ours as the node sees it
	sent   atomic.Uint64 // messages
	unsent atomic.Uint64 // messages dropped because the node does not read

	// exchanges is the number of pending exchanges. blockExchanges is the number of those that request
	// blocks. credit is the number of bytes that the node may send in reply beyond allow.
	exchanges, blockExchanges atomic.Int32
	credit                    atomic.Int64

	// lastSent and lastReceived are times as of the last pulse, in Unix seconds. Only pulses
	// read the clock.
	lastSent, lastReceived atomic.Int64

	// Owned by the goroutine of pulse.
	nextPing   time.Time
	sentBefore uint64 // sent at the last pulse

	ending sync.Once
	cause  atomic.Pointer[error] // why we ended it; nil: we did not
}

func (n *Network) newSession(conn io.ReadWriter, w *wire, cert *staking.Certificate, nodeID ids.NodeID, addr netip.AddrPort) *session {
	now := time.Now()
	s := &session{
		n: n, nodeID: nodeID, cert: cert, addr: addr, conn: conn, wire: w, since: now,
		allow: rate.NewLimiter(constants.DefaultInboundThrottlerBandwidthRefillRate, constants.DefaultInboundThrottlerBandwidthMaxBurstSize),
		// At random, so that a thousand nodes are not pinged at the same time.
		nextPing: now.Add(rand.N(pingInterval)),
	}
	s.handler = s.onMessage
	s.lastSent.Store(now.Unix())
	s.lastReceived.Store(now.Unix())
	return s
}

// run reads the connection until it is lost or ended. It reports whether the handshake was
// finished. When ctx ends, waits for anything but the connection end.
func (s *session) run(ctx context.Context) bool {
	if !s.n.enter(s) {
		s.failure = context.Canceled
		s.end(nil)
		s.wire.wait()
		return false
	}
	err := s.sendHandshake()
	if err == nil {
		err = s.read(ctx)
	}
	s.end(nil)
	s.n.leave(s)
	s.wire.wait()
	if cause := s.cause.Load(); cause != nil {
		err = *cause
	}
	s.failure = err
	s.n.log.Debug("connection ended", slog.Any("nodeID", s.nodeID), slog.Any("addr", s.addr), slog.Any("error", err))
	return s.peer.Load() != nil
}

// end closes the connection, which ends run. It does not wait.
func (s *session) end(cause error) {
	s.ending.Do(func() {
		if cause != nil {
			s.cause.Store(&cause)
		}
		// Without the alert of TLS, which would have to wait for other writers.
		s.wire.Close() //nolint:errcheck // the session ends either way
	})
}

// send writes a framed message without waiting. It returns false if the node does not read
// earlier messages, or if the connection is lost.
func (s *session) send(framed []byte) bool {
	if !s.wire.room(len(framed)) {
		s.n.metrics.unsent.Inc()
		s.unsent.Add(1)
		return false
	}
	if _, err := s.conn.Write(framed); err != nil {
		s.end(err)
		return false
	}
	s.n.metrics.bytesSent.Add(float64(len(framed)))
	s.sent.Add(1)
	return true
}

func (s *session) sendHandshake() error {
	framed, err := s.n.ownHandshake()
	if err != nil {
		return err
	}
	if !s.send(framed) {
		return errWireClosed
	}
	return nil
}

// read handles messages until one ends the session or the connection fails.
func (s *session) read(ctx context.Context) error {
	for {
		if _, err := io.ReadFull(s.conn, s.header[:]); err != nil {
			return err
		}
		s.quiet.Store(0)
		size := binary.BigEndian.Uint32(s.header[:])
		if size > maxMessage {
			return fmt.Errorf("%w: %d bytes", errTooLarge, size)
		}
		if err := s.allow.WaitN(ctx, s.charged(max(int(size), leastMessage))); err != nil {
			return err
		}
		if err := s.receive(ctx, int(size)); err != nil {
			return err
		}
		if s.debt > 0 {
			if err := s.allow.WaitN(ctx, s.debt); err != nil {
				return err
			}
		}
		s.debt = 0
		s.quiet.Store(0)
		s.n.metrics.bytesReceived.Add(float64(frameHeader + size))
	}
}

// receive reads a message of size bytes and handles it.
func (s *session) receive(ctx context.Context, size int) error {
	buffer := s.n.buffers.Get().(*[smallMessage]byte)
	defer s.n.buffers.Put(buffer)
	start := buffer[:min(size, smallMessage)]
	if _, err := io.ReadFull(s.conn, start); err != nil {
		return err
	}
	if len(start) == size {
		return s.handle(start)
	}
	if field, _, ok := outermost(start, size); ok && !handled(field) {
		s.n.metrics.unhandled.Inc()
		return s.skip(buffer[:], size-len(start))
	}
	if size > mediumMessage && s.blockExchanges.Load() == 0 {
		if !s.n.unasked.TryAcquire(int64(size)) {
			s.n.metrics.unexpected.Inc()
			return s.skip(buffer[:], size-len(start))
		}
		defer s.n.unasked.Release(int64(size))
	}
	return s.receiveLarge(ctx, start, size)
}

// skip reads size bytes and drops them.
func (s *session) skip(buffer []byte, size int) error {
	for size > 0 {
		n, err := s.conn.Read(buffer[:min(size, len(buffer))])
		if err != nil {
			return err
		}
		size -= n
	}
	return nil
}

// receiveLarge reads the rest of a message that begins with start. Memory grows with the bytes
// that have arrived, not with the announced size.
func (s *session) receiveLarge(ctx context.Context, start []byte, size int) error {
	if size > mediumMessage {
		waiting, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		if err := s.n.large.Acquire(waiting, int64(size)); err != nil {
			return fmt.Errorf("waiting for memory: %w", err)
		}
		defer s.n.large.Release(int64(size))
	}
	b := append(make([]byte, 0, min(size, 4*smallMessage)), start...)
	for len(b) < size {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(size, 4*cap(b))), b...)
		}
		n, err := s.conn.Read(b[len(b):cap(b)])
		if err != nil {
			return err
		}
		b = b[:len(b)+n]
	}
	return s.handle(b)
}

// handle handles a message. Like the library, it drops a message that cannot be parsed. An error
// ends the session.
func (s *session) handle(b []byte) error {
	plain, err := s.n.decoder.decode(b, s.handler)
	if errors.Is(err, errNotAMessage) {
		s.n.metrics.malformed.Inc()
	} else if err != nil {
		return err
	}
	s.debt = s.charged(max(plain-len(b), 0))
	return nil
}

// onMessage handles the content of a message. It must not keep any of it.
func (s *session) onMessage(c content) error {
	if c.isResponse {
		if s.peer.Load() == nil {
			return nil // nothing is requested before the handshake is finished
		}
		s.n.answered(s.nodeID, c.response.chainID, c.response.requestID, Answer{Bytes: c.response.appBytes})
		return nil
	}
	switch m := c.other.GetMessage().(type) {
	case *p2p.Message_Ping:
		if m.Ping.GetUptime() > 100 {
			return fmt.Errorf("%w: uptime of %d %%", errMalformed, m.Ping.GetUptime())
		}
		s.uptime.Store(m.Ping.GetUptime())
		s.send(s.n.frames.pong)
	case *p2p.Message_Pong:
		return s.onPong()
	case *p2p.Message_Handshake:
		return s.onHandshake(m.Handshake)
	case *p2p.Message_PeerList_:
		return s.onPeerList(m.PeerList_)
	case *p2p.Message_GetPeerList:
		// This service is no source of addresses.
		if s.peer.Load() != nil {
			s.send(s.n.frames.noPeers)
		}
	case *p2p.Message_AcceptedFrontier_:
		s.onReply(replyFrontier, m.AcceptedFrontier_, c.other)
	case *p2p.Message_Accepted_:
		s.onReply(replyAccepted, m.Accepted_, c.other)
	case *p2p.Message_Put:
		s.onReply(replyPut, m.Put, c.other)
	case *p2p.Message_Ancestors_:
		s.onReply(replyAncestors, m.Ancestors_, c.other)
	case *p2p.Message_AppError:
		if s.peer.Load() == nil {
			return nil
		}
		s.n.answered(s.nodeID, m.AppError.GetChainId(), m.AppError.GetRequestId(), Answer{Err: &common.AppError{
			Code:    m.AppError.GetErrorCode(),
			Message: shorten(m.AppError.GetErrorMessage()),
		}})
	default:
		s.n.metrics.unhandled.Inc()
	}
	return nil
}

// onReply passes a reply to the exchange that waits for it.
func (s *session) onReply(kind replyKind, reply interface {
	GetChainId() []byte
	GetRequestId() uint32
}, whole *p2p.Message) {
	if s.peer.Load() == nil {
		return // nothing is requested before the handshake is finished
	}
	s.n.answered(s.nodeID, reply.GetChainId(), reply.GetRequestId(), Answer{kind: kind, message: whole})
}

func shorten(text string) string {
	if len(text) <= maxRefusalText {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:maxRefusalText]), "")
}

// onHandshake handles the node's handshake, which the node must send once.
func (s *session) onHandshake(m *p2p.Handshake) error {
	if s.handshake != nil {
		return fmt.Errorf("%w: second handshake", errUnexpected)
	}
	h, err := s.n.check(m, s.cert)
	if err != nil {
		return err
	}
	s.handshake = h
	if !s.send(s.n.frames.noPeers) { // finishes the handshake for the node
		return errWireClosed
	}
	return nil
}

// onPeerList handles a list of addresses. The first one finishes the handshake.
func (s *session) onPeerList(m *p2p.PeerList) error {
	if s.handshake == nil {
		return nil
	}
	if s.peer.Load() == nil {
		s.peer.Store(&Peer{
			NodeID:      s.nodeID,
			Addr:        s.addr,
			Claimed:     s.handshake.claim.AddrPort,
			Version:     s.handshake.version.Semantic(),
			UpgradeTime: time.Unix(int64(s.handshake.upgradeTime), 0).UTC(),
			Since:       time.Now(),

			TrackedSubnets: s.handshake.tracked,
			SupportedACPs:  s.handshake.supported,
			ObjectedACPs:   s.handshake.objected,
		})
		s.n.connect(s)
	}
	return s.n.learn(m.GetClaimedIpPorts())
}

// ping sends a ping. Only the goroutine of pulse calls it.
func (s *session) ping() {
	s.pings.Add(1)
	s.pinged.Store(int64(time.Since(s.since)))
	s.send(s.n.frames.ping)
}

func (s *session) onPong() error {
	if s.pings.Add(-1) < 0 {
		return fmt.Errorf("%w: pong", errUnexpected)
	}
	lag := time.Since(s.since) - time.Duration(s.pinged.Load())
	s.lag.Store(int64(lag))
	s.n.metrics.pings.Observe(lag.Seconds())
	return nil
}

// pulse checks all sessions until ctx ends: it sends pings, and ends sessions that are silent,
// outdated or not wanted any more.
func (n *Network) pulse(ctx context.Context) {
	ticker := time.NewTicker(pulseInterval)
	defer ticker.Stop()
	var all []*session
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			n.mu.RLock()
			for s := range n.sessions {
				all = append(all, s)
			}
			n.mu.RUnlock()
			for _, s := range all {
				s.look(now)
			}
			clear(all)
			all = all[:0]
		}
	}
}

// look checks one session.
func (s *session) look(now time.Time) {
	switch quiet := s.quiet.Add(1); {
	case quiet > int32(silence/pulseInterval):
		s.end(errSilent)
		return
	case quiet == 1:
		s.lastReceived.Store(now.Unix())
	}
	if sent := s.sent.Load(); sent != s.sentBefore {
		s.sentBefore = sent
		s.lastSent.Store(now.Unix())
	}
	peer := s.peer.Load()
	if peer == nil {
		if now.Sub(s.since) > silence {
			s.end(fmt.Errorf("%w: handshake is not finished", errSilent))
		}
		return
	}
	if now.Before(s.nextPing) {
		return
	}
	s.nextPing = now.Add(pingInterval)
	if !s.n.wants(s.nodeID) {
		s.end(errUnwanted)
		return
	}
	// An upgrade of the network may have made the version incompatible.
	if !s.n.compatible.Compatible(s.handshake.version) {
		s.end(errIncompatible)
		return
	}
	s.ping()
}
