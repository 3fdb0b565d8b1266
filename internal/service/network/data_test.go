package network

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/internal/chain/genesis"
	"quorate/internal/index/primary"
	"quorate/internal/index/registry"
	"quorate/internal/store"
)

// unavailable is a Viewer whose standbys do not answer.
type unavailable struct{}

func (unavailable) View(context.Context) (store.View, error) { return nil, store.ErrUnavailable }

func TestStoreRegistryReadsNoStandby(t *testing.T) {
	s := store.NewMemory()
	defer func() { require.NoError(t, s.Close()) }()
	n := &Network{ID: 5, ledger: true, views: unavailable{}}
	n.indexed.Store(&chainIndex{
		origin: origin{genesis: new(genesis.Genesis)}, chains: &primary.Network{Registry: registry.New(s, 5, fee.Config{})},
	})
	index, _, ok := n.Registry()
	require.True(t, ok)
	_, err := index.Head(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
	index, _, ok = n.StoreRegistry()
	require.True(t, ok)
	_, err = index.Head(t.Context())
	require.NoError(t, err)
}

// stalled is a Viewer whose server neither answers nor closes the connection.
type stalled struct{}

func (stalled) View(ctx context.Context) (store.View, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestProgressOfStalledStore asks how far an index is while its store does not answer.
func TestProgressOfStalledStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, progress := registryOn(stalled{}, &primary.Network{Registry: registry.New(nil, 5, fee.Config{})})
		began := time.Now()
		require.ErrorIs(t, progress(t.Context()).Unreadable, context.DeadlineExceeded)
		require.Equal(t, tipTimeout, time.Since(began))
	})
}
