package signing

import (
	"context"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/aggregator/delivery"
	"quorate/handlers/apierr"
	"quorate/handlers/jsonbody"
)

// verdict is the answer to verifySignedMessage. Weights and the height are decimal strings.
type verdict struct {
	Valid           bool     `json:"valid"`
	Reason          string   `json:"reason,omitempty"`
	Signers         []signer `json:"signers"`
	Weight          string   `json:"weight"`
	TargetWeight    string   `json:"targetWeight"`
	TotalWeight     string   `json:"totalWeight"`
	SigningSubnetID ids.ID   `json:"signingSubnetId"`
	PChainHeight    string   `json:"pChainHeight"`
	// Delivery is present if the request has a destination.
	Delivery *delivery.Delivery `json:"delivery,omitempty"`
}

type signer struct {
	// Index is the validator's index in the canonical set.
	Index   int          `json:"index"`
	NodeIDs []ids.NodeID `json:"nodeIds"`
	Weight  string       `json:"weight"`
}

// VerifySignedMessage is POST /v1/signatureAggregator/{network}/verifySignedMessage. It verifies a signed message
// against the validators of a height and lists its signers. An invalid signature is a success with valid false. If the
// request has a destination, the answer tells whether that blockchain would accept the message.
func (a *API) VerifySignedMessage(c echo.Context) error {
	name := c.Param("network")
	network, err := a.network(name)
	if err != nil {
		return err
	}
	body, err := jsonbody.Read(c)
	if err != nil {
		return err
	}
	req, destination, err := decodeVerify(body)
	if err != nil {
		return err
	}
	if got := req.Message.NetworkID; got != network.NetworkID {
		return apierr.BadRequest("signedMessage: it belongs to the network with ID %d, but the path's network %s has ID %d; send it to the network it was made on",
			got, name, network.NetworkID)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), a.timeout)
	defer cancel()
	v, err := network.Signer.Verify(ctx, req)
	if err != nil {
		return failure(c.Request().Context(), err, dataForm)
	}
	decimal := func(n uint64) string { return strconv.FormatUint(n, 10) }
	answer := verdict{
		Valid: v.Valid, Reason: v.Reason, Signers: []signer{},
		Weight: decimal(v.Weight), TargetWeight: decimal(v.TargetWeight), TotalWeight: decimal(v.TotalWeight),
		SigningSubnetID: v.SigningSubnetID, PChainHeight: decimal(v.PChainHeight),
	}
	for _, s := range v.Signers {
		answer.Signers = append(answer.Signers, signer{Index: s.Index, NodeIDs: s.NodeIDs, Weight: decimal(s.Weight)})
	}
	if destination != nil {
		deliver := delivery.Request{Message: req.Message, DestinationID: *destination, SigningSubnetID: &v.SigningSubnetID, PChainHeight: req.PChainHeight}
		if v.Valid {
			deliver.PChainHeight = v.PChainHeight
		}
		answer.Delivery = network.check(ctx, deliver)
	}
	return reply(c, http.StatusOK, answer)
}

// decodeVerify parses a body. destination is nil if it names none. Errors are those of decode.
func decodeVerify(body []byte) (req aggregator.VerifyRequest, destination *ids.ID, err error) {
	const member, destinationMember = "signedMessage", "destinationBlockchainId"
	object, err := jsonbody.Parse(body, dataForm.aliases(), member, destinationMember, dataForm.signingSubnetID, dataForm.quorumPercentage, dataForm.pChainHeight, dataForm.verifyingBlockchainID)
	if err != nil {
		return req, nil, err
	}
	text, err := object.String(member)
	if err != nil {
		return req, nil, err
	}
	raw, err := parseHex(member, text)
	if err != nil {
		return req, nil, err
	}
	if len(raw) == 0 {
		return req, nil, apierr.BadRequest("%s is empty; send the signed Warp message in hex", member)
	}
	if req.SigningSubnetID, err = readID(object, dataForm.signingSubnetID, "subnet ID"); err != nil {
		return req, nil, err
	}
	if req.QuorumPercentage, err = object.Uint(dataForm.quorumPercentage, 100); err != nil {
		return req, nil, err
	}
	if req.PChainHeight, err = readHeight(object, dataForm); err != nil {
		return req, nil, err
	}
	if req.VerifyingBlockchainID, err = verifyingBlockchain(object, dataForm, req.PChainHeight); err != nil {
		return req, nil, err
	}
	if destination, err = readID(object, destinationMember, "blockchain ID"); err != nil {
		return req, nil, err
	}
	if req.Message, err = warp.ParseMessage(raw); err != nil {
		if _, err := warp.ParseUnsignedMessage(raw); err == nil {
			return req, nil, apierr.BadRequest("%s carries no signature; aggregateSignatures makes one", member)
		}
		return req, nil, apierr.BadRequest("%s could not be decoded as a signed Warp message; send all of it, in hex", member)
	}
	return req, destination, nil
}
