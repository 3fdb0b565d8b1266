// Package health reports the health of the service as a node does (avalanchego, package api/health). Checks run at an
// interval. Each has tags.
package health

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/api/health"
	"github.com/ava-labs/avalanchego/utils/logging"

	"quorate/handlers/rpc"
)

// Application is the tag of checks that are part of every report.
const Application = health.ApplicationTag

// Check returns details for the report, which must encode as JSON, and an error if the check fails. It must end when
// its context ends.
type Check struct {
	Name string
	Tags []string
	// Ready adds the check to the readiness report, where it passes for good once it has passed.
	Ready bool
	Run   func(context.Context) (any, error)
}

// Options configures a Reporter.
type Options struct {
	// Interval is the time between two runs of all checks; 0 means 30 s.
	Interval time.Duration
	// Metrics gets the metric checks_failing.
	Metrics prometheus.Registerer
	Checks  []Check
}

// Reporter runs checks and reports their results.
type Reporter struct {
	health   health.Health
	interval time.Duration
}

// checkTimeout limits one check.
const checkTimeout = 10 * time.Second

// New returns a Reporter. A check fails until it has run.
func New(o Options) (*Reporter, error) {
	if o.Interval <= 0 {
		o.Interval = 30 * time.Second
	}
	h, err := health.New(logging.NoLog{}, o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the health metrics: %w", err)
	}
	for _, c := range o.Checks {
		checker := health.CheckerFunc(func(ctx context.Context) (any, error) {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			return c.Run(ctx)
		})
		err := h.RegisterHealthCheck(c.Name, checker, c.Tags...)
		if err == nil && c.Ready {
			err = h.RegisterReadinessCheck(c.Name, checker, c.Tags...)
		}
		if err != nil {
			return nil, fmt.Errorf("health check %s: %w", c.Name, err)
		}
	}
	return &Reporter{h, o.Interval}, nil
}

// Run runs the checks until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	r.health.Start(ctx, r.interval)
	<-ctx.Done()
	r.health.Stop()
}

// Endpoints returns the handlers of a node's health API: GET and JSON-RPC, and one path for each report.
func (r *Reporter) Endpoints(log *slog.Logger) (map[string]http.Handler, error) {
	answer, err := rpc.NewHandler(rpc.Endpoint{Services: []rpc.Service{{Names: []string{"health"}, Methods: &Service{r.health}}}, Log: log})
	if err != nil {
		return nil, err
	}
	report := health.NewGetHandler(r.health.Health)
	return map[string]http.Handler{
		"": http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodGet {
				report.ServeHTTP(w, req)
				return
			}
			answer.ServeHTTP(w, req)
		}),
		"/health":    report,
		"/readiness": health.NewGetHandler(r.health.Readiness),
		"/liveness":  health.NewGetHandler(r.health.Liveness),
	}, nil
}

// Service implements the methods.
type Service struct{ reporter health.Reporter }

// Health answers health.health.
func (s *Service) Health(_ *http.Request, args *health.APIArgs, reply *health.APIReply) error {
	reply.Checks, reply.Healthy = s.reporter.Health(args.Tags...)
	return nil
}

// Readiness answers health.readiness.
func (s *Service) Readiness(_ *http.Request, args *health.APIArgs, reply *health.APIReply) error {
	reply.Checks, reply.Healthy = s.reporter.Readiness(args.Tags...)
	return nil
}

// Liveness answers health.liveness.
func (s *Service) Liveness(_ *http.Request, args *health.APIArgs, reply *health.APIReply) error {
	reply.Checks, reply.Healthy = s.reporter.Liveness(args.Tags...)
	return nil
}

// Failing returns a handler that reports one failing check, for a service whose checks do not exist yet.
func Failing(name string, why func() error) http.Handler {
	return health.NewGetHandler(func(...string) (map[string]health.Result, bool) {
		text := why().Error()
		return map[string]health.Result{name: {Error: &text, Timestamp: time.Now().UTC(), ContiguousFailures: 1}}, false
	})
}
