package peernode

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	platformgenesis "github.com/ava-labs/avalanchego/vms/platformvm/genesis"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/genesis"
	"quorate/internal/peernode/checkpoint"
)

// longChain returns n blocks of one transfer each, to another address each time, so that each leaves an output.
func longChain(t testing.TB, r *recording, g *genesis.Genesis, n int) (blocks [][]byte) {
	t.Helper()
	owner := secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{avagenesis.EWOQKey.Address()}}
	parsed, err := platformgenesis.Parse(g.Bytes)
	require.NoError(t, err)
	var utxo avax.UTXO
	var left uint64
	for _, u := range parsed.UTXOs {
		if out, ok := u.Out.(*secp256k1fx.TransferOutput); ok && out.OutputOwners.Equals(&owner) {
			utxo, left = u.UTXO, out.Amt
		}
	}
	require.NotZero(t, left)
	first, err := block.NewApricotCommitBlock(hashing.ComputeHash256Array(g.Bytes), 0)
	require.NoError(t, err)
	parent, at := first.ID(), time.Unix(int64(r.StartTime), 0).Add(time.Hour)
	for i := range n {
		const fee, sent = 100_000, 1
		in := &avax.TransferableInput{UTXOID: utxo.UTXOID, Asset: utxo.Asset, In: &secp256k1fx.TransferInput{Amt: left, Input: secp256k1fx.Input{SigIndices: []uint32{0}}}}
		left -= fee + sent
		hash := hashing.ComputeHash256(parent[:])
		tx := &txs.Tx{
			Unsigned: &txs.BaseTx{BaseTx: avax.BaseTx{
				NetworkID: r.NetworkID, BlockchainID: constants.PlatformChainID, Ins: []*avax.TransferableInput{in},
				Outs: []*avax.TransferableOutput{
					{Asset: utxo.Asset, Out: &secp256k1fx.TransferOutput{Amt: sent, OutputOwners: secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{ids.ShortID(hash[:20])}}}},
					{Asset: utxo.Asset, Out: &secp256k1fx.TransferOutput{Amt: left, OutputOwners: owner}},
				},
			}},
			Creds: []verify.Verifiable{&secp256k1fx.Credential{Sigs: make([][65]byte, 1)}},
		}
		require.NoError(t, tx.Initialize(txs.Codec))
		at = at.Add(time.Second)
		b, err := block.NewBanffStandardBlock(at, parent, uint64(i+1), []*txs.Tx{tx})
		require.NoError(t, err)
		blocks = append(blocks, b.Bytes())
		parent, utxo.UTXOID = b.ID(), avax.UTXOID{TxID: tx.ID(), OutputIndex: 1}
	}
	return blocks
}

// BenchmarkStart measures how long a start takes until the tip is confirmed, with the genesis and with a checkpoint of a
// hundred blocks below the tip. Peers answer at once, with 2,000 blocks at a time.
func BenchmarkStart(b *testing.B) {
	const blocks, behind = 100_000, 100
	r, g := record(b)
	n := newNetwork(&recording{P: longChain(b, r, g, blocks)}, g)
	n.most = 2000
	start := func(o Options) (*Node, func(), time.Duration) {
		height := uint64(n.height[n.nodes[0]])
		node, err := New(o)
		require.NoError(b, err)
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- node.Run(ctx, n) }()
		for node.Status().Confirmed.IsZero() || node.Status().Height < height {
			time.Sleep(time.Millisecond)
		}
		return node, func() { cancel(); require.NoError(b, <-ended) }, time.Since(began)
	}
	for b.Loop() {
		o := options(r, g, n)
		o.Dir = filepath.Join(b.TempDir(), "pchain")
		n.accept(blocks - behind)
		node, stop, executing := start(o)
		file := filepath.Join(b.TempDir(), "checkpoint")
		f, err := os.Create(file)
		require.NoError(b, err)
		w := bufio.NewWriter(f)
		began := time.Now()
		hash, err := node.Export(b.Context(), 0, func(checkpoint.Header) io.Writer { return w })
		require.NoError(b, err)
		exporting := time.Since(began)
		require.NoError(b, w.Flush())
		require.NoError(b, f.Close())
		stop()
		n.accept(blocks)
		o.Dir, o.Checkpoint = filepath.Join(b.TempDir(), "pchain"), &Checkpoint{File: file, Hash: hash}
		_, stop, importing := start(o)
		stop()
		info, err := os.Stat(file)
		require.NoError(b, err)
		content := 0
		in, err := os.Open(file)
		require.NoError(b, err)
		reader, err := checkpoint.NewReader(in)
		require.NoError(b, err)
		for {
			key, value, err := reader.Next()
			if err != nil {
				require.ErrorIs(b, err, io.EOF)
				break
			}
			content += len(key) + len(value)
		}
		reader.Close()
		require.NoError(b, in.Close())
		b.ReportMetric(float64(content)/1e6, "MB/content")
		b.ReportMetric(executing.Seconds(), "s/genesis")
		b.ReportMetric(exporting.Seconds(), "s/export")
		b.ReportMetric(importing.Seconds(), "s/checkpoint")
		b.ReportMetric(float64(info.Size())/1e6, "MB/file")
	}
}

// BenchmarkImport imports pairs of 92 and 101 bytes, in the order of their keys as a checkpoint has them.
func BenchmarkImport(b *testing.B) {
	r, g := record(b)
	o := options(r, g, newNetwork(r, g))
	o.Dir = filepath.Join(b.TempDir(), "pchain")
	file := filepath.Join(b.TempDir(), "checkpoint")
	f, err := os.Create(file)
	require.NoError(b, err)
	hash, err := checkpoint.Write(f, checkpoint.Header{NetworkID: r.NetworkID, Genesis: hashing.ComputeHash256Array(g.Bytes)}, func(put func(key, value []byte) error) error {
		source := rand.NewChaCha8([32]byte{1})
		key, value := make([]byte, 92), make([]byte, 101)
		for i := range b.N {
			_, _ = source.Read(key[40:]) // never fails
			_, _ = source.Read(value)
			binary.BigEndian.PutUint64(key[32:], uint64(i))
			if err := put(key, value); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(b, err)
	require.NoError(b, f.Close())
	o.Checkpoint = &Checkpoint{File: file, Hash: hash}
	n, err := New(o)
	require.NoError(b, err)
	b.SetBytes(92 + 101)
	b.ResetTimer()
	db, err := n.openState(b.Context())
	require.NoError(b, err)
	b.StopTimer()
	require.NoError(b, db.Close())
}
