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
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/retry"
)

// origin is how a network began: the initial state of the ledger.
type origin struct {
	genesis *genesis.Genesis // nil if it is unknown or not needed
	// fees and upgrades are nil for public networks, whose parameters the library has.
	fees     *fee.Config
	upgrades *upgrade.Config
	// missing is why genesis is nil although the ledger is to be indexed; nil otherwise.
	missing error
}

// awaitOrigin asks the node for the first block, with increasing pauses, until the genesis is known or ctx ends. It
// calls failed with each new reason why it is not.
func (n *Network) awaitOrigin(ctx context.Context, failed func(error)) (from origin, err error) {
	last := ""
	err = retry.Pauses{First: time.Second, Longest: time.Minute}.Do(ctx, func() error {
		from = findOrigin(ctx, n.Node, n.ID, n.Name, n.file, n.log)
		return from.missing
	}, func(err error, _ time.Duration) {
		if ctx.Err() != nil || err.Error() == last {
			return
		}
		last = err.Error()
		failed(err)
		n.log.Warn("X-Chain, C-Chain and P-Chain outputs wait to be indexed until the genesis is known; asking again. Signing does not wait", slog.Any("error", err))
	})
	return from, err
}

// findOrigin asks once. Its result has either a genesis or why it is missing.
func findOrigin(ctx context.Context, client *node.Client, networkID uint32, name, file string, log *slog.Logger) origin {
	g, err := readGenesis(ctx, client, networkID, file)
	if err != nil {
		return origin{missing: needed(err, name)}
	}
	if networkID == constants.MainnetID || networkID == constants.FujiID {
		return origin{genesis: g}
	}
	fees, err := client.ValidatorFees(ctx)
	if err != nil {
		return origin{missing: fmt.Errorf("asking the node for the validator fees: %w", err)}
	}
	from := origin{genesis: g, fees: &fees}
	switch upgrades, err := client.Upgrades(ctx, networkID); {
	case errors.Is(err, node.ErrNotOffered):
		log.Warn("the node does not report the times of upgrades; those of a default network are assumed", slog.Any("error", err))
	case err != nil:
		return origin{missing: fmt.Errorf("asking the node for the times of upgrades: %w", err)}
	default:
		from.upgrades = &upgrades
	}
	return from
}

// needed says what the operator must do about a genesis that no later attempt finds.
func needed(err error, name string) error {
	option := "networks." + name + ".genesis_file"
	var refused *node.RPCError
	switch {
	case errors.Is(err, genesis.ErrUnknownNetwork):
		return &index.MissingError{Lacks: "the network's genesis is not known", Do: "set " + option + " to the file that its nodes were started with", Err: err}
	case errors.As(err, &refused) && refused.NotOffered():
		return &index.MissingError{Lacks: "the node does not offer " + refused.Method + ", so the network's genesis is not known", Do: "set " + option + ", or use a node that does", Err: err}
	}
	return err
}

func readGenesis(ctx context.Context, client *node.Client, networkID uint32, file string) (*genesis.Genesis, error) {
	if file != "" {
		g, err := genesis.FromFile(file)
		if err != nil {
			return nil, &index.MissingError{Lacks: "genesis_file cannot be used", Do: "correct it and restart", Err: err}
		}
		return g, nil
	}
	b, err := client.BlockByHeight(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("asking the node for the genesis block: %w", err)
	}
	first, err := pchain.ParseBlock(b)
	if err != nil {
		return nil, fmt.Errorf("reading the genesis block: %w", err)
	}
	return genesis.Of(networkID, first.ID)
}
