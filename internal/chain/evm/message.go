package evm

import (
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
)

// Teleporter is the address of the Teleporter contract. Its deployment method gives it the same address on every chain
// (ava-labs/icm-contracts, 1.0.0).
var Teleporter = common.HexToAddress("0x253b2784c75e510dD0fF1da844684a1aC0aa5fcf")

// Message is a Teleporter message that a transaction sent or delivered.
type Message struct {
	ID common.Hash
	// Delivered is true for a message received from another chain, false for a message sent to it. BlockchainID is the
	// other chain. It is empty for a Warp message that was not sent through Teleporter and so names no destination.
	Delivered    bool
	BlockchainID ids.ID
}

// Messages returns the Teleporter messages in logs, in log order.
func Messages(logs []Log) []Message {
	var found []Message
	for i := range logs {
		l := &logs[i]
		if l.Address != Teleporter || len(l.Topics) < 3 || l.Topics[0] != sentTopic && l.Topics[0] != receivedTopic {
			continue
		}
		found = append(found, Message{ID: l.Topics[1], Delivered: l.Topics[0] == receivedTopic, BlockchainID: ids.ID(l.Topics[2])})
	}
	return found
}
