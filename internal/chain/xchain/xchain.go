// Package xchain reads what the X-Chain accepted: blocks, and from before it was
// linearised (ACP: Cortina) vertices and transactions. It needs no node, because
// the X-Chain makes no outputs that its transactions do not have.
package xchain

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/avm/block"
	"github.com/ava-labs/avalanchego/vms/avm/fxs"
	"github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/ledger"
)

var (
	// ErrBlock says that bytes are no X-Chain block that this version can read.
	ErrBlock = errors.New("not a readable X-Chain block")
	// ErrTransaction says that bytes are no X-Chain transaction, or one that this
	// version cannot explain.
	ErrTransaction = errors.New("not a readable X-Chain transaction")
	// ErrVertex says that bytes are no vertex of the X-Chain.
	ErrVertex = errors.New("not a readable X-Chain vertex")
)

// Block is an accepted X-Chain block (avalanchego vms/avm/block), or what takes the
// place of one for the time before there were any.
type Block struct {
	Height uint64
	// Place is where it comes in the order of all that the chain accepted. On chains
	// that always had blocks it is the Height. On others the genesis comes first, then
	// one by one the transactions that were accepted without a block, and then the
	// block at height 0: at Before, which is 0 if there was nothing before.
	Place, Before uint64
	// Cortina is the time of the block at height 0 if something came before it.
	Cortina time.Time
	// Early says that this is no block but the genesis, at Place 0, or one
	// transaction. Its Height is 0, because that block begins with what came of it, and
	// its Time is that of the first block, which is an upper bound: see PreCortina.
	Early bool
	// ID and ParentID are those of the X-Chain's own blocks, not those of proposer
	// envelopes. The parent of the block at height 0 is the vertex that ended the
	// time before there were blocks, on all networks.
	ID, ParentID ids.ID
	// Time is the chain's from this block on, to the second.
	Time time.Time
	// Txs come without their credentials, which only their Bytes have.
	Txs []*txs.Tx
	// Bytes are the block without its envelope.
	Bytes []byte
	// EnvelopeID is that of the envelope that consensus accepted, which the index
	// API uses; empty if the block came without one.
	EnvelopeID ids.ID
}

// Decoder reads the X-Chain of one network. It may be used from several goroutines.
type Decoder struct {
	chainID ids.ID
	genesis *ledger.Block
	parser  block.Parser
	codec   codec.Manager
}

// NewDecoder makes a decoder for the X-Chain whose blockchain ID is given. genesis
// has what the chain began with, and is reported in place of the block at height 0,
// which is empty.
func NewDecoder(chainID ids.ID, genesis *ledger.Block) (*Decoder, error) {
	if chainID == ids.Empty || genesis == nil || genesis.Height != 0 {
		return nil, errors.New("reading the X-Chain needs its ID and its genesis")
	}
	parser, err := NewParser()
	if err != nil {
		return nil, err
	}
	return &Decoder{chainID: chainID, genesis: genesis, parser: parser, codec: parser.GenesisCodec()}, nil
}

// NewParser is avalanchego's own, with the feature extensions that the X-Chain has
// on all networks, in their order.
func NewParser() (block.Parser, error) {
	parser, err := block.NewParser([]fxs.Fx{&secp256k1fx.Fx{}, &nftfx.Fx{}, &propertyfx.Fx{}})
	if err != nil {
		return nil, fmt.Errorf("preparing to read the X-Chain: %w", err)
	}
	return parser, nil
}

// ParseBlock reads a block, in its proposer envelope or without. The result refers
// to b. Errors are ErrBlock.
func (d *Decoder) ParseBlock(b []byte) (*Block, error) {
	around, wrapped := envelope.Open(b)
	if wrapped {
		b = around.Block
	}
	inner, err := d.parser.ParseBlock(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	if inner.Timestamp().Unix() < 0 {
		return nil, fmt.Errorf("%w: its time is beyond %d", ErrBlock, int64(math.MaxInt64))
	}
	for _, tx := range inner.Txs() {
		tx.Creds = nil
	}
	return &Block{
		Height: inner.Height(), Place: inner.Height(), ID: inner.ID(), ParentID: inner.Parent(), Time: inner.Timestamp().UTC(),
		Txs: inner.Txs(), Bytes: b, EnvelopeID: around.ID,
	}, nil
}

// Ledger says what a block does to outputs. Errors are ErrTransaction.
func (d *Decoder) Ledger(b *Block) (*ledger.Block, error) {
	out := &ledger.Block{ChainID: d.chainID, Height: b.Place, Before: b.Before, ID: b.ID, Time: b.Time, Cortina: b.Cortina}
	if b.Height == 0 && !b.Early && len(b.Txs) != 0 {
		return nil, fmt.Errorf("%w: the block at height 0 has some", ErrTransaction)
	}
	if b.Place == 0 {
		out.Time, out.Txs = d.genesis.Time, d.genesis.Txs
		return out, nil
	}
	if len(b.Txs) > 0 {
		out.Txs = make([]ledger.Tx, 0, len(b.Txs))
	}
	for _, tx := range b.Txs {
		read, err := d.read(tx)
		if err != nil {
			return nil, fmt.Errorf("at height %d: %w", b.Height, err)
		}
		out.Txs = append(out.Txs, *read)
	}
	return out, nil
}

// PreCortina is what came before the X-Chain's block at height 0.
type PreCortina struct {
	// Txs is how many transactions were accepted.
	Txs uint64
	// First and Time are the ID and time of the block at height 0. Time is an upper
	// bound of the transactions' times, which nothing on the chain tells.
	First ids.ID
	Time  time.Time
}

// Genesis takes the place of a block for what the chain began with.
func (p PreCortina) Genesis() *Block {
	return &Block{Before: p.Txs + 1, Early: true, ID: p.First, Time: p.Time, Cortina: p.Time}
}

// ParseTx reads a transaction from before the X-Chain had blocks, as a block of its
// own whose ID is the transaction's: index is its place among them, from 0. The block's
// time is that of the block at height 0. Errors are ErrTransaction.
func (d *Decoder) ParseTx(b []byte, index uint64, before PreCortina) (*Block, error) {
	tx, err := d.parseTx(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTransaction, err)
	}
	return &Block{
		Place: index + 1, Before: before.Txs + 1, Early: true, ID: tx.ID(), Time: before.Time, Cortina: before.Time, Txs: []*txs.Tx{tx}, Bytes: b,
	}, nil
}

// Dependencies returns the X-Chain transactions, other than those of the genesis,
// whose outputs a transaction consumes, each once. Errors are ErrTransaction.
func (d *Decoder) Dependencies(b []byte) ([]ids.ID, error) {
	tx, err := d.parseTx(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTransaction, err)
	}
	var all []ids.ID
	for _, in := range tx.Unsigned.InputUTXOs() {
		if in.Symbolic() || d.isGenesis(in.TxID) || slices.Contains(all, in.TxID) {
			continue // imported outputs are symbolic
		}
		all = append(all, in.TxID)
	}
	return all, nil
}

func (d *Decoder) isGenesis(id ids.ID) bool {
	return slices.ContainsFunc(d.genesis.Txs, func(tx ledger.Tx) bool { return tx.ID == id })
}

func (d *Decoder) parseTx(b []byte) (*txs.Tx, error) {
	tx, err := d.parser.ParseTx(b)
	if err != nil {
		return nil, err
	}
	tx.Creds = nil
	return tx, nil
}

func (d *Decoder) read(tx *txs.Tx) (*ledger.Tx, error) {
	read, err := Read(tx, d.chainID, d.codec)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTransaction, tx.ID(), err)
	}
	return read, nil
}
