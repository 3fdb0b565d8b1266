package node

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/stretchr/testify/require"
)

// hostile is a node that sends arbitrary bytes on each connection.
func hostile(t *testing.T, say func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4<<10)) // the request
				say(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		running.Wait()
	})
	return "http://" + ln.Addr().String()
}

// repeat sends text until the connection ends.
func repeat(head, again string) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, head)
		for err == nil {
			_, err = io.WriteString(c, again)
		}
	}
}

// once sends text and waits for the other side to close the connection.
func once(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
	}
}

const okHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

// A malformed or endless response costs a bounded time and memory, and the next node is
// asked.
func TestAttackAnswers(t *testing.T) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	require.NoError(t, err)
	for range 32 {
		_, err = z.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	good, _ := serve(t, 200, height7)
	for name, test := range map[string]struct {
		say  func(net.Conn)
		want error
		slow bool // ends by timeout
	}{
		"an answer without end":          {repeat(okHead+"\r\n", strings.Repeat(" ", 64<<10)), ErrMalformed, false},
		"chunks without end":             {repeat(okHead+"Transfer-Encoding: chunked\r\n\r\n", "10000\r\n"+strings.Repeat(" ", 64<<10)+"\r\n"), ErrMalformed, false},
		"32 MiB in 32 KiB of gzip":       {once(okHead + fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", packed.Len()) + packed.String()), ErrMalformed, false},
		"a header without end":           {repeat("HTTP/1.1 200 OK\r\nX: ", strings.Repeat("x", 64<<10)), ErrUnavailable, false},
		"headers without end":            {repeat("HTTP/1.1 200 OK\r\n", strings.Repeat("X: x\r\n", 10_000)), ErrUnavailable, false},
		"early hints without end":        {repeat("", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 1000)), ErrUnavailable, false},
		"10 GiB announced, nothing said": {once(okHead + "Content-Length: 10737418240\r\n\r\n"), ErrUnavailable, true},
		"a byte now and then": {func(c net.Conn) {
			_, err := io.WriteString(c, okHead+"\r\n")
			for err == nil {
				time.Sleep(10 * time.Millisecond)
				_, err = io.WriteString(c, " ")
			}
		}, ErrUnavailable, true},
		"hanging up in the middle":     {func(c net.Conn) { _, _ = io.WriteString(c, okHead+"Content-Length: 100\r\n\r\n{\"result\":") }, ErrUnavailable, false},
		"two lengths":                  {once(okHead + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n{}  "), ErrUnavailable, false},
		"no HTTP":                      {once("SSH-2.0-OpenSSH_9.2\r\n"), ErrUnavailable, false},
		"HTTP/2":                       {once("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), ErrUnavailable, true},
		"status 999":                   {once("HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n"), ErrUnavailable, false},
		"arrays 100000 deep":           {once(okHead + "Content-Length: 200000\r\n\r\n" + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), ErrMalformed, false},
		"a height beyond 2^64":         {once(okHead + "Content-Length: 49\r\n\r\n" + `{"result":{"height":"18446744073709551616"}}     `), ErrMalformed, false},
		"a height of a million digits": {once(okHead + "\r\n" + `{"result":{"height":"` + strings.Repeat("9", 1_000_000) + `"}}`), ErrUnavailable, true}, // and no end
		"a height below zero":          {once(okHead + "Content-Length: 32\r\n\r\n" + `{"result":{"height":"-1"}}      `), ErrMalformed, false},
		"a height of 1e3":              {once(okHead + "Content-Length: 32\r\n\r\n" + `{"result":{"height":"1e3"}}     `), ErrMalformed, false},
	} {
		t.Run(name, func(t *testing.T) {
			url := hostile(t, test.say)
			timeout := time.Minute
			if test.slow {
				timeout = 300 * time.Millisecond
			}
			client := func(endpoints ...string) *Client {
				c, err := New(Options{Endpoints: endpoints, Timeout: timeout})
				require.NoError(t, err)
				t.Cleanup(c.Close)
				c.limit = 16 << 20
				return c
			}
			c := client(url)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := c.Height(t.Context())
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, test.want)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(12*c.limit), "bytes that were taken at one time or another")
			height, err := client(url, good).Height(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 7, height)
		})
	}
}

// A Content-Length takes no memory before the bytes arrive.
func TestAttackAnnouncedLength(t *testing.T) {
	c := newPatientClient(t, 2*time.Second, hostile(t, once(okHead+"Content-Length: 67108864\r\n\r\n{")))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.Height(t.Context())
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrUnavailable)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20), "bytes taken for one of an announced 64 MiB")
}

// What an endpoint reported before its response turned out to be malformed is no part of the next endpoint's response.
func TestAttackHalfOfAnAnswer(t *testing.T) {
	first := ids.NodeID{1}
	injected := fmt.Sprintf(`{"result":{"%s":{"weight":"1000"},"NodeID-1":{"weight":"1"}}}`, ids.NodeID{2})
	right := fmt.Sprintf(`{"result":{"%s":{"weight":"7"}}}`, first)
	n := newNetwork(t, hosts{"a": answer(200, injected), "b": answer(200, right), "c": answer(200, right)})
	set, err := n.ValidatorsAt(t.Context(), ids.Empty, 5)
	require.NoError(t, err)
	require.Equal(t, ValidatorSet{TotalWeight: 7, Validators: []Validator{{Weight: 7, NodeIDs: []ids.NodeID{first}}}}, set)
}

// A number that nodes read as their proposed height is not a height. It would stay the highest for
// ever, with the sets of that moment.
func TestAttackProposedHeight(t *testing.T) {
	n := newNetwork(t, hosts{"a": answer(200, `{"result":{"height":"18446744073709551615"}}`), "b": refuse, "c": refuse})
	_, err := n.ProposedHeight(t.Context())
	require.ErrorIs(t, err, ErrMalformed)
	n.hosts["a"] = answer(200, height7)
	height, err := n.ProposedHeight(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, height)
}
