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

// AggregateTransactionSignatures is GET /v1/signatureAggregator/{network}/aggregateSignatures/{txHash}. It returns the
// signed message that follows from a P-Chain transaction; see l1message.Deriver. The validators of the blockchain of
// the L1's manager sign, at that blockchain's current epoch, with the default quorum. Query parameters are ignored.
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

// soon sets Retry-After for a transaction that is not decided yet: the next block usually takes less than a second.
func soon(c echo.Context, err error) error {
	var e *apierr.Error
	if errors.As(err, &e) && aggregator.Code(e.Code) == l1message.CodeProcessing {
		c.Response().Header().Set(echo.HeaderRetryAfter, "1")
	}
	return err
}
