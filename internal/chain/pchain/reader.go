package pchain

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	safemath "github.com/ava-labs/avalanchego/utils/math"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/fx"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/ledger"
)

var (
	errReward = errors.New("a reward outside of a proposal")
	errOwner  = errors.New("owner of an unknown kind")
)

// txReader converts one transaction to the ledger's types. It implements txs.Visitor, so the compiler requires a method
// for each type of transaction.
type txReader struct {
	decoder *Decoder
	state   *State
	id      ids.ID
	// time is the chain's time when the transaction takes effect.
	time time.Time
	// bare omits what depends on the state.
	bare bool
	tx   ledger.Tx
}

var _ txs.Visitor = (*txReader)(nil)

// ReadGenesis converts a genesis transaction: the addition of a validator or of a chain. Errors wrap ErrTransaction.
func ReadGenesis(tx *txs.Tx, at time.Time) (*ledger.Tx, error) {
	r := txReader{decoder: new(Decoder), state: NewState(), id: tx.ID(), time: at}
	if err := tx.Unsigned.Visit(&r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTransaction, tx.ID(), err)
	}
	return &r.tx, nil
}

// Read converts a transaction as far as its bytes tell. at is the time of its block. It omits what depends on the chain's
// state: the Staker, the outcome of a proposal, rewards, and returned balances of L1 validators. Errors wrap
// ErrTransaction.
func Read(tx *txs.Tx, at time.Time) (*ledger.Tx, error) {
	switch tx.Unsigned.(type) {
	case *txs.RewardValidatorTx:
		return &ledger.Tx{ID: tx.ID(), Kind: "RewardValidatorTx"}, nil
	case *txs.RewardAutoRenewedValidatorTx:
		return &ledger.Tx{ID: tx.ID(), Kind: ledger.Unknown}, nil
	}
	r := txReader{decoder: new(Decoder), state: NewState(), id: tx.ID(), time: at, bare: true}
	if err := tx.Unsigned.Visit(&r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTransaction, tx.ID(), err)
	}
	r.tx.Staker = nil
	return &r.tx, nil
}

// base reads the fields that all transactions except the chain's own proposals have.
func (r *txReader) base(kind ledger.Kind, tx *txs.BaseTx) error {
	r.tx.ID, r.tx.Kind, r.tx.Memo = r.id, kind, tx.Memo
	if err := r.consume(tx.Ins, constants.PlatformChainID); err != nil {
		return err
	}
	return r.make(ledger.Ordinary, constants.PlatformChainID, tx.Outs...)
}

func (r *txReader) consume(ins []*avax.TransferableInput, sourceID ids.ID) error {
	if r.decoder.withoutOutputs {
		return nil
	}
	inputs, err := ledger.InputsOf(ins, sourceID)
	if len(r.tx.Consumed) == 0 {
		r.tx.Consumed = inputs[:len(inputs):len(inputs)]
	} else {
		r.tx.Consumed = append(r.tx.Consumed, inputs...)
	}
	return err
}

// make adds outputs with consecutive indexes.
func (r *txReader) make(role ledger.Role, destinationID ids.ID, outs ...*avax.TransferableOutput) error {
	if r.decoder.withoutOutputs {
		return nil
	}
	r.tx.Made = slices.Grow(r.tx.Made, len(outs))
	for _, out := range outs {
		made, err := ledger.OutputOf(txs.GenesisCodec, &avax.UTXO{
			UTXOID: avax.UTXOID{TxID: r.id, OutputIndex: uint32(len(r.tx.Made))},
			Asset:  out.Asset,
			Out:    out.Out,
		}, role, destinationID)
		if err != nil {
			return err
		}
		r.tx.Made = append(r.tx.Made, made)
	}
	return nil
}

func (r *txReader) stake(outs []*avax.TransferableOutput) error {
	return r.make(ledger.Stake, constants.PlatformChainID, outs...)
}

// stakerOf reads the fields of all stakers with an end time.
func (r *txReader) stakerOf(tx txs.BoundedStaker) *ledger.Staker {
	s := &ledger.Staker{
		SubnetID: tx.SubnetID(), NodeID: tx.NodeID(), Weight: tx.Weight(),
		Start: r.time, End: tx.EndTime().UTC(),
	}
	// Since Durango a period begins with its transaction, regardless of the start time in it.
	if scheduled, ok := tx.(txs.ScheduledStaker); ok && !r.decoder.upgrades.IsDurangoActivated(r.time) {
		s.Start = scheduled.StartTime().UTC()
	}
	return s
}

func (r *txReader) AddValidatorTx(tx *txs.AddValidatorTx) error {
	r.tx.Staker = r.stakerOf(tx)
	r.tx.Staker.Shares = tx.DelegationShares
	return errors.Join(
		r.base("AddValidatorTx", &tx.BaseTx), r.stake(tx.StakeOuts), r.rewardTo(tx.RewardsOwner),
	)
}

func (r *txReader) AddSubnetValidatorTx(tx *txs.AddSubnetValidatorTx) error {
	r.tx.Staker = r.stakerOf(tx)
	return r.base("AddSubnetValidatorTx", &tx.BaseTx)
}

func (r *txReader) AddDelegatorTx(tx *txs.AddDelegatorTx) error {
	r.tx.Staker = r.stakerOf(tx)
	r.tx.Staker.Delegator = true
	return errors.Join(
		r.base("AddDelegatorTx", &tx.BaseTx), r.stake(tx.StakeOuts), r.rewardTo(tx.DelegationRewardsOwner),
	)
}

func (r *txReader) AddPermissionlessValidatorTx(tx *txs.AddPermissionlessValidatorTx) error {
	r.tx.Staker = r.stakerOf(tx)
	r.tx.Staker.Shares = tx.DelegationShares
	r.key(tx.Signer)
	return errors.Join(
		r.base("AddPermissionlessValidatorTx", &tx.BaseTx), r.stake(tx.StakeOuts), r.rewardTo(tx.ValidatorRewardsOwner),
	)
}

func (r *txReader) AddPermissionlessDelegatorTx(tx *txs.AddPermissionlessDelegatorTx) error {
	r.tx.Staker = r.stakerOf(tx)
	r.tx.Staker.Delegator = true
	return errors.Join(
		r.base("AddPermissionlessDelegatorTx", &tx.BaseTx), r.stake(tx.StakeOuts), r.rewardTo(tx.DelegationRewardsOwner),
	)
}

func (r *txReader) AddAutoRenewedValidatorTx(tx *txs.AddAutoRenewedValidatorTx) error {
	start := uint64(r.time.Unix())
	end, err := safemath.Add(start, tx.Period)
	if err != nil {
		return fmt.Errorf("period of %d s: %w", tx.Period, err)
	}
	r.tx.Staker = &ledger.Staker{
		SubnetID: tx.SubnetID(), NodeID: tx.NodeID(), Weight: tx.Weight(), Shares: tx.DelegationShares,
		Start: r.time, End: unixTime(end), Renewing: true,
	}
	r.key(tx.Signer)
	return errors.Join(
		r.base(ledger.Unknown, &tx.BaseTx), r.stake(tx.StakeOuts), r.rewardTo(tx.ValidatorRewardsOwner),
	)
}

func (r *txReader) SetAutoRenewedValidatorConfigTx(tx *txs.SetAutoRenewedValidatorConfigTx) error {
	return r.base(ledger.Unknown, &tx.BaseTx)
}

func (r *txReader) key(s signer.Signer) {
	if proof, ok := s.(*signer.ProofOfPossession); ok {
		r.tx.Staker.PublicKey, r.tx.Staker.ProofOfPossession = proof.PublicKey[:], proof.ProofOfPossession[:]
	}
}

func (r *txReader) rewardTo(o fx.Owner) error {
	owners, err := ownersOf(o)
	if err == nil {
		r.tx.Staker.RewardAddresses = owners.Addrs
	}
	return err
}

func ownersOf(o fx.Owner) (*secp256k1fx.OutputOwners, error) {
	owners, ok := o.(*secp256k1fx.OutputOwners)
	if !ok {
		return nil, fmt.Errorf("%w: %T", errOwner, o)
	}
	return owners, nil
}

func (r *txReader) CreateSubnetTx(tx *txs.CreateSubnetTx) error {
	return errors.Join(r.base("CreateSubnetTx", &tx.BaseTx), r.owns(r.id, true, tx.Owner))
}

func (r *txReader) TransferSubnetOwnershipTx(tx *txs.TransferSubnetOwnershipTx) error {
	return errors.Join(r.base("TransferSubnetOwnershipTx", &tx.BaseTx), r.owns(tx.Subnet, false, tx.Owner))
}

func (r *txReader) owns(subnetID ids.ID, created bool, o fx.Owner) error {
	owners, err := ownersOf(o)
	if err == nil {
		r.tx.Subnet = &ledger.SubnetChange{SubnetID: subnetID, Created: created, Owners: ledger.OwnersOf(owners)}
	}
	return err
}

func (r *txReader) CreateChainTx(tx *txs.CreateChainTx) error {
	r.tx.Subnet = &ledger.SubnetChange{
		SubnetID: tx.SubnetID,
		Chain:    &ledger.Chain{VMID: tx.VMID, Name: tx.ChainName, Genesis: tx.GenesisData},
	}
	return r.base("CreateChainTx", &tx.BaseTx)
}

func (r *txReader) RemoveSubnetValidatorTx(tx *txs.RemoveSubnetValidatorTx) error {
	return r.base("RemoveSubnetValidatorTx", &tx.BaseTx)
}

func (r *txReader) TransformSubnetTx(tx *txs.TransformSubnetTx) error {
	return r.base("TransformSubnetTx", &tx.BaseTx)
}

func (r *txReader) BaseTx(tx *txs.BaseTx) error { return r.base("BaseTx", tx) }

func (r *txReader) ImportTx(tx *txs.ImportTx) error {
	return errors.Join(r.base("ImportTx", &tx.BaseTx), r.consume(tx.ImportedInputs, tx.SourceChain))
}

func (r *txReader) ExportTx(tx *txs.ExportTx) error {
	return errors.Join(
		r.base("ExportTx", &tx.BaseTx), r.make(ledger.Exported, tx.DestinationChain, tx.ExportedOutputs...),
	)
}

func (r *txReader) ConvertSubnetToL1Tx(tx *txs.ConvertSubnetToL1Tx) error {
	r.tx.Subnet = &ledger.SubnetChange{
		SubnetID:   tx.Subnet,
		Conversion: &ledger.Conversion{ManagerChainID: tx.ChainID, ManagerAddress: tx.Address},
	}
	for i, v := range tx.Validators {
		if err := r.pay(v.Balance); err != nil {
			return err
		}
		if err := r.state.fees.open(tx.Subnet.Append(uint32(i)), v.Balance, v.RemainingBalanceOwner); err != nil {
			return err
		}
	}
	return r.base("ConvertSubnetToL1Tx", &tx.BaseTx)
}

// pay counts an amount that a transaction adds to balances of L1 validators.
func (r *txReader) pay(balance uint64) error {
	sum, err := safemath.Add(r.tx.L1Balance, balance)
	r.tx.L1Balance = sum
	return err
}

func (r *txReader) RegisterL1ValidatorTx(tx *txs.RegisterL1ValidatorTx) error {
	inner, err := managerMessage(tx.Message)
	if err != nil {
		return err
	}
	m, err := message.ParseRegisterL1Validator(inner)
	if err != nil {
		return fmt.Errorf("reading the registration: %w", err)
	}
	return errors.Join(
		r.base("RegisterL1ValidatorTx", &tx.BaseTx),
		r.pay(tx.Balance),
		r.state.fees.open(m.ValidationID(), tx.Balance, m.RemainingBalanceOwner),
	)
}

func (r *txReader) IncreaseL1ValidatorBalanceTx(tx *txs.IncreaseL1ValidatorBalanceTx) error {
	err := errors.Join(r.base("IncreaseL1ValidatorBalanceTx", &tx.BaseTx), r.pay(tx.Balance))
	if err != nil || r.bare {
		return err
	}
	return r.state.fees.increase(tx.ValidationID, tx.Balance)
}

func (r *txReader) SetL1ValidatorWeightTx(tx *txs.SetL1ValidatorWeightTx) error {
	inner, err := managerMessage(tx.Message)
	if err != nil {
		return err
	}
	m, err := message.ParseL1ValidatorWeight(inner)
	if err != nil {
		return fmt.Errorf("reading the weight change: %w", err)
	}
	if err := r.base("SetL1ValidatorWeightTx", &tx.BaseTx); err != nil || m.Weight != 0 {
		return err
	}
	return r.refund(m.ValidationID, true)
}

func (r *txReader) DisableL1ValidatorTx(tx *txs.DisableL1ValidatorTx) error {
	if err := r.base("DisableL1ValidatorTx", &tx.BaseTx); err != nil {
		return err
	}
	return r.refund(tx.ValidationID, false)
}

// refund appends the returned balance of an L1 validator, an output that the transaction does not list.
func (r *txReader) refund(validationID ids.ID, remove bool) error {
	if r.bare {
		return nil
	}
	balance, owner, err := r.state.fees.stop(validationID, remove)
	if err != nil || balance == 0 {
		return err
	}
	r.tx.L1Refund = balance
	return r.make(ledger.Ordinary, constants.PlatformChainID, &avax.TransferableOutput{
		Asset: avax.Asset{ID: r.decoder.avaxAssetID},
		Out: &secp256k1fx.TransferOutput{
			Amt:          balance,
			OutputOwners: secp256k1fx.OutputOwners{Threshold: owner.Threshold, Addrs: owner.Addresses},
		},
	})
}

func (r *txReader) AdvanceTimeTx(*txs.AdvanceTimeTx) error {
	r.tx.ID, r.tx.Kind = r.id, "AdvanceTimeTx"
	return nil
}

// Decoder.reward handles rewards.

func (*txReader) RewardValidatorTx(*txs.RewardValidatorTx) error { return errReward }
func (*txReader) RewardAutoRenewedValidatorTx(*txs.RewardAutoRenewedValidatorTx) error {
	return errReward
}
