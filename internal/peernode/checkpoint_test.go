package peernode

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"

	"quorate/internal/chain/genesis"
	"quorate/internal/peernode/checkpoint"
)

// started runs a node until the test ends, or stop is called.
func started(t testing.TB, o Options, peers Peers) (n *Node, stop func()) {
	t.Helper()
	n, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, peers) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return n, stop
}

func await(t testing.TB, n *Node, until func(Status) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return until(n.Status()) }, 20*time.Second, time.Millisecond, "%+v", n.Status())
}

// exported exports a checkpoint to a file.
func exported(t testing.TB, n *Node, height uint64) (*Checkpoint, checkpoint.Header) {
	t.Helper()
	var b bytes.Buffer
	var h checkpoint.Header
	hash, err := n.Export(t.Context(), height, func(header checkpoint.Header) io.Writer {
		h = header
		return &b
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	return &Checkpoint{File: file, Hash: hash}, h
}

// checkpointAt returns a checkpoint of the recorded chain.
func checkpointAt(t testing.TB, r *recording, g *genesis.Genesis, height int) *Checkpoint {
	t.Helper()
	n := newNetwork(r, g)
	n.accept(height)
	node, stop := started(t, options(r, g, n), n)
	await(t, node, confirmedAt(height))
	c, h := exported(t, node, 0)
	require.EqualValues(t, height, h.Height)
	stop()
	return c
}

// TestCheckpoint begins with a checkpoint, and compares the state and answers with those of a node that executed all
// blocks.
func TestCheckpoint(t *testing.T) {
	const height = 20
	r, g := record(t)
	n := newNetwork(r, g)
	n.accept(height)
	whole, _ := started(t, options(r, g, n), n)
	await(t, whole, confirmedAt(height))
	o := options(r, g, n)
	o.Dir = filepath.Join(t.TempDir(), "pchain")
	o.Checkpoint, _ = exported(t, whole, 0)
	begun, stop := started(t, o, n)
	await(t, begun, confirmedAt(height))
	require.EqualValues(t, height, begun.First())
	require.NoDirExists(t, o.Dir+".import")
	n.accept(25)
	await(t, begun, confirmedAt(25))
	stop()

	// The file is not needed any more.
	require.NoError(t, os.Remove(o.Checkpoint.File))
	begun, _ = started(t, o, n)
	require.EqualValues(t, height, begun.First())
	n.accept(len(r.P))
	await(t, begun, confirmedAt(len(r.P)))
	await(t, whole, confirmedAt(len(r.P)))
	want, at := exported(t, whole, uint64(len(r.P)))
	require.EqualValues(t, len(r.P), at.Height)
	got, _ := exported(t, begun, 0)
	require.Equal(t, want.Hash, got.Hash)

	same := func(method, params string) {
		t.Helper()
		_, want := call(t, whole, "/ext/bc/P", method, params)
		_, got := call(t, begun, "/ext/bc/P", method, params)
		require.Contains(t, want, `"result"`, "%s %s", method, params)
		require.JSONEq(t, want, got, "%s %s", method, params)
	}
	for h := range len(r.P) + 1 {
		same("platform.getAllValidatorsAt", fmt.Sprintf(`{"height":"%d"}`, h))
		if h >= height {
			same("platform.getBlockByHeight", fmt.Sprintf(`{"height":"%d","encoding":"hex"}`, h))
			continue
		}
		for _, params := range []string{`{"height":"%d","encoding":"hex"}`, `[{"height":"%d","encoding":"hex"}]`, `{"height":%d}`} {
			requireMissing(t, begun, "platform.getBlockByHeight", fmt.Sprintf(params, h))
		}
	}
	for _, method := range []string{"getCurrentValidators", "getSubnets", "getBlockchains", "getHeight", "getProposedHeight", "getCurrentSupply", "getValidatorFeeState", "getFeeState", "getTimestamp", "getTotalStake"} {
		same("platform."+method, "{}")
	}
	same("platform.getTx", fmt.Sprintf(`{"txID":%q,"encoding":"hex"}`, g.Validators[0].ID()))
	same("platform.getTxStatus", fmt.Sprintf(`{"txID":%q}`, g.Validators[0].ID()))
	old, later := 0, 0
	for i, container := range r.P {
		parsed, err := block.Parse(block.Codec, open(container).Block)
		require.NoError(t, err)
		for _, tx := range parsed.Txs() {
			_, known := call(t, begun, "/ext/bc/P", "platform.getTxStatus", fmt.Sprintf(`{"txID":%q}`, tx.ID()))
			_, want := call(t, whole, "/ext/bc/P", "platform.getTxStatus", fmt.Sprintf(`{"txID":%q}`, tx.ID()))
			switch {
			case known == want:
				later++
			case i < height:
				requireMissing(t, begun, "platform.getTx", fmt.Sprintf(`{"txID":%q}`, tx.ID()))
				requireMissing(t, begun, "platform.getTxStatus", fmt.Sprintf(`{"txID":%q}`, tx.ID()))
				old++
			default:
				t.Errorf("transaction %s of block %d: got %s, want %s", tx.ID(), i+1, known, want)
			}
		}
		if i < height-1 {
			requireMissing(t, begun, "platform.getBlock", fmt.Sprintf(`{"blockID":%q}`, parsed.ID()))
		}
	}
	require.Positive(t, old)
	require.Positive(t, later)
	for _, h := range []uint64{1, height - 1} {
		_, err := begun.BlockID(t.Context(), h)
		require.EqualError(t, err, fmt.Sprintf("block %d is not known here: the state began with a checkpoint at height %d", h, height))
	}
	_, err := begun.BlockID(t.Context(), height)
	require.NoError(t, err)
	_, err = begun.BlockID(t.Context(), 1000)
	require.ErrorIs(t, err, ErrBehind)
	_, answer := call(t, begun, "/ext/bc/P", "platform.getBlockByHeight", `{"height":"1000"}`)
	require.Contains(t, answer, "couldn't get block at height 1000: not found", "which is above the tip")
}

func requireMissing(t testing.TB, n *Node, method, params string) {
	t.Helper()
	status, answer := call(t, n, "/ext/bc/P", method, params)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, "the state began with a checkpoint at height 20", "%s %s", method, params)
	require.Contains(t, answer, `"code":404`)
}

// TestCheckpointOfOtherChain has the voters accept another chain than that of the checkpoint, and one that ends below it.
func TestCheckpointOfOtherChain(t *testing.T) {
	r, g := record(t)
	c := checkpointAt(t, r, g, 20)
	for name, height := range map[string]uint64{"the same height": 20, "the next height": 21, "above": 22} {
		other, err := block.NewBanffStandardBlock(time.Now(), ids.ID{1}, 20, nil)
		require.NoError(t, err)
		chain := [][]byte{other.Bytes()}
		for h := uint64(21); h <= height; h++ {
			other, err = block.NewBanffStandardBlock(time.Now(), other.ID(), h, nil)
			require.NoError(t, err)
			chain = append(chain, other.Bytes())
		}
		n := newNetwork(&recording{P: chain}, g)
		o := options(r, g, n)
		o.Checkpoint = c
		node, err := New(o)
		require.NoError(t, err)
		require.ErrorIs(t, node.Run(t.Context(), n), errOtherCheckpoint, name)
		require.Error(t, node.Ready(), name)
	}

	n := newNetwork(r, g)
	n.accept(15)
	o := options(r, g, n)
	o.Checkpoint = c
	node, _ := started(t, o, n)
	await(t, node, func(s Status) bool { return s.Err != nil && s.Height == 20 })
	require.ErrorContains(t, node.Ready(), "the network's last accepted block is below that of the checkpoint")
	_, err := node.Export(t.Context(), 0, nil)
	require.ErrorIs(t, err, ErrBehind)
	n.accept(20)
	await(t, node, confirmedAt(20))
	n.accept(len(r.P))
	await(t, node, confirmedAt(len(r.P)))
}

// TestBadCheckpoint has files that cannot be used. Nothing of them stays.
func TestBadCheckpoint(t *testing.T) {
	r, g := record(t)
	c := checkpointAt(t, r, g, 20)
	n := newNetwork(r, g)
	good, err := os.ReadFile(c.File)
	require.NoError(t, err)
	try := func(file []byte, hash ids.ID, g *genesis.Genesis, message string) {
		t.Helper()
		o := options(r, g, n)
		o.Dir = filepath.Join(t.TempDir(), "pchain")
		require.NoError(t, os.Mkdir(o.Dir, 0o700))
		o.Checkpoint = &Checkpoint{filepath.Join(t.TempDir(), "file"), hash}
		require.NoError(t, os.WriteFile(o.Checkpoint.File, file, 0o600))
		node, err := New(o)
		if err == nil {
			err = node.Run(t.Context(), n)
		}
		require.ErrorContains(t, err, message)
		entries, err := os.ReadDir(o.Dir)
		require.NoError(t, err)
		require.Empty(t, entries)
		require.NoDirExists(t, o.Dir+".import")
	}
	try(nil, c.Hash, g, "no complete checkpoint")
	try(good[:len(good)/2], c.Hash, g, "no complete checkpoint")
	flipped := bytes.Clone(good)
	flipped[len(flipped)*2/3] ^= 4
	try(flipped, c.Hash, g, "no complete checkpoint")
	try(good, ids.ID{1}, g, "checkpoint_hash is 01")
	otherGenesis, otherNetwork := *g, *g
	otherGenesis.Bytes = append(bytes.Clone(g.Bytes), 0)
	otherNetwork.NetworkID++
	try(good, c.Hash, &otherGenesis, "it is of a network with another genesis")
	try(good, c.Hash, &otherNetwork, "and not of network 12346")
}

// TestImportIsKilled leaves an unfinished import, as a process that was killed does. The next one begins again.
func TestImportIsKilled(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	o := options(r, g, n)
	o.Dir = filepath.Join(t.TempDir(), "pchain")
	o.Checkpoint = checkpointAt(t, r, g, 20)
	db, err := openDatabase(o.Dir + ".import")
	require.NoError(t, err)
	require.NoError(t, db.Put([]byte("half"), []byte("a state")))
	require.NoError(t, db.Close())
	run(t, o, n, confirmedAt(len(r.P)))
	db, err = openDatabase(o.Dir)
	require.NoError(t, err)
	has, err := db.Has([]byte("half"))
	require.NoError(t, err)
	require.False(t, has)
	require.NoError(t, db.Close())
}

// TestImportKeepsFolder imports into a folder that cannot be replaced, such as a mount point. It has what a file system and
// a process that was killed before the database was complete leave there.
func TestImportKeepsFolder(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	o := options(r, g, n)
	o.Dir = filepath.Join(t.TempDir(), "pchain")
	o.Checkpoint = checkpointAt(t, r, g, 20)
	require.NoError(t, os.MkdirAll(filepath.Join(o.Dir, "lost+found"), 0o700))
	for _, name := range []string{"LOCK", "LOG", "MANIFEST-000000", "CURRENT.0"} {
		require.NoError(t, os.WriteFile(filepath.Join(o.Dir, name), []byte("MANIFEST-000000\n"), 0o600))
	}
	before, err := os.Stat(o.Dir)
	require.NoError(t, err)
	node := run(t, o, n, confirmedAt(len(r.P)))
	require.EqualValues(t, 20, node.First())
	after, err := os.Stat(o.Dir)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.DirExists(t, filepath.Join(o.Dir, "lost+found"))
	require.NoDirExists(t, filepath.Join(o.Dir, importFolder))
}

// TestDamagedDatabase does not import over a database that can perhaps be repaired.
func TestDamagedDatabase(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	o := options(r, g, n)
	o.Dir = t.TempDir()
	run(t, o, n, confirmedAt(len(r.P)))
	require.NoError(t, os.Remove(filepath.Join(o.Dir, currentFile)))
	o.Checkpoint = checkpointAt(t, r, g, 20)
	before, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	node, err := New(o)
	require.NoError(t, err)
	require.ErrorContains(t, node.Run(t.Context(), n), "the folder "+o.Dir+" has the file 0")
	after, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// TestImportIsKilledWhileMoving ends a process after each file that an import moves. The next one begins with the checkpoint, or
// with the genesis if the checkpoint is not configured any more, and not with a part of the state.
func TestImportIsKilledWhileMoving(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	c := checkpointAt(t, r, g, 20)
	for moved, last := 0, false; !last; moved++ {
		for _, again := range []bool{true, false} {
			o := options(r, g, n)
			o.Dir, o.Checkpoint = filepath.Join(t.TempDir(), "pchain"), c
			killed, err := New(o)
			require.NoError(t, err)
			unfinished := filepath.Join(o.Dir, importFolder)
			require.NoError(t, killed.importInto(t.Context(), unfinished))
			files, err := os.ReadDir(unfinished)
			require.NoError(t, err)
			slices.SortStableFunc(files, func(a, b os.DirEntry) int {
				return cmp.Compare(strings.Count(a.Name(), currentFile), strings.Count(b.Name(), currentFile))
			})
			for _, file := range files[:moved] {
				require.NoError(t, os.Rename(filepath.Join(unfinished, file.Name()), filepath.Join(o.Dir, file.Name())))
			}
			last = moved == len(files)
			first := 20
			if !again {
				o.Checkpoint = nil
				if !last {
					first = 0
				}
			}
			node := run(t, o, n, confirmedAt(len(r.P)))
			require.EqualValues(t, first, node.First(), "after %v", files[:moved])
			require.NoDirExists(t, unfinished)
			o.Checkpoint = nil
			node, err = New(o)
			require.NoError(t, err)
			require.EqualValues(t, first, node.First(), "after another start")
		}
	}
}

// TestExportAtHeight exports checkpoints of coming heights. One is that of a proposal, whose changes the next block makes.
func TestExportAtHeight(t *testing.T) {
	r, g := record(t)
	n := newNetwork(r, g)
	n.accept(20)
	node, stop := started(t, options(r, g, n), n)
	await(t, node, confirmedAt(20))
	_, err := node.Export(t.Context(), 19, nil)
	require.ErrorIs(t, err, ErrPast)
	type result struct {
		height uint64
		hash   ids.ID
		err    error
	}
	results := make(chan result)
	export := func(height uint64) {
		var h checkpoint.Header
		hash, err := node.Export(context.Background(), height, func(header checkpoint.Header) io.Writer { h = header; return io.Discard })
		results <- result{h.Height, hash, err}
	}
	waiting := func(n int) func() bool {
		return func() bool {
			node.exportMu.Lock()
			defer node.exportMu.Unlock()
			return len(node.awaited) == n
		}
	}
	go export(25)
	go export(proposal)
	go export(proposal + 1)
	go export(1000)
	require.Eventually(t, waiting(4), 10*time.Second, time.Millisecond)
	_, err = node.Export(t.Context(), 0, nil)
	require.ErrorIs(t, err, ErrBusy)
	n.accept(len(r.P))
	hashes := make(map[uint64]ids.ID)
	for range 3 {
		got := <-results
		require.NoError(t, got.err)
		if before, ok := hashes[got.height]; ok {
			require.Equal(t, before, got.hash)
		}
		hashes[got.height] = got.hash
	}
	require.Len(t, hashes, 2)
	require.Equal(t, checkpointAt(t, r, g, 25).Hash, hashes[25])
	require.Equal(t, checkpointAt(t, r, g, proposal+1).Hash, hashes[proposal+1])
	stop() // which ends the one that still waits
	require.ErrorContains(t, (<-results).err, "not followed any more")
	require.True(t, waiting(0)())

	// While a proposal is the last block, the state is that of its parent.
	n.accept(proposal)
	node, _ = started(t, options(r, g, n), n)
	await(t, node, confirmedAt(proposal))
	c, h := exported(t, node, 0)
	require.EqualValues(t, proposal-1, h.Height)
	require.Equal(t, checkpointAt(t, r, g, proposal-1).Hash, c.Hash)
}
