package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// readAttempts is the number of attempts of a read whose connection is lost.
const readAttempts = 3

// querier executes a statement, on any connection or on a view's.
type querier func(ctx context.Context, sql string, args []any, row func(values [][]byte) error) error

// query reads outside of views. It repeats the read if the connection was lost.
func (s *Postgres) query(ctx context.Context, sql string, args []any, row func([][]byte) error) (err error) {
	for range readAttempts {
		begun := false
		err = func() error {
			s.exchanges.Add(1)
			rows, err := s.pool.Query(ctx, sql, args...)
			if err != nil {
				return err
			}
			return each(rows, func(values [][]byte) error {
				begun = true
				return row(values)
			})
		}()
		if err == nil || begun || !s.renew(ctx, err) {
			break
		}
	}
	return s.wrap(ctx, err)
}

func each(rows pgx.Rows, row func(values [][]byte) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.RawValues()); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Get implements Reader.
func (s *Postgres) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.get(ctx, s.query, family, keys)
}

// Scan implements Reader.
func (s *Postgres) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.scan(ctx, s.query, family, p, lo, hi, dir, limit)
}

// Floor implements Reader.
func (s *Postgres) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.floor(ctx, s.query, family, p, ranges)
}

// Walk implements Reader.
func (s *Postgres) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error) {
	leave, err := s.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.walk(ctx, s.query, family, after, limit)
}

// pastAll is greater than every key.
var pastAll = bytes.Repeat([]byte{0xff}, MaxKey+1)

func (s *Postgres) get(ctx context.Context, query querier, family Family, keys []PK) ([][]byte, error) {
	values := make([][]byte, len(keys))
	var err error
	switch len(keys) {
	case 0:
	case 1:
		k := nonNil(keys[0].K)
		err = query(ctx, s.sql[family].up, []any{nonNil(keys[0].P), k, After(k), 1}, func(row [][]byte) error {
			values[0] = present(row[1])
			return nil
		})
	default:
		p, k := make(byteas, len(keys)), make(byteas, len(keys))
		for i := range keys {
			p[i], k[i] = keys[i].P, keys[i].K
		}
		err = query(ctx, s.sql[family].floor, []any{p, k, k}, func(row [][]byte) error {
			i, err := ordinal(row[0], len(values))
			if err == nil {
				values[i] = present(row[2])
			}
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", family, err)
	}
	return values, nil
}

func (s *Postgres) scan(ctx context.Context, query querier, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	if limit <= 0 || empty(lo, hi) {
		return nil, nil
	}
	sql, args := s.scanning(Query{family, p, lo, hi, dir, limit})
	var rows []Row
	if err := query(ctx, sql, args, func(row [][]byte) error {
		rows = append(rows, copied(row[0], row[1]))
		return nil
	}); err != nil {
		return nil, fmt.Errorf("scanning %s: %w", family, err)
	}
	return rows, nil
}

// scanning returns the statement of a scan.
func (s *Postgres) scanning(q Query) (sql string, args []any) {
	if q.Hi == nil {
		q.Hi = pastAll
	}
	sql = s.sql[q.Family].up
	if q.Dir == Descending {
		sql = s.sql[q.Family].down
	}
	return sql, []any{nonNil(q.P), nonNil(q.Lo), q.Hi, q.Limit}
}

// checkQueries returns an error if a query has an unknown family.
func checkQueries(queries []Query) error {
	for _, q := range queries {
		if err := q.Family.check(); err != nil {
			return err
		}
	}
	return nil
}

// queue adds scans to a batch. Each writes its rows to its element of found.
func (s *Postgres) queue(batch *pgx.Batch, queries []Query, found [][]Row) {
	for i, q := range queries {
		found[i] = nil
		if q.Limit <= 0 || empty(q.Lo, q.Hi) {
			continue
		}
		sql, args := s.scanning(q)
		batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
			return each(rows, func(row [][]byte) error {
				found[i] = append(found[i], copied(row[0], row[1]))
				return nil
			})
		})
	}
}

func (s *Postgres) floor(ctx context.Context, query querier, family Family, p []byte, ranges []Range) ([]Row, error) {
	rows := make([]Row, len(ranges))
	if len(ranges) == 0 {
		return rows, nil
	}
	ps, lo, hi := make(byteas, len(ranges)), make(byteas, len(ranges)), make(byteas, len(ranges))
	for i, r := range ranges {
		ps[i], lo[i], hi[i] = p, r.Lo, r.Hi
		if r.Hi == nil {
			hi[i] = pastAll
		}
	}
	if err := query(ctx, s.sql[family].floor, []any{ps, lo, hi}, func(row [][]byte) error {
		i, err := ordinal(row[0], len(rows))
		if err == nil {
			rows[i] = copied(row[1], row[2])
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("reading %s: %w", family, err)
	}
	return rows, nil
}

func (s *Postgres) walk(ctx context.Context, query querier, family Family, after *PK, limit int) ([]Entry, error) {
	if limit <= 0 {
		return nil, nil
	}
	var from PK
	if after != nil {
		from = PK{P: after.P, K: After(after.K)}
	}
	var records []Entry
	if err := query(ctx, s.sql[family].walk, []any{nonNil(from.P), nonNil(from.K), limit}, func(row [][]byte) error {
		records = append(records, Entry{PK: PK{P: row[0], K: row[1]}.clone(), V: present(row[2])})
		return nil
	}); err != nil {
		return nil, fmt.Errorf("walking %s: %w", family, err)
	}
	return records, nil
}

// nonNil returns b, or an empty slice for nil, which the protocol would encode as NULL.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// ordinal is the place in an argument that a row answers, counted from 1 by the server.
func ordinal(b []byte, n int) (int, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: ordinal of %d bytes", ErrCorrupt, len(b))
	}
	i := binary.BigEndian.Uint64(b)
	if i < 1 || i > uint64(n) {
		return 0, fmt.Errorf("%w: row %d of %d", ErrCorrupt, i, n)
	}
	return int(i - 1), nil
}

// postgresView is a read-only transaction on its own connection.
type postgresView struct {
	store *Postgres
	timer *time.Timer // closes the view when it is too old

	// turn holds an element while the connection is free.
	turn chan struct{}
	conn *pgxpool.Conn // nil once closed; guarded by turn
	tx   pgx.Tx        // of conn; guarded by turn
	why  error         // reason for closing; guarded by turn
}

// errViewAge is the reason why a view was closed automatically.
var errViewAge = errors.New("the view was open for too long")

// View implements Store. It waits while the maximum number of views is open.
func (s *Postgres) View(ctx context.Context) (View, error) {
	v, _, err := s.viewScans(ctx, nil)
	return v, err
}

// viewScans implements ViewScans.
func (s *Postgres) viewScans(ctx context.Context, queries []Query) (View, [][]Row, error) {
	found := make([][]Row, len(queries))
	v, err := s.view(ctx, queries, found)
	if err != nil {
		return nil, nil, err
	}
	return v, found, nil
}

func (s *Postgres) view(ctx context.Context, queries []Query, found [][]Row) (View, error) {
	leave, err := s.begin(ctx, FamilyMeta)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := checkQueries(queries); err != nil {
		return nil, err
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for one of %d views to be closed: %w", cap(s.slots), context.Cause(ctx))
	}
	v := &postgresView{store: s, turn: make(chan struct{}, 1)}
	for range readAttempts {
		if v.conn, v.tx, err = s.snapshot(ctx, queries, found); err == nil || !s.renew(ctx, err) {
			break
		}
	}
	if err != nil {
		<-s.slots
		return nil, fmt.Errorf("opening a view: %w", s.wrap(ctx, err))
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.views[v] = struct{}{}
		v.timer = time.AfterFunc(s.viewAge, func() { v.end(fmt.Errorf("%w: %w", ErrClosed, errViewAge)) })
	}
	s.mu.Unlock()
	v.turn <- struct{}{}
	if closed {
		v.release(ErrClosed)
		return nil, ErrClosed
	}
	return v, nil
}

// snapshot begins a transaction that sees the current rows. The server takes the snapshot at the first statement on
// rows, which is sent along.
func (s *Postgres) snapshot(ctx context.Context, queries []Query, found [][]Row) (*pgxpool.Conn, pgx.Tx, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	begun := batch.Len()
	s.queue(batch, queries, found)
	if batch.Len() == begun {
		batch.Queue(s.sql[FamilyMeta].up, formatKey.P, []byte{}, []byte{0}, 1)
	}
	s.exchanges.Add(1)
	results := conn.SendBatch(ctx, batch)
	if err := results.Close(); err != nil {
		conn.Release() // which closes it if a transaction is open
		return nil, nil, err
	}
	return conn, results.Tx(), nil
}

// query reads in the view.
func (v *postgresView) query(ctx context.Context, sql string, args []any, row func([][]byte) error) error {
	v.store.exchanges.Add(1)
	rows, err := v.conn.Query(ctx, sql, args...)
	if err != nil {
		return v.store.wrap(ctx, err)
	}
	return v.store.wrap(ctx, each(rows, row))
}

// begin takes the turn.
func (v *postgresView) begin(ctx context.Context, family Family) (leave func(), err error) {
	leaveStore, err := v.store.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	select {
	case <-v.turn:
	case <-ctx.Done():
		leaveStore()
		return nil, ctx.Err()
	}
	leave = func() {
		v.turn <- struct{}{}
		leaveStore()
	}
	if v.conn == nil {
		err = v.why
		leave()
		return nil, err
	}
	return leave, nil
}

func (v *postgresView) Get(ctx context.Context, family Family, keys []PK) ([][]byte, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.get(ctx, v.query, family, keys)
}

func (v *postgresView) Scan(ctx context.Context, family Family, p, lo, hi []byte, dir Direction, limit int) ([]Row, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.scan(ctx, v.query, family, p, lo, hi, dir, limit)
}

// scans implements Scans.
func (v *postgresView) scans(ctx context.Context, queries []Query) ([][]Row, error) {
	if err := checkQueries(queries); err != nil {
		return nil, err
	}
	leave, err := v.begin(ctx, FamilyMeta)
	if err != nil {
		return nil, err
	}
	defer leave()
	found, batch := make([][]Row, len(queries)), &pgx.Batch{}
	v.store.queue(batch, queries, found)
	if batch.Len() == 0 {
		return found, nil
	}
	v.store.exchanges.Add(1)
	if err := v.conn.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("scanning %s and more: %w", queries[0].Family, v.store.wrap(ctx, err))
	}
	return found, nil
}

func (v *postgresView) Floor(ctx context.Context, family Family, p []byte, ranges []Range) ([]Row, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.floor(ctx, v.query, family, p, ranges)
}

func (v *postgresView) Walk(ctx context.Context, family Family, after *PK, limit int) ([]Entry, error) {
	leave, err := v.begin(ctx, family)
	if err != nil {
		return nil, err
	}
	defer leave()
	return v.store.walk(ctx, v.query, family, after, limit)
}

// Close implements View.
func (v *postgresView) Close() error {
	v.end(ErrClosed)
	return nil
}

// end closes the view unless it is closed.
func (v *postgresView) end(why error) {
	s := v.store
	s.mu.Lock()
	_, open := s.views[v]
	delete(s.views, v)
	if open {
		s.calls.Add(1) // before Close waits for calls, which it does after taking the open views
	}
	s.mu.Unlock()
	if !open {
		return
	}
	v.timer.Stop()
	rollback := v.close(why)
	go func() { // readers need not wait for the server
		defer s.calls.Done()
		rollback()
	}()
}

// release ends the view and its transaction.
func (v *postgresView) release(why error) { v.close(why)() }

// close ends the view once no read uses it, and returns a function that ends its transaction.
func (v *postgresView) close(why error) (rollback func()) {
	<-v.turn
	conn, tx := v.conn, v.tx
	v.conn, v.why = nil, why
	v.turn <- struct{}{}
	return func() {
		ctx, stop := context.WithTimeout(context.Background(), v.store.ending)
		defer stop()
		_ = tx.Rollback(ctx) // a connection in which it fails is closed
		conn.Release()
		<-v.store.slots
	}
}
