package measure

import (
	"strings"
	"unicode"

	"github.com/ava-labs/avalanchego/snow/engine/common"
)

// notAccepted reports whether a node refuses because it has not accepted the block, or does
// not have it any more: the texts of the SAE C-Chain (avalanchego, vms/saevm/cchain/warp) and
// of coreth and subnet-evm (graft, warp/verifier_backend.go).
func notAccepted(refusal *common.AppError) bool {
	return strings.Contains(refusal.Message, "block not marked as accepted") || strings.Contains(refusal.Message, "failed to get block")
}

const (
	// maxText bounds the text of a refusal, in bytes.
	maxText = 200
	// maxRefusals bounds the different refusals that are recorded of a node.
	maxRefusals = 8
)

// printable returns a text of a node without what a terminal would interpret.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return strings.TrimSpace(text)
}
