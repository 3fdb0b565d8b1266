package data_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apitest"
	"quorate/handlers/chainkit"
	"quorate/handlers/compat"
	"quorate/handlers/data"
	"quorate/internal/index/registry"
)

// stakeDays is the number of days of the simulated network.
func (r *registered) stakeDays() int {
	days, _, err := r.index.Days(context.Background(), registry.DaysQuery{Limit: 1e4})
	if err != nil {
		panic(err)
	}
	return len(days)
}

// stakeCalls are calls of the official client for metrics of the primary network; avacloud-sdk requires a subnet.
func stakeCalls() (calls []call) {
	days := simulated().stakeDays()
	for metric, size := range map[string]int{"validatorCount": 1, "validatorWeight": 100, "delegatorCount": 3, "delegatorWeight": 2} {
		calls = append(calls, call{
			Call: chainkit.Call{Name: metric, Path: "metrics.networks.getStakingMetrics", List: "results", Request: map[string]any{"metric": metric, "subnetId": ids.Empty.String(), "pageSize": size}},
			id:   "timestamp", count: days, pages: pages(days, size),
		})
	}
	return append(calls, call{Call: chainkit.Call{Name: "the network", Path: "data.primaryNetwork.getNetworkDetails", Request: map[string]any{}}, pages: 1, field: "validatorDetails"})
}

// TestStakeOfToday compares the newest point of each metric with the validators that the registry lists.
func TestStakeOfToday(t *testing.T) {
	r, h := simulated(), fuji(t, newFake())
	require.Greater(t, r.stakeDays(), 1)
	type sums struct{ validators, weight, delegators, delegated uint64 }
	want := map[string]*sums{"": {}}
	add := func(subnetID ids.ID, s sums) {
		for _, name := range []string{"", subnetID.String()} {
			if want[name] == nil {
				want[name] = new(sums)
			}
			to := want[name]
			to.validators, to.weight, to.delegators, to.delegated = to.validators+s.validators, to.weight+s.weight, to.delegators+s.delegators, to.delegated+s.delegated
		}
	}
	for _, v := range r.validations {
		if v.StatusAt(r.head.Time) == registry.Active {
			add(v.SubnetID, sums{1, v.Weight, v.Delegators, v.Delegated})
		}
	}
	for _, v := range r.l1 {
		if v.Status() == registry.L1Active {
			add(v.SubnetID, sums{validators: 1, weight: v.Weight})
		}
	}
	require.Greater(t, len(want), 2)
	for subnet, s := range want {
		for metric, value := range map[string]uint64{
			"validatorCount": s.validators, "validatorWeight": s.weight, "delegatorCount": s.delegators, "delegatorWeight": s.delegated,
		} {
			path := "/v2/networks/fuji/metrics/" + metric + "?pageSize=1"
			if subnet != "" {
				path += "&subnetId=" + subnet
			}
			w := apitest.Get(h, path)
			require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
			var answer struct {
				Results []struct {
					Value     json.Number
					Timestamp int64
				}
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			require.Equal(t, fmt.Sprint(value), answer.Results[0].Value.String(), "%s of %q", metric, subnet)
			require.Equal(t, r.head.Time.Unix()/86400*86400, answer.Results[0].Timestamp)
		}
	}
	for path, part := range map[string]string{
		"gasUsed":                          `metric: \"gasUsed\" is none of delegatorCount, delegatorWeight, validatorCount, validatorWeight`,
		"validatorCount?subnetId=nonsense": "subnetId: ", "validatorCount?startTimestamp=x": "startTimestamp: ", "validatorCount?pageToken=x": "pageToken: ",
		"validatorCount?startTimestamp=200&endTimestamp=100": "startTimestamp: it is after endTimestamp (200 ",
	} {
		w := apitest.Get(h, "/v2/networks/fuji/metrics/"+path)
		require.Equal(t, http.StatusBadRequest, w.Code, "%s", path)
		require.Contains(t, w.Body.String(), part)
	}
	w := apitest.Get(h, "/v2/networks/fuji/metrics/validatorCount?subnetId="+ids.ID{77}.String())
	require.JSONEq(t, `{"results": []}`, w.Body.String(), "a subnet without validators")
}

// TestNetworkDetails compares the sums with the validators that the registry lists, for versions of some of them.
func TestNetworkDetails(t *testing.T) {
	r := simulated()
	type ofVersion struct {
		Version        string
		AmountStaked   uint64 `json:",string"`
		ValidatorCount int
	}
	type details struct {
		ValidatorDetails struct {
			ValidatorCount               int
			TotalAmountStaked            uint64 `json:",string"`
			EstimatedAnnualStakingReward uint64 `json:",string"`
			StakingDistributionByVersion []ofVersion
			StakingRatio                 float64 `json:",string"`
		}
		DelegatorDetails struct {
			DelegatorCount    uint64
			TotalAmountStaked uint64 `json:",string"`
		}
	}
	known := make(map[ids.NodeID]string)
	var want details
	sums := map[string]*ofVersion{}
	for _, v := range r.validations {
		if v.SubnetID != ids.Empty || v.StatusAt(r.head.Time) != registry.Active {
			continue
		}
		w := &want.ValidatorDetails
		name := "not connected"
		if w.ValidatorCount%3 > 0 {
			known[v.NodeID] = fmt.Sprintf("v1.14.%d", w.ValidatorCount%3)
			name = fmt.Sprintf("avalanchego/1.14.%d", w.ValidatorCount%3)
		}
		if sums[name] == nil {
			sums[name] = &ofVersion{Version: name}
		}
		sums[name].AmountStaked += v.Weight
		sums[name].ValidatorCount++
		w.ValidatorCount++
		w.TotalAmountStaked += v.Weight
		w.EstimatedAnnualStakingReward += v.PotentialReward + v.DelegationRewards
		want.DelegatorDetails.DelegatorCount += v.Delegators
		want.DelegatorDetails.TotalAmountStaked += v.Delegated
	}
	require.Positive(t, want.DelegatorDetails.DelegatorCount)
	require.Len(t, sums, 3)
	n := newFake().network()
	n.Versions = func() map[ids.NodeID]string { return known }
	w := apitest.Get(surface(t, map[string]data.Network{"fuji": n}, compat.Auto), "/v1/networks/fuji")
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	var got details
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	for _, one := range got.ValidatorDetails.StakingDistributionByVersion {
		require.Equal(t, *sums[one.Version], one)
		delete(sums, one.Version)
	}
	require.Empty(t, sums)
	require.InDelta(t, float64(want.ValidatorDetails.TotalAmountStaked+want.DelegatorDetails.TotalAmountStaked)/float64(r.head.Supply), got.ValidatorDetails.StakingRatio, 1e-12)
	got.ValidatorDetails.StakingDistributionByVersion, got.ValidatorDetails.StakingRatio = nil, 0
	require.Equal(t, want, got)
}
