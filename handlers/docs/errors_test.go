package docs_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/docs/conform"
)

// TestErrorCodesHaveExamples checks that the document has one example of each code in docs/errors.md, at its status.
func TestErrorCodesHaveExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	table, _, found := strings.Cut(string(page), "## Reasons")
	require.True(t, found)
	var codes []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for _, code := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(cells[1], -1) {
				codes = append(codes, code[1])
			}
		}
	}
	var shown []string
	document := conform.Document(t)
	statuses := map[string]int{
		"BadRequest": http.StatusBadRequest, "NotFound": http.StatusNotFound, "TooManyRequests": http.StatusTooManyRequests,
		"InternalError": http.StatusInternalServerError, "BadGateway": http.StatusBadGateway, "Unavailable": http.StatusServiceUnavailable,
	}
	show := func(status int, examples []byte) {
		var all map[string]struct {
			Value struct {
				Message, Error, Code string
				StatusCode           int
			}
		}
		require.NoError(t, json.Unmarshal(examples, &all))
		for code, example := range all {
			require.Equal(t, []any{code, status, http.StatusText(status)}, []any{example.Value.Code, example.Value.StatusCode, example.Value.Error}, code)
			require.NotEmpty(t, example.Value.Message)
			shown = append(shown, code)
		}
	}
	for name, status := range statuses {
		examples, err := json.Marshal(document.Components.Responses[name].Value.Content["application/json"].Examples)
		require.NoError(t, err)
		show(status, examples)
	}
	stream := document.Paths.Value("/v1/signatureAggregator/{network}/messages:stream")
	require.NotNil(t, stream)
	examples, err := json.Marshal(stream.Get.Responses.Status(http.StatusGone).Value.Content["application/json"].Examples)
	require.NoError(t, err)
	show(http.StatusGone, examples)
	require.ElementsMatch(t, codes, shown)
}
