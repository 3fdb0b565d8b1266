// Command soak loads all parts of the service while what it depends on fails. The service is
// built and run as users run it, beside a simulated network whose chains grow and part of
// whose validators are faulty. Validators, the node, the store and the service itself fail
// and recover. Each response is compared with the expected one. The exit code is 1 if a
// response was wrong, too many requests failed without a fault, the service ended by itself,
// or something grew without bound.
//
//	go -C bench run ./soak -for 30m
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/simnet/history"
	"quorate/internal/store/storetest/pgserver"
)

func main() {
	long := flag.Duration("for", 30*time.Minute, "`time` after the chains are indexed; a minute or more")
	out := flag.String("out", "", "Markdown `file` to write, with plots and the figures as JSON beside it; default: none")
	again := flag.Bool("again", false, "write file and plots from the JSON, without a run")
	rig.Main(func(ctx context.Context, r *rig.Run) error {
		if *again {
			return renew(*out)
		}
		if *long < time.Minute {
			return fmt.Errorf("-for %s is less than a minute", *long)
		}
		return run(ctx, r, *long, *out)
	})
}

// soak is what the parts share.
type soak struct {
	net     *simnet.Network
	primary *primary
	evm     *evmchain.Node
	service *rig.Service
	client  *http.Client
	tally   tally
	server  *pgserver.Server
	done    []trouble // by disturb
	// trouble is what disturbs the service now, empty in between; store is the kind of store
	// that it uses.
	trouble, store atomic.Pointer[string]
	began          time.Time
	mishaps        []error // by disturb: what should not have happened
}

// Kinds of stores.
const (
	storeFiles    = "files"
	storePostgres = "PostgreSQL"
)

const (
	validators   = 40
	transactions = 3000 // of each chain's history
	growth       = 500 * time.Millisecond
	// rest is the time that each client waits after a response.
	rest = 20 * time.Millisecond
	// memoryLimit is the service's, in MiB.
	memoryLimit = 384
	// nodeGarbage is a fault.
	nodeGarbage = "the node answers with garbage"
)

func run(ctx context.Context, r *rig.Run, long time.Duration, file string) (err error) {
	machine, err := rig.ThisMachine(ctx)
	if err != nil {
		return err
	}
	s, err := start(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	o := &outcome{
		Machine: machine, Seed: r.Seed, Long: long.String(), Validators: validators, Transactions: transactions, LimitMB: memoryLimit,
	}
	if err := s.measure(ctx, o, long); err != nil {
		return err
	}
	if err := o.print(r); err != nil {
		return err
	}
	if file != "" {
		if err := o.write(file); err != nil {
			return err
		}
		fmt.Printf("\n%s is written\n", file)
	}
	if len(o.Bad) > 0 {
		return fmt.Errorf("the soak failed:\n%s", strings.Join(o.Bad, "\n"))
	}
	fmt.Println("\nall responses were right, and nothing grew without bound")
	return nil
}

// start starts the simulated network, a PostgreSQL server and the service, and waits until the
// chains are indexed.
func start(ctx context.Context, r *rig.Run) (_ *soak, err error) {
	s := &soak{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.calm()
	// With a fifth faulty, three more that are away leave a quorum of 67%.
	if s.net, err = simnet.Start(simnet.Options{
		Seed: r.Seed, Validators: validators,
		Latency: simnet.Latency{Median: 20 * time.Millisecond, P99: 200 * time.Millisecond, Persistent: 0.5},
		Faults:  simnet.Faults{Refusing: 0.05, Silent: 0.05, WrongSignature: 0.05, Malformed: 0.05},
		History: &simnet.History{Options: history.Options{Txs: transactions, Record: true}, Dir: r.Dir},
		EVM:     []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: transactions, Record: true}, Dir: r.Dir, Pace: 2 * growth}},
	}); err != nil {
		return nil, err
	}
	s.primary, s.evm = &primary{node: s.net.History()}, s.net.EVM()[0]
	if s.server, err = pgserver.Start("shared_buffers=128MB"); err != nil {
		return nil, err
	}
	settings := fmt.Sprintf("memory_limit: %dMiB\nnetworks:\n  %s:\n    nodes: [%s]\n    allow_private_ips: true\n    record: all\n    evm:\n      - rpc: %s/ext/bc/%s/rpc\n",
		memoryLimit, rig.NetworkName, s.net.NodeURL(), s.net.NodeURL(), s.evm.Generator().BlockchainID())
	if s.service, err = r.StartService(ctx, "service", settings); err != nil {
		return nil, err
	}
	s.uses(storeFiles)
	fmt.Println("waiting until the chains are indexed")
	return s, s.indexed(ctx)
}

// close ends what was started.
func (s *soak) close() (err error) {
	if s.service != nil {
		_ = s.service.Stop(syscall.SIGKILL)
	}
	if s.server != nil {
		err = s.server.Close()
	}
	if s.net != nil {
		s.net.Close()
	}
	s.client.CloseIdleConnections()
	return err
}

// measure loads and disturbs the service and fills in the outcome.
func (s *soak) measure(ctx context.Context, o *outcome, long time.Duration) error {
	s.began = time.Now()
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	var running sync.WaitGroup
	var stuck error
	running.Go(func() { stuck = s.primary.grow(ctx) })
	s.load(ctx, &running)
	running.Go(func() { o.Samples = s.watch(ctx, long) })
	running.Go(func() { s.disturb(ctx, long) })
	running.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if stuck != nil {
		return fmt.Errorf("making the chains grow: %w", stuck)
	}
	var bad []error
	o.Operations, o.Failures, bad = s.tally.counted()
	o.Done = s.done
	bad = slices.Concat(bad, grown(o.Samples), s.mishaps)
	if err := s.service.Ended(); err != nil {
		bad = append(bad, err)
	}
	for _, err := range bad {
		o.Bad = append(o.Bad, err.Error())
	}
	return nil
}

// uses notes the kind of store.
func (s *soak) uses(store string) { s.store.Store(&store) }

// restart starts the service again.
func (s *soak) restart(ctx context.Context) error {
	if err := s.service.Start(); err != nil {
		return err
	}
	return s.service.Ready(ctx)
}

// move stops the service, copies its store to the PostgreSQL server and starts it there.
func (s *soak) move(ctx context.Context) error {
	if err := s.service.Stop(syscall.SIGTERM); err != nil {
		return err
	}
	if out, err := s.service.Command(ctx, "store", "copy", "--from", s.service.DataDir(), "--to", s.server.URL()).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the store: %w\n%s", err, out)
	}
	s.service.Add(fmt.Sprintf("store: %q", s.server.URL()))
	s.uses(storePostgres)
	return s.restart(ctx)
}

// calm ends a disturbance.
func (s *soak) calm() { s.trouble.Store(new(string)) }

// trouble is a disturbance of the service and when it lasted.
type trouble struct {
	What  string  `json:"what"`
	From  float64 `json:"from_seconds"`
	Until float64 `json:"until_seconds"`
}

// disturb causes one fault after the other, each for a short while. The last faults, and
// those before the store is moved, leave the service's process alone, so that its growth can
// be judged. Times are shares of the whole.
func (s *soak) disturb(ctx context.Context, long time.Duration) {
	node := func(f simnet.APIFault) func(bool) error {
		return func(begin bool) error {
			if begin {
				s.net.SetAPIFault(&f)
			} else {
				s.net.SetAPIFault(nil)
			}
			return nil
		}
	}
	restart := func(how syscall.Signal) func(bool) error {
		return func(begin bool) error {
			if begin {
				return errors.Join(s.service.Stop(how), s.restart(ctx))
			}
			return nil
		}
	}
	move := func(begin bool) error {
		if begin {
			return s.move(ctx)
		}
		return nil
	}
	server := func(end func()) func(bool) error {
		return func(begin bool) error {
			if begin {
				end()
				return nil
			}
			return s.server.Restart()
		}
	}
	for _, one := range []struct {
		at   float64
		what string
		do   func(begin bool) error
	}{
		{0.04, "three validators are away", s.validatorsAway},
		{0.09, "the node answers 503", node(simnet.APIFault{Status: 503})},
		{0.14, "the service is stopped and started, its store in files", restart(syscall.SIGTERM)},
		{0.19, nodeGarbage, node(simnet.APIFault{Garbage: "<html>"})},
		{0.24, "the service is killed and started, its store in files", restart(syscall.SIGKILL)},
		{0.29, "the node takes 2 s", node(simnet.APIFault{Delay: 2 * time.Second})},
		{0.50, "the service is stopped, its store moved to PostgreSQL, and it is started", move},
		{0.56, "the PostgreSQL server is stopped", server(s.server.Stop)},
		{0.62, "the PostgreSQL server has crashed", server(s.server.Crash)},
		{0.68, "the service is killed and started", restart(syscall.SIGKILL)},
		{0.73, "three validators are away", s.validatorsAway},
		{0.78, "the node answers 503", node(simnet.APIFault{Status: 503})},
	} {
		if !rig.Pause(ctx, time.Until(s.began.Add(time.Duration(one.at*float64(long))))) {
			return
		}
		fmt.Printf("%s: %s\n", time.Since(s.began).Round(time.Second), one.what)
		s.trouble.Store(&one.what)
		from := time.Since(s.began)
		if err := one.do(true); err != nil && ctx.Err() == nil {
			s.mishaps = append(s.mishaps, fmt.Errorf("%s: %w", one.what, err))
		}
		rig.Pause(ctx, long/30)
		if err := one.do(false); err != nil {
			s.mishaps = append(s.mishaps, fmt.Errorf("%s: %w", one.what, err))
		}
		// Requests that waited meanwhile fail soon after.
		rig.Pause(ctx, min(5*time.Second, long/60))
		s.done = append(s.done, trouble{one.what, from.Seconds(), time.Since(s.began).Seconds()})
		s.calm()
	}
}

// validatorsAway stops three honest validators, or starts them again.
func (s *soak) validatorsAway(begin bool) error {
	n := 0
	for _, v := range s.net.Validators() {
		if v.Behaviour() != simnet.Honest || n == 3 {
			continue
		}
		n++
		if begin {
			v.Stop()
		} else if err := v.Start(); err != nil {
			return err
		}
	}
	return nil
}
