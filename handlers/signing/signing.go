// Package signing implements the operations that return signed Warp messages: the Data API's aggregateSignatures and
// the stand-alone aggregator's aggregate-signatures. They share one request in two forms, which the aggregator of its
// network signs.
package signing

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/aggregator/delivery"
	"quorate/aggregator/evmmessage"
	"quorate/handlers/access"
	"quorate/handlers/apierr"
	"quorate/handlers/compat"
	"quorate/handlers/networks"
	"quorate/handlers/stream"
)

// Signer signs Warp messages of one network. Its error is an *aggregator.Error, or wraps ctx's error once ctx has
// ended. It must be safe for concurrent use and return soon after ctx has ended.
type Signer interface {
	Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error)
	// SignTransaction signs the message that follows from a P-Chain transaction. Its errors may also have the codes of
	// package l1message.
	SignTransaction(ctx context.Context, txID ids.ID) (*aggregator.Result, error)
	// Sent returns the messages that an accepted transaction of an EVM chain sent, in order, at least one. chain is a
	// blockchain ID, an EVM chain ID or "c-chain". Its errors may also have the codes of the packages l1message and
	// evmmessage.
	Sent(ctx context.Context, chain string, txHash ids.ID) ([]evmmessage.Sent, error)
	// Verify verifies a signed message; its errors are those of Sign.
	Verify(ctx context.Context, req aggregator.VerifyRequest) (*aggregator.Verdict, error)
}

// Deliveries tells whether blockchains of one network would accept signed messages. It must be safe for concurrent use
// and return soon after ctx has ended.
type Deliveries interface {
	Check(ctx context.Context, req delivery.Request) *delivery.Delivery
}

// Network is a served network.
type Network struct {
	// NetworkID is the network ID in messages: 1 is mainnet, 5 fuji.
	NetworkID uint32
	Signer    Signer
	// Deliveries may be nil; then answers have no delivery.
	Deliveries Deliveries
	// Ready returns nil if requests can be expected to succeed, else the reason. If Ready is nil, the network is
	// always ready. Each health request calls it, so it must not block.
	Ready func() error
	// Degraded returns what fails although requests can be expected to succeed; nil if nothing does. It may be nil.
	Degraded func() error
	// Unavailable is the error that clients get until the network is open; nil afterwards. It has a cause if opening
	// failed for good. Until then NetworkID is the one that the network's name implies, or 0.
	Unavailable *apierr.Error
	// SubnetReady is Ready for messages that one subnet signs. It returns ErrNoSubnet if the subnet has no validators.
	// If SubnetReady is nil, the state is not reported.
	SubnetReady func(ids.ID) error
	// Stream has the messages that were signed; nil if they are not stored.
	Stream MessageStream
	// Changes has the changes of validator sets; nil if they are not served.
	Changes SetChanges
}

// ErrNoSubnet reports that a subnet has no validators.
var ErrNoSubnet = errors.New("it has no validators")

// API serves the signing operations of several networks. It is safe for concurrent use.
type API struct {
	networks networks.Directory[Network]
	timeout  time.Duration
	guard    *access.Guard // may be nil
	cache    *requestCache
	streams  *stream.Streams
}

// New returns an API. timeout limits one aggregation. guard knows the clients and charges batches to them; nil charges
// nothing. streams serves the streams of signed messages.
func New(all networks.Directory[Network], timeout time.Duration, guard *access.Guard, streams *stream.Streams) (*API, error) {
	owner := make(map[uint32]string)
	for _, name := range all.Names() {
		n, err := all.Get(name)
		switch other, taken := owner[n.NetworkID]; {
		case err != nil, n.Unavailable != nil:
			continue // not open yet
		case n.Signer == nil:
			return nil, fmt.Errorf("network %q has no signer", name)
		case taken:
			return nil, fmt.Errorf("networks %q and %q both have network ID %d; configure one of them", other, name, n.NetworkID)
		}
		owner[n.NetworkID] = name
	}
	return &API{
		cache:    newRequestCache(),
		networks: all,
		timeout:  timeout,
		guard:    guard,
		streams:  streams,
	}, nil
}

// network returns the network that a path names.
func (a *API) network(name string) (Network, error) {
	_, n, err := a.networks.Find(name, "")
	if err == nil && n.Unavailable != nil {
		err = n.Unavailable
	}
	return n, err
}

// networkByID returns the network with an ID. The error states why there is none, or why it cannot sign.
func (a *API) networkByID(id uint32) (Network, error) {
	var shut, failed []Network // networks that are not open
	open := 0
	for _, name := range a.networks.Names() {
		n, err := a.networks.Get(name)
		switch {
		case err != nil:
			return n, err
		case n.Unavailable == nil && n.NetworkID == id:
			return n, nil
		case n.Unavailable == nil:
			open++
		case n.Unavailable.Err != nil:
			failed = append(failed, n)
		default:
			shut = append(shut, n)
		}
	}
	shut = append(shut, failed...) // prefer one that is starting
	for _, n := range shut {
		if n.NetworkID == id {
			return n, n.Unavailable
		}
	}
	if open == 0 && len(shut) > 0 {
		return shut[0], shut[0].Unavailable
	}
	return Network{}, apierr.BadRequest("message: it belongs to the network with ID %d, which is not served here; this instance serves %s", id, a.servedIDs())
}

// AggregateSignatures is POST /v1/signatureAggregator/{network}/aggregateSignatures.
func (a *API) AggregateSignatures(c echo.Context) error {
	name := c.Param("network")
	network, err := a.network(name)
	if err != nil {
		return err
	}
	key, known, err := a.read(c, dataForm)
	if err != nil {
		return err
	}
	if err := network.owns(name, known.req); err != nil {
		return err
	}
	if wantsEvents(c) {
		return a.stream(c, network, known.req)
	}
	return a.answer(c, network, key, known, dataForm)
}

// answer sends the signed message.
func (a *API) answer(c echo.Context, n Network, key requestKey, known *cachedRequest, f form) error {
	start := time.Now()
	signed, err := a.sign(c.Request().Context(), n, known.req, f)
	apierr.Describe(c, describe(known.req.Message, known.req.SigningSubnetID, signed, err, start)...)
	if err != nil {
		return err
	}
	content, err := a.signedBody(c.Request().Context(), n, key, known, signed)
	if err != nil {
		return apierr.Internal(err)
	}
	status := http.StatusOK
	if !f.peer {
		status = statusSigned(c)
	}
	c.Response().Header().Set(SummaryHeader, summarize(signed, start))
	return c.Blob(status, echo.MIMEApplicationJSON, content)
}

// owns returns an error if the message belongs to another network than the path's.
func (n Network) owns(name string, req aggregator.Request) error {
	if got := req.Message.NetworkID; got != n.NetworkID {
		return apierr.BadRequest("message: it belongs to the network with ID %d, but the path's network %s has ID %d; send it to the network it was made on",
			got, name, n.NetworkID)
	}
	return nil
}

// signedReply and peerReply hold a signed message in hex without a prefix. Delivery is present if the request named the
// blockchain that will verify the message.
type (
	signedReply struct {
		SignedMessage string             `json:"signedMessage"`
		Delivery      *delivery.Delivery `json:"delivery,omitempty"`
	}
	peerReply struct {
		SignedMessage string             `json:"signed-message"`
		Delivery      *delivery.Delivery `json:"delivery,omitempty"`
	}
)

// signedBody returns the body of the answer to a request. The cache has it unless it depends on the state of a
// destination.
func (a *API) signedBody(ctx context.Context, n Network, key requestKey, known *cachedRequest, signed *aggregator.Result) ([]byte, error) {
	d := n.deliver(ctx, known.req, signed)
	if d == nil {
		return a.cache.reply(key, known, signed.Message)
	}
	if key.peer {
		return json.Marshal(peerReply{hexOf(signed.Message), d})
	}
	return json.Marshal(signedReply{hexOf(signed.Message), d})
}

// deliveryTimeout limits how long a client that has its signed message waits for what would become of it.
const deliveryTimeout = 2 * time.Second

// deliver tells whether the blockchain that a request names would accept the signed message; nil if it names none.
func (n Network) deliver(ctx context.Context, req aggregator.Request, signed *aggregator.Result) *delivery.Delivery {
	if req.VerifyingBlockchainID == nil {
		return nil
	}
	return n.check(ctx, delivery.Request{
		Message: signed.Message, DestinationID: *req.VerifyingBlockchainID, SigningSubnetID: &signed.SigningSubnetID, PChainHeight: signed.PChainHeight,
	})
}

func (n Network) check(ctx context.Context, req delivery.Request) *delivery.Delivery {
	if n.Deliveries == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	return n.Deliveries.Check(ctx, req)
}

// statusSigned returns the status of an answer with a signed message.
func statusSigned(c echo.Context) int {
	if compat.Enabled(c.Request().Context()) {
		return http.StatusCreated
	}
	return http.StatusOK
}

// PeerPath is the only path of the stand-alone aggregator.
const PeerPath = "/aggregate-signatures"

// PeerAggregateSignatures is POST /aggregate-signatures of the stand-alone aggregator. That program serves one
// network; here the message's network ID selects the network.
func (a *API) PeerAggregateSignatures(c echo.Context) error {
	key, known, err := a.read(c, peerForm)
	if err != nil {
		return err
	}
	network, err := a.networkByID(known.req.Message.NetworkID)
	if err != nil {
		return err
	}
	return a.answer(c, network, key, known, peerForm)
}

// servedIDs lists the networks whose IDs are known.
func (a *API) servedIDs() string {
	var served []string
	for _, name := range a.networks.Names() {
		if n, err := a.networks.Get(name); err == nil && n.NetworkID != 0 {
			name += fmt.Sprintf(" (ID %d)", n.NetworkID)
		}
		served = append(served, name)
	}
	return cmp.Or(strings.Join(served, ", "), "none")
}

// sign returns the signed message. client is the context of the client's request.
func (a *API) sign(client context.Context, n Network, req aggregator.Request, f form) (*aggregator.Result, error) {
	return a.signBy(client, a.deadline(req), n, req, f)
}

// deadline returns by when a request that begins now must be answered.
func (a *API) deadline(req aggregator.Request) time.Time {
	return time.Now().Add(max(a.timeout, req.Wait))
}

// signBy is sign with a deadline.
func (a *API) signBy(client context.Context, deadline time.Time, n Network, req aggregator.Request, f form) (*aggregator.Result, error) {
	ctx, cancel := context.WithDeadline(client, deadline)
	defer cancel()
	result, err := n.Signer.Sign(ctx, req)
	if err != nil {
		return nil, failure(client, err, f)
	}
	return result, nil
}

// hexOf returns a signed message in hex without a prefix.
func hexOf(m *warp.Message) string { return hex.EncodeToString(m.Bytes()) }

func reply(c echo.Context, status int, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return apierr.Internal(err)
	}
	return c.Blob(status, echo.MIMEApplicationJSON, content)
}
