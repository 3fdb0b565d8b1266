package data

import (
	"context"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index/archive"
)

func (a *API) assetOperations() []operation.Operation {
	assetID := query.Parameter{Name: "assetId", Description: "The ID of the asset, which is that of the transaction that created it."}
	return []operation.Operation{
		{
			ID: "getAssetDetails", Path: "/v1/networks/{network}/blockchains/{blockchainId}/assets/{assetId}", Tag: tag,
			Summary:     "An asset of the X-Chain",
			Description: "What the transaction that created the asset says. `cap` is `variable` if it made a right to create more of the asset.",
			Index:       "stored blocks",
			Parameters:  []query.Parameter{networkName, onlyXChain, assetID},
			Returns:     "The asset.", Schema: "XChainAsset",
			Handle: a.serve(a.getAsset),
		},
		{
			ID: "listAssetTransactions", Path: "/v1/networks/{network}/blockchains/{blockchainId}/assets/{assetId}/transactions", Tag: tag,
			Summary: "Transactions of an asset of the X-Chain",
			Description: "The transactions in blocks that create the asset, or consume or make an output of it. A page may have fewer transactions than its size " +
				"although others follow, if `txTypes` selects rare ones or the asset is AVAX.\n\n" + transactionDescription,
			Order:      "newest first",
			Index:      "stored blocks, ledger",
			Parameters: []query.Parameter{networkName, onlyXChain, assetID, txTypes, startTime, endTime, query.PageToken, pageSize},
			Returns:    "A page of transactions.", Schema: "PrimaryNetworkTransactionPage",
			Handle: a.serve(a.listAssetTransactions),
		},
	}
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
	created, err := creation(ctx, stored, b, id, tip)
	if err != nil {
		return err
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

// creation returns the transaction that created an asset.
func creation(ctx context.Context, stored Archive, b blockchain, asset ids.ID, tip uint64) (*archive.Tx, error) {
	created, err := stored.Tx(ctx, asset, tip)
	if err != nil {
		return nil, archiveError(err, b, fmt.Sprintf("assetId: asset %s", asset))
	}
	if created.Asset == nil {
		return nil, apierr.NotFound("assetId: transaction %s of the x-chain creates no asset", asset)
	}
	return created, nil
}

// listAssetTransactions is GET /v1/networks/{network}/blockchains/{blockchainId}/assets/{assetId}/transactions.
func (a *API) listAssetTransactions(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, xChain)
	if err != nil {
		return err
	}
	want := archive.TxQuery{Kinds: kinds(r.Query)}
	if want.Asset, err = pathID(r, "assetId"); err != nil {
		return err
	}
	want.After, want.Before = timeRange(r.Query)
	p := a.readPages(r.Query, "asset transactions", n.shown, want.Asset.String(), fmt.Sprint(want.Kinds), fmt.Sprint(want.After.Unix()), fmt.Sprint(want.Before.Unix()))
	if err := r.Query.Err(); err != nil {
		return err
	}
	if want.From, err = position(p.After, parseTxPosition); err != nil {
		return err
	}
	stored, tip, err := n.archive(r, b)
	if err != nil {
		return err
	}
	if _, err := creation(ctx, stored, b, want.Asset, tip); err != nil {
		return err
	}
	want.Tip = tip
	return a.showTransactions(ctx, r, n, b, stored, want, p)
}
