package testenv

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFreePort takes so many ports that random ones would repeat.
func TestFreePort(t *testing.T) {
	taken := make(map[int]bool)
	for range 1000 {
		port, err := FreePort()
		require.NoError(t, err)
		defer func() { require.NoError(t, port.Close()) }()
		require.False(t, taken[port.Number()], "port %d twice", port.Number())
		taken[port.Number()] = true
	}
}

// A program can listen on the port.
func TestFreePortIsFree(t *testing.T) {
	port, err := FreePort()
	require.NoError(t, err)
	l, err := net.Listen("tcp", port.Address())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, port.Close())
}
