package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/bench/rig"
	"quorate/simnet/history"
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
	spent
	clock time.Duration
}

func (l *line) rate() float64 { return float64(len(l.took)) / l.clock.Seconds() }

// quantile sorts what was measured.
func (l *line) quantile(q float64) time.Duration {
	slices.Sort(l.took)
	return l.took[min(int(q*float64(len(l.took))), len(l.took)-1)]
}

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
	paths, err := b.paths()
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
			if err := b.turnOf(ctx, into, paths, uint64(turn)); err != nil {
				return nil, err
			}
		}
	}
	return lines, nil
}

// turnOf asks for one turn.
func (b *bench) turnOf(ctx context.Context, l *line, paths []string, turn uint64) error {
	took, failed := make([][]time.Duration, b.connections), make([]error, b.connections)
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
				sent := time.Now()
				if err := conn.Get(paths[rng.IntN(len(paths))]); err != nil {
					failed[i] = fmt.Errorf("%s: %w\n%s", r.name, err, r.lastWords())
					return
				}
				took[i] = append(took[i], time.Since(sent))
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
	l.took = append(l.took, slices.Concat(took...)...)
	l.clock += clock
	l.service += after.service - before.service
	l.server += after.server - before.server
	l.standby += after.standby - before.standby
	l.load += after.load - before.load
	return nil
}

// pathsOf is how many of each kind of page are asked for, and their next pages.
const pathsOf = 200

// paths are a mix of the Data API's pages, of addresses as often as they are popular, and
// the pages that follow them: a page token of one replica is good with all.
func (b *bench) paths() ([]string, error) {
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
	var paths []string
	for _, kind := range []string{
		"/blockchains/p-chain/utxos?pageSize=100&addresses=", "/blockchains/x-chain/utxos?pageSize=100&addresses=",
		"/blockchains/p-chain/utxos?pageSize=25&sortBy=amount&includeSpent=true&addresses=",
		"/blockchains/p-chain/balances?addresses=", "/blockchains/x-chain/balances?addresses=",
		"/blockchains/p-chain/transactions:listStaking?pageSize=100&addresses=",
		"/delegators?pageSize=100&rewardAddresses=", "/subnets?pageSize=25&sortOrder=",
	} {
		for range pathsOf {
			of, err := owner()
			if err != nil {
				return nil, err
			}
			if strings.HasSuffix(kind, "sortOrder=") {
				of = []string{"asc", "desc"}[rng.IntN(2)]
			}
			path := base + kind + of
			paths = append(paths, path)
			// The answers to these are also what shows that all is there to be asked for.
			var said struct{ NextPageToken string }
			r := b.asks[fromServer][len(paths)%len(b.asks[fromServer])]
			if err := get("http://"+r.public+path, &said); err != nil {
				return nil, err
			}
			if said.NextPageToken != "" {
				paths = append(paths, path+"&pageToken="+url.QueryEscape(said.NextPageToken))
			}
		}
	}
	return paths, nil
}
