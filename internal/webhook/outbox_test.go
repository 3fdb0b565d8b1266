package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// TestMessageOfAnotherProcess lets a process that lost its lease write the result of an attempt after another one wrote
// its own.
func TestMessageOfAnotherProcess(t *testing.T) {
	s := store.NewMemory()
	w := &Webhook{ID: uuid([16]byte{1})}
	former, current := newOutbox(s, w), newOutbox(s, w)
	require.NoError(t, former.add(t.Context(), 1, [][]byte{[]byte("a")}))
	sent, err := former.first(t.Context())
	require.NoError(t, err)
	require.NoError(t, current.remove(t.Context(), sent))
	require.ErrorIs(t, former.add(t.Context(), 2, [][]byte{[]byte("b")}), store.ErrFenced)
	_, _, err = former.position(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, former.postpone(t.Context(), sent, time.Now().Add(time.Hour)))
	left, err := current.first(t.Context())
	require.NoError(t, err)
	require.Nil(t, left, "the message was delivered")
}
