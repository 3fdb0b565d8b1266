// Package webhooks implements the Webhook API's operations: a client names a URL, and the service sends it the events
// of addresses. It parses requests and converts answers; package internal/webhook holds the webhooks and delivers the
// messages.
//
// A webhook belongs to the API key of the request that created it. If there are API keys, requests without one get 401.
// Without API keys, all clients are one owner.
package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
	"quorate/handlers/data"
	"quorate/handlers/evm"
	"quorate/handlers/networks"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/query/page"
	"quorate/handlers/reply"
	"quorate/internal/webhook"
)

// Options configures an API.
type Options struct {
	// Book holds the webhooks. Nil answers 404 to all requests.
	Book *webhook.Book
	// Chains are the EVM chains that webhooks may watch.
	Chains *evm.Chains
	// Networks are the networks whose validators webhooks may watch.
	Networks networks.Directory[data.Network]
	// Guard knows the API keys; nil means that there are none.
	Guard *access.Guard
	// Key authenticates page tokens; see package page.
	Key []byte
	// Timeout limits one request; 0 means 30 s.
	Timeout time.Duration
}

// API serves the operations. It is safe for concurrent use.
type API struct {
	book     *webhook.Book
	chains   *evm.Chains
	networks networks.Directory[data.Network]
	guard    *access.Guard
	key      []byte
	timeout  time.Duration
}

// New returns an API.
func New(o Options) *API {
	return &API{book: o.Book, chains: o.Chains, networks: o.Networks, guard: o.Guard, key: page.KeyOr(o.Key), timeout: cmp.Or(o.Timeout, 30*time.Second)}
}

// handler handles a request of an owner.
type handler func(ctx context.Context, c echo.Context, owner string) error

// Route adds the operations to e.
func (a *API) Route(e *echo.Echo) {
	for _, route := range []struct {
		method, path string
		operation    handler
		parameters   []query.Parameter
	}{
		{http.MethodPost, "", a.create, nil},
		{http.MethodGet, "", a.list, listParameters},
		{http.MethodGet, "/:id", a.get, nil},
		{http.MethodPatch, "/:id", a.update, nil},
		{http.MethodDelete, "/:id", a.deactivate, nil},
		{http.MethodGet, "\\:getSharedSecret", a.secret, nil},
		{http.MethodPost, "\\:generateOrRotateSharedSecret", a.rotate, nil},
		{http.MethodGet, "/:id/addresses", a.listAddresses, pageParameters},
		{http.MethodPatch, "/:id/addresses", a.addAddresses, nil},
		{http.MethodDelete, "/:id/addresses", a.removeAddresses, nil},
	} {
		names := make([]string, len(route.parameters))
		for i, p := range route.parameters {
			names[i] = p.Name
		}
		e.Add(route.method, "/v1/webhooks"+route.path, operation.Strict(func(c echo.Context) error {
			ctx, cancel := context.WithTimeout(c.Request().Context(), a.timeout)
			defer cancel()
			owner, err := a.owner(c)
			if err == nil {
				err = route.operation(ctx, c, owner)
			}
			return reply.Explain(c.Request().Context(), err, explain)
		}, names...))
	}
}

// owner returns the owner of the webhooks that a request is about.
func (a *API) owner(c echo.Context) (string, error) {
	name := access.KeyName(c)
	switch {
	case a.book == nil:
		return "", apierr.NotFound("webhooks are off here; the operator of this instance can set webhooks.enabled")
	case name == "" && a.guard != nil && a.guard.Keyed():
		return "", &apierr.Error{Status: http.StatusUnauthorized, Message: "webhooks belong to an API key; send yours in the header x-glacier-api-key"}
	}
	return name, nil
}

// explain converts errors of the book.
func explain(err error) error {
	switch {
	case errors.Is(err, webhook.ErrNotFound):
		return &apierr.Error{Status: http.StatusNotFound, Message: "id: you have no webhook with this ID; GET /v1/webhooks lists yours", Err: err}
	case errors.Is(err, webhook.ErrLimit):
		return &apierr.Error{Status: http.StatusBadRequest, Message: "there are as many active webhooks as allowed; deactivate one first, or add addresses to one", Err: err}
	case errors.Is(err, webhook.ErrFull):
		return &apierr.Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf("this instance has the maximum of %d webhooks of all API keys; deactivate one of yours to replace it, or ask its operator for another instance", webhook.MaxWebhooks), Err: err}
	case errors.Is(err, webhook.ErrNoSecret):
		return &apierr.Error{Status: http.StatusNotFound, Message: "there is no shared secret yet; send POST /v1/webhooks:generateOrRotateSharedSecret, or create a webhook", Err: err}
	}
	return apierr.Internal(err)
}

// shown is a webhook in answers.
type shown struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	ChainID     string `json:"chainId"`
	Status      string `json:"status"`
	CreatedAt   int64  `json:"createdAt"`
	Name        string `json:"name"`
	Description string `json:"description"`
	EventType   string `json:"eventType"`
	// Network is set for webhooks that watch validators, the last two fields for others.
	Network          string `json:"network,omitempty"`
	Metadata         any    `json:"metadata"`
	IncludeInternals *bool  `json:"includeInternalTxs,omitempty"`
	IncludeLogs      *bool  `json:"includeLogs,omitempty"`
}

type metadata struct {
	EventSignatures []string `json:"eventSignatures,omitempty"`
	Addresses       []string `json:"addresses"`
}

const (
	active   = "active"
	inactive = "inactive"
)

func show(w *webhook.Webhook) shown {
	s := shown{
		ID: w.ID, URL: w.URL, ChainID: w.ChainID, Status: inactive, CreatedAt: w.Created, Name: w.Name, Description: w.Description,
		EventType: string(w.EventType), Network: w.Network,
	}
	if w.Validators != nil {
		s.Metadata = showFilter(w.Validators)
	} else {
		s.Metadata = metadata{w.EventSignatures, append([]string{}, w.Addresses...)}
		s.IncludeInternals, s.IncludeLogs = &w.IncludeInternals, &w.IncludeLogs
	}
	if w.Active {
		s.Status = active
	}
	return s
}

func (a *API) create(ctx context.Context, c echo.Context, owner string) error {
	w, err := a.readCreate(c)
	if err != nil {
		return err
	}
	w.Owner = owner
	if w, err = a.book.Create(ctx, w); err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, show(&w))
}

func (a *API) get(ctx context.Context, c echo.Context, owner string) error {
	w, err := a.book.Get(ctx, owner, c.Param("id"))
	if err != nil {
		return err
	}
	return reply.JSON(c, show(&w))
}

// Items on a page, at most and without pageSize.
const (
	mostItems  = 100
	usualItems = 10
)

// Parameters of the queries of lists.
var (
	pageParameters = []query.Parameter{query.PageSize(mostItems, usualItems), query.PageToken}
	listParameters = append([]query.Parameter{{Name: "status", OneOf: []string{active, inactive}}}, pageParameters...)
)

func (a *API) list(ctx context.Context, c echo.Context, owner string) error {
	q := query.Parse(c.QueryString(), listParameters)
	status := q.OneOf("status")
	paging := q.Page(page.List{Key: a.key, Operation: "listWebhooks", Filters: []string{owner, status}})
	if err := q.Err(); err != nil {
		return err
	}
	all, err := a.book.List(ctx, owner)
	if err != nil {
		return err
	}
	position := func(w *webhook.Webhook) []byte { // ascending in the order of the list
		return append(binary.BigEndian.AppendUint64(nil, ^uint64(w.Created)), w.ID...)
	}
	answer := struct {
		Next     string  `json:"nextPageToken,omitempty"`
		Webhooks []shown `json:"webhooks"`
	}{Webhooks: []shown{}}
	var last []byte
	for i := range all {
		w, at := show(&all[i]), position(&all[i])
		if status != "" && w.Status != status || bytes.Compare(at, paging.After) <= 0 {
			continue
		}
		if len(answer.Webhooks) == paging.Size {
			answer.Next = paging.Token(last)
			break
		}
		answer.Webhooks, last = append(answer.Webhooks, w), at
	}
	return reply.JSON(c, answer)
}

func (a *API) update(ctx context.Context, c echo.Context, owner string) error {
	change, err := a.readUpdate(c)
	if err != nil {
		return err
	}
	return a.change(ctx, c, owner, change)
}

func (a *API) deactivate(ctx context.Context, c echo.Context, owner string) error {
	return a.change(ctx, c, owner, func(w *webhook.Webhook) error {
		w.Active = false
		return nil
	})
}

// change changes a webhook and answers with the result.
func (a *API) change(ctx context.Context, c echo.Context, owner string, f func(*webhook.Webhook) error) error {
	w, err := a.book.Change(ctx, owner, c.Param("id"), f)
	if err != nil {
		return err
	}
	return reply.JSON(c, show(&w))
}

// activate makes a webhook report events from now on.
func (a *API) activate(ctx context.Context, w *webhook.Webhook) error {
	if w.Active {
		return nil
	}
	from, err := a.begin(ctx, w)
	if err != nil {
		return err
	}
	w.Active, w.From = true, from
	return nil
}

// begin returns the first block that a webhook reports from now on.
func (a *API) begin(ctx context.Context, w *webhook.Webhook) (uint64, error) {
	if w.Validators != nil {
		_, n, err := a.networks.Find(w.Network, "the validators of ")
		if err != nil {
			return 0, err
		}
		return beginValidators(ctx, &n)
	}
	chain, err := a.chains.Find(strings.TrimPrefix(w.Chain, webhook.EVMChain("")))
	if err != nil {
		return 0, err
	}
	return begin(ctx, chain)
}

// begin returns the first block that a new webhook reports. The index must have caught up: before, the webhook would
// report old blocks.
func begin(ctx context.Context, chain *evm.Chain) (uint64, error) {
	p := chain.Progress(ctx)
	if !p.CaughtUp {
		return 0, p.Behind("this chain")
	}
	return p.Height + 1, nil
}

type secretAnswer struct {
	Secret string `json:"secret"`
}

func (a *API) secret(ctx context.Context, c echo.Context, owner string) error {
	secret, err := a.book.Secret(ctx, owner)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return reply.JSON(c, secretAnswer{secret})
}

func (a *API) rotate(ctx context.Context, c echo.Context, owner string) error {
	secret, err := a.book.Rotate(ctx, owner)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(http.StatusCreated, secretAnswer{secret})
}

func (a *API) listAddresses(ctx context.Context, c echo.Context, owner string) error {
	q := query.Parse(c.QueryString(), pageParameters)
	paging := q.Page(page.List{Key: a.key, Operation: "listWebhookAddresses", Filters: []string{owner, c.Param("id")}})
	if err := q.Err(); err != nil {
		return err
	}
	w, err := a.book.Get(ctx, owner, c.Param("id"))
	if err != nil {
		return err
	}
	answer := struct {
		Next      string   `json:"nextPageToken,omitempty"`
		Addresses []string `json:"addresses"`
		Total     int      `json:"totalAddresses"`
	}{Addresses: []string{}, Total: len(w.Addresses)}
	rest := slices.Sorted(slices.Values(w.Addresses))
	first, found := slices.BinarySearch(rest, string(paging.After))
	if found {
		first++
	}
	rest = rest[first:]
	answer.Addresses = append(answer.Addresses, rest[:min(len(rest), paging.Size)]...)
	if len(rest) > paging.Size {
		answer.Next = paging.Token([]byte(rest[paging.Size-1]))
	}
	return reply.JSON(c, answer)
}

func (a *API) addAddresses(ctx context.Context, c echo.Context, owner string) error {
	added, err := readAddresses(c)
	if err != nil {
		return err
	}
	return a.change(ctx, c, owner, func(w *webhook.Webhook) error {
		if err := hasAddresses(w); err != nil {
			return err
		}
		w.Addresses = distinct(append(w.Addresses, added...))
		if n := len(w.Addresses); n > webhook.MaxAddresses {
			return apierr.BadRequest("addresses: the webhook would have %d; it may have %d", n, webhook.MaxAddresses)
		}
		return nil
	})
}

func (a *API) removeAddresses(ctx context.Context, c echo.Context, owner string) error {
	removed, err := readAddresses(c)
	if err != nil {
		return err
	}
	return a.change(ctx, c, owner, func(w *webhook.Webhook) error {
		if err := hasAddresses(w); err != nil {
			return err
		}
		w.Addresses = slices.DeleteFunc(w.Addresses, func(address string) bool { return slices.Contains(removed, address) })
		return nil
	})
}

// hasAddresses returns an error if a webhook watches something else.
func hasAddresses(w *webhook.Webhook) error {
	if w.EventType == webhook.AddressActivity {
		return nil
	}
	return apierr.BadRequest("id: this webhook is for %s and has no addresses; create another one to watch another node or subnet", w.EventType)
}

// distinct removes repeated texts and preserves the order.
func distinct(all []string) (once []string) {
	seen := make(map[string]bool, len(all))
	for _, text := range all {
		if !seen[text] {
			seen[text] = true
			once = append(once, text)
		}
	}
	return once
}

// isHex reports whether a text is 0x and n bytes in hexadecimal digits.
func isHex(text string, n int) bool {
	digits, ok := strings.CutPrefix(strings.ToLower(text), "0x")
	b, err := hex.DecodeString(digits)
	return ok && err == nil && len(b) == n
}
