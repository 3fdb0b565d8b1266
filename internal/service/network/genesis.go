package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/node"
)

// AwaitGenesis returns the genesis of a network. It asks the node until it answers or ctx ends. Both results are nil
// if the genesis is unknown; such a network has no ledger.
func AwaitGenesis(ctx context.Context, client *node.Client, networkID uint32, file string, log *slog.Logger) (g *genesis.Genesis, fees *fee.Config, err error) {
	const pause = time.Second
	for {
		g, fees, err = findGenesis(ctx, client, networkID, file)
		switch {
		case err == nil:
			return g, fees, nil
		case ctx.Err() != nil:
			return nil, nil, fmt.Errorf("asking the node for the first block: %w", context.Cause(ctx))
		case errors.Is(err, genesis.ErrUnknownNetwork):
			log.Warn("the network's genesis is not known, so that outputs and balances are not recorded; give it as genesis_file", slog.Any("error", err))
			return nil, nil, nil
		case !errors.Is(err, node.ErrUnavailable):
			return nil, nil, fmt.Errorf("finding the network's genesis: %w", err)
		}
		log.Warn("the node does not tell the first block; asking again", slog.Any("error", err))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func findGenesis(ctx context.Context, client *node.Client, networkID uint32, file string) (*genesis.Genesis, *fee.Config, error) {
	g, err := readGenesis(ctx, client, networkID, file)
	if err != nil || networkID == constants.MainnetID || networkID == constants.FujiID {
		return g, nil, err
	}
	fees, err := client.ValidatorFees(ctx)
	if err != nil {
		return nil, nil, err
	}
	return g, &fees, nil
}

func readGenesis(ctx context.Context, client *node.Client, networkID uint32, file string) (*genesis.Genesis, error) {
	if file != "" {
		return genesis.FromFile(file)
	}
	b, err := client.BlockByHeight(ctx, 0)
	if err != nil {
		return nil, err
	}
	first, err := pchain.ParseBlock(b)
	if err != nil {
		return nil, err
	}
	return genesis.Of(networkID, first.ID)
}
