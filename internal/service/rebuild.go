package service

import (
	"context"
	"log/slog"
	"time"

	"quorate/internal/config"
	"quorate/internal/index/primary"
	"quorate/internal/service/replica"
	"quorate/internal/service/storage"
	"quorate/internal/store"
)

// graceAlone is how long old rows stay after a switch if no other process reads them. It exceeds the duration of
// requests that began before.
const graceAlone = 10 * time.Second

// rebuildIndex rebuilds the index whenever an operator requests it, until ctx ends. If processes share the store, one
// with the indexing role does it.
func rebuildIndex(ctx context.Context, kept *storage.State, all *networks, role config.Role, log *slog.Logger) {
	if kept.Leases != nil && !role.Records() {
		return
	}
	r := primary.Rebuilder(all.beside, log)
	if kept.Leases == nil {
		r.Grace = graceAlone
	}
	if err := replica.Do(ctx, kept.Leases, kept.Store, "rebuild", func(ctx context.Context) error { return kept.Slots.Run(ctx, r) }); err != nil {
		log.Error("the index is not rebuilt; the one that is there serves", slog.Any("error", err))
	}
}

// beside returns indexers of all networks for another store. It waits until all are open, because the switch would
// lose the index of a network that is not rebuilt.
func (n *networks) beside(ctx context.Context, s store.Store) ([]*primary.Network, error) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for told := false; ; {
		var all []*primary.Network
		var missing []string
		for _, name := range n.names {
			opened := n.entries[name].open()
			if opened == nil {
				missing = append(missing, name)
				continue
			}
			one, err := opened.Beside(s)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		if len(missing) == 0 {
			return all, nil
		}
		if !told {
			told = true
			n.process.log.Warn("the rebuild of the index waits until these networks are open, because their part of it would be missing; /readyz says why they are not", slog.Any("networks", missing))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}
