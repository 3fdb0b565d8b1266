package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"quorate/aggregator"
	"quorate/index"
	"quorate/index/evm"
	"quorate/index/primary"
	"quorate/store"
)

// keep is what outlives the process: the store, and what the networks share of it.
type keep struct {
	store   store.Store
	archive *aggregator.Archive
	log     *slog.Logger
}

// storeFolder is where the data folder has the store, beside those of the networks.
const storeFolder = "store"

// openKeep opens the embedded store in the data folder, which no other process
// can use meanwhile.
func openKeep(ctx context.Context, c config, log *slog.Logger, metrics prometheus.Registerer) (*keep, error) {
	dir := filepath.Join(c.DataDir, storeFolder)
	memory := int64(c.MemoryLimit)
	s, err := store.OpenPebble(ctx, store.PebbleOptions{Dir: dir, CacheBytes: memory / 16, MemTableBytes: min(memory/64, 32<<20), Log: log})
	if err != nil {
		return nil, storeFailure(err, dir, "Is another quorate running? Stop it, or give this one a folder of its own with --data-dir.")
	}
	if err := index.Upgrade(ctx, s, log, append(primary.Forms(), evm.Form())...); err != nil {
		_ = s.Close()
		return nil, storeFailure(err, dir, "")
	}
	k := &keep{store: s, log: log}
	limit := uint64(c.ArchiveLimit)
	k.archive, err = aggregator.OpenArchive(ctx, s, aggregator.ArchiveOptions{MessageBytes: limit / 3, SignatureBytes: limit - limit/3, Log: log})
	if err == nil {
		for _, collector := range k.archive.Collectors() {
			err = errors.Join(err, metrics.Register(collector))
		}
	}
	if err != nil {
		k.close()
		return nil, &exitError{code: exitFailed, err: err, hint: "Trying again may help; if it lasts, move the store away and start again."}
	}
	return k, nil
}

// close writes what waits to be written.
func (k *keep) close() {
	if k.archive != nil {
		k.archive.Close()
	}
	if err := k.store.Close(); err != nil {
		k.log.Error("closing the store", slog.Any("error", err))
	}
}

// storeFailure says what to do about a store that cannot be opened.
func storeFailure(err error, dir, inUse string) error {
	hint := "Is --data-dir a folder of yours, with room on its disk?"
	switch {
	case errors.Is(err, store.ErrInUse):
		hint = inUse
	case errors.Is(err, index.ErrNewer):
		hint = "Run the version of quorate that used it last, or give this one a folder of its own with --data-dir."
	case errors.Is(err, store.ErrFormat), errors.Is(err, store.ErrCorrupt):
		hint = fmt.Sprintf("Everything in %s can be made again from the network: move it away and start again.", dir)
	}
	return &exitError{code: exitFailed, err: err, hint: hint}
}
