package evm_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index/evm"
	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// TestEnginesAgree indexes random histories on every engine: in one batch, and with batches of any size, some of which
// are lost with the process. All rows must be equal, and all answers and balances those of a replay. The histories have
// mints, burns, transfers to oneself, transactions and calls that fail, and contracts that are created twice.
func TestEnginesAgree(t *testing.T) {
	server := pgserver.Run(t)
	open := map[string]func() (store.Store, error){
		"memory": func() (store.Store, error) { return store.NewMemory(), nil },
		"pebble": func() (store.Store, error) {
			return store.OpenPebble(t.Context(), store.PebbleOptions{Dir: t.TempDir(), MemTableBytes: 1 << 20})
		},
		"postgres": func() (store.Store, error) {
			url, err := server.Place(t.Context())
			require.NoError(t, err)
			return store.OpenPostgres(t.Context(), store.PostgresOptions{URL: url})
		},
	}
	for seed := range uint64(2) {
		p := newPast(100+seed, pastOptions{blocks: 60})
		hasEffects(t, p)
		whole := newWorld(t, p, store.NewMemory())
		whole.advance(len(p.blocks))
		want, err := store.DumpHash(t.Context(), whole.store)
		require.NoError(t, err)
		for name, open := range open {
			s, err := open()
			require.NoError(t, err)
			w, rng := newWorld(t, p, s), rand.New(rand.NewPCG(seed, 3))
			for !w.done() {
				w.some(rng)
			}
			got, err := store.DumpHash(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, want, got, "history %d: rows on %s", seed, name)
			for range 40 {
				w.check(rng)
			}
			w.checkWindows(p.blocks[0].Number, rng)
			for _, who := range slices.Concat(p.wallets, p.contracts) {
				w.checkSums(evm.TokenSumQuery{Wallet: who, Limit: 2}, func() {}, fmt.Sprintf("%s: %s", name, who))
				w.checkHoldings(evm.HoldingQuery{Wallet: who, Limit: 2}, fmt.Sprintf("%s: %s", name, who))
			}
			require.NoError(t, s.Close())
		}
	}
}

// hasEffects fails the test if a history lacks what the comparison is about.
func hasEffects(t *testing.T, p *past) {
	t.Helper()
	var mints, burns, toOneself, others, failed, reverted, created int
	for i := range p.transfers {
		switch tr := &p.transfers[i]; {
		case tr.From == tr.To:
			toOneself++
		case tr.From == p.wallets[0]:
			mints++
		case tr.To == p.wallets[0]:
			burns++
		default:
			others++
		}
	}
	for _, b := range p.blocks {
		for i := range b.Transactions {
			tx := &b.Transactions[i]
			if !tx.Success {
				failed++
			}
			for j := range tx.Frames {
				if tx.Frames[j].Reverted && tx.Success {
					reverted++
				}
			}
		}
	}
	created = len(p.deployments(p.blocks[len(p.blocks)-1].Number))
	for what, n := range map[string]int{
		"mints": mints, "burns": burns, "transfers to oneself": toOneself, "transfers": others,
		"failed transactions": failed, "reverted calls": reverted, "contracts": created,
	} {
		require.Positive(t, n, "the history has no %s", what)
	}
}
