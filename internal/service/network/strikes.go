package network

import (
	"context"
	"encoding/json"
	"fmt"

	"quorate/aggregator"
	"quorate/internal/store"
)

// strikes stores the strikes of a network's validators, all in one row. Of several processes
// that sign, the last one that saves prevails.
type strikes struct {
	store store.Store
	id    uint32 // of the network
}

func (s strikes) row() store.PK { return store.PK{P: fmt.Appendf(nil, "network/%d/strikes", s.id)} }

// Load implements aggregator.StrikeStore.
func (s strikes) Load(ctx context.Context) ([]aggregator.Strikes, error) {
	values, err := s.store.Get(ctx, store.FamilyMeta, []store.PK{s.row()})
	if err != nil || values[0] == nil {
		return nil, err
	}
	var all []aggregator.Strikes
	if err := json.Unmarshal(values[0], &all); err != nil {
		return nil, fmt.Errorf("row %s of the store: %w", s.row().P, err)
	}
	return all, nil
}

// Save implements aggregator.StrikeStore.
func (s strikes) Save(ctx context.Context, all []aggregator.Strikes) error {
	value, err := json.Marshal(all)
	if err != nil {
		return err
	}
	var b store.Batch
	b.Put(store.FamilyMeta, s.row(), value)
	return s.store.Commit(ctx, &b)
}
