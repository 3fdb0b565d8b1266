package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sqlFile is the only one with statements for a PostgreSQL server.
const sqlFile = "postgres_sql.go"

// statement recognizes what a server would execute.
var statement = regexp.MustCompile(`(?is)^\s*(SELECT\s.*\sFROM\s|SELECT\s+\w+\(|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|COPY\s+\S+\s*(\(.*\))?\s+(FROM|TO)\s|MERGE\s+INTO\s|WITH\s.*\sAS\s*\(|` +
	`(CREATE|ALTER|DROP)\s+(TABLE|INDEX|SCHEMA|FUNCTION|TRIGGER|SEQUENCE|TYPE|EXTENSION|ROLE|DATABASE|TEMP|UNIQUE|MATERIALIZED|VIEW)|TRUNCATE\s|VACUUM\b|ANALYZE\b|LISTEN\s|NOTIFY\s|LOCK\s|SET\s+(LOCAL|SESSION|\w+\s*(=|TO))\b)`)

// literals are the strings of a file of Go, joined where they are added up.
func literals(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var text func(e ast.Expr) string
	text = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
				return s
			}
		case *ast.BinaryExpr:
			return text(e.X) + text(e.Y)
		}
		return ""
	}
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			if s := text(e); s != "" {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}

// TestStatementsStandInOneFile looks for statements in all other files.
func TestStatementsStandInOneFile(t *testing.T) {
	exempt := map[string]bool{"store/" + sqlFile: true}
	looked := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != ".." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "pgserver") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, _ := filepath.Rel("..", path)
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || exempt[filepath.ToSlash(rel)] {
			return nil
		}
		looked++
		for _, s := range literals(t, path) {
			if statement.MatchString(s) {
				t.Errorf("%s: got the statement %q, want statements in store/%s only", rel, s, sqlFile)
			}
		}
		return nil
	}))
	require.Greater(t, looked, 100, "files looked at")
}

// TestStatementsAreOfTheSubset checks that engines that spread a table over machines understand the
// statements.
func TestStatementsAreOfTheSubset(t *testing.T) {
	allowed := []string{
		`COPY {table} (p, k, v) FROM STDIN BINARY`,
		`INSERT INTO {table} (p, k, v) SELECT unnest($1::bytea[]), unnest($2::bytea[]), unnest($3::bytea[]) ON CONFLICT (p, k) DO UPDATE SET v = excluded.v`,
		`DELETE FROM {table} WHERE (p, k) IN (SELECT unnest($1::bytea[]), unnest($2::bytea[]))`,
		`SELECT k, v FROM {table} WHERE p = $1 AND k >= $2 AND k < $3 ORDER BY k LIMIT $4`,
		`SELECT p, k, v FROM {table} WHERE (p, k) >= ($1, $2) ORDER BY p, k LIMIT $3`,
		`SELECT k, v FROM {table} WHERE p = $1 AND k >= $2 AND k < $3 ORDER BY k DESC LIMIT $4`,
		`SELECT r.n, f.k, f.v FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS r (p, lo, hi, n) CROSS JOIN LATERAL (SELECT k, v FROM {table} WHERE p = r.p AND k >= r.lo AND k <= r.hi ORDER BY k DESC LIMIT 1) AS f`,
		`UPDATE {table} SET v = $3 WHERE p = $1 AND k = '' AND v = $2`,
		`INSERT INTO {table} (p, k, v) VALUES ($1, '', $3) ON CONFLICT (p, k) DO UPDATE SET v = excluded.v WHERE {table}.v = $2`,
		`CREATE TABLE IF NOT EXISTS {table} (p bytea NOT NULL, k bytea NOT NULL, v bytea NOT NULL, PRIMARY KEY (p, k))`,
		`SET LOCAL synchronous_commit = off`,
		`SET LOCAL idle_in_transaction_session_timeout = 3000`,
	}
	foreign := regexp.MustCompile(`(?i)\b(serial|sequence|nextval|trigger|references|function|procedure|advisory|listen|notify|gin|gist|include|generated|FOR (UPDATE|SHARE)|recursive|distinct|offset|temp|temporary|enum|collate|text|varchar|unlogged|ctid|declare|cursor|fetch|alter|numeric|returning|GROUP BY|count|sum|max|min)\b`)
	var got []string
	for _, s := range literals(t, sqlFile) {
		if !statement.MatchString(s) {
			continue
		}
		s = strings.Join(strings.Fields(s), " ")
		got = append(got, s)
		if word := foreign.FindString(s); word != "" {
			t.Errorf("%q: got %q in it, want only what every engine has", s, word)
		}
	}
	require.ElementsMatch(t, allowed, got)
	for _, family := range Families() {
		of := statementsOf(family)
		require.NotContains(t, of.put+of.fenceNew+of.floor, "{")
		require.Regexp(t, "^quorate_[a-z0-9_]{1,40}$", tableOf(family))
	}
	for s, want := range map[string]bool{
		"SELECT pg_advisory_lock($1)": true, "select a from b": true, "update t set x = 1": true, "create index on t (x)": true,
		"select a file": false, "update the set": false, "begin here": false, "copy of a row": false, "commit": false,
	} {
		require.Equal(t, want, statement.MatchString(s), s)
	}
}
