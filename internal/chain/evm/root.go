package evm

import (
	"bytes"
	"slices"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
)

// items holds the encoded transactions or receipts of a block to compute their root.
type items struct {
	encoded []byte
	ends    []int // of each in encoded
	// unknown reports that an item could not be encoded.
	unknown bool
	buffer  rlp.EncoderBuffer // reused for each item
	hasher  builder
}

func (l *items) at(i int) []byte {
	from := 0
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.encoded[from:l.ends[i]]
}

// add appends the list that write encodes, preceded by the type byte of a typed transaction.
func (l *items) add(kind uint8, write func(w *rlp.EncoderBuffer)) []byte {
	l.buffer.Reset(nil)
	list := l.buffer.List()
	write(&l.buffer)
	l.buffer.ListEnd(list)
	if kind > 0 {
		l.encoded = append(l.encoded, kind)
	}
	l.encoded = l.buffer.AppendToBytes(l.encoded)
	l.ends = append(l.ends, len(l.encoded))
	return l.at(len(l.ends) - 1)
}

// close returns the encoding buffer to its pool.
func (l *items) close() { _ = l.buffer.Flush() } // has no writer that could fail

// check compares the computed root with the header's root. It does nothing if an item is unknown.
func (l *items) check(s *jsonScanner, what string, root common.Hash) {
	if l.unknown {
		return
	}
	if got := l.root(); got != root {
		s.fail("the root of the %s is %s, the header has %s", what, got, root)
	}
}

// root returns the root of the Merkle Patricia trie of the items, keyed by index (types.DeriveSha of libevm, whose trie
// package needs several databases).
func (l *items) root() common.Hash {
	if len(l.ends) == 0 {
		return types.EmptyRootHash
	}
	leaves := make([]leaf, len(l.ends))
	var paths, key []byte
	for i := range leaves {
		from := len(paths)
		key = rlp.AppendUint64(key[:0], uint64(i))
		for _, b := range key {
			paths = append(paths, b>>4, b&0xf)
		}
		leaves[i] = leaf{paths[from:], l.at(i)}
	}
	slices.SortFunc(leaves, func(a, b leaf) int { return bytes.Compare(a.path, b.path) })
	return l.hasher.hash(l.hasher.node(leaves, 0))
}

// ReceiptsRoot returns the root of encoded receipts in their order.
func ReceiptsRoot(receipts [][]byte) common.Hash {
	var l items
	for _, one := range receipts {
		l.encoded = append(l.encoded, one...)
		l.ends = append(l.ends, len(l.encoded))
	}
	return l.root()
}

// leaf is an item with its path in nibbles. No path is a prefix of another.
type leaf struct{ path, item []byte }

// builder computes trie hashes with one Keccak state. The zero value is ready.
type builder struct{ keccak crypto.KeccakState }

func (b *builder) hash(data []byte) common.Hash {
	if b.keccak == nil {
		b.keccak = crypto.NewKeccakState()
	}
	return crypto.HashData(b.keccak, data)
}

// node encodes the trie node above leaves, whose paths agree up to depth.
func (b *builder) node(leaves []leaf, depth int) []byte {
	w := rlp.NewEncoderBuffer(nil)
	list := w.List()
	first, last := leaves[0].path, leaves[len(leaves)-1].path
	shared := depth
	for len(leaves) > 1 && first[shared] == last[shared] {
		shared++
	}
	switch {
	case len(leaves) == 1:
		w.WriteBytes(compact(first[depth:], 0x20))
		w.WriteBytes(leaves[0].item)
	case shared > depth:
		w.WriteBytes(compact(first[depth:shared], 0))
		b.refer(&w, b.node(leaves, shared))
	default:
		for nibble := range byte(16) {
			n := slices.IndexFunc(leaves, func(l leaf) bool { return l.path[depth] != nibble })
			if n < 0 {
				n = len(leaves)
			}
			if n == 0 {
				w.WriteBytes(nil)
				continue
			}
			b.refer(&w, b.node(leaves[:n], depth+1))
			if leaves = leaves[n:]; len(leaves) == 0 {
				for range 15 - nibble {
					w.WriteBytes(nil)
				}
				break
			}
		}
		w.WriteBytes(nil) // no item ends here
	}
	w.ListEnd(list)
	node := w.ToBytes()
	_ = w.Flush()
	return node
}

// refer writes the reference to a node in its parent: the node itself if it is short, else its hash.
func (b *builder) refer(w *rlp.EncoderBuffer, node []byte) {
	if len(node) < common.HashLength {
		_, _ = w.Write(node)
		return
	}
	hash := b.hash(node)
	w.WriteBytes(hash[:])
}

// compact encodes a nibble path with a flag and its parity (hex prefix encoding).
func compact(path []byte, flag byte) []byte {
	packed := make([]byte, 1, 1+len(path)/2)
	packed[0] = flag
	if len(path)%2 == 1 {
		packed[0] |= 0x10 | path[0]
		path = path[1:]
	}
	for ; len(path) > 0; path = path[2:] {
		packed = append(packed, path[0]<<4|path[1])
	}
	return packed
}

// signature holds the transaction fields that only the hash needs.
type signature struct {
	v, r, s, chainID uint256.Int
	has              int    // number of v, r and s present
	chain            bool   // chainID is present
	access           []byte // encoded access list; nil if absent
}

// field reads a field of a transaction.
func (x *signature) field(s *jsonScanner, name []byte) {
	switch string(name) {
	case "v":
		x.part(s, &x.v)
	case "r":
		x.part(s, &x.r)
	case "s":
		x.part(s, &x.s)
	case "chainId":
		x.chain = s.optional(func() { x.chainID = s.big() })
	case "accessList":
		s.optional(func() { x.access = readAccessList(s) })
	default:
		s.skip()
	}
}

func (x *signature) part(s *jsonScanner, to *uint256.Int) {
	if s.optional(func() { *to = s.big() }) {
		x.has++
	}
}

func readAccessList(s *jsonScanner) []byte {
	w := rlp.NewEncoderBuffer(nil)
	all := w.List()
	s.array(func(int) {
		var address common.Address
		var keys []common.Hash
		s.object(func(name []byte) {
			switch string(name) {
			case "address":
				address = s.address()
			case "storageKeys":
				s.optional(func() { s.array(func(int) { keys = append(keys, s.hash()) }) })
			default:
				s.skip()
			}
		})
		one := w.List()
		w.WriteBytes(address[:])
		list := w.List()
		for i := range keys {
			w.WriteBytes(keys[i][:])
		}
		w.ListEnd(list)
		w.ListEnd(one)
	})
	w.ListEnd(all)
	b := w.ToBytes()
	_ = w.Flush()
	return b
}

// Transaction types (EIP-2718).
const (
	legacyType     = 0
	accessListType = 1
	dynamicFeeType = 2
)

// transaction appends a transaction and verifies its hash, and on request its sender.
func (l *items) transaction(s *jsonScanner, tx *Transaction, x *signature, senders bool) {
	typed := tx.Type == accessListType || tx.Type == dynamicFeeType
	if l.unknown || x.has != 3 ||
		tx.Type != legacyType && (!typed || !x.chain || x.access == nil) ||
		tx.Type == dynamicFeeType && (tx.MaxFee == nil || tx.MaxPriorityFee == nil) {
		l.unknown = true
		return
	}
	encoded := l.add(tx.Type, func(w *rlp.EncoderBuffer) {
		x.content(w, tx)
		w.WriteUint256(&x.v)
		w.WriteUint256(&x.r)
		w.WriteUint256(&x.s)
	})
	if hash := l.hasher.hash(encoded); hash != tx.Hash {
		s.fail("the hash of transaction %d is %s, the node reported %s", len(l.ends)-1, hash, tx.Hash)
		return
	}
	if !senders {
		return
	}
	if from, ok := x.sender(l, tx); !ok || from != tx.From {
		s.fail("the sender of transaction %d is %s, the node reported %s", len(l.ends)-1, from, tx.From)
	}
}

// content writes the fields of a transaction that its sender signs.
func (x *signature) content(w *rlp.EncoderBuffer, tx *Transaction) {
	if tx.Type != legacyType {
		w.WriteUint256(&x.chainID)
	}
	w.WriteUint64(tx.Nonce)
	if tx.Type == dynamicFeeType {
		w.WriteUint256(tx.MaxPriorityFee)
		w.WriteUint256(tx.MaxFee)
	} else {
		w.WriteUint256(&tx.GasPrice)
	}
	w.WriteUint64(tx.GasLimit)
	if tx.To != nil {
		w.WriteBytes(tx.To[:])
	} else {
		w.WriteBytes(nil)
	}
	w.WriteUint256(&tx.Value)
	w.WriteBytes(tx.Input)
	if tx.Type != legacyType {
		_, _ = w.Write(x.access)
	}
}

// Bases of v in legacy transactions: without a chain ID, and with one (EIP-155).
const (
	unprotectedV = 27
	protectedV   = 35
)

// sender recovers the address that signed a transaction.
func (x *signature) sender(l *items, tx *Transaction) (from common.Address, ok bool) {
	var chainID *uint256.Int // that a legacy transaction's signature covers
	parity := x.v
	if tx.Type == legacyType {
		base := uint256.NewInt(unprotectedV)
		if parity.GtUint64(unprotectedV + 1) {
			base = uint256.NewInt(protectedV)
		}
		if parity.Lt(base) {
			return from, false
		}
		parity.Sub(&parity, base)
		if base.Uint64() == protectedV {
			chainID = new(uint256.Int).Rsh(&parity, 1)
			parity.And(&parity, uint256.NewInt(1))
		}
	}
	if parity.GtUint64(1) {
		return from, false
	}
	before := len(l.encoded)
	signed := l.hasher.hash(l.add(tx.Type, func(w *rlp.EncoderBuffer) {
		x.content(w, tx)
		if chainID != nil {
			w.WriteUint256(chainID)
			w.WriteUint64(0)
			w.WriteUint64(0)
		}
	}))
	l.encoded, l.ends = l.encoded[:before], l.ends[:len(l.ends)-1] // no item of the root
	var sig [crypto.SignatureLength]byte
	x.r.WriteToSlice(sig[:32])
	x.s.WriteToSlice(sig[32:64])
	sig[64] = byte(parity.Uint64())
	key, err := crypto.Ecrecover(signed[:], sig[:])
	if err != nil {
		return from, false
	}
	hash := l.hasher.hash(key[1:])
	return common.BytesToAddress(hash[12:]), true
}

// receiptSum holds the receipt fields that only the receipts root needs.
type receiptSum struct {
	gas   uint64 // cumulative
	bloom [types.BloomByteLength]byte
	has   int // number of fields present
}

// field reads a field of a receipt.
func (x *receiptSum) field(s *jsonScanner, name []byte) {
	switch string(name) {
	case "cumulativeGasUsed":
		if s.optional(func() { x.gas = s.number() }) {
			x.has++
		}
	case "logsBloom":
		if s.optional(func() { s.fixed(x.bloom[:]) }) {
			x.has++
		}
	default:
		s.skip()
	}
}

// receipt appends the receipt of a transaction.
func (l *items) receipt(tx *Transaction, x *receiptSum) {
	if l.unknown || x.has != 2 || tx.Type > dynamicFeeType {
		l.unknown = true
		return
	}
	l.add(tx.Type, func(w *rlp.EncoderBuffer) {
		w.WriteBool(tx.Success)
		w.WriteUint64(x.gas)
		w.WriteBytes(x.bloom[:])
		logs := w.List()
		for i := range tx.Logs {
			one := &tx.Logs[i]
			log := w.List()
			w.WriteBytes(one.Address[:])
			topics := w.List()
			for j := range one.Topics {
				w.WriteBytes(one.Topics[j][:])
			}
			w.ListEnd(topics)
			w.WriteBytes(one.Data)
			w.ListEnd(log)
		}
		w.ListEnd(logs)
	})
}
