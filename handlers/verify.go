package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/internal/index/primary"
)

// ErrNotRecorded says that nothing of a network is recorded, or not yet.
var ErrNotRecorded = errors.New("its chains are not recorded")

// MostVerifiedAddresses is how many addresses are compared with the node at most.
const MostVerifiedAddresses = 1_000_000

// lineTimeout is how long whoever asked may take to read a line.
const lineTimeout = time.Minute

// Verify checks what is recorded of a network. Errors may be ErrNotRecorded, if nothing
// was told.
type Verify func(ctx context.Context, network string, o primary.VerifyOptions, tell func(primary.Verification)) error

// verifyIndex answers POST /index/verify with lines of JSON, each a Verification, the
// last one Done; without that, it was cut short. One runs at a time, since it keeps the
// store and the node busy.
func verifyIndex(verify Verify) echo.HandlerFunc {
	var busy sync.Mutex
	return func(c echo.Context) error {
		o := primary.VerifyOptions{Addresses: 1000}
		var err error
		if text := c.QueryParam("addresses"); text != "" {
			if o.Addresses, err = strconv.Atoi(text); err != nil || o.Addresses < 0 || o.Addresses > MostVerifiedAddresses {
				return apierr.BadRequest("addresses: must be an integer from 0 to %d, got %q", MostVerifiedAddresses, apierr.Excerpt(text))
			}
		}
		if text := c.QueryParam("seed"); text != "" {
			if o.Seed, err = ids.ShortFromString(text); err != nil {
				return apierr.BadRequest("seed: must be 20 bytes as base58 with a checksum, got %q", apierr.Excerpt(text))
			}
		}
		if !busy.TryLock() {
			return &apierr.Error{Status: http.StatusConflict, Message: "a verification is running; try again when it has ended"}
		}
		defer busy.Unlock()
		response := c.Response()
		lines := json.NewEncoder(response)
		err = verify(c.Request().Context(), c.QueryParam("network"), o, func(v primary.Verification) {
			if !response.Committed {
				response.Header().Set(echo.HeaderContentType, "application/x-ndjson")
			}
			_ = http.NewResponseController(response).SetWriteDeadline(time.Now().Add(lineTimeout))
			if lines.Encode(v) == nil {
				response.Flush()
			}
		})
		if response.Committed {
			return nil // how it ended is in the log, and what is missing tells the client
		}
		if errors.Is(err, ErrNotRecorded) {
			return apierr.NotFound("network: nothing of %q is recorded here; GET /index tells what is", apierr.Excerpt(c.QueryParam("network")))
		}
		return err
	}
}
