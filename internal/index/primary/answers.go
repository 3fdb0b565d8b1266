package primary

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/pchain"
	"quorate/internal/store"
)

// answers asks a node what P-Chain blocks do not say, once: what it answered is kept
// beside the containers, so that blocks are understood again without it. It serves one
// pipeline.
type answers struct {
	node      pchain.Node
	reader    store.Reader
	networkID uint32
	// fresh are answers that are not in a batch yet.
	fresh []store.Record
	// seen are staking transactions of blocks, for which no node has to be asked.
	seen remembered
	// recording says that what was asked last was not kept yet, as is the case unless
	// the record is made again.
	recording bool
}

// note remembers the transactions of a block whose stakes will end.
func (a *answers) note(b *pchain.Block) {
	for _, tx := range b.Txs {
		a.noteTx(tx)
	}
	if b.Proposal != nil {
		a.noteTx(b.Proposal)
	}
}

func (a *answers) noteTx(tx *txs.Tx) {
	if _, ok := tx.Unsigned.(txs.PermissionlessStaker); ok {
		a.seen.add(tx.ID(), tx.Bytes())
	}
}

// rememberedBytes bounds what is remembered of staking transactions: some 30,000.
const rememberedBytes = 16 << 20

// remembered has the bytes of transactions, the last ones that were added.
type remembered struct {
	txs   map[ids.ID][]byte
	order []ids.ID // as they were added
	size  int
}

func (r *remembered) add(id ids.ID, b []byte) {
	if _, ok := r.txs[id]; ok {
		return
	}
	if r.txs == nil {
		r.txs = make(map[ids.ID][]byte)
	}
	const each = 2*ids.IDLen + 64 // besides the bytes
	r.txs[id], r.order, r.size = b, append(r.order, id), r.size+len(b)+each
	for r.size > rememberedBytes {
		oldest := r.order[0]
		r.order = r.order[1:]
		r.size -= len(r.txs[oldest]) + each
		delete(r.txs, oldest)
	}
}

// What was asked, in keys.
const (
	askedReward = 'r'
	askedTx     = 't'
)

func (a *answers) key(asked byte, id ids.ID) store.PK {
	p := append(binary.BigEndian.AppendUint32(nil, a.networkID), asked)
	return store.PK{P: append(p, id[:]...)}
}

// take moves what is new into a batch.
func (a *answers) take(batch *store.Batch) {
	for _, one := range a.fresh {
		batch.Put(store.FamilyAnswer, one.PK, one.V)
	}
	a.fresh = nil
}

func (a *answers) look(ctx context.Context, pk store.PK) ([]byte, error) {
	values, err := a.reader.Get(ctx, store.FamilyAnswer, []store.PK{pk})
	if err != nil {
		return nil, fmt.Errorf("reading what a node answered: %w", err)
	}
	return values[0], nil
}

// RewardUTXOs implements pchain.Node.
func (a *answers) RewardUTXOs(ctx context.Context, txID ids.ID, height uint64) ([][]byte, error) {
	pk := a.key(askedReward, txID)
	v, err := a.look(ctx, pk)
	if err != nil {
		return nil, err
	}
	if a.recording = v == nil; !a.recording {
		return parseList(v)
	}
	utxos, err := a.node.RewardUTXOs(ctx, txID, height)
	if err != nil {
		return nil, err
	}
	a.fresh = append(a.fresh, store.Record{PK: pk, V: appendList(utxos)})
	return utxos, nil
}

// Tx implements pchain.Node.
func (a *answers) Tx(ctx context.Context, txID ids.ID) ([]byte, error) {
	pk := a.key(askedTx, txID)
	tx, ok := a.seen.txs[txID]
	if !ok || !a.recording {
		v, err := a.look(ctx, pk)
		if err != nil || v != nil {
			return v, err
		}
	}
	if !ok {
		var err error
		if tx, err = a.node.Tx(ctx, txID); err != nil {
			return nil, err
		}
	}
	// Kept even if it was seen: whoever makes the record again may begin later.
	a.fresh = append(a.fresh, store.Record{PK: pk, V: tx})
	return tx, nil
}

// appendList writes how many there are, and each after its length.
func appendList(all [][]byte) []byte {
	b := binary.AppendUvarint(nil, uint64(len(all)))
	for _, one := range all {
		b = append(binary.AppendUvarint(b, uint64(len(one))), one...)
	}
	return b
}

func parseList(b []byte) (all [][]byte, err error) {
	bad := fmt.Errorf("%w: an answer of a node is cut short", store.ErrCorrupt)
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return nil, bad
	}
	b = b[n:]
	for range count {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, bad
		}
		all = append(all, b[n:][:size])
		b = b[n:][size:]
	}
	if len(b) > 0 {
		return nil, bad
	}
	return all, nil
}
