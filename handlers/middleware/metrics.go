package middleware

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"quorate/handlers/apierr"
)

// Metrics counts and times requests by route and status class. The route label is a pattern of e, or "unmatched", so
// that clients cannot create labels.
func Metrics(e *echo.Echo, r prometheus.Registerer) echo.MiddlewareFunc {
	metrics := promauto.With(r)
	requests := metrics.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_http_requests_total", Help: "HTTP requests answered, by route and status class (gone: the client left first).",
	}, []string{"route", "status"})
	seconds := metrics.NewHistogramVec(prometheus.HistogramOpts{
		Name: "quorate_http_request_seconds", Help: "Time from the end of a request's headers to the end of its response, by route and status class.",
		Buckets: []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30},
	}, []string{"route", "status"})
	inFlight := metrics.NewGauge(prometheus.GaugeOpts{
		Name: "quorate_http_requests_in_flight", Help: "HTTP requests being answered.",
	})
	// e has all its routes when the first request arrives.
	routes := sync.OnceValue(func() map[string]*byClass {
		known := map[string]*byClass{unmatched: {}}
		for _, route := range e.Routes() {
			known[route.Path] = new(byClass)
		}
		return known
	})
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			inFlight.Inc()
			defer inFlight.Dec()
			start := time.Now()
			err := next(c)
			route := c.Path()
			classes, ok := routes()[route]
			if !ok {
				route, classes = unmatched, routes()[unmatched]
			}
			status := c.Response().Status
			s := classes.of(status)
			if s == nil {
				class := statusClass(status)
				s = &series{requests.WithLabelValues(route, class), seconds.WithLabelValues(route, class)}
				classes.keep(status, s)
			}
			s.requests.Inc()
			s.seconds.Observe(time.Since(start).Seconds())
			return err
		}
	}
}

// unmatched is the label of paths without a route.
const unmatched = "unmatched"

// series holds the metrics of one route and status class.
type series struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

// byClass holds the series of a route by status class, so that requests need not look them
// up by their labels. It is safe for concurrent use.
type byClass [6]atomic.Pointer[series]

// of returns nil before the first request of the class.
func (b *byClass) of(status int) *series {
	if i := classIndex(status); i >= 0 {
		return b[i].Load()
	}
	return nil
}

func (b *byClass) keep(status int, s *series) {
	if i := classIndex(status); i >= 0 {
		b[i].Store(s)
	}
}

// classIndex returns -1 for statuses that have no cached series.
func classIndex(status int) int {
	if i := status / 100; status != apierr.StatusClientGone && i >= 0 && i < len(byClass{}) {
		return i
	}
	return -1
}

func statusClass(status int) string {
	if status == apierr.StatusClientGone {
		return "gone"
	}
	return strconv.Itoa(status/100) + "xx"
}
