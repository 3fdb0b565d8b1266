// Package sse begins streams of server-sent events (WHATWG HTML, 9.2) and encodes events with JSON data.
package sse

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
)

// ContentType is the content type of a stream of events.
const ContentType = "text/event-stream"

// Comment is a comment, which clients ignore. It keeps proxies from closing an idle connection.
var Comment = []byte(":\n\n")

// Begin sends the header of a stream of events.
func Begin(response *echo.Response) {
	response.Header().Set(echo.HeaderContentType, ContentType)
	response.Header().Set(echo.HeaderCacheControl, "no-store")
	response.Header().Set("X-Accel-Buffering", "no") // for proxies
	response.WriteHeader(http.StatusOK)
}

// Event returns one encoded event.
func Event(name string, data any) ([]byte, error) { return EventWithID("", name, data) }

// EventWithID returns one encoded event with an ID, which clients send as Last-Event-ID when they connect again. An empty
// ID is left out. IDs and names have no line breaks.
func EventWithID(id, name string, data any) ([]byte, error) {
	content, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Appendf(nil, "%sevent: %s\ndata: %s\n\n", id, name, content), nil
}
