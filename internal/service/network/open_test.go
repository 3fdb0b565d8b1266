package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/node"
	"quorate/internal/store"
)

// ailing is a store whose first calls fail.
type ailing struct {
	store.Store
	fail []error
}

func (a *ailing) next() (err error) {
	if len(a.fail) > 0 {
		err, a.fail = a.fail[0], a.fail[1:]
	}
	return err
}

func (a *ailing) Get(ctx context.Context, family store.Family, keys []store.PK) ([][]byte, error) {
	if err := a.next(); err != nil {
		return nil, err
	}
	return a.Store.Get(ctx, family, keys)
}

func (a *ailing) Commit(ctx context.Context, b *store.Batch) error {
	if err := a.next(); err != nil {
		return err
	}
	return a.Store.Commit(ctx, b)
}

// TestFindIDWaitsForStore finds the ID of a network while the store fails. Only a store that does not answer is asked again.
func TestFindIDWaitsForStore(t *testing.T) {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"networkID":"12345"}}`)
	}))
	defer answers.Close()
	silent := httptest.NewServer(http.NotFoundHandler())
	silent.Close()
	away := fmt.Errorf("reading: %w", store.ErrUnavailable)
	damaged := fmt.Errorf("reading: %w", store.ErrCorrupt)
	for name, test := range map[string]struct {
		node    string
		fail    []error
		want    error
		waiting int
	}{
		"store answers":                     {node: answers.URL},
		"read fails":                        {node: answers.URL, fail: []error{away}, waiting: 1},
		"write fails":                       {node: answers.URL, fail: []error{nil, away}, waiting: 1},
		"damaged":                           {node: answers.URL, fail: []error{damaged}, want: store.ErrCorrupt},
		"without a node: read fails":        {node: silent.URL, fail: []error{away}, waiting: 1},
		"without a node: damaged":           {node: silent.URL, fail: []error{damaged}, want: store.ErrCorrupt},
		"without a node: the ID was stored": {node: silent.URL},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := node.New(node.Options{Endpoints: []string{test.node}})
			require.NoError(t, err)
			defer client.Close()
			s := &ailing{Store: store.NewMemory()}
			if test.node == silent.URL {
				require.NoError(t, storeID(t.Context(), s, "local", 12345))
			}
			s.fail = test.fail
			var reasons []error
			id, err := findID(t.Context(), client, Options{Name: "local", Store: s, Log: slog.New(slog.DiscardHandler)}, func(err error) { reasons = append(reasons, err) })
			require.Len(t, reasons, test.waiting)
			for _, reason := range reasons {
				require.ErrorIs(t, reason, store.ErrUnavailable)
			}
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, uint32(12345), id)
			stored, found, err := storedID(t.Context(), s, "local")
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, id, stored)
		})
	}
}

// TestCheckOfIdentityEndsWithoutStore checks the identity while the store does not answer in time.
func TestCheckOfIdentityEndsWithoutStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"networkID":"12345"}}`)
	}))
	defer answers.Close()
	client, err := node.New(node.Options{Endpoints: []string{answers.URL}})
	require.NoError(t, err)
	defer client.Close()
	broken := errors.New("broken")
	i := newIdentity("local", 12345, &ailing{store.NewMemory(), []error{broken, broken}}, client, "here")
	require.ErrorIs(t, i.check(ctx), broken)
	i.store = &ending{i.store, cancel}
	require.NoError(t, i.check(ctx))
}

// ending is a store whose reads last until the end of their context.
type ending struct {
	store.Store
	end context.CancelFunc
}

func (e *ending) Get(ctx context.Context, _ store.Family, _ []store.PK) ([][]byte, error) {
	e.end()
	<-ctx.Done()
	return nil, ctx.Err()
}
