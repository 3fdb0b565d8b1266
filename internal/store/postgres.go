package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PostgresOptions configures a Postgres store. Zero values mean the defaults. URL is required.
type PostgresOptions struct {
	// URL is postgres://user:password@host:port/database, with the parameters that libpq supports, such as sslmode and
	// search_path. Errors and logs omit its secrets.
	URL string
	// Connections is the maximum number of open connections; views may use three in four of them. 4 to 1000, default
	// 32.
	Connections int
	// ViewAge is the maximum age of an open view. Then the view is closed, because the server must retain the rows that
	// it sees. Default one hour.
	ViewAge time.Duration
	// Unfinished opens a store even if a copy into it is incomplete; see Copy.
	Unfinished bool
	// Log receives temporary failures. Nil discards them.
	Log *slog.Logger
}

const (
	defaultConnections = 32
	defaultViewAge     = time.Hour
	// oldestPostgres is the lowest version that supports the statements used; versions from 15 on are tested.
	oldestPostgres = 13
	// connectTime is the timeout for opening a connection, unless the URL sets another.
	connectTime = 5 * time.Second
	// restTime is the idle time after which a connection is checked before use, which costs a round trip. If a
	// connection was lost earlier, the failing read is repeated.
	restTime = 30 * time.Second
	// renewTime is the time within which lost connections are lost for one reason.
	renewTime = time.Second
	// graceTime is the time that a statement has to end after its caller has gone. Most need a few milliseconds, and a
	// connection without an unfinished statement can be used again: otherwise each client that leaves would cost one.
	graceTime = 250 * time.Millisecond
	// endTime is the timeout for ending a transaction whose caller has gone.
	endTime = 30 * time.Second
)

func (o PostgresOptions) withDefaults() PostgresOptions {
	if o.Connections == 0 {
		o.Connections = defaultConnections
	}
	if o.ViewAge == 0 {
		o.ViewAge = defaultViewAge
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// CheckPostgresURL returns an error if the URL is invalid. It does not connect. The error omits secrets.
func CheckPostgresURL(text string) error {
	_, err := parsePostgres(text)
	return err
}

func parsePostgres(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		// Errors of the library would quote secrets.
		return nil, fmt.Errorf("%w: not a URL like postgres://user:password@host:5432/database; escape special characters of the password, for example @ as %%40", ErrInvalid)
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s has invalid parameters for a PostgreSQL server", ErrInvalid, u.Redacted())
	}
	switch mode := config.ConnConfig.DefaultQueryExecMode; mode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return nil, fmt.Errorf("%w: default_query_exec_mode=%s cannot carry binary rows; leave it out, or use cache_describe", ErrInvalid, mode)
	}
	return config, nil
}

// Postgres is a Store on a server with PostgreSQL's protocol. Each family has one table, in the first schema of
// search_path. Several processes may use it concurrently: only one of them can move a cursor.
//
// A batch is one transaction of any size. Batches above 4 MiB or 20,000 rows, which distributed servers handle badly,
// are sent in pieces. NoSync batches do not wait for the disk (synchronous_commit = off): if the server dies, it may
// lose the batches of its last second, but never a batch without all later ones.
//
// The store repeats calls that the server refuses because of concurrent transactions, and calls whose connection is
// lost if a repetition is safe. Otherwise it returns ErrUnavailable; the caller may repeat the call. If a caller
// cancels and its statement does not end within 250 ms, its connection is closed, and in a view the view: cancelling the
// statement alone could hit the following one.
type Postgres struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	at   string // for logs: host, port and database
	sql  [256]*statements

	// viewAge and slots limit views: each open view has taken an element out of slots.
	viewAge time.Duration
	slots   chan struct{}

	mu     sync.Mutex
	closed bool                       // guarded by mu
	views  map[*postgresView]struct{} // guarded by mu
	calls  sync.WaitGroup             // calls in progress; none are added once closed

	commits, rows, replaced atomic.Uint64
	exchanges               atomic.Uint64 // reads sent to the server

	ending  time.Duration // endTime, except in tests
	renewed atomic.Int64  // when all connections were last taken for lost, in Unix milliseconds
}

var _ Store = (*Postgres)(nil)

// OpenPostgres connects to a server and creates missing tables. Several processes may call it concurrently. It returns
// ErrUnavailable, ErrFormat, ErrInvalid, or the server's errors, which say what to do.
func OpenPostgres(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	s, err := connect(ctx, options)
	if err != nil {
		return nil, err
	}
	err = s.prepare(ctx)
	if err == nil {
		err = checkFormat(ctx, s, options.Unfinished)
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("opening the store on %s: %w", s.at, err)
	}
	return s, nil
}

// connect creates a pool and checks that the server responds.
func connect(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	options = options.withDefaults()
	config, err := parsePostgres(options.URL)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if options.Connections < 4 || options.Connections > 1000 || options.ViewAge < 0 {
		return nil, fmt.Errorf("opening the store: %w: %d connections, want 4 to 1000; views of %s",
			ErrInvalid, options.Connections, options.ViewAge)
	}
	given := config.ConnConfig.RuntimeParams
	config.ConnConfig.RuntimeParams = maps.Clone(postgresSettings)
	maps.Copy(config.ConnConfig.RuntimeParams, given)
	// The server ends transactions that a vanished process left open.
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt((options.ViewAge + time.Minute).Milliseconds(), 10)
	config.MaxConns = int32(options.Connections)
	if config.ConnConfig.ConnectTimeout == 0 || config.ConnConfig.ConnectTimeout > time.Minute {
		config.ConnConfig.ConnectTimeout = connectTime
	}
	limit := &dials{}
	config.ConnConfig.DialFunc, config.ConnConfig.Tracer, config.BeforeConnect = newDialer().DialContext, limit, limit.allow
	config.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn(), DeadlineDelay: graceTime}
	}
	config.PingTimeout, config.AfterConnect = connectTime, register
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > restTime }
	config.ConnConfig.StatementCacheCapacity = 8 * len(Families())
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	c := config.ConnConfig
	s := &Postgres{
		pool: pool, log: options.Log, at: fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database),
		ending: endTime, viewAge: options.ViewAge, slots: make(chan struct{}, max(1, options.Connections*3/4)), views: make(map[*postgresView]struct{}),
	}
	for _, family := range Families() {
		of := statementsOf(family)
		s.sql[family] = &of
	}
	if err := s.meet(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening the store on %s: %w", s.at, err)
	}
	return s, nil
}

// meet opens the first connection.
func (s *Postgres) meet(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	switch {
	case err == nil:
	case code(err) == "" && strings.Contains(err.Error(), "server refused TLS connection"): // pgconn has no error value for it
		return fmt.Errorf("%w: enable TLS on the server, or allow connections without it with sslmode in the URL", err)
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w: check sslmode and sslrootcert in the URL", err)
	default:
		return s.wrap(ctx, err)
	}
	defer conn.Release()
	version := conn.Conn().PgConn().ParameterStatus("server_version")
	if n, err := strconv.Atoi(leadingDigits(version)); err != nil || n < oldestPostgres {
		return fmt.Errorf("%w: the server has version %q, want %d or later; 15 and later are tested", ErrInvalid, version, oldestPostgres)
	}
	return nil
}

func leadingDigits(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return text
	}
	return text[:end]
}

// standby reports whether the server is a standby of another one.
func standby(c *pgx.Conn) bool { return c.PgConn().ParameterStatus("in_hot_standby") == "on" }

// tableAttempts is the number of attempts to create tables while other processes create them, too.
const tableAttempts = 10

// prepare creates missing tables and checks that rows are writable.
func (s *Postgres) prepare(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.wrap(ctx, err)
	}
	defer conn.Release()
	if standby(conn.Conn()) {
		return fmt.Errorf("%w: the server is a read-only standby: name the primary server", ErrInvalid)
	}
	missing := errors.New("not looked at yet")
	for attempt := range tableAttempts {
		if missing = s.probe(ctx, conn.Conn()); missing == nil {
			return nil
		}
		if code(missing) != "42P01" { // undefined_table
			return s.wrap(ctx, missing)
		}
		batch := &pgx.Batch{}
		for _, family := range Families() {
			batch.Queue(s.sql[family].table)
		}
		err := conn.Conn().SendBatch(ctx, batch).Close()
		switch code(err) {
		case "":
			if err != nil {
				return s.wrap(ctx, err)
			}
		// unique_violation, duplicate_table, duplicate_object, deadlock: another process was faster.
		case "23505", "42P07", "42710", "40P01":
			if err := sleep(ctx, attempt); err != nil {
				return err
			}
		default:
			return fmt.Errorf("creating tables: %w", s.wrap(ctx, err))
		}
	}
	return s.wrap(ctx, missing)
}

// probe runs each kind of statement without effect on every table, which fails if a table or a permission is missing.
func (s *Postgres) probe(ctx context.Context, conn *pgx.Conn) error {
	batch := &pgx.Batch{}
	none := byteas{}
	for _, family := range Families() {
		of := s.sql[family]
		batch.Queue(of.up, []byte{}, []byte{}, []byte{}, 1)
		batch.Queue(of.put, none, none, none)
		batch.Queue(of.remove, none, none)
	}
	return conn.SendBatch(ctx, batch).Close()
}

// begin checks the common arguments and keeps the store open until the returned function is called.
func (s *Postgres) begin(ctx context.Context, family Family) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := family.check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.calls.Add(1)
	return s.calls.Done, nil
}

// Ping sends an empty statement to the server.
func (s *Postgres) Ping(ctx context.Context) error {
	leave, err := s.begin(ctx, FamilyMeta)
	if err != nil {
		return err
	}
	defer leave()
	return s.wrap(ctx, s.pool.Ping(ctx))
}

// Stats implements Store.
func (s *Postgres) Stats() Stats {
	return Stats{Engine: "postgres", Commits: s.commits.Load(), Rows: s.rows.Load(), Replaced: s.replaced.Load(), Exchanges: s.exchanges.Load()}
}

// Close implements Store.
func (s *Postgres) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	open := s.views
	s.views = nil
	s.mu.Unlock()
	for v := range open {
		v.timer.Stop()
		v.release(ErrClosed)
	}
	s.calls.Wait()
	s.pool.Close()
	return nil
}

// code returns the server's error code, or an empty string for other errors.
func code(err error) string {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return said.Code
	}
	return ""
}

// lost reports whether an error comes from a connection or a server that stops or starts, so that another attempt may
// succeed.
func lost(err error) bool {
	switch c := code(err); c {
	case "":
		return errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(*net.OpError)) || errors.Is(err, net.ErrClosed) ||
			errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
	// admin_shutdown, crash_shutdown, cannot_connect_now, idle_session_timeout, too_many_connections, idle in transaction,
	// transaction_timeout, read_only_sql_transaction (the primary has become a standby)
	case "57P01", "57P02", "57P03", "57P05", "53300", "25P03", "25P04", "25006":
		return true
	default:
		return strings.HasPrefix(c, "08") // connection_exception
	}
}

// renew reports whether a connection was lost, so that the call may be repeated at once. Then it closes the idle
// connections, which were lost, too. It does not if no connection could be opened: those that are open may be good.
func (s *Postgres) renew(ctx context.Context, err error) bool {
	if ctx.Err() != nil || !lost(err) || errors.As(err, new(*pgconn.ConnectError)) {
		return false
	}
	// Calls that lose their connections at the same time must not close what others have opened since.
	now := time.Now().UnixMilli()
	if last := s.renewed.Load(); now-last >= renewTime.Milliseconds() && s.renewed.CompareAndSwap(last, now) {
		s.pool.Reset()
	}
	return true
}

// passing reports whether the server refused a statement for a reason that may pass: serialization_failure,
// deadlock_detected, query_canceled by its operator, insufficient_resources, and system_error.
func passing(c string) bool {
	return c == "40001" || c == "40P01" || c == "57014" || strings.HasPrefix(c, "53") || strings.HasPrefix(c, "58")
}

// wrap maps an error to the errors of this package.
func (s *Postgres) wrap(ctx context.Context, err error) error {
	switch c := code(err); {
	case err == nil:
		return nil
	case ctx.Err() != nil && (c == "" || c == "57014"): // query_canceled
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	case c == "28P01" || c == "28000":
		return fmt.Errorf("%w: check user and password, and whether the server lets them connect from here", err)
	case c == "3D000":
		return fmt.Errorf("%w: create the database with createdb, or name another one", err)
	case c == "42501":
		return fmt.Errorf("%w: grant the user CREATE on the schema, and SELECT, INSERT, UPDATE and DELETE on the tables whose names begin with %q", err, tableOf(FamilyMeta)[:len("quorate_")])
	case c == "XX001" || c == "XX002":
		return fmt.Errorf("%w: the server on %s says: %w", ErrCorrupt, s.at, err)
	case lost(err), passing(c):
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, s.at, err)
	}
	return err
}
