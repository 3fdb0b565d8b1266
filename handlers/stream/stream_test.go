package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endless is a feed of events of a size. It ends, waits or fails after most of them.
type endless struct {
	size, most int
	fail       error
	pages      chan int // the events before each page; may be nil
	sent       int
}

func (f *endless) Next(ctx context.Context) ([]Event, error) {
	if f.sent == f.most {
		if f.fail != nil {
			return nil, f.fail
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.pages != nil {
		f.pages <- f.sent
	}
	f.sent++
	return []Event{{Name: "e", Cursor: fmt.Sprint(f.sent), Data: strings.Repeat("x", f.size)}}, nil
}

// served serves a stream of feed at every path.
func served(t *testing.T, o Options, feed func() Feed) (*Streams, string) {
	t.Helper()
	s := New(o)
	e := echo.New()
	e.HTTPErrorHandler = apierr.Handler(func(string) apierr.Form { return apierr.DataAPI })
	e.GET("/*", func(c echo.Context) error {
		return s.Serve(c, From, func(_ context.Context, from string) (Feed, error) {
			if from == "old" {
				return nil, &apierr.Error{Status: http.StatusGone, Code: CodeGone, Message: "from: gone"}
			}
			return feed(), nil
		})
	})
	server := httptest.NewServer(e)
	t.Cleanup(func() {
		s.Close()
		server.Close()
	})
	return s, server.URL
}

// get sends a request on a connection of its own.
func get(t *testing.T, url string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func dial(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

func TestStreamsAreLimited(t *testing.T) {
	s, url := served(t, Options{Most: 3, PerClient: 2}, func() Feed { return &endless{most: 1} })
	first, second := get(t, url), get(t, url)
	require.Equal(t, http.StatusOK, first.StatusCode)
	require.Equal(t, http.StatusOK, second.StatusCode)
	refused := get(t, url)
	body, err := io.ReadAll(refused.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	require.Contains(t, string(body), CodeTooMany)
	require.Equal(t, "5", refused.Header.Get("Retry-After"))
	require.Nil(t, s.enter("another client", true))
	require.Equal(t, CodeBusy, s.enter("yet another", true).Code)
	s.leave("another client")
	require.NoError(t, first.Body.Close())
	require.Eventually(t, func() bool { // once the server has noticed
		response := get(t, url)
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
}

// Clients without an API key cannot take all streams.
func TestStreamsAreReservedForAPIKeys(t *testing.T) {
	keys := access.KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	key, err := keys.Add("partner", "", time.Now())
	require.NoError(t, err)
	guard, err := access.New(access.Options{Keys: keys})
	require.NoError(t, err)
	s := New(Options{Most: 8})
	defer s.Close()
	for client := range 6 {
		require.Nil(t, s.enter(fmt.Sprint(client), false))
	}
	// open returns why a stream of a new client is refused.
	open := func(key string) *apierr.Error {
		e := echo.New()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-Data-Api-Key", key)
		c := e.NewContext(r, httptest.NewRecorder())
		err := guard.Middleware()(func(c echo.Context) error {
			return s.Serve(c, From, func(context.Context, string) (Feed, error) { return nil, Gone("admitted") })
		})(c)
		var refused *apierr.Error
		require.ErrorAs(t, err, &refused)
		return refused
	}
	require.Equal(t, CodeBusy, open("").Code)
	require.Contains(t, open("").Message, "the limit for clients without an API key is 6")
	require.Equal(t, CodeGone, open(key).Code)
	require.Nil(t, s.enter("key a", true))
	require.Nil(t, s.enter("key b", true))
	require.Equal(t, CodeBusy, s.enter("key c", true).Code)

	// Without any API key, nothing is reserved.
	s = New(Options{Most: 8, Keys: func() bool { return false }})
	for client := range 8 {
		require.Nil(t, s.enter(fmt.Sprint(client), false))
	}
	require.Equal(t, CodeBusy, s.enter("9", false).Code)
}

func TestGoneCursorIsRefused(t *testing.T) {
	_, url := served(t, Options{}, func() Feed { return &endless{most: 1} })
	for _, response := range []*http.Response{get(t, url+"/?from=old"), get(t, url+"/?from=new", "Last-Event-ID", "old")} {
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusGone, response.StatusCode)
		require.Contains(t, string(body), CodeGone)
	}
	_, response, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1)+"/?from=old", nil)
	require.Error(t, err)
	require.Equal(t, http.StatusGone, response.StatusCode)
}

// A client that does not read is disconnected, and no events are read for it meanwhile.
func TestSlowClientIsDisconnected(t *testing.T) {
	for name, request := range map[string]string{
		"server-sent events": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"WebSocket":          "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			pages := make(chan int, 1000)
			s, url := served(t, Options{Stall: 200 * time.Millisecond}, func() Feed { return &endless{size: 1 << 20, most: 1000, pages: pages} })
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, request)
			require.NoError(t, err)
			require.Zero(t, <-pages)
			require.Eventually(t, func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.all == 0
			}, time.Minute, 10*time.Millisecond)
			require.Less(t, len(pages), 100, "more was read than the connection's buffers hold")
		})
	}
}

func TestStreamsEndWithReason(t *testing.T) {
	down := &apierr.Error{Status: http.StatusServiceUnavailable, Message: "the store is down"}
	for name, test := range map[string]struct {
		options Options
		fail    error
		shown   bool // as an event error, too
		close   bool
		want    string
	}{
		"stopping": {close: true, want: "the service is stopping"},
		"lifetime": {options: Options{Life: 50 * time.Millisecond}, want: "streams do not last longer"},
		"error":    {fail: down, shown: true, want: "the store is down"},
		"other":    {fail: errors.New("secret"), want: "the events cannot be read now"},
	} {
		t.Run(name, func(t *testing.T) {
			s, url := served(t, test.options, func() Feed { return &endless{most: 1, fail: test.fail} })
			response, conn := get(t, url), dial(t, url)
			if test.close {
				s.Close()
			}
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), "id: 1\nevent: e\ndata: \"\"\n\n")
			require.Contains(t, string(body), "event: end\ndata: {\"reason\":\""+test.want)
			require.Equal(t, test.shown, strings.Contains(string(body), "event: error\n"))
			for err == nil {
				_, _, err = conn.Read(t.Context())
			}
			var closed websocket.CloseError
			require.ErrorAs(t, err, &closed)
			require.Contains(t, closed.Reason, test.want)
		})
	}
}

// TestFailuresAreNoted checks that the log gets the cause of an error that ends a stream.
func TestFailuresAreNoted(t *testing.T) {
	cause := errors.New("the disk is full")
	for _, fail := range []error{cause, apierr.Unavailable(cause, "try again later")} {
		s := New(Options{})
		e := echo.New()
		c := e.NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), httptest.NewRecorder())
		require.NoError(t, s.Serve(c, From, func(context.Context, string) (Feed, error) { return &endless{most: 1, fail: fail}, nil }))
		require.Len(t, apierr.Inside(c), 1)
		require.ErrorIs(t, apierr.Inside(c)[0].Error, cause)
		s.Close()
	}
}

// TestClientThatLeavesEarly leaves while the stream opens, which is no failure.
func TestClientThatLeavesEarly(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	ctx, leave := context.WithCancel(t.Context())
	c := echo.New().NewContext(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody), httptest.NewRecorder())
	err := s.Serve(c, From, func(ctx context.Context, _ string) (Feed, error) {
		leave()
		return nil, fmt.Errorf("reading: %w", ctx.Err())
	})
	require.ErrorIs(t, err, apierr.ErrClientGone)
}

// TestStreamsEndInTheMiddleOfAnEvent stops while a client still takes an event.
func TestStreamsEndInTheMiddleOfAnEvent(t *testing.T) {
	s, url := served(t, Options{}, func() Feed { return &endless{size: 8 << 20, most: 1} })
	conn := dial(t, url)
	conn.SetReadLimit(-1)
	_, event, err := conn.Reader(t.Context()) // the buffers between the two cannot hold the rest
	require.NoError(t, err)
	s.Close()
	time.Sleep(100 * time.Millisecond)
	content, err := io.ReadAll(event)
	require.NoError(t, err)
	require.Greater(t, len(content), 8<<20)
	_, _, err = conn.Read(t.Context())
	var closed websocket.CloseError
	require.ErrorAs(t, err, &closed)
	require.Contains(t, closed.Reason, "the service is stopping")
}

func TestIdleStreamsBeat(t *testing.T) {
	_, url := served(t, Options{Beat: 10 * time.Millisecond}, func() Feed { return &endless{most: 1} })
	lines, comments := bufio.NewScanner(get(t, url).Body), 0
	for comments < 3 && lines.Scan() {
		if lines.Text() == ":" {
			comments++
		}
	}
	require.Equal(t, 3, comments)
	pings := make(chan struct{}, 100)
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1), &websocket.DialOptions{
		OnPingReceived: func(context.Context, []byte) bool {
			select {
			case pings <- struct{}{}:
			default:
			}
			return true
		},
	})
	require.NoError(t, err)
	defer func() { _ = conn.CloseNow() }()
	_, _, err = conn.Read(t.Context())
	require.NoError(t, err)
	reading := conn.CloseRead(t.Context())
	for range 3 {
		<-pings
	}
	require.NoError(t, reading.Err())
}

// A client that talks, or sends an endless message, is disconnected.
func TestTalkingClientIsDisconnected(t *testing.T) {
	s, url := served(t, Options{}, func() Feed { return &endless{most: 1} })
	conn := dial(t, url)
	w, err := conn.Writer(t.Context(), websocket.MessageText)
	require.NoError(t, err)
	_, err = w.Write(make([]byte, 64<<10))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.all == 0
	}, time.Minute, 10*time.Millisecond)
}
