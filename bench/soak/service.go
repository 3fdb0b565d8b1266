package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/simnet"
)

// service is the program, in one life after the other with the same data.
type service struct {
	binary, config, log string
	public, private     string
	client              *http.Client
	settings            string // all of the configuration but the store
	data                string // the folder

	mu     sync.Mutex
	life   *rig.Process // guarded by mu; nil while it does not run
	ill    []error      // guarded by mu
	stored string       // guarded by mu: where its rows are, in a word
}

// newService builds the program and writes its configuration.
func newService(ctx context.Context, dir string, n *simnet.Network) (*service, error) {
	s := &service{
		config: filepath.Join(dir, "quorate.yaml"), log: filepath.Join(dir, "quorate.log"),
		data: filepath.Join(dir, "data"), stored: "files",
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second},
	}
	var err error
	if s.binary, err = rig.Build(ctx, dir); err != nil {
		return nil, err
	}
	if s.public, s.private, err = rig.Addresses(); err != nil {
		return nil, err
	}
	s.settings = fmt.Sprintf(`listen: %s
private_listen: %s
data_dir: %s
memory_limit: %dMiB
log_level: error
networks:
  fuji:
    nodes: [%s]
    allow_private_ips: true
    evm:
      - rpc: %s/ext/bc/%s/rpc
`, s.public, s.private, s.data, memoryLimit, n.NodeURL(), n.NodeURL(), n.EVM()[0].Generator().BlockchainID())
	return s, os.WriteFile(s.config, []byte(s.settings), 0o600)
}

// move has its rows taken to a PostgreSQL server, by the program's own command, while it
// does not run. From then on it has them there.
func (s *service) move(ctx context.Context, url string) error {
	out, err := exec.CommandContext(ctx, s.binary, "store", "copy", "--from", s.data, "--to", url).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying the store: %w\n%s", err, out)
	}
	s.mu.Lock()
	s.stored = "PostgreSQL"
	s.mu.Unlock()
	return os.WriteFile(s.config, fmt.Appendf(nil, "store: %q\n%s", url, s.settings), 0o600)
}

// store is where its rows are.
func (s *service) store() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored
}

// start begins a life and waits until the service can sign.
func (s *service) start(ctx context.Context) error {
	l, err := rig.Run(s.log, s.binary, "serve", "--config", s.config)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.life = l
	s.mu.Unlock()
	go func() { // until the process ends, which stop or close see to
		<-l.Exited
		s.mu.Lock()
		if s.life == l { // nobody asked for it
			s.life = nil
			s.ill = append(s.ill, fmt.Errorf("the service ended by itself:\n%s", l.LogTail()))
		}
		s.mu.Unlock()
	}()
	until := time.Now().Add(2 * time.Minute)
	for time.Now().Before(until) && s.pid() != 0 {
		response, err := s.client.Get("http://" + s.private + "/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if !pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
	return errors.New("the service does not become ready")
}

// stop ends a life; see rig.Process.
func (s *service) stop(how syscall.Signal) error {
	s.mu.Lock()
	l := s.life
	s.life = nil
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.Stop(how)
}

func (s *service) close() {
	_ = s.stop(syscall.SIGKILL)
	s.client.CloseIdleConnections()
}

// pid is 0 while it does not run.
func (s *service) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return 0
	}
	return s.life.PID()
}

// mishap notes what should not have happened, and mishaps are all of that.
func (s *service) mishap(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ill = append(s.ill, err)
}

func (s *service) mishaps() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ill
}
