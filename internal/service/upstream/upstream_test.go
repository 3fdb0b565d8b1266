package upstream

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestCalls(t *testing.T) {
	status := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status == 0 {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	registry := prometheus.NewRegistry()
	client := http.Client{Transport: NewCalls(registry).Transport("fuji", http.DefaultTransport)}
	node := strings.TrimPrefix(server.URL, "http://")
	up := func() string {
		return "# HELP quorate_upstream_up 1 if the upstream node answered the latest request that ended, 0 if it did not, or with status 401, 403 or 5xx.\n# TYPE quorate_upstream_up gauge\nquorate_upstream_up{network=\"fuji\",node=\"" + node + "\"} "
	}
	call := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/secret", nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	for _, test := range []struct {
		status int
		up     string
	}{{200, "1"}, {503, "0"}, {403, "0"}, {404, "1"}, {401, "0"}, {429, "1"}} {
		status = test.status
		require.NoError(t, call(t.Context()))
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(up()+test.up+"\n"), "quorate_upstream_up"))
	}
	// A call that the caller abandons is not a failure of the node.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, call(ctx), context.Canceled)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(up()+"1\n"), "quorate_upstream_up"))
	server.Close()
	require.Error(t, call(t.Context()))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(up()+"0\n"), "quorate_upstream_up"))

	counts := make(map[string]uint64)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				require.NotContains(t, l.GetValue(), "secret")
				if l.GetName() == "status" {
					counts[l.GetValue()] = m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	require.Equal(t, map[string]uint64{"2xx": 1, "4xx": 3, "5xx": 1, "429": 1, "none": 1}, counts)
}
