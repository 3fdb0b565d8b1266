package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"quorate/internal/node/uptime"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"
)

const (
	getHeight  = "/ext/bc/P platform.getHeight"
	getRewards = "/ext/bc/P platform.getRewardUTXOs"
)

func TestRewardUTXOs(t *testing.T) {
	found := `{"numFetched":"2","utxos":["` + hexOf(t, "own") + `","` + hexOf(t, "commission") + `"],"encoding":"hex"}`
	c := newClient(t, methods(t, map[string]string{getHeight: `{"height":"9"}`, getRewards: found}))
	got, err := c.RewardUTXOs(t.Context(), ids.ID{1}, 9)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("own"), []byte("commission")}, got)

	none := newClient(t, methods(t, map[string]string{getHeight: `{"height":"9"}`, getRewards: `{"numFetched":"0","utxos":[],"encoding":"hex"}`}))
	got, err = none.RewardUTXOs(t.Context(), ids.ID{1}, 9)
	require.NoError(t, err)
	require.Empty(t, got)

	for name, test := range map[string]struct {
		height, rewards string
		want            error
	}{
		"behind":       {`{"height":"8"}`, found, ErrBeyondTip},
		"no hex":       {`{"height":"9"}`, `{"utxos":["0xzz"],"encoding":"hex"}`, ErrMalformed},
		"bad checksum": {`{"height":"9"}`, `{"utxos":["0x0102030405"],"encoding":"hex"}`, ErrMalformed},
		"empty":        {`{"height":"9"}`, `{"utxos":[""],"encoding":"hex"}`, ErrMalformed},
		"no list":      {`{"height":"9"}`, `{"utxos":7}`, ErrMalformed},
		"no height":    {`{"height":"x"}`, found, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, methods(t, map[string]string{getHeight: test.height, getRewards: test.rewards}))
			got, err := c.RewardUTXOs(t.Context(), ids.ID{1}, 9)
			require.ErrorIs(t, err, test.want, "got %q", got)
		})
	}
	_, err = newClient(t, methods(t, map[string]string{getHeight: `{"height":"9"}`})).RewardUTXOs(t.Context(), ids.ID{1}, 9)
	require.ErrorIs(t, err, ErrNotOffered)
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.NotOffered())
	_, err = newClient(t, methods(t, map[string]string{getHeight: `{"height":"9"}`}), away).RewardUTXOs(t.Context(), ids.ID{1}, 9)
	require.NotErrorIs(t, err, ErrNotOffered, "the node that is away may offer it")
	_, err = newClient(t, methods(t, map[string]string{})).RewardUTXOs(t.Context(), ids.ID{1}, 9)
	require.NotErrorIs(t, err, ErrNotOffered, "without a P-Chain it is not known")
}

// The height and the reward come from the same node: one that lags behind would
// say that there is none.
func TestRewardUTXOsOfTheNodeThatIsThere(t *testing.T) {
	behind := methods(t, map[string]string{getHeight: `{"height":"8"}`, getRewards: `{"numFetched":"0","utxos":[],"encoding":"hex"}`})
	there := methods(t, map[string]string{getHeight: `{"height":"9"}`, getRewards: `{"numFetched":"1","utxos":["` + hexOf(t, "own") + `"],"encoding":"hex"}`})
	c := newClient(t, behind, there)
	for range 3 {
		got, err := c.RewardUTXOs(t.Context(), ids.ID{1}, 9)
		require.NoError(t, err)
		require.Equal(t, [][]byte{[]byte("own")}, got)
	}
	_, err := c.RewardUTXOs(t.Context(), ids.ID{1}, 10)
	require.ErrorIs(t, err, ErrBeyondTip)
}

// A node that is far ahead is not asked how far for every reward; close to the end of
// the chain it is.
func TestRewardUTXOsOfTheDistantPast(t *testing.T) {
	heights := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call request
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Errorf("request: %v", err)
		}
		result := `{"numFetched":"0","utxos":[],"encoding":"hex"}`
		if call.Method == "platform.getHeight" {
			heights++
			result = `{"height":"5000"}`
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","result":%s,"id":%d}`, result, call.ID)
	}))
	defer server.Close()
	c := newClient(t, server.URL)
	for _, test := range []struct {
		height uint64
		asked  int
		want   error
	}{{1, 1, nil}, {2, 1, nil}, {3976, 1, nil}, {3977, 2, nil}, {5000, 3, nil}, {5001, 4, ErrBeyondTip}, {3000, 4, nil}} {
		_, err := c.RewardUTXOs(t.Context(), ids.ID{1}, test.height)
		require.ErrorIs(t, err, test.want, "height %d", test.height)
		require.Equal(t, test.asked, heights, "times that the node was asked for its height, until %d", test.height)
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p progress
		require.False(t, p.beyond(0), "before the node said anything")
		p.note(farBeyond)
		require.False(t, p.beyond(0))
		p.note(farBeyond + 7)
		require.True(t, p.beyond(7))
		require.False(t, p.beyond(8))
		time.Sleep(progressLasts)
		require.False(t, p.beyond(7), "after a while")
	})
}

func TestCurrentStakes(t *testing.T) {
	staker := func(tx byte, rest string) string {
		return fmt.Sprintf(`{"txID":%q,"nodeID":%q,"startTime":"100","endTime":"200","weight":"300"%s}`, ids.ID{tx}, nodeA, rest)
	}
	reply := `{"validators":[` + staker(1, `,"potentialReward":"7","delegators":[`+staker(2, `,"potentialReward":"8"`)+`,`+staker(3, ``)+`]`) + `]}`
	c := newClient(t, methods(t, map[string]string{"/ext/bc/P platform.getCurrentValidators": reply}))
	nodeID, err := ids.NodeIDFromString(nodeA)
	require.NoError(t, err)
	got, err := c.CurrentStakes(t.Context(), ids.Empty, nodeID)
	require.NoError(t, err)
	stake := func(tx byte, delegator bool, reward uint64) CurrentStake {
		return CurrentStake{TxID: ids.ID{tx}, Delegator: delegator, Start: time.Unix(100, 0).UTC(), PotentialReward: reward}
	}
	require.Equal(t, []CurrentStake{stake(1, false, 7), stake(2, true, 8), stake(3, true, 0)}, got)

	_, err = c.CurrentStakes(t.Context(), ids.Empty, ids.NodeID{1})
	require.ErrorIs(t, err, ErrMalformed, "of another node")
	got, err = newClient(t, methods(t, map[string]string{"/ext/bc/P platform.getCurrentValidators": `{"validators":[]}`})).CurrentStakes(t.Context(), ids.Empty, nodeID)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestUptimes(t *testing.T) {
	const method = "/ext/bc/P platform.getCurrentValidators"
	nodeID, err := ids.NodeIDFromString(nodeA)
	require.NoError(t, err)
	reply := fmt.Sprintf(`{"validators":[{"txID":%q,"nodeID":%q,"uptime":"99.2500","connected":true},{"txID":%q,"nodeID":%q}]}`, ids.ID{1}, nodeA, ids.ID{2}, nodeB)
	got, err := newClient(t, methods(t, map[string]string{method: reply})).Uptimes(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[ids.NodeID]uptime.Uptime{nodeID: {TxID: ids.ID{1}, Percent: 99.25, Connected: true}}, got)
	_, err = newClient(t, methods(t, map[string]string{method: `{"validators":7}`})).Uptimes(t.Context())
	require.Error(t, err)
}

func TestValidatorFees(t *testing.T) {
	const method = "/ext/bc/P platform.getValidatorFeeConfig"
	c := newClient(t, methods(t, map[string]string{method: `{"capacity":20000,"target":10000,"minPrice":512,"excessConversionConstant":1246488515}`}))
	got, err := c.ValidatorFees(t.Context())
	require.NoError(t, err)
	require.Equal(t, fee.Config{Capacity: 20000, Target: 10000, MinPrice: 512, ExcessConversionConstant: 1246488515}, got)
	_, err = newClient(t, methods(t, map[string]string{method: `{}`})).ValidatorFees(t.Context())
	require.ErrorIs(t, err, ErrMalformed)
}

// FuzzLedgerCalls is for the calls that the ledger of the chains needs.
func FuzzLedgerCalls(f *testing.F) {
	for _, result := range []string{
		`{"height":"9","utxos":["0x0102"],"encoding":"hex"}`, `{"height":"9","utxos":[]}`, cChainBlock(), cChainBlock("0x", ""),
		`{"validators":[{"nodeID":"` + nodeA + `","weight":"1","delegators":[{"nodeID":"` + nodeB + `"}]}]}`,
		`{"block":"0x","encoding":"hex"}`, `{"containers":[{"index":"7","bytes":"0x","encoding":"hex"}]}`, `{"minPrice":1,"target":2}`,
	} {
		f.Add(result)
	}
	f.Fuzz(func(t *testing.T, result string) {
		c := fuzzed(t, 200, wrap(result))
		check := func(err error) {
			t.Helper()
			if err != nil && !errors.Is(err, ErrBeyondTip) {
				requireKnown(t, err)
			}
		}
		_, err := c.RewardUTXOs(t.Context(), ids.ID{1}, 9)
		check(err)
		_, err = c.CurrentStakes(t.Context(), ids.Empty, ids.EmptyNodeID)
		check(err)
		_, err = c.ValidatorFees(t.Context())
		check(err)
		_, err = c.XChainBlock(t.Context(), 7)
		check(err)
		b, err := c.CChainBlock(t.Context(), 7)
		check(err)
		if err == nil && b.Height != 7 {
			t.Errorf("got block %d", b.Height)
		}
		containers, err := c.Containers(t.Context(), XChainBlocks, 7, 2)
		check(err)
		if err == nil && (len(containers) == 0 || len(containers) > 2 || containers[0].Index != 7) {
			t.Errorf("got %d containers", len(containers))
		}
	})
}

// TestUpgrades reads the times of a network of its own. A node that does not know the newest upgrade leaves it out.
func TestUpgrades(t *testing.T) {
	const call = "/ext/info info.upgrades"
	own := upgrade.Default
	own.GraniteTime = own.FortunaTime.Add(time.Hour)
	text, err := json.Marshal(own)
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(text, &members))
	delete(members, "heliconTime")
	text, err = json.Marshal(members)
	require.NoError(t, err)
	got, err := newClient(t, methods(t, map[string]string{call: string(text)})).Upgrades(t.Context(), 99999)
	require.NoError(t, err)
	require.Equal(t, own, got)
	require.False(t, got.IsHeliconActivated(time.Now()))

	members["cortinaTime"] = "2000-01-01T00:00:00Z" // before its predecessors
	text, err = json.Marshal(members)
	require.NoError(t, err)
	_, err = newClient(t, methods(t, map[string]string{call: string(text)})).Upgrades(t.Context(), 99999)
	require.ErrorIs(t, err, ErrMalformed)
	_, err = newClient(t, methods(t, nil)).Upgrades(t.Context(), 99999)
	require.ErrorIs(t, err, ErrNotOffered)
}
