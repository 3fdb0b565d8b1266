package pchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	safemath "github.com/ava-labs/avalanchego/utils/math"
	"github.com/ava-labs/avalanchego/utils/math/intmath"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	platformreward "github.com/ava-labs/avalanchego/vms/platformvm/reward"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/ledger"
)

var (
	// errNotYet means that a node listed no outputs for a reward that has some. A node that has not executed the block
	// lists none either, and several nodes may share one address.
	errNotYet = errors.New("the node lists no outputs for a reward; it may not have executed the block yet")
	// errPart means that a node listed the first of two outputs.
	errPart = errors.New("the node lists a part of the outputs of a reward")
)

// maxDoubts limits the retries for a node that does not list all outputs. If it did not for the preceding reward either,
// there are no retries.
const maxDoubts = 20

// RewardedID returns the transaction ID under which nodes list the outputs of the reward that tx proposes. It returns
// false if tx proposes no reward.
func RewardedID(tx *txs.Tx) (ids.ID, bool) {
	switch unsigned := tx.Unsigned.(type) {
	case *txs.RewardValidatorTx:
		return unsigned.TxID, true
	case *txs.RewardAutoRenewedValidatorTx:
		return tx.ID(), true // each period has its own outputs
	}
	return ids.Empty, false
}

// DifferenceError reports that a node's reward outputs differ from the computed ones.
type DifferenceError struct {
	Height uint64
	// StakingTxID is the transaction that added the staker.
	StakingTxID    ids.ID
	Node, Computed []Payment
	// ComputedUsed reports that the ledger has the computed outputs. Otherwise it has the node's.
	ComputedUsed bool
}

// Payment is an output of a reward.
type Payment struct {
	Index  uint32
	Amount uint64
	Role   ledger.Role
}

func (d *DifferenceError) Error() string {
	text := func(all []Payment) string {
		var parts []string
		for _, p := range all {
			parts = append(parts, fmt.Sprintf("%d as output %d", p.Amount, p.Index))
		}
		return cmp.Or(strings.Join(parts, " and "), "nothing")
	}
	advice := "the node's is used, check the reward parameters and upgrade times of the network"
	if d.ComputedUsed {
		advice = "the supply's is used, check whether the node, or the provider before it, answers platform.getRewardUTXOs in full"
	}
	return fmt.Sprintf("reward of staking transaction %s, decided at height %d: the node paid %s, the supply gives %s; %s",
		d.StakingTxID, d.Height, text(d.Node), text(d.Computed), advice)
}

// payment is an output created at the end of a period.
type payment struct {
	Payment
	utxo *avax.UTXO
}

// settlement is the effect of the end of a period.
type settlement struct {
	staker *staker
	// payments are in index order.
	payments []payment
	// compounded and compoundedCommission are the parts of reward and commission that a renewing validator stakes
	// again.
	compounded, compoundedCommission uint64
}

// reward returns the reward proposal that a block decides, or nil if the proposal is not a reward. It takes the outputs
// from the node, or computes them if the node cannot supply them. It does not change the stored part of the state;
// finish does.
func (d *Decoder) reward(ctx context.Context, s *State, b *Block) (*ledger.Tx, *settlement, error) {
	rewardedID, ok := RewardedID(s.proposal)
	if !ok {
		return nil, nil, nil
	}
	proposed, committed := s.proposal.Unsigned.(txs.RewardTx), b.Kind == Commit
	stakingID := proposed.StakerTxID()
	tx := &ledger.Tx{
		ID: s.proposal.ID(), Kind: "RewardValidatorTx", Aborted: !committed,
		Settled: &ledger.Settlement{StakingTxID: stakingID, Rewarded: committed},
	}
	one := s.stakers.all[stakingID]
	_, renews := s.proposal.Unsigned.(*txs.RewardAutoRenewedValidatorTx)
	if one == nil || one.pending != 0 || renews != (one.renewal != nil) {
		return nil, nil, fmt.Errorf("%w: proposal %s: %w: %s", ErrTransaction, tx.ID, errNoStaker, stakingID)
	}
	tx.Settled.Weight, tx.Settled.Start, tx.Settled.End = one.weight, unixTime(one.start), unixTime(one.end)
	if renews {
		tx.Kind = ledger.Unknown
	}
	end, err := d.settlement(s.stakers, one, rewardedID, committed)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: reward of %s: %w", ErrTransaction, stakingID, err)
	}
	payments, same := end.payments, true // same is whether the computed outputs are used
	raw, err := d.node.RewardUTXOs(ctx, rewardedID, b.Height)
	switch {
	case errors.Is(err, ErrNotOffered):
	case err != nil:
		return nil, nil, fmt.Errorf("requesting the reward of %s: %w", stakingID, err)
	default:
		if payments, same, err = d.listed(s, end, rewardedID, committed, b.Height, raw); err != nil {
			return nil, nil, err
		}
	}
	s.doubts = 0
	if same {
		tx.Settled.PotentialReward = one.reward
	}
	for _, p := range payments {
		out, err := ledger.OutputOf(txs.GenesisCodec, p.utxo, p.Role, constants.PlatformChainID)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %s: output %d: %w", ErrReward, stakingID, p.Index, err)
		}
		tx.Made = append(tx.Made, out)
	}
	return tx, end, nil
}

// settlement computes the effect of the end of a period, as avalanchego's vms/platformvm/txs/executor does.
func (d *Decoder) settlement(s *stakers, one *staker, rewardedID ids.ID, committed bool) (*settlement, error) {
	end := &settlement{staker: one}
	own, commission, ownRole := uint64(0), uint64(0), ledger.ValidationReward
	commissionOwner := &one.commissionOwner
	var err error
	switch r := one.renewal; {
	case one.delegator:
		ownRole = ledger.DelegationReward
		if !committed {
			break
		}
		validator := s.validators[place{one.subnetID, one.nodeID}]
		if validator == nil {
			return nil, fmt.Errorf("%w: no validator %s of subnet %s for the delegation", errNoStaker, one.nodeID, one.subnetID)
		}
		commission, own = platformreward.Split(one.reward, validator.shares)
		commissionOwner = &validator.commissionOwner
		if d.upgrades.IsCortinaActivated(unixTime(validator.start)) {
			commission = 0 // paid at the end of the validator's period
		}
	case r == nil:
		commission = one.commission
		if committed {
			own = one.reward
		}
	case committed && one.restakes():
		if end.compounded, end.compoundedCommission, err = d.compound(one); err != nil {
			return nil, err
		}
		own, commission = one.reward-end.compounded, one.commission-end.compoundedCommission
	default:
		own = r.accrued
		if committed {
			own, err = safemath.Add(one.reward, r.accrued)
		}
		var tooMuch error
		commission, tooMuch = safemath.Add(one.commission, r.accruedCommission)
		if err = errors.Join(err, tooMuch); err != nil {
			return nil, err
		}
	}
	end.pay(own, &one.owner, ownRole, rewardedID)
	end.pay(commission, commissionOwner, ledger.Commission, rewardedID)
	return end, nil
}

// pay appends an output unless the amount is 0.
func (e *settlement) pay(amount uint64, to *secp256k1fx.OutputOwners, role ledger.Role, txID ids.ID) {
	if amount == 0 {
		return
	}
	index := e.staker.first + uint32(len(e.payments))
	e.payments = append(e.payments, payment{Payment{index, amount, role}, &avax.UTXO{
		UTXOID: avax.UTXOID{TxID: txID, OutputIndex: index}, Asset: avax.Asset{ID: e.staker.assetID},
		Out: &secp256k1fx.TransferOutput{Amt: amount, OutputOwners: *to},
	}})
}

// compound splits the earnings of a renewing validator. It returns the parts of reward and commission that are staked
// again, up to the maximum stake. A greater stake shows that a private network's maximum, which no API has, is a greater one;
// then nothing bounds it here.
func (d *Decoder) compound(one *staker) (reward, commission uint64, err error) {
	reward, _ = platformreward.Split(one.reward, one.renewal.compound)
	commission, _ = platformreward.Split(one.commission, one.renewal.compound)
	room := uint64(math.MaxUint64) - one.weight
	if one.weight <= d.maxStake {
		room = d.maxStake - one.weight
	}
	sum, err := safemath.Add(reward, commission)
	if err != nil || sum <= room {
		return reward, commission, err
	}
	if reward, _, err = intmath.MulDiv(reward, room, sum); err != nil {
		return 0, 0, err
	}
	return reward, room - reward, nil
}

// restakes reports whether a validator continues after its period and may stake its earnings again.
func (one *staker) restakes() bool { return one.renewal != nil && one.renewal.next > 0 }

// finish applies the end of a period to stakers and supply.
func (d *Decoder) finish(s *stakers, end *settlement, committed bool, tx *ledger.Tx) error {
	one := end.staker
	of := s.supplies[one.subnetID]
	if !committed && one.reward > 0 && of != nil {
		left, err := safemath.Sub(of.current, one.reward)
		if err != nil {
			return fmt.Errorf("supply of subnet %s: %w", one.subnetID, err)
		}
		s.setSupply(one.subnetID, supply{left, of.transformed})
	}
	if one.delegator && committed {
		validator := s.validators[place{one.subnetID, one.nodeID}]
		if earned, _ := platformreward.Split(one.reward, validator.shares); earned > 0 && d.upgrades.IsCortinaActivated(unixTime(validator.start)) {
			validator.commission += earned
			s.put(validator)
		}
	}
	if r := one.renewal; committed && one.restakes() {
		one.weight += end.compounded + end.compoundedCommission
		r.accrued += end.compounded
		r.accruedCommission += end.compoundedCommission
		one.commission, one.start = 0, one.end
		until, err := safemath.Add(one.end, r.next)
		if err != nil {
			return fmt.Errorf("period of %d s: %w", r.next, err)
		}
		one.end = until
		tx.Settled.RenewedUntil = unixTime(until)
		return d.start(s, one)
	}
	s.remove(one)
	return nil
}

// listed returns the outputs of a reward that are used if a node lists raw, and whether these are the computed ones. An error
// that is not ErrReward asks for a retry.
func (d *Decoder) listed(s *State, end *settlement, rewardedID ids.ID, committed bool, height uint64, raw [][]byte) (payments []payment, same bool, err error) {
	payments, same, err = d.compare(end, rewardedID, committed, raw)
	unknown := s.Supply(end.staker.subnetID) == 0 // so that nothing was computed that could be missing
	if err == nil && len(raw) == 0 && committed && unknown && !end.staker.restakes() {
		err = errNotYet
	}
	if err == nil {
		if !same {
			d.report(s, end, payments, height, false)
		}
		if len(raw) > 0 {
			s.emptied, s.agreed = false, s.agreed || same
		}
		return payments, same, nil
	}
	stakingID := end.staker.txID
	missing := errors.Is(err, errNotYet) || errors.Is(err, errPart)
	if s.doubts < maxDoubts && !(s.emptied && missing) {
		s.doubts++
		return nil, false, fmt.Errorf("requesting the reward of %s: %w; retrying", stakingID, err)
	}
	computed := d.computes(s) && begins(end.payments, payments)
	if !computed && !missing {
		return nil, false, fmt.Errorf("%w: %s: %w", ErrReward, stakingID, err)
	}
	d.report(s, end, payments, height, computed)
	s.emptied = missing
	if computed {
		payments = end.payments
	}
	return payments, computed, nil
}

// computes reports whether computed rewards are known to be right, so that they are used if a node does not list all of
// their outputs, which it keeps for ever: on the public networks, and where they agreed with the node before. Other networks
// may have reward parameters that no API shows, so there the node is right.
func (d *Decoder) computes(s *State) bool {
	return s.agreed || d.public()
}

// public reports whether the network is a public one, whose reward parameters are known.
func (d *Decoder) public() bool {
	return d.networkID == constants.MainnetID || d.networkID == constants.FujiID
}

// begins reports whether a node listed the first of the computed outputs, or none.
func begins(computed, listed []payment) bool {
	for i := range listed {
		if i >= len(computed) || listed[i].Amount != computed[i].Amount {
			return false
		}
	}
	return true
}

// report calls disagree, unless the supply is unknown, from which nothing can be computed.
func (d *Decoder) report(s *State, end *settlement, listed []payment, height uint64, computedUsed bool) {
	if d.disagree == nil || s.Supply(end.staker.subnetID) == 0 {
		return
	}
	difference := &DifferenceError{Height: height, StakingTxID: end.staker.txID, ComputedUsed: computedUsed}
	for _, p := range listed {
		difference.Node = append(difference.Node, p.Payment)
	}
	for _, p := range end.payments {
		difference.Computed = append(difference.Computed, p.Payment)
	}
	d.disagree(difference)
}

// compare returns the outputs that a node lists for a reward, and whether they are the computed ones. Equal outputs get the
// computed roles; for others it infers the roles. The error is errNotYet or errPart if computed outputs are missing, or
// another one if these are no outputs of the reward.
func (d *Decoder) compare(end *settlement, rewardedID ids.ID, committed bool, raw [][]byte) (payments []payment, same bool, err error) {
	utxos, err := rewardOutputs(rewardedID, int(end.staker.first), raw)
	if err != nil {
		return nil, false, err
	}
	payments = make([]payment, len(utxos))
	same = true
	for i, utxo := range utxos {
		out, ok := utxo.Out.(*secp256k1fx.TransferOutput)
		if !ok {
			return nil, false, fmt.Errorf("output %d is a %T", utxo.OutputIndex, utxo.Out)
		}
		payments[i] = payment{Payment{utxo.OutputIndex, out.Amt, end.staker.role(committed, i, len(utxos), &out.OutputOwners)}, utxo}
		if same = same && i < len(end.payments) && isPaid(&end.payments[i], utxo, out); same {
			payments[i].Role = end.payments[i].Role
		}
	}
	switch {
	case len(utxos) >= len(end.payments):
		return payments, same && len(utxos) == len(end.payments), nil
	case len(utxos) == 0:
		return nil, false, errNotYet
	}
	return payments, false, errPart
}

func isPaid(p *payment, utxo *avax.UTXO, out *secp256k1fx.TransferOutput) bool {
	want := p.utxo.Out.(*secp256k1fx.TransferOutput)
	return utxo.AssetID() == p.utxo.AssetID() && out.Amt == want.Amt && owns(&want.OutputOwners, &out.OutputOwners)
}

// rewardOutputs parses the outputs of a reward and sorts them by index. Nodes list them newest first without
// guaranteeing an order. The first output must have index first, and the indexes must be consecutive.
func rewardOutputs(rewardedID ids.ID, first int, raw [][]byte) ([]*avax.UTXO, error) {
	if len(raw) > 2 {
		return nil, fmt.Errorf("the node listed %d outputs, want at most 2", len(raw))
	}
	utxos := make([]*avax.UTXO, len(raw))
	for i, b := range raw {
		utxos[i] = new(avax.UTXO)
		if _, err := txs.GenesisCodec.Unmarshal(b, utxos[i]); err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}
	}
	slices.SortFunc(utxos, func(a, b *avax.UTXO) int { return cmp.Compare(a.OutputIndex, b.OutputIndex) })
	for i, utxo := range utxos {
		if utxo.TxID != rewardedID || int64(utxo.OutputIndex) != int64(first+i) {
			return nil, fmt.Errorf("the node listed output %s:%d, want %s:%d", utxo.TxID, utxo.OutputIndex, rewardedID, first+i)
		}
	}
	return utxos, nil
}

// role infers the role of output i of n. A single output is a commission if its owner is not the reward's owner or if
// the reward was denied.
func (one *staker) role(committed bool, i, n int, owner *secp256k1fx.OutputOwners) ledger.Role {
	own := ledger.ValidationReward
	if one.delegator {
		own = ledger.DelegationReward
	}
	switch {
	case i == 1:
		return ledger.Commission
	case n == 2:
		return own
	case !committed && one.renewal == nil, !owns(&one.owner, owner):
		return ledger.Commission
	}
	return own
}

func owns(a, b *secp256k1fx.OutputOwners) bool {
	return a.Threshold == b.Threshold && a.Locktime == b.Locktime && slices.Equal(a.Addrs, b.Addrs)
}
