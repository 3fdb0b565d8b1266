package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The supply is compared with nothing.
func TestIndexVerifyHelp(t *testing.T) {
	code, out, _ := quorate(t, "", "index", "verify", "--help")
	require.Equal(t, exitOK, code)
	require.Contains(t, out, "that outputs and balances agree")
	require.Contains(t, out, "prints\nthe supply of each chain")
}
