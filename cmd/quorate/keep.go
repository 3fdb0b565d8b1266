package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/aggregator"
	"quorate/handlers/access"
	"quorate/index/ledger"
	"quorate/store"
	"quorate/store/lease"
)

// keep is what outlives the process: the store, and what the networks share of it.
type keep struct {
	store   store.Store
	archive *aggregator.Archive
	// leases are shared with the other processes on the store; nil if there can be none.
	leases *lease.Leases
	// standbys follow the store, and may be nil.
	standbys *store.Standbys
	log      *slog.Logger
}

// views are what is read from instead of the store, nil for nothing.
func (k *keep) views() ledger.Viewer {
	if k.standbys == nil {
		return nil
	}
	return k.standbys
}

// following tells how the standbys stand; nil without any.
func (k *keep) following() func() []store.StandbyStats {
	if k.standbys == nil {
		return nil
	}
	return k.standbys.Stats
}

// openKeep opens the store: on the server that the configuration names, or the embedded
// one in the data folder, which no other process can use meanwhile.
func openKeep(ctx context.Context, c config, log *slog.Logger, metrics prometheus.Registerer) (*keep, error) {
	place := placeOfConfig(c)
	s, err := place.open(ctx, log)
	if err != nil {
		return nil, storeFailure(err, place, "Is another quorate running? Stop it, or give this one a folder of its own with --data-dir.")
	}
	k := &keep{store: s, log: log}
	if place.url != "" {
		k.leases = newLeases(s, c, log)
	}
	if err := upgradeRecords(ctx, s, c.Role, k.leases, log); err != nil {
		_ = s.Close()
		return nil, storeFailure(err, place, "")
	}
	if p, ok := s.(*store.Postgres); ok && len(c.StoreRead) > 0 {
		if k.standbys, err = store.OpenStandbys(ctx, p, store.StandbyOptions{URLs: c.StoreRead, MaxLag: c.StoreLag, Log: log}); err == nil {
			err = metrics.Register(standbyMetrics{k.standbys})
		}
		if err != nil {
			k.close()
			return nil, storeFailure(err, place, "")
		}
	}
	limit := uint64(c.ArchiveLimit)
	k.archive, err = aggregator.OpenArchive(ctx, s, aggregator.ArchiveOptions{MessageBytes: limit / 3, SignatureBytes: limit - limit/3, Log: log})
	if err == nil {
		for _, collector := range k.archive.Collectors() {
			err = errors.Join(err, metrics.Register(collector))
		}
	}
	if err == nil && k.leases != nil {
		err = metrics.Register(k.leases)
	}
	if err != nil {
		k.close()
		return nil, failureOf(err, "Trying again may help; if it lasts, move the store away and start again.")
	}
	return k, nil
}

// pageKey is the key that seals page tokens: in the data folder, or the same for all who
// share the store.
func (k *keep) pageKey(ctx context.Context, dataDir string) ([]byte, error) {
	if k.leases != nil {
		return sharedPageKey(ctx, k.store)
	}
	return pageKey(dataDir)
}

// allowances are those of keys where others share the store; else nil.
func (k *keep) allowances(log *slog.Logger) *access.Shared {
	if k.leases == nil {
		return nil
	}
	return access.NewShared(k.store, log)
}

// keys are the API keys where others share the store, with those of the file that this
// process had before it did; else nil.
func (k *keep) keys(ctx context.Context, file access.KeyFile) (*access.KeyStore, error) {
	if k.leases == nil {
		return nil, nil
	}
	keys := access.NewKeyStore(k.store)
	changed, err := keys.Import(ctx, file)
	if err != nil {
		return nil, failureOf(fmt.Errorf("moving the API keys in %s to the store: %w", file, err), "Correct the file, or move it away if its keys are in the store.")
	}
	if changed > 0 {
		k.log.Info("API keys of the file are in the store now", slog.String("file", string(file)), slog.Int("changed", changed))
	}
	return keys, nil
}

// close writes what waits to be written.
func (k *keep) close() {
	if k.archive != nil {
		k.archive.Close()
	}
	if k.standbys != nil {
		if err := k.standbys.Close(); err != nil {
			k.log.Error("closing connections to standbys", slog.Any("error", err))
		}
	}
	if err := k.store.Close(); err != nil {
		k.log.Error("closing the store", slog.Any("error", err))
	}
}

// standbyMetrics tell how far behind the servers are that are read from.
type standbyMetrics struct{ standbys *store.Standbys }

// Describe implements prometheus.Collector.
func (m standbyMetrics) Describe(descs chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(m, descs)
}

// Collect implements prometheus.Collector.
func (m standbyMetrics) Collect(metrics chan<- prometheus.Metric) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("quorate_store_standby_"+name, help, []string{"standby"}, nil)
	}
	for _, s := range m.standbys.Stats() {
		used := 0.0
		if s.Used {
			used = 1
		}
		metrics <- prometheus.MustNewConstMetric(desc("used", "1 for a server that is read from, 0 for one that does not answer or is too far behind."), prometheus.GaugeValue, used, s.Name)
		if s.Known {
			metrics <- prometheus.MustNewConstMetric(desc("lag_seconds", "How far the server is behind the one that is written to."), prometheus.GaugeValue, s.Lag.Seconds(), s.Name)
		}
	}
}
