package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"quorate/bench/rig"
)

// procs records and reads with each of some numbers of goroutines that run at a time, in
// turns, and prints the medians. Where there are more of them than processors the
// system shares these out, which takes from whoever has had one for long; where there are
// as many a read waits for one of those that compute to make a pause.
func (b *bench) procs(ctx context.Context, numbers []int, turns int) error {
	ran := make([][]progress, len(numbers))
	late := make([][]time.Duration, len(numbers))
	for turn := range turns {
		for i, n := range numbers {
			dir := filepath.Join(b.root, fmt.Sprintf("procs-%d-%d", n, turn))
			asleep := watch(ctx)
			p, err := b.whole(ctx, task{Role: roleLedger, Dir: dir, Procs: n, Probe: true})
			late[i] = append(late[i], asleep().P99)
			if err != nil {
				return err
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			ran[i] = append(ran[i], p)
		}
	}
	fmt.Println("| goroutines at a time | transactions/s | CPU us/transaction | read | p50 ms | p99 ms | worst ms |\n|---|---|---|---|---|---|---|")
	for i, n := range numbers {
		per := func(of func(progress) float64) float64 { return middle(ran[i], of) }
		fmt.Printf("| %d | %.0f | %.0f | a process that only sleeps, late by | | %.2f | |\n", n,
			per(func(p progress) float64 { return float64(p.Txs) / p.Took.Seconds() }),
			per(func(p progress) float64 { return float64(p.CPU.Microseconds()) / float64(p.Txs) }),
			middle(late[i], rig.Milliseconds))
		for k, one := range ran[i][0].Readings {
			of := func(of func(summary) time.Duration) float64 {
				return per(func(p progress) float64 { return rig.Milliseconds(of(p.Readings[k].summary)) })
			}
			fmt.Printf("| %d | | | %s | %.2f | %.2f | %.1f |\n", n, one.What, of(func(s summary) time.Duration { return s.P50 }),
				of(func(s summary) time.Duration { return s.P99 }), of(func(s summary) time.Duration { return s.Worst }))
		}
	}
	return nil
}

// whole has a process record all there is while it reads.
func (b *bench) whole(ctx context.Context, t task) (p progress, err error) {
	t.Past, t.URL, t.TxsOf = b.past, b.what.URL, b.what.TxsOf
	c, err := rig.Start(ctx, taskEnv, t)
	if err != nil {
		return p, err
	}
	defer c.Stop()
	for !p.Done {
		p = progress{}
		if err := c.Read(&p); err != nil {
			return p, fmt.Errorf("the process that records and reads ended: %w", err)
		}
	}
	return p, nil
}

// middle is the median of a figure.
func middle[T any](all []T, of func(T) float64) float64 {
	var so []float64
	for _, one := range all {
		so = append(so, of(one))
	}
	slices.Sort(so)
	return (so[(len(so)-1)/2] + so[len(so)/2]) / 2
}
