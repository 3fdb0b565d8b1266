package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"quorate/handlers/access"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/index/primary"
	"quorate/internal/service/hint"
	"quorate/internal/store"
)

// Location identifies a store.
type Location struct {
	// URL is that of a server. If it is empty, Dir holds the files.
	URL, Dir string
	// Memory is the memory that the process may use, in bytes; 0 means little.
	Memory int64
	// ViewAge is the maximum age of a view of a server, 0 for the default. Unfinished opens a store whose copy was
	// interrupted.
	ViewAge    time.Duration
	Unfinished bool
}

// LocationOf returns the configured store.
func LocationOf(c config.Config) Location {
	return Location{URL: c.Store, Dir: filepath.Join(c.DataDir, config.StoreFolder), Memory: int64(c.MemoryLimit)}
}

// String names the store for the operator, without secrets.
func (p Location) String() string {
	if p.URL != "" {
		return "the database of --store"
	}
	return p.Dir
}

// Keys returns the key file that belongs to an embedded store.
func (p Location) Keys() access.KeyFile {
	return (&config.Config{DataDir: filepath.Dir(p.Dir)}).KeyFile()
}

// Open opens the store, and creates it if there is none.
func (p Location) Open(ctx context.Context, log *slog.Logger) (store.Store, error) {
	if p.URL != "" {
		return store.OpenPostgres(ctx, store.PostgresOptions{URL: p.URL, ViewAge: p.ViewAge, Unfinished: p.Unfinished, Log: log})
	}
	return store.OpenPebble(ctx, store.PebbleOptions{Dir: p.Dir, CacheBytes: p.Memory / 16, MemTableBytes: min(p.Memory/32, 32<<20), Unfinished: p.Unfinished, Log: log})
}

// GiveToOwner gives files of root in an embedded store to the owner of the data folder, after a command that root has run.
// The service often runs as another user, who could not open them. It does not follow links.
func (p Location) GiveToOwner() (err error) {
	if p.URL != "" || os.Geteuid() != 0 {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(p.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	folder, err := root.Stat(".")
	if err != nil {
		return err
	}
	owner, ok := folder.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	err = fs.WalkDir(root.FS(), filepath.Base(p.Dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if of, ok := info.Sys().(*syscall.Stat_t); !ok || of.Uid != 0 {
			return nil
		}
		return root.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("giving the store to the owner of its data folder: %w", err)
	}
	return nil
}

// CheckNewer returns index.ErrNewer if a newer version of this program used the store, which may have rows that this one
// does not see.
func CheckNewer(ctx context.Context, s store.Store) error {
	for name, forms := range map[string][]index.Form{index.PrimarySlots: primary.Forms(), index.EVMSlots: {evm.Form()}} {
		slots, err := index.OpenSlots(ctx, s, name, forms...)
		if err == nil {
			err = index.CheckNewer(ctx, slots.Store(), forms...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Failure returns a hint.Error for a store that cannot be opened. The hint is empty if the error says what to do.
func Failure(err error, place Location, inUse string) error {
	remedy := "Is --data-dir a folder of yours, with room on its disk?"
	again := fmt.Sprintf("Restore a backup, or move %s away and start again. Then the index is built again from the network, but webhooks and signed messages are lost.", place.Dir)
	if place.URL != "" {
		remedy = "" // an error of the server says what to do
		if errors.Is(err, store.ErrUnavailable) {
			remedy = "Are host, port, user, password and database of the store's URL right, and is the server running?"
		}
		again = "Restore a backup, or name another database, or another schema with ?search_path=. There the index is built again from the network, without the API keys, webhooks and signed messages of this one."
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = fmt.Sprintf("Free space on the disk of %s, or choose another folder with --data-dir, then start again.", place)
	case errors.Is(err, store.ErrInUse):
		remedy = inUse
	case errors.Is(err, index.ErrNewer):
		remedy = "Run the version of quorate that used it last, or give this one a store of its own with --data-dir or --store."
	case errors.Is(err, store.ErrFormat):
		remedy = "" // the error says what to do
	case errors.Is(err, store.ErrCorrupt):
		remedy = again
	}
	return hint.Failure(config.Redacted(err), hint.OpenFiles(err, remedy))
}

// Check returns an error if the place is invalid. It does not access the store.
func (p Location) Check() error {
	if p.URL == "" {
		return nil
	}
	return store.CheckPostgresURL(p.URL)
}
