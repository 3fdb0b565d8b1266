// Package quorate has only tests: of the layers, the layout and the texts of the repository.
package quorate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers has the layer of each folder: the first folder of a package's path, below internal
// the second. A package imports packages of its own folder, and otherwise only those of lower
// layers. docs/architecture.md shows the layers.
var layers = map[string]int{
	"client": 0, "internal/bounded": 0, "internal/cputime": 0, "internal/outbound": 0, "internal/retry": 0, "internal/suggest": 0, "internal/testenv": 0,
	"bls": 1, "internal/node": 1, "internal/store": 1, "internal/chain": 1,
	"p2p": 2, "validators": 2, "internal/peernode": 2,
	"aggregator": 3, "internal/index": 3,
	"internal/webhook": 4, "internal/anchor": 4,
	"handlers": 5, "internal/simnet": 5, "internal/measure": 5,
	"internal/config":  6,
	"internal/service": 7,
	"internal/doctor":  8,
	"cmd":              9, "bench": 9, "deploy": 9,
}

// TestImportsPointOneWay checks the imports of packages and of their tests. Tests may
// also import simnet.
func TestImportsPointOneWay(t *testing.T) {
	for _, module := range []string{".", "bench"} {
		list := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
		list.Dir = module
		out, err := list.Output()
		if err != nil {
			t.Fatalf("listing packages: %v", err)
		}
		decoder := json.NewDecoder(bytes.NewReader(out))
		for {
			var p struct {
				ImportPath                         string
				Imports, TestImports, XTestImports []string
			}
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			checkImports(t, p.ImportPath, p.Imports, false)
			checkImports(t, p.ImportPath, p.TestImports, true)
			checkImports(t, p.ImportPath, p.XTestImports, true)
		}
	}
}

func checkImports(t *testing.T, importer string, imports []string, test bool) {
	t.Helper()
	folder, ok := folderOf(importer)
	if !ok {
		return
	}
	layer, known := layers[folder]
	if !known {
		t.Errorf("%s: folder %q is not in the layout", importer, folder)
		return
	}
	for _, path := range imports {
		other, ok := folderOf(path)
		if !ok || other == folder || test && other == "internal/simnet" {
			continue
		}
		if layers[other] >= layer {
			t.Errorf("%s (layer %d) imports %s (layer %d)", importer, layer, path, layers[other])
		}
		if other == "internal/simnet" && folder != "cmd" && folder != "bench" {
			t.Errorf("%s imports simnet, which only cmd, bench and tests may", importer)
		}
	}
}

// TestClientImportsLittle checks that a program that imports package client imports neither the service nor what only
// the service needs.
func TestClientImportsLittle(t *testing.T) {
	allowed := []string{
		"github.com/ava-labs/avalanchego/ids", "github.com/ava-labs/avalanchego/utils/logging", "github.com/ava-labs/avalanchego/vms/platformvm/warp",
		"github.com/cenkalti/backoff/v5",
	}
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, "./client").Output()
	if err != nil {
		t.Fatalf("listing imports: %v", err)
	}
	imports := strings.Fields(string(out))
	if !slices.Contains(imports, "net/http") {
		t.Fatalf("got imports %v, want net/http among them", imports)
	}
	for _, path := range imports {
		if standard := !strings.Contains(strings.Split(path, "/")[0], ".") && !strings.HasPrefix(path, "quorate/"); !standard && !slices.Contains(allowed, path) {
			t.Errorf("client imports %s", path)
		}
	}
}

// TestLayout checks that the top level holds the folders of the design and nothing else.
func TestLayout(t *testing.T) {
	want := []string{
		".ci", "aggregator", "bench", "bls", "client", "cmd", "deploy", "docs", "e2e", "handlers", "internal", "p2p", "validators",
		".dockerignore", ".gitignore", ".golangci.yml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "THIRD_PARTY_NOTICES",
		"config.example.yaml", "go.mod", "go.sum", "layers_test.go",
	}
	for _, file := range tracked(t) {
		top, _, _ := strings.Cut(file, "/")
		if !slices.Contains(want, top) {
			t.Errorf("%s: the top level has no place for %q", file, top)
		}
	}
}

// TestNoBuildOutputs refuses tracked programs and tracked files above 1 MiB.
func TestNoBuildOutputs(t *testing.T) {
	const limit = 1 << 20
	scripts := regexp.MustCompile(`^#!`)
	for _, file := range tracked(t) {
		info, err := os.Lstat(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, but not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if info.Size() > limit {
			t.Errorf("%s: %d bytes, want at most %d", file, info.Size(), limit)
		}
		if info.Size() < 4 {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(content, []byte("\x7fELF")) || info.Mode()&0o111 != 0 && !scripts.Match(content) {
			t.Errorf("%s: executable", file)
		}
	}
}

// tracked returns the files that git tracks.
func tracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("listing files: %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// TestProofsExist checks that the tests named in docs/tests.md exist.
func TestProofsExist(t *testing.T) {
	page, err := os.ReadFile("docs/tests.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 50 {
		t.Fatalf("got %d tests, want those of all operations", len(named))
	}
	tests := make(sources)
	for _, one := range named {
		if folder, name := one[1], one[2]; !tests.have(t, folder, "\nfunc "+name+"(") {
			t.Errorf("docs/tests.md: there is no %s in %s", name, folder)
		}
	}
}

// TestReadmeIsShort bounds the README and checks that the pages it links to exist.
func TestReadmeIsShort(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(readme) > 10_000 {
		t.Errorf("README.md: %d bytes, want at most 10,000", len(readme))
	}
	for _, link := range regexp.MustCompile(`\]\(([^):]+)\)`).FindAllStringSubmatch(string(readme), -1) {
		if _, err := os.Stat(link[1]); err != nil {
			t.Errorf("README.md: broken link: %v", err)
		}
	}
}

// TestArchitectureExists checks that the folders and files that docs/architecture.md names exist, that its table has each
// folder of the layers, and that its picture has the folder in the folder's layer.
func TestArchitectureExists(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:aggregator|bench|bls|cmd|e2e|handlers|internal|p2p|validators|layers_test)[\\w/.]*)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 30 {
		t.Fatalf("got %d folders and files", len(named))
	}
	symbol := regexp.MustCompile(`^(\w+)\.([A-Z][\w.]*)$`)
	for _, one := range named {
		if s := symbol.FindStringSubmatch(one[1]); s != nil {
			if out, err := exec.Command("go", "doc", "./"+s[1], s[2]).CombinedOutput(); err != nil {
				t.Errorf("docs/architecture.md: %s: %s", one[1], out)
			}
		} else if _, err := os.Stat(one[1]); err != nil {
			t.Errorf("docs/architecture.md: %v", err)
		}
	}
	for folder, layer := range layers {
		if !bytes.Contains(page, []byte("`"+folder+"`")) {
			t.Errorf("docs/architecture.md: the table lacks %s", folder)
		}
		if row := regexp.MustCompile(fmt.Sprintf(`(?m)^ *%d .*\b%s\b`, layer, folder)); !row.Match(page) {
			t.Errorf("docs/architecture.md: the picture lacks %s in layer %d", folder, layer)
		}
	}
}

// TestAttacksAreTested checks that docs/attacks.md names tests that exist, down to the rows of test
// tables.
func TestAttacksAreTested(t *testing.T) {
	const file = "docs/attacks.md"
	table, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| (\\d+) \\| [^|]+ \\| [^|]+ \\| [^|]+ \\| [^|]* \\| `([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)(?:/([^`]+))?` \\|$")
	tests := make(sources)
	rows := 0
	attacks, _, _ := strings.Cut(string(table), "\n## Scripts\n")
	for line := range strings.Lines(attacks) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| # |") {
			continue
		}
		got := row.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if got == nil {
			t.Errorf("%s: this is no row: %s", file, line)
			continue
		}
		rows++
		if got[1] != strconv.Itoa(rows) {
			t.Errorf("%s: got row %s, want %d", file, got[1], rows)
		}
		if folder, name := got[2], got[3]; !tests.have(t, folder, "\nfunc "+name+"(") {
			t.Errorf("%s: row %d: there is no %s in %s", file, rows, name, folder)
		}
		if part := got[4]; part != "" && !tests.have(t, got[2], strconv.Quote(part)) {
			t.Errorf("%s: row %d: %s has no %q", file, rows, got[3], part)
		}
	}
	if rows < 60 {
		t.Errorf("got %d attacks, want 60 at least", rows)
	}
}

// TestPlainTestsRun checks that all tests of a name have the directive test:plain, or none: make test-all runs no test with
// such a name except those of folders with the directive.
func TestPlainTestsRun(t *testing.T) {
	function := regexp.MustCompile(`(?m)(^//test:plain\n)?^func (Test\w+)\(`)
	with, without := make(map[string]string), make(map[string]string) // file by test
	for _, file := range tracked(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, but not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range function.FindAllStringSubmatch(string(source), -1) {
			files := without
			if m[1] != "" {
				files = with
			}
			files[m[2]] = file
		}
	}
	if len(with) == 0 {
		t.Error("no test has the directive")
	}
	for name, file := range with {
		if other, ok := without[name]; ok {
			t.Errorf("%s has the directive test:plain in %s, and not in %s: give one of them another name", name, file, other)
		}
	}
}

// TestNamedTestsExist checks the tests and benchmarks that the Makefile and bench/figures.sh run by name: go test succeeds if
// it finds none.
func TestNamedTestsExist(t *testing.T) {
	tests := make(sources)
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for variable, folder := range map[string]string{"NETWORKS": "e2e", "BROWSER": "handlers/console/browsertest"} {
		names := regexp.MustCompile(`(?m)^` + variable + ` += (?:\^\()?([\w|]+)(?:\)\$\$)?$`).FindSubmatch(makefile)
		if names == nil {
			t.Fatalf("the Makefile has no %s", variable)
		}
		for name := range strings.SplitSeq(string(names[1]), "|") {
			if !tests.have(t, folder, "\nfunc "+name+"(") {
				t.Errorf("Makefile: %s has no %s", folder, name)
			}
		}
	}
	figures, err := os.ReadFile("bench/figures.sh")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^ *run \S+ go (?:-C (e2e) )?test (?:-count 1 )?(?:\./(\S+) )?(?:-run xxx )?(?:-bench (\w+)|-run (Test\w+))`).FindAllStringSubmatch(string(figures), -1)
	if len(named) < 10 {
		t.Fatalf("bench/figures.sh: found %d tests with a name", len(named))
	}
	for _, m := range named {
		name := m[4]
		if m[3] != "" {
			name = "Benchmark" + m[3]
		}
		if !tests.have(t, m[1]+m[2], "\nfunc "+name+"(") {
			t.Errorf("bench/figures.sh: %s has no %s", m[1]+m[2], name)
		}
	}
}

// TestSituationsAreTested checks that docs/situations.md names tests that exist, down to the rows of test tables.
func TestSituationsAreTested(t *testing.T) {
	const file = "docs/situations.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| [^|]+ \\| [^|]+ \\| `([a-z0-9/]+)\\.(Test\\w+)(?:/([^`]+))?` \\|$")
	tests := make(sources)
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Situation |") {
			continue
		}
		got := row.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if got == nil {
			t.Errorf("%s: not a row: %s", file, line)
			continue
		}
		if !tests.have(t, got[1], "\nfunc "+got[2]+"(") {
			t.Errorf("%s: %s has no %s", file, got[1], got[2])
		}
		if got[3] != "" && !tests.have(t, got[1], strconv.Quote(got[3])) {
			t.Errorf("%s: %s.%s has no %q", file, got[1], got[2], got[3])
		}
	}
}

// sources are the tests of folders.
type sources map[string]string

// have reports whether the tests of a folder have that text.
func (s sources) have(t *testing.T, folder, text string) bool {
	t.Helper()
	if _, ok := s[folder]; !ok {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s[folder] += string(content)
		}
	}
	return strings.Contains(s[folder], text)
}

// folderOf returns the folder of a package by which layers has it, and false if the package is not of this repository.
func folderOf(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "quorate/")
	if !ok {
		return "", false
	}
	parts := strings.Split(rest, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return "internal/" + parts[1], true
	}
	return parts[0], true
}
