package node

import (
	"context"
	"errors"
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
		"node without the API":    {hosts: hosts{"a": answer(404, "404 page not found\n"), "b": answer(404, `{"message":"no route"}`), "c": answer(200, `"c"`)}, want: `"c"`, status: 200},
		"refusal with status 404": {hosts: hosts{"a": answer(404, `{"error":{"code":-32000,"message":"no"}}`), "b": answer(200, `"b"`), "c": answer(200, `"c"`)}, want: `{"error":{"code":-32000,"message":"no"}}`, status: 404},
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
	for _, last := range []int{404, 403, 502} {
		n := newForwarder(t, hosts{"a": answer(404, "404 page not found\n"), "b": answer(404, "no"), "c": answer(last, "")})
		got, err := n.Forward(t.Context(), "/ext/bc/P", []byte("{}"), true)
		switch last {
		case 404:
			require.NoError(t, err)
			require.Equal(t, http.StatusNotFound, got.Status)
			require.Equal(t, "404 page not found\n", string(got.Body), "as the node says it")
		case 403:
			var lacks *RPCError
			require.ErrorAs(t, err, &lacks)
			require.True(t, lacks.NotOffered())
		default:
			require.ErrorIs(t, err, ErrUnavailable, "that one may have it")
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newForwarder(t, hosts{"a": refuse, "b": refuse, "c": refuse})
		_, err := n.Forward(t.Context(), "/ext/bc/P", nil, true)
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, Load{Endpoints: 3, Failing: 3}, n.Load())
	})
}

// At most ForwardLimit calls reach a node at a time. One client leaves room for others, and its calls wait for a bounded
// time.
func TestForwardLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, alone = 8, 6
		release := make(chan struct{})
		c, err := New(Options{
			Endpoints: []string{"http://a"}, ForwardLimit: limit,
			HTTP: &http.Client{Transport: hosts{"a": func(r *http.Request) (*http.Response, error) {
				select {
				case <-release:
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
				return answer(200, `"a"`)(r)
			}}},
		})
		require.NoError(t, err)
		var calls sync.WaitGroup
		var done, busy atomic.Int64
		forward := func(ctx context.Context) {
			calls.Go(func() {
				switch _, err := c.Forward(ctx, "/", nil, false); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, ErrBusy):
					busy.Add(1)
				default:
					t.Errorf("got %v", err)
				}
			})
		}
		greedy, honest := WithClient(context.Background(), named("greedy")), WithClient(context.Background(), named("honest"))
		for range 100 {
			forward(greedy)
		}
		synctest.Wait()
		require.Equal(t, alone, c.Load().InFlight)
		forward(honest)
		synctest.Wait()
		require.Equal(t, alone+1, c.Load().InFlight, "another client's call does not wait")
		time.Sleep(defaultTimeout / 2)
		for range alone + 1 {
			release <- struct{}{}
		}
		synctest.Wait()
		require.EqualValues(t, alone+1, done.Load())
		require.Equal(t, alone, c.Load().InFlight, "those that waited")
		time.Sleep(defaultTimeout / 2)
		synctest.Wait()
		require.EqualValues(t, 100-2*alone, busy.Load(), "those that waited for too long")
		require.Zero(t, c.Load().Failing, "a busy node is not a broken one")
		close(release)
		calls.Wait()
		require.EqualValues(t, 2*alone+1, done.Load())
		require.Zero(t, c.Load().InFlight)
	})
}

// slowHosts answer at once, except calls with the word slow.
func slowHosts(t *testing.T, names ...string) (*Client, func() string) {
	var mu sync.Mutex
	var asked []string
	all := make(hosts)
	for _, name := range names {
		all[name] = answer(200, `{"result":{"height":"7"}}`)
	}
	slow := roundTripper(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "slow") {
			mu.Lock()
			asked = append(asked, r.URL.Host)
			mu.Unlock()
			return hang(r)
		}
		return all.RoundTrip(r)
	})
	var endpoints []string
	for _, name := range names {
		endpoints = append(endpoints, "http://"+name)
	}
	c, err := New(Options{Endpoints: endpoints, HTTP: &http.Client{Transport: slow}})
	require.NoError(t, err)
	return c, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(asked, "")
	}
}

// A call that takes too long, or whose client goes away, does not make a node that answers others count as failed, and
// is not run on a second node. A node that answers nothing has failed.
func TestAttackSlowCalls(t *testing.T) {
	const slow = `{"method":"debug_traceCall","params":["slow"]}`
	for name, test := range map[string]struct {
		others, cancelled bool
		want              error
		asked             string
		failing           int
	}{
		"others are answered":             {others: true, want: ErrSlow, asked: "a"},
		"its client has gone":             {others: true, cancelled: true, want: context.Canceled, asked: "a"},
		"its client has gone, no others":  {cancelled: true, want: context.Canceled, asked: "a"},
		"the node answers nothing at all": {want: ErrUnavailable, asked: "ab", failing: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, asked := slowHosts(t, "a", "b")
				ctx, cancel := context.WithCancel(WithClient(t.Context(), named("slow")))
				defer cancel()
				if test.cancelled {
					time.AfterFunc(defaultTimeout/2, cancel)
				}
				if test.others {
					time.AfterFunc(time.Second, func() { _, _ = c.Height(t.Context()) })
				}
				_, err := c.Forward(ctx, CChainRPC, []byte(slow), false)
				require.ErrorIs(t, err, test.want)
				require.Equal(t, test.asked, asked())
				require.Equal(t, test.failing, c.Load().Failing)
				require.Equal(t, []int{0, 1}, c.order(""))
			})
		})
	}
	// The same for calls of the service that a client causes.
	synctest.Test(t, func(t *testing.T) {
		c, _ := slowHosts(t, "a")
		time.AfterFunc(time.Second, func() { _, _ = c.Height(t.Context()) })
		require.ErrorIs(t, c.Call(t.Context(), platformPath, "slow", none{}, nil), ErrUnavailable)
		require.Zero(t, c.Load().Failing)
	})
}

// A slow call that another node answers first leaves the preferred node to others.
func TestHedgedCallMovesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newForwarder(t, hosts{"a": hang, "b": answer(200, `"b"`), "c": answer(200, `"c"`)})
		_, err := n.Forward(t.Context(), "/ext/bc/P", []byte(`{"method":"platform.getUTXOs"}`), true)
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 2}, n.order(""))
	})
}

// Only calls that are known to read are run on a second node.
func TestReads(t *testing.T) {
	for body, want := range map[string]bool{
		`{"method":"platform.getHeight"}`: true, `{"method":"platform.validatedBy"}`: true, `{"method":"info.isBootstrapped"}`: true,
		`{"method":"info.peers"}`: true, `{"method":"eth_call"}`: true, `{"method":"eth_getLogs"}`: true, `{"method":"net_version"}`: true,
		`{"method":"debug_traceTransaction"}`: true, `{"method":"eth_estimateGas"}`: true, `{"method":"eth_createAccessList"}`: true,
		`[{"method":"eth_call"},{"method":"eth_chainId"}]`: true, `issueTx`: true, `{}`: true, ``: true,
		`{"method":"platform.issueTx"}`: false, `{"method":"eth_sendRawTransaction"}`: false, `{"method":"eth_newFilter"}`: false,
		`{"method":"eth_getFilterChanges"}`: false, `{"method":"eth_uninstallFilter"}`: false, `{"method":"avax.import"}`: false,
		`{"method":"personal_sign"}`: false, `{"method":"debug_setHead"}`: false, `{"method":"admin.stacktrace"}`: false,
		`[{"method":"eth_call"},{"method":"personal_sendTransaction"}]`: false, `{"method":"wallet.issueTx"}`: false,
	} {
		require.Equal(t, want, repeatable([]byte(body)), body)
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, hosts{"a": hang, "b": answer(200, `"b"`), "c": answer(200, `"c"`)})
		require.Equal(t, "a", n.askedFor(func() {
			_, err := n.Forward(t.Context(), "/ext/bc/C/rpc", []byte(`{"method":"eth_getFilterChanges"}`), true)
			require.Error(t, err)
			require.NotErrorIs(t, err, ErrUnsure, "it issues nothing")
		}))
	})
}

// What a node ignores hides no method: a call that is none, a field of the wrong type, and what follows the JSON.
func TestMethods(t *testing.T) {
	for body, want := range map[string][]string{
		`{"method":"eth_call"}`:                           {"eth_call"},
		`{"method":"eth_call","id":{}} more`:              {"eth_call"},
		`{"method":"eth_call","METHOD":5}`:                {"eth_call"},
		` [{"method":"a_b"}, 5, null, [], {"method":7}]`:  {"a_b", "", "", "", ""},
		`[5,{"method":"eth_call","params":["0x"]}][`:      {"", "eth_call"},
		`[{"method":"eth_call"},{"method":["eth_send"]}]`: {"eth_call", ""},
		`[]`: {}, `5`: {""}, `null`: {""},
		``: nil, `issueTx`: nil, `[{"method":"eth_call"}`: nil,
	} {
		require.Equal(t, want, methodsOf([]byte(body)), body)
	}
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
		"hanging node":               {issue, "", hang, "a"},
		"broken connection":          {issue, "", refuse, "a"},
		"bad gateway":                {issue, "", answer(502, "bad"), "a"},
		"garbage":                    {issue, "", answer(200, "<html>"), "a"},
		"batch":                      {"[" + issue + "]", "", hang, "a"},
		"batch with an invalid call": {`[{"method":"eth_sendRawTransaction","params":["0x"]},5]`, "", hang, "a"},
		"before other text":          {issue + "}", "", hang, "a"},
		"on an EVM chain":            {`{"method":"eth_sendRawTransaction"}`, "", hang, "a"},
		"by another spelling":        {`[{"method":"eth_call"},{"method":"eth\u005fsendRawTransaction"}]`, "", hang, "a"},
		"not reached":                {issue, `"b"`, unsent, "ab"},
		"overloaded":                 {issue, `"b"`, answer(429, "slow"), "ab"},
		"not ready":                  {issue, `"b"`, answer(503, "bootstrapping"), "ab"},
		"no transaction":             {`{"method":"eth_call"}`, `"b"`, hang, "ab"},
		"no transaction, either":     {`{"method":"platform.getTx","params":["platform.issueTx"]}`, `"b"`, refuse, "ab"},
		"no JSON":                    {`issueTx`, `"b"`, refuse, "ab"},
		"the node says what it is":   {issue, "no", answer(400, "no"), "a"},
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
	issue := []byte(`{"method":"avm.issueTx"}`)

	c := newClient(t, away, good.URL)
	answer, err := c.Forward(t.Context(), "/ext/bc/X", issue, false)
	require.NoError(t, err)
	require.Equal(t, `"issued"`, string(answer.Body))

	c = newClient(t, closing.URL, good.URL)
	_, err = c.Forward(t.Context(), "/ext/bc/X", issue, false)
	require.ErrorIs(t, err, ErrUnsure)
	require.EqualValues(t, 1, got.Load(), "the second node must not get it, too")
}
