package service

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/aggregator"
	"quorate/handlers"
	"quorate/handlers/console"
	"quorate/internal/config"
	"quorate/internal/node"
	"quorate/internal/service/network"
	"quorate/internal/service/storage"
	"quorate/internal/store"
)

// The router that was built before a network opened finds the network once it is open, and
// says why not before that and after it has failed.
func TestNetworkOpensBehindTheRouter(t *testing.T) {
	archive, err := aggregator.OpenArchive(t.Context(), store.NewMemory(), aggregator.ArchiveOptions{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer archive.Close()
	registry := prometheus.NewRegistry()
	n, err := newNetworks(&process{
		config: config.Config{Networks: map[string]config.Network{"fuji": {}}}, kept: &storage.State{Archive: archive}, registry: registry,
	})
	require.NoError(t, err)
	defer n.close()
	public, err := handlers.New(handlers.Options{Networks: n.forSigning(), Data: n.forData(), Metrics: registry})
	require.NoError(t, err)

	call, err := payload.NewAddressedCall(make([]byte, 20), []byte("early"))
	require.NoError(t, err)
	body := func(networkID uint32) string {
		message, err := warp.NewUnsignedMessage(networkID, ids.ID{1}, call.Bytes())
		require.NoError(t, err)
		return `{"message":"` + hex.EncodeToString(message.Bytes()) + `"}`
	}
	const data, own, peer = "/v1/networks/testnet/subnets", "/v1/signatureAggregator/fuji/aggregateSignatures", "/aggregate-signatures"
	requests := 0
	ask := func(path, body string, status int, text string) {
		t.Helper()
		verb := http.MethodPost
		if body == "" {
			verb = http.MethodGet
		}
		request := httptest.NewRequest(verb, path, strings.NewReader(body))
		w := httptest.NewRecorder()
		public.ServeHTTP(w, request)
		require.Equal(t, status, w.Code, "%s: %s", path, w.Body)
		require.Contains(t, w.Body.String(), text, path)
		require.NotContains(t, w.Body.String(), "secret", path)
		requests++
	}
	shut := func(text string) {
		t.Helper()
		ask(own, body(54321), http.StatusServiceUnavailable, text)
		ask(own, body(5), http.StatusServiceUnavailable, text)
		ask(peer, body(5), http.StatusInternalServerError, text) // the peer's form has one status for all
		ask(peer, body(54321), http.StatusInternalServerError, text)
		ask(data, "", http.StatusServiceUnavailable, text)
	}
	shut("fuji is starting and its node has not answered yet; try again in a moment")
	for text, why := range map[string]error{
		"fuji is starting, but its node refuses access with status 401; its operator":     fmt.Errorf("finding it: %w", &node.RPCError{Code: 401, Message: "http://x?secret"}),
		"fuji is starting, but its node refuses access with status 403; its operator":     &node.RPCError{Code: 403, Message: "http://x?secret"},
		"fuji is starting and its node has not answered yet; try again in a moment":       fmt.Errorf("%w: http://x?secret", node.ErrUnavailable),
		"fuji is starting and its node has not reported the network ID yet; try again in": errors.New("http://x?secret"),
	} {
		n.waits("fuji", why)
		shut(text)
		require.ErrorIs(t, n.operators()["fuji"].Ready(), why)
	}
	require.NoError(t, n.claim("fuji", 54321))
	shut("fuji is starting; try again in a moment")

	pages, err := console.New(console.Options{Networks: n.status})
	require.NoError(t, err)
	defer pages.Close()
	require.NoError(t, n.open(&network.Network{Name: "fuji", ID: 54321}, &surface{console: pages}))
	ask(own, body(5), http.StatusBadRequest, "the path's network fuji has ID 54321")
	ask(peer, body(5), http.StatusBadRequest, "this instance serves fuji (ID 54321)")
	ask(data, "", http.StatusNotFound, "not indexed here")
	require.Error(t, n.claim("devnet", 54321), "two networks have one ID")

	n.fail("fuji", errors.New("the cause"))
	shut("out of service")
	require.ErrorContains(t, n.operators()["fuji"].Ready(), "the cause")

	counted := 0.0
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "quorate_http_requests_total" {
			for _, m := range family.GetMetric() {
				counted += m.GetCounter().GetValue()
			}
		}
	}
	require.InDelta(t, requests, counted, 0, "no counter is reset")
}

// Each configured network has the metric, from the start: one that does not open has no other metrics.
func TestMetricOfReadiness(t *testing.T) {
	registry := prometheus.NewRegistry()
	n, err := newNetworks(&process{
		config: config.Config{Networks: map[string]config.Network{"fuji": {}, "mainnet": {}}}, kept: &storage.State{}, registry: registry,
	})
	require.NoError(t, err)
	defer n.close()
	requireReady := func(fuji, mainnet int) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
			# HELP quorate_network_ready 1 if the network is ready, as at /readyz; 0 if not, which includes the time before it is open and after it has failed.
			# TYPE quorate_network_ready gauge
			quorate_network_ready{network="fuji"} %d
			quorate_network_ready{network="mainnet"} %d
		`, fuji, mainnet)), "quorate_network_ready"))
	}
	requireReady(0, 0)
	n.change("fuji", func(s *entryState) { s.network = new(network.Network) }) // it has no role, so that nothing is missing
	n.fail("mainnet", errors.New("the store has another network"))
	requireReady(1, 0)
}
