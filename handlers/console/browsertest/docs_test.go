package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/testenv"
)

// TestReferenceInABrowser executes each operation of the reference with its examples.
func TestReferenceInABrowser(t *testing.T) {
	chromium := testenv.Program(t, "chromium", "chromium", "chromium-browser", "google-chrome")
	directory := testenv.Node(t, files)
	url, _ := startDev(t)
	base := strings.TrimSuffix(url, "/console/")
	// The page takes its examples from these lists when it is loaded, so each chain has to be indexed before.
	for _, l := range []struct{ path, list, member string }{
		{"networks/local/blockchains/p-chain/transactions?pageSize=1&txTypes=ConvertSubnetToL1Tx", "transactions", "txHash"},
		{"networks/local/blockchains/x-chain/vertices?pageSize=1", "vertices", "vertexHash"},
		{"networks/local/delegators?pageSize=1", "delegators", "nodeId"},
		{"icm/messages?pageSize=1", "messages", "messageId"},
	} {
		first(t, base+"/v1/"+l.path, l.list, l.member)
	}
	input, err := json.Marshal(map[string]string{"page": base + "/docs", "chromium": chromium, "shots": shotsFolder(t)})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "docs.mjs")
	node.Dir, node.Stdin = directory, bytes.NewReader(input)
	var out, errOut bytes.Buffer
	node.Stdout, node.Stderr = &out, &errOut
	require.NoError(t, node.Run(), "%s", &errOut)
	var got struct {
		Dark     bool
		Statuses map[string]string
		Opened   string
		Tabs     []string
		Console  int
		Wrong    []string
		Beyond   map[string]int
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &got), "%s", &out)
	require.Empty(t, got.Wrong)
	require.Empty(t, got.Beyond, "the page is wider than the screen")
	require.True(t, got.Dark, "the system's theme is dark")
	require.Equal(t, 1, got.Console, "there is no link to the console")
	require.Contains(t, strings.ReplaceAll(got.Opened, "\u200b", ""), "/transactions", "a link to an operation is lost when the page is loaded again")
	for _, tab := range []string{"curl", "JavaScript", "Go"} {
		require.Contains(t, got.Tabs, tab)
	}
	require.Greater(t, len(got.Statuses), 45)
	for request, status := range got.Statuses {
		require.Equal(t, "200", status, request)
	}
}
