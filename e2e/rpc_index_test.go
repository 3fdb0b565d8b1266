package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
)

// indexes are the node's.
var indexes = []string{"C/block", "P/block", "X/block", "X/tx", "X/vtx"}

func (n *nodeAPI) index(ctx context.Context, t *testing.T) {
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
