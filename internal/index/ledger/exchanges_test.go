package ledger_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/ledger"
	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

func onServer(t *testing.T, server *pgserver.Server) *store.Postgres {
	t.Helper()
	url, err := server.Place(t.Context())
	require.NoError(t, err)
	s, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: url, Connections: 8})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// TestServer reads a ledger from a remote store, which uses other queries and few exchanges.
func TestServer(t *testing.T) {
	server := pgserver.Run(t, "synchronous_commit=off")

	t.Run("oracle", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		s := onServer(t, server)
		w := newWorld(t, newHistory(1, historyOptions{steps: 120, addresses: 5, skew: 8}), s)
		w.start()
		for !w.done() {
			w.some(rng)
			w.checkBalances(rng)
			w.checkPages(rng, func() { w.some(rng) })
		}
		w.finish()
		for range 50 {
			w.checkBalances(rng)
			w.checkPages(rng, func() {})
		}
		// Addresses here share groups of owners and have atomic transfers.
		for _, a := range w.addresses {
			q := ledger.OutputQuery{ChainID: pChain, Addresses: []ids.ShortID{a}, IncludeSpent: true, Limit: 100}
			var exchanges uint64
			for range 2 {
				before := s.Stats().Exchanges
				_, err := w.record.UTXOs(t.Context(), q)
				require.NoError(t, err)
				exchanges = s.Stats().Exchanges - before
			}
			// A group with many owners takes one more.
			require.LessOrEqual(t, exchanges, uint64(3), "exchanges of a page of %s the second time", a)
			before := s.Stats().Exchanges
			_, _, err := w.record.Balances(t.Context(), pChain, q.Addresses, time.Time{})
			require.NoError(t, err)
			require.LessOrEqual(t, s.Stats().Exchanges-before, uint64(3), "exchanges of a balance of %s", a)
		}
	})

	t.Run("exchanges", func(t *testing.T) {
		s := onServer(t, server)
		const blocks = 1500
		source := newTransfers()
		ingest(t, s, ledger.NewProjection(network, pChain), source, blocks)
		record := ledger.New(s, network)
		one := source.owner()
		read := func(q *ledger.OutputQuery, a ids.ShortID, at time.Time) (exchanges uint64) {
			before := s.Stats().Exchanges
			var err error
			if q == nil {
				_, _, err = record.Balances(t.Context(), pChain, []ids.ShortID{a}, at)
			} else {
				asked := *q
				asked.ChainID, asked.Addresses, asked.Limit = pChain, []ids.ShortID{a}, 100
				_, err = record.UTXOs(t.Context(), asked)
			}
			require.NoError(t, err)
			return s.Stats().Exchanges - before
		}
		for _, test := range []struct {
			name        string
			query       *ledger.OutputQuery
			first, then uint64 // limits for an address that is not cached, and then cached
		}{
			{"balance", nil, 3, 3}, // a third exchange if there were more events since the checkpoint than expected
			{"unspent", &ledger.OutputQuery{}, 2, 1},
			{"spent, too", &ledger.OutputQuery{IncludeSpent: true}, 2, 1},
			{"by amount", &ledger.OutputQuery{ByAmount: true}, 2, 1},
			{"by amount, spent ones, too", &ledger.OutputQuery{ByAmount: true, IncludeSpent: true}, 3, 2},
			{"of an asset", &ledger.OutputQuery{AssetID: avaxID}, 2, 1},
			{"of another asset", &ledger.OutputQuery{AssetID: goldID}, 1, 1},
		} {
			for name, a := range map[string]ids.ShortID{"busy": busy, "some": one} {
				record = ledger.New(s, network)
				require.LessOrEqual(t, read(test.query, a, time.Time{}), test.first, "%s of %s, the first time", test.name, name)
				require.LessOrEqual(t, read(test.query, a, time.Time{}), test.then, "%s of %s, then", test.name, name)
			}
		}
		rng := rand.New(rand.NewPCG(2, 2))
		most, all, n := uint64(0), uint64(0), uint64(100)
		for range n {
			so := read(nil, busy, source.first.Add(time.Duration(rng.IntN(2*blocks))*time.Second))
			most, all = max(most, so), all+so
		}
		require.LessOrEqual(t, most, uint64(3))
		require.Less(t, float64(all)/float64(n), 2.5, "exchanges of a balance at a past second")
	})
}
