package reply_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apierr"
	"quorate/handlers/reply"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/store"
)

// A store that is away gives a temporary error.
func TestStoreAway(t *testing.T) {
	err := reply.Explain(t.Context(), fmt.Errorf("reading: %w: secret host", store.ErrUnavailable), func(err error) error { return err })
	var contractError *apierr.Error
	require.True(t, errors.As(err, &contractError))
	require.Equal(t, http.StatusServiceUnavailable, contractError.Status)
	require.NotContains(t, contractError.Message, "secret")
}

// TestBusyNode has errors of a node that has no room for clients at the moment.
func TestBusyNode(t *testing.T) {
	for cause, want := range map[error]string{
		node.ErrBusy:   "as many calls to the upstream node as clients may cause are in progress",
		node.ErrNoRoom: "more memory than is free for large answers",
	} {
		var refused *apierr.Error
		require.ErrorAs(t, reply.Explain(t.Context(), fmt.Errorf("reading: %w", cause), nil), &refused)
		require.Equal(t, http.StatusServiceUnavailable, refused.Status)
		require.Contains(t, refused.Message, want)
	}
}

// TestProven shows which blocks are proven, if any are.
func TestProven(t *testing.T) {
	p := reply.Progress{From: 5, Height: 20}
	h := make(http.Header)
	p.Show(h)
	require.Empty(t, h.Values("Proven-Height"))
	p.Proof = &index.Proof{From: 5, To: 18, Height: 20}
	p.Show(h)
	require.Equal(t, "18", h.Get("Proven-Height"))
	require.Empty(t, h.Values("Proven-From"), "all blocks from the first one on")
	p.Proof.From = 7
	p.Show(h)
	require.Equal(t, "7", h.Get("Proven-From"))
	reply.Unproven(h)
	require.Empty(t, h.Values("Proven-Height"))
	require.Empty(t, h.Values("Proven-From"))
	require.Equal(t, "20", h.Get("Indexed-Height"))
}
