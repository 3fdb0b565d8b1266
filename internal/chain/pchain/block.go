// Package pchain decodes P-Chain blocks: their transactions, and their effect on outputs. It asks nodes for the outputs
// of rewards and computes them from the supply if no node lists them.
package pchain

import (
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/linear"
)

// ErrBlock means that bytes are not a P-Chain block that this version can read.
var ErrBlock = errors.New("not a readable P-Chain block")

// Block is an accepted P-Chain block (avalanchego vms/platformvm/block).
type Block struct {
	Kind   Kind
	Height uint64
	// ID and ParentID identify the P-Chain's own blocks, as in the node's platform API. They are not the IDs of
	// proposer envelopes.
	ID, ParentID ids.ID
	// Time is the chain's time from this block on, with a resolution of one second. It is zero before Banff, when
	// blocks had no time.
	Time time.Time
	// Txs take effect with the block. Beside a proposal they take effect when the option that follows is accepted,
	// whether it is a Commit or an Abort. Transactions come without credentials, which only their
	// Bytes include, and their Unsigned has no Bytes.
	Txs []*txs.Tx
	// Proposal is set for Proposal blocks. It takes effect if the next block is a Commit.
	Proposal *txs.Tx
	// Bytes is the block without its envelope.
	Bytes []byte
	// Envelope is nil if the block came without one: blocks before the proposer VM have none, and some APIs remove it.
	Envelope *Envelope
}

// Kind is the kind of a block.
type Kind uint8

// The kinds of blocks, before and since Banff.
const (
	// Standard blocks carry transactions.
	Standard Kind = iota + 1
	// Proposal blocks propose a transaction, which the next block accepts or rejects. They may carry other
	// transactions.
	Proposal
	// Commit and Abort blocks decide the proposal of the previous block.
	Commit
	Abort
	// Atomic blocks carried an import or export before Apricot Phase 5.
	Atomic
)

func (k Kind) String() string {
	switch k {
	case Standard:
		return "standard"
	case Proposal:
		return "proposal"
	case Commit:
		return "commit"
	case Abort:
		return "abort"
	case Atomic:
		return "atomic"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Envelope is the proposer envelope of a block (avalanchego vms/proposervm).
type Envelope = envelope.Envelope

// ParseBlock parses a block with or without its envelope. It does not verify the signature of the envelope: the source
// of the bytes is trusted to report accepted blocks. The result refers to b. Errors wrap ErrBlock.
func ParseBlock(b []byte) (*Block, error) {
	around, wrapped := envelope.Open(b)
	if !wrapped {
		return parseInner(b)
	}
	parsed, err := parseInner(around.Block)
	if err != nil {
		return nil, fmt.Errorf("in the envelope %s: %w", around.ID, err)
	}
	parsed.Envelope = &around
	return parsed, nil
}

// blocks decodes blocks without their envelopes, as the library's block.Codec does.
var blocks = linear.New[block.Block](constants.DefaultMaxMessageSize, registerTypes)

// registerTypes registers the types of blocks of each network upgrade in the order of the library.
func registerTypes(types linearcodec.Codec) error {
	return errors.Join(
		block.RegisterApricotTypes(types), block.RegisterBanffTypes(types), block.RegisterDurangoTypes(types),
		block.RegisterEtnaTypes(types), block.RegisterHeliconTypes(types),
	)
}

// parseInner parses a block without its envelope.
func parseInner(b []byte) (*Block, error) {
	inner, err := blocks.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	parsed := &Block{Height: inner.Height(), ID: hashing.ComputeHash256Array(b), ParentID: inner.Parent(), Bytes: b}
	if timed, ok := inner.(block.BanffBlock); ok {
		parsed.Time = timed.Timestamp().UTC()
	}
	if err := inner.Visit((*sorter)(parsed)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	for _, tx := range parsed.Txs {
		tx.Creds = nil
	}
	if parsed.Proposal != nil {
		parsed.Proposal.Creds = nil
	}
	return parsed, nil
}

// sorter sets the fields that depend on a block's type.
type sorter Block

var _ block.Visitor = (*sorter)(nil)

func (s *sorter) BanffAbortBlock(*block.BanffAbortBlock) error   { return s.is(Abort, nil) }
func (s *sorter) BanffCommitBlock(*block.BanffCommitBlock) error { return s.is(Commit, nil) }
func (s *sorter) BanffStandardBlock(b *block.BanffStandardBlock) error {
	return s.is(Standard, b.Txs())
}
func (s *sorter) ApricotAbortBlock(*block.ApricotAbortBlock) error   { return s.is(Abort, nil) }
func (s *sorter) ApricotCommitBlock(*block.ApricotCommitBlock) error { return s.is(Commit, nil) }
func (s *sorter) ApricotStandardBlock(b *block.ApricotStandardBlock) error {
	return s.is(Standard, b.Txs())
}
func (s *sorter) ApricotAtomicBlock(b *block.ApricotAtomicBlock) error { return s.is(Atomic, b.Txs()) }

func (s *sorter) BanffProposalBlock(b *block.BanffProposalBlock) error {
	s.Proposal = b.Tx
	return s.is(Proposal, b.Transactions)
}

func (s *sorter) ApricotProposalBlock(b *block.ApricotProposalBlock) error {
	s.Proposal = b.Tx
	return s.is(Proposal, nil)
}

func (s *sorter) is(kind Kind, transactions []*txs.Tx) error {
	s.Kind, s.Txs = kind, transactions
	return nil
}
