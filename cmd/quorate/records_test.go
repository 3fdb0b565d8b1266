package main

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
)

// ask has an answer of the public surface.
func (s *instance) ask(t *testing.T, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get(s.base + path)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content)
}

// TestUnknownGenesisIsNamed serves a network whose genesis is not the library's, without its file.
func TestUnknownGenesisIsNamed(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 21, Validators: 4})
	require.NoError(t, err)
	defer n.Close()
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n})
	defer s.stop(t)
	for _, path := range []string{
		"/v1/networks/fuji/subnets", "/v1/networks/testnet/delegators",
		"/v1/networks/fuji/blockchains/x-chain/vertices:listByHeight?vertexHeight=0",
	} {
		status, body := s.ask(t, path)
		require.Equal(t, http.StatusServiceUnavailable, status, "%s: %s", path, body)
		require.Contains(t, body, "networks.fuji.genesis_file", path)
		require.Contains(t, body, `"code":"INDEX_LACKS_SOURCE"`, path)
	}
	status, body := s.ask(t, "/v1/networks/mainnet/subnets")
	require.Equal(t, http.StatusNotFound, status, body)
}

// TestVerticesAreServed requests what an X-Chain accepted before it had blocks.
func TestVerticesAreServed(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 22, Validators: 4, History: &simnet.History{
		Options: history.Options{Txs: 600, EarlyTxs: 60, Record: true}, Dir: t.TempDir(),
	}})
	require.NoError(t, err)
	defer n.Close()
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n})
	defer s.stop(t)
	want := make(map[string]history.Vertex)
	height := uint64(2)
	for _, v := range n.History().Generator().Truth().EarlyVertices {
		if v.Height == height {
			want[v.ID.String()] = v
		}
	}
	require.NotEmpty(t, want)
	var answer struct {
		Vertices []struct {
			VertexHash                                string
			VertexHeight                              uint64
			ParentHashes, Transactions                []string
			TxCount, VertexSizeBytes, VertexTimestamp int
		}
	}
	var status int
	var body string
	require.Eventually(t, func() bool {
		status, body = s.ask(t, "/v1/networks/fuji/blockchains/x-chain/vertices:listByHeight?pageSize=100&vertexHeight=2")
		return status == http.StatusOK
	}, 5*time.Minute, 20*time.Millisecond, "%s", body)
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	require.Len(t, answer.Vertices, len(want))
	for _, got := range answer.Vertices {
		v := want[got.VertexHash]
		require.Equal(t, []any{height, len(v.TxIDs), len(v.TxIDs), len(v.ParentIDs), len(v.Bytes)},
			[]any{got.VertexHeight, got.TxCount, len(got.Transactions), len(got.ParentHashes), got.VertexSizeBytes}, got.VertexHash)
		require.NotZero(t, got.VertexTimestamp)
	}
}
