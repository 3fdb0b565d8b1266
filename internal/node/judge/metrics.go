package judge

import (
	"github.com/prometheus/client_golang/prometheus"

	"quorate/internal/node"
)

func verdicts(chain string) *prometheus.Desc {
	return prometheus.NewDesc(
		"quorate_upstream_verdict",
		"1 for what a comparison with the executed P-Chain, or else with other nodes, found about the upstream node: it agrees, lags, or lies. All are 0 before the first comparison.",
		[]string{"node", "verdict"}, prometheus.Labels{"chain": chain},
	)
}

var _ prometheus.Collector = (*Judge)(nil)

// Describe implements prometheus.Collector.
func (j *Judge) Describe(descs chan<- *prometheus.Desc) { descs <- j.desc }

// Collect implements prometheus.Collector.
func (j *Judge) Collect(metrics chan<- prometheus.Metric) {
	worst := make(map[string]node.Standing) // several URLs may have one host
	for _, v := range j.Verdicts() {
		worst[v.Host] = max(worst[v.Host], v.Standing)
	}
	for host, standing := range worst {
		for name, s := range map[string]node.Standing{"agrees": node.Agrees, "lags": node.Lags, "lies": node.Lies} {
			is := 0.0
			if s == standing {
				is = 1
			}
			metrics <- prometheus.MustNewConstMetric(j.desc, prometheus.GaugeValue, is, host, name)
		}
	}
}
