package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/utils/formatting"

	"quorate/e2e/localnet"
	"quorate/e2e/proxy"
)

// member is a validator in a node's JSON.
type member = map[string]any

// forgeSets changes one validator in each set that a node reports.
func forgeSets(forge func(member)) []proxy.Rule {
	change := func(_ proxy.Call, result json.RawMessage) json.RawMessage {
		var reply map[string]any
		if err := json.Unmarshal(result, &reply); err != nil {
			return result
		}
		if sets, ok := reply["validatorSets"].(map[string]any); ok {
			for _, set := range sets {
				set := set.(map[string]any)
				members := set["validators"].([]any)
				if len(members) == 0 {
					continue
				}
				one := members[0].(member)
				before := weightOf(one)
				forge(one)
				set["totalWeight"] = strconv.FormatUint(weightIn(set["totalWeight"])+weightOf(one)-before, 10)
			}
		} else if names := slices.Sorted(maps.Keys(reply)); len(names) > 0 {
			forge(reply[names[0]].(member))
		}
		forged, err := json.Marshal(reply)
		if err != nil {
			return result
		}
		return forged
	}
	return []proxy.Rule{{Method: "platform.getValidatorsAt", Change: change}, {Method: "platform.getAllValidatorsAt", Change: change}}
}

func weightOf(m member) uint64 { return weightIn(m["weight"]) }

func weightIn(v any) uint64 {
	n, _ := strconv.ParseUint(v.(string), 10, 64)
	return n
}

// forgeBlocks changes a byte of each block after the genesis.
func forgeBlocks(t *testing.T) proxy.Rule {
	return proxy.Rule{Method: "platform.getBlockByHeight", Change: func(c proxy.Call, result json.RawMessage) json.RawMessage {
		var reply api.GetBlockResponse
		var text string
		if json.Unmarshal(result, &reply) != nil || json.Unmarshal(reply.Block, &text) != nil {
			return result
		}
		block, err := formatting.Decode(reply.Encoding, text)
		if err != nil || len(block) == 0 {
			t.Errorf("the node's block cannot be read: %v", err)
			return result
		}
		block[len(block)-1] ^= 1
		text, err = formatting.Encode(reply.Encoding, block)
		if err != nil {
			t.Errorf("encoding a block: %v", err)
			return result
		}
		return json.RawMessage(fmt.Sprintf(`{"block":%q,"encoding":"hex"}`, text))
	}}
}

// forgeContainers changes a byte of each container of the index API.
func forgeContainers(t *testing.T) proxy.Rule {
	return proxy.Rule{Method: "index.getContainerRange", Change: func(_ proxy.Call, result json.RawMessage) json.RawMessage {
		var reply struct {
			Containers []map[string]any `json:"containers"`
		}
		if json.Unmarshal(result, &reply) != nil {
			return result
		}
		for _, c := range reply.Containers {
			container, err := formatting.Decode(formatting.Hex, c["bytes"].(string))
			if err == nil {
				container[len(container)-1] ^= 1
				c["bytes"], err = formatting.Encode(formatting.Hex, container)
			}
			if err != nil {
				t.Errorf("the node's container cannot be forged: %v", err)
			}
		}
		forged, err := json.Marshal(reply)
		if err != nil {
			return result
		}
		return forged
	}}
}

// forgingNodes starts a service whose nodes forge a weight, a key and blocks, or name an old tip, besides p2p. What it
// signs and serves is right, and each node is reported.
func forgingNodes(t *testing.T, ctx context.Context, program string, network *localnet.Network, order func(...string) []string, chains ...*cChain) {
	node := network.Node(1).URL
	secret, err := localsigner.New()
	require.NoError(t, err)
	key := "0x" + hex.EncodeToString(bls.PublicKeyToCompressedBytes(secret.PublicKey()))
	containers := forgeContainers(t)
	weight := proxy.Start(t, node, append(forgeSets(func(m member) { m["weight"] = strconv.FormatUint(20*weightOf(m), 10) }), containers)...)
	keyed := proxy.Start(t, node, append(forgeSets(func(m member) { m["publicKey"] = key }), containers)...)
	blocks := proxy.Start(t, node, forgeBlocks(t), containers)
	old := proxy.Start(t, node, proxy.Height("platform.getHeight", 1), proxy.Height("platform.getProposedHeight", 1), containers)
	s := startWithPeers(t, ctx, program, network, withPeers{nodes: strings.Join(order(weight.URL, keyed.URL, blocks.URL, old.URL), ",")})
	require.Eventually(t, func() bool { return s.metric("quorate_peernode_confirmed_timestamp_seconds") > 0 }, time.Minute, 50*time.Millisecond)

	s.signEpochs(ctx, "some nodes lie: "+t.Name(), chains...)
	s.compareSets(ctx, network.Node(0).URL)
	for _, liar := range []struct {
		name    string
		at      *proxy.Proxy
		verdict string
		says    string
	}{
		{"weight", weight, "lies", "the total weight is"},
		{"key", keyed, "lies", "the key 0x"},
		{"blocks", blocks, "lies", "its block at height"},
		{"old tip", old, "lags", "it is at height 1"},
	} {
		host := strings.TrimPrefix(liar.at.URL, "http://")
		require.Eventually(t, func() bool {
			return s.metric("quorate_upstream_verdict", fmt.Sprintf("node=%q", host), fmt.Sprintf("verdict=%q", liar.verdict)) == 1
		}, time.Minute, 100*time.Millisecond, "%s: the metric does not say that %s %s", liar.name, host, liar.verdict)
		require.True(t, slices.ContainsFunc(strings.Split(s.output(), "\n"), func(line string) bool {
			return strings.Contains(line, liar.at.URL) && strings.Contains(line, liar.says) && strings.Contains(line, "upstream node")
		}), "%s: the log does not say %q of %s:\n%s", liar.name, liar.says, liar.at.URL, s.output())
	}
	_, reasons := s.askPrivate(t, "/readyz")
	require.Contains(t, string(reasons), "contradicts the P-Chain")

	// Everything is still right, and the liars are not asked for other chains either.
	before := weight.Calls("eth_blockNumber")
	var height string
	require.NoError(t, localnet.Call(ctx, s.url+"/local", "/ext/bc/C/rpc", "eth_blockNumber", []any{}, &height))
	require.Equal(t, before, weight.Calls("eth_blockNumber"))
	require.Positive(t, old.Calls("eth_blockNumber"), "a node that lags is asked if there is no other")
	heights := float64(s.compareSets(ctx, network.Node(0).URL))
	require.Eventually(t, func() bool { return s.metric("quorate_index_next_height", `chain="P"`) == heights }, time.Minute, 100*time.Millisecond, "the P-Chain is not indexed to its tip")
	require.Zero(t, s.metric("quorate_index_state", `state="stopped"`))
	require.Positive(t, weight.Calls("index.getContainerRange")+keyed.Calls("index.getContainerRange")+blocks.Calls("index.getContainerRange")+old.Calls("index.getContainerRange"), "no forged container was reported")
	s.signEpochs(ctx, "they are known: "+t.Name(), chains...)
	s.compareSets(ctx, network.Node(0).URL)
}
