package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/aggregator"
	"quorate/handlers/access"
	"quorate/index"
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

// storeFolder is where the data folder has the store, beside those of the networks.
const storeFolder = "store"

// openKeep opens the store: on the server that the configuration names, or the embedded
// one in the data folder, which no other process can use meanwhile.
func openKeep(ctx context.Context, c config, log *slog.Logger, metrics prometheus.Registerer) (*keep, error) {
	place := c.storePlace()
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
		return nil, &exitError{code: exitFailed, err: err, hint: "Trying again may help; if it lasts, move the store away and start again."}
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
		return nil, &exitError{code: exitFailed, err: fmt.Errorf("moving the API keys in %s to the store: %w", file, err), hint: "Correct the file, or move it away if its keys are in the store."}
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

// storePlace is where the store is.
type storePlace struct {
	// url is a server's; empty: dir has the files.
	url, dir string
	// memory is what the process may use, in bytes; 0: little.
	memory int64
	// views is how long a view of a server may be open, 0 for the default; unfinished
	// opens what a copy is to go on with.
	views      time.Duration
	unfinished bool
}

// storePlace is where the service has its store.
func (c *config) storePlace() storePlace {
	return storePlace{url: c.Store, dir: filepath.Join(c.DataDir, storeFolder), memory: int64(c.MemoryLimit)}
}

// open opens the store there, and makes it if there is none.
func (p storePlace) open(ctx context.Context, log *slog.Logger) (store.Store, error) {
	if p.url != "" {
		return store.OpenPostgres(ctx, store.PostgresOptions{URL: p.url, ViewAge: p.views, Unfinished: p.unfinished, Log: log})
	}
	return store.OpenPebble(ctx, store.PebbleOptions{Dir: p.dir, CacheBytes: p.memory / 16, MemTableBytes: min(p.memory/64, 32<<20), Unfinished: p.unfinished, Log: log})
}

// storeFailure says what to do about a store that cannot be opened.
func storeFailure(err error, place storePlace, inUse string) error {
	hint := "Is --data-dir a folder of yours, with room on its disk?"
	again := fmt.Sprintf("Everything in %s can be made again from the network: move it away and start again.", place.dir)
	if place.url != "" {
		hint = "Are host, port, user, password and database of the store's URL right, and is the server running?"
		again = "Everything in it can be made again from the network: name another database, or another schema with ?search_path=."
	}
	switch {
	case errors.Is(err, store.ErrInUse):
		hint = inUse
	case errors.Is(err, index.ErrNewer):
		hint = "Run the version of quorate that used it last, or give this one a store of its own with --data-dir or --store."
	case errors.Is(err, store.ErrFormat), errors.Is(err, store.ErrCorrupt):
		hint = again
	}
	return &exitError{code: exitFailed, err: redacted(err), hint: hint}
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
