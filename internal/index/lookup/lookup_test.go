package lookup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	avmtxs "github.com/ava-labs/avalanchego/vms/avm/txs"
	"github.com/ava-labs/avalanchego/vms/components/avax"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/envelope"
	"quorate/internal/chain/pchain"
	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/lookup"
	"quorate/internal/store"
)

const network = 7

// fees is the asset that is not listed.
var fees = ids.ID{'a'}

func asset(n byte) avax.Asset { return avax.Asset{ID: ids.ID{'t', n}} }

func pTx(n byte) *txs.Tx {
	return &txs.Tx{TxID: ids.ID{'t', n}}
}

func TestEverythingIsFoundWhereItIs(t *testing.T) {
	s := store.NewMemory()
	defer func() { _ = s.Close() }()
	p, x := lookup.PChain(network), lookup.XChain(network, fees)
	token, node := asset(1), ids.NodeID{5}
	xTx := &avmtxs.Tx{TxID: ids.ID{'x'}, Unsigned: &avmtxs.BaseTx{BaseTx: avax.BaseTx{
		Ins:  []*avax.TransferableInput{{Asset: avax.Asset{ID: fees}}, {Asset: token}},
		Outs: []*avax.TransferableOutput{{Asset: token}, {Asset: asset(2)}},
	}}}
	blocks := []*pchain.Block{
		{Height: 0, ID: ids.ID{'b', 0}},
		{Height: 1, ID: ids.ID{'b', 1}, Txs: []*txs.Tx{pTx(0), pTx(1)}, Envelope: &envelope.Envelope{Proposer: node}},
		{Height: 2, ID: ids.ID{'b', 2}, Txs: []*txs.Tx{pTx(2)}, Proposal: pTx(3)},
		// The same transaction is proposed again.
		{Height: 1 << 40, ID: ids.ID{'b', 3}, Proposal: pTx(3)},
	}
	var batch store.Batch
	for _, b := range blocks {
		require.NoError(t, p.Apply(t.Context(), s, b, &batch))
	}
	early := &xchain.Block{Place: 0, Early: true, ID: ids.ID{'f'}}
	first := &xchain.Block{Place: 5, Height: 0, ID: ids.ID{'f'}, Txs: []*avmtxs.Tx{xTx}}
	require.NoError(t, x.Apply(t.Context(), s, first, &batch))
	require.NoError(t, x.Apply(t.Context(), s, early, &batch))
	require.NoError(t, s.Commit(t.Context(), &batch))

	on := lookup.New(s, network, index.PChain)
	for i, want := range []lookup.Place{{1, 0}, {1, 1}, {2, 0}, {1 << 40, 0}} {
		got, err := on.Tx(t.Context(), pTx(byte(i)).ID())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, b := range blocks {
		got, err := on.Block(t.Context(), b.ID)
		require.NoError(t, err)
		require.Equal(t, b.Height, got)
		require.NoError(t, p.Check(t.Context(), s, b, func(what string) { t.Errorf("got %s", what) }))
	}
	onX := lookup.New(s, network, index.XChain)
	height, err := onX.Block(t.Context(), first.ID)
	require.NoError(t, err)
	require.EqualValues(t, 5, height, "a vertex is not found as a block")
	require.NoError(t, x.Check(t.Context(), s, first, func(what string) { t.Errorf("got %s", what) }))

	heights, err := on.Proposed(t.Context(), node, 0, 9, 9)
	require.NoError(t, err)
	require.Equal(t, []uint64{1}, heights)
	for id, want := range map[ids.ID][]lookup.Place{asset(1).ID: {{5, 0}}, asset(2).ID: {{5, 0}}, fees: {}, {1}: {}} {
		got, err := onX.OfAsset(t.Context(), id, lookup.Place{}, lookup.Place{Height: 9}, store.Ascending, 9)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, other := range []*lookup.Chain{onX, lookup.New(s, network+1, index.PChain)} {
		_, err = other.Tx(t.Context(), pTx(0).ID())
		require.ErrorIs(t, err, lookup.ErrUnknown)
		_, err = other.Block(t.Context(), blocks[0].ID)
		require.ErrorIs(t, err, lookup.ErrUnknown)
	}

	// Missing and damaged rows are reported.
	var findings []string
	missing := &pchain.Block{Height: 9, ID: ids.ID{'m'}, Txs: []*txs.Tx{pTx(9), pTx(0)}, Envelope: &envelope.Envelope{Proposer: node}}
	require.NoError(t, p.Check(t.Context(), s, missing, func(what string) { findings = append(findings, what) }))
	require.Len(t, findings, 3, "the block may have come without its envelope")
	xTx.Unsigned.(*avmtxs.BaseTx).Outs[0].Asset.ID = ids.ID{'u'}
	require.NoError(t, x.Check(t.Context(), s, first, func(what string) { findings = append(findings, what) }))
	require.Len(t, findings, 4)
	require.Contains(t, findings[3], "is not in the list of asset "+ids.ID{'u'}.String())
	var damage store.Batch
	for _, family := range lookup.Form().Families {
		for row, err := range store.Rows(t.Context(), s, family) {
			require.NoError(t, err)
			damage.Put(family, row.PK, []byte{0x80})
		}
	}
	require.NoError(t, s.Commit(t.Context(), &damage))
	_, err = on.Tx(t.Context(), pTx(0).ID())
	require.ErrorIs(t, err, store.ErrCorrupt)
	_, err = on.Block(t.Context(), blocks[0].ID)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorIs(t, p.Check(t.Context(), s, blocks[1], func(string) {}), store.ErrCorrupt)
}
