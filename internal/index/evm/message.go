package evm

import (
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	"quorate/internal/chain/evm"
)

// sendWarpTopic and warpPrecompile identify the logs of messages sent through the Warp precompile (avalanchego,
// precompile contract of warp).
var (
	sendWarpTopic  = crypto.Keccak256Hash([]byte("SendWarpMessage(address,bytes32,bytes)"))
	warpPrecompile = common.HexToAddress("0x0200000000000000000000000000000000000005")
)

// messageOf returns the interchain message in the logs of a transaction: the first Teleporter message, else the first
// Warp message, whose destination is unknown, or nil.
func messageOf(logs []evm.Log) *evm.Message {
	if messages := evm.Messages(logs); len(messages) > 0 {
		return &messages[0]
	}
	for i := range logs {
		l := &logs[i]
		if l.Address == warpPrecompile && len(l.Topics) == 3 && l.Topics[0] == sendWarpTopic {
			return &evm.Message{ID: l.Topics[2]}
		}
	}
	return nil
}
