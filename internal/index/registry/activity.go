package registry

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Activity is what a block changed about validators.
type Activity struct {
	Height uint64
	Time   time.Time
	// Before and Accrued are Head.Accrued before and after the block.
	Before, Accrued uint64
	Events          []Event
}

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	// Staked is a new validation: a staking transaction, or the registration of an L1 validator.
	Staked EventKind = iota + 1
	// Delegated is a new delegation.
	Delegated
	// Paid is the payment of rewards at the end of a staking period.
	Paid
	// BalanceIncreased, Disabled and Retired concern L1 validators: a larger balance, a validator that becomes inactive
	// because of a transaction or because its balance is used up, and one that is removed.
	BalanceIncreased
	Disabled
	Retired
)

// Event is a change of one validator.
type Event struct {
	Kind EventKind
	// TxID is the transaction, empty if the time caused the event.
	TxID     ids.ID
	SubnetID ids.ID
	NodeID   ids.NodeID
	// ValidationID is set for L1 validators.
	ValidationID ids.ID
	// StakingTxID is the validation or delegation that a Paid event ends or renews, and Delegator its kind.
	StakingTxID ids.ID
	Delegator   bool
	// Weight, Start and End are those of the validation or delegation, in a Paid event those of the period that ended. L1
	// validators have no period.
	Weight     uint64
	Start, End time.Time
	// Amount is the balance that an L1 validator begins with, that was added, or that was returned, in nAVAX.
	Amount uint64
	// Payments are the rewards of a Paid event.
	Payments []Payment
}

// Payment is a reward that was paid.
type Payment struct {
	Role      ledger.Role
	AssetID   ids.ID
	Amount    uint64
	Addresses []ids.ShortID
}

// activity collects the events of a block.
type activity struct {
	events []Event
	// funded are L1 validators that got a balance in the block. disabled are those that a transaction disabled.
	funded, disabled map[ids.ID]bool
}

func newActivity() activity {
	return activity{funded: make(map[ids.ID]bool), disabled: make(map[ids.ID]bool)}
}

// l1Event notes an event of an L1 validator.
func (a *activity) l1Event(kind EventKind, txID ids.ID, v *L1Validator, amount uint64) {
	a.events = append(a.events, Event{
		Kind: kind, TxID: txID, SubnetID: v.SubnetID, NodeID: v.NodeID, ValidationID: v.ValidationID, Weight: v.Weight, Amount: amount,
	})
}

// registered notes a new L1 validator.
func (a *activity) registered(v *L1Validator, balance uint64) {
	a.l1Event(Staked, v.TxID, v, balance)
	a.funded[v.ValidationID] = balance > 0
}

// balance notes a transaction that increases or ends the balance of an L1 validator.
func (b *application) balance(tx *txs.Tx, refund uint64) error {
	switch u := tx.Unsigned.(type) {
	case *txs.IncreaseL1ValidatorBalanceTx:
		v, err := b.touch(u.ValidationID)
		if err != nil {
			return err
		}
		b.l1Event(BalanceIncreased, tx.ID(), v, u.Balance)
		b.funded[v.ValidationID] = true
	case *txs.DisableL1ValidatorTx:
		v, err := b.touch(u.ValidationID)
		if err != nil {
			return err
		}
		if v.Ends != 0 || b.funded[v.ValidationID] { // else the validator is inactive already
			b.l1Event(Disabled, tx.ID(), v, refund)
			b.disabled[v.ValidationID] = true
		}
	}
	return nil
}

// staked notes the new stakers and the payments of a block. changes are those of the block.
func (b *application) staked(changes []pchain.StakerChange) error {
	changed := make(map[ids.ID]*pchain.StakerChange, len(changes))
	for i := range changes {
		changed[changes[i].TxID] = &changes[i]
	}
	for i := range b.block.Txs {
		tx := &b.block.Txs[i]
		if s := tx.Staker; s != nil && !tx.Aborted {
			kind := Staked
			if s.Delegator {
				kind = Delegated
			}
			b.events = append(b.events, Event{
				Kind: kind, TxID: tx.ID, SubnetID: s.SubnetID, NodeID: s.NodeID, StakingTxID: tx.ID, Delegator: s.Delegator,
				Weight: s.Weight, Start: s.Start, End: s.End,
			})
		}
		if tx.Settled == nil || len(tx.Made) == 0 {
			continue
		}
		c := changed[tx.Settled.StakingTxID]
		if c == nil {
			return fmt.Errorf("%w: the stake %s of reward %s", ErrMissing, tx.Settled.StakingTxID, tx.ID)
		}
		paid := Event{
			Kind: Paid, TxID: tx.ID, SubnetID: c.SubnetID, NodeID: c.NodeID, StakingTxID: c.TxID, Delegator: c.Delegator,
			Weight: tx.Settled.Weight, Start: tx.Settled.Start, End: tx.Settled.End,
		}
		for j := range tx.Made {
			out := &tx.Made[j]
			paid.Payments = append(paid.Payments, Payment{Role: out.Role, AssetID: out.AssetID, Amount: out.Amount, Addresses: out.Addresses})
		}
		b.events = append(b.events, paid)
	}
	return nil
}

// heightsTogether is the number of heights whose activity shares a partition.
const heightsTogether = 1 << 16

// activityKey is the row of a block's activity.
func activityKey(networkID uint32, height uint64) store.PK {
	return store.PK{P: row.Network(networkID, []byte("h"), row.Uint64(height/heightsTogether)), K: row.Uint64(height)}
}

// endsPartition lists the values of L1Validator.Ends by the height of the block that changed them.
func endsPartition(networkID uint32, validationID ids.ID) []byte {
	return row.Network(networkID, []byte("v"), validationID[:])
}

// writeActivity writes the activity of the block, unless nothing happened. before is Head.Accrued before the block.
func (b *application) writeActivity(before uint64) {
	accrued := b.state.AccruedFees().Accrued
	if len(b.events) == 0 && accrued == before {
		return
	}
	w := row.New(64)
	w.Time(b.block.Time)
	w.Number(before)
	w.Number(accrued - before)
	w.Number(uint64(len(b.events)))
	for i := range b.events {
		b.events[i].write(&w)
	}
	b.batch.Put(store.FamilyValidatorActivity, activityKey(b.networkID, b.block.Height), w.B)
}

func (e *Event) write(w *row.Writer) {
	w.Byte(byte(e.Kind))
	w.ID(e.TxID)
	w.ChainID(e.SubnetID)
	w.B = append(w.B, e.NodeID[:]...)
	w.Number(e.Weight)
	switch e.Kind {
	case Staked, Delegated, Paid:
		w.Bool(e.ValidationID == ids.Empty)
		if e.ValidationID == ids.Empty {
			w.ID(e.StakingTxID)
			w.Bool(e.Delegator)
			w.Time(e.Start)
			w.Time(e.End)
			w.Number(uint64(len(e.Payments)))
			for i := range e.Payments {
				p := &e.Payments[i]
				w.Byte(byte(p.Role))
				w.ID(p.AssetID)
				w.Number(p.Amount)
				w.Addresses(p.Addresses)
			}
			return
		}
	}
	w.ID(e.ValidationID)
	w.Number(e.Amount)
}

func readEvent(r *row.Reader) (e Event) {
	e.Kind, e.TxID, e.SubnetID = EventKind(r.Byte()), r.ID(), r.ChainID()
	copy(e.NodeID[:], r.Take(len(e.NodeID)))
	e.Weight = r.Number()
	switch e.Kind {
	case Staked, Delegated, Paid:
		if r.Bool() {
			e.StakingTxID, e.Delegator, e.Start, e.End = r.ID(), r.Bool(), r.Time(), r.Time()
			for n := r.Number(); n > 0 && r.Err() == nil; n-- {
				e.Payments = append(e.Payments, Payment{ledger.Role(r.Byte()), r.ID(), r.Number(), r.Addresses()})
			}
			return e
		}
	}
	e.ValidationID, e.Amount = r.ID(), r.Number()
	return e
}

// viewAt opens a view in which the block at a height is indexed. It returns an error if the view lacks the block; the
// view of a lagging server may.
func (x *Index) viewAt(ctx context.Context, height uint64) (store.View, error) {
	v, head, err := x.view(ctx)
	if err != nil {
		return nil, err
	}
	if head.Height < height {
		_ = v.Close()
		return nil, fmt.Errorf("reading the registry at height %d: its last block is %d", height, head.Height)
	}
	return v, nil
}

// Activity returns what the block at a height changed about validators; a zero Time means nothing. It returns an error
// if the block is not indexed.
func (x *Index) Activity(ctx context.Context, height uint64) (*Activity, error) {
	v, err := x.viewAt(ctx, height)
	if err != nil {
		return nil, err
	}
	defer func() { _ = v.Close() }()
	values, err := v.Get(ctx, store.FamilyValidatorActivity, []store.PK{activityKey(x.networkID, height)})
	if err != nil {
		return nil, fmt.Errorf("reading the activity of validators at height %d: %w", height, err)
	}
	a := &Activity{Height: height}
	if values[0] == nil {
		return a, nil
	}
	r := row.Read(values[0])
	a.Time, a.Before = r.Time(), r.Number()
	a.Accrued = a.Before + r.Number()
	for n := r.Number(); n > 0 && r.Err() == nil; n-- {
		a.Events = append(a.Events, readEvent(r))
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("the activity of validators at height %d: %w", height, err)
	}
	return a, nil
}

// Balances returns the balances of L1 validators before and after the block, in nAVAX. It returns an error if the block
// is not indexed.
func (x *Index) Balances(ctx context.Context, a *Activity, validationIDs []ids.ID) (before, after []uint64, err error) {
	v, err := x.viewAt(ctx, a.Height)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = v.Close() }()
	before, after = make([]uint64, len(validationIDs)), make([]uint64, len(validationIDs))
	for i, id := range validationIDs {
		p := endsPartition(x.networkID, id)
		rows, err := v.Floor(ctx, store.FamilyValidatorActivity, p, []store.Range{
			{Lo: row.Uint64(0), Hi: row.Uint64(max(a.Height, 1) - 1)}, {Lo: row.Uint64(0), Hi: row.Uint64(a.Height)},
		})
		if err != nil {
			return nil, nil, fmt.Errorf("reading the balance of L1 validator %s: %w", id, err)
		}
		for j, at := range []struct {
			accrued uint64
			to      *uint64
		}{{a.Before, &before[i]}, {a.Accrued, &after[i]}} {
			if rows[j].V == nil {
				continue
			}
			if len(rows[j].V) != 8 {
				return nil, nil, fmt.Errorf("%w: the balance of L1 validator %s has %d bytes", store.ErrCorrupt, id, len(rows[j].V))
			}
			*at.to = max(binary.BigEndian.Uint64(rows[j].V), at.accrued) - at.accrued
		}
	}
	return before, after, nil
}
