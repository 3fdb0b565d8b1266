package evmchain

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	"quorate/internal/chain/evm"
)

// Signing with the nonce 1 makes the x of secp256k1's generator the signature's r, and
// its s the sum of the hash and r times the key. It is a signature as good as any
// other to whoever checks it, costs an addition, and gives the key away.
var (
	generatorX = *uint256.MustFromHex("0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
	curveOrder = *uint256.MustFromHex("0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
	halfOrder  = *new(uint256.Int).Rsh(&curveOrder, 1)
)

// signed is the s of a signature and which of two points it is of.
func signed(key *uint256.Int, hash common.Hash) (s uint256.Int, parity uint64) {
	s.SetBytes(hash[:])
	s.AddMod(&s, key, &curveOrder)
	if s.Gt(&halfOrder) {
		s.Sub(&curveOrder, &s)
		parity = 1
	}
	return s, parity
}

// What stands in every header (avalanchego graft/coreth and graft/subnet-evm).
var (
	noUncles    = crypto.Keccak256Hash([]byte{0xc0})
	noExtraData = crypto.Keccak256Hash([]byte{0x80})
	coinbase    = common.HexToAddress("0x0100000000000000000000000000000000000000")
)

const (
	blockGasLimit = 1 << 40 // so that blocks can be of any size
	// initialDelayExcess is ACP-226's, for two seconds.
	initialDelayExcess = 7_970_124
)

// rendering is the block that is being made.
type rendering struct {
	baseFee  uint256.Int
	text     []byte // transactions so far
	receipts []byte
	traces   []byte
	// patches are where the hash of the block belongs, which nobody knows yet.
	inText, inReceipts []int
	bloom              [256]byte
	gasUsed            uint64
	logs               int
	hashes             []common.Hash
	encoded            [][]byte
	encodedReceipts    [][]byte
	size               int // of the encoded transactions in the block
	decoded            []evm.Transaction

	keccak crypto.KeccakState
	tx     transaction
	buf    []byte
}

// transaction is the one that is being made.
type transaction struct {
	kind            uint8
	price, fee, tip uint256.Int
	access          []byte // its access list, encoded
	accessText      string
}

// begin begins a block.
func (r *rendering) begin(g *Generator) *Block {
	if r.keccak == nil {
		r.keccak = crypto.NewKeccakState()
	}
	*r = rendering{
		keccak: r.keccak, buf: r.buf[:0], inText: r.inText[:0], inReceipts: r.inReceipts[:0],
		text: r.text[:0], receipts: make([]byte, 0, len(r.receipts)), traces: make([]byte, 0, len(r.traces)),
		encoded: r.encoded[:0], encodedReceipts: r.encodedReceipts[:0],
	}
	r.baseFee = *uint256.NewInt(1)
	if g.chance(0.9) {
		r.baseFee.SetUint64(g.rng.Uint64N(24e9) + 1)
	}
	r.traces = append(r.traces, '[')
	r.receipts = append(r.receipts, '[')
	return &Block{Number: g.number}
}

// transaction draws what a transaction pays for gas.
func (r *rendering) transaction(g *Generator, p *plan) *transaction {
	t := &r.tx
	*t = transaction{kind: 2, access: []byte{0xc0}, accessText: "[]"}
	t.tip.SetUint64(g.rng.Uint64N(2e9))
	switch n := g.rng.Float64(); {
	case n < 0.3:
		t.kind = 0
	case n < 0.4:
		t.kind = 1
		if p.to != nil && g.chance(0.5) {
			key := g.hash()
			t.access = appendList(nil, appendList(nil, append(appendItem(nil, p.to.address[:]), appendList(nil, appendItem(nil, key[:]))...)))
			t.accessText = `[{"address":"` + hexOf(p.to.address[:]) + `","storageKeys":["` + hexOf(key[:]) + `"]}]`
		}
	}
	t.fee.SetUint64(g.rng.Uint64N(10e9))
	t.fee.Add(&t.fee, &r.baseFee)
	if t.tip.Gt(&t.fee) {
		t.tip = t.fee
	}
	t.price = t.fee
	if t.kind == 2 {
		if sum := new(uint256.Int).Add(&r.baseFee, &t.tip); sum.Lt(&t.fee) {
			t.price = *sum
		}
	}
	return t
}

// encode encodes a transaction, with what follows its access list or data.
func (t *transaction) encode(buf []byte, g *Generator, p *plan, nonce uint64, ending func([]byte) []byte) []byte {
	c := buf
	if t.kind > 0 {
		c = appendNumber(c, g.o.ChainID)
	}
	c = appendNumber(c, nonce)
	if t.kind == 2 {
		c = appendItem(c, t.tip.Bytes())
	}
	c = appendItem(c, t.fee.Bytes())
	c = appendNumber(c, p.limit)
	if p.to != nil {
		c = appendItem(c, p.to.address[:])
	} else {
		c = append(c, 0x80)
	}
	c = appendItem(c, p.value.Bytes())
	c = appendItem(c, p.input)
	if t.kind > 0 {
		c = append(c, t.access...)
	}
	c = ending(c)
	g.out.buf = c
	var out []byte
	if t.kind > 0 {
		out = append(make([]byte, 0, len(c)+8), t.kind)
	}
	return appendList(out, c)
}

// finish puts an executed transaction into the block.
func (t *transaction) finish(g *Generator, p *plan, nonce uint64) {
	r, x := &g.out, &g.x
	unsigned := t.encode(r.buf[:0], g, p, nonce, func(c []byte) []byte {
		if t.kind > 0 {
			return c
		}
		return append(appendNumber(c, g.o.ChainID), 0x80, 0x80)
	})
	s, parity := signed(p.from.key, crypto.HashData(r.keccak, unsigned))
	v := parity
	if t.kind == 0 {
		v += g.o.ChainID*2 + 35
	}
	whole := t.encode(r.buf[:0], g, p, nonce, func(c []byte) []byte {
		return appendItem(appendItem(appendNumber(c, v), generatorX.Bytes()), s.Bytes())
	})
	hash := crypto.HashData(r.keccak, whole)
	index := len(r.hashes)
	r.hashes = append(r.hashes, hash)
	r.encoded = append(r.encoded, whole)
	r.size += len(whole)
	if t.kind > 0 {
		r.size += len(appendHead(nil, 0x80, len(whole)))
	}
	own := &x.frames[0]
	r.gasUsed += own.used

	r.renderTransaction(g, p, hash, index, nonce, v, parity, &s)
	r.renderReceipt(g, p, hash, index, own)
	if index > 0 {
		r.traces = append(r.traces, ',')
	}
	r.traces = append(r.traces, `{"txHash":"`...)
	r.traces = appendHex(r.traces, hash[:])
	r.traces = append(r.traces, `","result":`...)
	r.renderFrame(x.frames, 0)
	r.traces = append(r.traces, '}')

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
		d := g.decode(t, p, hash, nonce, r.logs-len(x.logs))
		r.decoded = append(r.decoded, d)
		g.truth.note(g, &d, index)
	}
}

func (r *rendering) renderTransaction(g *Generator, p *plan, hash common.Hash, index int, nonce, v, parity uint64, s *uint256.Int) {
	t, b := &r.tx, r.text
	if index > 0 {
		b = append(b, ',')
	}
	b = append(b, `{"blockHash":"`...)
	r.inText = append(r.inText, len(b))
	b = append(b, blank...)
	b = append(b, `","blockNumber":"`...)
	b = appendQuantity(b, g.number)
	b = append(b, `","from":"`...)
	b = appendHex(b, p.from.address[:])
	b = append(b, `","gas":"`...)
	b = appendQuantity(b, p.limit)
	b = append(b, `","gasPrice":"`...)
	b = appendBig(b, &t.price)
	if t.kind == 2 {
		b = append(b, `","maxFeePerGas":"`...)
		b = appendBig(b, &t.fee)
		b = append(b, `","maxPriorityFeePerGas":"`...)
		b = appendBig(b, &t.tip)
	}
	b = append(b, `","hash":"`...)
	b = appendHex(b, hash[:])
	b = append(b, `","input":"`...)
	b = appendHex(b, p.input)
	b = append(b, `","nonce":"`...)
	b = appendQuantity(b, nonce)
	b = append(b, `","to":`...)
	b = appendRecipient(b, p)
	b = append(b, `,"transactionIndex":"`...)
	b = appendQuantity(b, uint64(index))
	b = append(b, `","value":"`...)
	b = appendBig(b, &p.value)
	b = append(b, `","type":"`...)
	b = appendQuantity(b, uint64(t.kind))
	if t.kind > 0 {
		b = append(b, `","accessList":`...)
		b = append(b, t.accessText...)
		b = append(b, `,"chainId":"`...)
	} else {
		b = append(b, `","chainId":"`...)
	}
	b = appendQuantity(b, g.o.ChainID)
	b = append(b, `","v":"`...)
	b = appendQuantity(b, v)
	b = append(b, `","r":"`...)
	b = appendBig(b, &generatorX)
	b = append(b, `","s":"`...)
	b = appendBig(b, s)
	if t.kind > 0 {
		b = append(b, `","yParity":"`...)
		b = appendQuantity(b, parity)
	}
	b = append(b, `"}`...)
	r.text = b
}

func appendRecipient(b []byte, p *plan) []byte {
	if p.to == nil {
		return append(b, `null`...)
	}
	b = append(b, '"')
	return append(appendHex(b, p.to.address[:]), '"')
}

func (r *rendering) renderReceipt(g *Generator, p *plan, hash common.Hash, index int, own *frame) {
	b := r.receipts
	if index > 0 {
		b = append(b, ',')
	}
	x := &g.x
	var bloom [256]byte
	logs := appendHead(nil, 0, 0)[:0] // encoded
	b = append(b, `{"blockHash":"`...)
	r.inReceipts = append(r.inReceipts, len(b))
	b = append(b, blank...)
	b = append(b, `","blockNumber":"`...)
	b = appendQuantity(b, g.number)
	b = append(b, `","contractAddress":`...)
	if p.to == nil {
		b = append(b, '"')
		b = appendHex(b, own.to.address[:])
		b = append(b, `",`...)
	} else {
		b = append(b, `null,`...)
	}
	b = append(b, `"cumulativeGasUsed":"`...)
	b = appendQuantity(b, r.gasUsed)
	b = append(b, `","effectiveGasPrice":"`...)
	b = appendBig(b, &r.tx.price)
	b = append(b, `","from":"`...)
	b = appendHex(b, p.from.address[:])
	b = append(b, `","gasUsed":"`...)
	b = appendQuantity(b, own.used)
	b = append(b, `","logs":[`...)
	for i := range x.logs {
		l := &x.logs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"address":"`...)
		b = appendHex(b, l.address[:])
		b = append(b, `","topics":[`...)
		r.mark(&bloom, l.address[:])
		topics := make([]byte, 0, 33*4)
		for j := range l.topics {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(b, '"')
			b = appendHex(b, l.topics[j][:])
			b = append(b, '"')
			r.mark(&bloom, l.topics[j][:])
			topics = appendItem(topics, l.topics[j][:])
		}
		b = append(b, `],"data":"`...)
		b = appendHex(b, l.data)
		b = append(b, `","blockNumber":"`...)
		b = appendQuantity(b, g.number)
		b = append(b, `","transactionHash":"`...)
		b = appendHex(b, hash[:])
		b = append(b, `","transactionIndex":"`...)
		b = appendQuantity(b, uint64(index))
		b = append(b, `","blockHash":"`...)
		r.inReceipts = append(r.inReceipts, len(b))
		b = append(b, blank...)
		b = append(b, `","logIndex":"`...)
		b = appendQuantity(b, uint64(r.logs))
		b = append(b, `","removed":false}`...)
		r.logs++
		content := appendItem(make([]byte, 0, 64+len(topics)+len(l.data)), l.address[:])
		content = appendItem(appendList(content, topics), l.data)
		logs = appendList(logs, content)
	}
	b = append(b, `],"logsBloom":"`...)
	b = appendHex(b, bloom[:])
	b = append(b, `","status":"`...)
	status := uint64(1)
	if own.failure != "" {
		status = 0
	}
	b = appendQuantity(b, status)
	b = append(b, `","to":`...)
	b = appendRecipient(b, p)
	b = append(b, `,"transactionHash":"`...)
	b = appendHex(b, hash[:])
	b = append(b, `","transactionIndex":"`...)
	b = appendQuantity(b, uint64(index))
	b = append(b, `","type":"`...)
	b = appendQuantity(b, uint64(r.tx.kind))
	b = append(b, `"}`...)
	r.receipts = b

	for i := range bloom {
		r.bloom[i] |= bloom[i]
	}
	content := appendNumber(appendNumber(make([]byte, 0, 300+len(logs)), status), r.gasUsed)
	content = appendList(appendItem(content, bloom[:]), logs)
	var whole []byte
	if r.tx.kind > 0 {
		whole = append(make([]byte, 0, len(content)+8), r.tx.kind)
	}
	r.encodedReceipts = append(r.encodedReceipts, appendList(whole, content))
}

// mark puts something into a bloom filter.
func (r *rendering) mark(bloom *[256]byte, what []byte) {
	h := crypto.HashData(r.keccak, what)
	for i := 0; i < 6; i += 2 {
		bit := (uint(h[i])<<8 | uint(h[i+1])) & 2047
		bloom[255-bit/8] |= 1 << (bit % 8)
	}
}

var frameNames = [...]string{
	evm.FrameCall: "CALL", evm.FrameCallCode: "CALLCODE", evm.FrameDelegateCall: "DELEGATECALL", evm.FrameStaticCall: "STATICCALL",
	evm.FrameCreate: "CREATE", evm.FrameCreate2: "CREATE2", evm.FrameSelfDestruct: "SELFDESTRUCT",
}

func creates(op evm.FrameType) bool { return op == evm.FrameCreate || op == evm.FrameCreate2 }

func (r *rendering) renderFrame(frames []frame, at int) {
	f := &frames[at]
	b := r.traces
	b = append(b, `{"from":"`...)
	b = appendHex(b, f.from.address[:])
	b = append(b, `","gas":"`...)
	b = appendQuantity(b, f.gas)
	b = append(b, `","gasUsed":"`...)
	b = appendQuantity(b, f.used)
	if f.failure == "" || !creates(f.op) {
		b = append(b, `","to":"`...)
		b = appendHex(b, f.to.address[:])
	}
	b = append(b, `","input":"`...)
	b = appendHex(b, f.input)
	if len(f.output) > 0 {
		b = append(b, `","output":"`...)
		b = appendHex(b, f.output)
	}
	if f.failure != "" {
		b = append(b, `","error":"`...)
		b = append(b, f.failure...)
	}
	if f.reason != "" {
		b = append(b, `","revertReason":"`...)
		b = append(b, f.reason...)
	}
	b = append(b, '"')
	if f.last > at {
		b = append(b, `,"calls":[`...)
		r.traces = b
		for i := at + 1; i <= f.last; i = frames[i].last + 1 {
			if i > at+1 {
				r.traces = append(r.traces, ',')
			}
			r.renderFrame(frames, i)
		}
		b = r.traces
		b = append(b, ']')
	}
	if f.op != evm.FrameStaticCall {
		b = append(b, `,"value":"`...)
		b = appendBig(b, &f.value)
		b = append(b, '"')
	}
	b = append(b, `,"type":"`...)
	b = append(b, frameNames[f.op]...)
	b = append(b, `"}`...)
	r.traces = b
}

// granite says whether headers have milliseconds: not those of the first eighth.
func (g *Generator) granite() bool { return g.txs >= g.o.Txs/8 }

// end ends a block.
func (r *rendering) end(g *Generator, b *Block) {
	milliseconds := uint64(g.clock)
	b.Time = time.UnixMilli(int64(milliseconds)).UTC()
	root := g.hash()
	transactions, receipts := rootOf(r.encoded), rootOf(r.encodedReceipts)
	granite := g.granite()
	extra := []byte("quorate")

	h := appendItem(make([]byte, 0, 800), g.parent[:])
	h = appendItem(h, noUncles[:])
	h = appendItem(h, coinbase[:])
	h = appendItem(h, root[:])
	h = appendItem(h, transactions[:])
	h = appendItem(h, receipts[:])
	h = appendItem(h, r.bloom[:])
	h = appendNumber(h, 1)
	h = appendNumber(h, g.number)
	h = appendNumber(h, blockGasLimit)
	h = appendNumber(h, r.gasUsed)
	h = appendNumber(h, milliseconds/1000)
	h = appendItem(h, extra)
	h = appendItem(h, make([]byte, 32)) // mix digest
	h = appendItem(h, make([]byte, 8))  // nonce
	if !g.o.L1 {
		h = appendItem(h, noExtraData[:])
	}
	h = appendItem(h, r.baseFee.Bytes())
	if !g.o.L1 {
		h = appendNumber(h, 0) // gas of the extra data
	}
	h = append(h, 0x80)                 // block gas cost
	h = append(h, 0x80, 0x80)           // blob gas used, and in excess
	h = appendItem(h, make([]byte, 32)) // parent beacon block
	if granite {
		h = appendNumber(appendNumber(h, milliseconds), initialDelayExcess)
	}
	header := appendList(nil, h)
	b.Hash = crypto.HashData(r.keccak, header)
	for _, at := range r.inText {
		hex.Encode(r.text[at+2:], b.Hash[:])
	}
	for _, at := range r.inReceipts {
		hex.Encode(r.receipts[at+2:], b.Hash[:])
	}
	size := len(header) + len(appendHead(nil, 0xc0, r.size)) + r.size + 1
	if !g.o.L1 {
		size += 2 // version and extra data
	}
	size += len(appendHead(nil, 0xc0, size))

	t := make([]byte, 0, len(r.text)+2000)
	t = append(t, `{"baseFeePerGas":"`...)
	t = appendBig(t, &r.baseFee)
	t = append(t, `","blobGasUsed":"0x0","blockGasCost":"0x0","difficulty":"0x1","excessBlobGas":"0x0","extraData":"`...)
	t = appendHex(t, extra)
	if !g.o.L1 {
		t = append(t, `","blockExtraData":"0x","extDataGasUsed":"0x0","extDataHash":"`...)
		t = appendHex(t, noExtraData[:])
	}
	t = append(t, `","gasLimit":"`...)
	t = appendQuantity(t, blockGasLimit)
	t = append(t, `","gasUsed":"`...)
	t = appendQuantity(t, r.gasUsed)
	t = append(t, `","hash":"`...)
	t = appendHex(t, b.Hash[:])
	t = append(t, `","logsBloom":"`...)
	t = appendHex(t, r.bloom[:])
	if granite {
		t = append(t, `","minDelayExcess":"`...)
		t = appendQuantity(t, initialDelayExcess)
		t = append(t, `","timestampMilliseconds":"`...)
		t = appendQuantity(t, milliseconds)
	}
	t = append(t, `","miner":"`...)
	t = appendHex(t, coinbase[:])
	t = append(t, `","mixHash":"`+zeroHash+`","nonce":"0x0000000000000000","number":"`...)
	t = appendQuantity(t, g.number)
	t = append(t, `","parentBeaconBlockRoot":"`+zeroHash+`","parentHash":"`...)
	t = appendHex(t, g.parent[:])
	t = append(t, `","receiptsRoot":"`...)
	t = appendHex(t, receipts[:])
	t = append(t, `","sha3Uncles":"`...)
	t = appendHex(t, noUncles[:])
	t = append(t, `","size":"`...)
	t = appendQuantity(t, uint64(size))
	t = append(t, `","stateRoot":"`...)
	t = appendHex(t, root[:])
	t = append(t, `","timestamp":"`...)
	t = appendQuantity(t, milliseconds/1000)
	t = append(t, `","totalDifficulty":"`...)
	t = appendQuantity(t, g.number)
	t = append(t, `","transactionsRoot":"`...)
	t = appendHex(t, transactions[:])
	t = append(t, `"`+afterHeader+listOfTransactions...)
	t = append(t, r.text...)
	t = append(t, `]}`...)
	b.Text = t
	r.receipts, r.traces = append(r.receipts, ']'), append(r.traces, ']')
	b.Receipts, b.Traces = r.receipts, r.traces
	b.Txs = r.hashes
	if g.truth != nil {
		b.Decoded = &evm.Block{
			Number: b.Number, Hash: b.Hash, ParentHash: g.parent, Time: milliseconds / 1000,
			BaseFee: r.baseFee.Clone(), Transactions: r.decoded, Traced: true,
		}
		if granite {
			excess := uint64(initialDelayExcess)
			b.Decoded.Milliseconds, b.Decoded.MinDelayExcess = milliseconds, &excess
		}
		g.truth.block(b.Decoded)
	}
}

const (
	zeroHash = "0x0000000000000000000000000000000000000000000000000000000000000000"
	blank    = zeroHash
	// listOfTransactions is what in a block's text is before its transactions.
	listOfTransactions = `,"transactions":[`
	// afterHeader is what is behind the members of the header.
	afterHeader = `,"uncles":[]`
)

const hexDigits = "0123456789abcdef"

func appendHex(to, b []byte) []byte {
	to = append(to, "0x"...)
	return hex.AppendEncode(to, b)
}

func hexOf(b []byte) string { return string(appendHex(nil, b)) }

func appendQuantity(to []byte, n uint64) []byte {
	return strconv.AppendUint(append(to, "0x"...), n, 16)
}

func appendBig(to []byte, n *uint256.Int) []byte {
	if n.IsUint64() {
		return appendQuantity(to, n.Uint64())
	}
	b := n.Bytes()
	to = append(to, "0x"...)
	if b[0] < 16 {
		to = append(to, hexDigits[b[0]])
		b = b[1:]
	}
	return hex.AppendEncode(to, b)
}
