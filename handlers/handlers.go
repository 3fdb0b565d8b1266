// Package handlers is the HTTP surface: a public one with the APIs and a private
// one for operators. It reads requests, asks the layers below and explains their
// answers; it knows no protocol of the network.
package handlers

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"quorate/handlers/access"
	"quorate/handlers/apierr"
	"quorate/handlers/compat"
	"quorate/handlers/console"
	"quorate/handlers/data"
	"quorate/handlers/docs"
	"quorate/handlers/evm"
	"quorate/handlers/metrics"
	"quorate/handlers/middleware"
	"quorate/handlers/networks"
	"quorate/handlers/signing"
	"quorate/internal/node"
)

// Network is a network that is served, Signer what signs its messages.
type (
	Network = signing.Network
	Signer  = signing.Signer
)

// Options configure the public surface.
type Options struct {
	// Networks finds networks for signing; their IDs differ.
	Networks networks.Directory[Network]
	// Data finds the indexed data of networks.
	Data networks.Directory[data.Network]
	// EVM has the records of EVM chains; its Key is PageKey, its Log and Timeout are those
	// below, and nil Chains are none.
	EVM evm.Options
	// Node answers as a node does, for what is below /ext and /{network}/ext; nil
	// offers no such thing.
	Node http.Handler
	// Answers bounds what Node's answers take, and is shared out among clients; nil is no
	// bound.
	Answers *node.Budget
	// Console is the web console; nil leaves it out.
	Console *console.Console
	// PageKey seals page tokens of the Metrics API, which are good for 24 hours, and
	// the balances in page tokens of EVM chains: it should outlast the process. If it
	// is empty, tokens are good until the process ends.
	PageKey []byte
	// Log gets one line per request; nil drops them.
	Log *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// ClientCompat says who gets the generated clients' form of answers; empty
	// means compat.Auto.
	ClientCompat compat.Mode
	// BodyLimit bounds request bodies, in bytes; 0 means 256 KiB.
	BodyLimit int64
	// BodyTimeout bounds the arrival of a request body; 0 means 10 s.
	BodyTimeout time.Duration
	// Origins are the web sites whose pages may call the service, such as
	// https://example.org; nil means all, and an empty list none.
	Origins []string
	// Access checks keys and allowances; nil lets everybody in.
	Access *access.Guard
	// ClientIP finds a request's client, for the log and for Access; nil takes the
	// peer of the connection.
	ClientIP echo.IPExtractor
	// Tracer makes a span of each request; nil makes none.
	Tracer trace.Tracer
	// RequestTimeout bounds the work on one request, after its body has arrived;
	// 0 means 30 s.
	RequestTimeout time.Duration
}

// New makes the public surface.
func New(o Options) (*echo.Echo, error) {
	mode, err := compat.ParseMode(string(o.ClientCompat))
	if err != nil {
		return nil, err
	}
	api, err := signing.New(o.Networks, cmp.Or(o.RequestTimeout, 30*time.Second), o.Access.Charge)
	if err != nil {
		return nil, fmt.Errorf("setting up the signing API: %w", err)
	}
	records, err := data.New(data.Options{Networks: o.Data, Log: o.Log, Timeout: o.RequestTimeout})
	if err != nil {
		return nil, fmt.Errorf("setting up the data API: %w", err)
	}
	if o.EVM.Chains == nil {
		o.EVM.Chains = new(evm.Chains)
	}
	o.EVM.Key, o.EVM.Log, o.EVM.Timeout = o.PageKey, o.Log, o.RequestTimeout
	series := metrics.New(metrics.Options{Chains: o.EVM.Chains, Key: o.PageKey, Timeout: o.RequestTimeout})
	origins := o.Origins
	if origins == nil {
		origins = []string{"*"}
	}
	further := []echo.MiddlewareFunc{middleware.Except(forNode, middleware.CORS(origins...))}
	if o.Tracer != nil {
		further = append(further, middleware.Trace(o.Tracer))
	}
	if o.Access != nil {
		further = append(further, o.Access.Middleware())
	}
	e := newEcho(o.Log, o.Metrics, append(further,
		middleware.Except(forNode, middleware.Body(cmp.Or(o.BodyLimit, 256<<10), cmp.Or(o.BodyTimeout, 10*time.Second))),
		middleware.Params(),
		middleware.Except(forNode, compat.Middleware(mode)),
	)...)
	if o.ClientIP != nil {
		e.IPExtractor = o.ClientIP
	}
	routeNode(e, o.Node, o.Access, o.Answers, cmp.Or(o.BodyTimeout, 10*time.Second))
	e.POST("/v1/signatureAggregator/:network/aggregateSignatures", api.AggregateSignatures)
	e.POST("/v1/signatureAggregator/:network/aggregateSignatures\\:batch", api.AggregateSignaturesBatch)
	e.GET("/v1/signatureAggregator/:network/aggregateSignatures/:txHash", api.AggregateTransactionSignatures)
	e.POST("/v1/signatureAggregator/:network/verifySignedMessage", api.VerifySignedMessage)
	e.POST(signing.PeerPath, api.PeerAggregateSignatures)
	records.Route(e)
	evm.New(o.EVM).Route(e)
	series.Route(e)
	if err := docs.Route(e); err != nil {
		return nil, fmt.Errorf("setting up the reference: %w", err)
	}
	if o.Console != nil {
		o.Console.Route(e)
	}
	health := peerHealth(o.Networks)
	e.GET("/health", health)
	e.HEAD("/health", health)
	return e, nil
}

// newEcho has what both surfaces share: request IDs, access log, metrics, error
// bodies and the recovery of panics, from the outside in; further middleware comes
// within these.
func newEcho(log *slog.Logger, registerer prometheus.Registerer, further ...echo.MiddlewareFunc) *echo.Echo {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect()
	e.HTTPErrorHandler = apierr.Handler(func(path string) apierr.Form {
		switch {
		case path == signing.PeerPath:
			return apierr.Peer
		case metrics.Serves(path):
			return apierr.MetricsAPI
		}
		return apierr.DataAPI
	})
	e.Pre(middleware.Colons())
	all := []echo.MiddlewareFunc{middleware.RequestID(), middleware.AccessLog(log, forNode)}
	if registerer != nil {
		all = append(all, middleware.Metrics(e, registerer))
	}
	all = append(all, middleware.Errors(), middleware.Recover(log))
	e.Use(middleware.Chain(append(all, further...)...))
	return e
}
