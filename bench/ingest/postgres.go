package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"quorate/bench/rig"
	"quorate/internal/store/storetest/pgserver"
)

// postgres is a server that has recorded rows.
type postgres struct {
	bench  *bench
	server *pgserver.Server
}

// postgres records all chains on a server of its own, with the memory that one of this
// size is commonly given and room for its log, as the README recommends. It does so in
// turns with Pebble, which has recorded once, and compares.
func (b *bench) postgres(ctx context.Context, files *recorded, turns int) (*postgres, error) {
	var of [2][]*recorded // Pebble's and the server's
	for turn := 1; ; turn++ {
		of[0] = append(of[0], files)
		p, r, err := b.onServer(ctx)
		if err != nil {
			return nil, err
		}
		of[1] = append(of[1], r)
		if turn == turns {
			err := b.compare(of)
			if err != nil {
				return nil, errors.Join(err, p.close())
			}
			return p, nil
		}
		if err := p.close(); err != nil {
			return nil, err
		}
		dir := filepath.Join(b.root, fmt.Sprintf("ledger-%d", turn+1))
		if files, err = b.record(ctx, "all chains and outputs, Pebble again", task{Role: roleLedger, Dir: dir}); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
}

// compare tells how the server stands against Pebble. Both are given the same batches,
// so that the ratio of rows is that of transactions, but for how batches fall.
func (b *bench) compare(of [2][]*recorded) error {
	var rows, txs [2]float64
	for i, all := range of {
		median := func(of func(*recorded) float64) float64 {
			var so []float64
			for _, r := range all {
				so = append(so, of(r)/r.Took.Seconds())
			}
			slices.Sort(so)
			return (so[(len(so)-1)/2] + so[len(so)/2]) / 2
		}
		rows[i] = median(func(r *recorded) float64 { return float64(r.Rows) })
		txs[i] = median(func(r *recorded) float64 { return float64(r.Txs) })
	}
	fmt.Printf("| PostgreSQL against Pebble, medians of %d: %.0f of %.0f rows/s, %.0f %% | | %.0f of %.0f, %.0f %% | | | | |\n",
		len(of[0]), rows[1], rows[0], 100*rows[1]/rows[0], txs[1], txs[0], 100*txs[1]/txs[0])
	return b.log.Add(map[string]string{"compared": "PostgreSQL against Pebble", "transactions": strconv.Itoa(b.past.Txs)}, map[string]float64{
		"rows_ratio": rows[1] / rows[0], "transactions_ratio": txs[1] / txs[0],
	})
}

// onServer records all chains on a new server.
func (b *bench) onServer(ctx context.Context) (*postgres, *recorded, error) {
	server, err := rig.StartPostgres()
	if err != nil {
		return nil, nil, err
	}
	p := &postgres{b, server}
	before := p.spent()
	r, err := b.record(ctx, "all chains and outputs, PostgreSQL", task{Role: roleLedger, Store: server.URL()})
	if err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	size, err := rig.Size(filepath.Join(server.Dir(), "base"))
	if err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	txs := float64(r.Txs)
	fmt.Printf("| the PostgreSQL server, %.0f rows/s | | | %.1f | | %.0f | |\n", float64(r.Rows)/r.Took.Seconds(),
		float64((p.spent()-before).Microseconds())/txs, float64(size)/txs)
	return p, r, nil
}

// read prints how long reads take, from the server and from one that follows it.
func (p *postgres) read(ctx context.Context) error {
	var direct, following readings
	if err := p.server.Settle(ctx); err != nil { // or it would write and sort while it is read
		return err
	}
	if err := p.bench.once(ctx, task{Role: roleRead, Store: p.server.URL()}, &direct); err != nil {
		return err
	}
	direct.print("PostgreSQL, idle")
	if err := direct.tell(p.bench.log, "PostgreSQL, idle", p.bench.past.Txs); err != nil {
		return err
	}
	other, err := p.server.Standby()
	if err != nil {
		return err
	}
	defer func() { _ = other.Close() }()
	if err := p.bench.once(ctx, task{Role: roleRead, Store: p.server.URL(), Standby: other.URL()}, &following); err != nil {
		return err
	}
	following.print("PostgreSQL, a hot standby, idle")
	return following.tell(p.bench.log, "PostgreSQL, a hot standby, idle", p.bench.past.Txs)
}

func (p *postgres) close() error { return p.server.Close() }

// spent is the processor time of the server and its processes, those that have ended
// included.
func (p *postgres) spent() time.Duration { return rig.CPUTime(p.server.PID()) }
