package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/internal/simnet/history"
)

// Pages are paths of the Data API by kind of page.
type Pages []PageKind

// PageKind is a kind of page and the paths to request.
type PageKind struct {
	Name  string
	Paths []string
}

// PathsPerKind is the number of addresses for which a kind of page is requested.
const PathsPerKind = 200

// Request returns the request for page number n of a kind.
func (p Pages) Request(address string, kind, n int) Request {
	paths := p[kind].Paths
	return Request{Address: address, Path: paths[n%len(paths)], Kind: kind}
}

// Mixed returns request number n of all kinds in turns.
func (p Pages) Mixed(address string, n int) Request {
	return p.Request(address, n%len(p), n/len(p))
}

// PrimaryPages returns pages about a history of HistoryOptions(seed, transactions), for
// addresses as often as they are popular. It requests each from the service once, and adds
// the page that follows.
func PrimaryPages(ctx context.Context, service *Service, seed uint64, transactions int) (Pages, error) {
	generator, err := history.New(HistoryOptions(seed, transactions))
	if err != nil {
		return nil, err
	}
	busy, _ := generator.Busy()
	others := generator.Addresses()
	rng := rand.New(rand.NewPCG(seed, PathsPerKind))
	popular := rand.NewZipf(rng, 1.1, 8, uint64(len(others)-1))
	owner := func() (string, error) {
		one := busy
		if rng.IntN(10) > 0 {
			one = others[popular.Uint64()]
		}
		return address.FormatBech32(constants.GetHRP(generator.NetworkID()), one[:])
	}
	const base = "/v1/networks/" + NetworkName
	past, err := halfway(ctx, service, base, generator, busy)
	if err != nil {
		return nil, err
	}
	pages := Pages{
		{Name: "100 unspent outputs, P-Chain"}, {Name: "100 unspent outputs, X-Chain"}, {Name: "100 outputs by amount, P-Chain"},
		{Name: "balances, P-Chain"}, {Name: "balances, X-Chain"}, {Name: "balances at a past second, P-Chain"},
		{Name: "100 staking transactions"}, {Name: "100 delegations"}, {Name: "25 subnets"},
	}
	formats := []string{
		"/blockchains/p-chain/utxos?pageSize=100&addresses=%s", "/blockchains/x-chain/utxos?pageSize=100&addresses=%s",
		"/blockchains/p-chain/utxos?pageSize=100&sortBy=amount&includeSpent=true&addresses=%s",
		"/blockchains/p-chain/balances?addresses=%s", "/blockchains/x-chain/balances?addresses=%s",
		fmt.Sprintf("/blockchains/p-chain/balances?blockTimestamp=%d&addresses=%%s", past),
		"/blockchains/p-chain/transactions:listStaking?pageSize=100&addresses=%s", "/delegators?pageSize=100&rewardAddresses=%s",
		"/subnets?pageSize=25&sortOrder=%s",
	}
	for i, format := range formats {
		for n := range PathsPerKind {
			of, err := owner()
			if err != nil {
				return nil, err
			}
			if i == len(formats)-1 {
				of = []string{"asc", "desc"}[n%2]
			}
			if err := pages[i].Add(ctx, service, base+fmt.Sprintf(format, of)); err != nil {
				return nil, err
			}
		}
	}
	return pages, nil
}

// halfway returns the second halfway between the first output of an address and now.
func halfway(ctx context.Context, service *Service, base string, generator *history.Generator, owner ids.ShortID) (int64, error) {
	text, err := address.FormatBech32(constants.GetHRP(generator.NetworkID()), owner[:])
	if err != nil {
		return 0, err
	}
	var first struct {
		UTXOs []struct{ BlockTimestamp int64 }
	}
	if err := service.GetJSON(ctx, base+"/blockchains/p-chain/utxos?pageSize=1&sortOrder=asc&includeSpent=true&addresses="+text, &first); err != nil {
		return 0, err
	}
	if len(first.UTXOs) == 0 {
		return 0, fmt.Errorf("%s has no outputs", text)
	}
	return (first.UTXOs[0].BlockTimestamp + time.Now().Unix()) / 2, nil
}

// Add requests a page and adds it and its next page.
func (k *PageKind) Add(ctx context.Context, service *Service, path string) error {
	var page struct{ NextPageToken string }
	if err := service.GetJSON(ctx, path, &page); err != nil {
		return fmt.Errorf("%s: %w", k.Name, err)
	}
	k.Paths = append(k.Paths, path)
	if page.NextPageToken != "" {
		k.Paths = append(k.Paths, path+"&pageToken="+url.QueryEscape(page.NextPageToken))
	}
	return nil
}

// pagesEvery is the time between two pages when they fall due at a fixed rate.
const pagesEvery = 2 * time.Millisecond

// PagesTable begins a table for Measure.
func (r *Run) PagesTable(title string, labels ...string) *Table {
	return r.Table(title, append(labels, "page"),
		Column{Title: "requests/s"}, Column{Title: "p50 ms", Decimals: 2}, Column{Title: "p99 ms", Decimals: 2}, Column{Title: "CPU us/request"},
		Column{Title: "one connection: p50 ms", Decimals: 2}, Column{Title: "one connection: p99 ms", Decimals: 2},
		Column{Title: "at 500/s: p50 ms", Decimals: 2}, Column{Title: "at 500/s: p99 ms", Decimals: 2})
}

// Measure requests each kind of page for a while, and adds a row for it: from a number of
// clients at once, from one, and at a fixed rate.
func (p Pages) Measure(ctx context.Context, table *Table, service *Service, clients int, each time.Duration, labels ...string) error {
	for kind := range p {
		request := func(_, n int) Request { return p.Request(service.Public, kind, n) }
		if _, err := (Load{Clients: clients, For: each / 5}).Run(ctx, request); err != nil { // warms up
			return err
		}
		cpu := service.CPU()
		many, err := (Load{Clients: clients, For: each}).Run(ctx, request)
		if err != nil {
			return err
		}
		cpu = service.CPU() - cpu
		one, err := (Load{Clients: 1, For: each}).Run(ctx, request)
		if err != nil {
			return err
		}
		paced, err := (Load{Clients: clients, For: each, Every: pagesEvery}).Run(ctx, request)
		if err != nil {
			return err
		}
		if err := table.Add(append(labels[:len(labels):len(labels)], p[kind].Name), many.Rate(), Milliseconds(many.P50), Milliseconds(many.P99),
			Microseconds(cpu)/float64(len(many.Times)), Milliseconds(one.P50), Milliseconds(one.P99), Milliseconds(paced.P50), Milliseconds(paced.P99)); err != nil {
			return err
		}
	}
	return nil
}
