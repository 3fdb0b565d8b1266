// Package storage opens the persistent state of the process: the store, embedded or on a server, and what all networks
// share in it.
package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/aggregator"
	"quorate/handlers/access"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/index/primary"
	"quorate/internal/service/hint"
	"quorate/internal/service/replica"
	"quorate/internal/store"
	"quorate/internal/store/lease"
)

// State is the persistent state of the process.
type State struct {
	// Store holds the rows of both Slots, which let an index be rebuilt while the current one serves. Slots are those of
	// the primary chains, EVM those of the EVM chains.
	Store      store.Store
	Slots, EVM *index.Slots
	// Place names Store for the operator, without secrets.
	Place string
	// Archive holds the signed messages.
	Archive *aggregator.Archive
	// Leases are shared with the other processes on the store; nil for an embedded store.
	Leases *lease.Leases
	// standbys follow the store; nil without any.
	standbys *store.Standbys
	log      *slog.Logger
}

// Views returns the standbys to read from instead of the store, nil without any.
func (k *State) Views() store.Viewer {
	if k.standbys == nil {
		return nil
	}
	return k.EVM.Views(k.Slots.Views(k.standbys))
}

// AllSlots returns the slots of all indexes.
func (k *State) AllSlots() []*index.Slots { return []*index.Slots{k.Slots, k.EVM} }

// Group returns the processes that share the store.
func (k *State) Group() replica.Group {
	return replica.Group{Leases: k.Leases, Store: k.Store, Slots: k.AllSlots()}
}

// Following returns a function that reports the state of the standbys; nil without any.
func (k *State) Following() func() []store.StandbyStats {
	if k.standbys == nil {
		return nil
	}
	return k.standbys.Stats
}

// Open opens the store: the configured server, or the embedded store in the data directory, which it locks.
func Open(ctx context.Context, c config.Config, log *slog.Logger, metrics prometheus.Registerer) (*State, error) {
	place := LocationOf(c)
	s, err := place.Open(ctx, log)
	if err != nil {
		return nil, Failure(err, place, "Is another quorate running? Stop it, or give this one a folder of its own with --data-dir.")
	}
	k := &State{Place: place.String(), log: log}
	if k.Slots, err = index.OpenSlots(ctx, s, index.PrimarySlots, primary.Forms()...); err == nil {
		k.EVM, err = index.OpenSlots(ctx, s, index.EVMSlots, evm.Form())
	}
	if err != nil {
		_ = s.Close()
		return nil, Failure(err, place, "")
	}
	k.Store = k.EVM.Over(k.Slots.Store())
	if place.URL != "" {
		k.Leases = replica.NewLeases(s, c.PrivateListen, log)
	}
	if err = replica.Upgrade(ctx, k.Store, c.Role, k.Leases, log); err == nil && c.Role.Indexes() {
		err = errors.Join(k.Slots.AskIfOlder(ctx), k.EVM.AskIfOlder(ctx))
	}
	if err != nil {
		_ = s.Close()
		return nil, Failure(err, place, "")
	}
	if p, ok := s.(*store.Postgres); ok && len(c.StoreRead) > 0 {
		if k.standbys, err = store.OpenStandbys(ctx, p, store.StandbyOptions{URLs: c.StoreRead, MaxLag: c.StoreLag, Log: log}); err == nil {
			err = metrics.Register(standbyMetrics{k.standbys})
		}
		if err != nil {
			k.Close()
			return nil, Failure(err, place, "")
		}
	}
	limit := uint64(c.ArchiveLimit)
	each := limit / uint64(max(len(c.Networks), 1))
	k.Archive, err = aggregator.OpenArchive(ctx, s, aggregator.ArchiveOptions{
		MessageBytes: limit / 6, SignatureBytes: limit - limit/3, StreamBytes: each / 7, FailureBytes: each / 42, Log: log,
	})
	if err == nil {
		for _, collector := range k.Archive.Collectors() {
			err = errors.Join(err, metrics.Register(collector))
		}
	}
	if err == nil && k.Leases != nil {
		err = metrics.Register(k.Leases)
	}
	for _, slots := range k.AllSlots() {
		err = errors.Join(err, metrics.Register(slots))
	}
	if err = errors.Join(err, metrics.Register(storeMetrics{s, place.Dir})); err != nil {
		k.Close()
		return nil, hint.Failure(err, "Trying again may help; if it lasts, move the store away and start again.")
	}
	return k, nil
}

// PageKey returns the key that seals page tokens. It is in the data directory, or in the store if processes share it.
func (k *State) PageKey(ctx context.Context, dataDir string) ([]byte, error) {
	if k.Leases != nil {
		return sharedPageKey(ctx, k.Store)
	}
	return pageKey(dataDir)
}

// Allowances returns the shared allowances of API keys, nil if the store is not shared.
func (k *State) Allowances(log *slog.Logger) *access.Shared {
	if k.Leases == nil {
		return nil
	}
	return access.NewShared(k.Store, log)
}

// Keys returns the API keys in the store, nil if the store is not shared. It imports those of file, which this process
// used before.
func (k *State) Keys(ctx context.Context, file access.KeyFile) (*access.KeyStore, error) {
	if k.Leases == nil {
		return nil, nil
	}
	keys := access.NewKeyStore(k.Store)
	changed, err := keys.Import(ctx, file)
	if err != nil {
		return nil, hint.Failure(fmt.Errorf("moving the API keys in %s to the store: %w", file, err), "Correct the file, or move it away if its keys are in the store.")
	}
	if changed > 0 {
		k.log.Info("API keys of the file are in the store now", slog.String("file", string(file)), slog.Int("changed", changed))
	}
	return keys, nil
}

// Close writes pending data and closes the store.
func (k *State) Close() {
	if k.Archive != nil {
		k.Archive.Close()
	}
	if k.standbys != nil {
		if err := k.standbys.Close(); err != nil {
			k.log.Error("closing connections to standbys", slog.Any("error", err))
		}
	}
	if err := k.Store.Close(); err != nil {
		k.log.Error("closing the store", slog.Any("error", err))
	}
}

// storeMetrics collects the state of a store. dir holds the files of the embedded store.
type storeMetrics struct {
	store store.Store
	dir   string
}

// Describe implements prometheus.Collector.
func (m storeMetrics) Describe(descs chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, descs) }

// Collect implements prometheus.Collector. Only the embedded store knows its size.
func (m storeMetrics) Collect(metrics chan<- prometheus.Metric) {
	stats := m.store.Stats()
	send := func(kind prometheus.ValueType, name, help string, value uint64) {
		metrics <- prometheus.MustNewConstMetric(prometheus.NewDesc("quorate_store_"+name, help, nil, nil), kind, float64(value))
	}
	send(prometheus.CounterValue, "commits_total", "Batches that the store has committed since the start.", stats.Commits)
	send(prometheus.CounterValue, "rows_total", "Rows that these batches put or deleted.", stats.Rows)
	if stats.DiskBytes == 0 {
		return
	}
	send(prometheus.GaugeValue, "disk_bytes", "Disk space of the embedded store, with its logs.", stats.DiskBytes)
	var disk syscall.Statfs_t
	if err := syscall.Statfs(m.dir, &disk); err == nil {
		send(prometheus.GaugeValue, "disk_free_bytes", "Free space of the disk with the embedded store.", disk.Bavail*uint64(disk.Bsize))
	}
	send(prometheus.GaugeValue, "memory_bytes", "Memory of the embedded store: write buffers and block cache.", stats.MemoryBytes)
	send(prometheus.GaugeValue, "compaction_debt_bytes", "Data that the embedded store has yet to rewrite. If it grows without end, the disk is too slow.", stats.CompactionDebtBytes)
	send(prometheus.GaugeValue, "read_amplification", "Places that a lookup in the embedded store may visit.", uint64(max(stats.ReadAmplification, 0)))
}

// standbyMetrics collects how far the standbys lag.
type standbyMetrics struct{ standbys *store.Standbys }

// Describe implements prometheus.Collector.
func (m standbyMetrics) Describe(descs chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(m, descs)
}

// Collect implements prometheus.Collector.
func (m standbyMetrics) Collect(metrics chan<- prometheus.Metric) {
	usedDesc := prometheus.NewDesc("quorate_store_standby_used", "1 for a server that is read from, 0 for one that does not answer or is too far behind.", []string{"standby"}, nil)
	lagDesc := prometheus.NewDesc("quorate_store_standby_lag_seconds", "How far the server is behind the one that is written to.", []string{"standby"}, nil)
	for _, s := range m.standbys.Stats() {
		used := 0.0
		if s.Used {
			used = 1
		}
		metrics <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, used, s.Name)
		if s.Known {
			metrics <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, s.Lag.Seconds(), s.Name)
		}
	}
}
