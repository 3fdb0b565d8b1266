package network

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"

	"quorate/aggregator"
	"quorate/handlers/console"
	"quorate/p2p"
	"quorate/validators"
)

func TestMembersHaveTheirConnections(t *testing.T) {
	since := time.Unix(1_700_000_000, 0)
	c := connections{
		peers:   map[ids.NodeID]p2p.Peer{{2}: {NodeID: ids.NodeID{2}, Version: "v1.15.0", Since: since}},
		failure: func(id ids.NodeID) p2p.Failure { return p2p.Failure{Obstacle: p2p.ObstacleClock, Detail: id.String()} },
		lost:    func(id ids.NodeID) time.Time { return since.Add(time.Duration(id[0])) },
		answerTime: func(id ids.NodeID, _ *snow.Warp) (time.Duration, bool) {
			return time.Duration(id[0]) * time.Second, id != ids.NodeID{1}
		},
	}
	set := validators.NewSet(ids.Empty, 1, snow.WarpSet{TotalWeight: 100, Validators: []*snow.Warp{
		{Weight: 10, NodeIDs: []ids.NodeID{{3}, {5}, {4}}}, {Weight: 50, NodeIDs: []ids.NodeID{{1}, {2}}}, {Weight: 40},
	}})
	require.Equal(t, []console.Validator{
		{NodeIDs: []ids.NodeID{{1}, {2}}, Weight: 50, Connected: true, Version: "v1.15.0", Since: since, AnswerTime: 2 * time.Second},
		{Weight: 40},
		{NodeIDs: []ids.NodeID{{3}, {5}, {4}}, Weight: 10, Reason: aggregator.ReasonClock, Detail: ids.NodeID{3}.String(), Lost: since.Add(5), AnswerTime: 3 * time.Second},
	}, c.members(set))
}
