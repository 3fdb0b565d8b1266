package storage

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/service/hint"
	"quorate/internal/store"
)

// TestFailure checks the hints for a store that cannot be opened. Where the error says what to do, there is none.
func TestFailure(t *testing.T) {
	files, server := Location{Dir: "data/store"}, Location{URL: "postgres://host/db"}
	for name, test := range map[string]struct {
		err   error
		place Location
		want  string // in the hint; if it is empty, so is the hint
	}{
		"unfinished copy into files":    {fmt.Errorf("%w: run quorate store copy again", store.ErrFormat), files, ""},
		"unfinished copy into a server": {fmt.Errorf("%w: run quorate store copy again", store.ErrFormat), server, ""},
		"damaged files":                 {store.ErrCorrupt, files, "webhooks and signed messages are lost"},
		"damaged server":                {store.ErrCorrupt, server, "without the API keys, webhooks and signed messages"},
		"server away":                   {store.ErrUnavailable, server, "is the server running?"},
		"server refuses":                {errors.New("permission denied"), server, ""},
		"files in use":                  {store.ErrInUse, files, "in use"},
		"another error of files":        {errors.New("not a directory"), files, "--data-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			var hinted *hint.Error
			require.ErrorAs(t, Failure(test.err, test.place, "in use"), &hinted)
			if test.want == "" {
				require.Empty(t, hinted.Hint)
			}
			require.Contains(t, hinted.Hint, test.want)
		})
	}
}
