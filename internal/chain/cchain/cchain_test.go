package cchain_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	proposer "github.com/ava-labs/avalanchego/vms/proposervm/block"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"

	"quorate/internal/chain/cchain"
	"quorate/internal/chain/ledger"
)

// The types in which a wallet encodes atomic transactions, declared independently of the decoder.
type (
	walletTx struct {
		Unsigned any                 `serialize:"true"`
		Creds    []verify.Verifiable `serialize:"true"`
	}
	walletImport struct {
		NetworkID   uint32                    `serialize:"true"`
		ChainID     ids.ID                    `serialize:"true"`
		SourceChain ids.ID                    `serialize:"true"`
		Inputs      []*avax.TransferableInput `serialize:"true"`
		Outs        []walletOutput            `serialize:"true"`
	}
	walletExport struct {
		NetworkID   uint32                     `serialize:"true"`
		ChainID     ids.ID                     `serialize:"true"`
		Destination ids.ID                     `serialize:"true"`
		Ins         []walletInput              `serialize:"true"`
		Outs        []*avax.TransferableOutput `serialize:"true"`
	}
	walletOutput struct {
		Address common.Address `serialize:"true"`
		Amount  uint64         `serialize:"true"`
		AssetID ids.ID         `serialize:"true"`
	}
	walletInput struct {
		Address common.Address `serialize:"true"`
		Amount  uint64         `serialize:"true"`
		AssetID ids.ID         `serialize:"true"`
		Nonce   uint64         `serialize:"true"`
	}
)

func walletCodec(t testing.TB) codec.Manager {
	t.Helper()
	c, m := linearcodec.NewDefault(), codec.NewDefaultManager()
	for number, registered := range []any{
		&walletImport{}, &walletExport{}, nil, nil, nil, &secp256k1fx.TransferInput{}, nil, &secp256k1fx.TransferOutput{}, nil, &secp256k1fx.Credential{},
	} {
		if registered == nil {
			c.SkipRegistrations(1)
		} else {
			require.NoError(t, c.RegisterType(registered), number)
		}
	}
	require.NoError(t, m.RegisterCodec(0, c))
	return m
}

var (
	mainnetC    = must(ids.FromString("2q9e4r6Mu3U68nU1fYjgbR6JvwrRx36CohpAX5UQxse55x1Q5"))
	mainnetX    = must(ids.FromString("2oYMBNV4eNHyqk2fjjV5nVQLDbtmNJzq5s3qs3Lo6ftnC6FByM"))
	mainnetAVAX = must(ids.FromString("FvwEAhmxKfeiG8SnEvq42hc6whRyY3EFYAvebMqDNDGCgxN5Z"))

	alice  = ids.ShortID{1}
	beside = time.Date(2021, time.December, 2, 18, 0, 0, 0, time.UTC) // Apricot phase 5
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func anImport() *walletTx {
	return &walletTx{
		Unsigned: &walletImport{
			NetworkID: constants.MainnetID, ChainID: mainnetC, SourceChain: mainnetX,
			Inputs: []*avax.TransferableInput{
				{UTXOID: avax.UTXOID{TxID: ids.ID{1}, OutputIndex: 2}, Asset: avax.Asset{ID: mainnetAVAX}, In: &secp256k1fx.TransferInput{Amt: 50, Input: secp256k1fx.Input{SigIndices: []uint32{0}}}},
				{UTXOID: avax.UTXOID{TxID: ids.ID{2}}, Asset: avax.Asset{ID: ids.ID{3}}, In: &secp256k1fx.TransferInput{Amt: 60, Input: secp256k1fx.Input{SigIndices: []uint32{}}}},
			},
			Outs: []walletOutput{{common.Address{7}, 45, mainnetAVAX}, {common.Address{8}, 60, ids.ID{3}}},
		},
		Creds: []verify.Verifiable{&secp256k1fx.Credential{Sigs: [][65]byte{{1}}}},
	}
}

func anExport() *walletTx {
	return &walletTx{
		Unsigned: &walletExport{
			NetworkID: constants.MainnetID, ChainID: mainnetC, Destination: constants.PlatformChainID,
			Ins: []walletInput{{common.Address{9}, 100, mainnetAVAX, 5}},
			Outs: []*avax.TransferableOutput{
				{Asset: avax.Asset{ID: mainnetAVAX}, Out: &secp256k1fx.TransferOutput{Amt: 70, OutputOwners: secp256k1fx.OutputOwners{Threshold: 1, Addrs: []ids.ShortID{alice}}}},
				{Asset: avax.Asset{ID: mainnetAVAX}, Out: &secp256k1fx.TransferOutput{Amt: 20, OutputOwners: secp256k1fx.OutputOwners{Locktime: 6, Threshold: 1, Addrs: []ids.ShortID{alice, {2}}}}},
			},
		},
		Creds: []verify.Verifiable{},
	}
}

func newDecoder(t testing.TB) *cchain.Decoder {
	t.Helper()
	d, err := cchain.NewDecoder(constants.MainnetID, mainnetC, nil)
	require.NoError(t, err)
	return d
}

// TestTransactions decodes imports and exports, single and in lists, before and after Apricot Phase 5.
func TestTransactions(t *testing.T) {
	d, c := newDecoder(t), walletCodec(t)
	one, two := anImport(), anExport()
	for name, test := range map[string]struct {
		at    time.Time
		extra []byte
		txs   []*walletTx
	}{
		"none":            {at: beside},
		"import alone":    {beside.Add(-time.Second), must(c.Marshal(0, one)), []*walletTx{one}},
		"export alone":    {beside.Add(-time.Second), must(c.Marshal(0, two)), []*walletTx{two}},
		"list of one":     {beside, must(c.Marshal(0, []*walletTx{two})), []*walletTx{two}},
		"list of several": {beside, must(c.Marshal(0, []*walletTx{two, one, one})), []*walletTx{two, one, one}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &cchain.Block{Height: 9, ID: ids.ID{4}, Time: test.at, ExtraData: test.extra}
			got, err := d.Ledger(b)
			require.NoError(t, err)
			all, err := d.Transactions(b)
			require.NoError(t, err)
			require.Len(t, all, len(test.txs))
			require.Equal(t, &ledger.Block{ChainID: mainnetC, Height: 9, ID: ids.ID{4}, Time: test.at, Txs: got.Txs}, got)
			require.Len(t, got.Txs, len(test.txs))
			for i, tx := range test.txs {
				txID := ids.ID(hashing.ComputeHash256Array(must(c.Marshal(0, tx))))
				require.Equal(t, all[i], got.Txs[i])
				burned := map[ids.ID]int64{}
				switch unsigned := tx.Unsigned.(type) {
				case *walletImport:
					var inputs []ledger.Input
					for _, in := range unsigned.Inputs {
						inputs = append(inputs, ledger.Input{OutputID: in.InputID(), SourceChainID: mainnetX, AssetID: in.AssetID(), Amount: in.In.Amount()})
						burned[in.AssetID()] += int64(in.In.Amount())
					}
					require.Equal(t, ledger.Tx{ID: txID, Kind: "ImportTx", Consumed: inputs}, got.Txs[i])
					for _, out := range unsigned.Outs {
						burned[out.AssetID] -= int64(out.Amount)
					}
				case *walletExport:
					var outputs []ledger.Output
					for j, out := range unsigned.Outs {
						utxo := &avax.UTXO{UTXOID: avax.UTXOID{TxID: txID, OutputIndex: uint32(j)}, Asset: out.Asset, Out: out.Out}
						owners := out.Out.(*secp256k1fx.TransferOutput).OutputOwners
						outputs = append(outputs, ledger.Output{
							ID: utxo.InputID(), TxID: txID, Index: uint32(j), Kind: ledger.Transfer, Role: ledger.Exported, AssetID: mainnetAVAX,
							Amount: out.Out.Amount(), Addresses: owners.Addrs, Threshold: 1, Locktime: owners.Locktime,
							DestinationID: constants.PlatformChainID, Bytes: must(c.Marshal(0, utxo)),
						})
						burned[out.AssetID()] -= int64(out.Out.Amount())
					}
					require.Equal(t, ledger.Tx{ID: txID, Kind: "ExportTx", Made: outputs}, got.Txs[i])
					burned[mainnetAVAX] += 100
				}
				require.Positive(t, burned[mainnetAVAX], "burned fee")
				require.Zero(t, burned[ids.ID{3}])
			}
		})
	}
}

// TestUpgradesOfAnOwnNetwork decodes a single transaction before the Apricot Phase 5 of a network with times of its own.
func TestUpgradesOfAnOwnNetwork(t *testing.T) {
	const networkID = 99999
	c, one := walletCodec(t), anImport()
	one.Unsigned.(*walletImport).NetworkID = networkID
	own := upgrade.Default
	own.ApricotPhase5Time = beside.Add(time.Hour)
	b := &cchain.Block{Height: 9, Time: beside, ExtraData: must(c.Marshal(0, one))}
	for _, upgrades := range []*upgrade.Config{&own, nil} {
		d, err := cchain.NewDecoder(networkID, mainnetC, upgrades)
		require.NoError(t, err)
		all, err := d.Transactions(b)
		if upgrades == nil {
			require.ErrorIs(t, err, cchain.ErrTransaction, "a default network has lists from its beginning")
			continue
		}
		require.NoError(t, err)
		require.Len(t, all, 1)
	}
}

func TestUnreadableTransactions(t *testing.T) {
	d, c := newDecoder(t), walletCodec(t)
	good := must(c.Marshal(0, []*walletTx{anExport()}))
	other := anImport()
	other.Unsigned.(*walletImport).NetworkID = constants.FujiID
	elsewhere := anExport()
	elsewhere.Unsigned.(*walletExport).ChainID = mainnetX
	for name, test := range map[string]struct {
		at    time.Time
		extra []byte
	}{
		"cut short":               {beside, good[:len(good)-1]},
		"something follows":       {beside, append(good[:len(good):len(good)], 0)},
		"no list":                 {beside, must(c.Marshal(0, anExport()))},
		"a list before its time":  {beside.Add(-time.Second), good},
		"an empty list":           {beside, must(c.Marshal(0, []*walletTx{}))},
		"another network":         {beside, must(c.Marshal(0, []*walletTx{other}))},
		"another chain":           {beside, must(c.Marshal(0, []*walletTx{elsewhere}))},
		"an unknown transaction":  {beside.Add(-time.Second), []byte{0, 0, 0, 0, 0, 2}},
		"an unknown codec":        {beside, append([]byte{0, 1}, good[2:]...)},
		"no version":              {beside, []byte{0}},
		"a list beyond the bytes": {beside, []byte{0, 0, 255, 255, 255, 255}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := d.Ledger(&cchain.Block{Time: test.at, ExtraData: test.extra})
			require.ErrorIs(t, err, cchain.ErrTransaction, "got %+v", got)
		})
	}
}

// TestMainnetTransactions decodes the transactions of blocks 4 and 48 of mainnet's C-Chain.
func TestMainnetTransactions(t *testing.T) {
	d := newDecoder(t)
	at := time.Date(2020, time.October, 1, 0, 0, 0, 0, time.UTC)
	read := func(height uint64, extra string) ledger.Tx {
		t.Helper()
		got, err := d.Transactions(&cchain.Block{Height: height, Time: at, ExtraData: must(hex.DecodeString(extra))})
		require.NoError(t, err)
		require.Len(t, got, 1)
		return got[0]
	}
	tx := read(4, "000000000000000000010427d4b22a2a78bcddd456742caf91b56badbff985ee19aef14573e7343fd652ed5f38341e436e5d46e2bb00b45d62ae97d1b050c64bc634ae10626739e35c4b00000001c52b712aa7dce27a650bf509f799673e245edd4fa9e4e1700eb6105202fe579a0000000121e67317cbc4be2aeb00677ad6462778a8f52274b9d605df2591b23027a87dff000000050000000002faf080000000010000000000000001b8b5a87d1c05676f1f966da49151fa54dbe68c330000000002faf08021e67317cbc4be2aeb00677ad6462778a8f52274b9d605df2591b23027a87dff0000000100000009000000013e6614876ee01d3b8b27480c00bdcb0ae84ee3e8346d2d5f08320f7dd3e76c4540be021fe85e91817654c9310b54e8f2e88d81db52b8693842b90f3dbd23bd5c01")
	require.Equal(t, "h34BPNmYApCbW8buVWAtzu1KtjTFmyMhiRQQnAqPqwCqQsB7f", tx.ID.String())
	require.Equal(t, ledger.Kind("ImportTx"), tx.Kind)
	require.Len(t, tx.Consumed, 1)
	require.Equal(t, uint64(50_000_000), tx.Consumed[0].Amount)
	require.Equal(t, mainnetX, tx.Consumed[0].SourceChainID)
	require.Equal(t, mainnetAVAX, tx.Consumed[0].AssetID)

	tx = read(48, "000000000001000000010427d4b22a2a78bcddd456742caf91b56badbff985ee19aef14573e7343fd652ed5f38341e436e5d46e2bb00b45d62ae97d1b050c64bc634ae10626739e35c4b00000001eb019ccd325ad53543a7e7e3b04828bdecf3cff600000000000f424121e67317cbc4be2aeb00677ad6462778a8f52274b9d605df2591b23027a87dff00000000000000000000000121e67317cbc4be2aeb00677ad6462778a8f52274b9d605df2591b23027a87dff00000007000000000000000100000000000000000000000100000001d6ce17826dd7c12a7577af257e82d99143b72500000000010000000900000001254d11f1adbd5dfb556855d02ac236ea2dd45d1463459b73714f55ab8d34a4b74a1f18c2868b886e83a5463c422ea3ccc7e9783d5620b1f5695646b0cb1e4dfa01")
	require.Equal(t, "ng7Dox1r8nctrF6zurhRPYWxkmE2juUhT7Qhpauyo8qSEu6jB", tx.ID.String())
	require.Equal(t, ledger.Kind("ExportTx"), tx.Kind)
	require.Len(t, tx.Made, 1)
	require.Equal(t, uint64(1), tx.Made[0].Amount)
	require.Equal(t, mainnetX, tx.Made[0].DestinationID)
}

// header has the original fields of C-Chain headers.
type header struct {
	ParentHash, UncleHash common.Hash
	Coinbase              common.Address
	Root, TxHash, Receipt common.Hash
	Bloom                 [256]byte
	Difficulty, Number    uint64
	GasLimit, GasUsed     uint64
	Time                  uint64
	Extra                 []byte
	MixDigest             common.Hash
	Nonce                 [8]byte
	ExtDataHash           common.Hash
	Later                 []uint64 `rlp:"tail"`
}

func blockOf(extra []byte, seconds uint64, later ...uint64) []byte {
	h := header{ParentHash: common.Hash{5}, Number: 77, Time: seconds, Later: later, Extra: []byte("x")}
	return must(rlp.EncodeToBytes([]any{h, []any{[]byte("a transaction")}, []any{}, uint32(0), extra}))
}

func TestBlocks(t *testing.T) {
	extra := must(walletCodec(t).Marshal(0, []*walletTx{anExport()}))
	seconds := uint64(beside.Unix())
	for name, later := range map[string][]uint64{"of the beginning": nil, "with a base fee": {25}, "with more to come": {1, 2, 3, 4, 5, 6, 7}} {
		t.Run(name, func(t *testing.T) {
			raw := blockOf(extra, seconds, later...)
			h := must(rlp.EncodeToBytes(header{ParentHash: common.Hash{5}, Number: 77, Time: seconds, Later: later, Extra: []byte("x")}))
			want := &cchain.Block{Height: 77, ID: ids.ID(crypto.Keccak256(h)), ParentID: ids.ID{5}, Time: beside, ExtraData: extra}
			got, err := cchain.ParseBlock(raw)
			require.NoError(t, err)
			require.Equal(t, want, got)

			wrapped := must(proposer.BuildUnsigned(ids.ID{4}, beside, 6, proposer.Epoch{}, raw))
			got, err = cchain.ParseBlock(wrapped.Bytes())
			require.NoError(t, err)
			require.Equal(t, want, got)
			_, err = newDecoder(t).Ledger(got)
			require.NoError(t, err)
		})
	}
	raw := blockOf(nil, seconds)
	got, err := cchain.ParseBlock(raw)
	require.NoError(t, err)
	require.Empty(t, got.ExtraData)

	list := func(members ...any) []byte { return must(rlp.EncodeToBytes(members)) }
	for name, b := range map[string][]byte{
		"nothing": nil, "cut short": raw[:len(raw)-1], "something follows": append(raw[:len(raw):len(raw)], 1), "a text": {0x82, 1, 2},
		"four members":            list(header{}, []any{}, []any{}, uint32(0)),
		"a header of text":        list([]byte("header"), []any{}, []any{}, uint32(0), []byte{}),
		"a short header":          list([]any{uint(1), uint(2)}, []any{}, []any{}, uint32(0), []byte{}),
		"a list of extra data":    list(header{}, []any{}, []any{}, uint32(0), []any{uint(1)}),
		"a time beyond":           blockOf(nil, 1<<63),
		"envelope around nothing": must(proposer.BuildOption(ids.ID{1}, []byte("no block"))).Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cchain.ParseBlock(b)
			require.ErrorIs(t, err, cchain.ErrBlock, "got %+v", got)
		})
	}
}

func FuzzBlock(f *testing.F) {
	c := walletCodec(f)
	f.Add(blockOf(must(c.Marshal(0, []*walletTx{anExport(), anImport()})), uint64(beside.Unix())))
	f.Add(blockOf(must(c.Marshal(0, anImport())), 1, 2, 3))
	f.Add(must(proposer.BuildOption(ids.ID{1}, blockOf(nil, 1))).Bytes())
	d := newDecoder(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := cchain.ParseBlock(raw)
		if err != nil {
			require.ErrorIs(t, err, cchain.ErrBlock)
			return
		}
		requireRead(t, d, b)
	})
}

func FuzzExtraData(f *testing.F) {
	c := walletCodec(f)
	f.Add(must(c.Marshal(0, []*walletTx{anExport(), anImport()})), true)
	f.Add(must(c.Marshal(0, anImport())), false)
	f.Add(must(c.Marshal(0, anExport())), false)
	d := newDecoder(f)
	f.Fuzz(func(t *testing.T, extra []byte, isList bool) {
		at := beside
		if !isList {
			at = at.Add(-time.Second)
		}
		requireRead(t, d, &cchain.Block{Time: at, ExtraData: extra})
	})
}

func requireRead(t *testing.T, d *cchain.Decoder, b *cchain.Block) {
	t.Helper()
	got, err := d.Ledger(b)
	if err != nil {
		require.ErrorIs(t, err, cchain.ErrTransaction)
		return
	}
	if len(b.ExtraData) > 0 {
		require.NotEmpty(t, got.Txs)
	}
	for _, tx := range got.Txs {
		for i, out := range tx.Made {
			require.Equal(t, uint32(i), out.Index)
			require.Equal(t, ledger.Exported, out.Role)
			require.NotEmpty(t, out.Bytes)
		}
	}
}
