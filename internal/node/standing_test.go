package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// executedChain answers the height for PeersEndpoint, and may not be ready.
type executedChain struct {
	height int
	behind atomic.Bool
}

func (e *executedChain) Offers(path, method string) (offers, now bool) {
	offers = path == platformPath && method != "platform.issueTx"
	return offers, offers && !e.behind.Load()
}

func (e *executedChain) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusOK, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"height":"%d"}}`, e.height)
	if e.behind.Load() {
		status, body = http.StatusServiceUnavailable, "behind"
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// heightNode answers every call with a height, and counts calls.
func heightNode(t *testing.T, height int) (url string, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"height":"%d"}}`, height)
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

func TestPeersDecideWhereverTheyStand(t *testing.T) {
	for name, order := range map[string]func(url string) []string{
		"first": func(url string) []string { return []string{PeersEndpoint, url} },
		"last":  func(url string) []string { return []string{url, PeersEndpoint} },
	} {
		t.Run(name, func(t *testing.T) {
			url, calls := heightNode(t, 666)
			executed := &executedChain{height: 7}
			c, err := New(Options{Endpoints: order(url), Peers: executed})
			require.NoError(t, err)
			defer c.Close()
			for range 3 {
				h, err := c.Height(t.Context())
				require.NoError(t, err)
				require.Equal(t, uint64(7), h)
			}
			require.Zero(t, calls.Load())
			require.Zero(t, c.Source())

			// The node answers for other chains, and has no influence on who is asked for the P-Chain.
			h, err := c.XChainHeight(t.Context())
			require.NoError(t, err)
			require.Equal(t, uint64(666), h)
			f, err := c.Forward(t.Context(), platformPath, []byte(`{"jsonrpc":"2.0","id":1,"method":"platform.issueTx"}`), false)
			require.NoError(t, err)
			require.Contains(t, string(f.Body), "666")
			f, err = c.Forward(t.Context(), platformPath, []byte(`{"jsonrpc":"2.0","id":1,"method":"platform.getHeight"}`), true)
			require.NoError(t, err)
			require.Contains(t, string(f.Body), `"7"`)
			h, err = c.Height(t.Context())
			require.NoError(t, err)
			require.Equal(t, uint64(7), h)

			// It answers while the chain is not executed. Once that is, what it said is to be forgotten.
			executed.behind.Store(true)
			h, err = c.Height(t.Context())
			require.NoError(t, err)
			require.Equal(t, uint64(666), h)
			require.Zero(t, c.Source())
			executed.behind.Store(false)
			require.Equal(t, uint64(1), c.Source())
			require.Equal(t, uint64(1), c.Source())
			h, err = c.Height(t.Context())
			require.NoError(t, err)
			require.Equal(t, uint64(7), h)
		})
	}
}

func TestLiarIsNotAsked(t *testing.T) {
	liar, lies := heightNode(t, 666)
	honest, calls := heightNode(t, 7)
	executed := &executedChain{height: 7}
	c, err := New(Options{Endpoints: []string{liar + "?token=secret", honest, PeersEndpoint}, Peers: executed})
	require.NoError(t, err)
	defer c.Close()
	each := c.Each()
	require.Len(t, each, 2)
	require.Equal(t, liar, each[0].Name())

	ask := func(ctx context.Context) error {
		_, err := c.XChainHeight(ctx)
		return err
	}
	require.NoError(t, ask(t.Context()))
	require.Equal(t, int64(1), lies.Load())
	each[0].Judge(Lies, "its block at height 5 is another")
	for range 3 {
		require.NoError(t, ask(t.Context()))
	}
	require.Equal(t, int64(1), lies.Load(), "a liar was asked")
	require.Equal(t, int64(3), calls.Load())

	// Without another node, the reason is the error. The P-Chain is not affected.
	each[1].Judge(Lies, "so is this one's")
	err = ask(t.Context())
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "its block at height 5 is another")
	require.ErrorContains(t, err, "so is this one's")
	require.NotContains(t, err.Error(), "secret")
	_, err = c.Forward(t.Context(), CChainRPC, []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`), true)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "its block at height 5 is another")
	_, err = c.Connect(t.Context(), "/ext/bc/C/ws")
	require.ErrorContains(t, err, "its block at height 5 is another")
	_, err = c.Height(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), lies.Load())

	// Nor is it asked for the P-Chain while that is not executed. It is asked in order to judge it.
	executed.behind.Store(true)
	short, cancel := context.WithTimeout(t.Context(), firstRetry)
	defer cancel()
	_, err = c.Height(short)
	require.ErrorIs(t, err, ErrUnavailable)
	require.Equal(t, int64(1), lies.Load())
	h, err := each[0].Height(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(666), h)

	each[0].Judge(Agrees, "")
	require.NoError(t, ask(t.Context()))
	require.Equal(t, int64(3), lies.Load())
}

func TestLaggingNodeIsAskedLast(t *testing.T) {
	lagging, late := heightNode(t, 3)
	current, _ := heightNode(t, 7)
	c, err := New(Options{Endpoints: []string{lagging, PeersEndpoint, current}, Peers: &executedChain{height: 7}})
	require.NoError(t, err)
	defer c.Close()
	c.Each()[0].Judge(Lags, "it is at height 3")
	h, err := c.XChainHeight(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(7), h)
	require.Zero(t, late.Load())
	c.Each()[1].Judge(Lies, "another block")
	h, err = c.XChainHeight(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(3), h, "a node that lags is better than none")
}
