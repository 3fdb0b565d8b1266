package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCanonical encodes the strings of RFC 8785, section 3.2.2, and more.
func TestCanonical(t *testing.T) {
	b, err := canonical(map[string]any{
		"string": "€$\u000f\nA'B\"\\\\\"/", "literals": []any{nil, true, false}, "a": 56, "\r": "<&>\u2028\b\t\f\x7f", "empty": map[string]any{}, "list": []any{},
	})
	require.NoError(t, err)
	require.Equal(t, "{\"\\r\":\"<&>\u2028\\b\\t\\f\x7f\",\"a\":56,\"empty\":{},\"list\":[],\"literals\":[null,true,false],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}", string(b))
}
