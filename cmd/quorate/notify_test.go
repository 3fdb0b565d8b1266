package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/simnet"
)

// TestServiceManagerIsNotified runs serve as a unit of Type=notify.
func TestServiceManagerIsNotified(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 3, Validators: 4})
	require.NoError(t, err)
	defer n.Close()
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	manager, err := net.ListenUnixgram("unixgram", address)
	require.NoError(t, err)
	defer func() { _ = manager.Close() }()
	require.NoError(t, manager.SetReadDeadline(time.Now().Add(time.Minute)))
	read := func() string {
		message := make([]byte, 100)
		size, err := manager.Read(message)
		require.NoError(t, err)
		return string(message[:size])
	}
	t.Setenv("NOTIFY_SOCKET", address.Name)
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n})
	require.Equal(t, "READY=1", read())
	s.stop(t)
	require.Equal(t, "STOPPING=1", read())
}
