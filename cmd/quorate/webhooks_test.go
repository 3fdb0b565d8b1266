package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/webhook"
)

// hooked is a receiver of webhooks that refuses the first message about some transactions.
type hooked struct {
	mu      sync.Mutex
	refused map[string]bool            // guarded by mu
	ids     map[string]map[string]bool // IDs of accepted messages by transaction; guarded by mu
}

func (h *hooked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		MessageID string
		Event     struct{ Transaction struct{ TxHash string } }
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &m) != nil || r.Header.Get("x-signature") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	hash := m.Event.Transaction.TxHash
	if strings.HasSuffix(hash, "0") && !h.refused[hash] {
		h.refused[hash] = true
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if h.ids[hash] == nil {
		h.ids[hash] = make(map[string]bool)
	}
	h.ids[hash][m.MessageID] = true
}

func (h *hooked) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ids)
}

// TestWebhooks kills the service while a chain grows and a receiver fails now and then. Each transaction of the
// watched accounts arrives, always with the same message ID. The secret is in no log.
func TestWebhooks(t *testing.T) {
	n := startSimnet(t, simnet.Options{Seed: 23, Validators: 2, EVM: []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: 50, Record: true}}}})
	made := n.EVM()[0]
	first := made.Tip() + 1
	receiver := &hooked{refused: make(map[string]bool), ids: make(map[string]map[string]bool)}
	server := httptest.NewServer(receiver)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
webhooks: {enabled: true, allow_private_addresses: true}
networks:
  fuji:
    nodes: [%s]
    ahead_rounds: 0
    evm:
      - rpc: %s/ext/bc/%s/rpc
`, n.NodeURL(), n.NodeURL(), made.Generator().BlockchainID()), 0o600))
	listen, private := freeAddress(t), freeAddress(t)
	s := &replica{name: "service", base: "http://" + listen, private: "http://" + private, args: []string{
		"serve", "--listen", listen, "--private-listen", private, "--data-dir", t.TempDir(), "--allow-private-ips", "--record", "all", "--config", file, "--log-level", "debug",
	}}
	s.begin(t)
	t.Cleanup(func() { s.end(t, syscall.SIGINT) })
	s.await(t)

	accounts := make(map[string]bool)
	for _, a := range made.Generator().Truth().Accounts() {
		if len(accounts) < webhook.MaxAddresses {
			accounts[a.Hex()] = true
		}
	}
	body, err := json.Marshal(map[string]any{
		"eventType": "address_activity", "url": server.URL, "chainId": "99001", "metadata": map[string]any{"addresses": slices.Collect(maps.Keys(accounts))},
	})
	require.NoError(t, err)
	post := func(path, body string) (status int, answer map[string]any) {
		response, err := http.Post(s.base+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer response.Body.Close()
		require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
		return response.StatusCode, answer
	}
	require.Eventually(t, func() bool { // once the chain is indexed
		status, _ := post("/v1/webhooks", string(body))
		return status == http.StatusCreated
	}, time.Minute, 50*time.Millisecond, "%s", s.log)
	_, answer := post("/v1/webhooks:generateOrRotateSharedSecret", "")
	secret := answer["secret"].(string)

	logs := ""
	for range 4 {
		require.NoError(t, made.Grow(t.Context(), 40))
		seen := receiver.count()
		require.Eventually(t, func() bool { return receiver.count() > seen }, time.Minute, 10*time.Millisecond, "%s", s.log)
		s.end(t, syscall.SIGKILL)
		logs += s.log.String()
		s.begin(t)
		s.await(t)
	}
	var want []string
	for _, b := range made.Generator().Truth().Blocks() {
		for i := range b.Transactions {
			if tx := &b.Transactions[i]; b.Number >= first && accounts[tx.From.Hex()] {
				want = append(want, tx.Hash.Hex())
			}
		}
	}
	require.Greater(t, len(want), 100)
	missing := func() int {
		receiver.mu.Lock()
		defer receiver.mu.Unlock()
		n := 0
		for _, hash := range want {
			if receiver.ids[hash] == nil {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return missing() == 0 }, 3*time.Minute, 100*time.Millisecond, "%s", s.log)
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	for hash, ids := range receiver.ids {
		require.Len(t, ids, 1, "transaction %s", hash)
	}
	require.NotContains(t, logs+s.log.String(), secret)
}
