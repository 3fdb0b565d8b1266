// Package sse writes server-sent events (WHATWG HTML, 9.2) whose data are JSON.
package sse

import (
	"encoding/json"
	"fmt"
)

// ContentType is that of a stream of events.
const ContentType = "text/event-stream"

// Event is one event of a stream.
func Event(name string, data any) ([]byte, error) {
	content, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, content), nil
}
