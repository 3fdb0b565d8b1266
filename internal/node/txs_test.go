package node

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"
)

// refusing answers every call with an error of avalanchego's kind.
func refusing(t *testing.T, message string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":%q,"data":null},"id":1}`, message)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestTransactions(t *testing.T) {
	encoded, err := formatting.Encode(formatting.Hex, []byte("transaction"))
	require.NoError(t, err)
	c := newClient(t, methods(t, map[string]string{
		"/ext/bc/P platform.getTxStatus": `{"status":"Dropped","reason":"stale nonce"}`,
		"/ext/bc/P platform.getTx":       `{"tx":"` + encoded + `","encoding":"hex"}`,
		"/ext/bc/X avm.getTx":            `{"tx":"` + encoded + `","encoding":"hex"}`,
		"/ext/bc/P platform.getL1Validator": `{"subnetID":"` + ids.ID{2}.String() + `","nodeID":"` + nodeA + `","weight":"18446744073709551615",
			"minNonce":"7","validationID":"` + ids.ID{4}.String() + `","balance":"0","remainingBalanceOwner":{"addresses":[]},"height":"9"}`,
	}))
	decided, err := c.TxStatus(t.Context(), ids.ID{1})
	require.NoError(t, err)
	require.Equal(t, TxStatus{Status: status.Dropped, Reason: "stale nonce"}, decided)
	raw, err := c.Tx(t.Context(), ids.ID{1})
	require.NoError(t, err)
	require.Equal(t, []byte("transaction"), raw)
	exists, err := c.HasXChainTx(t.Context(), ids.ID{1})
	require.NoError(t, err)
	require.True(t, exists)
	v, err := c.L1Validator(t.Context(), ids.ID{4})
	require.NoError(t, err)
	require.EqualValues(t, uint64(1<<64-1), v.Weight)
	require.EqualValues(t, 7, v.MinNonce)
}

func TestTransactionsThatAreNotThere(t *testing.T) {
	var refused *RPCError
	t.Run("not found", func(t *testing.T) {
		// As avalanchego words it: fmt.Errorf around database.ErrNotFound.
		c := newClient(t, refusing(t, `fetching L1 validator "2Z" failed: not found`))
		v, err := c.L1Validator(t.Context(), ids.ID{4})
		require.NoError(t, err)
		require.Nil(t, v)
		c = newClient(t, refusing(t, "couldn't get tx: not found"))
		_, err = c.Tx(t.Context(), ids.ID{1})
		require.ErrorAs(t, err, &refused)
		exists, err := c.HasXChainTx(t.Context(), ids.ID{1})
		require.NoError(t, err)
		require.False(t, exists)
	})
	t.Run("no X-Chain is offered", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(server.Close)
		exists, err := newClient(t, server.URL).HasXChainTx(t.Context(), ids.ID{1})
		require.NoError(t, err)
		require.False(t, exists)
	})
	t.Run("another refusal is no absence", func(t *testing.T) {
		c := newClient(t, refusing(t, "failed to get the current height: closed"))
		_, err := c.L1Validator(t.Context(), ids.ID{4})
		require.ErrorAs(t, err, &refused)
		_, err = c.TxStatus(t.Context(), ids.ID{4})
		require.ErrorAs(t, err, &refused)
	})
	t.Run("a node that is away is no absence", func(t *testing.T) {
		c := newClient(t, away)
		_, err := c.L1Validator(t.Context(), ids.ID{4})
		require.ErrorIs(t, err, ErrUnavailable)
		_, err = c.HasXChainTx(t.Context(), ids.ID{4})
		require.ErrorIs(t, err, ErrUnavailable)
	})
}

func TestUnreadableTransactions(t *testing.T) {
	for name, result := range map[string]string{
		"no transaction":  `{"encoding":"hex"}`,
		"an object":       `{"tx":{"unsignedTx":{}},"encoding":"json"}`,
		"a bad checksum":  `{"tx":"0x00","encoding":"hex"}`,
		"no hex":          `{"tx":"0xzz","encoding":"hex"}`,
		"numbers in text": `{"tx":7,"encoding":"hex","weight":"many"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, methods(t, map[string]string{
				"/ext/bc/P platform.getTx": result, "/ext/bc/X avm.getTx": result,
			}))
			_, err := c.Tx(t.Context(), ids.ID{1})
			require.ErrorIs(t, err, ErrMalformed)
			_, err = c.HasXChainTx(t.Context(), ids.ID{1})
			require.ErrorIs(t, err, ErrMalformed)
		})
	}
	c := newClient(t, methods(t, map[string]string{
		"/ext/bc/P platform.getTxStatus":    `{"status":"Perhaps"}`,
		"/ext/bc/P platform.getL1Validator": `{"weight":"many"}`,
	}))
	_, err := c.TxStatus(t.Context(), ids.ID{1})
	require.ErrorIs(t, err, ErrMalformed)
	_, err = c.L1Validator(t.Context(), ids.ID{1})
	require.ErrorIs(t, err, ErrMalformed)
}
