package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/libevm/common"

	chain "quorate/chain/evm"
	"quorate/handlers"
	api "quorate/handlers/evm"
	"quorate/handlers/reply"
	"quorate/index/evm"
	"quorate/index/evm/contracts"
	"quorate/store"
)

const (
	// pageSize is the largest page that most operations have.
	pageSize = 100
	// readTime is how long an operation is asked for, after a fifth of that to warm up.
	readTime = time.Second
	// pace is the time between two requests where they are not as many as possible.
	pace = 2 * time.Millisecond
)

// reading is how long an operation took, asked for as often as possible, and at a
// pace.
type reading struct {
	Name         string
	Often, Paced summary
}

type summary struct {
	P50, P99, Worst time.Duration
	// Rate is in requests a second, CPU the processor time of one.
	Rate float64
	CPU  time.Duration
}

// operation is one to be timed.
type operation struct {
	name string
	ask  func(ctx context.Context, rng *rand.Rand) error
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
		Record: record, Contracts: book, URIs: book, Node: from,
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
	server := &http.Server{Handler: surface, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	defer func() {
		_ = server.Close()
		<-served
	}()
	web := &asker{
		base:   "http://" + listener.Addr().String(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: t.Connections}},
	}
	out := json.NewEncoder(os.Stdout)
	for _, o := range append(s.reads(record), s.requests(web)...) {
		r := reading{Name: o.name}
		if r.Often, err = o.measure(ctx, t.Connections, 0); err == nil {
			r.Paced, err = o.measure(ctx, t.Connections, pace)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// draw finds out from the record what there is to ask for.
func draw(ctx context.Context, record *evm.Record, book *contracts.Book) (*sample, error) {
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
func (s *sample) reads(r *evm.Record) []operation {
	yes, no := true, false
	latest := func(success *bool) func(context.Context, *rand.Rand) error {
		return func(ctx context.Context, _ *rand.Rand) error {
			_, err := r.Latest(ctx, evm.LatestQuery{Success: success, Limit: pageSize})
			return err
		}
	}
	return []operation{
		{"record: latest transactions", latest(nil)},
		{"record: latest that succeeded", latest(&yes)},
		{"record: latest that failed", latest(&no)},
		{"record: internal transactions", func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Internals(ctx, evm.WalletQuery{Wallet: pick(rng, s.wallets), Limit: pageSize})
			return err
		}},
		{"record: ERC-1155 transfers", func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Transfers(ctx, evm.WalletQuery{Wallet: pick(rng, s.wallets), Limit: pageSize})
			return err
		}},
		{"record: ERC-1155 balances", func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Balances(ctx, evm.BalanceQuery{Wallet: pick(rng, s.wallets), Limit: pageSize})
			return err
		}},
		{"record: ERC-1155 balances at any block", func(ctx context.Context, rng *rand.Rand) error {
			at := rng.Uint64N(s.tip + 1)
			_, err := r.Balances(ctx, evm.BalanceQuery{Wallet: pick(rng, s.wallets), At: &at, Limit: pageSize})
			return err
		}},
		{"record: deployment", func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Deployment(ctx, pick(rng, s.deployed))
			return err
		}},
		{"record: deployments", func(ctx context.Context, rng *rand.Rand) error {
			_, err := r.Deployments(ctx, evm.DeploymentQuery{Address: pick(rng, s.deployers), Limit: pageSize})
			return err
		}},
		{"record: tokens of a collection", func(ctx context.Context, rng *rand.Rand) error {
			c := pick(rng, s.collections)
			_, err := r.Tokens(ctx, evm.TokenQuery{Contract: c, Standard: s.standards[c], Limit: pageSize})
			return err
		}},
		{"record: days", func(ctx context.Context, _ *rand.Rand) error {
			_, err := r.Days(ctx, 0, pageSize)
			return err
		}},
	}
}

// asker asks over HTTP.
type asker struct {
	base   string
	client *http.Client
}

func (a *asker) get(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.300s", path, response.Status, body)
	}
	return nil
}

// requests are those of the Data API and the Metrics API.
func (s *sample) requests(a *asker) []operation {
	const base = "/v1/chains/c-chain"
	of := func(name, path string, from []common.Address) operation {
		return operation{"HTTP: " + name, func(ctx context.Context, rng *rand.Rand) error {
			return a.get(ctx, fmt.Sprintf(base+path, pick(rng, from)))
		}}
	}
	return []operation{
		{"HTTP: latest transactions", func(ctx context.Context, _ *rand.Rand) error {
			return a.get(ctx, base+"/transactions?pageSize=100")
		}},
		of("internal transactions", "/addresses/%s/transactions:listInternals?pageSize=100", s.wallets),
		of("ERC-1155 transfers", "/addresses/%s/transactions:listErc1155?pageSize=100", s.wallets),
		of("ERC-1155 balances", "/addresses/%s/balances:listErc1155?pageSize=100", s.wallets),
		of("deployment transaction", "/contracts/%s/transactions:getDeployment", s.deployed),
		of("deployments", "/contracts/%s/deployments?pageSize=100", s.deployers),
		of("tokens of a collection", "/nfts/collections/%s/tokens?pageSize=100", s.collections),
	}
}

// measure asks from so many connections: each for the next as soon as it has the one
// before, or, if there is a pace, all together so often. Then requests are due whether
// or not a connection is free, and waiting for one counts.
func (o *operation) measure(ctx context.Context, connections int, pace time.Duration) (summary, error) {
	if _, err := o.during(ctx, connections, pace, readTime/5); err != nil {
		return summary{}, err
	}
	before := cpu()
	all, err := o.during(ctx, connections, pace, readTime)
	if err != nil {
		return summary{}, err
	}
	spent := cpu() - before
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[min(int(q*float64(len(all))), len(all)-1)] }
	return summary{
		P50: at(0.5), P99: at(0.99), Worst: all[len(all)-1],
		Rate: float64(len(all)) / readTime.Seconds(), CPU: spent / time.Duration(len(all)),
	}, nil
}

func (o *operation) during(ctx context.Context, connections int, pace, long time.Duration) ([]time.Duration, error) {
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
				err := o.ask(ctx, rng)
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
