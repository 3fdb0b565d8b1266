package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"context"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
)

// webhookFlags make a service offer webhooks.
func webhookFlags(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte("webhooks: {enabled: true, allow_private_addresses: true}\n"), 0o600))
	return []string{"--config", file}
}

// hook creates a webhook once the service has indexed what it watches.
func (s *service) hook(ctx context.Context, format string, args ...any) {
	s.t.Helper()
	body := fmt.Sprintf(format, args...)
	require.Eventually(s.t, func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/webhooks", strings.NewReader(body))
		require.NoError(s.t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		require.NoError(s.t, err)
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		require.NoError(s.t, err)
		if response.StatusCode == http.StatusServiceUnavailable {
			return false
		}
		require.Equal(s.t, http.StatusCreated, response.StatusCode, "%s", answer)
		return true
	}, time.Minute, 100*time.Millisecond)
}

// validatorMessage is a message of a webhook for validators.
type validatorMessage struct {
	MessageID string
	Event     struct {
		EventType          string
		BlockNumber        uint64 `json:",string"`
		TxHash             ids.ID
		L1ValidatorDetails struct {
			ValidationID     ids.ID
			RemainingBalance uint64 `json:",string"`
			BalanceChange    string
		}
	}
}

// hooks receives messages of webhooks for validators.
type hooks struct {
	url string

	mu       sync.Mutex
	messages map[string]validatorMessage // by message ID; guarded by mu
}

func newHooks(t *testing.T) *hooks {
	t.Helper()
	h := &hooks{messages: make(map[string]validatorMessage)}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m validatorMessage
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages[m.MessageID] = m
}

// validatorEvents are the events that a node implies: the transactions it accepted, and what its balances show.
type validatorEvents struct {
	threshold uint64
	balance   map[ids.ID]uint64
	height    uint64
	// want has a text for each event, with the heights between which it happened.
	want map[string][][2]uint64
}

func newValidatorEvents(subnetID, conversion ids.ID, validators int) *validatorEvents {
	e := &validatorEvents{threshold: 15, balance: make(map[ids.ID]uint64), want: make(map[string][][2]uint64)}
	for i := range validators {
		e.expect("validator_stake", conversion, subnetID.Append(uint32(i)), [2]uint64{0, 1 << 40})
	}
	return e
}

func (e *validatorEvents) expect(kind string, txID, validationID ids.ID, heights [2]uint64) {
	name := fmt.Sprint(kind, " ", txID, " ", validationID)
	e.want[name] = append(e.want[name], heights)
}

func (e *validatorEvents) increased(validationID, txID ids.ID) {
	e.expect("l1_validator_balance_increased", txID, validationID, [2]uint64{0, 1 << 40})
	if e.balance[validationID] == 0 {
		e.balance[validationID] = e.threshold // whether it was more for a moment is not known
	}
}

// compared notes the balances at a height.
func (e *validatorEvents) compared(height uint64, all []l1Entry) {
	for _, v := range all {
		before, known := e.balance[v.ValidationID]
		if known && before > 0 && v.RemainingBalance == 0 {
			e.expect("l1_validator_disabled", ids.Empty, v.ValidationID, [2]uint64{e.height + 1, height})
		}
		if known && before >= e.threshold && v.RemainingBalance < e.threshold {
			e.expect("l1_validator_balance_threshold", ids.Empty, v.ValidationID, [2]uint64{e.height + 1, height})
		}
		e.balance[v.ValidationID] = v.RemainingBalance
	}
	e.height = height
}

// missing returns the expected events without a message.
func (e *validatorEvents) missing(h *hooks) (missing []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	got := make(map[string][]uint64)
	for _, m := range h.messages {
		name := fmt.Sprint(m.Event.EventType, " ", m.Event.TxHash, " ", m.Event.L1ValidatorDetails.ValidationID)
		got[name] = append(got[name], m.Event.BlockNumber)
	}
	for name, all := range e.want {
		for _, heights := range all {
			found := false
			for _, at := range got[name] {
				found = found || at >= heights[0] && at <= heights[1]
			}
			if !found {
				missing = append(missing, fmt.Sprint(name, " at ", heights, ", only at ", got[name]))
			}
		}
	}
	return missing
}

// require requires that all expected events arrive.
func (e *validatorEvents) require(t *testing.T, h *hooks) {
	t.Helper()
	require.Eventually(t, func() bool { return len(e.missing(h)) == 0 }, time.Minute, 100*time.Millisecond, "no message about some events")
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.messages {
		details := m.Event.L1ValidatorDetails
		switch m.Event.EventType {
		case "l1_validator_balance_threshold":
			require.Less(t, details.RemainingBalance, e.threshold)
		case "l1_validator_disabled":
			require.Zero(t, details.RemainingBalance)
		case "l1_validator_balance_increased":
			require.NotEmpty(t, details.BalanceChange)
		}
	}
	t.Logf("%d messages about validators", len(h.messages))
}
