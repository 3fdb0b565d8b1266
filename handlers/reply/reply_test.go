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
