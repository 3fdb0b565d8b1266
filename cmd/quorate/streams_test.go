package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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

// streamReader follows the stream of signed messages and is cut again and again.
type streamReader struct {
	read   cutting
	base   func() string
	cursor string
	cuts   int

	mu   sync.Mutex
	seen map[string]int // events by unsigned message; guarded by mu
	gaps []string       // guarded by mu
}

// follow reads until stop is closed and the reader was cut often enough.
func (r *streamReader) follow(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	for ctx.Err() == nil {
		cut, cancel := context.WithTimeout(ctx, time.Duration(random.Int64N(int64(60*time.Millisecond))))
		_ = r.read(cut, r.base()+"/v1/signatureAggregator/fuji/messages:stream", r.cursor, r.note)
		cancel()
	}
}

func (r *streamReader) note(e streamed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Event {
	case "open":
		r.cuts++ // each connection ends with a cut
	case "message":
		var m struct{ UnsignedMessage, SignedMessage string }
		if err := json.Unmarshal(e.Data, &m); err != nil || !strings.HasPrefix(m.SignedMessage, m.UnsignedMessage) {
			r.gaps = append(r.gaps, fmt.Sprintf("not a message: %v, %s", err, e.Data))
		}
		r.seen[m.UnsignedMessage]++
	case "end":
		return // without a cursor
	default:
		r.gaps = append(r.gaps, e.Event+" "+string(e.Data))
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

// cutStreams has readers over both transports follow while messages are signed. halfway is called after half of them.
func cutStreams(t *testing.T, n *simnet.Network, bases []func() string, halfway func()) {
	t.Helper()
	const cuts, batch = 100, 25
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	readers := []*streamReader{
		{read: overSSE, base: bases[0], seen: make(map[string]int)},
		{read: overWebSocket, base: bases[len(bases)-1], seen: make(map[string]int)},
	}
	for _, r := range readers { // the position before the first message
		opened, have := context.WithCancel(ctx)
		_ = r.read(opened, r.base()+"/v1/signatureAggregator/fuji/messages:stream", "", func(e streamed) {
			r.note(e)
			have()
		})
		require.NotEmpty(t, r.cursor)
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
	var signed []string
	for half := range 2 {
		for i := 0; i < batch || !enough((half+1)*cuts/2); i++ {
			unsigned, err := signOver(ctx, bases[i%len(bases)], n, fmt.Sprintf("%d/%d", half, i))
			require.NoError(t, err)
			signed = append(signed, unsigned)
		}
		if half == 0 {
			halfway()
		}
	}
	for _, r := range readers {
		require.Eventually(t, func() bool {
			seen, _ := r.state()
			return seen >= len(signed)
		}, time.Minute, 20*time.Millisecond, "a message was lost")
	}
	end()
	for i, r := range readers {
		require.Empty(t, r.gaps)
		require.Len(t, r.seen, len(signed))
		for _, unsigned := range signed {
			require.Equal(t, 1, r.seen[unsigned], "reader %d, message %s", i, unsigned)
		}
		t.Logf("reader %d: %d messages, %d cuts", i, len(r.seen), r.cuts)
	}
}

// TestStreamsResume cuts streams at random moments while messages are signed, with a restart in between. Nothing may be
// lost or doubled.
func TestStreamsResume(t *testing.T) {
	before := goleak.IgnoreCurrent()
	n, err := simnet.Start(simnet.Options{Seed: 41, Validators: 6})
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
	cutStreams(t, n, []func() string{base}, func() {
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
}

// TestStreamsOfReplicas does so with two processes on one server, both of which sign. Each reader is connected to one of
// them; the first is restarted in between.
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
	cutStreams(t, n, []func() string{base(one), base(two)}, func() {
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
	oldest, err := read("oldest", 1)
	require.ErrorIs(t, err, context.Canceled)
	require.NotEqual(t, first, oldest)
	_, err = read(oldest, 20) // what remains can be read
	require.ErrorIs(t, err, context.Canceled)
	s.stop(t)
}
