package primary_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/cputime"
	"quorate/internal/index"
	"quorate/internal/index/l1"
	"quorate/internal/index/ledger"
	"quorate/internal/index/primary"
	"quorate/internal/node"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// order holds the parameters of a process that indexes until it is killed.
type order struct {
	Dir, URL string
	// Commits is the number of commits after which the process kills itself right before the next one; 0 means never.
	Commits int64
}

// dying is a store that kills its process right before a commit.
type dying struct {
	store.Store
	left atomic.Int64 // commits left
}

func (d *dying) Commit(ctx context.Context, b *store.Batch) error {
	if d.left.Add(-1) < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-ctx.Done() // the kill may take a moment
		return ctx.Err()
	}
	return d.Store.Commit(ctx, b)
}

const orderEnv = "QUORATE_PRIMARY_TEST_ORDER"

func TestMain(m *testing.M) {
	if text := os.Getenv(orderEnv); text != "" {
		var o order
		err := json.Unmarshal([]byte(text), &o)
		if err == nil {
			err = work(o)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// heights are the next heights of chains by name.
type heights map[string]uint64

// work indexes and reports its progress on standard output.
func work(o order) error {
	ctx := context.Background()
	var s store.Store
	s, err := store.OpenPebble(ctx, store.PebbleOptions{Dir: o.Dir, CacheBytes: 4 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		return err
	}
	client, g, err := dial(o.URL)
	if err != nil {
		return err
	}
	if o.Commits > 0 {
		d := &dying{Store: s}
		d.left.Store(o.Commits)
		s = d
	}
	var chains *primary.Network
	out := json.NewEncoder(os.Stdout)
	chains, err = primary.New(options(o.URL, client, g, s))
	if err != nil {
		return err
	}
	go func() {
		for {
			at := make(heights)
			for chain, status := range chains.Status() {
				if status.State == index.Stopped {
					fmt.Fprintln(os.Stderr, chain, status.Err)
					os.Exit(1)
				}
				at[chain] = status.Next
			}
			if out.Encode(at) != nil {
				os.Exit(1)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return errors.Join(chains.Run(ctx), errors.New("the process ended by itself"))
}

// smallWindow limits batches to about 30 blocks, in bytes.
const smallWindow = 480 << 10

// options returns the options of a Network for a node and a store.
func options(url string, client *node.Client, g *genesis.Genesis, s store.Store) primary.Options {
	return primary.Options{
		NetworkID: g.NetworkID, Node: client, Peers: peerAt(url), Store: s, Genesis: g, WindowBytes: smallWindow,
		Projections: []index.Projection[*pchain.Block]{l1.NewProjection(g.NetworkID)},
		// A fixed time makes equal histories give equal rows.
		Now: func() time.Time { return time.Unix(1_600_000_000, 1) },
	}
}

func dial(url string) (*node.Client, *genesis.Genesis, error) {
	client, err := node.New(node.Options{Endpoints: []string{url}})
	if err != nil {
		return nil, nil, err
	}
	b, err := client.BlockByHeight(context.Background(), 0)
	if err != nil {
		return nil, nil, err
	}
	first, err := pchain.ParseBlock(b)
	if err != nil {
		return nil, nil, err
	}
	g, err := genesis.Of(networkID, first.ID)
	return client, g, err
}

// tips returns the heights of a node's chains. Transactions from before the X-Chain had blocks count as blocks,
// followed by one.
func (n *testNode) tips() heights {
	early := uint64(len(n.Generator().Truth().EarlyTxIDs))
	return heights{index.PChain: n.Height(history.P) + 1, index.XChain: early + 1 + n.Height(history.X) + 1, index.CChain: n.Height(history.C) + 1}
}

// record indexes until everything on a node is indexed, including vertices and atomic transfers.
func record(t testing.TB, n *testNode, s store.Store) {
	t.Helper()
	client, g := connect(t, n.url)
	chains, err := primary.New(options(n.url, client, g, s))
	require.NoError(t, err)
	runUntil(t, n, chains, g, s)
}

func runUntil(t testing.TB, n *testNode, chains *primary.Network, g *genesis.Genesis, s store.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, chains.Run(ctx))
	}()
	require.Eventually(t, func() bool {
		for chain, status := range chains.Status() {
			require.NotEqual(t, index.Stopped, status.State, "%s: %v", chain, status.Err)
			if n.away.Load() && status.State == index.Following {
				t.Errorf("chain %s: got state %q, want a state that does not depend on the node", chain, status.State)
			}
			if status.Next < n.tips()[chain] {
				return false
			}
		}
		for range store.Rows(t.Context(), s, store.FamilyVertexFetched) {
			return false // vertices are not in order yet
		}
		_, _, err := chains.Vertices.At(t.Context(), 1, true, 1, nil)
		return err == nil
	}, 5*time.Minute, 5*time.Millisecond, "chains up to %v, and vertices", n.tips())
	cancel()
	<-ended
	require.NoError(t, ledger.NewMatcher(s, g.NetworkID, nil).Settle(t.Context()))
}

// digest returns the hash of a store's contents except the writers' epochs.
func digest(t testing.TB, s store.Reader) (sum [32]byte) {
	t.Helper()
	h := sha256.New()
	for _, family := range store.Families() {
		for row, err := range store.Rows(t.Context(), s, family) {
			require.NoError(t, err)
			v := row.V
			if family == store.FamilyMeta && strings.HasSuffix(string(row.P), "/replaced") {
				continue // progress of a rebuild in place
			}
			if family == store.FamilyCursor && strings.HasPrefix(string(row.P), "form/") {
				continue // fence of upgrades
			}
			if family == store.FamilyCursor {
				v = slices.Clone(v[:8])
			}
			_, _ = fmt.Fprintf(h, "%d %d %x %d %x %d %x\n", family, len(row.P), row.P, len(row.K), row.K, len(v), v)
		}
	}
	h.Sum(sum[:0])
	return sum
}

// cursors returns the cursors of a store.
func cursors(t testing.TB, s store.Reader) heights {
	t.Helper()
	at := make(heights)
	for chain, projections := range map[string][]string{
		index.PChain: {index.Containers, "l1", "ledger+subnets", "registry"}, index.XChain: {index.Containers, "ledger"}, index.CChain: {index.Containers, "ledger"},
	} {
		for i, projection := range projections {
			c, err := store.ReadCursor(t.Context(), s, index.Cursor(networkID, chain, projection))
			require.NoError(t, err)
			if i == 0 || c.Next < at[chain] {
				at[chain] = c.Next
			}
		}
	}
	return at
}

// TestKilled kills a process that indexes all chains at random moments while it catches up. Acknowledged blocks are
// always present and are served after less than a second of work. The final rows equal those of a process that was
// never killed, and those of the memory engine.
//
//test:plain
func TestKilled(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 8
	}
	const each = 200 // transactions
	n := newTestNode(t, 1, kills*each)
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1)) // any seed
	asked := n.Addresses()[0]
	inside, reached := 0, heights{}
	var serving, work []time.Duration
	for kill := range kills {
		// The chains grow between kills, so that there is always work.
		require.NoError(t, n.Grow(t.Context(), each))
		o := order{Dir: dir, URL: n.url}
		if kill%2 == 0 {
			// Too few commits to reach the tips of three chains.
			o.Commits = 1 + rng.Int64N(2)
		}
		acknowledged := killed(t, o, n.tips(), rng.IntN(40), time.Duration(rng.IntN(8000))*time.Microsecond)
		begun, busy := time.Now(), cputime.Used()
		s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
		require.NoError(t, err)
		_, _, err = ledger.New(s, networkID).Balances(t.Context(), constants.PlatformChainID, []ids.ShortID{asked}, time.Time{})
		if err != nil {
			require.ErrorIs(t, err, ledger.ErrUnknownChain)
		}
		serving, work = append(serving, time.Since(begun)), append(work, cputime.Used()-busy)
		at := cursors(t, s)
		before := false
		for chain, tip := range n.tips() {
			if at[chain] < acknowledged[chain] || at[chain] > tip {
				t.Fatalf("kill %d: chain %s: got blocks below %d, want at least the acknowledged %d, at most %d", kill, chain, at[chain], acknowledged[chain], tip)
			}
			before = before || at[chain] < tip
		}
		if before {
			inside++
		}
		reached = at
		require.NoError(t, s.Close())
	}
	if inside < kills/2 {
		t.Errorf("got %d of %d kills before the tip was reached, want at least half of them", inside, kills)
	}
	slices.Sort(serving)
	slices.Sort(work)
	for chain, tip := range n.tips() {
		if reached[chain] == 0 {
			t.Errorf("chain %s: got none of %d blocks indexed by killed processes, want some", chain, tip)
		}
	}
	t.Logf("%d kills, %d of them before the tip, which got as far as %v; from opening the store to the first answer: median %s, worst %s, median of processor time %s",
		kills, inside, reached, serving[len(serving)/2].Round(time.Microsecond), serving[len(serving)-1].Round(time.Microsecond), work[len(work)/2])
	if median := work[len(work)/2]; median > time.Second { // wall time would measure the machine's other work
		t.Errorf("processor time until the first answer after a kill: got a median of %s, want a second at most", median)
	}

	s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
	require.NoError(t, err)
	defer s.Close()
	record(t, n, s)
	undisturbed, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	defer undisturbed.Close()
	record(t, n, undisturbed)
	memory := store.NewMemory()
	defer memory.Close()
	record(t, n, memory)
	want := digest(t, undisturbed)
	require.Equal(t, want, digest(t, memory), "dump of the engine in memory")
	require.Equal(t, want, digest(t, s), "dump after %d kills", kills)
	t.Logf("%v blocks, dump %x", n.tips(), want[:8])
}

// stuckAfter is far longer than a process takes to index what is new.
const stuckAfter = 3 * time.Minute

// killed starts a process, lets it progress for a while, kills it unless it dies as ordered, and returns the last
// reported heights.
func killed(t *testing.T, o order, tips heights, steps int, after time.Duration) (acknowledged heights) {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), orderEnv+"="+string(text))
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	kill := func() { _ = child.Process.Kill() }
	// A process that stops progressing prints its goroutines and fails the test.
	defer time.AfterFunc(stuckAfter, func() { _ = child.Process.Signal(syscall.SIGQUIT) }).Stop()
	seen := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		at := make(heights)
		if json.Unmarshal(lines.Bytes(), &at) != nil {
			break // truncated by the kill
		}
		caughtUp := true // it may have caught up before that many steps
		for chain, tip := range tips {
			if at[chain] > acknowledged[chain] {
				seen++
			}
			caughtUp = caughtUp && at[chain] >= tip
		}
		acknowledged = at
		if (seen >= steps || caughtUp) && steps >= 0 {
			steps = -1
			defer time.AfterFunc(after, kill).Stop()
		}
	}
	err = child.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the process at %v of %v: got %v, want it to go on until killed", acknowledged, tips, err)
	}
	return acknowledged
}
