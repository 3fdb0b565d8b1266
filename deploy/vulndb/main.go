// Command vulndb builds the vulnerability database for make lint from a clone of
// https://github.com/golang/vulndb, so that govulncheck needs no network:
//
//	go run ./deploy/vulndb CLONE deploy/vulndb
//
// It writes vulndb.tar.gz, a database in the form of
// https://go.dev/doc/security/vuln/database with every module, so that new dependencies are
// covered too, and NOTICE, which names the source. It leaves out fields for human readers
// (details, references, credits) and withdrawn entries. The same clone always gives the
// same files.
package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: vulndb CLONE FOLDER; CLONE is a clone of https://github.com/golang/vulndb")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "vulndb:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, clone, folder string) error {
	out, err := git(ctx, clone, "log", "-1", "--format=%H %ct", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("looking at the clone: %w", withStderr(err))
	}
	var commit string
	var seconds int64
	if _, err := fmt.Sscan(string(out), &commit, &seconds); err != nil {
		return fmt.Errorf("looking at the clone: %w", err)
	}
	d := newDatabase(time.Unix(seconds, 0).UTC())
	if err := d.read(ctx, clone); err != nil {
		return err
	}
	if len(d.entries) == 0 {
		return errors.New("the clone has no entries in data/osv")
	}
	if err := d.write(filepath.Join(folder, "vulndb.tar.gz")); err != nil {
		return err
	}
	notice := fmt.Sprintf(notice, commit, d.date.Format(time.DateOnly))
	return os.WriteFile(filepath.Join(folder, "NOTICE"), []byte(notice), 0o644)
}

const notice = `vulndb.tar.gz has entries of the Go vulnerability database,
https://github.com/golang/vulndb, commit %s of %s.
Copyright The Go Authors. They are under the Creative Commons Attribution 4.0
International licence, https://creativecommons.org/licenses/by/4.0/.
Changes: details, references, credits and withdrawn entries are left out.
`

func git(ctx context.Context, clone string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "git", append([]string{"-C", clone}, args...)...)
}

// withStderr adds the program's standard error to err.
func withStderr(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("git: %w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// database is the content of the archive.
type database struct {
	date    time.Time
	entries map[string][]byte   // by ID
	modules map[string][]string // IDs by module
}

func newDatabase(date time.Time) *database {
	return &database{date: date, entries: make(map[string][]byte), modules: make(map[string][]string)}
}

// read adds the entries of a clone, with or without a work tree.
func (d *database) read(ctx context.Context, clone string) error {
	cmd := git(ctx, clone, "archive", "--format=tar", "HEAD:data/osv")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("reading the clone: %w", err)
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("reading the clone: %w", err)
	}
	failed := d.readTar(out)
	_, _ = io.Copy(io.Discard, out) // otherwise git would block
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("reading the clone: git: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return failed
}

func (d *database) readTar(r io.Reader) error {
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the clone: %w", err)
		}
		if filepath.Ext(h.Name) != ".json" {
			continue
		}
		content, err := io.ReadAll(files)
		if err == nil {
			err = d.add(content)
		}
		if err != nil {
			return fmt.Errorf("reading %s of the clone: %w", h.Name, err)
		}
	}
}

// add adds one entry without the fields for human readers.
func (d *database) add(content []byte) error {
	var entry map[string]json.RawMessage
	if err := json.Unmarshal(content, &entry); err != nil {
		return err
	}
	if _, ok := entry["withdrawn"]; ok {
		return nil
	}
	for _, member := range []string{"details", "references", "credits"} {
		delete(entry, member)
	}
	rest, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	var said struct {
		ID       string `json:"id"`
		Affected []struct {
			Package struct {
				Name string `json:"name"`
			} `json:"package"`
		} `json:"affected"`
	}
	if err := json.Unmarshal(rest, &said); err != nil {
		return err
	}
	if said.ID == "" || said.ID != filepath.Base(said.ID) || len(said.Affected) == 0 {
		return fmt.Errorf("%q is not an entry with an ID and affected modules", said.ID)
	}
	d.entries[said.ID] = rest
	for _, affected := range said.Affected {
		name := affected.Package.Name
		if !slices.Contains(d.modules[name], said.ID) {
			d.modules[name] = append(d.modules[name], said.ID)
		}
	}
	return nil
}

// write writes the archive. The index of modules leaves out fixed versions; govulncheck
// then reads the entry itself.
func (d *database) write(name string) error {
	type vuln struct {
		ID       string    `json:"id"`
		Modified time.Time `json:"modified"`
	}
	type module struct {
		Path  string `json:"path"`
		Vulns []vuln `json:"vulns"`
	}
	vulns := make([]vuln, 0, len(d.entries))
	for _, id := range slices.Sorted(maps.Keys(d.entries)) {
		vulns = append(vulns, vuln{id, d.date})
	}
	modules := make([]module, 0, len(d.modules))
	for _, path := range slices.Sorted(maps.Keys(d.modules)) {
		m := module{Path: path}
		for _, id := range slices.Sorted(slices.Values(d.modules[path])) {
			m.Vulns = append(m.Vulns, vuln{id, d.date})
		}
		modules = append(modules, m)
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("writing the database: %w", err)
	}
	defer func() { _ = f.Close() }() // after an error
	packed, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("writing the database: %w", err)
	}
	files := tar.NewWriter(packed)
	var failed error
	put := func(name string, content any) {
		if failed != nil {
			return
		}
		var b []byte
		if b, failed = json.Marshal(content); failed != nil {
			return
		}
		if failed = files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b))}); failed == nil {
			_, failed = files.Write(b)
		}
	}
	put("index/db.json", map[string]time.Time{"modified": d.date})
	put("index/modules.json", modules)
	put("index/vulns.json", vulns)
	for _, v := range vulns {
		put("ID/"+v.ID+".json", json.RawMessage(d.entries[v.ID]))
	}
	if err := errors.Join(failed, files.Close(), packed.Close(), f.Close()); err != nil {
		return fmt.Errorf("writing the database: %w", err)
	}
	return nil
}
