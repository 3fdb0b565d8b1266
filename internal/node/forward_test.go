package node

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newForwarder(t *testing.T, h hosts) *Client {
	t.Helper()
	c, err := New(Options{Endpoints: []string{"http://user:secret@a?token=secret", "http://b?token=secret", "http://c"}, HTTP: &http.Client{Transport: h}})
	require.NoError(t, err)
	return c
}

// Forward returns a response unchanged. A response that is not JSON makes it ask the next
// node.
func TestForward(t *testing.T) {
	late := func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(2 * time.Second):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return answer(http.StatusOK, `"late"`)(r)
	}
	for name, test := range map[string]struct {
		hosts  hosts
		hedged bool
		want   string
		status int
		took   time.Duration
	}{
		"first":                   {hosts: hosts{"a": answer(200, `"a"`), "b": answer(200, `"b"`), "c": answer(200, `"c"`)}, want: `"a"`, status: 200},
		"refusal is an answer":    {hosts: hosts{"a": answer(400, "no"), "b": answer(200, `"b"`), "c": answer(200, `"c"`)}, want: "no", status: 400},
		"dead node":               {hosts: hosts{"a": refuse, "b": answer(200, `"b"`), "c": answer(200, `"c"`)}, want: `"b"`, status: 200},
		"node behind a dead door": {hosts: hosts{"a": answer(502, "bad"), "b": answer(429, "slow"), "c": answer(200, `"c"`)}, want: `"c"`, status: 200},
		"node that talks garbage": {hosts: hosts{"a": answer(200, "<html>"), "b": answer(200, `"b"`), "c": answer(200, `"c"`)}, want: `"b"`, status: 200},
		"notification":            {hosts: hosts{"a": answer(200, ""), "b": answer(200, `"b"`), "c": answer(200, `"c"`)}, want: "", status: 200},
		"hanging node, hedged":    {hosts: hosts{"a": hang, "b": answer(200, `"b"`), "c": answer(200, `"c"`)}, hedged: true, want: `"b"`, status: 200, took: hedgeAfter},
		"hanging node":            {hosts: hosts{"a": hang, "b": answer(200, `"b"`), "c": answer(200, `"c"`)}, want: `"b"`, status: 200, took: defaultTimeout},
		"slow nodes, hedged":      {hosts: hosts{"a": late, "b": hang, "c": hang}, hedged: true, want: `"late"`, status: 200, took: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newForwarder(t, test.hosts)
				began := time.Now()
				got, err := n.Forward(t.Context(), "/ext/bc/P", []byte("{}"), test.hedged)
				require.NoError(t, err)
				require.Equal(t, test.want, string(got.Body))
				require.Equal(t, test.status, got.Status)
				require.Equal(t, test.took, time.Since(began))
				synctest.Wait() // for slower attempts
				require.Zero(t, n.Load().InFlight)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n := newForwarder(t, hosts{"a": refuse, "b": refuse, "c": refuse})
		_, err := n.Forward(t.Context(), "/ext/bc/P", nil, true)
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, Load{Endpoints: 3, Failing: 3}, n.Load())
	})
}

// At most ForwardLimit calls reach a node at a time. A bounded number of others wait, for a
// bounded time.
func TestForwardLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2
		release := make(chan struct{})
		c, err := New(Options{
			Endpoints: []string{"http://a"}, ForwardLimit: limit,
			HTTP: &http.Client{Transport: hosts{"a": func(*http.Request) (*http.Response, error) {
				<-release
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`"a"`)), Header: http.Header{}}, nil
			}}},
		})
		require.NoError(t, err)
		const refused = 5
		var mu sync.Mutex
		var done, failed int
		var calls sync.WaitGroup
		for range limit + waitingPerCall*limit + refused {
			calls.Go(func() {
				_, err := c.Forward(context.Background(), "/", nil, false)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					assert.ErrorIs(t, err, ErrUnavailable)
					assert.ErrorContains(t, err, errBusy.Error())
					failed++
				} else {
					done++
				}
			})
		}
		synctest.Wait()
		require.Equal(t, refused, failed, "at once")
		require.Equal(t, Load{Endpoints: 1, InFlight: limit}, c.Load())
		for range limit {
			release <- struct{}{}
		}
		synctest.Wait()
		require.Equal(t, limit, done)
		require.Equal(t, limit, c.Load().InFlight, "those that waited")
		time.Sleep(defaultTimeout)
		synctest.Wait()
		require.Equal(t, refused+waitingPerCall*limit-limit, failed, "those that waited for too long")
		require.Zero(t, c.Load().Failing, "a busy node is not a broken one")
		close(release)
		calls.Wait()
		require.Equal(t, 2*limit, done)
		require.Zero(t, c.Load().InFlight)
	})
}

// A transaction goes to one node, unless that node certainly did not receive it.
func TestForwardTransactionOnce(t *testing.T) {
	const issue = `{"jsonrpc":"2.0","id":1,"method":"platform.issueTx","params":{}}`
	unsent := func(r *http.Request) (*http.Response, error) { // like a transport that gets no connection
		httptrace.ContextClientTrace(r.Context()).GetConn("a")
		return refuse(r)
	}
	for name, test := range map[string]struct {
		body, want string
		first      func(*http.Request) (*http.Response, error)
		asked      string
	}{
		"hanging node":             {issue, "", hang, "a"},
		"broken connection":        {issue, "", refuse, "a"},
		"bad gateway":              {issue, "", answer(502, "bad"), "a"},
		"garbage":                  {issue, "", answer(200, "<html>"), "a"},
		"batch":                    {"[" + issue + "]", "", hang, "a"},
		"on an EVM chain":          {`{"method":"eth_sendRawTransaction"}`, "", hang, "a"},
		"by another spelling":      {`[{"method":"eth_call"},{"method":"eth\u005fsendRawTransaction"}]`, "", hang, "a"},
		"not reached":              {issue, `"b"`, unsent, "ab"},
		"overloaded":               {issue, `"b"`, answer(429, "slow"), "ab"},
		"not ready":                {issue, `"b"`, answer(503, "bootstrapping"), "ab"},
		"no transaction":           {`{"method":"eth_call"}`, `"b"`, hang, "ab"},
		"no transaction, either":   {`{"method":"platform.getTx","params":["platform.issueTx"]}`, `"b"`, refuse, "ab"},
		"no JSON":                  {`issueTx`, `"b"`, refuse, "ab"},
		"the node says what it is": {issue, "no", answer(400, "no"), "a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, hosts{"a": test.first, "b": answer(200, `"b"`), "c": answer(200, `"c"`)})
				require.Equal(t, test.asked, n.askedFor(func() {
					got, err := n.Forward(t.Context(), "/ext/bc/P", []byte(test.body), false)
					if test.want == "" {
						require.ErrorIs(t, err, ErrUnsure)
						require.NotErrorIs(t, err, ErrUnavailable)
						require.NotContains(t, err.Error(), "secret")
						return
					}
					require.NoError(t, err)
					require.Equal(t, test.want, string(got.Body))
				}))
			})
		})
	}
}

// The same over TCP: one connection is refused, and one is closed after the node has read
// the call.
func TestForwardTransactionOverTCP(t *testing.T) {
	var got atomic.Int32
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		got.Add(1)
		_, _ = io.WriteString(w, `"issued"`)
	}))
	defer good.Close()
	closing := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	defer closing.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	issue := []byte(`{"method":"avm.issueTx"}`)

	c := newClient(t, gone.URL, good.URL)
	answer, err := c.Forward(t.Context(), "/ext/bc/X", issue, false)
	require.NoError(t, err)
	require.Equal(t, `"issued"`, string(answer.Body))

	c = newClient(t, closing.URL, good.URL)
	_, err = c.Forward(t.Context(), "/ext/bc/X", issue, false)
	require.ErrorIs(t, err, ErrUnsure)
	require.EqualValues(t, 1, got.Load(), "the second node must not get it, too")
}
