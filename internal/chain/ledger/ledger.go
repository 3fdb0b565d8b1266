// Package ledger defines what the P-Chain, the X-Chain and the C-Chain's atomic transactions have in common:
// transactions that create and consume outputs, as in avalanchego's vms/components/avax. The decoders of the three
// chains produce these types; the indexes consume them.
package ledger

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// Block is an accepted block with its effect on outputs.
type Block struct {
	// ChainID is the ID of the blockchain.
	ChainID ids.ID
	// Height is the block's number plus Before. Before counts the ledger blocks that precede the chain's block 0; each
	// of them is a Block with its own Height. On the X-Chain these are the genesis and the pre-Cortina vertices. Before
	// is 0 on chains that always had blocks.
	Height, Before uint64
	ID             ids.ID
	// Time is the chain's time at this block, with a resolution of one second.
	Time time.Time
	// Cortina is the time of the chain's block 0 if something precedes it; everything before block 0 has this time too.
	// It is zero on chains that always had blocks.
	Cortina time.Time
	Txs     []Tx
}

// Tx is an accepted transaction, or the outcome of a proposal that was committed or aborted.
type Tx struct {
	ID   ids.ID
	Kind Kind
	// Consumed are the inputs in transaction order.
	Consumed []Input
	// Made are the outputs in index order: ordinary outputs, then stake or exported outputs, then rewards.
	Made []Output
	// Staker is set for transactions that start a validation or delegation.
	Staker *Staker
	// Settled is set for a reward. It names the staking transaction that ended, and the outcome.
	Settled *Settlement
	// L1Balance is the amount added to balances of L1 validators, in nAVAX. L1Refund is the amount returned from a
	// balance; its output is the last of Made.
	L1Balance, L1Refund uint64
	Memo                []byte
	// Aborted reports that the chain rejected the proposal: a reward, or the addition of a staker before Banff. A
	// rejected addition still pays its fee, and its stake is among the ordinary outputs.
	Aborted bool
	// Subnet is set for transactions that create, transfer, extend or convert a subnet.
	Subnet *SubnetChange
	// Asset is set for transactions that create an asset.
	Asset *Asset
}

// Kind is a transaction type as the Data API names it, for example AddValidatorTx or BaseTx.
type Kind string

// Unknown is the Kind of transactions without a Data API name, and of genesis outputs without a transaction.
const Unknown Kind = "UNKNOWN"

// Input is the consumption of an output.
type Input struct {
	// OutputID identifies the consumed output (avax.UTXOID.InputID).
	OutputID ids.ID
	// SourceChainID is the blockchain that created the output. For an import it differs from the transaction's
	// blockchain.
	SourceChainID ids.ID
	AssetID       ids.ID
	Amount        uint64
}

// OutputKind is the kind of an output (avalanchego secp256k1fx, nftfx,
// propertyfx, stakeable).
type OutputKind uint8

const (
	// Transfer is an amount of an asset.
	Transfer OutputKind = iota + 1
	// Mint is the right to mint more of an asset.
	Mint
	// NFTMint is the right to mint tokens of a group.
	NFTMint
	// NFTTransfer is a token.
	NFTTransfer
	// PropertyMint is the right to mint properties. PropertyOwned is a property.
	PropertyMint
	PropertyOwned
)

// Role is the part that an output has in its transaction.
type Role uint8

const (
	// Ordinary outputs are spendable on the chain that created them.
	Ordinary Role = iota + 1
	// Stake outputs are locked until the end of the staking period.
	Stake
	// Exported outputs are spendable on another chain.
	Exported
	// ValidationReward, DelegationReward and Commission outputs are created at the end of a staking period. Their
	// transaction is the staking transaction.
	ValidationReward
	DelegationReward
	Commission
)

// Reward returns the name that the Data API has for the reward in an output, or "" if there is none.
func (r Role) Reward() string {
	switch r {
	case ValidationReward:
		return "VALIDATOR"
	case DelegationReward:
		return "DELEGATOR"
	case Commission:
		return "VALIDATOR_FEE"
	default:
		return ""
	}
}

// Output is a UTXO.
type Output struct {
	// ID is the hash of transaction ID and index (avax.UTXOID.InputID).
	ID    ids.ID
	TxID  ids.ID
	Index uint32

	Kind    OutputKind
	Role    Role
	AssetID ids.ID
	// Amount is 0 for kinds without an amount.
	Amount uint64
	// Addresses are the owners in the output's order.
	Addresses []ids.ShortID
	Threshold uint32
	// Locktime and StakeableLocktime are Unix times in seconds; 0 means none.
	Locktime, StakeableLocktime uint64
	// DestinationID is the blockchain on which the output is spendable: the chain that created it, unless the Role is
	// Exported.
	DestinationID ids.ID
	// GroupID and Payload are set for NFT outputs.
	GroupID uint32
	Payload []byte
	// Bytes is the UTXO as the codec encodes it, with the codec version.
	Bytes []byte
}

// Staker is a validation or delegation period.
type Staker struct {
	SubnetID ids.ID
	NodeID   ids.NodeID
	// Delegator is false for a validator.
	Delegator bool
	// Weight is in nAVAX, or in units of the subnet's asset.
	Weight     uint64
	Start, End time.Time
	// Shares is a validator's commission in millionths.
	Shares uint32
	// RewardAddresses own the validation or delegation reward.
	RewardAddresses []ids.ShortID
	// PublicKey and ProofOfPossession are empty for a staker without a BLS key.
	PublicKey, ProofOfPossession []byte
	// Renewing reports that a new period follows each period until the validator stops renewing (ACP-236). End is the
	// end of the first period.
	Renewing bool
}

// Settlement is the end of a staking period.
type Settlement struct {
	StakingTxID ids.ID
	// Weight, Start and End are those of the period. A renewing validator may have another weight afterwards.
	Weight     uint64
	Start, End time.Time
	// Rewarded is false if the network denied the reward.
	Rewarded bool
	// PotentialReward is the reward of the period before commission, whether or not it was paid, in units of the staked
	// asset. It is 0 if it is unknown, as after the node paid another one.
	PotentialReward uint64
	// RenewedUntil is the end of the next period if the validator renews. It is zero if the stake is now unlocked.
	RenewedUntil time.Time
}

// Owners may spend or change something. Threshold of the Addresses must sign, from the Unix time Locktime on.
type Owners struct {
	Addresses []ids.ShortID
	Threshold uint32
	Locktime  uint64
}

// SubnetChange is the effect of a transaction on a subnet. One or two of the fields below Created are set.
type SubnetChange struct {
	// SubnetID is the transaction's own ID if the transaction creates the subnet.
	SubnetID ids.ID
	Created  bool
	// Owners are the new owners after a creation or transfer.
	Owners *Owners
	// Conversion converts the subnet to an L1 (ACP-77).
	Conversion *Conversion
	// Chain is a new blockchain. Its ID is the transaction's ID.
	Chain *Chain
}

// Conversion names the contract that manages an L1.
type Conversion struct {
	ManagerChainID ids.ID
	ManagerAddress []byte
}

// Chain is the definition of a blockchain.
type Chain struct {
	VMID    ids.ID
	Name    string
	Genesis []byte
}

// Asset is the definition of an asset.
type Asset struct {
	ID           ids.ID
	Name, Symbol string
	// Denomination is the number of decimal digits of amounts.
	Denomination uint8
}

// Spend is the consumption of an output.
type Spend struct {
	ChainID ids.ID
	TxID    ids.ID
	Height  uint64
	Time    time.Time
}
