package handlers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/internal/node"
)

// The calls to upstream nodes that a request causes are divided among client IP addresses. A client that has too many in
// progress gets 503 with Retry-After; another one is served.
func TestAttackCallsOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream, err := node.New(node.Options{Endpoints: []string{"http://127.0.0.1:1"}})
		require.NoError(t, err)
		var leaves []func()
		enter := func(ctx context.Context) error {
			_, leave, err := upstream.Enter(ctx, 1)
			if err != nil {
				return aggregator.NodeFailure(ctx, err)
			}
			leaves = append(leaves, leave)
			return nil
		}
		s := &fakeSigner{
			sign: func(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
				return signed(req), enter(ctx)
			},
			signTransaction: func(ctx context.Context, _ ids.ID) (*aggregator.Result, error) {
				return signed(aggregator.Request{Message: message(t, 5)}), enter(ctx)
			},
		}
		h := newPublic(t, s, nil)
		body := `{"message":"` + hexOf(message(t, 5).Bytes()) + `"}`
		ask := func(from, method, path string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		tx := fujiPath + "/" + ids.GenerateTestID().String()
		w := ask("192.0.2.1:1", http.MethodPost, fujiPath)
		for w.Code < 300 {
			w = ask("192.0.2.1:1", http.MethodPost, fujiPath)
		}
		require.Less(t, len(leaves), 50)
		require.Equal(t, "NODE_BUSY", requireAPIError(t, w, http.StatusServiceUnavailable, "try again in a moment")["code"])
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		w = ask("192.0.2.1:2", http.MethodGet, tx)
		requireAPIError(t, w, http.StatusServiceUnavailable)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		requirePeerError(t, ask("192.0.2.1:3", http.MethodPost, peerPath), http.StatusInternalServerError)

		require.Equal(t, http.StatusOK, ask("192.0.2.2:1", http.MethodPost, fujiPath).Code)
		require.Equal(t, http.StatusOK, ask("192.0.2.2:2", http.MethodGet, tx).Code)
		for _, leave := range leaves {
			leave()
		}
		require.Equal(t, http.StatusOK, ask("192.0.2.1:4", http.MethodPost, fujiPath).Code)
	})
}
