package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/validators/fee"

	"quorate/internal/chain/genesis"
	"quorate/internal/chain/pchain"
	"quorate/internal/node"
)

// Beginning is what the ledger of a network begins with. The zero value means no ledger.
type Beginning struct {
	Genesis *genesis.Genesis
	// ValidatorFees and Upgrades are nil for public networks, whose parameters the library has.
	ValidatorFees *fee.Config
	Upgrades      *upgrade.Config
}

// AwaitGenesis returns the beginning of a network. It asks the node until it answers or ctx ends. The result is zero if
// the genesis is unknown.
func AwaitGenesis(ctx context.Context, client *node.Client, networkID uint32, file string, log *slog.Logger) (Beginning, error) {
	const pause = time.Second
	for {
		b, err := findGenesis(ctx, client, networkID, file, log)
		switch {
		case err == nil:
			return b, nil
		case ctx.Err() != nil:
			return Beginning{}, fmt.Errorf("asking the node for the first block: %w", context.Cause(ctx))
		case errors.Is(err, genesis.ErrUnknownNetwork):
			log.Warn("the network's genesis is not known, so that outputs and balances are not recorded; give it as genesis_file", slog.Any("error", err))
			return Beginning{}, nil
		case !errors.Is(err, node.ErrUnavailable):
			return Beginning{}, fmt.Errorf("finding the network's genesis: %w", err)
		}
		log.Warn("the node does not tell the first block; asking again", slog.Any("error", err))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func findGenesis(ctx context.Context, client *node.Client, networkID uint32, file string, log *slog.Logger) (b Beginning, err error) {
	b.Genesis, err = readGenesis(ctx, client, networkID, file)
	if err != nil || networkID == constants.MainnetID || networkID == constants.FujiID {
		return b, err
	}
	fees, err := client.ValidatorFees(ctx)
	if err != nil {
		return Beginning{}, err
	}
	b.ValidatorFees = &fees
	switch upgrades, err := client.Upgrades(ctx, networkID); {
	case errors.Is(err, node.ErrNotOffered):
		log.Warn("the node does not tell the times of upgrades; those of a default network are assumed", slog.Any("error", err))
	case err != nil:
		return Beginning{}, err
	default:
		b.Upgrades = &upgrades
	}
	return b, nil
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
