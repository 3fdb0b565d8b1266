package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/crypto/secp256k1"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/e2e/localnet"
)

// heliconNode is the program of a node that has Helicon, which the pinned release lacks.
func heliconNode(t *testing.T) string {
	t.Helper()
	const variable = "E2E_HELICON_NODE"
	if program := os.Getenv(variable); program != "" {
		require.FileExists(t, program, variable)
		return program
	}
	for _, beside := range []string{"../../shared", "../../../shared"} { // of the checkout, or of the folder of worktrees
		program, err := filepath.Abs(filepath.Join(beside, "bin", "avalanchego-helicon"))
		require.NoError(t, err)
		if _, err := os.Stat(program); err == nil {
			return program
		}
	}
	t.Skipf("NOT RUN: no node with Helicon; build avalanchego from its repository and set %s to the program", variable)
	return ""
}

// upgradesUntil has the upgrades active from the beginning, up to the one that is named.
func upgradesUntil(last string) map[string]any {
	upgrades := map[string]any{
		"apricotPhase4MinPChainHeight": 0,
		"cortinaXChainStopVertexID":    ids.Empty,
		"graniteEpochDuration":         30 * time.Second,
	}
	for _, name := range []string{
		"apricotPhase1", "apricotPhase2", "apricotPhase3", "apricotPhase4", "apricotPhase5", "apricotPhasePre6", "apricotPhase6",
		"apricotPhasePost6", "banff", "cortina", "durango", "etna", "fortuna", "granite", "helicon",
	} {
		upgrades[name+"Time"] = "2020-12-05T05:00:00Z"
		if name == last {
			break
		}
	}
	return upgrades
}

// addAutoRenewedValidatorTx and setAutoRenewedValidatorConfigTx are the transactions of
// ACP-236 (avalanchego v1.15.0, vms/platformvm/txs), which the pinned release lacks.
type addAutoRenewedValidatorTx struct {
	txs.BaseTx               `serialize:"true"`
	NodeID                   []byte                     `serialize:"true"`
	Signer                   signer.Signer              `serialize:"true"`
	StakeOuts                []*avax.TransferableOutput `serialize:"true"`
	ValidatorRewardsOwner    verify.Verifiable          `serialize:"true"`
	DelegatorRewardsOwner    verify.Verifiable          `serialize:"true"`
	ValidatorAuthority       verify.Verifiable          `serialize:"true"`
	DelegationShares         uint32                     `serialize:"true"`
	AutoCompoundRewardShares uint32                     `serialize:"true"`
	Period                   uint64                     `serialize:"true"`
}

type setAutoRenewedValidatorConfigTx struct {
	txs.BaseTx               `serialize:"true"`
	TxID                     ids.ID            `serialize:"true"`
	Auth                     verify.Verifiable `serialize:"true"`
	AutoCompoundRewardShares uint32            `serialize:"true"`
	Period                   uint64            `serialize:"true"`
}

// heliconCodec is the P-Chain's with these two.
func heliconCodec(t *testing.T) codec.Manager {
	t.Helper()
	c := linearcodec.NewDefault()
	c.SkipRegistrations(5)
	require.NoError(t, txs.RegisterApricotTypes(c))
	require.NoError(t, txs.RegisterBanffTypes(c))
	c.SkipRegistrations(4)
	require.NoError(t, txs.RegisterDurangoTypes(c))
	require.NoError(t, txs.RegisterEtnaTypes(c))
	require.NoError(t, c.RegisterType(&addAutoRenewedValidatorTx{}))
	require.NoError(t, c.RegisterType(&setAutoRenewedValidatorConfigTx{}))
	manager := codec.NewDefaultManager()
	require.NoError(t, manager.RegisterCodec(txs.CodecVersion, c))
	return manager
}

// issueHelicon signs a transaction with one key, which all its inputs belong to, issues it
// and waits until it is accepted.
func (p *pChain) issueHelicon(ctx context.Context, c codec.Manager, unsigned any, credentials int, key *secp256k1.PrivateKey) ids.ID {
	p.t.Helper()
	raw, err := c.Marshal(txs.CodecVersion, &unsigned)
	require.NoError(p.t, err)
	signature, err := key.Sign(raw)
	require.NoError(p.t, err)
	credential := &secp256k1fx.Credential{Sigs: [][secp256k1.SignatureLen]byte{[secp256k1.SignatureLen]byte(signature)}}
	all := make([]verify.Verifiable, credentials)
	for i := range all {
		all[i] = credential
	}
	// A transaction is the unsigned one and a list.
	appended, err := c.Marshal(txs.CodecVersion, &all)
	require.NoError(p.t, err)
	raw = append(raw, appended[codec.VersionSize:]...)
	text, err := formatting.Encode(formatting.Hex, raw)
	require.NoError(p.t, err)
	var issued struct{ TxID ids.ID }
	require.NoError(p.t, localnet.Call(ctx, p.node, "/ext/bc/P", "platform.issueTx", map[string]any{"tx": text, "encoding": "hex"}, &issued))
	require.Eventually(p.t, func() bool {
		status, err := p.client.GetTxStatus(ctx, issued.TxID)
		return err == nil && status.Status.String() == "Committed"
	}, time.Minute, 50*time.Millisecond, "%s is not accepted", issued.TxID)
	return issued.TxID
}

// renewing makes a validator that renews itself.
func (p *pChain) renewing(ctx context.Context, c codec.Manager, v identity, shares uint32, period time.Duration, owner *secp256k1fx.OutputOwners) ids.ID {
	p.t.Helper()
	like, err := p.wallet.Builder().NewAddPermissionlessValidatorTx(
		&txs.SubnetValidator{Validator: txs.Validator{NodeID: v.nodeID, End: uint64(time.Now().Add(time.Hour).Unix()), Wght: 2 * units.KiloAvax}},
		v.proof, p.wallet.Builder().Context().AVAXAssetID, owner, owner, reward.PercentDenominator/10)
	require.NoError(p.t, err)
	return p.issueHelicon(ctx, c, &addAutoRenewedValidatorTx{
		BaseTx: like.BaseTx, NodeID: v.nodeID.Bytes(), Signer: v.proof, StakeOuts: like.StakeOuts,
		ValidatorRewardsOwner: owner, DelegatorRewardsOwner: owner, ValidatorAuthority: p.owner,
		DelegationShares: reward.PercentDenominator / 10, AutoCompoundRewardShares: shares, Period: uint64(period / time.Second),
	}, len(like.Ins), genesis.EWOQKey)
}

// end lets a validator's current period be its last.
func (p *pChain) end(ctx context.Context, c codec.Manager, staking ids.ID) {
	p.t.Helper()
	like, err := p.wallet.Builder().NewBaseTx([]*avax.TransferableOutput{{
		Asset: avax.Asset{ID: p.wallet.Builder().Context().AVAXAssetID},
		Out:   &secp256k1fx.TransferOutput{Amt: units.MilliAvax, OutputOwners: *p.owner},
	}})
	require.NoError(p.t, err)
	p.issueHelicon(ctx, c, &setAutoRenewedValidatorConfigTx{
		BaseTx: *like, TxID: staking, Auth: &secp256k1fx.Input{SigIndices: []uint32{0}},
	}, len(like.Ins)+1, genesis.EWOQKey)
}

// As on mainnet, the C-Chain executes blocks after they are accepted, and validators renew themselves.
func TestHelicon(t *testing.T) {
	node := heliconNode(t)
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	start := time.Now()
	network := localnet.StartWith(t, localnet.Options{
		Stakers: 3, Program: node, Upgrades: upgradesUntil("helicon"),
		ChainConfig: `{"apis": ["web3","net","txpool","price","chain","tx","subscription","avalanche","trace"], "pruning-enabled": false, "state-sync-enabled": false, "trie-clean-cache": 16, "snapshot-cache": 16}`,
		Flags:       []string{"--helicon-min-stake-duration=15s"},
	})
	n := &nodeAPI{program: buildService(t), network: network, node: network.Node(0).URL, keys: []*secp256k1.PrivateKey{genesis.EWOQKey}, compared: make(map[string]int)}
	for range 2 {
		key, err := secp256k1.NewPrivateKey()
		require.NoError(t, err)
		n.keys = append(n.keys, key)
	}
	n.service = n.freshService(t)
	t.Logf("ready after %s", time.Since(start))

	// One validator renews itself until the end, another gets the order to stop in its second
	// period, and the third stops after the first one because no node runs it (ACP-267).
	c := heliconCodec(t)
	const period = 15 * time.Second
	third := ownedBy(n.keys[2].Address())
	lasting, ending, absent := n.runningIdentity(ctx, t), n.runningIdentity(ctx, t), newIdentity(t)
	staking := make(map[ids.NodeID]ids.ID)
	for v, shares := range map[*identity]uint32{&lasting: reward.PercentDenominator, &ending: 300_000, &absent: 0} {
		// Each sees what was issued before, besides the wallet.
		staking[v.nodeID] = newPChain(t, ctx, n.node).renewing(ctx, c, *v, shares, period, third)
	}

	n.failingCalls(ctx, t)
	for i := range 3 { // in one block, or in several that are executed later
		n.chain.sendByAccount(ctx, fmt.Append(nil, "message ", i))
	}
	m, _ := n.chain.message(ctx, n.chain.sendByAccount(ctx, []byte("the last message")))
	signed := n.service.sign(ctx, m, 67)
	requireVerifiedOn(t, ctx, network.ID, n.node, signed, platformapi.ProposedHeight, 67)
	history(t, ctx, n.node, n.keys)
	t.Logf("traffic after %s", time.Since(start))

	type validator struct{ StartTime, EndTime, Weight string }
	validators := func(id ids.NodeID) []validator {
		var reply struct{ Validators []validator }
		require.NoError(t, localnet.Call(ctx, n.node, "/ext/bc/P", "platform.getCurrentValidators", map[string]any{"nodeIDs": []ids.NodeID{id}}, &reply))
		return reply.Validators
	}
	first := validators(ending.nodeID)
	require.Len(t, first, 1)
	require.Eventually(t, func() bool { return validators(ending.nodeID)[0].StartTime != first[0].StartTime }, 2*time.Minute, 200*time.Millisecond, "the validator does not renew itself")
	newPChain(t, ctx, n.node).end(ctx, c, staking[ending.nodeID])
	require.Eventually(t, func() bool { return len(validators(ending.nodeID)) == 0 }, 2*time.Minute, 200*time.Millisecond, "the validator does not stop")
	require.Len(t, validators(lasting.nodeID), 1)
	require.Empty(t, validators(absent.nodeID))
	startWithoutNodes(t, ctx, n.program, network).compareSets(ctx, n.node)
	ledgerWithoutNodes(t, ctx, n.program, network, n.keys)
	n.awaitRecord(t, ctx)
	t.Logf("renewed until %s: %v", time.Since(start), validators(lasting.nodeID))

	parts := []struct {
		name    string
		compare func(context.Context, *testing.T)
	}{
		{"EVM", n.evm},
		{"asset chain", n.assetBlocks},
		{"platform chain", n.platformBlocks},
		{"rewards", func(ctx context.Context, t *testing.T) { n.renewals(ctx, t, slices.Collect(maps.Values(staking))...) }},
		{"ledger", n.owned},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) { p.compare(ctx, t) })
	}
	t.Logf("%d comparisons: %v; all after %s", n.comparisons(), n.compared, time.Since(start))
}

// assetBlocks and platformBlocks compare all blocks and transactions.
func (n *nodeAPI) assetBlocks(ctx context.Context, t *testing.T) {
	n.chainBlocks(ctx, t, "/ext/bc/X", "avm", alike{blank: []string{"txs", "credentials"}})
}

func (n *nodeAPI) platformBlocks(ctx context.Context, t *testing.T) {
	n.chainBlocks(ctx, t, "/ext/bc/P", "platform", alike{})
}

func (n *nodeAPI) chainBlocks(ctx context.Context, t *testing.T, path, prefix string, how alike) {
	blocks, transactions := n.listed(ctx, t, path, prefix)
	for _, encoding := range encodings {
		for _, id := range blocks {
			n.same(ctx, t, how, path, prefix+".getBlock", fmt.Sprintf(`{"blockID":"%s"%s}`, id, encoding))
		}
		for _, id := range transactions {
			n.same(ctx, t, how, path, prefix+".getTx", fmt.Sprintf(`{"txID":"%s"%s}`, id, encoding))
		}
	}
	for _, id := range transactions {
		n.same(ctx, t, how, path, prefix+".getTxStatus", fmt.Sprintf(`{"txID":"%s"}`, id))
	}
}

// renewals compares what a node says of validators that renew themselves.
func (n *nodeAPI) renewals(ctx context.Context, t *testing.T, staking ...ids.ID) {
	const path = "/ext/bc/P"
	validators := alike{sets: []string{"validators", "delegators"}, loose: []string{"uptime", "connected"}}
	n.same(ctx, t, validators, path, "platform.getCurrentValidators", "{}")
	n.same(ctx, t, alike{}, path, "platform.getCurrentSupply", "{}")
	_, transactions := n.listed(ctx, t, path, "platform")
	rewards := 0
	for _, id := range transactions {
		var reply struct{ NumFetched string }
		n.result(ctx, t, path, "platform.getRewardUTXOs", `{"txID":"`+id+`"}`, &reply)
		if reply.NumFetched != "0" {
			rewards++
		}
		n.same(ctx, t, alike{sets: []string{"utxos"}}, path, "platform.getRewardUTXOs", `{"txID":"`+id+`"}`)
	}
	require.Positive(t, rewards, "rewards of renewals")
	for _, id := range staking {
		n.same(ctx, t, alike{}, path, "platform.getTx", `{"txID":"`+id.String()+`","encoding":"json"}`)
	}
}

// owned compares outputs and balances, and has the service verify its index.
func (n *nodeAPI) owned(ctx context.Context, t *testing.T) {
	defer func(before testing.TB) { n.service.t = before }(n.service.t)
	n.service.t = t
	var owners [][]ids.ShortID
	for _, key := range n.keys {
		owners = append(owners, []ids.ShortID{key.Address()})
	}
	owners = append(owners, []ids.ShortID{n.keys[1].Address(), n.keys[2].Address()})
	n.compared["Data API"] += n.service.requireLedger(ctx, owners, 1, 2)
	n.requireVerifiedIndex(ctx, t)
}
