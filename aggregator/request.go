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
	// Message is the message to sign.
	Message *warp.UnsignedMessage
	// Justification is sent to the validators with the message; may be empty.
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
	// Wait is how long Sign waits for validators to see the message; at least
	// Limits.UnseenTimeout. Then it fails with CodeNotSeen.
	Wait time.Duration
	// Sent says that the message is known to have been sent, so that Sign waits until its
	// context ends.
	Sent bool
	// Ahead says that no client has asked for the message yet. Only metrics tell such requests from others.
	Ahead bool
	// Progress, if not nil, is called with the round's account while it is
	// under way, when the account has changed or a second has passed, but at most
	// every ProgressInterval and never after Sign returned. It must not block. The
	// slices of the account are shared and must not be changed.
	Progress func(Account)
}

func (r *Request) origin() Origin {
	if r.Ahead {
		return OriginAhead
	}
	return OriginClient
}

// ProgressInterval is the least time between two reports of progress.
const ProgressInterval = 20 * time.Millisecond

// progressRepeat is the time after which progress is reported although nothing has changed, so that
// an event stream does not look dead.
const progressRepeat = time.Second

// Result is a signed message that was verified against the set it names.
type Result struct {
	Message *warp.Message
	// SigningSubnetID and PChainHeight name the validator set of the signature.
	SigningSubnetID ids.ID
	PChainHeight    uint64
	// Signers counts the distinct keys in the signature.
	Signers int
	// Weight is the weight of the signers, of TotalWeight.
	Weight, TotalWeight uint64
	// Account says what every validator did that was part of the round.
	Account Account

	made time.Time // zero if it was read from the archive
}

// MadeBefore reports whether the result existed at time t: a request that arrived at t got it from the cache or from the
// archive.
func (r *Result) MadeBefore(t time.Time) bool { return r.made.Before(t) }

// at returns the result for an equal set at another height.
func (r *Result) at(height uint64) *Result {
	if r.PChainHeight == height {
		return r
	}
	moved := *r
	moved.PChainHeight, moved.Account.PChainHeight = height, height
	return &moved
}
