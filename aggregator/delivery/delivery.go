// Package delivery tells whether a blockchain would accept a signed message in its next block, and if not, why, from when
// on it would, and what to do. It follows the verification of avalanchego: the P-Chain (vms/platformvm/txs/executor) and
// the Warp precompile of the C-Chain and of subnet-evm (graft/subnet-evm/precompile/contracts/warp). It does not know what
// the receiving contract does with the message.
//
// A block is verified against the validator sets at the P-Chain height of its epoch (ACP-181; vms/proposervm/acp181). A
// block whose timestamp is at or after the end of its epoch seals the epoch: it still belongs to it, and its child begins
// the next one, at the P-Chain height that the sealing block recorded when it was built. So an idle chain stays in its
// epoch, and a message that needs the next epoch has to wait for a sealing block and goes into a later one.
package delivery

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// Code is an outcome. The list below is complete.
type Code string

const (
	// Deliverable means that the destination accepts the message in its next block.
	Deliverable Code = "DELIVERABLE"
	// EpochBehind means that the message holds against a set that the destination's epoch has not reached, or that the
	// destination has made no block.
	EpochBehind Code = "EPOCH_BEHIND"
	// SetChanged means that the message holds against the set at the height that it was signed at, but neither the
	// destination's epoch nor the next one has that set.
	SetChanged Code = "SET_CHANGED"
	// QuorumTooLow means that the signature holds, but the destination wants more weight.
	QuorumTooLow Code = "QUORUM_TOO_LOW"
	// WrongSigningSubnet means that validators signed that the destination does not verify against.
	WrongSigningSubnet Code = "WRONG_SIGNING_SUBNET"
	// NoValidators means that the set that the destination verifies against is empty.
	NoValidators Code = "NO_VALIDATORS"
	// SignatureInvalid means that the signature holds against none of the sets that could apply.
	SignatureInvalid Code = "SIGNATURE_INVALID"
	// WarpDisabled means that the destination does not verify Warp messages.
	WarpDisabled Code = "WARP_DISABLED"
	// PayloadNotSupported means that the destination does not accept the kind of payload.
	PayloadNotSupported Code = "PAYLOAD_NOT_SUPPORTED"
	// WrongNetwork means that the message was made on another network.
	WrongNetwork Code = "WRONG_NETWORK"
	// UnknownSource means that the network has no such source blockchain.
	UnknownSource Code = "UNKNOWN_SOURCE"
	// Unknown means that the upstream node does not report what the outcome depends on.
	Unknown Code = "UNKNOWN"
)

// RulesSource is the source of a destination's rules.
type RulesSource string

const (
	// FromProtocol marks rules that are the same on every network: those of the P-Chain and of the C-Chain.
	FromProtocol RulesSource = "PROTOCOL"
	// FromChainConfig marks rules that the destination's node reports.
	FromChainConfig RulesSource = "CHAIN_CONFIG"
	// Assumed marks the default rules of a chain whose node does not report them.
	Assumed RulesSource = "ASSUMED"
)

// Request asks whether a blockchain would accept a signed message.
type Request struct {
	Message       *warp.Message
	DestinationID ids.ID
	// SigningSubnetID is whose validators signed; nil if that is not known.
	SigningSubnetID *ids.ID
	// PChainHeight is the height whose set signed; 0 if that is not known.
	PChainHeight uint64
}

// Rules are those by which a destination verifies messages.
type Rules struct {
	// QuorumPercentage of the weight must have signed.
	QuorumPercentage uint64 `json:"quorumPercentage"`
	// RequirePrimaryNetworkSigners is that of the Warp precompile: the primary network's validators, rather than the
	// destination's, must sign messages of the C-Chain.
	RequirePrimaryNetworkSigners bool        `json:"requirePrimaryNetworkSigners"`
	Source                       RulesSource `json:"source"`
}

// Epoch is the epoch of the destination's next block.
type Epoch struct {
	// Number is 0 if the blockchain has no epochs.
	Number       uint64    `json:"number,string"`
	PChainHeight uint64    `json:"pChainHeight,string"`
	StartTime    time.Time `json:"startTime,omitzero"`
	// EndTime is the earliest time of a block that seals the epoch. That block still belongs to the epoch.
	EndTime time.Time `json:"endTime,omitzero"`
}

// Delivery tells whether a blockchain would accept a message. Unknown fields are nil or zero.
type Delivery struct {
	// Deliverable reports whether the next block accepts the message; nil if that is unknown.
	Deliverable *bool `json:"deliverable"`
	Code        Code  `json:"code"`
	// Detail says why, Remedy what to do. Remedy is empty if the message is deliverable for good.
	Detail        string `json:"detail"`
	Remedy        string `json:"remedy,omitempty"`
	DestinationID ids.ID `json:"destinationBlockchainId"`
	Epoch         *Epoch `json:"epoch,omitempty"`
	Rules         *Rules `json:"rules,omitempty"`
	// Set describes the signers in the set that the destination verifies against.
	Set *Signers `json:"validators,omitempty"`
	// NextEpoch is set for EpochBehind: the epoch that accepts the message.
	NextEpoch *NextEpoch `json:"nextEpoch,omitempty"`
	// ExpiresAt is set if the message is deliverable now, but not in the next epoch. After that time, only one more block
	// may accept it.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// Err is why the outcome is Unknown, else nil.
	Err error `json:"-"`
}

// Signers are the validators that a signature's bits name in one set.
type Signers struct {
	SubnetID     ids.ID `json:"signingSubnetId"`
	PChainHeight uint64 `json:"pChainHeight,string"`
	Signers      int    `json:"signers"`
	// Weight is the weight of the signers, of TotalWeight. TargetWeight is what the destination requires.
	Weight       uint64 `json:"weight,string"`
	TargetWeight uint64 `json:"targetWeight,string"`
	TotalWeight  uint64 `json:"totalWeight,string"`
}

// NextEpoch tells when a message becomes deliverable.
type NextEpoch struct {
	// PChainHeight is the height that the epoch has to reach, or an earlier one with the same set.
	PChainHeight uint64 `json:"pChainHeight,string"`
	// NotBefore is the earliest time of a block that seals the present epoch; it may be past.
	NotBefore time.Time `json:"notBefore"`
	// Blocks is the number of blocks that must come from then on before the one with the message.
	Blocks int `json:"blocks"`
}
