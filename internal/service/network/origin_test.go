package network

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/node"
	"quorate/internal/simnet"
)

// TestOriginOfAnOwnNetwork takes the times of upgrades from the node of a network that is not public.
func TestOriginOfAnOwnNetwork(t *testing.T) {
	const ownID = 54321
	n, err := simnet.Start(simnet.Options{Seed: 5, Validators: 2, NetworkID: ownID, History: &simnet.History{Dir: t.TempDir()}})
	require.NoError(t, err)
	defer n.Close()
	for _, test := range []struct {
		id     uint32
		answer string // instead of the node's
		want   *upgrade.Config
	}{
		{ownID, "", &upgrade.Default},
		{ownID, `"error":{"code":-32000,"message":"rpc: can't find method \"info.upgrades\""}`, nil},
		{constants.FujiID, `"result":{"cortinaTime":"2001-01-01T00:00:00Z"}`, nil},
	} {
		to, err := url.Parse(n.NodeURL())
		require.NoError(t, err)
		proxy := httputil.NewSingleHostReverseProxy(to)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if test.answer != "" && bytes.Contains(body, []byte("info.upgrades")) {
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0",%s,"id":1}`, test.answer)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(w, r)
		}))
		defer server.Close()
		client, err := node.New(node.Options{Endpoints: []string{server.URL}})
		require.NoError(t, err)
		defer client.Close()
		got := findOrigin(t.Context(), client, test.id, "own", genesisFile(t, test.id), slog.New(slog.DiscardHandler))
		require.NoError(t, got.missing)
		require.NotNil(t, got.genesis)
		require.Equal(t, test.want, got.upgrades, "network %d: %s", test.id, test.answer)
	}
}

// genesisFile returns the genesis of a public network as a file, an empty string for others.
func genesisFile(t *testing.T, networkID uint32) string {
	t.Helper()
	if networkID != constants.FujiID {
		return ""
	}
	config, err := genesis.GetConfig(networkID).Unparse()
	require.NoError(t, err)
	text, err := json.Marshal(config)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "genesis.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}
