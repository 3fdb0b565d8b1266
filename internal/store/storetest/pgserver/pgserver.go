// Package pgserver runs real PostgreSQL servers for tests and benchmarks, each in a temporary folder and on its own
// loopback port, with the durability settings of production (fsync, full_page_writes). It needs the server's programs.
package pgserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quorate/internal/testenv"

	"github.com/jackc/pgx/v5"
)

// BinEnv names the environment variable for the folder with the server's programs. The default is the newest installed
// version. The name does not begin with QUORATE_: the service refuses variables that it does not know.
const BinEnv = "POSTGRES_BIN"

const (
	superuser = "quorate"
	password  = "a secret/of: tests@"
	// startTime is the timeout for starting the server on a loaded machine.
	startTime = 2 * time.Minute
)

// Server is a PostgreSQL server. It runs until it is stopped.
type Server struct {
	bin, dir string
	port     *testenv.Port       // nil before the first start
	account  *syscall.Credential // nil: the current account
	settings []string

	child *exec.Cmd
	ended chan struct{} // closed once child is gone
	log   *tail
	names int // number of schemas
}

// Run starts a server and stops it when the test ends. It skips the test if the server's programs are missing.
func Run(t testing.TB, settings ...string) *Server {
	t.Helper()
	if _, err := programs(); err != nil {
		testenv.Missing(t, err.Error())
	}
	s, err := Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Start creates and starts a server, with settings like shared_buffers=128MB.
func Start(settings ...string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, settings: settings}
	if os.Geteuid() == 0 { // the server refuses to run as root
		if s.account, err = another(); err != nil {
			return nil, err
		}
	}
	if err := s.folder(); err != nil {
		return nil, err
	}
	secret := filepath.Join(s.dir, "password")
	err = os.WriteFile(secret, []byte(password), 0o600)
	if err == nil {
		err = s.own(secret)
	}
	if err == nil {
		err = s.program("initdb", "-D", s.data(), "-U", superuser, "--pwfile="+secret, "--auth=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync")
	}
	if err == nil {
		err = s.Restart()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Standby starts a readable server that replicates s. It copies the files of s itself, because pg_basebackup is not among
// the server's programs in every distribution.
func (s *Server) Standby() (*Server, error) {
	other := &Server{bin: s.bin, account: s.account, settings: append(slices.Clip(s.settings), "primary_conninfo="+s.URL())}
	if err := other.folder(); err != nil {
		return nil, err
	}
	err := s.backup(context.Background(), other)
	if err == nil {
		err = other.Restart()
	}
	if err != nil {
		return nil, errors.Join(err, other.Close())
	}
	return other, nil
}

// backup copies the files of the running server to other, which follows s once it is started.
func (s *Server) backup(ctx context.Context, other *Server) error {
	c, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	// Without "fast", the server waits for minutes.
	if _, err := c.Exec(ctx, "SELECT pg_backup_start('standby', fast => true)"); err != nil {
		return fmt.Errorf("beginning a backup: %w", err)
	}
	if out, err := other.command("cp", "-a", s.data(), other.data()).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the files of the server: %w: %s", err, out)
	}
	var label string
	if err := c.QueryRow(ctx, "SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)").Scan(&label); err != nil {
		return fmt.Errorf("ending a backup: %w", err)
	}
	for name, text := range map[string]string{"backup_label": label, "standby.signal": ""} {
		path := filepath.Join(other.data(), name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), other.own(path)); err != nil {
			return err
		}
	}
	return os.Remove(filepath.Join(other.data(), "postmaster.pid"))
}

func programs() (string, error) {
	if dir := os.Getenv(BinEnv); dir != "" {
		return dir, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return "", errors.New("there is no PostgreSQL server to test with: install one (apt-get install postgresql), " +
			"or name the folder of its programs in " + BinEnv)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// Version returns the version of the programs, for example 15.14, or an error if there are none.
func Version(ctx context.Context) (string, error) {
	bin, err := programs()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking for the version of PostgreSQL: %w", err)
	}
	fields := strings.Fields(string(out)) // postgres (PostgreSQL) 15.14 (Debian 15.14-1)
	if len(fields) < 3 {
		return "", fmt.Errorf("asking for the version of PostgreSQL: the answer is %q", out)
	}
	return fields[2], nil
}

// another returns the credential of an account that is not root.
func another() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("a server cannot run as root, and there is no account postgres or nobody")
}

// folder creates a folder with a short name: a socket's path is limited to about 100 bytes.
func (s *Server) folder() (err error) {
	if s.dir, err = os.MkdirTemp("", "quorate-pg-"); err != nil {
		return err
	}
	return s.own(s.dir)
}

func (s *Server) own(path string) error {
	if s.account == nil {
		return nil
	}
	return os.Chown(path, int(s.account.Uid), int(s.account.Gid))
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command returns a command that runs a program, by its path or its name in PATH, as the server's account.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "LC_ALL=C", "PGPASSWORD="+password)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.account, Pdeathsig: syscall.SIGINT}
	return c
}

func (s *Server) program(name string, args ...string) error {
	if out, err := s.command(filepath.Join(s.bin, name), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// Restart starts a stopped server again on the same port.
func (s *Server) Restart() error {
	if s.port == nil {
		var err error
		if s.port, err = testenv.FreePort(); err != nil {
			return err
		}
	}
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port.Number()), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + s.dir,
		"-c", "max_connections=200", "-c", "logging_collector=off", "-c", "log_destination=stderr"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	s.child, s.ended, s.log = s.command(filepath.Join(s.bin, "postgres"), args...), make(chan struct{}), &tail{ready: make(chan struct{})}
	out, err := s.child.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.child.Start(); err != nil {
		return err
	}
	child, ended, log := s.child, s.ended, s.log
	go func() { // until the server and its children are gone
		log.read(out)
		_ = child.Wait()
		close(ended)
	}()
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	select {
	case <-log.ready:
		return nil
	case <-ended:
		return fmt.Errorf("the server ended: %s", log.text())
	case <-limit.C:
		return fmt.Errorf("the server did not start in %s: %s", startTime, log.text())
	}
}

// Stop ends the server as an operator would and cuts connections.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

// Crash ends the server immediately, without writing anything.
func (s *Server) Crash() { s.end(syscall.SIGQUIT) }

func (s *Server) end(signal os.Signal) {
	if s.child == nil || s.child.Process == nil {
		return
	}
	_ = s.child.Process.Signal(signal)
	<-s.ended
	s.child = nil
}

// PID returns the process ID of the server.
func (s *Server) PID() int { return s.child.Process.Pid }

// Close stops the server and removes its folder.
func (s *Server) Close() error {
	s.end(syscall.SIGINT)
	var err error
	if s.port != nil {
		err = s.port.Close()
	}
	if s.dir == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Dir returns the folder of the server's files.
func (s *Server) Dir() string { return s.data() }

// Address returns the address that the server listens on.
func (s *Server) Address() string { return s.port.Address() }

// URL returns the URL of the server's only database.
func (s *Server) URL() string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(superuser, password), Host: s.Address(), Path: "/postgres", RawQuery: "sslmode=disable"}
	return u.String()
}

// Place creates an empty schema and returns a URL that selects it.
func (s *Server) Place(ctx context.Context) (string, error) {
	s.names++
	name := fmt.Sprintf("place%d", s.names)
	return In(s.URL(), name), s.Exec(ctx, "CREATE SCHEMA "+name)
}

// In returns a URL that selects another schema.
func In(text, schema string) string { return text + "&search_path=" + schema }

// Exec executes an SQL statement on behalf of a test.
func (s *Server) Exec(ctx context.Context, sql string) error {
	c, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return errors.Join(err, c.Close(ctx))
}

// Settle flushes the server's writes and updates its statistics.
func (s *Server) Settle(ctx context.Context) error {
	for _, statement := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if err := s.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// tail holds the end of the server's log.
type tail struct {
	ready chan struct{} // closed once connections are accepted

	mu  sync.Mutex
	end bytes.Buffer // guarded by mu
}

func (t *tail) read(r io.Reader) {
	ready := false
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		t.mu.Lock()
		if t.end.Len() > 64<<10 {
			t.end.Reset()
		}
		t.end.WriteString(lines.Text() + "\n")
		t.mu.Unlock()
		if !ready && strings.Contains(lines.Text(), "ready to accept") {
			ready = true
			close(t.ready)
		}
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end.String()
}
