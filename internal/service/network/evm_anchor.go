package network

import (
	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/anchor"
	"quorate/internal/index"
	"quorate/internal/index/evm"
)

// newAnchor returns what proves the index of a chain.
func (r *evmIndexes) newAnchor(e *evmIndex, read *evm.Index, blockchainID ids.ID) (*anchor.Anchor, error) {
	o := anchor.Options{
		NetworkID: r.networkID, BlockchainID: blockchainID, Chain: e.name, Signer: r.signer, Index: read, Store: r.store, Metrics: r.metrics, Log: r.log,
		Slot: r.slots.Switches,
		Near: func() bool {
			status := e.pipeline.Status()
			return status.CaughtUp && status.Lag() <= index.NearTip
		},
	}
	return anchor.New(o)
}
