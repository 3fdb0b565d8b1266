package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"quorate/handlers/access"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/service/hint"
	"quorate/internal/store"
)

// Place is where the store is.
type Place struct {
	// URL is a server's; empty: Dir has the files.
	URL, Dir string
	// Memory is what the process may use, in bytes; 0: little.
	Memory int64
	// ViewAge is how long a view of a server may be open, 0 for the default; Unfinished
	// opens what a copy is to go on with.
	ViewAge    time.Duration
	Unfinished bool
}

// PlaceOf is where a service has its store.
func PlaceOf(c config.Config) Place {
	return Place{URL: c.Store, Dir: filepath.Join(c.DataDir, config.StoreFolder), Memory: int64(c.MemoryLimit)}
}

// Keys is where a service with its store in these files has the API keys.
func (p Place) Keys() access.KeyFile {
	return (&config.Config{DataDir: filepath.Dir(p.Dir)}).KeyFile()
}

// Open opens the store there, and makes it if there is none.
func (p Place) Open(ctx context.Context, log *slog.Logger) (store.Store, error) {
	if p.URL != "" {
		return store.OpenPostgres(ctx, store.PostgresOptions{URL: p.URL, ViewAge: p.ViewAge, Unfinished: p.Unfinished, Log: log})
	}
	return store.OpenPebble(ctx, store.PebbleOptions{Dir: p.Dir, CacheBytes: p.Memory / 16, MemTableBytes: min(p.Memory/64, 32<<20), Unfinished: p.Unfinished, Log: log})
}

// Failure says what to do about a store that cannot be opened.
func Failure(err error, place Place, inUse string) error {
	remedy := "Is --data-dir a folder of yours, with room on its disk?"
	again := fmt.Sprintf("Everything in %s can be made again from the network: move it away and start again.", place.Dir)
	if place.URL != "" {
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
	return hint.Failure(config.Redacted(err), remedy)
}

// Check says what is wrong with a place, without looking there.
func (p Place) Check() error {
	if p.URL == "" {
		return nil
	}
	return store.CheckPostgresURL(p.URL)
}
