package evm_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
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
