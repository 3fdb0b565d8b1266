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

// Guard returns an error once the store has an index in a format that this program does not know, and nil when ctx
// ends. slots are those of the store.
func Guard(ctx context.Context, s store.Store, slots ...*index.Slots) error {
	ticker := time.NewTicker(formsAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := index.Check(ctx, s, forms()...)
		if errors.Is(err, index.ErrNewer) && refresh(ctx, slots) == nil {
			err = index.Check(ctx, s, forms()...) // the slots may have been switched just now
		}
		if errors.Is(err, index.ErrNewer) {
			return fmt.Errorf("another replica is of a newer version: %w", err)
		}
	}
}

func refresh(ctx context.Context, slots []*index.Slots) (err error) {
	for _, one := range slots {
		err = errors.Join(err, one.Refresh(ctx))
	}
	return err
}

// Do runs work in one of the processes that share a store. If the store is not shared, it runs work at once. A program
// older than the store's indexes does not run work.
func Do(ctx context.Context, leases *lease.Leases, s store.Store, name string, work func(ctx context.Context) error) error {
	if leases == nil {
		return work(ctx)
	}
	return leases.Hold(ctx, name, func(ctx context.Context) error {
		if err := index.Check(ctx, s, forms()...); errors.Is(err, index.ErrNewer) {
			return err
		}
		return work(ctx)
	})
}
