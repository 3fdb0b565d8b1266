package ledger

import (
	"context"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/store"
)

// Presence returns, for each address, which of the chains made an output for it or can consume one. An address counts if it
// is among the owners, regardless of the threshold.
func (r *Index) Presence(ctx context.Context, chainIDs []ids.ID, addresses []ids.ShortID) ([][]ids.ID, error) {
	queries := make([]store.Query, 0, 2*len(addresses)*len(chainIDs))
	for _, a := range addresses {
		for _, chainID := range chainIDs {
			queries = append(queries, accountQuery(r.networkID, chainID, singleGroup(a), 1),
				store.Query{Family: store.FamilyOwners, P: ownersRow(r.networkID, chainID, a, nil).P, Limit: 1})
		}
	}
	s, found, err := r.viewScans(ctx, queries...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	all := make([][]ids.ID, len(addresses))
	for i := range addresses {
		for j, chainID := range chainIDs {
			at := 2 * (i*len(chainIDs) + j)
			if len(found[at]) > 0 || len(found[at+1]) > 0 {
				all[i] = append(all[i], chainID)
			}
		}
	}
	return all, nil
}
