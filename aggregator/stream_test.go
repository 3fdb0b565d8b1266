package aggregator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/store"
)

func streamOf(t *testing.T, s store.Store, o ArchiveOptions) []StreamEvent {
	t.Helper()
	archive, err := OpenArchive(t.Context(), s, o)
	require.NoError(t, err)
	defer archive.Close()
	stream := archive.Stream(testMessage(t, "").NetworkID)
	ends, err := stream.Ends(t.Context())
	require.NoError(t, err)
	events, err := stream.Read(t.Context(), ends.Oldest-1, 1000)
	require.NoError(t, err)
	return events
}

func TestStreamHasEachMessageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 10, 20, 30, 40, 15, 25)
		s := store.NewMemory()
		var results []*Result
		sign := func(ctx context.Context, a *Aggregator, req Request) {
			r, err := a.Sign(ctx, req)
			require.NoError(t, err)
			results = append(results, r)
		}
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			sign(WithClient(ctx, "someone"), a, Request{Message: testMessage(t, "one")})
			sign(ctx, a, Request{Message: testMessage(t, "two"), Ahead: true})
			sign(ctx, a, Request{Message: testMessage(t, "one"), QuorumPercentage: 50, Ahead: true})
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "one")})
			require.NoError(t, err)
			_, err = a.Sign(ctx, Request{Message: testMessage(t, "one"), QuorumPercentageBuffer: 5})
			require.NoError(t, err)
			settle()
		})
		// Without the archive's rows, the message is signed again, and is in the stream already.
		rows, err := s.Walk(t.Context(), store.FamilyMessage, nil, 100)
		require.NoError(t, err)
		require.NotEmpty(t, rows)
		restarted(t, n, s, ArchiveOptions{MessageBytes: 1}, func(ctx context.Context, a *Aggregator) {
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "two")})
			require.NoError(t, err)
			settle()
		})
		events := streamOf(t, s, ArchiveOptions{})
		require.Len(t, events, len(results))
		for i, e := range events {
			want := results[i]
			require.Equal(t, uint64(i+1), e.Number)
			require.Equal(t, want.Message.Bytes(), e.Message.Bytes())
			require.Equal(t, []any{want.SigningSubnetID, want.PChainHeight, want.Weight, want.TotalWeight, want.Signers},
				[]any{e.SigningSubnetID, e.PChainHeight, e.Weight, e.TotalWeight, e.Signers})
			require.False(t, e.Time.IsZero())
			require.Equal(t, []Origin{OriginClient, OriginAhead, OriginAhead}[i], e.Origin)
		}
	})
}

// brokenStore fails commits of the stream while broken holds an error.
type brokenStore struct {
	store.Store
	broken atomic.Pointer[error]
}

func (s *brokenStore) Commit(ctx context.Context, b *store.Batch) error {
	if err := s.broken.Load(); err != nil && !b.NoSync {
		return *err
	}
	return s.Store.Commit(ctx, b)
}

// TestStreamOfBrokenStore checks that messages which cannot be written make a gap, and that an unavailable store is
// waited for.
func TestStreamOfBrokenStore(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		missed uint64
	}{
		"unavailable": {fmt.Errorf("%w: gone", store.ErrUnavailable), 0},
		"failing":     {errors.New("disk full"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNetwork(t, 20, 20, 20, 20, 20)
				s := &brokenStore{Store: store.NewMemory()}
				restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
					sign := func(text string) {
						_, err := a.Sign(ctx, Request{Message: testMessage(t, text)})
						require.NoError(t, err)
						settle()
					}
					sign("one")
					s.broken.Store(&test.err)
					sign("two")
					sign("three")
					s.broken.Store(nil)
					time.Sleep(2 * writePause)
					sign("four")
				})
				events := streamOf(t, s, ArchiveOptions{})
				if test.missed == 0 {
					require.Len(t, events, 4)
					return
				}
				require.Len(t, events, 3)
				require.Nil(t, events[1].Message)
				require.Equal(t, test.missed, events[1].Missed)
				require.NotNil(t, events[2].Message)
			})
		})
	}
}

func TestDamagedStreamIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 20, 20, 20, 20, 20)
		s := store.NewMemory()
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "one")})
			require.NoError(t, err)
			settle()
		})
		rows, err := s.Walk(t.Context(), store.FamilySigned, nil, 10)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		archive, err := OpenArchive(t.Context(), s, ArchiveOptions{Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer archive.Close()
		for at := range rows[0].V {
			damaged := append([]byte(nil), rows[0].V...)
			damaged[at] ^= 1
			var b store.Batch
			b.Put(store.FamilySigned, rows[0].PK, damaged)
			require.NoError(t, s.Commit(t.Context(), &b))
			events, err := archive.Stream(testMessage(t, "").NetworkID).Read(t.Context(), 0, 1)
			if at >= 1 && at <= 2*32+8 { // its key, which no event has
				continue
			}
			require.NoError(t, err)
			require.Equal(t, []StreamEvent{{Number: 1, Missed: 1}}, events, "byte %d", at)
		}
	})
}

// TestSignedAt reads when messages were signed, from rows of this and of an earlier version.
func TestSignedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 20, 20, 20, 20, 20)
		s := store.NewMemory()
		one, other := testMessage(t, "one"), testMessage(t, "never signed")
		want := time.Now().UTC().Truncate(time.Millisecond)
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			_, err := a.Sign(ctx, Request{Message: one})
			require.NoError(t, err)
			settle()
		})
		archive, err := OpenArchive(t.Context(), s, ArchiveOptions{})
		require.NoError(t, err)
		defer archive.Close()
		times, err := archive.SignedAt(t.Context(), []ids.ID{other.ID(), one.ID()})
		require.NoError(t, err)
		require.True(t, times[0].IsZero())
		require.WithinDuration(t, want, times[1], time.Minute)
		require.False(t, times[1].IsZero())

		rows, err := s.Walk(t.Context(), store.FamilyMessage, nil, 10)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		v := rows[0].V // a number of 8 bytes, the version, and the time
		earlier := append(append(append([]byte(nil), v[:8]...), archiveVersion), v[17:]...)
		var b store.Batch
		b.Put(store.FamilyMessage, rows[0].PK, earlier)
		require.NoError(t, s.Commit(t.Context(), &b))
		times, err = archive.SignedAt(t.Context(), []ids.ID{one.ID()})
		require.NoError(t, err)
		require.True(t, times[0].IsZero())
		before := len(n.asked)
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			_, err := a.Sign(ctx, Request{Message: one})
			require.NoError(t, err)
		})
		require.Equal(t, before, len(n.asked), "a row of an earlier version is of use")
	})
}
