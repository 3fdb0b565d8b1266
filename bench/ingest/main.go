// Command ingest measures how fast the service indexes the P-, X- and C-Chain and how fast
// it answers from the index. A simulated node serves a made-up history; the service is built
// and run as users run it, with its store in Pebble files and, with -store postgres, on a
// PostgreSQL server. Beside that stands the rate at which the engine alone writes the same
// rows.
//
//	go -C bench run ./ingest -txs 1000000
//	go -C bench run ./ingest -txs 50000 -store postgres -turns 3
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/simnet"
	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// options are the flags.
type options struct {
	transactions, turns int
	store               string
	readTime            time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.transactions, "txs", 1_000_000, "`number` of transactions; each takes about 7 kB of temporary files")
	flag.StringVar(&o.store, "store", "pebble", "pebble, or postgres for both engines")
	flag.IntVar(&o.turns, "turns", 1, "`number` of times that each engine indexes, in turns")
	flag.DurationVar(&o.readTime, "read", time.Second, "`time` for which each kind of page is requested, in each way")
	rig.Main(func(ctx context.Context, r *rig.Run) error {
		if o.store != "pebble" && o.store != "postgres" {
			return fmt.Errorf("-store: got %q, want pebble or postgres", o.store)
		}
		if o.turns < 1 {
			return fmt.Errorf("-turns: got %d, want 1 or more", o.turns)
		}
		return run(ctx, r, o)
	})
}

// bench is what the steps share.
type bench struct {
	options
	*rig.Run

	network *rig.Network

	indexing, raw *rig.Table
	rates         map[string][]float64 // transactions per second by engine
	// services are the last ones of each engine, which have the whole index.
	pebble, postgres *rig.Service
	server           *pgserver.Server // nil without one
}

func run(ctx context.Context, r *rig.Run, o options) (err error) {
	b := &bench{options: o, Run: r, rates: make(map[string][]float64)}
	blocks, err := r.Folder("blocks")
	if err != nil {
		return err
	}
	if b.network, err = rig.StartNetwork(ctx, "", simnet.Options{
		Seed: r.Seed, Validators: 1, History: &simnet.History{Options: rig.HistoryOptions(r.Seed, o.transactions), Dir: blocks},
	}); err != nil {
		return err
	}
	defer b.network.Stop()
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.index(ctx); err != nil {
		return err
	}
	if err := b.read(ctx); err != nil {
		return err
	}
	return b.writeRaw(ctx)
}

func (b *bench) close() error {
	var all error
	for _, service := range []*rig.Service{b.pebble, b.postgres} {
		if service != nil {
			all = errors.Join(all, service.Stop(syscall.SIGTERM))
		}
	}
	if b.server != nil {
		all = errors.Join(all, b.server.Close())
	}
	return all
}

const (
	onPebble   = "Pebble"
	onPostgres = "PostgreSQL"
	onStandby  = "PostgreSQL, a hot standby"
)

// index has the service index the chains on each engine.
func (b *bench) index(ctx context.Context) (err error) {
	b.indexing = b.Table("Indexing the P-, X- and C-Chain", []string{"store", "transactions"},
		rig.Column{Title: "blocks/s"}, rig.Column{Title: "transactions/s"}, rig.Column{Title: "CPU us/transaction", Decimals: 1},
		rig.Column{Title: "of the PostgreSQL server", Decimals: 1}, rig.Column{Title: "of the node", Decimals: 1},
		rig.Column{Title: "MB per million", Decimals: 0}, rig.Column{Title: "resident MB"},
		rig.Column{Title: "requests meanwhile p50 ms", Decimals: 1}, rig.Column{Title: "requests meanwhile p99 ms", Decimals: 1})
	for turn := range b.turns {
		if err := b.close(); err != nil {
			return err
		}
		b.postgres, b.server = nil, nil
		if b.pebble, err = b.indexOn(ctx, onPebble, fmt.Sprintf("pebble-%d", turn), ""); err != nil {
			return err
		}
		if b.store != "postgres" {
			continue
		}
		if b.server, err = rig.StartPostgres(); err != nil {
			return err
		}
		if b.postgres, err = b.indexOn(ctx, onPostgres, fmt.Sprintf("postgres-%d", turn), fmt.Sprintf("store: %q\n", b.server.URL())); err != nil {
			return err
		}
	}
	return nil
}

// indexOn starts a service and waits until it has indexed all chains.
func (b *bench) indexOn(ctx context.Context, engine, name, settings string) (*rig.Service, error) {
	service, err := b.NewService(ctx, name, settings+b.network.Settings("record: primary"))
	if err != nil {
		return nil, err
	}
	data := service.DataDir()
	if engine != onPebble {
		data = filepath.Join(b.server.Dir(), "base")
	}
	empty, err := rig.Size(data) // an empty PostgreSQL server has 22 MB
	if err != nil {
		return nil, err
	}
	if err := service.Start(); err != nil {
		return nil, err
	}
	stop := func(err error) (*rig.Service, error) { return nil, errors.Join(err, service.Stop(syscall.SIGKILL)) }
	left, err := service.Indexing(ctx, b.network)
	if err != nil {
		return stop(err)
	}
	serverCPU := func() time.Duration {
		if engine == onPebble {
			return 0
		}
		return rig.CPUTime(b.server.PID())
	}
	begun, cpu, server, node := time.Now(), service.CPU(), serverCPU(), rig.CPUTime(b.network.PID())
	requests := service.Meanwhile(ctx)
	err = service.Indexed(ctx, b.network.Heights, nil)
	took := time.Since(begun)
	meanwhile, failed := requests()
	if err := errors.Join(err, failed); err != nil {
		return stop(err)
	}
	cpu, server, node = service.CPU()-cpu, serverCPU()-server, rig.CPUTime(b.network.PID())-node
	_, resident := rig.Memory(service.PID())
	if err := service.Rest(ctx); err != nil {
		return stop(err)
	}
	size, err := rig.Size(data)
	if err != nil {
		return stop(err)
	}
	all := float64(b.network.AllTransactions())
	measured, blocks := left*all, left*float64(b.network.AllBlocks())
	b.rates[engine] = append(b.rates[engine], measured/took.Seconds())
	if err := b.indexing.Add([]string{engine, strconv.Itoa(b.transactions)}, blocks/took.Seconds(), measured/took.Seconds(),
		rig.Microseconds(cpu)/measured, rig.Microseconds(server)/measured, rig.Microseconds(node)/measured, float64(size-empty)/all, resident/1e6,
		rig.Milliseconds(meanwhile.P50), rig.Milliseconds(meanwhile.P99)); err != nil {
		return stop(err)
	}
	return service, nil
}

// clients is the number of connections that request pages.
const clients = 16

// read requests pages while nothing else happens.
func (b *bench) read(ctx context.Context) (err error) {
	table := b.PagesTable("Pages of the P- and X-Chain", "store", "transactions")
	transactions := strconv.Itoa(b.transactions)
	pages, err := rig.PrimaryPages(ctx, b.pebble, b.Seed, b.transactions)
	if err != nil {
		return err
	}
	if err := pages.Measure(ctx, table, b.pebble, clients, b.readTime, onPebble, transactions); err != nil {
		return err
	}
	if b.postgres == nil {
		return nil
	}
	if err := b.server.Settle(ctx); err != nil { // ends what indexing left to write
		return err
	}
	if pages, err = rig.PrimaryPages(ctx, b.postgres, b.Seed, b.transactions); err != nil {
		return err
	}
	if err := pages.Measure(ctx, table, b.postgres, clients, b.readTime, onPostgres, transactions); err != nil {
		return err
	}
	divided, err := b.divide(ctx, pages)
	if err != nil {
		return err
	}
	standby, err := b.server.Standby()
	if err != nil {
		return err
	}
	defer func() { _ = standby.Close() }()
	if err := b.postgres.Stop(syscall.SIGTERM); err != nil {
		return err
	}
	b.postgres.Add(fmt.Sprintf("store_read: [%q]", standby.URL()))
	if err := b.postgres.Start(); err != nil {
		return err
	}
	if err := b.postgres.Indexed(ctx, b.network.Heights, nil); err != nil {
		return err
	}
	if err := b.postgres.ReadsStandby(ctx); err != nil {
		return err
	}
	if err := pages.Measure(ctx, table, b.postgres, clients, b.readTime, onStandby, transactions); err != nil {
		return err
	}
	if err := divided(); err != nil { // after the table of pages
		return err
	}
	if err := b.roundTrips(ctx); err != nil {
		return err
	}
	return b.postgres.Stop(syscall.SIGTERM) // before its standby
}

// divide measures where the time of a page from PostgreSQL goes, and returns a function that adds
// the table. The processor times include what service and server do in the background, so together
// they may exceed the time of a page.
func (b *bench) divide(ctx context.Context, pages rig.Pages) (show func() error, err error) {
	times := make([][]float64, len(pages))
	for kind := range pages {
		service, server := b.postgres.CPU(), rig.CPUTime(b.server.PID())
		one, err := (rig.Load{Clients: 1, For: b.readTime}).Run(ctx, func(_, n int) rig.Request { return pages.Request(b.postgres.Public, kind, n) })
		if err != nil {
			return nil, err
		}
		each := func(d time.Duration) float64 { return rig.Microseconds(d) / float64(len(one.Times)) }
		service, server = b.postgres.CPU()-service, rig.CPUTime(b.server.PID())-server
		times[kind] = []float64{each(one.Clock), each(service), each(server)}
	}
	return func() error {
		table := b.Table("Where the time of a page from PostgreSQL goes, one connection", []string{"transactions", "page"},
			rig.Column{Title: "mean us"}, rig.Column{Title: "CPU us of the service"}, rig.Column{Title: "of the server"})
		for kind := range pages {
			if err := table.Add([]string{strconv.Itoa(b.transactions), pages[kind].Name}, times[kind]...); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// roundTrips measures the least that one exchange with the PostgreSQL server takes. A page
// takes one to three.
func (b *bench) roundTrips(ctx context.Context) error {
	rows, err := store.OpenPostgres(ctx, store.PostgresOptions{URL: b.server.URL()})
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var all []time.Duration
	for range 1000 {
		begun := time.Now()
		if err := rows.Ping(ctx); err != nil {
			return err
		}
		all = append(all, time.Since(begun))
	}
	table := b.Table("An exchange with the PostgreSQL server about nothing", []string{"exchanges"},
		rig.Column{Title: "p50 ms", Decimals: 2}, rig.Column{Title: "p99 ms", Decimals: 2})
	times := rig.Summarize(all)
	return table.Add([]string{strconv.Itoa(len(all))}, rig.Milliseconds(times.P50), rig.Milliseconds(times.P99))
}

// writeRaw has each engine write the rows of the index once more, in the order of their
// keys and without the service: the least that indexing takes of the engine.
func (b *bench) writeRaw(ctx context.Context) error {
	if err := b.pebble.Stop(syscall.SIGTERM); err != nil {
		return err
	}
	from, err := store.OpenPebble(ctx, store.PebbleOptions{Dir: filepath.Join(b.pebble.DataDir(), "store")})
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	b.raw = b.Table("The same rows written by the engine alone", []string{"store", "transactions"},
		rig.Column{Title: "rows/s"}, rig.Column{Title: "rows/transaction", Decimals: 1}, rig.Column{Title: "transactions/s"},
		rig.Column{Title: "indexing, % of that"}, rig.Column{Title: "indexing, % of Pebble"})
	to, err := store.OpenPebble(ctx, store.PebbleOptions{Dir: filepath.Join(b.Dir, "raw")})
	if err != nil {
		return err
	}
	if err := b.copyRows(ctx, onPebble, from, to); err != nil || b.server == nil {
		return err
	}
	server, err := rig.StartPostgres()
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	other, err := store.OpenPostgres(ctx, store.PostgresOptions{URL: server.URL()})
	if err != nil {
		return err
	}
	return b.copyRows(ctx, onPostgres, from, other)
}

// rawBatch is the number of rows in a batch of copyRows.
const rawBatch = 20_000

// copyRows copies all rows, closes the destination, and adds a row with the rate of its
// commits.
func (b *bench) copyRows(ctx context.Context, engine string, from store.Reader, to store.Store) (err error) {
	defer func() { err = errors.Join(err, to.Close()) }()
	var took time.Duration
	rows, waiting := 0, 0
	batch := new(store.Batch)
	commit := func() error {
		begun := time.Now()
		if err := to.Commit(ctx, batch); err != nil {
			return err
		}
		took += time.Since(begun)
		batch, waiting = new(store.Batch), 0
		return nil
	}
	for _, family := range store.Families() {
		if family == store.FamilyMeta { // the store's own
			continue
		}
		for row, err := range store.Rows(ctx, from, family) {
			if err != nil {
				return err
			}
			batch.Put(family, row.PK, row.V)
			rows++
			if waiting++; waiting == rawBatch {
				if err := commit(); err != nil {
					return err
				}
			}
		}
	}
	if err := commit(); err != nil {
		return err
	}
	all := float64(b.network.AllTransactions())
	rate := rig.Quantile(b.rates[engine], 0.5)
	return b.raw.Add([]string{engine, strconv.Itoa(b.transactions)}, float64(rows)/took.Seconds(), float64(rows)/all, all/took.Seconds(),
		100*rate/(all/took.Seconds()), 100*rate/rig.Quantile(b.rates[onPebble], 0.5))
}
