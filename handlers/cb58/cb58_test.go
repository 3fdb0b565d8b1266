package cb58_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/cb58"
)

func TestIDs(t *testing.T) {
	for range 100 {
		id, node := ids.GenerateTestID(), ids.GenerateTestNodeID()
		got, err := cb58.ID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, got)
		gotNode, err := cb58.NodeID(node.String())
		require.NoError(t, err)
		require.Equal(t, node, gotNode)
	}
	for _, text := range []string{"", "x", strings.Repeat("2", 65), "NodeID-" + strings.Repeat("2", 100_000)} {
		_, err := cb58.ID(text)
		require.Error(t, err)
		_, err = cb58.NodeID(text)
		require.Error(t, err)
	}
}

// TestLongTextIsNotDecoded would take minutes if it were.
func TestLongTextIsNotDecoded(t *testing.T) {
	_, err := cb58.ID(strings.Repeat("2", 10<<20))
	require.Error(t, err)
}
