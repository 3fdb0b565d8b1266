package evm_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
	"quorate/handlers/compat"
	api "quorate/handlers/evm"
	"quorate/internal/index/evm"
)

// withoutMetrics is an index whose metrics are off.
type withoutMetrics struct{ *fake }

func (withoutMetrics) Periods(context.Context, evm.PeriodQuery) (*evm.PeriodPage, error) {
	return nil, &evm.OffError{Index: evm.ChainMetrics}
}

// TestMetricChains lists chains whose metrics are indexed, and no others.
func TestMetricChains(t *testing.T) {
	f := newFake()
	on := f.chain()
	off := f.chain()
	off.ChainID, off.Index = 99, withoutMetrics{f}
	off.BlockchainID[0]++
	h := surface(t, compat.Auto, api.Options{}, on, off)
	w := apitest.Get(h, "/v2/chains")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	want := `{"evmChainId":43113,"chainName":"C-Chain","blockchainId":"` + on.BlockchainID.String() + `","subnetId":"11111111111111111111111111111111LpoYY","network":"testnet"}`
	require.JSONEq(t, `{"chains":[`+want+`]}`, w.Body.String())
	w = apitest.Get(h, "/v2/chains/43113")
	require.JSONEq(t, want, w.Body.String())
	w = apitest.Get(h, "/v2/chains/99")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "INDEX_OFF")
	require.Equal(t, http.StatusNotFound, apitest.Get(h, "/v2/chains/98").Code)
}
