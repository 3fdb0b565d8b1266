// Package cchain reads the atomic transactions of the C-Chain: imports from the X- and P-Chain into accounts, and
// exports to them. It ignores the Ethereum transactions of the same blocks.
package cchain

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"
	"github.com/ava-labs/libevm/rlp"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/ledger"
)

var (
	// ErrBlock means that bytes are not a C-Chain block that this version can read.
	ErrBlock = errors.New("not a readable C-Chain block")
	// ErrTransaction means that a block's extra data is not a list of atomic transactions that this version can read.
	ErrTransaction = errors.New("not readable atomic transactions")
)

// Block holds the parts of a C-Chain block that atomic transactions need.
type Block struct {
	Height uint64
	// ID and ParentID are the hashes of Ethereum headers, in Avalanche's form.
	ID, ParentID ids.ID
	// Time has a resolution of one second.
	Time time.Time
	// ExtraData encodes the atomic transactions; the Ethereum API calls it blockExtraData.
	ExtraData []byte

	extraDataHash common.Hash // in the header; zero before Apricot Phase 1
}

// The indexes of the needed elements in RLP lists (avalanchego graft/coreth/plugin/evm/customtypes). A block is a list
// of header, transactions, uncles, version and extra data.
const (
	blockExtraData = 4

	headerParent = 0
	headerNumber = 8
	headerTime   = 11
	headerExtra  = 15 // the hash of the extra data
	// headerFields is the minimum number of fields of a C-Chain header.
	headerFields = 16
)

// ParseBlock parses an RLP block with or without its proposer envelope. The result refers to b. Errors wrap ErrBlock.
func ParseBlock(b []byte) (*Block, error) {
	if around, wrapped := envelope.Open(b); wrapped {
		b = around.Block
	}
	parsed, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	return parsed, nil
}

func parse(b []byte) (*Block, error) {
	fields, err := elements(b)
	if err != nil {
		return nil, err
	}
	if len(fields) <= blockExtraData {
		return nil, fmt.Errorf("block has %d fields", len(fields))
	}
	header, err := elements(fields[0])
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if len(header) < headerFields {
		return nil, fmt.Errorf("header has %d fields", len(header))
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
		{"hash of the extra data", header[headerExtra], &parsed.extraDataHash},
	} {
		if err := rlp.DecodeBytes(field.raw, field.to); err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	if seconds > math.MaxInt64 {
		return nil, fmt.Errorf("time %d is out of range", seconds)
	}
	parsed.Time = time.Unix(int64(seconds), 0).UTC()
	extra, rest, err := rlp.SplitString(fields[blockExtraData])
	if err != nil || len(rest) != 0 {
		return nil, fmt.Errorf("extra data: %w", errors.Join(err, fmt.Errorf("%d trailing bytes", len(rest))))
	}
	parsed.ExtraData = extra
	return parsed, nil
}

// elements returns the encoded elements of an RLP list.
func elements(b []byte) ([][]byte, error) {
	content, rest, err := rlp.SplitList(b)
	if err != nil {
		return nil, err
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%d trailing bytes", len(rest))
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

// Decoder decodes the C-Chain blocks of one network. It is safe for concurrent use.
type Decoder struct {
	networkID uint32
	chainID   ids.ID
	upgrades  upgrade.Config
	codec     codec.Manager
}

// NewDecoder returns a decoder for the C-Chain with the given blockchain ID. Nil upgrades select those of the network ID.
func NewDecoder(networkID uint32, chainID ids.ID, upgrades *upgrade.Config) (*Decoder, error) {
	c, err := newCodec()
	if err != nil {
		return nil, fmt.Errorf("creating the C-Chain codec: %w", err)
	}
	d := &Decoder{networkID: networkID, chainID: chainID, upgrades: upgrade.GetConfig(networkID), codec: c}
	if upgrades != nil {
		d.upgrades = *upgrades
	}
	return d, nil
}

// Ledger returns the inputs and outputs of a block. They are empty for mainnet's bonus blocks, whose imports the
// protocol accepted without consuming outputs. Transactions returns those imports as well. Errors wrap ErrTransaction.
func (d *Decoder) Ledger(b *Block) (*ledger.Block, error) {
	transactions, err := d.Transactions(b)
	if err != nil {
		return nil, err
	}
	out := &ledger.Block{ChainID: d.chainID, Height: b.Height, ID: b.ID, Time: b.Time}
	if isBonus(d.networkID, b.Height) {
		return out, nil
	}
	out.Txs = transactions
	return out, nil
}

// Transactions returns the atomic transactions of a block. Errors wrap ErrTransaction.
func (d *Decoder) Transactions(b *Block) ([]ledger.Tx, error) {
	// Before Apricot Phase 5 a block had at most one transaction, not a list.
	transactions, err := d.read(b.ExtraData, d.upgrades.IsApricotPhase5Activated(b.Time))
	if err != nil {
		return nil, fmt.Errorf("%w: block %d: %w", ErrTransaction, b.Height, err)
	}
	return transactions, nil
}
