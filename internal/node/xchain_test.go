package node

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"
)

func TestContainers(t *testing.T) {
	container := func(index, bytes string) string {
		return `{"id":"` + ids.ID{1}.String() + `","bytes":"` + hexOf(t, bytes) + `","timestamp":"2026-01-02T03:04:05.000000006Z","encoding":"hex","index":"` + index + `"}`
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, index := range []Index{PChainBlocks, XChainBlocks, CChainBlocks} {
		path := "/ext/index/" + string(index)
		c := newClient(t, methods(t, map[string]string{
			path + " index.getContainerRange": `{"containers":[` + container("7", "seven") + `,` + container("8", "eight") + `]}`,
			path + " index.getLastAccepted":   container("9", "nine"),
		}))
		got, err := c.Containers(t.Context(), index, 7, 5)
		require.NoError(t, err)
		require.Equal(t, []Container{
			{ID: ids.ID{1}, Index: 7, Bytes: []byte("seven"), Digest: hashing.ComputeHash256Array([]byte("seven")), Accepted: at},
			{ID: ids.ID{1}, Index: 8, Bytes: []byte("eight"), Digest: hashing.ComputeHash256Array([]byte("eight")), Accepted: at},
		}, got)
		last, err := c.LastContainer(t.Context(), index)
		require.NoError(t, err)
		require.Equal(t, Container{ID: ids.ID{1}, Index: 9, Bytes: []byte("nine"), Digest: hashing.ComputeHash256Array([]byte("nine")), Accepted: at}, last)
	}
	for name, test := range map[string]struct {
		body string
		want error
	}{
		"beyond the tip": {refusal(`start index (7) \u003e last accepted index (6)`), ErrBeyondTip},
		"empty index":    {refusal("no containers have been accepted"), ErrBeyondTip},
		"nothing":        {`{"result":{"containers":[]}}`, ErrMalformed},
		"too many":       {`{"result":{"containers":[` + strings.Repeat(container("7", "x")+",", 5) + container("7", "x") + `]}}`, ErrMalformed},
		"others":         {`{"result":{"containers":[` + container("6", "x") + `]}}`, ErrMalformed},
		"a gap":          {`{"result":{"containers":[` + container("7", "x") + `,` + container("9", "x") + `]}}`, ErrMalformed},
		"no bytes":       {`{"result":{"containers":[{"index":"7","encoding":"hex"}]}}`, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := one(t, 200, test.body).Containers(t.Context(), XChainBlocks, 7, 5)
			require.ErrorIs(t, err, test.want, "got %v", got)
		})
	}
	_, err := one(t, 200, refusal("no containers have been accepted")).LastContainer(t.Context(), XChainBlocks)
	require.ErrorIs(t, err, ErrBeyondTip)
	_, err = one(t, 404, "404 page not found\n").LastContainer(t.Context(), XChainBlocks)
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.NotOffered())
}

func TestXChainBlocks(t *testing.T) {
	c := newClient(t, methods(t, map[string]string{
		"/ext/bc/X avm.getHeight":        `{"height":"12"}`,
		"/ext/bc/X avm.getBlockByHeight": `{"block":"` + hexOf(t, "a block") + `","encoding":"hex"}`,
	}))
	height, err := c.XChainHeight(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(12), height)
	b, err := c.XChainBlock(t.Context(), 7)
	require.NoError(t, err)
	require.Equal(t, "a block", string(b))
	for name, test := range map[string]struct {
		body string
		want error
	}{
		"beyond the tip": {refusal("couldn't get block at height 7: not found"), ErrBeyondTip},
		"no block":       {`{"result":{"encoding":"hex"}}`, ErrMalformed},
		"JSON":           {`{"result":{"block":{"height":7},"encoding":"json"}}`, ErrMalformed},
		"no hex":         {`{"result":{"block":"0xzz","encoding":"hex"}}`, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := one(t, 200, test.body).XChainBlock(t.Context(), 7)
			require.ErrorIs(t, err, test.want, "got %x", b)
		})
	}
}
