package network

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/vertices"
	"quorate/internal/node"
	"quorate/internal/simnet"
	"quorate/internal/store"
)

// A process that connects only for the X-Chain's vertices reports the connected weight while it connects. Later it has no
// connections, which is no failure, so that it reports nothing.
func TestConnectedForVerticesOnly(t *testing.T) {
	simulated, err := simnet.Start(simnet.Options{Seed: 12, Validators: 3})
	require.NoError(t, err)
	defer simulated.Close()
	client, err := node.New(node.Options{Endpoints: []string{simulated.NodeURL()}})
	require.NoError(t, err)
	metrics, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	n, err := New(client, simulated.NetworkID(), Options{
		Name: "test", Config: config.Network{AllowPrivateIPs: true}, Role: config.RoleIngest, Log: log, Metrics: metrics,
	})
	require.NoError(t, err)
	defer n.Close()
	ratios := func() int {
		families, err := metrics.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "quorate_subnet_connected_weight_ratio" {
				return len(f.GetMetric())
			}
		}
		return 0
	}

	var linear atomic.Bool
	missing := vertices.New(vertices.Options{
		Store: store.NewMemory(), NetworkID: n.ID, ChainID: ids.ID{1},
		Begin: func(context.Context) (index.XChainBegin, error) { return index.XChainBegin{Linear: linear.Load()}, nil },
	})
	done := make(chan error, 1)
	go func() { done <- n.connectForVertices(t.Context(), missing) }()
	require.Eventually(t, func() bool { return ratios() > 0 }, 20*time.Second, 10*time.Millisecond)
	linear.Store(true) // a chain without vertices is complete at once
	require.NoError(t, missing.Run(t.Context()))
	require.NoError(t, <-done)
	require.Zero(t, ratios())
}
