package network

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/node"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// The node is replaced by one of another network while the identity is checked. No block of the other network is stored,
// so that the next check finds it.
func TestNodeIsReplacedDuringACheck(t *testing.T) {
	var proxies [2]*httputil.ReverseProxy
	var networkID uint32
	for i := range proxies {
		n, err := simnet.Start(simnet.Options{Seed: uint64(80 + i), Validators: 2, History: &simnet.History{Options: history.Options{Txs: 60 + 40*i}, Dir: t.TempDir()}})
		require.NoError(t, err)
		defer n.Close()
		to, err := url.Parse(n.NodeURL())
		require.NoError(t, err)
		proxies[i], networkID = httputil.NewSingleHostReverseProxy(to), n.NetworkID()
	}
	for _, replaceAt := range []string{"info.getNetworkID", "platform.getHeight", "platform.getBlockByHeight"} {
		var current atomic.Int32
		var replace atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxies[current.Load()].ServeHTTP(w, r)
			if replace.Load() && bytes.Contains(body, []byte(replaceAt)) {
				current.Store(1)
			}
		}))
		defer server.Close()
		client, err := node.New(node.Options{Endpoints: []string{server.URL}})
		require.NoError(t, err)
		defer client.Close()
		i := &identity{name: "fuji", id: networkID, store: store.NewMemory(), node: client, place: "here"}
		require.NoError(t, i.check(t.Context()))
		replace.Store(true)
		err = i.check(t.Context())
		if err == nil {
			err = i.check(t.Context())
		}
		var other *otherNetworkError
		require.ErrorAs(t, err, &other, replaceAt)
	}
}
