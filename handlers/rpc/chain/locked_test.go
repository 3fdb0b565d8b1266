package chain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/avax"

	chainledger "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// TestLockedBalances distinguishes outputs that are locked in each way, which no output of the
// generated history still is: amounts have a digit for each output.
func TestLockedBalances(t *testing.T) {
	w := newWorld(t, 20, 0)
	alice, bob := ids.ShortID{0xa1}, ids.ShortID{0xb0}
	past, future := uint64(time.Now().Add(-time.Hour).Unix()), uint64(time.Now().Add(time.Hour).Unix())
	record := func(c history.Chain, id ids.ID, outputs ...chainledger.Output) {
		t.Helper()
		tx := chainledger.Tx{ID: ids.ID{0x77, byte(len(outputs))}, Kind: "BaseTx", Made: outputs}
		for i := range outputs {
			o := &outputs[i]
			o.TxID, o.Index, o.AssetID, o.Kind, o.Role, o.DestinationID = tx.ID, uint32(i), w.genesis.AVAXAssetID, chainledger.Transfer, chainledger.Ordinary, id
			o.ID = (&avax.UTXOID{TxID: tx.ID, OutputIndex: o.Index}).InputID()
			if o.Threshold == 0 {
				o.Addresses, o.Threshold = []ids.ShortID{alice}, 1
			}
			o.Bytes = o.TransferBytes()
		}
		block := &chainledger.Block{ChainID: id, ID: ids.ID{0x78}, Height: w.past.Height(c) + 1, Time: time.Now(), Txs: []chainledger.Tx{tx}}
		var batch store.Batch
		require.NoError(t, ledger.NewProjection(w.genesis.NetworkID, id).Apply(t.Context(), w.rows, block, &batch))
		require.NoError(t, w.rows.Commit(t.Context(), &batch))
	}
	both := []ids.ShortID{alice, bob}
	record(history.P, constants.PlatformChainID,
		chainledger.Output{Amount: 1},
		chainledger.Output{Amount: 10, Locktime: past},
		chainledger.Output{Amount: 100, Locktime: future},
		chainledger.Output{Amount: 1_000, StakeableLocktime: past},
		chainledger.Output{Amount: 10_000, StakeableLocktime: future},
		chainledger.Output{Amount: 100_000, StakeableLocktime: past, Locktime: future},
		chainledger.Output{Amount: 1_000_000, StakeableLocktime: future, Locktime: future},
		chainledger.Output{Amount: 10_000_000, Addresses: both, Threshold: 2},
	)
	var held struct{ Balance, Unlocked, LockedStakeable, LockedNotStakeable string }
	w.native(t, "platform.getBalance", `{"addresses":["`+w.address(t, history.P, alice)+`"]}`, &held)
	require.Equal(t, "11111111", held.Balance)
	require.Equal(t, "10001011", held.Unlocked)
	require.Equal(t, "10000", held.LockedStakeable)
	require.Equal(t, "1100100", held.LockedNotStakeable)

	record(history.X, w.genesis.XChainID,
		chainledger.Output{Amount: 1},
		chainledger.Output{Amount: 10, Locktime: past},
		chainledger.Output{Amount: 100, Locktime: future},
		chainledger.Output{Amount: 1_000, Addresses: both, Threshold: 1},
		chainledger.Output{Amount: 10_000, Addresses: both, Threshold: 2},
	)
	for partial, want := range map[bool]string{false: "11", true: "11111"} {
		var held struct{ Balance string }
		w.native(t, "avm.getBalance", fmt.Sprintf(`{"address":"%s","assetID":"AVAX","includePartial":%t}`, w.address(t, history.X, alice), partial), &held)
		require.Equal(t, want, held.Balance, "partial %t", partial)
	}
}
