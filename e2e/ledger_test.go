package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ava-labs/libevm/ethclient"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/secp256k1"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/avm"
	xtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	"github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
	xbuilder "github.com/ava-labs/avalanchego/wallet/chain/x/builder"
	"github.com/ava-labs/avalanchego/wallet/subnet/primary"
	walletcommon "github.com/ava-labs/avalanchego/wallet/subnet/primary/common"

	"quorate/e2e/localnet"
)

// assets are amounts of assets by their IDs.
type assets map[string]*big.Int

func (a assets) add(assetID, amount string) {
	n, ok := new(big.Int).SetString(amount, 10)
	if !ok {
		panic(amount)
	}
	if a[assetID] == nil {
		a[assetID] = new(big.Int)
	}
	a[assetID].Add(a[assetID], n)
}

func (a assets) texts() map[string]string {
	all := make(map[string]string, len(a))
	for id, amount := range a {
		if amount.Sign() != 0 {
			all[id] = amount.String()
		}
	}
	return all
}

// records asks the Data API.
func (s *service) records(ctx context.Context, path string, query url.Values, answer any) {
	s.t.Helper()
	s.answer(ctx, "/v1/networks/local/"+path, query, answer)
}

// answer reads what the service answers.
func (s *service) answer(ctx context.Context, path string, query url.Values, answer any) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"?"+query.Encode(), nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s: %s", path, content)
	require.NoError(s.t, json.Unmarshal(content, answer), "%s", content)
}

type utxo struct {
	UtxoID            string
	Staked            bool
	CreatedOnChainID  string `json:"createdOnChainId"`
	ConsumedOnChainID string `json:"consumedOnChainId"`
	ConsumingTxHash   string
	Asset             struct{ AssetID, Amount string }
}

// utxos walks all pages of a list of outputs.
func (s *service) utxos(ctx context.Context, chain string, addresses []string, pageSize int) (all []utxo) {
	s.t.Helper()
	query := url.Values{"addresses": {joined(addresses)}, "pageSize": {strconv.Itoa(pageSize)}}
	for {
		var page struct {
			NextPageToken string
			Utxos         []utxo
		}
		s.records(ctx, "blockchains/"+chain+"/utxos", query, &page)
		require.LessOrEqual(s.t, len(page.Utxos), pageSize)
		all = append(all, page.Utxos...)
		if page.NextPageToken == "" {
			return all
		}
		query.Set("pageToken", page.NextPageToken)
	}
}

func joined(list []string) string {
	text := ""
	for i, s := range list {
		if i > 0 {
			text += ","
		}
		text += s
	}
	return text
}

// history issues transactions of every kind that the wallet makes.
func history(t testing.TB, ctx context.Context, node string, keys []*secp256k1.PrivateKey) {
	t.Helper()
	keychain := secp256k1fx.NewKeychain(keys...)
	w, err := primary.MakeWallet(ctx, node, keychain, keychain, primary.WalletConfig{})
	require.NoError(t, err)
	options := []walletcommon.Option{walletcommon.WithContext(ctx), walletcommon.WithPollFrequency(20 * time.Millisecond), walletcommon.WithChangeOwner(ownedBy(keys[0].Address()))}
	x, p, c := w.X(), w.P(), w.C()
	avaxID := p.Builder().Context().AVAXAssetID
	xID, cID := x.Builder().Context().BlockchainID, c.Builder().Context().BlockchainID
	me, other, third := keys[0].Address(), keys[1].Address(), keys[2].Address()
	pay := func(asset ids.ID, amount uint64, owner *secp256k1fx.OutputOwners) *avax.TransferableOutput {
		return &avax.TransferableOutput{Asset: avax.Asset{ID: asset}, Out: &secp256k1fx.TransferOutput{Amt: amount, OutputOwners: *owner}}
	}

	// The X-Chain: an asset with an NFT, and both in transfers.
	created, err := x.IssueCreateAssetTx("Testing", "TST", 4, map[uint32][]verify.State{
		0: {
			&secp256k1fx.TransferOutput{Amt: 1000, OutputOwners: *ownedBy(me)},
			&secp256k1fx.TransferOutput{Amt: 500, OutputOwners: *ownedBy(other)},
			&secp256k1fx.MintOutput{OutputOwners: *ownedBy(me)},
		},
		1: {&nftfx.MintOutput{GroupID: 1, OutputOwners: *ownedBy(me)}},
	}, options...)
	require.NoError(t, err)
	token := created.ID()
	issueX := func(_ *xtxs.Tx, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	issueX(x.IssueBaseTx([]*avax.TransferableOutput{
		pay(token, 100, ownedBy(third)), pay(token, 50, ownedBy(third)), pay(avaxID, units.Avax, ownedBy(other)),
		pay(avaxID, 2*units.Avax, &secp256k1fx.OutputOwners{Threshold: 2, Addrs: sortedAddresses(other, third)}),
		pay(avaxID, 3*units.Avax, &secp256k1fx.OutputOwners{Threshold: 1, Locktime: uint64(time.Now().Add(time.Hour).Unix()), Addrs: []ids.ShortID{third}}),
	}, options...))
	issueX(x.IssueOperationTxMintFT(map[ids.ID]*secp256k1fx.TransferOutput{token: {Amt: 7, OutputOwners: *ownedBy(third)}}, options...))
	issueX(x.IssueOperationTxMintNFT(token, []byte("payload"), []*secp256k1fx.OutputOwners{ownedBy(other)}, options...))
	issueX(x.IssueExportTx(constants.PlatformChainID, []*avax.TransferableOutput{pay(avaxID, 20*units.KiloAvax, ownedBy(me)), pay(avaxID, units.Avax, ownedBy(third))}, options...))
	issueX(x.IssueExportTx(cID, []*avax.TransferableOutput{pay(avaxID, 5*units.Avax, ownedBy(me)), pay(avaxID, units.Avax, ownedBy(other))}, options...))

	// The C-Chain.
	_, err = c.IssueImportTx(xID, keys[0].EthAddress(), options...)
	require.NoError(t, err)
	evm, err := ethclient.DialContext(ctx, node+"/ext/bc/C/rpc")
	require.NoError(t, err)
	defer evm.Close()
	export := func(to ids.ID, amount uint64, owner ids.ShortID) {
		t.Helper()
		before, err := evm.NonceAt(ctx, keys[0].EthAddress(), nil)
		require.NoError(t, err)
		_, err = c.IssueExportTx(to, []*secp256k1fx.TransferOutput{{Amt: amount, OutputOwners: *ownedBy(owner)}}, options...)
		require.NoError(t, err)
		// Since Helicon, what is accepted is executed later, and the next export is checked
		// against the state.
		require.Eventually(t, func() bool {
			nonce, err := evm.NonceAt(ctx, keys[0].EthAddress(), nil)
			return err == nil && nonce > before
		}, time.Minute, 20*time.Millisecond)
	}
	export(constants.PlatformChainID, 3*units.Avax, me)
	export(xID, units.Avax, me)
	export(xID, 2*units.Avax, third)
	issueX(x.IssueImportTx(cID, ownedBy(me), options...))

	// The P-Chain.
	issueP := func(tx *txs.Tx, err error) ids.ID {
		t.Helper()
		require.NoError(t, err)
		return tx.ID()
	}
	issueP(p.IssueImportTx(xID, ownedBy(me), options...))
	issueP(p.IssueImportTx(cID, ownedBy(me), options...))
	issueP(p.IssueBaseTx([]*avax.TransferableOutput{
		pay(avaxID, units.Avax, ownedBy(other)), pay(avaxID, units.Avax, ownedBy(other)),
		pay(avaxID, 2*units.Avax, &secp256k1fx.OutputOwners{Threshold: 1, Locktime: uint64(time.Now().Add(time.Hour).Unix()), Addrs: []ids.ShortID{third}}),
		pay(avaxID, 3*units.Avax, &secp256k1fx.OutputOwners{Threshold: 2, Addrs: sortedAddresses(other, third)}),
	}, options...))
	issueP(p.IssueExportTx(xID, []*avax.TransferableOutput{pay(avaxID, 4*units.Avax, ownedBy(me)), pay(avaxID, units.Avax, ownedBy(other))}, options...))
	issueP(p.IssueExportTx(cID, []*avax.TransferableOutput{pay(avaxID, 2*units.Avax, ownedBy(third))}, options...))
	issueX(x.IssueImportTx(constants.PlatformChainID, ownedBy(me), options...))
	subnet := issueP(p.IssueCreateSubnetTx(ownedBy(me), options...))
	issueP(p.IssueCreateChainTx(subnet, []byte("{}"), constants.XSVMID, nil, "no node runs it", options...))
	issueP(p.IssueTransferSubnetOwnershipTx(subnet, ownedBy(other), options...))
	validator := newIdentity(t)
	end := uint64(time.Now().Add(time.Hour).Unix())
	issueP(p.IssueAddPermissionlessValidatorTx(
		&txs.SubnetValidator{Validator: txs.Validator{NodeID: validator.nodeID, End: end, Wght: 2 * units.KiloAvax}},
		validator.proof, avaxID, ownedBy(me), ownedBy(third), reward.PercentDenominator/10, options...))
	for _, amount := range []uint64{25 * units.Avax, 30 * units.Avax} {
		issueP(p.IssueAddPermissionlessDelegatorTx(
			&txs.SubnetValidator{Validator: txs.Validator{NodeID: validator.nodeID, End: end - 60, Wght: amount}},
			avaxID, ownedBy(other), options...))
	}
}

// outputIDs are the outputs that a node gives, but those that take more signatures
// than the owners have.
func outputIDs(t testing.TB, c codec.Manager, raw [][]byte, owners []ids.ShortID) (all []string) {
	t.Helper()
	for _, b := range raw {
		var u avax.UTXO
		_, err := c.Unmarshal(b, &u)
		require.NoError(t, err)
		out := u.Out
		if locked, ok := out.(*stakeable.LockOut); ok {
			out = locked.TransferableOut
		}
		var of secp256k1fx.OutputOwners
		switch out := out.(type) {
		case *secp256k1fx.TransferOutput:
			of = out.OutputOwners
		case *secp256k1fx.MintOutput:
			of = out.OutputOwners
		case *nftfx.MintOutput:
			of = out.OutputOwners
		case *nftfx.TransferOutput:
			of = out.OutputOwners
		case *propertyfx.MintOutput:
			of = out.OutputOwners
		case *propertyfx.OwnedOutput:
			of = out.OutputOwners
		default:
			require.Fail(t, "an output of another kind", "%T", out)
		}
		have := uint32(0)
		for _, a := range of.Addrs {
			if slices.Contains(owners, a) {
				have++
			}
		}
		if have >= of.Threshold {
			all = append(all, u.InputID().String())
		}
	}
	return all
}

// unspentIDs are the outputs of a list that its chain can spend now.
func unspentIDs(list []utxo, chainID string) (all []string) {
	for _, u := range list {
		if !u.Staked && u.ConsumedOnChainID == chainID && u.CreatedOnChainID == chainID {
			all = append(all, u.UtxoID)
		}
	}
	return all
}

// indexed reports whether the chains are indexed up to the given heights.
func (s *service) indexed(ctx context.Context, heights map[string]uint64) bool {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.private+"/index", nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	var status struct {
		Networks map[string]map[string]struct {
			State string
			Next  uint64
			Error string
		}
	}
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&status))
	chains := status.Networks["local"]
	for name, height := range heights {
		require.NotEqual(s.t, "stopped", chains[name].State, "%s: %s", name, chains[name].Error)
		if chains[name].Next <= height {
			return false
		}
	}
	return true
}

func ownedBy(address ids.ShortID) *secp256k1fx.OutputOwners {
	return &secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{address}}
}

func sortedAddresses(list ...ids.ShortID) []ids.ShortID {
	slices.SortFunc(list, ids.ShortID.Compare)
	return list
}

// requireLedger waits until all that the nodes accepted is indexed, and compares
// outputs and balances of groups of owners with what the nodes say. Partial names
// the groups that own some things only together with others. It returns the number of
// comparisons.
func (s *service) requireLedger(ctx context.Context, owners [][]ids.ShortID, partial ...int) (compared int) {
	t, node := s.t, s.node
	t.Helper()
	p, x := platformvm.NewClient(node), avm.NewClient(node, "X")
	id, err := info.NewClient(node).GetBlockchainID(ctx, "X")
	require.NoError(t, err)
	xChainID := id.String()
	avaxID := stakingAsset(t, ctx, p)
	pHeight, err := p.GetHeight(ctx)
	require.NoError(t, err)
	xHeight, err := x.GetHeight(ctx)
	require.NoError(t, err)
	evm, err := ethclient.DialContext(ctx, node+"/ext/bc/C/rpc")
	require.NoError(t, err)
	defer evm.Close()
	cHeight, err := evm.BlockNumber(ctx)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return s.indexed(ctx, map[string]uint64{"P": pHeight, "X": xHeight, "C": cHeight})
	}, 2*time.Minute, 100*time.Millisecond)
	for i, group := range owners {
		var texts []string
		for _, a := range group {
			text, err := address.FormatBech32(s.hrp(), a.Bytes())
			require.NoError(t, err)
			texts = append(texts, text)
		}
		for _, pageSize := range []int{2, 100} {
			name := fmt.Sprintf("owners %d, pages of %d: ", i, pageSize)
			raw, _, _, err := p.GetUTXOs(ctx, group, 1024, ids.ShortEmpty, ids.Empty)
			require.NoError(t, err)
			require.ElementsMatch(t, outputIDs(t, txs.Codec, raw, group), unspentIDs(s.utxos(ctx, "p-chain", texts, pageSize), "11111111111111111111111111111111LpoYY"), name+"P-Chain")
			raw, _, _, err = x.GetUTXOs(ctx, group, 1024, ids.ShortEmpty, ids.Empty)
			require.NoError(t, err)
			require.ElementsMatch(t, outputIDs(t, xbuilder.Parser.Codec(), raw, group), unspentIDs(s.utxos(ctx, "x-chain", texts, pageSize), xChainID), name+"X-Chain")
			compared += 2
		}
		if len(group) == 1 {
			theirs, err := x.GetAllBalances(ctx, group[0], false) //nolint:staticcheck // deprecated, and what explorers compare with
			require.NoError(t, err)
			want, got := assets{}, assets{}
			for _, b := range theirs {
				want.add(assetNamed(t, b.AssetID, avaxID), strconv.FormatUint(uint64(b.Balance), 10))
			}
			var ours struct {
				Balances map[string][]struct{ AssetID, Amount, Type string }
			}
			s.records(ctx, "blockchains/x-chain/balances", url.Values{"addresses": {joined(texts)}}, &ours)
			for _, b := range ours.Balances["unlocked"] {
				if b.Type != "nft" { // of which the node tells nothing
					got.add(b.AssetID, b.Amount)
				}
			}
			require.Equal(t, want.texts(), got.texts(), "owners %d: X-Chain", i)
			compared++
		}
		if slices.Contains(partial, i) {
			continue // of what takes another's signature, too, the node tells them all
		}
		balance, err := p.GetBalance(ctx, group) //nolint:staticcheck // deprecated, and what explorers compare with
		require.NoError(t, err)
		var ours struct {
			Balances map[string][]struct{ AssetID, Amount string }
		}
		s.records(ctx, "blockchains/p-chain/balances", url.Values{"addresses": {joined(texts)}}, &ours)
		for bucket, want := range map[string]uint64{
			"unlockedUnstaked": uint64(balance.Unlocked), "lockedStakeable": uint64(balance.LockedStakeable), "lockedPlatform": uint64(balance.LockedNotStakeable),
		} {
			got := assets{}
			for _, b := range ours.Balances[bucket] {
				got.add(b.AssetID, b.Amount)
			}
			sum := new(big.Int)
			for _, amount := range got {
				sum.Add(sum, amount)
			}
			require.Equal(t, strconv.FormatUint(want, 10), sum.String(), "owners %d: P-Chain %s", i, bucket)
			compared++
		}
	}
	return compared
}

// ledger compares what the Data API tells of P and X with what the nodes have.
func (n *nodeAPI) ledger(ctx context.Context, t *testing.T, stakes *shortStakes) {
	defer func(before testing.TB) { n.service.t = before }(n.service.t)
	n.service.t = t
	s := n.service
	var owners [][]ids.ShortID
	for _, key := range n.keys {
		owners = append(owners, []ids.ShortID{key.Address()})
	}
	owners = append(owners, []ids.ShortID{n.keys[1].Address(), n.keys[2].Address()})
	n.compared["Data API"] += s.requireLedger(ctx, owners, 1, 2)
	n.delegations(ctx, t, stakes)
	n.stakes(ctx, t)
	n.subnets(ctx, t)

	// The chain had blocks from its beginning.
	var vertices struct{ Vertices []any }
	s.records(ctx, "blockchains/x-chain/vertices:listByHeight", url.Values{"vertexHeight": {"0"}}, &vertices)
	require.Empty(t, vertices.Vertices)

	// The service's own verification finds what is compared above, and says so.
	n.requireVerifiedIndex(ctx, t)
}

// subnets compares all of them. The node tells the primary network among them, too.
func (n *nodeAPI) subnets(ctx context.Context, t *testing.T) {
	t.Helper()
	theirs, err := platformvm.NewClient(n.node).GetSubnets(ctx, nil) //nolint:staticcheck // deprecated, and what explorers compare with
	require.NoError(t, err)
	var listed struct {
		Subnets []struct {
			SubnetID       string
			OwnerAddresses []string
			Threshold      uint32
			IsL1           bool
			Blockchains    []struct{ BlockchainName string }
		}
	}
	n.service.records(ctx, "subnets", url.Values{"sortOrder": {"asc"}}, &listed)
	want, got := make(map[string]string), make(map[string]string)
	for _, subnet := range theirs {
		owners := []string{}
		for _, a := range subnet.ControlKeys {
			text, err := address.FormatBech32(constants.GetHRP(localnet.NetworkID), a.Bytes())
			require.NoError(t, err)
			owners = append(owners, text)
		}
		want[subnet.ID.String()] = fmt.Sprint(owners, subnet.Threshold, subnet.ID == n.l1.id)
	}
	for _, subnet := range listed.Subnets {
		got[subnet.SubnetID] = fmt.Sprint(subnet.OwnerAddresses, subnet.Threshold, subnet.IsL1)
	}
	require.Equal(t, want, got)
	require.Len(t, listed.Subnets[0].Blockchains, 2, "of the primary network")
	n.compared["Data API"] += len(got)
}

// requireVerifiedIndex has the service verify its index, which must find nothing.
func (n *nodeAPI) requireVerifiedIndex(ctx context.Context, t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(ctx, n.program, "index", "verify", "--server", n.service.private).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("index verify:\n%s", out)
}

// delegation is how the Data API tells of one.
type delegation struct {
	TxHash, AmountDelegated, DelegationStatus string
	StartTimestamp, EndTimestamp              uint64
	GrossReward, NetReward                    string
	EstimatedGrossReward, EstimatedNetReward  string
}

// delegations compares those that run, by validator, and those that have ended.
func (n *nodeAPI) delegations(ctx context.Context, t *testing.T, stakes *shortStakes) {
	t.Helper()
	p := platformvm.NewClient(n.node)
	listed := func(nodeID ids.NodeID) []delegation {
		var page struct{ Delegators []delegation }
		n.service.records(ctx, "delegators", url.Values{"nodeIds": {nodeID.String()}, "pageSize": {"100"}}, &page)
		return page.Delegators
	}
	number := func(text string) uint64 {
		amount, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return amount
	}
	stakers, err := p.GetCurrentValidators(ctx, constants.PrimaryNetworkID, nil)
	require.NoError(t, err)
	active := 0
	for _, v := range stakers {
		if v.DelegatorCount == nil || *v.DelegatorCount == 0 {
			continue
		}
		one, err := p.GetCurrentValidators(ctx, constants.PrimaryNetworkID, []ids.NodeID{v.NodeID})
		require.NoError(t, err)
		want, got := make(map[string]string), make(map[string]string)
		for _, d := range one[0].Delegators {
			// A tenth is the validator's.
			want[d.TxID.String()] = fmt.Sprint(d.Weight, d.StartTime, d.EndTime, *d.PotentialReward, *d.PotentialReward*9/10)
		}
		for _, d := range listed(v.NodeID) {
			if d.DelegationStatus != "active" {
				continue
			}
			require.Equal(t, []string{d.GrossReward, d.NetReward}, []string{d.EstimatedGrossReward, d.EstimatedNetReward})
			got[d.TxHash] = fmt.Sprint(number(d.AmountDelegated), d.StartTimestamp, d.EndTimestamp, number(d.GrossReward), number(d.NetReward))
		}
		require.Equal(t, want, got)
		active += len(got)
	}
	require.Equal(t, 2, active, "delegations")

	ended := make(map[string]delegation)
	for _, v := range []ids.NodeID{stakes.leaving.nodeID, stakes.absent.nodeID, stakes.staying.nodeID} {
		for _, d := range listed(v) {
			require.Equal(t, "completed", d.DelegationStatus)
			var paid uint64
			for _, amount := range n.rewardsOf(ctx, t, d.TxHash) {
				paid += amount
			}
			require.Equal(t, paid, number(d.NetReward), "%s", d.TxHash)
			gross := number(d.GrossReward)
			want := stakes.potential[d.TxHash]
			if paid == 0 {
				want = 0
			}
			require.Equal(t, want, gross, "%s", d.TxHash)
			require.Equal(t, paid, gross*(reward.PercentDenominator-stakes.commission[v])/reward.PercentDenominator, "%s", d.TxHash)
			ended[d.TxHash] = d
		}
	}
	require.Len(t, ended, 5)
	for _, tx := range stakes.unrewarded[1:] { // the first is the validator's
		require.Contains(t, ended, tx.String())
	}
	n.compared["Data API"] += active + len(ended)
}

// rewardsOf are the amounts that a stake was paid when it ended.
func (n *nodeAPI) rewardsOf(ctx context.Context, t *testing.T, tx string) (amounts []uint64) {
	t.Helper()
	id, err := ids.FromString(tx)
	require.NoError(t, err)
	raw, err := platformvm.NewClient(n.node).GetRewardUTXOs(ctx, &api.GetTxArgs{TxID: id, Encoding: formatting.Hex}) //nolint:staticcheck // deprecated, and what the index is built from
	require.NoError(t, err)
	for _, b := range raw {
		var utxo avax.UTXO
		_, err := txs.Codec.Unmarshal(b, &utxo)
		require.NoError(t, err)
		amounts = append(amounts, utxo.Out.(avax.Amounter).Amount())
	}
	return amounts
}

// stakes compares what is staked now, by who owns it.
func (n *nodeAPI) stakes(ctx context.Context, t *testing.T) {
	t.Helper()
	type stake struct{ TxHash, TxType, NodeID, EstimatedReward string }
	p := platformvm.NewClient(n.node)
	stakers, err := p.GetCurrentValidators(ctx, constants.PrimaryNetworkID, nil)
	require.NoError(t, err)
	potential := make(map[string]uint64)
	for _, v := range stakers {
		one, err := p.GetCurrentValidators(ctx, constants.PrimaryNetworkID, []ids.NodeID{v.NodeID})
		require.NoError(t, err)
		potential[one[0].TxID.String()] = *one[0].PotentialReward
		for _, d := range one[0].Delegators {
			potential[d.TxID.String()] = *d.PotentialReward
		}
	}
	var staking struct{ Transactions []stake }
	text, err := address.FormatBech32(constants.GetHRP(localnet.NetworkID), n.keys[0].Address().Bytes())
	require.NoError(t, err)
	n.service.records(ctx, "blockchains/p-chain/transactions:listStaking", url.Values{"addresses": {text}, "pageSize": {"100"}}, &staking)
	kinds := make(map[string]int)
	for _, tx := range staking.Transactions {
		kinds[tx.TxType]++
		if now, ok := potential[tx.TxHash]; ok {
			require.Equal(t, strconv.FormatUint(now, 10), tx.EstimatedReward, "what %s will be paid", tx.TxHash)
		}
	}
	t.Logf("stakes: %v", kinds)
	require.Positive(t, kinds["AddPermissionlessValidatorTx"], "%v", kinds)
	require.Positive(t, kinds["AddPermissionlessDelegatorTx"], "%v", kinds)
	n.compared["Data API"] += len(staking.Transactions)
}

func stakingAsset(t testing.TB, ctx context.Context, p *platformvm.Client) string {
	t.Helper()
	id, err := p.GetStakingAssetID(ctx, constants.PrimaryNetworkID)
	require.NoError(t, err)
	return id.String()
}

// assetNamed is an asset's ID, for which the node has an alias in the case of AVAX.
func assetNamed(t testing.TB, name, avaxID string) string {
	t.Helper()
	if name == "AVAX" {
		return avaxID
	}
	return name
}
