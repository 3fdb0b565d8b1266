package webhook_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/registry"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
	"quorate/internal/webhook"
)

// indexValidators indexes a random history. It returns the index and the height of the last block.
func indexValidators(t *testing.T) (*registry.Index, uint64) {
	t.Helper()
	const network, transactions = 12345, 2000
	g, err := history.New(history.Options{Seed: 3, NetworkID: network, Txs: transactions, Span: 10 * 24 * time.Hour})
	require.NoError(t, err)
	fees := avagenesis.GetTxFeeConfig(network).ValidatorFeeConfig
	s := store.NewMemory()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var projection *registry.Projection
	var batch store.Batch
	height := uint64(0)
	for g.Txs() < transactions || g.Pending() > 0 {
		made, err := g.Next()
		require.NoError(t, err)
		if made.Chain != history.P {
			continue
		}
		b, err := pchain.ParseBlock(made.Bytes)
		require.NoError(t, err)
		if projection == nil {
			of, err := genesis.Of(network, b.ID)
			require.NoError(t, err)
			decoder, err := pchain.NewDecoder(pchain.DecoderOptions{
				NetworkID: network, Genesis: of.P, AVAXAssetID: of.AVAXAssetID, Validators: of.Validators, Supply: of.Supply, ValidatorFees: &fees, WithoutOutputs: true,
			})
			require.NoError(t, err)
			projection = registry.NewProjection(network, decoder)
		}
		require.NoError(t, projection.Apply(t.Context(), s, b, &batch))
		height = b.Height
	}
	require.NoError(t, s.Commit(t.Context(), &batch))
	return registry.New(s, network, fees), height
}

// TestValidatorEvents compares the events of all blocks that webhooks with different filters report with what the index
// says about each validator.
func TestValidatorEvents(t *testing.T) {
	index, tip := indexValidators(t)
	source := webhook.NewValidators(12345, index, func() (uint64, bool) { return tip, true })
	page, err := index.L1Validators(t.Context(), registry.L1Query{Inactive: true, Limit: 1000})
	require.NoError(t, err)
	require.Greater(t, len(page.Validators), 10)
	subnets, nodes := make(map[ids.ID]bool), make(map[ids.NodeID]bool)
	for _, v := range page.Validators {
		subnets[v.SubnetID], nodes[v.NodeID] = true, true
	}
	subnets[ids.Empty] = true
	var filters []*webhook.ValidatorFilter
	for id := range subnets {
		filters = append(filters, &webhook.ValidatorFilter{SubnetID: &id, SubEvents: webhook.SubEvents, Threshold: 1_000_000})
	}
	for id := range nodes {
		filters = append(filters, &webhook.ValidatorFilter{NodeID: &id, SubEvents: webhook.SubEvents[3:], Threshold: 1})
	}
	one := page.Validators[len(page.Validators)/2]
	filters = append(filters, &webhook.ValidatorFilter{SubnetID: &one.SubnetID, NodeIDs: []ids.NodeID{one.NodeID}, SubEvents: webhook.SubEvents, Threshold: 1 << 40})

	reported := make(map[webhook.SubEvent]int)
	for height := uint64(1); height <= tip; height++ {
		a, err := index.Activity(t.Context(), height)
		require.NoError(t, err)
		b, err := source.Block(t.Context(), height)
		require.NoError(t, err)
		for _, f := range filters {
			events, err := b.Events(t.Context(), &webhook.Webhook{Validators: f})
			require.NoError(t, err)
			var got []string
			names := make(map[string]bool)
			for _, e := range events {
				names[e.Name] = true
				text, err := json.Marshal(e.Body)
				require.NoError(t, err)
				var body struct {
					EventType              webhook.SubEvent
					BlockNumber            uint64 `json:",string"`
					NodeID                 string
					SubnetID               ids.ID
					Rewards                []any
					StakingTxHash, Weight  string
					L1ValidatorDetails     *struct{ ValidationID ids.ID }
					BlockTimestamp         int64
					L1ValidatorFeeBalance  string
					StartTimestamp, TxHash any
				}
				require.NoError(t, json.Unmarshal(text, &body))
				require.Equal(t, height, body.BlockNumber)
				require.Equal(t, a.Time.Unix(), body.BlockTimestamp)
				if body.EventType == webhook.RewardDistribution {
					require.NotEmpty(t, body.Rewards, "%s", text)
				}
				validation := ids.Empty
				if body.L1ValidatorDetails != nil {
					validation = body.L1ValidatorDetails.ValidationID
				} else {
					require.NotEmpty(t, body.StakingTxHash, "%s", text)
				}
				got = append(got, fmt.Sprintln(body.EventType, body.NodeID, body.SubnetID, validation))
				reported[body.EventType]++
			}
			require.Len(t, names, len(events), "events of a block have different names")
			require.ElementsMatch(t, eventsOf(t, index, a, page.Validators, f), got, "height %d", height)
		}
	}
	for _, e := range webhook.SubEvents {
		require.Positive(t, reported[e], "no event %s", e)
	}
}

// eventsOf returns the events of a block that a filter selects, in the plainest way.
func eventsOf(t *testing.T, index *registry.Index, a *registry.Activity, all []*registry.L1Validator, f *webhook.ValidatorFilter) (want []string) {
	t.Helper()
	kinds := map[registry.EventKind]webhook.SubEvent{
		registry.Staked: webhook.ValidatorStake, registry.Delegated: webhook.DelegatorStake, registry.Paid: webhook.RewardDistribution,
		registry.BalanceIncreased: webhook.L1BalanceIncreased, registry.Disabled: webhook.L1Disabled, registry.Retired: webhook.L1Removed,
	}
	selects := func(nodeID ids.NodeID, subnetID ids.ID) bool {
		switch {
		case f.NodeID != nil:
			return nodeID == *f.NodeID
		case f.NodeIDs != nil:
			return subnetID == *f.SubnetID && nodeID == f.NodeIDs[0]
		}
		return subnetID == *f.SubnetID
	}
	removed := make(map[ids.ID]bool)
	for _, e := range a.Events {
		if e.Kind == registry.Retired {
			removed[e.ValidationID] = true
		}
		if selects(e.NodeID, e.SubnetID) && slices.Contains(f.SubEvents, kinds[e.Kind]) {
			want = append(want, fmt.Sprintln(kinds[e.Kind], e.NodeID, e.SubnetID, e.ValidationID))
		}
	}
	if a.Time.IsZero() {
		return want
	}
	for _, v := range all {
		before, after, err := index.Balances(t.Context(), a, []ids.ID{v.ValidationID})
		require.NoError(t, err)
		if selects(v.NodeID, v.SubnetID) && !removed[v.ValidationID] && before[0] >= f.Threshold && after[0] < f.Threshold {
			want = append(want, fmt.Sprintln(webhook.L1BalanceThreshold, v.NodeID, v.SubnetID, v.ValidationID))
		}
	}
	return want
}
