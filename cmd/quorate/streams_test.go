package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/simnet"
	"quorate/internal/store/storetest/pgserver"
)

// streamed is an event of a stream.
type streamed struct {
	Event, Cursor string
	Data          json.RawMessage
}

// cutting reads a stream until ctx ends or the stream does, and passes its events on.
type cutting func(ctx context.Context, url, cursor string, f func(streamed)) error

func overSSE(ctx context.Context, url, cursor string, f func(streamed)) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("status %d: %s", response.StatusCode, body)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	var e streamed
	for lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "event":
			e.Event = value
		case "id":
			e.Cursor = value
		case "data":
			e.Data = json.RawMessage(value)
		case "":
			if e.Event != "" {
				f(e)
			}
			e = streamed{}
		}
	}
	return lines.Err()
}

func overWebSocket(ctx context.Context, url, cursor string, f func(streamed)) error {
	if cursor != "" {
		url += "?from=" + cursor
	}
	conn, response, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1), nil)
	if err != nil {
		if response != nil {
			return fmt.Errorf("status %d: %w", response.StatusCode, err)
		}
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(4 << 20)
	for {
		_, content, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		var e streamed
		if err := json.Unmarshal(content, &e); err != nil {
			return err
		}
		f(e)
	}
}

// eventSource is a stream and what produces its events.
type eventSource struct {
	// path is the path and query of the stream, and event the name of its events.
	path, event string
	// key returns the key of an event, by which it is known.
	key func(data json.RawMessage) (string, error)
	// produce makes the next event happen and returns its key.
	produce func(ctx context.Context) (string, error)
	// ordered reports that the stream has events in the order in which they were produced.
	ordered bool
}

// breaker forwards connections to a service and closes some of them after a random time, so that they end in the middle
// of an event.
type breaker struct {
	listener net.Listener
	base     func() string
	running  sync.WaitGroup
	cuts     atomic.Int64
}

func newBreaker(t *testing.T, base func() string) *breaker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &breaker{listener: l, base: base}
	c.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.running.Go(func() { c.forward(conn) })
		}
	})
	return c
}

func (c *breaker) close() {
	_ = c.listener.Close()
	c.running.Wait()
}

func (c *breaker) url() string { return "http://" + c.listener.Addr().String() }

func (c *breaker) forward(conn net.Conn) {
	defer conn.Close()
	service, err := net.Dial("tcp", strings.TrimPrefix(c.base(), "http://"))
	if err != nil {
		return // it restarts
	}
	defer service.Close()
	if rand.IntN(2) == 0 {
		cut := time.AfterFunc(rand.N(40*time.Millisecond), func() {
			c.cuts.Add(1)
			_ = conn.Close()
			_ = service.Close()
		})
		defer cut.Stop()
	}
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{conn, service}, {service, conn}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
		})
	}
	both.Wait()
}

// streamReader follows a stream and is cut again and again.
type streamReader struct {
	read   cutting
	source *eventSource
	base   func() string
	cursor string
	cuts   int

	mu    sync.Mutex
	seen  []string // keys of events; guarded by mu
	wrong []string // guarded by mu
}

// follow reads until ctx ends. Each second connection has time to open, however slow the machine is.
func (r *streamReader) follow(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	for i := 0; ctx.Err() == nil; i++ {
		cut, cancel := context.WithCancel(ctx)
		limit := time.Duration(random.Int64N(int64(60 * time.Millisecond)))
		count := sync.OnceFunc(func() { time.AfterFunc(limit, cancel) })
		if i%2 == 0 {
			count()
		}
		_ = r.read(cut, r.base()+r.source.path, r.cursor, func(e streamed) {
			r.note(e)
			count()
		})
		cancel()
	}
}

func (r *streamReader) note(e streamed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Event {
	case "open":
		r.cuts++ // each connection ends with a cut
	case r.source.event:
		key, err := r.source.key(e.Data)
		if err != nil {
			r.wrong = append(r.wrong, fmt.Sprintf("%v: %s", err, e.Data))
		}
		r.seen = append(r.seen, key)
	case "height":
	case "end":
		return // without a cursor
	default:
		r.wrong = append(r.wrong, e.Event+" "+string(e.Data))
	}
	if e.Cursor != "" {
		r.cursor = e.Cursor
	}
}

func (r *streamReader) state() (seen, cuts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen), r.cuts
}

// signOver has a message signed and returns its hex. It tries again while the service is away.
func signOver(ctx context.Context, base func() string, n *simnet.Network, text string) (string, error) {
	unsigned := hex.EncodeToString(n.Message([]byte(text)).Bytes())
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, base()+"/v1/signatureAggregator/fuji/aggregateSignatures", strings.NewReader(`{"message":"`+unsigned+`"}`))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return unsigned, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// cutStreams has readers over both transports follow while events are produced. They are cut by themselves and by the
// other side. Each event must arrive exactly once. halfway is called after half of them.
func cutStreams(t *testing.T, source *eventSource, bases []func() string, halfway func()) {
	t.Helper()
	const cuts, batch = 100, 25
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var readers []*streamReader
	var breakers []*breaker
	for i, read := range []cutting{overSSE, overWebSocket} {
		base := bases[i%len(bases)]
		c := newBreaker(t, base)
		defer c.close()
		r := &streamReader{read: read, source: source, base: base}
		readers, breakers = append(readers, r), append(breakers, c)
		opened, have := context.WithCancel(ctx) // the position before the first event
		_ = r.read(opened, r.base()+source.path, "", func(e streamed) {
			r.note(e)
			have()
		})
		require.NotEmpty(t, r.cursor)
		r.base = c.url
	}
	reading, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	end := sync.OnceFunc(func() {
		stop()
		running.Wait()
	})
	defer end()
	for i, r := range readers {
		running.Go(func() { r.follow(reading, uint64(i)) })
	}
	enough := func(cuts int) bool {
		for _, r := range readers {
			if _, c := r.state(); c < cuts {
				return false
			}
		}
		return true
	}
	var produced []string
	for half := range 2 {
		for i := 0; i < batch || !enough((half+1)*cuts/2); i++ {
			key, err := source.produce(ctx)
			require.NoError(t, err)
			produced = append(produced, key)
		}
		if half == 0 {
			halfway()
		}
	}
	for i, r := range readers {
		arrived := func() bool {
			seen, _ := r.state()
			return seen >= len(produced)
		}
		if !assert.Eventually(t, arrived, 2*time.Minute, 20*time.Millisecond) {
			end()
			require.Equal(t, produced, r.seen, "reader %d lost an event; wrong are %v", i, r.wrong)
		}
	}
	end()
	for i, r := range readers {
		require.Empty(t, r.wrong)
		if source.ordered {
			require.Equal(t, produced, r.seen, "reader %d", i)
		} else {
			require.ElementsMatch(t, produced, r.seen, "reader %d", i)
		}
		require.Positive(t, breakers[i].cuts.Load())
		t.Logf("reader %d: %d events, %d cuts, %d of them by the other side", i, len(r.seen), r.cuts, breakers[i].cuts.Load())
	}
}

// messageSource has messages signed, by one service after the other.
func messageSource(n *simnet.Network, bases ...func() string) *eventSource {
	number := 0
	return &eventSource{
		path: "/v1/signatureAggregator/fuji/messages:stream", event: "message",
		key: func(data json.RawMessage) (string, error) {
			var m struct{ UnsignedMessage, SignedMessage string }
			if err := json.Unmarshal(data, &m); err != nil {
				return "", err
			}
			if !strings.HasPrefix(m.SignedMessage, m.UnsignedMessage) {
				return "", errors.New("not a signed message")
			}
			return m.UnsignedMessage, nil
		},
		produce: func(ctx context.Context) (string, error) {
			number++
			return signOver(ctx, bases[number%len(bases)], n, fmt.Sprint("message ", number))
		},
		ordered: len(bases) == 1,
	}
}

// changeSource adds a validator to an L1, changes the weight of another one and removes the first.
func changeSource(t *testing.T, n *simnet.Network) *eventSource {
	t.Helper()
	subnetID, _ := n.L1()
	pace := time.NewTicker(20 * time.Millisecond)
	t.Cleanup(pace.Stop)
	number, weight := 0, uint64(0)
	return &eventSource{
		path: "/v1/signatureAggregator/fuji/subnets/" + subnetID.String() + "/validators:stream", event: "validators",
		key: func(data json.RawMessage) (string, error) {
			var e struct {
				SubnetID     ids.ID
				PChainHeight string
				TotalWeight  string
				Validators   []struct{ Change string }
			}
			if err := json.Unmarshal(data, &e); err != nil {
				return "", err
			}
			if e.SubnetID != subnetID || len(e.Validators) != 1 {
				return "", errors.New("not the change of one validator")
			}
			return e.PChainHeight + " " + e.TotalWeight + " " + e.Validators[0].Change, nil
		},
		produce: func(ctx context.Context) (string, error) {
			select { // as far apart as to be followed
			case <-ctx.Done():
				return "", ctx.Err()
			case <-pace.C:
			}
			change := []string{"JOINED", "CHANGED", "LEFT"}[number%3] // no set occurs again
			number++
			n.Advance(subnetID, func(members map[ids.NodeID]simnet.Member) {
				extra := ids.NodeID{0xee}
				switch change {
				case "CHANGED":
					first := n.Validators()[0].NodeID
					m := members[first]
					m.Weight++
					members[first] = m
				case "JOINED":
					members[extra] = simnet.Member{Weight: uint64(number)}
				case "LEFT":
					delete(members, extra)
				}
				weight = 0
				for _, m := range members {
					weight += m.Weight
				}
			})
			return fmt.Sprint(n.Height(), " ", weight, " ", change), nil
		},
		ordered: true,
	}
}

// TestStreamsResume cuts each kind of stream at random moments while events happen, with a restart in between. Nothing
// may be lost or doubled.
func TestStreamsResume(t *testing.T) {
	for name, source := range map[string]func(t *testing.T, n *simnet.Network, base func() string) *eventSource{
		"signed messages": func(_ *testing.T, n *simnet.Network, base func() string) *eventSource { return messageSource(n, base) },
		"validator sets":  func(t *testing.T, n *simnet.Network, _ func() string) *eventSource { return changeSource(t, n) },
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			n, err := simnet.Start(simnet.Options{Seed: 41, Validators: 6, L1Validators: 3, ProposedAfter: 100 * time.Millisecond})
			require.NoError(t, err)
			dir := t.TempDir()
			networks := map[string]*simnet.Network{"fuji": n}
			var mu sync.Mutex
			s := startService(t, dir, networks, "--record", "l1")
			base := func() string {
				mu.Lock()
				defer mu.Unlock()
				return s.base
			}
			cutStreams(t, source(t, n, base), []func() string{base}, func() {
				s.stop(t)
				again := startService(t, dir, networks, "--record", "l1")
				mu.Lock()
				s = again
				mu.Unlock()
			})
			s.stop(t)
			n.Close()
			http.DefaultClient.CloseIdleConnections()
			require.Eventually(t, func() bool { return goleak.Find(before) == nil }, time.Minute, 100*time.Millisecond)
		})
	}
}

// TestStreamsOfReplicas cuts streams of two processes that share a server. Both processes sign. Each
// reader is connected to one of them; the test restarts the first.
func TestStreamsOfReplicas(t *testing.T) {
	server := pgserver.Run(t)
	n, err := simnet.Start(simnet.Options{Seed: 42, Validators: 6})
	require.NoError(t, err)
	defer n.Close()
	place, err := server.Place(t.Context())
	require.NoError(t, err)
	one, two := newReplica(t, "one", place, n, "--record", "l1"), newReplica(t, "two", place, n, "--record", "l1")
	one.await(t)
	two.await(t)
	base := func(r *replica) func() string { return func() string { return r.base } }
	cutStreams(t, messageSource(n, base(one), base(two)), []func() string{base(one), base(two)}, func() {
		one.end(t, syscall.SIGINT)
		one.begin(t)
		one.await(t)
	})
}

// TestStreamRetention signs until the oldest messages are removed from the stream.
func TestStreamRetention(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 43, Validators: 4})
	require.NoError(t, err)
	defer n.Close()
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n}, "--record", "l1", "--archive-limit", "1MiB")
	base := func() string { return s.base }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	url := s.base + "/v1/signatureAggregator/fuji/messages:stream"
	// read returns the cursor of the event of that number.
	read := func(from string, number int) (cursor string, err error) {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		err = overSSE(reading, url, from, func(e streamed) {
			if number--; number == 0 {
				cursor = e.Cursor
				stop()
			}
		})
		return cursor, err
	}
	first, err := read("", 1)
	require.ErrorIs(t, err, context.Canceled)
	for i := 0; ; i++ {
		require.Less(t, i, 1000, "nothing is removed")
		_, err := signOver(ctx, base, n, strings.Repeat("x", 2000)+fmt.Sprint(i))
		require.NoError(t, err)
		if cursor, err := read(first, 1); cursor == "" {
			require.ErrorContains(t, err, "status 410")
			require.ErrorContains(t, err, "EVENTS_GONE")
			break
		}
	}
	for {
		oldest, err := read("oldest", 1)
		require.ErrorIs(t, err, context.Canceled)
		require.NotEqual(t, first, oldest)
		if _, err = read(oldest, 20); errors.Is(err, context.Canceled) {
			break // what remains can be read
		}
		require.ErrorContains(t, err, "status 410", "the last message was appended after oldest was read")
	}
	s.stop(t)
}
