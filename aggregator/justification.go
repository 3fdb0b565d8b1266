package aggregator

import (
	"context"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
)

// maxJustification is the most bytes of a justification. The P-Chain takes registrations, which
// fit in its transactions of at most 64 KiB; validators of other chains may require anything.
const maxJustification = 64 << 10

// subnetTimeout bounds the question which subnet validates a chain, which is usually known.
const subnetTimeout = 500 * time.Millisecond

// MaxJustification returns the length of the longest justification that validators may accept
// with a message, in bytes. It is 0 for messages of the P-Chain whose signing does not depend on
// a justification (avalanchego, vms/platformvm/network).
func MaxJustification(m *warp.UnsignedMessage) int {
	if m.SourceChainID != constants.PlatformChainID {
		return maxJustification
	}
	call, err := payload.ParseAddressedCall(m.Payload)
	if err != nil {
		return 0
	}
	statement, err := message.Parse(call.Payload)
	if err != nil {
		return 0
	}
	switch s := statement.(type) {
	case *message.SubnetToL1Conversion: // the subnet's ID
		return ids.IDLen
	case *message.L1ValidatorRegistration:
		if !s.Registered {
			return maxJustification
		}
	}
	return 0
}

// justification returns the justification of a request, or nil if the validators' answer does
// not depend on it, so that requests which differ in it share a round. Validators of the EVM
// chains of the primary network ignore it (avalanchego, vms/saevm/cchain/warp, and coreth);
// those of an L1 may run another VM.
func (a *Aggregator) justification(ctx context.Context, req Request) []byte {
	if len(req.Justification) == 0 || MaxJustification(req.Message) == 0 {
		return nil
	}
	if req.Message.SourceChainID == constants.PlatformChainID {
		return req.Justification
	}
	ctx, cancel := context.WithTimeout(ctx, subnetTimeout)
	defer cancel()
	if subnetID, err := a.sets.SubnetOf(ctx, req.Message.SourceChainID); err == nil && subnetID == constants.PrimaryNetworkID {
		return nil
	}
	return req.Justification
}
