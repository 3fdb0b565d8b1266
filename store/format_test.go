package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// lateFormat is a store whose format another process marks after the first look at it.
type lateFormat struct {
	Store
	looked bool
}

func (s *lateFormat) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	if !s.looked {
		s.looked = true
		return make([][]byte, len(keys)), nil
	}
	return s.Store.Get(ctx, family, keys)
}

func TestFormatThatAnotherProcessMarks(t *testing.T) {
	s := &lateFormat{Store: NewMemory()}
	require.NoError(t, checkFormat(t.Context(), s, false))
	require.True(t, s.looked)

	var b Batch
	b.Delete(FamilyMeta, formatKey)
	b.Put(FamilyMessage, PK{P: []byte("p")}, nil)
	require.NoError(t, s.Commit(t.Context(), &b))
	require.ErrorIs(t, checkFormat(t.Context(), s, false), ErrFormat)
}
