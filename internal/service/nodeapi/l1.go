package nodeapi

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/rpc"
	"quorate/internal/service/network"
)

// addL1s forwards the Ethereum API and the proposervm of each configured EVM chain, once its node has reported the
// chain's blockchain ID.
func addL1s(a *API) error {
	for _, l1 := range a.network.L1s() {
		a.during(func(ctx context.Context) {
			id, ok := a.awaitBlockchainID(ctx, l1)
			if !ok || id == a.cChainID {
				return
			}
			if err := a.addL1(id, l1); err != nil {
				a.log.Error("the API of an EVM chain is not forwarded", slog.String("chain", l1.Name), slog.Any("error", err))
			}
		})
	}
	return nil
}

// awaitBlockchainID asks an EVM chain for its blockchain ID until it answers or ctx ends.
func (a *API) awaitBlockchainID(ctx context.Context, l1 network.L1API) (id ids.ID, ok bool) {
	err := askAgain.Do(ctx, func() (err error) {
		id, err = l1.Ethereum.EVM("").BlockchainID(ctx)
		return err
	}, func(err error, _ time.Duration) {
		a.log.Debug("an EVM chain has not reported its blockchain ID", slog.String("chain", l1.Name), slog.Any("error", err))
	})
	if err == nil && id == ids.Empty {
		a.log.Warn("the API of an EVM chain is not forwarded, because it does not report its blockchain ID; use a URL of the form .../ext/bc/BLOCKCHAIN_ID/rpc", slog.String("chain", l1.Name))
	}
	return id, err == nil && id != ids.Empty
}

func (a *API) addL1(id ids.ID, l1 network.L1API) error {
	err := errors.Join(a.aliases.Alias(id, id.String()), a.addEthereum(chainBase(id), l1.Ethereum, ""))
	if l1.Proposer == nil {
		return err
	}
	return errors.Join(err, a.addService(chainBase(id), "/proposervm", "", rpc.Endpoint{Upstream: l1.Proposer}))
}
