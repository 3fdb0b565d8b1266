// Command ingest measures how fast the service records chains and how fast it reads
// what it recorded: a made-up history of the P-, the X- and the C-Chain, served by a
// simulated node, goes through the service's own pipelines into its own store.
// The node and each of the stores have a process of their own, so that processor time
// can be told apart; time on the clock is that of everything together on this machine.
//
//	go -C bench run ./ingest
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"quorate/bench/rig"
)

// task is what one of our processes is told to do, in its environment.
type task struct {
	// Role is one of the roles below.
	Role string
	Past pastOptions
	URL  string
	Dir  string
	// Store is the URL of a PostgreSQL server that has the rows; empty: Dir has them.
	// Standby is that of one that follows it and is read from.
	Store, Standby string
	// TxsOf is how many transactions the chains have.
	TxsOf [3]int
	// Probe has the store read while it records.
	Probe bool
	// Profile is where the process writes what it spends processor time on.
	Profile string
}

// pastOptions are what all processes must agree on about the history.
type pastOptions struct {
	Seed      uint64
	Txs, Busy int
}

const (
	roleNode   = "node"   // is the simulated node
	roleBlocks = "blocks" // records P-Chain blocks without the ledger
	roleLedger = "ledger" // records all chains, with outputs
	roleRead   = "read"   // reads what was recorded
	taskEnv    = "QUORATE_BENCH_INGEST"
)

func main() {
	log.SetFlags(0)
	if text := os.Getenv(taskEnv); text != "" {
		if err := work(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	var past pastOptions
	flag.IntVar(&past.Txs, "txs", 1_000_000, "`number` of transactions")
	flag.IntVar(&past.Busy, "busy", -1, "how often the balance of one address changes; -1: as often as there are transactions")
	flag.Uint64Var(&past.Seed, "seed", 1, "`number` from which the history follows")
	dir := flag.String("dir", "", "`folder` for blocks and stores, about 7 kB for a transaction; default: a temporary one")
	engine := flag.String("store", "", "postgres: record into a PostgreSQL `server` as well, which is started for it, and read from it and from one that follows it")
	turns := flag.Int("turns", 1, "how often both engines record with -store postgres, in turns; medians are compared")
	kills := flag.Int("kills", 1, "how often the process that records and reads is killed, and started again: in the middle, or at random moments")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the ledger's process to this `file`")
	figures := flag.String("json", "", "write what was measured to this `file`, too, as lines of JSON")
	flag.Parse()
	if past.Busy < 0 {
		past.Busy = past.Txs
	}
	if *engine != "" && *engine != "postgres" {
		log.Fatalf("-store: %q is not postgres", *engine)
	}
	if *kills < 1 {
		log.Fatalf("-kills: %d is less than 1", *kills)
	}
	if *turns < 1 {
		log.Fatalf("-turns: %d is less than 1", *turns)
	}
	o := settings{dir: *dir, profile: *profile, turns: *turns, kills: *kills, postgres: *engine != ""}
	if err := rig.Measure(*figures, func(ctx context.Context, told *rig.Log) error { return run(ctx, past, o, told) }); err != nil {
		log.Fatal(err)
	}
}

func work(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	if t.Role != roleNode { // as the service by default
		debug.SetMemoryLimit(1<<30 - 1<<27)
		debug.SetGCPercent(400)
	}
	switch t.Role {
	case roleNode:
		return runNode(t)
	case roleBlocks, roleLedger:
		return runRecord(t)
	case roleRead:
		return runRead(t)
	}
	return fmt.Errorf("no role %q", t.Role)
}

// settings are what is asked for beside the history.
type settings struct {
	dir, profile string
	turns, kills int
	postgres     bool
}

func run(ctx context.Context, past pastOptions, o settings, figures *rig.Log) (err error) {
	root, err := os.MkdirTemp(o.dir, "quorate-ingest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	fmt.Printf("%s/%s, %d processors, %s, load %s; seed %d, %d transactions\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), rig.Load(), past.Seed, past.Txs)
	begun := time.Now()
	node, err := rig.Start(ctx, taskEnv, task{Role: roleNode, Past: past, Dir: root})
	if err != nil {
		return err
	}
	defer node.Stop()
	var what nodeReady
	if err := node.Read(&what); err != nil {
		return fmt.Errorf("making the history: %w", err)
	}
	fmt.Printf("history made in %.0f s: %d P, %d X and %d C blocks, %d transactions; the busy address' balance changes %d times\n\n",
		time.Since(begun).Seconds(), what.Heights[0], what.Heights[1], what.Heights[2], what.all(), what.Busy)

	b := bench{past: past, node: node, what: what, root: root, log: figures}
	fmt.Println("| recorded | blocks/s | transactions/s | CPU us/transaction | of the node | MB per million transactions | written: rows, and rows again |")
	fmt.Println("|---|---|---|---|---|---|---|")
	if _, err := b.record(ctx, "P-Chain blocks and L1s, Pebble", task{Role: roleBlocks}); err != nil {
		return err
	}
	files, err := b.record(ctx, "all chains and outputs, Pebble", task{Role: roleLedger, Dir: filepath.Join(root, "ledger"), Profile: o.profile})
	if err != nil {
		return err
	}
	var other *postgres
	if o.postgres {
		if other, err = b.postgres(ctx, files, o.turns); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, other.close()) }()
	}
	asleep := watch(ctx)
	probed, restarted, err := b.kills(ctx, o.kills)
	late := asleep()
	if err != nil {
		return err
	}
	fmt.Println("\n| read | p50 ms | p99 ms | worst ms | reads | processor p50 / p99 ms | blocks from disk | exchanges with the server |\n|---|---|---|---|---|---|---|---|")
	var idle readings
	if err := b.once(ctx, task{Role: roleRead, Dir: filepath.Join(root, "ledger")}, &idle); err != nil {
		return err
	}
	if other != nil {
		if err := other.read(ctx); err != nil {
			return err
		}
	}
	for _, so := range []struct {
		name string
		readings
	}{
		{"Pebble, idle", idle}, {"Pebble, recording", probed},
		{"meanwhile", readings{{What: "a process that only sleeps, late by", Summary: late}}},
	} {
		so.print(so.name)
		if err := so.tell(figures, so.name, past.Txs); err != nil {
			return err
		}
	}
	restarted.print()
	fmt.Printf("load at the end %s\n", rig.Load())
	return nil
}

// watch measures by how much this process, which has nothing to do, wakes up late:
// what of the others' waiting is the machine's. It ends when the result is asked for.
func watch(ctx context.Context) (late func() rig.Summary) {
	ctx, stop := context.WithCancel(ctx)
	result := make(chan rig.Summary, 1)
	go func() {
		var all []time.Duration
		for {
			due := time.Now().Add(probePause)
			select {
			case <-ctx.Done():
				result <- rig.Summarize(all)
				return
			case <-time.After(probePause):
				all = append(all, time.Since(due))
			}
		}
	}()
	return func() rig.Summary {
		stop()
		return <-result
	}
}
