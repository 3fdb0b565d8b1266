// Package replica coordinates processes that share a store: which one does a task, and which format the index has.
package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/index/primary"
	"quorate/internal/store"
	"quorate/internal/store/lease"
)

// NewLeases returns the leases of this process on a store that processes may share. Other processes see its private
// address.
func NewLeases(s store.Store, address string, log *slog.Logger) *lease.Leases {
	holder, err := os.Hostname()
	if err != nil {
		holder = "unknown"
	}
	return lease.New(lease.Options{Store: s, Holder: fmt.Sprintf("%s, process %d, %s", holder, os.Getpid(), address), Log: log})
}

// forms returns the formats of all indexes.
func forms() []index.Form { return append(primary.Forms(), evm.Form()) }

// Upgrade makes the indexes' formats those of this program. If processes share the store, only those with the indexing
// role may rebuild an index, one at a time; the others wait.
func Upgrade(ctx context.Context, s store.Store, r config.Role, leases *lease.Leases, log *slog.Logger) error {
	if leases == nil {
		return index.Upgrade(ctx, s, log, forms()...)
	}
	if r.Indexes() {
		return leases.Hold(ctx, "upgrade", func(ctx context.Context) error { return index.Upgrade(ctx, s, log, forms()...) })
	}
	for reported := false; ; {
		err := index.Check(ctx, s, forms()...)
		if !errors.Is(err, index.ErrOlder) {
			return err
		}
		if !reported {
			log.Warn("the store has no index of this version yet; waiting for a process that indexes (role ingest or all)", slog.Any("error", err))
			reported = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// formsAgain is the interval at which a process checks whether a newer version has changed a format.
const formsAgain = 5 * time.Second

// Group is the processes that share a store.
type Group struct {
	// Leases are nil if the store is not shared.
	Leases *lease.Leases
	Store  store.Store
	Slots  []*index.Slots // all of Store
}

// check returns index.ErrNewer if the store has an index in a format that this program does not know.
func (g Group) check(ctx context.Context) error {
	err := index.Check(ctx, g.Store, forms()...)
	if !errors.Is(err, index.ErrNewer) {
		return err
	}
	// The slots may have been switched just now. Until then programs that do not know slots refuse the store.
	for _, slots := range g.Slots {
		if slots.Refresh(ctx) != nil {
			return err
		}
	}
	return index.Check(ctx, g.Store, forms()...)
}

// Guard returns an error once the store has an index in a format that this program does not know, and nil when ctx
// ends.
func (g Group) Guard(ctx context.Context) error {
	ticker := time.NewTicker(formsAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := g.check(ctx); errors.Is(err, index.ErrNewer) {
			return fmt.Errorf("another replica is of a newer version: %w", err)
		}
	}
}

// Do runs work in one of the processes that share a store. If the store is not shared, it runs work at once. A program
// older than the store's indexes does not run work.
func (g Group) Do(ctx context.Context, name string, work func(ctx context.Context) error) error {
	if g.Leases == nil {
		return work(ctx)
	}
	return g.Leases.Hold(ctx, name, func(ctx context.Context) error {
		if err := g.check(ctx); errors.Is(err, index.ErrNewer) {
			return err
		}
		return work(ctx)
	})
}
