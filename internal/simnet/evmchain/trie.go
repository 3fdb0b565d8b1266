package evmchain

import (
	"bytes"
	"slices"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/core/types"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"
)

// leaf is a value in a trie with the nibbles of its key.
type leaf struct{ key, value []byte }

// rootOf returns the root of the trie of values by index, as headers contain it for transactions and receipts. It is
// types.DeriveSha of libevm, whose trie package needs three databases.
func rootOf(values [][]byte) common.Hash {
	if len(values) == 0 {
		return types.EmptyRootHash
	}
	leaves := make([]leaf, len(values))
	for i, v := range values {
		var key []byte
		for _, b := range rlp.AppendUint64(nil, uint64(i)) {
			key = append(key, b>>4, b&15)
		}
		leaves[i] = leaf{key, v}
	}
	slices.SortFunc(leaves, func(a, b leaf) int { return bytes.Compare(a.key, b.key) })
	return crypto.Keccak256Hash(node(leaves, 0))
}

// node encodes the trie node above leaves, whose keys agree up to depth.
func node(leaves []leaf, depth int) []byte {
	first, last := leaves[0].key, leaves[len(leaves)-1].key
	if len(leaves) == 1 {
		return encode(compact(first[depth:], 0x20), leaves[0].value)
	}
	shared := depth
	for first[shared] == last[shared] {
		shared++
	}
	if shared > depth {
		return encode(compact(first[depth:shared], 0), reference(node(leaves, shared)))
	}
	var children [17]any
	for i := range children {
		children[i] = []byte(nil)
	}
	for len(leaves) > 0 {
		nibble, n := leaves[0].key[depth], 1
		for n < len(leaves) && leaves[n].key[depth] == nibble {
			n++
		}
		children[nibble] = reference(node(leaves[:n], depth+1))
		leaves = leaves[n:]
	}
	return encode(children[:]...)
}

// encode returns the RLP encoding of a list.
func encode(items ...any) []byte {
	b, err := rlp.EncodeToBytes(items)
	if err != nil {
		panic("evmchain: encoding a list: " + err.Error()) // a mistake in this package
	}
	return b
}

// reference returns what a node's parent contains: the node itself if it is short, else its hash.
func reference(n []byte) any {
	if len(n) < common.HashLength {
		return rlp.RawValue(n)
	}
	return crypto.Keccak256(n)
}

// compact encodes nibbles with a flag (hex prefix encoding).
func compact(nibbles []byte, flag byte) []byte {
	if len(nibbles)%2 == 1 {
		flag |= 0x10 | nibbles[0]
		nibbles = nibbles[1:]
	}
	b := []byte{flag}
	for i := 0; i < len(nibbles); i += 2 {
		b = append(b, nibbles[i]<<4|nibbles[i+1])
	}
	return b
}
