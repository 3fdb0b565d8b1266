package genesis_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/avm"
	"github.com/ava-labs/avalanchego/vms/avm/block"
	avmtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	platformgenesis "github.com/ava-labs/avalanchego/vms/platformvm/genesis"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/ledger"
	"quorate/internal/chain/xchain"
)

// sums counts the outputs of a block and sums their amounts.
func sums(b *ledger.Block) (outputs, stakes int, total, staked uint64) {
	for _, tx := range b.Txs {
		for _, out := range tx.Made {
			total += out.Amount
			if out.Role == ledger.Stake {
				stakes++
				staked += out.Amount
			} else {
				outputs++
			}
		}
	}
	return outputs, stakes, total, staked
}

// TestGenesis compares the genesis with avalanchego's result for the same configuration, and both with known figures.
//
//test:plain
func TestGenesis(t *testing.T) {
	for name, test := range map[string]struct {
		networkID             uint32
		asset, xChain, cChain string
		utxos                 int
		validators, xUTXOs    int
		pAVAX, xAVAX          uint64
	}{
		"mainnet": {
			networkID: constants.MainnetID,
			asset:     "FvwEAhmxKfeiG8SnEvq42hc6whRyY3EFYAvebMqDNDGCgxN5Z",
			xChain:    "2oYMBNV4eNHyqk2fjjV5nVQLDbtmNJzq5s3qs3Lo6ftnC6FByM",
			cChain:    "2q9e4r6Mu3U68nU1fYjgbR6JvwrRx36CohpAX5UQxse55x1Q5",
			utxos:     15_344, validators: 75, xUTXOs: 4_365,
			pAVAX: 335_490_228_411_755_492, xAVAX: 24_509_771_588_234_718,
		},
		"Fuji": {
			networkID: constants.FujiID,
			asset:     "U8iRqJoiJm8xZHAacmvYyZVwqQx6uDNtQeP3CQ6fcgQk3JqnK",
			xChain:    "2JVSBoinj9C2J33VntvzYtVJNZdN2NKiwwKjcumHUWEb5DbBrm",
			cChain:    "yH8D7ThNJkxmtkuv2jgBa4P1Rn3Qpr4pPr7QYNfcdoS6k6HWp",
			utxos:     0, validators: 20, xUTXOs: 10,
			pAVAX: 40_000_000_000_000_000, xAVAX: 320_000_000_000_000_000,
		},
		"local": {
			networkID: constants.LocalID,
			utxos:     3, validators: 5, xUTXOs: 2,
			pAVAX: 50_000_000_000_000_000, xAVAX: 310_000_000_000_000_000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := avagenesis.GetConfig(test.networkID)
			got, err := genesis.FromConfig(config)
			require.NoError(t, err)
			outputs, _, pAVAX, staked := sums(got.P)
			xOutputs, _, xAVAX, _ := sums(got.X)

			// Known figures.
			require.Equal(t, test.utxos, outputs)
			require.Equal(t, test.xUTXOs, xOutputs)
			require.Equal(t, test.pAVAX, pAVAX)
			require.Equal(t, test.xAVAX, xAVAX)
			if test.asset != "" {
				require.Equal(t, test.asset, got.AVAXAssetID.String())
				require.Equal(t, test.xChain, got.XChainID.String())
				require.Equal(t, test.cChain, got.CChainID.String())
			}

			// avalanchego's figures.
			supply, err := config.InitialSupply()
			require.NoError(t, err)
			require.Equal(t, supply, got.Supply)
			require.Equal(t, supply, pAVAX+xAVAX)
			b, asset, err := avagenesis.FromConfig(config)
			require.NoError(t, err)
			require.Equal(t, asset, got.AVAXAssetID)
			theirs, err := platformgenesis.Parse(b)
			require.NoError(t, err)
			require.Equal(t, time.Unix(int64(theirs.Timestamp), 0).UTC(), got.Time)
			require.Equal(t, got.Time, got.P.Time)
			require.Equal(t, test.networkID, got.NetworkID)

			txs := got.P.Txs
			if len(theirs.UTXOs) > 0 {
				require.Len(t, txs[0].Made, len(theirs.UTXOs))
				for i, utxo := range theirs.UTXOs {
					requireUTXO(t, &utxo.UTXO, txs[0].Made[i])
				}
				txs = txs[1:]
			}
			var weight uint64
			require.Len(t, theirs.Validators, test.validators)
			for i, v := range theirs.Validators {
				require.Equal(t, v.ID(), txs[i].ID)
				staker := txs[i].Staker
				theirs := v.Unsigned.(stakerTx)
				require.Equal(t, theirs.NodeID(), staker.NodeID)
				require.Equal(t, theirs.Weight(), staker.Weight)
				require.Equal(t, got.Time, staker.Start)
				require.Equal(t, theirs.EndTime().UTC(), staker.End)
				weight += staker.Weight
				for j, out := range theirs.Stake() {
					requireUTXO(t, &avax.UTXO{UTXOID: avax.UTXOID{TxID: v.ID(), OutputIndex: uint32(j)}, Asset: out.Asset, Out: out.Out}, txs[i].Made[j])
				}
			}
			require.Equal(t, weight, staked)
			txs = txs[len(theirs.Validators):]
			require.Len(t, txs, 2)
			require.Equal(t, got.XChainID, txs[0].ID)
			require.Equal(t, constants.AVMID, txs[0].Subnet.Chain.VMID)
			require.Equal(t, got.CChainID, txs[1].ID)
			require.Equal(t, config.CChainGenesis, string(txs[1].Subnet.Chain.Genesis))
			require.Equal(t, constants.PrimaryNetworkID, txs[1].Subnet.SubnetID)

			require.Equal(t, &ledger.Asset{ID: asset, Name: "Avalanche", Symbol: "AVAX", Denomination: 9}, got.X.Txs[0].Asset)
			requireAVM(t, txs[0].Subnet.Chain.Genesis, got.X)

			found, err := genesis.Of(test.networkID, got.P.ID)
			require.NoError(t, err)
			require.Equal(t, got, found)
			if test.networkID != constants.MainnetID { // mainnet takes a second
				_, err = genesis.Of(test.networkID, ids.ID{1})
				require.ErrorIs(t, err, genesis.ErrUnknownNetwork)
			}
		})
	}
}

type stakerTx interface {
	txs.BoundedStaker
	txs.PermissionlessStaker
}

func requireUTXO(t *testing.T, want *avax.UTXO, got ledger.Output) {
	t.Helper()
	require.Equal(t, want.InputID(), got.ID)
	b, err := txs.GenesisCodec.Marshal(txs.CodecVersion, want)
	require.NoError(t, err)
	require.Equal(t, b, got.Bytes)
	require.Equal(t, uint64(0), got.Locktime)
	require.Equal(t, constants.PlatformChainID, got.DestinationID)
}

// requireAVM compares the outputs of the X-Chain with those of avalanchego's avm.
func requireAVM(t *testing.T, b []byte, got *ledger.Block) {
	t.Helper()
	parser, err := xchain.NewParser()
	require.NoError(t, err)
	var theirs avm.Genesis
	_, err = parser.GenesisCodec().Unmarshal(b, &theirs)
	require.NoError(t, err)
	require.Len(t, got.Txs, len(theirs.Txs))
	for i, asset := range theirs.Txs {
		tx := newTx(t, parser, asset)
		require.Equal(t, tx.ID(), got.Txs[i].ID)
		utxos := tx.UTXOs()
		require.Len(t, got.Txs[i].Made, len(utxos))
		for j, utxo := range utxos {
			require.Equal(t, utxo.InputID(), got.Txs[i].Made[j].ID)
			b, err := parser.GenesisCodec().Marshal(block.CodecVersion, utxo)
			require.NoError(t, err)
			require.Equal(t, b, got.Txs[i].Made[j].Bytes)
		}
	}
}

// TestGenesisOfPrivateNetworks reads a private network's genesis from the file of its nodes, or from the library
// without a file. It also finds a network that started before the library moved the start time.
func TestGenesisOfPrivateNetworks(t *testing.T) {
	const networkID = 1337
	config := *avagenesis.GetConfig(networkID)
	byDefault, err := genesis.FromConfig(&config)
	require.NoError(t, err)
	found, err := genesis.Of(networkID, byDefault.P.ID)
	require.NoError(t, err)
	require.Equal(t, byDefault, found)

	older := config
	older.StartTime -= 2 * 9 * 30 * 24 * 60 * 60
	before, err := genesis.FromConfig(&older)
	require.NoError(t, err)
	require.NotEqual(t, byDefault.P.ID, before.P.ID)
	found, err = genesis.Of(networkID, before.P.ID)
	require.NoError(t, err)
	require.Equal(t, before.Time, found.Time)

	config.StartTime = 1_700_000_123
	config.Message = "a network of our own"
	own, err := genesis.FromConfig(&config)
	require.NoError(t, err)
	_, err = genesis.Of(networkID, own.P.ID)
	require.ErrorIs(t, err, genesis.ErrUnknownNetwork)
	unparsed, err := config.Unparse()
	require.NoError(t, err)
	b, err := json.Marshal(unparsed)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "genesis.json")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	fromFile, err := genesis.FromFile(path)
	require.NoError(t, err)
	require.Equal(t, own, fromFile)
	require.Equal(t, uint32(networkID), fromFile.NetworkID)

	for _, content := range []string{"", "{}", "[", `{"networkID":50001}`} {
		broken := filepath.Join(t.TempDir(), "genesis.json")
		require.NoError(t, os.WriteFile(broken, []byte(content), 0o600))
		_, err = genesis.FromFile(broken)
		require.Error(t, err, content)
	}
	_, err = genesis.FromFile(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzParse(f *testing.F) {
	b, _, err := avagenesis.FromConfig(avagenesis.GetConfig(constants.LocalID))
	require.NoError(f, err)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := genesis.Parse(b)
		if err != nil {
			return
		}
		require.NotEqual(t, ids.Empty, g.P.ID)
		require.NotEqual(t, ids.Empty, g.XChainID)
		require.NotEmpty(t, g.X.Txs)
	})
}

func newTx(t *testing.T, parser block.Parser, asset *avm.GenesisAsset) *avmtxs.Tx {
	t.Helper()
	tx := &avmtxs.Tx{Unsigned: &asset.CreateAssetTx}
	require.NoError(t, tx.Initialize(parser.GenesisCodec()))
	return tx
}
