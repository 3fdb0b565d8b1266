package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/index"
	"quorate/internal/store"
)

// brokenStore calls broken before each read; nil stands for a store that works.
type brokenStore struct {
	store.Store
	broken func(context.Context) error
}

func (s *brokenStore) Get(ctx context.Context, f store.Family, keys []store.PK) ([][]byte, error) {
	if s.broken != nil {
		if err := s.broken(ctx); err != nil {
			return nil, err
		}
	}
	return s.Store.Get(ctx, f, keys)
}

// Probes and the status of indexes, which is in memory, do not wait for the store.
func TestStatusWhileTheStoreFails(t *testing.T) {
	for name, test := range map[string]struct {
		broken func(context.Context) error
		within time.Duration
		why    string
	}{
		"the store hangs": {func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, 2 * time.Second, "the store has not answered within 2s"},
		"the store is unavailable": {func(context.Context) error {
			return fmt.Errorf("%w: db:5432", store.ErrUnavailable)
		}, 0, "db:5432"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &brokenStore{Store: store.NewMemory()}
				slots, err := index.OpenSlots(t.Context(), s, index.PrimarySlots)
				require.NoError(t, err)
				private, err := NewPrivate(PrivateOptions{
					Networks: map[string]Network{"fuji": {NetworkID: 5, Signer: &fakeSigner{}}}, Slots: []*index.Slots{slots},
					Index: func() map[string]map[string]index.Status {
						return map[string]map[string]index.Status{"fuji": {"P": {State: index.Following, Next: 8}}}
					},
				})
				require.NoError(t, err)
				w := do(private, http.MethodGet, "/index", "")
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				require.NotContains(t, w.Body.String(), "rebuild")

				s.broken = test.broken
				began := time.Now()
				w = do(private, http.MethodGet, "/index", "")
				require.Equal(t, test.within, time.Since(began))
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				var status IndexStatus
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &status))
				require.EqualValues(t, 8, status.Networks["fuji"]["P"].Next)
				require.Contains(t, status.RebuildsError, test.why)

				began = time.Now()
				w = do(private, http.MethodGet, "/readyz", "")
				require.Equal(t, test.within, time.Since(began))
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				require.Contains(t, w.Body.String(), `"rebuilding":{"all":"unknown: the store does not answer"}`)
			})
		})
	}
}

// A request that fails because the store is unavailable can be repeated: it gets 503, and clients do not get the reason.
func TestRebuildWhileTheStoreIsUnavailable(t *testing.T) {
	s := &brokenStore{Store: store.NewMemory()}
	slots, err := index.OpenSlots(t.Context(), s, index.PrimarySlots)
	require.NoError(t, err)
	private, err := NewPrivate(PrivateOptions{Slots: []*index.Slots{slots}})
	require.NoError(t, err)
	s.broken = func(context.Context) error { return fmt.Errorf("%w: db:5432", store.ErrUnavailable) }
	w := do(private, http.MethodPost, "/index/rebuild", "")
	requireAPIError(t, w, http.StatusServiceUnavailable, "the index cannot be read at the moment; try again in a few seconds")
	require.NotContains(t, w.Body.String(), "db")
}
