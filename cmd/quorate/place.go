package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"quorate/index"
	"quorate/store"
)

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

// placeOfConfig is where a service has its store.
func placeOfConfig(c config) storePlace {
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
	remedy := "Is --data-dir a folder of yours, with room on its disk?"
	again := fmt.Sprintf("Everything in %s can be made again from the network: move it away and start again.", place.dir)
	if place.url != "" {
		remedy = "Are host, port, user, password and database of the store's URL right, and is the server running?"
		again = "Everything in it can be made again from the network: name another database, or another schema with ?search_path=."
	}
	switch {
	case errors.Is(err, store.ErrInUse):
		remedy = inUse
	case errors.Is(err, index.ErrNewer):
		remedy = "Run the version of quorate that used it last, or give this one a store of its own with --data-dir or --store."
	case errors.Is(err, store.ErrFormat), errors.Is(err, store.ErrCorrupt):
		remedy = again
	}
	return failureOf(redacted(err), remedy)
}

// check says what is wrong with a place, without looking there.
func (p storePlace) check() error {
	if p.url == "" {
		return nil
	}
	return store.CheckPostgresURL(p.url)
}
