package e2e

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/secp256k1"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/avm"
	xtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	platformblock "github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
	xbuilder "github.com/ava-labs/avalanchego/wallet/chain/x/builder"

	"quorate/e2e/localnet"
)

// archivedBlock is a block in an answer of the service.
type archivedBlock struct {
	BlockNumber     string
	BlockHash       ids.ID
	ParentHash      ids.ID
	BlockTimestamp  int64
	BlockType       string
	Transactions    []ids.ID
	BlockSizeBytes  int
	ProposerDetails *archivedEnvelope
}

type archivedEnvelope struct {
	ProposerID           ids.ID
	ProposerParentID     ids.ID
	ProposerNodeID       ids.NodeID
	ProposerPChainHeight uint64
	ProposerTimestamp    int64
}

type archivedUTXO struct{ UtxoID ids.ID }

// archivedTx is a transaction in an answer of the service.
type archivedTx struct {
	TxHash                      ids.ID
	TxType                      string
	BlockHash                   ids.ID
	ConsumedUtxos, EmittedUtxos []archivedUTXO
	L1ValidatorDetails          []struct {
		ValidationID     ids.ID
		Weight           uint64
		RemainingBalance uint64
	}
}

// archived returns all pages of a list of blocks or transactions.
func archived[T any](ctx context.Context, s *service, path string, query url.Values) (all []T) {
	s.t.Helper()
	query.Set("pageSize", "3")
	for {
		var page struct {
			Blocks, Transactions []T
			NextPageToken        string
		}
		s.records(ctx, path, query, &page)
		all = append(append(all, page.Blocks...), page.Transactions...)
		if page.NextPageToken == "" {
			return all
		}
		query.Set("pageToken", page.NextPageToken)
	}
}

// decodedTx is a transaction as the node gives it.
type decodedTx struct {
	kind           string
	consumed, made []ids.ID
}

// decodedBlock is a block as the node gives it, with its envelope.
type decodedBlock struct {
	archivedBlock
	txs map[ids.ID]decodedTx
}

// TestArchive compares blocks and transactions of the P-Chain and the X-Chain with a node's.
func TestArchive(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 20*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	keys := []*secp256k1.PrivateKey{genesis.EWOQKey}
	for range 2 {
		key, err := secp256k1.NewPrivateKey()
		require.NoError(t, err)
		keys = append(keys, key)
	}
	history(t, ctx, node, keys)
	ledgerWithoutNodes(t, ctx, program, network, keys)
	p := newPChain(t, ctx, node)
	subnetID := p.accepted(p.wallet.IssueCreateSubnetTx(p.owner))
	v := newIdentity(t)
	conversion := p.accepted(p.wallet.IssueConvertSubnetToL1Tx(subnetID, constants.PlatformChainID, []byte{1}, []*txs.ConvertSubnetToL1Validator{
		{NodeID: v.nodeID.Bytes(), Weight: 100, Balance: units.Avax, Signer: *v.proof},
	}))
	p.accepted(p.wallet.IssueIncreaseL1ValidatorBalanceTx(subnetID.Append(0), units.MilliAvax))
	s := startService(t, program, node)

	owners := make(map[ids.ID][]ids.ShortID)
	blocks := map[string][]decodedBlock{"p-chain": platformBlocks(t, ctx, p, node, owners), "x-chain": assetBlocks(t, ctx, node, owners)}
	require.Eventually(t, func() bool {
		return s.indexed(ctx, map[string]uint64{"P": uint64(len(blocks["p-chain"]) - 1), "X": uint64(len(blocks["x-chain"]) - 1)})
	}, 2*time.Minute, 100*time.Millisecond)
	for chain, all := range blocks {
		s.compareBlocks(ctx, chain, all)
		s.compareProposed(ctx, chain, all)
	}
	s.compareAssetTxs(ctx, blocks["x-chain"])
	s.compareAssets(ctx, avm.NewClient(node, "X"), blocks["x-chain"])
	s.compareChainIDs(ctx, keys)
	s.comparePending(ctx, keys)
	s.compareActivity(ctx, keys, blocks, owners)
	t.Run("official clients", func(t *testing.T) { s.requireClients(t, ctx, keys, blocks) })
	var converted archivedTx
	s.records(ctx, "blockchains/p-chain/transactions/"+conversion.String(), nil, &converted)
	require.Len(t, converted.L1ValidatorDetails, 1)
	require.Equal(t, []any{subnetID.Append(0), uint64(100), units.Avax}, []any{
		converted.L1ValidatorDetails[0].ValidationID, converted.L1ValidatorDetails[0].Weight, converted.L1ValidatorDetails[0].RemainingBalance,
	})
}

// compareBlocks compares the lists of blocks and transactions, and each of them, with the node's.
func (s *service) compareBlocks(ctx context.Context, chain string, want []decodedBlock) {
	t, path := s.t, "blockchains/"+chain
	t.Helper()
	kinds := make(map[string]int)
	got := archived[archivedBlock](ctx, s, path+"/blocks", url.Values{})
	require.Len(t, got, len(want))
	var txIDs []ids.ID
	for i, b := range want {
		listed := got[len(got)-1-i]
		require.Equal(t, b.archivedBlock, listed, "%s %d", chain, i)
		var byID archivedBlock
		s.records(ctx, path+"/blocks/"+b.BlockHash.String(), nil, &byID)
		require.Equal(t, b.archivedBlock, byID)
		for _, id := range b.Transactions {
			txIDs = append(txIDs, id)
			var tx archivedTx
			s.records(ctx, path+"/transactions/"+id.String(), nil, &tx)
			require.Equal(t, []any{id, b.txs[id].kind, b.BlockHash}, []any{tx.TxHash, tx.TxType, tx.BlockHash})
			require.ElementsMatch(t, b.txs[id].consumed, utxoIDs(tx.ConsumedUtxos), tx.TxType)
			require.Equal(t, b.txs[id].made, utxoIDs(tx.EmittedUtxos), tx.TxType)
			kinds[tx.TxType]++
		}
	}
	var listed []ids.ID
	for _, tx := range archived[archivedTx](ctx, s, path+"/transactions", url.Values{"sortOrder": {"asc"}}) {
		listed = append(listed, tx.TxHash)
	}
	require.Equal(t, txIDs, listed)
	require.Greater(t, len(kinds), 4)
	t.Logf("%s: %d blocks, %d transactions are equal: %v", chain, len(want), len(txIDs), kinds)
}

func utxoIDs(all []archivedUTXO) []ids.ID {
	var found []ids.ID
	for _, one := range all {
		found = append(found, one.UtxoID)
	}
	return found
}

// envelopes returns the proposer envelopes of a chain by the ID of the block in them.
func envelopes(t *testing.T, ctx context.Context, node, chain string, blockID func([]byte) ids.ID) map[ids.ID]*archivedEnvelope {
	t.Helper()
	containers, err := indexer.NewClient(node+"/ext/index/"+chain+"/block").GetContainerRange(ctx, 0, 1024)
	require.NoError(t, err)
	all := make(map[ids.ID]*archivedEnvelope)
	for _, c := range containers {
		b, err := proposer.ParseWithoutVerification(c.Bytes)
		if err != nil {
			continue
		}
		e := &archivedEnvelope{ProposerID: c.ID, ProposerParentID: b.ParentID()}
		if signed, ok := b.(proposer.SignedBlock); ok {
			e.ProposerNodeID, e.ProposerPChainHeight, e.ProposerTimestamp = signed.Proposer(), signed.PChainHeight(), signed.Timestamp().Unix()
		}
		all[blockID(b.Block())] = e
	}
	require.NotEmpty(t, all)
	return all
}

func platformBlocks(t *testing.T, ctx context.Context, p *pChain, node string, owners map[ids.ID][]ids.ShortID) (all []decodedBlock) {
	t.Helper()
	around := envelopes(t, ctx, node, "P", func(b []byte) ids.ID {
		parsed, err := platformblock.Parse(platformblock.Codec, b)
		require.NoError(t, err)
		return parsed.ID()
	})
	for height := range p.height(ctx) + 1 {
		bytes, err := p.client.GetBlockByHeight(ctx, height)
		require.NoError(t, err)
		b, err := platformblock.Parse(platformblock.Codec, bytes)
		require.NoError(t, err)
		d := decodedBlock{archivedBlock: archivedBlock{
			BlockNumber: strconv.FormatUint(height, 10), BlockHash: b.ID(), ParentHash: b.Parent(), BlockType: reflect.TypeOf(b).Elem().Name(),
			BlockSizeBytes: len(bytes), ProposerDetails: around[b.ID()], Transactions: []ids.ID{},
		}, txs: make(map[ids.ID]decodedTx)}
		if timed, ok := b.(platformblock.BanffBlock); ok {
			d.BlockTimestamp = timed.Timestamp().Unix()
		} else {
			require.Zero(t, height)
			d.BlockTimestamp = int64(genesis.GetConfig(localnet.NetworkID).StartTime)
		}
		for _, tx := range b.Txs() {
			d.Transactions = append(d.Transactions, tx.ID())
			made := utxosOf(tx.UTXOs())
			ownersOf(tx.UTXOs(), owners)
			if staker, ok := tx.Unsigned.(txs.PermissionlessStaker); ok {
				made = follow(tx.ID(), made, staker.Stake(), owners)
			}
			if export, ok := tx.Unsigned.(*txs.ExportTx); ok {
				made = follow(tx.ID(), made, export.ExportedOutputs, owners)
			}
			d.txs[tx.ID()] = decodedTx{kind: reflect.TypeOf(tx.Unsigned).Elem().Name(), consumed: tx.InputIDs().List(), made: made}
		}
		all = append(all, d)
	}
	return all
}

func assetBlocks(t *testing.T, ctx context.Context, node string, owners map[ids.ID][]ids.ShortID) (all []decodedBlock) {
	t.Helper()
	client := avm.NewClient(node, "X")
	around := envelopes(t, ctx, node, "X", func(b []byte) ids.ID {
		parsed, err := xbuilder.Parser.ParseBlock(b)
		require.NoError(t, err)
		return parsed.ID()
	})
	tip, err := client.GetHeight(ctx)
	require.NoError(t, err)
	for height := range tip + 1 {
		bytes, err := client.GetBlockByHeight(ctx, height)
		require.NoError(t, err)
		b, err := xbuilder.Parser.ParseBlock(bytes)
		require.NoError(t, err)
		d := decodedBlock{archivedBlock: archivedBlock{
			BlockNumber: fmt.Sprint(height), BlockHash: b.ID(), ParentHash: b.Parent(), BlockTimestamp: b.Timestamp().Unix(), BlockType: "StandardBlock",
			BlockSizeBytes: len(bytes), ProposerDetails: around[b.ID()], Transactions: []ids.ID{},
		}, txs: make(map[ids.ID]decodedTx)}
		for _, tx := range b.Txs() {
			d.Transactions = append(d.Transactions, tx.ID())
			var consumed []ids.ID
			for _, in := range tx.Unsigned.InputUTXOs() {
				consumed = append(consumed, in.InputID())
			}
			made := utxosOf(tx.UTXOs())
			ownersOf(tx.UTXOs(), owners)
			if export, ok := tx.Unsigned.(*xtxs.ExportTx); ok {
				made = follow(tx.ID(), made, export.ExportedOuts, owners)
			}
			d.txs[tx.ID()] = decodedTx{kind: reflect.TypeOf(tx.Unsigned).Elem().Name(), consumed: consumed, made: made}
		}
		all = append(all, d)
	}
	return all
}

func utxosOf(all []*avax.UTXO) []ids.ID {
	var found []ids.ID
	for _, one := range all {
		found = append(found, one.InputID())
	}
	return found
}

// compareAssets compares the assets that blocks create, and AVAX, with the node's.
func (s *service) compareAssets(ctx context.Context, client *avm.Client, blocks []decodedBlock) {
	t := s.t
	t.Helper()
	avax, err := client.GetAssetDescription(ctx, "AVAX")
	require.NoError(t, err)
	caps := map[ids.ID]string{avax.AssetID: "fixed"}
	for _, b := range blocks {
		for id, tx := range b.txs {
			if tx.kind == "CreateAssetTx" {
				caps[id] = "variable"
			}
		}
	}
	require.Greater(t, len(caps), 1)
	for id, limit := range caps {
		want, err := client.GetAssetDescription(ctx, id.String())
		require.NoError(t, err)
		var got struct {
			AssetID      ids.ID `json:"assetId"`
			Name, Symbol string
			Denomination uint8
			Cap          string
		}
		s.records(ctx, "blockchains/x-chain/assets/"+id.String(), nil, &got)
		require.Equal(t, []any{want.AssetID, want.Name, want.Symbol, uint8(want.Denomination), limit}, []any{got.AssetID, got.Name, got.Symbol, got.Denomination, got.Cap})
	}
}

// compareChainIDs compares the chains of the keys' addresses with those on which the history pays them.
func (s *service) compareChainIDs(ctx context.Context, keys []*secp256k1.PrivateKey) {
	t := s.t
	t.Helper()
	unused, err := secp256k1.NewPrivateKey()
	require.NoError(t, err)
	var got struct {
		Addresses []struct {
			Address       string
			BlockchainIDs []ids.ID `json:"blockchainIds"`
		}
	}
	var texts []string
	for _, key := range append(keys, unused) {
		a := key.Address()
		text, err := address.FormatBech32(s.hrp(), a[:])
		require.NoError(t, err)
		texts = append(texts, text)
	}
	s.records(ctx, "addresses:listChainIds", url.Values{"addresses": {joined(texts)}}, &got)
	require.Len(t, got.Addresses, len(texts))
	for _, one := range got.Addresses {
		if one.Address == texts[len(texts)-1] {
			require.Empty(t, one.BlockchainIDs)
		} else {
			require.Len(t, one.BlockchainIDs, 3, "each has had outputs on the P-, X- and C-Chain")
		}
	}
}

// requireClients calls operations on blocks, transactions, assets and outputs through the official clients. The parts above
// compare what they answer with the node.
func (s *service) requireClients(t *testing.T, ctx context.Context, keys []*secp256k1.PrivateKey, blocks map[string][]decodedBlock) {
	var addresses []string
	for _, key := range keys {
		a := key.Address()
		text, err := address.FormatBech32(s.hrp(), a[:])
		require.NoError(t, err)
		addresses = append(addresses, text)
	}
	all := strings.Join(addresses, ",")
	calls := []clientCall{
		{"getChainIdsForAddresses", map[string]any{"addresses": all}},
		{"listSubnets", map[string]any{}},
		{"listDelegators", map[string]any{}},
		{"listDelegators", map[string]any{"rewardAddresses": addresses[1], "sortOrder": "asc"}},
		{"listStakingTransactions", map[string]any{"blockchainId": "p-chain", "addresses": all}},
		{"listHistoricalPrimaryNetworkRewards", map[string]any{"addresses": all}},
		{"listPendingPrimaryNetworkRewards", map[string]any{"addresses": all}},
		{"listVerticesByHeight", map[string]any{"blockchainId": "x-chain", "vertexHeight": 0}},
		{"listLatestXChainVertices", map[string]any{"blockchainId": "x-chain"}},
		{"listUtxosOfBody", map[string]any{"blockchainId": "p-chain", "primaryNetworkAddressesBodyDto": map[string]any{"addresses": all}}},
	}
	for _, chain := range []string{"p-chain", "x-chain", "c-chain"} {
		calls = append(calls,
			clientCall{"getLastActivityTimestampByAddresses", map[string]any{"blockchainId": chain, "addresses": all}},
			clientCall{"getLastActivityTimestampByAddressesV2", map[string]any{"blockchainId": chain, "primaryNetworkAddressesBodyDto": map[string]any{"addresses": all}}},
			clientCall{"listBalances", map[string]any{"blockchainId": chain, "addresses": all}},
			clientCall{"listUtxos", map[string]any{"blockchainId": chain, "addresses": all, "includeSpent": true}},
		)
	}
	var assets []string
	for chain, listed := range blocks {
		on := map[string]any{"blockchainId": chain}
		calls = append(calls, clientCall{"listLatestPrimaryNetworkBlocks", on}, clientCall{"listLatestPrimaryNetworkTransactions", on})
		proposers := make(map[ids.NodeID]bool)
		for _, b := range listed {
			if e := b.ProposerDetails; e != nil && e.ProposerNodeID != ids.EmptyNodeID {
				proposers[e.ProposerNodeID] = true
			}
			calls = append(calls, clientCall{"getBlockById", map[string]any{"blockchainId": chain, "blockId": b.BlockHash.String()}})
			for id, tx := range b.txs {
				calls = append(calls, clientCall{"getTxByHash", map[string]any{"blockchainId": chain, "txHash": id.String()}})
				if tx.kind == "CreateAssetTx" {
					assets = append(assets, id.String())
				}
			}
		}
		for by := range proposers {
			calls = append(calls, clientCall{"listPrimaryNetworkBlocksByNodeId", map[string]any{"blockchainId": chain, "nodeId": by.String()}})
		}
	}
	for _, id := range assets {
		asset := map[string]any{"blockchainId": "x-chain", "assetId": id}
		calls = append(calls, clientCall{"getAssetDetails", asset}, clientCall{"listAssetTransactions", asset})
	}
	newClients(t, ctx, s).require(ctx, calls)
}

// comparePending compares the expected rewards of the keys' addresses with the potential rewards of the node's stakers.
func (s *service) comparePending(ctx context.Context, keys []*secp256k1.PrivateKey) {
	t := s.t
	t.Helper()
	type owner struct{ Addresses []string }
	type staker struct {
		TxID                                                      ids.ID
		PotentialReward                                           string
		ValidationRewardOwner, DelegationRewardOwner, RewardOwner owner
	}
	var current struct {
		Validators []struct {
			staker
			NodeID ids.NodeID
		}
	}
	require.NoError(t, localnet.Call(ctx, s.node, "/ext/bc/P", "platform.getCurrentValidators", map[string]any{}, &current))
	ours := make(map[string]bool)
	var addresses []string
	for _, key := range keys {
		a := key.Address()
		text, err := address.FormatBech32(s.hrp(), a[:])
		require.NoError(t, err)
		ours["P-"+text], addresses = true, append(addresses, text)
	}
	want := make(map[ids.ID]string)
	for _, v := range current.Validators {
		if slices.ContainsFunc(v.ValidationRewardOwner.Addresses, func(a string) bool { return ours[a] }) {
			want[v.TxID] = v.PotentialReward + " VALIDATOR"
		}
		var one struct {
			Validators []struct{ Delegators []staker }
		}
		require.NoError(t, localnet.Call(ctx, s.node, "/ext/bc/P", "platform.getCurrentValidators", map[string]any{"nodeIDs": []ids.NodeID{v.NodeID}}, &one))
		for _, d := range one.Validators[0].Delegators {
			if slices.ContainsFunc(d.RewardOwner.Addresses, func(a string) bool { return ours[a] }) {
				want[d.TxID] = d.PotentialReward + " DELEGATOR"
			}
		}
	}
	require.GreaterOrEqual(t, len(want), 3)
	got := make(map[ids.ID]string)
	query := url.Values{"addresses": {joined(addresses)}, "pageSize": {"1"}}
	for {
		var page struct {
			PendingRewards []struct {
				TxHash          ids.ID
				RewardType      string
				EstimatedReward struct{ Amount string }
			}
			NextPageToken string
		}
		s.records(ctx, "rewards:listPending", query, &page)
		for _, r := range page.PendingRewards {
			got[r.TxHash] = r.EstimatedReward.Amount + " " + r.RewardType
		}
		if page.NextPageToken == "" {
			break
		}
		query.Set("pageToken", page.NextPageToken)
	}
	require.Equal(t, want, got)
	t.Logf("%d expected rewards are equal", len(got))
}
