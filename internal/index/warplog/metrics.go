package warplog

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of one followed chain.
type Metrics struct {
	lag           *lag
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
		lag: &lag{desc: prometheus.NewDesc("quorate_warp_logs_lag_blocks", "Blocks of an EVM chain whose Warp messages have not been read; nothing while its height is unknown or another process reads them.", nil, labels)},
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

// lag collects how many blocks have not been read, if that is known. It is safe for concurrent use.
type lag struct {
	desc   *prometheus.Desc
	blocks atomic.Pointer[uint64] // nil if unknown
}

func (l *lag) set(blocks uint64) { l.blocks.Store(&blocks) }

func (l *lag) forget() { l.blocks.Store(nil) }

// Describe implements prometheus.Collector.
func (l *lag) Describe(descs chan<- *prometheus.Desc) { descs <- l.desc }

// Collect implements prometheus.Collector.
func (l *lag) Collect(metrics chan<- prometheus.Metric) {
	if blocks := l.blocks.Load(); blocks != nil {
		metrics <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, float64(*blocks))
	}
}
