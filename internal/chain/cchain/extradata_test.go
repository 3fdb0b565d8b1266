package cchain

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
)

var write = flag.Bool("write", false, "write the files of extra data from the library's")

// TestEarlyExtraData compares the hashes of early extra data with the library's.
func TestEarlyExtraData(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/ava-labs/avalanchego").Output()
	require.NoError(t, err)
	for name, networkID := range map[string]uint32{"mainnet": constants.MainnetID, "fuji": constants.FujiID} {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "vms/saevm/cchain/extdata-"+name+".json"))
		require.NoError(t, err)
		var want map[uint64]common.Hash
		require.NoError(t, json.Unmarshal(content, &want))
		require.NotEmpty(t, want)
		if *write {
			var file []byte
			last := uint64(0)
			for _, height := range slices.Sorted(maps.Keys(want)) {
				file = append(binary.AppendUvarint(file, height-last), want[height].Bytes()[:earlySum]...)
				last = height
			}
			require.NoError(t, os.WriteFile(filepath.Join("extradata", name), file, 0o644))
			continue
		}
		got := earlyExtraData[networkID]()
		require.Equal(t, slices.Sorted(maps.Keys(want)), got.heights)
		for i, height := range got.heights {
			require.Equal(t, want[height].Bytes()[:earlySum], got.sums[i], "%s, block %d", name, height)
		}
	}
}

// TestExtraDataIsVerified changes the extra data of blocks that commit to it, and of early ones.
func TestExtraDataIsVerified(t *testing.T) {
	hashOf := func(extra []byte) common.Hash {
		encoded, err := rlp.EncodeToBytes(extra)
		require.NoError(t, err)
		return crypto.Keccak256Hash(encoded)
	}
	early := earlyExtraData[constants.MainnetID]()
	for name, c := range map[string]struct {
		block   Block
		network uint32
		err     string
	}{
		"committed":                {Block{ExtraData: []byte("a"), extraDataHash: hashOf([]byte("a"))}, constants.MainnetID, ""},
		"committed to be empty":    {Block{extraDataHash: hashOf(nil)}, constants.LocalID, ""},
		"changed":                  {Block{ExtraData: []byte("b"), extraDataHash: hashOf([]byte("a"))}, constants.MainnetID, "its header names"},
		"removed":                  {Block{extraDataHash: hashOf([]byte("a"))}, constants.MainnetID, "its header names"},
		"genesis":                  {Block{}, constants.MainnetID, ""},
		"genesis with extra data":  {Block{ExtraData: []byte("a")}, constants.LocalID, "no hash of that"},
		"early, none":              {Block{Height: early.heights[1] + 1}, constants.MainnetID, ""},
		"early, added":             {Block{Height: early.heights[1] + 1, ExtraData: []byte("a")}, constants.MainnetID, "no hash of that"},
		"early, changed":           {Block{Height: early.heights[1], ExtraData: []byte("a")}, constants.MainnetID, "not the one that the network accepted"},
		"early, removed":           {Block{Height: early.heights[1]}, constants.MainnetID, "not the one that the network accepted"},
		"early of another network": {Block{Height: early.heights[1], ExtraData: []byte("a")}, constants.LocalID, "no hash of that"},
	} {
		err := c.block.VerifyExtraData(c.network)
		if c.err == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, ErrBlock, name)
		require.ErrorContains(t, err, c.err, name)
	}
}
