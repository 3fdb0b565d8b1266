package network

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"

	"quorate/p2p"
	"quorate/validators"
)

// The reasons of most weight come first, each with what to do.
func TestObstaclesByWeight(t *testing.T) {
	failures := map[ids.NodeID]p2p.Failure{
		{1}: {Obstacle: p2p.ObstacleClock, Detail: "75 s"},
		{2}: {Obstacle: p2p.ObstacleClock, Detail: "74 s"},
		{3}: {Obstacle: p2p.ObstacleClosed},
		{4}: {Obstacle: p2p.ObstaclePrivateAddress},
		{5}: {Obstacle: p2p.ObstacleVersion, Detail: "v1.99.0"},
	}
	flat := snow.WarpSet{TotalWeight: 100}
	for node, weight := range map[byte]uint64{1: 10, 2: 15, 3: 30, 4: 5, 5: 4, 6: 36} {
		flat.Validators = append(flat.Validators, &snow.Warp{Weight: weight, NodeIDs: []ids.NodeID{{node}}})
	}
	got := obstacles(validators.NewSet(ids.Empty, 1, flat), func(n ids.NodeID) bool { return n == ids.NodeID{6} },
		func(n ids.NodeID) p2p.Failure { return failures[n] })
	require.Len(t, got, maxObstacles)
	require.Regexp(t, "^30.0% of the weight: validators are not connected: they close connections before the handshake. Check that this service's identity is not in use elsewhere.*validatorOnly", got[0])
	require.Regexp(t, "^25.0% of the weight: .* clocks .*74 s.*Set this machine's clock", got[1])
	require.Regexp(t, "^5.0% of the weight: .* Set allow_private_ips", got[2])
}

func TestWarningOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Second)
		defer cancel()
		start := time.Now()
		warn(ctx, func() error {
			if time.Since(start) > 3*time.Minute {
				return nil
			}
			return errors.New("connected to 3.0 % of the weight")
		}, slog.New(slog.NewTextHandler(&log, nil)))
		require.Equal(t, 3, strings.Count(log.String(), "level=WARN"), log.String())
		require.Contains(t, log.String(), "connected to 3.0 % of the weight")
	})
}
