package evm_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// traffic makes blocks as they are on a busy chain: 20 transactions each, of which a
// third move value, a third ERC-20 tokens, and the others more.
func traffic(blocks int, traced bool) []*chain.Block {
	rng := rand.New(rand.NewPCG(1, 1))
	bytes := func(b []byte) {
		for i := 0; i < len(b); i += 4 {
			var word [4]byte
			binary.LittleEndian.PutUint32(word[:], rng.Uint32())
			copy(b[i:], word[:])
		}
	}
	zipf := rand.NewZipf(rng, 1.1, 8, 50_000)
	who := func() (a common.Address) {
		n := zipf.Uint64() + 1
		for i := 0; i < len(a); i += 8 {
			n *= 0x9e3779b97f4a7c15
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], n)
			copy(a[i:], word[:])
		}
		return a
	}
	var all []*chain.Block
	for number := range blocks {
		b := &chain.Block{Number: uint64(number), Time: 1_700_000_000 + uint64(number), Traced: traced, BaseFee: uint256.NewInt(25e9 + rng.Uint64N(1e9))}
		b.Milliseconds = 1000*b.Time + rng.Uint64N(1000)
		bytes(b.Hash[:])
		index := uint32(0)
		for n := range 20 {
			to := who()
			tx := chain.Transaction{
				Type: 2, Nonce: rng.Uint64N(1e5), From: who(), To: &to, GasLimit: 21_000 + rng.Uint64N(1e5), GasUsed: 21_000 + rng.Uint64N(5e4),
				MaxFee: uint256.NewInt(50e9), MaxPriorityFee: uint256.NewInt(1e9), Success: rng.IntN(20) > 0,
			}
			tx.GasPrice.SetUint64(26e9 + rng.Uint64N(1e9))
			bytes(tx.Hash[:])
			log := func(topics []common.Hash, data ...uint64) {
				l := chain.Log{Index: index, Address: address(byte(0x30 + n%4)), Topics: topics}
				for _, d := range data {
					word := uint256.NewInt(d).Bytes32()
					l.Data = append(l.Data, word[:]...)
				}
				tx.Logs = append(tx.Logs, l)
				index++
			}
			switch {
			case n%3 == 0:
				tx.Value.SetUint64(rng.Uint64())
			case n%3 == 1:
				tx.Input = make([]byte, 68)
				bytes(tx.Input)
				log([]common.Hash{topicTransfer, topicOf(tx.From), topicOf(to)}, rng.Uint64())
			case n == 2, n == 5:
				tx.Input = make([]byte, 164)
				bytes(tx.Input)
				log([]common.Hash{topicSingle, topicOf(tx.From), topicOf(who()), topicOf(to)}, rng.Uint64N(1000), rng.Uint64N(10))
			case n == 8:
				tx.Input = make([]byte, 100)
				log([]common.Hash{topicTransfer, topicOf(tx.From), topicOf(to), topicOf(who())})
			case n == 11 && number%10 == 0:
				tx.To = nil
				tx.Input = make([]byte, 4000)
				bytes(tx.Created[:])
			default:
				tx.Input = make([]byte, 300)
				for range 3 {
					log([]common.Hash{topicTransfer, topicOf(who()), topicOf(who())}, rng.Uint64())
				}
				if traced {
					for range 4 {
						f := chain.Frame{Type: chain.FrameCall, From: to, To: who(), Gas: 50_000, GasUsed: 20_000, Depth: 1}
						if rng.IntN(3) == 0 {
							f.Value.SetUint64(rng.Uint64())
						}
						tx.Frames = append(tx.Frames, f)
					}
				}
			}
			b.Transactions = append(b.Transactions, tx)
		}
		all = append(all, b)
	}
	return all
}

// BenchmarkRecord indexes into the embedded store, in batches as a pipeline does.
func BenchmarkRecord(b *testing.B) {
	for name, traced := range map[string]bool{"logs": false, "traces": true} {
		b.Run(name, func(b *testing.B) {
			blocks := traffic(5000, traced)
			for b.Loop() {
				s, err := store.OpenPebble(b.Context(), store.PebbleOptions{Dir: b.TempDir()})
				require.NoError(b, err)
				projection := evm.NewProjection(network, chainID)
				var batch store.Batch
				for i, block := range blocks {
					require.NoError(b, projection.Apply(b.Context(), s, block, &batch))
					if batch.Len() > 20_000 || batch.Bytes() > 4<<20 || i == len(blocks)-1 {
						require.NoError(b, s.Commit(b.Context(), &batch))
						batch.Reset()
					}
				}
				b.ReportMetric(float64(s.Stats().Rows)/float64(20*len(blocks)), "rows/tx")
				require.NoError(b, s.Close())
			}
			txs := float64(20 * len(blocks))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000/txs, "us/tx")
		})
	}
}
