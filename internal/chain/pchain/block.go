package pchain

import (
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/envelope"
)

// ErrBlock says that bytes are no P-Chain block that this version can read.
var ErrBlock = errors.New("not a readable P-Chain block")

// Block is an accepted P-Chain block (avalanchego vms/platformvm/block).
type Block struct {
	Kind   Kind
	Height uint64
	// ID and ParentID are those of the P-Chain's own blocks, which the node's
	// platform API uses, not those of proposer envelopes.
	ID, ParentID ids.ID
	// Time is the chain's time from this block on, to the second; zero before
	// Banff, when blocks did not say.
	Time time.Time
	// Txs take effect with the block. Those beside a proposal do so when the
	// option that follows is accepted, whichever it is. Transactions come without their
	// credentials, which only their Bytes have.
	Txs []*txs.Tx
	// Proposal is set for Proposal blocks; it takes effect if the block that
	// follows is a Commit.
	Proposal *txs.Tx
	// Bytes are the block without its envelope.
	Bytes []byte
	// Envelope is nil if the block came without one: from before there were
	// envelopes, or from an API that takes them off.
	Envelope *Envelope
}

// Kind says what a block does.
type Kind uint8

// The kinds of blocks, before and since Banff.
const (
	// Standard blocks carry transactions.
	Standard Kind = iota + 1
	// Proposal blocks ask the next block whether a transaction takes effect, and
	// may carry others.
	Proposal
	// Commit and Abort are the two possible answers.
	Commit
	Abort
	// Atomic blocks carried an import or export, before Apricot phase 5.
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

// Envelope is what consensus wraps around a block (avalanchego vms/proposervm).
type Envelope = envelope.Envelope

// ParseBlock reads a block, in its envelope or without. The signature of an
// envelope is not checked: who gave the bytes is trusted for their acceptance.
// The result refers to b. Errors are ErrBlock.
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

func parseInner(b []byte) (*Block, error) {
	if parsed := quickBlock(b); parsed != nil {
		return parsed, nil
	}
	return slowBlock(b)
}

// slowBlock reads a block with the library's codec, which has the last word.
func slowBlock(b []byte) (*Block, error) {
	inner, err := block.Parse(block.Codec, b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	parsed := &Block{Height: inner.Height(), ID: inner.ID(), ParentID: inner.Parent(), Bytes: b}
	if timed, ok := inner.(block.BanffBlock); ok {
		parsed.Time = timed.Timestamp().UTC()
	}
	if err := inner.Visit((*sorter)(parsed)); err != nil {
		return nil, err
	}
	for _, tx := range parsed.Txs {
		tx.Creds = nil
	}
	if parsed.Proposal != nil {
		parsed.Proposal.Creds = nil
	}
	return parsed, nil
}

// sorter fills in what depends on a block's type.
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
