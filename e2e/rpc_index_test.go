package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/e2e/localnet"
)

// indexes are the node's. The last two are of the time before the X-Chain had blocks,
// and empty: no release of avalanchego that can be built makes vertices any more, and a
// local network's X-Chain has blocks from its genesis on. What such an index holds has
// tests beside the service's.
var indexes = []string{"C/block", "P/block", "X/block", "X/tx", "X/vtx"}

func (n *nodeAPI) index(ctx context.Context, t *testing.T) {
	n.cChainBlocks(ctx, t)
	how := alike{loose: []string{"timestamp"}} // when each of them had it
	for _, name := range indexes {
		path := "/ext/index/" + name
		compare := func(method, params string) {
			t.Helper()
			n.same(ctx, t, how, path, "index."+method, params)
		}
		all, err := indexer.NewClient(n.node+path).GetContainerRange(ctx, 0, 1024)
		if strings.HasSuffix(name, "tx") {
			require.ErrorContains(t, err, "no containers have been accepted")
		} else {
			require.NoError(t, err)
			require.NotEmpty(t, all)
		}
		for _, encoding := range encodings {
			compare("getLastAccepted", "{"+strings.TrimPrefix(encoding, ",")+"}")
			for i, c := range all {
				compare("getContainerByIndex", fmt.Sprintf(`{"index":%d%s}`, i, encoding))
				compare("getContainerByID", fmt.Sprintf(`{"id":"%s"%s}`, c.ID, encoding))
			}
			compare("getContainerByIndex", fmt.Sprintf(`{"index":"%d"%s}`, len(all), encoding))
			compare("getContainerByID", fmt.Sprintf(`{"id":"%s"%s}`, ids.GenerateTestID(), encoding))
			for _, window := range [][2]int{{0, 1}, {0, 1024}, {1, 2}, {len(all) - 1, 1024}, {len(all), 1}, {1 << 40, 1}, {0, 1025}, {1 << 40, 2000}} {
				compare("getContainerRange", fmt.Sprintf(`{"startIndex":"%d","numToFetch":%d%s}`, max(window[0], 0), window[1], encoding))
			}
		}
		for _, c := range all {
			compare("getIndex", fmt.Sprintf(`{"id":"%s"}`, c.ID))
			compare("isAccepted", fmt.Sprintf(`{"id":"%s"}`, c.ID))
		}
		for _, params := range []string{"{}", fmt.Sprintf(`{"id":"%s"}`, ids.GenerateTestID()), fmt.Sprintf(`{"containerID":"%s"}`, n.xChain)} {
			compare("getIndex", params)
			compare("isAccepted", params)
			compare("getContainerByID", params)
		}
		// Here the node fails, against its own documentation.
		none := ask(t, ctx, http.MethodPost, n.service.url+path, "application/json", callBody("index.getContainerRange", `{"startIndex":5}`))
		require.JSONEq(t, `{"jsonrpc":"2.0","result":{"containers":[]},"id":7}`, none.body)

		// The times are when the service had them, which cannot be before a node had.
		if len(all) == 0 {
			continue
		}
		ours, err := indexer.NewClient(n.service.url+path).GetContainerRange(ctx, 0, 1024)
		require.NoError(t, err)
		for i := range all {
			require.GreaterOrEqual(t, ours[i].Timestamp, all[i].Timestamp, "container %d", i)
			require.LessOrEqual(t, ours[i].Timestamp, time.Now().UnixNano())
		}
	}
}

// cChainBlocks holds the containers of the C-Chain against its Ethereum API.
func (n *nodeAPI) cChainBlocks(ctx context.Context, t *testing.T) {
	all, err := indexer.NewClient(n.service.url+"/ext/index/C/block").GetContainerRange(ctx, 0, 1024)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for i, c := range all {
		envelope, err := block.ParseWithoutVerification(c.Bytes)
		require.NoError(t, err)
		inside, _, err := rlp.SplitList(envelope.Block())
		require.NoError(t, err)
		_, _, rest, err := rlp.Split(inside)
		require.NoError(t, err)
		header := inside[:len(inside)-len(rest)]
		var known struct{ Hash string }
		require.NoError(t, localnet.Call(ctx, n.node, "/ext/bc/C/rpc", "eth_getBlockByNumber", []any{fmt.Sprintf("0x%x", i+1), false}, &known))
		require.Equal(t, known.Hash, crypto.Keccak256Hash(header).Hex(), "container %d", i)
	}
}
