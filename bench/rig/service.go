package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"quorate/handlers"
	"quorate/internal/index"
	"quorate/internal/store/storetest/pgserver"
	"quorate/internal/testenv"
)

// NetworkName is the name under which the service serves a simulated network.
const NetworkName = "fuji"

// build builds the service into a folder and returns the program. The current folder must
// be in the module of the benchmarks. The service is built in its own module, with the
// versions that it is released with.
func build(ctx context.Context, dir string) (string, error) {
	module, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "quorate")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "quorate")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", module, "-o", program, "./cmd/quorate").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the service: %w\n%s", err, out)
	}
	return program, nil
}

// StartPostgres starts a PostgreSQL server with the settings that docs/storage.md
// recommends.
func StartPostgres() (*pgserver.Server, error) {
	return pgserver.Start("shared_buffers=512MB", "max_wal_size=4GB", "wal_compression=on")
}

// Service is the program as users run it: one process after the other, with the same
// addresses and data.
type Service struct {
	// Public and Private are its addresses.
	Public, Private string
	// Processor, if not empty, is the number of the only processor that it uses.
	Processor string

	ports              []*testenv.Port // of the addresses
	program, dir       string
	settings, profiles string
	client             *http.Client

	mu      sync.Mutex
	process *Process // guarded by mu; nil while it does not run
	ended   []error  // guarded by mu; processes that ended by themselves
}

// NewService prepares a service that keeps its data in a folder of the given name. Settings
// are lines of the configuration file, without addresses and folders.
func (r *Run) NewService(ctx context.Context, name, settings string) (*Service, error) {
	if r.program == "" {
		program, err := build(ctx, r.Dir)
		if err != nil {
			return nil, err
		}
		r.program = program
	}
	s := &Service{
		program: r.program, settings: settings, profiles: r.profiles,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second},
	}
	if s.profiles != "" {
		s.Add(fmt.Sprintf("node_api: {admin: true, profile_dir: %q}", filepath.Join(s.profiles, name)))
	}
	for _, address := range []*string{&s.Public, &s.Private} {
		port, err := testenv.FreePort() // until this program ends
		if err != nil {
			return nil, err
		}
		s.ports = append(s.ports, port)
		*address = port.Address()
	}
	var err error
	s.dir, err = r.Folder(name)
	return s, err
}

// StartService prepares a service, starts it and waits until it is ready.
func (r *Run) StartService(ctx context.Context, name, settings string) (*Service, error) {
	s, err := r.NewService(ctx, name, settings)
	if err != nil {
		return nil, err
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	if err := s.Ready(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(syscall.SIGKILL))
	}
	return s, nil
}

// DataDir returns the folder of its data.
func (s *Service) DataDir() string { return filepath.Join(s.dir, "data") }

// Add adds a line to the configuration, for the next start.
func (s *Service) Add(setting string) { s.settings = setting + "\n" + s.settings }

// Command returns a command that runs the program with other arguments.
func (s *Service) Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, s.program, args...)
}

// Start starts a process. Ready waits until it is ready.
func (s *Service) Start() error {
	settings := fmt.Sprintf("listen: %s\nprivate_listen: %s\ndata_dir: %s\nlog_level: error\n%s", s.Public, s.Private, s.DataDir(), s.settings)
	config := filepath.Join(s.dir, "quorate.yaml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return err
	}
	command := pinned(s.Processor, s.program, "serve", "--config", config)
	process, err := StartProcess(filepath.Join(s.dir, "quorate.log"), command[0], command[1:]...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = process
	s.mu.Unlock()
	go func() { // until the process ends, which Stop sees to
		<-process.Exited
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.process == process { // not by Stop
			s.process = nil
			s.ended = append(s.ended, fmt.Errorf("the service ended by itself:\n%s", process.LogTail()))
		}
	}()
	return nil
}

// profile starts or stops the CPU profile, if there is to be one.
func (s *Service) profile(ctx context.Context, method string) error {
	if s.profiles == "" || s.PID() == 0 {
		return nil
	}
	_, err := s.request(ctx, http.MethodPost, s.Private, "/ext/admin", fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"admin.%sCPUProfiler","params":{}}`, method))
	return err
}

// Stop sends a signal and waits until the process has ended.
func (s *Service) Stop(signal syscall.Signal) error {
	if err := s.profile(context.Background(), "stop"); err != nil {
		fmt.Printf("the CPU profile cannot be written: %v\n", err)
	}
	s.mu.Lock()
	process := s.process
	s.process = nil
	s.mu.Unlock()
	s.client.CloseIdleConnections()
	if process == nil {
		return nil
	}
	return process.Stop(signal)
}

// PID returns the process ID, or 0 while the service does not run.
func (s *Service) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.PID()
}

// CPU returns the processor time of the process so far.
func (s *Service) CPU() time.Duration { return CPUTime(s.PID()) }

// Ended returns an error for each process that ended by itself.
func (s *Service) Ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.ended...)
}

// Await calls done until it returns nil, for ten minutes at most. It returns an error at
// once if the process has ended. The error includes the last one of done.
func (s *Service) Await(ctx context.Context, done func(context.Context) error) error {
	for until := time.Now().Add(10 * time.Minute); ; {
		err := done(ctx)
		if err == nil {
			return nil
		}
		if s.PID() == 0 {
			return errors.Join(errors.New("the service does not run"), s.Ended())
		}
		if time.Now().After(until) {
			return fmt.Errorf("waiting for the service: %w", err)
		}
		if !Pause(ctx, 10*time.Millisecond) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Ready waits until the service is ready.
func (s *Service) Ready(ctx context.Context) error {
	if err := s.Await(ctx, func(ctx context.Context) error {
		_, err := s.Get(ctx, s.Private, "/readyz")
		return err
	}); err != nil {
		return err
	}
	return s.profile(ctx, "start")
}

// Get returns the response to a request to one of the addresses.
func (s *Service) Get(ctx context.Context, address, path string) ([]byte, error) {
	return s.request(ctx, http.MethodGet, address, path, nil)
}

func (s *Service) request(ctx context.Context, method, address, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.300s", path, response.Status, content)
	}
	return content, nil
}

// GetJSON decodes the response to a request to the public address.
func (s *Service) GetJSON(ctx context.Context, path string, into any) error {
	content, err := s.Get(ctx, s.Public, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// Index returns the state of each chain's index.
func (s *Service) Index(ctx context.Context) (map[string]handlers.ChainStatus, error) {
	content, err := s.Get(ctx, s.Private, "/index")
	if err != nil {
		return nil, err
	}
	var status handlers.IndexStatus
	if err := json.Unmarshal(content, &status); err != nil {
		return nil, err
	}
	return status.Networks[NetworkName], nil
}

// Indexing waits until the service has begun to index, and returns the share of the
// network's blocks that are left then: starting is not part of what is measured.
func (s *Service) Indexing(ctx context.Context, n *Network) (left float64, err error) {
	err = s.Await(ctx, func(ctx context.Context) error {
		status, err := s.Index(ctx)
		if err == nil && len(status) == 0 {
			err = errors.New("no chain is being indexed")
		}
		blocks := float64(n.AllBlocks())
		left = blocks
		for chain := range n.Heights {
			left -= float64(status[chain].Next)
		}
		left /= blocks
		return err
	})
	return left, errors.Join(err, s.profile(ctx, "start"))
}

// Indexed waits until the index of each chain has reached its height and follows the chain.
// It calls done, if not nil, when a chain has.
func (s *Service) Indexed(ctx context.Context, heights map[string]uint64, done func(chain string)) error {
	reached := make(map[string]bool)
	return s.Await(ctx, func(ctx context.Context) error {
		status, err := s.Index(ctx)
		if err != nil {
			return err
		}
		var missing error
		for chain, height := range heights {
			if reached[chain] {
				continue
			}
			if at := status[chain]; at.Next <= height || at.State != index.Following {
				missing = fmt.Errorf("chain %s is at %d of %d, state %s %s", chain, at.Next, height, at.State, at.Error)
				continue
			}
			reached[chain] = true
			if done != nil {
				done(chain)
			}
		}
		return missing
	})
}

// Delays has chains grow, each once, and returns for each the time from its growth to the response that shows the growth
// as indexed. It requests the index again and again from before the first growth on. A delay is too long by at most the
// time between two responses, and too short by the time in which the network notes the growth.
func (s *Service) Delays(ctx context.Context, grow func(grown func(Growth)) error) (delays []time.Duration, err error) {
	var mu sync.Mutex
	waiting := make(map[string]Growth) // guarded by mu, by chain
	ended := make(chan error, 1)
	go func() {
		ended <- grow(func(g Growth) {
			mu.Lock()
			defer mu.Unlock()
			waiting[g.Chain] = g
		})
	}()
	growing := true
	var failed error
	err = s.Await(ctx, func(ctx context.Context) error {
		status, err := s.Index(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		select {
		case failed = <-ended:
			growing = false
		default:
		}
		mu.Lock()
		defer mu.Unlock()
		for chain, g := range waiting {
			if status[chain].Next > g.Height {
				delays = append(delays, now.Sub(g.At))
				delete(waiting, chain)
			}
		}
		if failed == nil && (growing || len(waiting) > 0) {
			return fmt.Errorf("growth of %d chains is not indexed, more growth to come: %t", len(waiting), growing)
		}
		return nil
	})
	return delays, errors.Join(failed, err)
}

// Metrics returns the service's metrics by name; those that differ by labels are added up.
func (s *Service) Metrics(ctx context.Context) (map[string]float64, error) {
	content, err := s.Get(ctx, s.Private, "/metrics")
	if err != nil {
		return nil, err
	}
	metrics := make(map[string]float64)
	for line := range strings.Lines(string(content)) {
		space := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || space < 0 {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[space:]), 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of the service: %w", err)
		}
		name, _, _ := strings.Cut(line[:space], "{")
		metrics[name] += value
	}
	return metrics, nil
}

// Rest waits until the process uses less than 10% of a processor, for a minute at most: until
// its store has merged what was written.
func (s *Service) Rest(ctx context.Context) error {
	for range 60 {
		before := s.CPU()
		if !Pause(ctx, time.Second) {
			return ctx.Err()
		}
		if s.CPU()-before < 100*time.Millisecond {
			break
		}
	}
	return nil
}

// ReadsStandby waits until the service reads from a hot standby.
func (s *Service) ReadsStandby(ctx context.Context) error {
	return s.Await(ctx, func(ctx context.Context) error {
		metrics, err := s.Metrics(ctx)
		if err == nil && metrics["quorate_store_standby_used"] == 0 {
			err = errors.New("it does not read from the standby")
		}
		return err
	})
}
