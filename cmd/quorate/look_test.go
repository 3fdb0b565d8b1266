package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/config"
	"quorate/internal/simnet"
)

// The index commands show how far a running service is, and every row of a stopped one.
func TestIndexStatusAndStore(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 12})
	require.NoError(t, err)
	defer n.Close()
	dir := t.TempDir()
	s := startService(t, dir, map[string]*simnet.Network{"fuji": n}, "--record", "l1")
	s.sign(t, "fuji", n, "kept")

	code, out, errOut := quorate(t, "", "index", "status", "--server", s.private, "--follow")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "fuji P: following, 2 blocks indexed, 0 to go")
	code, out, errOut = quorate(t, "", "index", "status", "--server", s.private, "--json")
	require.Zero(t, code, errOut)
	require.Contains(t, out, `"next":2`)
	code, _, errOut = quorate(t, "", "index", "status", "--server", s.base)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "private address")

	code, _, errOut = quorate(t, "", "store", "inspect", "--data-dir", dir)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "Stop the service")
	s.stop(t)

	code, out, errOut = quorate(t, "", "store", "inspect", "--data-dir", dir, "--json")
	require.Zero(t, code, errOut)
	var seen struct {
		Families []familySize
	}
	require.NoError(t, json.Unmarshal([]byte(out), &seen))
	rows := make(map[string]uint64)
	for _, f := range seen.Families {
		rows[f.Family] = f.Rows
	}
	require.Equal(t, uint64(1), rows["message"])
	t.Setenv("QUORATE_DATA_DIR", dir)
	code, out, errOut = quorate(t, "", "store", "inspect")
	require.Zero(t, code, errOut)
	require.Contains(t, out, "on disk")
	require.Regexp(t, `(?m)^ +message +1 `, out)
	require.Regexp(t, `(?m)^ +total +[1-9]`, out)
	for name, n := range rows {
		require.Equal(t, n > 0, regexp.MustCompile(`(?m)^ +`+name+` `).MatchString(out), "family %s", name)
	}

	code, out, errOut = quorate(t, "", "store", "export", "message", "--data-dir", dir)
	require.Zero(t, code, errOut)
	var row struct{ P, K, V string }
	require.NoError(t, json.Unmarshal([]byte(out), &row))
	require.Equal(t, n.Message([]byte("kept")).ID().Hex(), row.P)

	code, _, errOut = quorate(t, "", "store", "export", "mesage", "--data-dir", dir)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "did you mean message?")
	code, _, errOut = quorate(t, "", "store", "inspect", "--data-dir", t.TempDir())
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "there is no store")
}

// Following shows what is left, and ends when a chain has stopped.
func TestIndexStatusFollows(t *testing.T) {
	answers := []string{
		`{"networks":{}}`,
		`{"networks":{"local":{"P":{"state":"following","next":4,"tip":3}}},"notOpen":{"fuji":"no node answers"}}`,
		`{"networks":{"fuji":{"P":{"state":"catching up","from":10,"next":4,"tip":6009,"lag":6006}}}}`,
		`{"networks":{"fuji":{"P":{"state":"catching up","from":10,"next":1010,"tip":6009,"lag":5000,"blocksPerSecond":100}}}}`,
		`{"networks":{"fuji":{"P":{"state":"stopped","from":10,"next":2000,"tip":6009,"lag":4010,"error":"block does not follow"}}},"rebuildsError":"the store has not answered within 2s"}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(answers[0]))
		answers = answers[1:]
	}))
	defer server.Close()
	code, out, errOut := quorate(t, "", "index", "status", "--follow", "--interval", "1ms", "--server", server.URL)
	require.Equal(t, exitNegative, code)
	require.Contains(t, errOut, "block does not follow")
	require.Equal(t, []string{
		"no chain is indexed",
		"local P: following, 4 blocks indexed, 0 to go",
		"fuji: not open: no node answers",
		"fuji P: catching up, 0 blocks indexed from height 10 on, 6006 to go",
		"fuji P: catching up, 1000 blocks indexed from height 10 on, 5000 to go, 100 blocks/s, 50s left",
		"fuji P: stopped, 1990 blocks indexed from height 10 on, 4010 to go: block does not follow",
		"rebuilds: unknown: the store has not answered within 2s",
	}, strings.Split(strings.TrimSpace(out), "\n"))
}

// writer calls f with what is written.
type writer func([]byte) (int, error)

func (f writer) Write(b []byte) (int, error) { return f(b) }

// A script that waits for the index must not go on with half of it.
func TestInterruptedIndexStatusFails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"networks":{"fuji":{"P":{"state":"catching up","next":10,"tip":60,"lag":50}}}}`))
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	out := writer(func(b []byte) (int, error) {
		cancel()
		return len(b), nil
	})
	var errOut strings.Builder
	code := run(ctx, []string{"index", "status", "--follow", "--interval", "1h", "--server", server.URL}, strings.NewReader(""), out, &errOut)
	require.Equal(t, exitFailed, code, errOut.String())
}

// A key that cannot be printed is lost, so it must not stay valid.
func TestUnprintedKeyIsRevoked(t *testing.T) {
	dir := t.TempDir()
	full := writer(func([]byte) (int, error) { return 0, errors.New("no space left") })
	var errOut strings.Builder
	args := []string{"keys", "add", "explorer", "--data-dir", dir}
	code := run(t.Context(), args, strings.NewReader(""), full, &errOut)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut.String(), "printing the key: no space left; the key is revoked, add one under another name")
	keys, err := (&config.Config{DataDir: dir}).KeyFile().List()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.False(t, keys[0].Revoked.IsZero())
}

// A folder that no service has used is probably not the one that was meant.
func TestKeysOfAnUnusedFolder(t *testing.T) {
	empty := t.TempDir()
	missing := filepath.Join(empty, "missing")
	for _, dir := range []string{empty, missing} {
		for _, args := range [][]string{{"list"}, {"revoke", "explorer"}} {
			code, out, errOut := quorate(t, "", append(append([]string{"keys"}, args...), "--data-dir", dir)...)
			require.Equal(t, exitFailed, code, args)
			require.Empty(t, out)
			require.Contains(t, errOut, "there are no API keys and no store in "+dir)
			require.Contains(t, errOut, "--data-dir")
		}
	}
	left, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, left)

	// The folder of a service without API keys has a store, and the first key needs none.
	require.NoError(t, os.Mkdir(filepath.Join(empty, config.StoreFolder), 0o700))
	code, out, errOut := quorate(t, "", "keys", "list", "--data-dir", empty)
	require.Zero(t, code, errOut)
	require.Contains(t, out, "NAME")
	code, _, errOut = quorate(t, "", "keys", "add", "explorer", "--data-dir", missing)
	require.Zero(t, code, errOut)
	code, out, errOut = quorate(t, "", "keys", "list", "--data-dir", missing)
	require.Zero(t, code, errOut)
	require.Contains(t, out, "explorer")
}

// A network that is not open cannot be verified. Its index may be wrong.
func TestIndexVerifyOfNetworksThatAreNotOpen(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index" {
			_, _ = w.Write([]byte(`{"networks":{"local":{}},"notOpen":{"fuji":"no node answers"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"done":{}}` + "\n"))
	}))
	defer server.Close()
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"all":              {nil, exitNegative, "some checks could not be made"},
		"one that is open": {[]string{"--network", "local"}, exitOK, ""},
		"the other":        {[]string{"--network", "fuji"}, exitNegative, "some checks could not be made"},
		"an unknown one":   {[]string{"--network", "fjui"}, exitUsage, "no index of"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := quorate(t, "", append([]string{"index", "verify", "--server", server.URL}, test.args...)...)
			require.Equal(t, test.code, code, out+errOut)
			require.Contains(t, errOut, test.says)
			if test.code == exitNegative {
				require.Contains(t, out, "fuji: not checked: the network is not open: no node answers")
			}
		})
	}
}
