package signing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/jsonbody"
)

// maxBatch is the maximum number of requests in a batch. They run in parallel, so that a batch takes no longer than
// one request may.
const maxBatch = 100

// AggregateSignaturesBatch is POST /v1/signatureAggregator/{network}/aggregateSignatures:batch. The field requests is
// an array of AggregateSignatures bodies. The field results of the answer holds, in the same order, the body that each
// request would have got by itself, success or failure. The status is 200 unless the batch cannot be parsed or exceeds
// the allowance of its client. Each request is charged.
func (a *API) AggregateSignaturesBatch(c echo.Context) error {
	name := c.Param("network")
	network, err := a.network(name)
	if err != nil {
		return err
	}
	body, err := jsonbody.Read(c)
	if err != nil {
		return err
	}
	object, err := jsonbody.Parse(body, nil, "requests")
	if err != nil {
		return err
	}
	requests, err := object.Array("requests", maxBatch)
	if err != nil {
		return err
	}
	if err := a.guard.Charge(c, "requests", len(requests)); err != nil {
		return err
	}
	client := c.Request().Context()
	results, err := each(c, network, "requests", len(requests), func(i int) (*aggregator.Result, aggregator.Request, error) {
		return a.signOne(client, name, network, requests[i])
	})
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, struct {
		Results []any `json:"results"`
	}{results})
}

// each signs n messages in parallel and returns the body that each would have got by itself: a signedReply, or that of
// an error. part names the messages in errors and in the log. sign returns the i-th signed message and its request; it
// runs in several goroutines at a time. each fails only if the client has disconnected, and panics if sign does.
func each(c echo.Context, network Network, part string, n int, sign func(i int) (*aggregator.Result, aggregator.Request, error)) ([]any, error) {
	results, panics := make([]any, n), make([]error, n)
	failures, details := make([]*apierr.Error, n), make([][]slog.Attr, n)
	var work errgroup.Group
	for i := range n {
		work.Go(func() error {
			var signed *aggregator.Result
			var req aggregator.Request
			var err error
			start := time.Now()
			panics[i] = contain(func() {
				if signed, req, err = sign(i); err == nil {
					results[i] = signedReply{hexOf(signed.Message), network.deliver(c.Request().Context(), req, signed)}
				}
			})
			if panics[i] != nil {
				return nil //nolint:nilerr // returned below, when all are done
			}
			if err == nil {
				return nil
			}
			var known *apierr.Error
			if !errors.As(err, &known) {
				return err // the client has disconnected
			}
			at := *known
			if at.Status == http.StatusBadRequest {
				at.Message = fmt.Sprintf("%s[%d]: %s", part, i, at.Message)
			}
			results[i], failures[i] = apierr.Body(&at), &at
			details[i] = describe(req.Message, req.SigningSubnetID, nil, known, start)
			return nil
		})
	}
	err := work.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	if err != nil {
		return nil, err
	}
	for i, e := range failures {
		if e != nil {
			apierr.Note(c, fmt.Sprintf("%s[%d]", part, i), e, details[i]...)
		}
	}
	return results, nil
}

// contain runs f and returns its panic with the stack. The request's goroutine panics with it, since the server
// recovers panics only there.
func contain(f func()) (panicked error) {
	defer func() {
		if p := recover(); p != nil {
			panicked = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	f()
	return nil
}

func (a *API) signOne(client context.Context, name string, n Network, body []byte) (*aggregator.Result, aggregator.Request, error) {
	req, err := decode(body, dataForm)
	if err == nil {
		err = n.owns(name, req)
	}
	if err != nil {
		return nil, req, err
	}
	signed, err := a.sign(client, n, req, dataForm)
	return signed, req, err
}
