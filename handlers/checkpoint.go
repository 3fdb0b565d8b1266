package handlers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/apierr"
	"quorate/internal/peernode"
	"quorate/internal/peernode/checkpoint"
)

// ErrNotExecuted reports that this process does not execute the P-Chain of a network.
var ErrNotExecuted = errors.New("its P-Chain is not executed here")

// Export exports a checkpoint of a network's P-Chain; see peernode.Node. The error may be ErrNotExecuted.
type Export func(ctx context.Context, network string, height uint64, begin func(checkpoint.Header) io.Writer) error

// exportCheckpoint answers GET /checkpoint with a checkpoint of the network that is named. The query parameter height is
// a later height to wait for; without it, the checkpoint is of the current state. Only a complete checkpoint has the hash
// at its end.
func exportCheckpoint(export Export, log func(error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		// A page of another site cannot read the answer, but a GET without an origin passes middleware.Pages, and it would
		// take one of the few exports at a time.
		if site := c.Request().Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			return &apierr.Error{Status: http.StatusForbidden, Message: "pages of other sites may not ask for this"}
		}
		var height uint64
		var err error
		if text := c.QueryParam("height"); text != "" {
			if height, err = strconv.ParseUint(text, 10, 64); err != nil || height == 0 {
				return apierr.BadRequest("height: must be a positive integer, got %q", apierr.Excerpt(text))
			}
		}
		name, response := c.QueryParam("network"), c.Response()
		err = export(c.Request().Context(), name, height, func(checkpoint.Header) io.Writer {
			response.Header().Set(echo.HeaderContentType, echo.MIMEOctetStream)
			return &pacedWriter{response, http.NewResponseController(response)}
		})
		switch {
		case response.Committed:
			if err != nil {
				log(err)
				panic(http.ErrAbortHandler) // so that the client notices the truncation
			}
			return nil
		case errors.Is(err, ErrNotExecuted):
			of := "this network"
			if name != "" {
				of = strconv.Quote(apierr.Excerpt(name))
			}
			return apierr.NotFound("network: the P-Chain of %s is not executed here; only networks whose nodes include p2p execute it", of)
		case errors.Is(err, peernode.ErrPast):
			return apierr.BadRequest("height: %s", err)
		case errors.Is(err, peernode.ErrBusy):
			return &apierr.Error{Status: http.StatusConflict, Message: err.Error()}
		case errors.Is(err, peernode.ErrBehind):
			return apierr.Unavailable(err, "%s", err)
		}
		return err
	}
}

// pacedWriter gives each write its own deadline.
type pacedWriter struct {
	io.Writer
	connection *http.ResponseController
}

func (w *pacedWriter) Write(b []byte) (int, error) {
	_ = w.connection.SetWriteDeadline(time.Now().Add(lineTimeout))
	return w.Writer.Write(b)
}
