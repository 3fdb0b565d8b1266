package reply_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apierr"
	"quorate/handlers/reply"
	"quorate/internal/store"
)

// A store that is away is no fault of ours, and passes.
func TestStoreAway(t *testing.T) {
	err := reply.Explain(t.Context(), fmt.Errorf("reading: %w: secret host", store.ErrUnavailable), func(err error) error { return err })
	var told *apierr.Error
	require.True(t, errors.As(err, &told))
	require.Equal(t, http.StatusServiceUnavailable, told.Status)
	require.NotContains(t, told.Message, "secret")
}
