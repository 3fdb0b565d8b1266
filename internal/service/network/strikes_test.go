package network

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/internal/store"
)

func TestStrikesAreStored(t *testing.T) {
	s := store.NewMemory()
	defer func() { require.NoError(t, s.Close()) }()
	one, other := strikes{s, 1}, strikes{s, 5}
	all, err := one.Load(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	saved := []aggregator.Strikes{{NodeID: ids.NodeID{7}, PublicKey: []byte{1, 2}, Count: 3, Since: time.Unix(1e9, 0).UTC(), Verified: 4}}
	require.NoError(t, one.Save(t.Context(), saved))
	all, err = one.Load(t.Context())
	require.NoError(t, err)
	require.Equal(t, saved, all)
	all, err = other.Load(t.Context())
	require.NoError(t, err)
	require.Empty(t, all, "of another network")

	var b store.Batch
	b.Put(store.FamilyMeta, one.row(), []byte("no JSON"))
	require.NoError(t, s.Commit(t.Context(), &b))
	_, err = one.Load(t.Context())
	require.ErrorContains(t, err, "network/1/strikes")
}
