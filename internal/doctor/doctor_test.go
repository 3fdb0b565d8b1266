package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/config"
	"quorate/internal/node"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
	"quorate/internal/store"
	"quorate/internal/store/storetest/pgserver"
)

// find returns the finding of a check in areas that contain a text.
func find(t *testing.T, list []Finding, area, check string) Finding {
	t.Helper()
	for _, f := range list {
		if strings.Contains(f.Area, area) && f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding %q of %q in %+v", check, area, list)
	return Finding{}
}

func configOf(t *testing.T, nodes ...string) config.Config {
	t.Helper()
	c := config.Default()
	c.DataDir = filepath.Join(t.TempDir(), "new")
	n := config.Network{AllowPrivateIPs: true}
	for _, url := range nodes {
		n.Nodes = append(n.Nodes, config.Endpoint{URL: url})
	}
	c.Networks["test"] = n
	require.NoError(t, c.Check())
	return c
}

func examine(t *testing.T, c config.Config) []Finding {
	t.Helper()
	list := Examine(t.Context(), Options{Config: c, Connect: 5 * time.Second, Log: slog.New(slog.DiscardHandler)})
	for _, f := range list {
		require.NotEmpty(t, f.Detail, "%+v", f)
		require.Equal(t, f.Status == Warning || f.Status == Failure, f.Remedy != "", "%+v", f)
	}
	return list
}

// A network that works has no failures. Validators that are down are a share of the weight.
func TestNetworkThatWorks(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 5, Validators: 10, History: &simnet.History{
		Options: history.Options{Txs: 100, EarlyTxs: 10, Record: true}, Dir: t.TempDir(),
	}})
	require.NoError(t, err)
	defer n.Close()
	c := configOf(t, n.NodeURL())
	list := examine(t, c)
	require.NotEqual(t, Failure, Worst(list), "%+v", list)
	require.Regexp(t, `connected to (9\d|100)\.\d% of the weight`, find(t, list, "test", "validators").Detail, "it waits for 90%")
	require.NoFileExists(t, c.DataDir, "nothing is created")

	for _, v := range n.Validators() {
		require.NoError(t, v.SetBehaviour(simnet.Offline))
	}
	list = examine(t, c)
	require.Equal(t, Failure, Worst(list))
	down := find(t, list, "test", "validators")
	require.Equal(t, Failure, down.Status)
	require.Contains(t, down.Detail, "0.0% of the weight")
	require.Contains(t, down.Detail, "not connected")
}

// Each fault of a node has its own finding.
func TestNodesThatLackSomething(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 6, Validators: 4, History: &simnet.History{
		Options: history.Options{Txs: 100, EarlyTxs: 10, Record: true}, Dir: t.TempDir(),
	}})
	require.NoError(t, err)
	t.Cleanup(n.Close)
	target, err := url.Parse(n.NodeURL())
	require.NoError(t, err)
	refuse := func(method string, status int) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, _ *http.Request, body string) bool {
			if strings.Contains(body, `"`+method+`"`) {
				w.WriteHeader(status)
				return true
			}
			return false
		}
	}
	for name, test := range map[string]struct {
		do     func(w http.ResponseWriter, r *http.Request, body string) bool // returns true if it has answered
		record string
		check  string
		status Status
		detail string
	}{
		"a clock that is a little off": {func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			w.Header().Set("Date", time.Now().Add(20*time.Second).UTC().Format(http.TimeFormat))
			return false
		}, "", "clock", Warning, "20s"},
		"a clock that is off": {func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			w.Header().Set("Date", time.Now().Add(-75*time.Second).UTC().Format(http.TimeFormat))
			return false
		}, "", "clock", Failure, "1m15s"},
		"rate limited": {func() func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			var calls atomic.Int64
			return func(w http.ResponseWriter, _ *http.Request, _ string) bool {
				if calls.Add(1)%3 == 0 {
					w.Header().Set("Retry-After", "0")
					w.WriteHeader(http.StatusTooManyRequests)
					return true
				}
				return false
			}
		}(), "", "rate", Warning, "429"},
		"no getAllValidatorsAt": {refuse("platform.getAllValidatorsAt", 404), "", "validator sets", Warning, "getAllValidatorsAt is not offered"},
		"no P-Chain":            {refuse("platform.getHeight", 404), "", "validator sets", Failure, "platform.getHeight is not offered"},
		"no epochs":             {refuse("proposervm.getCurrentEpoch", 403), "", "epoch of the C-Chain", Warning, "not offered"},
		"no index":              {refuse("index.getLastAccepted", 404), config.RecordPrimary, "index API", Warning, "not offered"},
		"no C-Chain":            {refuse("eth_blockNumber", 404), config.RecordPrimary, "C-Chain blocks", Failure, "eth_blockNumber is not offered"},
		"no traces":             {refuse("eth_blockNumber", 404), config.RecordAll, "C-Chain traces", Warning, "eth_blockNumber is not offered"},
		"does not say":          {refuse("info.isBootstrapped", 500), "", "bootstrapped", Warning, "500"},
		"still bootstraps": {func(w http.ResponseWriter, _ *http.Request, body string) bool {
			if !strings.Contains(body, "info.isBootstrapped") {
				return false
			}
			var request struct {
				ID json.RawMessage `json:"id"`
			}
			_ = json.Unmarshal([]byte(body), &request)
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"isBootstrapped":false}}`, request.ID)
			return true
		}, "", "bootstrapped", Failure, "P-Chain is not bootstrapped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := httputil.NewSingleHostReverseProxy(target)
			proxy.ModifyResponse = func(r *http.Response) error {
				r.Header.Del("Date") // that of the proxy counts
				return nil
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				content, err := io.ReadAll(r.Body)
				if err != nil || test.do(w, r, string(content)) {
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(content))
				proxy.ServeHTTP(w, r)
			}))
			defer server.Close()
			c := configOf(t, server.URL)
			network := c.Networks["test"]
			network.Record = test.record
			c.Networks["test"] = network
			got := find(t, examine(t, c), server.URL, test.check)
			require.Equal(t, test.status, got.Status, "%+v", got)
			require.Contains(t, got.Detail, test.detail)
		})
	}
}

// The first block of a node is found in few calls.
func TestBlocksFrom(t *testing.T) {
	for _, first := range []uint64{1, 2, 77, 999_999, 1_000_000} {
		calls := 0
		detail, err := blocksFrom(1_000_000, 1, func(height uint64) error {
			calls++
			if height < first {
				return fmt.Errorf("block %d: %w", height, node.ErrPruned)
			}
			return nil
		})
		require.LessOrEqual(t, calls, 23)
		if first == 1 {
			require.NoError(t, err)
			require.Equal(t, "from 1 to 1000000", detail)
			continue
		}
		require.ErrorAs(t, err, new(warning))
		require.EqualError(t, err, fmt.Sprintf("only from %d to 1000000", first))
	}
	broken := errors.New("broken")
	_, err := blocksFrom(10, 1, func(height uint64) error {
		if height < 10 {
			return broken
		}
		return nil
	})
	require.ErrorIs(t, err, broken)
	detail, err := blocksFrom(0, 1, nil)
	require.NoError(t, err)
	require.Equal(t, "the chain has no block yet", detail)
	for _, ask := range []func(context.Context, *subject) (string, error){askOldSets, askIndex} {
		detail, err := ask(t.Context(), &subject{})
		require.NoError(t, err)
		require.Equal(t, "the chain has no block yet", detail)
	}
}

// Nodes of two networks are refused.
func TestNodesOfTwoNetworks(t *testing.T) {
	f := &findings{area: "x"}
	require.Zero(t, agree(f, "x", []*subject{{networkID: 1}, {}, {networkID: 5}}))
	require.Equal(t, Failure, Worst(f.list))
	f = &findings{area: "fuji"}
	require.EqualValues(t, 7, agree(f, "fuji", []*subject{{networkID: 7, pHeight: 100}, {networkID: 7, pHeight: 50}}))
	require.Contains(t, find(t, f.list, "fuji", "tip").Detail, "50 P-Chain blocks behind")
	require.Contains(t, find(t, f.list, "fuji", "name").Detail, "public network fuji")
}

func TestMachine(t *testing.T) {
	c := configOf(t, "http://127.0.0.1:1")
	network := c.Networks["test"]
	network.Record = config.RecordAll
	c.Networks["test"] = network
	list := examineMachine(c, []string{"test"}, []uint32{1})
	require.Equal(t, OK, find(t, list, "machine", "data folder").Status)
	require.Contains(t, find(t, list, "machine", "disk").Detail, "550 GB")
	require.NoDirExists(t, c.DataDir)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	c.DataDir = filepath.Join(file, "below")
	c.MemoryLimit = 1 << 60
	list = examineMachine(c, []string{"test"}, []uint32{0})
	require.Equal(t, Failure, find(t, list, "machine", "data folder").Status)
	require.Equal(t, Warning, find(t, list, "machine", "memory").Status)
}

// A PostgreSQL server is examined without creating anything.
func TestServer(t *testing.T) {
	server := pgserver.Run(t)
	place, err := server.Place(t.Context())
	require.NoError(t, err)
	c := configOf(t, "http://127.0.0.1:1")
	c.Store = place
	for range 2 {
		got := find(t, examineStore(t.Context(), c), "store", "server")
		require.Equal(t, OK, got.Status, got.Detail)
		require.Contains(t, got.Detail, "the tables will be created")
	}
	s, err := store.OpenPostgres(t.Context(), store.PostgresOptions{URL: place})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	got := find(t, examineStore(t.Context(), c), "store", "server")
	require.Equal(t, OK, got.Status, got.Detail)
	require.NotContains(t, got.Detail, "created")

	c.StoreRead = []string{place}
	require.Equal(t, Warning, find(t, examineStore(t.Context(), c), "store", "store_read 1").Status, "it is the primary server")
	standby, err := server.Standby()
	require.NoError(t, err)
	defer func() { require.NoError(t, standby.Close()) }()
	follows := standby.URL() + strings.TrimPrefix(place, server.URL())
	c.StoreRead = []string{follows}
	require.Equal(t, OK, find(t, examineStore(t.Context(), c), "store", "store_read 1").Status)
	c.Store = follows
	require.Equal(t, Failure, find(t, examineStore(t.Context(), c), "store", "server").Status, "a standby cannot be written to")
	c.Store = "postgres://nobody:secret@127.0.0.1:1/none"
	got = find(t, examineStore(t.Context(), c), "store", "server")
	require.Equal(t, Failure, got.Status)
	require.NotContains(t, got.Detail, "secret")
}
