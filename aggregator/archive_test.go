package aggregator

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// restarted gives test an aggregator over n and an archive in s, as if the
// process had just been started, and ends both in order.
func restarted(t *testing.T, n *fakeNetwork, s store.Store, o ArchiveOptions, test func(ctx context.Context, a *Aggregator)) {
	t.Helper()
	archive, err := OpenArchive(t.Context(), s, o)
	require.NoError(t, err)
	defer archive.Close()
	a, err := New(Options{Transport: n, Sets: n, Log: slog.New(slog.DiscardHandler), Archive: archive})
	require.NoError(t, err)
	defer a.Close()
	test(t.Context(), a)
}

func TestRestartAnswersKnownMessagesWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 10, 20, 30, 40, 15, 25)
		s := store.NewMemory()
		message := testMessage(t, "kept")
		var first *Result
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			var err error
			first, err = a.Sign(ctx, Request{Message: message})
			require.NoError(t, err)
			settle() // until what was not needed is verified, too
		})
		asked := n.requests
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			again, err := a.Sign(ctx, Request{Message: message})
			require.NoError(t, err)
			require.Equal(t, first.Message.Bytes(), again.Message.Bytes())
			require.Equal(t, first.Weight, again.Weight)
			require.Equal(t, first.Signers, again.Signers)
			requireValid(t, n, again, 67)

			// Another quorum makes another message, of the same signatures.
			other, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 50})
			require.NoError(t, err)
			requireValid(t, n, other, 50)
			require.Equal(t, asked, n.requests, "validators were asked for what was known")
			settle()
		})
		// Recalled signatures are not written again.
		_, rows := sizeOf(t, s, store.FamilySignature)
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			_, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 55})
			require.NoError(t, err)
			settle()
		})
		_, after := sizeOf(t, s, store.FamilySignature)
		require.Equal(t, rows, after)
		require.Equal(t, asked, n.requests)
	})
}

func sizeOf(t *testing.T, s store.Store, family store.Family) (bytes, rows uint64) {
	t.Helper()
	b, err := store.NewBounded(t.Context(), s, family, 1<<40)
	require.NoError(t, err)
	require.NoError(t, b.Verify(t.Context()))
	return b.Size()
}

// A message that no longer fits the set is signed again from the known signatures.
func TestArchivedSignaturesSurviveAChangeOfTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 20, 20, 20, 20, 20)
		s := store.NewMemory()
		message := testMessage(t, "kept")
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			_, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
			require.NoError(t, err)
			settle()
		})
		asked := n.requests
		n.validators[0].weight = 30
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: 100})
			require.NoError(t, err)
			requireValid(t, n, r, 100)
			require.Equal(t, uint64(110), r.Weight)
			require.Equal(t, asked, n.requests)
		})
	})
}

// Whatever the disk does to a row, no invalid message is returned, and the message is
// signed again.
func TestDamagedArchiveIsNotTrusted(t *testing.T) {
	for _, family := range []store.Family{store.FamilyMessage, store.FamilySignature} {
		for name, damage := range map[string]func(v []byte) []byte{
			"a flipped bit":   func(v []byte) []byte { v[60] ^= 1; return v },
			"cut":             func(v []byte) []byte { return v[:len(v)-1] },
			"empty":           func(v []byte) []byte { return v[:8] },
			"another version": func(v []byte) []byte { v[8]++; return v },
		} {
			t.Run(family.String()+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newFakeNetwork(t, 20, 20, 20, 20, 20)
					s := store.NewMemory()
					message := testMessage(t, "kept")
					restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
						_, err := a.Sign(ctx, Request{Message: message})
						require.NoError(t, err)
						settle()
					})
					rows, err := s.Walk(t.Context(), family, nil, 100)
					require.NoError(t, err)
					require.NotEmpty(t, rows)
					var b store.Batch
					for _, row := range rows {
						b.Put(family, row.PK, damage(row.V))
					}
					require.NoError(t, s.Commit(t.Context(), &b))
					asked := n.requests
					restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
						for _, quorum := range []uint64{67, 80} {
							r, err := a.Sign(ctx, Request{Message: message, QuorumPercentage: quorum})
							require.NoError(t, err)
							requireValid(t, n, r, quorum)
						}
						if family == store.FamilySignature {
							require.Greater(t, n.requests, asked, "damaged signatures were used")
						}
						settle()
					})
				})
			})
		}
	}
}

// The archive drops what does not fit, and no request waits for it.
func TestArchiveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 20, 20, 20, 20, 20)
		s := store.NewMemory()
		o := ArchiveOptions{MessageBytes: 10_000, SignatureBytes: 20_000}
		restarted(t, n, s, o, func(ctx context.Context, a *Aggregator) {
			for i := range 200 {
				_, err := a.Sign(ctx, Request{Message: testMessage(t, string(rune('a'+i)))})
				require.NoError(t, err)
				settle()
			}
		})
		bytes, rows := sizeOf(t, s, store.FamilyMessage)
		require.LessOrEqual(t, bytes, o.MessageBytes)
		require.Greater(t, rows, uint64(10))
		bytes, rows = sizeOf(t, s, store.FamilySignature)
		require.LessOrEqual(t, bytes, o.SignatureBytes)
		require.Greater(t, rows, uint64(5))
	})
}

// If the store fails, the archive loses the row; the client still gets the message.
func TestBrokenStoreDoesNotStopSigning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 20, 20, 20, 20, 20)
		s := store.NewMemory()
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			require.NoError(t, s.Close())
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			require.NoError(t, err)
			requireValid(t, n, r, 67)
			settle()
			require.NotZero(t, a.archive.dropped.Load())
		})
	})
}

// unavailableStore is a store whose server does not answer for a while.
type unavailableStore struct {
	store.Store
	down  atomic.Bool
	reads atomic.Int32 // that failed
}

func (s *unavailableStore) Commit(ctx context.Context, b *store.Batch) error {
	if s.down.Load() {
		return store.ErrUnavailable
	}
	return s.Store.Commit(ctx, b)
}

func (s *unavailableStore) Get(ctx context.Context, family store.Family, keys []store.PK) ([][]byte, error) {
	if family == store.FamilyMessage && s.down.Load() {
		s.reads.Add(1)
		return nil, store.ErrUnavailable
	}
	return s.Store.Get(ctx, family, keys)
}

// What was signed while the store's server was away is written once it is back, and meanwhile it is not asked by each
// request.
func TestArchiveOutlastsItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 20, 20, 20, 20, 20)
		s := &unavailableStore{Store: store.NewMemory()}
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			s.down.Store(true)
			for i := range 10 {
				_, err := a.Sign(ctx, Request{Message: testMessage(t, string(rune('a'+i)))})
				require.NoError(t, err)
			}
			require.EqualValues(t, 1, s.reads.Load())
			time.Sleep(time.Minute)
			s.down.Store(false)
			time.Sleep(2 * writePause)
			require.Zero(t, a.archive.dropped.Load())
		})
		asked := n.requests
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			for i := range 10 {
				_, err := a.Sign(ctx, Request{Message: testMessage(t, string(rune('a'+i)))})
				require.NoError(t, err)
			}
			require.Equal(t, asked, n.requests)
		})
	})
}

// stuckStore is a store whose reads do not return until it is released, as those of a server that is cut off.
type stuckStore struct {
	store.Store
	released chan struct{}
}

func (s stuckStore) wait(ctx context.Context) error {
	select {
	case <-s.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s stuckStore) Get(ctx context.Context, family store.Family, keys []store.PK) ([][]byte, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, family, keys)
}

func (s stuckStore) Scan(ctx context.Context, family store.Family, p, lo, hi []byte, dir store.Direction, limit int) ([]store.Row, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Store.Scan(ctx, family, p, lo, hi, dir, limit)
}

func TestStuckStoreDoesNotStopSigning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 20, 20, 20, 20, 20)
		s := stuckStore{store.NewMemory(), make(chan struct{})}
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			defer close(s.released) // Close writes what waits
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			started := time.Now()
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			require.NoError(t, err)
			requireValid(t, n, r, 67)
			require.Less(t, time.Since(started), time.Second)
		})
	})
}

// lateStore is a store that answers after the timeout of a read.
type lateStore struct{ store.Store }

func (s lateStore) Get(ctx context.Context, family store.Family, keys []store.PK) ([][]byte, error) {
	time.Sleep(readTimeout + 100*time.Millisecond)
	return s.Store.Get(context.WithoutCancel(ctx), family, keys)
}

func TestLateStoreIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 20, 20, 20, 20, 20)
		restarted(t, n, lateStore{store.NewMemory()}, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			for i := range 3 {
				started := time.Now()
				_, err := a.Sign(ctx, Request{Message: testMessage(t, fmt.Sprint(i))})
				require.NoError(t, err)
				if i > 0 {
					require.Less(t, time.Since(started), readTimeout)
				}
			}
		})
	})
}

// hookedStore is a store that calls onSignatures before it reads signatures, which a round does when it starts.
type hookedStore struct {
	store.Store
	onSignatures func()
}

func (s *hookedStore) Scan(ctx context.Context, family store.Family, p, lo, hi []byte, dir store.Direction, limit int) ([]store.Row, error) {
	if family == store.FamilySignature {
		s.onSignatures()
	}
	return s.Store.Scan(ctx, family, p, lo, hi, dir, limit)
}

func TestNodeThatConnectsWhileARoundStartsIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 40, 60)
		n.validators[1].offline = true
		s := &hookedStore{store.NewMemory(), func() { n.connect(1) }}
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			r, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			require.NoError(t, err)
			requireValid(t, n, r, 67)
		})
	})
}

func TestCloseEndsARoundThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork(t, 40, 60)
		s := &hookedStore{Store: store.NewMemory()}
		restarted(t, n, s, ArchiveOptions{}, func(ctx context.Context, a *Aggregator) {
			s.onSignatures = func() {
				go a.Close() // it waits for the round
				<-a.life.Done()
			}
			start := time.Now()
			_, err := a.Sign(ctx, Request{Message: testMessage(t, "m")})
			requireFailure(t, err, CodeShutdown)
			require.Zero(t, time.Since(start))
			require.Zero(t, n.requests)
		})
	})
}

func TestStuckStoreDoesNotKeepTheArchiveOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuckStore{store.NewMemory(), make(chan struct{})}
		close(s.released)
		archive, err := OpenArchive(t.Context(), &s, ArchiveOptions{})
		require.NoError(t, err)
		s.released = make(chan struct{}) // never
		archive.put(archive.messages, store.Entry{PK: store.PK{P: []byte("m"), K: []byte("k")}, V: []byte("v")})
		synctest.Wait()
		started := time.Now()
		archive.Close()
		require.Equal(t, closeTimeout, time.Since(started))
		require.Equal(t, uint64(1), archive.dropped.Load())
	})
}
