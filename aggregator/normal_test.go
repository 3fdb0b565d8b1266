package aggregator

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table follows the curve and never decreases.
func TestNormalCurve(t *testing.T) {
	last := 0.0
	for x := -7.0; x <= 7; x += 0.0013 {
		got := normal.below(x)
		require.InDelta(t, 0.5*math.Erfc(-x/math.Sqrt2), got, 2e-5, "at %v", x)
		require.GreaterOrEqual(t, got, last, "at %v", x)
		last = got
	}
	require.Zero(t, normal.below(math.Inf(-1)))
	require.Equal(t, 1.0, normal.below(math.Inf(1)))
	require.Zero(t, normal.below(math.NaN()))
}
