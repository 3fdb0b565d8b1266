package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// hosts answers for all hosts without a network.
type hosts map[string]func(*http.Request) (*http.Response, error)

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return h[r.URL.Host](r)
}

func answer(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
	}
}

func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func refuse(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

// network is a client of the hosts a, b and c, with the hosts asked so far, in order.
type network struct {
	*Client
	hosts hosts
	asked strings.Builder
	log   bytes.Buffer
}

func newNetwork(t *testing.T, h hosts) *network {
	n := &network{hosts: h}
	record := make(hosts)
	for host := range h {
		record[host] = func(r *http.Request) (*http.Response, error) {
			n.asked.WriteString(host)
			return n.hosts[host](r)
		}
	}
	c, err := New(Options{
		Endpoints: []string{"http://user:secret@a?token=secret", "http://b?token=secret", "http://c"},
		HTTP:      &http.Client{Transport: record},
		Log:       slog.New(slog.NewTextHandler(&n.log, nil)),
	})
	require.NoError(t, err)
	n.Client = c
	return n
}

// askedFor returns the hosts that one call asked, in order.
func (n *network) askedFor(call func()) string {
	n.asked.Reset()
	call()
	return n.asked.String()
}

func TestScenario_7_2_22_StaysWithTheEndpointThatAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, hosts{"a": refuse, "b": answer(200, height7), "c": answer(200, height7)})
		ok := func() {
			_, err := n.Height(t.Context())
			require.NoError(t, err)
		}
		require.Equal(t, "ab", n.askedFor(ok))
		require.Equal(t, "b", n.askedFor(ok))
		n.hosts["a"] = answer(200, height7)
		time.Sleep(coolDown + time.Second)
		require.Equal(t, "b", n.askedFor(ok), "no way back while it works: nodes may differ in height")
		n.hosts["b"] = answer(503, "")
		require.Equal(t, "ba", n.askedFor(ok))
		require.Equal(t, "a", n.askedFor(ok))
	})
}

func TestCoolDownEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, hosts{"a": refuse, "b": refuse, "c": refuse})
		down := func() {
			_, err := n.Height(t.Context())
			require.ErrorIs(t, err, ErrUnavailable)
		}
		require.Equal(t, "abc", n.askedFor(down))
		require.Equal(t, "abc", n.askedFor(down), "all are tried before giving up, in their cool-down, too")
		time.Sleep(coolDown - time.Second)
		n.hosts["c"] = answer(200, height7)
		require.Equal(t, "abc", n.askedFor(func() { _, _ = n.Height(t.Context()) }))
		n.hosts["c"] = refuse
		require.Equal(t, "cab", n.askedFor(down))
		time.Sleep(coolDown)
		require.Equal(t, "cab", n.askedFor(down))
	})
}

func TestRefusalOfTheWholeCallIsNotFinal(t *testing.T) {
	lacks := answer(200, `{"error":{"code":-32000,"message":"rpc: can't find method \"platform.GetHeight\""}}`)
	n := newNetwork(t, hosts{"a": answer(404, "404 page not found\n"), "b": lacks, "c": answer(200, height7)})
	height, err := n.Height(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(7), height)

	n = newNetwork(t, hosts{"a": lacks, "b": answer(404, ""), "c": lacks})
	_, err = n.Height(t.Context())
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.NotOffered())

	n = newNetwork(t, hosts{"a": lacks, "b": refuse, "c": lacks})
	_, err = n.Height(t.Context())
	require.ErrorIs(t, err, ErrUnavailable, "the one that is down may offer it")
	require.False(t, errors.As(err, &refused), "got %v", err)

	n = newNetwork(t, hosts{"a": lacks, "b": refuse, "c": answer(200, "<html>")})
	_, err = n.Height(t.Context())
	require.ErrorIs(t, err, ErrMalformed)
	require.False(t, errors.As(err, &refused), "got %v", err)

	require.False(t, (&RPCError{Code: -32000, Message: "not found"}).NotOffered())
}

func TestTimeoutsAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, hosts{"a": hang, "b": hang, "c": hang})
		start := time.Now()
		_, err := n.Height(t.Context())
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller set no deadline")
		require.Equal(t, 3*defaultTimeout, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_, err = n.Height(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrUnavailable)
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestCancelledCallBlamesNoEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, hosts{"a": hang, "b": refuse, "c": refuse})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		require.Equal(t, "a", n.askedFor(func() {
			_, err := n.Height(ctx)
			require.ErrorIs(t, err, context.Canceled)
		}))
		n.hosts["a"] = answer(200, height7)
		require.Equal(t, "a", n.askedFor(func() { _, _ = n.Height(t.Context()) }))
		require.Empty(t, n.log.String())
	})
}

func TestSecretsAreNotRepeated(t *testing.T) {
	n := newNetwork(t, hosts{"a": refuse, "b": answer(200, "<html>"), "c": refuse})
	_, err := n.Height(t.Context())
	require.ErrorContains(t, err, "http://a: ")
	require.NotContains(t, err.Error(), "secret")
	require.NotContains(t, n.log.String(), "secret")
	_, err = New(Options{Endpoints: []string{"a:9650?token=secret"}})
	require.NotContains(t, err.Error(), "secret")
}

// A node may repeat a secret where an error cuts its response.
func TestSecretsAreNotCut(t *testing.T) {
	for name, said := range map[string]func(*http.Request) (*http.Response, error){
		"status": answer(http.StatusInternalServerError, strings.Repeat("x", maxExcerpt-10)+" 0123456789abcdef0123456789abcdef"),
		"body":   answer(http.StatusOK, strings.Repeat("x", maxExcerpt-10)+" 0123456789abcdef0123456789abcdef"),
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			c, err := New(Options{
				Endpoints: []string{"http://a?token=0123456789abcdef0123456789abcdef"},
				HTTP:      &http.Client{Transport: hosts{"a": said}},
				Log:       slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.NoError(t, err)
			_, err = c.Height(t.Context())
			require.ErrorContains(t, err, "xxx")
			require.NotContains(t, err.Error(), "0123")
			require.NotContains(t, log.String(), "0123")
		})
	}
}

func TestFailuresAreLoggedWhenTheyBeginAndEnd(t *testing.T) {
	n := newNetwork(t, hosts{"a": refuse, "b": refuse, "c": refuse})
	for range 3 {
		_, _ = n.Height(t.Context())
	}
	require.Equal(t, 3, strings.Count(n.log.String(), "\n"), "one line for each endpoint, got:\n%s", &n.log)
	n.hosts["a"] = answer(200, height7)
	for range 3 {
		_, _ = n.Height(t.Context())
	}
	require.Equal(t, 4, strings.Count(n.log.String(), "\n"), "one more for the one that is back, got:\n%s", &n.log)
}

func TestRedirectsLeadNowhere(t *testing.T) {
	n := newNetwork(t, hosts{"a": answer(200, height7), "b": answer(200, height7), "c": answer(200, height7)})
	n.hosts["a"] = func(r *http.Request) (*http.Response, error) {
		redirect, err := answer(http.StatusTemporaryRedirect, "")(r)
		redirect.Header.Set("Location", "http://c/ext/bc/P")
		return redirect, err
	}
	require.Equal(t, "ab", n.askedFor(func() {
		_, err := n.Height(t.Context())
		require.NoError(t, err)
	}))
}
