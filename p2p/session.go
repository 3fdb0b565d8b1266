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
	// silence is how long a node may send no whole message. Pings make it say
	// something more often.
	silence = constants.DefaultPingPongTimeout
	// pulseInterval is how often sessions are looked at.
	pulseInterval = 500 * time.Millisecond

	// leastMessage is what a message counts as at least against what a node may
	// send, in bytes, since even an empty one takes work.
	leastMessage = 256
	// smallMessage is the size in bytes up to which messages are read into
	// buffers that are used again. Nearly all are smaller.
	smallMessage = 4 << 10
	// mediumMessage is the size in bytes up to which messages are read without
	// asking for a share of largeBudget. Answers with signatures stay far below.
	mediumMessage = 64 << 10
	// largeBudget bounds the large messages that are being received, in bytes. Nodes without a
	// pending exchange may use half of it.
	largeBudget = 64 << 20

	// maxRefusalText bounds how much of a node's explanation is kept, in bytes.
	maxRefusalText = 1024
)

var (
	errMalformed    = errors.New("malformed message")
	errUnexpected   = errors.New("message out of turn")
	errIncompatible = errors.New("version is not compatible")
	errSilent       = errors.New("node has been silent for too long")
)

// session is one connection to a node, from the end of its TLS handshake. The
// goroutine that dialled reads it; whoever has something to say writes to it.
type session struct {
	n      *Network
	nodeID ids.NodeID
	cert   *staking.Certificate
	addr   netip.AddrPort // where we met
	conn   io.ReadWriter  // TLS
	wire   *wire
	since  time.Time

	// Owned by the reader.
	header [frameHeader]byte
	hear   func(content) error // heard
	allow  *rate.Limiter       // bytes that the node may send
	debt   int                 // bytes that the last message had more than it seemed
	hello  *hello              // what its handshake said; nil before; unchanged once peer is set
	// failure is why the session ended. Set when run returns.
	failure error

	// peer is what is known of the node; nil before the handshake is finished.
	peer   atomic.Pointer[Peer]
	quiet  atomic.Int32  // pulses since the last sign of life
	pings  atomic.Int32  // sent and not answered
	pinged atomic.Int64  // when the last one was sent, in ns since the start of the session
	lag    atomic.Int64  // between the last ping and its pong, in ns; 0: not known
	uptime atomic.Uint32 // percent, of ours as the node sees it
	sent   atomic.Uint64 // messages
	unsent atomic.Uint64 // messages that the node had no room for

	// exchanges counts those that wait for an answer, credit is how many bytes the node
	// may send in answer to them beyond allow.
	exchanges atomic.Int32
	credit    atomic.Int64

	// lastSent and lastHeard are as of the last pulse, in Unix seconds; what happens to
	// a message costs nothing that way.
	lastSent, lastHeard atomic.Int64

	// Owned by the goroutine of pulse.
	nextPing time.Time
	spoken   uint64 // sent at the last pulse

	ending sync.Once
	cause  atomic.Pointer[error] // why we ended it; nil: we did not
}

func (n *Network) newSession(conn io.ReadWriter, w *wire, cert *staking.Certificate, nodeID ids.NodeID, addr netip.AddrPort) *session {
	now := time.Now()
	s := &session{
		n: n, nodeID: nodeID, cert: cert, addr: addr, conn: conn, wire: w, since: now,
		allow: rate.NewLimiter(constants.DefaultInboundThrottlerBandwidthRefillRate, constants.DefaultInboundThrottlerBandwidthMaxBurstSize),
		// Apart from each other, so that the pings of a thousand nodes do not
		// come at once.
		nextPing: now.Add(rand.N(pingInterval)),
	}
	s.hear = s.heard
	s.lastSent.Store(now.Unix())
	s.lastHeard.Store(now.Unix())
	return s
}

// run carries the session until the connection is lost or ended. It reports
// whether the handshake was finished. What it waits for besides the connection
// ends with ctx.
func (s *session) run(ctx context.Context) bool {
	if !s.n.enter(s) {
		s.failure = context.Canceled
		s.end(nil)
		s.wire.wait()
		return false
	}
	err := s.greet()
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
		// Not through TLS, which would wait for a turn to say goodbye.
		s.wire.Close() //nolint:errcheck // it is over either way
	})
}

// send hands a framed message to the connection without waiting, and reports
// whether it was taken. It is not if the node does not read what it was sent
// before.
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

func (s *session) greet() error {
	framed, err := s.n.greeting()
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
	if field, _, ok := outermost(start, size); ok && !heed(field) {
		s.n.metrics.unhandled.Inc()
		return s.skip(buffer[:], size-len(start))
	}
	if size > mediumMessage && s.exchanges.Load() == 0 {
		if !s.n.unasked.TryAcquire(int64(size)) {
			s.n.metrics.unexpected.Inc()
			return s.skip(buffer[:], size-len(start))
		}
		defer s.n.unasked.Release(int64(size))
	}
	return s.receiveLarge(ctx, start, size)
}

// skip reads size bytes and forgets them.
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

// receiveLarge reads the rest of a message that start begins. Memory grows with
// what has arrived, not with what was announced.
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

// handle deals with a message. One that cannot be understood is dropped, like
// the library does; an error ends the session.
func (s *session) handle(b []byte) error {
	plain, err := s.n.decoder.decode(b, s.hear)
	if errors.Is(err, errNotAMessage) {
		s.n.metrics.malformed.Inc()
	} else if err != nil {
		return err
	}
	s.debt = s.charged(max(plain-len(b), 0))
	return nil
}

// heard deals with the content of a message, of which nothing may be kept.
func (s *session) heard(c content) error {
	if c.isResponse {
		if s.peer.Load() == nil {
			return nil // before the end of the handshake nothing was asked
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
		return s.ponged()
	case *p2p.Message_Handshake:
		return s.greeted(m.Handshake)
	case *p2p.Message_PeerList_:
		return s.told(m.PeerList_)
	case *p2p.Message_GetPeerList:
		// We serve nobody's validators; who wants addresses asks these.
		if s.peer.Load() != nil {
			s.send(s.n.frames.noPeers)
		}
	case *p2p.Message_AcceptedFrontier_:
		s.replied(replyFrontier, m.AcceptedFrontier_, c.other)
	case *p2p.Message_Accepted_:
		s.replied(replyAccepted, m.Accepted_, c.other)
	case *p2p.Message_Put:
		s.replied(replyPut, m.Put, c.other)
	case *p2p.Message_Ancestors_:
		s.replied(replyAncestors, m.Ancestors_, c.other)
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

// replied hands a reply to the exchange that waits for it.
func (s *session) replied(kind replyKind, reply interface {
	GetChainId() []byte
	GetRequestId() uint32
}, whole *p2p.Message) {
	if s.peer.Load() == nil {
		return // before the end of the handshake nothing was asked
	}
	s.n.answered(s.nodeID, reply.GetChainId(), reply.GetRequestId(), Answer{kind: kind, message: whole})
}

func shorten(text string) string {
	if len(text) <= maxRefusalText {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:maxRefusalText]), "")
}

// greeted deals with the node's handshake, which it has to send once.
func (s *session) greeted(m *p2p.Handshake) error {
	if s.hello != nil {
		return fmt.Errorf("%w: second handshake", errUnexpected)
	}
	h, err := s.n.check(m, s.cert)
	if err != nil {
		return err
	}
	s.hello = h
	if !s.send(s.n.frames.noPeers) { // which finishes the handshake for the node
		return errWireClosed
	}
	return nil
}

// told deals with a list of addresses. The first one finishes the handshake.
func (s *session) told(m *p2p.PeerList) error {
	if s.hello == nil {
		return nil
	}
	if s.peer.Load() == nil {
		s.peer.Store(&Peer{
			NodeID:      s.nodeID,
			Addr:        s.addr,
			Claimed:     s.hello.claim.AddrPort,
			Version:     s.hello.version.Semantic(),
			UpgradeTime: time.Unix(int64(s.hello.upgradeTime), 0).UTC(),
			Since:       time.Now(),

			TrackedSubnets: s.hello.tracked,
			SupportedACPs:  s.hello.supported,
			ObjectedACPs:   s.hello.objected,
		})
		s.n.connect(s)
	}
	return s.n.learn(m.GetClaimedIpPorts())
}

// ping asks for a sign of life. Owned by the goroutine of pulse.
func (s *session) ping() {
	s.pings.Add(1)
	s.pinged.Store(int64(time.Since(s.since)))
	s.send(s.n.frames.ping)
}

func (s *session) ponged() error {
	if s.pings.Add(-1) < 0 {
		return fmt.Errorf("%w: pong", errUnexpected)
	}
	lag := time.Since(s.since) - time.Duration(s.pinged.Load())
	s.lag.Store(int64(lag))
	s.n.metrics.pings.Observe(lag.Seconds())
	return nil
}

// pulse looks after all sessions until ctx ends: pings, and ends those that are
// silent, outdated or not wanted any more.
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

// look is one session's part of a pulse.
func (s *session) look(now time.Time) {
	switch quiet := s.quiet.Add(1); {
	case quiet > int32(silence/pulseInterval):
		s.end(errSilent)
		return
	case quiet == 1:
		s.lastHeard.Store(now.Unix())
	}
	if sent := s.sent.Load(); sent != s.spoken {
		s.spoken = sent
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
	// What was compatible may have ceased to be by an upgrade of the network.
	if !s.n.compatible.Compatible(s.hello.version) {
		s.end(errIncompatible)
		return
	}
	s.ping()
}
