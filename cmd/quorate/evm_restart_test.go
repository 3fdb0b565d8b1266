package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
)

// The node of an EVM chain is away when the service restarts. The service serves what is indexed, and
// reports the chain as waiting. If the node that finally answers serves another chain, the service
// serves nothing of the stored one.
func TestEVMChainWithoutItsNodeAfterARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for retries")
	}
	start := func(chainID uint64) *simnet.Network { // the blockchain ID follows from the seed
		return startSimnet(t, simnet.Options{Seed: 22, Validators: 2, EVM: []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: 200, Record: true, ChainID: chainID}}}})
	}
	n, other := start(99001), start(99777)
	made := n.EVM()[0]
	proxy := startProvider(t, n.NodeURL())
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "networks:\n  fuji:\n    nodes: [%s]\n    ahead_rounds: 0\n    evm:\n      - rpc: %s/ext/bc/%s/rpc\n", n.NodeURL(), proxy.URL, made.Generator().BlockchainID()), 0o600))
	dir := t.TempDir()
	networks := map[string]*simnet.Network{"fuji": n}
	serve := func() *instance { return startService(t, dir, networks, "--config", file) }
	wallets := made.Generator().Truth().Accounts()[:20]
	answers := func(s *instance) (all []string) {
		paths := []string{"/transactions?pageSize=100"}
		for _, wallet := range wallets {
			paths = append(paths, "/addresses/"+wallet.Hex()+"/transactions:listInternals?pageSize=100")
		}
		for _, path := range paths {
			status, body := get(t, s.base+"/v1/chains/99001"+path)
			require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
			all = append(all, body)
		}
		return all
	}
	done := fmt.Sprintf("fuji evm-99001: following, %d blocks indexed, 0 to go", made.Tip()+1)

	s := serve()
	awaitStatus(t, s, done)
	before := answers(s)
	s.stop(t)

	away := func(_, _ string) (int, string) { return http.StatusServiceUnavailable, "maintenance" }
	proxy.refuses(away)
	s = serve()
	awaitStatus(t, s, "fuji evm-99001: stalled")
	require.Equal(t, before, answers(s))
	s.awaitReadiness(t, "maintenance")
	_, metrics := get(t, s.private+"/metrics") // the simulated network has no C-Chain, which waits as well
	require.Contains(t, metrics, `quorate_index_waiting_chains{network="fuji"} 2`)
	proxy.works()
	awaitStatus(t, s, done)
	require.Eventually(t, func() bool { // once the node has confirmed which chain it serves
		_, metrics = get(t, s.private+"/metrics")
		return strings.Contains(metrics, `quorate_index_waiting_chains{network="fuji"} 1`)
	}, time.Minute, 20*time.Millisecond)
	s.stop(t)

	proxy.refuses(away)
	s = serve()
	awaitStatus(t, s, "fuji evm-99001: ")
	proxy.leadsTo(t, other.NodeURL())
	proxy.works()
	awaitStatus(t, s, "serves another chain than before")
	require.NotEqual(t, http.StatusOK, getJSON(t, s.base+"/v1/chains/99001/transactions", nil))
	s.awaitReadiness(t, "serves another chain than before")
	s.stop(t)
}
