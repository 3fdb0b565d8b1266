package data_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/internal/index/ledger"
	"quorate/internal/node/stakes"
)

// rewards is what a node says.
type rewards struct {
	known map[ids.ID]uint64
	err   error
	asked map[ids.ID]stakes.Validator
}

func (r *rewards) Potential(_ context.Context, of map[ids.ID]stakes.Validator) (map[ids.ID]uint64, error) {
	r.asked = of
	return r.known, r.err
}

// TestRewardsOfLiveStakes requests stakes whose rewards the index does not know.
func TestRewardsOfLiveStakes(t *testing.T) {
	f, r := newFake(), &rewards{}
	active := slices.IndexFunc(f.delegations, func(d *ledger.Delegation) bool { return d.StatusAt(now) == ledger.DelegationActive })
	f.delegations = f.delegations[active:]
	staking, delegation := f.stakings[0], f.delegations[0]
	staking.PotentialReward, delegation.PotentialReward = 0, 0
	f.stakings, f.delegations = f.stakings[:1], f.delegations[:1]
	n := f.network()
	n.Rewards = r
	h := surface(t, map[string]data.Network{"fuji": n}, compat.Auto)
	members := func(path, list string) map[string]any {
		w := apitest.Get(h, path)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		var body map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		return body[list].([]any)[0].(map[string]any)
	}

	r.known = map[ids.ID]uint64{staking.TxID: 501, delegation.TxID: 1001}
	require.Equal(t, "501", members(stakings, "transactions")["estimatedReward"])
	require.Equal(t, map[ids.ID]stakes.Validator{staking.TxID: {SubnetID: staking.Staker.SubnetID, NodeID: staking.Staker.NodeID}}, r.asked)
	d := members(delegators, "delegators")
	require.Equal(t, map[ids.ID]stakes.Validator{delegation.TxID: {NodeID: delegation.NodeID}}, r.asked)
	// The commission of 2 % is taken off, and what remains is rounded down.
	require.Equal(t, []any{"active", "1001", "980", "1001", "980"},
		[]any{d["delegationStatus"], d["grossReward"], d["netReward"], d["estimatedGrossReward"], d["estimatedNetReward"]})

	// A node that fails is no reason to leave out what it said before.
	r.err = errors.New("secret")
	require.Equal(t, "501", members(stakings, "transactions")["estimatedReward"])
	require.Equal(t, "1001", members(delegators, "delegators")["grossReward"])

	r.known = nil
	require.NotContains(t, members(stakings, "transactions"), "estimatedReward")
	w := apitest.Get(h, delegators)
	requireError(t, w, 503, "the node that knows what active delegations will be paid does not answer")
	require.NotContains(t, w.Body.String(), "secret")

	r.err = nil // it answers, and knows of no such stake
	require.NotContains(t, members(stakings, "transactions"), "estimatedReward")
	d = members(delegators, "delegators")
	for _, member := range []string{"grossReward", "netReward", "estimatedGrossReward", "estimatedNetReward"} {
		require.NotContains(t, d, member)
	}
	requireError(t, apitest.Get(h, delegators, "User-Agent", generatedClient), 503, "the index and the upstream node differ")

	staking.Staker.Start, delegation.Start = now.Add(time.Second), now.Add(time.Second)
	r.asked = nil
	require.Equal(t, "0", members(stakings, "transactions")["estimatedReward"])
	d = members(delegators, "delegators")
	require.Equal(t, []any{"pending", "0", "0"}, []any{d["delegationStatus"], d["grossReward"], d["estimatedNetReward"]})
	require.Nil(t, r.asked, "the node knows nothing of what has not begun")
}
