package evm_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
	"quorate/handlers/reply"
	"quorate/internal/index/evm"
)

const metrics = "/v2/chains/43113/metrics/txCount?pageSize=2"

func TestChainMetrics(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	for name, want := range map[string]string{
		"activeAddresses": "11", "activeSenders": "12", "cumulativeTxCount": "13", "cumulativeAddresses": "14", "gasUsed": "6", "txCount": "4",
		"avgGps": "3", "maxGps": "16", "avgTps": "2", "maxTps": "4", "avgGasPrice": "2.5", "maxGasPrice": "9", "feesPaid": "7",
	} {
		w := apitest.Get(h, "/v2/chains/43113/metrics/"+name+"?pageSize=1&startTimestamp=1296000&endTimestamp=1296001")
		require.JSONEq(t, `{"results":[{"value":`+want+`,"timestamp":1296000}]}`, w.Body.String(), name)
		require.Equal(t, "1000", w.Header().Get("Indexed-Height"))
	}
	for interval, want := range map[string]evm.Interval{"hour": evm.Hourly, "day": evm.Daily, "week": evm.Weekly, "month": evm.Monthly} {
		require.Equal(t, http.StatusOK, apitest.Get(h, metrics+"&timeInterval="+interval).Code)
		require.Equal(t, evm.PeriodQuery{Interval: want, Limit: 2}, f.askedPeriods)
	}
	require.Equal(t, http.StatusOK, apitest.Get(h, strings.Split(metrics, "?")[0]).Code)
	require.Equal(t, evm.PeriodQuery{Interval: evm.Daily, Limit: 100}, f.askedPeriods, "defaults")

	for path, message := range map[string]string{
		"/v2/chains/43113/metrics/contracts":                     `metric: "contracts" is none of activeAddresses, `,
		"/v2/chains/43113/metrics/avgTps?timeInterval=hour":      "timeInterval: avgTps is only offered by day",
		"/v2/chains/43113/metrics/txCount?timeInterval=year":     "timeInterval: ",
		"/v2/chains/43113/metrics/txCount?startTimestamp=monday": "startTimestamp: ",
		metrics + "&pageToken=abc":                               "pageToken: ",
		metrics + "&startTimestamp=200&endTimestamp=100":         "startTimestamp: it is after endTimestamp (200 > 100)",
	} {
		requireError(t, apitest.Get(h, path), http.StatusBadRequest, message)
	}

	f.begins = 7
	w := apitest.Get(h, "/v2/chains/43113/metrics/txCount?pageSize=1")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "7", w.Header().Get("Indexed-From"))
	w = apitest.Get(h, "/v2/chains/43113/metrics/cumulativeTxCount")
	requireError(t, w, http.StatusServiceUnavailable, "metric: cumulativeTxCount counts from the genesis block on")
	require.Contains(t, w.Body.String(), "INDEX_BEGINS_LATER")
	f.err = &evm.OffError{Index: evm.ChainMetrics}
	w = apitest.Get(h, metrics)
	requireError(t, w, http.StatusServiceUnavailable, "this instance does not index it; its operator can add chain_metrics to networks.NAME.evm_indexes")
	require.Contains(t, w.Body.String(), "INDEX_OFF")
}

const windows = "/v2/chains/43113/rollingWindowMetrics/txCount"

// windowValues is the value of each metric in a window of n hours of the fake.
var windowValues = map[string]func(n float64) float64{
	"activeAddresses": func(n float64) float64 { return n + 2 }, "activeSenders": func(n float64) float64 { return n + 1 },
	"gasUsed": func(n float64) float64 { return 21_000 * n }, "txCount": func(n float64) float64 { return n },
	"avgGps": func(float64) float64 { return 21_000. / 3600 }, "maxGps": func(n float64) float64 { return 2 * n },
	"avgTps": func(float64) float64 { return 1. / 3600 }, "maxTps": func(n float64) float64 { return 4 * n },
	"avgGasPrice": func(float64) float64 { return 2 }, "maxGasPrice": func(n float64) float64 { return n + 9 },
	"feesPaid": func(n float64) float64 { return 3 * n },
}

// hosted are the windows of the hosted API with their lengths in hours. The fake's genesis is a million hours old.
var hosted = map[string]float64{"lastHour": 1, "lastDay": 24, "lastWeek": 168, "lastMonth": 720, "last90Days": 2160, "lastYear": 8760, "allTime": 1_000_000}

// requireWindows checks the windows of a metric. Only some of them must be there if some are named.
func requireWindows(t *testing.T, metric string, result any, names ...string) {
	t.Helper()
	got, ok := result.(map[string]any)
	require.True(t, ok, "%s: %v", metric, result)
	if names == nil {
		names = slices.Collect(maps.Keys(hosted))
	}
	require.Len(t, got, len(names), metric)
	for _, name := range names {
		require.InEpsilon(t, windowValues[metric](hosted[name]), got[name], 1e-12, "%s: %s", metric, name)
	}
}

func TestRollingWindowMetrics(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	answer := func(w *httptest.ResponseRecorder) any {
		t.Helper()
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		var body map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		require.Len(t, body, 1)
		return body["result"]
	}
	for name := range windowValues {
		w := apitest.Get(h, "/v2/chains/43113/rollingWindowMetrics/"+name)
		requireWindows(t, name, answer(w))
		require.Equal(t, "1000", w.Header().Get("Indexed-Height"))
		require.Empty(t, w.Header().Get("Indexed-From"))
	}
	for path, tt := range map[string]struct {
		status  int
		message string
	}{
		"/v2/chains/43113/rollingWindowMetrics/contracts":           {400, `metric: "contracts" is none of activeAddresses, `},
		"/v2/chains/43113/rollingWindowMetrics/deployers":           {400, `metric: "deployers" is none of activeAddresses, `},
		"/v2/chains/43113/rollingWindowMetrics/cumulativeTxCount":   {400, `metric: "cumulativeTxCount" is none of activeAddresses, `},
		"/v2/chains/43113/rollingWindowMetrics/TXCOUNT":             {400, `metric: "TXCOUNT" is none of activeAddresses, `},
		"/v2/chains/43113/rollingWindowMetrics/" + "%00":            {400, "metric: "},
		windows + "?timeInterval=day":                               {400, "timeInterval"},
		windows + "?pageSize=1":                                     {400, "pageSize"},
		"/v2/chains/total/rollingWindowMetrics/txCount":             {404, "chainId: "},
		"/v2/chains/1/rollingWindowMetrics/txCount":                 {404, "chainId: "},
		"/v2/chains/43113/rollingWindowMetrics":                     {404, ""},
		"/v2/chains/43113/rollingWindowMetrics/txCount/":            {404, ""},
		"/v2/chains/43113/rollingWindowMetrics/txCount/transaction": {404, ""},
	} {
		requireError(t, apitest.Get(h, path), tt.status, tt.message)
	}

	f.begins = 7
	w := apitest.Get(h, windows)
	requireWindows(t, "txCount", answer(w), "lastHour", "lastDay", "lastWeek")
	require.Equal(t, "7", w.Header().Get("Indexed-From"))
	f.begins = 999
	w = apitest.Get(h, windows)
	requireError(t, w, http.StatusServiceUnavailable, "metric: no window is complete yet, and the index chain_metrics of this instance begins with block 999")
	require.Contains(t, w.Body.String(), "INDEX_BEGINS_LATER")
	f.err = &evm.OffError{Index: evm.ChainMetrics}
	w = apitest.Get(h, windows)
	requireError(t, w, http.StatusServiceUnavailable, "this instance does not index it; its operator can add chain_metrics to networks.NAME.evm_indexes")
	require.Contains(t, w.Body.String(), "INDEX_OFF")
	f.err, f.progress = nil, reply.Progress{}
	requireError(t, apitest.Get(h, windows), http.StatusServiceUnavailable, "the index of this chain is still catching up")
}
