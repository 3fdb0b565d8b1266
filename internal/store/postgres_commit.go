package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// pieceBytes and pieceRows limit what is sent before waiting for the server.
	pieceBytes = 4 << 20
	pieceRows  = 20_000
	// copyRows is the number of new rows of a family from which on COPY is faster, although it waits for the server.
	copyRows = 256
	// commitAttempts is the number of attempts to write a batch after conflicts and lost connections.
	commitAttempts = 8
)

// Commit implements Store. Postgres describes the handling of lost connections.
func (s *Postgres) Commit(ctx context.Context, b *Batch) error {
	leave, err := s.begin(ctx, FamilyMeta)
	if err != nil {
		return err
	}
	defer leave()
	if err := b.check(); err != nil {
		return err
	}
	if len(b.ops) == 0 && len(b.moves) == 0 {
		return nil
	}
	b.order()
	if err := s.persist(ctx, b); err != nil {
		return err
	}
	s.commits.Add(1)
	s.rows.Add(uint64(len(b.ops)))
	return nil
}

// persist attempts to write a batch until it succeeds or fails permanently.
func (s *Postgres) persist(ctx context.Context, b *Batch) error {
	var there [256]bool // families in which an added row already existed
	var unsure error    // error of an attempt that may have succeeded
	var copied *copiedError
	for attempt := 0; ; attempt++ {
		err := s.write(ctx, b, &there)
		switch c := code(err); {
		case err == nil:
			return nil
		case errors.Is(err, ErrFenced) && unsure != nil:
			// An earlier attempt may have moved the cursor: the caller must check.
			return fmt.Errorf("%w: unknown whether a batch was written: %w", ErrUnavailable, unsure)
		case errors.As(err, &copied):
			there[copied.family] = true
			s.replaced.Add(1)
			attempt-- // not a failure of the server; happens at most once per family
			continue
		case c == "40001", c == "40P01": // serialization_failure, deadlock_detected
		case errors.Is(err, errCommit) && pgconn.Timeout(err):
			return fmt.Errorf("%w: unknown whether a batch was written: %w", ErrUnavailable, err)
		case lost(err):
			if errors.Is(err, errCommit) {
				unsure = err
			}
			s.renew(ctx, err)
		default:
			return s.wrap(ctx, err)
		}
		if attempt+1 == commitAttempts {
			return s.wrap(ctx, err)
		}
		s.log.Debug("writing a batch once more", slog.Any("error", err))
		if sleep(ctx, attempt) != nil {
			return s.wrap(ctx, err)
		}
	}
}

// sleep waits before another attempt, longer each time, with a random part.
func sleep(ctx context.Context, attempt int) error {
	pause := min(5*time.Millisecond<<attempt, time.Second)
	timer := time.NewTimer(pause/2 + rand.N(pause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errCommit marks a failure after COMMIT was sent.
var errCommit = errors.New("committing")

// copiedError reports that a row added as new already existed.
type copiedError struct {
	family Family
	err    error
}

func (e *copiedError) Error() string {
	return fmt.Sprintf("copying a row of %s that is there: %v", e.family, e.err)
}

func (e *copiedError) Unwrap() error { return e.err }

// write makes one attempt in one transaction. Cancellation does not interrupt its commit.
func (s *Postgres) write(ctx context.Context, b *Batch, there *[256]bool) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // which closes it if the transaction has not ended
	w := &writer{store: s, conn: conn, there: there}
	err = w.write(ctx, b)
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), s.ending)
	defer stop()
	if err != nil {
		if w.tx != nil {
			_ = w.tx.Rollback(ending)
		}
		if fenced := (*fencedError)(nil); errors.As(err, &fenced) {
			return s.fenced(ending, conn, fenced.move)
		}
		return err
	}
	if err := w.tx.Commit(ending); err != nil {
		return fmt.Errorf("%w: %w", errCommit, err)
	}
	return nil
}

// fencedError identifies the cursor with another value.
type fencedError struct{ move }

func (e *fencedError) Error() string { return fmt.Sprintf("%s is not at %s", e.name, e.from) }

// fenced returns an error with the current value of the cursor of a refused batch.
func (s *Postgres) fenced(ctx context.Context, conn *pgxpool.Conn, m move) error {
	values, err := s.get(ctx, func(ctx context.Context, sql string, args []any, row func([][]byte) error) error {
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		return each(rows, row)
	}, FamilyCursor, []PK{{P: []byte(m.name)}})
	if err != nil {
		return fmt.Errorf("%w: cursor %q is not at %s", ErrFenced, m.name, m.from)
	}
	at, err := ParseCursor(m.name, values[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: cursor %q is at %s, want %s", ErrFenced, m.name, at, m.from)
}

// writer sends a batch in pieces.
type writer struct {
	store *Postgres
	conn  *pgxpool.Conn
	tx    pgx.Tx     // nil until the first piece is sent
	there *[256]bool // families in which nothing is written as new

	piece *pgx.Batch // queued statements
	bytes int        // size of piece
	rows  int
}

// write sends all of a batch except the end of its transaction.
func (w *writer) write(ctx context.Context, b *Batch) error {
	w.piece = &pgx.Batch{}
	// Under any stricter level, a concurrently changed row would end the transaction.
	w.piece.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	w.piece.Queue(sqlAwake)
	if b.NoSync {
		w.piece.Queue(sqlNoSync)
	}
	for _, m := range b.moves {
		w.move(m)
	}
	for at := 0; at < len(b.sorted); {
		family := b.ops[b.sorted[at].op].family
		end := at + 1
		for end < len(b.sorted) && b.ops[b.sorted[end].op].family == family {
			end++
		}
		if err := w.family(ctx, b, family, b.sorted[at:end]); err != nil {
			return err
		}
		at = end
	}
	return w.send(ctx)
}

// move queues a cursor. It comes first, so that a fenced writer fails before others wait for its row locks.
func (w *writer) move(m move) {
	of := w.store.sql[FamilyCursor]
	sql := of.fence
	if m.from == (Cursor{}) {
		sql = of.fenceNew
	}
	w.piece.Queue(sql, []byte(m.name), m.from.bytes(), m.to.bytes()).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return &fencedError{m}
		}
		return nil
	})
}

// family writes the rows of one family, many new ones by COPY.
func (w *writer) family(ctx context.Context, b *Batch, family Family, places []place) error {
	var fresh, puts, deletes []*op
	first := true // whether the next operation is the first on its row
	isNew := false
	for i, place := range places {
		op := &b.ops[place.op]
		if first {
			isNew = op.fresh && !w.there[family]
		}
		first = i+1 == len(places) || op.pk.compare(b.ops[places[i+1].op].pk) != 0
		if !first {
			continue // only the last write to a row counts
		}
		switch {
		case family == FamilyCursor && moved(b.moves, op.pk):
		case op.delete && isNew: // the row is added and deleted again
		case op.delete:
			deletes = append(deletes, op)
		case isNew:
			fresh = append(fresh, op)
		default:
			puts = append(puts, op)
		}
	}
	if len(fresh) > 0 && len(fresh) < copyRows {
		puts, fresh = append(puts, fresh...), nil
	}
	of := w.store.sql[family]
	for piece := range pieces(puts) {
		p, k, v := make(byteas, len(piece)), make(byteas, len(piece)), make(byteas, len(piece))
		for i, op := range piece {
			p[i], k[i], v[i] = op.pk.P, op.pk.K, op.v
		}
		if err := w.queue(ctx, piece, of.put, p, k, v); err != nil {
			return err
		}
	}
	for piece := range pieces(deletes) {
		p, k := make(byteas, len(piece)), make(byteas, len(piece))
		for i, op := range piece {
			p[i], k[i] = op.pk.P, op.pk.K
		}
		if err := w.queue(ctx, piece, of.remove, p, k); err != nil {
			return err
		}
	}
	for piece := range pieces(fresh) {
		if err := w.copy(ctx, family, piece); err != nil {
			return err
		}
	}
	return nil
}

// moved reports whether a row is a cursor that the batch moves, which overrules a put.
func moved(moves []move, pk PK) bool {
	for _, m := range moves {
		if len(pk.K) == 0 && string(pk.P) == m.name {
			return true
		}
	}
	return false
}

// pieces cuts rows into the sizes of single statements.
func pieces(ops []*op) func(yield func([]*op) bool) {
	return func(yield func([]*op) bool) {
		for begin := 0; begin < len(ops); {
			end, size := begin+1, ops[begin].size()
			for end < len(ops) && end-begin < pieceRows && size+ops[end].size() <= pieceBytes {
				size += ops[end].size()
				end++
			}
			if !yield(ops[begin:end]) {
				return
			}
			begin = end
		}
	}
}

func (o *op) size() int { return len(o.pk.P) + len(o.pk.K) + len(o.v) }

// queue adds a statement and sends the queue if it is large enough.
func (w *writer) queue(ctx context.Context, rows []*op, sql string, args ...any) error {
	w.piece.Queue(sql, args...)
	w.rows += len(rows)
	for _, op := range rows {
		w.bytes += op.size()
	}
	if w.rows < pieceRows && w.bytes < pieceBytes {
		return nil
	}
	return w.send(ctx)
}

// send sends the queued statements and waits for the replies.
func (w *writer) send(ctx context.Context) error {
	if w.piece.Len() == 0 {
		return nil
	}
	results := w.conn.SendBatch(ctx, w.piece)
	if tx := results.Tx(); tx != nil {
		w.tx = tx
	}
	w.piece, w.bytes, w.rows = &pgx.Batch{}, 0, 0
	return results.Close()
}

// copy writes new rows.
func (w *writer) copy(ctx context.Context, family Family, rows []*op) error {
	if err := w.send(ctx); err != nil {
		return err
	}
	_, err := w.conn.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(copyData(rows)), w.store.sql[family].copy)
	if code(err) == "23505" { // unique_violation
		return &copiedError{family, err}
	}
	return err
}

// copyHeader is the header of binary COPY data: signature, no flags, no extension.
const copyHeader = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// copyData encodes rows for a binary COPY: the number of columns, then each column after its length.
func copyData(rows []*op) []byte {
	size := len(copyHeader) + 2
	for _, op := range rows {
		size += 14 + op.size()
	}
	data := append(make([]byte, 0, size), copyHeader...)
	for _, op := range rows {
		data = binary.BigEndian.AppendUint16(data, 3)
		for _, part := range [...][]byte{op.pk.P, op.pk.K, op.v} {
			data = binary.BigEndian.AppendUint32(data, uint32(len(part)))
			data = append(data, part...)
		}
	}
	return binary.BigEndian.AppendUint16(data, 0xffff)
}

// byteas is an argument of type bytea[]. It encodes nil as empty rather than NULL.
type byteas [][]byte

// byteasCodec encodes byteas without one interface call per element.
type byteasCodec struct{ pgtype.Codec }

// PlanEncode implements pgtype.Codec.
func (c byteasCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(byteas); ok && format == pgtype.BinaryFormatCode {
		return encodeByteas{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type encodeByteas struct{}

// Encode implements pgtype.EncodePlan.
func (encodeByteas) Encode(value any, buf []byte) ([]byte, error) {
	all := value.(byteas)
	if len(all) == 0 {
		buf = binary.BigEndian.AppendUint32(buf, 0) // dimensions
		buf = binary.BigEndian.AppendUint32(buf, 0)
		return binary.BigEndian.AppendUint32(buf, pgtype.ByteaOID), nil
	}
	for _, n := range [...]uint32{1, 0, pgtype.ByteaOID, uint32(len(all)), 1} { // dimensions, NULLs, type, length, first index
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	for _, b := range all {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(b)))
		buf = append(buf, b...)
	}
	return buf, nil
}

// register adds the codec of byteas to a connection.
func register(_ context.Context, c *pgx.Conn) error {
	types := c.TypeMap()
	arrays, ok := types.TypeForOID(pgtype.ByteaArrayOID)
	if !ok {
		return errors.New("pgx does not support bytea[]")
	}
	types.RegisterType(&pgtype.Type{Name: arrays.Name, OID: arrays.OID, Codec: byteasCodec{arrays.Codec}})
	return nil
}
