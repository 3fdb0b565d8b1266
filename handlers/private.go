package handlers

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"quorate/handlers/apierr"
)

// PrivateOptions of the operators' surface.
type PrivateOptions struct {
	// Networks as in Options; only Ready is used.
	Networks map[string]Network
	// Gatherer collects the metrics to show; nil shows none.
	Gatherer prometheus.Gatherer
	// Log gets one line per request; nil drops them.
	Log *slog.Logger
}

// NewPrivate makes the operators' surface: /metrics, /healthz (the process is
// alive), /readyz (every network is ready) and /readyz/{network} (that one is).
func NewPrivate(o PrivateOptions) (*echo.Echo, error) {
	e, err := newEcho(o.Log, nil)
	if err != nil {
		return nil, err
	}
	gatherer := o.Gatherer
	if gatherer == nil {
		gatherer = prometheus.NewRegistry()
	}
	e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		// A collector that fails must not hide the others.
		ErrorHandling: promhttp.ContinueOnError,
	})))
	e.GET("/healthz", func(c echo.Context) error {
		return c.JSON(http.StatusOK, map[string]string{"status": "alive"})
	})
	e.GET("/readyz", func(c echo.Context) error {
		return sendReadiness(c, o.Networks)
	})
	e.GET("/readyz/:network", func(c echo.Context) error {
		name := c.Param("network")
		n, ok := o.Networks[name]
		if !ok {
			return apierr.NotFound("network: %q is not served here", apierr.Excerpt(name))
		}
		return sendReadiness(c, map[string]Network{name: n})
	})
	return e, nil
}

type readiness struct {
	Ready bool `json:"ready"`
	// Reason says what is missing.
	Reason string `json:"reason,omitempty"`
}

func sendReadiness(c echo.Context, networks map[string]Network) error {
	status, all := http.StatusOK, true
	states := make(map[string]readiness, len(networks))
	for name, n := range networks {
		state := readiness{Ready: true}
		if err := check(n); err != nil {
			state = readiness{Reason: err.Error()}
			status, all = http.StatusServiceUnavailable, false
		}
		states[name] = state
	}
	return c.JSON(status, struct {
		Ready    bool                 `json:"ready"`
		Networks map[string]readiness `json:"networks"`
	}{all, states})
}

func check(n Network) error {
	if n.Ready == nil {
		return nil
	}
	return n.Ready()
}

// peerHealth is GET /health as the stand-alone aggregator program has it, for
// tools that wait for it: 200 with status up, or 503 with status down. It is up
// when every network is ready; reasons are for operators and stay private.
func peerHealth(networks map[string]Network) echo.HandlerFunc {
	type state struct {
		Status  string           `json:"status"`
		Details map[string]state `json:"details,omitempty"`
	}
	names := slices.Sorted(maps.Keys(networks))
	return func(c echo.Context) error {
		status, whole := http.StatusOK, state{Status: "up", Details: make(map[string]state, len(names))}
		for _, name := range names {
			one := state{Status: "up"}
			if check(networks[name]) != nil {
				one.Status = "down"
				status, whole.Status = http.StatusServiceUnavailable, "down"
			}
			whole.Details[name] = one
		}
		return c.JSON(status, whole)
	}
}
