package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealth(t *testing.T) {
	status := http.StatusOK
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"ready":false}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("QUORATE_PRIVATE_LISTEN", server.Listener.Addr().String())
	code, out, errOut := quorate(t, "", "health")
	require.Zero(t, code, errOut)
	require.Equal(t, "/healthz", asked)
	require.Contains(t, out, `"ready"`)

	status = http.StatusServiceUnavailable
	code, _, errOut = quorate(t, "", "health", "--ready", "--server", server.URL+"/")
	require.Equal(t, exitFailed, code)
	require.Equal(t, "/readyz", asked)
	require.Contains(t, errOut, "503")

	server.Close()
	code, _, errOut = quorate(t, "", "health")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "Check that the service runs")
	for address, want := range map[string]string{"": "http://127.0.0.1:8081", "0.0.0.0:9": "http://127.0.0.1:9", ":9": "http://127.0.0.1:9", "[::]:9": "http://127.0.0.1:9", "10.0.0.1:9": "http://10.0.0.1:9"} {
		require.Equal(t, want, privateURL(address))
	}
}
