package evm_test

import (
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/chain/evm/icmtest"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// icmBlocks returns blocks with a message to another chain, which is sent twice, and one from there, whose execution
// fails first.
func icmBlocks(t testing.TB) (blocks []*chain.Block, sent, delivered common.Hash) {
	t.Helper()
	encoder, err := icmtest.New()
	require.NoError(t, err)
	other := ids.ID{7}
	out := &chain.ICMMessage{Nonce: *uint256.NewInt(1), Sender: address(1), Recipient: address(2), GasLimit: *uint256.NewInt(9), Data: []byte("out")}
	in := &chain.ICMMessage{
		Nonce: *uint256.NewInt(1), Sender: address(2), Recipient: address(2), Data: []byte("in"),
		Receipts: []chain.ICMReceipt{{Nonce: *uint256.NewInt(1), RewardRedeemer: address(3)}},
	}
	sent, delivered = chain.ICMMessageID(chainID, other, &out.Nonce), chain.ICMMessageID(other, chainID, &in.Nonce)
	fee := func(n uint64) chain.ICMFee { return chain.ICMFee{Token: coin, Amount: *uint256.NewInt(n)} }
	for number, events := range [][]chain.ICMEvent{
		{},
		{{Kind: chain.ICMSent, ID: sent, Other: other, Message: out, Fee: fee(1)}},
		{{Kind: chain.ICMFeeAdded, ID: sent, Fee: fee(2)}},
		{{Kind: chain.ICMSent, ID: sent, Other: other, Message: out, Fee: fee(2)}},
		{{Kind: chain.ICMFeeAdded, ID: sent, Fee: fee(3)}},
		{
			{Kind: chain.ICMDelivered, ID: delivered, Other: other, Message: in, Deliverer: address(3), RewardRedeemer: address(1)},
			{Kind: chain.ICMExecutionFailed, ID: delivered, Other: other, Message: in},
			{Kind: chain.ICMReceiptReturned, ID: sent, Other: other, Fee: fee(3), RewardRedeemer: address(3)},
		},
		{{Kind: chain.ICMExecuted, ID: delivered, Other: other}},
	} {
		tx := chain.Transaction{Hash: common.Hash{1, byte(number)}, From: address(1), To: &chain.Teleporter, GasUsed: uint64(1000 + number), Success: true}
		for i, e := range events {
			to := chainID
			if e.ID == sent {
				to = other
			}
			e.LogIndex = uint32(i)
			l, err := encoder.Log(&e, to)
			require.NoError(t, err)
			tx.Logs = append(tx.Logs, l)
		}
		blocks = append(blocks, &chain.Block{
			Number: uint64(number), Hash: common.Hash{2, byte(number)}, Time: uint64(1_700_000_000 + number), Traced: true, Transactions: []chain.Transaction{tx},
		})
	}
	return blocks, sent, delivered
}

func TestICM(t *testing.T) {
	blocks, sent, delivered := icmBlocks(t)
	engines(t, func(t *testing.T, s store.Store) {
		w := newWorld(t, &past{blocks: blocks}, s)
		for !w.done() {
			w.advance(2)
		}
		// Indexing the blocks again changes nothing.
		want := rows(t, s)
		w.next, w.projection = 0, testProjection()
		w.advance(len(blocks))
		require.Equal(t, want, rows(t, s))

		got, err := w.record.ICMMessages(t.Context(), []common.Hash{delivered, {1}, sent})
		require.NoError(t, err)
		in, none, out := got[0], got[1], got[2]
		require.Equal(t, evm.ICMEvents{}, none)
		at := func(e *evm.ICMEvent) [2]uint64 {
			require.NotNil(t, e)
			require.Equal(t, common.Hash{1, byte(e.Block.Number)}, e.TxHash)
			require.Equal(t, ref(blocks[e.Block.Number]), e.Block)
			return [2]uint64{e.Block.Number, uint64(e.LogIndex)}
		}
		require.Equal(t, [2]uint64{1, 0}, at(out.Sent), "the first time")
		require.EqualValues(t, 1, out.Sent.Fee.Amount.Uint64())
		require.Equal(t, "out", string(out.Sent.Message.Data))
		require.EqualValues(t, 1001, out.Sent.GasUsed)
		require.Equal(t, [2]uint64{4, 0}, at(out.FeeAdded), "the last time")
		require.EqualValues(t, 3, out.FeeAdded.Fee.Amount.Uint64())
		require.Equal(t, [2]uint64{5, 2}, at(out.ReceiptReturned))
		require.Equal(t, address(3), out.ReceiptReturned.RewardRedeemer)
		require.Nil(t, out.Delivered)
		require.Equal(t, [2]uint64{5, 0}, at(in.Delivered))
		require.Equal(t, address(3), in.Delivered.Deliverer)
		require.Equal(t, address(1), in.Delivered.RewardRedeemer)
		require.Len(t, in.Delivered.Message.Receipts, 1)
		require.Equal(t, [2]uint64{5, 0}, at(in.ExecutionFailed))
		require.Equal(t, [2]uint64{6, 0}, at(in.Executed))
		require.Nil(t, in.Sent)

		log, err := w.record.ICMLog(t.Context(), evm.ICMPosition{}, 9)
		require.NoError(t, err)
		require.Equal(t, evm.ICMPosition{}, log.From)
		require.Equal(t, evm.ICMPosition{Number: uint64(len(blocks))}, log.Next)
		type logged struct {
			kind   chain.ICMEventKind
			number uint64
			index  uint32
		}
		wantLog := []logged{
			{chain.ICMSent, 1, 0}, {chain.ICMSent, 3, 0}, {chain.ICMDelivered, 5, 0}, {chain.ICMExecutionFailed, 5, 1},
			{chain.ICMReceiptReturned, 5, 2}, {chain.ICMExecuted, 6, 0},
		}
		var gotLog []logged
		for i := range log.Events {
			e := &log.Events[i]
			at(e)
			require.Equal(t, ids.ID{7}, e.Other)
			gotLog = append(gotLog, logged{e.Kind, e.Block.Number, e.LogIndex})
		}
		require.Equal(t, wantLog, gotLog)
		for i := range wantLog { // one by one
			log, err := w.record.ICMLog(t.Context(), evm.ICMPosition{Number: wantLog[i].number, LogIndex: wantLog[i].index}, 1)
			require.NoError(t, err)
			require.Equal(t, wantLog[i].index, log.Events[0].LogIndex)
			require.Equal(t, evm.ICMPosition{Number: wantLog[i].number, LogIndex: wantLog[i].index + 1}, log.Next)
		}

		one, two, seven := address(1), address(2), ids.ID{7}
		for _, test := range []struct {
			query evm.ICMQuery
			want  []uint64 // blocks
		}{
			{evm.ICMQuery{Limit: 9}, []uint64{5, 3, 1}},
			{evm.ICMQuery{Limit: 2}, []uint64{5, 3}},
			{evm.ICMQuery{Limit: 9, Other: &seven}, []uint64{5, 3, 1}},
			{evm.ICMQuery{Limit: 9, Other: &ids.Empty}, []uint64{}},
			{evm.ICMQuery{Limit: 9, Address: &one}, []uint64{3, 1}},
			{evm.ICMQuery{Limit: 9, Address: &two}, []uint64{5, 3, 1}},
			{evm.ICMQuery{Limit: 9, Latest: &blocks[3].Time}, []uint64{3, 1}},
			{evm.ICMQuery{Limit: 9, After: &evm.ICMPlace{Time: blocks[3].Time, Number: 3}}, []uint64{1}},
		} {
			entries, err := w.record.ICMList(t.Context(), test.query)
			require.NoError(t, err)
			found := []uint64{}
			for _, e := range entries {
				found = append(found, e.Number)
				require.Equal(t, blocks[e.Number].Time, e.Time)
				require.Equal(t, e.Number == 5, e.Delivered)
				require.Equal(t, seven, e.Other)
			}
			require.Equal(t, test.want, found, "%+v", test.query)
		}
	})
}

// TestICMOfOlderIndex continues an index that a version without ICM messages began.
func TestICMOfOlderIndex(t *testing.T) {
	blocks, sent, _ := icmBlocks(t)
	w := newWorld(t, &past{blocks: blocks}, store.NewMemory())
	w.advance(3)
	var batch store.Batch
	for _, family := range []store.Family{store.FamilyEVMICM, store.FamilyEVMICMList} {
		for one, err := range store.Rows(t.Context(), w.store, family) {
			require.NoError(t, err)
			batch.Delete(family, one.PK)
		}
	}
	require.NoError(t, w.store.Commit(t.Context(), &batch))
	w.advance(len(blocks))
	_, err := w.record.ICMMessages(t.Context(), []common.Hash{sent})
	require.ErrorIs(t, err, evm.ErrNoICM)
	_, err = w.record.ICMList(t.Context(), evm.ICMQuery{Limit: 1})
	require.ErrorIs(t, err, evm.ErrNoICM)
	_, err = w.record.Latest(t.Context(), evm.LatestQuery{Limit: 1})
	require.NoError(t, err)
}

// TestICMLogOfOlderIndex continues an index that a version without the log began.
func TestICMLogOfOlderIndex(t *testing.T) {
	blocks, _, _ := icmBlocks(t)
	w := newWorld(t, &past{blocks: blocks}, store.NewMemory())
	w.advance(3)
	var batch store.Batch
	for one, err := range store.Rows(t.Context(), w.store, store.FamilyEVMICMLog) {
		require.NoError(t, err)
		batch.Delete(store.FamilyEVMICMLog, one.PK)
	}
	require.NoError(t, w.store.Commit(t.Context(), &batch))
	log, err := w.record.ICMLog(t.Context(), evm.ICMPosition{}, 9)
	require.NoError(t, err)
	require.Equal(t, evm.ICMPosition{Number: 3}, log.From)
	w.projection = testProjection() // the process restarts
	w.advance(2)
	w.projection = testProjection()
	w.advance(len(blocks))
	log, err = w.record.ICMLog(t.Context(), evm.ICMPosition{}, 9)
	require.NoError(t, err)
	require.Equal(t, evm.ICMPosition{Number: 3}, log.From)
	require.Len(t, log.Events, 5, "all but those of the first three blocks")
}

func TestICMDamage(t *testing.T) {
	blocks, sent, delivered := icmBlocks(t)
	for family, ask := range map[store.Family]func(r *evm.Index) error{
		store.FamilyEVMICM: func(r *evm.Index) error {
			_, err := r.ICMMessages(t.Context(), []common.Hash{sent, delivered})
			return err
		},
		store.FamilyEVMICMList: func(r *evm.Index) error {
			_, err := r.ICMList(t.Context(), evm.ICMQuery{Limit: 9})
			return err
		},
		store.FamilyEVMICMLog: func(r *evm.Index) error {
			_, err := r.ICMLog(t.Context(), evm.ICMPosition{}, 9)
			return err
		},
	} {
		for what, spoil := range map[string]func(v []byte) []byte{
			"short":          func(v []byte) []byte { return v[:len(v)-1] },
			"long":           func(v []byte) []byte { return append(v, 0xff, 0xff) },
			"empty":          func([]byte) []byte { return nil },
			"of version 200": func(v []byte) []byte { return append([]byte{200}, v[1:]...) },
		} {
			w := newWorld(t, &past{blocks: blocks}, store.NewMemory())
			w.advance(len(blocks))
			require.NoError(t, ask(w.record), family)
			var batch store.Batch
			for one, err := range store.Rows(t.Context(), w.store, family) {
				require.NoError(t, err)
				batch.Put(family, one.PK, spoil(one.V))
			}
			require.NoError(t, w.store.Commit(t.Context(), &batch))
			require.ErrorIs(t, ask(w.record), store.ErrCorrupt, "%s, %s", family, what)
		}
	}
}
