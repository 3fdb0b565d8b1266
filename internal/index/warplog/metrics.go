package warplog

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of one followed chain.
type Metrics struct {
	lag           *prometheus.GaugeVec // of one gauge, without it while the lag is unknown
	late, skipped prometheus.Counter
}

// NewMetrics returns the metrics of a chain and registers them.
func NewMetrics(r prometheus.Registerer, chain string) (*Metrics, error) {
	m := newMetrics(chain)
	return m, errors.Join(r.Register(m.lag), r.Register(m.late), r.Register(m.skipped))
}

func newMetrics(chain string) *Metrics {
	labels := prometheus.Labels{"chain": chain}
	return &Metrics{
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorate_warp_logs_lag_blocks", ConstLabels: labels,
			Help: "Blocks of an EVM chain whose Warp messages have not been read; nothing while its height is unknown or another process reads them.",
		}, nil),
		late: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_warp_logs_late_messages_total", ConstLabels: labels,
			Help: "Warp messages that a node left out when their block was first read.",
		}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_warp_logs_skipped_blocks_total", ConstLabels: labels,
			Help: "Blocks that were not read at the start because no node has them.",
		}),
	}
}
