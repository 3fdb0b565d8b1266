package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
)

// provider stands between the service and a node. While refuse is set and returns a body or a status for a call, it
// answers that instead of the node.
type provider struct {
	*httptest.Server
	node   atomic.Pointer[url.URL]
	refuse atomic.Pointer[func(method, params string) (status int, body string)]
}

func startProvider(t *testing.T, to string) *provider {
	t.Helper()
	p := &provider{}
	p.leadsTo(t, to)
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(p.node.Load()) }}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var call struct {
			Method string
			Params json.RawMessage
		}
		_ = json.Unmarshal(body, &call) // a batch has no method
		if refuse := p.refuse.Load(); refuse != nil {
			if status, answer := (*refuse)(call.Method, string(call.Params)); status != 0 {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, answer)
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// leadsTo makes the provider pass calls on to another node.
func (p *provider) leadsTo(t *testing.T, to string) {
	t.Helper()
	node, err := url.Parse(to)
	require.NoError(t, err)
	p.node.Store(node)
}

// refuses makes the provider answer calls for which f returns a status.
func (p *provider) refuses(f func(method, params string) (status int, body string)) {
	p.refuse.Store(&f)
}

// works makes the provider pass all calls on.
func (p *provider) works() { p.refuse.Store(nil) }

const rateLimited = `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"rate limit exceeded"}}`

// isGenesis reports whether a call asks for the first block.
func isGenesis(method, params string) bool {
	return method == "platform.getBlockByHeight" && strings.Contains(params, `"height":"0"`)
}

// serveURL runs serve with one network, fuji, and waits until it answers at its private address.
func serveURL(t *testing.T, dataDir, nodeURL string, more ...string) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listen, private := freeAddress(t), freeAddress(t)
	s := &instance{base: "http://" + listen, private: "http://" + private, end: cancel, done: make(chan int, 1), log: &lines{}}
	args := append([]string{"serve", "--listen", listen, "--private-listen", private, "--data-dir", dataDir, "--allow-private-ips", "--network", "fuji=" + nodeURL}, more...)
	go func() { s.done <- run(ctx, args, strings.NewReader(""), &lines{}, s.log) }()
	require.Eventually(t, func() bool {
		response, err := http.Get(s.private + "/healthz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, "%s", s.log)
	return s
}

// awaitReady waits until the service can sign.
func (s *instance) awaitReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		response, _ := ask(t, "GET", s.private+"/readyz", "")
		return response.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, "%s", s.log)
}

// awaitReadiness waits until /readyz contains text.
func (s *instance) awaitReadiness(t *testing.T, text string) {
	t.Helper()
	body := ""
	defer func() {
		if t.Failed() {
			t.Logf("last answer of /readyz: %s", body)
		}
	}()
	require.Eventually(t, func() bool {
		_, body = ask(t, "GET", s.private+"/readyz", "")
		return strings.Contains(body, text)
	}, time.Minute, 20*time.Millisecond, "%s", text)
}

// The node refuses the genesis block. The service signs at once, says why the index waits, and indexes once the node
// gives the block.
func TestSigningDoesNotWaitForGenesis(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for retries")
	}
	n := startSimnet(t, simnet.Options{Seed: 61, Validators: 4, History: &simnet.History{
		Options: history.Options{Txs: 200, EarlyTxs: 20, Record: true}, Dir: t.TempDir(),
	}})
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"rate limit":         {http.StatusOK, rateLimited, "rate limit exceeded"},
		"method not offered": {http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"the method does not exist"}}`, "set networks.fuji.genesis_file, or use a node that does"},
		"forbidden":          {http.StatusForbidden, "no access", "403"},
		"unavailable":        {http.StatusServiceUnavailable, "later", "503"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProvider(t, n.NodeURL())
			p.refuses(func(method, params string) (int, string) {
				if isGenesis(method, params) {
					return test.status, test.body
				}
				return 0, ""
			})
			s := serveURL(t, t.TempDir(), p.URL, "--record", "primary")
			s.awaitReady(t)
			s.sign(t, "fuji", n, name)
			s.awaitReadiness(t, test.want)
			var ready struct {
				Networks map[string]struct{ Waiting, Retrying map[string]string }
			}
			require.Equal(t, http.StatusOK, getJSON(t, s.private+"/readyz", &ready))
			waiting := ready.Networks["fuji"].Waiting["X"] + ready.Networks["fuji"].Retrying["X"]
			require.Contains(t, waiting, test.want)
			status, body := s.ask(t, "/v1/networks/fuji/subnets")
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Contains(t, body, "genesis_file")

			p.works()
			require.Eventually(t, func() bool {
				status, body = s.ask(t, "/v1/networks/fuji/subnets")
				return status == http.StatusOK
			}, 3*time.Minute, 100*time.Millisecond, "%s", s.log)
			awaitStatus(t, s, "fuji X: following")
			s.stop(t)
		})
	}
}

// The provider answers with a status that nodes do not use. /readyz says which, and the service starts
// once the provider answers.
func TestReasonOfNodeThatDoesNotAnswer(t *testing.T) {
	n := startSimnet(t, simnet.Options{Seed: 62, Validators: 4})
	for _, status := range []int{http.StatusForbidden, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			p := startProvider(t, n.NodeURL())
			p.refuses(func(string, string) (int, string) { return status, "" })
			s := serveURL(t, t.TempDir(), p.URL)
			s.awaitReadiness(t, strconv.Itoa(status))
			_, body := ask(t, "GET", s.private+"/readyz", "")
			require.Contains(t, body, "networks.fuji.nodes")
			p.works()
			s.awaitReady(t)
			s.stop(t)
		})
	}
}

// The node refuses to list its chains, which the node API needs and signing does not.
func TestSigningDoesNotWaitForChains(t *testing.T) {
	n := startSimnet(t, simnet.Options{Seed: 63, Validators: 4})
	p := startProvider(t, n.NodeURL())
	p.refuses(func(method, _ string) (int, string) {
		if method == "info.getBlockchainID" {
			return http.StatusTooManyRequests, "slow down"
		}
		return 0, ""
	})
	s := serveURL(t, t.TempDir(), p.URL, "--record", "l1")
	defer s.stop(t)
	s.awaitReady(t)
	s.sign(t, "fuji", n, "first")
	response, body := ask(t, "POST", s.base+"/ext/info", `{"jsonrpc":"2.0","id":1,"method":"info.getNetworkID"}`)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Contains(t, body, "has not reported its chains")
	require.Eventually(t, func() bool {
		_, body = ask(t, "GET", s.private+"/ext/health", "")
		return strings.Contains(body, "429")
	}, time.Minute, 20*time.Millisecond, "%s", s.log)
	p.works()
	require.Eventually(t, func() bool {
		response, _ = ask(t, "POST", s.base+"/ext/info", `{"jsonrpc":"2.0","id":1,"method":"info.getNetworkID"}`, "Content-Type", "application/json")
		return response.StatusCode == http.StatusOK
	}, 2*time.Minute, 50*time.Millisecond, "%s", s.log)
}

// Without a setting only what signing needs is indexed. The Data API says which setting is missing, and the log what
// more would cost.
func TestIndexOfSigningIsDefault(t *testing.T) {
	n := startSimnet(t, simnet.Options{Seed: 64, Validators: 4, History: &simnet.History{
		Options: history.Options{Txs: 100, EarlyTxs: 10, Record: true}, Dir: t.TempDir(),
	}})
	dir := t.TempDir()
	s := serveURL(t, dir, n.NodeURL())
	s.awaitReady(t)
	awaitStatus(t, s, "fuji P: following")
	_, out, _ := quorate(t, "", "index", "status", "--server", s.private)
	require.NotContains(t, out, "fuji X")
	status, body := s.ask(t, "/v1/networks/fuji/subnets")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "set networks.fuji.record to primary or all")
	status, body = s.ask(t, "/v1/chains/43113/transactions")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "record to all")
	require.NotContains(t, s.log.String(), "estimate")
	s.stop(t)

	s = serveURL(t, dir, n.NodeURL(), "--record", "primary")
	s.awaitReady(t)
	awaitStatus(t, s, "fuji X: following")
	require.Contains(t, s.log.String(), `"estimate":"about 1.7 GB`)
	s.stop(t)
}

// A local network that is created again has the same network ID. The service serves neither the data
// nor the signed messages of the one before, and signs nothing for it.
func TestAnotherNetworkWithTheSameID(t *testing.T) {
	if testing.Short() {
		t.Skip("starts four services")
	}
	start := func(seed uint64) *simnet.Network {
		return startSimnet(t, simnet.Options{Seed: seed, Validators: 4, History: &simnet.History{
			Options: history.Options{Txs: 100, EarlyTxs: 10, Record: true}, Dir: t.TempDir(),
		}})
	}
	first, second := start(65), start(66)
	require.Equal(t, first.NetworkID(), second.NetworkID())
	p := startProvider(t, first.NodeURL())
	dir := t.TempDir()
	s := serveURL(t, dir, p.URL)
	s.awaitReady(t)
	s.sign(t, "fuji", first, "of the first network")
	s.stop(t)

	// Stored in an earlier run, found at the start.
	code, _, errOut := quorate(t, "", "serve", "--listen", freeAddress(t), "--private-listen", freeAddress(t), "--data-dir", dir, "--allow-private-ips", "--network", "fuji="+second.NodeURL())
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "the node is on another network than the one that is stored, with the same ID")
	require.Contains(t, errOut, "start afresh: stop quorate and move "+dir)

	// The node of the first network is replaced while the service runs.
	s = serveURL(t, dir, p.URL)
	s.awaitReady(t)
	p.leadsTo(t, second.NodeURL())
	select {
	case code := <-s.done:
		require.Equal(t, exitFailed, code)
	case <-time.After(2 * time.Minute):
		t.Fatalf("the service goes on: %s", s.log)
	}
	require.Contains(t, s.log.String(), "the node is on another network than the one that is stored")

	// The first network again.
	s = serveURL(t, dir, first.NodeURL())
	s.awaitReady(t)
	s.stop(t)
}

// While a node restarts, the service stays ready for load balancers as long as signing works. It
// starts without its node and signs once the node answers.
func TestServiceOutlivesItsNode(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts of a node that is away")
	}
	n := startSimnet(t, simnet.Options{Seed: 67, Validators: 4})
	p := startProvider(t, n.NodeURL())
	dir := t.TempDir()
	s := serveURL(t, dir, p.URL)
	s.awaitReady(t)
	kept := s.sign(t, "fuji", n, "kept")
	p.refuses(func(string, string) (int, string) { return http.StatusBadGateway, "restarting" })
	s.awaitReadiness(t, `"ready":true,"degraded":"the node does not report the current P-Chain height; signing goes on`)
	response, _ := ask(t, "GET", s.private+"/readyz", "")
	require.Equal(t, http.StatusOK, response.StatusCode)
	s.sign(t, "fuji", n, "while the node restarts")
	require.Equal(t, kept, s.sign(t, "fuji", n, "kept"))
	s.stop(t)

	// The network ID of the earlier run opens the network.
	s = serveURL(t, dir, p.URL)
	defer s.stop(t)
	s.awaitReadiness(t, "the node does not report the current P-Chain height")
	response, _ = ask(t, "GET", s.private+"/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode, "nothing can be signed")
	p.works()
	s.awaitReady(t)
	require.Equal(t, kept, s.sign(t, "fuji", n, "kept"))
}
