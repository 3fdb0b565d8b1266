// Package replica is what processes that share a store agree on: which of them does a work,
// and of which form the records are.
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

// NewLeases are those of this process on a store that others may use, too. Others see it by
// its address for operators.
func NewLeases(s store.Store, address string, log *slog.Logger) *lease.Leases {
	holder, err := os.Hostname()
	if err != nil {
		holder = "unknown"
	}
	return lease.New(lease.Options{Store: s, Holder: fmt.Sprintf("%s, process %d, %s", holder, os.Getpid(), address), Log: log})
}

// forms are those of all records.
func forms() []index.Form { return append(primary.Forms(), evm.Form()) }

// Upgrade sees to it that records are of this program's forms. Where several share the
// store only those who record may make records anew, one of them, and others wait.
func Upgrade(ctx context.Context, s store.Store, r config.Role, leases *lease.Leases, log *slog.Logger) error {
	if leases == nil {
		return index.Upgrade(ctx, s, log, forms()...)
	}
	if r.Records() {
		return leases.Hold(ctx, "upgrade", func(ctx context.Context) error { return index.Upgrade(ctx, s, log, forms()...) })
	}
	for told := false; ; {
		err := index.Check(ctx, s, forms()...)
		if !errors.Is(err, index.ErrOlder) {
			return err
		}
		if !told {
			log.Warn("the store has no records of this version yet; waiting for a replica that records (role ingest or all)", slog.Any("error", err))
			told = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// formsAgain is how often a process looks whether another one, of a newer version, has
// begun to keep other records.
const formsAgain = 5 * time.Second

// Guard returns an error once the store has records that this program does not
// know, nil when ctx ends.
func Guard(ctx context.Context, s store.Store, slots *index.Slots) error {
	ticker := time.NewTicker(formsAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := index.Check(ctx, s, forms()...)
		if errors.Is(err, index.ErrNewer) && slots != nil && slots.Refresh(ctx) == nil {
			err = index.Check(ctx, s, forms()...) // the slots may have been switched a moment ago
		}
		if errors.Is(err, index.ErrNewer) {
			return fmt.Errorf("another replica is of a newer version: %w", err)
		}
	}
}

// Do has work done by one of the processes that share a store; alone it is done at
// once. What is recorded by an older program than the store's is not recorded at all.
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
