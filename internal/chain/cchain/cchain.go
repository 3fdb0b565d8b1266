// Package cchain reads the atomic transactions of the C-Chain: imports from the
// X- and P-Chain into accounts, and exports to them. They stand in C-Chain blocks
// beside the Ethereum transactions, which this package leaves alone.
package cchain

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/ledger"
)

var (
	// ErrBlock says that bytes are no C-Chain block that this version can read.
	ErrBlock = errors.New("not a readable C-Chain block")
	// ErrTransaction says that a block's extra data is no list of atomic
	// transactions that this version can read.
	ErrTransaction = errors.New("not readable atomic transactions")
)

// Block is what of a C-Chain block is needed here.
type Block struct {
	Height uint64
	// ID and ParentID are the hashes of Ethereum headers, in Avalanche's form.
	ID, ParentID ids.ID
	// Time is to the second.
	Time time.Time
	// ExtraData has the atomic transactions; blockExtraData in the Ethereum API.
	ExtraData []byte
	// EnvelopeID is that of the envelope that consensus accepted, which the index
	// API uses; empty if the block came without one.
	EnvelopeID ids.ID
}

// The places of what is needed in lists of RLP (avalanchego
// graft/coreth/plugin/evm/customtypes): a block is header, transactions, uncles,
// version, extra data.
const (
	blockExtraData = 4

	headerParent = 0
	headerNumber = 8
	headerTime   = 11
	// headerFields is how many a header of the C-Chain has at least.
	headerFields = 16
)

// ParseBlock reads a block in RLP, in its proposer envelope or without. The
// result refers to b. Errors are ErrBlock.
func ParseBlock(b []byte) (*Block, error) {
	around, wrapped := envelope.Open(b)
	if wrapped {
		b = around.Block
	}
	parsed, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	parsed.EnvelopeID = around.ID
	return parsed, nil
}

func parse(b []byte) (*Block, error) {
	fields, err := elements(b)
	if err != nil {
		return nil, err
	}
	if len(fields) <= blockExtraData {
		return nil, fmt.Errorf("a block of %d fields", len(fields))
	}
	header, err := elements(fields[0])
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if len(header) < headerFields {
		return nil, fmt.Errorf("a header of %d fields", len(header))
	}
	parsed := &Block{ID: ids.ID(crypto.Keccak256(fields[0]))}
	var seconds uint64
	for _, field := range []struct {
		name string
		raw  []byte
		to   any
	}{
		{"parent", header[headerParent], (*[ids.IDLen]byte)(&parsed.ParentID)},
		{"number", header[headerNumber], &parsed.Height},
		{"time", header[headerTime], &seconds},
	} {
		if err := rlp.DecodeBytes(field.raw, field.to); err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	if seconds > math.MaxInt64 {
		return nil, fmt.Errorf("time %d", seconds)
	}
	parsed.Time = time.Unix(int64(seconds), 0).UTC()
	extra, rest, err := rlp.SplitString(fields[blockExtraData])
	if err != nil || len(rest) != 0 {
		return nil, fmt.Errorf("extra data: %w", errors.Join(err, fmt.Errorf("%d bytes too many", len(rest))))
	}
	parsed.ExtraData = extra
	return parsed, nil
}

// elements are the members of a list, encoded as they were.
func elements(b []byte) ([][]byte, error) {
	content, rest, err := rlp.SplitList(b)
	if err != nil {
		return nil, err
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%d bytes after the end", len(rest))
	}
	var members [][]byte
	for len(content) > 0 {
		_, _, rest, err := rlp.Split(content)
		if err != nil {
			return nil, err
		}
		members = append(members, content[:len(content)-len(rest)])
		content = rest
	}
	return members, nil
}

// Decoder reads the C-Chain of one network. It may be used from several
// goroutines.
type Decoder struct {
	networkID uint32
	chainID   ids.ID
	upgrades  upgrade.Config
	codec     codec.Manager
}

// NewDecoder makes a decoder for the C-Chain whose blockchain ID is given.
func NewDecoder(networkID uint32, chainID ids.ID) (*Decoder, error) {
	c, err := newCodec()
	if err != nil {
		return nil, fmt.Errorf("preparing to read the C-Chain: %w", err)
	}
	return &Decoder{networkID: networkID, chainID: chainID, upgrades: upgrade.GetConfig(networkID), codec: c}, nil
}

// Ledger returns what a block does to outputs: nothing for the bonus blocks of mainnet,
// whose imports the protocol accepted without applying them to outputs. Transactions
// returns those imports as well. Errors are ErrTransaction.
func (d *Decoder) Ledger(b *Block) (*ledger.Block, error) {
	transactions, err := d.Transactions(b)
	if err != nil {
		return nil, err
	}
	out := &ledger.Block{ChainID: d.chainID, Height: b.Height, ID: b.ID, Time: b.Time}
	if isBonus(d.networkID, b.Height) {
		return out, nil
	}
	for _, tx := range transactions {
		out.Txs = append(out.Txs, tx.Tx)
	}
	return out, nil
}

// Transactions are the atomic transactions of a block. Errors are ErrTransaction.
func (d *Decoder) Transactions(b *Block) ([]Tx, error) {
	// Before Apricot phase 5 a block had one at most, and no list.
	transactions, err := d.read(b.ExtraData, d.upgrades.IsApricotPhase5Activated(b.Time))
	if err != nil {
		return nil, fmt.Errorf("%w: block %d: %w", ErrTransaction, b.Height, err)
	}
	return transactions, nil
}
