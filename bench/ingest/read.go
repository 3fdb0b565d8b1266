package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/chain/genesis"
	"quorate/index/ledger"
	"quorate/simnet/history"
	"quorate/store"
)

const (
	// pageSize is the largest of the Data API.
	pageSize = 100
	// idleReads of each kind are measured while nothing else happens, or as many as
	// there is idleTime for.
	idleReads = 3000
	idleTime  = 20 * time.Second
	// probePause is the time between two reads while recording. Reads are due whether
	// or not the one before is done, and waiting counts.
	probePause = 10 * time.Millisecond
)

// readings are how long reads took. Late is by how much those began after they were
// due, which counts as a part of them.
type readings struct{ Page, All, Busy, Now, Late summary }

func (r readings) print(name string) {
	for _, line := range []struct {
		what string
		summary
	}{
		{"page of 100 unspent outputs", r.Page}, {"page of 100 outputs, spent ones too", r.All},
		{"balance of the busy address at a past second", r.Busy}, {"balance of some address now", r.Now}, {"of which is waiting for a processor", r.Late},
	} {
		if line.N == 0 {
			continue
		}
		fmt.Printf("| %s: %s | %.2f | %.2f | %.1f | %d |\n", name, line.what,
			milliseconds(line.P50), milliseconds(line.P99), milliseconds(line.Worst), line.N)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type summary struct {
	P50, P99, Worst time.Duration
	N               int
}

func summarize(all []time.Duration) summary {
	if len(all) == 0 {
		return summary{}
	}
	all = slices.Sorted(slices.Values(all))
	at := func(q float64) time.Duration { return all[min(int(q*float64(len(all))), len(all)-1)] }
	return summary{P50: at(0.5), P99: at(0.99), Worst: all[len(all)-1], N: len(all)}
}

// reader does reads as the Data API would.
type reader struct {
	record    *ledger.Record
	rng       *rand.Rand
	zipf      *rand.Zipf
	chainIDs  [2]ids.ID
	busy      ids.ShortID
	addresses []ids.ShortID
	from      time.Time
}

func newReader(p pastOptions, g *genesis.Genesis, v ledger.Viewer) (*reader, error) {
	busy, others, made, err := addressesOf(p)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(p.Seed, 2))
	return &reader{
		record: ledger.New(v, made.NetworkID()), rng: rng, zipf: rand.NewZipf(rng, 1.1, 8, uint64(len(others)-1)),
		chainIDs: [2]ids.ID{made.ChainID(history.P), made.ChainID(history.X)}, busy: busy, addresses: others, from: g.Time,
	}, nil
}

func (r *reader) address() ids.ShortID { return r.addresses[r.zipf.Uint64()] }

// page reads the newest outputs of an address: a popular one as often as it is
// popular, on one of two chains, and sometimes the busy one.
func (r *reader) page(ctx context.Context, spent bool) error {
	q := ledger.OutputQuery{ChainID: r.chainIDs[r.rng.IntN(2)], Addresses: []ids.ShortID{r.address()}, IncludeSpent: spent, Limit: pageSize}
	if r.rng.IntN(10) == 0 {
		q.ChainID, q.Addresses[0] = r.chainIDs[0], r.busy
	}
	_, err := r.record.UTXOs(ctx, q)
	return err
}

// past reads a balance of the busy address at any second so far.
func (r *reader) past(ctx context.Context, tip time.Time) error {
	at := r.from.Add(time.Duration(r.rng.Int64N(max(int64(tip.Sub(r.from)), 1)))).Truncate(time.Second)
	_, _, err := r.record.Balances(ctx, r.chainIDs[0], []ids.ShortID{r.busy}, at)
	return err
}

func (r *reader) now(ctx context.Context) error {
	_, _, err := r.record.Balances(ctx, r.chainIDs[r.rng.IntN(2)], []ids.ShortID{r.address()}, time.Time{})
	return err
}

// runRead reads while nothing else happens.
func runRead(t task) error {
	ctx := context.Background()
	rows, err := store.OpenPebble(ctx, store.PebbleOptions{Dir: t.Dir})
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	client, g, _, err := begin(ctx, t.URL)
	if err != nil {
		return err
	}
	defer client.Close()
	r, err := newReader(t.Past, g, rows)
	if err != nil {
		return err
	}
	_, tip, err := r.record.Tip(ctx, r.chainIDs[0])
	if err != nil {
		return err
	}
	var result readings
	for _, kind := range []struct {
		to   *summary
		read func() error
	}{
		{&result.Page, func() error { return r.page(ctx, false) }},
		{&result.All, func() error { return r.page(ctx, true) }},
		{&result.Busy, func() error { return r.past(ctx, tip) }},
		{&result.Now, func() error { return r.now(ctx) }},
	} {
		if *kind.to, err = measure(kind.read); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// measure times reads, after some to warm up.
func measure(read func() error) (summary, error) {
	var all []time.Duration
	first := time.Now()
	for i := range idleReads + idleReads/5 {
		begun := time.Now()
		if begun.Sub(first) > idleTime && len(all) > 0 {
			break
		}
		if err := read(); err != nil {
			return summary{}, err
		}
		if i >= idleReads/5 {
			all = append(all, time.Since(begun))
		}
	}
	return summarize(all), nil
}

// prober reads while blocks are recorded.
type prober struct {
	*reader
	mu               sync.Mutex
	pages, all, past []time.Duration // guarded by mu
	late             []time.Duration // guarded by mu
	failed           error           // guarded by mu
}

func newProber(p pastOptions, g *genesis.Genesis, v ledger.Viewer) (*prober, error) {
	r, err := newReader(p, g, v)
	return &prober{reader: r}, err
}

// first does a read of each kind; an error says that nothing is recorded yet.
func (p *prober) first(ctx context.Context) error {
	if err := p.page(ctx, true); err != nil {
		return err
	}
	return p.reader.past(ctx, p.from.Add(time.Hour))
}

func (p *prober) height(ctx context.Context) uint64 {
	height, _, err := p.record.Tip(ctx, p.chainIDs[0])
	if err != nil {
		return 0
	}
	return height
}

// run reads until ctx ends.
func (p *prober) run(ctx context.Context) {
	ticker := time.NewTicker(probePause)
	defer ticker.Stop()
	next := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		next = next.Add(probePause)
		if wait := time.Until(next); wait > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
		late := time.Since(next)
		_, tip, err := p.record.Tip(ctx, p.chainIDs[0])
		if err != nil {
			continue // nothing is recorded yet
		}
		to := &p.pages
		switch n % 3 {
		case 0:
			err = p.page(ctx, false)
		case 1:
			to, err = &p.all, p.page(ctx, true)
		case 2:
			to, err = &p.past, p.reader.past(ctx, tip)
		}
		took := time.Since(next)
		p.mu.Lock()
		if err == nil {
			*to = append(*to, took)
			p.late = append(p.late, late)
		} else if ctx.Err() == nil {
			p.failed = err
		}
		p.mu.Unlock()
	}
}

// readings so far; the error is that of a read that failed.
func (p *prober) readings() (readings, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return readings{}, fmt.Errorf("reading while recording: %w", p.failed)
	}
	return readings{Page: summarize(p.pages), All: summarize(p.all), Busy: summarize(p.past), Late: summarize(p.late)}, nil
}
