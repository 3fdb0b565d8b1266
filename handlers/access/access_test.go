package access

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"quorate/handlers/apierr"
	"quorate/internal/store"
)

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "keys.json")
	f := KeyFile(path)
	keys, err := f.List()
	require.NoError(t, err)
	require.Empty(t, keys)
	now := time.Unix(1_700_000_000, 5)

	key, err := f.Add("one", "partner", now)
	require.NoError(t, err)
	require.Regexp(t, `^qk_[A-Za-z0-9_-]{43}$`, key)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(content), key)
	require.NotContains(t, string(content), strings.TrimPrefix(key, keyPrefix))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	_, err = f.Add("one", "partner", now)
	require.ErrorIs(t, err, ErrKeyExists)
	for _, name := range []string{"", "a b", "a\n", strings.Repeat("a", 65)} {
		_, err = f.Add(name, "partner", now)
		require.ErrorIs(t, err, ErrKeyName, "%q", name)
	}
	require.ErrorIs(t, f.Revoke("two", now), ErrNoKey)
	require.NoError(t, f.Revoke("one", now))
	require.NoError(t, f.Revoke("one", now.Add(time.Hour)))
	keys, err = f.List()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.Equal(t, now.UTC().Truncate(time.Second), keys[0].Revoked, "the first time counts")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the file and its lock; no drafts")
}

func TestKeyFileIsChangedByManyAtOnce(t *testing.T) {
	f := KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if _, err := f.Add(fmt.Sprintf("key-%d", i), DefaultClass, time.Now()); err != nil {
				t.Errorf("adding key %d: %v", i, err)
			}
		})
	}
	all.Wait()
	keys, err := f.List()
	require.NoError(t, err)
	require.Len(t, keys, 16)
}

func TestAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(Class{PerSecond: 2, Burst: 3}, nil)
		for want := 2; want >= 0; want-- {
			v := a.take(1, time.Now())
			require.True(t, v.allowed)
			require.Equal(t, want, v.remaining)
		}
		v := a.take(1, time.Now())
		require.False(t, v.allowed)
		require.InDelta(t, float64(500*time.Millisecond), float64(v.reset), float64(time.Millisecond))
		time.Sleep(v.reset + time.Millisecond)
		require.True(t, a.take(1, time.Now()).allowed, "after the reported time")
		require.False(t, a.take(1, time.Now()).allowed)
		time.Sleep(time.Hour)
		require.Equal(t, 2, a.take(1, time.Now()).remaining, "no more than a burst is saved up")
	})
}

func TestAllowanceOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		time.Sleep(23*time.Hour + 59*time.Minute)
		a := newAllowance(Class{PerSecond: 100, PerDay: 2}, nil)
		require.Equal(t, 1, a.take(1, time.Now()).remaining)
		require.Equal(t, 0, a.take(1, time.Now()).remaining)
		v := a.take(1, time.Now())
		require.True(t, v.daily && !v.allowed)
		require.Equal(t, time.Minute, v.reset)
		time.Sleep(time.Minute)
		require.True(t, a.take(1, time.Now()).allowed, "the next day")
	})
}

// Costs of a request beyond one are charged afterwards.
func TestOwe(t *testing.T) {
	for _, test := range []struct {
		name      string
		class     Class
		taken     int
		owed      []int
		remaining int           // after one more request
		wait      time.Duration // until the next request; 0 if it is allowed
		owes      bool
	}{
		{"nothing", Class{PerSecond: 2, Burst: 10}, 1, nil, 8, 0, false},
		{"a part of the burst", Class{PerSecond: 2, Burst: 10}, 1, []int{3}, 5, 0, false},
		{"all but one", Class{PerSecond: 2, Burst: 10}, 1, []int{3, 5}, 0, 0, false},
		{"the burst", Class{PerSecond: 2, Burst: 10}, 1, []int{9}, 0, time.Second / 2, false},
		{"more than the burst", Class{PerSecond: 2, Burst: 10}, 1, []int{9, 7}, 0, 4 * time.Second, true},
		{"after a batch", Class{PerSecond: 20, Burst: 100}, 100, []int{500}, 0, 25*time.Second + 50*time.Millisecond, true},
		{"what is restored in 30 s", Class{PerSecond: 2, Burst: 10}, 10, []int{60}, 0, 30*time.Second + time.Second/2, true},
		{"no more than that", Class{PerSecond: 2, Burst: 10}, 10, []int{50, 1000, 1 << 40}, 0, 30*time.Second + time.Second/2, true},
		{"a slow class", Class{PerSecond: 0.01, Burst: 2}, 2, []int{5}, 0, 130 * time.Second, true},
		{"the day", Class{PerSecond: 1000, PerDay: 20}, 1, []int{15}, 3, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, account := range []*account{nil, {shared: NewShared(store.NewMemory(), nil), key: "k"}} {
				synctest.Test(t, func(t *testing.T) {
					a := newAllowance(test.class, nil)
					a.account = account
					require.True(t, a.use(t.Context(), test.taken, time.Now()).allowed)
					for _, n := range test.owed {
						a.owe(t.Context(), n, time.Now())
					}
					v := a.use(t.Context(), 1, time.Now())
					require.Equal(t, test.wait == 0, v.allowed)
					require.Equal(t, test.remaining, v.remaining)
					require.Equal(t, test.owes, v.owes)
					require.InDelta(t, float64(test.wait), float64(v.reset), float64(time.Millisecond))
					if test.wait > 0 {
						time.Sleep(v.reset - 2*time.Millisecond)
						require.False(t, a.use(t.Context(), 1, time.Now()).allowed, "before the reported time")
						time.Sleep(3 * time.Millisecond)
						require.True(t, a.use(t.Context(), 1, time.Now()).allowed, "after the reported time")
					}
				})
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		a := newAllowance(Class{PerSecond: 1000, PerDay: 20}, nil)
		a.owe(t.Context(), 1000, time.Now())
		time.Sleep(time.Minute)
		v := a.take(1, time.Now())
		require.True(t, v.daily)
		time.Sleep(v.reset)
		require.True(t, a.take(1, time.Now()).allowed, "the next day")
	})
}

// A client pays with later requests. One without a limit does not pay.
func TestClientOwes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, classes := range []map[string]Class{{DefaultClass: {PerSecond: 1, Burst: 3}}, nil} {
			g, err := New(Options{Classes: classes})
			require.NoError(t, err)
			e := echo.New()
			e.HTTPErrorHandler = apierr.Handler(func(string) apierr.Form { return apierr.DataAPI })
			e.Use(g.Middleware())
			e.GET("/", func(c echo.Context) error {
				ctx, client := g.Accompany(c)
				gone, cancel := context.WithCancel(ctx)
				cancel()
				client.Owe(gone, 10)
				return c.NoContent(http.StatusOK)
			})
			require.Equal(t, 200, get(e, "/", "192.0.2.1:1").Code, "what it costs is known afterwards")
			w := get(e, "/", "192.0.2.1:1")
			if classes == nil {
				require.Equal(t, 200, w.Code)
				continue
			}
			require.Equal(t, 429, w.Code)
			require.Contains(t, w.Body.String(), "earlier requests cost more than the allowance of 1 requests a second; try again in 9 s")
			require.Equal(t, "9", w.Header().Get("retry-after"))
			require.Equal(t, "0", w.Header().Get("ratelimit-remaining"))
			require.Equal(t, 200, get(e, "/", "192.0.2.2:1").Code, "another client")
			time.Sleep(9 * time.Second)
			require.Equal(t, 200, get(e, "/", "192.0.2.1:1").Code)
		}
		var none *Guard
		_, client := none.Accompany(echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/", nil), nil))
		client.Owe(t.Context(), 10)
	})
}

func TestClassValidate(t *testing.T) {
	for _, c := range []Class{{}, {PerSecond: -1}, {PerSecond: 1e9}, {PerSecond: 1, Burst: -1}, {PerSecond: 1, PerDay: -1}} {
		require.Error(t, c.Validate(), "%+v", c)
	}
	require.NoError(t, Class{PerSecond: .1}.Validate())
	require.Equal(t, "1;w=10", Class{PerSecond: .1}.policy())
	require.Equal(t, "20;w=4, 7;w=86400", Class{PerSecond: 5, Burst: 20, PerDay: 7}.policy())
}

// surface answers 200 to what a guard lets in.
func surface(t *testing.T, o Options, trusted ...string) *echo.Echo {
	t.Helper()
	g, err := New(o)
	require.NoError(t, err)
	e := echo.New()
	var prefixes []netip.Prefix
	for _, p := range trusted {
		prefixes = append(prefixes, netip.MustParsePrefix(p))
	}
	e.IPExtractor = ClientIP(prefixes, XForwardedFor)
	e.HTTPErrorHandler = apierr.Handler(func(string) apierr.Form { return apierr.DataAPI })
	e.Use(g.Middleware())
	for _, path := range []string{"/", "/health"} {
		e.GET(path, func(c echo.Context) error { return c.String(http.StatusOK, KeyName(c)) })
	}
	return e
}

func get(e *echo.Echo, path, from string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = from
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

func TestLimitPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		e := surface(t, Options{Classes: map[string]Class{DefaultClass: {PerSecond: 1, Burst: 2}}, Free: []string{"/health"}, Metrics: registry}, "10.0.0.0/8")
		w := get(e, "/", "192.0.2.1:1")
		require.Equal(t, 200, w.Code)
		require.Equal(t, "2;w=2", w.Header().Get("ratelimit-policy"))
		require.Equal(t, "2", w.Header().Get("ratelimit-limit"))
		require.Equal(t, "1", w.Header().Get("ratelimit-remaining"))
		require.Empty(t, w.Header().Get("ratelimit-reset"))
		require.Equal(t, 200, get(e, "/", "192.0.2.1:2").Code)
		w = get(e, "/", "192.0.2.1:3")
		require.Equal(t, 429, w.Code)
		require.Equal(t, "1", w.Header().Get("retry-after"))
		require.Equal(t, "1", w.Header().Get("ratelimit-reset"))
		require.Contains(t, w.Body.String(), `"statusCode":429,"error":"Too Many Requests"`)
		require.Equal(t, 200, get(e, "/health", "192.0.2.1:3").Code)
		require.Equal(t, 200, get(e, "/", "192.0.2.2:3").Code, "another address")
		require.Equal(t, 429, get(e, "/", "192.0.2.1:3", "X-Forwarded-For", "192.0.2.77").Code, "no proxy of ours")
		for range 2 {
			require.Equal(t, 200, get(e, "/", "10.0.0.1:3", "X-Forwarded-For", "192.0.2.9").Code)
		}
		require.Equal(t, 429, get(e, "/", "10.0.0.1:3", "X-Forwarded-For", "198.51.100.1, 192.0.2.9").Code, "what the client made up does not count")
		require.Equal(t, 200, get(e, "/", "10.0.0.1:3", "X-Forwarded-For", "192.0.2.10").Code)
		// One host has a whole /64.
		require.Equal(t, 200, get(e, "/", "[2001:db8::1]:3").Code)
		require.Equal(t, 200, get(e, "/", "[2001:db8::2]:3").Code)
		require.Equal(t, 429, get(e, "/", "[2001:db8::3]:3").Code)
		families, err := registry.Gather()
		require.NoError(t, err)
		require.Len(t, families, 4)
	})
}

// Messages over a connection count as requests do, as long as the API key is valid.
func TestClientOfAConnection(t *testing.T) {
	f := KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	key, err := f.Add("one", "", time.Now())
	require.NoError(t, err)
	g, err := New(Options{Keys: f, Classes: map[string]Class{DefaultClass: {PerSecond: 0.001, Burst: 3}}})
	require.NoError(t, err)
	var got *Client
	e := echo.New()
	e.HTTPErrorHandler = apierr.Handler(func(string) apierr.Form { return apierr.DataAPI })
	e.Use(g.Middleware())
	e.GET("/", func(c echo.Context) error {
		require.Nil(t, ClientOf(c.Request().Context()))
		ctx, client := g.Accompany(c)
		got = ClientOf(ctx)
		require.Same(t, client, got)
		return c.NoContent(http.StatusOK)
	})
	require.Equal(t, 200, get(e, "/", "192.0.2.1:1").Code)
	require.Equal(t, 200, get(e, "/", "192.0.2.1:1", "Upgrade", "websocket").Code)
	require.Equal(t, "192.0.2.1/32", got.ID())
	wait, refused := got.Take(t.Context(), 1)
	require.Nil(t, refused)
	require.Zero(t, wait)
	wait, refused = got.Take(t.Context(), 1)
	require.ErrorContains(t, refused, "more than 0.001 requests a second")
	require.Positive(t, wait)
	require.Equal(t, 429, get(e, "/", "192.0.2.1:1").Code, "of the same allowance")

	require.Equal(t, 200, get(e, "/", "192.0.2.1:1", "Upgrade", "websocket", "x-data-api-key", key).Code)
	require.Equal(t, "key one", got.ID())
	_, refused = got.Take(t.Context(), 1)
	require.Nil(t, refused)
	require.NoError(t, f.Revoke("one", time.Now()))
	wait, refused = got.Take(t.Context(), 1)
	require.ErrorContains(t, refused, "revoked")
	require.Zero(t, wait)
}

func TestMemoryOfAddressesIsBounded(t *testing.T) {
	g, err := New(Options{Classes: map[string]Class{DefaultClass: {PerSecond: 1}}, Addresses: 10})
	require.NoError(t, err)
	for i := range 1000 {
		_, left, err := g.admit("", fmt.Sprintf("192.0.%d.%d:1", i/256, i%256))
		require.NoError(t, err)
		require.NotNil(t, left)
	}
	require.Equal(t, 10, g.addresses.Len())
}

func TestKeys(t *testing.T) {
	f := KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	var log bytes.Buffer
	e := surface(t, Options{Keys: f, Log: slog.New(slog.NewTextHandler(&log, nil)), Classes: map[string]Class{DefaultClass: {PerSecond: .001, Burst: 1}, "partner": {PerSecond: .001, Burst: 3}}})
	require.Equal(t, 200, get(e, "/", "192.0.2.1:1", "x-glacier-api-key", "whatever").Code, "without a list keys are ignored")
	require.Equal(t, 429, get(e, "/", "192.0.2.1:1", "x-glacier-api-key", "whatever").Code)

	key, err := f.Add("one", "partner", time.Now())
	require.NoError(t, err)
	for _, header := range []string{"X-Data-Api-Key", "x-glacier-api-key"} {
		w := get(e, "/", "192.0.2.1:1", header, key)
		require.Equal(t, 200, w.Code, "at once")
		require.Equal(t, "one", w.Body.String())
		require.Equal(t, "3", w.Header().Get("ratelimit-limit"))
	}
	require.Equal(t, 401, get(e, "/", "192.0.2.1:1", "x-data-api-key", "qk_other", "x-glacier-api-key", key).Code, "the documented header counts")
	require.Equal(t, 401, get(e, "/", "192.0.2.1:1", "x-data-api-key", strings.Repeat("x", 5000)).Code)

	other, err := f.Add("two", "gone", time.Now())
	require.NoError(t, err)
	require.Equal(t, 200, get(e, "/", "192.0.2.9:1", "x-data-api-key", other).Code)
	require.Equal(t, 429, get(e, "/", "192.0.2.9:1", "x-data-api-key", other).Code, "the default class")
	require.Equal(t, 200, get(e, "/", "192.0.2.1:1", "x-data-api-key", key).Code, "the third")
	require.Equal(t, 429, get(e, "/", "192.0.2.1:1", "x-data-api-key", key).Code, "another key does not renew an allowance")

	// A broken file changes nothing.
	content, err := os.ReadFile(string(f))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(string(f), []byte("{"), 0o600))
	require.Equal(t, 429, get(e, "/", "192.0.2.1:1", "x-data-api-key", key).Code)
	require.Equal(t, 401, get(e, "/", "192.0.2.1:1", "x-data-api-key", "qk_none").Code)
	require.Equal(t, 1, strings.Count(log.String(), "cannot be read"))
	require.NoError(t, os.WriteFile(string(f), content, 0o600))

	require.NoError(t, f.Revoke("one", time.Now()))
	require.Equal(t, 403, get(e, "/", "192.0.2.1:1", "x-data-api-key", key).Code, "at once")
	require.NotContains(t, log.String(), key)
	require.NotContains(t, log.String(), strings.TrimPrefix(key, keyPrefix)[:16])
}

// A service that starts with a key file which it cannot read must not take it for one without API keys.
func TestUnreadKeyFileAdmitsNoKey(t *testing.T) {
	f := KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	key, err := f.Add("one", "partner", time.Now())
	require.NoError(t, err)
	content, err := os.ReadFile(string(f))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(string(f), content[:len(content)/2], 0o600))
	g, err := New(Options{Keys: f})
	require.NoError(t, err)
	require.True(t, g.Keyed(), "no webhooks for clients without an API key")
	_, _, err = g.admit("qk_other", "192.0.2.1:1")
	require.ErrorContains(t, err, "not known")
	_, _, err = g.admit("", "192.0.2.1:1")
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(string(f), content, 0o600))
	name, _, err := g.admit(key, "192.0.2.1:1")
	require.NoError(t, err)
	require.Equal(t, "one", name)
}

// The folder belongs to the user of the service, the change may be root's.
func TestKeyFileFollowsNoLink(t *testing.T) {
	f := KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	target := filepath.Join(t.TempDir(), "shadow")
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	require.NoError(t, os.Symlink(target, string(f)+".lock"))
	_, err := f.Add("one", "partner", time.Now())
	require.ErrorIs(t, err, syscall.ELOOP)
	require.NoFileExists(t, string(f))
}

func TestClientIP(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	for _, test := range []struct {
		peer   string
		header ProxyHeader
		values []string
		want   string
	}{
		{"192.0.2.1:5", XForwardedFor, []string{"1.1.1.1"}, "192.0.2.1"},
		{"10.0.0.1:5", XForwardedFor, nil, "10.0.0.1"},
		{"10.0.0.1:5", XForwardedFor, []string{"1.1.1.1"}, "1.1.1.1"},
		{"10.0.0.1:5", XForwardedFor, []string{"9.9.9.9", "1.1.1.1, 10.2.2.2"}, "1.1.1.1"},
		{"10.0.0.1:5", XForwardedFor, []string{"1.1.1.1, unknown"}, "10.0.0.1"},
		{"10.0.0.1:5", XForwardedFor, []string{"1.1.1.1:443"}, "1.1.1.1"},
		{"[::ffff:10.0.0.1]:5", XForwardedFor, []string{"1.1.1.1"}, "1.1.1.1"},
		{"[2001:db8::9]:5", Forwarded, []string{`for="[2001:aaaa::1]:4711";proto=https`}, "2001:aaaa::1"},
		{"10.0.0.1:5", Forwarded, []string{"for=1.1.1.1, proto=https;For=10.0.0.4"}, "1.1.1.1"},
		{"10.0.0.1:5", Forwarded, []string{"for=_hidden"}, "10.0.0.1"},
		{"10.0.0.1:5", Forwarded, []string{"by=1.1.1.1"}, "10.0.0.1"},
		{"10.0.0.1:5", Forwarded, []string{`for=9.9.9.9, for="1.1.1.1";by="a, for=8.8.8.8; \"for=7.7.7.7"`}, "1.1.1.1"},
		{"10.0.0.1:5", Forwarded, []string{`For="\1.1.1.1:\4\43" ; proto=https;;`}, "1.1.1.1"},
		{"10.0.0.1:5", Forwarded, []string{`by="\\", for=1.1.1.1`, ` for="10.0.0.2";ext="\\"`}, "1.1.1.1"},
		{"10.0.0.1:5", Forwarded, []string{`for="9.9.9.9`, "for=1.1.1.1"}, "1.1.1.1"},
		{"10.0.0.1:5", Forwarded, []string{`for=9.9.9.9", for=1.1.1.1, for=10.0.0.2`}, "1.1.1.1"},
		{"10.0.0.1:5", Forwarded, []string{"for=1.1.1.1;for=9.9.9.9"}, "10.0.0.1"},
		{"10.0.0.1:5", Forwarded, []string{`for="1.1.1.1"9.9.9.9`}, "10.0.0.1"},
		{"10.0.0.1:5", Forwarded, []string{`for=1.1.1.1 9.9.9.9`}, "10.0.0.1"},
		{"10.0.0.1:5", Forwarded, []string{`for=1.1.1.1"`}, "10.0.0.1"},
		{"10.0.0.1:5", Forwarded, []string{`for="1.1.1.1\"`}, "10.0.0.1"},
		{"10.0.0.1:5", Forwarded, []string{"for=1.1.1.1;proto"}, "10.0.0.1"},
		{"10.0.0.1:5", XForwardedFor, []string{strings.Repeat("10.0.0.2,", 1000) + "10.0.0.3"}, "10.0.0.2"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.peer
		r.Header[http.CanonicalHeaderKey(string(test.header))] = test.values
		require.Equal(t, test.want, ClientIP(trusted, test.header)(r), "%+v", test)
	}
}

func FuzzClientIP(f *testing.F) {
	f.Add("1.1.1.1, 10.0.0.2", "for=1.1.1.1")
	f.Add(",,[", `for="[`)
	f.Add(`",`, `for="a\", for=1.1.1.1";by=";`)
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, list, forwarded string) {
		for header, value := range map[ProxyHeader]string{XForwardedFor: list, Forwarded: forwarded} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "10.0.0.1:1"
			r.Header.Set(string(header), value)
			got := ClientIP(trusted, header)(r)
			if _, err := netip.ParseAddr(got); err != nil {
				t.Errorf("got %q, want an address", got)
			}
		}
	})
}

// Clients keep what they have used when the classes change.
func TestSetClasses(t *testing.T) {
	f := KeyFile(filepath.Join(t.TempDir(), "keys.json"))
	key, err := f.Add("someone", "partner", time.Now())
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		g, err := New(Options{Keys: f, Classes: map[string]Class{DefaultClass: {PerSecond: 1, Burst: 3}, "partner": {PerSecond: 1, Burst: 5}}})
		require.NoError(t, err)
		use := func(key string, n int) (verdict, int) {
			_, left, err := g.admit(key, "192.0.2.1")
			require.NoError(t, err)
			v := left.use(t.Context(), n, time.Now())
			return v, left.class.burst()
		}
		v, _ := use("", 2)
		require.Equal(t, 1, v.remaining)
		v, _ = use(key, 2)
		require.Equal(t, 3, v.remaining)
		require.ErrorContains(t, g.SetClasses(map[string]Class{DefaultClass: {PerSecond: -1}}), "rate class default")
		require.NoError(t, g.SetClasses(map[string]Class{DefaultClass: {PerSecond: 1, Burst: 10}, "partner": {PerSecond: 1, Burst: 20}}))
		v, burst := use("", 1)
		require.Equal(t, 10, burst)
		require.Equal(t, 7, v.remaining)
		v, burst = use(key, 1)
		require.Equal(t, 20, burst)
		require.Equal(t, 17, v.remaining)
		require.NoError(t, g.SetClasses(nil))
		_, left, err := g.admit("", "192.0.2.1")
		require.NoError(t, err)
		require.Nil(t, left)
	})
}
