package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ava-labs/avalanchego/ids"
)

// serve answers every call with status and body and counts them.
func serve(t *testing.T, status int, body string) (string, *atomic.Int64) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL, &calls
}

// away is an endpoint where nothing listens. The port of a closed server may be that of another one soon.
const away = "http://127.0.0.1:1"

func newClient(t *testing.T, endpoints ...string) *Client {
	return newPatientClient(t, time.Minute, endpoints...)
}

func newPatientClient(t *testing.T, timeout time.Duration, endpoints ...string) *Client {
	c, err := New(Options{Endpoints: endpoints, Timeout: timeout})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const height7 = `{"jsonrpc":"2.0","id":1,"result":{"height":"7"}}`

func TestFailsOver(t *testing.T) {
	good, goodCalls := serve(t, 200, height7)
	for name, first := range map[string]func() string{
		"no listener": func() string { return away },
		"status 503":  func() string { u, _ := serve(t, 503, ""); return u },
		"status 429":  func() string { u, _ := serve(t, 429, `{"error":{"code":1,"message":"slow down"}}`); return u },
		"garbage":     func() string { u, _ := serve(t, 200, "<html>"); return u },
		"no result":   func() string { u, _ := serve(t, 200, `{"jsonrpc":"2.0","id":1}`); return u },
		"wrong type":  func() string { u, _ := serve(t, 200, `{"result":{"height":[]}}`); return u },
		"redirect": func() string {
			s := httptest.NewServer(http.RedirectHandler(good, http.StatusTemporaryRedirect))
			t.Cleanup(s.Close)
			return s.URL
		},
		"slow": func() string {
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // or the client's leaving goes unnoticed
				<-r.Context().Done()
			}))
			t.Cleanup(s.Close)
			return s.URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, timeout := goodCalls.Load(), time.Minute
			if name == "slow" {
				timeout = 2 * time.Second // for the good one as well
			}
			c := newPatientClient(t, timeout, first(), good)
			for range 3 {
				height, err := c.Height(t.Context())
				require.NoError(t, err)
				require.Equal(t, uint64(7), height)
			}
			require.Equal(t, before+3, goodCalls.Load())
		})
	}
}

func TestEndpointThatFailedIsAskedLast(t *testing.T) {
	bad, badCalls := serve(t, 500, "")
	good, _ := serve(t, 200, height7)
	c := newClient(t, bad, good)
	for range 5 {
		_, err := c.Height(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), badCalls.Load())
}

func TestErrors(t *testing.T) {
	refusing, _ := serve(t, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"not found"}}`)
	other, otherCalls := serve(t, 200, height7)
	_, err := newClient(t, refusing, other).Height(t.Context())
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, RPCError{Method: "platform.getHeight", Code: -32000, Message: "not found"}, *refused)
	require.Zero(t, otherCalls.Load(), "a refusal is final")

	missing, _ := serve(t, 404, "404 page not found\n")
	_, err = newClient(t, missing).CurrentEpoch(t.Context(), ids.ID{1})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 404, refused.Code)

	down, _ := serve(t, 502, "")
	_, err = newClient(t, down).Height(t.Context())
	require.ErrorIs(t, err, ErrUnavailable)

	garbage, _ := serve(t, 200, "{")
	_, err = newClient(t, garbage).Height(t.Context())
	require.ErrorIs(t, err, ErrMalformed)

	large, _ := serve(t, 200, `{"result":{"height":"7"}}`+strings.Repeat(" ", 100))
	c := newClient(t, large)
	c.limit = 100
	_, err = c.Height(t.Context())
	require.ErrorIs(t, err, ErrMalformed)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = newClient(t, other).Height(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, errors.Is(err, ErrUnavailable))
}

func TestEndpointsMustBeURLs(t *testing.T) {
	for _, text := range []string{"", "127.0.0.1:9650", "ftp://x", "http://", "http://%zz"} {
		_, err := New(Options{Endpoints: []string{text}})
		require.ErrorContains(t, err, "http://127.0.0.1:9650", "%q", text)
	}
	_, err := New(Options{})
	require.Error(t, err)
	for text, shown := range map[string]string{
		"ftp://user:hunter2@node:9650?token=hunter3": "ftp://***@node:9650",
		"wss://node/v2/hunter2":                      "wss://node/***/***",
		"wss://user:hunter2@node/v2/hunter2#hunter3": "wss://***@node/***/***",
		"wss://user:hunt/er2@node":                   "wss://***",
		"wss://node/hunter2@hunter3":                 "wss://***",
		"node:9650/ext/hunter2":                      "node:9650/ext/***",
	} {
		_, err = ParseEndpoint(text)
		require.EqualError(t, err, `node "`+shown+`" is not a URL like http://127.0.0.1:9650`)
	}
}

func TestPathAndQueryOfTheEndpointAreKept(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.String() + " " + r.Header.Get("X-Key")
		_, _ = w.Write([]byte(height7))
	}))
	defer server.Close()
	c, err := New(Options{Endpoints: []string{server.URL + "/base/?token=t"}, Headers: []http.Header{{"X-Key": {"k"}}}})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Height(t.Context())
	require.NoError(t, err)
	require.Equal(t, "/base/ext/bc/P?token=t k", got)
}

func TestValidatorSets(t *testing.T) {
	key := strings.Repeat("ab", 48)
	node := ids.NodeID{1}
	at, _ := serve(t, 200, fmt.Sprintf(`{"result":{"%s":{"publicKey":"0x%s","weight":"5"},"%s":{"publicKey":null,"weight":"3"}}}`, node, key, ids.NodeID{2}))
	set, err := newClient(t, at).ValidatorsAt(t.Context(), ids.Empty, 1)
	require.NoError(t, err)
	require.Equal(t, uint64(8), set.TotalWeight)
	require.Len(t, set.Validators, 2)

	all, _ := serve(t, 200, fmt.Sprintf(`{"result":{"validatorSets":{"%s":{"validators":[{"publicKey":"0x%s","weight":"5","nodeIDs":["%s"]}],"totalWeight":"9"}}}}`, ids.Empty, key, node))
	sets, err := newClient(t, all).AllValidatorsAt(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, uint64(9), sets[ids.Empty].TotalWeight)
	require.Equal(t, []ids.NodeID{node}, sets[ids.Empty].Validators[0].NodeIDs)

	for _, body := range []string{
		fmt.Sprintf(`{"result":{"%s":{"publicKey":"0x12","weight":"5"}}}`, node),
		fmt.Sprintf(`{"result":{"%s":{"publicKey":"zz","weight":"5"}}}`, node),
		fmt.Sprintf(`{"result":{"%s":{"weight":"18446744073709551615"},"%s":{"weight":"1"}}}`, node, ids.NodeID{2}),
		`{"result":[1]}`,
	} {
		bad, _ := serve(t, 200, body)
		_, err := newClient(t, bad).ValidatorsAt(t.Context(), ids.Empty, 1)
		require.ErrorIs(t, err, ErrMalformed, body)
	}
}
