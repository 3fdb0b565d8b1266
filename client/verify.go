package client

import (
	"context"
	"encoding/hex"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// VerifyRequest is a signed message to verify. Its other fields are those of SignOptions.
type VerifyRequest struct {
	Message               *warp.Message
	SigningSubnetID       *ids.ID
	QuorumPercentage      uint64
	PChainHeight          uint64
	VerifyingBlockchainID *ids.ID
	// DestinationBlockchainID is the blockchain that Verdict.Delivery is about; nil means none.
	// The service's node must run it.
	DestinationBlockchainID *ids.ID
}

// Verdict is the result of verifying a signed message.
type Verdict struct {
	// Valid means that the signature is valid and its weight meets the quorum. Reason says why
	// not.
	Valid  bool   `json:"valid"`
	Reason string `json:"reason"`
	// Signers are the validators that the message names as its signers.
	Signers []Signer `json:"signers"`
	// Weight is that of the signers, TargetWeight the least that meets the quorum.
	Weight          uint64 `json:"weight,string"`
	TargetWeight    uint64 `json:"targetWeight,string"`
	TotalWeight     uint64 `json:"totalWeight,string"`
	SigningSubnetID ids.ID `json:"signingSubnetId"`
	PChainHeight    uint64 `json:"pChainHeight,string"`
	// Delivery is present if the request has a destination.
	Delivery *Delivery `json:"delivery"`
}

// Signer is a validator of the canonical set.
type Signer struct {
	// Index is the validator's index in the set.
	Index int `json:"index"`
	// NodeIDs are the nodes that share the validator's BLS key.
	NodeIDs []ids.NodeID `json:"nodeIds"`
	Weight  uint64       `json:"weight,string"`
}

// Verify verifies a signed message against the validators that the service knows. A message that
// is not valid is no error: see Verdict.Valid.
func (c *Client) Verify(ctx context.Context, r VerifyRequest) (*Verdict, error) {
	body := struct {
		SignedMessage         string  `json:"signedMessage"`
		SigningSubnetID       *ids.ID `json:"signingSubnetId,omitempty"`
		QuorumPercentage      uint64  `json:"quorumPercentage,omitempty"`
		PChainHeight          uint64  `json:"pChainHeight,omitempty"`
		VerifyingBlockchainID *ids.ID `json:"verifyingBlockchainId,omitempty"`
		DestinationID         *ids.ID `json:"destinationBlockchainId,omitempty"`
	}{hex.EncodeToString(r.Message.Bytes()), r.SigningSubnetID, r.QuorumPercentage, r.PChainHeight, r.VerifyingBlockchainID, r.DestinationBlockchainID}
	var verdict *Verdict
	if _, err := c.call(ctx, "/verifySignedMessage", body, &verdict); err != nil {
		return nil, err
	}
	if verdict == nil {
		return nil, badAnswer("it is not a verdict")
	}
	return verdict, nil
}
