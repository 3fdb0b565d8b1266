package service

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"quorate/internal/index"
	"quorate/internal/service/network"
	"quorate/internal/store"
)

// graceAlone is how long old rows stay after a switch if no other process reads them. It exceeds the duration of
// requests that began before.
const graceAlone = 10 * time.Second

// besideOf returns the part of a network's index that is rebuilt in a store, and what must be known before, with the
// reasons for which it is not.
type besideOf func(n *network.Network, ctx context.Context, s store.Store) (parts []index.Part, missing []string, err error)

// rebuild rebuilds the index in slots whenever an operator requests it, until ctx ends. If processes share the store,
// one with the indexing role does it.
func (n *networks) rebuild(ctx context.Context, slots *index.Slots, of besideOf) {
	p := n.process
	if p.kept.Leases != nil && !p.config.Role.Indexes() {
		return
	}
	r := index.Rebuilder{Log: p.log, Open: func(ctx context.Context, s store.Store, waiting func(string)) ([]index.Part, error) {
		return n.beside(ctx, s, of, waiting)
	}}
	if p.kept.Leases == nil {
		r.Grace = graceAlone
	}
	name := "rebuild"
	if slots.Name() != index.PrimarySlots {
		name += "/" + slots.Name()
	}
	if err := p.kept.Group().Do(ctx, name, func(ctx context.Context) error { return slots.Run(ctx, r) }); err != nil {
		p.log.Error("the index is not rebuilt; the one that is there serves", slog.String("index", slots.Name()), slog.Any("error", err))
	}
}

// beside returns indexers of all networks for another store. It waits until all are open, because the switch would
// lose the index of a network or chain that is not rebuilt.
func (n *networks) beside(ctx context.Context, s store.Store, of besideOf, waiting func(string)) ([]index.Part, error) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		var all []index.Part
		var missing []string
		for _, name := range n.names {
			opened := n.entries[name].open()
			if opened == nil {
				missing = append(missing, "network "+name+", which is not open: /readyz says why")
				continue
			}
			parts, lacks, err := of(opened, ctx, s)
			if err != nil {
				return nil, err
			}
			for _, one := range lacks {
				missing = append(missing, "network "+name+", "+one)
			}
			all = append(all, parts...)
		}
		if len(missing) == 0 {
			return all, nil
		}
		waiting("these would be missing in the new index: " + strings.Join(missing, "; "))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}
