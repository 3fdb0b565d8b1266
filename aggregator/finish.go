package aggregator

import (
	"errors"
	"fmt"

	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/bls"
	"quorate/validators"
)

// errUnverified: a finished message did not pass avalanchego's verification.
var errUnverified = errors.New("the finished message does not verify")

// assemble makes the signed message of the given members (ascending canonical
// indexes) and verifies it with avalanchego's own verification against set:
// at least weight must have signed. Signatures may be unverified; then an error
// that is errUnverified says that at least one of them is bad.
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

// verify runs avalanchego's verification. The quorum is handed over as the
// exact fraction weight/total, since a percentage would round.
func verify(msg *warp.UnsignedMessage, signature *warp.BitSetSignature, vdrs *validators.Set, weight uint64) error {
	return signature.Verify(msg, msg.NetworkID, vdrs.WarpSet, weight, vdrs.TotalWeight)
}
