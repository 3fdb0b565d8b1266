package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Status is the state of a validation.
type Status string

// The states of a validation. A validation is active until the block that ends it, as on a node; its period may have ended
// a moment earlier.
const (
	Pending   Status = "pending"
	Active    Status = "active"
	Completed Status = "completed"
	// Removed validations of permissioned subnets ended before their period.
	Removed Status = "removed"
)

// Validation is the period of a validator of the primary network or of a subnet that is no L1.
type Validation struct {
	Place
	TxID     ids.ID
	SubnetID ids.ID
	NodeID   ids.NodeID
	// Permissioned validators have no stake and no delegators.
	Permissioned bool
	// Weight is in nAVAX, or in units of the subnet's asset.
	Weight uint64
	// MaxWeight is the greatest sum of weight and delegations; 0 unless the validator is one of the primary network.
	MaxWeight  uint64
	Start, End time.Time
	// Shares is the commission in millionths.
	Shares                       uint32
	RewardAddresses              []ids.ShortID
	PublicKey, ProofOfPossession []byte
	// PotentialReward is the reward of the current period before it is paid. Commission is what delegators have
	// earned the validator in it.
	PotentialReward, Commission uint64
	// Reward and CommissionPaid were paid to the owners.
	Reward, CommissionPaid uint64
	// Delegators and Delegated are the number of current delegations and the sum of their weights, and DelegationRewards
	// that of their rewards before commission. AllDelegators and AllDelegated include those that have ended.
	Delegators, Delegated, DelegationRewards, AllDelegators, AllDelegated uint64
	// Ended is zero until a block ends the validation.
	Ended Ending
}

// Ending is the end of a validation.
type Ending struct {
	// Time is the time of the block, zero if the validation has not ended.
	Time time.Time
	// TxID is the transaction that pays the reward or removes the validator; empty for permissioned validators whose
	// period ended.
	TxID    ids.ID
	Removed bool
}

// StatusAt returns the status at the chain's time.
func (v *Validation) StatusAt(now time.Time) Status {
	switch {
	case v.Ended.Removed:
		return Removed
	case !v.Ended.Time.IsZero():
		return Completed
	case v.Start.After(now):
		return Pending
	default:
		return Active
	}
}

// Capacity returns the weight that may still be delegated to the validator.
func (v *Validation) Capacity() uint64 {
	used := v.Weight + v.Delegated
	return max(v.MaxWeight, used) - used
}

// list is one of the three lists in which a validation is: they hold current and pending, completed, and removed
// validations.
func (v *Validation) list() byte {
	switch {
	case v.Ended.Removed:
		return listRemoved
	case !v.Ended.Time.IsZero():
		return listCompleted
	}
	return listOpen
}

const (
	listOpen byte = iota
	listCompleted
	listRemoved
)

// allOf returns the prefix of a list of all validations. It holds their rows; the lists of ofSubnet and ofNode have empty
// values.
func allOf(networkID uint32, list byte) []byte { return row.Network(networkID, []byte{list, 'a'}) }

// ofSubnet returns the prefix of a list of a subnet's validations.
func ofSubnet(networkID uint32, list byte, id ids.ID) []byte {
	return row.Network(networkID, []byte{list, 's'}, id[:])
}

// ofNode returns the prefix of a list of a node's validations.
func ofNode(networkID uint32, list byte, id ids.NodeID) []byte {
	return row.Network(networkID, []byte{list, 'n'}, id[:])
}

func (v *Validation) bytes() []byte {
	w := row.New(384)
	w.ID(v.TxID)
	w.ID(v.SubnetID)
	w.B = append(w.B, v.NodeID[:]...)
	w.Bool(v.Permissioned)
	w.Number(v.Weight)
	w.Number(v.MaxWeight)
	w.Time(v.Start)
	w.Time(v.End)
	w.Number(uint64(v.Shares))
	w.Addresses(v.RewardAddresses)
	w.Bytes(v.PublicKey)
	w.Bytes(v.ProofOfPossession)
	for _, n := range []uint64{
		v.PotentialReward, v.Commission, v.Reward, v.CommissionPaid, v.Delegators, v.Delegated, v.DelegationRewards, v.AllDelegators, v.AllDelegated,
	} {
		w.Number(n)
	}
	w.Time(v.Ended.Time)
	if !v.Ended.Time.IsZero() {
		w.ID(v.Ended.TxID)
		w.Bool(v.Ended.Removed)
	}
	return w.B
}

func parseValidation(one store.Row) (*Validation, error) {
	at, err := parsePlace(one.K)
	if err != nil {
		return nil, err
	}
	r := row.Read(one.V)
	v := &Validation{Place: at, TxID: r.ID(), SubnetID: r.ID()}
	copy(v.NodeID[:], r.Take(len(v.NodeID)))
	v.Permissioned, v.Weight, v.MaxWeight, v.Start, v.End, v.Shares = r.Bool(), r.Number(), r.Number(), r.Time(), r.Time(), r.Uint32()
	v.RewardAddresses, v.PublicKey, v.ProofOfPossession = r.Addresses(), r.Bytes(), r.Bytes()
	for _, n := range []*uint64{
		&v.PotentialReward, &v.Commission, &v.Reward, &v.CommissionPaid, &v.Delegators, &v.Delegated, &v.DelegationRewards, &v.AllDelegators, &v.AllDelegated,
	} {
		*n = r.Number()
	}
	if v.Ended.Time = r.Time(); !v.Ended.Time.IsZero() {
		v.Ended.TxID, v.Ended.Removed = r.ID(), r.Bool()
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("validation at %v: %w", at, err)
	}
	return v, nil
}

// seat is what at most one current validator has.
type seat struct {
	subnetID ids.ID
	nodeID   ids.NodeID
}

// validations holds the validations that have not ended. A block changes only these.
type validations struct {
	open map[ids.ID]*Validation // by transaction
	// seats are current validators that may have delegators. permissioned are current and pending ones that may not.
	seats, permissioned map[seat]*Validation
	// expires is a lower bound of the ends of permissioned validations, zero if there are none.
	expires time.Time
	// changed are the validations whose rows differ from the store's.
	changed map[ids.ID]*Validation
}

// load reads the rows.
func (s *validations) load(ctx context.Context, r store.Reader, networkID uint32) (err error) {
	*s = validations{
		open: make(map[ids.ID]*Validation), seats: make(map[seat]*Validation), permissioned: make(map[seat]*Validation),
		changed: make(map[ids.ID]*Validation),
	}
	now, err := readHead(ctx, r, networkID)
	if err != nil {
		return err
	}
	var failed error
	for one := range rows(ctx, r, store.FamilyValidator, allOf(networkID, listOpen), &failed) {
		v, err := parseValidation(one)
		if err != nil {
			return err
		}
		s.add(v, v.StatusAt(now.Time) == Pending)
	}
	return failed
}

// add makes a validation known that has not ended.
func (s *validations) add(v *Validation, pending bool) {
	s.open[v.TxID] = v
	at := seat{v.SubnetID, v.NodeID}
	if v.Permissioned {
		s.permissioned[at] = v
		if s.expires.IsZero() || v.End.Before(s.expires) {
			s.expires = v.End
		}
	} else if !pending {
		s.seats[at] = v
	}
}

// end ends a validation.
func (s *validations) end(v *Validation, how Ending) {
	v.Ended = how
	v.Delegators, v.Delegated, v.DelegationRewards, v.PotentialReward, v.Commission = 0, 0, 0, 0, 0
	s.changed[v.TxID] = v
	delete(s.open, v.TxID)
	at := seat{v.SubnetID, v.NodeID}
	if s.seats[at] == v {
		delete(s.seats, at)
	}
	if s.permissioned[at] == v {
		delete(s.permissioned, at)
	}
}

// expire ends the validations of permissioned subnets whose period is over. The chain ends them without a transaction when
// its time advances, before the transactions of the block.
func (b *application) expire() {
	now := b.block.Time
	if b.expires.IsZero() || b.expires.After(now) {
		return
	}
	b.expires = time.Time{}
	for _, v := range b.permissioned {
		if !v.End.After(now) {
			b.end(v, Ending{Time: now})
		} else if b.expires.IsZero() || v.End.Before(b.expires) {
			b.expires = v.End
		}
	}
}

// validation indexes a new validation or counts what a reward transaction pays.
func (b *application) validation(tx *ledger.Tx, number uint32) {
	if s := tx.Staker; s != nil && !s.Delegator {
		v := &Validation{
			Place: Place{b.block.Height, number}, TxID: tx.ID, SubnetID: s.SubnetID, NodeID: s.NodeID, Permissioned: tx.Kind == "AddSubnetValidatorTx",
			Weight: s.Weight, Start: s.Start, End: s.End, Shares: s.Shares, RewardAddresses: s.RewardAddresses,
			PublicKey: s.PublicKey, ProofOfPossession: s.ProofOfPossession,
		}
		b.add(v, true)
		b.changed[v.TxID] = v
	}
	if tx.Settled == nil {
		return
	}
	v := b.open[tx.Settled.StakingTxID]
	if v == nil {
		return // a delegation; see stakers
	}
	b.changed[v.TxID] = v
	for i := range tx.Made {
		switch tx.Made[i].Role {
		case ledger.ValidationReward:
			v.Reward += tx.Made[i].Amount
		case ledger.Commission:
			v.CommissionPaid += tx.Made[i].Amount
		}
	}
	if tx.Settled.RenewedUntil.IsZero() {
		b.end(v, Ending{Time: b.block.Time, TxID: tx.ID})
	}
}

// raw indexes the transactions whose effect on validators the ledger's types do not have.
func (b *application) raw(tx *txs.Tx, said *ledger.Tx, number uint32) error {
	if u, ok := tx.Unsigned.(*txs.RemoveSubnetValidatorTx); ok {
		v := b.permissioned[seat{u.Subnet, u.NodeID}]
		if v == nil {
			return fmt.Errorf("%w: no permissioned validator %s of subnet %s", ErrMissing, u.NodeID, u.Subnet)
		}
		b.end(v, Ending{Time: b.block.Time, TxID: tx.ID(), Removed: true})
		return nil
	}
	if err := b.balance(tx, said.L1Refund); err != nil {
		return err
	}
	return b.l1(tx, said.L1Refund, number)
}

// stakers applies what became of stakers that can earn a reward: validators before delegators.
func (b *application) stakers(changes []pchain.StakerChange) error {
	for i := range changes {
		c := &changes[i]
		if c.Delegator {
			if err := b.delegator(c); err != nil {
				return err
			}
			continue
		}
		v := b.open[c.TxID]
		if v == nil {
			if c.Left {
				continue // its reward transaction ended it
			}
			return fmt.Errorf("%w: validation %s", ErrMissing, c.TxID)
		}
		v.Start, v.End, v.Weight, v.PotentialReward, v.Commission = c.Start, c.End, c.Weight, c.PotentialReward, c.Commission
		if v.SubnetID == constants.PrimaryNetworkID {
			v.MaxWeight = min(maxWeightFactor*v.Weight, max(b.maxStake, v.Weight))
		}
		if !c.Pending {
			b.seats[seat{v.SubnetID, v.NodeID}] = v
		}
		b.changed[v.TxID] = v
	}
	return nil
}

// maxWeightFactor limits the weight of a validator of the primary network with its delegations to a multiple of its own
// (avalanchego vms/platformvm/txs/executor, MaxValidatorWeightFactor).
const maxWeightFactor = 5

// delegator counts a delegation that begins or ends. A pending one does not count; since Durango none is pending.
func (b *application) delegator(c *pchain.StakerChange) error {
	if c.Pending {
		return nil
	}
	v := b.seats[seat{c.SubnetID, c.NodeID}]
	if v == nil {
		return fmt.Errorf("%w: validator of delegation %s", ErrMissing, c.TxID)
	}
	b.changed[v.TxID] = v
	if !c.Left {
		v.Delegators, v.Delegated, v.DelegationRewards = v.Delegators+1, v.Delegated+c.Weight, v.DelegationRewards+c.PotentialReward
		v.AllDelegators, v.AllDelegated = v.AllDelegators+1, v.AllDelegated+c.Weight
		return nil
	}
	v.Delegators, v.Delegated, v.DelegationRewards = v.Delegators-1, v.Delegated-c.Weight, v.DelegationRewards-c.PotentialReward
	for i := range b.block.Txs {
		tx := &b.block.Txs[i]
		if tx.Settled == nil || tx.Settled.StakingTxID != c.TxID {
			continue
		}
		for j := range tx.Made { // before Cortina delegations paid the commission
			if tx.Made[j].Role == ledger.Commission {
				v.CommissionPaid += tx.Made[j].Amount
			}
		}
	}
	return nil
}

// writeValidations writes the rows of changed validations.
func (b *application) writeValidations() {
	for _, v := range b.changed {
		k, list := v.key(), v.list()
		if list != listOpen {
			b.batch.Delete(store.FamilyValidator, store.PK{P: allOf(b.networkID, listOpen), K: k})
			b.batch.Delete(store.FamilyValidator, store.PK{P: ofSubnet(b.networkID, listOpen, v.SubnetID), K: k})
			b.batch.Delete(store.FamilyValidator, store.PK{P: ofNode(b.networkID, listOpen, v.NodeID), K: k})
		}
		b.batch.Put(store.FamilyValidator, store.PK{P: allOf(b.networkID, list), K: k}, v.bytes())
		if list != listOpen || v.Height == b.block.Height {
			b.batch.Put(store.FamilyValidator, store.PK{P: ofSubnet(b.networkID, list, v.SubnetID), K: k}, nil)
			b.batch.Put(store.FamilyValidator, store.PK{P: ofNode(b.networkID, list, v.NodeID), K: k}, nil)
		}
	}
	clear(b.changed)
}
