package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/internal/simnet"
)

// A client whose messages no validator signs uses up its allowance sooner than a client whose messages are signed. It
// does not use up the allowance of others. Without a limit nothing is refused.
func TestAttackUnsignableMessagesAreCharged(t *testing.T) {
	const burst = 6
	n := startSimnet(t, simnet.Options{Seed: 33, Validators: 150})
	for _, v := range n.Validators() {
		v.SetHook(func(m *warp.UnsignedMessage, _ []byte, honest simnet.Answer) simnet.Answer {
			if bytes.Contains(m.Payload, []byte("never sent")) {
				honest.Refuse, honest.Code, honest.Text = true, 1, "unknown payload type: *payload.AddressedCall"
			}
			return honest
		})
	}
	file := writeFile(t, fmt.Sprintf(`
rate_classes:
  default: {per_second: 0.01, burst: %d}
trusted_proxies: [127.0.0.0/8]
`, burst))
	limited := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n}, "--config", file)
	defer limited.stop(t)
	var message atomic.Int64
	request := func(base, client, content string) (*http.Response, string) {
		body := fmt.Sprintf(`{"message":"%x"}`, n.Message(fmt.Appendf(nil, "%s %d", content, message.Add(1))).Bytes())
		return ask(t, "POST", base+"/v1/signatureAggregator/fuji/aggregateSignatures", body, "X-Forwarded-For", client)
	}
	for i := range burst {
		response, content := request(limited.base, "192.0.2.1", "sent")
		require.Equal(t, 200, response.StatusCode, content)
		require.Equal(t, strconv.Itoa(burst-1-i), response.Header.Get("ratelimit-remaining"), "a signed message costs one request")
	}
	response, _ := request(limited.base, "192.0.2.1", "sent")
	require.Equal(t, 429, response.StatusCode)

	served := 0
	for ; served < burst; served++ {
		response, content := request(limited.base, "192.0.2.2", "never sent")
		if response.StatusCode == http.StatusTooManyRequests {
			var failure struct{ Code string }
			require.NoError(t, json.Unmarshal([]byte(content), &failure))
			require.Equal(t, "RATE_LIMITED", failure.Code)
			wait, err := strconv.Atoi(response.Header.Get("retry-after"))
			require.NoError(t, err)
			require.Positive(t, wait)
			require.LessOrEqual(t, wait, 131, "30 s of debt, and a request")
			break
		}
		require.Equal(t, 404, response.StatusCode, content)
	}
	require.Less(t, served, burst, "each costs more than one request")
	response, content := request(limited.base, "192.0.2.3", "sent")
	require.Equal(t, 200, response.StatusCode, "another client: %s", content)

	open := startService(t, t.TempDir(), map[string]*simnet.Network{"fuji": n})
	defer open.stop(t)
	for range 3 {
		response, content := request(open.base, "192.0.2.2", "never sent")
		require.Equal(t, 404, response.StatusCode, content)
		require.Empty(t, response.Header.Get("ratelimit-remaining"))
	}
}
