package pchainvm

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/database/leveldb"
	"github.com/ava-labs/avalanchego/database/memdb"
	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	platformgenesis "github.com/ava-labs/avalanchego/vms/platformvm/genesis"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

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

// BenchmarkExecute executes blocks of one transfer each, with the state on disk.
func BenchmarkExecute(b *testing.B) {
	r := record(b)
	c := *avagenesis.GetConfig(r.NetworkID)
	c.StartTime = r.StartTime
	g, err := genesis.FromConfig(&c)
	require.NoError(b, err)
	db, err := leveldb.New(b.TempDir(), nil, logging.NoLog{}, prometheus.NewRegistry())
	require.NoError(b, err)
	chain, err := Open(b.Context(), Options{
		Genesis: g.Bytes, NetworkID: r.NetworkID, AVAXAssetID: g.AVAXAssetID, XChainID: g.XChainID, CChainID: g.CChainID,
		Upgrades: upgrade.GetConfig(r.NetworkID), Database: db,
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, chain.Close()) }()
	owner := secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{avagenesis.EWOQKey.Address()}}
	var utxo avax.UTXO
	parsed, err := platformgenesis.Parse(g.Bytes)
	require.NoError(b, err)
	for _, u := range parsed.UTXOs {
		if out, ok := u.Out.(*secp256k1fx.TransferOutput); ok && out.OutputOwners.Equals(&owner) {
			utxo = u.UTXO
		}
	}
	out, ok := utxo.Out.(*secp256k1fx.TransferOutput)
	require.True(b, ok, "the key has no output at the beginning")
	parent, height, err := chain.LastAccepted(b.Context())
	require.NoError(b, err)
	at := time.Unix(int64(r.StartTime), 0).Add(time.Hour)
	for b.Loop() {
		const fee = 100_000
		left := &secp256k1fx.TransferOutput{Amt: out.Amt - fee, OutputOwners: owner}
		tx := &txs.Tx{
			Unsigned: &txs.BaseTx{BaseTx: avax.BaseTx{
				NetworkID: r.NetworkID, BlockchainID: constants.PlatformChainID,
				Ins:  []*avax.TransferableInput{{UTXOID: utxo.UTXOID, Asset: utxo.Asset, In: &secp256k1fx.TransferInput{Amt: out.Amt, Input: secp256k1fx.Input{SigIndices: []uint32{0}}}}},
				Outs: []*avax.TransferableOutput{{Asset: utxo.Asset, Out: left}},
			}},
			Creds: []verify.Verifiable{&secp256k1fx.Credential{Sigs: make([][65]byte, 1)}},
		}
		require.NoError(b, tx.Initialize(txs.Codec))
		height, at = height+1, at.Add(time.Second)
		made, err := block.NewBanffStandardBlock(at, parent, height, []*txs.Tx{tx})
		require.NoError(b, err)
		require.NoError(b, chain.Execute(b.Context(), made.Bytes()))
		parent, out = made.ID(), left
		utxo.UTXOID = avax.UTXOID{TxID: tx.ID()}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
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
