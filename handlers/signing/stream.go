package signing

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/sse"
)

// wantsEvents reports whether the client asks for progress while it waits.
func wantsEvents(c echo.Context) bool {
	accept := c.Request().Header.Get(echo.HeaderAccept)
	if accept == "" {
		return false
	}
	for part := range strings.SplitSeq(accept, ",") {
		if media, _, err := mime.ParseMediaType(part); err == nil && media == sse.ContentType {
			return true
		}
	}
	return false
}

// eventBeat is the time without an event after which a comment is sent.
const eventBeat = 15 * time.Second

// stream answers with server-sent events. Events progress, at most one per 20 ms, have the state of the round and the
// time since the request in ms. While there are none, comments are sent. The last event is result with the body of a
// success and the summary, or error with the body of a failure. The status is 200 in both cases, because it is sent first.
func (a *API) stream(c echo.Context, n Network, req aggregator.Request) error {
	timeout := max(a.timeout, req.Wait)
	ctx, cancel := context.WithTimeout(c.Request().Context(), timeout)
	defer cancel()
	if req.Wait == 0 {
		req.Wait = timeout // the client sees the progress
	}
	start := time.Now()
	// One goroutine calls Progress; a newer account replaces one that was not sent yet.
	accounts := make(chan aggregator.Account, 1)
	req.Progress = func(account aggregator.Account) {
		select {
		case <-accounts:
		default:
		}
		accounts <- account
	}
	type outcome struct {
		result   *aggregator.Result
		err      error
		panicked error
	}
	done := make(chan outcome, 1)
	go func() { // ends soon after ctx
		var o outcome
		o.panicked = contain(func() { o.result, o.err = n.Signer.Sign(ctx, req) })
		done <- o
	}()
	response := c.Response()
	sse.Begin(response)
	response.Flush()
	idle := time.NewTimer(eventBeat)
	defer idle.Stop()
	for {
		select {
		case <-idle.C:
			if err := write(response, sse.Comment); err != nil {
				cancel()
				<-done
				return nil // the client has disconnected
			}
			idle.Reset(eventBeat)
		case account := <-accounts:
			event := struct {
				aggregator.Account
				Elapsed int64 `json:"elapsedMilliseconds"`
			}{account, time.Since(start).Milliseconds()}
			if err := send(response, "progress", event); err != nil {
				cancel()
				<-done
				return nil // the client has disconnected
			}
			idle.Reset(eventBeat)
		case o := <-done:
			if o.panicked != nil {
				_ = send(response, "error", apierr.Body(apierr.Internal(o.panicked)))
				panic(o.panicked)
			}
			apierr.Describe(c, describe(req.Message, req.SigningSubnetID, o.result, o.err, start)...)
			if o.err == nil {
				_ = send(response, "result", struct {
					signedReply
					Summary json.RawMessage `json:"summary"`
				}{signedReply{hexOf(o.result.Message), n.deliver(c.Request().Context(), req, o.result)}, json.RawMessage(summarize(o.result, start))})
				return nil
			}
			var known *apierr.Error
			if errors.As(failure(c.Request().Context(), o.err, dataForm), &known) {
				apierr.Note(c, "error event", known, apierr.Details(c)...)
				_ = send(response, "error", apierr.Body(known))
			}
			return nil
		}
	}
}

func send(response *echo.Response, name string, data any) error {
	event, err := sse.Event(name, data)
	if err != nil {
		return err
	}
	return write(response, event)
}

func write(response *echo.Response, content []byte) error {
	if _, err := response.Write(content); err != nil {
		return err
	}
	response.Flush()
	return nil
}
