package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/bench/rig"
)

// Each attack runs for a second. During it, the honest client is answered.
func TestAttacks(t *testing.T) {
	r := &rig.Run{Output: new(rig.Output), Dir: t.TempDir(), Seed: 1}
	for name, a := range attacks() {
		t.Run(name, func(t *testing.T) {
			target, err := newTarget(t.Context(), r, name, a, 600)
			require.NoError(t, err)
			defer target.close()
			m, err := target.during(t.Context(), time.Second, a, a.run)
			require.NoError(t, err)
			require.NoError(t, target.service.Ended())
			require.Positive(t, m.requests)
			require.NotEmpty(t, m.honest, "%d honest requests failed", m.failed)
		})
	}
}
