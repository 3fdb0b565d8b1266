package network

import (
	"context"
	"fmt"

	"quorate/aggregator"
	"quorate/internal/store"
)

// strikes stores the strikes of a network's validators, all in one row.
type strikes struct {
	store store.Store
	id    uint32 // of the network
}

func (s strikes) row() store.PK { return store.PK{P: fmt.Appendf(nil, "network/%d/strikes", s.id)} }

// Load implements aggregator.StrikeStore.
func (s strikes) Load(ctx context.Context) (all []aggregator.Strikes, err error) {
	_, err = store.GetMeta(ctx, s.store, &all, s.row())
	return all, err
}

// Save implements aggregator.StrikeStore.
func (s strikes) Save(ctx context.Context, all []aggregator.Strikes) error {
	return store.PutMeta(ctx, s.store, all, s.row())
}
