// Command replicas measures what several replicas of the service carry on one PostgreSQL
// server. One replica indexes a made-up history; one, two and more that answer the Data API
// then receive requests for pages of it, which they read from the server or from a hot
// standby. All processes share this machine: where its processors are the limit, the
// processor time of a request says what more machines would carry.
//
//	go -C bench run ./replicas
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"quorate/bench/rig"
	"quorate/internal/cputime"
	"quorate/internal/simnet"
	"quorate/internal/store/storetest/pgserver"
)

// options are the flags.
type options struct {
	transactions, most, clients, turns int
	turn                               time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.transactions, "txs", 50_000, "`number` of transactions")
	flag.IntVar(&o.most, "replicas", 3, "greatest `number` of replicas")
	flag.IntVar(&o.clients, "connections", 16, "`number` of connections, over all replicas")
	flag.IntVar(&o.turns, "turns", 5, "`number` of turns of each number of replicas")
	flag.DurationVar(&o.turn, "for", 3*time.Second, "`time` of a turn")
	rig.Main(func(ctx context.Context, r *rig.Run) error {
		if o.most < 1 || o.clients < o.most || o.turns < 1 {
			return errors.New("-replicas and -turns must be 1 or more, and -connections not less than -replicas")
		}
		return run(ctx, r, o)
	})
}

// bench is what the steps share.
type bench struct {
	options
	*rig.Run

	network         *rig.Network
	server, standby *pgserver.Server
	services        []*rig.Service // all that run
}

// line is a number of replicas that read from the same place, and what was measured of it.
type line struct {
	rig.Outcome

	from                           string
	replicas                       []*rig.Service
	service, server, standby, load time.Duration // processor time
}

func run(ctx context.Context, r *rig.Run, o options) (err error) {
	b := &bench{options: o, Run: r}
	blocks, err := r.Folder("blocks")
	if err != nil {
		return err
	}
	if b.network, err = rig.StartNetwork(ctx, "", simnet.Options{
		Seed: r.Seed, Validators: 4, History: &simnet.History{Options: rig.HistoryOptions(r.Seed, o.transactions), Dir: blocks},
	}); err != nil {
		return err
	}
	defer b.network.Stop()
	if b.server, err = rig.StartPostgres(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.Close()) }()
	defer b.stop()
	if _, err := b.start(ctx, "ingest", ""); err != nil {
		return err
	}
	if b.standby, err = b.server.Standby(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.standby.Close()) }()
	defer b.stop()                               // before the standby
	if err := b.server.Settle(ctx); err != nil { // ends what indexing left to write
		return err
	}
	var lines []*line
	for _, from := range []struct{ name, settings string }{
		{"the server", ""}, {"a standby", fmt.Sprintf("store_read: [%q]\n", b.standby.URL())},
	} {
		var replicas []*rig.Service
		for n := range o.most {
			replica, err := b.start(ctx, "api", from.settings)
			if err != nil {
				return err
			}
			if from.settings != "" {
				if err := replica.ReadsStandby(ctx); err != nil {
					return err
				}
			}
			replicas = append(replicas, replica)
			lines = append(lines, &line{from: from.name, replicas: replicas[:n+1]})
		}
	}
	pages, err := rig.PrimaryPages(ctx, lines[0].replicas[0], r.Seed, o.transactions)
	if err != nil {
		return err
	}
	for turn := range o.turns + 1 {
		for _, l := range lines {
			if turn == 0 { // warms up
				l = &line{replicas: l.replicas}
			}
			if err := b.take(ctx, l, pages); err != nil {
				return err
			}
		}
	}
	return b.report(lines, pages)
}

// start starts a replica and waits until its index is complete.
func (b *bench) start(ctx context.Context, role, settings string) (*rig.Service, error) {
	name := fmt.Sprintf("%d-%s", len(b.services), role)
	replica, err := b.StartService(ctx, name, fmt.Sprintf("role: %s\nstore: %q\n%s%s", role, b.server.URL(), settings, b.network.Settings("record: primary")))
	if err != nil {
		return nil, err
	}
	b.services = append(b.services, replica)
	return replica, replica.Indexed(ctx, b.network.Heights, nil)
}

// stop stops all replicas at once.
func (b *bench) stop() {
	var stopping errgroup.Group
	for _, replica := range b.services {
		stopping.Go(func() error { return replica.Stop(syscall.SIGTERM) })
	}
	if err := stopping.Wait(); err != nil {
		fmt.Println(err)
	}
}

// take adds one turn.
func (b *bench) take(ctx context.Context, l *line, pages rig.Pages) error {
	spent := func() (service time.Duration) {
		for _, replica := range l.replicas {
			service += replica.CPU()
		}
		return service
	}
	service, server, standby, load := spent(), rig.CPUTime(b.server.PID()), rig.CPUTime(b.standby.PID()), cputime.Used()
	outcome, err := (rig.Load{Clients: b.clients, For: b.turn}).Run(ctx, func(client, n int) rig.Request {
		return pages.Mixed(l.replicas[client%len(l.replicas)].Public, n)
	})
	if err != nil {
		return err
	}
	l.Add(outcome)
	l.service += spent() - service
	l.server += rig.CPUTime(b.server.PID()) - server
	l.standby += rig.CPUTime(b.standby.PID()) - standby
	l.load += cputime.Used() - load
	return nil
}

func (b *bench) report(lines []*line, pages rig.Pages) error {
	transactions := strconv.Itoa(b.transactions)
	table := b.Table("Replicas on one PostgreSQL server", []string{"replicas", "pages read from", "transactions"},
		rig.Column{Title: "requests/s"}, rig.Column{Title: "p50 ms", Decimals: 2}, rig.Column{Title: "p99 ms", Decimals: 2},
		rig.Column{Title: "CPU us/request: service"}, rig.Column{Title: "server"}, rig.Column{Title: "standby"}, rig.Column{Title: "load"},
		rig.Column{Title: "requests/CPU second"})
	for _, l := range lines {
		each := func(d time.Duration) float64 { return rig.Microseconds(d) / float64(len(l.Times)) }
		if err := table.Add([]string{strconv.Itoa(len(l.replicas)), l.from, transactions}, l.Rate(), rig.Milliseconds(l.P50), rig.Milliseconds(l.P99),
			each(l.service), each(l.server), each(l.standby), each(l.load),
			float64(len(l.Times))/(l.service+l.server+l.standby).Seconds()); err != nil {
			return err
		}
	}
	byKind := b.Table("Pages of one replica on PostgreSQL, all kinds at once", []string{"page", "transactions"},
		rig.Column{Title: "p50 ms", Decimals: 2}, rig.Column{Title: "p99 ms", Decimals: 2})
	for kind := range pages {
		times := rig.Summarize(lines[0].ByKind[kind])
		if err := byKind.Add([]string{pages[kind].Name, transactions}, rig.Milliseconds(times.P50), rig.Milliseconds(times.P99)); err != nil {
			return err
		}
	}
	fmt.Println("\nWorked out from the processor time of one replica's requests, not measured: what machines of two processors each carry")
	estimate := b.Table("Replicas and servers on machines of their own, estimated", []string{"pages read from"},
		rig.Column{Title: "requests/s of a replica"}, rig.Column{Title: "requests/s that a server or standby supports"})
	for _, l := range lines {
		if len(l.replicas) != 1 {
			continue
		}
		const processors = 2
		carries := func(d time.Duration) float64 { return processors * float64(len(l.Times)) / d.Seconds() }
		if err := estimate.Add([]string{l.from}, carries(l.service), carries(l.server+l.standby)); err != nil {
			return err
		}
	}
	return nil
}
