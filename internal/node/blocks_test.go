package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/hashing"
)

func hexOf(t testing.TB, b string) string {
	text, err := formatting.Encode(formatting.Hex, []byte(b))
	require.NoError(t, err)
	return text
}

func refusal(text string) string {
	return `{"jsonrpc":"2.0","error":{"code":-32000,"message":"` + text + `","data":null},"id":1}`
}

// one answers every call with the same body.
func one(t *testing.T, status int, body string) *Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return newClient(t, server.URL)
}

func TestBlockByHeight(t *testing.T) {
	c := newClient(t, methods(t, map[string]string{
		"/ext/bc/P platform.getBlockByHeight": `{"block":"` + hexOf(t, "a block") + `","encoding":"hex"}`,
	}))
	b, err := c.BlockByHeight(t.Context(), 7)
	require.NoError(t, err)
	require.Equal(t, "a block", string(b))

	for name, test := range map[string]struct {
		body string
		want error
	}{
		"beyond the tip": {refusal("couldn't get block at height 7: not found"), ErrBeyondTip},
		"no block":       {`{"result":{"encoding":"hex"}}`, ErrMalformed},
		"JSON":           {`{"result":{"block":{"height":7},"encoding":"json"}}`, ErrMalformed},
		"empty":          {`{"result":{"block":"","encoding":"hex"}}`, ErrMalformed},
		"bad checksum":   {`{"result":{"block":"0x0102030405","encoding":"hex"}}`, ErrMalformed},
		"no hex":         {`{"result":{"block":"0xzz","encoding":"hex"}}`, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := one(t, 200, test.body).BlockByHeight(t.Context(), 7)
			require.ErrorIs(t, err, test.want, "got %x", b)
		})
	}
	_, err = one(t, 200, refusal("couldn't get block at height 7: closed")).BlockByHeight(t.Context(), 7)
	var refused *RPCError
	require.ErrorAs(t, err, &refused)
	require.NotErrorIs(t, err, ErrBeyondTip)
}

func TestBlockRange(t *testing.T) {
	container := func(index, bytes string) string {
		return `{"id":"` + ids.ID{1}.String() + `","bytes":"` + hexOf(t, bytes) + `","timestamp":"2026-01-02T03:04:05.000000006Z","encoding":"hex","index":"` + index + `"}`
	}
	c := newClient(t, methods(t, map[string]string{
		"/ext/index/P/block index.getContainerRange": `{"containers":[` + container("7", "seven") + `,` + container("8", "eight") + `]}`,
		"/ext/index/P/block index.getLastAccepted":   container("9", "nine"),
	}))
	got, err := c.BlockRange(t.Context(), 7, 5)
	require.NoError(t, err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	require.Equal(t, []Container{
		{ID: ids.ID{1}, Index: 7, Bytes: []byte("seven"), Digest: hashing.ComputeHash256Array([]byte("seven")), Accepted: at},
		{ID: ids.ID{1}, Index: 8, Bytes: []byte("eight"), Digest: hashing.ComputeHash256Array([]byte("eight")), Accepted: at},
	}, got)
	last, err := c.LastContainer(t.Context(), PChainBlocks)
	require.NoError(t, err)
	require.Equal(t, Container{ID: ids.ID{1}, Index: 9, Bytes: []byte("nine"), Digest: hashing.ComputeHash256Array([]byte("nine")), Accepted: at}, last)

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
			got, err := one(t, 200, test.body).BlockRange(t.Context(), 7, 5)
			require.ErrorIs(t, err, test.want, "got %v", got)
		})
	}
	for name, c := range map[string]*Client{
		"no such path": one(t, 404, "404 page not found\n"),
		"no method":    newClient(t, methods(t, nil)),
	} {
		t.Run(name, func(t *testing.T) {
			for _, call := range []func() error{
				func() error { _, err := c.BlockRange(t.Context(), 7, 5); return err },
				func() error { _, err := c.LastContainer(t.Context(), PChainBlocks); return err },
			} {
				err := call()
				var refused *RPCError
				require.ErrorAs(t, err, &refused)
				require.True(t, refused.NotOffered(), "got %v", err)
				require.NotErrorIs(t, err, ErrBeyondTip)
			}
		})
	}
	_, err = one(t, 200, refusal("no containers have been accepted")).LastContainer(t.Context(), PChainBlocks)
	require.ErrorIs(t, err, ErrBeyondTip)
}
