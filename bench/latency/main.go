// Command latency measures signing rounds of the service against the floor: the moment at
// which the fastest possible quorum has answered if all validators are asked at once,
// computed from the response times that were drawn for the message.
//
// The service has processor 0, the validators have processor 1, so that the service's
// processor time is its own.
//
//	go -C bench run ./latency -validators 5,100,500,1000 -c 1,16
//	go -C bench run ./latency -validators 1000 -c 1 -matrix
//	go -C bench run ./latency -validators 1000 -c 1 -liars
package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/simnet"
)

// options are the flags.
type options struct {
	validators, concurrency []int
	weights                 string
	latency                 simnet.Latency
	faults                  float64
	matrix, liars           bool
	rounds, warmup          int
}

// weightings are the distributions of weight.
var weightings = map[string]simnet.Weights{"uniform": simnet.Uniform, "heavy": simnet.HeavyTailed}

func main() {
	var o options
	validators := flag.String("validators", "5,100,500,1000", "numbers of validators")
	concurrency := flag.String("c", "1,16", "numbers of messages at a time")
	flag.StringVar(&o.weights, "weights", "uniform", "distribution of weight: uniform or heavy (a few validators have most of it)")
	flag.DurationVar(&o.latency.Median, "median", 40*time.Millisecond, "median response time; 0 for none")
	flag.DurationVar(&o.latency.P99, "p99", 400*time.Millisecond, "99th percentile of the response time")
	flag.Float64Var(&o.latency.Persistent, "persistent", 0, "share of the variance that belongs to the validator, 0 to 1")
	flag.Float64Var(&o.faults, "faults", 0, "share of faulty validators, 0 to 1: of all kinds in equal parts, or silent if there are fewer than 20")
	flag.BoolVar(&o.matrix, "matrix", false, "measure honest validators, each kind of fault alone and all mixed, with uniform and heavy weights; -faults is the share, by default 0.2")
	flag.BoolVar(&o.liars, "liars", false, "measure honest validators, and each pattern of invalid signatures, with uniform and heavy weights; -faults is the share of liars, by default 0.2")
	flag.IntVar(&o.rounds, "rounds", 100, "`number` of messages measured for each row")
	flag.IntVar(&o.warmup, "warmup", 30, "`number` of messages before, from which the service learns; 0 for none")
	rig.Main(func(ctx context.Context, r *rig.Run) (err error) {
		if o.validators, err = numbers("-validators", *validators); err != nil {
			return err
		}
		if o.concurrency, err = numbers("-c", *concurrency); err != nil {
			return err
		}
		if _, ok := weightings[o.weights]; !ok {
			return fmt.Errorf("-weights: got %q, want uniform or heavy", o.weights)
		}
		if o.rounds < 1 || o.warmup < 0 {
			return fmt.Errorf("-rounds %d -warmup %d: give 1 or more rounds, and 0 or more before them", o.rounds, o.warmup)
		}
		return o.measure(ctx, r)
	})
}

func numbers(name, list string) (all []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q is not a positive number", name, text)
		}
		all = append(all, n)
	}
	return all, nil
}

// scenario is a kind of network.
type scenario struct {
	weights, name string
	faults        simnet.Faults
	lies          simnet.Lies
}

// scenarios returns the networks to measure.
func (o *options) scenarios(validators int) (all []scenario) {
	mixed := func(share float64) simnet.Faults {
		part := share / 4
		if part*float64(validators) < 1 { // too few for each kind
			return simnet.Faults{Silent: share}
		}
		return simnet.Faults{Offline: part, Refusing: part, Silent: part, WrongSignature: part / 2, Malformed: part / 2}
	}
	percent := func(share float64, kind string) string { return fmt.Sprintf("%.0f%%%s", 100*share, kind) }
	share := o.faults
	if share == 0 {
		share = 0.2
	}
	switch {
	case o.liars:
		for _, weights := range []string{"uniform", "heavy"} {
			all = append(all, scenario{weights: weights, name: "0%"})
			for lies := simnet.OtherMessage; lies <= simnet.OneAtATime; lies++ {
				all = append(all, scenario{weights, percent(share, " liars: "+lies.String()), simnet.Faults{WrongSignature: share}, lies})
			}
		}
		return all
	case !o.matrix:
		return []scenario{{weights: o.weights, name: percent(o.faults, ""), faults: mixed(o.faults)}}
	}
	for _, weights := range []string{"uniform", "heavy"} {
		all = append(all,
			scenario{weights: weights, name: "0%"},
			scenario{weights: weights, name: percent(share, " offline"), faults: simnet.Faults{Offline: share}},
			scenario{weights: weights, name: percent(share, " refusing"), faults: simnet.Faults{Refusing: share}},
			scenario{weights: weights, name: percent(share, " silent"), faults: simnet.Faults{Silent: share}},
			scenario{weights: weights, name: percent(share, " sign another message"), faults: simnet.Faults{WrongSignature: share}},
			scenario{weights: weights, name: percent(share, " malformed"), faults: simnet.Faults{Malformed: share}},
			scenario{weights: weights, name: percent(share, " mixed"), faults: mixed(share)},
		)
	}
	return all
}

func (o *options) measure(ctx context.Context, r *rig.Run) error {
	times := "none"
	if o.latency.Median > 0 {
		times = fmt.Sprintf("median %s, p99 %s, %.0f%% of the variance by validator", o.latency.Median, o.latency.P99, 100*o.latency.Persistent)
	}
	fmt.Printf("service on processor 0, validators on processor 1; response times %s; quorum 67%%; %d messages a row after %d\n", times, o.rounds, o.warmup)
	table := r.Table("Signing rounds against the floor", []string{"validators", "faulty", "weights", "at a time"},
		rig.Column{Title: "floor p50 ms"}, rig.Column{Title: "floor p99 ms"}, rig.Column{Title: "p50 ms"}, rig.Column{Title: "p90 ms"}, rig.Column{Title: "p99 ms"},
		rig.Column{Title: "above floor p50 ms", Decimals: 1}, rig.Column{Title: "above floor p99 ms", Decimals: 1},
		rig.Column{Title: "requests/message"}, rig.Column{Title: "not signed"}, rig.Column{Title: "messages/s", Decimals: 1}, rig.Column{Title: "CPU ms/message", Decimals: 1},
		rig.Column{Title: "in kB/message", Decimals: 1}, rig.Column{Title: "out kB/message", Decimals: 1}, rig.Column{Title: "resident MB"}, rig.Column{Title: "connected s", Decimals: 1})
	for _, n := range o.validators {
		for i, s := range o.scenarios(n) {
			if err := o.measureScenario(ctx, r, table, fmt.Sprintf("%d-%d", n, i), n, s); err != nil {
				return fmt.Errorf("%d validators, %s faulty, %s weights: %w", n, s.name, s.weights, err)
			}
		}
	}
	return nil
}

// measureScenario adds a row for each number of messages at a time.
func (o *options) measureScenario(ctx context.Context, r *rig.Run, table *rig.Table, name string, validators int, s scenario) error {
	network, err := rig.StartNetwork(ctx, "1", simnet.Options{
		Seed: r.Seed, Validators: validators, Weights: weightings[s.weights], Latency: o.latency, Faults: s.faults, Lies: s.lies,
	})
	if err != nil {
		return err
	}
	defer network.Stop()
	service, err := r.NewService(ctx, name, network.Settings())
	if err != nil {
		return err
	}
	service.Processor = "0"
	begun := time.Now()
	if err := service.Start(); err != nil {
		return err
	}
	defer func() { _ = service.Stop(syscall.SIGTERM) }()
	if err := service.Ready(ctx); err != nil {
		return err
	}
	if err := service.Await(ctx, func(ctx context.Context) error {
		metrics, err := service.Metrics(ctx)
		if peers := int(metrics["quorate_p2p_peers"]); err == nil && peers < network.Online {
			err = fmt.Errorf("%d of %d validators are connected", peers, network.Online)
		}
		return err
	}); err != nil {
		return err
	}
	connected := time.Since(begun).Seconds()
	next := 0
	for _, concurrency := range o.concurrency {
		if o.warmup > 0 {
			if _, err := o.sign(ctx, network, service, next, o.warmup, concurrency); err != nil {
				return err
			}
		}
		one, err := o.sign(ctx, network, service, next+o.warmup, o.rounds, concurrency)
		if err != nil {
			return err
		}
		next += o.warmup + o.rounds
		each := func(total float64) float64 { return total / float64(o.rounds) }
		if err := table.Add([]string{strconv.Itoa(validators), s.name, s.weights, strconv.Itoa(concurrency)},
			rig.Quantile(one.floor, .5), rig.Quantile(one.floor, .99), rig.Quantile(one.took, .5), rig.Quantile(one.took, .9), rig.Quantile(one.took, .99),
			rig.Quantile(one.above, .5), rig.Quantile(one.above, .99), each(float64(one.requests)), float64(one.Failed), one.Rate(), each(rig.Milliseconds(one.cpu)),
			each(one.received/1e3), each(one.sent/1e3), one.resident/1e6, connected); err != nil {
			return err
		}
	}
	return nil
}

// rounds is what a number of messages took. Times are in milliseconds.
type rounds struct {
	*rig.Outcome

	floor, took, above       []float64
	requests                 uint64
	cpu                      time.Duration
	received, sent, resident float64 // bytes
}

// settle is the time in which the service finishes work that a signed message leaves, such
// as verifying signatures that it did not need.
const settle = 500 * time.Millisecond

// sign has messages signed that the validators have prepared.
func (o *options) sign(ctx context.Context, network *rig.Network, service *rig.Service, first, count, concurrency int) (*rounds, error) {
	messages, err := network.Messages(first, count)
	if err != nil {
		return nil, err
	}
	if !rig.Pause(ctx, settle) {
		return nil, ctx.Err()
	}
	counted, err := network.Counts()
	if err != nil {
		return nil, err
	}
	before, err := service.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	cpu, took := service.CPU(), make([]time.Duration, count)
	all := &rounds{}
	if all.Outcome, err = (rig.Load{Clients: concurrency, Requests: count, Tolerate: true, Took: func(i int, d time.Duration) { took[i] = d }}).
		Run(ctx, func(_, i int) rig.Request { return rig.Sign(service.Public, messages[i].Unsigned) }); err != nil {
		return nil, err
	}
	if !rig.Pause(ctx, settle) {
		return nil, ctx.Err()
	}
	all.cpu = service.CPU() - cpu
	after, err := service.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	now, err := network.Counts()
	if err != nil {
		return nil, err
	}
	all.requests = now.Signatures - counted.Signatures
	all.received = after["quorate_p2p_received_bytes_total"] - before["quorate_p2p_received_bytes_total"]
	all.sent = after["quorate_p2p_sent_bytes_total"] - before["quorate_p2p_sent_bytes_total"]
	all.resident = after["process_resident_memory_bytes"]
	for i, message := range messages {
		if took[i] == 0 {
			continue // not signed
		}
		all.floor = append(all.floor, rig.Milliseconds(message.Floor))
		all.took = append(all.took, rig.Milliseconds(took[i]))
		all.above = append(all.above, rig.Milliseconds(took[i]-message.Floor))
	}
	return all, nil
}
