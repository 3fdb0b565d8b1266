package pchain

import (
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"
)

// StakerChange is a staker that a block added or changed, or whose period it ended. Stakers are those that can earn a
// reward; the validators of permissioned subnets are not among them.
type StakerChange struct {
	TxID      ids.ID
	SubnetID  ids.ID
	NodeID    ids.NodeID
	Delegator bool
	// Pending reports that the period has not begun. Left reports that the staker is no longer in the validator set.
	Pending, Left bool
	Start, End    time.Time
	Weight        uint64
	// PotentialReward is the reward of the period before commission; 0 until the period begins.
	PotentialReward uint64
	// Commission is what a validator earned from its delegators in this period and has not been paid.
	Commission uint64
}

// StakerChanges returns the stakers that changed since the last call of TakeChanges: validators before delegators, then
// by transaction ID.
func (s *State) StakerChanges() []StakerChange {
	changes := make([]StakerChange, 0, len(s.stakers.changed))
	for id := range s.stakers.changed {
		if one := s.stakers.all[id]; one != nil {
			changes = append(changes, one.change())
		}
	}
	for _, one := range s.stakers.left {
		c := one.change()
		c.Left = true
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b StakerChange) int {
		if a.Delegator != b.Delegator {
			if a.Delegator {
				return 1
			}
			return -1
		}
		return a.TxID.Compare(b.TxID)
	})
	return changes
}

func (one *staker) change() StakerChange {
	return StakerChange{
		TxID: one.txID, SubnetID: one.subnetID, NodeID: one.nodeID, Delegator: one.delegator, Pending: one.pending != 0,
		Start: unixTime(one.start), End: unixTime(one.end), Weight: one.weight, PotentialReward: one.reward, Commission: one.commission,
	}
}

// L1Change is the account of an L1 validator that a block opened or changed.
type L1Change struct {
	ValidationID ids.ID
	// Ends is the value of AccruedFees.Accrued at which the balance is used up; 0 if the validator is inactive or removed.
	Ends    uint64
	Removed bool
}

// L1Changes returns the accounts of L1 validators that changed since the last call of TakeChanges, by validation ID.
func (s *State) L1Changes() []L1Change {
	changes := make([]L1Change, 0, len(s.fees.changed))
	for id := range s.fees.changed {
		c := L1Change{ValidationID: id, Removed: true}
		if a := s.fees.accounts[id]; a != nil {
			c.Ends, c.Removed = a.ends, false
		}
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b L1Change) int { return a.ValidationID.Compare(b.ValidationID) })
	return changes
}

// AccruedFees are the continuous fees of L1 validators (ACP-77) after the last block.
type AccruedFees struct {
	// Accrued is the sum of the fees that one validator would have paid since the first block, in nAVAX.
	Accrued uint64
	// State determines the price of the next seconds: the number of active validators and the excess.
	State fee.State
}

// AccruedFees returns the fees after the last block.
func (s *State) AccruedFees() AccruedFees {
	return AccruedFees{Accrued: s.fees.accrued, State: s.fees.state()}
}

// Supply returns the current supply of a subnet's staking token; 0 if the subnet has none or it is unknown.
func (s *State) Supply(subnetID ids.ID) uint64 {
	if of := s.stakers.supplies[subnetID]; of != nil {
		return of.current
	}
	return 0
}

// Time returns the chain's time after the last block.
func (s *State) Time() time.Time { return s.time }
