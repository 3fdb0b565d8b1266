package warplog

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/internal/node"
)

// balanced is a load balancer before nodes at different heights. A node with asynchronous
// execution has executed fewer blocks than it knows. It answers eth_blockNumber with the last
// executed block, and eth_getLogs with no logs, not with an error, for those after it.
type balanced struct {
	mu       sync.Mutex
	rng      *rand.Rand // guarded by mu
	executed []uint64   // by node; guarded by mu
	logs     []string   // by block, empty for a block without messages
	most     uint64     // blocks that logs may be asked for at once
	flaky    int        // one request of so many fails
	split    bool       // whether the calls of a batch go to different nodes
}

// grow lets each node execute some more blocks, or none.
func (b *balanced) grow() (done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := uint64(len(b.logs) - 1)
	done = true
	for i := range b.executed {
		b.executed[i] = min(last, b.executed[i]+b.rng.Uint64N(9))
		done = done && b.executed[i] == last
	}
	return done
}

func (b *balanced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rng.IntN(b.flaky) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var raw json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	executed := b.executed[b.rng.IntN(len(b.executed))]
	var calls []call
	if raw[0] == '[' {
		_ = json.Unmarshal(raw, &calls)
	} else {
		calls = make([]call, 1)
		_ = json.Unmarshal(raw, &calls[0])
	}
	var answers []string
	for _, c := range calls {
		if b.split {
			executed = b.executed[b.rng.IntN(len(b.executed))]
		}
		answers = append(answers, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, c.ID, b.answer(c, executed)))
	}
	if raw[0] == '[' {
		_, _ = fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
	} else {
		_, _ = w.Write([]byte(answers[0]))
	}
}

type call struct {
	ID     json.RawMessage
	Method string
	Params []json.RawMessage
}

func (b *balanced) answer(c call, executed uint64) string {
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	switch c.Method {
	case "eth_blockNumber":
		return fmt.Sprintf(`"result":"0x%x"`, executed)
	case "eth_getBlockByNumber":
		var text string
		_ = json.Unmarshal(c.Params[0], &text)
		if number(text) > executed {
			return `"result":null`
		}
		return fmt.Sprintf(`"result":{"number":%q}`, text)
	case "eth_getLogs":
		var filter struct{ FromBlock, ToBlock string }
		_ = json.Unmarshal(c.Params[0], &filter)
		from, to := number(filter.FromBlock), number(filter.ToBlock)
		if to-from >= b.most {
			return `"error":{"code":-32000,"message":"requested too many blocks"}`
		}
		var found []string
		for n := from; n <= min(to, executed); n++ {
			if b.logs[n] != "" {
				found = append(found, b.logs[n])
			}
		}
		return `"result":[` + strings.Join(found, ",") + `]`
	}
	return `"error":{"code":-32601,"message":"the method does not exist"}`
}

// message returns the log of a message sent in a block.
func message(t *testing.T, block uint64) string {
	t.Helper()
	call, err := payload.NewAddressedCall(nil, []byte(strconv.FormatUint(block, 10)))
	require.NoError(t, err)
	m, err := warp.NewUnsignedMessage(1337, ids.ID{1}, call.Bytes())
	require.NoError(t, err)
	data := fmt.Sprintf("%064x%064x%x", 32, len(m.Bytes()), m.Bytes())
	data += strings.Repeat("0", (64-len(data)%64)%64)
	return fmt.Sprintf(`{"blockNumber":"0x%x","logIndex":"0x0","transactionHash":"0x%064x","data":"0x%s"}`, block, block, data)
}

// TestNoMessageIsLost follows random chains through nodes at different heights that fail now
// and then, and gets each message once, in order.
func TestNoMessageIsLost(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			b := &balanced{rng: rng, executed: make([]uint64, 1+rng.IntN(3)), most: 41, flaky: 10}
			var want []uint64
			for block := range uint64(400) {
				log := ""
				if rng.IntN(3) == 0 {
					log, want = message(t, block), append(want, block)
				}
				b.logs = append(b.logs, log)
			}
			server := httptest.NewServer(b)
			defer server.Close()
			client, err := node.New(node.Options{Endpoints: []string{server.URL}})
			require.NoError(t, err)
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var got []uint64
			followed := make(chan error, 1)
			go func() {
				followed <- Follow(ctx, Options{Source: client, Path: "/x", Poll: time.Millisecond, OnMessage: func(m node.SentMessage) {
					if got = append(got, m.Block); len(got) == len(want) {
						cancel()
					}
				}})
			}()
			ticker := time.NewTicker(2 * time.Millisecond)
			defer ticker.Stop()
			for done := false; !done; {
				select {
				case <-ticker.C:
					done = b.grow()
				case <-ctx.Done():
					done = true
				}
			}
			assert.ErrorIs(t, <-followed, context.Canceled)
			require.Equal(t, want, got)
		})
	}
}
