package metadata

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that a token names gets a bounded request, and can return only a bounded document.
func TestAttackDocuments(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 64 {
		_, err := z.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	var asked []http.Header
	mux := http.NewServeMux()
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			w.Header().Set("Link", strings.Repeat("x", 1000))
			w.WriteHeader(http.StatusEarlyHints)
		}
	})
	mux.HandleFunc("/itself", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/itself", http.StatusFound) })
	mux.HandleFunc("/cookie", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Clone())
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		w.Header().Set("Location", "http://user:secret@"+r.Host+"/seen#fragment")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/seen", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Clone())
		fmt.Fprint(w, `{}`)
	})
	s := &stranger{Server: httptest.NewServer(mux)}
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	f := s.fetcher(t, FetchOptions{Timeout: 20 * time.Second, Limit: 64 << 10})
	for path, want := range map[string]Status{"/bomb": TooLarge, "/hints": Unreachable, "/itself": Unreachable} {
		_, err := f.fetch(t.Context(), s.URL+path)
		require.Equal(t, want, statusOf(err), "%s: %v", path, err)
	}
	got, err := f.fetch(t.Context(), s.URL+"/cookie")
	require.NoError(t, err)
	require.Equal(t, `{}`, string(got))
	require.Len(t, asked, 2)
	for _, header := range asked {
		for _, name := range []string{"Cookie", "Authorization", "Referer"} {
			require.Empty(t, header.Get(name))
		}
	}
}
