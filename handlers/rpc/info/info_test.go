package info_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"

	"quorate/handlers/apitest"
	"quorate/handlers/rpc"
	"quorate/handlers/rpc/info"
	"quorate/p2p"
)

// ask returns the result, or the text of the error.
func ask(t *testing.T, methods any, method, params string) string {
	t.Helper()
	h, err := rpc.NewHandler(rpc.Endpoint{Services: []rpc.Service{{Names: []string{"info"}, Methods: methods}}})
	require.NoError(t, err)
	result, failure := apitest.Call(t, h, "info."+method, params)
	return string(result) + failure
}

func TestMethods(t *testing.T) {
	key, err := localsigner.New()
	require.NoError(t, err)
	proof, err := signer.NewProofOfPossession(key)
	require.NoError(t, err)
	aliases := ids.NewAliaser()
	x := ids.ID{1}
	for _, name := range []string{"X", "avm", x.String()} {
		require.NoError(t, aliases.Alias(x, name))
	}
	acp, _ := constants.CurrentACPs.Peek()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	peer := p2p.Peer{
		NodeID: ids.NodeID{2}, Addr: netip.MustParseAddrPort("127.0.0.1:9651"), Claimed: netip.MustParseAddrPort("[::1]:9652"), Version: "v1.15.0",
		UpgradeTime: at, LastSent: at, LastReceived: at, ObservedUptime: 90, TrackedSubnets: []ids.ID{constants.PrimaryNetworkID}, SupportedACPs: []uint32{acp},
	}
	stranger := p2p.Peer{NodeID: ids.NodeID{9}, Version: "v1.15.0", SupportedACPs: []uint32{acp}}
	bootstrapped := false
	weights := info.Weights{Of: map[ids.NodeID]uint64{peer.NodeID: 60, {3}: 40}, Total: 100}
	o := info.Options{
		NetworkID: constants.MainnetID, Aliases: aliases, Bootstrapped: func(id ids.ID) bool { return bootstrapped && id == x },
		NodeID: ids.NodeID{3}, Proof: proof, Address: netip.MustParseAddrPort("0.0.0.0:1"),
		Peers: func() []p2p.Peer { return []p2p.Peer{peer, stranger} }, Weights: func(context.Context) (info.Weights, error) { return weights, nil },
		Began:    func(context.Context) (time.Time, error) { return at, nil },
		Upgrades: func() (json.RawMessage, error) { return json.RawMessage(`{"later":"than the library"}`), nil }, EVMVersion: func() string { return "v9" },
	}
	public, operator := info.New(o)
	shown := `{"ip":"127.0.0.1:9651","publicIP":"[::1]:9652","nodeID":"` + peer.NodeID.String() + `","version":"avalanchego/1.15.0","upgradeTime":1767323045,` +
		`"lastSent":"2026-01-02T03:04:05Z","lastReceived":"2026-01-02T03:04:05Z","observedUptime":"90","trackedSubnets":["11111111111111111111111111111111LpoYY"],` +
		`"supportedACPs":[` + jsonOf(t, acp) + `],"objectedACPs":[],"benched":[]}`
	for _, test := range []struct{ method, params, want string }{
		{"getNetworkID", `{}`, `{"networkID":"1"}`},
		{"getNetworkName", `{}`, `{"networkName":"mainnet"}`},
		{"getBlockchainID", `{"alias":"avm"}`, `{"blockchainID":"` + x.String() + `"}`},
		{"getBlockchainID", `{"alias":"` + x.String() + `"}`, `{"blockchainID":"` + x.String() + `"}`},
		{"getBlockchainID", `{"alias":"Y"}`, "there is no ID with alias: Y"},
		{"getBlockchainID", `{}`, "there is no ID with alias: "},
		{"isBootstrapped", `{"chain":"X"}`, `{"isBootstrapped":false}`},
		{"isBootstrapped", `{"chain":"Y"}`, "there is no chain with alias/ID 'Y'"},
		{"isBootstrapped", `{}`, "argument 'chain' not given"},
		{"getNodeVersion", `{}`, `{"version":"avalanchego/1.15.0","databaseVersion":"v1.4.5","rpcProtocolVersion":"46","gitCommit":"","vmVersions":{"avm":"avalanchego/1.15.0","evm":"v9","platform":"avalanchego/1.15.0"}}`},
		{"getTxFee", `{}`, `{"txFee":"1000000","createAssetTxFee":"10000000","createSubnetTxFee":"1000000000","transformSubnetTxFee":"10000000000","createBlockchainTxFee":"1000000000",` +
			`"addPrimaryNetworkValidatorFee":"0","addPrimaryNetworkDelegatorFee":"0","addSubnetValidatorFee":"1000000","addSubnetDelegatorFee":"1000000"}`},
		{"upgrades", `{}`, `{"later":"than the library"}`},
		{"peers", `{"nodeIDs":["` + peer.NodeID.String() + `","` + peer.NodeID.String() + `","` + ids.NodeID{8}.String() + `"]}`, `{"numPeers":"1","peers":[` + shown + `]}`},
		{"peers", `{"nodeIDs":["` + ids.NodeID{8}.String() + `"]}`, `{"numPeers":"0","peers":[]}`},
		{"peers", `{"nodeIDs":["x"]}`, "couldn't unmarshal an argument. Ensure arguments are valid and properly formatted. See documentation for example calls"},
		// 40 of our own at 100 %, 60 at 90 %, which is more than is required.
		{"uptime", `{"subnetID":7}`, `{"rewardingStakePercentage":"100.0000","weightedAveragePercentage":"94.0000"}`},
	} {
		for _, methods := range []any{public, operator} {
			require.Equal(t, test.want, ask(t, methods, test.method, test.params), "%s %s", test.method, test.params)
		}
	}
	require.Contains(t, ask(t, public, "peers", `{}`), `{"numPeers":"2"`)
	bootstrapped = true
	require.JSONEq(t, `{"isBootstrapped":true}`, ask(t, public, "isBootstrapped", `{"chain":"X"}`))

	var acps struct {
		ACPs map[string]struct {
			SupportWeight, ObjectWeight, AbstainWeight string
			Supporters, Objectors                      []string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(ask(t, public, "acps", `{}`)), &acps))
	require.Len(t, acps.ACPs, constants.CurrentACPs.Len())
	about := acps.ACPs[jsonOf(t, acp)]
	require.Equal(t, []string{"60", "0", "40"}, []string{about.SupportWeight, about.ObjectWeight, about.AbstainWeight})
	require.Equal(t, []string{peer.NodeID.String()}, about.Supporters)
	require.NotNil(t, about.Objectors)

	delete(weights.Of, ids.NodeID{3})
	require.Equal(t, "couldn't get node uptime: node is not a validator", ask(t, public, "uptime", `{}`))
}

// TestUptimeRequirement has a peer with 60% of the weight observe an uptime around what is required for the period of this
// service: 80% before Helicon, 90% since (ACP-267). A node computes the same (avalanchego,
// network.TestNodeUptimeACP267Requirement).
func TestUptimeRequirement(t *testing.T) {
	mainnet := upgrade.Mainnet.HeliconTime
	reported := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	at := `{"heliconTime":"` + reported.Format(time.RFC3339) + `"}`
	const all, own = `"100.0000"`, `"40.0000"`
	for _, test := range []struct {
		networkID uint32
		upgrades  string
		began     time.Time
		uptime    uint32
		want      string
	}{
		{constants.MainnetID, `{}`, mainnet.Add(-time.Second), 79, own},
		{constants.MainnetID, `{}`, mainnet.Add(-time.Second), 80, all},
		{constants.MainnetID, `{}`, mainnet, 89, own},
		{constants.MainnetID, `{}`, mainnet, 90, all},
		{constants.MainnetID, at, reported.Add(-time.Second), 80, all}, // what the nodes say counts
		{constants.MainnetID, at, reported, 89, own},
		{constants.MainnetID, at, reported, 90, all},
		{constants.LocalID, `{}`, reported, 80, all}, // Helicon is not scheduled
		{constants.LocalID, at, reported, 89, own},
	} {
		public, _ := info.New(info.Options{
			NetworkID: test.networkID, NodeID: ids.NodeID{3},
			Peers: func() []p2p.Peer { return []p2p.Peer{{NodeID: ids.NodeID{2}, ObservedUptime: test.uptime}} },
			Weights: func(context.Context) (info.Weights, error) {
				return info.Weights{Of: map[ids.NodeID]uint64{{2}: 60, {3}: 40}, Total: 100}, nil
			},
			Began:    func(context.Context) (time.Time, error) { return test.began, nil },
			Upgrades: func() (json.RawMessage, error) { return json.RawMessage(test.upgrades), nil },
		})
		var reply struct{ RewardingStakePercentage json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(ask(t, public, "uptime", `{}`)), &reply))
		require.Equal(t, test.want, string(reply.RewardingStakePercentage), "%+v", test)
	}
	public, _ := info.New(info.Options{
		NodeID: ids.NodeID{3},
		Weights: func(context.Context) (info.Weights, error) {
			return info.Weights{Of: map[ids.NodeID]uint64{{3}: 1}, Total: 1}, nil
		},
		Began: func(context.Context) (time.Time, error) { return time.Time{}, errors.New("no answer") },
	})
	require.Equal(t, "couldn't get node uptime: error while fetching local validator start time no answer", ask(t, public, "uptime", `{}`))
}

// Methods about this node alone are for its operator.
func TestOperatorsMethods(t *testing.T) {
	key, err := localsigner.New()
	require.NoError(t, err)
	proof, err := signer.NewProofOfPossession(key)
	require.NoError(t, err)
	public, operator := info.New(info.Options{NodeID: ids.NodeID{3}, Proof: proof, Address: netip.MustParseAddrPort("0.0.0.0:1")})
	for method, want := range map[string]string{
		"getNodeID": `{"nodeID":"` + ids.NodeID{3}.String() + `","nodePOP":` + jsonOf(t, proof) + `}`,
		"getNodeIP": `{"ip":"0.0.0.0:1"}`,
		"getVMs": `{"vms":{"jvYyfQTxGMJLuGWa55kdP2p2zSUYsQ5Raupu4TW34ZAUBAbtq":["avm"],"mgj786NP7uDwBCcq6YwThhaN8FLyybkCa4zBWTQbNgmK6k9A6":["evm"],"rWhpuQPF1kb72esV2momhMuTYGkEb1oL29pt2EBXWmSy4kxnT":["platform"]},` +
			`"fxs":{"qd2U4HDWUvMrVUeTcCHp6xH3Qpnn1XbU5MDdnBoiifFqvgXwT":"nftfx","rXJsCSEYXg2TehWxCEEGj6JU2PWKTkd6cBdNLjoe2SpsKD9cy":"propertyfx","spdxUxVJQbX85MGxMHbKw1sHxMnSqJ3QBzDyDYEP3h6TLuxqQ":"secp256k1fx"}}`,
	} {
		require.JSONEq(t, want, ask(t, operator, method, `{}`))
		require.Equal(t, `rpc: can't find method "info.G`+method[1:]+`"`, ask(t, public, method, `{}`))
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
