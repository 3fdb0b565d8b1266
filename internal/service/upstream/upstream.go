// Package upstream measures the calls to upstream nodes.
package upstream

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Calls has the metrics of the calls to all upstream nodes. It is safe for concurrent use.
type Calls struct {
	seconds *prometheus.HistogramVec
	up      *prometheus.GaugeVec
}

// NewCalls registers the metrics.
func NewCalls(registry prometheus.Registerer) *Calls {
	metrics := promauto.With(registry)
	return &Calls{
		seconds: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "quorate_upstream_request_seconds",
			Help:    "Time from a request to an upstream node until its answer began, by the answer's status (2xx to 5xx, 429, or none).",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12), // to 24 s
		}, []string{"network", "node", "status"}),
		up: metrics.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorate_upstream_up",
			Help: "1 if the upstream node answered the latest request that ended, 0 if it did not, or with status 401, 403 or 5xx.",
		}, []string{"network", "node"}),
	}
}

// Transport returns a transport that measures the requests of a network's clients. Nodes are named by host and port.
func (c *Calls) Transport(network string, next http.RoundTripper) http.RoundTripper {
	return &transport{c, network, next}
}

type transport struct {
	calls   *Calls
	network string
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := t.next.RoundTrip(r)
	if errors.Is(r.Context().Err(), context.Canceled) {
		return response, err // the caller did not wait for the answer
	}
	t.calls.seconds.WithLabelValues(t.network, r.URL.Host, statusOf(response, err)).Observe(time.Since(began).Seconds())
	up := 0.0
	if err == nil && answers(response.StatusCode) {
		up = 1
	}
	t.calls.up.WithLabelValues(t.network, r.URL.Host).Set(up)
	return response, err
}

// answers reports whether a status means neither that the node fails nor that it refuses this service, for example
// because a key has expired or the node does not know its host name.
func answers(status int) bool {
	return status != http.StatusUnauthorized && status != http.StatusForbidden && status < http.StatusInternalServerError
}

func statusOf(response *http.Response, err error) string {
	switch {
	case err != nil:
		return "none"
	case response.StatusCode == http.StatusTooManyRequests:
		return "429"
	}
	return strconv.Itoa(response.StatusCode/100) + "xx"
}

// CloseIdleConnections is called by http.Client.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
