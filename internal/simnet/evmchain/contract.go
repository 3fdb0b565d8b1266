package evmchain

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	"quorate/internal/chain/evm"
)

// kind is the kind of a contract.
type kind uint8

const (
	erc20     kind = iota
	proxied        // ERC-20, by DELEGATECALL
	erc721         // with metadata
	erc1155        // with a URI
	wallet         // holds and forwards AVAX
	factory        // creates contracts
	lookalike      // emits events that look like transfers, but is no token
	mortal         // destroys itself
	messenger      // Teleporter
	kinds          // the number of kinds
)

// contract is a contract and what it knows.
type contract struct {
	kind kind
	at   *account
	// since is the number of the block that created it. failed means that the creation failed,
	// gone that it destroyed itself in the transaction that created it.
	since        uint32
	maker        *account // the contract that created it, nil if a transaction did
	failed, gone bool
	number       int
	name, symbol string
	// odd is the variant: names as bytes32, kinds of token URIs and so on.
	odd      int
	decimals uint8
	// base is the base URL of token metadata.
	base string
	// held are some of the tokens with present or former holders.
	held []held
	next uint64 // ERC-721 token
}

// held is a token of a holder.
type held struct {
	holder *account
	id     uint256.Int
}

// maxHeld bounds contract.held.
const maxHeld = 512

func (c *contract) standard() evm.Standard {
	switch c.kind {
	case erc20, proxied:
		return evm.ERC20
	case erc721:
		return evm.ERC721
	case erc1155:
		return evm.ERC1155
	}
	return evm.Unknown
}

// code returns the contract's code, which cannot run.
func (c *contract) code() []byte {
	code := []byte{0x60, 0x80, 0x60, 0x40, 0x52, 0xfe, byte(c.kind), byte(c.odd)}
	code = binary.BigEndian.AppendUint64(code, uint64(c.number))
	h := crypto.Keccak256([]byte(c.name), code)
	for range 2 + c.number%3 {
		code = append(code, h...)
	}
	return code
}

// initCode returns the input of the contract's creation.
func (c *contract) initCode() []byte {
	code := c.code()
	return append([]byte{0x60, 0x80, 0x60, 0x40, 0x52, 0x61, byte(len(code) >> 8), byte(len(code)), 0x80, 0x60, 0x0f, 0x5f, 0x39, 0x5f, 0xf3}, code...)
}

// newContract draws a contract of a kind.
func (g *Generator) newContract(k kind) *contract {
	g.contracts++
	c := &contract{kind: k, number: g.contracts, odd: g.rng.IntN(8), base: g.o.MetadataURL}
	c.name, c.symbol = fmt.Sprintf("Synthetic %d", c.number), fmt.Sprintf("SYN%d", c.number)
	switch k {
	case erc20, proxied:
		c.decimals = []uint8{18, 18, 18, 6, 8, 0, 18, 18}[c.odd]
	case erc721, erc1155:
	default:
		c.name, c.symbol = "", ""
	}
	if c.nameless() {
		c.name, c.symbol = "", ""
	}
	return c
}

// nameless reports whether the contract has no name and no symbol.
func (c *contract) nameless() bool { return c.odd == 5 && c.kind != proxied }

// named32 reports whether the contract returns names as bytes32, as some early tokens do.
func (c *contract) named32() bool { return c.odd == 6 && c.kind == erc20 }

// tokenURI returns the URI of an ERC-721 token.
func (c *contract) tokenURI(id *uint256.Int) string {
	switch c.odd {
	case 0, 1:
		return "data:application/json;base64," + base64.StdEncoding.EncodeToString([]byte(c.metadata(id)))
	case 2:
		return "data:application/json;utf8," + c.metadata(id)
	case 3:
		return "ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi/" + id.Dec()
	case 4:
		return ""
	}
	return fmt.Sprintf("%s/%d/%s", strings.TrimSuffix(c.base, "/"), c.number, id.Dec())
}

// uri returns the URI of all tokens of an ERC-1155 contract.
func (c *contract) uri() string {
	switch c.odd {
	case 0, 1:
		return "data:application/json;base64," + base64.StdEncoding.EncodeToString([]byte(c.metadata(nil)))
	case 3:
		return "ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi/{id}.json"
	case 4:
		return ""
	}
	return fmt.Sprintf("%s/%d/{id}.json", strings.TrimSuffix(c.base, "/"), c.number)
}

// metadata returns a document of the ERC-721 metadata schema, or with a nil id of the ERC-1155
// one.
func (c *contract) metadata(id *uint256.Int) string {
	name := fmt.Sprintf("Thing of collection %d", c.number)
	if id != nil {
		name += " #" + id.Dec()
		return fmt.Sprintf(`{"name":%q,"description":"Made up.","image":"ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi/%d.png","attributes":[{"trait_type":"Collection","value":"%d"}]}`,
			name, c.number, c.number)
	}
	return fmt.Sprintf(`{"name":%q,"description":"Made up.","decimals":0,"image":"ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi/%d.png","properties":{"collection":%d}}`,
		name, c.number, c.number)
}

// Function selectors, and interface IDs (ERC-165).
const (
	supportsInterface = 0x01ffc9a7
	nameOf            = 0x06fdde03
	symbolOf          = 0x95d89b41
	decimalsOf        = 0x313ce567
	totalSupply       = 0x18160ddd
	balanceOf         = 0x70a08231
	balanceOfToken    = 0x00fdd58e
	balanceOfBatch    = 0x4e1273f4
	ownerOf           = 0x6352211e
	tokenURI          = 0xc87b56dd
	uriOf             = 0x0e89341c
	getBlockchainID   = 0x4213cf78

	interface721          = 0x80ac58cd
	interface721Metadata  = 0x5b5e139f
	interface1155         = 0xd9b67a26
	interface1155Metadata = 0x0e89341c
)

// notFound is the revert of ERC-721 contracts for a token without an owner.
var notFound = reason("ERC721: invalid token ID")

// answer returns the output of a call of a contract at the end of a block; false if it reverts
// with that.
func (s *state) answer(c *contract, input []byte, block uint32) ([]byte, bool) {
	if len(input) < 4 {
		return nil, c.kind == wallet || c.kind == factory // those have a receive function
	}
	in := args(input[4:])
	collection := c.kind == erc721 || c.kind == erc1155
	fungible := c.kind == erc20 || c.kind == proxied
	supply := func() []byte {
		n := s.balanceAt(c, &s.supply, new(uint256.Int), block)
		return packed(nil).uint(&n)
	}
	switch selector := binary.BigEndian.Uint32(input); {
	case selector == supportsInterface && collection && in.has(1):
		id := binary.BigEndian.Uint32(in[:4])
		yes := id == supportsInterface ||
			c.kind == erc721 && (id == interface721 || id == interface721Metadata) ||
			c.kind == erc1155 && (id == interface1155 || id == interface1155Metadata)
		if yes {
			return packed(nil).number(1), true
		}
		return packed(nil).number(0), true
	case selector == nameOf && c.name != "":
		return c.tell(c.name), true
	case selector == symbolOf && c.symbol != "":
		return c.tell(c.symbol), true
	case selector == decimalsOf && fungible:
		return packed(nil).number(uint64(c.decimals)), true
	case selector == totalSupply && (fungible || c.kind == erc721):
		return supply(), true
	case selector == balanceOf && (fungible || c.kind == erc721) && in.has(1):
		return s.balanceWord(c, in.address(0), new(uint256.Int), block), true
	case selector == balanceOfToken && c.kind == erc1155 && in.has(2):
		id := in.uint(1)
		return s.balanceWord(c, in.address(0), &id, block), true
	case selector == balanceOfBatch && c.kind == erc1155 && in.has(2):
		holders, ids, ok := in.lists(0, 1)
		if !ok {
			return reason("ERC1155: accounts and ids length mismatch"), false
		}
		out := packed(nil).number(32).number(uint64(len(ids)))
		for i := range ids {
			out = append(out, s.balanceWord(c, common.Address(holders[i].Bytes20()), &ids[i], block)...)
		}
		return out, true
	case selector == ownerOf && c.kind == erc721 && in.has(1):
		id := in.uint(0)
		if a := s.ownerAt(c, &id, block); a != nil {
			return packed(nil).address(a.address), true
		}
		return notFound, false
	case selector == tokenURI && c.kind == erc721 && in.has(1):
		id := in.uint(0)
		if s.ownerAt(c, &id, block) == nil {
			return notFound, false
		}
		return text(c.tokenURI(&id)), true
	case selector == uriOf && c.kind == erc1155 && in.has(1):
		return text(c.uri()), true
	}
	return nil, false
}

func (s *state) balanceWord(c *contract, a common.Address, id *uint256.Int, block uint32) []byte {
	var n uint256.Int
	if holder := s.accounts[a]; holder != nil {
		n = s.balanceAt(c, holder, id, block)
	}
	return packed(nil).uint(&n)
}

func (c *contract) tell(s string) []byte {
	if c.named32() {
		return append([]byte(s), make([]byte, 32-len(s))...)
	}
	return text(s)
}

// args are packed arguments.
type args []byte

func (a args) has(words int) bool { return len(a) >= 32*words }

func (a args) uint(i int) (n uint256.Int) {
	n.SetBytes(a[32*i : 32*i+32])
	return n
}

func (a args) address(i int) common.Address { return common.Address(a[32*i+12 : 32*i+32]) }

// lists returns two arrays, and false unless they have equal lengths.
func (a args) lists(i, j int) (first, second []uint256.Int, ok bool) {
	read := func(i int) ([]uint256.Int, bool) {
		offset := a.uint(i)
		if !offset.IsUint64() || offset.Uint64() > uint64(len(a)) {
			return nil, false
		}
		rest := a[offset.Uint64():]
		if !rest.has(1) {
			return nil, false
		}
		n := rest.uint(0)
		if !n.IsUint64() || n.Uint64() > uint64(len(rest)/32-1) {
			return nil, false
		}
		list := make([]uint256.Int, n.Uint64())
		for k := range list {
			list[k] = rest.uint(k + 1)
		}
		return list, true
	}
	first, ok = read(i)
	if !ok {
		return nil, nil, false
	}
	second, ok = read(j)
	return first, second, ok && len(first) == len(second)
}
