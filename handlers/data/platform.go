package data

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"

	"quorate/handlers/apierr"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
)

// l1ValidatorAtTx is an L1 validator as a transaction registered it.
type l1ValidatorAtTx struct {
	ValidationID     string          `json:"validationId"`
	ValidationIDHex  string          `json:"validationIdHex"`
	NodeID           string          `json:"nodeId"`
	SubnetID         string          `json:"subnetId"`
	Weight           uint64          `json:"weight"`
	RemainingBalance uint64          `json:"remainingBalance"`
	BalanceChange    uint64          `json:"balanceChange"`
	BLSCredentials   *blsCredentials `json:"blsCredentials"`
}

type createdBlockchain struct {
	ChainName string `json:"chainName"`
	VMID      string `json:"vmId"`
}

// rewarded returns the staking transaction whose period a transaction ends.
func rewarded(tx txs.UnsignedTx) (ids.ID, bool) {
	switch tx := tx.(type) {
	case *txs.RewardValidatorTx:
		return tx.TxID, true
	case *txs.RewardAutoRenewedValidatorTx:
		return tx.TxID, true
	}
	return ids.Empty, false
}

// mayStake reports whether a transaction starts a validation or delegation.
func mayStake(tx txs.UnsignedTx) bool {
	_, ok := tx.(txs.Staker)
	return ok
}

// isPermissioned reports whether a transaction starts a validation that earns no reward.
func isPermissioned(tx txs.UnsignedTx) bool {
	_, ok := tx.(*txs.AddSubnetValidatorTx)
	return ok
}

// platform describes a transaction of the P-Chain.
func (s *shownTxs) platform(tx *describedTx) (*platformTransaction, error) {
	source, destination := s.route(tx)
	shown := &platformTransaction{
		TxHash: tx.ID.String(), TxType: string(chain.Unknown), BlockTimestamp: tx.Block.Time.Unix(),
		BlockNumber: strconv.FormatUint(tx.Block.Number, 10), BlockHash: tx.Block.ID.String(), Memo: "0x" + hex.EncodeToString(tx.Memo),
		SourceChain: source.String(), DestinationChain: destination.String(),
	}
	if slices.Contains(platformKinds, string(tx.Kind)) {
		shown.TxType = string(tx.Kind)
	}
	var err error
	if shown.ConsumedUTXOs, err = s.outputs(tx.consumed); err != nil {
		return nil, err
	}
	if shown.EmittedUTXOs, err = s.outputs(tx.made); err != nil {
		return nil, err
	}
	s.amounts(tx, shown)
	if err := s.stake(tx, shown); err != nil {
		return nil, err
	}
	if err := s.subnet(tx, shown); err != nil {
		return nil, err
	}
	if err := s.l1(tx, shown); err != nil {
		return nil, apierr.Internal(fmt.Errorf("transaction %s: %w", tx.ID, err))
	}
	return shown, nil
}

// amounts sums up the outputs. Rewards are no part of what a staking transaction moves, and a returned balance of an L1
// validator does not come from the consumed outputs. What is added to such a balance is not burned.
func (s *shownTxs) amounts(tx *describedTx, shown *platformTransaction) {
	value, burned, staked, balance := make(totals), make(totals), make(totals), make(totals)
	for _, o := range tx.consumed {
		burned.add(o.AssetID, o.Amount, 1)
	}
	for _, o := range tx.made {
		if tx.staking != nil && o.Role.Reward() != "" {
			continue
		}
		value.add(o.AssetID, o.Amount, 1)
		if o.TxID == tx.ID && int(o.Index) < len(tx.Made) {
			burned.add(o.AssetID, o.Amount, -1)
		}
		if o.Role == chain.Stake {
			staked.add(o.AssetID, o.Amount, 1)
		}
	}
	if tx.L1Balance > 0 {
		balance.add(s.AVAXAssetID, tx.L1Balance, 1)
		burned.add(s.AVAXAssetID, tx.L1Balance, -1)
	}
	shown.Value, shown.AmountBurned, shown.AmountStaked = value.shown(s.known), burned.shown(s.known), staked.shown(s.known)
	shown.AmountL1ValidatorBalanceBurned = balance.shown(s.known)
}

// stake describes the stake that a transaction starts or ends.
func (s *shownTxs) stake(tx *describedTx, shown *platformTransaction) (err error) {
	if of, ok := rewarded(tx.Platform); ok {
		shown.StakingTxHash = of.String()
		return nil
	}
	if remove, ok := tx.Platform.(*txs.RemoveSubnetValidatorTx); ok {
		shown.NodeID, shown.SubnetID = remove.NodeID.String(), remove.Subnet.String()
		return nil
	}
	staker, ok := tx.Platform.(txs.Staker)
	if !ok {
		return nil
	}
	shown.NodeID, shown.SubnetID = staker.NodeID().String(), staker.SubnetID().String()
	known := tx.staking
	if known == nil {
		return nil // the chain rejected it
	}
	shown.StartTimestamp, shown.EndTimestamp = seconds(known.Staker.Start), seconds(known.End)
	if known.Settled != nil {
		shown.RewardTxHash = known.Settled.TxID.String()
	}
	shown.BLSCredentials = credentials(known.Staker.PublicKey, known.Staker.ProofOfPossession)
	if isPermissioned(tx.Platform) {
		return nil
	}
	if !known.Staker.Delegator {
		shown.DelegationFeePercent = percent(known.Staker.Shares)
	}
	shown.EstimatedReward = estimate(known, s.now, s.potential)
	shown.RewardAddresses, err = s.known.bech32(known.Staker.RewardAddresses)
	return err
}

// subnet describes what a transaction creates or changes of a subnet.
func (s *shownTxs) subnet(tx *describedTx, shown *platformTransaction) error {
	if transform, ok := tx.Platform.(*txs.TransformSubnetTx); ok {
		shown.SubnetID = transform.Subnet.String()
	}
	change := tx.Subnet
	if change == nil {
		return nil
	}
	shown.SubnetID = change.SubnetID.String()
	if o := change.Owners; o != nil {
		owners, err := s.known.bech32(o.Addresses)
		if err != nil {
			return err
		}
		shown.SubnetOwnership = &ownership{Locktime: o.Locktime, Threshold: o.Threshold, Addresses: owners}
	}
	if c := change.Chain; c != nil {
		shown.BlockchainInfo = &createdBlockchain{ChainName: c.Name, VMID: c.VMID.String()}
	}
	if c := change.Conversion; c != nil {
		shown.L1Manager = &l1Manager{BlockchainID: c.ManagerChainID.String(), ContractAddress: "0x" + hex.EncodeToString(c.ManagerAddress)}
	}
	return nil
}

// l1 describes the L1 validators that a transaction registers.
func (s *shownTxs) l1(tx *describedTx, shown *platformTransaction) error {
	add := func(validationID, subnetID ids.ID, nodeID []byte, weight, balance uint64, publicKey, proofOfPossession []byte) error {
		node, err := ids.ToNodeID(nodeID)
		if err != nil {
			return err
		}
		shown.L1Validators = append(shown.L1Validators, l1ValidatorAtTx{
			ValidationID: validationID.String(), ValidationIDHex: "0x" + validationID.Hex(), NodeID: node.String(), SubnetID: subnetID.String(),
			Weight: weight, RemainingBalance: balance, BalanceChange: balance,
			BLSCredentials: credentials(publicKey, proofOfPossession),
		})
		return nil
	}
	switch of := tx.Platform.(type) {
	case *txs.ConvertSubnetToL1Tx:
		for i, v := range of.Validators {
			if err := add(of.Subnet.Append(uint32(i)), of.Subnet, v.NodeID, v.Weight, v.Balance, v.Signer.PublicKey[:], v.Signer.ProofOfPossession[:]); err != nil {
				return err
			}
		}
	case *txs.RegisterL1ValidatorTx:
		event, err := pchain.L1EventOf(of)
		if err != nil {
			return err
		}
		registration, ok := event.(*pchain.Registration)
		if !ok {
			return fmt.Errorf("a registration is a %T", event)
		}
		m, err := message.ParseRegisterL1Validator(registration.Message)
		if err != nil {
			return err
		}
		shown.SubnetID = m.SubnetID.String()
		return add(registration.ValidationID, m.SubnetID, m.NodeID, m.Weight, of.Balance, m.BLSPublicKey[:], of.ProofOfPossession[:])
	}
	return nil
}
