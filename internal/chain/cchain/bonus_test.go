package cchain_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/chain/cchain"
)

// library reads a list of heights next to the node's list of bonus blocks.
func library(t *testing.T, name string) (heights []uint64) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/ava-labs/avalanchego").Output()
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "vms/saevm/cchain/state", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &heights))
	require.NotEmpty(t, heights)
	return heights
}

// TestBonusBlocks reads the same import in every block near the bonus blocks. Only the blocks in the node's list, and
// only on mainnet, must leave outputs unchanged.
func TestBonusBlocks(t *testing.T) {
	bonus := make(map[uint64]bool)
	for _, height := range library(t, "bonus_blocks.json") {
		bonus[height] = true
	}
	require.Len(t, bonus, 57)
	for _, height := range library(t, "bonus_block_consumers.json") {
		require.NotContains(t, bonus, height)
	}
	extra, err := walletCodec(t).Marshal(0, anImport())
	require.NoError(t, err)
	d := newDecoder(t)
	for height := uint64(102_900); height < 103_700; height++ {
		b := &cchain.Block{Height: height, Time: time.Unix(1_607_000_000, 0).UTC(), ExtraData: extra}
		all, err := d.Transactions(b)
		require.NoError(t, err)
		require.Len(t, all, 1, "height %d", height)
		got, err := d.Ledger(b)
		require.NoError(t, err)
		if bonus[height] {
			require.Empty(t, got.Txs, "height %d", height)
		} else {
			require.Len(t, got.Txs, 1, "height %d", height)
			require.Len(t, got.Txs[0].Consumed, len(all[0].Consumed))
		}
	}
	other := anImport()
	other.Unsigned.(*walletImport).NetworkID = constants.FujiID
	extra, err = walletCodec(t).Marshal(0, other)
	require.NoError(t, err)
	fuji, err := cchain.NewDecoder(constants.FujiID, mainnetC, nil)
	require.NoError(t, err)
	got, err := fuji.Ledger(&cchain.Block{Height: 102_972, Time: time.Unix(1_607_000_000, 0).UTC(), ExtraData: extra})
	require.NoError(t, err)
	require.Len(t, got.Txs, 1)
}
