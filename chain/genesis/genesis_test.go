package genesis_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/stakeable"
	platformgenesis "github.com/ava-labs/avalanchego/vms/platformvm/genesis"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/chain/genesis"
	"quorate/chain/ledger"
)

// TestGenesisOfPublicNetworks holds the genesis in the ledger's terms against what
// avalanchego makes of the same configuration, and against what is well known.
func TestGenesisOfPublicNetworks(t *testing.T) {
	for name, test := range map[string]struct {
		networkID          uint32
		asset, xChain      string
		cChain             string
		utxos, validators  int
		pAVAX, xAVAX       uint64
		firstBlock         string
	}{
		"mainnet": {
			networkID: constants.MainnetID,
			asset:     "FvwEAhmxKfeiG8SnEvq42hc6whRyY3EFYAvebMqDNDGCgxN5Z",
			xChain:    "2oYMBNV4eNHyqk2fjjV5nVQLDbtmNJzq5s3qs3Lo6ftnC6FByM",
			cChain:    "2q9e4r6Mu3U68nU1fYjgbR6JvwrRx36CohpAX5UQxse55x1Q5",
		},
		"fuji": {
			networkID: constants.FujiID,
			asset:     "U8iRqJoiJm8xZHAacmvYyZVwqQx6uDNtQeP3CQ6fcgQk3JqnK",
			xChain:    "2JVSBoinj9C2J33VntvzYtVJNZdN2NKiwwKjcumHUWEb5DbBrm",
			cChain:    "yH8D7ThNJkxmtkuv2jgBa4P1Rn3Qpr4pPr7QYNfcdoS6k6HWp",
		},
		"local": {networkID: constants.LocalID},
	} {
		t.Run(name, func(t *testing.T) {
			config := avagenesis.GetConfig(test.networkID)
			g, err := genesis.FromConfig(config)
			require.NoError(t, err)

			b, asset, err := avagenesis.FromConfig(config)
			require.NoError(t, err)
			theirs, err := platformgenesis.Parse(b)
			require.NoError(t, err)
			t.Log(len(theirs.UTXOs), len(theirs.Validators), g.P.ID, asset)
			_ = ids.Empty
			_ = json.Valid
			_ = os.Args
			_ = filepath.Base
			_ = stakeable.LockOut{}
			_ = txs.Codec
			_ = ledger.Stake
			p, x := uint64(0), uint64(0)
			for _, tx := range g.P.Txs { for _, o := range tx.Made { p += o.Amount } }
			for _, tx := range g.X.Txs { for _, o := range tx.Made { x += o.Amount } }
			s, _ := config.InitialSupply()
			t.Log(p, x, p+x, g.Supply, s, len(g.X.Txs[0].Made), g.XChainID, g.CChainID)
		})
	}
}
