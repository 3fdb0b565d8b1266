// Package xchain decodes the X-Chain: its blocks, and the vertices and transactions that
// it accepted before Cortina, when it had no blocks. It needs no node, because all outputs
// of the X-Chain are in its transactions.
package xchain

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/vms/avm/block"
	"github.com/ava-labs/avalanchego/vms/avm/fxs"
	"github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/ledger"
	"quorate/internal/chain/linear"
)

var (
	// ErrBlock means that bytes are not an X-Chain block that this version can read.
	ErrBlock = errors.New("not a readable X-Chain block")
	// ErrTransaction means that bytes are not an X-Chain transaction that this version can
	// read.
	ErrTransaction = errors.New("not a readable X-Chain transaction")
	// ErrVertex means that bytes are not a vertex of the X-Chain.
	ErrVertex = errors.New("not a readable X-Chain vertex")
)

// Block is an accepted X-Chain block (avalanchego vms/avm/block). For the time before
// Cortina, it is the genesis or one transaction.
type Block struct {
	Height uint64
	// Place is the position in the order of everything that the chain accepted. On chains
	// that always had blocks it is the Height. On others the genesis is first, followed by
	// the pre-Cortina transactions, and then by the block at height 0. Before is the Place
	// of the block at height 0; it is 0 if nothing precedes it.
	Place, Before uint64
	// Cortina is the time of the block at height 0 if something precedes it.
	Cortina time.Time
	// Early means that this is not a block: it is the genesis, at Place 0, or a pre-Cortina
	// transaction. Its Height is 0. Its Time is that of the block at height 0, which is an
	// upper bound; see PreCortina.
	Early bool
	// ID and ParentID identify the X-Chain's own blocks, not proposer envelopes. The parent
	// of the block at height 0 is the stop vertex.
	ID, ParentID ids.ID
	// Time is the chain's time from this block on, with a resolution of one second.
	Time time.Time
	// Txs have no credentials, which only their Bytes include; the Unsigned of those in blocks has no Bytes.
	Txs []*txs.Tx
	// Proposer is the node that signed the envelope. It is empty if none did.
	Proposer ids.NodeID
}

// Decoder decodes the X-Chain of one network. It is safe for concurrent use.
type Decoder struct {
	chainID ids.ID
	genesis *ledger.Block
	blocks  *linear.Decoder[block.Block]
	parser  block.Parser
	codec   codec.Manager
}

// NewDecoder returns a decoder for the X-Chain with a blockchain ID. Genesis contains the
// chain's first outputs; Ledger returns it for Place 0, where the chain's block is empty.
func NewDecoder(chainID ids.ID, genesis *ledger.Block) (*Decoder, error) {
	if chainID == ids.Empty || genesis == nil || genesis.Height != 0 {
		return nil, errors.New("a decoder of the X-Chain needs its blockchain ID and its genesis")
	}
	parser, err := NewParser()
	if err != nil {
		return nil, err
	}
	return &Decoder{
		chainID: chainID, genesis: genesis, blocks: linear.New[block.Block](codec.DefaultMaxSize, registerTypes),
		parser: parser, codec: parser.GenesisCodec(),
	}, nil
}

// NewParser returns avalanchego's parser with the feature extensions of the X-Chain, which
// are the same on all networks.
func NewParser() (block.Parser, error) {
	parser, err := block.NewParser(extensions())
	if err != nil {
		return nil, fmt.Errorf("creating the X-Chain's parser: %w", err)
	}
	return parser, nil
}

func extensions() []fxs.Fx { return []fxs.Fx{&secp256k1fx.Fx{}, &nftfx.Fx{}, &propertyfx.Fx{}} }

// registerTypes registers the types of blocks in the order of the library's parser.
func registerTypes(types linearcodec.Codec) error {
	err := errors.Join(
		types.RegisterType(&txs.BaseTx{}), types.RegisterType(&txs.CreateAssetTx{}), types.RegisterType(&txs.OperationTx{}),
		types.RegisterType(&txs.ImportTx{}), types.RegisterType(&txs.ExportTx{}),
	)
	for _, fx := range extensions() {
		err = errors.Join(err, fx.Initialize(&secp256k1fx.TestVM{Codec: types, Log: logging.NoLog{}}))
	}
	return errors.Join(err, types.RegisterType(&block.StandardBlock{}))
}

// ParseBlock parses a block with or without its proposer envelope. The result refers to b.
// Errors wrap ErrBlock.
func (d *Decoder) ParseBlock(b []byte) (*Block, error) {
	around, wrapped := envelope.Open(b)
	if wrapped {
		b = around.Block
	}
	inner, err := d.blocks.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	if inner.Timestamp().Unix() < 0 {
		return nil, fmt.Errorf("%w: its time exceeds %d seconds", ErrBlock, int64(math.MaxInt64))
	}
	for _, tx := range inner.Txs() {
		tx.Creds = nil
	}
	return &Block{
		Height: inner.Height(), Place: inner.Height(), ID: hashing.ComputeHash256Array(b), ParentID: inner.Parent(), Time: inner.Timestamp().UTC(),
		Txs: inner.Txs(), Proposer: around.Proposer,
	}, nil
}

// Ledger returns what a block creates and consumes. Errors wrap ErrTransaction.
func (d *Decoder) Ledger(b *Block) (*ledger.Block, error) {
	out := &ledger.Block{ChainID: d.chainID, Height: b.Place, Before: b.Before, ID: b.ID, Time: b.Time, Cortina: b.Cortina}
	if b.Height == 0 && !b.Early && len(b.Txs) != 0 {
		return nil, fmt.Errorf("%w: the block at height 0 has transactions", ErrTransaction)
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

// PreCortina describes what precedes the X-Chain's block at height 0.
type PreCortina struct {
	// Txs is the number of transactions.
	Txs uint64
	// First and Time are the ID and the time of the block at height 0. The transactions'
	// own times are not on the chain; Time is their upper bound.
	First ids.ID
	Time  time.Time
}

// Genesis returns the Block that stands for the genesis.
func (p PreCortina) Genesis() *Block {
	return &Block{Before: p.Txs + 1, Early: true, ID: p.First, Time: p.Time, Cortina: p.Time}
}

// ParseTx parses a pre-Cortina transaction into a Block of its own, which has the
// transaction's ID. Index is its position among these transactions, from 0. Errors wrap
// ErrTransaction.
func (d *Decoder) ParseTx(b []byte, index uint64, before PreCortina) (*Block, error) {
	tx, err := d.parseTx(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTransaction, err)
	}
	return &Block{
		Place: index + 1, Before: before.Txs + 1, Early: true, ID: tx.ID(), Time: before.Time, Cortina: before.Time, Txs: []*txs.Tx{tx},
	}, nil
}

// Dependencies returns the X-Chain transactions whose outputs a transaction consumes, each
// once and without those of the genesis. Errors wrap ErrTransaction.
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
