package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/bench/rig"
	"quorate/internal/simnet/history"
)

// Where pages are read from.
const (
	fromServer  = "the server"
	fromStandby = "a standby"
)

// line is what was measured of a number of replicas, in all turns.
type line struct {
	replicas int
	from     string
	took     []time.Duration
	byKind   [len(kinds)][]time.Duration // the same
	spent
	clock time.Duration
}

// page is one that is asked for, of a kind.
type page struct {
	path string
	kind int
}

// answer is how long one took.
type answer struct {
	time.Duration
	kind int
}

// kinds are the Data API's pages that are asked for, each as often, of an address.
var kinds = [...]struct{ name, path string }{
	{"100 unspent outputs, P-Chain", "/blockchains/p-chain/utxos?pageSize=100&addresses="},
	{"100 unspent outputs, X-Chain", "/blockchains/x-chain/utxos?pageSize=100&addresses="},
	{"25 outputs by amount, P-Chain", "/blockchains/p-chain/utxos?pageSize=25&sortBy=amount&includeSpent=true&addresses="},
	{"balances, P-Chain", "/blockchains/p-chain/balances?addresses="},
	{"balances, X-Chain", "/blockchains/x-chain/balances?addresses="},
	{"100 staking transactions", "/blockchains/p-chain/transactions:listStaking?pageSize=100&addresses="},
	{"100 delegations", "/delegators?pageSize=100&rewardAddresses="},
	{"25 subnets", subnets},
}

// subnets are of no address.
const subnets = "/subnets?pageSize=25&sortOrder="

func (l *line) rate() float64 { return float64(len(l.took)) / l.clock.Seconds() }

// each is the processor time of a request, in microseconds.
func (l *line) each(d time.Duration) float64 { return float64(d.Microseconds()) / float64(len(l.took)) }

// share is how much of the machine's processors that is, in percent.
func (l *line) share(d time.Duration) float64 {
	return 100 * d.Seconds() / (l.clock.Seconds() * float64(runtime.NumCPU()))
}

// perCPU is how many requests a second of processor time of service and servers answers.
func (l *line) perCPU() float64 {
	return float64(len(l.took)) / (l.service + l.server + l.standby).Seconds()
}

// measure asks one, two and more replicas in turns, reading from either server, so that
// what else the machine does befalls all of them.
func (b *bench) measure(ctx context.Context) (lines []*line, err error) {
	pages, err := b.pages()
	if err != nil {
		return nil, err
	}
	for _, from := range []string{fromServer, fromStandby} {
		for n := range b.most {
			lines = append(lines, &line{replicas: n + 1, from: from})
		}
	}
	for turn := range b.turns + 1 {
		for _, l := range lines {
			into := l
			if turn == 0 { // to warm up
				into = &line{replicas: l.replicas, from: l.from}
			}
			if err := b.turnOf(ctx, into, pages, uint64(turn)); err != nil {
				return nil, err
			}
		}
	}
	return lines, nil
}

// turnOf asks for one turn.
func (b *bench) turnOf(ctx context.Context, l *line, pages []page, turn uint64) error {
	took, failed := make([][]answer, b.connections), make([]error, b.connections)
	asked := b.asks[l.from][:l.replicas]
	before, begun := b.spent(asked), time.Now()
	var asking sync.WaitGroup
	for i := range b.connections {
		asking.Go(func() {
			r := asked[i%l.replicas]
			conn, err := rig.Dial(r.public)
			if err != nil {
				failed[i] = err
				return
			}
			defer func() { _ = conn.Close() }()
			rng := rand.New(rand.NewPCG(turn, uint64(i)))
			for time.Since(begun) < b.turn && ctx.Err() == nil {
				one, sent := pages[rng.IntN(len(pages))], time.Now()
				if err := conn.Get(one.path); err != nil {
					failed[i] = fmt.Errorf("%s: %w\n%s", r.name, err, r.LogTail())
					return
				}
				took[i] = append(took[i], answer{time.Since(sent), one.kind})
			}
		})
	}
	asking.Wait()
	clock, after := time.Since(begun), b.spent(asked)
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	for _, one := range slices.Concat(took...) {
		l.took = append(l.took, one.Duration)
		l.byKind[one.kind] = append(l.byKind[one.kind], one.Duration)
	}
	l.clock += clock
	l.service += after.service - before.service
	l.server += after.server - before.server
	l.standby += after.standby - before.standby
	l.load += after.load - before.load
	return nil
}

// pathsOf is how many of each kind of page are asked for, and their next pages.
const pathsOf = 200

// pages are a mix of the Data API's pages, of addresses as often as they are popular, and
// the pages that follow them: a page token of one replica is good with all.
func (b *bench) pages() (all []page, err error) {
	g, err := history.New(historyOf(b.Seed, b.Txs))
	if err != nil {
		return nil, err
	}
	busy, _ := g.Busy()
	others := g.Addresses()
	rng := rand.New(rand.NewPCG(b.Seed, pathsOf))
	popular := rand.NewZipf(rng, 1.1, 8, uint64(len(others)-1))
	owner := func() (string, error) {
		one := busy
		if rng.IntN(10) > 0 {
			one = others[popular.Uint64()]
		}
		return address.FormatBech32(constants.GetHRP(g.NetworkID()), one[:])
	}
	const base = "/v1/networks/" + network
	for i, kind := range kinds {
		for range pathsOf {
			of, err := owner()
			if err != nil {
				return nil, err
			}
			if kind.path == subnets {
				of = []string{"asc", "desc"}[rng.IntN(2)]
			}
			path := base + kind.path + of
			all = append(all, page{path, i})
			// The answers to these are also what shows that all is there to be asked for.
			var said struct{ NextPageToken string }
			r := b.asks[fromServer][len(all)%len(b.asks[fromServer])]
			if err := get("http://"+r.public+path, &said); err != nil {
				return nil, err
			}
			if said.NextPageToken != "" {
				all = append(all, page{path + "&pageToken=" + url.QueryEscape(said.NextPageToken), i})
			}
		}
	}
	return all, nil
}
