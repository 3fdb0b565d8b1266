package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"

	"quorate/e2e/localnet"
	"quorate/e2e/proxy"
)

// chainStatus is the state of a chain's index on the private address.
type chainStatus struct {
	State, Error, Note string
	Next               uint64
	Proof              *struct {
		From, To, Height, PChainHeight uint64
		Hash                           common.Hash
		SignedMessage                  hexutil.Bytes
		SigningSubnetID                ids.ID
	}
}

func (s *service) indexStatus(chain string) chainStatus {
	s.t.Helper()
	return s.indexStatuses()[chain]
}

// indexStatuses returns the state of each chain's index.
func (s *service) indexStatuses() map[string]chainStatus {
	s.t.Helper()
	status, content := s.askPrivate(s.t, "/index")
	require.Equal(s.t, http.StatusOK, status)
	var index struct {
		Networks map[string]map[string]chainStatus
	}
	require.NoError(s.t, json.Unmarshal(content, &index))
	return index.Networks["local"]
}

// heights returns what the headers of an answer say: up to which block the chain is indexed and proven.
func (s *service) heights(ctx context.Context, path string) (indexed, proven uint64) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"transactions?pageSize=1", nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	require.NoError(s.t, response.Body.Close())
	require.Empty(s.t, response.Header.Get("Proven-From"), "all indexed blocks are checked")
	indexed, _ = strconv.ParseUint(response.Header.Get("Indexed-Height"), 10, 64)
	proven, _ = strconv.ParseUint(response.Header.Get("Proven-Height"), 10, 64)
	return indexed, proven
}

// awaitProof waits until a chain is proven up to a height, and verifies the signed message.
func (s *service) awaitProof(ctx context.Context, path, chain string, height uint64) {
	s.t.Helper()
	start := time.Now()
	for {
		indexed, proven := s.heights(ctx, path)
		if proven >= height {
			break
		}
		require.Less(s.t, time.Since(start), 90*time.Second, "%s is indexed up to %d and proven up to %d, want %d: %+v", chain, indexed, proven, height, s.indexStatus(chain))
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Logf("%s is proven up to block %d after %s", chain, height, time.Since(start).Round(time.Millisecond))
	proof := s.indexStatus(chain).Proof
	require.NotNil(s.t, proof)
	signed, err := warp.ParseMessage(proof.SignedMessage)
	require.NoError(s.t, err)
	hash, err := payload.ParseHash(signed.Payload)
	require.NoError(s.t, err)
	require.Equal(s.t, proof.Hash, common.Hash(hash.Hash))
	require.LessOrEqual(s.t, proof.To, proof.Height)
	status, verdict := s.post(ctx, verifyPath, map[string]any{"signedMessage": proof.SignedMessage.String(), "pChainHeight": proof.PChainHeight})
	require.Equal(s.t, http.StatusOK, status)
	require.True(s.t, verdict.Valid, verdict.Reason)
	out, err := exec.CommandContext(ctx, s.program, "verify", "--node", s.node, "--height", fmt.Sprint(proof.PChainHeight), proof.SignedMessage.String()).CombinedOutput()
	require.NoError(s.t, err, "quorate verify: %s", out)
}

// lie is what a provider does to an answer, and what the service says of it.
type lie struct {
	name, method string
	change       func(call proxy.Call, result json.RawMessage) json.RawMessage
	says         string
}

// changed decodes a result, changes it and encodes it.
func changed[T any](result json.RawMessage, change func(T) T) json.RawMessage {
	var v T
	if json.Unmarshal(result, &v) != nil {
		return result
	}
	out, _ := json.Marshal(change(v))
	return out
}

// dropLog leaves out the last log of a block's first transaction that has any.
func dropLog(_ proxy.Call, result json.RawMessage) json.RawMessage {
	return changed(result, func(receipts []map[string]any) []map[string]any {
		for _, r := range receipts {
			if logs, ok := r["logs"].([]any); ok && len(logs) > 0 {
				r["logs"] = logs[:len(logs)-1]
				break
			}
		}
		return receipts
	})
}

// changeTransaction replaces a field of a block's first transaction.
func changeTransaction(field, value string) func(proxy.Call, json.RawMessage) json.RawMessage {
	return func(_ proxy.Call, result json.RawMessage) json.RawMessage {
		return changed(result, func(block map[string]any) map[string]any {
			if all, ok := block["transactions"].([]any); ok && len(all) > 0 {
				if tx, ok := all[0].(map[string]any); ok {
					tx[field] = value
				}
			}
			return block
		})
	}
}

// onC is a rule for the C-Chain alone.
func onC(l lie) proxy.Rule {
	return proxy.Rule{Method: l.method, When: func(c proxy.Call) bool { return strings.Contains(c.Path, "/bc/C/") }, Change: l.change}
}

// TestProven indexes the C-Chain and an L1 from a provider that lies at times. What is served is proven by signed block
// hashes, and nothing false is indexed.
func TestProven(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 6*time.Minute)
	defer cancel()
	start := time.Now()
	program := buildService(t)
	network := localnet.StartWith(t, localnet.Options{Stakers: 3, SubnetEVM: true})
	node := network.Node(0).URL
	_, l1ID, height := startL1(t, ctx, network, 0, 1)
	c, l := newCChain(t, ctx, node), newEVMChain(t, ctx, node, l1ID.String())
	awaitEpochOf(t, ctx, l, node, l1ID.String(), height)
	first := c.await(ctx, c.sendByContract(ctx, []byte("first")))
	t.Logf("network after %s", time.Since(start))

	provider := proxy.Start(t, node)
	config := filepath.Join(t.TempDir(), "quorate.yaml")
	require.NoError(t, os.WriteFile(config, []byte("networks:\n  local:\n    verify_evm_senders: true\n    evm:\n      - rpc: "+node+"/ext/bc/"+l1ID.String()+"/rpc\n"), 0o600))
	s := startService(t, program, provider.URL, "--config", config)
	const l1Path = "/v1/chains/99123/"
	s.awaitEVM(ctx, first.BlockNumber.Uint64())
	s.awaitProof(ctx, evmPath, "evm-43112", first.BlockNumber.Uint64())
	tip, err := l.client.BlockNumber(ctx)
	require.NoError(t, err)
	s.awaitProof(ctx, l1Path, "evm-99123", tip)
	require.EqualValues(t, tip, s.metric("quorate_evm_proven_height", `chain="evm-99123"`))
	out, err := exec.CommandContext(ctx, program, "index", "status", "--server", s.private).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), fmt.Sprintf("blocks 0 to %d proven by stake", tip))

	earlier := hexutil.Uint64(first.BlockNumber.Uint64()).String()
	receiptsOfFirst := func(call proxy.Call, result json.RawMessage) json.RawMessage {
		var receipts json.RawMessage
		if err := c.client.Client().CallContext(ctx, &receipts, "eth_getBlockReceipts", earlier); err != nil {
			return result
		}
		return receipts
	}
	for _, one := range []lie{
		{"a dropped log", "eth_getBlockReceipts", dropLog, "the root of the receipts"},
		{"another value", "eth_getBlockByNumber", changeTransaction("value", "0x7"), "the hash of transaction 0"},
		{"another sender", "eth_getBlockByNumber", changeTransaction("from", "0x00000000000000000000000000000000000000A1"), "the sender of transaction 0"},
		{"receipts of another block", "eth_getBlockReceipts", receiptsOfFirst, "it belongs to"},
	} {
		before, _ := s.heights(ctx, evmPath)
		provider.Set(onC(one))
		block := c.await(ctx, c.sendByContract(ctx, []byte(one.name))).BlockNumber.Uint64()
		require.Greater(t, block, before)
		require.Eventually(t, func() bool { return strings.Contains(s.indexStatus("evm-43112").Error, one.says) }, 30*time.Second, 50*time.Millisecond,
			"%s is not found out: %+v", one.name, s.indexStatus("evm-43112"))
		indexed, proven := s.heights(ctx, evmPath)
		require.Less(t, indexed, block, one.name)
		require.Less(t, proven, block, one.name)
		require.True(t, bytes.Contains([]byte(s.output()), []byte(one.says)), "the log does not name the cause of %s", one.name)
		provider.Set()
		s.awaitEVM(ctx, block)
	}
	last := c.await(ctx, c.sendByContract(ctx, []byte("last"))).BlockNumber.Uint64()
	s.awaitEVM(ctx, last)
	s.stop()
	s.start() // signs at once
	s.awaitProof(ctx, evmPath, "evm-43112", last)
	t.Logf("all after %s", time.Since(start))
}

// dropLogAndBloom drops the log so that only the receipts root tells.
func dropLogAndBloom(call proxy.Call, result json.RawMessage) json.RawMessage {
	return changed(dropLog(call, result), func(receipts []map[string]any) []map[string]any {
		for _, r := range receipts {
			if logs, ok := r["logs"].([]any); ok && len(logs) == 0 {
				r["logsBloom"] = "0x" + strings.Repeat("00", 256)
			}
		}
		return receipts
	})
}

// TestProvenHelicon indexes the C-Chain since Helicon, whose headers have the receipts roots of settled ancestors. Wrong
// receipts are indexed until their root is known, and never proven.
func TestProvenHelicon(t *testing.T) {
	program := heliconNode(t)
	t.Parallel()
	ctx, cancel := testContext(t, 5*time.Minute)
	defer cancel()
	start := time.Now()
	network := localnet.StartWith(t, localnet.Options{
		Stakers: 3, Program: program, Upgrades: upgradesUntil("helicon"),
		ChainConfig: `{"apis": ["web3","net","txpool","price","chain","tx","subscription","avalanche","trace"], "pruning-enabled": false, "state-sync-enabled": false, "trie-clean-cache": 16, "snapshot-cache": 16}`,
	})
	node := network.Node(0).URL
	c := newCChain(t, ctx, node)
	// A block settles those that were executed seconds before it.
	send := func(text string) uint64 {
		return c.await(ctx, c.sendByContract(ctx, []byte(text))).BlockNumber.Uint64()
	}
	settle := func(height uint64) (last uint64) {
		for {
			last = send("later")
			var block struct{ SettledHeight hexutil.Uint64 }
			require.NoError(t, c.client.Client().CallContext(ctx, &block, "eth_getBlockByNumber", hexutil.Uint64(last), false))
			if uint64(block.SettledHeight) >= height {
				return last
			}
			time.Sleep(time.Second)
		}
	}
	first := send("first")
	last := settle(first)
	t.Logf("settled after %s", time.Since(start))
	provider := proxy.Start(t, node)
	s := startService(t, buildService(t), provider.URL, "--ahead-rounds", "0")
	t.Logf("ready after %s", time.Since(start))
	const chain = "evm-43112"
	s.awaitEVM(ctx, last)
	s.awaitProof(ctx, evmPath, chain, first)
	proof := s.indexStatus(chain).Proof
	require.Equal(t, []uint64{0, last}, []uint64{proof.From, proof.Height})
	require.Less(t, proof.To, last, "the receipts of the last block await their root")

	// Logs without their bloom are found out at once.
	provider.Set(onC(lie{method: "eth_getBlockReceipts", change: dropLog}))
	block := send("a dropped log")
	require.Eventually(t, func() bool { return strings.Contains(s.indexStatus(chain).Error, "are not those of its bloom") }, 30*time.Second, 50*time.Millisecond)
	provider.Set()
	s.awaitEVM(ctx, block)

	t.Logf("the dropped log is indexed after %s", time.Since(start))

	// Receipts that fit themselves are found out by the header that settles them.
	provider.Set(onC(lie{method: "eth_getBlockReceipts", change: dropLogAndBloom}))
	block = send("a dropped log with its bloom")
	s.awaitEVM(ctx, block)
	provider.Set()
	_, proven := s.heights(ctx, evmPath)
	require.Less(t, proven, block)
	settle(settle(block)) // the blocks after it as well
	t.Logf("settled the wrong block after %s", time.Since(start))
	require.Eventually(t, func() bool {
		return strings.Contains(s.indexStatus(chain).Note, "differ from the root in a later block")
	}, 30*time.Second, 50*time.Millisecond, "%+v", s.indexStatus(chain))
	require.Contains(t, s.output(), "receipts of the index differ from the receipts root in a later block")
	require.EqualValues(t, 1, s.metric("quorate_evm_proof_failures_total", `reason="RECEIPTS_DIFFER"`))
	require.EqualValues(t, 1, s.metric("quorate_evm_index_wrong"))

	// Blocks from there on are proven, the wrong one is not.
	s.stop()
	s.start()
	require.Eventually(t, func() bool { return s.indexStatus(chain).Proof != nil }, 30*time.Second, 50*time.Millisecond)
	require.Greater(t, s.indexStatus(chain).Proof.From, block)
	require.EqualValues(t, 1, s.metric("quorate_evm_index_wrong"), "a restart corrects nothing")
	t.Logf("all after %s", time.Since(start))
}
