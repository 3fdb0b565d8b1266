// Package aggregator turns an unsigned Warp message into a signed one: it asks
// the validators of the signing subnet (ACP-118), proves their signatures,
// chooses the signers and verifies the result before it hands it out. One round
// per message serves any number of callers.
package aggregator

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// DefaultQuorumPercentage is the quorum that Avalanche's chains ask by default.
const DefaultQuorumPercentage = 67

// Request asks for one signed message.
type Request struct {
	// Message is what is to be signed.
	Message *warp.UnsignedMessage
	// Justification is handed to the validators with the message; may be empty.
	Justification []byte
	// SigningSubnetID names the subnet whose validators sign; nil means the
	// subnet that validates the message's source blockchain.
	SigningSubnetID *ids.ID
	// QuorumPercentage, 0 to 100, of the set's total weight; 0 means
	// DefaultQuorumPercentage.
	QuorumPercentage uint64
	// QuorumPercentageBuffer is wanted on top, best effort. The sum with
	// QuorumPercentage is at most 100.
	QuorumPercentageBuffer uint64
	// PChainHeight picks the validator set; 0 means the height that the node
	// currently proposes, or that VerifyingBlockchainID verifies against.
	PChainHeight uint64
	// VerifyingBlockchainID names the blockchain that will verify the message:
	// the set is then that of the P-Chain height of its current epoch
	// (ACP-181). Not to be given together with PChainHeight.
	VerifyingBlockchainID *ids.ID
	// Progress, if not nil, is called with the round's account while it is
	// under way, at most every ProgressInterval and never after Sign returned.
	// It must not block.
	Progress func(Account)
}

// ProgressInterval is the least time between two reports of progress.
const ProgressInterval = 20 * time.Millisecond

// Result is a signed message that was verified against the set it names.
type Result struct {
	Message *warp.Message
	// SigningSubnetID and PChainHeight name the validator set of the signature.
	SigningSubnetID ids.ID
	PChainHeight    uint64
	// Signers counts the distinct keys in the signature.
	Signers int
	// Weight is what they carry, of TotalWeight.
	Weight, TotalWeight uint64
	// AskedWeight is the weight of the validators that were asked.
	AskedWeight uint64
	// Account says what every validator did that was part of the round.
	Account Account
}

// Account adds up a round by weight: Signed, Unproven, Refused, Invalid, Silent,
// Unasked, Disconnected and Keyless together are TotalWeight.
type Account struct {
	SigningSubnetID ids.ID `json:"signingSubnetId"`
	PChainHeight    uint64 `json:"pChainHeight"`
	// TargetWeight is the least weight that meets the quorum.
	TargetWeight uint64 `json:"targetWeight,string"`
	TotalWeight  uint64 `json:"totalWeight,string"`
	// ConnectedWeight is what was connected when the round ended.
	ConnectedWeight uint64 `json:"connectedWeight,string"`
	// SignedWeight has signatures that were verified, alone or as part of the
	// finished message.
	SignedWeight uint64 `json:"signedWeight,string"`
	// UnprovenWeight answered with signatures that were not needed and not checked.
	UnprovenWeight uint64 `json:"unprovenWeight,string"`
	// InvalidWeight answered with something that is no valid signature.
	InvalidWeight uint64 `json:"invalidWeight,string"`
	// SilentWeight was asked and has not answered.
	SilentWeight uint64 `json:"silentWeight,string"`
	// DisconnectedWeight could not be asked, having no connection.
	DisconnectedWeight uint64 `json:"disconnectedWeight,string"`
	// UnaskedWeight was connected, but not needed.
	UnaskedWeight uint64 `json:"unaskedWeight,string"`
	// KeylessWeight has no BLS key (or belongs to inactive L1 validators) and
	// can never sign, yet counts in TotalWeight.
	KeylessWeight uint64 `json:"keylessWeight,string"`
	// RefusedWeight answered with an error, listed in Refusals heaviest first.
	RefusedWeight uint64    `json:"refusedWeight,string"`
	Refusals      []Refusal `json:"refusals"`
	// SilentNodes lists the heaviest validators that were asked and stayed
	// silent or had no connection, at most 20.
	SilentNodes []ids.NodeID `json:"silentNodes"`
}

// Refusal groups the validators that refused for the same reason.
type Refusal struct {
	Code    int32  `json:"code"`
	Message string `json:"message"`
	Weight  uint64 `json:"weight,string"`
	Count   int    `json:"count"`
}
