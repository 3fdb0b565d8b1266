package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"quorate/bench/rig"
	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/cputime"
	"quorate/internal/index"
	"quorate/internal/index/l1"
	"quorate/internal/index/ledger"
	"quorate/internal/index/primary"
	"quorate/internal/node"
	"quorate/internal/store"
)

// progress is what a process tells again and again that records and reads.
type progress struct {
	// Served says that reads were answered before anything was recorded anew, and
	// Starting what that took.
	Served   bool
	Starting starting
	// Height is the P-Chain's.
	Height   uint64
	Txs      int
	Done     bool
	Readings readings
	// Took and CPU are told with Done.
	Took, CPU time.Duration
}

// starting is what a process took until it served, part by part.
type starting struct {
	// Store is opening the store, Node asking the node what there is, and Reads the first
	// ones, with what they need.
	Store, Node, Reads time.Duration
}

// tips are how far chains are on the node.
type tips map[string]uint64

// begin finds out about the node what the service does, too.
func begin(ctx context.Context, url string) (client *node.Client, g *genesis.Genesis, t tips, err error) {
	client, err = node.New(node.Options{Endpoints: []string{url}, Timeout: 30 * time.Second})
	if err != nil {
		return nil, nil, nil, err
	}
	networkID, err := client.NetworkID(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	b, err := client.BlockByHeight(ctx, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	first, err := pchain.ParseBlock(b)
	if err != nil {
		return nil, nil, nil, err
	}
	if g, err = genesis.Of(networkID, first.ID); err != nil {
		return nil, nil, nil, err
	}
	t = make(tips)
	if t["P"], err = client.Height(ctx); err != nil {
		return nil, nil, nil, err
	}
	if t["X"], err = client.XChainHeight(ctx); err != nil {
		return nil, nil, nil, err
	}
	t["C"], err = client.EVMHeight(ctx, node.CChainRPC)
	return client, g, t, err
}

// runRecord records until all is there.
func runRecord(t task) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop, err := rig.Profile(t.Profile)
	if err != nil {
		return err
	}
	defer stop()
	var started starting
	since := time.Now()
	rows, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	started.Store, since = time.Since(since), time.Now()
	client, g, to, err := begin(ctx, t.URL)
	if err != nil {
		return err
	}
	defer client.Close()
	started.Node, since = time.Since(since), time.Now()
	o := primary.Options{NetworkID: g.NetworkID, Node: client, Store: rows, Projections: []index.Projection[*pchain.Block]{l1.NewProjection(g.NetworkID)}}
	if t.Role == roleLedger {
		o.Genesis = g
	} else {
		delete(to, "X")
		delete(to, "C")
	}
	chains, err := primary.New(o)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	transactions := t.TxsOf[0]
	if t.Role == roleLedger {
		transactions += t.TxsOf[1] + t.TxsOf[2]
	}
	share := float64(transactions) / float64(sum(to))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var probe *prober
	if t.Probe {
		var first *reader
		if probe, first, err = startProbe(ctx, t, g, rows, started, since, out); err != nil {
			return err
		}
		defer first.surface.close()
		running.Go(func() {
			for !first.recorded(ctx) && ctx.Err() == nil {
				time.Sleep(probePause)
			}
			probe.run(ctx)
		})
	}
	begun, spent := time.Now(), cputime.Used()
	running.Go(func() {
		if err := chains.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			cancel()
		}
	})
	blocks, err := await(ctx, to, chains.Status, func(at tips) error {
		if !t.Probe {
			return nil
		}
		so, err := probe.readings()
		if err != nil {
			return err
		}
		return out.Encode(progress{Height: at["P"], Txs: int(share * float64(sum(at))), Readings: so})
	})
	if err != nil {
		return err
	}
	r := recorded{Blocks: blocks, Txs: transactions, Took: time.Since(begun), CPU: cputime.Used() - spent, Done: true}
	if t.Probe {
		so, err := probe.readings()
		if err != nil {
			return err
		}
		return out.Encode(progress{Height: to["P"], Txs: transactions, Done: true, Readings: so, Took: r.Took, CPU: r.CPU})
	}
	cancel()
	running.Wait()
	if o.Genesis != nil {
		if err := ledger.NewMatcher(rows, g.NetworkID, nil).Settle(context.Background()); err != nil {
			return err
		}
		r.Took, r.CPU = time.Since(begun), cputime.Used()-spent
	}
	if err := r.measure(t, rows); err != nil {
		return err
	}
	return out.Encode(r)
}

// startProbe makes a prober and its first reader. What was recorded before a kill is
// served, and told, before anything else.
func startProbe(ctx context.Context, t task, g *genesis.Genesis, rows store.Store, started starting, since time.Time, out *json.Encoder) (*prober, *reader, error) {
	readers, err := newReaders(connections, t.Past, g, rows)
	if err != nil {
		return nil, nil, err
	}
	first := readers[0]
	probe := &prober{readers: readers, kinds: kinds[:probed], every: probePause}
	if !first.recorded(ctx) {
		return probe, first, nil
	}
	height, err := serveFirst(ctx, first)
	started.Reads = time.Since(since)
	if err == nil {
		err = out.Encode(progress{Served: true, Height: height, Starting: started})
	}
	if err != nil {
		first.surface.close()
		return nil, nil, err
	}
	return probe, first, nil
}

// measure waits until the store is calm and fills in what it wrote and holds.
func (r *recorded) measure(t task, rows store.Store) (err error) {
	rig.Calm(rows)
	stats := rows.Stats()
	r.Flushed, r.Compacted, r.Rows = stats.FlushedBytes, stats.CompactedBytes, stats.Rows
	if t.Store == "" {
		r.Bytes, err = rig.Size(t.Dir)
	}
	return err
}

// open opens the store as the service does, with the memory that it takes by default.
func (t task) open(ctx context.Context) (store.Store, error) {
	if t.Store != "" {
		return store.OpenPostgres(ctx, store.PostgresOptions{URL: t.Store})
	}
	return store.OpenPebble(ctx, store.PebbleOptions{Dir: t.Dir})
}

// serveFirst does the reads that are probed, once, and tells how far the P-Chain is.
func serveFirst(ctx context.Context, r *reader) (height uint64, err error) {
	for _, k := range kinds[:probed] {
		if err := k.read(ctx, r); err != nil {
			return 0, err
		}
	}
	height, _, err = r.record.Tip(ctx, r.chainIDs[0])
	return height, err
}

func sum(t tips) (n uint64) {
	for _, height := range t {
		n += height
	}
	return n
}

// await waits until all chains are recorded, and tells meanwhile how far they are.
func await(ctx context.Context, to tips, status func() map[string]index.Status, tell func(tips) error) (blocks int, err error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for rounds := 0; ; rounds++ {
		at, done := make(tips), true
		for chain, s := range status() {
			if s.State == index.Stopped {
				return 0, fmt.Errorf("chain %s at %d: %w", chain, s.Next, s.Err)
			}
			at[chain] = s.Next
			done = done && s.Next > to[chain]
		}
		if done {
			return int(sum(at)), nil
		}
		if rounds%10 == 0 {
			if err := tell(at); err != nil {
				return 0, err
			}
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-ticker.C:
		}
	}
}
