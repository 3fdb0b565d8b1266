// Package handlers builds the routers of the service: a public one with the APIs, and a private one for operators. It
// parses requests, calls the packages below it and converts their errors. It implements no network protocol.
package handlers

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
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
	"quorate/handlers/operation"
	"quorate/handlers/signing"
	live "quorate/handlers/stream"
	"quorate/handlers/webhooks"
	"quorate/internal/node"
	"quorate/internal/webhook"
)

// Network is a network of the signing operations, and Signer signs its messages.
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
	// EVM configures the operations on EVM chains. New sets its Key, Log, Timeout, Streams, Webhooks and Answers from the
	// other fields. If its Chains are nil, there are no EVM chains.
	EVM evm.Options
	// Webhooks holds the webhooks; nil answers 404 to requests about them.
	Webhooks *webhook.Book
	// Node serves the node API below /ext and /{network}/ext. Nil leaves it out.
	Node http.Handler
	// Answers limits the memory of Node's answers, and of those about EVM transactions with many effects, and divides it among
	// clients. Nil means no limit.
	Answers *node.Budget
	// Console is the web console; nil leaves it out.
	Console *console.Console
	// Streams serves the live streams; nil means default limits. They must be closed before the server shuts down.
	Streams *live.Streams
	// PageKey authenticates page tokens and encrypts the balances in them. It should outlast the
	// process, and replicas need the same one. If it is empty, tokens are valid until the process
	// ends.
	PageKey []byte
	// Log receives one line per request. Nil discards them.
	Log *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// ClientCompat selects the requests that get responses in the generated clients' form. Empty means compat.Auto.
	ClientCompat compat.Mode
	// Body returns the limits of a request body. It is called for each request. Nil means 256 KiB within 10 s.
	Body func() middleware.BodyLimits
	// Origins are the web origins whose pages may call the service, for example https://example.org; nil means all,
	// and an empty list none.
	Origins []string
	// AllowedHosts are the names of the service. They matter if Origins are restricted; see middleware.Pages.
	AllowedHosts []string
	// Access checks API keys and allowances. Nil admits all requests.
	Access *access.Guard
	// ClientIP returns a request's client IP address, for the log and for Access. Nil uses
	// the peer of the connection.
	ClientIP echo.IPExtractor
	// Tracer starts a span for each request. Nil disables tracing.
	Tracer trace.Tracer
	// RequestTimeout limits the work on one request after its body has arrived; 0 means
	// 30 s.
	RequestTimeout time.Duration
}

// New returns the public router.
func New(o Options) (*echo.Echo, error) {
	mode, err := compat.ParseMode(string(o.ClientCompat))
	if err != nil {
		return nil, err
	}
	if o.Streams == nil {
		o.Streams = live.New(live.Options{})
	}
	api, err := signing.New(o.Networks, cmp.Or(o.RequestTimeout, 30*time.Second), o.Access, o.Streams)
	if err != nil {
		return nil, fmt.Errorf("setting up the signing API: %w", err)
	}
	chainData, err := data.New(data.Options{Networks: o.Data, Log: o.Log, Timeout: o.RequestTimeout, Key: o.PageKey})
	if err != nil {
		return nil, fmt.Errorf("setting up the data API: %w", err)
	}
	if o.EVM.Chains == nil {
		o.EVM.Chains = new(evm.Chains)
	}
	o.EVM.Key, o.EVM.Log, o.EVM.Timeout, o.EVM.Streams = o.PageKey, o.Log, o.RequestTimeout, o.Streams
	o.EVM.Webhooks, o.EVM.Answers = o.Webhooks != nil, o.Answers
	series := metrics.New(metrics.Options{Chains: o.EVM.Chains, Key: o.PageKey, Timeout: o.RequestTimeout})
	origins := o.Origins
	if origins == nil {
		origins = []string{"*"}
	}
	pages, err := middleware.Pages(origins, o.AllowedHosts, forNode)
	if err != nil {
		return nil, err
	}
	if o.Body == nil {
		o.Body = func() middleware.BodyLimits { return middleware.BodyLimits{Size: 256 << 10, Time: 10 * time.Second} }
	}
	cors := middleware.CORS(origins...)
	further := []echo.MiddlewareFunc{middleware.Except(forNode, cors), exposeErrors(cors), pages}
	if o.Tracer != nil {
		further = append(further, middleware.Trace(o.Tracer))
	}
	if o.Access != nil {
		further = append(further, middleware.Except(isPreflight, o.Access.Middleware()))
	}
	e := newEcho(o.Log, o.Metrics, append(further,
		middleware.Except(forNode, middleware.Body(o.Body)),
		middleware.Params(),
		middleware.Except(forNode, compat.Middleware(mode)),
		middleware.Except(forNode, identifyClients(o.Access)),
	)...)
	if o.ClientIP != nil {
		e.IPExtractor = o.ClientIP
	}
	routeNode(e, o.Node, o.Access, o.Answers, o.Body)
	e.POST("/v1/signatureAggregator/:network/aggregateSignatures", operation.Strict(api.AggregateSignatures))
	e.POST("/v1/signatureAggregator/:network/aggregateSignatures\\:batch", operation.Strict(api.AggregateSignaturesBatch))
	e.GET("/v1/signatureAggregator/:network/aggregateSignatures/:txHash", operation.Strict(api.AggregateTransactionSignatures))
	e.GET("/v1/signatureAggregator/:network/blockchains/:blockchainId/transactions/:txHash/messages", api.AggregateSentMessages)
	e.POST("/v1/signatureAggregator/:network/verifySignedMessage", operation.Strict(api.VerifySignedMessage))
	e.GET("/v1/signatureAggregator/:network/messages\\:stream", operation.Strict(api.StreamMessages, live.From))
	e.GET("/v1/signatureAggregator/:network/subnets/:subnetId/validators\\:stream", operation.Strict(api.StreamValidators, live.From))
	e.POST(signing.PeerPath, operation.Strict(api.PeerAggregateSignatures))
	webhooks.New(webhooks.Options{Book: o.Webhooks, Chains: o.EVM.Chains, Networks: o.Data, Guard: o.Access, Key: o.PageKey, Timeout: o.RequestTimeout}).Route(e)
	chains := evm.New(o.EVM)
	e.GET("/v1/icm/messages\\:stream", operation.Strict(chains.StreamICM, evm.StreamParameters()...))
	operations := slices.Concat(chainData.Operations(), chains.Operations(), series.Operations())
	operation.Route(e, operations)
	if err := docs.Route(e, operations); err != nil {
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

// newEcho returns a router with the middleware of both routers, from the outside in: request IDs, access log, metrics,
// error bodies and recovery from panics. further runs inside these.
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
	all := []echo.MiddlewareFunc{middleware.RequestID(), middleware.AccessLog(log, quiet)}
	if registerer != nil {
		all = append(all, middleware.Metrics(e, registerer))
	}
	all = append(all, middleware.Errors(), middleware.Recover(log))
	e.Use(middleware.Chain(append(all, further...)...))
	return e
}
