package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"quorate/bench/rig"
	"quorate/store/storetest/pgserver"
)

// postgres is a server that has recorded rows.
type postgres struct {
	bench  *bench
	server *pgserver.Server
}

// postgres records all chains on a server of its own, with the memory that one of this
// size is commonly given.
func (b *bench) postgres(ctx context.Context) (*postgres, error) {
	server, err := pgserver.Start("shared_buffers=512MB", "max_wal_size=4GB", "wal_compression=on")
	if err != nil {
		return nil, err
	}
	p := &postgres{b, server}
	before := p.spent()
	r, err := b.record(ctx, "all chains and outputs, PostgreSQL", task{Role: roleLedger, Store: server.URL()})
	if err != nil {
		_ = p.close()
		return nil, err
	}
	txs := float64(r.Txs)
	size, err := rig.Size(filepath.Join(server.Dir(), "base"))
	if err != nil {
		_ = p.close()
		return nil, err
	}
	fmt.Printf("| the PostgreSQL server, %.0f rows/s | | | %.1f | | %.0f | |\n", float64(r.Rows)/r.Took.Seconds(),
		float64((p.spent()-before).Microseconds())/txs, float64(size)/txs)
	return p, nil
}

// read prints how long reads take, from the server and from one that follows it.
func (p *postgres) read(ctx context.Context) error {
	var direct, following readings
	if err := p.bench.once(ctx, task{Role: roleRead, Store: p.server.URL()}, &direct); err != nil {
		return err
	}
	direct.print("PostgreSQL, idle")
	other, err := p.server.Standby()
	if err != nil {
		return err
	}
	defer func() { _ = other.Close() }()
	if err := p.bench.once(ctx, task{Role: roleRead, Store: p.server.URL(), Standby: other.URL()}, &following); err != nil {
		return err
	}
	following.print("PostgreSQL, a hot standby, idle")
	return nil
}

func (p *postgres) close() error { return p.server.Close() }

// spent is the processor time of the server and its processes, those that have ended
// included.
func (p *postgres) spent() time.Duration { return rig.SpentBy(p.server.PID()) }
