package signing

import (
	"context"
	"errors"

	"github.com/labstack/echo/v4"

	"quorate/aggregator"
	"quorate/aggregator/l1message"
	"quorate/handlers/apierr"
)

const txHashParameter = "txHash"

// AggregateTransactionSignatures is
// GET /v1/signatureAggregator/{network}/aggregateSignatures/{txHash}: the signed
// message that follows from a P-Chain transaction, signed with the default quorum
// by the validators of the blockchain that the L1's manager is on, as of that
// blockchain's current epoch; l1message.Deriver says which message that is. Query
// parameters are ignored.
func (a *API) AggregateTransactionSignatures(c echo.Context) error {
	network, err := a.network(c.Param("network"))
	if err != nil {
		return err
	}
	txID, err := parseID(txHashParameter, c.Param(txHashParameter), "transaction hash")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), a.timeout)
	defer cancel()
	result, err := network.Signer.SignTransaction(ctx, txID)
	if err != nil {
		return soon(c, failure(c.Request().Context(), err, dataForm))
	}
	return reply(c, statusSigned(c), signedReply{hexOf(result.Message)})
}

// soon tells clients when to come back for a transaction that is being decided:
// the next block is seldom more than a second away.
func soon(c echo.Context, err error) error {
	var e *apierr.Error
	if errors.As(err, &e) && aggregator.Code(e.Code) == l1message.CodeProcessing {
		c.Response().Header().Set(echo.HeaderRetryAfter, "1")
	}
	return err
}
