package nodeapi

import (
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/info"
	"quorate/internal/node"
	"quorate/internal/service/network"
)

// An L1 whose API is forwarded is a chain of this node: clients find it by its ID, and operators can name it.
func TestL1IsKnownByItsID(t *testing.T) {
	l1 := ids.ID{7}
	client, err := node.New(node.Options{Endpoints: []string{"http://127.0.0.1:1/ext/bc/" + l1.String() + "/rpc"}})
	require.NoError(t, err)
	defer client.Close()
	start := func(file string) (*API, *names) {
		a := &API{
			network: &network.Network{}, xChainID: ids.ID{1}, cChainID: ids.ID{2},
			aliases: ids.NewAliaser(), Public: rpc.New(rpc.Options{}), Operator: rpc.New(rpc.Options{}), log: slog.New(slog.DiscardHandler),
		}
		n := loadNames(a, file) // before the L1 is known
		require.NoError(t, a.addL1(l1, network.L1API{Ethereum: client}))
		return a, n
	}
	ask := func(a *API, method, params string) string {
		public, _ := info.New(info.Options{Aliases: a.aliases, Bootstrapped: a.bootstrapped})
		h, err := a.handler("", rpc.Endpoint{Services: []rpc.Service{{Names: []string{"info"}, Methods: public}}})
		require.NoError(t, err)
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Body.String()
	}
	file := filepath.Join(t.TempDir(), "aliases.json")
	a, n := start(file)
	require.Contains(t, ask(a, "info.isBootstrapped", `{"chain":"`+l1.String()+`"}`), `"isBootstrapped":true`)
	require.Contains(t, ask(a, "info.getBlockchainID", `{"alias":"`+l1.String()+`"}`), l1.String()+`"}`)
	require.NoError(t, n.AliasChain(l1.String(), "games"))
	require.Contains(t, ask(a, "info.getBlockchainID", `{"alias":"games"}`), l1.String())

	a, _ = start(file)
	require.Contains(t, ask(a, "info.isBootstrapped", `{"chain":"games"}`), `"isBootstrapped":true`)
	require.Contains(t, ask(a, "info.isBootstrapped", `{"chain":"`+l1.String()+`"}`), `"isBootstrapped":true`)
	require.Contains(t, ask(a, "info.isBootstrapped", `{"chain":"`+ids.ID{8}.String()+`"}`), "there is no chain with alias/ID")
}
