package pchain

import (
	"errors"
	"fmt"
	"math"

	"github.com/ava-labs/avalanchego/ids"
	safemath "github.com/ava-labs/avalanchego/utils/math"
	"github.com/ava-labs/avalanchego/vms/components/gas"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
)

// errNoAccount means that no earlier block registered the validator.
var errNoAccount = errors.New("unknown L1 validator")

// l1Account is the prepaid balance of an L1 validator (ACP-77).
type l1Account struct {
	// ends is the value of accrued at which the balance is used up, in nAVAX; 0 while the validator is inactive.
	ends uint64
	// owner receives the remaining balance when the validator is disabled or removed.
	owner message.PChainOwner
}

// l1Fees tracks the continuous fees of all L1 validators. A transaction that returns a balance does not contain the
// amount. The amount follows from the times of all blocks in between, each of which changes the price.
//
// accrued is 0 at the first decoded block, not at the activation of the fees: only differences matter.
type l1Fees struct {
	active   uint64
	excess   gas.Gas
	accrued  uint64
	accounts map[ids.ID]*l1Account

	// soonest is a lower bound of ends among the active accounts.
	soonest uint64
	// changed are the accounts that differ from their stored rows.
	changed map[ids.ID]struct{}
}

func newL1Fees() *l1Fees {
	return &l1Fees{accounts: make(map[ids.ID]*l1Account), changed: make(map[ids.ID]struct{}), soonest: math.MaxUint64}
}

func (f *l1Fees) state() fee.State {
	return fee.State{Current: gas.Gas(f.active), Excess: f.excess}
}

// advance accrues the fees of the given seconds, as avalanchego's vms/platformvm/txs/executor does when a block
// advances the chain's time.
func (f *l1Fees) advance(c fee.Config, seconds uint64) error {
	before := f.state()
	accrued, err := safemath.Add(f.accrued, before.CostOf(c, seconds))
	if err != nil {
		return fmt.Errorf("fees of L1 validators: %w", err)
	}
	f.accrued, f.excess = accrued, before.AdvanceTime(c.Target, seconds).Excess
	f.deactivate(accrued)
	return nil
}

// closeBlock deactivates validators that cannot pay for another second, as the chain does after the transactions of
// each block (avalanchego vms/platformvm/block/executor).
func (f *l1Fees) closeBlock(c fee.Config) error {
	next, err := safemath.Add(f.accrued, f.state().CostOf(c, 1))
	if err != nil {
		return fmt.Errorf("fees of L1 validators: %w", err)
	}
	if next > 0 {
		f.deactivate(next - 1)
	}
	return nil
}

// deactivate deactivates the accounts that are used up when accrued reaches upTo.
func (f *l1Fees) deactivate(upTo uint64) {
	if f.soonest > upTo {
		return
	}
	f.soonest = math.MaxUint64
	for id, a := range f.accounts {
		switch {
		case a.ends == 0:
		case a.ends <= upTo:
			a.ends = 0
			f.active--
			f.changed[id] = struct{}{}
		default:
			f.soonest = min(f.soonest, a.ends)
		}
	}
}

func (f *l1Fees) open(id ids.ID, balance uint64, owner message.PChainOwner) error {
	f.accounts[id] = &l1Account{owner: owner}
	f.changed[id] = struct{}{}
	if balance == 0 {
		return nil
	}
	return f.increase(id, balance)
}

func (f *l1Fees) increase(id ids.ID, balance uint64) error {
	a, ok := f.accounts[id]
	if !ok {
		return fmt.Errorf("%w: %s", errNoAccount, id)
	}
	from := a.ends
	if from == 0 {
		from = f.accrued
	}
	ends, err := safemath.Add(from, balance)
	if err != nil {
		return fmt.Errorf("balance of L1 validator %s: %w", id, err)
	}
	if a.ends == 0 && ends != 0 {
		f.active++
	}
	a.ends = ends
	if ends != 0 {
		f.soonest = min(f.soonest, ends)
	}
	f.changed[id] = struct{}{}
	return nil
}

// stop deactivates a validator and returns its remaining balance, 0 if it was inactive. The validator may be
// reactivated unless remove is set.
func (f *l1Fees) stop(id ids.ID, remove bool) (balance uint64, owner message.PChainOwner, err error) {
	a, ok := f.accounts[id]
	if !ok {
		return 0, message.PChainOwner{}, fmt.Errorf("%w: %s", errNoAccount, id)
	}
	if a.ends != 0 {
		if a.ends <= f.accrued {
			return 0, message.PChainOwner{}, fmt.Errorf("L1 validator %s is active without a balance", id)
		}
		balance = a.ends - f.accrued
		f.active--
	}
	a.ends = 0
	if remove {
		delete(f.accounts, id)
	}
	f.changed[id] = struct{}{}
	return balance, a.owner, nil
}
