package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/bench/rig"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
)

// nodeReady is what the simulated node tells when its history is made.
type nodeReady struct {
	URL     string
	Heights [3]uint64
	TxsOf   [3]int
	Busy    int
}

func (n nodeReady) all() int { return n.TxsOf[0] + n.TxsOf[1] + n.TxsOf[2] }

func optionsOf(p pastOptions) history.Options {
	return history.Options{Seed: p.Seed, Txs: p.Txs, BusyEvents: p.Busy}
}

// runNode is a simulated node until standard input ends.
func runNode(t task) error {
	sim, err := simnet.Start(simnet.Options{
		Seed: t.Past.Seed, Validators: 1, History: &simnet.History{Options: optionsOf(t.Past), Dir: t.Dir},
	})
	if err != nil {
		return err
	}
	defer sim.Close()
	past := sim.History()
	_, events := past.Generator().Busy()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(nodeReady{
		URL: sim.NodeURL(), Busy: events,
		Heights: [3]uint64{past.Height(history.P), past.Height(history.X), past.Height(history.C)},
		TxsOf:   [3]int{past.Txs(history.P), past.Txs(history.X), past.Txs(history.C)},
	}); err != nil {
		return err
	}
	return rig.TellSpent(out)
}

// bench is what the runs share.
type bench struct {
	past pastOptions
	node *rig.Child
	what nodeReady
	root string
	log  *rig.Log
}

// recorded is what a process tells that records.
type recorded struct {
	// Blocks and Txs were recorded in Took, with CPU. Done says that it was all.
	Blocks, Txs int
	Took, CPU   time.Duration
	Bytes       int64
	// Rows were put and deleted.
	Rows uint64
	// Flushed and Compacted is what was written for it, in bytes; 0 if not known.
	Flushed, Compacted uint64
	Done               bool
	Readings           readings
}

// record has a process record, and prints a line about it.
func (b *bench) record(ctx context.Context, name string, t task) (*recorded, error) {
	if t.Dir == "" {
		t.Dir = filepath.Join(b.root, t.Role)
	}
	before, err := b.node.Spent()
	if err != nil {
		return nil, err
	}
	var r recorded
	if err := b.once(ctx, t, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	after, err := b.node.Spent()
	if err != nil {
		return nil, err
	}
	seconds, txs := r.Took.Seconds(), float64(r.Txs)
	if !r.Done {
		name += fmt.Sprintf(", the first %d transactions", r.Txs)
	}
	fmt.Printf("| %s | %.0f | %.0f | %.0f | %.1f | %.0f | %.0f + %.0f |\n", name, float64(r.Blocks)/seconds, txs/seconds,
		float64(r.CPU.Microseconds())/txs, float64((after-before).Microseconds())/txs, float64(r.Bytes)/txs,
		float64(r.Flushed)/txs, float64(r.Compacted)/txs)
	values := map[string]float64{
		"blocks_per_second": float64(r.Blocks) / seconds, "per_second": txs / seconds, "cpu_us": float64(r.CPU.Microseconds()) / txs,
	}
	if r.Bytes > 0 { // a server's are not the process' to know
		values["mb_per_million"] = float64(r.Bytes) / txs
	}
	return &r, b.log.Add(map[string]string{"recorded": name, "transactions": strconv.Itoa(b.past.Txs)}, values)
}

// once runs a process that tells one thing.
func (b *bench) once(ctx context.Context, t task, answer any) error {
	t.Past, t.URL, t.TxsOf = b.past, b.what.URL, b.what.TxsOf
	return rig.Once(ctx, taskEnv, t, answer)
}

// restart is how long it took to serve after a kill.
type restart struct {
	at    int // transactions recorded
	took  time.Duration
	parts starting
}

// restarts are those of one history, in their order.
type restarts []restart

// print prints a line for each, and one that sums them up.
func (all restarts) print() {
	fmt.Println("\n| killed at | serves after ms | a process | store | node | reads |\n|---|---|---|---|---|---|")
	var took []time.Duration
	for _, r := range all {
		took = append(took, r.took)
		process := r.took - r.parts.Store - r.parts.Node - r.parts.Reads
		fmt.Printf("| %d | %.0f | %.0f | %.0f | %.0f | %.0f |\n", r.at, rig.Milliseconds(r.took), rig.Milliseconds(process),
			rig.Milliseconds(r.parts.Store), rig.Milliseconds(r.parts.Node), rig.Milliseconds(r.parts.Reads))
	}
	so := rig.Summarize(took)
	fmt.Printf("\nkilled %d times, it serves again after %.0f ms (median) and %.0f ms (most), and goes on\n",
		so.N, rig.Milliseconds(so.P50), rig.Milliseconds(so.Worst))
}

// kills records once more, reading meanwhile, and kills so many times and starts again,
// at moments spread over the history, or in its middle if it is only once. The readings
// are those before the first kill.
func (b *bench) kills(ctx context.Context, times int) (probed readings, all restarts, err error) {
	t := task{Role: roleLedger, Dir: filepath.Join(b.root, "killed"), Past: b.past, URL: b.what.URL, TxsOf: b.what.TxsOf, Probe: true}
	c, err := rig.Start(ctx, taskEnv, t)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = c.Kill() }()
	rng := rand.New(rand.NewPCG(b.past.Seed, 1))
	var p progress
	for i := range times {
		share := (float64(i) + 0.2 + 0.6*rng.Float64()) / float64(times)
		if times == 1 {
			share = 0.5
		}
		at := int(share * float64(b.what.all()))
		for before := p.Height; (p.Txs < at || p.Height <= before) && !p.Done; {
			if err := c.Read(&p); err != nil {
				return nil, nil, fmt.Errorf("the process that records and reads ended: %w", err)
			}
		}
		if i == 0 {
			probed = p.Readings
		}
		if err := c.Kill(); err != nil {
			return nil, nil, err
		}
		begun := time.Now()
		again, err := rig.Start(ctx, taskEnv, t)
		if err != nil {
			return nil, nil, err
		}
		c = again
		killed := p
		p = progress{}
		if err := c.Read(&p); err != nil {
			return nil, nil, fmt.Errorf("after a kill: %w", err)
		}
		if !p.Served || p.Height == 0 {
			return nil, nil, errors.New("after a kill, what was recorded is not served")
		}
		all = append(all, restart{at: killed.Txs, took: time.Since(begun), parts: p.Starting})
		p = progress{Height: killed.Height}
	}
	for last := p.Height; p.Height <= last && !p.Done; { // it goes on
		if err := c.Read(&p); err != nil {
			return nil, nil, fmt.Errorf("after a kill: %w", err)
		}
	}
	return probed, all, nil
}

// addressesOf are the one whose balance changes most, and the others.
func addressesOf(p pastOptions) (busy ids.ShortID, others []ids.ShortID, g *history.Generator, err error) {
	if g, err = history.New(optionsOf(p)); err != nil {
		return ids.ShortID{}, nil, nil, err
	}
	busy, _ = g.Busy()
	return busy, g.Addresses(), g, nil
}
