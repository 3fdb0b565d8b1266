package evm

import "quorate/internal/chain/evm"

// messageOf returns the interchain message in the logs of a transaction: the first Teleporter message, else the first
// Warp message, whose destination is unknown, or nil.
func messageOf(logs []evm.Log) *evm.Message {
	if messages := evm.Messages(logs); len(messages) > 0 {
		return &messages[0]
	}
	for i := range logs {
		if l := &logs[i]; l.SendsWarp() {
			return &evm.Message{ID: l.Topics[2]}
		}
	}
	return nil
}
