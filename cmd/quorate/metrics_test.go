package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"quorate/internal/simnet"
)

var write = flag.Bool("write", false, "write the table of metrics to docs/metrics.md")

// metric is a row of docs/metrics.md.
type metric struct {
	kind, help string
	labels     []string // sorted
	folder     string   // of the declaration; empty if only a running service has it
}

// TestMetricsAreDocumented compares docs/metrics.md with the declarations of metrics and with what a running service
// exposes. With -write, it writes the table.
func TestMetricsAreDocumented(t *testing.T) {
	const file = root + "/docs/metrics.md"
	n, err := simnet.Start(simnet.Options{Seed: 3, Validators: 6})
	require.NoError(t, err)
	defer n.Close()
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n})
	s.sign(t, "fuji", n, "measured")
	exposed := scrape(t, s.private+"/metrics")
	s.stop(t)
	require.Greater(t, len(exposed), 60)

	all := declared(t)
	inherited := make(map[string][]string) // labels that the registerers of a folder add
	for name, seen := range exposed {
		known, ok := all[name]
		if !ok {
			all[name] = seen
			continue
		}
		require.Equal(t, known.kind, seen.kind, name)
		require.Equal(t, known.help, seen.help, name)
		require.Subset(t, seen.labels, known.labels, name)
		added := slices.DeleteFunc(slices.Clone(seen.labels), func(l string) bool { return slices.Contains(known.labels, l) })
		if before, ok := inherited[known.folder]; ok && len(added) > 0 {
			require.Equal(t, before, added, "metrics of %s have different labels of their registerers", known.folder)
		}
		if len(added) > 0 {
			inherited[known.folder] = added
		}
		known.labels = seen.labels
		all[name] = known
	}
	for name, m := range all {
		if _, ok := exposed[name]; !ok {
			m.labels = slices.Compact(slices.Sorted(slices.Values(append(inherited[m.folder], m.labels...))))
			all[name] = m
		}
	}

	// Dashboard, alerts and pages use existing metrics.
	names := regexp.MustCompile(`\bquorate_[a-z0-9_]+[a-z0-9]`)
	for _, user := range []string{"docs/operating.md", "docs/deployment.md", "deploy/prometheus/alerts.yaml", "deploy/grafana/dashboards/quorate.json"} {
		text, err := os.ReadFile(filepath.Join(root, user))
		require.NoError(t, err)
		for _, name := range names.FindAllString(string(text), -1) {
			_, ok := all[name]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				_, histogram := all[strings.TrimSuffix(name, suffix)]
				ok = ok || histogram
			}
			require.True(t, ok, "%s: there is no metric %s", user, name)
		}
	}

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	const begin, end = "<!-- metrics -->\n", "<!-- end of metrics -->"
	head, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	_, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := head + begin + metricTable(all) + end + tail
	if *write {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "run go test ./cmd/quorate -run TestMetricsAreDocumented -write")
}

// metricTable returns the rows of all metrics, by name.
func metricTable(all map[string]metric) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		labels := ""
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, m.kind, labels, strings.ReplaceAll(m.help, "|", "\\|"))
	}
	return b.String()
}

// scrape returns what a service exposes, without the metrics of Go and of the process.
func scrape(t *testing.T, url string) map[string]metric {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var text expfmt.TextParser
	families, err := text.TextToMetricFamilies(response.Body)
	require.NoError(t, err)
	all := make(map[string]metric)
	for name, family := range families {
		if !strings.HasPrefix(name, "quorate_") {
			continue
		}
		m := metric{kind: strings.ToLower(family.GetType().String()), help: family.GetHelp()}
		for _, series := range family.GetMetric() {
			m.labels = append(m.labels, labelNames(series.GetLabel())...)
		}
		slices.Sort(m.labels)
		m.labels = slices.Compact(m.labels)
		all[name] = m
	}
	return all
}

func labelNames(pairs []*dto.LabelPair) []string {
	names := make([]string, len(pairs))
	for i, pair := range pairs {
		names[i] = pair.GetName()
	}
	return names
}

// declared returns the metrics whose names are literals in calls of package prometheus.
func declared(t *testing.T) map[string]metric {
	t.Helper()
	all := make(map[string]metric)
	for _, top := range []string{"aggregator", "validators", "p2p", "handlers", "internal"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					name, m := declaration(call)
					if top == "p2p" && name != "" { // its registerer adds the prefix
						name = "quorate_p2p_" + name
					}
					if strings.HasPrefix(name, "quorate_") {
						m.folder = filepath.Dir(path)
						m.labels = slices.Compact(slices.Sorted(slices.Values(m.labels)))
						if other, ok := all[name]; ok { // such as one metric in several ConstLabels
							require.Equal(t, other, m, name)
						}
						all[name] = m
					}
				}
				return true
			})
			return nil
		}))
	}
	return all
}

// declaration returns the metric that a call declares, or an empty name.
func declaration(call *ast.CallExpr) (name string, m metric) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return "", m
	}
	if function.Sel.Name == "NewDesc" && len(call.Args) == 4 {
		name = literal(call.Args[0])
		m = metric{kind: "gauge", help: literal(call.Args[1]), labels: append(literals(call.Args[2]), literals(call.Args[3])...)}
		if strings.HasSuffix(name, "_total") {
			m.kind = "counter"
		}
		return name, m
	}
	kind, ok := strings.CutPrefix(function.Sel.Name, "New")
	options, isLiteral := call.Args[0].(*ast.CompositeLit)
	if !ok || !isLiteral {
		return "", m
	}
	kind, vector := strings.CutSuffix(strings.TrimSuffix(kind, "Func"), "Vec")
	m.kind = strings.ToLower(kind)
	for _, element := range options.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return "", m
		}
		switch fmt.Sprint(field.Key) {
		case "Name":
			name = literal(field.Value)
		case "Help":
			m.help = literal(field.Value)
		case "ConstLabels":
			m.labels = append(m.labels, literals(field.Value)...)
		}
	}
	if vector && len(call.Args) > 1 {
		m.labels = append(m.labels, literals(call.Args[1])...)
	}
	return name, m
}

// literals returns the elements of a list, or the keys of a map.
func literals(e ast.Expr) []string {
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	var all []string
	for _, element := range list.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			element = pair.Key
		}
		all = append(all, literal(element))
	}
	return all
}

// literal returns a string literal, or a sum of them; anything else is empty.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		if left, right := literal(e.X), literal(e.Y); cmp.Or(left, right) != "" && left != "" && right != "" {
			return left + right
		}
	}
	return ""
}
