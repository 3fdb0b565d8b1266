package contracts

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/node"
)

// The calls made to each contract, and their indexes in the results.
const (
	isERC721 = iota
	isERC1155
	isAnything
	totalSupply
	decimals
	balanceOf
	name
	symbol
	questions
)

// probes holds the call data: the first four bytes of the Keccak-256 of each method's signature, and its argument.
var probes = [questions][]byte{
	isERC721:    supportsInterface(0x80, 0xac, 0x58, 0xcd),
	isERC1155:   supportsInterface(0xd9, 0xb6, 0x7a, 0x26),
	isAnything:  supportsInterface(0xff, 0xff, 0xff, 0xff), // ERC-165 requires false
	totalSupply: {0x18, 0x16, 0x0d, 0xdd},
	decimals:    {0x31, 0x3c, 0xe5, 0x67},
	balanceOf:   append([]byte{0x70, 0xa0, 0x82, 0x31}, make([]byte, word)...),
	name:        {0x06, 0xfd, 0xde, 0x03},
	symbol:      {0x95, 0xd8, 0x9b, 0x41},
}

func supportsInterface(id ...byte) []byte {
	return append(append([]byte{0x01, 0xff, 0xc9, 0xa7}, id...), make([]byte, word-len(id))...)
}

const (
	word = 32
	// probeGas is the gas limit of each call, far above normal use. With it a contract can return at most a few hundred
	// kilobytes, so that package node accepts a response of only such results.
	probeGas = 200_000
	// maxText is the maximum length of names and symbols in bytes.
	maxText = 256
)

// ask calls the contracts at addresses, in as few requests as the node's limits allow. If a request fails, it returns the
// contracts of the requests before it.
func (b *Book) ask(ctx context.Context, addresses []common.Address) ([]contract, error) {
	found := make([]contract, 0, len(addresses))
	for len(addresses) > 0 {
		n := min(len(addresses), node.MaxCalls/(questions+1)) // one more for the code
		some, err := b.askSome(ctx, addresses[:n])
		if err != nil {
			return found, err
		}
		found = append(found, some...)
		addresses = addresses[n:]
	}
	return found, nil
}

func (b *Book) askSome(ctx context.Context, addresses []common.Address) ([]contract, error) {
	calls := make([]node.EVMCall, 0, questions*len(addresses))
	for _, address := range addresses {
		for _, data := range probes {
			// Of two nodes behind one URL, one may lag: a contract that it lacks returns nothing.
			calls = append(calls, node.EVMCall{To: address, Data: data, Gas: probeGas, Code: true})
		}
	}
	returned, err := b.node.Calls(ctx, nil, calls)
	if err != nil {
		return nil, err
	}
	found := make([]contract, len(addresses))
	for i, address := range addresses {
		of := [questions]node.EVMReturn(returned[i*questions:])
		found[i].asked = time.Now()
		if !slices.ContainsFunc(of[:], func(r node.EVMReturn) bool { return r.NoCode }) {
			found[i].exists = true
			found[i].Contract = judge(address, of)
		}
	}
	return found, nil
}

// judge derives a contract's standard from its results. ERC-165 takes precedence over the presence of methods.
func judge(address common.Address, r [questions]node.EVMReturn) evm.Contract {
	c := evm.Contract{Address: address, Name: text(r[name]), Symbol: text(r[symbol])}
	if n, ok := number(r[decimals]); ok && n.IsUint64() && n.Uint64() <= 255 {
		d := uint8(n.Uint64())
		c.Decimals = &d
	}
	_, supply := number(r[totalSupply])
	_, balance := number(r[balanceOf])
	honest := !yes(r[isAnything])
	switch {
	case honest && yes(r[isERC721]):
		c.Standard = chain.ERC721
	case honest && yes(r[isERC1155]):
		c.Standard = chain.ERC1155
	case supply && balance && c.Decimals != nil:
		c.Standard = chain.ERC20
	}
	return c
}

// number returns the first word of a result.
func number(r node.EVMReturn) (n uint256.Int, ok bool) {
	if r.Failed || len(r.Data) < word {
		return n, false
	}
	n.SetBytes(r.Data[:word])
	return n, true
}

func yes(r node.EVMReturn) bool {
	n, ok := number(r)
	return ok && n.IsUint64() && n.Uint64() == 1
}

// text returns a short text from a result: a string or, as in early contracts, the bytes of one word. It returns an
// empty string for anything else.
func text(r node.EVMReturn) string {
	b, ok := dynamic(r)
	if !ok && !r.Failed && len(r.Data) == word {
		b = r.Data
	}
	b = b[:min(len(b), maxText)]
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(b), ""))
	return strings.TrimSpace(clean)
}

// dynamic returns the string or bytes in a result (Solidity ABI).
func dynamic(r node.EVMReturn) ([]byte, bool) {
	offset, ok := number(r)
	if !ok || !offset.IsUint64() || offset.Uint64() > uint64(len(r.Data)) {
		return nil, false
	}
	rest := r.Data[offset.Uint64():]
	length, ok := number(node.EVMReturn{Data: rest})
	if !ok || !length.IsUint64() || length.Uint64() > uint64(len(rest)-word) {
		return nil, false
	}
	return rest[word:][:length.Uint64()], true
}
