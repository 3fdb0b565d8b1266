package ledger

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/reward"

	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Delegation is a delegation on the primary network.
type Delegation struct {
	TxID       ids.ID
	NodeID     ids.NodeID
	Start, End time.Time
	Height     uint64
	// Weight is the delegated amount in nAVAX.
	Weight          uint64
	RewardAddresses []ids.ShortID
	// Shares is the validator's commission in millionths.
	Shares uint32
	// PotentialReward is the reward in nAVAX with commission. It is 0 before the period has ended, and if it is unknown.
	PotentialReward uint64
	// Settled reports that the period has ended and its outcome is indexed. The fields below are zero before.
	Settled, Rewarded bool
	SettledAt         time.Time
	// Reward is the delegator's part. Commission is the validator's part if it was paid at the same time, as before the
	// Cortina upgrade. Since Cortina it is paid when the validator's own period ends, and Commission is 0.
	Reward, Commission uint64
}

// DelegationStatus is the status of a delegation.
type DelegationStatus string

// The statuses of a delegation.
const (
	DelegationPending   DelegationStatus = "pending"
	DelegationActive    DelegationStatus = "active"
	DelegationCompleted DelegationStatus = "completed"
)

// StatusAt returns the delegation's status at a time.
func (d *Delegation) StatusAt(t time.Time) DelegationStatus {
	switch {
	case d.Start.After(t):
		return DelegationPending
	case t.Before(d.End):
		return DelegationActive
	default:
		return DelegationCompleted
	}
}

// Rewards returns the delegation's reward before and after commission, in nAVAX. For a settled delegation it is the
// paid reward, otherwise the expected one if known. If only net is known, gross is the smallest amount that leaves net
// after commission.
func (d *Delegation) Rewards() (gross, net uint64) {
	switch {
	case !d.Settled:
		_, net = reward.Split(d.PotentialReward, d.Shares)
		return d.PotentialReward, net
	case !d.Rewarded:
		return 0, 0
	case d.Commission > 0:
		return d.Reward + d.Commission, d.Reward
	case d.PotentialReward > 0:
		return d.PotentialReward, d.Reward
	case d.Shares >= reward.PercentDenominator:
		return d.Reward, d.Reward
	}
	hi, lo := bits.Mul64(d.Reward, reward.PercentDenominator)
	kept := uint64(reward.PercentDenominator - d.Shares)
	if hi >= kept {
		return d.Reward, d.Reward
	}
	gross, rest := bits.Div64(hi, lo, kept)
	if rest > 0 {
		gross++
	}
	return gross, d.Reward
}

func delegationOf(s *Staking, shares uint32) *Delegation {
	d := &Delegation{
		TxID: s.TxID, NodeID: s.Staker.NodeID, Start: s.Staker.Start, End: s.Staker.End, Height: s.Height,
		Weight: s.Staker.Weight, RewardAddresses: s.Staker.RewardAddresses, Shares: shares,
		PotentialReward: s.PotentialReward,
	}
	if s.Settled != nil {
		d.Settled, d.Rewarded, d.SettledAt = true, s.Settled.Rewarded, s.Settled.Time
	}
	return d
}

func (d *Delegation) bytes() []byte {
	w := row.New(128)
	w.B = append(w.B, d.NodeID[:]...)
	w.Time(d.Start)
	w.Time(d.End)
	w.Number(d.Height)
	w.Number(d.Weight)
	w.Addresses(d.RewardAddresses)
	w.Number(uint64(d.Shares))
	w.Number(d.PotentialReward)
	w.Bool(d.Settled)
	if d.Settled {
		w.Bool(d.Rewarded)
		w.Time(d.SettledAt)
		w.Number(d.Reward)
		w.Number(d.Commission)
	}
	return w.B
}

func parseDelegation(txID ids.ID, v []byte) (*Delegation, error) {
	r := row.Read(v)
	d := &Delegation{TxID: txID}
	copy(d.NodeID[:], r.Take(len(d.NodeID)))
	d.Start, d.End, d.Height, d.Weight = r.Time(), r.Time(), r.Number(), r.Number()
	d.RewardAddresses, d.Shares, d.PotentialReward = r.Addresses(), r.Uint32(), r.Number()
	if d.Settled = r.Bool(); d.Settled {
		d.Rewarded, d.SettledAt, d.Reward, d.Commission = r.Bool(), r.Time(), r.Number(), r.Number()
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("delegation %s: %w", txID, err)
	}
	return d, nil
}

// Open and settled delegations have separate lists, so a query reads only the delegations it needs.
const (
	delegationOpen = iota
	delegationSettled
)

// lists returns the partitions of all lists that contain the delegation, by family.
func (d *Delegation) lists(networkID uint32, state byte) map[store.Family][][]byte {
	byAddress := make([][]byte, len(d.RewardAddresses))
	for i, address := range d.RewardAddresses {
		byAddress[i] = row.Network(networkID, address[:], []byte{state})
	}
	return map[store.Family][][]byte{
		store.FamilyDelegation:          {allDelegations(networkID, state)},
		store.FamilyDelegationByNode:    {row.Network(networkID, d.NodeID[:], []byte{state})},
		store.FamilyDelegationByAddress: byAddress,
	}
}

// allDelegations returns the partition of the list of all open or settled delegations.
func allDelegations(networkID uint32, state byte) []byte {
	return row.Network(networkID, []byte{state})
}

// put writes the delegation to its lists. A settled delegation is removed from the lists of open ones.
func (d *Delegation) put(networkID uint32, batch *store.Batch) {
	k, v := listKey(row.Seconds(d.Start), d.TxID), d.bytes()
	state := byte(delegationOpen)
	if d.Settled {
		state = delegationSettled
		for family, lists := range d.lists(networkID, delegationOpen) {
			for _, p := range lists {
				batch.Delete(family, store.PK{P: p, K: k})
			}
		}
	}
	for family, lists := range d.lists(networkID, state) {
		value := v
		if len(lists) > manyOwners {
			value = nil // the list of all has it
		}
		for _, p := range lists {
			batch.Put(family, store.PK{P: p, K: k}, value)
		}
	}
}
