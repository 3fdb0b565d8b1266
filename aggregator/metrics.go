package aggregator

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one network's aggregator; the registerer adds the network's name.
type metrics struct {
	latency       *prometheus.HistogramVec
	stages        *prometheus.HistogramVec
	asked         prometheus.Counter
	timeouts      prometheus.Counter
	refusals      *prometheus.CounterVec
	invalid       prometheus.Counter
	shortfalls    *prometheus.CounterVec
	verifications prometheus.Histogram
	rounds        prometheus.Gauge
	served        *prometheus.CounterVec

	// Resolved once: a request that memory serves is so fast that a lookup by labels would be a
	// noticeable part of it.
	signed     prometheus.Observer // latency, of clients
	resolved   prometheus.Observer // stages, of the set
	fromMemory prometheus.Counter  // served
}

var latencyBuckets = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30}

func newMetrics(r prometheus.Registerer, verified *signatures, done *finished) (*metrics, error) {
	m := &metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quorate_sign_seconds", Help: "Time to answer a request for a signed message, by outcome and origin: client, or ahead of any client.", Buckets: latencyBuckets,
		}, []string{"outcome", "origin"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quorate_stage_seconds", Help: "Time of a request's stages: set (resolving the validator set), first_answer and quorum (since the round began), verify (making and checking the message).", Buckets: latencyBuckets,
		}, []string{"stage"}),
		asked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_signature_requests_total", Help: "Signature requests sent to validators.",
		}),
		timeouts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_signature_timeouts_total", Help: "Signature requests that validators did not answer in time.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_refusals_total", Help: "Signature requests that validators refused, by code.",
		}, []string{"code"}),
		invalid: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_invalid_signatures_total", Help: "Answers that were no valid signature.",
		}),
		shortfalls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_shortfalls_total", Help: "Requests without a quorum, by each reason for which weight was missing.",
		}, []string{"reason"}),
		verifications: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quorate_proof_seconds", Help: "Time to verify a batch of signatures, or to find the invalid ones in it.", Buckets: latencyBuckets,
		}),
		rounds: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_rounds", Help: "Signing rounds under way.",
		}),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_requests_served_total", Help: "Requests by what served them: a message finished before (memory, archive), or a round.",
		}, []string{"source"}),
	}
	m.signed = m.latency.WithLabelValues("signed", OriginClient.String())
	m.resolved = m.stages.WithLabelValues("set")
	m.fromMemory = m.served.WithLabelValues("memory")
	cacheBytes := func(cache string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quorate_cache_bytes", Help: "Bytes in memory of finished messages and of verified signatures.", ConstLabels: prometheus.Labels{"cache": cache},
		}, read)
	}
	cacheLookups := func(cache, result string, count *atomic.Uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_cache_lookups_total", Help: "Lookups of finished messages and of verified signatures in memory, by result.",
			ConstLabels: prometheus.Labels{"cache": cache, "result": result},
		}, func() float64 { return float64(count.Load()) })
	}
	for _, c := range []prometheus.Collector{
		m.latency, m.stages, m.asked, m.timeouts, m.refusals, m.invalid, m.shortfalls, m.verifications, m.rounds, m.served,
		cacheBytes("messages", done.bytes), cacheBytes("signatures", verified.bytes),
		cacheLookups("messages", "hit", &done.hits), cacheLookups("messages", "miss", &done.misses),
		cacheLookups("signatures", "hit", &verified.hits), cacheLookups("signatures", "miss", &verified.misses),
	} {
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
