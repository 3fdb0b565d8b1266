package data

import (
	"context"
	"fmt"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
)

func (a *API) assetOperations() []operation.Operation {
	return []operation.Operation{{
		ID: "getAssetDetails", Path: "/v1/networks/{network}/blockchains/{blockchainId}/assets/{assetId}", Tag: tag,
		Summary:     "An asset of the X-Chain",
		Description: "What the transaction that created the asset says. `cap` is `variable` if it made a right to create more of the asset.",
		Index:       "stored blocks",
		Parameters: []query.Parameter{
			networkName, onlyXChain, {Name: "assetId", Description: "The ID of the asset, which is that of the transaction."},
		},
		Returns: "The asset.", Schema: "XChainAsset",
		Handle: a.serve(a.getAsset),
	}}
}

// getAsset is GET /v1/networks/{network}/blockchains/{blockchainId}/assets/{assetId}.
func (a *API) getAsset(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, xChain)
	if err != nil {
		return err
	}
	id, err := pathID(r, "assetId")
	if err != nil {
		return err
	}
	stored, tip, err := n.archive(r, b)
	if err != nil {
		return err
	}
	created, err := stored.Tx(ctx, id, tip)
	if err != nil {
		return archiveError(err, b, fmt.Sprintf("assetId: asset %s", id))
	}
	if created.Asset == nil {
		return apierr.NotFound("assetId: transaction %s of the x-chain creates no asset", id)
	}
	shown := detailsOf(created.Tx, created.Time)
	if created.Block == nil && !created.Genesis {
		when, err := n.preCortina(ctx)
		if err != nil {
			return err
		}
		at, bound := when.of(id)
		shown.CreatedAt, shown.IsUpperBound = at.Unix(), bound
	}
	return reply.JSON(r, shown)
}
