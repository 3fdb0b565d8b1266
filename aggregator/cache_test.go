package aggregator

import (
	"encoding/binary"
	"runtime"
	"testing"

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

// A flood of unique messages grows neither cache beyond its bound.
func TestCachesStayWithinTheirBounds(t *testing.T) {
	const bound = 16 << 20
	before := heap()
	s, err := newSignatures(bound)
	require.NoError(t, err)
	v := &validators.Warp{PublicKeyBytes: make([]byte, 96)}
	for i := range uint64(200_000) {
		var id ids.ID
		binary.BigEndian.PutUint64(id[:], i)
		s.put(id, keyOf(v), [96]byte{})
	}
	s.cache.CleanUp()
	require.Less(t, heap()-before, uint64(bound*11/10), "signatures")
	runtime.KeepAlive(s)

	before = heap()
	f, err := newFinished(bound)
	require.NoError(t, err)
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
	f.cache.CleanUp()
	require.Less(t, heap()-before, uint64(bound*11/10), "messages")
	runtime.KeepAlive(f)
}
