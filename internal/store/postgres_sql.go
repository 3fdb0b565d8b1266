package store

import "strings"

// This file contains every statement sent to a PostgreSQL server, so that the requirements on other engines with the
// same protocol are visible in one place. The test beside it rejects statements elsewhere, and statements here that
// distributed engines lack: every read is of one partition, except the walk of a copy or dump; every write names its
// rows; nothing depends on the order of text. {table} is the table of a family.

// Statements on rows.
const (
	// sqlCopy inserts many new rows.
	sqlCopy = `COPY {table} (p, k, v) FROM STDIN BINARY`

	// sqlPut inserts or replaces rows.
	sqlPut = `INSERT INTO {table} (p, k, v) SELECT unnest($1::bytea[]), unnest($2::bytea[]), unnest($3::bytea[])
		ON CONFLICT (p, k) DO UPDATE SET v = excluded.v`

	sqlDelete = `DELETE FROM {table} WHERE (p, k) IN (SELECT unnest($1::bytea[]), unnest($2::bytea[]))`

	// sqlUp reads a page of a partition, sqlWalk a page of a whole family.
	sqlUp   = `SELECT k, v FROM {table} WHERE p = $1 AND k >= $2 AND k < $3 ORDER BY k LIMIT $4`
	sqlWalk = `SELECT p, k, v FROM {table} WHERE (p, k) >= ($1, $2) ORDER BY p, k LIMIT $3`

	// sqlDown reads a page backwards. sqlFloor reads one row of each of many ranges.
	sqlDown  = `SELECT k, v FROM {table} WHERE p = $1 AND k >= $2 AND k < $3 ORDER BY k DESC LIMIT $4`
	sqlFloor = `SELECT r.n, f.k, f.v FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS r (p, lo, hi, n)
		CROSS JOIN LATERAL (SELECT k, v FROM {table} WHERE p = r.p AND k >= r.lo AND k <= r.hi ORDER BY k DESC LIMIT 1) AS f`

	// sqlFence moves a cursor if it has the expected value. sqlFenceNew moves a cursor that has no row.
	sqlFence    = `UPDATE {table} SET v = $3 WHERE p = $1 AND k = '' AND v = $2`
	sqlFenceNew = `INSERT INTO {table} (p, k, v) VALUES ($1, '', $3)
		ON CONFLICT (p, k) DO UPDATE SET v = excluded.v WHERE {table}.v = $2`
)

const (
	// sqlTable creates a missing table when a store is opened, outside of transactions on rows.
	sqlTable = `CREATE TABLE IF NOT EXISTS {table} (p bytea NOT NULL, k bytea NOT NULL, v bytea NOT NULL, PRIMARY KEY (p, k))`
	// sqlAwake makes the server end the transaction of a writer that stops between two statements, because others wait
	// for its row locks.
	sqlAwake = `SET LOCAL idle_in_transaction_session_timeout = 3000`
	// sqlNoSync makes the transaction not wait for the disk.
	sqlNoSync = `SET LOCAL synchronous_commit = off`
)

// postgresSettings are set on each new connection. All rows are found through the primary key, independent of the
// server's statistics.
var postgresSettings = map[string]string{
	"application_name":   "quorate",
	"client_encoding":    "UTF8",
	"enable_bitmapscan":  "off",
	"enable_hashjoin":    "off",
	"enable_mergejoin":   "off",
	"enable_seqscan":     "off",
	"jit":                "off",
	"plan_cache_mode":    "force_generic_plan",
	"statement_timeout":  "0",
	"lock_timeout":       "0",
	"synchronous_commit": "on",
}

// tableOf returns the table of a family. The prefix separates it from other tables of the database and from SQL
// keywords.
func tableOf(family Family) string { return "quorate_" + family.String() }

// statements are the statements for one family.
type statements struct{ copy, put, remove, up, down, walk, floor, fence, fenceNew, table string }

func statementsOf(family Family) statements {
	of := func(text string) string { return strings.ReplaceAll(text, "{table}", tableOf(family)) }
	return statements{
		copy: of(sqlCopy), put: of(sqlPut), remove: of(sqlDelete), up: of(sqlUp), down: of(sqlDown), walk: of(sqlWalk),
		floor: of(sqlFloor), fence: of(sqlFence), fenceNew: of(sqlFenceNew), table: of(sqlTable),
	}
}
