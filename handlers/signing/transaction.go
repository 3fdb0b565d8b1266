package signing

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/aggregator/delivery"
	"quorate/handlers/apierr"
	"quorate/handlers/jsonbody"
)

// Parameters of paths.
const (
	txHashParameter = "txHash"
	chainParameter  = "blockchainId"
)

// codeTooManyMessages is the code of a transaction that sent more than maxBatch messages.
const codeTooManyMessages = "TOO_MANY_MESSAGES"

// AggregateTransactionSignatures is GET /v1/signatureAggregator/{network}/aggregateSignatures/{txHash}. It returns the
// signed message that follows from a P-Chain transaction; see l1message.Deriver. The validators of the blockchain of
// the L1's manager sign, at that blockchain's current epoch, with the default quorum.
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
	start := time.Now()
	result, err := network.Signer.SignTransaction(ctx, txID)
	apierr.Describe(c, describe(nil, nil, result, err, start)...)
	if err != nil {
		return failure(c.Request().Context(), err, dataForm)
	}
	c.Response().Header().Set(SummaryHeader, summarize(result, start))
	return reply(c, statusSigned(c), signedReply{SignedMessage: hexOf(result.Message)})
}

// sentMessage is a message that an EVM transaction sent, with the result of signing it: SignedMessage, or Error with the
// body that AggregateSignatures would have answered with.
type sentMessage struct {
	MessageID       ids.ID             `json:"messageId"`
	LogIndex        uint64             `json:"logIndex"`
	UnsignedMessage string             `json:"unsignedMessage"`
	SignedMessage   string             `json:"signedMessage,omitempty"`
	Delivery        *delivery.Delivery `json:"delivery,omitempty"` // as in signedReply
	Error           any                `json:"error,omitempty"`
}

// AggregateSentMessages is
// GET /v1/signatureAggregator/{network}/blockchains/{blockchainId}/transactions/{txHash}/messages. It returns the
// messages that a transaction of an EVM chain sent, in order, each with the result of signing it. Query parameters are
// the fields of AggregateSignatures except message and justification. Each message is charged.
func (a *API) AggregateSentMessages(c echo.Context) error {
	network, err := a.network(c.Param("network"))
	if err != nil {
		return err
	}
	txHash, err := parseID(txHashParameter, c.Param(txHashParameter), "transaction hash")
	if err != nil {
		return err
	}
	f := dataForm
	options, err := jsonbody.ParseQuery(c.Request().URL.RawQuery, f.aliases(),
		f.signingSubnetID, f.quorumPercentage, f.quorumPercentageBuffer, f.pChainHeight, f.verifyingBlockchainID, f.waitSeconds)
	if err != nil {
		return err
	}
	var request aggregator.Request
	if err := readOptions(options, f, &request); err != nil {
		return err
	}
	client, deadline := c.Request().Context(), a.deadline(request)
	ctx, cancel := context.WithDeadline(client, deadline)
	defer cancel()
	sent, err := network.Signer.Sent(ctx, c.Param(chainParameter), txHash)
	if err != nil {
		return failure(client, err, f)
	}
	if len(sent) > maxBatch {
		return &apierr.Error{Status: http.StatusBadRequest, Code: codeTooManyMessages,
			Message: fmt.Sprintf("txHash: the transaction sent %d messages, at most %d are signed at once; post its messages with aggregateSignatures:batch", len(sent), maxBatch)}
	}
	if err := a.guard.Charge(c, txHashParameter, len(sent)); err != nil {
		return err
	}
	results, err := each(c, network, "messages", len(sent), func(i int) (*aggregator.Result, aggregator.Request, error) {
		one := request
		one.Message = sent[i].Message
		signed, err := a.signBy(client, deadline, network, one, f)
		return signed, one, err
	})
	if err != nil {
		return err
	}
	messages := make([]sentMessage, len(sent))
	for i, s := range sent {
		messages[i] = sentMessage{MessageID: s.Message.ID(), LogIndex: s.LogIndex, UnsignedMessage: hex.EncodeToString(s.Message.Bytes())}
		if signed, ok := results[i].(signedReply); ok {
			messages[i].SignedMessage, messages[i].Delivery = signed.SignedMessage, signed.Delivery
		} else {
			messages[i].Error = results[i]
		}
	}
	return reply(c, http.StatusOK, struct {
		Messages []sentMessage `json:"messages"`
	}{messages})
}
