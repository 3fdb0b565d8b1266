package data

import (
	"context"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
)

func (a *API) presenceOperations() []operation.Operation {
	return []operation.Operation{{
		ID: "getChainIdsForAddresses", Path: "/v1/networks/{network}/addresses:listChainIds", Tag: tag,
		Summary: "Blockchains on which addresses have had outputs",
		Description: "The blockchains of the primary network that made an output for the address or can consume one, even if it is spent. " +
			"An address counts if it is among the owners, regardless of the threshold. On the C-Chain only outputs in atomic memory count.",
		Index:      "ledger",
		Parameters: []query.Parameter{networkName, addresses},
		Returns:    "The blockchains of each address, the addresses in the order of their bytes.", Schema: "AddressChains",
		Handle: a.serve(a.listChainIDs),
	}}
}

type addressChains struct {
	Address       string   `json:"address"`
	BlockchainIDs []string `json:"blockchainIds"`
}

// listChainIDs is GET /v1/networks/{network}/addresses:listChainIds.
func (a *API) listChainIDs(ctx context.Context, r operation.Request, n *network) error {
	wanted := n.addresses(r.Query, addresses.Name)
	if err := r.Query.Err(); err != nil {
		return err
	}
	if n.Ledger == nil {
		return absent("outputs")
	}
	all := make([]ids.ID, len(n.chains))
	for i, b := range n.chains {
		if err := n.behind(ctx, b, nil); err != nil {
			return err
		}
		all[i] = b.id
	}
	n.Progress(ctx, n.platform().id).Show(r.Response().Header())
	found, err := n.Ledger.Presence(ctx, all, wanted)
	if err != nil {
		return err
	}
	names, err := n.bech32(wanted)
	if err != nil {
		return err
	}
	answer := struct {
		Addresses []addressChains `json:"addresses"`
	}{Addresses: make([]addressChains, len(wanted))}
	for i := range wanted {
		answer.Addresses[i] = addressChains{Address: names[i], BlockchainIDs: texts(found[i])}
	}
	return reply.JSON(r, answer)
}
