package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/node"
	"quorate/p2p"
	"quorate/validators"
)

// Code is the reason for which a request for a signature failed.
type Code string

const (
	// CodeUnknownSubnet: the node knows no such signing subnet.
	CodeUnknownSubnet Code = "UNKNOWN_SUBNET"
	// CodeUnknownBlockchain: no subnet validates the message's source blockchain, or
	// the node does not run the verifying one. The message says which.
	CodeUnknownBlockchain Code = "UNKNOWN_SOURCE_BLOCKCHAIN"
	// CodeHeightUnavailable: the P-Chain height is above the tip, was pruned, or lies further
	// back than the service looks.
	CodeHeightUnavailable Code = "P_CHAIN_HEIGHT_UNAVAILABLE"
	// CodeNoValidators: no validator of the set has a BLS key.
	CodeNoValidators Code = "NO_VALIDATORS"
	// CodeQuorumImpossible: so much weight is keyless that no quorum exists.
	CodeQuorumImpossible Code = "QUORUM_IMPOSSIBLE"
	// CodeRefused: validators of at least the blocking weight refuse.
	CodeRefused Code = "REFUSED"
	// CodeNotSeen: validators of at least the blocking weight have not seen the message, and
	// nothing shows that it was sent.
	CodeNotSeen Code = "MESSAGE_NOT_SEEN"
	// CodeQuorumNotReached: too much weight did not answer, is unreachable or sent invalid signatures.
	CodeQuorumNotReached Code = "QUORUM_NOT_REACHED"
	// CodeNodeUnavailable: no upstream node answers.
	CodeNodeUnavailable Code = "NODE_UNAVAILABLE"
	// CodeNodeBusy: as many calls to the upstream nodes as clients may cause are in progress.
	CodeNodeBusy Code = "NODE_BUSY"
	// CodeNodeFaulty: the upstream node answered with something unusable.
	CodeNodeFaulty Code = "NODE_FAULTY"
	// CodeTooManyRounds: the client has as many rounds or waiting requests as it may have at a time, or too many bytes of new messages in a second.
	CodeTooManyRounds Code = "TOO_MANY_ROUNDS"
	// CodeBusy: there are as many rounds as there may be at a time.
	CodeBusy Code = "BUSY"
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
	// RetryAfter is when a repeated request may succeed; 0 if that is not known.
	RetryAfter time.Duration
	// Err is the cause, for the log; it does not leave the service.
	Err error

	missing []missing // of Account, until its reasons are explained
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// setFailure returns the *Error for a resolver's error. height is the requested one, 0 if
// the node chose it.
func setFailure(ctx context.Context, err error, subnetID ids.ID, height uint64) error {
	switch {
	case errors.Is(err, validators.ErrUnknownSubnet):
		return &Error{Code: CodeUnknownSubnet, Message: fmt.Sprintf("signingSubnetId: the network has no subnet %s", subnetID), Err: err}
	case errors.Is(err, validators.ErrHeightUnavailable) && height == 0:
		return &Error{Code: CodeNodeUnavailable, Message: "the upstream node does not have the validators of the current P-Chain height; try again in a moment, or check the node", Err: err}
	case errors.Is(err, validators.ErrHeightTooOld):
		return &Error{Code: CodeHeightUnavailable, Message: fmt.Sprintf("pChainHeight: P-Chain height %d lies further back than max_height_age of this service allows; leave it out or use 0 for the current one", height), Err: err}
	case errors.Is(err, validators.ErrHeightUnavailable):
		return &Error{Code: CodeHeightUnavailable, Message: fmt.Sprintf("pChainHeight: no validator set is available for P-Chain height %d; leave it out or use 0 for the current one", height), Err: err}
	}
	return NodeFailure(ctx, err)
}

// NodeFailure returns the *Error for a failed call to the upstream node, or the context's
// error if ctx was cancelled.
func NodeFailure(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("asking the node: %w", context.Canceled)
	}
	if errors.Is(err, node.ErrBusy) {
		return &Error{Code: CodeNodeBusy, RetryAfter: time.Second, Message: "clients have as many calls to the upstream node in progress as they may; try again in a moment", Err: err}
	}
	var rpc *node.RPCError
	if errors.As(err, &rpc) || errors.Is(err, node.ErrMalformed) {
		return &Error{Code: CodeNodeFaulty, Message: "the upstream node gave an answer that cannot be used; try again, or check the node", Err: err}
	}
	return &Error{Code: CodeNodeUnavailable, Message: "no upstream node answers; try again in a moment", Err: err}
}

// failure returns the *Error of a round that could not serve a waiter which needs a weight. explain
// completes its reasons.
func (r *round) failure(code Code, need uint64, why func(ids.NodeID) p2p.Failure) *Error {
	account := r.account(need)
	list := r.missing(why)
	account.Reasons = shortfalls(list, keyless(r.set, validators.Incapable{}))
	failed := &Error{Code: code, Message: code.message(&account), Account: &account, missing: list}
	if code == CodeNotSeen {
		failed.RetryAfter = unseenMemory
	}
	return failed
}

// maxReasonsNamed is the number of reasons that a message names.
const maxReasonsNamed = 3

// message describes a failure with an account.
func (c Code) message(account *Account) string {
	percent := func(w uint64) float64 {
		return float64(w) / float64(account.TotalWeight) * 100
	}
	top := Refusal{}
	if len(account.Refusals) > 0 {
		top = account.Refusals[0]
	}
	text := fmt.Sprintf("validators with %.2f%% of the weight signed, %.2f%% are needed", percent(account.SignedWeight), percent(account.TargetWeight))
	switch c {
	case CodeNotSeen:
		who := "no validator has"
		if account.SignedWeight > 0 {
			who = fmt.Sprintf("few validators (%.2f%% of the weight) have", percent(account.SignedWeight))
		}
		return fmt.Sprintf(
			"%s seen the message: %q (code %d, %.2f%% of the weight); it was never sent, or its block is not accepted yet. Check the message, or repeat the request after %s; waitSeconds makes a request wait for the block",
			who, top.Message, top.Code, percent(top.Weight), unseenMemory)
	case CodeQuorumImpossible:
		text = fmt.Sprintf("validators with a BLS key hold %d of a total weight of %d at P-Chain height %d, below the %d that the quorum takes; lower quorumPercentage or wait until more validators are active",
			account.TotalWeight-account.KeylessWeight, account.TotalWeight, account.PChainHeight, account.TargetWeight)
	case CodeRefused:
		text = fmt.Sprintf("validators refuse to sign: %q (code %d, %.2f%% of the weight); %s", top.Message, top.Code, percent(top.Weight), text)
	}
	named := account.Reasons[:min(len(account.Reasons), maxReasonsNamed)]
	for i, s := range named {
		what := s.Reason.Meaning()
		if c == CodeQuorumNotReached {
			what = s.String()
		}
		text += fmt.Sprintf("%c %.2f%% %s", ":,,"[i], percent(s.Weight), what)
	}
	if len(named) > 0 {
		text += ". " + named[0].Remedy
	}
	return text
}
