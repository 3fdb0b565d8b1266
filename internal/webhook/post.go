package webhook

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// exchange sends a request and reads the beginning of the answer. Errors do not contain the URL.
func exchange(client *http.Client, request *http.Request) error {
	answer, err := client.Do(request)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return fmt.Errorf("sending the message: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // the answer is not needed
	// A connection is used again only if its answer was read to the end.
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answered with status %d", answer.StatusCode)
	}
	return nil
}
