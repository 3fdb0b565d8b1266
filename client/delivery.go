package client

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// Delivery says whether a blockchain would accept a signed message in its next block. It knows
// nothing of what the receiving contract does. Fields that the service does not know are nil.
type Delivery struct {
	// Deliverable is nil if that is unknown.
	Deliverable *bool        `json:"deliverable"`
	Code        DeliveryCode `json:"code"`
	// Detail says why, Remedy what to do.
	Detail                  string `json:"detail"`
	Remedy                  string `json:"remedy"`
	DestinationBlockchainID ids.ID `json:"destinationBlockchainId"`
	// Epoch is that of the next block.
	Epoch *Epoch `json:"epoch"`
	Rules *Rules `json:"rules"`
	// Validators describes the signers in the set that the destination verifies against.
	Validators *DestinationSigners `json:"validators"`
	// NextEpoch says when the message becomes deliverable, for DeliveryEpochBehind.
	NextEpoch *NextEpoch `json:"nextEpoch"`
	// ExpiresAt is set if the next epoch would not accept the message.
	ExpiresAt *time.Time `json:"expiresAt"`
}

// DeliveryCode is the outcome of a Delivery; docs/signing.md explains each.
type DeliveryCode string

// The outcomes.
const (
	DeliveryDeliverable         DeliveryCode = "DELIVERABLE"
	DeliveryEpochBehind         DeliveryCode = "EPOCH_BEHIND"
	DeliverySetChanged          DeliveryCode = "SET_CHANGED"
	DeliveryQuorumTooLow        DeliveryCode = "QUORUM_TOO_LOW"
	DeliveryWrongSigningSubnet  DeliveryCode = "WRONG_SIGNING_SUBNET"
	DeliveryNoValidators        DeliveryCode = "NO_VALIDATORS"
	DeliverySignatureInvalid    DeliveryCode = "SIGNATURE_INVALID"
	DeliveryWarpDisabled        DeliveryCode = "WARP_DISABLED"
	DeliveryPayloadNotSupported DeliveryCode = "PAYLOAD_NOT_SUPPORTED"
	DeliveryWrongNetwork        DeliveryCode = "WRONG_NETWORK"
	DeliveryUnknownSource       DeliveryCode = "UNKNOWN_SOURCE"
	DeliveryUnknown             DeliveryCode = "UNKNOWN"
)

// Epoch is an epoch of a blockchain (ACP-181).
type Epoch struct {
	// Number is 0 if the blockchain has no epochs.
	Number       uint64    `json:"number,string"`
	PChainHeight uint64    `json:"pChainHeight,string"`
	StartTime    time.Time `json:"startTime"`
	// EndTime is the time from which a block ends the epoch. The block itself still belongs to it.
	EndTime time.Time `json:"endTime"`
}

// Rules are the rules by which a blockchain verifies messages.
type Rules struct {
	QuorumPercentage             uint64 `json:"quorumPercentage"`
	RequirePrimaryNetworkSigners bool   `json:"requirePrimaryNetworkSigners"`
	// Source is PROTOCOL, CHAIN_CONFIG, or ASSUMED if the chain's node does not report them.
	Source string `json:"source"`
}

// DestinationSigners are the validators that a signature names in one set.
type DestinationSigners struct {
	SigningSubnetID ids.ID `json:"signingSubnetId"`
	PChainHeight    uint64 `json:"pChainHeight,string"`
	Signers         int    `json:"signers"`
	Weight          uint64 `json:"weight,string"`
	TargetWeight    uint64 `json:"targetWeight,string"`
	TotalWeight     uint64 `json:"totalWeight,string"`
}

// NextEpoch says when a message becomes deliverable.
type NextEpoch struct {
	// PChainHeight is the height that the epoch has to reach, or an earlier one with the same set.
	PChainHeight uint64 `json:"pChainHeight,string"`
	// NotBefore is the time from which a block can end the current epoch; it may be in the past.
	NotBefore time.Time `json:"notBefore"`
	// Blocks is the number of blocks that must follow NotBefore, before the one with the message.
	Blocks int `json:"blocks"`
}
