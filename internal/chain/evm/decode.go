package evm

import (
	"errors"
	"fmt"
	"math"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
)

var (
	// ErrInconsistent means that a node's answers for a block are unreadable, incomplete or contradictory. Another
	// node, or the same node later, may answer better.
	ErrInconsistent = errors.New("the node's answers for an EVM block are inconsistent")
	// ErrHash is an ErrInconsistent: the header does not hash to the block's hash. The header is damaged, lacks fields,
	// or has fields that this version does not know.
	ErrHash = errors.New("the header does not have the hash of the block")
)

// Answers holds a node's JSON answers for one block.
type Answers struct {
	// Block is the result of eth_getBlockByNumber with full transactions.
	Block []byte
	// Receipts is the result of eth_getBlockReceipts. It may be nil for a block without transactions.
	Receipts []byte
	// Traces is the result of debug_traceBlockByNumber with callTracer, or nil if the node does not offer traces.
	Traces []byte
	// Confirmed is the parent hash in the child block. It replaces the hash check for a header that does not have the
	// block's hash. If nil, the header must have the block's hash.
	Confirmed *common.Hash
	// Senders makes Decode recover the sender of each transaction from its signature. That takes several times as long as
	// the rest.
	Senders bool
}

// Decode parses a block and verifies that its parts belong together and are complete: it checks the header's hash, and
// the transactions and receipts roots unless the node omitted fields that the roots need (Block.Unchecked). It also checks
// what the roots imply: the gas of each transaction, created contracts, log indexes, effective gas prices, and on request
// senders. Since Helicon a C-Chain header's receipts root covers settled blocks: Decode encodes the receipts and leaves the check,
// and that of gas prices, to its caller. The result does not refer to the answers. Errors wrap ErrInconsistent.
func Decode(a Answers) (*Block, error) {
	d := decoder{block: new(Block), logs: -1, confirmed: a.Confirmed, senders: a.Senders}
	d.transactions.buffer, d.receipts.buffer = rlp.NewEncoderBuffer(nil), rlp.NewEncoderBuffer(nil)
	defer d.transactions.close()
	defer d.receipts.close()
	for _, part := range []struct {
		name string
		json []byte
		read func(*jsonScanner)
	}{{"block", a.Block, d.readBlock}, {"receipts", a.Receipts, d.readReceipts}, {"traces", a.Traces, d.readTraces}} {
		if part.json == nil && (part.name == "traces" || part.name == "receipts" && len(d.block.Transactions) == 0) {
			continue
		}
		s := jsonScanner{b: part.json}
		part.read(&s)
		if s.end(); s.err != nil {
			return nil, fmt.Errorf("%w: %s of block %d: %w", ErrInconsistent, part.name, d.block.Number, s.err)
		}
	}
	d.block.Traced = a.Traces != nil || len(d.block.Transactions) == 0
	d.block.Unchecked = d.transactions.unknown || d.receipts.unknown
	if d.settled && !d.receipts.unknown {
		d.block.Receipts = make([][]byte, len(d.receipts.ends))
		for i := range d.block.Receipts {
			d.block.Receipts[i] = d.receipts.at(i)
		}
	}
	return d.block, nil
}

// ParentHash reads only the parent hash from a result of eth_getBlockByNumber. Errors wrap ErrInconsistent.
func ParentHash(block []byte) (parent common.Hash, err error) {
	s, found := jsonScanner{b: block}, false
	s.object(func(name []byte) {
		if string(name) == "parentHash" {
			parent, found = s.hash(), true
			return
		}
		s.skip()
	})
	if !found {
		s.fail("parentHash missing")
	}
	if s.err != nil {
		return parent, fmt.Errorf("%w: %w", ErrInconsistent, s.err)
	}
	return parent, nil
}

type decoder struct {
	block     *Block
	logs      int64 // the index of the last log
	confirmed *common.Hash
	senders   bool

	transactions, receipts items
	roots                  [2]common.Hash // of transactions and receipts, from the header
	settled                bool           // the receipts root covers other blocks
	gas                    uint64         // cumulative, of the last receipt
	sparse                 bool           // log indexes are left out
}

func (d *decoder) readBlock(s *jsonScanner) {
	b := d.block
	var h header
	var hash, transactions bool
	s.object(func(name []byte) {
		switch string(name) {
		case "hash":
			b.Hash, hash = s.hash(), true
		case "transactions":
			transactions = true
			s.array(func(i int) {
				b.Transactions = append(b.Transactions, Transaction{})
				d.readTransaction(s, i)
			})
		default:
			h.field(s, name)
		}
	})
	if s.err != nil {
		return
	}
	if !hash || !transactions {
		s.fail("hash or transactions missing")
		return
	}
	h.imply()
	h.copyTo(s, b)
	if hash, _ := h.hash(); hash != b.Hash {
		if b.Unhashed = true; d.confirmed == nil || *d.confirmed != b.Hash {
			s.fail("%w: computed %s, want %s", ErrHash, hash, b.Hash)
		}
	}
	for i := range b.Transactions {
		if tx := &b.Transactions[i]; tx.Hash == (common.Hash{}) {
			s.fail("transaction %d has no hash", i)
		}
	}
	d.settled = b.Settled != nil
	if s.err == nil && h.has[transactionsField] && h.has[receiptsField] {
		d.roots = [2]common.Hash{common.BytesToHash(h.fields[transactionsField]), common.BytesToHash(h.fields[receiptsField])}
		d.transactions.check(s, "transactions", d.roots[0])
	}
}

// copyTo copies the needed header fields to b.
func (h *header) copyTo(s *jsonScanner, b *Block) {
	for i, to := range map[int]*uint64{numberField: &b.Number, timeField: &b.Time, millisecondsField: &b.Milliseconds} {
		if !h.has[i] && i != millisecondsField {
			s.fail("%s missing", headerFields[i].name)
			return
		}
		if len(h.fields[i]) > 8 {
			s.fail("%s has %d bytes", headerFields[i].name, len(h.fields[i]))
			return
		}
		*to = new(uint256.Int).SetBytes(h.fields[i]).Uint64()
	}
	if b.Time > math.MaxInt64/1000 {
		s.fail("time %d is out of range", b.Time)
	}
	if !h.has[parentField] || len(h.fields[parentField]) != common.HashLength {
		s.fail("parentHash missing")
		return
	}
	b.ParentHash = common.Hash(h.fields[parentField])
	if h.has[receiptsField] {
		b.ReceiptsRoot = common.BytesToHash(h.fields[receiptsField])
	}
	if h.has[baseFeeField] {
		b.BaseFee = new(uint256.Int).SetBytes(h.fields[baseFeeField])
	}
	if len(h.fields[gasLimitField]) > 8 {
		s.fail("gasLimit has %d bytes", len(h.fields[gasLimitField]))
		return
	}
	b.GasLimit = new(uint256.Int).SetBytes(h.fields[gasLimitField]).Uint64()
	b.GasCost.SetBytes(h.fields[gasCostField])
	if h.has[settledField] && len(h.fields[settledField]) <= 8 {
		settled := new(uint256.Int).SetBytes(h.fields[settledField]).Uint64()
		b.Settled = &settled
	}
	if h.has[delayField] && len(h.fields[delayField]) <= 8 {
		excess := new(uint256.Int).SetBytes(h.fields[delayField]).Uint64()
		b.MinDelayExcess = &excess
	}
}

func (d *decoder) readTransaction(s *jsonScanner, at int) {
	tx := &d.block.Transactions[at]
	var from bool
	var signed signature
	s.object(func(name []byte) {
		switch string(name) {
		case "hash":
			tx.Hash = s.hash()
		case "transactionIndex":
			s.optional(func() {
				if i := s.number(); i != uint64(at) {
					s.fail("transaction %d has index %d", at, i)
				}
			})
		case "type":
			tx.Type = uint8(s.small(math.MaxUint8))
		case "nonce":
			tx.Nonce = s.number()
		case "from":
			tx.From, from = s.address(), true
		case "to":
			s.optional(func() {
				to := s.address()
				tx.To = &to
			})
		case "value":
			tx.Value = s.big()
		case "input":
			tx.Input = s.data()
		case "gas":
			tx.GasLimit = s.number()
		case "gasPrice":
			s.optional(func() { tx.GasPrice = s.big() })
		case "maxFeePerGas":
			s.optional(func() { tx.MaxFee = pointer(s.big()) })
		case "maxPriorityFeePerGas":
			s.optional(func() { tx.MaxPriorityFee = pointer(s.big()) })
		default:
			signed.field(s, name)
		}
	})
	if !from {
		s.fail("transaction %d has no sender", at)
	}
	if s.err == nil {
		d.transactions.transaction(s, tx, &signed, d.senders)
	}
}

func pointer[T any](v T) *T { return &v }

func (d *decoder) readReceipts(s *jsonScanner) {
	read := 0
	s.array(func(i int) {
		if i >= len(d.block.Transactions) {
			s.fail("more receipts than the %d transactions", len(d.block.Transactions))
			return
		}
		d.readReceipt(s, i)
		read++
	})
	if read != len(d.block.Transactions) {
		s.fail("%d receipts for %d transactions", read, len(d.block.Transactions))
	}
	switch {
	case s.err != nil || d.settled || d.receipts.unknown:
	case d.block.Unhashed: // the root may be that of settled blocks, whose height the node omitted
		d.receipts.unknown = d.receipts.root() != d.roots[1]
	default:
		d.receipts.check(s, "receipts", d.roots[1])
	}
	if s.err == nil && d.sparse && !d.receipts.unknown {
		s.fail("the log indexes are not consecutive")
	}
}

func (d *decoder) readReceipt(s *jsonScanner, at int) {
	tx := &d.block.Transactions[at]
	var status, hash, gas, logs bool
	var sum receiptSum
	offered := tx.GasPrice
	s.object(func(name []byte) {
		switch string(name) {
		case "transactionHash":
			hash = true
			d.same(s, "transaction", s.hash(), tx.Hash)
		case "blockHash":
			d.same(s, "block", s.hash(), d.block.Hash)
		case "transactionIndex":
			if i := s.number(); i != uint64(at) {
				s.fail("receipt %d has index %d", at, i)
			}
		case "status":
			status = true
			tx.Success = s.small(1) == 1
		case "gasUsed":
			gas = true
			tx.GasUsed = s.number()
		case "effectiveGasPrice":
			s.optional(func() { tx.GasPrice = s.big() })
		case "contractAddress":
			s.optional(func() {
				if created := s.address(); tx.To == nil {
					tx.Created = created
				}
			})
		case "logs":
			logs = true
			s.array(func(int) { d.readLog(s, tx) })
		default:
			sum.field(s, name)
		}
	})
	if s.err == nil {
		d.receipts.receipt(tx, &sum)
	}
	if s.err == nil && !(status && hash && gas && logs) {
		s.fail("receipt %d lacks its status, hash, gas or logs", at)
	}
	if s.err == nil && !d.receipts.unknown {
		d.derived(s, at, &sum, offered)
	}
	if tx.To == nil && tx.Created == (common.Address{}) {
		tx.Created = crypto.CreateAddress(tx.From, tx.Nonce)
	}
}

// derived fails if a field that follows from the transaction and the receipts root is wrong. offered is the transaction's
// gas price before that of the receipt replaced it.
func (d *decoder) derived(s *jsonScanner, at int, sum *receiptSum, offered uint256.Int) {
	tx := &d.block.Transactions[at]
	if sum.gas-d.gas != tx.GasUsed {
		s.fail("receipt %d has %d gas used, want %d", at, tx.GasUsed, sum.gas-d.gas)
	}
	d.gas = sum.gas
	if d.settled && sum.bloom != bloomOf(tx.Logs) { // otherwise the root covers both
		s.fail("the logs of receipt %d are not those of its bloom", at)
	}
	if want := crypto.CreateAddress(tx.From, tx.Nonce); tx.To == nil && tx.Created != (common.Address{}) && tx.Created != want {
		s.fail("receipt %d has the contract address %s, want %s", at, tx.Created, want)
	}
	price := offered
	if tx.Type == dynamicFeeType {
		if d.settled || d.block.Unhashed || d.block.BaseFee == nil || tx.MaxFee == nil || tx.MaxPriorityFee == nil {
			return // the base fee of the execution is in no header
		}
		if _, over := price.AddOverflow(d.block.BaseFee, tx.MaxPriorityFee); over || price.Gt(tx.MaxFee) {
			price = *tx.MaxFee
		}
	}
	if !tx.GasPrice.Eq(&price) {
		s.fail("receipt %d has the gas price %s, want %s", at, tx.GasPrice.Dec(), price.Dec())
	}
}

func bloomOf(logs []Log) (bloom types.Bloom) {
	for i := range logs {
		bloom.Add(logs[i].Address[:])
		for j := range logs[i].Topics {
			bloom.Add(logs[i].Topics[j][:])
		}
	}
	return bloom
}

// same fails if a part belongs to another block or transaction.
func (d *decoder) same(s *jsonScanner, what string, got, want common.Hash) {
	if s.err == nil && got != want {
		s.fail("it belongs to %s %s, want %s", what, got, want)
	}
}

// maxTopics is the maximum number of topics of an EVM log.
const maxTopics = 4

func (d *decoder) readLog(s *jsonScanner, tx *Transaction) {
	var l Log
	var index bool
	s.object(func(name []byte) {
		switch string(name) {
		case "logIndex":
			index = true
			l.Index = uint32(s.small(math.MaxUint32))
		case "address":
			l.Address = s.address()
		case "transactionHash":
			d.same(s, "transaction", s.hash(), tx.Hash)
		case "topics":
			var topics [maxTopics]common.Hash
			n := 0
			s.array(func(i int) {
				if i >= maxTopics {
					s.fail("a log has more than %d topics", maxTopics)
					return
				}
				topics[i] = s.hash()
				n++
			})
			l.Topics = append([]common.Hash(nil), topics[:n]...)
		case "data":
			l.Data = s.data()
		case "removed":
			if s.peek() == 't' {
				s.fail("a log of an accepted block is marked as removed")
			}
			s.skip()
		default:
			s.skip()
		}
	})
	if s.err != nil {
		return
	}
	if !index || int64(l.Index) <= d.logs {
		s.fail("log index %d follows %d", l.Index, d.logs)
		return
	}
	d.sparse = d.sparse || int64(l.Index) != d.logs+1
	d.logs = int64(l.Index)
	tx.Logs = append(tx.Logs, l)
}
