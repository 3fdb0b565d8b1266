package recent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index/internal/recent"
)

func TestMap(t *testing.T) {
	m := recent.New[int, string](2)
	has := func(want ...int) {
		t.Helper()
		for k := range 10 {
			_, got := m.Get(k)
			expected := false
			for _, w := range want {
				expected = expected || w == k
			}
			require.Equal(t, expected, got, "%d", k)
		}
	}
	m.Put(1, "a", 1)
	m.Forget(5)
	require.False(t, m.Full())
	has(1)
	m.Put(2, "b", 2)
	require.True(t, m.Full())
	m.Forget(0) // nothing is old yet
	require.False(t, m.Full())
	has(1, 2)
	m.Put(3, "c", 3)
	m.Put(4, "d", 4)
	m.Forget(1) // 2 is not committed
	require.True(t, m.Full())
	has(1, 2, 3, 4)
	m.Put(2, "e", 5) // which is young again
	m.Forget(2)
	has(2, 3, 4)
	got, _ := m.Get(2)
	require.Equal(t, "e", got)
}
