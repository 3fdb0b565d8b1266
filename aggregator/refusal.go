package aggregator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/p2p"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	platformnetwork "github.com/ava-labs/avalanchego/vms/platformvm/network"
)

// definite reports whether a validator's refusal will not change by waiting.
// Everything else reads as "not accepted yet": the message's block or
// transaction may not have reached that validator, so it is asked again.
//
// Codes below zero are the P2P SDK's (avalanchego, network/p2p), those above
// belong to the source blockchain's VM: platformvm/network for the P-Chain,
// saevm/cchain/warp and subnet-evm's warp for EVM chains.
func definite(sourceChainID ids.ID, refusal *common.AppError) bool {
	switch refusal.Code {
	case p2p.ErrUnregisteredHandler.Code, p2p.ErrNotValidator.Code:
		return true
	case p2p.ErrThrottled.Code, common.ErrUndefined.Code:
		return false
	case p2p.ErrUnexpected.Code:
		// What the handler itself says (avalanchego, network/p2p/acp118), and the
		// signer behind it, which knows one network and one blockchain.
		for _, cause := range []string{"parse", "unmarshal", warp.ErrWrongNetworkID.Error(), warp.ErrWrongSourceChainID.Error()} {
			if strings.Contains(refusal.Message, cause) {
				return true
			}
		}
		return false
	}
	if sourceChainID != constants.PlatformChainID {
		// The codes of the EVM families overlap, so only the text shows what cannot be
		// parsed.
		return !unseen(sourceChainID, refusal) && (strings.Contains(refusal.Message, "parse") || strings.Contains(refusal.Message, "parsing"))
	}
	switch refusal.Code {
	case platformnetwork.ErrConversionDoesNotExist,
		platformnetwork.ErrValidationDoesNotExist,
		platformnetwork.ErrValidationExists,
		platformnetwork.ErrValidationCouldBeRegistered: // no longer after its expiry, or its removal
		return false
	case platformnetwork.ErrWrongNonce:
		return superseded(refusal.Message)
	}
	return true
}

// Codes of the SAE C-Chain (avalanchego, vms/saevm/cchain/warp, which takes a whole VM to
// import).
const (
	saeUnknownMessage = 3
	saeNotAccepted    = 4
)

// unseenTexts are parts of what EVM chains answer to a message that they have not seen:
// coreth and subnet-evm (graft, warp/verifier_backend.go). subnet-evm
// takes a message that it has not seen for an off-chain one.
var unseenTexts = []string{
	"unknown payload type",
	"failed to parse addressed call message",
	"source address should be empty for",
	"unknown message type",
	"failed to get block",
}

// unseen reports whether a validator refuses because it has not seen the message, or
// because the state of its P-Chain does not attest it: the message was never sent, or its
// block is not accepted yet.
func unseen(sourceChainID ids.ID, refusal *common.AppError) bool {
	if refusal.Code <= 0 {
		return false
	}
	if sourceChainID == constants.PlatformChainID {
		return !definite(sourceChainID, refusal)
	}
	return refusal.Code == saeUnknownMessage || refusal.Code == saeNotAccepted ||
		slices.ContainsFunc(unseenTexts, func(text string) bool { return strings.Contains(refusal.Message, text) })
}

// superseded reads a P-Chain refusal of a nonce and reports whether a newer
// weight change was already accepted, which no waiting undoes.
func superseded(text string) bool {
	var provided, expected uint64
	if _, err := fmt.Sscanf(text, "provided nonce %d != expected nonce (%d - 1)", &provided, &expected); err != nil {
		return false
	}
	return provided < expected
}
