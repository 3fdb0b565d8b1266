package nodeapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	avavalidators "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"

	"quorate/p2p"
	"quorate/validators"
)

func TestUpgradesThatOnlyOthersKnow(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	local := now.Add(-time.Hour)
	one := func(weight uint64, nodes ...ids.NodeID) *avavalidators.Warp {
		key, err := localsigner.New()
		require.NoError(t, err)
		return &avavalidators.Warp{PublicKey: key.PublicKey(), PublicKeyBytes: bls.PublicKeyToUncompressedBytes(key.PublicKey()), Weight: weight, NodeIDs: nodes}
	}
	// 10 of 100 have no key.
	set := validators.NewSet(constants.PrimaryNetworkID, 5, avavalidators.WarpSet{
		Validators:  []*avavalidators.Warp{one(50, ids.NodeID{1}, ids.NodeID{2}), one(30, ids.NodeID{3}), one(10, ids.NodeID{4})},
		TotalWeight: 100,
	})
	peer := func(n byte, at time.Time) p2p.Peer { return p2p.Peer{NodeID: ids.NodeID{n}, UpgradeTime: at} }
	for _, test := range []struct {
		name   string
		peers  []p2p.Peer
		want   string
		failed error
	}{
		{"no peers", nil, `{"localUpgradeTime":"2026-03-01T11:00:00Z","modeUpgradeTime":"1970-01-01T00:00:00Z","modeUpgradeWeightPercentage":0,"numUpgradeTimes":0}`, nil},
		{
			"all know the same", []p2p.Peer{peer(1, local), peer(2, local), peer(3, local), peer(9, now)},
			`{"localUpgradeTime":"2026-03-01T11:00:00Z","modeUpgradeTime":"2026-03-01T11:00:00Z","modeUpgradeWeightPercentage":80,"numUpgradeTimes":1}`, nil,
		},
		{
			"too few know of one", []p2p.Peer{peer(3, now.Add(time.Minute)), peer(4, now.Add(time.Minute))},
			`{"localUpgradeTime":"2026-03-01T11:00:00Z","modeUpgradeTime":"2026-03-01T12:01:00Z","modeUpgradeWeightPercentage":40,"numUpgradeTimes":1}`, nil,
		},
		{
			"in a week", []p2p.Peer{peer(2, now.Add(169*time.Hour)), peer(3, local)},
			`{"localUpgradeTime":"2026-03-01T11:00:00Z","modeUpgradeTime":"2026-03-08T13:00:00Z","modeUpgradeWeightPercentage":50,"numUpgradeTimes":2,"timeUntilUpgrade":"169h0m0s"}`, nil,
		},
		{
			"in three days", []p2p.Peer{peer(1, now.Add(72*time.Hour))},
			`{"localUpgradeTime":"2026-03-01T11:00:00Z","modeUpgradeTime":"2026-03-04T12:00:00Z","modeUpgradeWeightPercentage":50,"numUpgradeTimes":1,"timeUntilUpgrade":"72h0m0s"}`, errUpgradeNeeded,
		},
		{
			"in a day", []p2p.Peer{peer(1, now.Add(24*time.Hour))},
			`{"localUpgradeTime":"2026-03-01T11:00:00Z","modeUpgradeTime":"2026-03-02T12:00:00Z","modeUpgradeWeightPercentage":50,"numUpgradeTimes":1,"timeUntilUpgrade":"24h0m0s"}`, errUpgradeWithinDay,
		},
		{
			"in an hour", []p2p.Peer{peer(1, now.Add(time.Hour))},
			`{"localUpgradeTime":"2026-03-01T11:00:00Z","modeUpgradeTime":"2026-03-01T13:00:00Z","modeUpgradeWeightPercentage":50,"numUpgradeTimes":1,"timeUntilUpgrade":"1h0m0s"}`, errUpgradeImminent,
		},
		{
			"it was", []p2p.Peer{peer(1, now.Add(-time.Minute))},
			`{"localUpgradeTime":"2026-03-01T11:00:00Z","modeUpgradeTime":"2026-03-01T11:59:00Z","modeUpgradeWeightPercentage":50,"numUpgradeTimes":1,"timeUntilUpgrade":"-1m0s"}`, errUpgradeImminent,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			said, err := coming(set, test.peers, local, now)
			require.ErrorIs(t, err, test.failed)
			b, err := json.Marshal(said)
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(b))
		})
	}
	_, err := coming(validators.NewSet(constants.PrimaryNetworkID, 5, avavalidators.WarpSet{}), nil, local, now)
	require.ErrorIs(t, err, errNoStake)
}
