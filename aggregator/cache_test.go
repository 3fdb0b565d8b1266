package aggregator

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A flood of unique messages does not grow the caches beyond their bounds.
func TestScenario_7_2_35_FloodOfUniqueMessages(t *testing.T) {
	const bound = 16 << 20
	before := heap()
	s := newSignatures(bound)
	v := &validators.Warp{PublicKeyBytes: make([]byte, 96)}
	for i := range uint64(200_000) {
		var id ids.ID
		binary.BigEndian.PutUint64(id[:], i)
		s.put(id, keyOf(v), [96]byte{})
	}
	s.cache.Trim()
	require.Less(t, heap()-before, uint64(bound*11/10), "signatures")
	runtime.KeepAlive(s)

	before = heap()
	f := newFinished(bound)
	for i := range uint64(50_000) {
		content := make([]byte, 200)
		binary.BigEndian.PutUint64(content, i)
		unsigned, err := warp.NewUnsignedMessage(testNetworkID, testChain, content)
		require.NoError(t, err)
		signed, err := warp.NewMessage(unsigned, &warp.BitSetSignature{Signers: make([]byte, 125)})
		require.NoError(t, err)
		account := Account{SilentNodes: make([]ids.NodeID, maxSilentNodes)}
		for range maxRefusals {
			account.Refusals = append(account.Refusals, Refusal{Message: string(make([]byte, maxRefusalText))})
		}
		f.cache.Set(finishedID{message: unsigned.ID()}, &Result{Message: signed, Account: account})
	}
	f.cache.Trim()
	require.Less(t, heap()-before, uint64(bound*11/10), "messages")
	runtime.KeepAlive(f)

	n := newFakeNetwork(t, 60, 40)
	synctest.Test(t, func(t *testing.T) {
		const signatureBytes, messageBytes = 64 * signatureCost, 8 * (messageCost + 1024)
		a, err := New(Options{Transport: n, Sets: n, Log: slog.New(slog.DiscardHandler), SignatureCacheBytes: signatureBytes, MessageCacheBytes: messageBytes})
		require.NoError(t, err)
		defer a.Close()
		var waiters sync.WaitGroup
		for i := range 200 {
			waiters.Go(func() {
				r, err := a.Sign(t.Context(), Request{Message: testMessage(t, fmt.Sprint(i))})
				if err != nil {
					t.Errorf("message %d: %v", i, err)
					return
				}
				requireValid(t, n, r, 67)
			})
		}
		waiters.Wait()
		settle()
		a.verified.cache.Trim()
		a.finished.cache.Trim()
		require.LessOrEqual(t, a.verified.cache.Len(), signatureBytes/signatureCost)
		require.LessOrEqual(t, a.finished.cache.Weight(), uint64(messageBytes))
		require.Empty(t, a.runners)
		require.Empty(t, n.onConnect, "a round still listens for connections")
		require.Empty(t, a.verifier.jobs)
		require.LessOrEqual(t, len(a.history.answers), 2)
	})
}
