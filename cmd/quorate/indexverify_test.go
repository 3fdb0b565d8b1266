package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The supply is compared with nothing.
func TestIndexVerifyHelp(t *testing.T) {
	code, out, _ := quorate(t, "", "index", "verify", "--help")
	require.Equal(t, exitOK, code)
	require.Contains(t, out, "that outputs and balances agree")
	require.Contains(t, out, "prints\nthe supply of each chain")
}

// The server must keep a view open as long as a verification may take, and is told so when the command connects.
func TestIndexVerifyKeepsItsView(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	settings := make(chan []string, 1)
	go func() {
		defer server.Close()
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		startup := make([]byte, 4096)
		n, _ := conn.Read(startup)
		settings <- strings.Split(string(startup[:n]), "\x00")
		_, _ = conn.Write([]byte("E\x00\x00\x00\x1aSFATAL\x00C28P01\x00Mfails\x00\x00"))
	}()
	file := filepath.Join(t.TempDir(), "quorate.yaml")
	text := fmt.Sprintf("store: postgres://quorate@%s/quorate?sslmode=disable\nnetworks: {fuji: {nodes: [http://127.0.0.1:1]}}\n", server.Addr())
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	code, _, errOut := quorate(t, "", "index", "verify", "--config", file)
	require.Equal(t, exitFailed, code, errOut)
	got := <-settings
	at := slices.Index(got, "idle_in_transaction_session_timeout")
	require.Positive(t, at, "%q", got)
	require.Equal(t, strconv.FormatInt((longestView+time.Minute).Milliseconds(), 10), got[at+1])
}
