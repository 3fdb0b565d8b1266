package network

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/config"
	"quorate/internal/node"
	"quorate/validators"
)

// Only operators see a node's answers.
func TestReadyMarksItsCause(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Contains(body, []byte("Height\"")) {
			http.Error(w, "closed", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"height":"7"}}`)
	}))
	defer server.Close()
	client, err := node.New(node.Options{Endpoints: []string{server.URL}})
	require.NoError(t, err)
	defer client.Close()
	n := &Network{role: config.RoleSign, Resolver: validators.NewResolver(client, validators.Options{})}
	require.ErrorIs(t, n.Ready(), ErrNoHeight)
	_, err = n.Resolver.Set(t.Context(), constants.PrimaryNetworkID, 0)
	require.Error(t, err)
	err = n.Ready()
	var cause *CauseError
	require.ErrorAs(t, err, &cause)
	require.ErrorContains(t, err, "HTTP status 403 Forbidden: closed")
	require.Equal(t, "the validators at P-Chain height 7 are not known", cause.Public)
}
