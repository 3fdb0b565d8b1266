package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
)

func TestValidators(t *testing.T) {
	since := time.UnixMilli(1_700_000_000_000)
	var all []Validator
	for i := range 250 {
		v := Validator{NodeIDs: []ids.NodeID{{byte(i), 1}}, Weight: uint64(1000 - i), Connected: i%2 == 0, AnswerTime: time.Duration(i) * time.Millisecond}
		if v.Connected {
			v.Version, v.Since = "v1.15.0", since
		} else {
			v.Reason, v.Detail = aggregator.ReasonClock, "75 s"
			if i != 3 {
				v.Lost = since
			}
		}
		all = append(all, v)
	}
	_, e := newTest(t, Options{
		Validators: func(network string, subnet ids.ID) ([]Validator, uint64, bool) {
			return all, 5000, network == "fuji" && subnet == ids.ID{1}
		},
		Memberships: func(_ string, node ids.NodeID) []Membership {
			if node != all[1].NodeIDs[0] {
				return nil
			}
			return []Membership{{ids.ID{1}, 5000, all[1]}}
		},
	})
	list := func(query string) (v membersView) {
		t.Helper()
		w := get(e, "/console/api/validators?network=fuji&"+query)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
		return v
	}
	subnet := "subnet=" + ids.ID{1}.String()
	v := list(subnet)
	require.Equal(t, []any{250, uint64(5000), defaultMembers}, []any{v.All, v.TotalWeight, *v.Next})
	require.Equal(t, memberView{NodeIDs: all[2].NodeIDs, Weight: 998, Connected: true, Version: "v1.15.0", Since: since.UnixMilli(), AnswerTime: 2}, v.Validators[2])
	require.Equal(t, memberView{
		NodeIDs: all[1].NodeIDs, Weight: 999, Lost: since.UnixMilli(), AnswerTime: 1, Reason: "CLOCK",
		Meaning: "are not connected: their clocks and this machine's differ by more than 60 s (75 s)", Remedy: aggregator.ReasonClock.Remedy(),
	}, v.Validators[1])
	require.Zero(t, v.Validators[3].Lost, "it was never connected")
	require.WithinDuration(t, time.Now(), time.UnixMilli(v.Started), time.Minute)
	require.Len(t, list(subnet+"&limit=1000").Validators, maxMembers)
	require.Len(t, list(subnet+"&limit=7").Validators, 7)
	var seen []memberView
	for offset := 0; ; offset = *v.Next {
		v = list(fmt.Sprintf("%s&state=missing&offset=%d", subnet, offset))
		require.Equal(t, 125, v.All)
		if seen = append(seen, v.Validators...); v.Next == nil {
			break
		}
	}
	require.Len(t, seen, 125)
	require.Empty(t, list(subnet+"&offset=999999999999").Validators)

	v = list("node=" + all[1].NodeIDs[0].String())
	require.Equal(t, []any{1, ids.ID{1}.String(), uint64(5000), "CLOCK"}, []any{v.All, v.Validators[0].SubnetID, v.Validators[0].TotalWeight, v.Validators[0].Reason})
	require.Empty(t, list("node="+ids.NodeID{9}.String()).Validators)
	for query, status := range map[string]int{
		"": 400, "subnet=x": 400, "node=x": 400, "node=NodeID-" + strings.Repeat("2", 100): 400, "subnet=" + ids.ID{2}.String(): 404, subnet + "&offset=x": 400,
	} {
		require.Equal(t, status, get(e, "/console/api/validators?network=fuji&"+query).Code, query)
	}
}
