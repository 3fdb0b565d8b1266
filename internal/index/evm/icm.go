package evm

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// ICMEvent is an indexed event of an ICM message.
type ICMEvent struct {
	Block  BlockRef
	TxHash common.Hash
	// GasUsed is the gas that the transaction used.
	GasUsed uint64
	// WarpID is the ID of the Warp message that carries a sent message; the zero ID if it is not known.
	WarpID ids.ID
	evm.ICMEvent
}

// ICMEvents holds the events of a message on one chain; nil where there is none.
type ICMEvents struct {
	// Sent is the first event of that kind, FeeAdded the last one. The others happen once.
	Sent, FeeAdded, ReceiptReturned      *ICMEvent
	Delivered, ExecutionFailed, Executed *ICMEvent
}

// ICMPlace is the place of an event on a chain. Places are ordered by time, then by block and log.
type ICMPlace struct {
	// Time is the block's, in Unix seconds.
	Time, Number uint64
	LogIndex     uint32
}

// ICMEntry is an entry of a list of messages: an event of kind ICMSent or ICMDelivered.
type ICMEntry struct {
	ICMPlace
	ID common.Hash
	// Delivered distinguishes the two kinds.
	Delivered bool
	// Other is the chain at the other end.
	Other             ids.ID
	Sender, Recipient common.Address
}

// ICMQuery selects messages that a chain sent or received, newest first.
type ICMQuery struct {
	// Address, if not nil, selects messages with this sender or recipient.
	Address *common.Address
	// Other, if not nil and Address is nil, selects messages to or from a chain.
	Other *ids.ID
	// Latest, if not nil, is the greatest time, in Unix seconds.
	Latest *uint64
	// After, if not nil, is the place after which the page begins.
	After *ICMPlace
	// Limit is the maximum length of the page, 1 to 10,000.
	Limit int
}

// Kinds of rows of FamilyEVMICM, in the order of their keys. At most one row of each kind but the last belongs to a
// message. The row of a delivery also says how the execution in the same transaction ended.
const (
	icmFeeRow byte = iota + 1
	icmReceiptRow
	icmDeliveredRow
	icmFailedRow
	icmExecutedRow
	icmSentRow // followed by the place, as a message may be sent again
)

// icmRows is the number of rows to read of a message: those that occur once, and the first one of the last kind.
const icmRows = int(icmSentRow)

// Flags of the row of a delivery.
const (
	icmFailed = 1 << iota
	icmExecuted
)

// Kinds of lists in FamilyEVMICMList.
const (
	icmAll byte = iota + 2 // 0 and 1 would be escaped in a partition
	icmOther
	icmAddress
)

var icmRowKinds = map[evm.ICMEventKind]byte{
	evm.ICMSent: icmSentRow, evm.ICMFeeAdded: icmFeeRow, evm.ICMReceiptReturned: icmReceiptRow,
	evm.ICMDelivered: icmDeliveredRow, evm.ICMExecutionFailed: icmFailedRow, evm.ICMExecuted: icmExecutedRow,
}

// icm indexes the events of ICM messages in the logs of a transaction.
func (a *application) icm(tx *evm.Transaction) {
	events := evm.ICMEvents(tx.Logs, a.blockchainID)
	if len(events) == 0 {
		return
	}
	a.icmLog(tx, events)
	var signed map[common.Hash]ids.ID
	ended := make(map[common.Hash]byte) // how messages delivered in this transaction were executed
	for i := range events {
		e := &events[i]
		switch flags, here := ended[e.ID]; {
		case e.Kind == evm.ICMDelivered:
			ended[e.ID] = 0
		case here && e.Kind == evm.ICMExecutionFailed:
			ended[e.ID] = flags | icmFailed
		case here && e.Kind == evm.ICMExecuted:
			ended[e.ID] = flags | icmExecuted
		}
	}
	for i := range events {
		e := &events[i]
		flags, here := ended[e.ID]
		if here && (e.Kind == evm.ICMExecutionFailed || e.Kind == evm.ICMExecuted) {
			continue
		}
		k := []byte{icmRowKinds[e.Kind]}
		if e.Kind == evm.ICMSent {
			k = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(k, a.block.Number), e.LogIndex)
		}
		v := a.icmEvent(tx, e, flags)
		if e.Kind == evm.ICMSent {
			if signed == nil {
				signed = evm.ICMWarpIDs(tx.Logs, a.blockchainID)
			}
			if id, ok := signed[e.ID]; ok {
				v = append(v, id[:]...)
			}
		}
		a.batch.Put(store.FamilyEVMICM, store.PK{P: a.in(e.ID[:]), K: k}, a.kept(v))
		if e.Message != nil {
			a.icmLists(e)
		}
	}
}

// icmEvent returns the value of an event's row.
func (a *application) icmEvent(tx *evm.Transaction, e *evm.ICMEvent, flags byte) []byte {
	v := append(binary.AppendUvarint(a.value(), a.block.Number), a.ref...)
	v = append(v, tx.Hash[:]...)
	v = binary.AppendUvarint(binary.AppendUvarint(v, tx.GasUsed), uint64(e.LogIndex))
	v = append(v, e.Other[:]...)
	switch e.Kind {
	case evm.ICMSent, evm.ICMFeeAdded, evm.ICMReceiptReturned:
		v = appendUint256(append(v, e.Fee.Token[:]...), &e.Fee.Amount)
	}
	switch e.Kind {
	case evm.ICMReceiptReturned:
		v = append(v, e.RewardRedeemer[:]...)
	case evm.ICMDelivered:
		v = append(append(append(v, e.Deliverer[:]...), e.RewardRedeemer[:]...), flags)
	}
	if e.Message != nil {
		v = appendICMMessage(v, e.Message)
	}
	return v
}

func appendICMMessage(v []byte, m *evm.ICMMessage) []byte {
	v = append(append(appendUint256(v, &m.Nonce), m.Sender[:]...), m.Recipient[:]...)
	v = appendUint256(v, &m.GasLimit)
	v = binary.AppendUvarint(v, uint64(len(m.Receipts)))
	for i := range m.Receipts {
		v = append(appendUint256(v, &m.Receipts[i].Nonce), m.Receipts[i].RewardRedeemer[:]...)
	}
	return appendBytes(v, m.Data)
}

// icmLists adds a sent or delivered message to the lists of the chain, of the other chain, and of both addresses.
func (a *application) icmLists(e *evm.ICMEvent) {
	k := ICMPlace{a.block.Time, a.block.Number, e.LogIndex}.key()
	v := a.value()
	if e.Kind == evm.ICMDelivered {
		v = append(v, 1)
	} else {
		v = append(v, 0)
	}
	v = append(append(v, e.ID[:]...), e.Other[:]...)
	v = a.kept(append(append(v, e.Message.Sender[:]...), e.Message.Recipient[:]...))
	lists := [][]byte{
		a.in([]byte{icmAll}), a.in([]byte{icmOther}, e.Other[:]), a.in([]byte{icmAddress}, e.Message.Sender[:]),
	}
	if e.Message.Recipient != e.Message.Sender {
		lists = append(lists, a.in([]byte{icmAddress}, e.Message.Recipient[:]))
	}
	for _, p := range lists {
		a.batch.Add(store.FamilyEVMICMList, store.PK{P: p, K: k}, v)
	}
}

// icmPlaceSize is the size of a place as a key.
const icmPlaceSize = 8 + 8 + 4

// key returns the place as a key, which sorts the newest first.
func (p ICMPlace) key() []byte {
	k := append(newestKey(p.Time), newestKey(p.Number)...)
	return binary.BigEndian.AppendUint32(k, ^p.LogIndex)
}

// ICMPlace returns the place of the event.
func (e *ICMEvent) ICMPlace() ICMPlace { return ICMPlace{e.Block.Time, e.Block.Number, e.LogIndex} }

// icmView returns a snapshot that has the messages of all indexed blocks, or ErrNoICM. A row says so that the first block
// wrote.
func (r *Index) icmView(ctx context.Context) (*state, error) {
	s, err := r.view(ctx)
	if err != nil {
		return nil, err
	}
	marks, err := s.Get(ctx, store.FamilyEVMICM, []store.PK{s.chain.headRow()})
	switch {
	case err != nil:
		err = fmt.Errorf("reading whether ICM messages are indexed: %w", err)
	case marks[0] == nil:
		err = fmt.Errorf("%w: chain %s", ErrNoICM, r.chainID)
	default:
		return s, nil
	}
	s.close()
	return nil, err
}

// ICMList lists messages that the chain sent or received. It returns fewer than the limit only at the end. A message
// that was sent again has several entries. It returns ErrNoICM if the index lacks messages.
func (r *Index) ICMList(ctx context.Context, q ICMQuery) ([]ICMEntry, error) {
	s, err := r.icmView(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	p := s.chain.partition([]byte{icmAll})
	switch {
	case q.Address != nil:
		p = s.chain.partition([]byte{icmAddress}, q.Address[:])
	case q.Other != nil:
		p = s.chain.partition([]byte{icmOther}, q.Other[:])
	}
	var lo []byte
	if q.Latest != nil {
		lo = newestKey(*q.Latest)
	}
	if q.After != nil {
		if after := store.After(q.After.key()); string(after) > string(lo) {
			lo = after
		}
	}
	rows, err := s.Scan(ctx, store.FamilyEVMICMList, p, lo, nil, store.Ascending, limitOf(q.Limit))
	if err != nil {
		return nil, fmt.Errorf("reading the list of ICM messages: %w", err)
	}
	entries := make([]ICMEntry, len(rows))
	for i, row := range rows {
		if len(row.K) != icmPlaceSize {
			return nil, fmt.Errorf("%w: ICM message at %x", store.ErrCorrupt, row.K)
		}
		v := read(row.V)
		entries[i] = ICMEntry{
			ICMPlace: ICMPlace{
				^binary.BigEndian.Uint64(row.K), ^binary.BigEndian.Uint64(row.K[8:]), ^binary.BigEndian.Uint32(row.K[16:]),
			},
			Delivered: v.Byte() != 0, ID: v.hash(), Other: ids.ID(v.hash()), Sender: v.address(), Recipient: v.address(),
		}
		if err := v.End(); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// ICMMessages returns the events of messages on the chain, in the order of the IDs. It returns ErrNoICM if the index
// lacks messages.
func (r *Index) ICMMessages(ctx context.Context, messageIDs []common.Hash) ([]ICMEvents, error) {
	s, err := r.icmView(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	all := make([]ICMEvents, len(messageIDs))
	for i := range messageIDs {
		rows, err := s.Scan(ctx, store.FamilyEVMICM, s.chain.partition(messageIDs[i][:]), nil, nil, store.Ascending, icmRows)
		if err != nil {
			return nil, fmt.Errorf("reading ICM message %s: %w", messageIDs[i], err)
		}
		for _, row := range rows {
			if err := all[i].add(messageIDs[i], row); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// add decodes a row of a message.
func (m *ICMEvents) add(id common.Hash, row store.Row) error {
	if len(row.K) == 0 {
		return fmt.Errorf("%w: event of ICM message %s without a key", store.ErrCorrupt, id)
	}
	r := read(row.V)
	e := &ICMEvent{ICMEvent: evm.ICMEvent{ID: id}}
	e.Block = r.ref(r.Number())
	e.TxHash, e.GasUsed, e.LogIndex, e.Other = r.hash(), r.Number(), r.Uint32(), ids.ID(r.hash())
	var flags byte
	switch kind := row.K[0]; kind {
	case icmSentRow:
		e.Kind, e.Fee, e.Message = evm.ICMSent, r.icmFee(), r.icmMessage()
		if r.Len() == ids.IDLen { // rows of earlier versions lack it
			e.WarpID = ids.ID(r.hash())
		}
		if m.Sent == nil { // rows are in the order of places
			m.Sent = e
		}
	case icmFeeRow:
		e.Kind, e.Fee, m.FeeAdded = evm.ICMFeeAdded, r.icmFee(), e
	case icmReceiptRow:
		e.Kind, e.Fee, e.RewardRedeemer, m.ReceiptReturned = evm.ICMReceiptReturned, r.icmFee(), r.address(), e
	case icmDeliveredRow:
		e.Kind, e.Deliverer, e.RewardRedeemer, m.Delivered = evm.ICMDelivered, r.address(), r.address(), e
		flags = r.Byte()
		e.Message = r.icmMessage()
	case icmFailedRow:
		e.Kind, m.ExecutionFailed = evm.ICMExecutionFailed, e
	case icmExecutedRow:
		e.Kind, m.Executed = evm.ICMExecuted, e
	default:
		return fmt.Errorf("%w: event %d of ICM message %s", store.ErrCorrupt, kind, id)
	}
	if flags&icmFailed != 0 {
		m.ExecutionFailed = e.executed(evm.ICMExecutionFailed)
	}
	if flags&icmExecuted != 0 {
		m.Executed = e.executed(evm.ICMExecuted)
	}
	return r.End()
}

// executed returns the event of an execution in the transaction of the delivery, whose log index it has.
func (e *ICMEvent) executed(kind evm.ICMEventKind) *ICMEvent {
	return &ICMEvent{
		Block: e.Block, TxHash: e.TxHash, GasUsed: e.GasUsed,
		ICMEvent: evm.ICMEvent{Kind: kind, ID: e.ID, LogIndex: e.LogIndex, Other: e.Other},
	}
}

func (r *reader) icmFee() evm.ICMFee { return evm.ICMFee{Token: r.address(), Amount: r.uint256()} }

func (r *reader) icmMessage() *evm.ICMMessage {
	m := &evm.ICMMessage{Nonce: r.uint256(), Sender: r.address(), Recipient: r.address(), GasLimit: r.uint256()}
	for n := r.Number(); n > 0 && r.Len() > 0; n-- {
		m.Receipts = append(m.Receipts, evm.ICMReceipt{Nonce: r.uint256(), RewardRedeemer: r.address()})
	}
	m.Data = r.Bytes()
	return m
}
