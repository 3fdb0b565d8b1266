package aggregator

import "fmt"

// Code says in one word why a request for a signature failed.
type Code string

const (
	// CodeUnknownSubnet: the node knows no such signing subnet.
	CodeUnknownSubnet Code = "UNKNOWN_SUBNET"
	// CodeUnknownBlockchain: no subnet validates the message's source blockchain.
	CodeUnknownBlockchain Code = "UNKNOWN_SOURCE_BLOCKCHAIN"
	// CodeHeightUnavailable: the P-Chain height is above the tip or was pruned.
	CodeHeightUnavailable Code = "P_CHAIN_HEIGHT_UNAVAILABLE"
	// CodeNoValidators: nobody in the set has a BLS key.
	CodeNoValidators Code = "NO_VALIDATORS"
	// CodeQuorumImpossible: so much weight is keyless that no quorum exists.
	CodeQuorumImpossible Code = "QUORUM_IMPOSSIBLE"
	// CodeRefused: validators of at least the blocking weight refuse.
	CodeRefused Code = "REFUSED"
	// CodeQuorumNotReached: too much weight is silent, unreachable or invalid.
	CodeQuorumNotReached Code = "QUORUM_NOT_REACHED"
	// CodeNodeUnavailable: no upstream node answers.
	CodeNodeUnavailable Code = "NODE_UNAVAILABLE"
	// CodeNodeFaulty: the upstream node answered with something unusable.
	CodeNodeFaulty Code = "NODE_FAULTY"
	// CodeShutdown: the service is stopping.
	CodeShutdown Code = "SHUTTING_DOWN"
	// CodeInternal: a fault of the service itself.
	CodeInternal Code = "INTERNAL"
)

// Error is a failed request for a signature.
type Error struct {
	Code Code
	// Message is a full sentence for the user, with what to do about it.
	Message string
	// Account is present once a round was run.
	Account *Account
	// Err is the cause, for the log; it does not leave the service.
	Err error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }
