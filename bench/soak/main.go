// Command soak loads all parts of the service while what it depends on fails. The service is
// built and run as users run it, beside a simulated network whose chains grow and part of
// whose validators are faulty. Validators, the node, the store and the service itself fail
// and recover. Each response is compared with the expected one. The exit code is 1 if a
// response was wrong, too many requests of an operation failed without a fault, the service
// ended by itself or did not recover, or something grew without bound.
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
	long := flag.Duration("for", 30*time.Minute, "`time` after the chains are indexed; a minute or more. The run lasts longer if the faults take longer")
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
	mu      sync.Mutex
	samples []sample  // guarded by mu
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
	// readyTime is the time in which the service must be ready after a start, copyTime the time in which its store must be
	// copied.
	readyTime, copyTime = 2 * time.Minute, 5 * time.Minute
	// indexTime is the time after the load in which the service must have indexed all chains.
	indexTime = time.Minute
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
	loaded, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	var stuck error
	running.Go(func() { stuck = s.primary.grow(loaded) })
	s.load(loaded, &running)
	running.Go(func() { s.watch(loaded, long) })
	faults := s.faults()
	s.disturb(ctx, long, faults)
	if len(s.mishaps) == 0 {
		// The load also lasts long enough after the last fault for growth to be judged.
		rig.Pause(ctx, max(time.Until(s.began.Add(long)), long/6))
	}
	s.take(ctx)
	lastTenth := time.Now().Add(-time.Since(s.began) / 10)
	end()
	running.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if stuck != nil {
		return fmt.Errorf("making the chains grow: %w", stuck)
	}
	var bad []error
	o.Operations, o.Failures, bad = s.tally.counted(lastTenth)
	o.Done, o.Samples = s.done, s.samples
	bad = slices.Concat(bad, grown(o.Samples), s.mishaps)
	if err := allDone(faults, s.done); err != nil {
		bad = append(bad, err)
	}
	if err := s.recovered(ctx); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		bad = append(bad, err)
	}
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

// recovered requires that the service runs and is ready after the load, and that it indexes all chains to the heights that
// they have then. The EVM chain grows on.
func (s *soak) recovered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, indexTime)
	defer cancel()
	if err := s.service.Await(ctx, func(ctx context.Context) error {
		_, err := s.service.Get(ctx, s.service.Private, "/readyz")
		return err
	}); err != nil {
		return fmt.Errorf("the service is not ready within %s of the end: %w", indexTime, err)
	}
	if err := s.service.Indexed(ctx, rig.Heights(s.net), nil); err != nil {
		return fmt.Errorf("the chains are not indexed within %s of the end: %w", indexTime, err)
	}
	return nil
}

// restart starts the service again.
func (s *soak) restart(ctx context.Context) error {
	if err := s.service.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := s.service.Ready(ctx); err != nil {
		return fmt.Errorf("not ready within %s of its start: %w", readyTime, err)
	}
	return nil
}

// move stops the service, copies its store to the PostgreSQL server and starts it there.
func (s *soak) move(ctx context.Context) error {
	s.take(ctx)
	if err := s.service.Stop(syscall.SIGTERM); err != nil {
		return err
	}
	copying, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	if out, err := s.service.Command(copying, "store", "copy", "--from", s.service.DataDir(), "--to", s.server.URL()).CombinedOutput(); err != nil {
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

// fault is a fault to cause.
type fault struct {
	at   float64 // share of the whole time
	what string
	do   func(ctx context.Context, begin bool) error
}

// faults returns the faults in their order. The last faults, and those before the store is
// moved, leave the service's process alone, so that its growth can be judged.
func (s *soak) faults() []fault {
	node := func(f simnet.APIFault) func(context.Context, bool) error {
		return func(_ context.Context, begin bool) error {
			if begin {
				s.net.SetAPIFault(&f)
			} else {
				s.net.SetAPIFault(nil)
			}
			return nil
		}
	}
	restart := func(how syscall.Signal) func(context.Context, bool) error {
		return func(ctx context.Context, begin bool) error {
			if begin {
				s.take(ctx)
				return errors.Join(s.service.Stop(how), s.restart(ctx))
			}
			return nil
		}
	}
	move := func(ctx context.Context, begin bool) error {
		if begin {
			return s.move(ctx)
		}
		return nil
	}
	server := func(end func()) func(context.Context, bool) error {
		return func(_ context.Context, begin bool) error {
			if begin {
				end()
				return nil
			}
			return s.server.Restart()
		}
	}
	return []fault{
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
	}
}

// disturb causes one fault after the other, each for a short while, however long that takes.
// It returns after a mishap: the run has failed then, and later faults would show nothing new.
func (s *soak) disturb(ctx context.Context, long time.Duration, faults []fault) {
	for _, one := range faults {
		if !rig.Pause(ctx, time.Until(s.began.Add(time.Duration(one.at*float64(long))))) {
			return
		}
		fmt.Printf("%s: %s\n", time.Since(s.began).Round(time.Second), one.what)
		s.trouble.Store(&one.what)
		from := time.Since(s.began)
		err := one.do(ctx, true)
		if err == nil {
			rig.Pause(ctx, long/30)
		}
		if err = errors.Join(err, one.do(ctx, false)); err == nil {
			// Requests that waited meanwhile fail soon after.
			rig.Pause(ctx, min(5*time.Second, long/60))
		}
		s.calm()
		if err != nil {
			s.mishaps = append(s.mishaps, fmt.Errorf("%s: %w", one.what, err))
			return
		}
		if ctx.Err() != nil {
			return
		}
		s.done = append(s.done, trouble{one.what, from.Seconds(), time.Since(s.began).Seconds()})
	}
}

// allDone returns an error unless each fault was caused and ended.
func allDone(faults []fault, done []trouble) error {
	if len(done) == len(faults) {
		return nil
	}
	return fmt.Errorf("%d of %d faults were caused and ended; the next is: %s", len(done), len(faults), faults[len(done)].what)
}

// validatorsAway stops three honest validators, or starts them again.
func (s *soak) validatorsAway(_ context.Context, begin bool) error {
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
