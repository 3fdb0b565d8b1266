package evm

import (
	"cmp"
	"context"
	"errors"

	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index/evm"
)

func (a *API) metricChainOperations() []operation.Operation {
	const emptyFields = "The name and the subnet of an L1 come from the index of the P-Chain; both are empty without it. "
	return []operation.Operation{
		{
			ID: "listMetricChains", Path: "/v2/chains", Tag: "Chain metrics",
			Summary:     "EVM chains with metrics",
			Description: emptyFields + "Chains whose optional index `" + string(evm.ChainMetrics) + "` is off are not listed.",
			Index:       metricsIndex,
			Parameters:  []query.Parameter{chainNetwork},
			Returns:     "The chains, all on one page.", Schema: "MetricChainList",
			Handle: a.serveICM(a.listMetricChains),
		},
		{
			ID: "getMetricChain", Path: "/v2/chains/{chainId}", Tag: "Chain metrics",
			Summary:     "An EVM chain with metrics",
			Description: emptyFields + "Needs the optional index `" + string(evm.ChainMetrics) + "`: 503 with code `INDEX_OFF` without it.",
			Index:       metricsIndex,
			Parameters:  []query.Parameter{ChainIDParameter},
			Returns:     "The chain.", Schema: "MetricChain",
			Handle: a.serve(a.getMetricChain),
		},
	}
}

// metricChain is a chain as the Metrics API describes it.
type metricChain struct {
	EVMChainID   uint64 `json:"evmChainId"`
	ChainName    string `json:"chainName"`
	BlockchainID string `json:"blockchainId"`
	SubnetID     string `json:"subnetId"`
	Network      string `json:"network"`
}

// metricChain returns a chain in the form of the Metrics API.
func (a *API) metricChain(ctx context.Context, of *Chain) (metricChain, error) {
	d, err := a.describe(ctx, of)
	if err != nil {
		return metricChain{}, err
	}
	shown := metricChain{EVMChainID: of.ChainID, ChainName: d.ChainName, BlockchainID: of.BlockchainID.String(), SubnetID: d.SubnetID, Network: "testnet"}
	if of.Primary {
		shown.SubnetID = cmp.Or(shown.SubnetID, constants.PrimaryNetworkID.String())
	}
	if !d.Testnet {
		shown.Network = "mainnet"
	}
	return shown, nil
}

// hasMetrics returns an *evm.OffError if a chain's metrics are not indexed.
func hasMetrics(ctx context.Context, of *Chain) error {
	_, err := of.Index.Periods(ctx, evm.PeriodQuery{Interval: evm.Daily, Limit: 1})
	return err
}

func (a *API) listMetricChains(ctx context.Context, r operation.Request) error {
	network := readNetwork(r.Query, chainNetwork.Name)
	if err := r.Query.Err(); err != nil {
		return err
	}
	chains, err := a.everyChain(network)
	if err != nil {
		return err
	}
	answer := struct {
		Chains []metricChain `json:"chains"`
	}{[]metricChain{}}
	for _, of := range chains {
		var off *evm.OffError
		if err := hasMetrics(ctx, of); errors.As(err, &off) {
			continue
		} else if err != nil {
			return err
		}
		shown, err := a.metricChain(ctx, of)
		if err != nil {
			return err
		}
		answer.Chains = append(answer.Chains, shown)
	}
	return reply.JSON(r, answer)
}

func (a *API) getMetricChain(ctx context.Context, r operation.Request, of *Chain) error {
	if err := hasMetrics(ctx, of); err != nil {
		return err
	}
	shown, err := a.metricChain(ctx, of)
	if err != nil {
		return err
	}
	return reply.JSON(r, shown)
}
