package handlers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/index/primary"
)

func TestVerifyIndex(t *testing.T) {
	var asked primary.VerifyOptions
	e, err := NewPrivate(PrivateOptions{Verify: func(_ context.Context, network string, o primary.VerifyOptions, tell func(primary.Verification)) error {
		if network != "fuji" {
			return ErrNotRecorded
		}
		asked = o
		tell(primary.Verification{Wrong: "a row"})
		tell(primary.Verification{Done: &primary.Verdict{Wrong: 1}})
		return nil
	}})
	require.NoError(t, err)
	post := func(query string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/index/verify?"+query, http.NoBody))
		return w
	}
	w := post("network=fuji&addresses=7")
	require.Equal(t, 200, w.Code)
	require.Equal(t, "{\"wrong\":\"a row\"}\n{\"done\":{\"wrong\":1,\"unchecked\":0}}\n", w.Body.String())
	require.Equal(t, 7, asked.Addresses)
	require.Equal(t, 404, post("network=other").Code)
	require.Equal(t, 400, post("network=fuji&addresses=-1").Code)
	require.Equal(t, 400, post("network=fuji&seed=x").Code)
}
