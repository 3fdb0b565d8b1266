package network

import (
	"context"

	"quorate/internal/index/primary"
)

// Verify verifies the index of a network that no process is indexing. It calls tell after each step. options must have
// a name, a configuration, a log and the store.
func Verify(ctx context.Context, options Options, o primary.VerifyOptions, tell func(primary.Verification)) error {
	n := &Network{Name: options.Name, log: options.Log}
	client, err := NewClient(&options)
	if err != nil {
		return err
	}
	defer client.Close()
	n.Node = client
	if n.ID, err = client.NetworkID(ctx); err != nil {
		return err
	}
	var from origin
	if options.Config.RecordsLedger() {
		if from = findOrigin(ctx, client, n.ID, options.Name, options.Config.GenesisFile, options.Log); from.missing != nil {
			return from.missing
		}
	}
	chains, err := newIndexer(n, options, from, nil, nil)
	if err != nil {
		return err
	}
	_, err = chains.Verify(ctx, o, tell)
	return err
}
