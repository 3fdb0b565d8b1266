// Command attack attacks the service from outside, over loopback, for a few seconds. The program is built and run as
// users run it, before a simulated network whose node answers like a busy one.
//
//	go -C bench run ./attack heights                    see attacks for the others
//	go -C bench run ./attack -binary OLD heights        the same against another build
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"quorate/bench/rig"
)

// attack is one way to attack the service.
type attack struct {
	about string
	// record is the setting of the network, l1 if it is empty.
	record string
	// honest is the request that an honest client makes beside the attack, number n.
	honest func(t *target, n int) request
	// run attacks until ctx ends.
	run func(ctx context.Context, t *target) error
}

// attacks are all attacks by name.
func attacks() map[string]attack {
	return map[string]attack{
		"heights": {about: "batches that name distinct P-Chain heights, subnets and blockchains", honest: oldSet, run: heights},
		"idle":    {about: "2,048 idle connections from each of four addresses", honest: signFresh, run: idle},
		"pages":   {about: "requests of web pages of other origins, at both addresses", honest: signAgain, run: pages},
		"tokens":  {about: "forged page tokens", record: "primary", honest: listOutputs, run: tokens},
		"slow":    {about: "forwarded calls that the node does not answer in time", honest: forwarded, run: slow},
	}
}

// options are the flags.
type options struct {
	duration time.Duration
}

func main() {
	var o options
	flag.DurationVar(&o.duration, "for", 5*time.Second, "`time` of the attack, at most a minute")
	rig.Main(func(ctx context.Context, r *rig.Run) error {
		all := attacks()
		a, ok := all[flag.Arg(0)]
		if !ok || flag.NArg() != 1 || o.duration <= 0 || o.duration > time.Minute {
			return fmt.Errorf("arguments %q: give flags and then one of %s", flag.Args(), strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
		return o.measure(ctx, r, flag.Arg(0), a)
	})
}

// measure runs the honest client alone and then beside the attack.
func (o options) measure(ctx context.Context, r *rig.Run, name string, a attack) (err error) {
	t, err := newTarget(ctx, r, name, a, 6000)
	if err != nil {
		return err
	}
	defer t.close()
	table := r.Table(name+": "+a.about, []string{"", "statuses of the attack"},
		rig.Column{Title: "requests"}, rig.Column{Title: "calls to the node"}, rig.Column{Title: "at a time"}, rig.Column{Title: "service CPU ms"},
		rig.Column{Title: "honest requests"}, rig.Column{Title: "failed"}, rig.Column{Title: "p50 ms", Decimals: 1}, rig.Column{Title: "p99 ms", Decimals: 1})
	nothing := func(ctx context.Context, _ *target) error {
		<-ctx.Done()
		return nil
	}
	for _, phase := range []struct {
		name string
		run  func(context.Context, *target) error
	}{{"before the attack", nothing}, {"during the attack", a.run}} {
		m, err := t.during(ctx, o.duration, a, phase.run)
		if err != nil {
			return err
		}
		summary := rig.Summarize(m.honest)
		if err := table.Add([]string{phase.name, m.statuses}, float64(m.requests), float64(m.calls), float64(m.most), rig.Milliseconds(m.cpu),
			float64(len(m.honest)), float64(m.failed), rig.Milliseconds(summary.P50), rig.Milliseconds(summary.P99)); err != nil {
			return err
		}
	}
	return t.service.Ended()
}
