// Package ledger is what the P-Chain, the X-Chain and the atomic transactions of
// the C-Chain have in common: outputs that transactions make and consume, in the
// terms of avalanchego's vms/components/avax. The decoders of the three chains
// speak it, and whoever keeps or reads outputs.
package ledger

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// Block is what an accepted block does to outputs.
type Block struct {
	// ChainID is the blockchain's.
	ChainID ids.ID
	// Height is the block's number, plus Before. Before is how much the chain accepted
	// before its block at height 0, each of which is a Block with a Height of its own:
	// the X-Chain's genesis and transactions from before it had blocks. It is 0 on
	// chains that always had blocks.
	Height, Before uint64
	ID             ids.ID
	// Time is the chain's time at this block, to the second.
	Time time.Time
	// Cortina is the time of the chain's block 0 if something came before it, which has
	// the same time. It is zero on chains that always had blocks.
	Cortina time.Time
	Txs     []Tx
}

// Tx is an accepted transaction, or what a proposal that was committed or aborted
// came to.
type Tx struct {
	ID   ids.ID
	Kind Kind
	// Consumed are inputs in the order of the transaction.
	Consumed []Input
	// Made are outputs in the order of their index: ordinary outputs, then stake
	// or exported ones, then rewards.
	Made []Output
	// Staker is set for transactions that begin a validation or delegation.
	Staker *Staker
	// Settled is set for a reward: which staking transaction ended, and how.
	Settled *Settlement
	// L1Balance is what moved to balances of L1 validators, in nAVAX; L1Refund is
	// what came back from one, as the last of Made.
	L1Balance, L1Refund uint64
	Memo                []byte
	// Aborted says that the chain refused what the transaction proposed, but for
	// its fee: an addition of a staker before Banff, whose stake is among the
	// ordinary outputs, or a reward.
	Aborted bool
	// Subnet is set for transactions that make, own, extend or convert a subnet.
	Subnet *SubnetChange
	// Asset is set for transactions that make an asset.
	Asset *Asset
}

// Kind names a transaction's type as the Data API does: AddValidatorTx, BaseTx,
// ... and UNKNOWN for those it has no name for.
type Kind string

// Unknown is the Kind of transactions that the Data API has no name for, and of
// what is at genesis without a transaction.
const Unknown Kind = "UNKNOWN"

// Input is the consumption of an output.
type Input struct {
	// OutputID is the output's (avax.UTXOID.InputID).
	OutputID ids.ID
	// SourceChainID is the blockchain on which the output was made: another than
	// the transaction's for an import.
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
	// Mint is the right to make more of an asset.
	Mint
	// NFTMint is the right to make tokens of a group.
	NFTMint
	// NFTTransfer is a token.
	NFTTransfer
	// PropertyMint is the right to make properties, PropertyOwned a property.
	PropertyMint
	PropertyOwned
)

// Role is what an output is part of.
type Role uint8

const (
	// Ordinary outputs are spendable where they were made.
	Ordinary Role = iota + 1
	// Stake outputs are locked until the staking period ends.
	Stake
	// Exported outputs are spendable on another chain.
	Exported
	// ValidationReward, DelegationReward and Commission are made when a staking
	// period ends; their transaction is the staking transaction.
	ValidationReward
	DelegationReward
	Commission
)

// Output is a UTXO.
type Output struct {
	// ID is the hash of transaction and index (avax.UTXOID.InputID).
	ID    ids.ID
	TxID  ids.ID
	Index uint32

	Kind    OutputKind
	Role    Role
	AssetID ids.ID
	// Amount is 0 for kinds without one.
	Amount uint64
	// Addresses are the owners, as ordered in the output.
	Addresses []ids.ShortID
	Threshold uint32
	// Locktime and StakeableLocktime are Unix times in seconds; 0 means none.
	Locktime, StakeableLocktime uint64
	// DestinationID is the blockchain on which it can be consumed: the one on
	// which it was made, unless it is Exported.
	DestinationID ids.ID
	// GroupID and Payload belong to NFT outputs.
	GroupID uint32
	Payload []byte
	// Bytes is the codec's form of the UTXO, version included.
	Bytes []byte
}

// Staker is a period of validation or delegation.
type Staker struct {
	SubnetID ids.ID
	NodeID   ids.NodeID
	// Delegator is false for a validator.
	Delegator bool
	// Weight is in nAVAX, or the subnet's own unit.
	Weight     uint64
	Start, End time.Time
	// Shares is a validator's commission, of 1,000,000.
	Shares uint32
	// RewardAddresses own the reward of validation or delegation.
	RewardAddresses []ids.ShortID
	// PublicKey and ProofOfPossession are empty without a BLS key.
	PublicKey, ProofOfPossession []byte
	// PotentialReward is what the node says would be paid, in nAVAX; 0 where it
	// does not say.
	PotentialReward uint64
	// Renewing says that the period begins anew when it ends, until the validator
	// ends that (ACP-236); End is that of the first period.
	Renewing bool
}

// Settlement is the end of a staking period.
type Settlement struct {
	StakingTxID ids.ID
	// Rewarded is false if the reward was refused.
	Rewarded bool
	// RenewedUntil is zero if the stake is free from now on, or the end of the next
	// period for a validator that goes on.
	RenewedUntil time.Time
}

// Owners may spend or change something: Threshold of the Addresses together, from
// Locktime on, in Unix seconds.
type Owners struct {
	Addresses []ids.ShortID
	Threshold uint32
	Locktime  uint64
}

// SubnetChange is what a transaction does to a subnet; one or two of its members
// below SubnetID are set.
type SubnetChange struct {
	// SubnetID is that of the transaction itself if the subnet is Created by it.
	SubnetID ids.ID
	Created  bool
	// Owners are the new ones, of a creation or of a transfer.
	Owners *Owners
	// Conversion makes the subnet an L1 (ACP-77).
	Conversion *Conversion
	// Chain is a new blockchain, its ID that of the transaction.
	Chain *Chain
}

// Conversion names the contract that manages an L1 from its conversion on.
type Conversion struct {
	ManagerChainID ids.ID
	ManagerAddress []byte
}

// Chain is what a blockchain began with.
type Chain struct {
	VMID    ids.ID
	Name    string
	Genesis []byte
}

// Asset is what the creation of an asset says about it.
type Asset struct {
	ID           ids.ID
	Name, Symbol string
	// Denomination is how many decimal digits its amounts have.
	Denomination uint8
}

// Spend is the consumption of an output.
type Spend struct {
	ChainID ids.ID
	TxID    ids.ID
	Height  uint64
	Time    time.Time
}
