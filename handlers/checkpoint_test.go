package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/peernode"
	"quorate/internal/peernode/checkpoint"
)

func TestExportCheckpoint(t *testing.T) {
	var failure, late error
	e, err := NewPrivate(PrivateOptions{Export: func(_ context.Context, network string, height uint64, begin func(checkpoint.Header) io.Writer) error {
		if failure != nil {
			return failure
		}
		_, err := fmt.Fprintf(begin(checkpoint.Header{}), "the state of %s at %d", network, height)
		return errors.Join(err, late)
	}})
	require.NoError(t, err)
	server := httptest.NewServer(e)
	defer server.Close()
	get := func(query string) (int, string, error) {
		r, err := http.Get(server.URL + "/checkpoint?" + query)
		if err != nil {
			return 0, "", err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return r.StatusCode, string(body), err
	}
	status, body, err := get("network=fuji&height=7")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, "the state of fuji at 7", body)
	for _, height := range []string{"x", "0", "-1"} {
		status, body, _ = get("height=" + height)
		require.Equal(t, 400, status)
		require.Contains(t, body, "height: must be a positive integer")
	}
	for want, err := range map[int]error{
		404: ErrNotExecuted, 400: fmt.Errorf("%w: it is at height 9", peernode.ErrPast), 409: peernode.ErrBusy, 503: fmt.Errorf("%w: it is at height 9", peernode.ErrBehind),
	} {
		failure = err
		status, _, err := get("network=fuji")
		require.NoError(t, err)
		require.Equal(t, want, status)
	}
	failure, late = nil, errors.New("the disk failed")
	_, _, err = get("network=fuji")
	require.Error(t, err, "an incomplete checkpoint looks complete")
}
