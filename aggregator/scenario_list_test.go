package aggregator

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

var (
	// scenarioTest is the name of a test: list, number, and one or more further
	// numbers after "and".
	scenarioTest = regexp.MustCompile(`^TestScenario_7_([12])_(\d\d)((?:_and_\d\d)*)_[A-Z]`)
	// scenarioLine is a line of the table.
	scenarioLine = regexp.MustCompile(`^7\.([12])-(\d\d) (.+): (.+)$`)
)

// scenarioCounts are the lengths of the lists.
var scenarioCounts = map[string]int{"1": 29, "2": 36}

// Every scenario has a test with its number, or a line in the table of scenario_test.go that names
// another test. The table must be true.
func TestEveryScenarioHasATest(t *testing.T) {
	tests := make(map[string][]string) // by number, as in 7.1-01: packages
	root := ".."
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "TestScenario") {
				continue
			}
			m := scenarioTest.FindStringSubmatch(f.Name.Name)
			if m == nil {
				t.Errorf("%s: %s names no scenario", path, f.Name.Name)
				continue
			}
			numbers := append([]string{m[2]}, strings.Split(m[3], "_and_")[1:]...)
			if m[3] == "" {
				numbers = numbers[:1]
			}
			for _, number := range numbers {
				if n, _ := strconv.Atoi(number); n < 1 || n > scenarioCounts[m[1]] {
					t.Errorf("%s: %s: list %s ends at %d", path, f.Name.Name, m[1], scenarioCounts[m[1]])
				}
				id := "7." + m[1] + "-" + number
				tests[id] = append(tests[id], filepath.ToSlash(folder))
			}
		}
		return nil
	}))

	table := scenarioTable(t)
	require.Len(t, table, scenarioCounts["1"]+scenarioCounts["2"], "lines of the table")
	for id, where := range table {
		if reason, ok := strings.CutPrefix(where, "no test here, "); ok {
			require.Greater(t, len(reason), 20, "%s: say why", id)
			require.Empty(t, tests[id], "%s: there is a test after all", id)
			continue
		}
		for _, folder := range strings.Split(where, ", ") {
			require.Contains(t, tests[id], folder, "%s has no test in %s", id, folder)
		}
		for _, folder := range tests[id] {
			require.Contains(t, strings.Split(where, ", "), folder, "%s: the table does not know of its test", id)
		}
	}
}

// scenarioTable reads the table: where each scenario is tested, or why not.
func scenarioTable(t *testing.T) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "scenario_test.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	table := make(map[string]string)
	for _, group := range file.Comments {
		for line := range strings.Lines(group.Text()) {
			m := scenarioLine.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				continue
			}
			id := "7." + m[1] + "-" + m[2]
			require.NotContains(t, table, id, "listed twice")
			table[id] = m[4]
		}
	}
	for list, count := range scenarioCounts {
		for n := 1; n <= count; n++ {
			id := "7." + list + "-" + pad(n)
			require.Contains(t, table, id, "a scenario with neither test nor reason")
		}
	}
	return table
}

func pad(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}
