package handlers

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"quorate/handlers/access"
	"quorate/handlers/middleware"
	"quorate/internal/node"
)

// Where a node's surface is: of one network, and of each by its name.
var nodePaths = []string{"/ext", "/ext/*", "/:ofNode/ext", "/:ofNode/ext/*"}

// NodeBodyLimit is how long requests to a node's surface may be, in bytes, which is
// what a node allows on the C-Chain.
const NodeBodyLimit = 5 << 20

// forNode reports whether a request is for a node's surface, which has its own rules
// for browsers, and errors of its own. Wallets ask it many things: a node does not log
// each of them either.
func forNode(c echo.Context) bool {
	return slices.Contains(nodePaths, c.Path())
}

// routeNode hands what is for a node's surface to h, if that is not nil. The context of
// its requests has their client, see access.ClientOf, whose share of answers they count for.
func routeNode(e *echo.Echo, h http.Handler, guard *access.Guard, answers *node.Budget, patience time.Duration) {
	if h == nil {
		return
	}
	body := middleware.Body(NodeBodyLimit, patience)
	for _, path := range nodePaths {
		e.Any(path, func(c echo.Context) error {
			ctx, client := guard.Accompany(c)
			ctx, done := answers.Begin(ctx, client.ID)
			defer done()
			h.ServeHTTP(c.Response(), c.Request().WithContext(ctx))
			return nil
		}, body)
	}
}
