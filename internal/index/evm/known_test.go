package evm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// TestKnownLater requests addresses before they become contracts, again when nothing has changed, and
// after each block.
func TestKnownLater(t *testing.T) {
	w := newWorld(t, newPast(3, pastOptions{first: 100, blocks: 60}), store.NewMemory())
	require.NotEmpty(t, w.created)
	came := 0
	before := make([]bool, len(w.created))
	for !w.done() {
		w.advance(1)
		want := make([]bool, len(w.created))
		for i, who := range w.created {
			want[i] = w.known(w.tip(), who)
			if want[i] && !before[i] && w.next > 1 {
				came++
			}
		}
		before = want
		for range 2 {
			got, err := w.record.Known(t.Context(), w.created)
			require.NoError(t, err)
			require.Equal(t, want, got, "after block %d", w.tip())
		}
	}
	require.Positive(t, came, "addresses that became contracts")
}
