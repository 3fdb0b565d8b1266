package rpc_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/handlers/rpc"
)

// The refusal of a batch has a bounded size, although each of its calls could take more room there
// than in the batch.
func TestAttackBatches(t *testing.T) {
	const limit = 256 << 10
	large := func(id string) string {
		return `[{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32600,"message":"batch too large"}}]`
	}
	fill := func(one string) string { return strings.Repeat(one+",", limit/(len(one)+1)-100) }
	away := `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the upstream node does not answer"}}`
	for name, test := range map[string]struct{ body, want string }{
		"130000 numbers":                {"[" + fill("1") + "1]", large("null")},
		"and a method that is withheld": {"[" + fill("1") + `{"method":"admin_` + strings.Repeat("x", 80) + `"}]`, large("null")},
		"80000 empty arrays":            {"[" + fill("[]") + "[]]", large("null")},
		"8000 calls":                    {"[" + fill(`{"method":"eth_call","id":1}`) + "{}]", large("1")},
		"1001 calls":                    {"[" + strings.Repeat(`{"method":"eth_call","id":"a"},`, 1000) + "{}]", large(`"a"`)},
		"1000 calls":                    {"[" + strings.Repeat(`{"method":"eth_call","id":1},`, 999) + `{"method":"eth_call","id":1}]`, "[" + strings.Repeat(away+",", 999) + away + "]"},
		"1001 without an end":           {"[" + strings.Repeat("1,", 1001), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`},
		"arrays 10001 deep":             {strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			u := &elsewhere{upstream: upstream{fails: true}}
			server := httptest.NewServer(rpc.Ethereum{Node: u, Path: ethPath, BodyLimit: limit, Namespaces: []string{"eth"}, Log: slog.New(slog.DiscardHandler)}.Calls())
			defer server.Close()
			response, got := post(t, server.URL, "application/json", test.body)
			require.Equal(t, http.StatusOK, response.StatusCode)
			require.Equal(t, test.want, got)
		})
	}
}

// Invented parts of a call come back in a bounded answer, or do not matter.
func TestAttackCalls(t *testing.T) {
	server := serve(t, &upstream{})
	const mostAnswer = 3 << 20
	mib := strings.Repeat("x", 1<<20-200)
	for name, test := range map[string]struct{ body, want string }{
		"ID is an object":        {`{"jsonrpc":"2.0","id":{"a":{"b":[]}},"method":"echo.say"}`, `"id":{"a":{"b":[]}}`},
		"ID beyond 2^64":         {`{"jsonrpc":"2.0","id":1` + strings.Repeat("0", 400) + `,"method":"echo.say"}`, `"id":1` + strings.Repeat("0", 400)},
		"number beyond 2^32":     {`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":{"number":4294967296}}`, "couldn't unmarshal an argument"},
		"number 1e309":           {`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":{"number":1e309}}`, "couldn't unmarshal an argument"},
		"method of 1 MiB":        {`{"jsonrpc":"2.0","id":1,"method":"` + mib + `.a"}`, "rpc: can't find service"},
		"params 10001 deep":      {`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `}`, `"code":-32700`},
		"member twice":           {`{"jsonrpc":"2.0","id":1,"id":2,"method":"echo.fail","method":"echo.say"}`, `"id":2`},
		"body of 1 MiB and more": {`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":{"text":"` + mib + mib + `"}}`, `"code":-32700`},
		"text of 5000 bytes":     {`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":{"text":"` + mib[:5000] + `"}}`, `"text":"` + mib[:5000] + `"`},
		"text of 5001 bytes":     {`{"jsonrpc":"2.0","id":1,"method":"echo.say","params":{"text":"` + mib[:5001] + `"}}`, "a text has more than 5000 bytes"},
		"batch of 300000":        {"[" + strings.Repeat("1,", 300_000) + "1]", `"code":-32700`},
	} {
		t.Run(name, func(t *testing.T) {
			response, got := post(t, server.URL+"/ext/echo", "application/json", test.body)
			require.Equal(t, http.StatusOK, response.StatusCode)
			require.Contains(t, got, test.want)
			require.Less(t, len(got), mostAnswer)
		})
	}
}

// rawSocket is a WebSocket whose frames the test writes by itself.
type rawSocket struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func openRaw(t *testing.T, p *passing, headers string) *rawSocket {
	t.Helper()
	address := strings.TrimPrefix(p.url, "ws://")
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n", headers)
	require.NoError(t, err)
	s := &rawSocket{Conn: conn, t: t, r: bufio.NewReader(conn)}
	response, err := http.ReadResponse(s.r, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	require.Empty(t, response.Header.Get("Sec-WebSocket-Extensions"), "nothing is compressed")
	return s
}

// frame is one of a client, masked with zeros.
func frame(first byte, payload string) string {
	b := []byte{first, 0x80 | 126, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(b[2:], uint16(len(payload)))
	return string(b) + payload
}

// over is the code that the server closes the connection with, 0 if it says nothing.
func (s *rawSocket) over() int {
	s.t.Helper()
	code := 0
	for {
		var head [2]byte
		if _, err := io.ReadFull(s.r, head[:]); err != nil {
			require.NotErrorIs(s.t, err, os.ErrDeadlineExceeded, "the connection is open")
			return code
		}
		require.Less(s.t, head[1], byte(126), "only short messages were asked for")
		payload := make([]byte, head[1])
		if _, err := io.ReadFull(s.r, payload); err != nil {
			return code
		}
		if head[0] == 0x88 {
			code = int(binary.BigEndian.Uint16(payload))
		}
	}
}

// Malicious frames end their connection, and leave nothing behind.
func TestAttackFrames(t *testing.T) {
	const text, more, ping = 0x01, 0x00, 0x89
	for name, test := range map[string]struct {
		headers string
		frames  string
		again   string // sent until the end
		want    int
	}{
		"without a mask":                     {frames: "\x81\x02{}", want: 1001},
		"reserved bits":                      {frames: frame(0xf1, "{}"), want: 1002},
		"compressed though not agreed on":    {headers: "Sec-WebSocket-Extensions: permessage-deflate\r\n", frames: frame(0xc1, "{}"), want: 1002},
		"of an unknown kind":                 {frames: frame(0x83, "{}"), want: 1002},
		"continuation of nothing":            {frames: frame(0x80, "{}"), want: 1002},
		"message within a message":           {frames: frame(text, "{") + frame(0x81, "{}"), want: 1002},
		"ping of 126 bytes":                  {frames: frame(ping, strings.Repeat("x", 126)), want: 1002},
		"ping in pieces":                     {frames: frame(0x09, ""), want: 1002},
		"length of 2^63":                     {frames: "\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", want: 1001},
		"length of 2^62, little of it":       {frames: "\x81\xff\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", again: strings.Repeat("x", 1000), want: 1009},
		"a million fragments of one message": {frames: frame(text, "["), again: frame(more, "1"), want: 1009},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serveSockets(t, rpc.Ethereum{Node: echoing(t), BodyLimit: 4 << 10}, nil)
			s := openRaw(t, p, test.headers)
			_, err := io.WriteString(s, test.frames)
			require.NoError(t, err)
			if test.again != "" {
				go func() { // ends with the connection
					for err == nil {
						_, err = io.WriteString(s, test.again)
					}
				}()
			}
			require.Equal(t, test.want, s.over())
		})
	}
	t.Run("empty fragments without end", func(t *testing.T) {
		t.Parallel()
		p := serveSockets(t, rpc.Ethereum{Node: echoing(t), BodyLimit: 4 << 10}, nil)
		s := openRaw(t, p, "")
		_, err := io.WriteString(s, frame(text, "["))
		require.NoError(t, err)
		go func() {
			for err == nil {
				_, err = io.WriteString(s, strings.Repeat(frame(more, ""), 100))
				time.Sleep(time.Millisecond)
			}
		}()
		require.Zero(t, s.over(), "it is cut off after the time that a message may take")
	})
	t.Run("pings without end", func(t *testing.T) {
		t.Parallel()
		p := serveSockets(t, rpc.Ethereum{Node: echoing(t), BodyLimit: 4 << 10, Sockets: rpc.SocketLimits{Idle: 300 * time.Millisecond}}, nil)
		s := openRaw(t, p, "")
		go func() {
			for {
				if _, err := io.WriteString(s, frame(ping, "")); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		require.Equal(t, 1001, s.over(), "pings are no messages: it is idle")
	})
}

// The memory of answers to clients is bounded, however many there are.
func TestAttackManyLargeMessages(t *testing.T) {
	far := echoing(t)
	p := serveSockets(t, rpc.Ethereum{Node: far, BodyLimit: 8 << 20}, nil) // 4 MiB for all
	for range 3 {
		conn, _ := p.open(t)
		_ = conn.Write(t.Context(), 1, []byte(strings.Repeat("x", 5<<20)))
		require.Equal(t, rpc.ErrBusy.Error(), ended(t, conn).Reason)
	}
}
