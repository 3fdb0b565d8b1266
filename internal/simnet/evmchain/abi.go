package evmchain

import (
	"bytes"
	"encoding/binary"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
)

// packed is arguments in the encoding of the Solidity ABI.
type packed []byte

// calling returns the selector of a function, to which arguments are appended.
func calling(signature string) packed { return packed(crypto.Keccak256([]byte(signature))[:4]) }

func (p packed) address(a common.Address) packed {
	return append(append(p, make([]byte, 12)...), a[:]...)
}

func (p packed) uint(n *uint256.Int) packed {
	b := n.Bytes32()
	return append(p, b[:]...)
}

func (p packed) number(n uint64) packed { return p.uint(uint256.NewInt(n)) }

func (p packed) hash(h common.Hash) packed { return append(p, h[:]...) }

// list appends a dynamic array of numbers, without its offset.
func (p packed) list(of []uint256.Int) packed {
	p = p.number(uint64(len(of)))
	for i := range of {
		p = p.uint(&of[i])
	}
	return p
}

// bytes appends dynamic bytes, without their offset.
func (p packed) bytes(b []byte) packed {
	p = append(p.number(uint64(len(b))), b...)
	if rest := len(b) % 32; rest != 0 {
		p = append(p, make([]byte, 32-rest)...)
	}
	return p
}

// text returns the encoding of one string.
func text(s string) packed { return packed(nil).number(32).bytes([]byte(s)) }

// reason returns the output of a revert with a reason.
func reason(s string) []byte { return calling("Error(string)").number(32).bytes([]byte(s)) }

// reasonOf returns the reason in the output of a revert, or an empty string.
func reasonOf(output []byte) string {
	if !bytes.HasPrefix(output, calling("Error(string)")) || len(output) < 68 {
		return ""
	}
	return string(output[68 : 68+binary.BigEndian.Uint32(output[64:])])
}

// topic returns the first topic of an event.
func topic(signature string) common.Hash { return crypto.Keccak256Hash([]byte(signature)) }

func addressTopic(a common.Address) (h common.Hash) {
	copy(h[12:], a[:])
	return h
}

func numberTopic(n *uint256.Int) common.Hash { return n.Bytes32() }
