package pchain

import (
	"time"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/components/verify"
	"github.com/ava-labs/avalanchego/vms/platformvm/fx"
	"github.com/ava-labs/avalanchego/vms/platformvm/signer"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"

	"quorate/internal/chain/linear"
)

// P-Chain type IDs, in avalanchego's registration order (vms/platformvm/block and vms/platformvm/txs).
const (
	typeApricotProposal = 0
	typeApricotAbort    = 1
	typeApricotCommit   = 2
	typeApricotStandard = 3
	typeApricotAtomic   = 4
	typeBanffProposal   = 29
	typeBanffAbort      = 30
	typeBanffCommit     = 31
	typeBanffStandard   = 32

	typeInput  = 10
	typeOwners = 11

	typeNoSigner = 27
	typeSigner   = 28
)

const (
	// leastTx is the encoded size of the smallest transaction, AdvanceTimeTx.
	leastTx = 4 + 8 + 4
	// leastConverted is the minimum encoded size of an L1's initial validator.
	leastConverted = 4 + 8 + 8 + 48 + 96 + 2*(4+4)
)

// quickBlock parses a block like the library, but without credentials. It returns nil if it does not know the block's
// form; the library must then parse it.
func quickBlock(b []byte) *Block {
	if len(b) > constants.DefaultMaxMessageSize {
		return nil
	}
	r := blockReader{linear.NewReader(b)}
	parsed := &Block{Bytes: b}
	kind := r.Uint32()
	switch kind {
	case typeBanffProposal, typeBanffAbort, typeBanffCommit, typeBanffStandard:
		parsed.Time = time.Unix(int64(r.Uint64()), 0).UTC()
	}
	if kind == typeBanffProposal {
		parsed.Txs = r.txs()
	}
	parsed.ParentID, parsed.Height = r.ID(), r.Uint64()
	switch kind {
	case typeApricotProposal, typeBanffProposal:
		parsed.Kind, parsed.Proposal = Proposal, r.tx()
	case typeApricotAbort, typeBanffAbort:
		parsed.Kind = Abort
	case typeApricotCommit, typeBanffCommit:
		parsed.Kind = Commit
	case typeApricotStandard, typeBanffStandard:
		parsed.Kind, parsed.Txs = Standard, r.txs()
	case typeApricotAtomic:
		parsed.Kind, parsed.Txs = Atomic, []*txs.Tx{r.tx()}
	default:
		return nil
	}
	if !r.Complete() {
		return nil
	}
	parsed.ID = hashing.ComputeHash256Array(b)
	return parsed
}

// blockReader reads the elements of P-Chain blocks.
type blockReader struct{ linear.Reader }

func (r *blockReader) txs() []*txs.Tx {
	all := make([]*txs.Tx, r.Count(leastTx))
	for i := range all {
		if all[i] = r.tx(); all[i] == nil {
			return nil
		}
	}
	return all
}

// tx reads a transaction without its credentials. It returns nil if the bytes are refused.
func (r *blockReader) tx() *txs.Tx {
	begin := r.Offset()
	tx := &txs.Tx{Unsigned: r.unsigned()}
	end := r.Offset()
	r.SkipCredentials(linear.Credential)
	if r.Refused() {
		return nil
	}
	tx.SetBytes(r.Signed(begin, end))
	return tx
}

// unsigned reads an unsigned transaction. The case numbers are type IDs.
func (r *blockReader) unsigned() txs.UnsignedTx {
	switch r.Uint32() {
	case 12:
		tx := new(txs.AddValidatorTx)
		r.base(&tx.BaseTx)
		r.validator(&tx.Validator)
		tx.StakeOuts, tx.RewardsOwner, tx.DelegationShares = r.Outputs(true), r.owner(), r.Uint32()
		return tx
	case 13:
		tx := new(txs.AddSubnetValidatorTx)
		r.base(&tx.BaseTx)
		r.validator(&tx.Validator)
		tx.Subnet, tx.SubnetAuth = r.ID(), r.auth()
		return tx
	case 14:
		tx := new(txs.AddDelegatorTx)
		r.base(&tx.BaseTx)
		r.validator(&tx.Validator)
		tx.StakeOuts, tx.DelegationRewardsOwner = r.Outputs(true), r.owner()
		return tx
	case 15:
		tx := new(txs.CreateChainTx)
		r.base(&tx.BaseTx)
		tx.SubnetID, tx.ChainName, tx.VMID = r.ID(), r.String(), r.ID()
		tx.FxIDs, tx.GenesisData, tx.SubnetAuth = r.IDs(), r.Bytes(), r.auth()
		return tx
	case 16:
		tx := new(txs.CreateSubnetTx)
		r.base(&tx.BaseTx)
		tx.Owner = r.owner()
		return tx
	case 17:
		tx := new(txs.ImportTx)
		r.base(&tx.BaseTx)
		tx.SourceChain, tx.ImportedInputs = r.ID(), r.Inputs(true)
		return tx
	case 18:
		tx := new(txs.ExportTx)
		r.base(&tx.BaseTx)
		tx.DestinationChain, tx.ExportedOutputs = r.ID(), r.Outputs(true)
		return tx
	case 19:
		return &txs.AdvanceTimeTx{Time: r.Uint64()}
	case 20:
		return &txs.RewardValidatorTx{TxID: r.ID()}
	case 23:
		tx := new(txs.RemoveSubnetValidatorTx)
		r.base(&tx.BaseTx)
		tx.NodeID, tx.Subnet, tx.SubnetAuth = r.NodeID(), r.ID(), r.auth()
		return tx
	case 24:
		return r.transformation()
	case 25:
		tx := new(txs.AddPermissionlessValidatorTx)
		r.base(&tx.BaseTx)
		r.validator(&tx.Validator)
		tx.Subnet, tx.Signer, tx.StakeOuts = r.ID(), r.signer(), r.Outputs(true)
		tx.ValidatorRewardsOwner, tx.DelegatorRewardsOwner, tx.DelegationShares = r.owner(), r.owner(), r.Uint32()
		return tx
	case 26:
		tx := new(txs.AddPermissionlessDelegatorTx)
		r.base(&tx.BaseTx)
		r.validator(&tx.Validator)
		tx.Subnet, tx.StakeOuts, tx.DelegationRewardsOwner = r.ID(), r.Outputs(true), r.owner()
		return tx
	case 33:
		tx := new(txs.TransferSubnetOwnershipTx)
		r.base(&tx.BaseTx)
		tx.Subnet, tx.SubnetAuth, tx.Owner = r.ID(), r.auth(), r.owner()
		return tx
	case 34:
		tx := new(txs.BaseTx)
		r.base(tx)
		return tx
	case 35:
		return r.conversion()
	case 36:
		tx := new(txs.RegisterL1ValidatorTx)
		r.base(&tx.BaseTx)
		tx.Balance = r.Uint64()
		r.Fill(tx.ProofOfPossession[:])
		tx.Message = r.Bytes()
		return tx
	case 37:
		tx := new(txs.SetL1ValidatorWeightTx)
		r.base(&tx.BaseTx)
		tx.Message = r.Bytes()
		return tx
	case 38:
		tx := new(txs.IncreaseL1ValidatorBalanceTx)
		r.base(&tx.BaseTx)
		tx.ValidationID, tx.Balance = r.ID(), r.Uint64()
		return tx
	case 39:
		tx := new(txs.DisableL1ValidatorTx)
		r.base(&tx.BaseTx)
		tx.ValidationID, tx.DisableAuth = r.ID(), r.auth()
		return tx
	case 40:
		tx := new(txs.AddAutoRenewedValidatorTx)
		r.base(&tx.BaseTx)
		tx.ValidatorNodeID, tx.Signer, tx.StakeOuts = r.Bytes(), r.signer(), r.Outputs(true)
		tx.ValidatorRewardsOwner, tx.DelegatorRewardsOwner, tx.ValidatorAuthority = r.owner(), r.owner(), r.owner()
		tx.DelegationShares, tx.AutoCompoundRewardShares, tx.Period = r.Uint32(), r.Uint32(), r.Uint64()
		return tx
	case 41:
		tx := new(txs.SetAutoRenewedValidatorConfigTx)
		r.base(&tx.BaseTx)
		tx.TxID, tx.Auth, tx.AutoCompoundRewardShares, tx.Period = r.ID(), r.auth(), r.Uint32(), r.Uint64()
		return tx
	case 42:
		return &txs.RewardAutoRenewedValidatorTx{TxID: r.ID(), Timestamp: r.Uint64()}
	}
	r.Refuse()
	return nil
}

func (r *blockReader) transformation() txs.UnsignedTx {
	tx := new(txs.TransformSubnetTx)
	r.base(&tx.BaseTx)
	tx.Subnet, tx.AssetID = r.ID(), r.ID()
	for _, to := range []*uint64{
		&tx.InitialSupply, &tx.MaximumSupply, &tx.MinConsumptionRate, &tx.MaxConsumptionRate, &tx.MinValidatorStake, &tx.MaxValidatorStake,
	} {
		*to = r.Uint64()
	}
	tx.MinStakeDuration, tx.MaxStakeDuration, tx.MinDelegationFee = r.Uint32(), r.Uint32(), r.Uint32()
	tx.MinDelegatorStake, tx.MaxValidatorWeightFactor, tx.UptimeRequirement = r.Uint64(), r.Byte(), r.Uint32()
	tx.SubnetAuth = r.auth()
	return tx
}

func (r *blockReader) conversion() txs.UnsignedTx {
	tx := new(txs.ConvertSubnetToL1Tx)
	r.base(&tx.BaseTx)
	tx.Subnet, tx.ChainID, tx.Address = r.ID(), r.ID(), r.Bytes()
	tx.Validators = make([]*txs.ConvertSubnetToL1Validator, r.Count(leastConverted))
	for i := range tx.Validators {
		v := &txs.ConvertSubnetToL1Validator{NodeID: r.Bytes(), Weight: r.Uint64(), Balance: r.Uint64()}
		r.Fill(v.Signer.PublicKey[:])
		r.Fill(v.Signer.ProofOfPossession[:])
		for _, owner := range []*message.PChainOwner{&v.RemainingBalanceOwner, &v.DeactivationOwner} {
			owner.Threshold, owner.Addresses = r.Uint32(), r.Addresses()
		}
		tx.Validators[i] = v
	}
	tx.SubnetAuth = r.auth()
	return tx
}

func (r *blockReader) base(to *txs.BaseTx) { r.Base(&to.BaseTx, true) }

func (r *blockReader) validator(to *txs.Validator) {
	to.NodeID, to.Start, to.End, to.Wght = r.NodeID(), r.Uint64(), r.Uint64(), r.Uint64()
}

func (r *blockReader) owner() fx.Owner {
	r.Expect(typeOwners)
	owners := new(secp256k1fx.OutputOwners)
	r.Owners(owners)
	return owners
}

func (r *blockReader) auth() verify.Verifiable {
	r.Expect(typeInput)
	input := new(secp256k1fx.Input)
	r.Input(input)
	return input
}

func (r *blockReader) signer() signer.Signer {
	switch r.Uint32() {
	case typeNoSigner:
		return new(signer.Empty)
	case typeSigner:
		key := new(signer.ProofOfPossession)
		r.Fill(key.PublicKey[:])
		r.Fill(key.ProofOfPossession[:])
		return key
	}
	r.Refuse()
	return nil
}
