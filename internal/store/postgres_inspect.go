package store

import (
	"context"
	"time"
)

// PostgresFacts describes a server.
type PostgresFacts struct {
	// Version is the server's, for example "15.8".
	Version string
	// Standby reports that the server follows another one and is read-only.
	Standby bool
	// Empty reports that the store's tables do not exist yet.
	Empty bool
	// RoundTrip is the time of a statement without work.
	RoundTrip time.Duration
}

// InspectPostgres connects to a server, and checks that the user may read and write if there are tables. It changes
// nothing. Errors are those of OpenPostgres.
func InspectPostgres(ctx context.Context, url string) (PostgresFacts, error) {
	s, err := connect(ctx, PostgresOptions{URL: url})
	if err != nil {
		return PostgresFacts{}, err
	}
	defer func() { _ = s.Close() }()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return PostgresFacts{}, s.wrap(ctx, err)
	}
	defer conn.Release()
	f := PostgresFacts{Version: conn.Conn().PgConn().ParameterStatus("server_version"), Standby: standby(conn.Conn())}
	start := time.Now()
	if err := conn.Ping(ctx); err != nil {
		return PostgresFacts{}, s.wrap(ctx, err)
	}
	f.RoundTrip = time.Since(start).Round(10 * time.Microsecond)
	if f.Standby {
		return f, nil // the statements of probe would be refused
	}
	err = s.probe(ctx, conn.Conn())
	if f.Empty = code(err) == "42P01"; f.Empty { // undefined_table
		err = nil
	}
	return f, s.wrap(ctx, err)
}
