package evm_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apitest"
)

// TestNativeBalanceIsFinal requests a balance from the node once for each block.
func TestNativeBalanceIsFinal(t *testing.T) {
	f := newFake()
	h := fuji(t, f)
	for i, tt := range []struct {
		path  string
		asked uint64
	}{
		{balances, 1000}, {balances, 0}, {balances + "&blockNumber=7", 7}, {balances + "&blockNumber=7&pageSize=1", 0}, {balances, 0},
	} {
		f.askedNative = 0
		w := apitest.Get(h, tt.path)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"balance":"1234567890123456789"`)
		require.Equal(t, tt.asked, f.askedNative, "request %d", i)
		require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
	}
}
