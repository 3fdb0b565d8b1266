package network

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
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
		i := newIdentity("fuji", networkID, store.NewMemory(), client, "here")
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

// executedBy stands for the executed P-Chain, with the blocks of a node.
type executedBy struct {
	url    string
	behind atomic.Bool
}

func (e *executedBy) Offers(path, method string) (offers, now bool) {
	switch path {
	case "/ext/info":
		return method == "info.getNetworkID", method == "info.getNetworkID"
	case "/ext/bc/P":
		return true, !e.behind.Load()
	}
	return false, false
}

func (e *executedBy) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.behind.Load() && r.URL.Path != "/ext/info" {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("behind")), Request: r}, nil
	}
	to, err := http.NewRequestWithContext(r.Context(), r.Method, e.url+r.URL.Path, r.Body)
	if err != nil {
		return nil, err
	}
	to.Header = r.Header
	return http.DefaultClient.Do(to)
}

// TestIdentityOfExecutedChain has a node of another network with the same ID among the nodes, beside the P-Chain that is
// executed. Its blocks are neither stored nor believed, also while the P-Chain is not executed to its tip.
func TestIdentityOfExecutedChain(t *testing.T) {
	var urls [2]string
	var networkID uint32
	for i := range urls {
		n, err := simnet.Start(simnet.Options{Seed: uint64(80 + i), Validators: 2, History: &simnet.History{Options: history.Options{Txs: 60}, Dir: t.TempDir()}})
		require.NoError(t, err)
		defer n.Close()
		urls[i], networkID = n.NodeURL(), n.NetworkID()
	}
	peers := &executedBy{url: urls[0]}
	client, err := node.New(node.Options{Endpoints: []string{urls[1], node.PeersEndpoint}, Peers: peers})
	require.NoError(t, err)
	defer client.Close()
	i := newIdentity("fuji", networkID, store.NewMemory(), client, "here")
	for _, behind := range []bool{true, false, true, false} {
		peers.behind.Store(behind)
		require.NoError(t, i.check(t.Context()))
	}
	stored, err := i.blocks(t.Context())
	require.NoError(t, err)
	right, err := node.New(node.Options{Endpoints: []string{urls[0]}})
	require.NoError(t, err)
	defer right.Close()
	other := newIdentity("fuji", networkID, store.NewMemory(), right, "here")
	require.NoError(t, other.check(t.Context()))
	want, err := other.blocks(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, want)
	require.Equal(t, want, stored)
}
