package store

import "strings"

// All that is ever said to a PostgreSQL server stands in this file, so that what an
// engine with the same protocol has to understand can be seen at a glance. The test
// beside it refuses other statements elsewhere, and these once they use what engines
// that spread a table over machines lack: every read is of one partition (all but the
// walk of a copy or dump), every write names its rows, and nothing depends on the
// order of text. {table} is a family's.

// The statements on rows.
const (
	// sqlCopy brings rows that are not there yet, if there are many.
	sqlCopy = `COPY {table} (p, k, v) FROM STDIN BINARY`

	// sqlPut brings others.
	sqlPut = `INSERT INTO {table} (p, k, v) SELECT unnest($1::bytea[]), unnest($2::bytea[]), unnest($3::bytea[])
		ON CONFLICT (p, k) DO UPDATE SET v = excluded.v`

	sqlDelete = `DELETE FROM {table} WHERE (p, k) IN (SELECT unnest($1::bytea[]), unnest($2::bytea[]))`

	// sqlUp reads a page of a partition, sqlWalk one of a whole family.
	sqlUp   = `SELECT k, v FROM {table} WHERE p = $1 AND k >= $2 AND k < $3 ORDER BY k LIMIT $4`
	sqlWalk = `SELECT p, k, v FROM {table} WHERE (p, k) >= ($1, $2) ORDER BY p, k LIMIT $3`

	// sqlDown reads a page backwards, sqlFloor one row of each of many ranges: the same
	// with a limit of one.
	sqlDown  = `SELECT k, v FROM {table} WHERE p = $1 AND k >= $2 AND k < $3 ORDER BY k DESC LIMIT $4`
	sqlFloor = `SELECT r.n, f.k, f.v FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS r (p, lo, hi, n)
		CROSS JOIN LATERAL (SELECT k, v FROM {table} WHERE p = r.p AND k >= r.lo AND k <= r.hi ORDER BY k DESC LIMIT 1) AS f`

	// sqlFence moves a cursor that is where its writer believes it to be, and else no
	// row; sqlFenceNew one that may never have been moved.
	sqlFence    = `UPDATE {table} SET v = $3 WHERE p = $1 AND k = '' AND v = $2`
	sqlFenceNew = `INSERT INTO {table} (p, k, v) VALUES ($1, '', $3)
		ON CONFLICT (p, k) DO UPDATE SET v = excluded.v WHERE {table}.v = $2`
)

const (
	// sqlTable makes what is missing when a store is opened, outside of transactions on
	// rows.
	sqlTable = `CREATE TABLE IF NOT EXISTS {table} (p bytea NOT NULL, k bytea NOT NULL, v bytea NOT NULL, PRIMARY KEY (p, k))`
	// sqlAwake has the server end the transaction of a writer that was frozen, or cut off,
	// between two of its statements: others wait for the rows that it has locked.
	sqlAwake = `SET LOCAL idle_in_transaction_session_timeout = 3000`
	// sqlNoSync has the transaction not wait for the disk.
	sqlNoSync = `SET LOCAL synchronous_commit = off`
)

// postgresSettings are set as a connection is made. All rows are found through the
// primary key, whatever statistics the server has of tables that grow from nothing:
// there is nothing to plan, neither by family nor by size.
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

// tableOf is the table of a family. The prefix keeps it apart from others' tables in
// the same database, and from words of the language.
func tableOf(family Family) string { return "quorate_" + family.String() }

// statements are those on one family.
type statements struct{ copy, put, remove, up, down, walk, floor, fence, fenceNew, table string }

func statementsOf(family Family) statements {
	of := func(text string) string { return strings.ReplaceAll(text, "{table}", tableOf(family)) }
	return statements{
		copy: of(sqlCopy), put: of(sqlPut), remove: of(sqlDelete), up: of(sqlUp), down: of(sqlDown), walk: of(sqlWalk),
		floor: of(sqlFloor), fence: of(sqlFence), fenceNew: of(sqlFenceNew), table: of(sqlTable),
	}
}
