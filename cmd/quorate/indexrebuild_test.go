package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"quorate/handlers"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

// TestRebuildServesMeanwhile rebuilds the index of a service, alone and with another process
// on the same store. Both answer all the time, and go on after the switch.
func TestRebuildServesMeanwhile(t *testing.T) {
	aloneAndShared(t, testRebuild)
}

func testRebuild(t *testing.T, dir string, _ func() (store.Store, error), flags ...string) {
	n, err := simnet.Start(simnet.Options{Seed: 22, Validators: 4, History: &simnet.History{
		Options: history.Options{Txs: 400, EarlyTxs: 30, Record: true}, Dir: t.TempDir(),
	}})
	require.NoError(t, err)
	defer n.Close()
	networks := map[string]*simnet.Network{"fuji": n}
	start := func(dir string, flags ...string) *instance { return startService(t, dir, networks, flags...) }
	all := withReplica(t, dir, start, flags...)
	paths := []string{"/v1/networks/fuji/subnets", "/v1/networks/fuji/delegators", "/v1/networks/fuji/blockchains/x-chain/vertices:listByHeight?pageSize=100&vertexHeight=2"}
	methods := map[string]string{"/ext/P": "platform.getHeight", "/ext/X": "avm.getHeight"}
	for _, s := range all {
		defer s.stop(t)
		for _, chain := range []string{"P", "X"} { // a process may notice complete vertices later than it answers from them
			awaitStatus(t, s, "fuji "+chain+": following")
		}
		for path, method := range methods {
			require.Eventually(t, func() bool { return callRPC(t, s.base+path, method, "{}").status == http.StatusOK },
				3*time.Minute, 20*time.Millisecond, "%s", path)
		}
		for _, path := range paths {
			require.Eventually(t, func() bool {
				status, _ := s.ask(t, path)
				return status == http.StatusOK
			}, 3*time.Minute, 20*time.Millisecond, "%s", path)
		}
	}
	_, before := all[0].ask(t, paths[2])
	answers := 0
	serve := func() {
		for _, s := range all {
			for _, path := range paths {
				status, body := s.ask(t, path)
				require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
				answers++
			}
			for path, method := range methods {
				a := callRPC(t, s.base+path, method, "{}")
				require.Equal(t, http.StatusOK, a.status, "%s: %s", path, a.body)
			}
		}
	}
	states := make(map[string]int)
	watched, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() {
		for watched.Err() == nil {
			for i, s := range all {
				var status handlers.IndexStatus
				if !assert.Equal(t, http.StatusOK, getJSON(t, s.private+"/index", &status)) {
					return
				}
				for name, chain := range status.Networks["fuji"] {
					if strings.HasPrefix(name, "evm-") {
						continue // this node has no receipts
					}
					states[fmt.Sprintf("process %d: %s: %s %s", i, name, chain.State, chain.Error)]++
				}
			}
		}
	})

	code, out, errOut := quorate(t, "", "index", "rebuild", "--server", all[0].private)
	require.Zero(t, code, errOut)
	require.Contains(t, out, "rebuild primary: asked for (l1 from form 1 to 1, ledger from form ")
	code, _, errOut = quorate(t, "", "index", "rebuild", "--server", all[0].private)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "a rebuild is under way")
	for deadline := time.Now().Add(3 * time.Minute); ; {
		serve()
		_, out, _ = quorate(t, "", "index", "status", "--server", all[0].private)
		if strings.Contains(out, "rebuild primary: switched") {
			break
		}
		require.Contains(t, out, "rebuild primary: ")
		require.True(t, time.Now().Before(deadline), "%s", out)
	}
	require.NoError(t, n.History().Grow(t.Context(), 50))
	want := n.History().Height(history.P) + 1
	for _, s := range all {
		require.Eventually(t, func() bool {
			serve()
			var status struct {
				Networks map[string]map[string]struct {
					State string
					Next  uint64
				}
			}
			require.Equal(t, http.StatusOK, getJSON(t, s.private+"/index", &status))
			p := status.Networks["fuji"]["P"]
			return p.Next == want && p.State == "following"
		}, 3*time.Minute, 10*time.Millisecond)
	}
	for _, s := range all {
		_, after := s.ask(t, paths[2])
		require.Equal(t, before, after)
	}
	stop()
	watching.Wait()
	for state := range states {
		require.Contains(t, state, ": following ")
	}
	t.Logf("%d answers, all of them good; %v", answers, states)
}

// TestChainThatStops continues the index of the P-Chain, which alone is indexed for L1s, with blocks that do not follow
// the indexed ones, alone and with another process on the same store. All processes show that the index has stopped until
// it is rebuilt, and then follow the chain.
func TestChainThatStops(t *testing.T) {
	aloneAndShared(t, func(t *testing.T, dir string, open func() (store.Store, error), flags ...string) {
		n, err := simnet.Start(simnet.Options{Seed: 28, Validators: 3, History: &simnet.History{
			Options: history.Options{Txs: 50, Record: true}, Dir: t.TempDir(),
		}})
		require.NoError(t, err)
		defer n.Close()
		networks := map[string]*simnet.Network{"fuji": n}
		following := func() string {
			return fmt.Sprintf("fuji P: following, %d blocks indexed, 0 to go", n.History().Height(history.P)+1)
		}
		start := func(dir string, flags ...string) *instance {
			return startService(t, dir, networks, append(flags, "--record", "l1")...)
		}
		s := start(dir, flags...)
		awaitStatus(t, s, "fuji P: following")
		s.stop(t)
		forkIndex(t, open, "index/")
		require.NoError(t, n.History().Grow(t.Context(), 20))

		instances := withReplica(t, dir, start, flags...)
		for _, s := range instances {
			defer s.stop(t)
			awaitStatus(t, s, "fuji P: stopped")
		}
		code, _, errOut := quorate(t, "", "index", "rebuild", "--server", instances[0].private)
		require.Zero(t, code, errOut)
		for _, s := range instances {
			awaitStatus(t, s, following())
		}
		require.NoError(t, n.History().Grow(t.Context(), 20))
		for _, s := range instances {
			awaitStatus(t, s, following())
		}
	})
}

// forkIndex changes the IDs of the last indexed blocks, of chains whose rows contain name, as if the blocks were of
// another fork.
func forkIndex(t *testing.T, open func() (store.Store, error), name string) {
	t.Helper()
	raw, err := open()
	require.NoError(t, err)
	defer func() { require.NoError(t, raw.Close()) }()
	var batch store.Batch
	for row, err := range store.Rows(t.Context(), raw, store.FamilyIndexed) {
		require.NoError(t, err)
		if strings.Contains(string(row.P), name) {
			row.V[len(row.V)-1] ^= 1
			batch.Put(store.FamilyIndexed, row.PK, row.V)
		}
	}
	require.NotZero(t, batch.Len())
	require.NoError(t, raw.Commit(t.Context(), &batch))
}
