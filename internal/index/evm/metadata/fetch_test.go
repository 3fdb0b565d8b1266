package metadata

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"quorate/internal/outbound"
)

// stranger is a server that does what servers do to those who trust them. Only its own
// address counts as public, so that whatever else is on this machine is private.
type stranger struct {
	*httptest.Server
	// private must not be reached; reached counts how often it was.
	private *httptest.Server
	reached atomic.Int64
}

func newStranger(t *testing.T) *stranger {
	s := new(stranger)
	s.private = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.reached.Add(1)
		fmt.Fprint(w, `{"name":"secret"}`)
	}))
	t.Cleanup(s.private.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("/good", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"name":"good"}`) })
	mux.HandleFunc("/ipfs/Qm1/7.json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"name":"seven"}`) })
	mux.HandleFunc("/ipfs/Qm1/100%25.json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"name":"all"}`) })
	mux.HandleFunc("/ipfs/Qm1/{inside}/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"name":%q}`, r.URL.Path) // decoded once
	})
	mux.HandleFunc("/ipfs/Qm1/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.private.URL, http.StatusFound) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/announced", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99999999") })
	mux.HandleFunc("/drip", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprint(w, " ")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/headers", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 2*maxHeader)) })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	mux.HandleFunc("/gone", http.NotFound)
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, `{"name":`)
	})
	mux.HandleFunc("/hop/", func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscan(strings.TrimPrefix(r.URL.Path, "/hop/"), &n)
		if n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/hop/%d", n-1), http.StatusMovedPermanently)
			return
		}
		fmt.Fprint(w, `{"name":"far"}`)
	})
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("url"), http.StatusFound)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	return s
}

// fetcher takes the stranger for public.
func (s *stranger) fetcher(t *testing.T, o FetchOptions) *Fetcher {
	f, err := NewFetcher(o)
	require.NoError(t, err)
	f.public = newClient(func(network, address string, c syscall.RawConn) error {
		if address == s.Listener.Addr().String() {
			return nil
		}
		return outbound.RefusePrivate(network, address, c)
	})
	t.Cleanup(f.Close)
	return f
}

func TestFetch(t *testing.T) {
	s := newStranger(t)
	o := FetchOptions{Gateways: []string{"http://127.0.0.1:1", s.URL}, Timeout: time.Minute, Limit: 64 << 10}
	patient := s.fetcher(t, o)
	o.Timeout = 300 * time.Millisecond
	impatient := s.fetcher(t, o)
	port := netip.MustParseAddrPort(s.private.Listener.Addr().String()).Port()
	to := func(target string) string { return s.URL + "/to?url=" + url.QueryEscape(target) }
	for uri, want := range map[string]string{
		s.URL + "/good":                           `{"name":"good"}`,
		s.URL + "/hop/3":                          `{"name":"far"}`,
		s.URL + "/hop/4":                          "UNREACHABLE_TOKEN_URI",
		s.URL + "/endless":                        "METADATA_CONTENT_TOO_LARGE",
		s.URL + "/announced":                      "METADATA_CONTENT_TOO_LARGE",
		s.URL + "/drip":                           "UNREACHABLE_TOKEN_URI",
		s.URL + "/silent":                         "UNREACHABLE_TOKEN_URI",
		s.URL + "/headers":                        "UNREACHABLE_TOKEN_URI",
		s.URL + "/cut":                            "UNREACHABLE_TOKEN_URI",
		s.URL + "/gone":                           "UNREACHABLE_TOKEN_URI",
		s.URL + "/busy":                           "THROTTLED_TOKEN_URI",
		to(s.URL + "/good"):                       `{"name":"good"}`,
		to(s.private.URL):                         "UNREACHABLE_TOKEN_URI",
		to("file:///etc/passwd"):                  "INVALID_TOKEN_URI",
		to("http://[::1]:1/"):                     "UNREACHABLE_TOKEN_URI",
		to("http://169.254.169.254/latest"):       "UNREACHABLE_TOKEN_URI",
		s.private.URL:                             "UNREACHABLE_TOKEN_URI",
		fmt.Sprintf("http://localhost:%d/", port): "UNREACHABLE_TOKEN_URI",
		fmt.Sprintf("http://[::ffff:127.0.0.1]:%d/", port): "UNREACHABLE_TOKEN_URI",
		fmt.Sprintf("http://2130706433:%d/", port):         "UNREACHABLE_TOKEN_URI",
		"ipfs://Qm1/7.json":                                `{"name":"seven"}`,
		"ipfs://ipfs/Qm1/7.json":                           `{"name":"seven"}`,
		"ipfs://Qm1/100%25.json":                           `{"name":"all"}`,
		"ipfs://Qm1/%252e%252e/good":                       `{"name":"/ipfs/Qm1/%2e%2e/good"}`,
		"ipfs://Qm1/a%5c..%5cgood":                         "INVALID_TOKEN_URI",
		"ipfs://Qm1/away":                                  "UNREACHABLE_TOKEN_URI",
		"ipfs://Qm1/../../good":                            "INVALID_TOKEN_URI",
		"ipfs://Qm1/%2e%2e/%2e%2e/good":                    "INVALID_TOKEN_URI",
		"ipfs://":                                          "INVALID_TOKEN_URI",
		"":                                                 "INVALID_TOKEN_URI",
		"7.json":                                           "INVALID_TOKEN_URI",
		"http://":                                          "INVALID_TOKEN_URI",
		"http://%zz":                                       "INVALID_TOKEN_URI",
		"ftp://example.org/7":                              "INVALID_TOKEN_URI_SCHEME",
		"file:///etc/passwd":                               "INVALID_TOKEN_URI_SCHEME",
		`data:application/json,{"name":"50%"}`:             `{"name":"50%"}`,
		`data:application/json;utf8,%7B%22name%22%3A%22a+b%22%7D`:                                   `{"name":"a+b"}`,
		"data:application/json;base64," + base64.StdEncoding.EncodeToString([]byte(`{"name":"c"}`)): `{"name":"c"}`,
		"data:;base64," + base64.RawURLEncoding.EncodeToString([]byte(`{"name":"???>>>"}`)):         `{"name":"???>>>"}`,
		"data:;base64,!!!":                       "INVALID_TOKEN_URI",
		"data:nothing":                           "INVALID_TOKEN_URI",
		"data:," + strings.Repeat("x", 64<<10+1): "METADATA_CONTENT_TOO_LARGE",
		"data:," + strings.Repeat("x", 10<<20):   "METADATA_CONTENT_TOO_LARGE",
	} {
		t.Run(fmt.Sprintf("%.60s", uri), func(t *testing.T) {
			t.Parallel()
			f := patient
			if uri == s.URL+"/drip" || uri == s.URL+"/silent" {
				f = impatient
			}
			got, err := f.fetch(t.Context(), uri)
			if err != nil {
				got = []byte(statusOf(err))
			}
			require.Equal(t, want, string(got), "%v", err)
		})
	}
	t.Cleanup(func() { require.Zero(t, s.reached.Load(), "requests that reached a private address") })
}

func TestFetchFromPrivate(t *testing.T) {
	s := newStranger(t)
	f, err := NewFetcher(FetchOptions{AllowPrivate: true})
	require.NoError(t, err)
	defer f.Close()
	got, err := f.fetch(t.Context(), s.URL+"/good")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"good"}`, string(got))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.fetch(ctx, s.URL+"/good")
	require.ErrorIs(t, err, context.Canceled)

	_, err = NewFetcher(FetchOptions{Gateways: []string{"ipfs.example"}})
	require.Error(t, err)
}

// roundTripper is the transport of a client without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return f(r)
}

// hang returns once the request ends.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func respond(code int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestGatewaysShareTheTime has gateways that do not answer before one that does.
func TestGatewaysShareTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := NewFetcher(FetchOptions{Gateways: []string{"http://one.example", "http://two.example", "http://three.example"}, Timeout: 9 * time.Second})
		require.NoError(t, err)
		f.gateway = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host != "three.example":
				return hang(r)
			case r.URL.Path != "/ipfs/Qm1/slow":
				return respond(http.StatusOK, `{}`)
			}
			return hang(r)
		})}
		began := time.Now()
		got, err := f.fetch(t.Context(), "ipfs://Qm1/1")
		require.NoError(t, err)
		require.JSONEq(t, `{}`, string(got))
		require.Equal(t, 6*time.Second, time.Since(began))

		began = time.Now()
		_, err = f.fetch(t.Context(), "ipfs://Qm1/slow")
		require.Equal(t, Unreachable, statusOf(err))
		require.Equal(t, 9*time.Second, time.Since(began))
	})
}

// TestGatewayWithPassword sends the password to the gateway only, and shows it to no reader of the log.
func TestGatewayWithPassword(t *testing.T) {
	var others []http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		others = append(others, r.Header.Clone())
		fmt.Fprint(w, `{}`)
	}))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/planted-path/ipfs/", func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case user != "planted-user" || password != "planted-password" || r.URL.RawQuery != "planted-query":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/good"):
			fmt.Fprint(w, `{"name":"good"}`)
		case strings.HasSuffix(r.URL.Path, "/moved"):
			http.Redirect(w, r, "good?planted-query", http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/away"):
			http.Redirect(w, r, other.URL, http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/out"):
			http.Redirect(w, r, "/out", http.StatusFound)
		default:
			panic(http.ErrAbortHandler)
		}
	})
	mux.HandleFunc("/out", func(w http.ResponseWriter, r *http.Request) {
		others = append(others, r.Header.Clone())
		fmt.Fprint(w, `{}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	at, err := url.Parse(server.URL + "/planted-path?planted-query")
	require.NoError(t, err)
	at.User = url.UserPassword("planted-user", "planted-password")
	f, err := NewFetcher(FetchOptions{Gateways: []string{at.String()}, AllowPrivate: true, Timeout: time.Minute})
	require.NoError(t, err)
	defer f.Close()
	for _, name := range []string{"good", "moved"} {
		got, err := f.fetch(t.Context(), "ipfs://Qm1/"+name)
		require.NoError(t, err, name)
		require.JSONEq(t, `{"name":"good"}`, string(got))
	}
	for _, name := range []string{"away", "out"} {
		_, err := f.fetch(t.Context(), "ipfs://Qm1/"+name)
		require.NoError(t, err, name)
	}
	_, err = f.fetch(t.Context(), server.URL+"/planted-path/ipfs/Qm1/good?planted-query")
	require.ErrorContains(t, err, "status 401", "a contract names the gateway's URL")
	require.Len(t, others, 2)
	for _, header := range others {
		require.Empty(t, header.Get("Authorization"))
	}

	_, err = f.fetch(t.Context(), "ipfs://Qm1/reset")
	require.Equal(t, Unreachable, statusOf(err))
	require.ErrorContains(t, err, server.Listener.Addr().String())
	require.NotContains(t, err.Error(), "planted")
}

func TestParse(t *testing.T) {
	decimals := uint64(6)
	for name, c := range map[string]struct {
		json   string
		want   Document
		status Status
	}{
		"all of it": {
			`{"name":"a","symbol":"b","image":"c","description":"d","animation_url":"e","external_url":"f","background_color":"g","attributes":[ {"trait_type":"x"} ],"decimals":6,"properties":{"p": 1}}`,
			Document{Name: "a", Symbol: "b", Image: "c", Description: "d", AnimationURL: "e", ExternalURL: "f", BackgroundColor: "g", Attributes: `[{"trait_type":"x"}]`, Properties: `{"p":1}`, Decimals: &decimals}, "",
		},
		"wrong types":   {`{"name":1,"symbol":null,"image":{},"attributes":"[]","decimals":"6","properties":[]}`, Document{}, ""},
		"null":          {`null`, Document{}, Invalid},
		"a list":        {`[1]`, Document{}, Invalid},
		"a page":        {`<html>`, Document{}, InvalidJSON},
		"nothing":       {``, Document{}, InvalidJSON},
		"cut short":     {`{"name":"a"`, Document{}, InvalidJSON},
		"a mark before": {"\xef\xbb\xbf" + `{"name":"a"}`, Document{Name: "a"}, ""},
		"other image":   {`{"image_url":"c"}`, Document{Image: "c"}, ""},
		"long members":  {`{"name":"` + strings.Repeat("n", maxName+1) + `","symbol":"s","attributes":["` + strings.Repeat("n", maxJSON) + `"]}`, Document{Symbol: "s"}, ""},
		"large image":   {`{"name":"n","image":"data:` + strings.Repeat("A", maxLink) + `"}`, Document{Name: "n"}, ""},
		"huge decimals": {`{"decimals":1e9}`, Document{}, ""},
		"null decimals": {`{"decimals":null}`, Document{}, ""},
		"no good UTF-8": {"{\"name\":\"a\xff\"}", Document{Name: "a\ufffd"}, ""},
		"deeply nested": {`{"properties":` + strings.Repeat(`{"a":`, 20_000) + `1` + strings.Repeat(`}`, 20_000) + `}`, Document{}, InvalidJSON},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse([]byte(c.json))
			if c.status != "" {
				require.Equal(t, c.status, statusOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestForToken(t *testing.T) {
	require.Equal(t, "https://x/00000000000000000000000000000000000000000000000000000000000abcde.json", forToken("https://x/{id}.json", uint256.NewInt(0xabcde)))
	require.Equal(t, "https://x/{ID}", forToken("https://x/{ID}", uint256.NewInt(1)))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"name":"a","attributes":[1],"decimals":6}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parse(b)
		if err != nil {
			require.Contains(t, []Status{Invalid, InvalidJSON}, statusOf(err))
			return
		}
		want := kept{Metadata: Metadata{Status: Indexed, Updated: time.Unix(1, 0).UTC(), Document: d}, failures: 3}
		got, err := decode(encode(&want))
		require.NoError(t, err)
		require.Equal(t, want, got)
		_, _ = decode(b)
	})
}
