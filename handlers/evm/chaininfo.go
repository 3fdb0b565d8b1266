package evm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index/evm"
)

// Description is what the P-Chain's index says of a blockchain.
type Description struct {
	Name           string
	SubnetID, VMID ids.ID
}

// Features of a chain, as clients name them.
const (
	featureNFTs     = "nftIndexing"
	featureWebhooks = "webhooks"
	featureICM      = "teleporter"
)

var features = []string{featureNFTs, featureWebhooks, featureICM}

// chainInfo is a chain in an answer. The clients require the text fields without omitempty. They are empty where this
// instance knows nothing.
type chainInfo struct {
	ChainID     string       `json:"chainId"`
	Status      string       `json:"status"`
	ChainName   string       `json:"chainName"`
	Description string       `json:"description"`
	Blockchain  string       `json:"platformChainId"`
	SubnetID    string       `json:"subnetId,omitempty"`
	VMID        string       `json:"vmId,omitempty"`
	VMName      string       `json:"vmName"`
	RPCURL      string       `json:"rpcUrl"`
	Testnet     bool         `json:"isTestnet"`
	Token       networkToken `json:"networkToken"`
	Features    []string     `json:"enabledFeatures"`
}

// describe returns the fields of a chain.
func (a *API) describe(ctx context.Context, of *Chain) (chainInfo, error) {
	p := of.Progress(ctx)
	shown := chainInfo{
		ChainID: strconv.FormatUint(of.ChainID, 10), Status: "UNAVAILABLE", Blockchain: of.name, VMName: "EVM",
		Testnet: of.NetworkID != constants.MainnetID, Token: networkToken(of.NativeToken), Features: a.features(),
	}
	if p.CaughtUp && !p.Stopped && p.Err == nil {
		shown.Status = "OK"
	}
	if of.Primary {
		shown.ChainName = "C-Chain"
	}
	if of.Describe != nil {
		d, err := of.Describe(ctx)
		if err != nil {
			return shown, fmt.Errorf("reading what chain %s is: %w", of.name, err)
		}
		if d != nil {
			shown.ChainName = cmp.Or(d.Name, shown.ChainName)
			shown.SubnetID, shown.VMID = d.SubnetID.String(), d.VMID.String()
		}
	}
	return shown, nil
}

// features returns the features of all chains.
func (a *API) features() []string {
	if a.webhooks {
		return features
	}
	return slices.DeleteFunc(slices.Clone(features), func(f string) bool { return f == featureWebhooks })
}

// everyChain returns all chains of a network. It fails while more may follow. Empty means all networks.
func (a *API) everyChain(network string) ([]*Chain, error) {
	chains, starting, err := a.chains.any(network, "EVM chains of ")
	if starting {
		err = errStarting()
	}
	return chains, err
}

func (a *API) listChains(ctx context.Context, r operation.Request) error {
	network := readNetwork(r.Query, chainNetwork.Name)
	feature := r.Query.OneOf(chainFeature.Name)
	if err := r.Query.Err(); err != nil {
		return err
	}
	chains, err := a.everyChain(network)
	if err != nil {
		return err
	}
	answer := struct {
		Chains []chainInfo `json:"chains"`
	}{[]chainInfo{}}
	if feature != "" && !slices.Contains(a.features(), feature) {
		return reply.JSON(r, answer)
	}
	for _, of := range chains {
		shown, err := a.describe(ctx, of)
		if err != nil {
			return err
		}
		answer.Chains = append(answer.Chains, shown)
	}
	return reply.JSON(r, answer)
}

func (a *API) getChain(ctx context.Context, r operation.Request, of *Chain) error {
	shown, err := a.describe(ctx, of)
	if err != nil {
		return err
	}
	of.Progress(ctx).Show(r.Response().Header())
	return reply.JSON(r, shown)
}

func (a *API) listAddressChains(ctx context.Context, r operation.Request) error {
	who, err := address(r)
	if err != nil {
		return err
	}
	chains, err := a.everyChain("")
	if err != nil {
		return err
	}
	answer := struct {
		Indexed   []chainInfo `json:"indexedChains"`
		Unindexed []string    `json:"unindexedChains"`
	}{[]chainInfo{}, []string{}}
	if len(chains) == 0 {
		return reply.JSON(r, answer)
	}
	if err := currentICM(r, chains); err != nil {
		return err
	}
	var unknown []string // chains with blocks that are not indexed, or with more transfers than one page scans
	for _, of := range chains {
		found, err := of.Index.Interactions(ctx, evm.InteractionQuery{WalletQuery: evm.WalletQuery{Wallet: who, Limit: 1}})
		if err != nil {
			return err
		}
		if len(found.Transactions) == 0 {
			if found.Next != nil || found.First > 0 || of.Progress(ctx).From > 0 {
				unknown = append(unknown, strconv.FormatUint(of.ChainID, 10))
			}
			continue
		}
		shown, err := a.describe(ctx, of)
		if err != nil {
			return err
		}
		answer.Indexed = append(answer.Indexed, shown)
	}
	if len(unknown) > 0 {
		r.Response().Header().Set("Indexed-Without", strings.Join(unknown, ", "))
	}
	return reply.JSON(r, answer)
}

// chainNetwork and chainFeature select chains.
var (
	chainNetwork = query.Parameter{Name: "network", Description: "Only chains of this network. Without it, those of all networks that the instance indexes.", Example: "fuji"}
	chainFeature = query.Parameter{Name: "feature", OneOf: features, Description: "Only chains with this feature."}
)
