package xchain_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/avalanche/vertex"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/avm/block"
	"github.com/ava-labs/avalanchego/vms/avm/fxs"
	"github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/ledger"
	"quorate/internal/chain/linear/lineartest"
	"quorate/internal/chain/xchain"
)

var (
	chainID = ids.ID{'x', 'c', 'h'}
	avaxID  = ids.ID{'a', 'v', 'a', 'x'}
	token   = ids.ID{'t'}
	alice   = ids.ShortID{1}
	bob     = ids.ShortID{2}
	at      = time.Unix(1_760_000_000, 0).UTC()
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func owners(locktime uint64, addresses ...ids.ShortID) secp256k1fx.OutputOwners {
	return secp256k1fx.OutputOwners{Locktime: locktime, Threshold: 1, Addrs: addresses}
}

func pay(asset ids.ID, amount uint64, to ids.ShortID) *avax.TransferableOutput {
	return &avax.TransferableOutput{Asset: avax.Asset{ID: asset}, Out: &secp256k1fx.TransferOutput{Amt: amount, OutputOwners: owners(0, to)}}
}

func spend(seed byte, asset ids.ID, amount uint64) *avax.TransferableInput {
	return &avax.TransferableInput{
		UTXOID: avax.UTXOID{TxID: ids.ID{seed}, OutputIndex: uint32(seed)}, Asset: avax.Asset{ID: asset},
		In: &secp256k1fx.TransferInput{Amt: amount, Input: secp256k1fx.Input{SigIndices: []uint32{0}}},
	}
}

// common consumes 100 AVAX and 7 tokens, and makes 60 and 7.
func common() txs.BaseTx {
	return txs.BaseTx{BaseTx: avax.BaseTx{
		NetworkID: 5, BlockchainID: chainID, Memo: []byte("memo"),
		Ins:  []*avax.TransferableInput{spend(1, avaxID, 100), spend(2, token, 7)},
		Outs: []*avax.TransferableOutput{pay(avaxID, 60, alice), pay(token, 7, bob)},
	}}
}

func operation(asset byte, op fxs.FxOperation, seeds ...byte) *txs.Operation {
	o := &txs.Operation{Asset: avax.Asset{ID: ids.ID{asset}}, Op: op}
	for _, seed := range seeds {
		o.UTXOIDs = append(o.UTXOIDs, &avax.UTXOID{TxID: ids.ID{seed}, OutputIndex: 4})
	}
	return o
}

type kind struct {
	tx    txs.UnsignedTx
	kinds []ledger.OutputKind // of outputs beyond the two that all have
	asset *ledger.Asset
}

func kinds() map[string]kind {
	alices, bobs := owners(9, alice), owners(0, bob)
	return map[string]kind{
		"BaseTx": {tx: func() *txs.BaseTx { tx := common(); return &tx }()},
		"CreateAssetTx": {
			tx: &txs.CreateAssetTx{BaseTx: common(), Name: "Name of it", Symbol: "SYM", Denomination: 5, States: []*txs.InitialState{
				{FxIndex: 0, Outs: []verify.State{&secp256k1fx.TransferOutput{Amt: 11, OutputOwners: alices}, &secp256k1fx.MintOutput{OutputOwners: alices}}},
				{FxIndex: 1, Outs: []verify.State{&nftfx.MintOutput{GroupID: 3, OutputOwners: bobs}}},
				{FxIndex: 2, Outs: []verify.State{&propertyfx.MintOutput{OutputOwners: bobs}}},
			}},
			kinds: []ledger.OutputKind{ledger.Transfer, ledger.Mint, ledger.NFTMint, ledger.PropertyMint},
			asset: &ledger.Asset{Name: "Name of it", Symbol: "SYM", Denomination: 5},
		},
		"OperationTx": {
			tx: &txs.OperationTx{BaseTx: common(), Ops: []*txs.Operation{
				operation(20, &secp256k1fx.MintOperation{MintOutput: secp256k1fx.MintOutput{OutputOwners: alices}, TransferOutput: secp256k1fx.TransferOutput{Amt: 8, OutputOwners: bobs}}, 30),
				operation(21, &nftfx.MintOperation{GroupID: 2, Payload: []byte("art"), Outputs: []*secp256k1fx.OutputOwners{&alices, &bobs}}, 31),
				operation(21, &nftfx.TransferOperation{Output: nftfx.TransferOutput{GroupID: 1, Payload: []byte("moved"), OutputOwners: bobs}}, 32),
				operation(22, &propertyfx.MintOperation{MintOutput: propertyfx.MintOutput{OutputOwners: alices}, OwnedOutput: propertyfx.OwnedOutput{OutputOwners: bobs}}, 33),
				operation(22, &propertyfx.BurnOperation{}, 34, 35),
			}},
			kinds: []ledger.OutputKind{ledger.Mint, ledger.Transfer, ledger.NFTTransfer, ledger.NFTTransfer, ledger.NFTTransfer, ledger.PropertyMint, ledger.PropertyOwned},
		},
		"ImportTx": {tx: &txs.ImportTx{BaseTx: common(), SourceChain: ids.ID{'p'}, ImportedIns: []*avax.TransferableInput{spend(3, avaxID, 40)}}},
		"ExportTx": {
			tx:    &txs.ExportTx{BaseTx: common(), DestinationChain: ids.ID{'c'}, ExportedOuts: []*avax.TransferableOutput{pay(avaxID, 30, alice), pay(avaxID, 5, bob)}},
			kinds: []ledger.OutputKind{ledger.Transfer, ledger.Transfer},
		},
	}
}

func accepted(t testing.TB, unsigned txs.UnsignedTx) *txs.Tx {
	t.Helper()
	tx := &txs.Tx{Unsigned: unsigned}
	require.NoError(t, tx.Initialize(must(xchain.NewParser()).Codec()))
	return tx
}

var genesis = &ledger.Block{ChainID: chainID, Time: at.Add(-time.Hour), Txs: []ledger.Tx{{ID: avaxID, Kind: "CreateAssetTx"}}}

// earlier is what there was before blocks.
var earlier = xchain.PreCortina{Txs: 40, First: ids.ID{'f'}, Time: at.Add(time.Hour)}

func newDecoder(t testing.TB) *xchain.Decoder {
	t.Helper()
	d, err := xchain.NewDecoder(chainID, genesis)
	require.NoError(t, err)
	return d
}

func blockOf(parent ids.ID, height uint64, transactions ...*txs.Tx) *block.StandardBlock {
	return must(block.NewStandardBlock(parent, height, at, transactions, must(xchain.NewParser()).Codec()))
}

// TestKindsOfTransactions holds what the ledger says of each kind against the
// library's own account of inputs and outputs.
func TestKindsOfTransactions(t *testing.T) {
	d, parser := newDecoder(t), must(xchain.NewParser())
	tested := map[string]bool{}
	for name, test := range kinds() {
		tested[name] = true
		t.Run(name, func(t *testing.T) {
			tx := accepted(t, test.tx)
			parsed, err := d.ParseBlock(blockOf(ids.ID{1}, 7, tx).Bytes())
			require.NoError(t, err)
			b, err := d.Ledger(parsed)
			require.NoError(t, err)
			require.Equal(t, &ledger.Block{ChainID: chainID, Height: 7, ID: parsed.ID, Time: at, Txs: b.Txs}, b)
			require.Len(t, b.Txs, 1)
			got := b.Txs[0]
			require.Equal(t, tx.ID(), got.ID)
			require.Equal(t, ledger.Kind(name), got.Kind)
			require.Equal(t, []byte("memo"), got.Memo)
			if test.asset != nil {
				test.asset.ID = tx.ID()
			}
			require.Equal(t, test.asset, got.Asset)

			var ids []any
			for _, in := range tx.Unsigned.InputUTXOs() {
				ids = append(ids, in.InputID())
			}
			var consumed []any
			balance := map[any]int64{}
			for i, in := range got.Consumed {
				consumed = append(consumed, in.OutputID)
				balance[in.AssetID] += int64(in.Amount)
				if name == "ImportTx" && i == 2 {
					require.Equal(t, test.tx.(*txs.ImportTx).SourceChain, in.SourceChainID)
				} else {
					require.Equal(t, chainID, in.SourceChainID)
				}
			}
			require.Equal(t, ids, consumed)

			utxos := tx.UTXOs()
			if export, ok := test.tx.(*txs.ExportTx); ok {
				// These go to another chain, and so are not the X-Chain's.
				for _, out := range export.ExportedOuts {
					utxos = append(utxos, &avax.UTXO{UTXOID: avax.UTXOID{TxID: tx.ID(), OutputIndex: uint32(len(utxos))}, Asset: out.Asset, Out: out.Out})
				}
			}
			require.Len(t, got.Made, len(utxos))
			var made []ledger.OutputKind
			for i, utxo := range utxos {
				out := got.Made[i]
				made = append(made, out.Kind)
				require.Equal(t, utxo.InputID(), out.ID)
				require.Equal(t, utxo.AssetID(), out.AssetID)
				require.Equal(t, must(parser.Codec().Marshal(txs.CodecVersion, utxo)), out.Bytes)
				require.Equal(t, uint32(i), out.Index)
				require.Zero(t, out.StakeableLocktime)
				if name == "ExportTx" && i >= 2 {
					require.Equal(t, ledger.Exported, out.Role)
					require.NotEqual(t, chainID, out.DestinationID)
				} else {
					require.Equal(t, ledger.Ordinary, out.Role)
					require.Equal(t, chainID, out.DestinationID)
				}
				if amounter, ok := utxo.Out.(avax.Amounter); ok {
					require.Equal(t, amounter.Amount(), out.Amount)
				} else {
					require.Zero(t, out.Amount)
				}
				require.Equal(t, utxo.Out.(avax.Addressable).Addresses(), addresses(out))
				if out.Addresses[0] == alice && i >= 2 && name != "ExportTx" {
					require.Equal(t, uint64(9), out.Locktime)
				}
				balance[out.AssetID] -= int64(out.Amount)
			}
			require.Equal(t, append([]ledger.OutputKind{ledger.Transfer, ledger.Transfer}, test.kinds...), made)
			require.GreaterOrEqual(t, balance[avaxID], int64(0), "burned fee")
			require.Zero(t, balance[token], "tokens are neither made nor burned")

			// The same from before there were blocks.
			early, err := d.ParseTx(tx.Bytes(), 12, earlier)
			require.NoError(t, err)
			alone, err := d.Ledger(early)
			require.NoError(t, err)
			require.Equal(t, &ledger.Block{ChainID: chainID, Height: 13, Before: 41, ID: tx.ID(), Time: earlier.Time, Cortina: earlier.Time, Txs: b.Txs}, alone)
		})
	}
	visitor := reflect.TypeFor[txs.Visitor]()
	for i := range visitor.NumMethod() {
		if name := visitor.Method(i).Name; !tested[name] {
			t.Errorf("no test has a %s", name)
		}
	}
}

func addresses(out ledger.Output) [][]byte {
	var all [][]byte
	for _, a := range out.Addresses {
		all = append(all, a[:])
	}
	return all
}

// TestPastHasPlaces reads what was before blocks, and the first block after it.
func TestPastHasPlaces(t *testing.T) {
	d := newDecoder(t)
	got, err := d.Ledger(earlier.Genesis())
	require.NoError(t, err)
	require.Equal(t, &ledger.Block{ChainID: chainID, Before: 41, ID: earlier.First, Time: genesis.Time, Cortina: earlier.Time, Txs: genesis.Txs}, got)

	tx := accepted(t, kinds()["BaseTx"].tx).Bytes()
	b, err := d.ParseTx(tx, 39, earlier)
	require.NoError(t, err)
	require.Equal(t, []any{uint64(40), uint64(41), uint64(0), earlier.Time}, []any{b.Place, b.Before, b.Height, b.Time})

	first := must(d.ParseBlock(blockOf(ids.ID{'s'}, 0).Bytes()))
	first.Place, first.Before = 41, 41
	got, err = d.Ledger(first)
	require.NoError(t, err)
	require.Equal(t, &ledger.Block{ChainID: chainID, Height: 41, Before: 41, ID: first.ID, Time: at}, got, "nothing is new in the first block")
}

func TestChainsThatWereAlwaysLinear(t *testing.T) {
	d := newDecoder(t)
	alone := must(vertex.BuildStopVertex(chainID, 0, nil))
	after := must(vertex.BuildStopVertex(chainID, 1, []ids.ID{{1}}))
	for parent, want := range map[ids.ID]bool{ids.Empty: true, alone.ID(): true, after.ID(): false} {
		got, err := d.AlwaysLinear(must(d.ParseBlock(blockOf(parent, 0).Bytes())))
		require.NoError(t, err)
		require.Equal(t, want, got, "the first block follows %s", parent)
	}
}

func TestTokensHaveGroupAndPayload(t *testing.T) {
	d := newDecoder(t)
	early, err := d.ParseTx(accepted(t, kinds()["OperationTx"].tx).Bytes(), 0, earlier)
	require.NoError(t, err)
	b, err := d.Ledger(early)
	require.NoError(t, err)
	out := b.Txs[0].Made[4]
	require.Equal(t, uint32(2), out.GroupID)
	require.Equal(t, "art", string(out.Payload))
	require.Equal(t, ids.ID{21}, out.AssetID)
}

func TestBlocks(t *testing.T) {
	d := newDecoder(t)
	inner := blockOf(ids.ID{1}, 7, accepted(t, kinds()["BaseTx"].tx), accepted(t, kinds()["ImportTx"].tx))
	wrapped := must(proposer.BuildUnsigned(ids.ID{4}, at, 6, proposer.Epoch{}, inner.Bytes()))
	for name, b := range map[string][]byte{"bare": inner.Bytes(), "in its envelope": wrapped.Bytes()} {
		t.Run(name, func(t *testing.T) {
			got, err := d.ParseBlock(b)
			require.NoError(t, err)
			require.Len(t, got.Txs, 2)
			require.Equal(t, &xchain.Block{Height: 7, Place: 7, ID: inner.ID(), ParentID: ids.ID{1}, Time: at, Txs: got.Txs}, got)
		})
	}

	first := must(d.ParseBlock(blockOf(ids.ID{'s'}, 0).Bytes()))
	got, err := d.Ledger(first)
	require.NoError(t, err)
	require.Equal(t, &ledger.Block{ChainID: chainID, ID: first.ID, Time: genesis.Time, Txs: genesis.Txs}, got, "the first block stands for the genesis")
	full := must(d.ParseBlock(blockOf(ids.ID{'s'}, 0, accepted(t, kinds()["BaseTx"].tx)).Bytes()))
	_, err = d.Ledger(full)
	require.ErrorIs(t, err, xchain.ErrTransaction)

	for name, b := range map[string][]byte{
		"nothing": nil, "cut short": inner.Bytes()[:100], "something follows": append(inner.Bytes(), 0),
		"envelope around nothing": must(proposer.BuildOption(ids.ID{1}, []byte("no block"))).Bytes(),
		"a time beyond":           must(block.NewStandardBlock(ids.ID{}, 1, time.Unix(-5, 0), nil, must(xchain.NewParser()).Codec())).Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.ParseBlock(b)
			require.ErrorIs(t, err, xchain.ErrBlock)
		})
	}
	_, err = d.ParseTx([]byte{0, 0, 1}, 0, earlier)
	require.ErrorIs(t, err, xchain.ErrTransaction)
	_, err = xchain.NewDecoder(chainID, nil)
	require.Error(t, err)
}

// TestDependencies lists the transactions on the same chain that each kind of
// transaction consumes outputs of, apart from the genesis.
func TestDependencies(t *testing.T) {
	d := newDecoder(t)
	for name, k := range kinds() {
		tx := accepted(t, k.tx)
		read, err := d.Ledger(must(d.ParseTx(tx.Bytes(), 0, earlier)))
		require.NoError(t, err)
		local := make(map[ids.ID]bool) // outputs on the chain
		for _, in := range read.Txs[0].Consumed {
			if in.SourceChainID == chainID {
				local[in.OutputID] = true
			}
		}
		var want []ids.ID
		for _, in := range tx.Unsigned.InputUTXOs() {
			if local[in.InputID()] && in.TxID != avaxID && !slices.Contains(want, in.TxID) {
				want = append(want, in.TxID)
			}
		}
		got, err := d.Dependencies(tx.Bytes())
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	_, err := d.Dependencies([]byte{0, 0, 1})
	require.ErrorIs(t, err, xchain.ErrTransaction)
}

func TestVertices(t *testing.T) {
	transactions := [][]byte{accepted(t, kinds()["BaseTx"].tx).Bytes(), accepted(t, kinds()["ExportTx"].tx).Bytes()}
	parents := []ids.ID{{1}, {2}}
	built, err := vertex.Build(chainID, 9, parents, transactions)
	require.NoError(t, err)
	got, err := xchain.ParseVertex(built.Bytes())
	require.NoError(t, err)
	want := &xchain.Vertex{
		ID: built.ID(), ChainID: chainID, ParentIDs: parents, Height: 9,
		Txs: built.Txs(), Size: len(built.Bytes()),
	}
	for _, tx := range built.Txs() { // which the library has sorted
		want.TxIDs = append(want.TxIDs, hashing.ComputeHash256Array(tx))
	}
	require.Equal(t, want, got)
	d := newDecoder(t)
	for i, tx := range got.Txs {
		b, err := d.ParseTx(tx, uint64(i), earlier)
		require.NoError(t, err)
		require.Equal(t, got.TxIDs[i], b.ID)
	}

	stop, err := vertex.BuildStopVertex(chainID, 10, parents)
	require.NoError(t, err)
	got, err = xchain.ParseVertex(stop.Bytes())
	require.NoError(t, err)
	require.Empty(t, got.TxIDs)

	for name, b := range map[string][]byte{"nothing": nil, "cut short": built.Bytes()[:50], "something follows": append(built.Bytes(), 1), "a block": blockOf(ids.ID{1}, 7).Bytes()} {
		_, err := xchain.ParseVertex(b)
		require.ErrorIs(t, err, xchain.ErrVertex, name)
	}
}

func TestTypes(t *testing.T) {
	lineartest.RequireTypes(t, must(xchain.NewParser()).Codec(), xchain.RegisterTypes)
}

// blockWith returns the bytes of a block, which may be too long for a node.
func blockWith(standard *block.StandardBlock) []byte {
	var b block.Block = standard
	return must(must(xchain.NewParser()).GenesisCodec().Marshal(block.CodecVersion, &b))
}

// TestLongBlocks parses a block of the greatest size, and one with a byte more.
func TestLongBlocks(t *testing.T) {
	d := newDecoder(t)
	of := func(memo int) []byte {
		tx := &txs.Tx{Unsigned: &txs.BaseTx{BaseTx: avax.BaseTx{Memo: make([]byte, memo)}}}
		return blockWith(&block.StandardBlock{Transactions: []*txs.Tx{tx}})
	}
	most := codec.DefaultMaxSize - len(of(0))
	_, err := d.ParseBlock(of(most))
	require.NoError(t, err)
	_, err = d.ParseBlock(of(most + 1))
	require.ErrorIs(t, err, codec.ErrUnmarshalTooBig)
}

func FuzzBlock(f *testing.F) {
	for _, k := range kinds() {
		valid := blockOf(ids.ID{1}, 7, accepted(f, k.tx)).Bytes()
		f.Add(valid)
		f.Add(valid[:len(valid)-1])
		f.Add(append(valid, 0))
	}
	f.Add(blockWith(&block.StandardBlock{Time: math.MaxInt64 + 1}))
	f.Add(must(proposer.BuildOption(ids.ID{1}, blockOf(ids.ID{1}, 0).Bytes())).Bytes())
	f.Add(blockOf(ids.ID{1}, 7, accepted(f, kinds()["BaseTx"].tx), accepted(f, kinds()["CreateAssetTx"].tx), accepted(f, kinds()["ImportTx"].tx)).Bytes())
	d, parser := newDecoder(f), must(xchain.NewParser())
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := d.ParseBlock(raw)
		if around, wrapped := envelope.Open(raw); wrapped {
			raw = around.Block
		}
		if err != nil {
			require.ErrorIs(t, err, xchain.ErrBlock)
			full, err := parser.ParseBlock(raw)
			if err == nil {
				require.Negative(t, full.Timestamp().Unix(), "the library accepts it")
			}
			return
		}
		full, err := parser.ParseBlock(raw)
		require.NoError(t, err)
		require.Equal(t, full.ID(), b.ID)
		require.Len(t, b.Txs, len(full.Txs()))
		for i, tx := range full.Txs() {
			require.Equal(t, tx.ID(), b.Txs[i].ID())
			require.Equal(t, tx.Bytes(), b.Txs[i].Bytes())
			got, err := parser.Codec().Marshal(txs.CodecVersion, &b.Txs[i].Unsigned)
			require.NoError(t, err)
			require.Equal(t, tx.Unsigned.Bytes(), got)
		}
		got, err := d.Ledger(b)
		if err != nil {
			require.ErrorIs(t, err, xchain.ErrTransaction)
			return
		}
		for i, tx := range got.Txs {
			if b.Height == 0 {
				continue
			}
			require.Equal(t, b.Txs[i].ID(), tx.ID)
			for j, out := range tx.Made {
				require.Equal(t, uint32(j), out.Index)
				require.NotZero(t, out.Kind)
				require.NotEmpty(t, out.Bytes)
			}
			early, err := d.ParseTx(b.Txs[i].Bytes(), 0, earlier)
			require.NoError(t, err)
			alone, err := d.Ledger(early)
			require.NoError(t, err)
			require.Equal(t, tx, alone.Txs[0])
		}
	})
}

func FuzzVertex(f *testing.F) {
	tx := accepted(f, kinds()["BaseTx"].tx).Bytes()
	f.Add(must(vertex.Build(chainID, 9, []ids.ID{{1}}, [][]byte{tx})).Bytes())
	f.Add(must(vertex.BuildStopVertex(chainID, 9, []ids.ID{{1}})).Bytes())
	d := newDecoder(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := xchain.ParseVertex(raw)
		if err != nil {
			require.ErrorIs(t, err, xchain.ErrVertex)
			return
		}
		require.Equal(t, ids.ID(hashing.ComputeHash256Array(raw)), v.ID)
		require.Len(t, v.TxIDs, len(v.Txs))
		for i, tx := range v.Txs {
			if b, err := d.ParseTx(tx, 0, earlier); err == nil {
				require.Equal(t, v.TxIDs[i], b.ID)
			}
		}
	})
}
