package nodeapi

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/rpc"
)

// A network signs although its file of aliases is damaged. The file stays for the operator.
func TestDamagedAliases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "aliases.json")
	api := func() *API {
		return &API{aliases: ids.NewAliaser(), Public: rpc.New(rpc.Options{}), Operator: rpc.New(rpc.Options{}), log: slog.New(slog.DiscardHandler)}
	}
	require.NoError(t, loadNames(api(), file).AliasEndpoint("info", "about"))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, content[:len(content)/2], 0o600))
	n := loadNames(api(), file)
	require.ErrorContains(t, n.AliasEndpoint("info", "other"), "correct the file or remove it")
	left, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, content[:len(content)/2], left)

	require.NoError(t, os.WriteFile(file, content, 0o600))
	again := api()
	require.NoError(t, loadNames(again, file).AliasEndpoint("info", "other"))
	require.Error(t, again.Public.Alias("info", "about"), "it is known")
}
