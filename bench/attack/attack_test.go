package main

import (
	"net"
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
			require.NotEmpty(t, m.honest)
			require.LessOrEqual(t, m.failed, 1, "of %d honest requests", m.failed+len(m.honest))
			// A batch of heights takes longer than the attack, and the node never answers the calls of slow.
			if name != "heights" && name != "slow" {
				require.Positive(t, m.responses, m.statuses)
			}
		})
	}
}

// TestAnswered tells a success from failures, which JSON-RPC reports with status 200.
func TestAnswered(t *testing.T) {
	for content, ok := range map[string]bool{
		`{"signedMessage":"00"}`:                   true,
		`{"result":{"height":"5"},"error":null}`:   true,
		`{"error":{"code":-32000,"message":"no"}}`: false,
		`<html>`: false,
	} {
		require.Equal(t, ok, answered(200, []byte(content)) == nil, content)
	}
	require.ErrorContains(t, answered(503, []byte(`{}`)), "answered 503")
}

// TestHealth reads the status, and fails without a response.
func TestHealth(t *testing.T) {
	for text, want := range map[string]int{"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n": 503, "": broken} {
		client, server := net.Pipe()
		go func() {
			_, _ = server.Read(make([]byte, 1000))
			_, _ = server.Write([]byte(text))
			_ = server.Close()
		}()
		status, err := health(client)
		require.Equal(t, want, status)
		require.Equal(t, want == broken, err != nil)
		require.NoError(t, client.Close())
	}
}
