package index_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/chain/pchain"
	"quorate/internal/chain/pchain/pchaintest"
	"quorate/internal/index"
	"quorate/internal/index/l1"
	"quorate/internal/node"
	"quorate/internal/store"
)

const (
	crashDir  = "QUORATE_INDEX_TEST_CRASH_DIR"
	crashNode = "QUORATE_INDEX_TEST_CRASH_NODE"
)

// runChild turns the test binary into an ingester that never ends by itself.
func runChild() {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return
	}
	fmt.Fprintln(os.Stderr, ingest(dir, os.Getenv(crashNode)))
	os.Exit(1)
}

// ingest records the P-Chain in small batches, saying on standard output how far it
// has come.
func ingest(dir, url string) error {
	ctx := context.Background()
	s, err := store.OpenPebble(ctx, store.PebbleOptions{Dir: dir, CacheBytes: 4 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		return err
	}
	client, err := node.New(node.Options{Endpoints: []string{url}})
	if err != nil {
		return err
	}
	p, err := index.New(index.Options[*pchain.Block]{
		NetworkID: 5, Chain: index.PChain, Source: index.NewPChainSource(client, nil), Store: s,
		Projections: []index.Projection[*pchain.Block]{l1.NewProjection(5)},
		WindowBytes: 480 << 10, Poll: 5 * time.Millisecond,
		Committed: func(next uint64) { fmt.Println(next) },
	})
	if err != nil {
		return err
	}
	fmt.Println(0)
	return p.Run(ctx)
}

// reference is what a store has to look like once some blocks are indexed.
type reference struct {
	chain *pchaintest.Chain
	store store.Store
	next  uint64
}

// advance records blocks up to, not including, next, all in one batch.
func (r *reference) advance(t testing.TB, next uint64) [32]byte {
	t.Helper()
	if next > r.next {
		projection := l1.NewProjection(5)
		var batch store.Batch
		for _, b := range r.chain.Blocks[r.next:next] {
			block, err := pchain.ParseBlock(b.Bare)
			require.NoError(t, err)
			require.NoError(t, projection.Apply(t.Context(), r.store, block, &batch))
		}
		name, last := index.Cursor(5, index.PChain, projection.Name()), r.chain.Blocks[next-1].ID
		batch.Put(store.FamilyIndexed, store.PK{P: []byte(name)}, append([]byte{1, 0}, last[:]...))
		epoch := min(r.next, 1) // the first one makes it 1
		batch.Move(name, store.Cursor{Next: r.next, Epoch: epoch}, store.Cursor{Next: next, Epoch: 1})
		require.NoError(t, r.store.Commit(t.Context(), &batch))
		r.next = next
	}
	hash, err := store.DumpHash(t.Context(), r.store)
	require.NoError(t, err)
	return hash
}

// TestKilled kills an ingester at random moments of its catch-up. After each of them
// the store holds what an unbroken run would up to the same block, and in the end
// all of it.
//
//test:plain
func TestKilled(t *testing.T) {
	kills := 15 // of each kind of node
	if testing.Short() {
		kills = 5
	}
	for _, ranges := range []bool{true, false} {
		t.Run(fmt.Sprintf("ranges %t", ranges), func(t *testing.T) {
			chain := history(120 * kills)
			n := newFakeNode(t, chain, ranges)
			n.short = 10
			dir := t.TempDir()
			rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
			memory := store.NewMemory()
			defer memory.Close()
			r := &reference{chain: chain, store: memory}
			inside := 0
			for kill := range kills {
				// The chain grows from kill to kill, so that there is always something to do.
				// Half of the time the node keeps the rest to itself from some height on: however
				// fast the ingester is, it dies before the tip.
				accepted := chain.Next() * uint64(kill+1) / uint64(kills)
				reached, dead := make(chan struct{}), make(chan struct{})
				release := sync.OnceFunc(func() { close(dead) })
				t.Cleanup(release)
				n.set(func() {
					n.accepted, n.asked = accepted, nil
					if kill%2 == 0 {
						// No answer that begins below it reaches the tip.
						from := accepted - n.short - rng.Uint64N(accepted/uint64(kill+1)-n.short)
						once := sync.OnceFunc(func() { close(reached) })
						n.asked = func(height uint64) {
							if height >= from {
								once()
								<-dead
							}
						}
					}
				})
				acknowledged := killIngester(t, dir, n.url, rng.IntN(5), time.Duration(rng.IntN(8))*time.Millisecond, reached)
				release()
				s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
				require.NoError(t, err)
				at, err := store.ReadCursor(t.Context(), s, index.Cursor(5, index.PChain, "l1"))
				require.NoError(t, err)
				if at.Next < acknowledged || at.Next > n.accepted {
					t.Fatalf("kill %d: got blocks below %d, want at least the acknowledged %d, at most %d", kill, at.Next, acknowledged, n.accepted)
				}
				if at.Next > 0 {
					require.Equal(t, r.advance(t, at.Next), dump(t, s), "kill %d: dump up to block %d", kill, at.Next)
				}
				if at.Next < n.accepted {
					inside++
				}
				require.NoError(t, s.Close())
			}
			if inside < kills/3 {
				t.Errorf("got %d of %d kills before the tip was reached, want more of them", inside, kills)
			}
			s, err := store.OpenPebble(t.Context(), store.PebbleOptions{Dir: dir})
			require.NoError(t, err)
			defer s.Close()
			until(t, pipeline(t, source(t, n), s), chain.Next())
			require.Equal(t, want(t, chain), dump(t, s), "dump after the last run")
			t.Logf("%d kills, %d of them before the tip", kills, inside)
		})
	}
}

// killIngester kills an ingester some time after it has acknowledged so many commits, or reached a
// point, and returns the last block that it acknowledged.
func killIngester(t *testing.T, dir, url string, commits int, after time.Duration, reached <-chan struct{}) (acknowledged uint64) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashDir+"="+dir, crashNode+"="+url)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	kill := func() { _ = child.Process.Kill() }
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-reached:
			time.AfterFunc(after, kill)
		case <-ended:
		}
	}()
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); seen++ {
		if acknowledged, err = strconv.ParseUint(lines.Text(), 10, 64); err != nil {
			break
		}
		if seen == 0 { // it may be at the tip before it has committed so often
			defer time.AfterFunc(time.Second, kill).Stop()
		}
		if seen == commits {
			defer time.AfterFunc(after, kill).Stop()
		}
	}
	err = child.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("ingester: got %v, want it to go on until killed", err)
	}
	return acknowledged
}
