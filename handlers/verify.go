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

// ErrNotIndexed reports that a network has no index, or none yet.
var ErrNotIndexed = errors.New("its chains are not indexed")

// MostVerifiedAddresses is the maximum number of addresses that are compared with the upstream node.
const MostVerifiedAddresses = 1_000_000

// lineTimeout is how long the client may take to read a line.
const lineTimeout = time.Minute

// Verify verifies the index of a network. The error may be ErrNotIndexed if it has not called tell.
type Verify func(ctx context.Context, network string, o primary.VerifyOptions, tell func(primary.Verification)) error

// verifyIndex answers POST /index/verify with lines of JSON. Each is a Verification, and the last one has Done set;
// without it, the verification was interrupted. Only one runs at a time, because it loads the store and the upstream
// node.
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
		if response.Committed { // the client notices the missing last line
			if err != nil {
				apierr.Note(c, "verification", apierr.Internal(err))
			}
			return nil
		}
		if errors.Is(err, ErrNotIndexed) {
			return apierr.NotFound("network: no chain of %q is indexed here; GET /index lists those that are", apierr.Excerpt(c.QueryParam("network")))
		}
		return err
	}
}
