package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/internal/simnet"
	"quorate/internal/testenv"
)

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "quorate.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func startSimnet(t *testing.T, o simnet.Options) *simnet.Network {
	t.Helper()
	n, err := simnet.Start(o)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n
}

// ask makes a request and reads the whole answer.
func ask(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(content)
}

// The public surface enforces its bounds, over real sockets and with a configuration file.
func TestServiceGuardsItsSurface(t *testing.T) {
	n := startSimnet(t, simnet.Options{Seed: 31, Validators: 5})
	dir := t.TempDir()
	file := writeFile(t, `
rate_classes:
  default: {per_second: 0.001, burst: 4}
  partner: {per_second: 1000, burst: 2000}
cors_origins: ["https://example.org"]
limits: {body: 4KiB, header: 8KiB, header_time: 1s, body_time: 1s, stall: 1s, connections_per_address: 20}
`)
	s := startService(t, dir, map[string]*simnet.Network{"fuji": n}, "--config", file)
	url := s.base + "/v1/signatureAggregator/fuji/aggregateSignatures"
	body := fmt.Sprintf(`{"message":"%x"}`, n.Message([]byte("guarded")).Bytes())

	// Keys: made, used and revoked while the service runs.
	keys := func(args ...string) string {
		code, out, errOut := quorate(t, "", append(append([]string{"keys"}, args...), "--data-dir", dir, "--config", file)...)
		require.Zero(t, code, errOut)
		return strings.TrimSpace(out)
	}
	key := keys("add", "explorer", "--class", "partner")
	response, content := ask(t, "POST", url, body, "x-glacier-api-key", key)
	require.Equal(t, 200, response.StatusCode, content)
	require.Equal(t, "2000", response.Header.Get("ratelimit-limit"))
	require.Contains(t, keys("list"), "explorer")
	require.NotContains(t, keys("list"), key)
	code, _, errOut := quorate(t, "", "keys", "add", "other", "--class", "partnr", "--data-dir", dir, "--config", file)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "did you mean partner?")

	// Oversize.
	response, content = ask(t, "POST", url, strings.Repeat(" ", 5<<10), "x-data-api-key", key)
	require.Equal(t, 400, response.StatusCode)
	require.Contains(t, content, "larger than 4096 bytes")
	response, _ = ask(t, "GET", s.base+"/health", "", "x-padding", strings.Repeat("x", 16<<10))
	require.Equal(t, 431, response.StatusCode)

	// Browsers of one site.
	response, _ = ask(t, "OPTIONS", url, "", "Origin", "https://example.org", "Access-Control-Request-Method", "POST")
	require.Equal(t, "https://example.org", response.Header.Get("Access-Control-Allow-Origin"))
	response, _ = ask(t, "OPTIONS", url, "", "Origin", "https://example.com", "Access-Control-Request-Method", "POST")
	require.Empty(t, response.Header.Get("Access-Control-Allow-Origin"))

	// Slow clients.
	address := strings.TrimPrefix(s.base, "http://")
	dial := func() net.Conn {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Minute)))
		return c
	}
	c := dial()
	_, err := io.WriteString(c, "GET /health HTTP/1.1\r\nHo")
	require.NoError(t, err)
	rest, err := io.ReadAll(c)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "slow header")
	require.NotContains(t, string(rest), "200 OK")
	c = dial()
	_, err = fmt.Fprintf(c, "POST /v1/signatureAggregator/fuji/aggregateSignatures HTTP/1.1\r\nHost: x\r\nx-data-api-key: %s\r\nContent-Length: 100\r\n\r\n{", key)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, 400, answer.StatusCode, "slow body")
	// Too many connections with requests; idle ones would make room. Those to operators are others.
	http.DefaultClient.CloseIdleConnections()
	require.Eventually(t, func() bool {
		for range 40 { // refused ones are closed
			_, _ = fmt.Fprintf(dial(), "POST /v1/signatureAggregator/fuji/aggregateSignatures HTTP/1.1\r\nHost: x\r\nx-data-api-key: %s\r\nContent-Length: 100\r\n\r\n{", key)
		}
		_, metrics := ask(t, "GET", s.private+"/metrics", "")
		return !strings.Contains(metrics, `quorate_http_connections_refused_total{bound="address"} 0`)
	}, 5*time.Minute, 20*time.Millisecond)

	keys("revoke", "explorer")
	require.Eventually(t, func() bool { // once there is room for a connection
		r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("x-glacier-api-key", key)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		response.Body.Close()
		require.Equal(t, 403, response.StatusCode)
		return true
	}, 5*time.Minute, 20*time.Millisecond)

	// The allowance of all clients: startService has used none of it, because /health is free.
	for i := range 5 {
		response, content = ask(t, "POST", url, body)
		require.Equal(t, i < 4, response.StatusCode == http.StatusOK, "request %d: %s", i, content)
	}
	require.Equal(t, 429, response.StatusCode)
	require.NotEmpty(t, response.Header.Get("retry-after"))
	require.Equal(t, response.Header.Get("retry-after"), response.Header.Get("ratelimit-reset"))
	var failure struct {
		Message, Error string
		StatusCode     int
	}
	require.NoError(t, json.Unmarshal([]byte(content), &failure))
	require.Equal(t, 429, failure.StatusCode)
	require.Equal(t, "Too Many Requests", failure.Error)
	require.NotContains(t, s.log.String(), key)
	s.stop(t)
}

// writeCertificate puts a certificate of this machine and its key, key.pem, into a folder.
func writeCertificate(t *testing.T, dir string) (cert string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert
}

func TestServiceOverTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir), filepath.Join(dir, "key.pem")

	n := startSimnet(t, simnet.Options{Seed: 32, Validators: 5})
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n}, "--config", writeFile(t, fmt.Sprintf("tls: {cert: %q, key: %q}\n", cert, key)))
	pool := x509.NewCertPool()
	content, err := os.ReadFile(cert)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(content))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	response, err := client.Post("https"+strings.TrimPrefix(s.base, "http")+"/v1/signatureAggregator/fuji/aggregateSignatures", "application/json",
		strings.NewReader(fmt.Sprintf(`{"message":"%x"}`, n.Message([]byte("over TLS")).Bytes())))
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 200, response.StatusCode)
	require.Equal(t, 2, response.ProtoMajor)
	client.CloseIdleConnections()
	response, err = http.Get(s.base + "/health")
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 400, response.StatusCode, "plain HTTP")
	block, _ := pem.Decode(content)
	parsed, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	_, metrics := ask(t, "GET", s.private+"/metrics", "")
	require.Contains(t, metrics, fmt.Sprintf("quorate_tls_certificate_expiry_timestamp_seconds %s\n", strconv.FormatFloat(float64(parsed.NotAfter.Unix()), 'g', -1, 64)))
	s.stop(t)
}

// A round that is under way when the service gets SIGTERM is finished.
func TestStopFinishesTheRoundInFlight(t *testing.T) {
	n := startSimnet(t, simnet.Options{Seed: 33, Validators: 5})
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n})
	stopping := make(chan struct{})
	for _, v := range n.Validators() {
		v.SetHook(func(_ *warp.UnsignedMessage, _ []byte, honest simnet.Answer) simnet.Answer {
			<-stopping
			return honest
		})
	}
	asked := n.Requests()
	status := make(chan int, 1)
	go func() {
		response, err := http.Post(s.base+"/v1/signatureAggregator/fuji/aggregateSignatures", "application/json", strings.NewReader(fmt.Sprintf(`{"message":"%x"}`, n.Message([]byte("last")).Bytes())))
		if err != nil {
			status <- 0
			return
		}
		response.Body.Close()
		status <- response.StatusCode
	}()
	require.Eventually(t, func() bool { return n.Requests() > asked }, 5*time.Minute, time.Millisecond)
	s.end()
	require.Eventually(t, func() bool { // until the listener accepts no connection
		c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	}, 5*time.Minute, time.Millisecond)
	require.Empty(t, status, "the round was over before the service was told to stop")
	close(stopping)
	s.stop(t)
	require.Equal(t, 200, <-status)
}

func TestReadinessOfASubnet(t *testing.T) {
	n := startSimnet(t, simnet.Options{Seed: 34, Validators: 5})
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n})
	for subnet, want := range map[string]int{constants.PrimaryNetworkID.String(): 200, ids.ID{7}.String(): 404, "x": 400} {
		response, content := ask(t, "GET", s.private+"/readyz/fuji/"+subnet, "")
		require.Equal(t, want, response.StatusCode, "%s: %s", subnet, content)
	}
	s.stop(t)
}

func TestTraces(t *testing.T) {
	var mu sync.Mutex
	var received []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		received = append(received, content...)
	}))
	defer collector.Close()
	n := startSimnet(t, simnet.Options{Seed: 35, Validators: 5})
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n}, "--config", writeFile(t, "tracing: {otlp: "+collector.URL+"}\n"))
	response, _ := ask(t, "POST", s.base+"/v1/signatureAggregator/fuji/aggregateSignatures", fmt.Sprintf(`{"message":"%x"}`, n.Message([]byte("traced")).Bytes()), "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.Equal(t, 200, response.StatusCode)
	s.stop(t)
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"/v1/signatureAggregator/:network/aggregateSignatures", "\x05round", "\x04node", "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c"} {
		require.True(t, bytes.Contains(received, []byte(want)), "no span has %q", want)
	}
}

func TestConfigCheck(t *testing.T) {
	file := writeFile(t, `listen: 127.0.0.1:1
networks:
  fuji:
    nodes: ["http://user:geheim@127.0.0.1:9650/v1/verborgen0123456/x?token=verborgen"]
    evm:
      - rpc: http://127.0.0.1:9650/ext/bc/2ebCneCbwthjQ1rYT41nhd7M76Hc6YmosMAQrTFhBq8qeqh6tt/rpc
rate_classes:
  default: {per_second: 5}
`)
	code, out, errOut := quorate(t, "", "config", "check", "--config", file, "--log-level", "warn")
	require.Zero(t, code, errOut)
	for _, want := range []string{
		`listen +127\.0\.0\.1:1 +\S+:1\n`, `log_level +warn +--log-level\n`, `request_timeout +15s +default\n`,
		`networks\.fuji\.nodes +\[http://\*\*\*@127\.0\.0\.1:9650/v1/\*\*\*/\*\*\*\?\*\*\*\] +\S+:4\n`, `networks\.fuji\.evm\[0\]\.rpc +http://127\.0\.0\.1:9650/ext/bc/2ebCneCbwthjQ1rYT41nhd7M76Hc6YmosMAQrTFhBq8qeqh6tt/rpc +`, `networks\.fuji\.record +l1 +default\n`,
		`rate_classes\.default\.per_second +5 +\S+:8\n`, `limits\.body +256 KiB +default\n`, `tls\.cert +"" +default\n`,
	} {
		require.Regexp(t, regexp.MustCompile(want), out)
	}
	require.NotContains(t, out, "geheim")
	require.NotContains(t, out, "verborgen")

	bad := writeFile(t, `listen: nowhere
lisen: x
request_timeout: [1]
networks:
  fuji:
    nodes: ["ftp://user:geheim@127.0.0.1?token=verborgen"]
    record: some
rate_classes:
  default: {per_second: 0, burst: -1}
trusted_proxies: [here]
limits: {body: 1}
tls: {cert: x}
memory_limit: much
private_listen: 127.0.0.1:1
private_listen: 127.0.0.1:2
metadata: {ipfs_gateways: [a], ipfs_gateways: [b]}
`)
	code, out, errOut = quorate(t, "", "config", "check", "--config", bad, "--network", "http://user:geheim@127.0.0.1")
	require.Equal(t, exitUsage, code)
	for _, want := range []string{
		":1: listen: ", ":2: lisen: unknown key; did you mean listen?", ":3: request_timeout: it is not a duration such as 15s", ":6: networks.fuji.nodes: ", ":7: networks.fuji.record: ",
		":9: rate_classes.default.per_second: ", ":9: rate_classes.default.burst: ", ":10: trusted_proxies: ", ":11: limits.body: ", ":12: tls: ",
		`:13: memory_limit: "much" is no size`, ":14: private_listen: line 15 gives it again", ":16: metadata.ipfs_gateways: line 16 gives it again", ":16: metadata.ipfs_gateways: IPFS gateway 1", "flag --network: ",
	} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out+errOut, "geheim")
	require.NotContains(t, out+errOut, "verborgen")
	// serve refuses the same, with all of it.
	code, _, errOut = quorate(t, "", "serve", "--config", bad)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "networks.fuji.record")
	require.Contains(t, errOut, "limits.body")
	require.NotContains(t, errOut, "geheim")
}

// config check reads the files that a configuration names, and reports wrong ones at the line that
// names them.
func TestConfigCheckReadsFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	cert, key, other := writeCertificate(t, dir), filepath.Join(dir, "key.pem"), t.TempDir()
	writeCertificate(t, other)
	list := "../../handlers/evm/testdata/tokens.json"
	signatures := put("signatures.txt", "transfer(address,uint256)\n")
	check := func(file string) (int, string) {
		code, out, errOut := quorate(t, "", "config", "check", "--config", file, "--data-dir", dir, "--network", "local=http://127.0.0.1:9650")
		return code, out + errOut
	}
	code, out := check(put("good.yaml", fmt.Sprintf("tls: {cert: %q, key: %q}\ntoken_lists: [%q]\nmethod_signatures: %q\n", cert, key, list, signatures)))
	require.Zero(t, code, out)

	put("keys.json", "{")
	bad := put("bad.yaml", fmt.Sprintf(`tls: {cert: %q, key: %q}
token_lists:
  - %q
  - %q
method_signatures: %q
networks:
  local:
    genesis_file: %q
    upgrade_file: %q
`, cert, filepath.Join(other, "key.pem"), list, put("broken.json", "["), put("not.txt", "nothing of the kind\n"), put("genesis.json", "{}"), put("upgrade.json", "[]")))
	code, out = check(bad)
	require.Equal(t, exitUsage, code)
	for _, want := range []string{":1: tls: ", ":4: token_lists[1]: ", ":5: method_signatures: ", ":8: networks.local.genesis_file: ", ":9: networks.local.upgrade_file: ", "data_dir: ", "keys.json"} {
		require.Contains(t, out, want)
	}
	var lines []int // of the file
	for _, found := range regexp.MustCompile(`bad\.yaml:(\d+): `).FindAllStringSubmatch(out, -1) {
		line, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		lines = append(lines, line)
	}
	require.True(t, len(lines) > 4 && slices.IsSorted(lines), "in the order of the file: %d", lines)
	require.NotContains(t, out, "token_lists[0]")
}

// Limits of clients, and TLS, can be set by flag, variable and file.
func TestLimitsByFlagAndEnvironment(t *testing.T) {
	t.Setenv("QUORATE_LIMITS_BODY", "1MiB")
	t.Setenv("QUORATE_LIMITS_STALL", "7s")
	code, out, errOut := quorate(t, "", "config", "check", "--network", "local=http://127.0.0.1:9650", "--data-dir", t.TempDir(),
		"--limits-stall", "8s", "--limits-header", "8KiB", "--limits-header-time", "1s", "--limits-body-time", "2s", "--limits-connections", "0", "--limits-connections-per-address", "3")
	require.Zero(t, code, errOut)
	for _, want := range []string{
		`limits\.body +1\.0 MiB +QUORATE_LIMITS_BODY\n`, `limits\.stall +8s +--limits-stall\n`, `limits\.header +8\.0 KiB +--limits-header\n`, `limits\.header_time +1s +--limits-header-time\n`,
		`limits\.body_time +2s +--limits-body-time\n`, `limits\.connections +0 +--limits-connections\n`, `limits\.connections_per_address +3 +--limits-connections-per-address\n`,
	} {
		require.Regexp(t, want, out)
	}
	code, out, _ = quorate(t, "", "config", "check", "--network", "local=http://127.0.0.1:9650", "--data-dir", t.TempDir(), "--tls-cert", "none.pem", "--tls-key", "none.pem", "--limits-connections", "many")
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "none.pem")
	require.Contains(t, out, `flag --limits-connections: "many" is no number`)
}

func TestManualAndCompletion(t *testing.T) {
	dir := t.TempDir()
	code, _, errOut := quorate(t, "", "man", "--dir", dir)
	require.Zero(t, code, errOut)
	page, err := os.ReadFile(filepath.Join(dir, "quorate-keys-add.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), "class")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, out, errOut := quorate(t, "", "completion", shell)
		require.Zero(t, code, errOut)
		require.Contains(t, out, "quorate")
	}
}

func TestAlertRules(t *testing.T) {
	promtool := testenv.Program(t, "prometheus", "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = "../../deploy/prometheus"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

var (
	series = regexp.MustCompile(`\b(?:quorate|process|go)_[a-z0-9_]+`)
	labels = regexp.MustCompile(`by \(([a-z_, ]+)\)|([a-z_]+)=~?"|\{\{ ?(?:\$labels\.)?([a-z_]+) ?\}\}`)
)

// The dashboard and the alerts use existing metrics and labels, and no metric has many series.
func TestDashboardShowsWhatExists(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Prometheus beside a service")
	}
	n := startSimnet(t, simnet.Options{Seed: 36, Validators: 8})
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n})
	for _, v := range n.Validators()[:2] {
		require.NoError(t, v.SetBehaviour(simnet.Refusing))
	}
	s.sign(t, "fuji", n, "one", "--quorum", "50")
	response, _ := ask(t, "POST", s.base+"/v1/signatureAggregator/fuji/aggregateSignatures", fmt.Sprintf(`{"message":"%x","quorumPercentage":100}`, n.Message([]byte("all")).Bytes()))
	require.NotEqual(t, 200, response.StatusCode)
	for i := range 50 {
		ask(t, "GET", fmt.Sprintf("%s/%d?x=%d", s.base, i, i), "", "User-Agent", fmt.Sprint(i))
	}
	_, metrics := ask(t, "GET", s.private+"/metrics", "")
	s.stop(t)

	// labels by name; TestServiceOverTLS, TestServeOnPostgres, internal/webhook.TestMissingBlock, e2e.TestProven and
	// e2e.TestWithoutNodes have the metrics of their set-ups
	known := map[string]map[string]bool{
		"quorate_evm_index_wrong": {"network": true, "chain": true}, "quorate_upstream_verdict": {"network": true, "chain": true, "node": true, "verdict": true},
		"quorate_tls_certificate_expiry_timestamp_seconds": {}, "quorate_store_standby_used": {"standby": true},
		"quorate_store_standby_lag_seconds": {"standby": true}, "quorate_lease_held": {"lease": true}, "quorate_webhook_failing": {},
		"quorate_peernode_confirmed_timestamp_seconds": {"network": true}, "quorate_peernode_height": {"network": true},
	}
	counts := make(map[string]int)
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, within, _ := strings.Cut(strings.TrimSpace(line), "{")
		if within == "" {
			name, _, _ = strings.Cut(name, " ")
		}
		counts[name]++
		if known[name] == nil {
			known[name] = make(map[string]bool)
		}
		for _, m := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(within, -1) {
			known[name][m[1]] = true
		}
	}
	for name, count := range counts {
		if count > 1000 {
			t.Errorf("%s has %d series, want a bounded few", name, count)
		}
	}
	check := func(where, expr, legend string) {
		all := map[string]bool{"le": true, "job": true, "instance": true}
		for _, name := range series.FindAllString(expr, -1) {
			if known[name] == nil {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			maps.Copy(all, known[name])
		}
		for _, m := range labels.FindAllStringSubmatch(expr+" "+legend, -1) {
			for name := range strings.SplitSeq(m[1]+m[2]+m[3], ",") {
				if name = strings.TrimSpace(name); !all[name] {
					t.Errorf("%s: no label %q of %s", where, name, expr)
				}
			}
		}
	}
	content, err := os.ReadFile("../../deploy/grafana/dashboards/quorate.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(content, &dashboard))
	shown := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			shown++
			require.Contains(t, target.Expr, `{job=~"$job",instance=~"$instance"`, p.Title)
			check(p.Title, target.Expr, target.LegendFormat)
		}
	}
	require.Greater(t, shown, 20)
	for _, source := range regexp.MustCompile(`"uid": "([^"]*)"`).FindAllStringSubmatch(string(content), -1) {
		require.Contains(t, []string{"quorate", "${datasource}"}, source[1], "another Grafana does not have this data source")
	}
	content, err = os.ReadFile("../../deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	for rule := range strings.SplitSeq(string(content), "- alert: ") {
		name, _, _ := strings.Cut(rule, "\n")
		_, expr, _ := strings.Cut(rule, "expr: ")
		expr, _, _ = strings.Cut(expr, "labels: {")
		check(name, expr, "")
	}
}
