package e2e

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/vms/platformvm"

	"quorate/e2e/localnet"
)

// checkpoint exports a checkpoint from a service, and returns the file, its hash and its height.
func (s *service) checkpoint(height uint64) (file, hash string, at uint64) {
	s.t.Helper()
	file = filepath.Join(s.t.TempDir(), "checkpoint")
	args := []string{"checkpoint", "export", "--server", s.private, file}
	if height > 0 {
		args = append(args, "--height", fmt.Sprint(height))
	}
	out, err := exec.Command(s.program, args...).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	shown, err := exec.Command(s.program, "checkpoint", "show", file).CombinedOutput()
	require.NoError(s.t, err, "%s", shown)
	require.Equal(s.t, string(out), string(shown))
	for line := range strings.Lines(string(out)) {
		switch name, rest, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "hash":
			hash = strings.TrimSpace(rest)
		case "P-Chain":
			_, err := fmt.Sscanf(strings.TrimSpace(rest), "height %d", &at)
			require.NoError(s.t, err)
		}
	}
	require.Len(s.t, hash, 64)
	s.t.Logf("%s", out)
	return file, hash, at
}

// TestCheckpoint starts a service with the checkpoint of another one. It signs, and at all heights it
// has the validators of a node. Later both export the same state.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 9*time.Minute)
	defer cancel()
	program := buildService(t)
	network := localnet.StartWith(t, localnet.Options{Stakers: localnet.Size, SubnetEVM: true})
	node := network.Node(0).URL
	_, _, height := startL1(t, ctx, network, 0, 1)
	c := newCChain(t, ctx, node)
	first := startWithoutNodes(t, ctx, program, network)
	require.Eventually(t, func() bool {
		h, err := platformvm.NewClient(first.url + "/local").GetHeight(ctx)
		return err == nil && h >= height
	}, time.Minute, 100*time.Millisecond)
	file, hash, at := first.checkpoint(0)
	require.GreaterOrEqual(t, at, height)

	began := time.Now()
	second := startWithPeers(t, ctx, program, network, withPeers{settings: map[string]string{"checkpoint": file, "checkpoint_hash": hash}})
	m, _ := c.message(ctx, c.sendByContract(ctx, []byte("a checkpoint")))
	status, r := second.post(ctx, signPath, map[string]any{"message": hex.EncodeToString(m.Bytes())})
	require.Equal(t, http.StatusOK, status, r.Message)
	t.Logf("the first signed message came %s after the start, with a checkpoint", time.Since(began).Round(time.Millisecond))
	valid, content := c.read(ctx, parseSigned(t, r.SignedMessage))
	require.True(t, valid)
	require.Equal(t, "a checkpoint", string(content))
	require.FileExists(t, filepath.Join(second.dataDir, "local", "pchain", "checkpoint.json"), "it began with genesis")
	second.compareSets(ctx, node)

	// Both wait for the same height, and the chain goes on.
	var exports sync.WaitGroup
	hashes, heights := make([]string, 2), make([]uint64, 2)
	for i, s := range []*service{first, second} {
		exports.Go(func() { _, hashes[i], heights[i] = s.checkpoint(at + 20) })
	}
	exported := make(chan struct{})
	go func() { exports.Wait(); close(exported) }()
	p := newPChain(t, ctx, node)
	for more := true; more; {
		p.nudge()
		select {
		case <-exported:
			more = false
		case <-time.After(200 * time.Millisecond): // so that both commands wait before the chain has that height
		}
	}
	require.Equal(t, []uint64{at + 20, at + 20}, heights)
	require.Equal(t, hashes[0], hashes[1])
	second.compareSets(ctx, node)

	err := localnet.Call(ctx, second.url+"/local", "/ext/bc/P", "platform.getBlockByHeight", map[string]any{"height": "1"}, new(any))
	require.ErrorContains(t, err, "the state began with a checkpoint")
	require.Eventually(t, func() bool {
		var status struct {
			Networks map[string]map[string]struct{ From, Next uint64 }
		}
		r, err := http.Get(second.private + "/index")
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }()
		if json.NewDecoder(r.Body).Decode(&status) != nil {
			return false
		}
		p := status.Networks["local"]["P"]
		return p.From == at+1 && p.Next > at+2
	}, 30*time.Second, 100*time.Millisecond, "the index does not begin after the checkpoint")
}
