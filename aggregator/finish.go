package aggregator

import (
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/bls"
	"quorate/validators"
)

// errUnverified reports that a message did not pass avalanchego's verification.
var errUnverified = errors.New("the finished message does not verify")

// assemble builds the message that members (ascending canonical indexes) have signed. It verifies
// the message against vdrs with avalanchego's own verification; at least weight must have signed. The
// signatures may be unverified. If at least one of them is invalid, the error is errUnverified.
func assemble(msg *warp.UnsignedMessage, vdrs *validators.Set, members []int, signatures []*bls.Signature, weight uint64) (*warp.Message, error) {
	aggregate, ok := bls.Aggregate(signatures)
	if !ok {
		return nil, errUnverified
	}
	signature := &warp.BitSetSignature{Signers: set.NewBits(members...).Bytes()}
	copy(signature.Signature[:], aggregate.Compress())
	if err := verify(msg, signature, vdrs, weight); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnverified, err)
	}
	return warp.NewMessage(msg, signature)
}

// verify runs avalanchego's verification. It passes the quorum as the exact fraction weight/total,
// because a percentage would round.
func verify(msg *warp.UnsignedMessage, signature *warp.BitSetSignature, vdrs *validators.Set, weight uint64) error {
	return signature.Verify(msg, msg.NetworkID, vdrs.WarpSet, weight, vdrs.TotalWeight)
}
