package data

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index/ledger"
)

const activityDescription = "The last transaction of the blockchain that created or consumed an output with one of the addresses among its owners, " +
	"regardless of the threshold. `isConsumed` tells which, `timestamp` is the block's. On the C-Chain only outputs in atomic memory count. " +
	"The end of a stake is no activity, its reward is one. Of several outputs in a transaction the answer has the last one created."

func (a *API) activityOperations() []operation.Operation {
	const path = "/v1/networks/{network}/blockchains/{blockchainId}/lastActivityTimestampByAddresses"
	return []operation.Operation{
		{
			ID: "getLastActivityTimestampByAddresses", Path: path, Tag: tag,
			Summary:     "Last activity of addresses on a blockchain",
			Description: activityDescription,
			Index:       "ledger",
			Parameters:  []query.Parameter{networkName, blockchainID, addresses},
			Returns:     "The last activity; 404 if there is none.", Schema: "LastActivity",
			Handle: a.serve(a.getLastActivity),
		},
		{
			ID: "getLastActivityTimestampByAddressesV2", Method: http.MethodPost, Path: path, Tag: tag,
			Summary:     "Last activity of addresses in the body",
			Description: activityDescription,
			Index:       "ledger",
			Parameters:  []query.Parameter{networkName, blockchainID},
			Body:        "PrimaryNetworkAddresses",
			Returns:     "The last activity; 404 if there is none.", Schema: "LastActivity",
			Handle: a.serve(a.getLastActivityOfBody),
		},
	}
}

type lastActivity struct {
	Timestamp    int64  `json:"timestamp"`
	IsUpperBound bool   `json:"timestampIsUpperBound,omitempty"`
	BlockNumber  string `json:"blockNumber"`
	TxHash       string `json:"txHash"`
	UTXOID       string `json:"utxoId"`
	IsConsumed   bool   `json:"isConsumed"`
	chainInfo
}

// getLastActivity is GET /v1/networks/{network}/blockchains/{blockchainId}/lastActivityTimestampByAddresses.
func (a *API) getLastActivity(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, pChain, xChain, cChain)
	if err != nil {
		return err
	}
	wanted := n.addresses(r.Query, addresses.Name)
	if err := r.Query.Err(); err != nil {
		return err
	}
	if n.Ledger == nil {
		return absent("outputs")
	}
	for _, other := range n.chains { // which may have exported what b imported
		if err := n.behind(ctx, other, nil); err != nil {
			return err
		}
	}
	n.Progress(ctx, b.id).Show(r.Response().Header())
	found, err := n.Ledger.LastActivity(ctx, b.id, wanted)
	switch {
	case errors.Is(err, ledger.ErrNoActivity):
		return reply.CatchingUp(err, "an older version, which did not index the last activity of addresses, began the index of the %s; it is being rebuilt beside it; try again later", b.name)
	case err != nil:
		return err
	case found == nil:
		return apierr.NotFound("addresses: none of them has had an output on the %s", b.name)
	}
	when, err := n.preCortina(ctx)
	if err != nil {
		return err
	}
	at, bound := when.tx(b.id, found.TxID, found.Height, found.Time)
	return reply.JSON(r, lastActivity{
		Timestamp: at.Unix(), IsUpperBound: bound, BlockNumber: strconv.FormatUint(found.Height, 10),
		TxHash: found.TxID.String(), UTXOID: found.OutputID.String(), IsConsumed: found.Consumed, chainInfo: n.info(b),
	})
}

// getLastActivityOfBody is getLastActivity with the addresses in the body instead of the query.
func (a *API) getLastActivityOfBody(ctx context.Context, r operation.Request, n *network) error {
	if err := readAddresses(&r, nil); err != nil {
		return err
	}
	return a.getLastActivity(ctx, r, n)
}
