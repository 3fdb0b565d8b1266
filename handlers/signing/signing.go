// Package signing has the operations that return signed Warp messages: the Data
// API's aggregateSignatures and the stand-alone aggregator program's
// aggregate-signatures. Both read the same request in two spellings, hand it to
// the aggregator of the right network and explain its failures.
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
	"quorate/handlers/apierr"
	"quorate/handlers/compat"
	"quorate/handlers/networks"
)

// Signer turns unsigned Warp messages of one network into signed ones. A failure
// is an *aggregator.Error, or wraps ctx's error once ctx has ended. It is called
// from many goroutines and returns soon after ctx has ended.
type Signer interface {
	Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error)
	// SignTransaction signs the message that follows from a P-Chain transaction.
	// Its errors may have the codes of package l1message besides.
	SignTransaction(ctx context.Context, txID ids.ID) (*aggregator.Result, error)
	// Verify judges a signed message; its errors are as Sign's.
	Verify(ctx context.Context, req aggregator.VerifyRequest) (*aggregator.Verdict, error)
}

// Network is a network that is served.
type Network struct {
	// NetworkID is the number in the messages of the network: 1 is mainnet, 5 fuji.
	NetworkID uint32
	Signer    Signer
	// Ready returns nil if requests can be expected to succeed, else why not. Nil
	// means always ready. It is called for each health request and must not block.
	Ready func() error
	// Unavailable is the error that clients get while the network is not open, with a cause
	// if it has failed for good; nil once it is open. Before that NetworkID is the one that
	// the network's name implies, or 0.
	Unavailable *apierr.Error
	// SubnetReady is Ready for the messages that one subnet signs; ErrNoSubnet if it
	// has no validators. Nil means that it is not told.
	SubnetReady func(ids.ID) error
}

// ErrNoSubnet says that there are no validators of a subnet.
var ErrNoSubnet = errors.New("it has no validators")

// API serves the signing operations of a set of networks. Safe for concurrent use.
type API struct {
	networks networks.Directory[Network]
	timeout  time.Duration
	charge   func(c echo.Context, n int) error
	cache    *requestCache
}

// New returns an API. Timeout limits one aggregation. Charge counts a batch of n requests
// against the allowance of its client; an error is the answer.
func New(all networks.Directory[Network], timeout time.Duration, charge func(c echo.Context, n int) error) (*API, error) {
	known, err := newRequestCache()
	if err != nil {
		return nil, err
	}
	owner := make(map[uint32]string)
	for _, name := range all.Names() {
		n, err := all.Get(name)
		switch other, taken := owner[n.NetworkID]; {
		case err != nil, n.Unavailable != nil:
			continue // it opens later
		case n.Signer == nil:
			return nil, fmt.Errorf("network %q has no signer", name)
		case taken:
			return nil, fmt.Errorf("networks %q and %q both have network ID %d; configure one of them", other, name, n.NetworkID)
		}
		owner[n.NetworkID] = name
	}
	return &API{
		cache:    known,
		networks: all,
		timeout:  timeout,
		charge:   charge,
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

// networkByID returns the network whose messages have an ID. The error says why there is
// none, or why it cannot sign.
func (a *API) networkByID(id uint32) (Network, error) {
	var shut, failed []Network // without an open network with the ID
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
	shut = append(shut, failed...) // one that is starting may help soon
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
	signed, err := a.sign(c.Request().Context(), n, known.req, f)
	if err != nil {
		return err
	}
	content, err := a.cache.reply(key, known, signed)
	if err != nil {
		return apierr.Internal(err)
	}
	status := http.StatusOK
	if !f.peer {
		status = statusSigned(c)
	}
	return c.Blob(status, echo.MIMEApplicationJSON, content)
}

// owns refuses a message of another network than the path's.
func (n Network) owns(name string, req aggregator.Request) error {
	if got := req.Message.NetworkID; got != n.NetworkID {
		return apierr.BadRequest("message: it belongs to the network with ID %d, but the path's network %s has ID %d; send it to the network it was made on",
			got, name, n.NetworkID)
	}
	return nil
}

// signedReply and peerReply carry a signed message in hex without a prefix.
type (
	signedReply struct {
		SignedMessage string `json:"signedMessage"`
	}
	peerReply struct {
		SignedMessage string `json:"signed-message"`
	}
)

// statusSigned is the status that comes with a signed message.
func statusSigned(c echo.Context) int {
	if compat.Enabled(c.Request().Context()) {
		return http.StatusCreated
	}
	return http.StatusOK
}

// PeerPath is the one path of the stand-alone aggregator program.
const PeerPath = "/aggregate-signatures"

// PeerAggregateSignatures is POST /aggregate-signatures as the stand-alone
// aggregator program has it. That program serves one network; here the network
// ID in the message picks one.
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

// servedIDs lists the networks with the IDs that are known.
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

// sign returns the signed message. Client is the context of the client's request.
func (a *API) sign(client context.Context, n Network, req aggregator.Request, f form) (*warp.Message, error) {
	ctx, cancel := context.WithTimeout(client, a.timeout)
	defer cancel()
	result, err := n.Signer.Sign(ctx, req)
	if err != nil {
		return nil, failure(client, err, f)
	}
	return result.Message, nil
}

// hexOf is a signed message in hex without a prefix.
func hexOf(m *warp.Message) string { return hex.EncodeToString(m.Bytes()) }

func reply(c echo.Context, status int, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return apierr.Internal(err)
	}
	return c.Blob(status, echo.MIMEApplicationJSON, content)
}
