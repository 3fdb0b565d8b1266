package evmchain

import (
	"bytes"
	"slices"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
)

// appendItem appends a string as RLP has it.
func appendItem(to, item []byte) []byte {
	if len(item) == 1 && item[0] < 0x80 {
		return append(to, item[0])
	}
	return append(appendHead(to, 0x80, len(item)), item...)
}

// appendHead appends what is before a string (0x80) or a list (0xc0) of some size.
func appendHead(to []byte, tag byte, size int) []byte {
	if size < 56 {
		return append(to, tag+byte(size))
	}
	b := minimal(uint64(size))
	return append(append(to, tag+55+byte(len(b))), b...)
}

func appendNumber(to []byte, n uint64) []byte { return appendItem(to, minimal(n)) }

func appendList(to, content []byte) []byte {
	return append(appendHead(to, 0xc0, len(content)), content...)
}

// minimal is a number in as few bytes as possible.
func minimal(n uint64) []byte {
	var b []byte
	for shift := 56; shift >= 0; shift -= 8 {
		if v := byte(n >> shift); v != 0 || len(b) > 0 {
			b = append(b, v)
		}
	}
	return b
}

// leaf is a value in a trie, by the nibbles of its key.
type leaf struct{ key, value []byte }

// rootOf is the hash of the trie that has values by their places, as headers have it
// of transactions and receipts.
func rootOf(values [][]byte) common.Hash {
	if len(values) == 0 {
		return crypto.Keccak256Hash([]byte{0x80})
	}
	leaves := make([]leaf, len(values))
	for i, v := range values {
		var key []byte
		for _, b := range appendNumber(nil, uint64(i)) {
			key = append(key, b>>4, b&15)
		}
		leaves[i] = leaf{key, v}
	}
	slices.SortFunc(leaves, func(a, b leaf) int { return bytes.Compare(a.key, b.key) })
	return crypto.Keccak256Hash(node(leaves, 0))
}

// node is what a trie of leaves is below their first nibbles, which they share.
func node(leaves []leaf, depth int) []byte {
	first, last := leaves[0].key, leaves[len(leaves)-1].key
	if len(leaves) == 1 {
		return appendList(nil, appendItem(appendItem(nil, compact(first[depth:], 0x20)), leaves[0].value))
	}
	shared := depth
	for first[shared] == last[shared] {
		shared++
	}
	if shared > depth {
		return appendList(nil, append(appendItem(nil, compact(first[depth:shared], 0)), reference(node(leaves, shared))...))
	}
	var content []byte
	for nibble := range byte(16) {
		n := 0
		for n < len(leaves) && leaves[n].key[depth] == nibble {
			n++
		}
		if n == 0 {
			content = append(content, 0x80)
			continue
		}
		content = append(content, reference(node(leaves[:n], depth+1))...)
		leaves = leaves[n:]
	}
	return appendList(nil, append(content, 0x80))
}

// reference is how a node stands in another.
func reference(n []byte) []byte {
	if len(n) < 32 {
		return n
	}
	return appendItem(nil, crypto.Keccak256(n))
}

// compact is nibbles in bytes, with a flag (hex prefix).
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
