package primary

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/pchain"
	"quorate/internal/store"
)

// silent is a node that does not answer.
type silent struct{}

var errSilent = errors.New("no answer")

func (silent) RewardUTXOs(context.Context, ids.ID, uint64) ([][]byte, error) { return nil, errSilent }
func (silent) Tx(context.Context, ids.ID) ([]byte, error)                    { return nil, errSilent }

// TestSeenTransactions has no node asked for a staking transaction that was in a block
// before, and keeps it as if one had been.
func TestSeenTransactions(t *testing.T) {
	made := func(unsigned txs.UnsignedTx, text string) *txs.Tx {
		tx := &txs.Tx{Unsigned: unsigned}
		tx.SetBytes(nil, []byte(text))
		return tx
	}
	staking, proposed := made(&txs.AddPermissionlessDelegatorTx{}, "staking"), made(&txs.AddValidatorTx{}, "proposed")
	other := made(&txs.BaseTx{}, "other")
	a := &answers{node: silent{}, reader: store.NewMemory()}
	a.note(&pchain.Block{Txs: []*txs.Tx{other, staking}, Proposal: proposed})
	for _, tx := range []*txs.Tx{staking, proposed} {
		got, err := a.Tx(t.Context(), tx.ID())
		require.NoError(t, err)
		require.Equal(t, tx.Bytes(), got)
	}
	require.Len(t, a.fresh, 2)
	require.Equal(t, store.Record{PK: a.key(askedTx, staking.ID()), V: staking.Bytes()}, a.fresh[0])
	_, err := a.Tx(t.Context(), other.ID())
	require.ErrorIs(t, err, errSilent)
}

// TestRememberedIsBounded has the oldest transactions forgotten.
func TestRememberedIsBounded(t *testing.T) {
	var r remembered
	id := func(i int) (id ids.ID) {
		binary.BigEndian.PutUint64(id[:], uint64(i))
		return id
	}
	const n, size = 5000, 10_000
	for i := range n {
		r.add(id(i), make([]byte, size))
		r.add(id(i), make([]byte, size)) // which changes nothing
		require.LessOrEqual(t, r.size, rememberedBytes)
	}
	require.Len(t, r.order, len(r.txs))
	require.InDelta(t, rememberedBytes/size, len(r.txs), 0.05*rememberedBytes/size)
	require.Contains(t, r.txs, id(n-1))
	require.NotContains(t, r.txs, id(0))
}
