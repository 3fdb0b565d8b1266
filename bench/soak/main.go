// Command soak keeps the service busy in all it does while what it depends on fails: it
// is built and run as a user runs it, beside a simulated network whose chains grow, part
// of whose validators are faulty, and which are restarted, as are the node and the
// service itself. Whatever it answers is compared with what is true. It ends by itself
// with a table; the exit code is 1 if an answer was wrong, the service ended by itself,
// or something grew without bound.
//
//	go -C bench run ./soak -for 30m
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
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
	log.SetFlags(0)
	long := flag.Duration("for", 30*time.Minute, "how `long`, after the chains are recorded; a minute at least")
	seed := flag.Uint64("seed", 1, "`number` from which network and chains follow")
	out := flag.String("out", "", "Markdown `file` for the tables, which gets plots and the same as JSON beside it; default: none")
	again := flag.Bool("again", false, "write the file anew from the JSON beside it, without a run")
	flag.Parse()
	if *again {
		if err := renew(*out); err != nil {
			log.Fatal(err)
		}
		return
	}
	if *long < time.Minute {
		log.Fatalf("-for %s is less than a minute", *long)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *long, *seed, *out)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// soak is what the parts share.
type soak struct {
	net     *simnet.Network
	past    *past
	evm     *evmchain.Node
	service *service
	tally   tally
	server  *pgserver.Server
	done    []trouble // by disturb
	// trouble is what is being done to the service; empty in between.
	trouble atomic.Pointer[string]
	began   time.Time
}

const (
	validators   = 40
	transactions = 3000 // of each past
	growth       = 500 * time.Millisecond
	// rest is how long each of those who ask waits after an answer.
	rest = 20 * time.Millisecond
	// memoryLimit is the service's, in MiB.
	memoryLimit = 384
)

func run(ctx context.Context, long time.Duration, seed uint64, file string) (err error) {
	machine, err := rig.ThisMachine(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "quorate-soak-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// A fifth is faulty, so that three more that are away leave a quorum of 67 %.
	net, err := simnet.Start(simnet.Options{
		Seed: seed, Validators: validators,
		Latency: simnet.Latency{Median: 20 * time.Millisecond, P99: 200 * time.Millisecond, Persistent: 0.5},
		Faults:  simnet.Faults{Refusing: 0.05, Silent: 0.05, WrongSignature: 0.05, Malformed: 0.05},
		History: &simnet.History{Options: history.Options{Txs: transactions, Record: true}, Dir: dir},
		EVM:     []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: transactions, Record: true}, Dir: dir, Pace: 2 * growth}},
	})
	if err != nil {
		return err
	}
	defer net.Close()
	s := &soak{net: net, past: &past{node: net.History()}, evm: net.EVM()[0]}
	s.calm()
	if s.server, err = pgserver.Start("shared_buffers=128MB"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.server.Close()) }()
	fmt.Println("building the service")
	if s.service, err = newService(ctx, dir, net); err != nil {
		return err
	}
	defer s.service.close()
	if err := s.service.start(ctx); err != nil {
		return err
	}
	fmt.Println("waiting until the chains are recorded")
	if err := s.recorded(ctx); err != nil {
		return err
	}
	s.began = time.Now()
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	var running sync.WaitGroup
	var stuck error
	running.Go(func() { stuck = s.past.grow(ctx) })
	s.load(ctx, &running)
	samples := make(chan []sample, 1)
	running.Go(func() { samples <- s.watch(ctx, long) })
	running.Go(func() { s.disturb(ctx, long) })
	running.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if stuck != nil {
		return fmt.Errorf("making the chains grow: %w", stuck)
	}
	o := outcome{
		Machine: machine, Seed: seed, Long: long.String(), Validators: validators, Transactions: transactions,
		LimitMB: memoryLimit, Done: s.done, Samples: <-samples,
	}
	var bad []error
	o.Operations, o.Failures, bad = s.tally.counted()
	bad = append(append(bad, grown(o.Samples)...), s.service.mishaps()...)
	for _, err := range bad {
		o.Bad = append(o.Bad, err.Error())
	}
	o.print(os.Stdout)
	if file != "" {
		if err := o.write(file); err != nil {
			return err
		}
		fmt.Printf("\n%s is written\n", file)
	}
	if len(bad) > 0 {
		return fmt.Errorf("not well:\n%w", errors.Join(bad...))
	}
	fmt.Println("\nall answers were right, and nothing grew without bound")
	return nil
}

// calm ends a trouble.
func (s *soak) calm() { s.trouble.Store(new(string)) }

// trouble is what was done to the service, from when to when.
type trouble struct {
	What  string  `json:"what"`
	From  float64 `json:"from_seconds"`
	Until float64 `json:"until_seconds"`
}

// disturb does harm, one after the other, each for a short while; what comes last, and
// what comes before the store is moved, leaves the service itself alone, so that its
// growth can be judged. Times are shares of the whole.
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
				return errors.Join(s.service.stop(how), s.service.start(ctx))
			}
			return nil
		}
	}
	move := func(begin bool) error {
		if !begin {
			return nil
		}
		if err := s.service.stop(syscall.SIGTERM); err != nil {
			return err
		}
		return errors.Join(s.service.move(ctx, s.server.URL()), s.service.start(ctx))
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
		{0.14, "the service is stopped and started, and with it its files", restart(syscall.SIGTERM)},
		{0.19, "the node talks garbage", node(simnet.APIFault{Garbage: "<html>"})},
		{0.24, "the service is killed and started, and with it its files", restart(syscall.SIGKILL)},
		{0.29, "the node takes 2 s", node(simnet.APIFault{Delay: 2 * time.Second})},
		{0.50, "the service is stopped, its store moved to PostgreSQL, and it is started", move},
		{0.56, "the PostgreSQL server is stopped", server(s.server.Stop)},
		{0.62, "the PostgreSQL server has crashed", server(s.server.Crash)},
		{0.68, "the service is killed and started", restart(syscall.SIGKILL)},
		{0.73, "three validators are away", s.validatorsAway},
		{0.78, "the node answers 503", node(simnet.APIFault{Status: 503})},
	} {
		if !pause(ctx, time.Until(s.began.Add(time.Duration(one.at*float64(long))))) {
			return
		}
		fmt.Printf("%s: %s\n", time.Since(s.began).Round(time.Second), one.what)
		s.trouble.Store(&one.what)
		from := time.Since(s.began)
		if err := one.do(true); err != nil && ctx.Err() == nil {
			s.service.mishap(fmt.Errorf("%s: %w", one.what, err))
		}
		pause(ctx, long/30)
		if err := one.do(false); err != nil {
			s.service.mishap(fmt.Errorf("%s: %w", one.what, err))
		}
		// What it has done to requests that wait is over soon after.
		pause(ctx, min(5*time.Second, long/60))
		s.done = append(s.done, trouble{one.what, from.Seconds(), time.Since(s.began).Seconds()})
		s.calm()
	}
}

// validatorsAway stops honest validators, or starts them again.
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

// pause returns false if ctx ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
