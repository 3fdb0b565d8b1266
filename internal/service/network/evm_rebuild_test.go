package network

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// TestRebuildWaitsForChainsWithAnIndex opens a rebuild while the node of a configured chain does not answer. The rebuild
// waits if an index may be the chain's, because the switch would delete it.
func TestRebuildWaitsForChainsWithAnIndex(t *testing.T) {
	const missing = "evm node.example: no route to host; it may be the indexed chain evm-99001/" +
		"2Z36RnQuk1hvsnFeGWzfZUfXNr7w1SjzmDQ78YxfTVNAkDq3nZ: correct its rpc, or remove it from the configuration"
	blockchainID, err := ids.FromString("2Z36RnQuk1hvsnFeGWzfZUfXNr7w1SjzmDQ78YxfTVNAkDq3nZ")
	require.NoError(t, err)
	indexed := func(networkID uint32) string {
		return index.Cursor(networkID, index.EVMChain(99001)+"/"+blockchainID.String(), "evm")
	}
	for name, test := range map[string]struct {
		cursor  string
		blocks  uint64
		cChain  bool // the C-Chain does not answer
		refused bool
		open    bool // another chain with this index is open
		missing []string
	}{
		"changed URL":              {cursor: indexed(5), blocks: 9, missing: []string{missing}},
		"refused":                  {cursor: indexed(5), blocks: 9, refused: true, missing: []string{missing}},
		"index of an open chain":   {cursor: indexed(5), blocks: 9, open: true},
		"index of another network": {cursor: indexed(1), blocks: 9},
		"index without a block":    {cursor: indexed(5)},
		"other index":              {cursor: index.Cursor(5, index.PChain, "l1"), blocks: 9},
		"C-Chain":                  {cursor: indexed(5), blocks: 9, cChain: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewMemory()
			var b store.Batch
			b.Move(test.cursor, store.Cursor{}, store.Cursor{Next: test.blocks})
			require.NoError(t, s.Commit(t.Context(), &b))
			c := evmChain{name: "evm node.example", own: true, urls: []string{"http://node.example/rpc"}}
			if test.cChain {
				c = evmChain{name: "evm C"}
			}
			r := &evmIndexes{
				networkID: 5, store: s, slots: evmSlots(t, s), chains: []evmChain{c}, changed: func() error { return nil }, log: slog.New(slog.DiscardHandler),
				waiting: map[string]error{c.name: nil}, refused: make(map[string]error), absent: make(map[string]bool),
			}
			if test.open {
				x := &evmIndexer{cursor: test.cursor}
				r.open = append(r.open, &evmIndex{first: x, newIndexer: func(store.Store) (*evmIndexer, error) { return x, nil }})
			}
			reason := errors.New("no route to host")
			r.wait(c, reason)
			if test.refused {
				r.refuse(c, reason)
			} else {
				e, end := r.serveStored(t.Context(), c, reason)
				end()
				require.Nil(t, e)
			}
			parts, got, err := r.beside(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, test.missing, got)
			require.Equal(t, test.open, len(parts) == 1)
		})
	}
}

func evmSlots(t *testing.T, s store.Store) *index.Slots {
	slots, err := index.OpenSlots(t.Context(), s, index.EVMSlots, evm.Form())
	require.NoError(t, err)
	return slots
}

// TestRebuildWaitsForIdentity opens a rebuild before the node of a chain has answered.
func TestRebuildWaitsForIdentity(t *testing.T) {
	c := evmChain{name: "evm node.example", own: true}
	s := store.NewMemory()
	r := &evmIndexes{networkID: 5, store: s, slots: evmSlots(t, s), chains: []evmChain{c}, waiting: map[string]error{c.name: nil}}
	parts, missing, err := r.beside(t.Context(), r.store)
	require.NoError(t, err)
	require.Empty(t, parts)
	require.Equal(t, []string{"evm node.example: its node has not answered yet"}, missing)
}
