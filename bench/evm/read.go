package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/libevm/common"

	"quorate/bench/rig"
	"quorate/handlers"
	api "quorate/handlers/evm"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/cputime"
	"quorate/internal/index/evm"
	"quorate/internal/index/evm/contracts"
	"quorate/internal/store"
)

const (
	// pageSize is the largest page that most operations have.
	pageSize = 100
	// pace is the time between two requests where they are not as many as possible.
	pace = 2 * time.Millisecond
)

// reading is how long an operation took, asked for as often as possible, and at a
// pace.
type reading struct {
	Name         string
	Often, Paced summary
	// Floor is as Often, of a handler that has the same answers at hand, and Alone is
	// the service's work without sockets, one request after the other. Both are nil
	// for reads of the record.
	Floor, Alone *summary
	// First is how long it takes to answer what was not asked for before, as far as it
	// does not wait for a connection.
	First rig.Summary
}

type summary struct {
	rig.Summary

	// Rate is in requests a second.
	Rate float64
	// The rest is of one request: processor time, allocations and their bytes, rounds of
	// garbage collection, and blocks that the store's cache did not have.
	CPU            time.Duration
	Allocs, Bytes  float64
	Rounds, Misses float64
}

// operation is one to be timed.
type operation struct {
	name string
	ask  func(ctx context.Context, rng *rand.Rand) error
	// floor and alone are nil for reads of the record.
	floor, alone func(ctx context.Context, rng *rand.Rand) error
	first        rig.Summary
}

// sample is what operations ask for: addresses as often as they send and receive.
type sample struct {
	wallets, deployers, deployed, collections []common.Address
	standards                                 map[common.Address]chain.Standard
	tip                                       uint64
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// runRead asks while nothing else happens.
func runRead(t task) (err error) {
	ctx := context.Background()
	// The collector as the service sets it.
	debug.SetMemoryLimit(1<<30 - 1<<27)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	rows, err := store.OpenPebble(ctx, store.PebbleOptions{Dir: t.Dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	client, err := t.client()
	if err != nil {
		return err
	}
	defer client.Close()
	from := client.EVM("")
	book := contracts.New(contracts.Options{Node: from, Store: rows, NetworkID: networkID, BlockchainID: t.Node.BlockchainID})
	defer book.Close()
	record := evm.New(rows, networkID, t.Node.BlockchainID, book)
	s, err := draw(ctx, record, book)
	if err != nil {
		return err
	}
	tip, err := record.Tip(ctx)
	if err != nil {
		return err
	}
	chains, err := api.NewChains([]api.Chain{{
		ChainID: t.Node.ChainID, BlockchainID: t.Node.BlockchainID, Primary: true,
		Progress: func() reply.Progress {
			return reply.Progress{Height: tip.Number, Time: time.Unix(int64(tip.Time), 0), CaughtUp: true}
		},
		Index: record, Contracts: book, URIs: book, Node: from,
	}}, false)
	if err != nil {
		return err
	}
	surface, err := handlers.New(handlers.Options{EVM: api.Options{Chains: chains}})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &asker{surface: surface, address: listener.Addr().String(), answers: make(map[string]*answer)}
	operations, err := s.requests(web)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: web, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	defer func() {
		_ = server.Close()
		<-served
	}()
	defer web.close()
	out := json.NewEncoder(os.Stdout)
	for i, o := range append(s.reads(record), operations...) {
		r, err := o.read(ctx, rows, t, i)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// read measures all there is of an operation, the number of which is part of the name
// of its profile.
func (o *operation) read(ctx context.Context, rows store.Store, t task, number int) (r reading, err error) {
	r.Name, r.First = o.name, o.first
	if o.alone != nil {
		end, err := t.profile(fmt.Sprintf("%02d.pprof", number))
		if err != nil {
			return r, err
		}
		alone, err := measure(ctx, rows, o.alone, 1, 0, t.ReadTime)
		end()
		if err != nil {
			return r, err
		}
		r.Alone = &alone
	}
	if r.Often, err = measure(ctx, rows, o.ask, t.Connections, 0, t.ReadTime); err != nil {
		return r, err
	}
	if o.floor != nil {
		floor, err := measure(ctx, rows, o.floor, t.Connections, 0, t.ReadTime)
		if err != nil {
			return r, err
		}
		r.Floor = &floor
	}
	r.Paced, err = measure(ctx, rows, o.ask, t.Connections, pace, t.ReadTime)
	return r, err
}

// profile begins to write a CPU profile into the folder for them, if there is one.
func (t *task) profile(name string) (end func(), err error) {
	if t.Profile == "" {
		return func() {}, nil
	}
	return rig.Profile(filepath.Join(t.Profile, name))
}

// draw finds out from the record what there is to ask for.
func draw(ctx context.Context, record *evm.Index, book *contracts.Book) (*sample, error) {
	tip, err := record.Tip(ctx)
	if err != nil {
		return nil, err
	}
	s := &sample{tip: tip.Number, standards: make(map[common.Address]chain.Standard)}
	var called []common.Address
	q := evm.LatestQuery{Limit: 1000}
	for range 30 {
		page, err := record.Latest(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Transactions {
			tx := &page.Transactions[i]
			s.wallets = append(s.wallets, tx.From)
			switch {
			case tx.To != nil:
				s.wallets = append(s.wallets, tx.Recipient)
				if len(tx.Input) > 0 {
					called = append(called, tx.Recipient)
				}
			case tx.Success:
				s.deployers, s.deployed = append(s.deployers, tx.From), append(s.deployed, tx.Created)
			}
		}
		if q.After = page.Next; q.After == nil {
			break
		}
	}
	slices.SortFunc(called, func(a, b common.Address) int { return a.Cmp(b) })
	called = slices.Compact(called)
	all, err := book.Contracts(ctx, called)
	if err != nil {
		return nil, err
	}
	for i, one := range all {
		if one != nil && (one.Standard == chain.ERC721 || one.Standard == chain.ERC1155) {
			s.collections = append(s.collections, called[i])
			s.standards[called[i]] = one.Standard
		}
	}
	if len(s.wallets) == 0 || len(s.deployed) == 0 || len(s.collections) == 0 {
		return nil, errors.New("the chain is too short: it has no deployments, or no collections of tokens")
	}
	return s, nil
}

// reads are those of the record.
func (s *sample) reads(r *evm.Index) []operation {
	yes, no := true, false
	latest := func(success *bool) func(context.Context, *rand.Rand) error {
		return func(ctx context.Context, _ *rand.Rand) error {
			_, err := r.Latest(ctx, evm.LatestQuery{Success: success, Limit: pageSize})
			return err
		}
	}
	return []operation{
		{name: "record: latest transactions", ask: latest(nil)},
		{name: "record: latest that succeeded", ask: latest(&yes)},
		{name: "record: latest that failed", ask: latest(&no)},
		{name: "record: internal transactions", ask: func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Internals(ctx, evm.WalletQuery{Wallet: pick(rng, s.wallets), Limit: pageSize})
			return err
		}},
		{name: "record: ERC-1155 transfers", ask: func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Transfers(ctx, evm.WalletQuery{Wallet: pick(rng, s.wallets), Limit: pageSize})
			return err
		}},
		{name: "record: ERC-1155 balances", ask: func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Balances(ctx, evm.BalanceQuery{Wallet: pick(rng, s.wallets), Limit: pageSize})
			return err
		}},
		{name: "record: ERC-1155 balances at any block", ask: func(ctx context.Context, rng *rand.Rand) error {
			at := rng.Uint64N(s.tip + 1)
			_, err := r.Balances(ctx, evm.BalanceQuery{Wallet: pick(rng, s.wallets), At: &at, Limit: pageSize})
			return err
		}},
		{name: "record: deployment", ask: func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Deployment(ctx, pick(rng, s.deployed))
			return err
		}},
		{name: "record: deployments", ask: func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Deployments(ctx, evm.DeploymentQuery{Address: pick(rng, s.deployers), Limit: pageSize})
			return err
		}},
		{name: "record: tokens of a collection", ask: func(ctx context.Context, rng *rand.Rand) error {
			c := pick(rng, s.collections)
			_, err := r.Tokens(ctx, evm.TokenQuery{Contract: c, Standard: s.standards[c], Limit: pageSize})
			return err
		}},
		{name: "record: days", ask: func(ctx context.Context, _ *rand.Rand) error {
			_, err := r.Days(ctx, 0, pageSize)
			return err
		}},
	}
}

// measure asks from so many connections: each for the next as soon as it has the one
// before, or, if there is a pace, all together so often. Then requests are due whether
// or not a connection is free, and waiting for one counts.
func measure(ctx context.Context, rows store.Store, ask func(context.Context, *rand.Rand) error, connections int, pace, readTime time.Duration) (summary, error) {
	if _, err := during(ctx, ask, connections, pace, readTime/5); err != nil {
		return summary{}, err
	}
	runtime.GC() // what was there before is nobody's fault
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	spent, misses := cputime.Used(), rows.Stats().CacheMisses
	all, err := during(ctx, ask, connections, pace, readTime)
	if err != nil {
		return summary{}, err
	}
	spent, misses = cputime.Used()-spent, rows.Stats().CacheMisses-misses
	runtime.ReadMemStats(&after)
	n := float64(len(all))
	sum := summary{Summary: rig.Summarize(all)}
	sum.Rate, sum.CPU = n/readTime.Seconds(), spent/time.Duration(len(all))
	sum.Allocs, sum.Bytes = float64(after.Mallocs-before.Mallocs)/n, float64(after.TotalAlloc-before.TotalAlloc)/n
	sum.Rounds, sum.Misses = float64(after.NumGC-before.NumGC)/n, float64(misses)/n
	return sum, nil
}

func during(ctx context.Context, ask func(context.Context, *rand.Rand) error, connections int, pace, long time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration // guarded by mu, as are failed and next
	var failed error
	begun := time.Now()
	next := begun
	// due is when the next request is to be made; false after the last one.
	due := func() (at time.Time, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if pace == 0 {
			at = time.Now()
		} else {
			at, next = next, next.Add(pace)
		}
		return at, at.Sub(begun) < long && failed == nil
	}
	var group sync.WaitGroup
	for i := range connections {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(connections)))
			for {
				at, ok := due()
				if !ok {
					return
				}
				time.Sleep(time.Until(at))
				err := ask(ctx, rng)
				took := time.Since(at)
				mu.Lock()
				all, failed = append(all, took), errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all, failed
}
