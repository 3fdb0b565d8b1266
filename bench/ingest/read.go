package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/bench/rig"
	"quorate/internal/chain/genesis"
	"quorate/internal/index/ledger"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
)

const (
	// pageSize is the largest of the Data API.
	pageSize = 100
	// idleReads of each kind are measured while nothing else happens, or as many as
	// there is idleTime for.
	idleReads = 3000
	idleTime  = 20 * time.Second
	// probePause is the time between two reads while recording, idlePause while nothing
	// else happens.
	probePause = 10 * time.Millisecond
	idlePause  = time.Millisecond
	// connections is how many reads may be under way.
	connections = 16
)

// readings are how long reads took, by what was read.
type readings []reading

type reading struct {
	What string
	rig.Summary
	// Own is the processor time of the thread that reads, which waits for nobody, Blocks
	// how many blocks a read does not find in the store's cache, and Exchanges how often
	// it waits for a server; zero if they were not measured.
	Own               rig.Summary
	Blocks, Exchanges float64
}

func (r reading) processor() string {
	if r.Own.N == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f / %.2f", rig.Milliseconds(r.Own.P50), rig.Milliseconds(r.Own.P99))
}

func (r readings) print(name string) {
	for _, one := range r {
		if one.N > 0 {
			fmt.Printf("| %s: %s | %.2f | %.2f | %.1f | %d | %s | %.1f | %.1f |\n", name, one.What,
				rig.Milliseconds(one.P50), rig.Milliseconds(one.P99), rig.Milliseconds(one.Worst), one.N, one.processor(), one.Blocks, one.Exchanges)
		}
	}
}

// tell adds readings to the figures.
func (r readings) tell(figures *rig.Log, name string, txs int) error {
	for _, one := range r {
		if one.N == 0 || one.What == whatLate { // of several readings
			continue
		}
		if err := figures.Add(map[string]string{"while": name, "read": one.What, "transactions": strconv.Itoa(txs)}, map[string]float64{
			"p50_ms": rig.Milliseconds(one.P50), "p99_ms": rig.Milliseconds(one.P99),
		}); err != nil {
			return err
		}
	}
	return nil
}

// reader does reads as the Data API does. It belongs to one goroutine.
type reader struct {
	record    *ledger.Index
	rng       *rand.Rand
	zipf      *rand.Zipf
	chainIDs  [2]ids.ID
	busy      ids.ShortID
	addresses []ids.ShortID
	from      time.Time
	surface   *surface
}

// kind is a kind of read.
type kind struct {
	what string
	read func(ctx context.Context, r *reader) error
}

// kinds are read while nothing else happens, the first five of them while blocks are
// recorded.
var kinds = [...]kind{
	{whatPage, func(ctx context.Context, r *reader) error { return r.page(ctx, ledger.OutputQuery{}) }},
	{whatAll, func(ctx context.Context, r *reader) error { return r.page(ctx, ledger.OutputQuery{IncludeSpent: true}) }},
	{whatPast, func(ctx context.Context, r *reader) error { return r.past(ctx) }},
	{"page of 100 unspent outputs through HTTP", func(ctx context.Context, r *reader) error { return r.surface.page(ctx, r) }},
	{"nothing through HTTP", func(ctx context.Context, r *reader) error { return r.surface.get(ctx, nothing) }},
	{"page of 100 by amount, spent ones too", func(ctx context.Context, r *reader) error {
		return r.page(ctx, ledger.OutputQuery{IncludeSpent: true, ByAmount: true})
	}},
	{whatNow, func(ctx context.Context, r *reader) error { return r.now(ctx) }},
}

const (
	whatPage = "page of 100 unspent outputs"
	whatAll  = "page of 100 outputs, spent ones too"
	whatPast = "balance of the busy address at a past second"
	whatNow  = "balance of some address now"
	whatLate = "of which before reading began"
	probed   = 5 // kinds
	// whatFloor is what no read of a server can be faster than.
	whatFloor = "an exchange with the server about nothing"
)

// newReaders makes readers that share nothing but the surface.
func newReaders(n int, p pastOptions, g *genesis.Genesis, v store.Viewer) ([]*reader, error) {
	busy, others, made, err := addressesOf(p)
	if err != nil {
		return nil, err
	}
	record := ledger.New(v, made.NetworkID())
	shown, err := newSurface(g, record)
	if err != nil {
		return nil, err
	}
	readers := make([]*reader, n)
	for i := range readers {
		rng := rand.New(rand.NewPCG(p.Seed, uint64(2+i)))
		readers[i] = &reader{
			record: record, rng: rng, zipf: rand.NewZipf(rng, 1.1, 8, uint64(len(others)-1)),
			chainIDs: [2]ids.ID{made.ChainID(history.P), made.ChainID(history.X)}, busy: busy, addresses: others, from: g.Time, surface: shown,
		}
	}
	return readers, nil
}

// owner is an address as often as it is popular, on one of two chains, and sometimes
// the busy one.
func (r *reader) owner() (chain int, address ids.ShortID) {
	if chain = r.rng.IntN(2); r.rng.IntN(10) == 0 {
		return 0, r.busy
	}
	return chain, r.addresses[r.zipf.Uint64()]
}

// page reads the first outputs of an address.
func (r *reader) page(ctx context.Context, q ledger.OutputQuery) error {
	chain, address := r.owner()
	q.ChainID, q.Addresses, q.Limit = r.chainIDs[chain], []ids.ShortID{address}, pageSize
	_, err := r.record.UTXOs(ctx, q)
	return err
}

// past reads a balance of the busy address at any second so far.
func (r *reader) past(ctx context.Context) error {
	_, tip, err := r.record.Tip(ctx, r.chainIDs[0])
	if err != nil {
		return err
	}
	at := r.from.Add(time.Duration(r.rng.Int64N(max(int64(tip.Sub(r.from)), 1)))).Truncate(time.Second)
	_, _, err = r.record.Balances(ctx, r.chainIDs[0], []ids.ShortID{r.busy}, at)
	return err
}

func (r *reader) now(ctx context.Context) error {
	chain, address := r.owner()
	_, _, err := r.record.Balances(ctx, r.chainIDs[chain], []ids.ShortID{address}, time.Time{})
	return err
}

// recorded says whether something of both chains is.
func (r *reader) recorded(ctx context.Context) bool {
	for _, chainID := range r.chainIDs {
		if _, _, err := r.record.Tip(ctx, chainID); err != nil {
			return false
		}
	}
	return true
}

// runRead reads while nothing else happens.
func runRead(t task) error {
	ctx := context.Background()
	rows, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	views := store.Viewer(rows)
	if s, ok := rows.(*store.Postgres); ok && t.Standby != "" {
		standbys, err := store.OpenStandbys(ctx, s, store.StandbyOptions{URLs: []string{t.Standby}})
		if err != nil {
			return err
		}
		defer func() { _ = standbys.Close() }()
		if !standbys.Stats()[0].Used {
			return fmt.Errorf("the server that follows is not read from: %+v", standbys.Stats()[0])
		}
		views = standbys
	}
	client, g, _, err := begin(ctx, t.URL)
	if err != nil {
		return err
	}
	defer client.Close()
	readers, err := newReaders(connections, t.Past, g, views)
	if err != nil {
		return err
	}
	defer readers[0].surface.close()
	rig.Calm(rows) // opening it may have begun something
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var result readings
	if server, ok := rows.(*store.Postgres); ok {
		one := reading{What: whatFloor, Exchanges: 1}
		if one.Summary, one.Own, err = measure(func() error { return server.Ping(ctx) }); err != nil {
			return err
		}
		result = append(result, one)
	}
	for _, k := range kinds {
		one := reading{What: k.what}
		before, reads := rows.Stats(), 0
		if one.Summary, one.Own, err = measure(func() error { reads++; return k.read(ctx, readers[0]) }); err != nil {
			return fmt.Errorf("%s: %w", k.what, err)
		}
		after := rows.Stats()
		one.Blocks = float64(after.CacheMisses-before.CacheMisses) / float64(reads)
		one.Exchanges = float64(after.Exchanges-before.Exchanges) / float64(reads)
		result = append(result, one)
	}
	for _, k := range []kind{kinds[0], kinds[3]} {
		p := &prober{readers: readers, kinds: []kind{k}, every: idlePause}
		within, cancel := context.WithTimeout(ctx, idleReads*idlePause)
		p.run(within)
		cancel()
		so, err := p.readings()
		if err != nil {
			return err
		}
		so[0].What += fmt.Sprintf(", %d connections, %.0f/s", connections, 1/idlePause.Seconds())
		result = append(result, so...)
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// measure times reads, after some to warm up.
func measure(read func() error) (took, own rig.Summary, err error) {
	var all, spent []time.Duration
	first := time.Now()
	for i := range idleReads + idleReads/5 {
		begun := time.Now()
		if begun.Sub(first) > idleTime && len(all) > 0 {
			break
		}
		before := threadCPU()
		if err := read(); err != nil {
			return rig.Summary{}, rig.Summary{}, err
		}
		if i >= idleReads/5 {
			all = append(all, time.Since(begun))
			spent = append(spent, threadCPU()-before)
		}
	}
	return rig.Summarize(all), rig.Summarize(spent), nil
}

// threadCPU is the processor time of this thread. Getrusage counts it in ticks of the
// system's clock, which reads are much shorter than.
func threadCPU() time.Duration {
	const ofThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var spent syscall.Timespec
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, ofThread, uintptr(unsafe.Pointer(&spent)), 0)
	return time.Duration(spent.Nano())
}

// prober has reads fall due at fixed times, one kind after the other, whether or not
// those before are done: waiting for one of the readers counts, and so does waiting
// for a processor.
type prober struct {
	readers []*reader
	kinds   []kind
	every   time.Duration

	mu     sync.Mutex
	took   [len(kinds)][]time.Duration // guarded by mu
	late   []time.Duration             // guarded by mu
	failed error                       // guarded by mu
}

// run reads until ctx ends.
func (p *prober) run(ctx context.Context) {
	begun := time.Now()
	var due atomic.Int64
	var running sync.WaitGroup
	for _, r := range p.readers {
		running.Go(func() {
			for {
				n := due.Add(1)
				at := begun.Add(time.Duration(n) * p.every)
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(at)):
				}
				p.read(ctx, r, int(n)%len(p.kinds), at)
			}
		})
	}
	running.Wait()
}

func (p *prober) read(ctx context.Context, r *reader, kind int, due time.Time) {
	late := time.Since(due)
	err := p.kinds[kind].read(ctx, r)
	took := time.Since(due)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.took[kind] = append(p.took[kind], took)
		p.late = append(p.late, late)
	case ctx.Err() == nil:
		p.failed = fmt.Errorf("%s: %w", p.kinds[kind].what, err)
	}
}

// readings so far; the error is that of a read that failed.
func (p *prober) readings() (readings, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return nil, p.failed
	}
	var r readings
	for i, k := range p.kinds {
		r = append(r, reading{What: k.what, Summary: rig.Summarize(p.took[i])})
	}
	return append(r, reading{What: whatLate, Summary: rig.Summarize(p.late)}), nil
}
