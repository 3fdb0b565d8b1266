package signing

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

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
	ctx, cancel := context.WithTimeout(a.context(c), a.timeout)
	defer cancel()
	start := time.Now()
	result, err := network.Signer.SignTransaction(ctx, txID)
	apierr.Describe(c, describe(nil, nil, result, err, start)...)
	if err != nil {
		return later(c, failure(c.Request().Context(), err, dataForm))
	}
	return reply(c, statusSigned(c), signedReply{hexOf(result.Message)})
}

// later sets Retry-After if the same request may succeed soon.
func later(c echo.Context, err error) error {
	var failed *aggregator.Error
	if !errors.As(err, &failed) {
		return err
	}
	wait := failed.RetryAfter
	if failed.Code == l1message.CodeProcessing {
		wait = time.Second // the next block usually takes less
	}
	if wait > 0 {
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	return err
}
