package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/store"
)

// getJSON reads an answer, and returns its status.
func getJSON(t *testing.T, url string, to any) int {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if response.StatusCode == http.StatusOK {
		require.NoError(t, json.Unmarshal(body, to), "%s: %s", url, body)
	}
	return response.StatusCode
}

// all reads the items of all pages of a list.
func all[T any](t *testing.T, url, member string) (items []T) {
	t.Helper()
	for token := ""; ; {
		page := url
		if token != "" {
			page += map[bool]string{true: "&", false: "?"}[strings.Contains(url, "?")] + "pageToken=" + token
		}
		var answer map[string]json.RawMessage
		require.Equal(t, http.StatusOK, getJSON(t, page, &answer), page)
		var some []T
		require.NoError(t, json.Unmarshal(answer[member], &some))
		items = append(items, some...)
		if answer["nextPageToken"] == nil {
			return items
		}
		require.NoError(t, json.Unmarshal(answer["nextPageToken"], &token))
	}
}

// evmService runs serve with the EVM chains of a network.
func evmService(t *testing.T, dir string, n *simnet.Network, flags ...string) *instance {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("networks:\n  fuji:\n    nodes: [%s]\n    ahead_rounds: 0\n    evm:\n", n.NodeURL())
	for _, c := range n.EVM() {
		text += fmt.Sprintf("      - rpc: %s/ext/bc/%s/rpc\n", n.NodeURL(), c.Generator().BlockchainID())
	}
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return startService(t, dir, map[string]*simnet.Network{"fuji": n}, append([]string{"--config", file}, flags...)...)
}

// awaitStatus waits until a line of index status has one of several texts.
func awaitStatus(t *testing.T, s *instance, texts ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, out, _ := quorate(t, "", "index", "status", "--server", s.private)
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(out, text) }) {
			assert.Fail(c, "other status", "%s: %s", texts, out)
		}
	}, 5*time.Minute, 50*time.Millisecond, "%s", s.log)
}

// TestEVMChainIsServed requests everything that is indexed of a chain, whose node
// misbehaves meanwhile, and compares it with the generator of the chain.
func TestEVMChainIsServed(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 21, Validators: 3, EVM: []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: 600, Record: true}}}})
	require.NoError(t, err)
	defer n.Close()
	made := n.EVM()[0]
	truth := made.Generator().Truth()
	tip := made.Tip()
	made.SetFaults(evmchain.Faults{Every: 3, Reset: true, HalfBatch: true})
	dir := t.TempDir()
	s := evmService(t, dir, n)
	awaitStatus(t, s, "fuji evm-99001: retrying", "fuji evm-99001: stalled")
	made.SetFaults(evmchain.Faults{Every: 4, Truncated: true, Behind: 3})
	awaitStatus(t, s, "fuji evm-99001: ")
	made.SetFaults(evmchain.Faults{})
	done := fmt.Sprintf("fuji evm-99001: following, %d blocks indexed, 0 to go", tip+1)
	awaitStatus(t, s, done)

	base := s.base + "/v1/chains/99001"
	require.NotEqual(t, http.StatusOK, getJSON(t, s.base+"/v1/chains/1/transactions", nil))
	compareEVM(t, base, truth, tip)
	var byID any
	require.Equal(t, http.StatusOK, getJSON(t, s.base+"/v1/chains/"+made.Generator().BlockchainID().String()+"/transactions", &byID))

	// What is indexed stays, and is not fetched again.
	s.stop(t)
	made.SetFaults(evmchain.Faults{Behind: tip - 1})
	s = evmService(t, dir, n)
	awaitStatus(t, s, fmt.Sprintf("%d blocks indexed", tip+1))
	made.SetFaults(evmchain.Faults{})
	awaitStatus(t, s, done)
	compareEVM(t, s.base+"/v1/chains/99001", truth, tip)
	s.stop(t)
}

func compareEVM(t *testing.T, base string, truth *evmchain.Truth, tip uint64) {
	t.Helper()
	var hashes []string
	for _, b := range truth.Blocks() {
		for i := range b.Transactions {
			hashes = append(hashes, b.Transactions[i].Hash.Hex())
		}
	}
	slices.Reverse(hashes)
	type item struct{ TxHash string }
	var got []string
	for _, tx := range all[item](t, base+"/transactions?pageSize=100", "transactions") {
		got = append(got, tx.TxHash)
	}
	require.Equal(t, hashes, got)

	accounts := truth.Accounts()
	slices.SortFunc(accounts, common.Address.Cmp)
	rng := rand.New(rand.NewPCG(1, 2))
	var internals, balances int
	for range 40 {
		wallet := accounts[rng.IntN(len(accounts))]
		internals += compareWallet(t, base, truth, wallet)
		balances += compareBalances(t, base, truth, wallet, tip)
	}
	require.Positive(t, internals)
	require.Positive(t, balances)

	collections := 0
	for _, c := range truth.Contracts() {
		url := base + "/nfts/collections/" + c.Address.Hex() + "/tokens?pageSize=100"
		if c.Standard != chain.ERC721 && c.Standard != chain.ERC1155 {
			require.Equal(t, http.StatusNotFound, getJSON(t, url, nil), "%+v", c)
			continue
		}
		collections++
		type token struct{ TokenID, OwnerAddress, ErcType string }
		var want, got []token
		for _, k := range truth.Tokens(c.Address, tip) {
			w := token{TokenID: k.TokenID.Dec(), ErcType: "ERC-1155"}
			if k.Owner != nil {
				w.OwnerAddress, w.ErcType = k.Owner.Hex(), "ERC-721"
			}
			want = append(want, w)
		}
		got = all[token](t, url, "tokens")
		require.Equal(t, want, got, "%+v", c)
	}
	require.Positive(t, collections)

	for _, d := range truth.Deployments()[:20] {
		if d.Gone {
			continue
		}
		var answer struct{ NativeTransaction item }
		require.Equal(t, http.StatusOK, getJSON(t, base+"/contracts/"+d.Contract.Hex()+"/transactions:getDeployment", &answer))
		require.Equal(t, d.TxHash.Hex(), answer.NativeTransaction.TxHash)
		type contract struct{ Address string }
		require.Contains(t, all[contract](t, base+"/contracts/"+d.Deployer.Hex()+"/deployments?pageSize=100", "contracts"), contract{d.Contract.Hex()})
	}

	type point struct{ Timestamp int64 }
	points := all[point](t, strings.Replace(base, "chains", "avg_tps", 1), "results")
	days := truth.Days()
	require.GreaterOrEqual(t, len(points), len(days))
	require.Equal(t, days[0].Start, points[len(points)-1].Timestamp)
}

func compareWallet(t *testing.T, base string, truth *evmchain.Truth, wallet common.Address) int {
	type call struct{ TxHash, Value string }
	var want []call
	for _, f := range truth.Internals(wallet) {
		want = append(want, call{f.TxHash.Hex(), f.Value.Dec()})
	}
	got := all[call](t, base+"/addresses/"+wallet.Hex()+"/transactions:listInternals?pageSize=100", "transactions")
	require.ElementsMatch(t, want, got, "%s", wallet)

	want = nil
	for _, f := range truth.Transfers() {
		if f.Standard == chain.ERC1155 && (f.From == wallet || f.To == wallet) {
			want = append(want, call{f.TxHash.Hex(), f.Amount.Dec()})
		}
	}
	got = all[call](t, base+"/addresses/"+wallet.Hex()+"/transactions:listErc1155?pageSize=100", "transactions")
	require.ElementsMatch(t, want, got, "%s", wallet)
	return len(truth.Internals(wallet))
}

func compareBalances(t *testing.T, base string, truth *evmchain.Truth, wallet common.Address, tip uint64) int {
	type balance struct{ Address, TokenID, Balance string }
	n := 0
	for _, block := range []uint64{tip / 2, tip} {
		var want []balance
		for _, b := range truth.Balances(wallet, block) {
			want = append(want, balance{b.Contract.Hex(), b.TokenID.Dec(), b.Amount.Dec()})
		}
		url := fmt.Sprintf("%s/addresses/%s/balances:listErc1155?pageSize=100&blockNumber=%d", base, wallet.Hex(), block)
		require.Equal(t, want, all[balance](t, url, "erc1155TokenBalances"))
		var answer struct{ NativeTokenBalance struct{ Balance string } }
		require.Equal(t, http.StatusOK, getJSON(t, url, &answer))
		native := truth.Native(wallet, block)
		require.Equal(t, native.Dec(), answer.NativeTokenBalance.Balance)
		n += len(want)
	}
	return n
}

// TestEVMChainThatStalls answers from what is indexed while its node is away, and says
// that it does.
func TestEVMChainThatStalls(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 23, Validators: 3, EVM: []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: 100}}}})
	require.NoError(t, err)
	defer n.Close()
	made := n.EVM()[0]
	s := evmService(t, t.TempDir(), n)
	defer s.stop(t)
	// An index follows a chain as short as this one before it has all blocks.
	awaitStatus(t, s, fmt.Sprintf("fuji evm-99001: following, %d blocks indexed, 0 to go", made.Tip()+1))
	made.SetFaults(evmchain.Faults{Every: 1, Reset: true})
	awaitStatus(t, s, fmt.Sprintf("fuji evm-99001: stalled, %d blocks indexed, 0 to go, failing for ", made.Tip()+1))
	response, err := http.Get(s.base + "/v1/avg_tps/99001")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, []string{fmt.Sprint(made.Tip()), "0", "stalled"},
		[]string{response.Header.Get("Indexed-Height"), response.Header.Get("Indexed-Lag"), response.Header.Get("Indexed-State")})
	var ready struct {
		Networks map[string]struct{ Stalled map[string]string }
	}
	require.Equal(t, http.StatusOK, getJSON(t, s.private+"/readyz", &ready))
	require.Contains(t, ready.Networks["fuji"].Stalled["evm-99001"], "asking for the height")
	metrics, err := http.Get(s.private + "/metrics")
	require.NoError(t, err)
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	require.NoError(t, err)
	require.Regexp(t, `quorate_index_state\{.*chain="evm-99001".*state="stalled"\} 1`, string(text))
	made.SetFaults(evmchain.Faults{})
	awaitStatus(t, s, "fuji evm-99001: following")
}

// TestEVMChainThatStops continues an index with blocks that do not follow the indexed ones, alone and with another
// process on the same store. All processes show that the index has stopped, and why, until it is rebuilt.
func TestEVMChainThatStops(t *testing.T) { aloneAndShared(t, testEVMStop) }

func testEVMStop(t *testing.T, dir string, open func() (store.Store, error), flags ...string) {
	n, err := simnet.Start(simnet.Options{Seed: 27, Validators: 3, EVM: []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: 50}}}})
	require.NoError(t, err)
	defer n.Close()
	made := n.EVM()[0]
	following := func() string {
		return fmt.Sprintf("fuji evm-99001: following, %d blocks indexed, 0 to go", made.Tip()+1)
	}
	start := func(dir string, flags ...string) *instance { return evmService(t, dir, n, flags...) }
	s := start(dir, flags...)
	awaitStatus(t, s, following())
	s.stop(t)

	forkIndex(t, open, made.Generator().BlockchainID().String())
	require.NoError(t, made.Grow(t.Context(), 5))

	instances := withReplica(t, dir, start, flags...)
	for _, s := range instances {
		defer s.stop(t)
		awaitStatus(t, s, "if the network was reset, choose another data directory")
		code, out, errOut := quorate(t, "", "index", "status", "--server", s.private)
		require.Equal(t, exitNegative, code, out)
		require.Contains(t, errOut, "the index of fuji evm-99001 has stopped: ")
		response, err := http.Get(s.base + "/v1/chains/99001/transactions")
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		if len(flags) == 0 {
			require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
			require.Contains(t, string(body), "INDEX_STOPPED")
		} else { // which knows the height of the chain
			require.Equal(t, http.StatusOK, response.StatusCode, "%s", body)
			require.Equal(t, "stopped", response.Header.Get("Indexed-State"))
		}
	}
	code, _, errOut := quorate(t, "", "index", "rebuild", "evm", "--server", instances[0].private)
	require.Zero(t, code, errOut)
	for _, s := range instances {
		awaitStatus(t, s, following())
	}
	require.NoError(t, made.Grow(t.Context(), 5))
	for _, s := range instances {
		awaitStatus(t, s, following())
	}
}

// TestEVMChainsOfOneID: two blockchains cannot have one chain ID. The log names both, and
// readiness waits for neither.
func TestEVMChainsOfOneID(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 24, Validators: 3, EVM: []simnet.EVM{
		{Options: evmchain.Options{L1: true, Txs: 50, Seed: 1, ChainID: 7001}}, {Options: evmchain.Options{L1: true, Txs: 50, Seed: 2, ChainID: 7001}},
	}})
	require.NoError(t, err)
	defer n.Close()
	s := evmService(t, t.TempDir(), n)
	defer s.stop(t)
	awaitStatus(t, s, "evm-7001: following")
	awaitStatus(t, s, "two chains of one network have the same EVM chain ID, 7001: ")
	_, out, _ := quorate(t, "", "index", "status", "--server", s.private)
	for _, c := range n.EVM() {
		require.Contains(t, out, c.Generator().BlockchainID().String())
	}
	s.awaitReadiness(t, `"stopped":{"evm`)
	var some any
	require.Equal(t, http.StatusOK, getJSON(t, s.base+"/v1/chains/7001/transactions", &some))
}

// TestEVMChainThatIsAway checks that the status says so, and that all else works.
func TestEVMChainThatIsAway(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 22, Validators: 3})
	require.NoError(t, err)
	defer n.Close()
	away := httptest.NewServer(http.NotFoundHandler())
	defer away.Close()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "networks:\n  fuji:\n    evm:\n      - rpc: %s/ext/bc/none/rpc?token=secret\n", away.URL), 0o600))
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n}, "--config", file)
	defer s.stop(t)
	awaitStatus(t, s, "fuji evm "+strings.TrimPrefix(away.URL, "http://")+": retrying")
	_, out, _ := quorate(t, "", "index", "status", "--server", s.private)
	require.NotContains(t, out, "secret")
	require.Equal(t, http.StatusServiceUnavailable, getJSON(t, s.base+"/v1/chains/99001/transactions", nil))
	s.sign(t, "fuji", n, "signed all the same")
}

// TestL1NodeAPIIsForwarded reaches a configured L1's Ethereum API and proposervm below the
// network's name, as on a node of that L1.
func TestL1NodeAPIIsForwarded(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 25, Validators: 3, EVM: []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: 10, ChainID: 7002}}}})
	require.NoError(t, err)
	defer n.Close()
	s := evmService(t, t.TempDir(), n)
	defer s.stop(t)
	for _, base := range []string{s.base + "/fuji", s.private + "/fuji"} {
		l1 := base + "/ext/bc/" + n.EVM()[0].Generator().BlockchainID().String()
		require.Eventually(t, func() bool { return callRPC(t, l1+"/rpc", "eth_chainId", "[]").status == http.StatusOK }, time.Minute, 20*time.Millisecond)
		require.JSONEq(t, `"0x1b5a"`, string(callRPC(t, l1+"/rpc", "eth_chainId", "[]").Result))
		epoch := callRPC(t, l1+"/proposervm", "proposervm.getCurrentEpoch", "{}")
		require.Equal(t, http.StatusOK, epoch.status, epoch.body)
		require.Contains(t, string(epoch.Result), "pChainHeight")
	}
	require.Equal(t, http.StatusNotFound, callRPC(t, s.base+"/fuji/ext/bc/"+ids.GenerateTestID().String()+"/rpc", "eth_chainId", "[]").status)
}
