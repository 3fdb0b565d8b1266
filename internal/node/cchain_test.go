package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func cChainBlock(replace ...string) string {
	whole := `{"number":"0x7","hash":"0x` + strings.Repeat("ab", 32) + `","parentHash":"0x` + strings.Repeat("cd", 32) +
		`","timestamp":"0x64","blockExtraData":"0x0102","transactions":[],"difficulty":"0x1"}`
	return strings.NewReplacer(replace...).Replace(whole)
}

// errNotOffered stands for an *RPCError that is NotOffered.
var errNotOffered = errors.New("not offered")

func TestCChainBlock(t *testing.T) {
	ask := func(result string) (CChainBlock, error) {
		return newClient(t, methods(t, map[string]string{CChainRPC + " eth_getBlockByNumber": result})).CChainBlock(t.Context(), 7)
	}
	got, err := ask(cChainBlock())
	require.NoError(t, err)
	want := CChainBlock{Height: 7, Time: time.Unix(100, 0).UTC(), ExtraData: []byte{1, 2}}
	for i := range want.Hash {
		want.Hash[i], want.ParentHash[i] = 0xab, 0xcd
	}
	require.Equal(t, want, got)

	got, err = ask(cChainBlock("0x0102", "0x"))
	require.NoError(t, err)
	require.Empty(t, got.ExtraData)

	for name, body := range map[string]string{
		"another block": cChainBlock(`"0x7"`, `"0x8"`),
		"no number":     cChainBlock(`"0x7"`, `"7"`),
		"a short hash":  cChainBlock("abab", "ab"),
		"no hash":       cChainBlock("parentHash", "parent"),
		"no time":       cChainBlock("timestamp", "time"),
		"a time beyond": cChainBlock("0x64", "0xffffffffffffffff"),
		"no extra data": cChainBlock("blockExtraData", "extra"),
		"odd hex":       cChainBlock("0x0102", "0x012"),
		"a list":        "[1]",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(body)
			require.ErrorIs(t, err, ErrMalformed, "got %+v", got)
		})
	}
	// A node answers null for a block that it does not have, whatever the reason.
	ofChain := func(block, tip string) string {
		return methods(t, map[string]string{CChainRPC + " eth_getBlockByNumber": block, CChainRPC + " eth_blockNumber": tip})
	}
	synced, behind, whole := ofChain("null", `"0x9"`), ofChain("null", `"0x6"`), ofChain(cChainBlock(), `"0x9"`)
	for name, tt := range map[string]struct {
		nodes []string
		want  error
	}{
		"state-synced":                  {[]string{synced}, ErrPruned},
		"not accepted yet":              {[]string{behind}, ErrBeyondTip},
		"one lags, one is state-synced": {[]string{behind, synced}, ErrPruned},
		"and the other way round":       {[]string{synced, behind}, ErrPruned},
		"one is away":                   {[]string{synced, away}, ErrUnavailable},
		"the second has it":             {[]string{synced, whole}, nil},
		"the third has it":              {[]string{behind, synced, whole}, nil},
		"the node no longer answers":    {[]string{methods(t, map[string]string{CChainRPC + " eth_getBlockByNumber": "null"})}, errNotOffered},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newClient(t, tt.nodes...).CChainBlock(t.Context(), 7)
			switch {
			case tt.want == nil:
				require.NoError(t, err)
				require.Equal(t, want, got)
			case errors.Is(tt.want, errNotOffered):
				var refused *RPCError
				require.ErrorAs(t, err, &refused)
				require.True(t, refused.NotOffered())
			default:
				require.ErrorIs(t, err, tt.want)
			}
		})
	}
	_, err = one(t, 200, refusal("cannot query unfinalized data")).CChainBlock(t.Context(), 7)
	require.ErrorIs(t, err, ErrBeyondTip)
}
