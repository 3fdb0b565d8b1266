package pchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// errNotYet says that a node listed no outputs for a reward that made some. So does a
// node that has not executed the block yet; an address may stand for several nodes.
var errNotYet = errors.New("the node lists no outputs where the supply gives some; it may not have executed the block yet, and is asked again")

// maxDoubts is how often a node that lists no outputs is asked again, unless it listed
// others than the computed ones before.
const maxDoubts = 20

// RewardedID returns the transaction under which nodes list the outputs of a reward that
// tx proposes; false if tx proposes no reward.
func RewardedID(tx *txs.Tx) (ids.ID, bool) {
	switch unsigned := tx.Unsigned.(type) {
	case *txs.RewardValidatorTx:
		return unsigned.TxID, true
	case *txs.RewardAutoRenewedValidatorTx:
		return tx.ID(), true // each period has outputs of its own
	}
	return ids.Empty, false
}

// Difference says that a node's account of a reward is not what follows from the supply.
// The outputs are the node's.
type Difference struct {
	Height uint64
	// StakingTxID is the transaction that added the staker.
	StakingTxID    ids.ID
	Node, Computed []Payment
}

// Payment is an output of a reward.
type Payment struct {
	Index  uint32
	Amount uint64
	Role   ledger.Role
}

func (d *Difference) Error() string {
	text := func(all []Payment) string {
		var parts []string
		for _, p := range all {
			parts = append(parts, fmt.Sprintf("%d as output %d", p.Amount, p.Index))
		}
		return cmp.Or(strings.Join(parts, " and "), "nothing")
	}
	return fmt.Sprintf("reward of staking transaction %s, decided at height %d: the node paid %s, the supply gives %s; the node's is used, check the reward parameters and upgrade times of the network",
		d.StakingTxID, d.Height, text(d.Node), text(d.Computed))
}

// payment is an output that the end of a period makes.
type payment struct {
	Payment
	utxo *avax.UTXO
}

// settlement is what the end of a period does.
type settlement struct {
	staker *staker
	// payments are in the order of their indexes.
	payments []payment
	// compounded is what a validator that goes on stakes again of its reward and of its
	// commission.
	compounded, compoundedCommission uint64
}

// reward reads the proposal that a block decides, if it is a reward; nil if not. The
// outputs are those that the node has, or those that follow from the supply if the node
// cannot say. What is stored of the state is left as it is: see finish.
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
	if renews {
		tx.Kind = ledger.Unknown
	}
	end, err := d.settlement(s.stakers, one, rewardedID, committed)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: reward of %s: %w", ErrTransaction, stakingID, err)
	}
	payments := end.payments
	raw, err := d.node.RewardUTXOs(ctx, rewardedID, b.Height)
	switch {
	case errors.Is(err, ErrNotOffered):
	case err != nil:
		return nil, nil, fmt.Errorf("asking for the reward of %s: %w", stakingID, err)
	case len(raw) == 0 && len(payments) > 0 && !s.differed && s.doubts < maxDoubts:
		s.doubts++
		return nil, nil, fmt.Errorf("asking for the reward of %s: %w", stakingID, errNotYet)
	default:
		var same bool
		if payments, same, err = d.compare(end, rewardedID, committed, b.Height, raw); err != nil {
			return nil, nil, fmt.Errorf("%w: %s: %w", ErrReward, stakingID, err)
		}
		s.differed = s.differed || !same
	}
	s.doubts = 0
	for _, p := range payments {
		out, err := ledger.OutputOf(txs.GenesisCodec, p.utxo, p.Role, constants.PlatformChainID)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %s: output %d: %w", ErrReward, stakingID, p.Index, err)
		}
		tx.Made = append(tx.Made, out)
	}
	return tx, end, nil
}

// settlement computes what the end of a period does, as avalanchego's
// vms/platformvm/txs/executor does.
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
			return nil, fmt.Errorf("%w: the validator %s of subnet %s, to whom it delegates", errNoStaker, one.nodeID, one.subnetID)
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
	case committed && r.next > 0:
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

// pay adds an output, unless the amount is 0.
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

// compound splits what a validator that goes on has earned: what is staked again of its
// reward and of its commission, up to the most that a validator may stake.
func (d *Decoder) compound(one *staker) (reward, commission uint64, err error) {
	reward, _ = platformreward.Split(one.reward, one.renewal.compound)
	commission, _ = platformreward.Split(one.commission, one.renewal.compound)
	room, err := safemath.Sub(d.maxStake, one.weight)
	if err != nil {
		return 0, 0, fmt.Errorf("it stakes %d, and %d is the most: %w", one.weight, d.maxStake, err)
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

// finish brings stakers and supply to the end of a period.
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
	if r := one.renewal; r != nil && committed && r.next > 0 {
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

// compare takes the outputs that a node has for a reward. What they are for is known if
// they are the same as the computed ones; otherwise it is inferred, and the difference
// reported.
func (d *Decoder) compare(end *settlement, rewardedID ids.ID, committed bool, height uint64, raw [][]byte) (payments []payment, same bool, err error) {
	utxos, err := rewardOutputs(rewardedID, int(end.staker.first), raw)
	if err != nil {
		return nil, false, err
	}
	payments = make([]payment, len(utxos))
	same = len(utxos) == len(end.payments)
	for i, utxo := range utxos {
		out, ok := utxo.Out.(*secp256k1fx.TransferOutput)
		if !ok {
			return nil, false, fmt.Errorf("output %d is a %T", utxo.OutputIndex, utxo.Out)
		}
		payments[i] = payment{Payment{utxo.OutputIndex, out.Amt, end.staker.role(committed, i, len(utxos), &out.OutputOwners)}, utxo}
		if same = same && isPaid(&end.payments[i], utxo, out); same {
			payments[i].Role = end.payments[i].Role
		}
	}
	if !same && d.disagree != nil {
		difference := &Difference{Height: height, StakingTxID: end.staker.txID}
		for _, p := range payments {
			difference.Node = append(difference.Node, p.Payment)
		}
		for _, p := range end.payments {
			difference.Computed = append(difference.Computed, p.Payment)
		}
		d.disagree(difference)
	}
	return payments, same, nil
}

func isPaid(p *payment, utxo *avax.UTXO, out *secp256k1fx.TransferOutput) bool {
	want := p.utxo.Out.(*secp256k1fx.TransferOutput)
	return utxo.AssetID() == p.utxo.AssetID() && out.Amt == want.Amt && owns(&want.OutputOwners, &out.OutputOwners)
}

// rewardOutputs reads the outputs of a reward and sorts them by index. Nodes list them
// newest first, and promise no order. The first output must have index first, and the
// others must follow without a gap.
func rewardOutputs(rewardedID ids.ID, first int, raw [][]byte) ([]*avax.UTXO, error) {
	if len(raw) > 2 {
		return nil, fmt.Errorf("the node gave %d outputs, want 2 at most", len(raw))
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
			return nil, fmt.Errorf("the node gave output %s:%d, want %s:%d", utxo.TxID, utxo.OutputIndex, rewardedID, first+i)
		}
	}
	return utxos, nil
}

// role infers what output i of n is for. A single output is commission if its owner is
// not the one of the reward, or if the reward was refused.
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
