package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/config"
	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// TestEVMRebuildServesMeanwhile rebuilds the damaged index of an EVM chain, alone and with another process on the same
// store. The old rows serve while blocks arrive and while the node gives no traces; the status says why the rebuild
// waits. Afterwards the answers are right, and both processes follow the chain.
func TestEVMRebuildServesMeanwhile(t *testing.T) {
	if testing.Short() {
		t.Skip("indexes a chain twice")
	}
	aloneAndShared(t, testEVMRebuild)
}

// aloneAndShared runs a test with an embedded store and with a shared one, which flags select. dir is the data
// directory, and open opens the store while no service runs.
func aloneAndShared(t *testing.T, test func(t *testing.T, dir string, open func() (store.Store, error), flags ...string)) {
	t.Helper()
	t.Run("alone", func(t *testing.T) {
		dir := t.TempDir()
		test(t, dir, func() (store.Store, error) {
			return store.OpenPebble(t.Context(), store.PebbleOptions{Dir: filepath.Join(dir, config.StoreFolder)})
		})
	})
	t.Run("shared", func(t *testing.T) {
		place, err := pgserver.Run(t).Place(t.Context())
		require.NoError(t, err)
		test(t, t.TempDir(), func() (store.Store, error) {
			return store.OpenPostgres(t.Context(), store.PostgresOptions{URL: place})
		}, "--store", place)
	})
}

// withReplica starts a service in dir, and a second one that answers from the same store if that is shared.
func withReplica(t *testing.T, dir string, start func(dir string, flags ...string) *instance, flags ...string) []*instance {
	t.Helper()
	all := []*instance{start(dir, flags...)}
	if len(flags) > 0 {
		all = append(all, start(t.TempDir(), append(flags, "--role", "api")...))
	}
	return all
}

func testEVMRebuild(t *testing.T, dir string, open func() (store.Store, error), flags ...string) {
	n, err := simnet.Start(simnet.Options{Seed: 31, Validators: 3, EVM: []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: 400, Record: true}}}})
	require.NoError(t, err)
	defer n.Close()
	made := n.EVM()[0]
	truth := made.Generator().Truth()
	following := func() string {
		return fmt.Sprintf("fuji evm-99001: following, %d blocks indexed, 0 to go", made.Tip()+1)
	}
	start := func(dir string, flags ...string) *instance { return evmService(t, dir, n, flags...) }
	s := start(dir, flags...)
	awaitStatus(t, s, following())
	s.stop(t)
	damageEVM(t, open)

	instances := withReplica(t, dir, start, flags...)
	path := "/v1/chains/99001/transactions?pageSize=100"
	type item struct{ TxHash string }
	for _, s := range instances {
		defer s.stop(t)
		awaitStatus(t, s, following())
		require.Eventually(t, func() bool {
			status, _ := s.ask(t, path)
			return status == http.StatusOK
		}, time.Minute, 20*time.Millisecond)
		require.Less(t, len(all[item](t, s.base+path, "transactions")), made.Txs(), "the damage shows")
	}
	answers := 0
	serve := func() {
		for _, s := range instances {
			var answer any
			require.Equal(t, http.StatusOK, getJSON(t, s.base+path, &answer))
			answers++
		}
	}
	until := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; {
			serve()
			missing := false
			for _, s := range instances {
				_, out, _ := quorate(t, "", "index", "status", "--server", s.private)
				if !strings.Contains(out, text) {
					missing = true
					require.True(t, time.Now().Before(deadline), "%s: %s\n%s", text, out, s.log)
				}
			}
			if !missing {
				return
			}
		}
	}
	made.SetFaults(evmchain.Faults{Tracing: evmchain.NoTracer})
	code, out, errOut := quorate(t, "", "index", "rebuild", "evm", "--server", instances[0].private)
	require.Zero(t, code, errOut)
	require.Contains(t, out, "rebuild evm: asked for (evm from form 3 to 3)")
	until("rebuild evm: building beside the index that serves, 100% (evm from form 3 to 3); waiting: call traces of ")
	var ready struct{ Rebuilding map[string]string }
	require.Equal(t, http.StatusOK, getJSON(t, instances[0].private+"/readyz", &ready))
	require.Contains(t, ready.Rebuilding["evm"], "are indexed and the node has not returned them again")
	require.NoError(t, made.Grow(t.Context(), 20))
	until(following())
	made.SetFaults(evmchain.Faults{})
	until("rebuild evm: switched")
	require.NoError(t, made.Grow(t.Context(), 20))
	until(following())
	for _, s := range instances {
		compareEVM(t, s.base+"/v1/chains/99001", truth, made.Tip())
	}
	code, _, errOut = quorate(t, "", "index", "rebuild", "evm", "--cancel", "--server", instances[0].private)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "no rebuild is under way that can be cancelled")
	t.Logf("%d answers while the index was rebuilt", answers)
}

// damageEVM deletes rows of the lists of transactions.
func damageEVM(t *testing.T, open func() (store.Store, error)) {
	t.Helper()
	s, err := open()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var b store.Batch
	n := 0
	for row, err := range store.Rows(t.Context(), s, store.FamilyEVMTx) {
		require.NoError(t, err)
		if n++; n%7 == 0 {
			b.Delete(store.FamilyEVMTx, row.PK)
		}
	}
	require.NoError(t, s.Commit(t.Context(), &b))
}
