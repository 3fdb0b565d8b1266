package main

import (
	"context"

	"quorate/index/primary"
)

// verifyNetwork checks what a store has of a network that nobody records meanwhile. Tell
// hears of each step. Options need a name, a configuration, a log and the store.
func verifyNetwork(ctx context.Context, options networkOptions, o primary.VerifyOptions, tell func(primary.Verification)) error {
	n := &network{name: options.name, log: options.log}
	client, err := newClient(options)
	if err != nil {
		return err
	}
	defer client.Close()
	n.node = client
	if n.id, err = client.NetworkID(ctx); err != nil {
		return err
	}
	if options.config.ledger() {
		if options.genesis, options.validatorFees, err = findGenesis(ctx, client, n.id, options.config.GenesisFile); err != nil {
			return err
		}
	}
	chains, err := newRecorder(n, options, nil, nil)
	if err != nil {
		return err
	}
	_, err = chains.Verify(ctx, o, tell)
	return err
}
