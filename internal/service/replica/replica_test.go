package replica_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/index/primary"
	"quorate/internal/service/replica"
	"quorate/internal/store"
	"quorate/internal/store/lease"
)

// opened returns the processes of a store, as a process sees them that opens it now.
func opened(t *testing.T, raw store.Store) (replica.Group, *index.Slots) {
	t.Helper()
	slots, err := index.OpenSlots(t.Context(), raw, index.PrimarySlots, primary.Forms()...)
	require.NoError(t, err)
	chains, err := index.OpenSlots(t.Context(), raw, index.EVMSlots, evm.Form())
	require.NoError(t, err)
	return replica.Group{
		Leases: lease.New(lease.Options{Store: raw, Holder: "test"}), Store: chains.Over(slots.Store()), Slots: []*index.Slots{slots, chains},
	}, slots
}

// emptyPart rebuilds the index of a chain without blocks.
type emptyPart struct{}

func (emptyPart) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (emptyPart) Cursors() []string { return nil }

func (emptyPart) Stopped() error { return nil }

func (emptyPart) Lacks(context.Context) (string, error) { return "", nil }

// TestWorkAfterFirstSwitch has one process switch the slots of a store for the first time, which keeps programs out that
// do not know slots. Another process, which has not observed the switch yet, is not one of them.
func TestWorkAfterFirstSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw, log := store.NewMemory(), slog.New(slog.DiscardHandler)
		late, _ := opened(t, raw)
		require.NoError(t, index.Upgrade(t.Context(), late.Store, log, append(primary.Forms(), evm.Form())...))
		_, slots := opened(t, raw)
		require.NoError(t, slots.Ask(t.Context()))
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- slots.Run(ctx, index.Rebuilder{Log: log, Open: func(context.Context, store.Store, func(string)) ([]index.Part, error) {
				return []index.Part{emptyPart{}}, nil
			}})
		}()
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 1, slots.Switches())
		end()
		require.NoError(t, <-done)

		require.ErrorIs(t, index.Check(t.Context(), late.Store, primary.Forms()...), index.ErrNewer)
		worked := false
		require.NoError(t, late.Do(t.Context(), "work", func(context.Context) error {
			worked = true
			return nil
		}))
		require.True(t, worked)

		// A newer program's rows are kept from this one.
		newer := evm.Form()
		newer.Version++
		require.NoError(t, index.Upgrade(t.Context(), late.Store, log, newer))
		require.ErrorIs(t, late.Do(t.Context(), "work", func(context.Context) error { return nil }), index.ErrNewer)
		require.ErrorIs(t, late.Guard(t.Context()), index.ErrNewer)
	})
}
