package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// TestPostgresFaults stops servers and connections.
func TestPostgresFaults(t *testing.T) {
	server := pgserver.Run(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *pgserver.Server, string)
	}{
		{"restart", testRestart},
		{"commit without an answer", testLostCommit},
		{"commit that takes too long", testSlowCommit},
		{"rows that were to be new", testNotNew},
		{"rows of a large batch", testLargeBatch},
		{"opened by many", testManyOpen},
		{"deadlocks", testDeadlocks},
		{"views end", testViewAge},
		{"a caller goes", testCallerGoes},
		{"callers go during statements", testCallersGo},
		{"other format", testOtherFormat},
		{"killed", testWriterKilled},
		{"connections ended by the server", testConnectionsEnded},
		{"no new connections", testRefused},
		{"a statement cancelled on the server", testCancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			place, err := server.Place(t.Context())
			require.NoError(t, err)
			test.run(t, server, place)
		})
	}
}

func hashOf(t testing.TB, r store.Reader) [32]byte {
	t.Helper()
	h, err := store.DumpHash(t.Context(), r)
	require.NoError(t, err)
	return h
}

// testRestart stops and crashes the server below a store, which says so, and goes on
// once it is back. What was acknowledged is there.
func testRestart(t *testing.T, server *pgserver.Server, place string) {
	s := openPostgres(t, place)
	defer s.Close()
	next := uint64(0)
	for round, stop := range []func(){server.Stop, server.Crash} {
		for range 5 {
			require.NoError(t, s.Commit(t.Context(), crashBatch(next)))
			next++
		}
		view, err := s.View(t.Context())
		require.NoError(t, err)
		stop()
		err = s.Commit(t.Context(), crashBatch(next))
		require.ErrorIs(t, err, store.ErrUnavailable, "commit, round %d", round)
		_, err = s.Get(t.Context(), store.FamilyMeta, []store.PK{{}})
		require.ErrorIs(t, err, store.ErrUnavailable, "get, round %d", round)
		_, err = s.View(t.Context())
		require.ErrorIs(t, err, store.ErrUnavailable, "view, round %d", round)
		_, err = view.Get(t.Context(), store.FamilyMeta, []store.PK{{}})
		require.ErrorIs(t, err, store.ErrUnavailable, "get of an open view, round %d", round)
		require.NoError(t, view.Close())
		require.ErrorIs(t, s.Ping(t.Context()), store.ErrUnavailable, "ping, round %d", round)
		require.NoError(t, server.Restart())
		require.NoError(t, s.Ping(t.Context()), "ping, round %d", round)
		checkCrashRows(t, s, next)
	}
	// Each call notices connections that were lost while idle.
	for name, call := range map[string]func() error{
		"get":    func() error { _, err := s.Get(t.Context(), store.FamilyMeta, []store.PK{{}}); return err },
		"commit": func() error { return s.Commit(t.Context(), crashBatch(next)) },
		"view": func() error {
			view, err := s.View(t.Context())
			if err != nil {
				return err
			}
			return view.Close()
		},
	} {
		server.Stop()
		require.NoError(t, server.Restart())
		require.NoError(t, call(), name)
	}
	next++
	checkCrashRows(t, s, next)
}

// gate forwards connections to a server, and cuts them where cut says.
type gate struct {
	net.Listener
	to string
	// cut is what happens to a connection when it commits. 1 cuts it before the server gets the commit, 2 after the server
	// has answered and before the client gets the answer. 3 leaves it open and forwards nothing more.
	cut  atomic.Int32
	cuts atomic.Int32
	// refuse closes new connections at once, and refused counts them; passed counts the others
	refuse          atomic.Bool
	refused, passed atomic.Int32

	wg sync.WaitGroup
}

// cancelRequest is the code of such a message, from the server's documentation of the protocol ("CancelRequest").
const cancelRequest = 80877102

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{Listener: l, to: to}
	g.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			g.wg.Go(func() { g.pass(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		g.wg.Wait()
	})
	return g
}

func (g *gate) pass(client net.Conn) {
	defer client.Close()
	if g.refuse.Load() {
		// The library asks a server that refuses it to cancel what it does, on a connection of its own.
		begin := make([]byte, 8)
		if _, err := io.ReadFull(client, begin); err == nil && binary.BigEndian.Uint32(begin[4:]) != cancelRequest {
			g.refused.Add(1)
		}
		return
	}
	g.passed.Add(1)
	server, err := net.Dial("tcp", g.to)
	if err != nil {
		return
	}
	defer server.Close()
	var silent atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil || silent.Load() {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			break
		}
		commits := bytes.Contains(buf[:n], []byte("commit\x00"))
		cut := int32(0)
		if commits {
			cut = g.cut.Swap(0)
		}
		if cut == 1 {
			g.cuts.Add(1)
			break
		}
		if cut == 3 {
			g.cuts.Add(1)
			_, _ = io.Copy(io.Discard, client)
			break
		}
		silent.Store(cut == 2)
		if _, err := server.Write(buf[:n]); err != nil {
			break
		}
		if cut == 2 {
			g.cuts.Add(1)
			break // after the server has answered, before the client reads the answer
		}
	}
	if silent.Load() {
		<-done
	}
	_ = server.Close()
	<-done
}

// openGated opens a store behind a gate.
func openGated(t *testing.T, server *pgserver.Server, place string) (*gate, *store.Postgres) {
	t.Helper()
	u, err := url.Parse(place)
	require.NoError(t, err)
	g := newGate(t, server.Address())
	u.Host = g.Addr().String()
	return g, openPostgres(t, u.String())
}

// testLostCommit cuts connections while they commit.
func testLostCommit(t *testing.T, server *pgserver.Server, place string) {
	direct := openPostgres(t, place)
	defer direct.Close()
	g, s := openGated(t, server, place)
	defer s.Close()

	// Before the server learns of it: it is committed once more.
	g.cut.Store(1)
	require.NoError(t, s.Commit(t.Context(), crashBatch(0)))
	checkCrashRows(t, direct, 1)
	// Afterwards: the error of a commit that moves a cursor says to read the cursor.
	g.cut.Store(2)
	err := s.Commit(t.Context(), crashBatch(1))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrFenced)
	checkCrashRows(t, direct, 2)
	// Without cursors, writing it twice is writing it once.
	g.cut.Store(2)
	var b store.Batch
	b.Put(store.FamilyMessage, store.PK{P: []byte("p")}, []byte("v"))
	b.Delete(store.FamilyMessage, store.PK{P: []byte("q")})
	require.NoError(t, s.Commit(t.Context(), &b))
	values, err := direct.Get(t.Context(), store.FamilyMessage, []store.PK{{P: []byte("p")}})
	require.NoError(t, err)
	require.Equal(t, "v", string(values[0]))
	require.Equal(t, int32(3), g.cuts.Load(), "connections cut")
}

// testSlowCommit lets a server not answer to a commit: whether the batch was written is unknown, and the call may be
// repeated.
func testSlowCommit(t *testing.T, server *pgserver.Server, place string) {
	g, s := openGated(t, server, place)
	defer s.Close()
	store.SetEnding(s, 100*time.Millisecond)
	g.cut.Store(3)
	require.ErrorIs(t, s.Commit(t.Context(), crashBatch(0)), store.ErrUnavailable)
	require.EqualValues(t, 1, g.cuts.Load())
	require.NoError(t, s.Commit(t.Context(), crashBatch(0)))
}

// testNotNew adds rows some of which are there, few and many.
func testNotNew(t *testing.T, _ *pgserver.Server, place string) {
	s := openPostgres(t, place)
	defer s.Close()
	memory := store.NewMemory()
	for round, rows := range []int{10, 3000, 2500, 4000} {
		var b store.Batch
		for i := range rows {
			pk := store.PK{P: []byte{byte(i)}, K: fmt.Append(nil, i)}
			b.Add(store.FamilyMessage, pk, fmt.Append(nil, round))
			b.Add(store.FamilySignature, store.PK{P: []byte{byte(round)}, K: pk.K}, bytes.Repeat([]byte{0xff, 0}, i%100))
		}
		gone, late := store.PK{P: []byte("gone"), K: fmt.Append(nil, round)}, store.PK{P: []byte("late")}
		b.Add(store.FamilyMessage, gone, []byte("made and gone"))
		b.Delete(store.FamilyMessage, gone)
		b.Delete(store.FamilyMessage, late)
		b.Add(store.FamilyMessage, late, fmt.Append(nil, "again ", round))
		b.Add(store.FamilySignature, store.PK{P: []byte{byte(round)}, K: []byte("0")}, []byte("last"))
		b.Move("c", store.Cursor{Next: uint64(round)}, store.Cursor{Next: uint64(round) + 1})
		require.NoError(t, s.Commit(t.Context(), &b))
		require.NoError(t, memory.Commit(t.Context(), &b))
		require.Equal(t, hashOf(t, memory), hashOf(t, s), "dump hash after round %d", round)
	}
}

// testLargeBatch is one transaction of several pieces, all of it or nothing.
func testLargeBatch(t *testing.T, _ *pgserver.Server, place string) {
	s := openPostgres(t, place)
	defer s.Close()
	memory := store.NewMemory()
	for round := range 2 {
		var b store.Batch
		for i := range 50_000 {
			pk := store.PK{P: fmt.Append(nil, i%300), K: fmt.Append(nil, i)}
			if round == 1 && i%3 == 0 {
				b.Delete(store.FamilyMessage, pk)
			} else {
				b.Put(store.FamilyMessage, pk, bytes.Repeat([]byte{byte(i)}, i%400))
			}
		}
		b.Move("c", store.Cursor{Next: 7}, store.Cursor{Next: 8})
		require.ErrorIs(t, s.Commit(t.Context(), &b), store.ErrFenced)
		require.Equal(t, hashOf(t, memory), hashOf(t, s), "dump hash after a fenced batch")
		var moved store.Batch
		moved.Move("c", store.Cursor{Next: uint64(8 * round)}, store.Cursor{Next: 7})
		for _, s := range []store.Store{s, memory} {
			require.NoError(t, s.Commit(t.Context(), &moved))
			require.NoError(t, s.Commit(t.Context(), &b))
		}
		require.Equal(t, hashOf(t, memory), hashOf(t, s), "dump hash after round %d", round)
	}
}

// testManyOpen has many make the tables at a time.
func testManyOpen(t *testing.T, _ *pgserver.Server, place string) {
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: place, Connections: 4})
			if err != nil {
				t.Errorf("opening: got %v, want nil", err)
				return
			}
			_ = s.Close()
		})
	}
	wg.Wait()
	s := openPostgres(t, place)
	defer s.Close()
	require.Equal(t, hashOf(t, store.NewMemory()), hashOf(t, s))
}

// testDeadlocks has batches wait for one another's cursors, in opposite orders.
func testDeadlocks(t *testing.T, _ *pgserver.Server, place string) {
	s := openPostgres(t, place)
	defer s.Close()
	const each = 20
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			names := []string{"a", "b"}
			if w%2 == 1 {
				names = []string{"b", "a"}
			}
			for done := 0; done < each; {
				var b store.Batch
				for _, name := range names {
					at, err := store.ReadCursor(t.Context(), s, name)
					if err != nil {
						t.Errorf("reading a cursor: got %v, want nil", err)
						return
					}
					b.Move(name, at, store.Cursor{Next: at.Next + 1})
				}
				switch err := s.Commit(t.Context(), &b); {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrFenced):
					t.Errorf("committing: got %v, want nil or ErrFenced", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, name := range []string{"a", "b"} {
		at, err := store.ReadCursor(t.Context(), s, name)
		require.NoError(t, err)
		require.Equal(t, uint64(4*each), at.Next, "cursor %s", name)
	}
}

// testViewAge ends views that are old, and has others wait while there are many.
func testViewAge(t *testing.T, _ *pgserver.Server, place string) {
	s, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: place, Connections: 4, ViewAge: 100 * time.Millisecond})
	require.NoError(t, err)
	defer s.Close()
	var views []store.View
	for range 9 { // three at a time
		v, err := s.View(t.Context())
		require.NoError(t, err)
		views = append(views, v)
	}
	_, err = views[0].Get(t.Context(), store.FamilyMeta, []store.PK{{}})
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorContains(t, err, "too long")
	for _, v := range views {
		require.NoError(t, v.Close())
	}
	_, err = s.Get(t.Context(), store.FamilyMeta, []store.PK{{}})
	require.NoError(t, err)
}

// testCallerGoes ends waiting for a view, and for a row that another writer holds.
func testCallerGoes(t *testing.T, _ *pgserver.Server, place string) {
	s, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: place, Connections: 4})
	require.NoError(t, err)
	defer s.Close()
	for range 3 {
		v, err := s.View(t.Context())
		require.NoError(t, err)
		defer v.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = s.View(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = s.Get(t.Context(), store.FamilyMeta, []store.PK{{}})
	require.NoError(t, err, "a read while all views are taken")
}

// testCallersGo lets callers go while the server answers them. Their connections are used again, but not for ever waited
// for.
func testCallersGo(t *testing.T, server *pgserver.Server, place string) {
	g, s := openGated(t, server, place)
	defer s.Close()
	const callers = 400
	gone := 0
	for range callers {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(3*time.Millisecond))
		if _, err := s.Get(ctx, store.FamilyMessage, []store.PK{{}}); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			gone++
		}
		if view, err := s.View(ctx); err == nil {
			require.NoError(t, view.Close())
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
	}
	require.Positive(t, gone)
	require.Less(t, g.passed.Load(), int32(callers/10), "connections for %d callers, of whom %d went", callers, gone)

	direct, err := pgx.Connect(t.Context(), place)
	require.NoError(t, err)
	defer func() { require.NoError(t, direct.Close(t.Context())) }()
	tx, err := direct.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE quorate_message IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = s.Get(ctx, store.FamilyMessage, []store.PK{{}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, tx.Rollback(t.Context()))
}

func testOtherFormat(t *testing.T, _ *pgserver.Server, place string) {
	s := openPostgres(t, place)
	var b store.Batch
	b.Put(store.FamilyMeta, store.PK{P: []byte("format")}, []byte("2"))
	require.NoError(t, s.Commit(t.Context(), &b))
	require.NoError(t, s.Close())
	_, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: place})
	require.ErrorIs(t, err, store.ErrFormat)
	require.NotContains(t, err.Error(), "secret")
}

// testWriterKilled kills a process that writes, at random moments.
func testWriterKilled(t *testing.T, _ *pgserver.Server, place string) {
	for round := range 4 {
		acknowledged := killWriter(t, place, 1+7*round)
		requireWhole(t, openPostgres(t, place), round, acknowledged)
	}
}

// testConnectionsEnded uses a store after the server ended its idle connections, and after it ended a view's transaction,
// as servers do that limit both.
func testConnectionsEnded(t *testing.T, server *pgserver.Server, place string) {
	direct, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, direct.Close(t.Context())) }()
	gone := func(name string) func() bool {
		return func() bool {
			var n int
			require.NoError(t, direct.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name).Scan(&n))
			return n == 0
		}
	}
	const limit, tick = time.Minute, 20 * time.Millisecond
	s := openPostgres(t, place+"&application_name=idle&idle_session_timeout=100")
	defer s.Close()
	for i, call := range []func() error{
		func() error { _, err := s.Get(t.Context(), store.FamilyMeta, []store.PK{{}}); return err },
		func() error { return s.Commit(t.Context(), crashBatch(0)) },
	} {
		require.Eventually(t, gone("idle"), limit, tick)
		require.NoError(t, call(), "call %d", i)
	}

	var version int
	require.NoError(t, direct.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&version))
	if version < 170000 {
		return // has no limit on transactions
	}
	long := openPostgres(t, place+"&application_name=long&transaction_timeout=100")
	defer long.Close()
	view, err := long.View(t.Context())
	require.NoError(t, err)
	defer view.Close()
	require.Eventually(t, gone("long"), limit, tick)
	_, err = view.Get(t.Context(), store.FamilyMeta, []store.PK{{}})
	require.ErrorIs(t, err, store.ErrUnavailable)
}

// testRefused lets a server accept no new connections. A read asks for one once, and open ones are still used.
func testRefused(t *testing.T, server *pgserver.Server, place string) {
	g, s := openGated(t, server, place)
	defer s.Close()
	view, err := s.View(t.Context()) // has the one connection
	require.NoError(t, err)
	g.refuse.Store(true)
	began := time.Now()
	for range 100 {
		_, err := s.Get(t.Context(), store.FamilyMeta, []store.PK{{}})
		require.ErrorIs(t, err, store.ErrUnavailable)
		_, err = s.View(t.Context())
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	require.LessOrEqual(t, time.Duration(g.refused.Load()-1)*100*time.Millisecond, time.Since(began), "one in 100 ms")
	require.ErrorIs(t, s.Commit(t.Context(), crashBatch(0)), store.ErrUnavailable)
	require.NoError(t, view.Close())
	require.NoError(t, s.Commit(t.Context(), crashBatch(0)), "the open connection is used")
	view, err = s.View(t.Context())
	require.NoError(t, err)
	g.refuse.Store(false)
	require.Eventually(t, func() bool { return s.Ping(t.Context()) == nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, view.Close())
}

// testCancelled cancels a read on the server, as its operator may. The reader may try again.
func testCancelled(t *testing.T, server *pgserver.Server, place string) {
	s := openPostgres(t, place+"&application_name=waits")
	defer s.Close()
	direct, err := pgx.Connect(t.Context(), place)
	require.NoError(t, err)
	defer func() { require.NoError(t, direct.Close(t.Context())) }()
	tx, err := direct.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE quorate_message IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := s.Get(t.Context(), store.FamilyMessage, []store.PK{{}})
		done <- err
	}()
	require.Eventually(t, func() bool {
		tag, err := tx.Exec(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event_type = 'Lock'")
		require.NoError(t, err)
		return tag.RowsAffected() > 0
	}, time.Minute, 20*time.Millisecond)
	require.ErrorIs(t, <-done, store.ErrUnavailable)
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = s.Get(t.Context(), store.FamilyMessage, []store.PK{{}})
	require.NoError(t, err)
}

// TestPostgresVersion refuses servers that are too old.
func TestPostgresVersion(t *testing.T) {
	for version, fine := range map[string]bool{"9.6.24": false, "12.22 (Debian)": false, "": false, "15.18 (Debian 15.18-0+deb12u1)": true, "18beta1": true} {
		t.Run(version, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			served := make(chan struct{})
			go func() {
				defer close(served)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					pretend(c, version)
				}
			}()
			_, err = store.OpenPostgres(t.Context(), store.PostgresOptions{URL: "postgres://me@" + l.Addr().String() + "/x?sslmode=disable"})
			require.Error(t, err)
			if fine {
				require.NotContains(t, err.Error(), "of version")
			} else {
				require.ErrorIs(t, err, store.ErrInvalid)
				require.ErrorContains(t, err, strconv.Quote(version))
			}
			require.NoError(t, l.Close())
			<-served
		})
	}
}

// pretend plays a server until the first query.
func pretend(c net.Conn, version string) {
	defer c.Close()
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: version})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() == nil {
		_, _ = b.Receive()
	}
}

// TestPostgresURL checks errors that need no server.
func TestPostgresURL(t *testing.T) {
	for url, fine := range map[string]bool{
		"postgres://me:secret@host/db": true, "postgresql://host:1/db?sslmode=disable&search_path=x": true,
		"host=x password=secret": false, "postgres://me:sec/ret@host/db": false, "mysql://me:secret@host/db": false,
		"postgres://me:secret@host/db?sslmode=secretive": false, "postgres://me:secret@host/db?default_query_exec_mode=exec": false,
	} {
		err := store.CheckPostgresURL(url)
		if fine {
			require.NoError(t, err, url)
			continue
		}
		require.ErrorIs(t, err, store.ErrInvalid, url)
		require.NotContains(t, err.Error(), "secret@", url)
		require.NotContains(t, err.Error(), ":secret", url)
	}
}
