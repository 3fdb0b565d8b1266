package signing

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/aggregator/evmmessage"
	"quorate/aggregator/l1message"
	"quorate/handlers/apierr"
	"quorate/internal/store"
)

// failure returns the error for the client if there is no signed message. ctx is the request's context: once it is
// cancelled, the client has disconnected.
func failure(ctx context.Context, err error, f form) error {
	if apierr.HasGone(ctx) {
		return apierr.ErrClientGone
	}
	var failed *aggregator.Error
	switch {
	case errors.As(err, &failed):
		return explain(failed, f)
	case ctx.Err() != nil:
		return apierr.Stopping(err)
	case errors.Is(err, store.ErrUnavailable):
		return apierr.Unreadable(err)
	case errors.Is(err, context.DeadlineExceeded):
		return apierr.Unavailable(err, "the message could not be signed in the time allowed for a request; try again in a moment")
	default:
		e := apierr.Internal(err)
		e.Code = string(aggregator.CodeInternal)
		return e
	}
}

// explain maps an aggregation failure to a status. It is a 4xx only if a changed request can succeed.
func explain(failed *aggregator.Error, f form) *apierr.Error {
	e := &apierr.Error{Code: string(failed.Code), RetryAfter: failed.RetryAfter, Err: failed}
	if failed.Account != nil {
		e.Outcomes = outcomes(*failed.Account)
	}
	parameter := ""
	switch failed.Code {
	case aggregator.CodeUnknownSubnet:
		e.Status, parameter = http.StatusBadRequest, dataForm.signingSubnetID
	case aggregator.CodeUnknownBlockchain:
		e.Status, parameter = http.StatusBadRequest, dataForm.message
	case aggregator.CodeHeightUnavailable:
		e.Status, parameter = http.StatusBadRequest, dataForm.pChainHeight
	case l1message.CodeXChain, l1message.CodeNoMessage, evmmessage.CodeReverted:
		e.Status, parameter = http.StatusBadRequest, txHashParameter
	case l1message.CodeUnknownTransaction, l1message.CodeDropped, l1message.CodeRegistrationNotFound:
		e.Status, parameter = http.StatusNotFound, txHashParameter
	case evmmessage.CodeUnknownChain:
		e.Status, parameter = http.StatusNotFound, chainParameter
	case aggregator.CodeNotSeen: // no failure of the service
		e.Status = http.StatusNotFound
	case aggregator.CodeTooManyRounds:
		e.Status = http.StatusTooManyRequests
	case l1message.CodeProcessing:
		e.Status, e.RetryAfter = http.StatusServiceUnavailable, time.Second // the next block usually takes less
	case aggregator.CodeBusy, aggregator.CodeNodeUnavailable, aggregator.CodeNodeBusy, aggregator.CodeShutdown, l1message.CodeNotIndexed:
		e.Status = http.StatusServiceUnavailable
	case aggregator.CodeNodeFaulty:
		e.Status = http.StatusBadGateway
	case aggregator.CodeNoValidators, aggregator.CodeQuorumImpossible, aggregator.CodeRefused, aggregator.CodeQuorumNotReached, l1message.CodeSuperseded:
		e.Status = http.StatusInternalServerError
	default:
		internal := apierr.Internal(failed)
		internal.Code = string(aggregator.CodeInternal)
		return internal
	}
	e.Message = failed.Message
	if parameter != "" && !namesParameter(e.Message) {
		e.Message = parameter + ": " + e.Message
	}
	if f.peer {
		e.Message = peerNames.Replace(e.Message)
	}
	return e
}

// namesParameter reports whether a message begins with a parameter, for example "message: ...".
func namesParameter(message string) bool {
	name, _, ok := strings.Cut(message, ":")
	return ok && !strings.Contains(name, " ")
}

// peerNames replaces the field names in the aggregator's messages by those of the peer form. A name must follow longer
// names that begin with it.
var peerNames = strings.NewReplacer(
	dataForm.quorumPercentageBuffer, peerForm.quorumPercentageBuffer,
	dataForm.quorumPercentage, peerForm.quorumPercentage,
	dataForm.signingSubnetID, peerForm.signingSubnetID,
	dataForm.pChainHeight, peerForm.pChainHeight,
	dataForm.verifyingBlockchainID, peerForm.verifyingBlockchainID,
	dataForm.waitSeconds, peerForm.waitSeconds,
)

// outcomes returns an account whose empty lists are [] rather than null.
func outcomes(a aggregator.Account) aggregator.Account {
	if a.Refusals == nil {
		a.Refusals = []aggregator.Refusal{}
	}
	if a.SilentNodes == nil {
		a.SilentNodes = []ids.NodeID{}
	}
	return a
}
