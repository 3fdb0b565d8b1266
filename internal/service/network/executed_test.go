package network

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/hashing"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/chain/genesis"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/peernode"
)

// executedBlocks is an executed chain. Its node API does not answer yet.
type executedBlocks [][]byte

func (e executedBlocks) Executed() (uint64, bool) { return uint64(len(e) - 1), len(e) > 0 }

func (executedBlocks) Ready() error { return peernode.ErrBehind }

func (e executedBlocks) BlockID(_ context.Context, height uint64) (ids.ID, error) {
	if height >= uint64(len(e)) {
		return ids.Empty, peernode.ErrBehind
	}
	return hashing.ComputeHash256Array(e[height]), nil
}

func (executedBlocks) Offers(path, _ string) (offers, now bool) { return path == "/ext/bc/P", false }

func (executedBlocks) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("behind")), Request: r}, nil
}

// TestOnlyExecutedBlocksAreIndexed: the index gets blocks from nodes as far as they are the executed ones.
func TestOnlyExecutedBlocksAreIndexed(t *testing.T) {
	var blocks executedBlocks
	var containers [][]byte // of heights from 1 on
	for i := range 6 {
		blocks = append(blocks, fmt.Appendf(nil, "block %d", i))
		if i == 0 {
			continue
		}
		container := blocks[i]
		if i > 2 { // as after the fork
			var err error
			container, err = proposedBytes(ids.ID{byte(i)}, blocks[i])
			require.NoError(t, err)
		}
		containers = append(containers, container)
	}
	said := append([][]byte(nil), containers...) // by the node
	single := append([][]byte(nil), blocks...)   // by the node
	claimed := ids.Empty                         // ID of the container at height 3, if not its own
	encode := func(b []byte) string {
		text, err := formatting.Encode(formatting.Hex, b)
		require.NoError(t, err)
		return text
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string
			Params struct {
				Height     json.Number `json:"height"`
				StartIndex json.Number `json:"startIndex"`
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		var result any
		switch call.Method {
		case "index.getContainerRange":
			start, _ := call.Params.StartIndex.Int64()
			var found []map[string]any
			for i := int(start); i < len(said); i++ {
				id := ids.ID(hashing.ComputeHash256Array(said[i]))
				if parsed, err := proposer.ParseWithoutVerification(said[i]); err == nil {
					id = parsed.ID()
				}
				if i == 2 && claimed != ids.Empty {
					id = claimed
				}
				found = append(found, map[string]any{"id": id, "bytes": encode(said[i]), "timestamp": time.Unix(5, 0), "encoding": "hex", "index": fmt.Sprint(i)})
			}
			result = map[string]any{"containers": found}
		case "platform.getBlockByHeight":
			height, _ := call.Params.Height.Int64()
			result = map[string]any{"block": encode(single[height]), "encoding": "hex"}
		case "platform.getHeight":
			result = map[string]any{"height": "1000"}
		case "platform.getRewardUTXOs":
			result = map[string]any{"utxos": []string{encode([]byte("forged"))}, "numFetched": "1", "encoding": "hex"}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": result})
	}))
	defer server.Close()
	client, err := node.New(node.Options{Endpoints: []string{server.URL, node.PeersEndpoint}, Peers: blocks})
	require.NoError(t, err)
	defer client.Close()
	v := verifiedNode{client, client.Executed(), blocks}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ask := func(start uint64) ([]node.Container, error) { return v.BlockRange(ctx, start, 16) }

	found, err := ask(0)
	require.NoError(t, err)
	require.Len(t, found, 5)
	for i, c := range found {
		require.Equal(t, containers[i], c.Bytes)
	}
	said[3], err = proposedBytes(ids.ID{4}, []byte("forged"))
	require.NoError(t, err)
	found, err = ask(0)
	require.NoError(t, err)
	require.Len(t, found, 3, "a forged block was taken")
	_, err = ask(3)
	require.ErrorIs(t, err, node.ErrMalformed)
	require.ErrorContains(t, err, "P-Chain block 4 is "+ids.ID(hashing.ComputeHash256Array([]byte("forged"))).String()+", but the validators have accepted "+ids.ID(hashing.ComputeHash256Array(blocks[4])).String())
	said[3] = blocks[4] // the right block without its envelope
	found, err = ask(3)
	require.NoError(t, err)
	require.Len(t, found, 2)
	claimed = ids.ID{9}
	found, err = ask(0)
	require.NoError(t, err)
	require.Len(t, found, 2, "a container with a forged ID was taken")
	said = slices.Concat(containers, [][]byte{fmt.Append(nil, "block 6")})
	_, err = ask(5)
	require.ErrorIs(t, err, node.ErrBeyondTip)

	height, err := v.Height(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(5), height, "the node says 1000")
	b, err := v.BlockByHeight(ctx, 3)
	require.NoError(t, err)
	require.Equal(t, blocks[3], b)
	single[3] = []byte("forged")
	_, err = v.BlockByHeight(ctx, 3)
	require.ErrorIs(t, err, node.ErrMalformed)
	_, err = v.RewardUTXOs(ctx, ids.ID{1}, 3)
	require.ErrorIs(t, err, node.ErrUnavailable)
}

func proposedBytes(parent ids.ID, b []byte) ([]byte, error) {
	wrapped, err := proposer.BuildUnsigned(parent, time.Unix(1, 0), 1, proposer.Epoch{}, b)
	if err != nil {
		return nil, err
	}
	return wrapped.Bytes(), nil
}

// TestBlocksBelowCheckpoint: an index that needs blocks from before the checkpoint waits, and the error names the folder.
func TestBlocksBelowCheckpoint(t *testing.T) {
	dir := t.TempDir() // with a state that began with a checkpoint
	require.NoError(t, os.WriteFile(filepath.Join(dir, "CURRENT"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "checkpoint.json"), []byte(`{"height":20}`), 0o600))
	begun, err := peernode.New(peernode.Options{Dir: dir, Genesis: new(genesis.Genesis), Beacons: []ids.NodeID{{1}}})
	require.NoError(t, err)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for name, test := range map[string]struct {
		nodes  []string
		ledger bool
	}{
		"L1 transactions alone":         {[]string{node.PeersEndpoint}, false},
		"a ledger alone":                {[]string{node.PeersEndpoint}, true},
		"L1 transactions beside a node": {[]string{node.PeersEndpoint, server.URL}, false},
		"a ledger beside a node":        {[]string{server.URL, node.PeersEndpoint}, true},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := node.New(node.Options{Endpoints: test.nodes, Peers: begun})
			require.NoError(t, err)
			defer client.Close()
			asked := (&Network{Name: "fuji", Node: client, peerNode: begun, ledger: test.ledger}).indexNode()
			_, err = index.NewPChainSource(asked, nil).Fetch(t.Context(), 7, 16)
			var missing *index.MissingError
			require.ErrorAs(t, err, &missing)
			require.Equal(t, "P-Chain block 7 is not known here, because the P-Chain's state began with a checkpoint at height 20; "+
				"stop quorate, remove DATA_DIR/fuji/pchain, and begin without a checkpoint or with one below block 7", missing.Reason())
			ended, end := context.WithCancel(t.Context())
			end()
			_, err = asked.BlockByHeight(ended, 20)
			require.ErrorIs(t, err, context.Canceled, "the block is not requested")
		})
	}
}
