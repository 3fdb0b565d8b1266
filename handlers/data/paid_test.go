package data_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/simnet/history"
)

// paidReward is a reward of the simulated network.
type paidReward struct {
	chain.Output
	staker  chain.Staker
	stakeID ids.ID
	paidAt  int64
	end     int64  // of the period
	by      ids.ID // the transaction of the reward
}

// paidRewards replays the blocks of the simulated network, without an index.
func paidRewards(t *testing.T) (all []paidReward) {
	t.Helper()
	a := simulatedArchive()
	g := a.genesis
	decoder := must(pchain.NewDecoder(pchain.DecoderOptions{
		NetworkID: archivedNetwork, Genesis: g.P, AVAXAssetID: g.AVAXAssetID, Validators: g.Validators, Supply: g.Supply, Node: computedRewards{},
	}))
	state, stakers, ends := pchain.NewState(), make(map[ids.ID]chain.Staker), make(map[ids.ID]int64)
	for _, b := range a.blocks[history.P] {
		bytes := b.Bytes
		if b.Container != nil {
			bytes = b.Container
		}
		read := must(decoder.Ledger(t.Context(), state, must(pchain.ParseBlock(bytes))))
		for _, tx := range read.Txs {
			if tx.Staker != nil {
				stakers[tx.ID], ends[tx.ID] = *tx.Staker, tx.Staker.End.Unix()
			}
			if tx.Settled == nil {
				continue
			}
			staking := tx.Settled.StakingTxID
			for _, o := range tx.Made {
				staker := stakers[staking]
				if o.Role >= chain.ValidationReward && staker.SubnetID == constants.PrimaryNetworkID {
					all = append(all, paidReward{o, staker, staking, read.Time.Unix(), ends[staking], tx.ID})
				}
			}
			ends[staking] = tx.Settled.RenewedUntil.Unix()
		}
	}
	return all
}

// TestRewardsPaid compares the rewards of all owners with those that a replay of the blocks paid.
func TestRewardsPaid(t *testing.T) {
	h := surface(t, map[string]data.Network{"fuji": simulatedArchive().network()}, compat.Auto)
	all := paidRewards(t)
	owned, kinds, nodes := make(map[ids.ShortID][]paidReward), make(map[chain.Role]int), make(map[ids.NodeID]bool)
	for _, r := range all {
		kinds[r.Role]++
		nodes[r.staker.NodeID] = true
		for _, owner := range r.Addresses {
			if r.Threshold == 1 {
				owned[owner] = append(owned[owner], r)
			}
		}
	}
	require.Len(t, kinds, 3, "rewards of validators and of delegators, and commissions")
	require.Greater(t, len(nodes), 1)
	require.True(t, slices.ContainsFunc(all, func(r paidReward) bool { return r.staker.Renewing }), "rewards of an auto-renewed validator")
	var owner string
	for id, want := range owned {
		owner = must(address.FormatBech32(constants.GetHRP(archivedNetwork), id[:]))
		slices.SortFunc(want, func(a, b paidReward) int {
			return cmp.Or(cmp.Compare(a.paidAt, b.paidAt), strings.Compare(a.ID.String(), b.ID.String()))
		})
		path := "/rewards?pageSize=3&addresses=" + owner
		requireRewards(t, want, followed(t, h, path+"&sortOrder=asc", "historicalRewards"))
		newest := slices.Clone(want)
		slices.Reverse(newest)
		requireRewards(t, newest, followed(t, h, path, "historicalRewards"))
		node := want[0].staker.NodeID
		ofNode := slices.DeleteFunc(slices.Clone(want), func(r paidReward) bool { return r.staker.NodeID != node })
		requireRewards(t, ofNode, followed(t, h, path+"&sortOrder=asc&nodeIds="+node.String(), "historicalRewards"))
	}

	requireError(t, apitest.Get(h, base+"/rewards"), http.StatusBadRequest, "addresses: ")
	requireError(t, apitest.Get(h, base+"/rewards?addresses=nobody"), http.StatusBadRequest, "addresses: ")
	off := simulatedArchive().network()
	off.Ledger = nil
	requireError(t, apitest.Get(surface(t, map[string]data.Network{"fuji": off}, compat.Auto), base+"/rewards?addresses="+owner), http.StatusServiceUnavailable, "this instance has no index of rewards")
}

func requireRewards(t *testing.T, want []paidReward, got []map[string]any) {
	t.Helper()
	types := map[chain.Role]string{chain.ValidationReward: "VALIDATOR", chain.DelegationReward: "DELEGATOR", chain.Commission: "VALIDATOR_FEE"}
	lines, shown := make([]string, len(want)), make([]string, len(got))
	for i, r := range want {
		lines[i] = fmt.Sprintln([]any{
			r.ID, r.stakeID, r.Index, types[r.Role], r.Amount, r.staker.NodeID, r.staker.Weight, r.staker.Start.Unix(), r.end, r.by,
		}...)
	}
	for i, r := range got {
		shown[i] = fmt.Sprintln([]any{
			r["utxoId"], r["txHash"], r["outputIndex"], r["rewardType"], r["reward"].(map[string]any)["amount"], r["nodeId"], r["amountStaked"],
			r["startTimestamp"], r["endTimestamp"], r["rewardTxHash"],
		}...)
	}
	require.Equal(t, lines, shown)
}
