package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// meanwhile is a store that another process marks and uses after this one has seen that
// it has no format.
type meanwhile struct {
	Store
	others func()
}

func (m *meanwhile) Get(ctx context.Context, f Family, keys []PK) ([][]byte, error) {
	values, err := m.Store.Get(ctx, f, keys)
	if m.others != nil {
		m.others()
		m.others = nil
	}
	return values, err
}

// Several processes that open a new store at the same time all succeed.
func TestFormatIsMarkedByAnother(t *testing.T) {
	for name, test := range map[string]struct {
		format string
		want   error
	}{
		"the same version": {"1", nil}, "another one": {"2", ErrFormat}, "no version": {"", ErrFormat},
	} {
		rows := NewMemory()
		var fresh Batch
		fresh.Delete(FamilyMeta, formatKey)
		require.NoError(t, rows.Commit(t.Context(), &fresh))
		err := checkFormat(t.Context(), &meanwhile{rows, func() {
			var b Batch
			if test.format != "" {
				b.Put(FamilyMeta, formatKey, []byte(test.format))
			}
			b.Put(FamilyMeta, PK{P: []byte("lease/upgrade")}, []byte("a row"))
			require.NoError(t, rows.Commit(t.Context(), &b))
		}}, false)
		require.ErrorIs(t, err, test.want, name)
	}
}
