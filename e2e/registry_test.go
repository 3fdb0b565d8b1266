package e2e

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/e2e/localnet"
)

// comparedHeights is the number of P-Chain heights at which L1 validators are compared.
const comparedHeights = 100

// l1Entry is an L1 validator in an answer of the service.
type l1Entry struct {
	ValidationID          ids.ID
	SubnetID              ids.ID
	NodeID                ids.NodeID
	Weight                uint64
	RemainingBalance      uint64
	ValidationStatus      string
	MinNonce              string
	CreationTimestamp     int64
	DeactivationTimestamp int64
}

// l1Validators returns all pages of a list. It returns false if a block arrived between them.
func (s *service) l1Validators(ctx context.Context, query url.Values) (all []l1Entry, height uint64, ok bool) {
	s.t.Helper()
	query.Set("pageSize", "2")
	for {
		var page struct {
			Validators    []l1Entry
			NextPageToken string
			BlockHeight   uint64 `json:",string"`
		}
		s.records(ctx, "l1Validators", query, &page)
		if height != 0 && page.BlockHeight != height {
			return nil, 0, false
		}
		all, height = append(all, page.Validators...), page.BlockHeight
		if page.NextPageToken == "" {
			return all, height, true
		}
		query.Set("pageToken", page.NextPageToken)
	}
}

// compareL1 compares the validators of an L1 with the node's at one height. It returns the height and all validators, or
// false if the answers of service and node have different heights.
func (s *service) compareL1(ctx context.Context, p *pChain, subnetID ids.ID) (height uint64, all []l1Entry, ok bool) {
	s.t.Helper()
	subnet := func() url.Values { return url.Values{"subnetId": {subnetID.String()}} }
	every := subnet()
	every.Set("includeInactiveL1Validators", "true")
	all, height, ok = s.l1Validators(ctx, every)
	if !ok {
		return 0, nil, false
	}
	active, activeHeight, ok := s.l1Validators(ctx, subnet())
	if !ok || activeHeight != height {
		return 0, nil, false
	}
	running := make(map[ids.ID]bool)
	for _, v := range all {
		want, at, err := p.client.GetL1Validator(ctx, v.ValidationID)
		require.NoError(s.t, err)
		if at != height {
			return 0, nil, false
		}
		require.Equal(s.t, want.Balance, v.RemainingBalance, "balance of %s at height %d", v.ValidationID, height)
		require.Equal(s.t, []any{want.SubnetID, want.NodeID, want.Weight, strconv.FormatUint(want.MinNonce, 10), int64(want.StartTime)},
			[]any{v.SubnetID, v.NodeID, v.Weight, v.MinNonce, v.CreationTimestamp})
		if want.Balance > 0 {
			running[v.ValidationID] = true
			require.Equal(s.t, "active", v.ValidationStatus)
		} else {
			require.Equal(s.t, "inactive", v.ValidationStatus)
		}
	}
	current, err := p.client.GetCurrentValidators(ctx, subnetID, nil)
	require.NoError(s.t, err)
	counted := s.stakeOfToday(ctx, "validatorCount", subnetID)
	if p.height(ctx) != height {
		return 0, nil, false
	}
	require.Equal(s.t, uint64(len(running)), counted, "active validators by day")
	require.Len(s.t, all, len(current), "validators of the L1")
	require.Len(s.t, active, len(running), "active validators of the L1")
	for _, v := range active {
		require.True(s.t, running[v.ValidationID])
	}
	return height, all, true
}

// TestRegistry compares blockchains, validators, and the balances of L1 validators at each of 100 heights with those of a node.
func TestRegistry(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 10*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	p := newPChain(t, ctx, node)
	s := startService(t, program, node, webhookFlags(t)...)
	messages := newHooks(t)

	subnetID := p.accepted(p.wallet.IssueCreateSubnetTx(p.owner))
	chainID := p.accepted(p.wallet.IssueCreateChainTx(subnetID, []byte("{}"), constants.SubnetEVMID, nil, "a chain"))
	var validators []*txs.ConvertSubnetToL1Validator
	for _, balance := range []uint64{5, 20, 30, 40, 50, units.Avax} { // a second costs 1
		v := newIdentity(t)
		validators = append(validators, &txs.ConvertSubnetToL1Validator{NodeID: v.nodeID.Bytes(), Weight: 100, Balance: balance, Signer: *v.proof})
	}
	s.hook(ctx, `{"eventType":"validator_activity","url":%q,"network":"local","metadata":{"keyType":"subnetId","keys":["`+subnetID.String()+`"],
		"l1ValidatorFeeBalanceThreshold":"15","subEvents":{"validatorActivitySubEvents":["validator_stake","l1_validator_balance_increased",
		"l1_validator_disabled","l1_validator_removed","l1_validator_balance_threshold"]}}}`, messages.url)
	conversion := p.accepted(p.wallet.IssueConvertSubnetToL1Tx(subnetID, constants.PlatformChainID, []byte{1}, validators))
	p.addPrimaryValidator(ctx)

	heights := make(map[uint64]bool)
	forecast, seen := make(map[ids.ID]int64), make(map[ids.ID]bool)
	const runOut = 3 // validators whose balance is to run out in the meantime
	want := newValidatorEvents(subnetID, conversion, len(validators))
	for i := 0; len(heights) < comparedHeights || len(seen) < runOut; i++ {
		if i%17 == 16 {
			again := subnetID.Append(uint32(i / 17 % 2))
			want.increased(again, p.accepted(p.wallet.IssueIncreaseL1ValidatorBalanceTx(again, uint64(3+i))))
			delete(forecast, again)
		} else {
			p.nudge()
		}
		require.Eventually(t, func() bool {
			height, all, ok := s.compareL1(ctx, p, subnetID)
			if !ok {
				return false
			}
			want.compared(height, all)
			running := make(map[ids.ID]int64)
			for _, v := range all {
				if v.RemainingBalance > 0 {
					running[v.ValidationID] = v.DeactivationTimestamp
				}
			}
			heights[height] = true
			now, err := p.client.GetTimestamp(ctx)
			require.NoError(t, err)
			for id, at := range forecast {
				if _, still := running[id]; !still {
					require.GreaterOrEqual(t, now.Unix(), at, "validator %s ended before the second that was forecast", id)
					seen[id] = true
					delete(forecast, id)
				}
			}
			for id, at := range running {
				if before, ok := forecast[id]; ok {
					require.Equal(t, before, at, "the forecast changed although the number of validators does not change the price")
				}
				forecast[id] = at
			}
			return true
		}, time.Minute, 10*time.Millisecond, "no height at which the service and the node can be compared")
	}
	t.Logf("equal at %d heights; %d validators ran out as forecast", len(heights), len(seen))

	want.require(t, messages)
	s.compareValidators(ctx)
	s.compareBlockchains(ctx)
	var subnet struct {
		SubnetID                    ids.ID
		IsL1                        bool
		L1ConversionTransactionHash ids.ID
		Blockchains                 []struct{ BlockchainName string }
	}
	s.records(ctx, "subnets/"+subnetID.String(), nil, &subnet)
	require.Equal(t, []any{subnetID, true, conversion, 1}, []any{subnet.SubnetID, subnet.IsL1, subnet.L1ConversionTransactionHash, len(subnet.Blockchains)})
	nodeID, _, err := info.NewClient(node).GetNodeID(ctx)
	require.NoError(t, err)
	newClients(t, ctx, s).require(ctx, []clientCall{
		{"getSubnet", map[string]any{"subnetId": subnetID.String()}},
		{"listBlockchains", map[string]any{}},
		{"getBlockchain", map[string]any{"blockchainId": chainID.String()}},
		{"listValidators", map[string]any{}},
		{"listValidators", map[string]any{"validationStatus": "active"}},
		{"getValidator", map[string]any{"nodeId": nodeID.String()}},
		{"listL1Validators", map[string]any{}},
		{"listL1Validators", map[string]any{"subnetId": subnetID.String(), "includeInactiveL1Validators": true}},
		{"getNetworkDetails", map[string]any{}},
		{"getNetworkMetrics", map[string]any{"metric": "validatorCount", "subnetId": subnetID.String()}},
		{"getNetworkMetrics", map[string]any{"metric": "delegatorWeight", "subnetId": ids.Empty.String()}},
	})
}

// compareValidators compares the active validators of the primary network with the node's.
func (s *service) compareValidators(ctx context.Context) {
	s.t.Helper()
	type entry struct {
		TxID            ids.ID
		Weight          uint64 `json:",string"`
		StartTime       int64  `json:",string"`
		EndTime         int64  `json:",string"`
		PotentialReward uint64 `json:",string"`
		DelegatorCount  uint64 `json:",string"`
		DelegatorWeight uint64 `json:",string"`
		Connected       bool
	}
	var current struct{ Validators []entry }
	require.NoError(s.t, localnet.Call(ctx, s.node, "/ext/bc/P", "platform.getCurrentValidators", map[string]any{}, &current))
	query := url.Values{"validationStatus": {"active"}, "subnetId": {ids.Empty.String()}, "pageSize": {"2"}}
	got := make(map[ids.ID]entry)
	for {
		var page struct {
			Validators []struct {
				TxHash             ids.ID
				AmountStaked       uint64 `json:",string"`
				StartTimestamp     int64
				EndTimestamp       int64
				DelegatorCount     uint64
				AmountDelegated    uint64 `json:",string"`
				DelegationCapacity uint64 `json:",string"`
				UptimePerformance  *float64
				Connected          bool
				PotentialRewards   struct {
					ValidationRewardAmount uint64 `json:",string"`
				}
			}
			NextPageToken string
		}
		s.records(ctx, "validators", query, &page)
		for _, v := range page.Validators {
			require.NotNil(s.t, v.UptimePerformance)
			require.Equal(s.t, min(5*v.AmountStaked, 3*units.MegaAvax)-min(v.AmountStaked+v.AmountDelegated, 3*units.MegaAvax), v.DelegationCapacity)
			got[v.TxHash] = entry{
				TxID: v.TxHash, Weight: v.AmountStaked, StartTime: v.StartTimestamp, EndTime: v.EndTimestamp,
				PotentialReward: v.PotentialRewards.ValidationRewardAmount, DelegatorCount: v.DelegatorCount, DelegatorWeight: v.AmountDelegated, Connected: v.Connected,
			}
		}
		if page.NextPageToken == "" {
			break
		}
		query.Set("pageToken", page.NextPageToken)
	}
	require.Len(s.t, got, len(current.Validators))
	var sums struct{ weight, delegators, delegated uint64 }
	for _, want := range current.Validators {
		require.Equal(s.t, want, got[want.TxID])
		sums.weight, sums.delegators, sums.delegated = sums.weight+want.Weight, sums.delegators+want.DelegatorCount, sums.delegated+want.DelegatorWeight
	}
	s.compareDetails(ctx, sums.delegators, sums.delegated)
	for metric, want := range map[string]uint64{
		"validatorCount": uint64(len(current.Validators)), "validatorWeight": sums.weight, "delegatorCount": sums.delegators, "delegatorWeight": sums.delegated,
	} {
		require.Equal(s.t, want, s.stakeOfToday(ctx, metric, ids.Empty), metric)
	}
}

// compareDetails compares the sums over the primary network with the node's validators, peers and supply.
func (s *service) compareDetails(ctx context.Context, delegators, delegated uint64) {
	s.t.Helper()
	type rewarded struct {
		PotentialReward uint64 `json:",string"`
	}
	type staker struct {
		rewarded
		NodeID     ids.NodeID
		Weight     uint64 `json:",string"`
		Delegators []rewarded
	}
	var all struct{ Validators []staker }
	require.NoError(s.t, localnet.Call(ctx, s.node, "/ext/bc/P", "platform.getCurrentValidators", map[string]any{}, &all))
	var supply struct {
		Supply uint64 `json:",string"`
	}
	require.NoError(s.t, localnet.Call(ctx, s.node, "/ext/bc/P", "platform.getCurrentSupply", map[string]any{}, &supply))
	peers, err := info.NewClient(s.node).Peers(ctx, nil)
	require.NoError(s.t, err)
	versions := make(map[ids.NodeID]string)
	for _, peer := range peers {
		if slices.ContainsFunc(all.Validators, func(v staker) bool { return v.NodeID == peer.ID }) { // the service is a peer too
			versions[peer.ID] = peer.Version
		}
	}
	var got struct {
		ValidatorDetails struct {
			ValidatorCount               int
			TotalAmountStaked            uint64 `json:",string"`
			EstimatedAnnualStakingReward uint64 `json:",string"`
			StakingDistributionByVersion []struct {
				Version        string
				ValidatorCount int
			}
			StakingRatio float64 `json:",string"`
		}
		DelegatorDetails struct {
			DelegatorCount    uint64
			TotalAmountStaked uint64 `json:",string"`
		}
	}
	s.answer(ctx, "/v1/networks/local", nil, &got)
	var weight, rewards uint64
	for _, v := range all.Validators {
		var one struct{ Validators []staker } // a node lists the delegations of a validator that it is asked for
		require.NoError(s.t, localnet.Call(ctx, s.node, "/ext/bc/P", "platform.getCurrentValidators", map[string]any{"nodeIDs": []ids.NodeID{v.NodeID}}, &one))
		weight, rewards = weight+v.Weight, rewards+v.PotentialReward
		for _, d := range one.Validators[0].Delegators {
			rewards += d.PotentialReward
		}
	}
	require.Equal(s.t, []any{len(all.Validators), weight, rewards, delegators, delegated}, []any{
		got.ValidatorDetails.ValidatorCount, got.ValidatorDetails.TotalAmountStaked, got.ValidatorDetails.EstimatedAnnualStakingReward,
		got.DelegatorDetails.DelegatorCount, got.DelegatorDetails.TotalAmountStaked,
	})
	require.InDelta(s.t, float64(weight+delegated)/float64(supply.Supply), got.ValidatorDetails.StakingRatio, 1e-9)
	connected := 0
	for _, one := range got.ValidatorDetails.StakingDistributionByVersion {
		if one.Version == "not connected" { // a validator that no node runs
			continue
		}
		connected += one.ValidatorCount
		for _, v := range versions {
			require.Equal(s.t, v, one.Version)
		}
	}
	require.Equal(s.t, len(versions)+1, connected, "the node and the validators among its peers")
}

// stakeOfToday returns the newest point of a metric of a subnet.
func (s *service) stakeOfToday(ctx context.Context, metric string, subnetID ids.ID) uint64 {
	s.t.Helper()
	var page struct{ Results []struct{ Value uint64 } }
	s.answer(ctx, "/v2/networks/local/metrics/"+metric, url.Values{"subnetId": {subnetID.String()}, "pageSize": {"1"}}, &page)
	require.Len(s.t, page.Results, 1)
	return page.Results[0].Value
}

// compareBlockchains compares the blockchains with the node's.
func (s *service) compareBlockchains(ctx context.Context) {
	s.t.Helper()
	type entry struct {
		ID, SubnetID, VMID ids.ID
		Name               string
	}
	var listed struct{ Blockchains []entry }
	require.NoError(s.t, localnet.Call(ctx, s.node, "/ext/bc/P", "platform.getBlockchains", map[string]any{}, &listed))
	query := url.Values{"pageSize": {"1"}}
	var got []entry
	for {
		var page struct {
			Blockchains []struct {
				BlockchainID, SubnetID, VMID ids.ID
				BlockchainName               string
			}
			NextPageToken string
		}
		s.records(ctx, "blockchains", query, &page)
		for _, b := range page.Blockchains {
			got = append(got, entry{b.BlockchainID, b.SubnetID, b.VMID, b.BlockchainName})
			s.records(ctx, "blockchains/"+b.BlockchainID.String(), nil, new(any))
		}
		if page.NextPageToken == "" {
			break
		}
		query.Set("pageToken", page.NextPageToken)
	}
	require.ElementsMatch(s.t, listed.Blockchains, got)
}
