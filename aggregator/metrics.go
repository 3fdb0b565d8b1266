package aggregator

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one network's aggregator; the registerer adds the network's name.
type metrics struct {
	latency  *prometheus.HistogramVec
	stages   *prometheus.HistogramVec
	asked    prometheus.Counter
	refusals *prometheus.CounterVec
	invalid  prometheus.Counter
	proofs   prometheus.Histogram
	rounds   prometheus.Gauge
	hits     *prometheus.CounterVec
}

var latencyBuckets = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quorate_sign_seconds", Help: "Time to answer a request for a signed message, by outcome.", Buckets: latencyBuckets,
		}, []string{"outcome"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quorate_stage_seconds", Help: "Time of a request's stages: set (resolving the validator set), first_answer and quorum (since the round began), verify (making and checking the message).", Buckets: latencyBuckets,
		}, []string{"stage"}),
		asked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_signature_requests_total", Help: "Signature requests sent to validators.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_refusals_total", Help: "Signature requests that validators refused, by code.",
		}, []string{"code"}),
		invalid: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_invalid_signatures_total", Help: "Answers that were no valid signature.",
		}),
		proofs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quorate_proof_seconds", Help: "Time to prove a batch of signatures one by one.", Buckets: latencyBuckets,
		}),
		rounds: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_rounds", Help: "Signing rounds under way.",
		}),
		hits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_requests_served_total", Help: "Requests by what served them: a finished message, or a round.",
		}, []string{"source"}),
	}
	for _, c := range []prometheus.Collector{m.latency, m.stages, m.asked, m.refusals, m.invalid, m.proofs, m.rounds, m.hits} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// refusalLabel keeps the label bounded: remote nodes choose the codes.
func refusalLabel(code int32) string {
	if code < -4 || code > 20 {
		return "other"
	}
	return strconv.Itoa(int(code))
}
