package client

import (
	"context"
	"fmt"
	"math"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// Aggregator has the method that relayers call on the SignatureAggregator of icm-services (package
// signature-aggregator/aggregator, August 2026), and signs through a service.
type Aggregator struct {
	Client *Client
	// QuorumPercentageBuffer is that of SignOptions. Versions of icm-services until June 2026 take
	// it as a parameter.
	QuorumPercentageBuffer uint64
}

// CreateSignedMessage returns the signed message of unsignedMessage. inputSigningSubnet ids.Empty
// stands for the subnet of the source blockchain; pchainHeight 0 and the maximum stand for the
// proposed height. Give the height of the destination's epoch, as the relayer of icm-services does.
// ctx should have a deadline.
func (a Aggregator) CreateSignedMessage(
	ctx context.Context,
	log logging.Logger,
	unsignedMessage *warp.UnsignedMessage,
	justification []byte,
	inputSigningSubnet ids.ID,
	requiredQuorumPercentage uint64,
	pchainHeight uint64,
) (*warp.Message, error) {
	if requiredQuorumPercentage == 0 || requiredQuorumPercentage > 100 {
		return nil, fmt.Errorf("invalid quorum percentage: %d", requiredQuorumPercentage)
	}
	r := Request{Message: unsignedMessage.Bytes(), Justification: justification}
	r.QuorumPercentage, r.QuorumPercentageBuffer = requiredQuorumPercentage, a.QuorumPercentageBuffer
	if inputSigningSubnet != ids.Empty {
		r.SigningSubnetID = &inputSigningSubnet
	}
	if pchainHeight != math.MaxUint64 {
		r.PChainHeight = pchainHeight
	}
	signed, err := a.Client.Sign(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("signing message %s: %w", unsignedMessage.ID(), err)
	}
	log.Debug("signed message " + unsignedMessage.ID().String())
	return signed, nil
}
