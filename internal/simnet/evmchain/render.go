package evmchain

import (
	"encoding/json"
	"math/big"
	"slices"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"

	"quorate/internal/chain/evm"
)

// With the nonce 1, a signature's r is the x coordinate of secp256k1's generator, and s is the sum of the hash and r
// times the key. Such a signature is valid and costs one addition, but reveals the key.
var (
	generatorX = *uint256.MustFromHex("0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
	curveOrder = *uint256.MustFromHex("0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
	halfOrder  = *new(uint256.Int).Rsh(&curveOrder, 1)
)

// sign returns a signature of hash in the form r, s, parity.
func sign(key *uint256.Int, hash common.Hash) []byte {
	s := new(uint256.Int).SetBytes(hash[:])
	s.AddMod(s, key, &curveOrder)
	parity := byte(0)
	if s.Gt(&halfOrder) {
		s.Sub(&curveOrder, s)
		parity = 1
	}
	r, b := generatorX.Bytes32(), s.Bytes32()
	return append(append(r[:], b[:]...), parity)
}

// Values that are equal in all headers (avalanchego graft/coreth and graft/subnet-evm).
var (
	noExtraData = crypto.Keccak256Hash([]byte{0x80})
	coinbase    = common.HexToAddress("0x0100000000000000000000000000000000000000")
	extra       = []byte("quorate")
)

const (
	blockGasLimit = 1 << 40 // allows blocks of any size
	// initialDelayExcess is ACP-226's, for two seconds.
	initialDelayExcess = 7_970_124
)

// rendering is the block that is being generated.
type rendering struct {
	baseFee  uint256.Int
	gasUsed  uint64
	logs     uint
	txs      types.Transactions
	receipts types.Receipts

	shown         []*shownTransaction
	shownReceipts []*shownReceipt
	traces        []shownTrace
	decoded       []evm.Transaction

	tx transaction
}

// transaction has the type and the prices of the transaction that is being generated.
type transaction struct {
	kind            uint8
	price, fee, tip uint256.Int
	access          types.AccessList
}

// begin begins a block.
func (r *rendering) begin(g *Generator) *Block {
	*r = rendering{shown: []*shownTransaction{}, shownReceipts: []*shownReceipt{}, traces: []shownTrace{}}
	r.baseFee = *uint256.NewInt(1)
	if g.chance(0.9) {
		r.baseFee.SetUint64(g.rng.Uint64N(24e9) + 1)
	}
	return &Block{Number: g.number}
}

// transaction draws the type and the gas price of a transaction.
func (r *rendering) transaction(g *Generator, p *plan) *transaction {
	t := &r.tx
	*t = transaction{kind: types.DynamicFeeTxType, access: types.AccessList{}}
	t.tip.SetUint64(g.rng.Uint64N(2e9))
	switch n := g.rng.Float64(); {
	case n < 0.3:
		t.kind = types.LegacyTxType
	case n < 0.4:
		t.kind = types.AccessListTxType
		if p.to != nil && g.chance(0.5) {
			t.access = types.AccessList{{Address: p.to.address, StorageKeys: []common.Hash{g.hash()}}}
		}
	}
	t.fee.SetUint64(g.rng.Uint64N(10e9))
	t.fee.Add(&t.fee, &r.baseFee)
	if t.tip.Gt(&t.fee) {
		t.tip = t.fee
	}
	t.price = t.fee
	if t.kind == types.DynamicFeeTxType {
		if sum := new(uint256.Int).Add(&r.baseFee, &t.tip); sum.Lt(&t.fee) {
			t.price = *sum
		}
	}
	return t
}

// recipient returns nil for a creation.
func (p *plan) recipient() *common.Address {
	if p.to == nil {
		return nil
	}
	return &p.to.address
}

// signed returns the transaction of a plan with its signature.
func (t *transaction) signed(g *Generator, p *plan, nonce uint64) *types.Transaction {
	chainID, value := new(big.Int).SetUint64(g.o.ChainID), p.value.ToBig()
	var content types.TxData
	switch t.kind {
	case types.LegacyTxType:
		content = &types.LegacyTx{Nonce: nonce, GasPrice: t.fee.ToBig(), Gas: p.limit, To: p.recipient(), Value: value, Data: p.input}
	case types.AccessListTxType:
		content = &types.AccessListTx{
			ChainID: chainID, Nonce: nonce, GasPrice: t.fee.ToBig(), Gas: p.limit, To: p.recipient(), Value: value, Data: p.input, AccessList: t.access,
		}
	default:
		content = &types.DynamicFeeTx{
			ChainID: chainID, Nonce: nonce, GasTipCap: t.tip.ToBig(), GasFeeCap: t.fee.ToBig(), Gas: p.limit, To: p.recipient(), Value: value,
			Data: p.input, AccessList: t.access,
		}
	}
	signer := types.LatestSignerForChainID(chainID)
	unsigned := types.NewTx(content)
	tx, err := unsigned.WithSignature(signer, sign(p.from.key, signer.Hash(unsigned)))
	if err != nil {
		panic("evmchain: signing a transaction: " + err.Error()) // a mistake in this package
	}
	return tx
}

// finish adds an executed transaction to the block.
func (t *transaction) finish(g *Generator, p *plan, nonce uint64) {
	r, x := &g.out, &g.x
	tx := t.signed(g, p, nonce)
	index := len(r.txs)
	own := &x.frames[0]
	r.gasUsed += own.used
	r.txs = append(r.txs, tx)
	r.shown = append(r.shown, r.showTransaction(g, p, tx, index))
	receipt := &types.Receipt{Type: t.kind, CumulativeGasUsed: r.gasUsed, Logs: make([]*types.Log, len(x.logs))}
	if own.failure == "" {
		receipt.Status = types.ReceiptStatusSuccessful
	}
	for i, l := range x.logs {
		receipt.Logs[i] = &types.Log{
			Address: l.address, Topics: append([]common.Hash{}, l.topics...), Data: l.data,
			BlockNumber: g.number, TxHash: tx.Hash(), TxIndex: uint(index), Index: r.logs,
		}
		r.logs++
	}
	receipt.Bloom = types.CreateBloom(types.Receipts{receipt})
	r.receipts = append(r.receipts, receipt)
	r.shownReceipts = append(r.shownReceipts, r.showReceipt(g, p, tx, receipt, own))
	r.traces = append(r.traces, shownTrace{tx.Hash(), showFrame(x.frames, 0)})

	for _, c := range x.made {
		if c.failed {
			continue
		}
		if c.gone {
			c.at.code, c.at.nonce = nil, 0
			continue
		}
		g.pool[c.kind] = append(g.pool[c.kind], c)
		g.all = append(g.all, c)
	}
	if g.truth != nil {
		d := g.decode(t, p, tx.Hash(), nonce, int(r.logs)-len(x.logs))
		r.decoded = append(r.decoded, d)
		g.truth.note(g, &d, index)
	}
}

// shownTransaction is a transaction of eth_getBlockByNumber.
type shownTransaction struct {
	BlockHash            common.Hash       `json:"blockHash"`
	BlockNumber          hexutil.Uint64    `json:"blockNumber"`
	From                 common.Address    `json:"from"`
	Gas                  hexutil.Uint64    `json:"gas"`
	GasPrice             *hexutil.U256     `json:"gasPrice"`
	MaxFeePerGas         *hexutil.Big      `json:"maxFeePerGas,omitempty"`
	MaxPriorityFeePerGas *hexutil.Big      `json:"maxPriorityFeePerGas,omitempty"`
	Hash                 common.Hash       `json:"hash"`
	Input                hexutil.Bytes     `json:"input"`
	Nonce                hexutil.Uint64    `json:"nonce"`
	To                   *common.Address   `json:"to"`
	TransactionIndex     hexutil.Uint64    `json:"transactionIndex"`
	Value                *hexutil.Big      `json:"value"`
	Type                 hexutil.Uint64    `json:"type"`
	AccessList           *types.AccessList `json:"accessList,omitempty"`
	ChainID              hexutil.Uint64    `json:"chainId"`
	V                    *hexutil.Big      `json:"v"`
	R                    *hexutil.Big      `json:"r"`
	S                    *hexutil.Big      `json:"s"`
	YParity              *hexutil.Big      `json:"yParity,omitempty"`
}

func (r *rendering) showTransaction(g *Generator, p *plan, tx *types.Transaction, index int) *shownTransaction {
	v, x, s := tx.RawSignatureValues()
	price := r.tx.price
	shown := &shownTransaction{
		BlockNumber: hexutil.Uint64(g.number), From: p.from.address, Gas: hexutil.Uint64(tx.Gas()), GasPrice: (*hexutil.U256)(&price),
		Hash: tx.Hash(), Input: tx.Data(), Nonce: hexutil.Uint64(tx.Nonce()), To: tx.To(), TransactionIndex: hexutil.Uint64(index),
		Value: (*hexutil.Big)(tx.Value()), Type: hexutil.Uint64(tx.Type()), ChainID: hexutil.Uint64(g.o.ChainID),
		V: (*hexutil.Big)(v), R: (*hexutil.Big)(x), S: (*hexutil.Big)(s),
	}
	if tx.Type() != types.LegacyTxType {
		access := tx.AccessList()
		shown.AccessList, shown.YParity = &access, (*hexutil.Big)(v)
	}
	if tx.Type() == types.DynamicFeeTxType {
		shown.MaxFeePerGas, shown.MaxPriorityFeePerGas = (*hexutil.Big)(tx.GasFeeCap()), (*hexutil.Big)(tx.GasTipCap())
	}
	return shown
}

// shownReceipt is a receipt of eth_getBlockReceipts.
type shownReceipt struct {
	BlockHash         common.Hash     `json:"blockHash"`
	BlockNumber       hexutil.Uint64  `json:"blockNumber"`
	ContractAddress   *common.Address `json:"contractAddress"`
	CumulativeGasUsed hexutil.Uint64  `json:"cumulativeGasUsed"`
	EffectiveGasPrice *hexutil.U256   `json:"effectiveGasPrice"`
	From              common.Address  `json:"from"`
	GasUsed           hexutil.Uint64  `json:"gasUsed"`
	Logs              []*types.Log    `json:"logs"`
	LogsBloom         types.Bloom     `json:"logsBloom"`
	Status            hexutil.Uint64  `json:"status"`
	To                *common.Address `json:"to"`
	TransactionHash   common.Hash     `json:"transactionHash"`
	TransactionIndex  hexutil.Uint64  `json:"transactionIndex"`
	Type              hexutil.Uint64  `json:"type"`
}

func (r *rendering) showReceipt(g *Generator, p *plan, tx *types.Transaction, receipt *types.Receipt, own *frame) *shownReceipt {
	price := r.tx.price
	shown := &shownReceipt{
		BlockNumber: hexutil.Uint64(g.number), CumulativeGasUsed: hexutil.Uint64(r.gasUsed), EffectiveGasPrice: (*hexutil.U256)(&price),
		From: p.from.address, GasUsed: hexutil.Uint64(own.used), Logs: receipt.Logs, LogsBloom: receipt.Bloom,
		Status: hexutil.Uint64(receipt.Status), To: tx.To(), TransactionHash: tx.Hash(), TransactionIndex: hexutil.Uint64(len(r.receipts) - 1),
		Type: hexutil.Uint64(tx.Type()),
	}
	if p.to == nil {
		shown.ContractAddress = &own.to.address
	}
	return shown
}

// shownTrace is a transaction's call trace of debug_traceBlockByNumber.
type shownTrace struct {
	TxHash common.Hash `json:"txHash"`
	Result *shownFrame `json:"result"`
}

// shownFrame is a frame of callTracer.
type shownFrame struct {
	From         common.Address  `json:"from"`
	Gas          hexutil.Uint64  `json:"gas"`
	GasUsed      hexutil.Uint64  `json:"gasUsed"`
	To           *common.Address `json:"to,omitempty"`
	Input        hexutil.Bytes   `json:"input"`
	Output       hexutil.Bytes   `json:"output,omitempty"`
	Error        string          `json:"error,omitempty"`
	RevertReason string          `json:"revertReason,omitempty"`
	Calls        []*shownFrame   `json:"calls,omitempty"`
	Value        *hexutil.U256   `json:"value,omitempty"`
	Type         string          `json:"type"`
}

var frameNames = [...]string{
	evm.FrameCall: "CALL", evm.FrameCallCode: "CALLCODE", evm.FrameDelegateCall: "DELEGATECALL", evm.FrameStaticCall: "STATICCALL",
	evm.FrameCreate: "CREATE", evm.FrameCreate2: "CREATE2", evm.FrameSelfDestruct: "SELFDESTRUCT",
}

func creates(op evm.FrameType) bool { return op == evm.FrameCreate || op == evm.FrameCreate2 }

// showFrame returns a frame with the frames inside it.
func showFrame(frames []frame, at int) *shownFrame {
	f := &frames[at]
	shown := &shownFrame{
		From: f.from.address, Gas: hexutil.Uint64(f.gas), GasUsed: hexutil.Uint64(f.used), Input: f.input, Output: f.output,
		Error: f.failure, RevertReason: f.reason, Type: frameNames[f.op],
	}
	if f.failure == "" || !creates(f.op) {
		shown.To = &f.to.address
	}
	if f.op != evm.FrameStaticCall {
		value := f.value
		shown.Value = (*hexutil.U256)(&value)
	}
	for i := at + 1; i <= f.last; i = frames[i].last + 1 {
		shown.Calls = append(shown.Calls, showFrame(frames, i))
	}
	return shown
}

// granite reports whether headers have milliseconds. Those of the first eighth do not.
func (g *Generator) granite() bool { return g.o.SAE || g.txs >= g.o.Txs/8 }

// end ends a block.
func (r *rendering) end(g *Generator, b *Block) {
	milliseconds := uint64(g.clock)
	b.Time = time.UnixMilli(int64(milliseconds)).UTC()
	own := results{number: g.number, time: milliseconds, root: g.hash(), receipts: encodings(r.receipts), bloom: types.CreateBloom(r.receipts)}
	shownResults, gasUsed := own, r.gasUsed // of the header
	switch {
	case !g.o.SAE:
	case g.number == 0:
		g.settled = own
	default:
		shownResults, gasUsed = g.settle(milliseconds), r.gasLimits()
		g.unsettled = append(g.unsettled, own)
	}
	root, transactions, receipts, bloom := shownResults.root, rootOf(encodings(r.txs)), rootOf(shownResults.receipts), shownResults.bloom
	header := []any{
		g.parent, types.EmptyUncleHash, coinbase, root, transactions, receipts, bloom, uint64(1), g.number, uint64(blockGasLimit), gasUsed,
		milliseconds / 1000, extra, common.Hash{}, types.BlockNonce{},
	}
	if !g.o.L1 {
		header = append(header, noExtraData, &r.baseFee, uint64(0)) // with the gas of the extra data
	} else {
		header = append(header, &r.baseFee)
	}
	// Block gas cost, blob gas used and its excess, parent beacon block.
	gasCost := 1000 * (g.number % 5)
	if g.o.SAE {
		gasCost = 0
	}
	header = append(header, gasCost, uint64(0), uint64(0), common.Hash{})
	if g.granite() {
		header = append(header, milliseconds, uint64(initialDelayExcess))
	}
	if g.o.SAE {
		b.settled = shownResults.number
		// Target and price exponents; then the settled block and the gas clock after it.
		header = append(header, uint64(0), uint64(0), shownResults.number, shownResults.time/1000, uint64(0), uint64(0))
	}
	encoded := encode(header...)
	b.Hash = crypto.Keccak256Hash(encoded)
	whole := []any{rlp.RawValue(encoded), r.txs, []common.Hash{}}
	if !g.o.L1 {
		whole = append(whole, uint32(0), []byte{}) // version and extra data
	}

	shown := map[string]any{
		"baseFeePerGas": (*hexutil.U256)(&r.baseFee), "blobGasUsed": "0x0", "blockGasCost": hexutil.Uint64(gasCost), "difficulty": "0x1", "excessBlobGas": "0x0",
		"extraData": hexutil.Bytes(extra), "gasLimit": hexutil.Uint64(blockGasLimit), "gasUsed": hexutil.Uint64(gasUsed), "hash": b.Hash,
		"logsBloom": bloom, "miner": coinbase, "mixHash": common.Hash{}, "nonce": types.BlockNonce{}, "number": hexutil.Uint64(g.number),
		"parentBeaconBlockRoot": common.Hash{}, "parentHash": g.parent, "receiptsRoot": receipts, "sha3Uncles": types.EmptyUncleHash,
		"size": hexutil.Uint64(len(encode(whole...))), "stateRoot": root, "timestamp": hexutil.Uint64(milliseconds / 1000),
		"totalDifficulty": hexutil.Uint64(g.number), "transactionsRoot": transactions,
	}
	if !g.o.L1 {
		shown["blockExtraData"], shown["extDataGasUsed"], shown["extDataHash"] = "0x", "0x0", noExtraData
	}
	if g.granite() {
		shown["minDelayExcess"], shown["timestampMilliseconds"] = hexutil.Uint64(initialDelayExcess), hexutil.Uint64(milliseconds)
	}
	if g.o.SAE {
		shown["targetExponent"], shown["minPriceExponent"] = "0x0", "0x0"
		shown["settledHeight"], shown["settledGasUnix"] = hexutil.Uint64(shownResults.number), hexutil.Uint64(shownResults.time/1000)
		shown["settledGasNumerator"], shown["settledExcess"] = "0x0", "0x0"
	}
	for i, tx := range r.txs {
		b.Txs = append(b.Txs, tx.Hash())
		r.shown[i].BlockHash, r.shownReceipts[i].BlockHash = b.Hash, b.Hash
		for _, l := range r.receipts[i].Logs {
			l.BlockHash = b.Hash
		}
	}
	fields := marshal(shown)
	b.Text = slices.Concat(fields[:len(fields)-1], []byte(afterHeader+`,"transactions":`), marshal(r.shown), []byte{'}'})
	b.Receipts, b.Traces = marshal(r.shownReceipts), marshal(r.traces)
	if g.truth == nil {
		return
	}
	b.Decoded = &evm.Block{
		Number: b.Number, Hash: b.Hash, ParentHash: g.parent, ReceiptsRoot: receipts, Time: milliseconds / 1000,
		BaseFee: r.baseFee.Clone(), GasLimit: blockGasLimit, GasCost: *uint256.NewInt(gasCost), Transactions: r.decoded, Traced: true,
	}
	if g.granite() {
		excess := uint64(initialDelayExcess)
		b.Decoded.Milliseconds, b.Decoded.MinDelayExcess = milliseconds, &excess
	}
	if g.o.SAE {
		b.Decoded.Settled, b.Decoded.Receipts = &b.settled, own.receipts
	}
	g.truth.block(b.Decoded)
}

// gasLimits returns the gas that the transactions may use together.
func (r *rendering) gasLimits() (sum uint64) {
	for _, tx := range r.txs {
		sum += tx.Gas()
	}
	return sum
}

// encodings returns the encodings of which the trie of items consists.
func encodings[T interface{ MarshalBinary() ([]byte, error) }](items []T) [][]byte {
	all := make([][]byte, len(items))
	for i, item := range items {
		var err error
		if all[i], err = item.MarshalBinary(); err != nil {
			panic("evmchain: encoding a transaction or receipt: " + err.Error()) // a mistake in this package
		}
	}
	return all
}

// marshal returns v in JSON.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("evmchain: encoding JSON: " + err.Error()) // a mistake in this package
	}
	return b
}

const (
	// listOfTransactions precedes the transactions in the text of a block.
	listOfTransactions = `,"transactions":[`
	// afterHeader follows the header's fields.
	afterHeader = `,"uncles":[]`
)
