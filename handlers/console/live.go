package console

import (
	"bytes"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
	"quorate/handlers/sse"
)

const (
	statusInterval = 2 * time.Second
	// pace is the time for which events are collected, so that a busy service does not wake its clients for each
	// event.
	pace = 10 * time.Millisecond
	// writeTimeout is how long a client may take to read a batch of events.
	writeTimeout = 20 * time.Second
	// longest is the maximum duration of a stream; browsers reconnect.
	longest = 30 * time.Minute
)

// live is GET /console/api/live.
func (c *Console) live(ctx echo.Context) error {
	s := c.feed.subscribe(access.OriginOf(ctx.RealIP()))
	if s == nil {
		return &apierr.Error{Status: http.StatusServiceUnavailable, Message: "as many clients as may listen, in all or from your address, do so already; try again later"}
	}
	defer c.feed.unsubscribe(s)
	response := ctx.Response()
	sse.Begin(response)
	deadlines := http.NewResponseController(response)
	write := func(content []byte) bool {
		// The server's own write deadline is too short for streams.
		_ = deadlines.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := response.Write(content); err != nil {
			return false
		}
		return deadlines.Flush() == nil
	}
	ticker := time.NewTicker(statusInterval)
	defer ticker.Stop()
	over := time.NewTimer(longest)
	defer over.Stop()
	rest := time.NewTimer(pace)
	defer rest.Stop()
	if !write(c.statusEvent()) {
		return nil
	}
	for {
		select {
		case <-ctx.Request().Context().Done():
			return nil
		case <-c.life.Done():
			return nil
		case <-over.C:
			return nil
		case <-ticker.C:
			if !write(c.statusEvent()) {
				return nil
			}
		case <-s.signal:
			if events := c.feed.take(s); len(events) > 0 && !write(bytes.Join(events, nil)) {
				return nil
			}
			rest.Reset(pace)
			select {
			case <-rest.C:
			case <-ctx.Request().Context().Done():
				return nil
			case <-c.life.Done():
				return nil
			}
		}
	}
}

func (c *Console) statusEvent() []byte {
	status, err := c.status.get()
	if err != nil {
		return event("status", nil)
	}
	return event("status", status)
}
