package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/internal/index"
)

// statusOf returns the status as clients get it.
func statusOf(t *testing.T, c *Console) statusView {
	t.Helper()
	v, err := c.status.get()
	require.NoError(t, err)
	return v.(statusView)
}

func TestProblemsHaveABeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fuji := Network{Name: "fuji", Ready: true, AllSubnets: 2, Subnets: []Subnet{{Connected: 0.9}, {ID: ids.ID{1}, Connected: 0.9, Required: true}, {ID: ids.ID{2}}}}
		chain := index.Status{State: index.Following}
		up := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: upstreamUp}, []string{"network", "node"})
		dropped := prometheus.NewCounter(prometheus.CounterOpts{Name: archiveDropped})
		registry := prometheus.NewRegistry()
		registry.MustRegister(up, dropped)
		up.WithLabelValues("fuji", "10.0.0.7:9650").Set(1)
		c, _ := newTest(t, Options{
			Networks: func() []Network { return []Network{fuji} },
			Index: func() map[string]map[string]index.Status {
				return map[string]map[string]index.Status{"fuji": {"P": chain}}
			},
			Gatherer: registry,
		})
		c.sample()
		v := statusOf(t, c)
		require.Empty(t, v.Problems, "no client requires the last subnet, whose validators are not connected")
		require.NotZero(t, v.Networks[0].Subnets[2].Since)
		require.Equal(t, ready, v.Readiness)

		time.Sleep(time.Minute)
		broke := time.Now().UnixMilli()
		fuji.Ready, fuji.Reason = false, "connected to 40.0% of the weight"
		fuji.Subnets = []Subnet{{Connected: 0.4}, {ID: ids.ID{1}, Validators: 3, Connected: 0.669, Required: true}, {ID: ids.ID{2}}}
		failing := time.Now().Add(-time.Hour)
		chain = index.Status{State: index.Stalled, Failing: "fetching blocks", FailingSince: failing, Err: errors.New("http://10.0.0.7:9650 is down")}
		up.WithLabelValues("fuji", "10.0.0.7:9650").Set(0)
		dropped.Inc()
		statusOf(t, c)
		time.Sleep(time.Minute)
		v = statusOf(t, c)
		require.Equal(t, notReady, v.Readiness)
		since := make(map[string]int64)
		for _, p := range v.Problems {
			since[p.Severity+" "+p.Kind] = p.Since
			require.NotContains(t, p.Title+p.Text, "10.0.0.7", "nodes are for operators")
		}
		require.Equal(t, map[string]int64{
			"bad network": broke, "bad index": failing.UnixMilli(), "bad nodes": broke, "warning subnets": broke, "warning store": broke,
		}, since)
		require.Equal(t, bad, v.Problems[0].Severity)
		require.True(t, slices.ContainsFunc(v.Problems, func(p problemView) bool {
			return p.Title == "66.9% of the weight of the subnet "+ids.ID{1}.String()+" of fuji is connected, 67% are needed"
		}))
		require.Equal(t, broke, v.Networks[0].Subnets[0].Since)

		fuji = Network{Name: "fuji", Ready: true, Degraded: "the node does not tell the height", Subnets: []Subnet{{Connected: 0.67}}}
		chain = index.Status{State: index.Following}
		up.WithLabelValues("fuji", "10.0.0.7:9650").Set(1)
		time.Sleep(2 * time.Hour)
		c.sample() // an hour without a dropped row
		time.Sleep(2 * time.Hour)
		c.sample()
		v = statusOf(t, c)
		require.Equal(t, degraded, v.Readiness)
		require.Len(t, v.Problems, 1)
		require.Equal(t, time.Now().UnixMilli(), v.Problems[0].Since, "the subnet's and the network's first problem are over")
		require.Len(t, c.since.after, 1)
	})
}

func TestJudgedNodesAreNamed(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	c, _ := newTest(t, Options{Networks: func() []Network {
		return []Network{{Name: "fuji", Ready: true, Nodes: []Node{
			{Host: "10.0.0.7:9650", Found: "it is at height 5", Since: began},
			{Host: "10.0.0.8:9650", Lies: true, Found: "its block at height 5 is another", Since: began},
		}}}
	}})
	v := statusOf(t, c)
	require.Equal(t, []problemView{
		{bad, "nodes", "fuji", "", "The upstream node 10.0.0.8:9650 of fuji contradicts the P-Chain and is not asked", "its block at height 5 is another", began.UnixMilli()},
		{warning, "nodes", "fuji", "", "The upstream node 10.0.0.7:9650 of fuji lags and is asked last", "it is at height 5", began.UnixMilli()},
	}, v.Problems)
	require.Equal(t, ready, v.Readiness)
}

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: signSeconds, Buckets: []float64{0.1, 1}, ConstLabels: prometheus.Labels{"network": "fuji"}}, []string{"outcome", "origin"})
		reasons := prometheus.NewCounterVec(prometheus.CounterOpts{Name: shortfallsTotal, ConstLabels: prometheus.Labels{"network": "fuji"}}, []string{"reason"})
		registry.MustRegister(seconds, reasons)
		c, e := newTest(t, Options{Gatherer: registry})
		read := func(span string) historyOf {
			w := get(e, "/console/api/history?range="+span)
			require.Equal(t, http.StatusOK, w.Code)
			var v historyView
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
			require.Len(t, v.Networks, 1)
			return v.Networks[0]
		}
		seconds.WithLabelValues(signedOutcome, "client").Observe(0.05)
		seconds.WithLabelValues(signedOutcome, aggregator.OriginAhead.String()).Observe(5)
		c.sample()
		time.Sleep(sampleInterval)
		seconds.WithLabelValues(signedOutcome, aggregator.OriginAhead.String()).Observe(5)
		for range 2 {
			seconds.WithLabelValues(signedOutcome, "client").Observe(0.5)
		}
		seconds.WithLabelValues("QUORUM_NOT_REACHED", "client").Observe(5)
		seconds.WithLabelValues(cancelledOutcome, "client").Observe(5)
		reasons.WithLabelValues("NO_ANSWER").Inc()
		c.sample()
		h := read("hour")
		require.Equal(t, uint64(2), h.Signed, "the first was before the first sample")
		require.Equal(t, uint64(3), h.SignedTotal)
		require.Equal(t, uint64(1), h.Failed, "the client cancelled the other")
		require.Equal(t, []outcomeView{{"QUORUM_NOT_REACHED", 1}, {cancelledOutcome, 1}}, h.Outcomes)
		require.Equal(t, "did not answer in time", h.Shortfalls[0].Meaning)
		require.InDelta(t, 550, *h.Median, 0.01, "half way from 100 ms to 1 s")
		require.Len(t, h.Points, 1)
		require.Equal(t, uint64(2), h.Points[0].Signed)

		// A day of samples takes no more than their number.
		for range 25 * hour / sampleInterval {
			time.Sleep(sampleInterval)
			c.sample()
		}
		require.LessOrEqual(t, len(c.hour.samples), int(hour/sampleInterval)+2)
		require.LessOrEqual(t, len(c.day.samples), int(day/longInterval)+2)
		h = read("hour")
		require.Zero(t, h.Signed)
		require.Nil(t, h.Median)
		require.Equal(t, uint64(3), h.SignedTotal)
		require.Zero(t, read("day").Failed)
		require.Equal(t, http.StatusBadRequest, get(e, "/console/api/history?range=year").Code)
	})
}

// A failing collector does not hide counts, and what it counted meanwhile does not show as one peak.
func TestHistoryWithoutACollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: signSeconds, Buckets: []float64{1}, ConstLabels: prometheus.Labels{"network": "fuji", "origin": "client"}}, []string{"outcome"})
		reasons := prometheus.NewCounterVec(prometheus.CounterOpts{Name: shortfallsTotal, ConstLabels: prometheus.Labels{"network": "fuji"}}, []string{"reason"})
		whole, none, part := prometheus.NewRegistry(), prometheus.NewRegistry(), prometheus.NewRegistry()
		whole.MustRegister(seconds, reasons)
		part.MustRegister(reasons)
		present := whole
		c, e := newTest(t, Options{Gatherer: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return present.Gather() })})
		read := func() historyOf {
			w := get(e, "/console/api/history")
			require.Equal(t, http.StatusOK, w.Code)
			var v historyView
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
			require.Len(t, v.Networks, 1)
			return v.Networks[0]
		}
		for range 100 {
			seconds.WithLabelValues(signedOutcome).Observe(0.5)
		}
		reasons.WithLabelValues("NO_ANSWER").Inc()
		c.sample()
		for _, present = range []*prometheus.Registry{whole, none, part, whole, whole} {
			time.Sleep(sampleInterval)
			seconds.WithLabelValues(signedOutcome).Observe(0.5)
			c.sample()
			h := read()
			require.LessOrEqual(t, h.Signed, uint64(5))
			require.LessOrEqual(t, len(h.Shortfalls), 0)
		}
		h := read()
		require.Equal(t, []uint64{5, 105}, []uint64{h.Signed, h.SignedTotal})
		require.Len(t, h.Points, 2, "only the first and the last step are known")
		for _, p := range h.Points {
			require.Equal(t, uint64(1), p.Signed)
		}
		present = none
		time.Sleep(sampleInterval)
		c.sample()
		require.Equal(t, uint64(5), read().Signed, "the network is missing in the last sample")
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c, _ := newTest(t, Options{Networks: func() []Network { calls++; return nil }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c.Run(ctx)
		require.InDelta(t, time.Minute/sampleInterval, calls, 1)
	})
}
