package ledger_test

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/cputime"
	"quorate/internal/index/ledger"
	"quorate/internal/store"
)

// transfers generates blocks with one transaction each, which consumes two or three outputs and creates as many. As on
// a real network a few owners have most outputs. One owner, busy, is part of every transaction.
type transfers struct {
	rng    *rand.Rand
	zipf   *rand.Zipf
	height uint64
	free   []chain.Output
	mine   []chain.Output
	first  time.Time
}

var busy = ids.ShortID{0xb0, 0x57}

func newTransfers() *transfers {
	rng := rand.New(rand.NewPCG(1, 1))
	return &transfers{rng: rng, zipf: rand.NewZipf(rng, 1.2, 10, 300_000), first: time.Unix(1_600_000_000, 0).UTC()}
}

func (b *transfers) owner() (a ids.ShortID) {
	binary.BigEndian.PutUint64(a[4:], b.zipf.Uint64()*0x9e3779b97f4a7c15)
	return a
}

func (b *transfers) output(txID ids.ID, index int, owner ids.ShortID) chain.Output {
	o := chain.Output{
		TxID: txID, Index: uint32(index), Kind: chain.Transfer, Role: chain.Ordinary, AssetID: avaxID,
		Amount: 1 + b.rng.Uint64N(1<<40), Addresses: []ids.ShortID{owner}, Threshold: 1, DestinationID: pChain,
	}
	o.ID = (&avax.UTXOID{TxID: txID, OutputIndex: o.Index}).InputID()
	utxo := avax.UTXO{
		UTXOID: avax.UTXOID{TxID: txID, OutputIndex: o.Index}, Asset: avax.Asset{ID: avaxID},
		Out: &secp256k1fx.TransferOutput{Amt: o.Amount, OutputOwners: secp256k1fx.OutputOwners{Threshold: 1, Addrs: o.Addresses}},
	}
	var err error
	if o.Bytes, err = txs.Codec.Marshal(txs.CodecVersion, &utxo); err != nil {
		panic(err)
	}
	return o
}

func (b *transfers) next() *chain.Block {
	block := &chain.Block{ChainID: pChain, Height: b.height, Time: b.first.Add(time.Duration(b.height) * 2 * time.Second)}
	binary.BigEndian.PutUint64(block.ID[:], b.rng.Uint64())
	binary.BigEndian.PutUint64(block.ID[8:], b.rng.Uint64())
	b.height++
	tx := chain.Tx{ID: block.ID, Kind: "BaseTx"}
	take := func(from *[]chain.Output) {
		if n := len(*from); n > 100 {
			i := b.rng.IntN(n)
			in := (*from)[i]
			(*from)[i] = (*from)[n-1]
			*from = (*from)[:n-1]
			tx.Consumed = append(tx.Consumed, chain.Input{OutputID: in.ID, SourceChainID: pChain, AssetID: avaxID, Amount: in.Amount})
		}
	}
	take(&b.mine)
	for range 1 + b.rng.IntN(2) {
		take(&b.free)
	}
	tx.Made = append(tx.Made, b.output(tx.ID, 0, busy))
	b.mine = append(b.mine, tx.Made[0])
	for i := range 1 + b.rng.IntN(2) {
		o := b.output(tx.ID, 1+i, b.owner())
		tx.Made = append(tx.Made, o)
		b.free = append(b.free, o)
	}
	block.Txs = []chain.Tx{tx}
	return block
}

// ingest indexes n blocks like a pipeline and returns the number of rows written.
func ingest(b testing.TB, s store.Store, projection *ledger.Projection, source *transfers, n int) (rows int) {
	var batch store.Batch
	for i := range n {
		if err := projection.Apply(b.Context(), s, source.next(), &batch); err != nil {
			b.Fatal(err)
		}
		if batch.Len() >= 20_000 || batch.Bytes() >= 4<<20 || i == n-1 {
			rows += batch.Len()
			if err := s.Commit(b.Context(), &batch); err != nil {
				b.Fatal(err)
			}
			batch.Reset()
		}
	}
	return rows
}

// BenchmarkApply indexes transactions of 2.5 inputs and outputs on Pebble.
func BenchmarkApply(b *testing.B) {
	s, err := store.OpenPebble(b.Context(), store.PebbleOptions{Dir: b.TempDir()})
	require.NoError(b, err)
	defer s.Close()
	projection, source := ledger.NewProjection(network, pChain), newTransfers()
	ingest(b, s, projection, source, 20_000)
	b.ResetTimer()
	before := cputime.Used()
	rows := ingest(b, s, projection, source, b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(rows)/float64(b.N), "rows/tx")
	b.ReportMetric(float64((cputime.Used()-before).Microseconds())/float64(b.N), "cpu-us/tx")
	b.ReportMetric(float64(s.Stats().DiskBytes)/float64(b.N+20_000), "disk-B/tx")
}

// BenchmarkRead reads an address with a million transactions.
func BenchmarkRead(b *testing.B) {
	const blocks = 1_000_000
	s, err := store.OpenPebble(b.Context(), store.PebbleOptions{Dir: b.TempDir()})
	require.NoError(b, err)
	defer s.Close()
	projection, source := ledger.NewProjection(network, pChain), newTransfers()
	start, before := time.Now(), cputime.Used()
	rows := ingest(b, s, projection, source, blocks)
	b.Logf("%d blocks in %s: %.0f tx/s, %.0f rows/s, %.1f cpu-us/tx, %.0f B/tx on disk", blocks, time.Since(start).Round(time.Second),
		blocks/time.Since(start).Seconds(), float64(rows)/time.Since(start).Seconds(),
		float64((cputime.Used()-before).Microseconds())/blocks, float64(s.Stats().DiskBytes)/blocks)
	record := ledger.New(s, network)
	rng := rand.New(rand.NewPCG(2, 2))
	measure := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			runtime.GC()
			var took []time.Duration
			before := cputime.Used()
			for b.Loop() {
				at := time.Now()
				if err := f(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(at))
			}
			b.ReportMetric(float64((cputime.Used()-before).Microseconds())/float64(len(took)), "cpu-us/op")
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
	balances := func(a ids.ShortID, at time.Time) error {
		_, _, err := record.Balances(b.Context(), pChain, []ids.ShortID{a}, at)
		return err
	}
	measure("balance/busy/then", func() error {
		return balances(busy, source.first.Add(time.Duration(rng.IntN(2*blocks))*time.Second))
	})
	measure("balance/busy/now", func() error { return balances(busy, time.Time{}) })
	measure("balance/some/then", func() error {
		return balances(source.owner(), source.first.Add(time.Duration(rng.IntN(2*blocks))*time.Second))
	})
	position := func(q ledger.OutputQuery) ledger.OutputQuery {
		at := uint64(source.first.Unix()) + rng.Uint64N(2*blocks)
		if q.ByAmount {
			at = rng.Uint64N(1 << 40)
		}
		q.After = &ledger.Position{Key: at, ID: ids.Empty, Pins: []ledger.Pin{{ChainID: pChain, Height: blocks - 1}}}
		return q
	}
	for name, q := range map[string]ledger.OutputQuery{
		"time": {}, "amount": {ByAmount: true}, "time-spent": {IncludeSpent: true}, "amount-spent": {ByAmount: true, IncludeSpent: true},
	} {
		q.ChainID, q.Limit = pChain, 100
		measure("page/busy/"+name, func() error {
			q := position(q)
			q.Addresses = []ids.ShortID{busy}
			_, err := record.UTXOs(b.Context(), q)
			return err
		})
		measure("page/some/"+name, func() error {
			q := position(q)
			q.Addresses = []ids.ShortID{source.owner()}
			_, err := record.UTXOs(b.Context(), q)
			return err
		})
	}
}
