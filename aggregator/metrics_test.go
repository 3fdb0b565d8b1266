package aggregator

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestOriginOfRequests counts messages that are signed ahead apart from those that clients asked for.
func TestOriginOfRequests(t *testing.T) {
	n := newFakeNetwork(t, 25, 25, 25, 25)
	run(t, n, func(t *testing.T, ctx context.Context, a *Aggregator) {
		for _, ahead := range []bool{true, false, true} {
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m"), Ahead: ahead})
			require.NoError(t, err)
			requireValid(t, n, r, 67)
		}
		of := func(origin string) float64 {
			return counted(t, a.metrics.latency.WithLabelValues("signed", origin).(prometheus.Collector))
		}
		require.Equal(t, 1., of("client"))
		require.Equal(t, 2., of("ahead"))
	})
}
