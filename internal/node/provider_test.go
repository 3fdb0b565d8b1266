package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

// reply is what a provider answers to a method.
type reply struct {
	status int
	header http.Header
	body   string
}

// provider answers by host and method. It records the calls.
type provider struct {
	answer func(host, method string) reply

	mu    sync.Mutex
	calls []string // host and method; guarded by mu
	log   bytes.Buffer
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	var call struct{ Method string }
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_ = r.Body.Close()
	_ = json.Unmarshal(body, &call) // a batch has no method
	p.mu.Lock()
	p.calls = append(p.calls, r.URL.Host+" "+call.Method)
	a := p.answer(r.URL.Host, call.Method)
	p.mu.Unlock()
	if a.header == nil {
		a.header = make(http.Header)
	}
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprint(a.status, " ", http.StatusText(a.status)),
		Header: a.header, Body: io.NopCloser(strings.NewReader(a.body)), Request: r,
	}, nil
}

// take returns the calls since the last take.
func (p *provider) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = nil
	return calls
}

func (p *provider) client(t *testing.T, o Options) *Client {
	t.Helper()
	o.HTTP = &http.Client{Transport: p}
	o.Log = slog.New(slog.NewTextHandler(&p.log, nil))
	c, err := New(o)
	require.NoError(t, err)
	return c
}

func ok(result string) reply { return reply{status: 200, body: `{"result":` + result + `}`} }

// A method that a node does not offer is remembered for this node and this method.
func TestRefusedMethodIsRemembered(t *testing.T) {
	for name, refusal := range map[string]reply{
		"401":    {status: 401, body: "who are you?"},
		"403":    {status: 403, body: "method not allowed on your plan"},
		"405":    {status: 405},
		"501":    {status: 501},
		"-32601": {status: 200, body: `{"error":{"code":-32601,"message":"method not found"}}`},
		"rpc":    {status: 200, body: `{"error":{"code":-32000,"message":"rpc: can't find method \"platform.GetHeight\""}}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				offered := false
				p := &provider{answer: func(host, method string) reply {
					if host == "a" && method == "platform.getHeight" && !offered {
						return refusal
					}
					return ok(`{"height":"7"}`)
				}}
				c := p.client(t, Options{Endpoints: []string{"http://a", "http://b"}})
				call := func() {
					_, err := c.Height(t.Context())
					require.NoError(t, err)
				}
				call()
				require.Equal(t, []string{"a platform.getHeight", "b platform.getHeight"}, p.take())
				call()
				require.Equal(t, []string{"b platform.getHeight"}, p.take())
				_, err := c.ProposedHeight(t.Context())
				require.NoError(t, err)
				require.Equal(t, []string{"a platform.getProposedHeight"}, p.take(), "the other methods")

				// It is asked again, ever less often.
				asked := 0
				for range 3600 {
					time.Sleep(time.Second)
					call()
					asked += strings.Count(strings.Join(p.take(), "\n"), "a platform.getHeight")
				}
				require.InDelta(t, 12, asked, 3)
				require.Equal(t, 1, strings.Count(p.log.String(), "\n"), "one line, got:\n%s", &p.log)
				require.Contains(t, p.log.String(), "platform.getHeight")
				require.Zero(t, c.Load().Failing)

				offered = true
				time.Sleep(longestAbsence)
				call()
				call()
				require.Equal(t, []string{"a platform.getHeight", "a platform.getHeight"}, p.take())
				require.Equal(t, 2, strings.Count(p.log.String(), "\n"))
			})
		})
	}
}

// Clients choose the blockchain of an epoch. They neither fill the memory of absent methods nor the log.
func TestRefusedPathsOfClients(t *testing.T) {
	p := &provider{answer: func(string, string) reply { return reply{status: 403, body: "forbidden"} }}
	c := p.client(t, Options{Endpoints: []string{"http://a"}})
	for i := range maxAbsences + 1 {
		_, err := c.CurrentEpoch(t.Context(), ids.ID{1, byte(i >> 8), byte(i)})
		require.Error(t, err)
	}
	require.Len(t, p.take(), maxAbsences+1)
	require.Equal(t, 1, strings.Count(p.log.String(), "\n"), "one line")
	require.Len(t, c.endpoints[0].absent, maxAbsences)
	for range 2 {
		_, err := c.Height(t.Context())
		require.Error(t, err)
	}
	require.Len(t, p.take(), 1, "the next absent method is remembered")
}

// Without another node the refusal is the answer, at once.
func TestRefusedMethodOfASingleNode(t *testing.T) {
	p := &provider{answer: func(string, string) reply { return reply{status: 403, body: "forbidden"} }}
	c := p.client(t, Options{Endpoints: []string{"http://a"}})
	for range 3 {
		_, err := c.Height(t.Context())
		var refused *RPCError
		require.ErrorAs(t, err, &refused)
		require.True(t, refused.NotOffered())
		require.EqualError(t, err, "platform.getHeight: the node answers 403: HTTP status 403 Forbidden: forbidden")
	}
	require.Len(t, p.take(), 1)
}

// A node that starts has no APIs yet, which is not remembered.
func TestMissingAPIIsNotRemembered(t *testing.T) {
	p := &provider{answer: func(string, string) reply { return reply{status: 404, body: "404 page not found"} }}
	c := p.client(t, Options{Endpoints: []string{"http://a"}})
	for range 3 {
		_, err := c.Height(t.Context())
		require.Error(t, err)
	}
	require.Len(t, p.take(), 3)
}

func TestValidatorSetsComeEitherWay(t *testing.T) {
	key, subnet := strings.Repeat("ab", 48), ids.ID{1}
	p := &provider{answer: func(_, method string) reply {
		if method == "platform.getValidatorsAt" {
			return reply{status: 403}
		}
		return ok(fmt.Sprintf(`{"validatorSets":{"%s":{"validators":[{"publicKey":"0x%s","weight":"5","nodeIDs":["%s"]}],"totalWeight":"9"}}}`, subnet, key, ids.NodeID{1}))
	}}
	c := p.client(t, Options{Endpoints: []string{"http://a"}})
	for range 2 {
		set, err := c.ValidatorsAt(t.Context(), subnet, 3)
		require.NoError(t, err)
		require.Equal(t, uint64(9), set.TotalWeight)
		require.Len(t, set.Validators, 1)
	}
	require.Equal(t, []string{"a platform.getValidatorsAt", "a platform.getAllValidatorsAt", "a platform.getAllValidatorsAt"}, p.take())
	set, err := c.ValidatorsAt(t.Context(), ids.ID{2}, 3)
	require.NoError(t, err)
	require.Empty(t, set.Validators)

	p.answer = func(string, string) reply { return reply{status: 501} }
	_, err = p.client(t, Options{Endpoints: []string{"http://a"}}).ValidatorsAt(t.Context(), subnet, 3)
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "platform.getValidatorsAt", refused.Method)
}

func TestPeersWithoutTheNodesOwnID(t *testing.T) {
	peer := ids.NodeID{7}
	p := &provider{answer: func(_, method string) reply {
		if method != "info.peers" {
			return reply{status: 403}
		}
		return ok(fmt.Sprintf(`{"peers":[{"nodeID":"%s","ip":"192.0.2.1:9651","publicIP":"192.0.2.1:9651"}]}`, peer))
	}}
	c := p.client(t, Options{Endpoints: []string{"http://a"}})
	for range 2 {
		peers, err := c.Peers(t.Context())
		require.NoError(t, err)
		require.Len(t, peers, 1)
		require.Equal(t, peer, peers[0].NodeID)
	}
	require.Equal(t, []string{"a info.getNodeID", "a info.peers", "a info.peers"}, p.take())
}

// A failure that passes within the deadline is retried, and the log does not mention it.
func TestSporadicOverloadIsRepeated(t *testing.T) {
	for _, status := range []int{429, 502, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			bad := 2
			p := &provider{answer: func(string, string) reply {
				if bad--; bad >= 0 {
					return reply{status: status}
				}
				return ok(`{"height":"7"}`)
			}}
			c := p.client(t, Options{Endpoints: []string{"http://a"}})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			height, err := c.Height(ctx)
			require.NoError(t, err)
			require.Equal(t, uint64(7), height)
			require.Len(t, p.take(), 3)

			bad = 2
			answer, err := c.Forward(ctx, "/ext/bc/P", []byte(`{"method":"platform.getHeight"}`), true)
			require.NoError(t, err)
			require.Equal(t, `{"result":{"height":"7"}}`, string(answer.Body))
			require.Empty(t, p.log.String())

			bad = 1 << 30
			began := time.Now()
			_, err = c.Height(ctx)
			require.ErrorIs(t, err, ErrUnavailable)
			require.ErrorContains(t, err, fmt.Sprint(status))
			require.Less(t, time.Since(began), 5*time.Second)
			require.Equal(t, 1, strings.Count(p.log.String(), "\n"), "%s", &p.log)
		})
	}
}

// A transaction goes to a node again only if the node did not get it.
func TestTransactionIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 502
		p := &provider{answer: func(string, string) reply { return reply{status: status} }}
		c := p.client(t, Options{Endpoints: []string{"http://a"}})
		issue := []byte(`{"method":"eth_sendRawTransaction"}`)
		_, err := c.Forward(t.Context(), CChainRPC, issue, false)
		require.ErrorIs(t, err, ErrUnsure)
		require.Len(t, p.take(), 1)
		status = 429
		_, err = c.Forward(t.Context(), CChainRPC, issue, false)
		require.ErrorIs(t, err, ErrUnavailable)
		require.Greater(t, len(p.take()), 1)
	})
}

func TestRetryAfterIsRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after, bad := "3", 1
		p := &provider{answer: func(string, string) reply {
			if bad--; bad >= 0 {
				return reply{status: 429, header: http.Header{"Retry-After": {after}}}
			}
			return ok(`{"height":"7"}`)
		}}
		c := p.client(t, Options{Endpoints: []string{"http://a"}})
		height := func(limit time.Duration) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			_, err := c.Height(ctx)
			return time.Since(began), err
		}
		took, err := height(10 * time.Second)
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, took)
		require.Len(t, p.take(), 2)

		// If the deadline is earlier, the call fails at once, and the provider gets no request until the time has passed.
		bad, after = 1, time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
		for range 3 {
			took, err = height(10 * time.Second)
			require.ErrorIs(t, err, ErrUnavailable)
			require.Less(t, took, time.Second)
		}
		require.ErrorContains(t, err, "Retry-After")
		require.Len(t, p.take(), 1)
		time.Sleep(time.Minute)
		_, err = height(time.Second)
		require.NoError(t, err)
	})
}

// A node that comes and goes has a line a minute at most.
func TestFlappingNodeIsNotLoggedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := &provider{answer: func(string, string) reply {
			if n++; n%7 < 5 {
				return reply{status: 500, body: "oops"}
			}
			return ok(`{"height":"7"}`)
		}}
		c := p.client(t, Options{Endpoints: []string{"http://a"}})
		for range 600 {
			_, _ = c.Height(t.Context())
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, strings.Count(p.log.String(), "fails"), 10)
	})
}

func TestErrorsShowWhatTheProviderAnswered(t *testing.T) {
	long := strings.Repeat("x", 1000)
	var answer reply
	p := &provider{answer: func(string, string) reply { return answer }}
	c := p.client(t, Options{Endpoints: []string{"http://a"}})
	for want, a := range map[string]reply{
		"HTTP status 500 Internal Server Error: two lines":                      {status: 500, body: "two\n\x00 lines\n"},
		"HTTP status 418 I'm a teapot: " + long[:maxExcerpt] + "…":              {status: 418, body: long},
		"HTTP status 400: bad request":                                          {status: 400, body: "bad request"},
		"invalid character '<' looking for beginning of value: <html>":          {status: 200, body: "<html>"},
		"it redirects to https://other.example/ext/bc/P, which is not followed": {status: 308, header: http.Header{"Location": {"https://u:p@other.example/ext/bc/P?k=v"}}},
	} {
		answer = a
		_, err := c.Height(t.Context())
		require.ErrorContains(t, err, want)
	}
}

// Secrets of an endpoint go to this endpoint only, even if it repeats them.
func TestSecretsAppearNowhere(t *testing.T) {
	const user, password, path, query, bearer, key = "USERNAME", "PASS%2FWORD", "abc123", "QUERYKEY", "BEARERTOKEN", "APIKEY"
	planted := []string{user, password, "PASS/WORD", path, query, bearer, key}
	echo := strings.Join(planted, " ")
	var answer reply
	p := &provider{answer: func(string, string) reply { return answer }}
	c := p.client(t, Options{
		Endpoints: []string{"http://" + user + ":" + password + "@a/v2/" + path + "?token=" + query},
		Headers:   []http.Header{{"Authorization": {"Bearer " + bearer}, "X-Api-Key": {key}}},
	})
	var output strings.Builder
	for _, a := range []reply{
		{status: 500, body: echo}, {status: 403, body: echo}, {status: 429, body: echo}, {status: 400, body: echo},
		{status: 200, body: echo}, {status: 200, body: `{"error":{"code":-32000,"message":"` + echo + `"}}`},
		{status: 302, header: http.Header{"Location": {"http://" + user + ":" + password + "@a/" + path + "?q=" + query}}},
		{status: 200, body: `[{"id":0,"error":{"code":-32000,"message":"` + echo + `"}}]`},
	} {
		answer = a
		_, err := c.Height(t.Context())
		fmt.Fprintln(&output, err)
		_, err = c.EVM("").ChainID(t.Context())
		fmt.Fprintln(&output, err)
		_, err = c.EVM("").Calls(t.Context(), nil, []EVMCall{{}})
		fmt.Fprintln(&output, err)
		forwarded, err := c.Forward(t.Context(), "/ext/bc/P", []byte(`{}`), true)
		fmt.Fprintln(&output, err)
		if err == nil {
			output.Write(forwarded.Body)
		}
	}
	text := output.String() + p.log.String()
	require.Contains(t, text, "http://a/***/***")
	for _, secret := range planted {
		require.NotContains(t, text, secret)
	}
}

// Results are forwarded as they are, even if they contain a text that is also a user name, a path or a header.
func TestResultsWithSecretsAreForwarded(t *testing.T) {
	var answer reply
	p := &provider{answer: func(string, string) reply { return answer }}
	c := p.client(t, Options{
		Endpoints: []string{"http://avax:PASSWORD@a/43114"},
		Headers:   []http.Header{{"X-Archive": {"true"}}},
	})
	for body, want := range map[string]string{
		`{"result":{"address":"C-avax1qqqq","chain":"43114"}}`:               "",
		`{"result":[true,43114]}`:                                            "",
		`[{"result":true,"id":43114},{"result":"avax"}]`:                     "",
		`{"error":{"message":"PASSWORD of avax"},"id":43114}`:                `{"error":{"message":"*** of ***"},"id":43114}`,
		`[{"id":1,"result":"avax"},{"error":{"message":"PASSWORD"},"id":2}]`: `[{"id":1,"result":"avax"},{"error":{"message":"***"},"id":2}]`,
		`{"error":{"code":43114,"message":"PASSWORD"},"id":1}`:               `{"error":{"code":-32000,"message":"the upstream node's error is omitted because it contains a secret of the service"},"id":1}`,
		`"PASSWORD"`: `"***"`,
	} {
		answer = reply{status: 200, body: body}
		got, err := c.Forward(t.Context(), "/ext/bc/C/rpc", []byte(`{}`), true)
		require.NoError(t, err)
		require.Equal(t, cmp.Or(want, body), string(got.Body))
	}
}

func TestRateIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: func(string, string) reply { return ok(`{"height":"7"}`) }}
		limit := NewRate(10)
		one, two := p.client(t, Options{Endpoints: []string{"http://a"}, Rate: limit}), p.client(t, Options{Endpoints: []string{"http://b"}, Rate: limit})
		began := time.Now()
		for range 50 {
			for _, c := range []*Client{one, two} {
				_, err := c.Height(t.Context())
				require.NoError(t, err)
			}
		}
		require.InDelta(t, 9, time.Since(began).Seconds(), 0.2)

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := one.Height(ctx)
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorContains(t, err, "10 requests a second")
		require.Empty(t, p.log.String())

		// Calls over connections of clients count, too, also those of a batch.
		time.Sleep(time.Second)
		client, done := context.WithTimeout(WithClient(t.Context(), named("one")), 5*time.Second)
		defer done()
		began = time.Now()
		for range 5 {
			require.NoError(t, one.Await(client, []byte(`[{"method":"eth_call"},{"method":"eth_call"},5]`)))
		}
		require.InDelta(t, (15-7)/7.5, time.Since(began).Seconds(), 0.1)
		require.ErrorIs(t, one.Await(ctx, []byte(`[{},{},{},{},{},{},{},{},{}]`)), ErrBusy)
		require.NoError(t, p.client(t, Options{Endpoints: []string{"http://a"}}).Await(ctx, nil), "there is no rate")
	})
}

// Calls for clients that use up their part of the rate do not delay the service's own.
func TestClientsDoNotUseUpTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: func(string, string) reply { return ok(`{"height":"7"}`) }}
		c := p.client(t, Options{Endpoints: []string{"http://a"}, Rate: NewRate(10)})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var all sync.WaitGroup
		var answered atomic.Int64
		for i := range 300 {
			all.Go(func() {
				client := WithClient(ctx, named(strconv.Itoa(i)))
				if _, err := c.Forward(client, platformPath, []byte(`{"method":"platform.getHeight"}`), false); err == nil {
					answered.Add(1)
				}
			})
		}
		for range 10 {
			time.Sleep(time.Second)
			began := time.Now()
			_, err := c.Height(t.Context())
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), 200*time.Millisecond)
		}
		all.Wait()
		require.InDelta(t, 20*7.5, answered.Load(), 15)
	})
}

// A client's call goes to a node that allows it.
func TestForwardPassesOverNodesThatRefuse(t *testing.T) {
	p := &provider{answer: func(host, _ string) reply {
		if host == "a" {
			return reply{status: 403, body: "forbidden"}
		}
		return ok(`"b"`)
	}}
	body := []byte(`{"method":"platform.getHeight"}`)
	answer, err := p.client(t, Options{Endpoints: []string{"http://a", "http://b"}}).Forward(t.Context(), "/ext/bc/P", body, true)
	require.NoError(t, err)
	require.Equal(t, `{"result":"b"}`, string(answer.Body))
	_, err = p.client(t, Options{Endpoints: []string{"http://a"}}).Forward(t.Context(), "/ext/bc/P", body, true)
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.False(t, errors.Is(err, ErrUnavailable))
}
