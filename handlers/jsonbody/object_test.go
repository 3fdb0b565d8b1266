package jsonbody

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/handlers/apierr"
)

func TestLoose(t *testing.T) {
	tests := []struct {
		body string
		want uint64
		fail string
	}{
		{`{"pchain-height": 7}`, 7, ""},
		{`{"p-chain-height": 7}`, 7, ""},
		{`{"pChainHeight": 7}`, 7, ""},
		{`{"pChainHeight": 7, "other": {"a": [1, null]}}`, 0, `unknown member "other" in the request body (known members: message, pchain-height)`},
		{`{"PCHAIN_HEIGHT": 7}`, 7, ""},
		{`{"p-chain-height": 7, "pchain-height": 7}`, 7, ""},
		{`{"p-chain-height": 7, "pchain-height": 8}`, 0, "pchain-height is given twice"},
		{`{"pchain-height": null}`, 0, ""},
	}
	for _, tt := range tests {
		o, err := Loose([]byte(tt.body), "message", "pchain-height")
		if tt.fail != "" {
			require.ErrorContains(t, err, tt.fail, tt.body)
			continue
		}
		require.NoError(t, err, tt.body)
		got, err := o.Uint("pchain-height", 100)
		require.NoError(t, err, tt.body)
		require.Equal(t, tt.want, got, tt.body)
	}
}

func TestStrictNamesWhatIsKnown(t *testing.T) {
	_, err := Strict([]byte(`{"quorum-percentage": 67}`), "message", "quorumPercentage")
	var e *apierr.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, 400, e.Status)
	require.Equal(t, `unknown member "quorum-percentage" in the request body; did you mean quorumPercentage? (known members: message, quorumPercentage)`, e.Message)
}
