package index

import "github.com/prometheus/client_golang/prometheus"

// states lists the states in the order of their numbers in the metric.
var states = []State{Idle, Rebuilding, CatchingUp, Following, Retrying, Waiting, Stalled, Stopped}

// collector collects the metrics of a pipeline.
type collector struct {
	status func() Status

	from, next, tip, rate, gaps, state, failing *prometheus.Desc
}

// NewCollector returns the metrics of the pipeline of chain.
func NewCollector(chain string, status func() Status) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quorate_index_"+name, help, labels, prometheus.Labels{"chain": chain})
	}
	return &collector{
		status: status,
		from:   desc("first_height", "Height of the first block that is indexed: above 0 if the node lacks earlier ones."),
		gaps:   desc("gap_blocks", "Blocks indexed without a part that the node did not give, such as call traces."),
		next:   desc("next_height", "Height of the first block that is not indexed yet. On the X-Chain, the genesis and the pre-Cortina transactions count before block 0."),
		tip:    desc("tip_height", "Height of the last accepted block that the node reported. On the X-Chain, the genesis and the pre-Cortina transactions count before block 0."),
		rate:   desc("blocks_per_second", "Blocks indexed per second, over the last seconds; 0 if none was indexed in the last 10 s."),
		state:  desc("state", "1 for the state of the index, 0 for the others.", "state"),
		failing: prometheus.NewDesc("quorate_index_failing", "1 for the work that fails and is tried again; nothing while all works.",
			[]string{"what"}, prometheus.Labels{"chain": chain}),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.from, c.next, c.tip, c.rate, c.gaps, c.state, c.failing} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	s := c.status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.from, float64(s.From))
	gauge(c.gaps, float64(s.Gaps))
	gauge(c.next, float64(s.Next))
	if s.TipKnown {
		gauge(c.tip, float64(s.Tip))
	}
	gauge(c.rate, s.BlocksPerSecond)
	if s.Failing != "" {
		gauge(c.failing, 1, s.Failing)
	}
	for _, state := range states {
		v := 0.0
		if s.State == state {
			v = 1
		}
		gauge(c.state, v, string(state))
	}
}
