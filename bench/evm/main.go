// Command evm measures how fast the service records an EVM chain and how fast it
// answers from what it recorded: a made-up chain, whose Ethereum API a simulated node
// serves over HTTP, goes through the service's own source and pipeline into its own
// store, once with receipts and logs alone and once with the calls inside transactions,
// too. Then the operations of the Data API are asked for, through HTTP. Node, recording
// and reading have a process each, so that processor time can be told apart; time on
// the clock is that of everything together on this machine.
//
//	go -C bench run ./evm -txs 1000000
//
// With -chains the service itself, as it is built, records many chains at a time.
//
//	go -C bench run ./evm -chains 100 -txs 2000
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/bench/rig"
)

// task is what one of our processes is told to do, in its environment.
type task struct {
	// Role is one of the roles below.
	Role string
	Seed uint64
	// Txs are those of a chain, and Chains how many there are for roleMany.
	Txs, Chains int
	Dir         string
	// Node is where the chain is, for all but the node.
	Node nodeReady
	// Connections are how many read at a time.
	Connections int
	// ReadTime is how long an operation is asked for, after a fifth of that to warm up.
	ReadTime time.Duration
	// Profile is where the process writes what it spends processor time on: a file, or
	// for roleRead a folder.
	Profile string
}

const (
	roleNode   = "node"   // is the simulated node
	roleLogs   = "logs"   // records without traces
	roleTraces = "traces" // records with traces
	roleRead   = "read"   // asks for what was recorded
	roleMany   = "many"   // is a simulated network of many chains
	taskEnv    = "QUORATE_BENCH_EVM"
)

// nodeReady is what the simulated node tells when its chain is made.
type nodeReady struct {
	URL          string
	ChainID      uint64
	BlockchainID ids.ID
	Tip          uint64
	Txs          int
}

// recorded is what a process tells that recorded.
type recorded struct {
	Took, CPU time.Duration
	Bytes     int64
}

func main() {
	log.SetFlags(0)
	if text := os.Getenv(taskEnv); text != "" {
		if err := work(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	var t task
	flag.IntVar(&t.Txs, "txs", 1_000_000, "`number` of transactions")
	flag.IntVar(&t.Chains, "chains", 0, "have the whole service record this `number` of chains at a time, each with -txs transactions, after one chain with as many as all, and measure that; nothing else is measured")
	memory := flag.String("memory", "1GiB", "memory_limit of the service, with -chains, as a `size`")
	binary := flag.String("service", "", "`file` of the service, with -chains, built before; default: it is built")
	idle := flag.Duration("idle", 40*time.Second, "`time` for which nothing happens, with -chains, of which it is measured what that costs, after as long")
	flag.Uint64Var(&t.Seed, "seed", 1, "`number` from which the chain follows")
	flag.IntVar(&t.Connections, "connections", 16, "`number` of connections that ask at a time")
	flag.DurationVar(&t.ReadTime, "read", time.Second, "`time` for which each operation is asked for, in each way")
	flag.StringVar(&t.Dir, "dir", "", "`folder` for blocks and stores, about 5 kB for a transaction; default: a temporary one")
	flag.StringVar(&t.Profile, "cpuprofile", "", "write a CPU profile of the process that records with traces to this `file`")
	profiles := flag.String("readprofiles", "", "write a CPU profile of each HTTP operation, asked for without a connection, to this `folder`")
	figures := flag.String("json", "", "write what was measured to this `file`, too, as lines of JSON")
	flag.Parse()
	if err := rig.Measure(*figures, func(ctx context.Context, told *rig.Log) error {
		if t.Chains > 0 {
			return runChains(ctx, t, *binary, *memory, *idle, told)
		}
		return run(ctx, t, *profiles, told)
	}); err != nil {
		log.Fatal(err)
	}
}

func work(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	switch t.Role {
	case roleNode:
		return runNode(t)
	case roleMany:
		return runMany(t)
	case roleLogs, roleTraces:
		return runRecord(t)
	case roleRead:
		return runRead(t)
	}
	return fmt.Errorf("no role %q", t.Role)
}

func run(ctx context.Context, t task, profiles string, figures *rig.Log) (err error) {
	root, err := os.MkdirTemp(t.Dir, "quorate-evm-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	fmt.Printf("%s/%s, %d processors, %s, load %s; seed %d, %d transactions\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), rig.Load(), t.Seed, t.Txs)
	begun := time.Now()
	t.Role, t.Dir = roleNode, root
	node, err := rig.Start(ctx, taskEnv, t)
	if err != nil {
		return err
	}
	defer node.Stop()
	if err := node.Read(&t.Node); err != nil {
		return fmt.Errorf("making the chain: %w", err)
	}
	fmt.Printf("chain made in %.0f s: %d blocks, %d transactions\n\n", time.Since(begun).Seconds(), t.Node.Tip+1, t.Node.Txs)

	fmt.Println("| recorded | transactions/s | CPU us/transaction | of the node | MB per million transactions |")
	fmt.Println("|---|---|---|---|---|")
	profile := t.Profile
	for _, line := range []struct{ name, role string }{
		{"blocks, receipts and logs", roleLogs}, {"the same and traces", roleTraces},
	} {
		t.Role, t.Dir, t.Profile = line.role, filepath.Join(root, line.role), ""
		if line.role == roleTraces {
			t.Profile = profile
		}
		before, err := node.Spent()
		if err != nil {
			return err
		}
		var r recorded
		if err := rig.Once(ctx, taskEnv, t, &r); err != nil {
			return fmt.Errorf("recording %s: %w", line.name, err)
		}
		after, err := node.Spent()
		if err != nil {
			return err
		}
		txs := float64(t.Node.Txs)
		fmt.Printf("| %s | %.0f | %.1f | %.1f | %.0f |\n", line.name, txs/r.Took.Seconds(), float64(r.CPU.Microseconds())/txs,
			float64((after-before).Microseconds())/txs, float64(r.Bytes)/txs)
		if err := figures.Add(map[string]string{"recorded": line.name, "transactions": strconv.Itoa(t.Txs)}, map[string]float64{
			"per_second": txs / r.Took.Seconds(), "cpu_us": float64(r.CPU.Microseconds()) / txs, "mb_per_million": float64(r.Bytes) / txs,
		}); err != nil {
			return err
		}
	}
	t.Role, t.Dir, t.Profile = roleRead, filepath.Join(root, roleTraces), profiles
	c, err := rig.Start(ctx, taskEnv, t)
	if err != nil {
		return err
	}
	defer c.Stop()
	var all []reading
	for {
		var r reading
		if err := c.Read(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		all = append(all, r)
		if err := figures.Add(map[string]string{"read": r.Name, "transactions": strconv.Itoa(t.Txs)}, map[string]float64{
			"per_second": r.Often.Rate, "p50_ms": rig.Milliseconds(r.Often.P50), "p99_ms": rig.Milliseconds(r.Often.P99),
			"cpu_us": float64(r.Often.CPU.Nanoseconds()) / 1e3, "paced_p50_ms": rig.Milliseconds(r.Paced.P50), "paced_p99_ms": rig.Milliseconds(r.Paced.P99),
		}); err != nil {
			return err
		}
	}
	tell(all, t.Connections)
	fmt.Printf("\nall in %.0f s, load at the end %s\n", time.Since(begun).Seconds(), rig.Load())
	return nil
}

// tell prints how long operations took.
func tell(all []reading, connections int) {
	fmt.Printf("\n| operation, %d connections | requests/s | p50 ms | p99 ms | CPU us | rounds of GC/1000 | cache misses | at %.0f requests/s: p50 ms | p99 ms | worst ms |\n|---|---|---|---|---|---|---|---|---|---|\n",
		connections, 1/pace.Seconds())
	for _, r := range all {
		o := r.Often
		fmt.Printf("| %s | %.0f | %.2f | %.2f | %d | %.1f | %.2f | %.2f | %.2f | %.1f |\n", r.Name, o.Rate, rig.Milliseconds(o.P50), rig.Milliseconds(o.P99),
			o.CPU.Microseconds(), 1000*o.Rounds, o.Misses, rig.Milliseconds(r.Paced.P50), rig.Milliseconds(r.Paced.P99), rig.Milliseconds(r.Paced.Worst))
	}
	fmt.Println("\nThe floor is a handler that has the same answers at hand. Alone is the service's work without a connection; the first time\nit is asked for something, one request after the other, it may have to ask the node.")
	fmt.Println("\n| operation | CPU us | of the floor | ratio | p99 ms | of the floor | alone: p50 us | CPU us | allocations | kB | the first time: p50 ms | p99 ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range all {
		if r.Floor == nil || r.Alone == nil {
			continue
		}
		fmt.Printf("| %s | %d | %d | %.1f | %.2f | %.2f | %.0f | %d | %.0f | %.1f | %.2f | %.2f |\n", r.Name, r.Often.CPU.Microseconds(), r.Floor.CPU.Microseconds(),
			float64(r.Often.CPU)/float64(r.Floor.CPU), rig.Milliseconds(r.Often.P99), rig.Milliseconds(r.Floor.P99),
			1000*rig.Milliseconds(r.Alone.P50), r.Alone.CPU.Microseconds(), r.Alone.Allocs, r.Alone.Bytes/1000, rig.Milliseconds(r.First.P50), rig.Milliseconds(r.First.P99))
	}
}
