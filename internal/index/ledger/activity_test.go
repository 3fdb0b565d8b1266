package ledger_test

import (
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/ledger"
)

// lastActivity walks all indexed blocks of a chain.
func (h *history) lastActivity(p progress, c ids.ID, addresses []ids.ShortID) (last *ledger.Activity) {
	owned := func(owners []ids.ShortID) bool {
		return slices.ContainsFunc(owners, func(a ids.ShortID) bool { return slices.Contains(addresses, a) })
	}
	for _, b := range h.blocks[c][:p[c]] {
		for i := range b.Txs {
			tx := &b.Txs[i]
			for _, in := range tx.Consumed {
				if u := h.byID[in.OutputID]; p.has(u.chainID, u.height) && owned(u.Addresses) {
					last = &ledger.Activity{Height: b.Height, Time: b.Time, TxID: tx.ID, OutputID: u.ID, Consumed: true}
				}
			}
			for _, o := range tx.Made {
				returned := tx.Settled != nil && o.Role == chain.Stake // the staking transaction made it
				if !returned && owned(o.Addresses) {
					last = &ledger.Activity{Height: b.Height, Time: b.Time, TxID: o.TxID, OutputID: o.ID}
				}
			}
		}
	}
	return last
}

func (w *world) checkActivity(rng *rand.Rand) {
	w.t.Helper()
	c, addresses := chains[rng.IntN(len(chains))], w.someAddresses(rng)
	got, err := w.record.LastActivity(w.t.Context(), c, addresses)
	require.NoError(w.t, err)
	require.Equal(w.t, w.lastActivity(w.at, c, addresses), got, "%s with %s", c, w.at)
}
