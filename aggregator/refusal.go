package aggregator

import (
	"fmt"
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
		// The codes of the EVM families overlap, and one of them calls a message
		// that it has not seen yet an "unknown payload type" (code 1), so only
		// the text tells what cannot be parsed.
		return strings.Contains(refusal.Message, "parse")
	}
	switch refusal.Code {
	case platformnetwork.ErrConversionDoesNotExist,
		platformnetwork.ErrValidationDoesNotExist,
		platformnetwork.ErrValidationExists,
		platformnetwork.ErrWrongWeight:
		return false
	case platformnetwork.ErrWrongNonce:
		return superseded(refusal.Message)
	}
	return true
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
