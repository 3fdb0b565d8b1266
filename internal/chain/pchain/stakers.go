package pchain

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	safemath "github.com/ava-labs/avalanchego/utils/math"
	"github.com/ava-labs/avalanchego/vms/platformvm/fx"
	platformreward "github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// errNoStaker means that a transaction names a staker that no earlier transaction added or that has already left.
var errNoStaker = errors.New("unknown staker")

// staker is a validator or delegator whose period may end with a reward, as in avalanchego's vms/platformvm/state. Its
// potential reward is fixed when the period begins. Times are Unix seconds. Amounts are in nAVAX or in units of the
// subnet's asset.
type staker struct {
	txID      ids.ID
	subnetID  ids.ID
	nodeID    ids.NodeID
	delegator bool
	// pending is the priority among stakers that start in the same second; 0 once the period has begun.
	pending    txs.Priority
	start, end uint64
	weight     uint64
	// reward is the potential reward before commission. It is part of the supply from the beginning of the period.
	reward uint64
	// assetID is the asset of stake and reward. first is the index of the first output that the end of the period
	// creates.
	assetID ids.ID
	first   uint32
	// owner receives the reward.
	owner secp256k1fx.OutputOwners

	// The fields below are set for validators only. shares is the commission rate in millionths. commissionOwner
	// receives the commission. commission is the unpaid commission so far.
	shares          uint32
	commissionOwner secp256k1fx.OutputOwners
	commission      uint64

	// renewal is nil unless the validator is auto-renewed (ACP-236).
	renewal *renewal
}

// renewal configures the end of an auto-renewed validator's period.
type renewal struct {
	// next is the length of the next period in seconds; 0 stops the validator.
	next uint64
	// compound is the part of a reward that is staked again, in millionths. accrued and accruedCommission are the
	// totals staked again so far.
	compound                   uint32
	accrued, accruedCommission uint64
}

// supply is the current supply of a subnet's asset, with its reward parameters.
type supply struct {
	current uint64
	// transformed is zero for the primary network.
	transformed platformreward.Config
}

// place identifies a validator of a subnet.
type place struct {
	subnetID ids.ID
	nodeID   ids.NodeID
}

// stakers holds all stakers that may earn a reward, and the supply of each subnet.
type stakers struct {
	all        map[ids.ID]*staker // by transaction ID
	validators map[place]*staker  // validators whose period has begun
	// pending are the stakers whose period has not begun, in starting order.
	pending  []*staker
	supplies map[ids.ID]*supply // by subnet ID

	// changed and suppliesChanged name entries that differ from their stored rows. left are the removed stakers.
	changed         map[ids.ID]struct{}
	suppliesChanged map[ids.ID]struct{}
	left            []*staker
}

func newStakers() *stakers {
	return &stakers{
		all: make(map[ids.ID]*staker), validators: make(map[place]*staker), supplies: make(map[ids.ID]*supply),
		changed: make(map[ids.ID]struct{}), suppliesChanged: make(map[ids.ID]struct{}),
	}
}

// order is the order in which pending periods begin. It determines the supply from which each reward is computed.
func order(a, b *staker) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pending, b.pending), a.txID.Compare(b.txID))
}

// put adds a staker or marks it as changed.
func (s *stakers) put(one *staker) {
	if s.all[one.txID] == nil && one.pending != 0 {
		at, _ := slices.BinarySearchFunc(s.pending, one, order)
		s.pending = slices.Insert(s.pending, at, one)
	}
	s.all[one.txID] = one
	if one.pending == 0 && !one.delegator {
		s.validators[place{one.subnetID, one.nodeID}] = one
	}
	s.changed[one.txID] = struct{}{}
}

// remove deletes a staker whose period has ended.
func (s *stakers) remove(one *staker) {
	delete(s.all, one.txID)
	if at := (place{one.subnetID, one.nodeID}); s.validators[at] == one {
		delete(s.validators, at)
	}
	s.changed[one.txID] = struct{}{}
	s.left = append(s.left, one)
}

func (s *stakers) setSupply(subnetID ids.ID, to supply) {
	s.supplies[subnetID] = &to
	s.suppliesChanged[subnetID] = struct{}{}
}

// start fixes the potential reward of a period that begins and adds it to the supply (avalanchego
// vms/platformvm/txs/executor, putStaker and advanceTimeTo). The reward is 0 if the supply is unknown.
func (d *Decoder) start(s *stakers, one *staker) error {
	one.pending, one.reward = 0, 0
	if of := s.supplies[one.subnetID]; of != nil && of.current > 0 {
		config := d.rewards
		var calculator platformreward.Calculator
		if one.subnetID == constants.PrimaryNetworkID {
			calculator = platformreward.NewPrimaryNetworkCalculator(config, d.upgrades)
		} else {
			config = of.transformed
			config.MintingPeriod = d.rewards.MintingPeriod
			calculator = platformreward.NewCalculator(config)
		}
		if one.subnetID == constants.PrimaryNetworkID && config.SupplyCap < of.current && !d.public() {
			// The network has a cap of its own (stake-supply-cap of its nodes), which no API shows.
			s.setSupply(one.subnetID, supply{})
			s.put(one)
			return nil
		}
		if one.end < one.start || config.MaxConsumptionRate < config.MinConsumptionRate || config.SupplyCap < of.current || config.MintingPeriod <= 0 {
			return fmt.Errorf("staker %s: cannot compute the reward for period %d to %d and supply %d; check the reward parameters of the network",
				one.txID, one.start, one.end, of.current)
		}
		start, length := unixTime(one.start), unixTime(one.end).Sub(unixTime(one.start))
		one.reward = calculator.Calculate(start, length, one.weight, of.current)
		sum, err := safemath.Add(of.current, one.reward)
		if err != nil {
			return fmt.Errorf("supply of subnet %s: %w", one.subnetID, err)
		}
		s.setSupply(one.subnetID, supply{sum, of.transformed})
	}
	s.put(one)
	return nil
}

// promote begins the pending periods that start at now or before.
func (d *Decoder) promote(s *stakers, now time.Time) error {
	for len(s.pending) > 0 && s.pending[0].start <= uint64(now.Unix()) {
		one := s.pending[0]
		s.pending = s.pending[1:]
		if err := d.start(s, one); err != nil {
			return err
		}
	}
	return nil
}

// enter applies an accepted transaction to stakers and supplies. Before Durango a period begins at the transaction's
// start time, since Durango at once.
func (d *Decoder) enter(s *stakers, tx *txs.Tx, now time.Time) error {
	switch unsigned := tx.Unsigned.(type) {
	case *txs.TransformSubnetTx:
		s.setSupply(unsigned.Subnet, supply{unsigned.InitialSupply, platformreward.Config{
			MaxConsumptionRate: unsigned.MaxConsumptionRate, MinConsumptionRate: unsigned.MinConsumptionRate, SupplyCap: unsigned.MaximumSupply,
		}})
		return nil
	case *txs.SetAutoRenewedValidatorConfigTx:
		one := s.all[unsigned.TxID]
		if one == nil || one.renewal == nil {
			return fmt.Errorf("%w or not auto-renewed: %s", errNoStaker, unsigned.TxID)
		}
		one.renewal.next, one.renewal.compound = unsigned.Period, unsigned.AutoCompoundRewardShares
		s.put(one)
		return nil
	}
	one, err := newStaker(tx)
	if one == nil || err != nil {
		return err
	}
	one.start = uint64(now.Unix())
	scheduled, isScheduled := tx.Unsigned.(txs.ScheduledStaker)
	if renewing := one.renewal; renewing != nil {
		if one.end, err = safemath.Add(one.start, renewing.next); err != nil {
			return fmt.Errorf("period of %d s: %w", renewing.next, err)
		}
	} else if isScheduled && !d.upgrades.IsDurangoActivated(now) {
		one.start, one.pending = uint64(scheduled.StartTime().Unix()), scheduled.PendingPriority()
		s.put(one)
		return nil
	}
	return d.start(s, one)
}

// newStaker returns the staker that a transaction adds, or nil if the staker cannot earn a reward.
func newStaker(tx *txs.Tx) (*staker, error) {
	unsigned, ok := tx.Unsigned.(txs.PermissionlessStaker)
	if !ok {
		return nil, nil
	}
	stake, outputs := unsigned.Stake(), unsigned.Outputs()
	if len(stake) == 0 {
		return nil, fmt.Errorf("staker %s has no stake", tx.ID())
	}
	one := &staker{
		txID: tx.ID(), subnetID: unsigned.SubnetID(), nodeID: unsigned.NodeID(), weight: unsigned.Weight(),
		assetID: stake[0].AssetID(), first: uint32(len(outputs) + len(stake)),
	}
	if bounded, ok := tx.Unsigned.(txs.BoundedStaker); ok {
		one.end = uint64(bounded.EndTime().Unix())
	}
	if renewing, ok := tx.Unsigned.(*txs.AddAutoRenewedValidatorTx); ok {
		one.first = 0 // the reward transaction of each period creates its own outputs
		one.renewal = &renewal{next: renewing.Period, compound: renewing.AutoCompoundRewardShares}
	}
	var err error
	switch u := tx.Unsigned.(type) {
	case txs.ValidatorTx:
		one.shares = u.Shares()
		err = errors.Join(setOwner(&one.owner, u.ValidationRewardsOwner()), setOwner(&one.commissionOwner, u.DelegationRewardsOwner()))
	case txs.DelegatorTx:
		one.delegator = true
		err = setOwner(&one.owner, u.RewardsOwner())
	default:
		err = fmt.Errorf("staker %s has unexpected type %T", tx.ID(), u)
	}
	return one, err
}

func setOwner(to *secp256k1fx.OutputOwners, o fx.Owner) error {
	owners, err := ownersOf(o)
	if err == nil {
		*to = secp256k1fx.OutputOwners{Locktime: owners.Locktime, Threshold: owners.Threshold, Addrs: owners.Addrs}
	}
	return err
}

// initial applies the initial supply and the genesis validators.
func (d *Decoder) initial(s *stakers) error {
	s.setSupply(constants.PrimaryNetworkID, supply{current: d.supply})
	for _, tx := range d.validators {
		one, err := newStaker(tx)
		scheduled, ok := tx.Unsigned.(txs.ScheduledStaker)
		if err != nil || one == nil || !ok {
			return fmt.Errorf("genesis validator %s: %w", tx.ID(), errors.Join(err, fmt.Errorf("%T", tx.Unsigned)))
		}
		one.start = uint64(scheduled.StartTime().Unix())
		if err := d.start(s, one); err != nil {
			return err
		}
	}
	return nil
}

const (
	stakerDelegator = 1 << iota
	stakerRenewing
)

// bytes returns the value of a staker's row.
func (one *staker) bytes() []byte {
	b := make([]byte, 0, 256)
	flags := byte(0)
	if one.delegator {
		flags |= stakerDelegator
	}
	if one.renewal != nil {
		flags |= stakerRenewing
	}
	b = append(b, flags, byte(one.pending))
	b = append(b, one.subnetID[:]...)
	b = append(b, one.nodeID[:]...)
	b = append(b, one.assetID[:]...)
	for _, n := range []uint64{one.start, one.end, one.weight, one.reward, uint64(one.first)} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendOwner(b, &one.owner)
	if one.delegator {
		return b
	}
	b = binary.AppendUvarint(b, uint64(one.shares))
	b = binary.AppendUvarint(b, one.commission)
	b = appendOwner(b, &one.commissionOwner)
	if r := one.renewal; r != nil {
		for _, n := range []uint64{r.next, uint64(r.compound), r.accrued, r.accruedCommission} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

func appendOwner(b []byte, o *secp256k1fx.OutputOwners) []byte {
	b = binary.AppendUvarint(b, o.Locktime)
	b = binary.AppendUvarint(b, uint64(o.Threshold))
	b = binary.AppendUvarint(b, uint64(len(o.Addrs)))
	for _, address := range o.Addrs {
		b = append(b, address[:]...)
	}
	return b
}

// rowReader reads the value of a row. It sets bad if the value is too short.
type rowReader struct {
	b   []byte
	bad bool
}

func (r *rowReader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	took := r.b[:n]
	r.b = r.b[n:]
	return took
}

func (r *rowReader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if r.bad || size <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *rowReader) owner() (o secp256k1fx.OutputOwners) {
	o.Locktime, o.Threshold = r.number(), uint32(r.number())
	count := r.number()
	if count > uint64(len(r.b)/ids.ShortIDLen) {
		r.bad = true
		return o
	}
	for range count {
		o.Addrs = append(o.Addrs, ids.ShortID(r.take(ids.ShortIDLen)))
	}
	return o
}

func parseStaker(txID ids.ID, v []byte) (*staker, error) {
	r := rowReader{b: v}
	flags := r.take(1)[0]
	one := &staker{
		txID: txID, delegator: flags&stakerDelegator != 0, pending: txs.Priority(r.take(1)[0]),
		subnetID: ids.ID(r.take(ids.IDLen)), nodeID: ids.NodeID(r.take(ids.NodeIDLen)), assetID: ids.ID(r.take(ids.IDLen)),
		start: r.number(), end: r.number(), weight: r.number(), reward: r.number(), first: uint32(r.number()), owner: r.owner(),
	}
	if !one.delegator {
		one.shares, one.commission, one.commissionOwner = uint32(r.number()), r.number(), r.owner()
	}
	if flags&stakerRenewing != 0 {
		one.renewal = &renewal{next: r.number(), compound: uint32(r.number()), accrued: r.number(), accruedCommission: r.number()}
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: staker %s of %d bytes", ErrState, txID, len(v))
	}
	return one, nil
}

func (s *supply) bytes() []byte {
	b := binary.AppendUvarint(nil, s.current)
	for _, n := range []uint64{s.transformed.MinConsumptionRate, s.transformed.MaxConsumptionRate, s.transformed.SupplyCap} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func parseSupply(v []byte) (supply, error) {
	r := rowReader{b: v}
	s := supply{current: r.number()}
	s.transformed = platformreward.Config{MinConsumptionRate: r.number(), MaxConsumptionRate: r.number(), SupplyCap: r.number()}
	if r.bad || len(r.b) > 0 {
		return supply{}, fmt.Errorf("%w: supply of %d bytes", ErrState, len(v))
	}
	return s, nil
}

// takeChanges returns the rows that changed since the last call.
func (s *stakers) takeChanges() (rows []Row) {
	for id := range s.changed {
		row := Row{Key: append([]byte{rowStaker}, id[:]...)}
		if one := s.all[id]; one != nil {
			row.Value = one.bytes()
		}
		rows = append(rows, row)
	}
	for id := range s.suppliesChanged {
		rows = append(rows, Row{append([]byte{rowSupply}, id[:]...), s.supplies[id].bytes()})
	}
	clear(s.changed)
	clear(s.suppliesChanged)
	s.left = nil
	return rows
}

// load applies a stored row of a staker or a supply.
func (s *stakers) load(kind byte, id ids.ID, v []byte) error {
	if kind == rowSupply {
		of, err := parseSupply(v)
		s.supplies[id] = &of
		return err
	}
	one, err := parseStaker(id, v)
	if err != nil {
		return err
	}
	s.put(one)
	clear(s.changed)
	return nil
}
