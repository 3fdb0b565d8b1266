package evm

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// ICMPosition is a position in the log of a chain: before the event at a height and log index, or where it would be.
type ICMPosition struct {
	Number   uint64
	LogIndex uint32
}

// Compare returns -1 if p comes before q, 1 if it comes after it, and otherwise 0.
func (p ICMPosition) Compare(q ICMPosition) int {
	return cmp.Or(cmp.Compare(p.Number, q.Number), cmp.Compare(p.LogIndex, q.LogIndex))
}

// ICMLog is a part of the log of a chain, which has its events of ICM messages except those of kind ICMFeeAdded.
type ICMLog struct {
	// From is the position with which the log begins. An index that an earlier version began has a log from the first
	// block that this version indexed.
	From ICMPosition
	// Events are in order. Their Message, Fee, Deliverer and RewardRedeemer are not set.
	Events []ICMEvent
	// Next is the position after the events: that of the next block, or of the next event if there are more.
	Next ICMPosition
}

// beginICMLog writes with which block the log of the chain begins.
func (t *Projection) beginICMLog(ctx context.Context, r store.Reader, batch *store.Batch) error {
	if t.logging {
		return nil
	}
	if t.head.tip.Number != t.head.first {
		begins, err := r.Get(ctx, store.FamilyEVMICMLog, []store.PK{t.chain.headRow()})
		if err != nil {
			return fmt.Errorf("reading where the log of ICM messages begins: %w", err)
		}
		if begins[0] != nil {
			t.logging = true
			return nil
		}
	}
	batch.Put(store.FamilyEVMICMLog, t.chain.headRow(), binary.AppendUvarint([]byte{version}, t.head.tip.Number))
	t.logging = true
	return nil
}

// icmLog adds events of a transaction to the log.
func (a *application) icmLog(tx *evm.Transaction, events []evm.ICMEvent) {
	for i := range events {
		e := &events[i]
		if e.Kind == evm.ICMFeeAdded {
			continue
		}
		v := append(append(a.value(), icmRowKinds[e.Kind]), e.ID[:]...)
		v = append(append(append(v, e.Other[:]...), a.ref...), tx.Hash[:]...)
		a.batch.Put(store.FamilyEVMICMLog, store.PK{P: a.in(), K: ICMPosition{a.block.Number, e.LogIndex}.key()}, a.kept(v))
	}
}

// icmPositionSize is the size of a position as a key.
const icmPositionSize = 8 + 4

func (p ICMPosition) key() []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, p.Number), p.LogIndex)
}

// ICMLog returns at most limit events of the chain's log from a position on, without waiting. It returns ErrNoICM if the
// index lacks messages.
func (r *Index) ICMLog(ctx context.Context, from ICMPosition, limit int) (ICMLog, error) {
	s, err := r.icmView(ctx)
	if err != nil {
		return ICMLog{}, err
	}
	defer s.close()
	end := ICMPosition{Number: s.head.tip.Number + 1}
	log := ICMLog{From: end, Next: from}
	begins, err := s.Get(ctx, store.FamilyEVMICMLog, []store.PK{s.chain.headRow()})
	if err != nil {
		return ICMLog{}, fmt.Errorf("reading where the log of ICM messages begins: %w", err)
	}
	if begins[0] != nil {
		v := read(begins[0])
		log.From = ICMPosition{Number: v.Number()}
		if err := v.End(); err != nil {
			return ICMLog{}, err
		}
	}
	if from.Compare(end) >= 0 {
		return log, nil
	}
	limit = limitOf(limit)
	// The key of the row that says where the log begins is empty.
	rows, err := s.Scan(ctx, store.FamilyEVMICMLog, s.chain.partition(), from.key(), nil, store.Ascending, limit)
	if err != nil {
		return ICMLog{}, fmt.Errorf("reading the log of ICM messages: %w", err)
	}
	log.Events = make([]ICMEvent, len(rows))
	for i, row := range rows {
		if err := log.Events[i].logged(row); err != nil {
			return ICMLog{}, err
		}
	}
	log.Next = end
	if len(rows) == limit {
		last := &log.Events[limit-1]
		log.Next = ICMPosition{last.Block.Number, last.LogIndex + 1}
	}
	return log, nil
}

// logged decodes a row of the log.
func (e *ICMEvent) logged(row store.Row) error {
	if len(row.K) != icmPositionSize {
		return fmt.Errorf("%w: ICM event at %x", store.ErrCorrupt, row.K)
	}
	r := read(row.V)
	kind := r.Byte()
	e.LogIndex = binary.BigEndian.Uint32(row.K[8:])
	e.ID, e.Other = r.hash(), ids.ID(r.hash())
	e.Block = r.ref(binary.BigEndian.Uint64(row.K))
	e.TxHash = r.hash()
	if err := r.End(); err != nil {
		return err
	}
	for k, of := range icmRowKinds {
		if of == kind {
			e.Kind = k
			return nil
		}
	}
	return fmt.Errorf("%w: event %d of ICM message %s", store.ErrCorrupt, kind, e.ID)
}
