package data_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/registry"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// pendingStake is a current stake of the simulated network.
type pendingStake struct {
	pchain.StakerChange
	owners []ids.ShortID
}

// currentStakes replays the blocks of the simulated network up to a height, without an index of stakes, and indexes its
// validators.
func currentStakes(t *testing.T, height uint64) (all []pendingStake, validators *registry.Index) {
	t.Helper()
	a := simulatedArchive()
	g := a.genesis
	options := pchain.DecoderOptions{
		NetworkID: archivedNetwork, Genesis: g.P, AVAXAssetID: g.AVAXAssetID, Validators: g.Validators, Supply: g.Supply, Node: computedRewards{},
	}
	decoder := must(pchain.NewDecoder(options))
	options.WithoutOutputs, options.Node = true, nil
	s, projection := store.NewMemory(), registry.NewProjection(archivedNetwork, must(pchain.NewDecoder(options)))
	state, owners, current := pchain.NewState(), make(map[ids.ID][]ids.ShortID), make(map[ids.ID]pchain.StakerChange)
	for _, b := range a.blocks[history.P][:height+1] {
		bytes := b.Bytes
		if b.Container != nil {
			bytes = b.Container
		}
		var batch store.Batch
		require.NoError(t, projection.Apply(t.Context(), s, must(pchain.ParseBlock(bytes)), &batch))
		require.NoError(t, s.Commit(t.Context(), &batch))
		for _, tx := range must(decoder.Ledger(t.Context(), state, must(pchain.ParseBlock(bytes)))).Txs {
			if tx.Staker != nil {
				owners[tx.ID] = tx.Staker.RewardAddresses
			}
		}
		for _, c := range state.StakerChanges() {
			if current[c.TxID] = c; c.Left {
				delete(current, c.TxID)
			}
		}
		state.TakeChanges()
	}
	for id, c := range current {
		if c.SubnetID == constants.PrimaryNetworkID && !c.Pending {
			all = append(all, pendingStake{c, owners[id]})
		}
	}
	slices.SortFunc(all, func(a, b pendingStake) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.TxID.String(), b.TxID.String()))
	})
	return all, registry.New(s, archivedNetwork, avagenesis.GetTxFeeConfig(archivedNetwork).ValidatorFeeConfig)
}

// pendingNetwork is the simulated network with its validators and a node that knows what delegations will be paid.
func pendingNetwork(t *testing.T) (n data.Network, all []pendingStake, node *rewards) {
	t.Helper()
	a := simulatedArchive()
	n = a.network()
	var validators *registry.Index
	all, validators = currentStakes(t, a.tip(history.P).Height)
	n.Registry, n.RegistryProgress = validators, func(context.Context) data.Progress { return n.Progress(t.Context(), pID) }
	node = &rewards{known: make(map[ids.ID]uint64)}
	for _, s := range all {
		if s.Delegator {
			node.known[s.TxID] = s.PotentialReward
		}
	}
	n.Rewards = node
	return n, all, node
}

// TestPendingRewards compares the expected rewards of all owners and nodes with the stakes of a replay.
func TestPendingRewards(t *testing.T) {
	n, all, _ := pendingNetwork(t)
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	byOwner, byNode, kinds := make(map[ids.ShortID][]pendingStake), make(map[ids.NodeID][]pendingStake), make(map[bool]int)
	for _, s := range all {
		kinds[s.Delegator]++
		require.Positive(t, s.PotentialReward)
		byNode[s.NodeID] = append(byNode[s.NodeID], s)
		for _, owner := range s.owners {
			byOwner[owner] = append(byOwner[owner], s)
		}
	}
	require.Greater(t, kinds[false], 3, "validations")
	require.Greater(t, kinds[true], 3, "delegations")
	now := simulatedArchive().tip(history.P).Time
	check := func(want []pendingStake, query string) {
		t.Helper()
		for _, size := range []int{1, 2, 100} {
			path := fmt.Sprintf("/rewards:listPending?pageSize=%d&%s", size, query)
			requirePending(t, want, now, followed(t, h, path+"&sortOrder=asc", "pendingRewards"))
			newest := slices.Clone(want)
			slices.Reverse(newest)
			requirePending(t, newest, now, followed(t, h, path, "pendingRewards"))
		}
	}
	spelt := func(id ids.ShortID) string {
		return must(address.FormatBech32(constants.GetHRP(archivedNetwork), id[:]))
	}
	var owners, nodes []string
	for owner, want := range byOwner {
		owners = append(owners, "P-"+spelt(owner))
		check(want, "addresses="+spelt(owner))
		node := want[0].NodeID
		check(slices.DeleteFunc(slices.Clone(want), func(s pendingStake) bool { return s.NodeID != node }), "addresses="+spelt(owner)+"&nodeIds="+node.String())
	}
	for node, want := range byNode {
		nodes = append(nodes, node.String())
		check(want, "nodeIds="+node.String())
	}
	require.LessOrEqual(t, len(owners), 64)
	require.LessOrEqual(t, len(nodes), 64)
	check(all, "nodeIds="+strings.Join(nodes, ","))
	check(slices.DeleteFunc(slices.Clone(all), func(s pendingStake) bool { return len(s.owners) == 0 }), "addresses="+strings.Join(owners, ","))
	check(nil, "nodeIds="+ids.NodeID{9, 9}.String())
	check(nil, "addresses="+spelt(ids.ShortID{9, 9}))
}

func requirePending(t *testing.T, want []pendingStake, now time.Time, got []map[string]any) {
	t.Helper()
	lines, shown := make([]string, len(want)), make([]string, len(got))
	for i, s := range want {
		owners := make([]any, len(s.owners))
		for j, owner := range s.owners {
			owners[j] = must(address.FormatBech32(constants.GetHRP(archivedNetwork), owner[:]))
		}
		kind := "VALIDATOR"
		if s.Delegator {
			kind = "DELEGATOR"
		}
		over := 100 * float64(now.Unix()-s.Start.Unix()) / float64(s.End.Unix()-s.Start.Unix())
		lines[i] = fmt.Sprintln(s.TxID, kind, s.PotentialReward, s.NodeID, s.Weight, s.Start.Unix(), s.End.Unix(), owners, fmt.Sprintf("%.6f", over))
	}
	for i, r := range got {
		var over float64
		must(fmt.Sscan(fmt.Sprint(r["progress"]), &over))
		shown[i] = fmt.Sprintln(
			r["txHash"], r["rewardType"], r["estimatedReward"].(map[string]any)["amount"], r["nodeId"], r["amountStaked"], r["startTimestamp"], r["endTimestamp"],
			r["addresses"], fmt.Sprintf("%.6f", over),
		)
	}
	require.Equal(t, lines, shown)
}

// TestPendingRewardRefusals asks for what is refused, and of networks that lack an index or a node.
func TestPendingRewardRefusals(t *testing.T) {
	n, all, node := pendingNetwork(t)
	i := slices.IndexFunc(all, func(s pendingStake) bool { return s.Delegator })
	of := "/rewards:listPending?nodeIds=" + all[i].NodeID.String()
	serve := func() http.Handler { return surface(t, map[string]data.Network{"fuji": n}, compat.Auto) }
	h := serve()
	path := base + "/rewards:listPending"
	many := make([]string, 65)
	for i := range many {
		many[i] = must(address.FormatBech32(constants.GetHRP(archivedNetwork), ids.ShortID{9, byte(i)}.Bytes()))
	}
	for query, part := range map[string]string{
		"":                                      "addresses: is missing; give addresses or nodeIds",
		"?addresses=&nodeIds=":                  "addresses: is missing; give addresses or nodeIds",
		"?addresses=nobody":                     "addresses: ",
		"?nodeIds=nobody":                       "nodeIds: ",
		"?addresses=" + strings.Join(many, ","): "addresses: there are 65 addresses, at most 64",
		"?nodeIds=" + strings.Join(manyNodes(65), ","):            "nodeIds: there are 65 node IDs, at most 64",
		"?nodeIds=" + all[i].NodeID.String() + "&pageSize=101":    "pageSize: ",
		"?nodeIds=" + all[i].NodeID.String() + "&sortOrder=up":    "sortOrder: ",
		"?nodeIds=" + all[i].NodeID.String() + "&pageToken=x":     "pageToken: ",
		"?nodeIds=" + all[i].NodeID.String() + "&currency=eur":    "currency: the operation has no such parameter",
		"?nodeIds=" + all[i].NodeID.String() + "&addresses=fuji1": "addresses: ",
	} {
		requireError(t, apitest.Get(h, path+query), http.StatusBadRequest, part)
	}
	token := answer(t, h, of+"&pageSize=1")["nextPageToken"].(string)
	requireError(t, apitest.Get(h, base+of+"&sortOrder=asc&pageToken="+token), http.StatusBadRequest, "pageToken: ")

	// A delegation that the node does not list is left out, without an end of the list.
	whole := len(followed(t, h, of, "pendingRewards"))
	delete(node.known, all[i].TxID)
	require.Len(t, followed(t, h, of+"&pageSize=1", "pendingRewards"), whole-1)
	node.err = errors.New("secret")
	w := apitest.Get(h, base+of)
	requireError(t, w, http.StatusServiceUnavailable, "the node that knows what active delegations will be paid does not answer")
	require.NotContains(t, w.Body.String(), "secret")
	n.Rewards = nil
	requireError(t, apitest.Get(serve(), base+of), http.StatusServiceUnavailable, "this instance has no node that reports what delegations will be paid")

	behind, progress := data.Progress{}, n.RegistryProgress
	n.RegistryProgress = func(context.Context) data.Progress { return behind }
	requireError(t, apitest.Get(serve(), base+of), http.StatusServiceUnavailable, "the index of the p-chain is still catching up")
	n.RegistryProgress, n.Registry = progress, nil
	requireError(t, apitest.Get(serve(), base+of), http.StatusServiceUnavailable, "this instance has no index of blockchains and validators")
	n.Ledger = nil
	requireError(t, apitest.Get(serve(), base+of), http.StatusServiceUnavailable, "this instance has no index of delegations")
}

// renewing is a registry in which all validations start over after a page was read.
type renewing struct {
	data.Registry
	reads int
}

func (r *renewing) Validations(ctx context.Context, q registry.Query) (*registry.Page, error) {
	wants := q.Wants
	r.reads++
	q.Wants = func(v *registry.Validation, now time.Time) bool {
		if r.reads > 1 {
			v.Start = now.Add(time.Second)
		}
		return wants(v, now)
	}
	return r.Registry.Validations(ctx, q)
}

// TestPendingRewardsOfRenewedValidations requires that a validation that is renewed between two pages is not on both.
func TestPendingRewardsOfRenewedValidations(t *testing.T) {
	n, all, _ := pendingNetwork(t)
	nodes := make(map[string]bool)
	delegations := 0
	for _, s := range all {
		nodes[s.NodeID.String()] = true
		if s.Delegator {
			delegations++
		}
	}
	for _, order := range []string{"asc", "desc"} {
		n.Registry = &renewing{Registry: n.Registry}
		h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
		got := followed(t, h, "/rewards:listPending?pageSize=2&sortOrder="+order+"&nodeIds="+strings.Join(slices.Collect(maps.Keys(nodes)), ","), "pendingRewards")
		seen := make(map[any]bool)
		for _, r := range got {
			require.False(t, seen[r["txHash"]], "%s is there twice", r["txHash"])
			seen[r["txHash"]] = true
		}
		require.GreaterOrEqual(t, len(got), delegations)
		n.Registry = n.Registry.(*renewing).Registry
	}
}
