// Command replicas measures what several replicas of the service carry on one PostgreSQL
// server: one that records has recorded a made-up history, and one, two and three that
// answer the Data API are asked for pages of it, which they read from the server, or from
// one that follows it. Each is a process of its own, as in earnest, and so are the servers
// and the simulated node, so that processor time can be told apart. All of them share this
// machine: where it is what saturates, what more machines would carry is worked out from
// the processor time of a request, and labelled so.
//
//	go -C bench run ./replicas
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
	"strconv"
	"time"

	"quorate/bench/rig"
)

// taskEnv makes a process the simulated node.
const taskEnv = "QUORATE_BENCH_REPLICAS"

// options are what is measured.
type options struct {
	Seed        uint64
	Txs         int
	most        int // replicas
	connections int
	turns       int
	turn        time.Duration
	dir         string
}

func main() {
	log.SetFlags(0)
	if text := os.Getenv(taskEnv); text != "" {
		if err := runNode(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	var o options
	flag.IntVar(&o.Txs, "txs", 50_000, "`number` of transactions")
	flag.Uint64Var(&o.Seed, "seed", 1, "`number` from which the history follows")
	flag.IntVar(&o.most, "replicas", 3, "the greatest `number` of replicas")
	flag.IntVar(&o.connections, "connections", 16, "`number` of connections that ask at a time, over all replicas")
	flag.IntVar(&o.turns, "turns", 5, "how `often` each number of replicas is asked, in turns with the others")
	flag.DurationVar(&o.turn, "for", 3*time.Second, "`time` of a turn")
	flag.StringVar(&o.dir, "dir", "", "`folder` for blocks, logs and data; default: a temporary one")
	figures := flag.String("json", "", "write what was measured to this `file`, too, as lines of JSON")
	flag.Parse()
	if o.most < 1 || o.connections < o.most || o.turns < 1 || o.turn < 100*time.Millisecond {
		log.Fatal("there has to be a replica at least, a connection for each, and a turn of 100ms")
	}
	if err := rig.Measure(*figures, func(ctx context.Context, told *rig.Log) error {
		return run(ctx, o, told)
	}); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options, figures *rig.Log) (err error) {
	root, err := os.MkdirTemp(o.dir, "quorate-replicas-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	fmt.Printf("%s/%s, %d processors, %s, load %s; seed %d, %d transactions, %d connections\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), rig.Load(), o.Seed, o.Txs, o.connections)
	binary, err := rig.Build(ctx, root)
	if err != nil {
		return err
	}
	child, err := rig.Start(ctx, taskEnv, nodeTask{Seed: o.Seed, Txs: o.Txs, Dir: root})
	if err != nil {
		return err
	}
	defer child.Stop()
	var n nodeReady
	if err := child.Read(&n); err != nil {
		return fmt.Errorf("making the history: %w", err)
	}
	server, err := rig.StartPostgres()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	b := &bench{options: o, node: n, root: root, binary: binary, server: server, log: figures}
	defer b.stop()
	begun := time.Now()
	recorder, err := b.start("ingest", "--role", "ingest")
	if err != nil {
		return err
	}
	if err := recorder.recorded(ctx, n.Heights); err != nil {
		return err
	}
	size, err := rig.Size(filepath.Join(server.Dir(), "base"))
	if err != nil {
		return err
	}
	fmt.Printf("recorded by a replica of the role ingest in %.0f s, with %.0f s of its processor time and %.0f s of the server's; %.0f MB\n",
		time.Since(begun).Seconds(), recorder.spent().Seconds(), rig.CPUTime(server.PID()).Seconds(), float64(size)/1e6)
	if b.standby, err = server.Standby(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.standby.Close()) }()
	if err := b.server.Settle(ctx); err != nil { // what recording left to write
		return err
	}
	for i := range o.most {
		if err := b.add(ctx, i, fromServer); err != nil {
			return err
		}
		if err := b.add(ctx, i, fromStandby, "--store-read", b.standby.URL()); err != nil {
			return err
		}
	}
	lines, err := b.measure(ctx)
	if err != nil {
		return err
	}
	if err := b.tell(lines); err != nil {
		return err
	}
	fmt.Printf("\nload at the end %s\n", rig.Load())
	return nil
}

// tell prints what was measured, and what follows from it.
func (b *bench) tell(lines []*line) error {
	fmt.Println("\n| replicas | pages read from | requests/s | p50 ms | p99 ms | CPU us/request: service | server | standby | of the machine's processors: service | servers | load | rest, and idle | requests/CPU second |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, l := range lines {
		fmt.Printf("| %d | %s | %.0f | %.2f | %.2f | %.0f | %.0f | %.0f | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f |\n",
			l.replicas, l.from, l.rate(), rig.Milliseconds(rig.Quantile(l.took, 0.5)), rig.Milliseconds(rig.Quantile(l.took, 0.99)),
			l.each(l.service), l.each(l.server), l.each(l.standby),
			l.share(l.service), l.share(l.server+l.standby), l.share(l.load), 100-l.share(l.service+l.server+l.standby+l.load), l.perCPU())
		if err := b.log.Add(map[string]string{
			"replicas": strconv.Itoa(l.replicas), "reads": l.from, "connections": strconv.Itoa(b.connections), "transactions": strconv.Itoa(b.Txs),
		}, map[string]float64{
			"requests_per_second": l.rate(), "p50_ms": rig.Milliseconds(rig.Quantile(l.took, 0.5)), "p99_ms": rig.Milliseconds(rig.Quantile(l.took, 0.99)),
			"cpu_us": l.each(l.service), "server_cpu_us": l.each(l.server), "standby_cpu_us": l.each(l.standby),
			"requests_per_cpu_second": l.perCPU(), "service_percent": l.share(l.service), "servers_percent": l.share(l.server + l.standby), "load_percent": l.share(l.load),
		}); err != nil {
			return err
		}
	}
	fmt.Println("\n| page, of one replica that reads from the server | p50 ms | p99 ms |\n|---|---|---|")
	for i, kind := range kinds {
		of := lines[0].byKind[i]
		fmt.Printf("| %s | %.2f | %.2f |\n", kind.name, rig.Milliseconds(rig.Quantile(of, 0.5)), rig.Milliseconds(rig.Quantile(of, 0.99)))
		if err := b.log.Add(map[string]string{"page": kind.name, "reads": lines[0].from, "transactions": strconv.Itoa(b.Txs)}, map[string]float64{
			"p50_ms": rig.Milliseconds(rig.Quantile(of, 0.5)), "p99_ms": rig.Milliseconds(rig.Quantile(of, 0.99)),
		}); err != nil {
			return err
		}
	}
	for _, l := range lines {
		if l.replicas == b.most {
			l.judge()
		}
	}
	for _, l := range lines {
		if l.replicas == 1 {
			l.project()
		}
	}
	return nil
}

// judge says what saturates.
func (l *line) judge() {
	used := l.share(l.service + l.server + l.standby + l.load)
	verdict := "it was not what saturates, or busy with something else"
	if used > 85 {
		verdict = "it is what saturates, and more replicas on it carry no more"
	}
	fmt.Printf("\n%d replicas, pages read from %s: service, servers and load take %.0f %% of this machine: %s.\n", l.replicas, l.from, used, verdict)
}

// projected is how many processors a machine has for which rates are worked out, with
// nothing else on it.
const projected = 2

// project works out what replicas and servers on machines of their own would carry, were
// a request to cost there what it does here with one replica.
func (l *line) project() {
	from, cost := "servers", l.each(l.server)
	if l.from == fromStandby {
		from, cost = "standbys", l.each(l.standby)
	}
	const second = projected * 1e6 // microseconds of processor time
	replica, server := second/l.each(l.service), second/cost
	fmt.Printf("\nWorked out, not measured, of pages read from %s, on machines of %d processors with nothing else on them: a replica carries\n", l.from, projected)
	fmt.Printf("%d s / %.0f us = %.0f requests/s, what it reads from %d s / %.0f us = %.0f; n replicas and m %s min(n * %.0f, m * %.0f):\n\n",
		projected, l.each(l.service), replica, projected, cost, server, from, replica, server)
	most := 1
	if l.from == fromStandby {
		most = 3
	}
	for m := range most {
		fmt.Printf("| %d %s |", m+1, from)
		for _, n := range []float64{1, 2, 3, 5, 10} {
			fmt.Printf(" %.0f replicas: %.0f |", n, min(n*replica, float64(m+1)*server))
		}
		fmt.Println()
	}
}

// nodeTask is what the simulated node is told.
type nodeTask struct {
	Seed uint64
	Txs  int
	Dir  string
}

// nodeReady is what it tells when its history is made.
type nodeReady struct {
	URL     string
	Heights map[string]uint64
}

func runNode(text string) error {
	var t nodeTask
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	return serveNode(t)
}
