package rig

import (
	"cmp"
	"slices"
	"time"
)

// Summary holds quantiles of durations.
type Summary struct {
	P50, P99, Worst time.Duration
}

// Summarize returns the quantiles of durations.
func Summarize(all []time.Duration) Summary {
	sorted := slices.Sorted(slices.Values(all))
	return Summary{P50: at(sorted, 0.5), P99: at(sorted, 0.99), Worst: at(sorted, 1)}
}

// Quantile returns the q-quantile of values, or zero if there are none.
func Quantile[T cmp.Ordered](values []T, q float64) T {
	return at(slices.Sorted(slices.Values(values)), q)
}

func at[T cmp.Ordered](sorted []T, q float64) (value T) {
	if len(sorted) > 0 {
		value = sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
	}
	return value
}
