package e2e

import (
	"context"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/ethclient"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/admin"
	"github.com/ava-labs/avalanchego/api/health"
	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/avm"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary"
	walletcommon "github.com/ava-labs/avalanchego/wallet/subnet/primary/common"

	"quorate/e2e/localnet"
)

// The node's own clients and wallet use only the service's address. What the service answers itself
// does not depend on its nodes.
func TestNodeSurface(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 8*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.Start(t)
	config := filepath.Join(t.TempDir(), "quorate.yaml")
	require.NoError(t, os.WriteFile(config, []byte("node_api: {health_interval: 500ms}\n"), 0o600))
	s := startService(t, program, network.Node(0).URL+","+network.Node(1).URL, "--ahead-rounds", "0", "--admin", "--config", config)

	t.Run("info", func(t *testing.T) { requireInfo(t, ctx, s, network.Node(0).URL) })
	t.Run("health", func(t *testing.T) { requireHealth(t, ctx, s) })
	t.Run("admin", func(t *testing.T) { requireAdmin(t, ctx, s) })
	t.Run("wallet", func(t *testing.T) { requireWallet(t, ctx, s) })
	t.Run("failover", func(t *testing.T) { requireFailover(t, ctx, s, network) })
}

// requireInfo compares what is the network's with a node, and looks at what is our own.
func requireInfo(t *testing.T, ctx context.Context, s *service, node string) {
	ours, theirs, private := info.NewClient(s.url), info.NewClient(node), info.NewClient(s.private)
	id, err := ours.GetNetworkID(ctx)
	require.NoError(t, err)
	require.Equal(t, uint32(localnet.NetworkID), id)
	name, err := ours.GetNetworkName(ctx)
	require.NoError(t, err)
	require.Equal(t, "local", name)
	for _, alias := range []string{"X", "avm", "P", "platform", "C", "evm"} {
		want, err := theirs.GetBlockchainID(ctx, alias)
		require.NoError(t, err)
		got, err := ours.GetBlockchainID(ctx, alias)
		require.NoError(t, err)
		require.Equal(t, want, got, alias)
		got, err = ours.GetBlockchainID(ctx, want.String())
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Eventually(t, func() bool {
			done, err := ours.IsBootstrapped(ctx, alias)
			require.NoError(t, err)
			return done
		}, 2*time.Minute, 100*time.Millisecond)
	}
	_, wantErr := theirs.GetBlockchainID(ctx, "Y")
	_, err = ours.GetBlockchainID(ctx, "Y")
	require.Equal(t, wantErr, err)
	_, wantErr = theirs.IsBootstrapped(ctx, "")
	_, err = ours.IsBootstrapped(ctx, "")
	require.Equal(t, wantErr, err)
	_, err = ours.Uptime(ctx)
	require.ErrorContains(t, err, "couldn't get node uptime: node is not a validator")

	wantSchedule, err := theirs.Upgrades(ctx)
	require.NoError(t, err)
	schedule, err := ours.Upgrades(ctx)
	require.NoError(t, err)
	require.Equal(t, wantSchedule, schedule)
	version, err := ours.GetNodeVersion(ctx)
	require.NoError(t, err)
	require.Contains(t, version.Version, "avalanchego/")
	require.Len(t, version.VMVersions, 3)

	peers, err := ours.Peers(ctx, nil)
	require.NoError(t, err)
	require.Len(t, peers, localnet.Size)
	for _, p := range peers {
		require.True(t, p.TrackedSubnets.Contains(constants.PrimaryNetworkID))
		require.Less(t, time.Since(p.LastReceived), time.Minute)
		require.Equal(t, p.IP, p.PublicIP)
		require.Equal(t, "avalanchego/1.14.2", p.Version)
	}
	some, err := ours.Peers(ctx, []ids.NodeID{peers[0].ID, ids.GenerateTestNodeID()})
	require.NoError(t, err)
	require.Len(t, some, 1)

	nodeID, proof, err := private.GetNodeID(ctx)
	require.NoError(t, err)
	require.NoError(t, proof.Verify())
	require.NotEqual(t, ids.EmptyNodeID, nodeID)
	_, err = private.GetNodeIP(ctx)
	require.NoError(t, err)
	vms, err := private.GetVMs(ctx)
	require.NoError(t, err)
	wantVMs, err := theirs.GetVMs(ctx)
	require.NoError(t, err)
	require.Equal(t, wantVMs, vms)
	_, _, err = ours.GetNodeID(ctx)
	require.ErrorContains(t, err, "can't find method")
}

func requireHealth(t *testing.T, ctx context.Context, s *service) {
	c := health.NewClient(s.private)
	healthy, err := health.AwaitHealthy(ctx, c, 100*time.Millisecond, nil)
	require.NoError(t, err)
	require.True(t, healthy)
	report, err := c.Health(ctx, nil)
	require.NoError(t, err)
	for _, name := range []string{"P", "X", "C", "bls", "bootstrapped", "database", "diskspace", "network", "router"} {
		require.Contains(t, report.Checks, name)
	}
	primary, err := c.Health(ctx, []string{constants.PrimaryNetworkID.String()})
	require.NoError(t, err)
	require.Len(t, primary.Checks, len(report.Checks))
	application, err := c.Health(ctx, []string{"nothing"})
	require.NoError(t, err)
	require.Len(t, application.Checks, len(report.Checks)-3)
	ready, err := c.Readiness(ctx, nil)
	require.NoError(t, err)
	require.True(t, ready.Healthy)
	require.Len(t, ready.Checks, 1)
	alive, err := c.Liveness(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, &health.APIReply{Checks: map[string]health.Result{}, Healthy: true}, alive)
	_, err = health.NewClient(s.url).Health(ctx, nil)
	require.Error(t, err, "at the public address")
}

func requireAdmin(t *testing.T, ctx context.Context, s *service) {
	c := admin.NewClient(s.private)
	require.NoError(t, c.Alias(ctx, "bc/X", "asset"))
	require.NoError(t, c.AliasChain(ctx, "X", "assets"))
	xID, err := info.NewClient(s.url).GetBlockchainID(ctx, "assets")
	require.NoError(t, err)
	aliases, err := c.GetChainAliases(ctx, xID.String())
	require.NoError(t, err)
	require.Equal(t, []string{"X", "avm", xID.String(), "assets"}, aliases)
	_, err = avm.NewClient(s.url, "assets").GetHeight(ctx)
	require.NoError(t, err)
	levels, err := c.SetLoggerLevel(ctx, "local", "DEBUG", "ERROR")
	require.NoError(t, err)
	require.Equal(t, "DEBUG", levels["local"].LogLevel.String())
	levels, err = c.GetLoggerLevel(ctx, "")
	require.NoError(t, err)
	require.Len(t, levels, 2)
	require.Equal(t, "ERROR", levels["local"].DisplayLevel.String())
	fresh, failed, err := c.LoadVMs(ctx)
	require.NoError(t, err)
	require.Empty(t, fresh)
	require.Empty(t, failed)
	require.NoError(t, c.StartCPUProfiler(ctx))
	require.ErrorContains(t, c.StartCPUProfiler(ctx), "cpu profiler already running")
	require.NoError(t, c.MemoryProfile(ctx))
	require.NoError(t, c.LockProfile(ctx))
	require.NoError(t, c.StopCPUProfiler(ctx))
	require.NoError(t, c.Stacktrace(ctx))
	for _, name := range []string{"cpu.profile", "mem.profile", "lock.profile"} {
		require.FileExists(t, filepath.Join(s.dataDir, "profiles", name))
	}
}

// requireWallet has each of the chains accept a transaction.
func requireWallet(t *testing.T, ctx context.Context, s *service) {
	keychain := secp256k1fx.NewKeychain(genesis.EWOQKey)
	w, err := primary.MakeWallet(ctx, s.url, keychain, keychain, primary.WalletConfig{})
	require.NoError(t, err)
	options := []walletcommon.Option{walletcommon.WithContext(ctx), walletcommon.WithPollFrequency(50 * time.Millisecond)}
	avaxID := w.P().Builder().Context().AVAXAssetID
	to := ids.GenerateTestShortID()
	pay := func() []*avax.TransferableOutput {
		return []*avax.TransferableOutput{{Asset: avax.Asset{ID: avaxID}, Out: &secp256k1fx.TransferOutput{Amt: units.Avax, OutputOwners: secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{to}}}}}
	}
	_, err = w.P().IssueBaseTx(pay(), options...) // and awaits it
	require.NoError(t, err)
	_, err = w.X().IssueBaseTx(pay(), options...)
	require.NoError(t, err)
	xID := w.X().Builder().Context().BlockchainID
	_, err = w.C().IssueExportTx(xID, []*secp256k1fx.TransferOutput{{Amt: units.Avax, OutputOwners: *ownedBy(to)}}, options...)
	require.NoError(t, err)

	// And the C-Chain by its Ethereum API, with a subscription to its blocks.
	client, err := ethclient.DialContext(ctx, "ws"+s.url[len("http"):]+"/ext/bc/C/ws")
	require.NoError(t, err)
	defer client.Close()
	heads := make(chan *types.Header, 16)
	subscription, err := client.SubscribeNewHead(ctx, heads)
	require.NoError(t, err)
	defer subscription.Unsubscribe()
	chainID, err := client.ChainID(ctx)
	require.NoError(t, err)
	key := genesis.EWOQKey.ToECDSA()
	nonce, err := client.NonceAt(ctx, genesis.EWOQKey.EthAddress(), nil)
	require.NoError(t, err)
	receiver := common.Address{1, 2, 3}
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Nonce: nonce, Gas: 21000, GasFeeCap: big.NewInt(100_000_000_000), GasTipCap: big.NewInt(1), To: &receiver, Value: big.NewInt(7),
	})
	require.NoError(t, err)
	posted, err := ethclient.DialContext(ctx, s.url+"/ext/bc/C/rpc")
	require.NoError(t, err)
	defer posted.Close()
	require.NoError(t, posted.SendTransaction(ctx, tx))
	select {
	case <-heads:
	case <-time.After(2 * time.Minute):
		t.Fatal("no new head arrived")
	}
	require.Eventually(t, func() bool {
		receipt, err := posted.TransactionReceipt(ctx, tx.Hash())
		return err == nil && receipt.Status == types.ReceiptStatusSuccessful
	}, 2*time.Minute, 100*time.Millisecond)
}

// requireFailover takes the nodes away one by one.
func requireFailover(t *testing.T, ctx context.Context, s *service, network *localnet.Network) {
	// A node that is gone is not waited for, as one that is silent is for so long.
	const timeout = 5 * time.Second
	p, c := platformvm.NewClient(s.url), info.NewClient(s.url)
	network.Stop(0)
	for range 3 {
		began := time.Now()
		_, err := p.GetProposedHeight(ctx)
		require.NoError(t, err)
		require.Less(t, time.Since(began), timeout, "with one node of two left")
	}
	network.Stop(1)
	began := time.Now()
	_, err := p.GetProposedHeight(ctx)
	require.ErrorContains(t, err, "the upstream node does not answer platform.getProposedHeight")
	require.Less(t, time.Since(began), timeout)
	_, err = c.GetNetworkID(ctx)
	require.NoError(t, err)
	_, err = c.Upgrades(ctx)
	require.NoError(t, err)
	peers, err := c.Peers(ctx, nil)
	require.NoError(t, err)
	require.NotEmpty(t, peers)
	_, err = info.NewClient(s.private).GetVMs(ctx)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		report, err := health.NewClient(s.private).Health(ctx, nil)
		require.NoError(t, err)
		router := report.Checks["router"]
		return !report.Healthy && router.Error != nil && *router.Error == "none of the 2 configured nodes answers"
	}, 2*time.Minute, 100*time.Millisecond)
	response, err := http.Get(s.private + "/ext/health")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
}
