package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/bench/rig"
	"quorate/internal/chain/cchain"
	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/cputime"
	"quorate/internal/index"
	"quorate/internal/index/primary"
	"quorate/internal/store"
)

// schema is what one would write first: outputs, who owns them, how balances went,
// and stakes. It does less than the service's own rows: balances know no stakes, locks
// or atomic memory.
const schema = `
create table outputs (
	id blob primary key, tx blob not null, place integer not null, chain integer not null, destination blob not null,
	asset blob not null, amount integer not null, kind integer not null, role integer not null, threshold integer not null,
	locktime integer not null, stakeable integer not null, height integer not null, time integer not null, bytes blob not null,
	owner blob not null, spent_tx blob, spent_height integer, spent_time integer
) without rowid;
create table owners (
	chain integer not null, address blob not null, time integer not null, output blob not null, amount integer not null,
	primary key (chain, address, time, output)
) without rowid;
create index owners_by_amount on owners (chain, address, amount, output);
create table balances (
	chain integer not null, owner blob not null, asset blob not null, time integer not null, number integer not null, balance integer not null,
	primary key (chain, owner, asset, time, number)
) without rowid;
create table stakes (
	tx blob primary key, chain integer not null, node blob not null, subnet blob not null, delegator integer not null,
	weight integer not null, begins integer not null, ends integer not null, settled integer
) without rowid;
create index stakes_by_node on stakes (node, begins);
create table progress (chain integer primary key, next integer not null);
`

// batchRows is how many statements a transaction has, as many as the pipelines put
// rows into a batch.
const batchRows = 20_000

// tables writes blocks of all chains into SQLite, in one transaction at a time.
type tables struct {
	db *sql.DB

	mu      sync.Mutex
	tx      *sql.Tx              // guarded by mu, and all that follows
	prepare map[string]*sql.Stmt // of tx
	rows    int
	number  int64 // of changes of balances
	txs     int
	heights map[int]uint64
}

// openTables uses SQLite as one does who wants speed: write-ahead log, synced at
// checkpoints only, a cache of 256 MB.
func openTables(dir string) (*tables, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "tables.db")+"?_journal_mode=WAL&_synchronous=NORMAL&_cache_size=-262144")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &tables{db: db, heights: make(map[int]uint64)}, nil
}

// exec needs mu.
func (t *tables) statement(query string) (*sql.Stmt, error) {
	if t.tx == nil {
		tx, err := t.db.Begin()
		if err != nil {
			return nil, err
		}
		t.tx, t.prepare = tx, make(map[string]*sql.Stmt)
	}
	s, ok := t.prepare[query]
	if !ok {
		var err error
		if s, err = t.tx.Prepare(query); err != nil {
			return nil, err
		}
		t.prepare[query] = s
	}
	return s, nil
}

func (t *tables) exec(query string, args ...any) error {
	s, err := t.statement(query)
	if err != nil {
		return err
	}
	t.rows++
	_, err = s.Exec(args...)
	return err
}

// commit needs mu.
func (t *tables) commit() error {
	if t.tx == nil {
		return nil
	}
	for chain, height := range t.heights {
		if err := t.exec(`insert into progress values (?, ?) on conflict (chain) do update set next = excluded.next`, chain, int64(height)+1); err != nil {
			return err
		}
	}
	for _, s := range t.prepare {
		if err := s.Close(); err != nil {
			return err
		}
	}
	err := t.tx.Commit()
	t.tx, t.rows = nil, 0
	return err
}

func (t *tables) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.commit(), t.db.Close())
}

// chainTable is one chain's tenant.
type chainTable struct {
	*tables
	chain   int
	chainID ids.ID
}

func (*chainTable) Name() string { return "tables" }

// Apply implements index.Tenant.
func (c *chainTable) Apply(_ context.Context, _ store.Reader, b *ledger.Block, _ *store.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b.Txs {
		if err := c.apply(b, &b.Txs[i]); err != nil {
			return fmt.Errorf("transaction %s: %w", b.Txs[i].ID, err)
		}
	}
	c.heights[c.chain] = b.Height
	if c.rows >= batchRows {
		return c.commit()
	}
	return nil
}

func (c *chainTable) apply(b *ledger.Block, tx *ledger.Tx) error {
	c.txs++
	at := b.Time.Unix()
	for _, in := range tx.Consumed {
		if err := c.exec(`update outputs set spent_tx = ?, spent_height = ?, spent_time = ? where id = ?`,
			tx.ID[:], int64(b.Height), at, in.OutputID[:]); err != nil {
			return err
		}
		if in.SourceChainID != c.chainID {
			continue // the other chain may not be as far
		}
		s, err := c.statement(`select owner, asset, amount from outputs where id = ?`)
		if err != nil {
			return err
		}
		var owner, asset []byte
		var amount int64
		if err := s.QueryRow(in.OutputID[:]).Scan(&owner, &asset, &amount); err != nil {
			return fmt.Errorf("output %s: %w", in.OutputID, err)
		}
		if err := c.change(owner, asset, at, -amount); err != nil {
			return err
		}
	}
	for i := range tx.Made {
		o := &tx.Made[i]
		owner := []byte(nil)
		for _, a := range o.Addresses {
			owner = append(owner, a[:]...)
			if err := c.exec(`insert or replace into owners values (?, ?, ?, ?, ?)`, c.chain, a[:], at, o.ID[:], int64(o.Amount)); err != nil {
				return err
			}
		}
		if err := c.exec(`insert or replace into outputs values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, null, null, null)`,
			o.ID[:], o.TxID[:], o.Index, c.chain, o.DestinationID[:], o.AssetID[:], int64(o.Amount), int(o.Kind), int(o.Role), o.Threshold,
			int64(o.Locktime), int64(o.StakeableLocktime), int64(b.Height), at, o.Bytes, owner); err != nil {
			return err
		}
		if o.DestinationID == c.chainID {
			if err := c.change(owner, o.AssetID[:], at, int64(o.Amount)); err != nil {
				return err
			}
		}
	}
	if s := tx.Staker; s != nil && !tx.Aborted {
		if err := c.exec(`insert or replace into stakes values (?, ?, ?, ?, ?, ?, ?, ?, null)`, tx.ID[:], c.chain, s.NodeID[:], s.SubnetID[:],
			s.Delegator, int64(s.Weight), s.Start.Unix(), s.End.Unix()); err != nil {
			return err
		}
	}
	if s := tx.Settled; s != nil {
		return c.exec(`update stakes set settled = ? where tx = ?`, at, s.StakingTxID[:])
	}
	return nil
}

const lastBalance = `select balance from balances where chain = ? and owner = ? and asset = ? and time <= ? order by time desc, number desc limit 1`

// change adds to a running balance.
func (c *chainTable) change(owner, asset []byte, at, by int64) error {
	s, err := c.statement(lastBalance)
	if err != nil {
		return err
	}
	var balance int64
	if err := s.QueryRow(c.chain, owner, asset, at).Scan(&balance); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	c.number++
	return c.exec(`insert into balances values (?, ?, ?, ?, ?, ?)`, c.chain, owner, asset, at, c.number, balance+by)
}

// runSQLite records the same blocks, from the same sources through the same pipelines,
// whose own rows are next to nothing and stay in memory.
func runSQLite(t task) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, g, to, err := begin(ctx, t.URL)
	if err != nil {
		return err
	}
	defer client.Close()
	db, err := openTables(t.Dir)
	if err != nil {
		return err
	}
	rows := store.NewMemory()
	onP, err := pchain.NewDecoder(pchain.DecoderOptions{NetworkID: g.NetworkID, Genesis: g.P, AVAXAssetID: g.AVAXAssetID, Node: client, Supply: g.Supply, Validators: g.Validators})
	if err != nil {
		return err
	}
	onX, err := xchain.NewDecoder(g.XChainID, g.X)
	if err != nil {
		return err
	}
	onC, err := cchain.NewDecoder(g.NetworkID, g.CChainID)
	if err != nil {
		return err
	}
	p, err := pipelineOf(g.NetworkID, index.PChain, index.NewPChainSource(client, nil), rows, primary.PChain(g.NetworkID, onP, &chainTable{db, 0, constants.PlatformChainID}))
	if err != nil {
		return err
	}
	x, err := pipelineOf(g.NetworkID, index.XChain, index.NewXChainSource(client, onX, index.NewXChainPast(client, onX, rows, g.NetworkID), nil), rows, primary.XChain(onX, &chainTable{db, 1, g.XChainID}))
	if err != nil {
		return err
	}
	c, err := pipelineOf(g.NetworkID, index.CChain, index.NewCChainSource(client, false, nil), rows, primary.CChain(onC, &chainTable{db, 2, g.CChainID}))
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	begun, spent := time.Now(), cputime.Used()
	for _, run := range []func(context.Context) error{p.Run, x.Run, c.Run} {
		running.Go(func() { _ = run(ctx) }) // its state tells
	}
	limited, done := context.WithTimeout(ctx, t.Limit)
	defer done()
	status := func() map[string]index.Status {
		return map[string]index.Status{"P": p.Status(), "X": x.Status(), "C": c.Status()}
	}
	_, err = await(limited, to, status, func(tips) error { return nil })
	r := recorded{Done: err == nil}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	cancel()
	running.Wait()
	at := make(tips)
	for chain, s := range status() {
		at[chain] = s.Next
	}
	r.Blocks, r.Txs = int(sum(at)), db.txs
	db.mu.Lock()
	err = db.commit()
	db.mu.Unlock()
	if err != nil {
		return err
	}
	r.Took, r.CPU = time.Since(begun), cputime.Used()-spent
	if _, err := db.db.Exec(`pragma wal_checkpoint(truncate)`); err != nil {
		return err
	}
	if r.Bytes, err = rig.Size(t.Dir); err != nil {
		return err
	}
	if r.Readings, err = db.readings(t.Past, g.Time); err != nil {
		return err
	}
	if err := db.close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func pipelineOf[B any](networkID uint32, chain string, source index.Source[B], rows store.Store, tenant index.Tenant[B]) (*index.Pipeline[B], error) {
	return index.New(index.Options[B]{NetworkID: networkID, Chain: chain, Source: source, Store: rows, Tenants: []index.Tenant[B]{tenant}})
}

// readings of the same questions, as far as the tables can answer them.
func (t *tables) readings(p pastOptions, from time.Time) (r readings, err error) {
	busy, others, made, err := addressesOf(p)
	if err != nil {
		return r, err
	}
	rng := rand.New(rand.NewPCG(p.Seed, 2))
	zipf := rand.NewZipf(rng, 1.1, 8, uint64(len(others)-1))
	var tip int64
	if err := t.db.QueryRow(`select max(time) from outputs`).Scan(&tip); err != nil {
		return r, err
	}
	pages := func(where string) func() error {
		query := `select o.id, o.tx, o.place, o.asset, o.amount, o.locktime, o.stakeable, o.threshold, o.height, o.time, o.bytes, o.owner, o.spent_tx
			from owners a join outputs o on o.id = a.output where a.chain = ? and a.address = ?` + where + ` order by a.time desc, a.output desc limit 100`
		return func() error {
			chain, address := rng.IntN(2), others[zipf.Uint64()]
			if rng.IntN(10) == 0 {
				chain, address = 0, busy
			}
			rows, err := t.db.Query(query, chain, address[:])
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				var blobs [6][]byte
				var numbers [7]int64
				if err := rows.Scan(&blobs[0], &blobs[1], &numbers[0], &blobs[2], &numbers[1], &numbers[2], &numbers[3], &numbers[4],
					&numbers[5], &numbers[6], &blobs[3], &blobs[4], &blobs[5]); err != nil {
					return err
				}
			}
			return rows.Err()
		}
	}
	balance := func(address ids.ShortID, chain int, at int64) error {
		asset := made.AVAXAssetID()
		var sum int64
		err := t.db.QueryRow(lastBalance, chain, address[:], asset[:], at).Scan(&sum)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}
	for _, kind := range []struct {
		what string
		read func() error
	}{
		{whatPage, pages(` and o.spent_tx is null`)}, {whatAll, pages(``)},
		{whatPast, func() error { return balance(busy, 0, from.Unix()+rng.Int64N(max(tip-from.Unix(), 1))) }},
		{whatNow, func() error { return balance(others[zipf.Uint64()], rng.IntN(2), tip) }},
	} {
		one, own, err := measure(kind.read)
		if err != nil {
			return nil, err
		}
		r = append(r, reading{What: kind.what, summary: one, Own: own})
	}
	return r, nil
}
