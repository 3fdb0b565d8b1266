// Package quorate holds nothing but the test of the house's layout.
package quorate

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// floors lists who may import whom, by the first folder of their paths: a package
// imports packages of its own folder, and otherwise only those of a lower floor.
var floors = map[string]int{
	"bls": 0, "node": 0, "store": 0, "chain": 0,
	"p2p": 1, "validators": 1,
	"aggregator": 2, "index": 2,
	"handlers": 3,
	"simnet":   3,
	"config":   4,
	"service":  5,
	"cmd":      6, "bench": 6, "deploy": 6,
}

func TestImportsPointOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		room, ok := roomOf(p.ImportPath)
		if !ok {
			continue
		}
		floor, known := floors[room]
		if !known {
			t.Errorf("%s: room %q is not on the plan of the house", p.ImportPath, room)
			continue
		}
		for _, path := range p.Imports {
			other, ok := roomOf(path)
			if !ok || other == room {
				continue
			}
			if floors[other] >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d)", p.ImportPath, floor, path, floors[other])
			}
			if other == "simnet" && room != "cmd" && room != "bench" {
				t.Errorf("%s imports simnet, which only cmd, bench and tests may", p.ImportPath)
			}
		}
	}
}

// TestProofsExist holds the README to tests that there are.
func TestProofsExist(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`").FindAllStringSubmatch(string(readme), -1)
	if len(named) < 50 {
		t.Fatalf("got %d tests, want those of all operations", len(named))
	}
	tests := make(sources)
	for _, one := range named {
		if folder, name := one[1], one[2]; !tests.have(t, folder, "\nfunc "+name+"(") {
			t.Errorf("README.md: there is no %s in %s", name, folder)
		}
	}
}

// TestAttacksAreTested holds the table of attacks to tests that there are, down to the
// rows of their tables.
func TestAttacksAreTested(t *testing.T) {
	const file = "docs/attacks.md"
	table, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| (\\d+) \\| [^|]+ \\| [^|]+ \\| [^|]+ \\| [^|]* \\| `([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)(?:/([^`]+))?` \\|$")
	tests := make(sources)
	rows := 0
	for line := range strings.Lines(string(table)) {
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

func roomOf(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "quorate/")
	if !ok {
		return "", false
	}
	room, _, _ := strings.Cut(rest, "/")
	return room, true
}
