package pchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/fx"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/ledger"
)

// errNoRenewal is a validator of which no transaction said that it renews itself.
var errNoRenewal = errors.New("no such validator that renews itself")

// reward reads the proposal that a block decides, if it is a reward; nil if not.
// How much is paid is only known to the node, because it depends on the supply.
func (d *Decoder) reward(ctx context.Context, s *State, b *Block) (*ledger.Tx, error) {
	tx := &ledger.Tx{ID: s.proposal.ID(), Aborted: b.Kind == Abort}
	var stakingID, rewardedID ids.ID
	switch unsigned := s.proposal.Unsigned.(type) {
	case *txs.RewardValidatorTx:
		tx.Kind, stakingID, rewardedID = "RewardValidatorTx", unsigned.TxID, unsigned.TxID
	case *txs.RewardAutoRenewedValidatorTx:
		// Each period of such a validator has rewards of its own.
		tx.Kind, stakingID, rewardedID = ledger.Unknown, unsigned.TxID, tx.ID
	default:
		return nil, nil
	}
	tx.Settled = &ledger.Settlement{StakingTxID: stakingID, Rewarded: b.Kind == Commit}

	raw, err := d.node.RewardUTXOs(ctx, rewardedID, b.Height)
	if err != nil {
		return nil, fmt.Errorf("asking for the reward of %s: %w", stakingID, err)
	}
	if len(raw) == 0 {
		return tx, nil
	}
	stakingBytes, err := d.node.Tx(ctx, stakingID)
	if err != nil {
		return nil, fmt.Errorf("asking for the staking transaction %s: %w", stakingID, err)
	}
	if err := settle(tx, stakingID, rewardedID, stakingBytes, raw); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrReward, stakingID, err)
	}
	return tx, nil
}

// settle gives the outputs of a reward their meaning (avalanchego
// vms/platformvm/txs/executor): first what the staker gets, then commission.
func settle(tx *ledger.Tx, stakingID, rewardedID ids.ID, stakingBytes []byte, raw [][]byte) error {
	staking, err := txs.Parse(txs.GenesisCodec, stakingBytes)
	if err != nil {
		return fmt.Errorf("reading the staking transaction: %w", err)
	}
	if staking.ID() != stakingID {
		return fmt.Errorf("the node gave transaction %s", staking.ID())
	}
	staker, ok := staking.Unsigned.(txs.PermissionlessStaker)
	if !ok {
		return fmt.Errorf("%T has no reward", staking.Unsigned)
	}
	if len(raw) > 2 {
		return fmt.Errorf("%d outputs", len(raw))
	}
	first := 0
	if rewardedID == stakingID {
		first = len(staker.Outputs()) + len(staker.Stake())
	}
	utxos, err := rewardOutputs(rewardedID, first, raw)
	if err != nil {
		return err
	}
	for i, utxo := range utxos {
		out, err := ledger.OutputOf(txs.GenesisCodec, utxo, ledger.Commission, constants.PlatformChainID)
		if err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
		if out.Role, err = rewardRole(staker, tx.Settled.Rewarded, i, len(raw), &out); err != nil {
			return err
		}
		tx.Made = append(tx.Made, out)
	}
	return nil
}

// rewardOutputs reads the outputs of a reward and sorts them by index. Nodes list them
// newest first, and promise no order. The first output must have index first, and the
// others must follow without a gap.
func rewardOutputs(rewardedID ids.ID, first int, raw [][]byte) ([]*avax.UTXO, error) {
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

// rewardRole tells the one output of a period that earned nothing but commission
// from that of one that earned no commission by who owns it. Where both have the
// same owner it is taken for the staker's own reward.
func rewardRole(staker txs.PermissionlessStaker, rewarded bool, i, n int, out *ledger.Output) (ledger.Role, error) {
	own := ledger.ValidationReward
	var owner fx.Owner
	renewing := false
	switch s := staker.(type) {
	case txs.DelegatorTx:
		own, owner = ledger.DelegationReward, s.RewardsOwner()
	case txs.ValidatorTx:
		owner = s.ValidationRewardsOwner()
		_, renewing = staker.(*txs.AddAutoRenewedValidatorTx)
	default:
		return 0, fmt.Errorf("%T has no reward", staker)
	}
	switch {
	case i == 1:
		return ledger.Commission, nil
	case n == 2:
		return own, nil
	case !rewarded && !renewing:
		// What was earned for others is paid even so.
		return ledger.Commission, nil
	}
	owners, err := ownersOf(owner)
	if err != nil {
		return 0, err
	}
	if !owns(owners, out) {
		return ledger.Commission, nil
	}
	return own, nil
}

func owns(o *secp256k1fx.OutputOwners, out *ledger.Output) bool {
	return o.Threshold == out.Threshold && o.Locktime == out.Locktime && slices.Equal(o.Addrs, out.Addresses)
}

// renew brings a validator that renews itself to its next period, or to its end.
func (d *Decoder) renew(s *State, committed bool, reward *ledger.Tx) error {
	if _, ok := s.proposal.Unsigned.(*txs.RewardAutoRenewedValidatorTx); !ok {
		return nil
	}
	id := reward.Settled.StakingTxID
	renewing, ok := s.renewals[id]
	if !ok {
		return fmt.Errorf("%w: %s", errNoRenewal, id)
	}
	s.renewalsChanged[id] = struct{}{}
	if !committed || renewing.next == 0 {
		delete(s.renewals, id)
		return nil
	}
	renewing.end += renewing.next
	reward.Settled.RenewedUntil = unixTime(renewing.end)
	return nil
}
