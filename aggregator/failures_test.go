package aggregator

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// failuresOnDisk returns the failures in a store, as another process reads them.
func failuresOnDisk(t *testing.T, s store.Store) []Failure {
	t.Helper()
	archive, err := OpenArchive(t.Context(), s, ArchiveOptions{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer archive.Close()
	log := archive.Failures(testNetworkID)
	ends, err := log.Ends(t.Context())
	require.NoError(t, err)
	all, err := log.Read(t.Context(), ends.Oldest-1, 1000)
	require.NoError(t, err)
	return all
}

// unsigned returns a network in which no quorum is reached.
func unsigned(t *testing.T) *fakeNetwork {
	n := newFakeNetwork(t, 20, 20, 20, 20, 20)
	n.validators[0].do = refuse(-3, "no", time.Millisecond)
	n.validators[1].offline = true
	return n
}

func TestFailuresSurviveRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := unsigned(t), store.NewMemory()
		began := time.Now()
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			sign := func(ctx context.Context, req Request) {
				_, err := a.Sign(ctx, req)
				require.Error(t, err)
			}
			sign(ctx, Request{Message: testMessage(t, "one")})
			for range 2 { // each request of a client counts, those ahead of requests once
				sign(ctx, Request{Message: testMessage(t, "two")})
				sign(ctx, Request{Message: testMessage(t, "ahead"), Ahead: true})
				settle()
			}
			sign(ctx, Request{Message: testMessage(t, strings.Repeat("long", maxFailedMessage))})
			gone, cancel := context.WithCancel(ctx)
			cancel()
			sign(gone, Request{Message: testMessage(t, "left")})
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "one"), QuorumPercentage: 50})
			require.NoError(t, err)
		})
		all := failuresOnDisk(t, s)
		var origins []Origin
		for i, f := range all {
			require.Equal(t, uint64(i+1), f.Number)
			origins = append(origins, f.Origin)
		}
		require.Equal(t, []Origin{OriginClient, OriginClient, OriginAhead, OriginClient, OriginClient}, origins)

		first, message := all[0], testMessage(t, "one")
		require.Equal(t, message.Bytes(), first.Unsigned().Bytes())
		require.Equal(t, []any{message.ID(), message.SourceChainID, len(message.Bytes())}, []any{first.MessageID, first.SourceChainID, first.Size})
		require.WithinDuration(t, began, first.Time, time.Second)
		require.Positive(t, first.Elapsed)
		require.NotEmpty(t, first.Code)
		require.NotEmpty(t, first.Text)
		require.Equal(t, []uint64{60, 67, 100}, []uint64{first.Account.SignedWeight, first.Account.TargetWeight, first.Account.TotalWeight})
		weight := uint64(0)
		for _, r := range first.Account.Reasons {
			require.NotEmpty(t, r.Reason)
			weight += r.Weight
		}
		require.Equal(t, uint64(40), weight, "%+v", first.Account.Reasons)

		require.Nil(t, all[4].Unsigned(), "it is long")
		require.Greater(t, all[4].Size, maxFailedMessage)
		require.Len(t, streamOf(t, s, ArchiveOptions{}), 1, "the stream of signed messages is another log")
	})
}

// TestFailuresAreBounded checks the bytes on disk and those that wait: a flood of failures becomes a gap.
func TestFailuresAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory()
		archive, err := OpenArchive(t.Context(), s, ArchiveOptions{FailureBytes: 50_000})
		require.NoError(t, err)
		failed := &Error{Code: CodeBusy, Message: strings.Repeat("x", 2*maxFailedText)}
		const flood = 2000
		fail := func() { archive.putFailure(time.Now(), Request{Message: testMessage(t, "m")}, failed) }
		for range flood {
			fail()
		}
		archive.mu.Lock()
		waiting := archive.failingBytes
		archive.mu.Unlock()
		require.LessOrEqual(t, waiting, maxWaitingFailures+2*maxFailedText)
		dropped := archive.droppedFailures.Load()
		require.Positive(t, dropped)
		time.Sleep(2 * failuresPause)
		fail()
		archive.Close()
		fail()
		require.Equal(t, dropped+1, archive.droppedFailures.Load(), "the archive is closed")
		require.Zero(t, archive.dropped.Load(), "of signed messages")

		all := failuresOnDisk(t, s)
		require.NotEmpty(t, all)
		require.Less(t, len(all), 50)
		require.Greater(t, all[0].Number, uint64(100), "the oldest are removed")
		require.Len(t, all[len(all)-1].Text, maxFailedText)
	})
}

// TestFailuresOfBrokenStore checks that failures which cannot be written become a gap and do not delay
// signed messages.
func TestFailuresOfBrokenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := unsigned(t), &brokenStore{Store: store.NewMemory()}
		failing := errors.New("disk full")
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			sign := func(text string) {
				_, err := a.Sign(ctx, Request{Message: testMessage(t, text)})
				require.Error(t, err)
				settle()
				time.Sleep(2 * failuresPause)
			}
			sign("one")
			s.broken.Store(&failing)
			sign("two")
			s.broken.Store(nil)
			sign("three")
		})
		all := failuresOnDisk(t, s)
		require.Len(t, all, 3)
		require.Equal(t, []uint64{0, 1, 0}, []uint64{all[0].Missed, all[1].Missed, all[2].Missed})
		require.False(t, all[1].Time.IsZero())

		rows, err := s.Walk(t.Context(), store.FamilySigned, nil, 10)
		require.NoError(t, err)
		damaged := append([]byte(nil), rows[0].V...)
		damaged[len(damaged)-1] ^= 1
		var b store.Batch
		b.Put(store.FamilySigned, rows[0].PK, damaged)
		require.NoError(t, s.Commit(t.Context(), &b))
		require.Equal(t, Failure{Number: 1, Missed: 1}, failuresOnDisk(t, s)[0])
	})
}
