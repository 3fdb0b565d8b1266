package p2p

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of requests; those of connections and bytes are the library's.
type metrics struct {
	requests   prometheus.Counter
	responses  prometheus.Counter
	refusals   prometheus.Counter
	unexpected prometheus.Counter
	unhandled  prometheus.Counter
}

// registerer is where the metrics of this network go, the library's included.
func (n *Network) registerer() prometheus.Registerer {
	registerer := n.config.Metrics
	if registerer == nil {
		registerer = prometheus.NewRegistry()
	}
	return prometheus.WrapRegistererWithPrefix("quorate_p2p_", registerer)
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		requests:   counter("requests_total", "application requests, one for each node asked"),
		responses:  counter("responses_total", "application responses to requests of ours"),
		refusals:   counter("refusals_total", "application errors in answer to requests of ours"),
		unexpected: counter("unexpected_answers_total", "answers dropped because nobody waited for them: late, repeated, or not asked for"),
		unhandled:  counter("unhandled_messages_total", "messages dropped because we serve nothing to peers"),
	}
	return m, errors.Join(
		registerer.Register(m.requests),
		registerer.Register(m.responses),
		registerer.Register(m.refusals),
		registerer.Register(m.unexpected),
		registerer.Register(m.unhandled),
	)
}
