// Command liars attacks the service with validators whose signatures are not valid, a fifth of
// heavy-tailed weight, and prints what each of the first messages costs. bench/latency -liars
// compares all patterns after the service has learned.
//
//	go -C bench run ./attack/liars
package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/simnet"
)

const (
	share = 0.2 // of the validators lie
	steps = 6   // rows
	each  = 5   // messages of a row
)

func main() {
	validators := flag.Int("validators", 1000, "`number` of validators")
	rig.Main(func(ctx context.Context, r *rig.Run) error { return measure(ctx, r, *validators) })
}

func measure(ctx context.Context, r *rig.Run, validators int) error {
	table := r.Table(fmt.Sprintf("The first messages among liars, %d validators, heavy weights, %d messages a row", validators, each), []string{"liars", "messages"},
		rig.Column{Title: "p50 ms"}, rig.Column{Title: "CPU ms/message", Decimals: 1}, rig.Column{Title: "requests/message"}, rig.Column{Title: "invalid signatures"}, rig.Column{Title: "not signed"})
	for _, faults := range []simnet.Faults{{}, {WrongSignature: share}} {
		if err := attack(ctx, r, table, validators, faults); err != nil {
			return err
		}
	}
	return nil
}

// attack adds the rows of one network.
func attack(ctx context.Context, r *rig.Run, table *rig.Table, validators int, faults simnet.Faults) error {
	network, err := rig.StartNetwork(ctx, "1", simnet.Options{
		Seed: r.Seed, Validators: validators, Weights: simnet.HeavyTailed, Latency: simnet.Latency{Median: 40 * time.Millisecond, P99: 400 * time.Millisecond}, Faults: faults,
	})
	if err != nil {
		return err
	}
	defer network.Stop()
	service, err := r.StartService(ctx, fmt.Sprintf("liars-%.0f", 100*faults.WrongSignature), network.Settings())
	if err != nil {
		return err
	}
	defer func() { _ = service.Stop(syscall.SIGTERM) }()
	for step := range steps {
		messages, err := network.Messages(step*each, each)
		if err != nil {
			return err
		}
		counts, err := network.Counts()
		if err != nil {
			return err
		}
		before, err := service.Metrics(ctx)
		if err != nil {
			return err
		}
		cpu := service.CPU()
		outcome, err := (rig.Load{Clients: 1, Requests: each, Tolerate: true}).Run(ctx, func(_, i int) rig.Request { return rig.Sign(service.Public, messages[i].Unsigned) })
		if err != nil {
			return err
		}
		if !rig.Pause(ctx, time.Second) { // work that a message leaves
			return ctx.Err()
		}
		cpu = service.CPU() - cpu
		after, err := service.Metrics(ctx)
		if err != nil {
			return err
		}
		now, err := network.Counts()
		if err != nil {
			return err
		}
		var took []float64
		for _, d := range outcome.Times {
			took = append(took, rig.Milliseconds(d))
		}
		const invalid = "quorate_invalid_signatures_total"
		if err := table.Add([]string{fmt.Sprintf("%.0f%%", 100*faults.WrongSignature), strconv.Itoa(step*each+1) + " to " + strconv.Itoa(step*each+each)},
			rig.Quantile(took, .5), rig.Milliseconds(cpu)/each, float64(now.Signatures-counts.Signatures)/each, after[invalid]-before[invalid], float64(outcome.Failed)); err != nil {
			return err
		}
	}
	return nil
}
