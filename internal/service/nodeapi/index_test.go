package nodeapi

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/rpc"
	"quorate/internal/node"
)

// answering is an upstream with one answer.
type answering node.Forwarded

func (a *answering) Forward(context.Context, string, []byte, bool) (*node.Forwarded, error) {
	return (*node.Forwarded)(a), nil
}

// Without an index there is no such path.
func TestNoIndexNoPath(t *testing.T) {
	there := &answering{Status: http.StatusOK, Body: []byte("{}")}
	got, err := indexUpstream{there}.Forward(t.Context(), "/ext/index/P/block", nil, true)
	require.NoError(t, err)
	require.Equal(t, (*node.Forwarded)(there), got)

	_, err = indexUpstream{&answering{Status: http.StatusNotFound}}.Forward(t.Context(), "/ext/index/P/block", nil, true)
	var refusal rpc.RefusalError
	require.ErrorAs(t, err, &refusal)
	require.Contains(t, refusal.Error(), "index-enabled")
}
