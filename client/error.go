package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// ErrBadAnswer reports an answer that cannot be used: it is not JSON, it is too long, it
// redirects, or its message is not the one that was asked for. The server may not be quorate.
var ErrBadAnswer = errors.New("the server's answer cannot be used")

// Code is the reason of a failure.
type Code string

// Codes of failures. Services of other versions may answer with further ones.
const (
	// CodeQuorumNotReached: too much weight timed out or is not connected.
	CodeQuorumNotReached Code = "QUORUM_NOT_REACHED"
	// CodeNotSeen: the validators have not seen the message. It was never sent, or its block
	// is not accepted yet.
	CodeNotSeen Code = "MESSAGE_NOT_SEEN"
	// CodeRefused: validators that block the quorum refuse to sign.
	CodeRefused Code = "REFUSED"
	// CodeQuorumImpossible: validators without a key or balance hold too much weight.
	CodeQuorumImpossible Code = "QUORUM_IMPOSSIBLE"
	// CodeNoValidators: no validator of the set can sign.
	CodeNoValidators Code = "NO_VALIDATORS"
	// CodeUnknownSubnet: the network has no such signing subnet.
	CodeUnknownSubnet Code = "UNKNOWN_SUBNET"
	// CodeUnknownBlockchain: the network has no such source or verifying blockchain.
	CodeUnknownBlockchain Code = "UNKNOWN_SOURCE_BLOCKCHAIN"
	// CodeHeightUnavailable: the validator set of the P-Chain height is not available.
	CodeHeightUnavailable Code = "P_CHAIN_HEIGHT_UNAVAILABLE"

	// CodeUnknownTransaction: the chain does not know the transaction.
	CodeUnknownTransaction Code = "UNKNOWN_TRANSACTION"
	// CodeTransactionDropped: the P-Chain did not accept the transaction.
	CodeTransactionDropped Code = "TRANSACTION_DROPPED"
	// CodeXChainTransaction: the transaction belongs to the X-Chain, which sends no messages.
	CodeXChainTransaction Code = "X_CHAIN_TRANSACTION"
	// CodeNoMessage: no message follows from the transaction.
	CodeNoMessage Code = "NO_WARP_MESSAGE"
	// CodeTransactionReverted: the EVM transaction failed, so it sent nothing.
	CodeTransactionReverted Code = "TRANSACTION_REVERTED"
	// CodeTransactionProcessing: the transaction is not accepted yet.
	CodeTransactionProcessing Code = "TRANSACTION_PROCESSING"
	// CodeTooManyMessages: the EVM transaction sent more messages than a request may sign.
	CodeTooManyMessages Code = "TOO_MANY_MESSAGES"
	// CodeUnknownChain: no Ethereum API of the chain is configured.
	CodeUnknownChain Code = "CHAIN_NOT_CONFIGURED"
	// CodeSuperseded: a newer change of the validator's weight replaced this one.
	CodeSuperseded Code = "SUPERSEDED"
	// CodeRegistrationNotFound: the index does not hold the registration of a removed validator.
	CodeRegistrationNotFound Code = "REGISTRATION_NOT_FOUND"

	// CodeRateLimited: the allowance of the API key or of the client IP address is used up.
	CodeRateLimited Code = "RATE_LIMITED"
	// CodeTooManyRounds: the client has as many messages signed as it may, at a time or by their size in a second.
	CodeTooManyRounds Code = "TOO_MANY_ROUNDS"
	// CodeTooManyStreams: the client has as many streams as it may.
	CodeTooManyStreams Code = "TOO_MANY_STREAMS"
	// CodeEventsGone: the events after a cursor are not stored any more.
	CodeEventsGone Code = "EVENTS_GONE"
	// CodeBusy: the service signs as many messages at a time as it may, or has no memory for another large answer.
	CodeBusy Code = "BUSY"
	// CodeNodeBusy: as many calls to the upstream node as clients may cause are in progress.
	CodeNodeBusy Code = "NODE_BUSY"
	// CodeNodeUnavailable: no upstream node answers.
	CodeNodeUnavailable Code = "NODE_UNAVAILABLE"
	// CodeNodeFaulty: the upstream node gave an unusable answer.
	CodeNodeFaulty Code = "NODE_FAULTY"
	// CodeShuttingDown: the service is stopping.
	CodeShuttingDown Code = "SHUTTING_DOWN"
	// CodeInternal: a fault of the service itself.
	CodeInternal Code = "INTERNAL"

	// CodeNotIndexed: what the transaction refers to is not indexed yet, or the index cannot be read at the moment.
	CodeNotIndexed Code = "NOT_INDEXED"
	// CodeIndexCatchingUp: a chain is not indexed to its tip yet.
	CodeIndexCatchingUp Code = "INDEX_CATCHING_UP"
	// CodeIndexLacksSource: the index needs further configuration.
	CodeIndexLacksSource Code = "INDEX_LACKS_SOURCE"
	// CodeIndexStopped: indexing ended with an error.
	CodeIndexStopped Code = "INDEX_STOPPED"
	// CodeIndexBeginsLater: the index begins after what the request needs.
	CodeIndexBeginsLater Code = "INDEX_BEGINS_LATER"
	// CodeIndexUntraced: no block of the chain has call traces.
	CodeIndexUntraced Code = "INDEX_UNTRACED"
	// CodeIndexOff: the operation needs an optional index that is off.
	CodeIndexOff Code = "INDEX_OFF"
)

// Error is a failure that the server reported. For errors.Is, two of them are equal if their Codes are:
//
//	if errors.Is(err, &client.Error{Code: client.CodeQuorumNotReached}) { ... }
type Error struct {
	// Code may be empty, for example if a field of the request is wrong.
	Code Code
	// Status is the HTTP status. For a message of a batch or of an EVM transaction, it is the
	// status that the message would have had by itself.
	Status int
	// Message says what failed and what to do.
	Message string
	// RetryAfter is when to repeat the request, according to the server; 0 if it does not say.
	RetryAfter time.Duration
	// Outcomes is the account of a failed round; nil if no validator was asked.
	Outcomes *Account
	// RequestID identifies the request in the server's log; it may be empty.
	RequestID string

	err error // ErrBadAnswer if the body is not the server's error format
}

func (e *Error) Error() string {
	text := fmt.Sprintf("quorate: status %d", e.Status)
	if e.Code != "" {
		text += ", " + string(e.Code)
	}
	return text + ": " + e.Message
}

// Is reports whether target is an *Error with the same Code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code != "" && other.Code == e.Code
}

func (e *Error) Unwrap() error { return e.err }

// Account sums up the weights of a round. Signed, Unproven, Refused, Invalid, Silent, Unanswered,
// Unasked, Disconnected and Keyless together are TotalWeight.
type Account struct {
	SigningSubnetID ids.ID `json:"signingSubnetId"`
	PChainHeight    uint64 `json:"pChainHeight"`
	// TargetWeight is the least weight that meets the quorum.
	TargetWeight uint64 `json:"targetWeight,string"`
	TotalWeight  uint64 `json:"totalWeight,string"`
	// ConnectedWeight was connected when the round ended.
	ConnectedWeight uint64 `json:"connectedWeight,string"`
	// SignedWeight has verified signatures.
	SignedWeight uint64 `json:"signedWeight,string"`
	// UnprovenWeight answered with signatures that were not needed and not verified.
	UnprovenWeight uint64 `json:"unprovenWeight,string"`
	// InvalidWeight answered with something that is not a valid signature.
	InvalidWeight uint64 `json:"invalidWeight,string"`
	// SilentWeight was asked and timed out.
	SilentWeight uint64 `json:"silentWeight,string"`
	// UnansweredWeight was asked and still had time to answer when the round ended.
	UnansweredWeight uint64 `json:"unansweredWeight,string"`
	// DisconnectedWeight was not asked because it has no connection.
	DisconnectedWeight uint64 `json:"disconnectedWeight,string"`
	// UnaskedWeight was connected, but not needed.
	UnaskedWeight uint64 `json:"unaskedWeight,string"`
	// KeylessWeight cannot sign, yet counts in TotalWeight: it has no BLS key, or belongs to
	// inactive L1 validators.
	KeylessWeight uint64 `json:"keylessWeight,string"`
	// RefusedWeight answered with an error. Refusals lists the errors, heaviest first.
	RefusedWeight uint64    `json:"refusedWeight,string"`
	Refusals      []Refusal `json:"refusals"`
	// SilentNodes lists the heaviest validators that timed out or had no connection.
	SilentNodes []ids.NodeID `json:"silentNodes"`
	// Reasons says why weight is missing, with the remedy. Older services do not send it.
	Reasons []Reason `json:"reasons,omitempty"`
}

// Refusal groups the validators that refused with the same error.
type Refusal struct {
	Code    int32  `json:"code"`
	Message string `json:"message"`
	Weight  uint64 `json:"weight,string"`
	Count   int    `json:"count"`
}

// failure is the server's format of errors. Outcomes are decoded separately, so that an account
// of an unknown form does not hide the error.
type failure struct {
	Message    string          `json:"message"`
	StatusCode int             `json:"statusCode"`
	Code       Code            `json:"code"`
	Outcomes   json.RawMessage `json:"outcomes"`
}

func (f failure) error() *Error {
	e := &Error{Code: f.Code, Status: f.StatusCode, Message: f.Message}
	if f.Message == "" {
		e.Message, e.err = "the server gives no reason", ErrBadAnswer
	}
	if len(f.Outcomes) > 0 {
		var account *Account
		if json.Unmarshal(f.Outcomes, &account) == nil {
			e.Outcomes = account
		}
	}
	return e
}

// newError returns the error of a response whose status is not that of a success.
func newError(response *http.Response, content []byte) *Error {
	var body failure
	var e *Error
	if err := json.Unmarshal(content, &body); err == nil && body.Message != "" {
		e = body.error()
	} else {
		e = &Error{Message: fmt.Sprintf("the server answered with status %d and no JSON", response.StatusCode), err: ErrBadAnswer}
		if target := response.Header.Get("Location"); target != "" {
			e.Message = fmt.Sprintf("the server redirects to %q, which is not followed; use the URL of the service itself", clip(target))
		}
	}
	e.Status = response.StatusCode
	e.RetryAfter = retryAfter(response.Header, time.Now())
	e.RequestID = clip(response.Header.Get("X-Request-Id"))
	return e
}

// retryAfter parses the header Retry-After (RFC 9110, 10.2.3): seconds, or a date, which counts
// from the server's own. It returns 0 if the header is absent, invalid or in the past.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return max(0, until.Sub(now))
}

// clip bounds text that the server chose.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.ToValidUTF8(text, "")
}
