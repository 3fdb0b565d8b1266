package p2p

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests      prometheus.Counter
	responses     prometheus.Counter
	refusals      prometheus.Counter
	unexpected    prometheus.Counter
	unhandled     prometheus.Counter
	malformed     prometheus.Counter
	unsent        prometheus.Counter
	dials         prometheus.Counter
	dialFailures  prometheus.Counter
	failures      *prometheus.CounterVec
	bytesSent     prometheus.Counter
	bytesReceived prometheus.Counter
	pings         prometheus.Histogram
}

// registerer returns where this network registers its metrics.
func (n *Network) registerer() prometheus.Registerer {
	registerer := n.config.Metrics
	if registerer == nil {
		registerer = prometheus.NewRegistry()
	}
	return prometheus.WrapRegistererWithPrefix("quorate_p2p_", registerer)
}

func newMetrics(registerer prometheus.Registerer, n *Network) (*metrics, error) {
	var errs error
	register := func(c prometheus.Collector) { errs = errors.Join(errs, registerer.Register(c)) }
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		register(c)
		return c
	}
	gauge := func(name, help string, value func() float64) {
		register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	m := &metrics{
		requests:      counter("requests_total", "Application requests, one for each node."),
		responses:     counter("responses_total", "Application responses to these requests."),
		refusals:      counter("refusals_total", "Application errors in answer to these requests."),
		unexpected:    counter("unexpected_answers_total", "Answers dropped because no request waits for them: late, repeated, or not requested."),
		unhandled:     counter("unhandled_messages_total", "Messages dropped because the service answers no requests of peers."),
		malformed:     counter("malformed_messages_total", "Messages dropped because they cannot be parsed."),
		unsent:        counter("unsent_messages_total", "Messages dropped because the node does not read them."),
		dials:         counter("dials_total", "Attempts to connect to a node."),
		dialFailures:  counter("dial_failures_total", "Attempts to connect that failed, or reached another node."),
		bytesSent:     counter("sent_bytes_total", "Bytes of messages sent, before encryption."),
		bytesReceived: counter("received_bytes_total", "Bytes of messages received, after decryption."),
		pings: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ping_seconds", Help: "Round-trip time of pings.", Buckets: prometheus.ExponentialBuckets(.001, 2, 14),
		}),
	}
	m.failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "connect_failures_total", Help: "Attempts to connect to a node that failed, handshakes included, by reason.",
	}, []string{"reason"})
	register(m.failures)
	register(m.pings)
	gauge("peers", "Nodes that are connected, with a finished handshake.", func() float64 { return float64(n.ConnectedCount()) })
	gauge("backlog_bytes", "Bytes that wait for nodes to read them.", func() float64 { return float64(n.backlog.Load()) })
	return m, errs
}
