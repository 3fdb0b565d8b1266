package store

import (
	"context"
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
	"github.com/jackc/pgx/v5/pgxpool"
)

// PostgresOptions say which server keeps the rows and how much of it may be used. Zero
// values stand for the defaults, but for URL, which is needed.
type PostgresOptions struct {
	// URL is postgres://user:password@host:port/database, with the parameters that
	// libpq knows, such as sslmode and search_path. Its secrets are in no error or log.
	URL string
	// Connections bounds those that are open at a time; three in four of them may be
	// views. 4 to 1000, default 32.
	Connections int
	// ViewAge is how long a view may be open; it is closed then, as the server keeps
	// what it sees. Default one hour.
	ViewAge time.Duration
	// Unfinished opens a store even if a copy into it has not come to its end; see Copy.
	Unfinished bool
	// Log gets what goes wrong and passes. Nil discards it.
	Log *slog.Logger
}

const (
	defaultConnections = 32
	defaultViewAge     = time.Hour
	// oldestPostgres is the least version that has what is said to it; versions from
	// 15 on are tested.
	oldestPostgres = 13
	// connectTime is what making a connection may take, unless the URL says otherwise.
	connectTime = 5 * time.Second
	// restTime is how long a connection may rest before it is asked whether it is still
	// there as it is used again, which costs an exchange. Those that are lost sooner are
	// noticed as they are used: what was asked for is asked for again.
	restTime = 30 * time.Second
	// endTime is what ending a transaction may take whose caller has gone.
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

// CheckPostgresURL says what is wrong with the URL of a server, without its secrets,
// and asks nobody.
func CheckPostgresURL(text string) error {
	_, err := parsePostgres(text)
	return err
}

func parsePostgres(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		// Errors of the library would quote what is secret.
		return nil, fmt.Errorf("%w: it is no URL such as postgres://user:password@host:5432/database; special characters of a password are written as in %%40 for @", ErrInvalid)
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%w: the parameters of %s are not those of a PostgreSQL server", ErrInvalid, u.Redacted())
	}
	switch mode := config.ConnConfig.DefaultQueryExecMode; mode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return nil, fmt.Errorf("%w: default_query_exec_mode=%s cannot carry binary rows; leave it out, or use cache_describe", ErrInvalid, mode)
	}
	return config, nil
}

// Postgres is a Store on a server that speaks PostgreSQL's protocol, with one table for
// each family, in the schema that is the first of search_path. Several processes may
// use it at a time: a cursor is moved by one of them only.
//
// A batch is one transaction, however big it is; those above 4 MiB or 20,000 rows,
// which servers that spread tables over machines do not like, are sent piece by piece.
// NoSync batches do not wait for the disk (synchronous_commit = off): a server that
// dies may lose those of its last second, though never one without all after it.
//
// Calls that the server refuses because of others at work are tried again, and so are
// those whose connection is lost, if that is known to change nothing; else the error is
// ErrUnavailable, after which everything may be tried again. A caller who goes while a
// statement is under way costs its connection, and in a view that view: to cancel the
// statement alone may hit the one after it.
type Postgres struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	at   string // for people: host, port and database
	sql  [256]*statements

	// viewAge and slots bound views: each has taken an element out of slots.
	viewAge time.Duration
	slots   chan struct{}

	mu     sync.Mutex
	closed bool                       // guarded by mu
	views  map[*postgresView]struct{} // guarded by mu
	calls  sync.WaitGroup             // those under way; none are added once closed

	commits, rows, replaced atomic.Uint64
	exchanges               atomic.Uint64 // reads that were sent
}

var _ Store = (*Postgres)(nil)

// OpenPostgres connects to a server and makes the tables that are missing. Any number
// of processes may do that at a time. Errors are ErrUnavailable, ErrFormat, ErrInvalid,
// or the server's, and say what to do.
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

// connect makes a pool and checks that the server answers.
func connect(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	options = options.withDefaults()
	config, err := parsePostgres(options.URL)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if options.Connections < 4 || options.Connections > 1000 || options.ViewAge < 0 {
		return nil, fmt.Errorf("opening the store: %w: %d connections, of which 4 to 1000 are possible, views of %s",
			ErrInvalid, options.Connections, options.ViewAge)
	}
	given := config.ConnConfig.RuntimeParams
	config.ConnConfig.RuntimeParams = maps.Clone(postgresSettings)
	maps.Copy(config.ConnConfig.RuntimeParams, given)
	// The server ends what a process that vanished has left open.
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt((options.ViewAge + time.Minute).Milliseconds(), 10)
	config.MaxConns = int32(options.Connections)
	if config.ConnConfig.ConnectTimeout == 0 || config.ConnConfig.ConnectTimeout > time.Minute {
		config.ConnConfig.ConnectTimeout = connectTime
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
		viewAge: options.ViewAge, slots: make(chan struct{}, max(1, options.Connections*3/4)), views: make(map[*postgresView]struct{}),
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

// meet connects for the first time.
func (s *Postgres) meet(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.wrap(ctx, err)
	}
	defer conn.Release()
	version := conn.Conn().PgConn().ParameterStatus("server_version")
	if n, err := strconv.Atoi(leadingDigits(version)); err != nil || n < oldestPostgres {
		return fmt.Errorf("%w: the server is of version %q, and has to be of %d or later; 15 and later are tested", ErrInvalid, version, oldestPostgres)
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

// standby says whether the server only follows another one.
func standby(c *pgx.Conn) bool { return c.PgConn().ParameterStatus("in_hot_standby") == "on" }

// tableAttempts is how often tables are made while other processes make them, too.
const tableAttempts = 10

// prepare makes the tables that are missing, and finds out whether rows may be written.
func (s *Postgres) prepare(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.wrap(ctx, err)
	}
	defer conn.Release()
	if standby(conn.Conn()) {
		return fmt.Errorf("%w: the server is a standby, to be read only: name the primary server", ErrInvalid)
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
		// unique_violation, duplicate_table, duplicate_object, deadlock: another one was
		// quicker.
		case "23505", "42P07", "42710", "40P01":
			if err := sleep(ctx, attempt); err != nil {
				return err
			}
		default:
			return fmt.Errorf("making tables: %w", s.wrap(ctx, err))
		}
	}
	return s.wrap(ctx, missing)
}

// probe reads, writes and deletes nothing in each table, for which it has to be there,
// and ours to write.
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

// begin checks the arguments that all calls have and keeps the store open until the
// function it returns is called.
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

// Ping asks the server for nothing: no read takes less time.
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

// code is what the server calls an error, empty if it is not the server's.
func code(err error) string {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return said.Code
	}
	return ""
}

// lost says whether an error is that of a connection or of a server that goes or
// comes, so that another attempt may succeed.
func lost(err error) bool {
	switch c := code(err); c {
	case "":
		return errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(*net.OpError)) || errors.Is(err, net.ErrClosed) ||
			errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
	// admin_shutdown, crash_shutdown, cannot_connect_now, too_many_connections, idle
	// in transaction, read_only_sql_transaction (the primary has become a standby)
	case "57P01", "57P02", "57P03", "53300", "25P03", "25006":
		return true
	default:
		return strings.HasPrefix(c, "08") // connection_exception
	}
}

// wrap says of an error what this package's callers ask.
func (s *Postgres) wrap(ctx context.Context, err error) error {
	switch c := code(err); {
	case err == nil:
		return nil
	case ctx.Err() != nil && (c == "" || c == "57014"): // query_canceled
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	case c == "28P01" || c == "28000":
		return fmt.Errorf("%w: are user and password right, and may they connect from here?", err)
	case c == "3D000":
		return fmt.Errorf("%w: make it with createdb, or name another one", err)
	case c == "42501":
		return fmt.Errorf("%w: the user needs the rights to make tables in the schema (CREATE), and to select, insert, update and delete rows in those that begin with %q", err, tableOf(FamilyMeta)[:len("quorate_")])
	case c == "XX001" || c == "XX002":
		return fmt.Errorf("%w: the server on %s says: %w", ErrCorrupt, s.at, err)
	case lost(err), c == "40001", c == "40P01": // what others held up for too long, or a standby's view
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, s.at, err)
	}
	return err
}
