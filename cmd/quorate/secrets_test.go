package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/simnet"
)

// gateway is a provider before a node. It wants the keys, and repeats those that it got in its errors.
type gateway struct {
	keys   []string // user, password, path, query, bearer, header
	behind http.Handler
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	user, password, _ := r.BasicAuth()
	bearer := strings.TrimPrefix(r.Header.Get("X-Token"), "Bearer ")
	path, found := strings.CutPrefix(r.URL.Path, "/v2/"+g.keys[2])
	given := strings.Join([]string{user, password, g.keys[2], r.URL.Query().Get("key"), bearer, r.Header.Get("X-Api-Key")}, " ")
	echo := "your keys are " + given
	switch {
	case err != nil, !found, given != strings.Join(g.keys, " "):
		http.Error(w, echo, http.StatusUnauthorized)
	case strings.Contains(string(body), "eth_chainId"):
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":%q}}`, echo)
	case strings.Contains(string(body), "eth_getLogs"):
		http.Error(w, echo, http.StatusInternalServerError)
	case strings.Contains(string(body), "platform.getAllValidatorsAt"), strings.Contains(string(body), "platform.getTx"), r.Method == http.MethodGet:
		http.Error(w, echo, http.StatusForbidden)
	default:
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		r.URL.Path, r.URL.RawQuery = path, ""
		g.behind.ServeHTTP(w, r)
	}
}

// TestSecretsAppearInNoOutput plants keys wherever an upstream node's settings may have them,
// lets the node fail and repeat them, and looks for them in everything that comes out.
func TestSecretsAppearInNoOutput(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 31, Validators: 4})
	require.NoError(t, err)
	defer n.Close()
	node, err := url.Parse(n.NodeURL())
	require.NoError(t, err)
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(node) }}
	g := &gateway{keys: []string{"planteduser", "plantedpass", "plantedpath", "plantedquery", "plantedbearer", "plantedheader"}, behind: behind}
	server := httptest.NewServer(g)
	defer server.Close()
	keyed := fmt.Sprintf("http://planteduser:plantedpass@%s/v2/plantedpath", server.Listener.Addr())
	file := filepath.Join(t.TempDir(), "config.yaml")
	headers := `headers: {X-Token: Bearer plantedbearer, X-Api-Key: plantedheader}`
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `node_api: {admin: true}
networks:
  fuji:
    nodes: [{url: "%[1]s?key=plantedquery", %[2]s}]
    evm:
      - rpc: {url: "%[1]s/ext/bc/plantedpath/rpc?key=plantedquery", %[2]s}
      - rpc: ["%[1]s/rpc/plantedpath?key=plantedquery", "http://planteduser:plantedpass@127.0.0.1:1/plantedpath"]
`, keyed, headers), 0o600))
	s := startService(t, t.TempDir(), nil, "--config", file)
	defer s.stop(t)

	var output strings.Builder
	note := func(method, url, body string) {
		response, content := ask(t, method, url, body)
		fmt.Fprintf(&output, "%s %s: %v %s\n", method, url, response.Header, content)
	}
	require.Eventually(t, func() bool { // once the failures are known
		_, content := ask(t, http.MethodGet, s.private+"/index", "")
		return strings.Contains(content, "your keys are") && strings.Contains(s.log.String(), "platform.getAllValidatorsAt")
	}, time.Minute, 50*time.Millisecond, "%s", s.log)
	hash := strings.Repeat("11", 32)
	for _, path := range []string{"/metrics", "/readyz", "/readyz/fuji", "/healthz", "/index", "/ext/health", "/console/api/latency"} {
		note(http.MethodGet, s.private+path, "")
		note(http.MethodGet, s.base+path, "")
	}
	note(http.MethodGet, s.base+"/health", "")
	for _, base := range []string{s.private, s.base} { // a stream of events
		live, err := http.Get(base + "/console/api/live")
		require.NoError(t, err)
		event, err := bufio.NewReader(live.Body).ReadString('\n')
		live.Body.Close()
		fmt.Fprintln(&output, event, err)
	}
	note(http.MethodGet, s.base+"/v1/signatureAggregator/fuji/aggregateSignatures/"+hash, "")
	note(http.MethodPost, s.base+"/v1/signatureAggregator/fuji/aggregateSignatures", fmt.Sprintf(`{"message":"%x"}`, n.Message([]byte("x")).Bytes()))
	note(http.MethodPost, s.base+"/ext/bc/C/rpc", `{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`)
	note(http.MethodPost, s.base+"/ext/bc/C/rpc", `{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{}]}`)
	note(http.MethodPost, s.base+"/ext/bc/P", `{"jsonrpc":"2.0","id":1,"method":"platform.getTx","params":{"txID":"11111111111111111111111111111111LpoYY"}}`)
	note(http.MethodPost, s.private+"/ext/admin", `{"jsonrpc":"2.0","id":1,"method":"admin.getConfig","params":{}}`)
	for _, args := range [][]string{{"index", "status", "--server", s.private}, {"config", "check", "--config", file}} {
		_, out, errOut := quorate(t, "", args...)
		output.WriteString(out + errOut)
	}
	text := output.String() + s.log.String()
	require.Contains(t, text, "your keys are")
	require.Contains(t, text, "evm "+server.Listener.Addr().String()+" #2")
	for line := range strings.Lines(text) {
		require.NotContains(t, line, "planted")
	}
}

// The URL of a store may have its password in the query.
func TestStoreURLIsHidden(t *testing.T) {
	for _, args := range [][]string{{"store", "inspect"}, {"store", "export", "meta"}, {"keys", "list"}} {
		code, out, errOut := quorate(t, "", append(args, "--store", "postgres://db.example/quorate?password=planted&pool_max_conns=x")...)
		require.Equal(t, exitUsage, code, errOut)
		require.Contains(t, errOut, "postgres://db.example")
		require.NotContains(t, out+errOut, "planted")
	}
}
