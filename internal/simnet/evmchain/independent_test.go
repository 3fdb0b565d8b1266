package evmchain

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"slices"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"

	"quorate/internal/chain/evm"
)

// Blocks as nodes report them, decoded without anything of this package.

// corethHeader is the C-Chain's (avalanchego graft/coreth/plugin/evm/customtypes).
type corethHeader struct {
	ParentHash            common.Hash      `json:"parentHash"`
	UncleHash             common.Hash      `json:"sha3Uncles"`
	Coinbase              common.Address   `json:"miner"`
	Root                  common.Hash      `json:"stateRoot"`
	TxHash                common.Hash      `json:"transactionsRoot"`
	ReceiptHash           common.Hash      `json:"receiptsRoot"`
	Bloom                 types.Bloom      `json:"logsBloom"`
	Difficulty            *jsonBig         `json:"difficulty"`
	Number                *jsonBig         `json:"number"`
	GasLimit              hexutil.Uint64   `json:"gasLimit"`
	GasUsed               hexutil.Uint64   `json:"gasUsed"`
	Time                  hexutil.Uint64   `json:"timestamp"`
	Extra                 hexutil.Bytes    `json:"extraData"`
	MixDigest             common.Hash      `json:"mixHash"`
	Nonce                 types.BlockNonce `json:"nonce"`
	ExtDataHash           common.Hash      `json:"extDataHash"`
	BaseFee               *jsonBig         `json:"baseFeePerGas" rlp:"optional"`
	ExtDataGasUsed        *jsonBig         `json:"extDataGasUsed" rlp:"optional"`
	BlockGasCost          *jsonBig         `json:"blockGasCost" rlp:"optional"`
	BlobGasUsed           *hexutil.Uint64  `json:"blobGasUsed" rlp:"optional"`
	ExcessBlobGas         *hexutil.Uint64  `json:"excessBlobGas" rlp:"optional"`
	ParentBeaconRoot      *common.Hash     `json:"parentBeaconBlockRoot" rlp:"optional"`
	TimestampMilliseconds *hexutil.Uint64  `json:"timestampMilliseconds" rlp:"optional"`
	MinDelayExcess        *hexutil.Uint64  `json:"minDelayExcess" rlp:"optional"`
}

// subnetHeader is an L1's (graft/subnet-evm/plugin/evm/customtypes).
type subnetHeader struct {
	ParentHash, UncleHash             common.Hash
	Coinbase                          common.Address
	Root, TxHash, ReceiptHash         common.Hash
	Bloom                             types.Bloom
	Difficulty, Number                *jsonBig
	GasLimit, GasUsed, Time           hexutil.Uint64
	Extra                             hexutil.Bytes
	MixDigest                         common.Hash
	Nonce                             types.BlockNonce
	BaseFee                           *jsonBig        `rlp:"optional"`
	BlockGasCost                      *jsonBig        `rlp:"optional"`
	BlobGasUsed, ExcessBlobGas        *hexutil.Uint64 `rlp:"optional"`
	ParentBeaconRoot                  *common.Hash    `rlp:"optional"`
	TimestampMilliseconds, MinimumGap *hexutil.Uint64 `rlp:"optional"`
}

// jsonBig is a quantity in JSON, and a number in RLP.
type jsonBig struct{ big.Int }

func (b *jsonBig) UnmarshalJSON(text []byte) error {
	var h hexutil.Big
	err := h.UnmarshalJSON(text)
	b.Int = big.Int(h)
	return err
}

func (b *jsonBig) EncodeRLP(w io.Writer) error { return rlp.Encode(w, &b.Int) }

// rpcBlock is eth_getBlockByNumber's, with what the types of libevm leave out.
type rpcBlock struct {
	corethHeader
	Hash         common.Hash `json:"hash"`
	Size         hexutil.Uint64
	Transactions []toldTransaction
}

type toldTransaction struct {
	types.Transaction
	rest
}

// rest is what the type of libevm leaves out.
type rest struct {
	From             common.Address
	BlockHash        common.Hash
	BlockNumber      hexutil.Uint64
	TransactionIndex hexutil.Uint64
	Hash             common.Hash
	GasPrice         hexutil.Big
}

func (t *toldTransaction) UnmarshalJSON(text []byte) error {
	if err := t.Transaction.UnmarshalJSON(text); err != nil {
		return err
	}
	return json.Unmarshal(text, &t.rest)
}

// toldFrame is callTracer's.
type toldFrame struct {
	Type                string
	From                common.Address
	To                  *common.Address
	Value               *hexutil.Big
	Gas, GasUsed        hexutil.Uint64
	Input, Output       hexutil.Bytes
	Error, RevertReason string
	Calls               []toldFrame
}

type toldTrace struct {
	TxHash common.Hash
	Result toldFrame
}

func read[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(text, &v), "%s", text)
	return v
}

// chain makes a chain of so many transactions.
func chain(t *testing.T, o Options) (*Generator, []*Block) {
	t.Helper()
	g, err := New(o)
	require.NoError(t, err)
	var blocks []*Block
	for len(blocks) == 0 || g.Txs() < o.Txs {
		b, err := g.Next()
		require.NoError(t, err)
		blocks = append(blocks, b)
	}
	return g, blocks
}

// TestBlocksFitTogether reads blocks with the types of libevm, and compares hashes, senders and
// blooms.
//
//test:plain
func TestBlocksFitTogether(t *testing.T) {
	for name, o := range map[string]Options{"C-Chain": {Seed: 1, Txs: 4000}, "L1": {Seed: 2, Txs: 1000, L1: true, ChainID: 99001}} {
		t.Run(name, func(t *testing.T) {
			_, blocks := chain(t, o)
			var parent common.Hash
			var milliseconds uint64
			var withoutMilliseconds, withoutTransactions int
			seen := make(map[common.Hash]bool)
			nonces := make(map[common.Address]uint64)
			for number, b := range blocks {
				nodeBlock := read[rpcBlock](t, b.Text)
				require.EqualValues(t, number, nodeBlock.Number.Uint64())
				require.Equal(t, parent, nodeBlock.ParentHash, "block %d", number)
				parent = nodeBlock.Hash
				h := nodeBlock.corethHeader
				encoded, err := rlp.EncodeToBytes(&h)
				if o.L1 {
					encoded, err = rlp.EncodeToBytes(&subnetHeader{
						h.ParentHash, h.UncleHash, h.Coinbase, h.Root, h.TxHash, h.ReceiptHash, h.Bloom, h.Difficulty, h.Number,
						h.GasLimit, h.GasUsed, h.Time, h.Extra, h.MixDigest, h.Nonce,
						h.BaseFee, h.BlockGasCost, h.BlobGasUsed, h.ExcessBlobGas, h.ParentBeaconRoot, h.TimestampMilliseconds, h.MinDelayExcess,
					})
				}
				require.NoError(t, err)
				require.Equal(t, crypto.Keccak256Hash(encoded), nodeBlock.Hash, "hash of block %d", number)
				require.Equal(t, b.Hash, nodeBlock.Hash)
				at := uint64(nodeBlock.Time) * 1000
				if nodeBlock.TimestampMilliseconds != nil {
					at = uint64(*nodeBlock.TimestampMilliseconds)
					require.Equal(t, uint64(nodeBlock.Time), at/1000)
				} else {
					withoutMilliseconds++
				}
				require.GreaterOrEqual(t, at, milliseconds/1000*1000, "time of block %d", number)
				milliseconds = at
				if len(nodeBlock.Transactions) == 0 {
					withoutTransactions++
				}

				receipts := read[[]*types.Receipt](t, b.Receipts)
				require.Len(t, receipts, len(nodeBlock.Transactions))
				var gas uint64
				var logs uint
				var txs, encodedReceipts [][]byte
				size := uint64(len(encoded)) + 1
				if !o.L1 {
					size += 2
				}
				var body uint64
				for i := range nodeBlock.Transactions {
					tx, receipt := &nodeBlock.Transactions[i], receipts[i]
					require.Equal(t, tx.Transaction.Hash(), tx.rest.Hash, "transaction %d of block %d", i, number)
					require.False(t, seen[tx.rest.Hash])
					seen[tx.rest.Hash] = true
					require.Equal(t, nodeBlock.Hash, tx.BlockHash)
					require.EqualValues(t, number, tx.BlockNumber)
					require.EqualValues(t, i, tx.TransactionIndex)
					sender, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), &tx.Transaction)
					require.NoError(t, err)
					require.Equal(t, sender, tx.From)
					require.Equal(t, nonces[sender], tx.Nonce(), "nonce of %s", sender)
					nonces[sender]++

					require.Equal(t, tx.rest.Hash, receipt.TxHash)
					require.Equal(t, nodeBlock.Hash, receipt.BlockHash)
					require.EqualValues(t, i, receipt.TransactionIndex)
					require.Equal(t, tx.Type(), receipt.Type)
					require.LessOrEqual(t, receipt.GasUsed, tx.Gas())
					gas += receipt.GasUsed
					require.Equal(t, gas, receipt.CumulativeGasUsed)
					require.Equal(t, (*big.Int)(&tx.rest.GasPrice), receipt.EffectiveGasPrice)
					want := tx.Transaction.GasPrice()
					if tx.Type() == types.DynamicFeeTxType {
						want = new(big.Int).Add(&nodeBlock.BaseFee.Int, tx.GasTipCap())
						if want.Cmp(tx.GasFeeCap()) > 0 {
							want = tx.GasFeeCap()
						}
					}
					require.Equal(t, want.String(), receipt.EffectiveGasPrice.String())
					if tx.To() == nil {
						require.Equal(t, crypto.CreateAddress(sender, tx.Nonce()), receipt.ContractAddress)
					} else {
						require.Zero(t, receipt.ContractAddress)
					}
					if receipt.Status == 0 {
						require.Empty(t, receipt.Logs)
					}
					for _, l := range receipt.Logs {
						require.Equal(t, logs, l.Index, "block %d", number)
						require.Equal(t, tx.rest.Hash, l.TxHash)
						require.Equal(t, nodeBlock.Hash, l.BlockHash)
						logs++
					}
					require.Equal(t, types.CreateBloom(types.Receipts{receipt}), receipt.Bloom)
					raw, err := tx.MarshalBinary()
					require.NoError(t, err)
					txs = append(txs, raw)
					inBlock, err := rlp.EncodeToBytes(&tx.Transaction)
					require.NoError(t, err)
					body += uint64(len(inBlock))
					raw, err = receipt.MarshalBinary()
					require.NoError(t, err)
					encodedReceipts = append(encodedReceipts, raw)
				}
				require.Equal(t, types.CreateBloom(receipts), nodeBlock.Bloom)
				require.EqualValues(t, gas, nodeBlock.GasUsed)
				require.Equal(t, rootOf(txs), nodeBlock.TxHash, "transactionsRoot of block %d", number)
				require.Equal(t, rootOf(encodedReceipts), nodeBlock.ReceiptHash, "receiptsRoot of block %d", number)
				size += rlp.ListSize(body)
				require.EqualValues(t, rlp.ListSize(size), nodeBlock.Size)
			}
			require.NotZero(t, withoutMilliseconds)
			require.Less(t, withoutMilliseconds, len(blocks)/2)
			require.NotZero(t, withoutTransactions)
		})
	}
}

// TestRootIsThatOfLibevm compares with types.DeriveSha of libevm.
func TestRootIsThatOfLibevm(t *testing.T) {
	for n, want := range map[int]string{
		0:   "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
		1:   "0x7da536f7df63a0dfb481590e53be0e3063d9b798925cc3d479a3eb3155d0b394",
		2:   "0x47a291e1f0920ea2b564d3d828c0f3a4691bc9f2b15813c5a3a3e7e3d6bd17ef",
		17:  "0xc77e9c9740a1bfdc42c6e9f3a813bbbd74c7e088d820b900226adcf28b6f7195",
		128: "0xe1cd4f1f54c7598231e569250fc86b14343bbd6432cd96404aafab0b44bcac51",
		300: "0xe4d023b77f84f8318a006e22663b6ad6525971498f3ad152b540168f307979c9",
		600: "0x52f7f773fab27c14629b1f4c59f94bde5d2953f63a056d38bdefbad57cbacc25",
	} {
		values := make([][]byte, n)
		for i := range values {
			values[i] = bytes.Repeat([]byte{byte(i)}, 1+i*i%90)
		}
		require.Equal(t, want, rootOf(values).Hex(), "of %d values", n)
	}
}

func TestEqualOptionsMakeEqualChains(t *testing.T) {
	o := Options{Seed: 5, Txs: 500}
	_, a := chain(t, o)
	o.Record = true // which must change nothing
	_, b := chain(t, o)
	for i := range a {
		require.Equal(t, string(a[i].Text), string(b[i].Text))
		require.Equal(t, string(a[i].Receipts), string(b[i].Receipts))
		require.Equal(t, string(a[i].Traces), string(b[i].Traces))
	}
	o.Seed++
	_, c := chain(t, o)
	require.NotEqual(t, a[1].Hash, c[1].Hash)
}

// replay is what blocks say of balances, tokens and contracts.
type replay struct {
	native map[common.Address]*big.Int
	multi  map[common.Address]map[tokenOf]*big.Int // by wallet
	owners map[tokenOf]common.Address
	// of transactions, in their order
	internals   []Internal
	deployments []Deployment
	transfers   []Transfer
	days        map[int64]uint64
	frames      map[string]int
	failures    map[string]int
}

type tokenOf struct {
	contract common.Address
	id       common.Hash
}

func newReplay() *replay {
	return &replay{
		native: make(map[common.Address]*big.Int), multi: make(map[common.Address]map[tokenOf]*big.Int), owners: make(map[tokenOf]common.Address),
		days: make(map[int64]uint64), frames: make(map[string]int), failures: make(map[string]int),
	}
}

func (r *replay) add(a common.Address, n *big.Int) {
	if r.native[a] == nil {
		r.native[a] = new(big.Int)
	}
	r.native[a].Add(r.native[a], n)
}

// frame replays a call frame and those inside of it.
func (r *replay) frame(t *testing.T, f *toldFrame, in Internal, depth uint16, failed bool) {
	failed = failed || f.Error != ""
	r.frames[f.Type]++
	r.failures[f.Error]++
	kind := evm.FrameType(slices.Index(frameNames[:], f.Type))
	var value uint256.Int
	if f.Value != nil {
		value.SetFromBig((*big.Int)(f.Value))
	}
	moves := kind == evm.FrameCall || kind == evm.FrameCreate || kind == evm.FrameCreate2 || kind == evm.FrameSelfDestruct
	if moves && !failed && !value.IsZero() {
		r.add(f.From, new(big.Int).Neg(value.ToBig()))
		r.add(*f.To, value.ToBig())
	}
	if depth > 0 {
		if kind == evm.FrameDelegateCall || kind == evm.FrameStaticCall {
			value.Clear()
		}
		in.Frame = evm.Frame{Type: kind, From: f.From, Value: value, Gas: uint64(f.Gas), GasUsed: uint64(f.GasUsed), Reverted: failed, Depth: depth}
		if f.To != nil {
			in.To = *f.To
		} else {
			require.NotEmpty(t, f.Error)
		}
		r.internals = append(r.internals, in)
	}
	var used uint64
	for i := range f.Calls {
		c := &f.Calls[i]
		used += uint64(c.GasUsed)
		require.LessOrEqual(t, c.GasUsed, c.Gas, "%+v", c)
		require.LessOrEqual(t, uint64(c.Gas), uint64(f.Gas))
		r.frame(t, c, in, depth+1, failed)
	}
	require.LessOrEqual(t, used, uint64(f.GasUsed))
}

// created notes the contracts that frames created.
func (r *replay) created(f *toldFrame, d Deployment, depth int) {
	if f.Error != "" {
		return
	}
	if f.Type == "CREATE" || f.Type == "CREATE2" {
		d.Contract, d.Creator = *f.To, nil
		if depth > 0 {
			by := f.From
			d.Creator = &by
		}
		d.Gone = len(f.Calls) == 1 && f.Calls[0].Type == "SELFDESTRUCT"
		r.deployments = append(r.deployments, d)
	}
	for i := range f.Calls {
		r.created(&f.Calls[i], d, depth+1)
	}
}

// log replays what a log of a token says.
func (r *replay) log(l *types.Log, standard evm.Standard, in Transfer) {
	if len(l.Topics) < 3 || standard == evm.Unknown {
		return
	}
	transfer := func(from, to common.Hash, id, amount []byte, position int) {
		in := in
		in.Transfer = evm.Transfer{
			Standard: standard, Contract: l.Address, LogIndex: uint32(l.Index), Position: uint32(position),
			From: common.BytesToAddress(from[:]), To: common.BytesToAddress(to[:]),
		}
		in.TokenID.SetBytes(id)
		in.Amount.SetBytes(amount)
		r.transfers = append(r.transfers, in)
		token := tokenOf{l.Address, common.BytesToHash(id)}
		switch standard {
		case evm.ERC721:
			r.owners[token] = in.To
		case evm.ERC1155:
			for _, side := range []struct {
				who  common.Address
				sign int64
			}{{in.From, -1}, {in.To, 1}} {
				if side.who == (common.Address{}) {
					continue
				}
				if r.multi[side.who] == nil {
					r.multi[side.who] = make(map[tokenOf]*big.Int)
				}
				if r.multi[side.who][token] == nil {
					r.multi[side.who][token] = new(big.Int)
				}
				n := new(big.Int).Mul(in.Amount.ToBig(), big.NewInt(side.sign))
				r.multi[side.who][token].Add(r.multi[side.who][token], n)
			}
		}
	}
	switch l.Topics[0].Hex() {
	case "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef":
		if standard == evm.ERC20 {
			transfer(l.Topics[1], l.Topics[2], nil, l.Data, 0)
		} else if standard == evm.ERC721 {
			transfer(l.Topics[1], l.Topics[2], l.Topics[3][:], []byte{1}, 0)
		}
	case "0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62":
		transfer(l.Topics[2], l.Topics[3], l.Data[:32], l.Data[32:64], 0)
	case "0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb":
		n := int(new(big.Int).SetBytes(l.Data[64:96]).Int64())
		for i := range n {
			transfer(l.Topics[2], l.Topics[3], l.Data[96+32*i:][:32], l.Data[96+32*n+32+32*i:][:32], i)
		}
	}
}

// block replays a block.
func (r *replay) block(t *testing.T, b *Block, standards map[common.Address]evm.Standard) {
	nodeBlock := read[rpcBlock](t, b.Text)
	receipts := read[[]*types.Receipt](t, b.Receipts)
	traces := read[[]toldTrace](t, b.Traces)
	require.Len(t, traces, len(receipts))
	const day = 86400
	r.days[int64(nodeBlock.Time)/day*day] += uint64(len(receipts))
	for i, receipt := range receipts {
		tx, trace := &nodeBlock.Transactions[i], &traces[i]
		require.Equal(t, tx.rest.Hash, trace.TxHash)
		own := &trace.Result
		require.Equal(t, receipt.Status == 0, own.Error != "")
		require.EqualValues(t, receipt.GasUsed, own.GasUsed)
		require.EqualValues(t, tx.Gas(), own.Gas)
		require.Equal(t, tx.From, own.From)
		require.Equal(t, tx.Value().String(), own.Value.ToInt().String())
		require.Equal(t, hexutil.Encode(tx.Data()), own.Input.String())
		if tx.To() != nil {
			require.Equal(t, tx.To(), own.To)
			require.Equal(t, "CALL", own.Type)
		} else {
			require.Equal(t, "CREATE", own.Type)
		}
		fee := new(big.Int).Mul(receipt.EffectiveGasPrice, new(big.Int).SetUint64(receipt.GasUsed))
		r.add(tx.From, fee.Neg(fee))
		r.frame(t, own, Internal{Block: b.Number, TxIndex: uint32(i), TxHash: tx.rest.Hash}, 0, false)
		r.created(own, Deployment{Block: b.Number, TxIndex: uint32(i), TxHash: tx.rest.Hash, Deployer: tx.From}, 0)
		for _, l := range receipt.Logs {
			r.log(l, standards[l.Address], Transfer{Block: b.Number, TxIndex: uint32(i), TxHash: tx.rest.Hash})
		}
	}
}

// balances are a wallet's, in the order of Truth.Balances.
func (r *replay) balances(wallet common.Address) (all []Balance) {
	for token, n := range r.multi[wallet] {
		if n.Sign() != 0 {
			all = append(all, Balance{Contract: token.contract, TokenID: *new(uint256.Int).SetBytes(token.id[:]), Amount: *uint256.MustFromBig(n)})
		}
	}
	slices.SortFunc(all, func(a, b Balance) int {
		if c := bytes.Compare(a.Contract[:], b.Contract[:]); c != 0 {
			return c
		}
		return a.TokenID.Cmp(&b.TokenID)
	})
	return all
}

// tokens returns the tokens of a contract that have an owner.
func (r *replay) tokens(contract common.Address, standard evm.Standard) (all []Token) {
	have := make(map[common.Hash]*common.Address)
	for token, owner := range r.owners {
		if token.contract == contract && owner != (common.Address{}) {
			have[token.id] = &owner
		}
	}
	if standard == evm.ERC1155 {
		for _, wallet := range r.multi {
			for token, n := range wallet {
				if token.contract == contract && n.Sign() != 0 {
					have[token.id] = nil
				}
			}
		}
	}
	for id, owner := range have {
		all = append(all, Token{TokenID: *new(uint256.Int).SetBytes(id[:]), Owner: owner})
	}
	slices.SortFunc(all, func(a, b Token) int { return a.TokenID.Cmp(&b.TokenID) })
	return all
}

// TestTruthIsWhatBlocksSay replays blocks, and compares with the generator at some of them.
//
//test:plain
func TestTruthIsWhatBlocksSay(t *testing.T) {
	g, blocks := chain(t, Options{Seed: 3, Txs: 5000, Record: true})
	truth := g.Truth()
	standards := make(map[common.Address]evm.Standard)
	kinds := make(map[evm.Standard]int)
	for _, c := range truth.Contracts() {
		standards[c.Address] = c.Standard
		kinds[c.Standard]++
	}
	r := newReplay()
	for _, address := range truth.Accounts() {
		if n := truth.Native(address, 0); !n.IsZero() {
			r.add(address, n.ToBig())
		}
	}
	require.Len(t, r.native, Treasuries)
	var most int
	for number, b := range blocks {
		r.block(t, b, standards)
		if number%131 != 0 && number != len(blocks)-1 {
			continue
		}
		for _, address := range truth.Accounts() {
			want := new(big.Int)
			if n := r.native[address]; n != nil {
				want = n
			}
			got := truth.Native(address, b.Number)
			require.Equal(t, want.String(), got.Dec(), "what %s has after block %d", address, number)
			balances := r.balances(address)
			require.Equal(t, balances, truth.Balances(address, b.Number), "tokens of %s after block %d", address, number)
			most = max(most, len(balances))
		}
		for contract, standard := range standards {
			if standard == evm.ERC721 || standard == evm.ERC1155 {
				require.Equal(t, r.tokens(contract, standard), truth.Tokens(contract, b.Number), "tokens of %s after block %d", contract, number)
			}
		}
	}
	require.Equal(t, r.transfers, truth.Transfers())
	require.Equal(t, r.deployments, truth.Deployments())
	var wanted []Internal
	busy := make(map[common.Address]int)
	for _, i := range r.internals {
		busy[i.From]++
		busy[i.To]++
	}
	for address := range busy {
		wanted = wanted[:0]
		for _, i := range r.internals {
			switch i.Type {
			case evm.FrameCreate, evm.FrameCreate2:
			case evm.FrameCall, evm.FrameCallCode:
				if i.Value.IsZero() {
					continue
				}
			default:
				continue
			}
			if i.From == address || i.To == address {
				wanted = append(wanted, i)
			}
		}
		got := truth.Internals(address)
		require.Len(t, got, len(wanted))
		for i := range got {
			require.Equal(t, wanted[i], got[i])
		}
	}
	for _, d := range truth.Days() {
		require.Equal(t, r.days[d.Start], d.Transactions, "on day %d", d.Start)
		delete(r.days, d.Start)
	}
	require.Empty(t, r.days)

	// And there is something to compare.
	require.Greater(t, most, 10)
	for _, standard := range []evm.Standard{evm.Unknown, evm.ERC20, evm.ERC721, evm.ERC1155} {
		require.NotZero(t, kinds[standard], "contracts of standard %d", standard)
	}
	for _, name := range frameNames[1:] {
		require.NotZero(t, r.frames[name], "%s frames", name)
	}
	for _, failure := range []string{reverted, outOfGas, codeTooBig, "insufficient balance for transfer"} {
		require.NotZero(t, r.failures[failure], "frames that failed: %s", failure)
	}
	var gone, inside int
	for _, d := range truth.Deployments() {
		if d.Gone {
			gone++
		}
		if d.Creator != nil {
			inside++
		}
	}
	require.NotZero(t, gone)
	require.NotZero(t, inside)
}
