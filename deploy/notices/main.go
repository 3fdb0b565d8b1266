// Command notices writes the licences of all modules in the quorate binary:
//
//	go run ./deploy/notices > THIRD_PARTY_NOTICES
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	modules, err := list(ctx)
	if err != nil {
		return err
	}
	return write(out, modules)
}

// module is a module as go list reports it.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

// list returns the modules of the packages in the binary, sorted by path.
func list(ctx context.Context) ([]module, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Module", "quorate/cmd/quorate").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the modules: %w", err)
	}
	known := make(map[string]module)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ Module *module }
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("listing the modules: %w", err)
		}
		if p.Module == nil || p.Module.Main { // the standard library and the main module
			continue
		}
		m := *p.Module
		if m.Replace != nil {
			m.Version, m.Dir = m.Replace.Version, m.Replace.Dir
		}
		known[m.Path] = m
	}
	all := make([]module, 0, len(known))
	for _, m := range known {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// legal matches the names of licence files.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// write writes each text once, after the list of its modules.
func write(out io.Writer, modules []module) error {
	var texts []string
	by := make(map[string][]string)
	for _, m := range modules {
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			return fmt.Errorf("module %s: %w", m.Path, err)
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !legal.MatchString(e.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
			if err != nil {
				return fmt.Errorf("module %s: %w", m.Path, err)
			}
			text := string(bytes.TrimSpace(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))))
			if _, ok := by[text]; !ok {
				texts = append(texts, text)
			}
			by[text] = append(by[text], m.Path+" "+m.Version+" ("+e.Name()+")")
			found = true
		}
		if !found {
			return fmt.Errorf("module %s has no licence", m.Path)
		}
	}
	var b bytes.Buffer
	b.WriteString("quorate contains the following modules, under the licences that follow their names.\nThe Go standard library is under the licence of golang.org/x/sys.\nReleased programs also contain the GNU C Library (LGPL-2.1-or-later, https://www.gnu.org/software/libc), linked statically by deploy/build.sh.\n")
	for _, text := range texts {
		b.WriteString("\n================================================================================\n")
		for _, name := range by[text] {
			b.WriteString(name + "\n")
		}
		b.WriteString("--------------------------------------------------------------------------------\n" + text + "\n")
	}
	_, err := out.Write(b.Bytes())
	return err
}
