package pchain

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
)

// StateBefore returns a state before block b, for tests that start in the middle of a chain.
func StateBefore(b *Block, at time.Time, proposal *txs.Tx) *State {
	s := NewState()
	s.height, s.blockID, s.time, s.proposal = b.Height-1, b.ParentID, at, proposal
	return s
}

// OpenL1 adds an L1 validator with a balance.
func (s *State) OpenL1(id ids.ID, balance uint64, owner message.PChainOwner) error {
	return s.fees.open(id, balance, owner)
}

// Renew adds an auto-renewed validator.
func (s *State) Renew(id ids.ID) { s.stakers.put(&staker{txID: id, renewal: new(renewal)}) }

// L1Fees is the fee state of L1 validators.
type L1Fees struct{ *l1Fees }

func NewL1Fees() L1Fees { return L1Fees{newL1Fees()} }

func (f L1Fees) Advance(c fee.Config, seconds uint64) error { return f.advance(c, seconds) }
func (f L1Fees) CloseBlock(c fee.Config) error              { return f.closeBlock(c) }
func (f L1Fees) Open(id ids.ID, balance uint64) error {
	return f.open(id, balance, message.PChainOwner{})
}
func (f L1Fees) Increase(id ids.ID, balance uint64) error { return f.increase(id, balance) }
func (f L1Fees) Stop(id ids.ID, remove bool) (uint64, error) {
	balance, _, err := f.stop(id, remove)
	return balance, err
}
func (f L1Fees) Active() uint64 { return f.active }

// RegisterTypes registers the types of blocks.
var RegisterTypes = registerTypes
