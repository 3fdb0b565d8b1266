package handlers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/index/primary"
)

func TestVerifyIndex(t *testing.T) {
	var asked primary.VerifyOptions
	e, err := NewPrivate(PrivateOptions{Verify: func(_ context.Context, network string, o primary.VerifyOptions, tell func(primary.Verification)) error {
		if network != "fuji" {
			return ErrNotIndexed
		}
		asked = o
		tell(primary.Verification{Wrong: "a row"})
		tell(primary.Verification{Done: &primary.Verdict{Wrong: 1}})
		return nil
	}})
	require.NoError(t, err)
	post := func(query string) *httptest.ResponseRecorder {
		return do(e, http.MethodPost, "/index/verify?"+query, "")
	}
	w := post("network=fuji&addresses=7")
	require.Equal(t, 200, w.Code)
	require.Equal(t, "{\"wrong\":\"a row\"}\n{\"done\":{\"wrong\":1,\"unchecked\":0}}\n", w.Body.String())
	require.Equal(t, 7, asked.Addresses)
	requireRefusal := func(query string, status int, message string) {
		w := post(query)
		require.Equal(t, status, w.Code, query)
		require.Contains(t, w.Body.String(), message)
	}
	requireRefusal("network=other", 404, `network: no chain of \"other\" is indexed here`)
	requireRefusal("network=fuji&addresses=-1", 400, `addresses: must be an integer from 0 to `)
	requireRefusal("network=fuji&seed=x", 400, `seed: must be 20 bytes`)
}

// TestVerificationThatFails checks that the log says why the last line is missing.
func TestVerificationThatFails(t *testing.T) {
	var log bytes.Buffer
	e, err := NewPrivate(PrivateOptions{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Verify: func(_ context.Context, _ string, _ primary.VerifyOptions, tell func(primary.Verification)) error {
			tell(primary.Verification{Wrong: "a row"})
			return errors.New("the disk is full")
		},
	})
	require.NoError(t, err)
	w := do(e, http.MethodPost, "/index/verify?network=fuji", "")
	require.Equal(t, "{\"wrong\":\"a row\"}\n", w.Body.String())
	require.Contains(t, log.String(), "the disk is full")
}
