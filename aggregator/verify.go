package aggregator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/validators"
)

// VerifyRequest asks whether a signed message holds.
type VerifyRequest struct {
	Message *warp.Message
	// SigningSubnetID, QuorumPercentage, PChainHeight and
	// VerifyingBlockchainID are as in Request.
	SigningSubnetID       *ids.ID
	QuorumPercentage      uint64
	PChainHeight          uint64
	VerifyingBlockchainID *ids.ID
}

// Verdict is the result of a VerifyRequest.
type Verdict struct {
	// Valid: the signature verifies and carries the quorum.
	Valid bool
	// Reason says in plain words why it is not valid.
	Reason string
	// Signers are the validators that the signature names.
	Signers []Signer
	// Weight is the weight of the signers, TargetWeight the least weight that meets the quorum.
	Weight, TargetWeight, TotalWeight uint64
	SigningSubnetID                   ids.ID
	PChainHeight                      uint64
}

// Signer is one validator that a signature names.
type Signer struct {
	// Index is its index in the canonical set.
	Index   int
	NodeIDs []ids.NodeID
	Weight  uint64
}

// Verify checks a signed message with avalanchego's own verification. An
// invalid message is a verdict, not an error.
func (a *Aggregator) Verify(ctx context.Context, req VerifyRequest) (*Verdict, error) {
	vdrs, err := a.resolve(ctx, Request{
		Message:               &req.Message.UnsignedMessage,
		SigningSubnetID:       req.SigningSubnetID,
		PChainHeight:          req.PChainHeight,
		VerifyingBlockchainID: req.VerifyingBlockchainID,
	})
	if err != nil {
		return nil, err
	}
	return Judge(req.Message, vdrs, cmp.Or(req.QuorumPercentage, DefaultQuorumPercentage)), nil
}

// Judge verifies a signed message against a set, for a quorum in percent.
func Judge(message *warp.Message, vdrs *validators.Set, quorum uint64) *Verdict {
	v := &Verdict{
		TotalWeight:     vdrs.TotalWeight,
		TargetWeight:    vdrs.MinWeight(quorum),
		SigningSubnetID: vdrs.SubnetID,
		PChainHeight:    vdrs.Height,
	}
	signature, ok := message.Signature.(*warp.BitSetSignature)
	if !ok {
		v.Reason = fmt.Sprintf("the signature is a %T, not a bit-set signature", message.Signature)
		return v
	}
	signers := set.BitsFromBytes(signature.Signers)
	for i, validator := range vdrs.Validators {
		if signers.Contains(i) {
			v.Signers = append(v.Signers, Signer{Index: i, NodeIDs: validator.NodeIDs, Weight: validator.Weight})
			v.Weight += validator.Weight
		}
	}
	if vdrs.TotalWeight == 0 {
		v.Reason = fmt.Sprintf("subnet %s has no validators at P-Chain height %d", vdrs.SubnetID, vdrs.Height)
		return v
	}
	if err := signature.Verify(&message.UnsignedMessage, message.NetworkID, vdrs.WarpSet, quorum, 100); err != nil {
		v.Reason = err.Error()
		return v
	}
	v.Valid = true
	return v
}
