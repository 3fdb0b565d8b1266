package stream

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"quorate/handlers/apierr"
)

// Event is an event of a feed. Cursor is empty in an event after which a client cannot resume.
type Event struct {
	Name   string `json:"event"`
	Cursor string `json:"cursor,omitempty"`
	Data   any    `json:"data"`
}

// Feed returns the events of one stream. One goroutine uses it.
type Feed interface {
	// Next returns the next events in order, at least one. It waits for them until ctx ends, and then returns ctx's
	// error; the next call continues. Its other errors end the stream; an *apierr.Error is sent to the client.
	Next(ctx context.Context) ([]Event, error)
}

// OpenEvent is the name of the first event of each stream, and Open its data. Its cursor is the place where the stream
// begins.
const OpenEvent = "open"

// Open has the cursor before the oldest event.
type Open struct {
	Oldest string `json:"oldest"`
}

// Oldest is the cursor before the oldest event.
const Oldest = "oldest"

// From is the query parameter with the cursor of the last event that a client has processed.
const From = "from"

// Gone returns the error for a cursor after which events are gone.
func Gone(format string, args ...any) *apierr.Error {
	return &apierr.Error{Status: http.StatusGone, Code: CodeGone, Message: fmt.Sprintf(format, args...)}
}

// NotACursor returns the error for a parameter that is not a cursor of the stream.
func NotACursor(parameter, text string) *apierr.Error {
	return apierr.BadRequest("%s: %q is not a cursor of this stream; send the cursor of an event unchanged, %s, or nothing for new events", parameter, apierr.Excerpt(text), Oldest)
}

// Wait waits for changed, which may be nil, or for a time. It returns ctx's error if ctx ends first.
func Wait(ctx context.Context, changed <-chan struct{}, most time.Duration) error {
	poll := time.NewTimer(most)
	defer poll.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-poll.C:
	}
	return nil
}
