package client

import "github.com/ava-labs/avalanchego/ids"

// Reason groups the validators whose weight is missing from a quorum for the same reason.
type Reason struct {
	Code ReasonCode `json:"code"`
	// Weight is the weight of all of these validators.
	Weight uint64 `json:"weight,string"`
	// Count is their number; 0 if it is not known.
	Count int `json:"count,omitempty"`
	// NodeIDs are the heaviest of them.
	NodeIDs []ids.NodeID `json:"nodeIds"`
	// Detail is what is known beyond the reason of the heaviest of them; it may be empty.
	Detail string `json:"detail,omitempty"`
	// Remedy says what to do.
	Remedy string `json:"remedy"`
}

// ReasonCode is why the weight of validators is missing. docs/errors.md explains each.
type ReasonCode string

// The reasons. Services of other versions may have further ones.
const (
	ReasonNoAddress            ReasonCode = "NO_ADDRESS"
	ReasonPrivateAddress       ReasonCode = "PRIVATE_ADDRESS"
	ReasonUnreachable          ReasonCode = "UNREACHABLE"
	ReasonConnectionClosed     ReasonCode = "CONNECTION_CLOSED"
	ReasonClock                ReasonCode = "CLOCK"
	ReasonVersion              ReasonCode = "VERSION"
	ReasonOtherNetwork         ReasonCode = "OTHER_NETWORK"
	ReasonNotConnected         ReasonCode = "NOT_CONNECTED"
	ReasonNoAnswer             ReasonCode = "NO_ANSWER"
	ReasonUnanswered           ReasonCode = "UNANSWERED"
	ReasonNotAsked             ReasonCode = "NOT_ASKED"
	ReasonNotTracked           ReasonCode = "NOT_TRACKED"
	ReasonWrongSigningSubnet   ReasonCode = "WRONG_SIGNING_SUBNET"
	ReasonLegacyValidator      ReasonCode = "LEGACY_VALIDATOR"
	ReasonNotAccepted          ReasonCode = "NOT_ACCEPTED"
	ReasonPChainBehind         ReasonCode = "P_CHAIN_BEHIND"
	ReasonPayloadRefused       ReasonCode = "PAYLOAD_REFUSED"
	ReasonJustificationRefused ReasonCode = "JUSTIFICATION_REFUSED"
	ReasonNotAllowed           ReasonCode = "NOT_ALLOWED"
	ReasonThrottled            ReasonCode = "THROTTLED"
	ReasonRefused              ReasonCode = "REFUSED"
	ReasonInvalidSignature     ReasonCode = "INVALID_SIGNATURE"
	ReasonInactiveL1Validator  ReasonCode = "INACTIVE_L1_VALIDATOR"
	ReasonNoBLSKey             ReasonCode = "NO_BLS_KEY"
	ReasonKeyless              ReasonCode = "KEYLESS"
)
