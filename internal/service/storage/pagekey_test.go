package storage

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPageKeyIsKept(t *testing.T) {
	dir := t.TempDir()
	first, err := pageKey(dir)
	require.NoError(t, err)
	second, err := pageKey(dir)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Len(t, first, 32)
	_, err = pageKey(filepath.Join(dir, "none"))
	require.Error(t, err)
}
