package service

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/handlers"
	"quorate/internal/config"
	"quorate/internal/service/network"
)

// TestNetworkThatJustOpened asks in the moment between a network's opening and the
// surface that knows it: nothing is held against an ID that is only presumed, and the
// network is not said to be unknown.
func TestNetworkThatJustOpened(t *testing.T) {
	r, err := newReception([]string{"fuji"}, "fuji", config.RoleAll, handlers.Options{})
	require.NoError(t, err)
	call, err := payload.NewAddressedCall(make([]byte, 20), []byte("early"))
	require.NoError(t, err)
	message, err := warp.NewUnsignedMessage(54321, ids.ID{1}, call.Bytes())
	require.NoError(t, err)
	body := hex.EncodeToString(message.Bytes())
	r.slots["fuji"].state.Store(&slotState{network: &network.Network{}})
	for _, test := range []struct {
		verb, path, body string
		status           int
	}{
		{http.MethodPost, "/v1/signatureAggregator/fuji/aggregateSignatures", `{"message":"` + body + `"}`, http.StatusServiceUnavailable},
		{http.MethodPost, "/aggregate-signatures", `{"message":"` + body + `"}`, http.StatusInternalServerError}, // all there is in that form
		{http.MethodGet, "/v1/networks/testnet/subnets", "", http.StatusServiceUnavailable},
	} {
		request := httptest.NewRequest(test.verb, test.path, strings.NewReader(test.body))
		request.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		require.Equal(t, test.status, w.Code, "%s: %s", test.path, w.Body)
		require.Contains(t, w.Body.String(), "try again in a moment", test.path)
	}
}
