package handlers

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quorate/aggregator"
	"quorate/handlers/access"
	"quorate/handlers/middleware"
	"quorate/handlers/signing"
	"quorate/internal/node"
)

// nodePaths are the paths of the node API: of the main network, and of each by its name.
var nodePaths = []string{"/ext", "/ext/*", "/:ofNode/ext", "/:ofNode/ext/*"}

// NodeBodyLimit limits the bodies of requests to the node API, in bytes. It is a node's own
// limit on the C-Chain.
const NodeBodyLimit = 5 << 20

// forNode reports whether a request is for the node API, which has its own rules for
// browsers and its own errors. Like a node, the service does not log each of these requests.
func forNode(c echo.Context) bool {
	return slices.Contains(nodePaths, c.Path())
}

// isPreflight reports whether a request is a CORS preflight of the node API. It has no API key, and a node never refuses it.
func isPreflight(c echo.Context) bool {
	r := c.Request()
	return forNode(c) && r.Method == http.MethodOptions && r.Header.Get(echo.HeaderOrigin) != "" && r.Header.Get(echo.HeaderAccessControlRequestMethod) != ""
}

// exposeErrors lets pages read the errors of calls that do not reach the node API, whose answers have headers of their
// own.
func exposeErrors(cors echo.MiddlewareFunc) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			if err == nil || !forNode(c) || c.Request().Method == http.MethodOptions {
				return err
			}
			return cors(func(echo.Context) error { return err })(c)
		}
	}
}

// quiet reports whether a successful request is logged at debug level: calls of the node
// API, and probes of balancers and monitors.
func quiet(c echo.Context) bool {
	switch path := c.Path(); path {
	case "/health", "/healthz", "/metrics":
		return true
	default:
		return strings.HasPrefix(path, "/readyz") || forNode(c)
	}
}

// routeNode routes the paths of the node API to h, unless h is nil. The context of a request has its client (see
// access.ClientOf), which the memory of the answer is charged to. Bodies are limited to NodeBodyLimit and to the time of
// limits.
func routeNode(e *echo.Echo, h http.Handler, guard *access.Guard, answers *node.Budget, limits func() middleware.BodyLimits) {
	if h == nil {
		return
	}
	body := middleware.Body(func() middleware.BodyLimits { return middleware.BodyLimits{Size: NodeBodyLimit, Time: limits().Time} })
	for _, path := range nodePaths {
		e.Any(path, func(c echo.Context) error {
			ctx, client := guard.Accompany(c)
			ctx, done := answers.Begin(node.WithClient(ctx, client.ID))
			defer done()
			h.ServeHTTP(c.Response(), c.Request().WithContext(ctx))
			return nil
		}, body)
	}
}

// identifyClients adds the client to the context of each request. Rounds are counted by client, signing is charged to the
// client, and calls of upstream nodes are divided among clients.
func identifyClients(guard *access.Guard) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx, client := guard.Accompany(c)
			charge := func(u aggregator.Usage) { client.Owe(ctx, signing.Cost(u)) }
			signer := aggregator.WithUsage(aggregator.WithClient(ctx, client.ID()), charge)
			c.SetRequest(c.Request().WithContext(node.WithClient(signer, client.ID)))
			return next(c)
		}
	}
}
