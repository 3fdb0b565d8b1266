package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/config"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
	"quorate/internal/store/storetest/pgserver"
)

// TestServeOnPostgres serves, indexes and restarts with the rows on a server, and reads them while the
// service runs.
func TestServeOnPostgres(t *testing.T) {
	server := pgserver.Run(t)
	n, err := simnet.Start(simnet.Options{Seed: 22, Validators: 4, History: &simnet.History{
		Options: history.Options{Txs: 600, EarlyTxs: 60, Record: true}, Dir: t.TempDir(),
	}})
	require.NoError(t, err)
	defer n.Close()
	place, err := server.Place(t.Context())
	require.NoError(t, err)
	dir := t.TempDir()
	networks := map[string]*simnet.Network{"fuji": n}

	other, err := server.Standby()
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	follows := other.URL() + strings.TrimPrefix(place, server.URL())
	s := startService(t, dir, networks, "--store", place, "--store-read", follows)
	signed := s.sign(t, "fuji", n, "kept")
	status, body := 0, ""
	require.Eventually(t, func() bool {
		status, body = s.ask(t, "/v1/networks/fuji/blockchains/x-chain/vertices:listByHeight?pageSize=100&vertexHeight=2")
		return status == http.StatusOK
	}, 5*time.Minute, 50*time.Millisecond, "%s", body)

	// The Data API reads from the server that follows.
	require.Eventually(t, func() bool {
		response, err := http.Get(s.private + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(text), "quorate_store_standby_used{standby=\""+other.Address()+"/postgres\"} 1")
	}, 5*time.Minute, 50*time.Millisecond)
	var readiness struct {
		Networks map[string]struct{ Lag map[string]uint64 }
		Standbys []struct {
			Name       string
			Used       bool
			LagSeconds *float64
		}
	}
	require.Equal(t, http.StatusOK, getJSON(t, s.private+"/readyz", &readiness))
	require.Contains(t, readiness.Networks["fuji"].Lag, "P")
	require.Len(t, readiness.Standbys, 1)
	require.Equal(t, other.Address()+"/postgres", readiness.Standbys[0].Name)
	require.NotNil(t, readiness.Standbys[0].LagSeconds)
	require.True(t, readiness.Standbys[0].Used)
	require.Eventually(t, func() bool {
		status, body = s.ask(t, "/v1/networks/fuji/subnets")
		return status == http.StatusOK
	}, 5*time.Minute, 50*time.Millisecond, "%s", body)

	code, out, errOut := quorate(t, "", "store", "inspect", "--store", place, "--json")
	require.Zero(t, code, errOut)
	var seen struct{ Families []familySize }
	require.NoError(t, json.Unmarshal([]byte(out), &seen))
	for _, f := range seen.Families {
		if f.Family == "message" || f.Family == "vertex" {
			require.NotZero(t, f.Rows, f.Family)
		}
	}
	s.stop(t)
	require.NoDirExists(t, dir+"/"+config.StoreFolder)
	code, _, errOut = quorate(t, "", "keys", "add", "someone", "--store", place)
	require.Zero(t, code, errOut)

	// Moved into the folder, everything is there as well.
	code, out, errOut = quorate(t, "", "store", "copy", "--from", place, "--to", dir)
	require.Zero(t, code, errOut)
	require.Contains(t, out, "both stores have the same content")
	require.Contains(t, out, "copied 1 API keys")
	code, out, errOut = quorate(t, "", "keys", "list", "--data-dir", dir)
	require.Zero(t, code, errOut)
	require.Contains(t, out, "someone")
	code, _, errOut = quorate(t, "", "store", "copy", "--from", place, "--to", dir)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "must be empty")
	code, _, errOut = quorate(t, "", "store", "copy", "--from", server.URL(), "--to", t.TempDir())
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "there is no store to copy")
	code, inFolder, errOut := quorate(t, "", "store", "export", "vertex", "--data-dir", dir)
	require.Zero(t, code, errOut)
	code, onServer, errOut := quorate(t, "", "store", "export", "vertex", "--store", place)
	require.Zero(t, code, errOut)
	require.Equal(t, onServer, inFolder)
	for _, args := range [][]string{{"--from", dir}, {"--from", dir, "--to", dir}, {"--from", dir, "--to", "mysql://me:secret@x"}} {
		code, out, errOut := quorate(t, "", append([]string{"store", "copy"}, args...)...)
		require.Equal(t, exitUsage, code, args)
		require.NotContains(t, out+errOut, "secret")
	}

	s = startService(t, dir, networks, "--store", place)
	defer s.stop(t)
	require.Equal(t, signed, s.sign(t, "fuji", n, "kept"))
	require.Zero(t, n.Repeated(), "requests to validators for a message that is known")
}

// TestPostgresMistakesAreNamed checks the errors for a server that cannot be used, and that they
// contain no secret.
func TestPostgresMistakesAreNamed(t *testing.T) {
	server := pgserver.Run(t)
	require.NoError(t, server.Exec(t.Context(), "CREATE ROLE poor LOGIN PASSWORD 'secret'"))
	right, err := url.Parse(server.URL())
	require.NoError(t, err)
	as := func(change func(*url.URL)) string {
		u := *right
		change(&u)
		return u.String()
	}
	for name, test := range map[string]struct {
		url  string
		want []string
	}{
		"wrong password": {as(func(u *url.URL) { u.User = url.UserPassword("quorate", "secret") }), []string{"password authentication failed", "check user and password"}},
		"no database":    {as(func(u *url.URL) { u.Path = "/secretless" }), []string{`database "secretless" does not exist`, "create the database with createdb"}},
		"no server":      {as(func(u *url.URL) { u.Host = freeAddress(t) }), []string{"connection refused", "is the server running"}},
		"no rights":      {as(func(u *url.URL) { u.User = url.UserPassword("poor", "secret") }), []string{"permission denied for schema public", "grant the user CREATE"}},
		"no TLS":         {as(func(u *url.URL) { u.RawQuery = "sslmode=verify-full" }), []string{"server refused TLS connection", "sslmode"}},
		"no URL":         {"host=x password=secret", []string{"--store", "postgres://"}},
	} {
		code, out, errOut := quorate(t, "", "store", "inspect", "--store", test.url)
		require.NotZero(t, code, name)
		for _, want := range test.want {
			require.Contains(t, errOut, want, name)
		}
		if name != "no server" {
			require.NotContains(t, errOut, "does not answer", name)
			require.NotContains(t, errOut, "is the server running", name)
		}
		require.NotContains(t, strings.ReplaceAll(out+errOut, "secretless", ""), "secret", name)
	}
	code, out, errOut := quorate(t, "", "config", "check", "--network", "fuji=http://127.0.0.1:1", "--store", as(func(u *url.URL) { u.User = url.UserPassword("me", "secret") }))
	require.Zero(t, code, errOut)
	require.Contains(t, out, "postgres://***@127.0.0.1")
	require.NotContains(t, out, "secret")
	code, out, errOut = quorate(t, "", "config", "check", "--network", "fuji=http://127.0.0.1:1", "--store", "postgres://me:sec/ret@host/x")
	require.NotZero(t, code)
	require.Contains(t, out, "store: ")
	require.NotContains(t, out+errOut, "ret@")
}
