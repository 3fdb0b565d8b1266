package bounded_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/bounded"
)

type key [40]byte

func TestCache(t *testing.T) {
	c := bounded.New(bounded.Options[key, *int]{Entries: 10})
	_, ok := c.Get(key{1})
	require.False(t, ok)
	one := 1
	c.Set(key{1}, &one)
	c.Set(key{2}, nil)
	for _, get := range []func(key) (*int, bool){c.Get, c.Glance} {
		v, ok := get(key{1})
		require.True(t, ok)
		require.Same(t, &one, v)
		v, ok = get(key{2})
		require.True(t, ok, "nil is a value")
		require.Nil(t, v)
		_, ok = get(key{3})
		require.False(t, ok)
	}
	c.Delete(key{1})
	_, ok = c.Get(key{1})
	require.False(t, ok)
	for i := range 100 {
		c.Set(key{byte(i)}, &one)
	}
	c.Trim()
	require.LessOrEqual(t, c.Len(), 10)
	c.Clear()
	require.Zero(t, c.Len())
}

func TestWeight(t *testing.T) {
	c := bounded.New(bounded.Options[string, string]{Weight: 100, Weigh: func(k, v string) uint32 { return uint32(len(k) + len(v)) }})
	for i := range 26 {
		c.Set(string(rune('a'+i)), "123456789")
	}
	c.Trim()
	require.LessOrEqual(t, c.Weight(), uint64(100))
	require.Positive(t, c.Weight())
}

func TestLife(t *testing.T) {
	c := bounded.New(bounded.Options[int, int]{Entries: 10, Life: func(v int) time.Duration { return time.Duration(v) * time.Millisecond }})
	t.Cleanup(c.Close)
	c.Set(1, 1)
	c.Set(2, 3_600_000)
	require.Eventually(t, func() bool { _, ok := c.Get(1); return !ok }, 10*time.Second, time.Millisecond)
	_, ok := c.Get(2)
	require.True(t, ok)
}

func TestLoad(t *testing.T) {
	c := bounded.New(bounded.Options[int, string]{Entries: 10})
	c.Set(1, "one")
	var asked []int
	from := func(_ context.Context, keys []int) (map[int]string, error) {
		asked = append(asked, keys...)
		return map[int]string{2: "two"}, nil
	}
	found, err := c.Load(t.Context(), []int{1, 2, 3}, from)
	require.NoError(t, err)
	require.Equal(t, map[int]string{1: "one", 2: "two"}, found)
	require.ElementsMatch(t, []int{2, 3}, asked)
	v, ok := c.Get(2)
	require.True(t, ok)
	require.Equal(t, "two", v)

	broken := errors.New("broken")
	_, err = c.Load(t.Context(), []int{3}, func(context.Context, []int) (map[int]string, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
}
