// Package sse encodes server-sent events (WHATWG HTML, 9.2) with JSON data.
package sse

import (
	"encoding/json"
	"fmt"
)

// ContentType is the content type of a stream of events.
const ContentType = "text/event-stream"

// Event returns one encoded event.
func Event(name string, data any) ([]byte, error) {
	content, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, content), nil
}
