package pchainvm

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"

	"github.com/ava-labs/avalanchego/database/memdb"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/genesis"
)

// recording is the P-Chain of real nodes; see internal/chain.
type recording struct {
	NetworkID uint32
	StartTime uint64
	P         [][]byte
}

func record(t testing.TB) *recording {
	t.Helper()
	f, err := os.Open("../../chain/testdata/localnet.json.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	r := new(recording)
	require.NoError(t, json.NewDecoder(z).Decode(r))
	return r
}

func open(t testing.TB, r *recording, db *memdb.Database) *Chain {
	t.Helper()
	c := *avagenesis.GetConfig(r.NetworkID)
	c.StartTime = r.StartTime
	g, err := genesis.FromConfig(&c)
	require.NoError(t, err)
	chain, err := Open(t.Context(), Options{
		Genesis: g.Bytes, NetworkID: r.NetworkID, AVAXAssetID: g.AVAXAssetID, XChainID: g.XChainID, CChainID: g.CChainID,
		Upgrades: upgrade.GetConfig(r.NetworkID), Database: db,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, chain.Close()) })
	return chain
}

// TestRealBlocks executes the blocks of a real network.
func TestRealBlocks(t *testing.T) {
	r := record(t)
	c := open(t, r, memdb.New())
	for i, b := range r.P {
		if e, ok := envelope.Open(b); ok {
			b = e.Block
		}
		require.NoError(t, c.Execute(t.Context(), b), "block %d", i+1)
		_, height, err := c.LastAccepted(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, i+1, height)
	}
	height, err := c.vm.GetMinimumHeight(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, len(r.P), height, "all blocks are old, however late they were executed")
}

// TestBehindClock executes a block that comes from the future to this machine's clock.
func TestBehindClock(t *testing.T) {
	r := record(t)
	c := open(t, r, memdb.New())
	first, ok := envelope.Open(r.P[0])
	require.True(t, ok)
	parsed, err := block.Parse(block.Codec, first.Block)
	require.NoError(t, err)
	standard := parsed.(*block.BanffStandardBlock)
	future := time.Now().Add(time.Hour)
	later, err := block.NewBanffStandardBlock(future, standard.PrntID, standard.Hght, standard.Transactions)
	require.NoError(t, err)
	require.NoError(t, c.Execute(t.Context(), later.Bytes()))
	require.WithinDuration(t, time.Now(), c.vm.Clock().Time(), time.Minute, "the clock goes on")
}

// TestStakeLimits requires the stake limits of nodes on a private network: they bound what is restaked, and the API
// returns them.
func TestStakeLimits(t *testing.T) {
	r := record(t)
	want, got := avagenesis.GetStakingConfig(r.NetworkID), limits(r.NetworkID)
	require.Equal(t, want.MaxValidatorStake, got.MaxValidatorStake)
	require.NotZero(t, got.MaxValidatorStake)
	require.Equal(t, want.MinValidatorStake, got.MinValidatorStake)
	require.Equal(t, want.MinDelegatorStake, got.MinDelegatorStake)
}
