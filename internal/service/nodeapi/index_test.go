package nodeapi

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/rpc"
	"quorate/internal/node"
)

// answering is an upstream with one answer, or one error.
type answering struct {
	answer *node.Forwarded
	err    error
}

func (a answering) Forward(context.Context, string, []byte, bool) (*node.Forwarded, error) {
	return a.answer, a.err
}

// Without an index there is no such path.
func TestNoIndexNoPath(t *testing.T) {
	there := &node.Forwarded{Status: http.StatusOK, Body: []byte("{}")}
	got, err := indexUpstream{answering{answer: there}}.Forward(t.Context(), "/ext/index/P/block", nil, true)
	require.NoError(t, err)
	require.Equal(t, there, got)

	_, err = indexUpstream{answering{err: node.ErrUnavailable}}.Forward(t.Context(), "/ext/index/P/block", nil, true)
	require.ErrorIs(t, err, node.ErrUnavailable)

	_, err = indexUpstream{answering{err: &node.RPCError{Code: http.StatusNotFound}}}.Forward(t.Context(), "/ext/index/P/block", nil, true)
	var refusal rpc.RefusalError
	require.ErrorAs(t, err, &refusal)
	require.Contains(t, refusal.Error(), "index-enabled")
}
