// Command latency measures signing rounds against the floor: the moment at which
// the fastest possible quorum has answered, had all validators been asked at
// once, computed from the answer times that were actually drawn for the message.
//
// The validators run in a process of their own on processor 1, the service alone
// in this one on processor 0, so that its CPU time is its own.
//
//	go -C bench run ./latency -validators 5,100,500,1000 -c 1,16
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/bits"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/aggregator"
	"quorate/bench/rig"
	"quorate/internal/cputime"
	"quorate/internal/node"
	"quorate/internal/simnet"
	"quorate/p2p"
	"quorate/validators"
)

// options of all measurements of one run.
type options struct {
	validators, concurrency []int
	weights                 simnet.Weights
	latency                 simnet.Latency
	faults                  float64
	rounds, warmup          int
	seed                    uint64
	patience                time.Duration
	profile                 string
	log                     *rig.Log
}

func main() {
	log.SetFlags(0)
	if text := os.Getenv(simulate); text != "" {
		if err := runSimulation(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	validatorList := flag.String("validators", "5,100,500,1000", "numbers of validators")
	concurrencyList := flag.String("c", "1,16", "numbers of messages at a time")
	weights := flag.String("weights", "uniform", "uniform or heavy")
	var o options
	flag.DurationVar(&o.latency.Median, "median", 40*time.Millisecond, "median answer time; 0 for none")
	flag.DurationVar(&o.latency.P99, "p99", 400*time.Millisecond, "99th percentile of the answer time")
	flag.Float64Var(&o.latency.Persistent, "persistent", 0, "share of the variance that belongs to the validator, 0 to 1")
	flag.Float64Var(&o.faults, "faults", 0, "share of faulty validators: offline, refusing, invalid, silent in equal parts; of fewer than 20, all silent")
	flag.IntVar(&o.rounds, "rounds", 100, "messages measured for each line")
	flag.IntVar(&o.warmup, "warmup", 30, "messages before, from which the service learns")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the network")
	flag.DurationVar(&o.patience, "patience", time.Minute, "`time` that connecting to all validators may take, which are some thousand handshakes on a processor each")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of the service to this `file`")
	figures := flag.String("json", "", "write what was measured to this `file`, too, as lines of JSON")
	flag.Parse()
	if os.Getenv(pinned) == "" {
		reexec()
	}
	var err error
	if o.validators, err = numbers(*validatorList); err != nil {
		log.Fatal(err)
	}
	if o.concurrency, err = numbers(*concurrencyList); err != nil {
		log.Fatal(err)
	}
	switch *weights {
	case "uniform":
	case "heavy":
		o.weights = simnet.HeavyTailed
	default:
		log.Fatalf("-weights: %q is neither uniform nor heavy", *weights)
	}
	fmt.Printf("%s/%s, service on one processor and validators on another, %s, seed %d; answer times median %s, p99 %s, %.0f %% of the variance per validator; ",
		runtime.GOOS, runtime.GOARCH, runtime.Version(), o.seed, o.latency.Median, o.latency.P99, 100*o.latency.Persistent)
	fmt.Printf("weights %s; faults %.0f %%; ", *weights, 100*o.faults)
	fmt.Printf("quorum 67; %d messages a line after %d\n\n", o.rounds, o.warmup)
	if o.log, err = rig.OpenLog(*figures); err != nil {
		log.Fatal(err)
	}
	profiled, err := rig.Profile(o.profile)
	if err != nil {
		log.Fatal(err)
	}
	err = measureAll(o)
	profiled()
	if err := errors.Join(err, o.log.Close()); err != nil {
		log.Fatal(err)
	}
}

// measureAll prints a line for each number of validators and of messages at a time.
func measureAll(o options) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "validators\tC\tfloor p50\tp99\tours p50\tp90\tp99 ms\tabove floor p50\tp99 ms\tratio p50\tp99\tasked %\tfailed\tmessages/s\tCPU ms\tkB in\tout\tRSS MB\tconnected s\tto connect: CPU ms\tkB in\tout\t")
	for _, n := range o.validators {
		lines, err := measure(n, o)
		if err != nil {
			return err
		}
		for _, l := range lines {
			fmt.Fprintf(w, "%d\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%s\t%s\t%.0f\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%.1f\t%.2f\t%.1f\t%.1f\t\n",
				n, l.concurrency, rig.Quantile(l.floor, .5), rig.Quantile(l.floor, .99),
				rig.Quantile(l.took, .5), rig.Quantile(l.took, .9), rig.Quantile(l.took, .99),
				rig.Quantile(l.above, .5), rig.Quantile(l.above, .99), ratio(l.ratio, .5), ratio(l.ratio, .99),
				100*mean(l.asked), l.failed, l.rate, l.cpu, l.passed.In/1e3, l.passed.Out/1e3, l.resident, l.connected.Seconds(),
				rig.Milliseconds(l.connecting), l.hello.In/1e3, l.hello.Out/1e3)
			if err := l.tell(n, o); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// kinds of weights and of answer times, by name.
func (o options) kinds() (weights, times string) {
	weights, times = "uniform", "log-normal"
	if o.weights == simnet.HeavyTailed {
		weights = "heavy"
	}
	if o.latency.Median == 0 {
		times = "none"
	}
	return weights, times
}

// tell adds the line to the figures.
func (l *line) tell(validators int, o options) error {
	weights, times := o.kinds()
	return o.log.Add(map[string]string{
		"validators": strconv.Itoa(validators), "messages": strconv.Itoa(l.concurrency), "weights": weights, "times": times,
		"faults_%": strconv.FormatFloat(100*o.faults, 'f', -1, 64),
	}, map[string]float64{
		"floor_p50_ms": rig.Quantile(l.floor, .5), "floor_p99_ms": rig.Quantile(l.floor, .99),
		"p50_ms": rig.Quantile(l.took, .5), "p90_ms": rig.Quantile(l.took, .9), "p99_ms": rig.Quantile(l.took, .99),
		"above_floor_p50_ms": rig.Quantile(l.above, .5), "above_floor_p99_ms": rig.Quantile(l.above, .99),
		"asked_%": 100 * mean(l.asked), "not_signed": float64(l.failed), "per_second": l.rate, "cpu_ms": l.cpu,
		"resident_mb": float64(l.resident), "connected_s": l.connected.Seconds(),
		"in_kb": l.passed.In / 1e3, "out_kb": l.passed.Out / 1e3,
		"connect_cpu_ms": rig.Milliseconds(l.connecting), "connect_in_kb": l.hello.In / 1e3, "connect_out_kb": l.hello.Out / 1e3,
	})
}

// ratio is a quantile of ratios to the floor; there are none to a floor of nothing.
func ratio(values []float64, q float64) string {
	if len(values) == 0 {
		return "-"
	}
	return strconv.FormatFloat(rig.Quantile(values, q), 'f', 2, 64)
}

func numbers(text string) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no positive number", part)
		}
		list = append(list, n)
	}
	return list, nil
}

const (
	pinned   = "QUORATE_BENCH_PINNED"
	simulate = "QUORATE_BENCH_SIMULATE"
)

// reexec starts this program again on processor 0 alone and ends with it.
func reexec() {
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		log.Fatal("taskset (util-linux) is needed to give service and validators a processor each")
	}
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	args := append([]string{taskset, "-c", "0", self}, os.Args[1:]...)
	env := append(os.Environ(), pinned+"=1", "GOMAXPROCS=1")
	log.Fatal(syscall.Exec(taskset, args, env))
}

// network is what the other process tells of the simulated network.
type network struct {
	URL       string
	NetworkID uint32
	Chain     ids.ID
	Weights   []uint64
	Honest    []bool
	Online    int
}

// simulation is the other process.
type simulation struct {
	network
	*rig.Child
}

// span is some of the messages.
type span struct{ First, Count int }

// prepare makes the validators sign messages ahead, so that this is not part of
// what is measured.
func (s *simulation) prepare(messages span) error {
	if messages.Count > simnet.RecentSignings {
		return fmt.Errorf("%d messages are more than the %d that the validators can sign ahead", messages.Count, simnet.RecentSignings)
	}
	var done span
	if err := s.Ask(messages, &done); err != nil {
		return fmt.Errorf("having messages signed ahead: %w", err)
	}
	return nil
}

// startSimulation runs the validators on processor 1 until they are stopped.
func startSimulation(o simnet.Options) (*simulation, error) {
	child, err := rig.StartPinned(context.Background(), "1", simulate, o)
	if err != nil {
		return nil, fmt.Errorf("starting the validators: %w", err)
	}
	s := &simulation{Child: child}
	if err := s.Read(&s.network); err != nil {
		s.Stop()
		return nil, fmt.Errorf("starting the validators: %w", err)
	}
	return s, nil
}

// runSimulation is the other process: it ends when standard input does.
func runSimulation(text string) error {
	var o simnet.Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	sim, err := simnet.Start(o)
	if err != nil {
		return err
	}
	defer sim.Close()
	n := network{URL: sim.NodeURL(), NetworkID: sim.NetworkID(), Chain: sim.Blockchain()}
	set := sim.Set(constants.PrimaryNetworkID, sim.Height())
	weights := make(map[ids.NodeID]uint64)
	for _, v := range set.Validators {
		weights[v.NodeIDs[0]] = v.Weight
	}
	for _, v := range sim.Validators() {
		n.Weights = append(n.Weights, weights[v.NodeID])
		n.Honest = append(n.Honest, v.Behaviour() == simnet.Honest)
		if v.Behaviour() != simnet.Offline {
			n.Online++
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(n); err != nil {
		return err
	}
	in := json.NewDecoder(os.Stdin)
	for {
		var messages span
		if err := in.Decode(&messages); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for i := range messages.Count {
			m, err := n.message(o.Seed, messages.First+i)
			if err != nil {
				return err
			}
			sim.Prepare(m)
		}
		if err := json.NewEncoder(os.Stdout).Encode(messages); err != nil {
			return err
		}
	}
}

// floor is when the fastest possible quorum has answered, of so many percent, counted in
// whole numbers as the protocol counts it.
func (n network) floor(o simnet.Options, id ids.ID, percent uint64) time.Duration {
	type answer struct {
		at     time.Duration
		weight uint64
	}
	var answers []answer
	var total, sum uint64
	for i, w := range n.Weights {
		total += w
		if n.Honest[i] {
			answers = append(answers, answer{o.AnswerTime(i, id), w})
		}
	}
	slices.SortFunc(answers, func(a, b answer) int { return cmp.Compare(a.at, b.at) })
	wantHigh, wantLow := bits.Mul64(total, percent)
	for _, a := range answers {
		sum += a.weight
		if high, low := bits.Mul64(sum, 100); high > wantHigh || high == wantHigh && low >= wantLow {
			return a.at
		}
	}
	return 0
}

func (n network) message(seed uint64, i int) (*warp.UnsignedMessage, error) {
	call, err := payload.NewAddressedCall(make([]byte, 20), fmt.Appendf(nil, "%d/%d", seed, i))
	if err != nil {
		return nil, err
	}
	return warp.NewUnsignedMessage(n.NetworkID, n.Chain, call.Bytes())
}

// service is everything that signs, put together as the program does.
type service struct {
	*aggregator.Aggregator
	peers *p2p.Network
	stop  func()
}

func startService(n network, o options) (*service, error) {
	quiet := slog.New(slog.DiscardHandler)
	client, err := node.New(node.Options{Endpoints: []string{n.URL}, Log: quiet})
	if err != nil {
		return nil, err
	}
	peers, err := p2p.New(p2p.Config{
		NetworkID:       n.NetworkID,
		AllowPrivateIPs: true,
		Log:             quiet,
		Seeds: func(ctx context.Context) ([]p2p.Address, error) {
			peers, err := client.Peers(ctx)
			var addresses []p2p.Address
			for _, p := range peers {
				addresses = append(addresses, p2p.Address(p))
			}
			return addresses, err
		},
	})
	if err != nil {
		return nil, err
	}
	resolver := validators.NewResolver(client, validators.Options{OnSets: func(_ uint64, sets map[ids.ID]*validators.Set) {
		all := make(map[ids.ID]snow.WarpSet, len(sets))
		for id, s := range sets {
			all[id] = s.WarpSet
		}
		peers.SetValidators(all)
	}})
	signer, err := aggregator.New(aggregator.Options{Transport: peers, Sets: resolver, Log: quiet})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = peers.Run(ctx) })
	running.Go(func() { _ = resolver.Run(ctx) })
	return &service{Aggregator: signer, peers: peers, stop: func() {
		signer.Close()
		cancel()
		running.Wait()
		client.Close()
	}}, nil
}

// line is what was measured with one number of messages at a time.
type line struct {
	results

	concurrency int
	rate, cpu   float64 // messages per second, ms of the processor for each
	resident    int     // MB
	connected   time.Duration
	passed      rig.Traffic   // for a message
	hello       rig.Traffic   // to connect to a validator
	connecting  time.Duration // of the processor, for that
}

// measure makes a network and a service, and a line for each number of messages at
// a time.
func measure(validators int, o options) (lines []line, err error) {
	f := o.faults / 4
	so := simnet.Options{
		Seed:       o.seed,
		Validators: validators,
		Weights:    o.weights,
		Latency:    o.latency,
		Faults:     simnet.Faults{Offline: f, Refusing: f, Silent: f, WrongSignature: f / 2, Malformed: f / 2},
	}
	if f*float64(validators) < 1 { // too few for each kind
		so.Faults = simnet.Faults{Silent: o.faults}
	}
	n, err := startSimulation(so)
	if err != nil {
		return nil, err
	}
	defer n.Stop()
	start, before, spent := time.Now(), rig.Passed(), cputime.Used()
	s, err := startService(n.network, o)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	for s.peers.ConnectedCount() < n.Online {
		if time.Since(start) > o.patience {
			return nil, fmt.Errorf("only %d of %d validators connected within %s", s.peers.ConnectedCount(), n.Online, o.patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
	connected, connecting := time.Since(start), cputime.Used()-spent
	hello := rig.Passed().Since(before)
	next := 0
	for _, c := range o.concurrency {
		if err := n.prepare(span{next, o.warmup}); err != nil {
			return nil, err
		}
		if _, err := s.signMany(n.network, so, next, o.warmup, c); err != nil {
			return nil, err
		}
		next += o.warmup
		if err := n.prepare(span{next, o.rounds}); err != nil {
			return nil, err
		}
		time.Sleep(200 * time.Millisecond) // what is left to be proven is not this line's
		before := rig.Passed()
		cpu, began := cputime.Used(), time.Now()
		r, err := s.signMany(n.network, so, next, o.rounds, c)
		if err != nil {
			return nil, err
		}
		took := time.Since(began)
		time.Sleep(500 * time.Millisecond) // but what this line leaves is
		cpu = cputime.Used() - cpu
		passed := rig.Passed().Since(before)
		next += o.rounds
		resident, _ := rig.Memory(os.Getpid())
		lines = append(lines, line{
			results: r, concurrency: c, rate: float64(o.rounds) / took.Seconds(), cpu: cpu.Seconds() * 1e3 / float64(o.rounds),
			resident: int(resident) >> 20, connected: connected, passed: passed.Each(o.rounds), hello: hello.Each(n.Online), connecting: connecting / time.Duration(n.Online),
		})
	}
	return lines, nil
}

// results of the messages of one line; times in ms. Ratio has none if the floor is
// nothing.
type results struct {
	floor, took, above, ratio, asked []float64
	failed                           int
}

func (s *service) signMany(n network, so simnet.Options, first, count, concurrency int) (results, error) {
	var r results
	var mu sync.Mutex
	var next atomic.Int64
	var fatal error
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				m, err := n.message(so.Seed, first+i)
				if err != nil {
					fatal = err
					return
				}
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				start := time.Now()
				result, err := s.Sign(ctx, aggregator.Request{Message: m})
				took := time.Since(start)
				cancel()
				floor := n.floor(so, m.ID(), aggregator.DefaultQuorumPercentage)
				mu.Lock()
				var failed *aggregator.Error
				switch {
				case errors.As(err, &failed):
					r.failed++
				case err != nil:
					fatal = err
				default:
					r.floor = append(r.floor, ms(floor))
					r.took = append(r.took, ms(took))
					r.above = append(r.above, ms(took-floor))
					if floor > 0 {
						r.ratio = append(r.ratio, float64(took)/float64(floor))
					}
					r.asked = append(r.asked, float64(result.AskedWeight)/float64(result.TotalWeight))
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return r, fatal
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}
