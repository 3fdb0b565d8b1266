package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// ErrMissing means that a block refers to a validator that no indexed block registered.
var ErrMissing = errors.New("not registered; rebuild the index from genesis")

// L1Validator is a validator of an L1 (ACP-77).
type L1Validator struct {
	Place
	// Index is the validator's index in a conversion; 0 for a registration.
	Index        uint32
	ValidationID ids.ID
	SubnetID     ids.ID
	NodeID       ids.NodeID
	// TxID is the conversion or registration, and Created the time of its block.
	TxID                         ids.ID
	Created                      time.Time
	PublicKey, ProofOfPossession []byte
	// Weight is 0 if the validator was removed. MinNonce is the smallest nonce of the next change of the weight.
	Weight, MinNonce uint64
	// RemainingBalanceOwner receives the balance of a disabled or removed validator. DeactivationOwner may disable it.
	RemainingBalanceOwner, DeactivationOwner ledger.Owners
	// Ends is the value of Head.Accrued at which the balance is used up; 0 if the validator is not active.
	Ends uint64
	// RemovedBy is the transaction that removed the validator and Removed the time of its block; zero if none did.
	RemovedBy ids.ID
	Removed   time.Time
}

// L1Status is the state of an L1 validator.
type L1Status string

// The states of an L1 validator. Only active ones have a balance. Inactive ones have none, and become active again with a
// new balance.
const (
	L1Active   L1Status = "active"
	L1Inactive L1Status = "inactive"
	L1Removed  L1Status = "removed"
)

// Status returns the validator's state.
func (v *L1Validator) Status() L1Status {
	switch {
	case v.Weight == 0:
		return L1Removed
	case v.Ends == 0:
		return L1Inactive
	}
	return L1Active
}

// list returns the list in which the validator is.
func (v *L1Validator) list() byte { return l1Lists[v.Status()] }

// l1Lists are the lists of L1 validators by state.
var l1Lists = map[L1Status]byte{L1Active: 0, L1Inactive: 1, L1Removed: 2}

func (v *L1Validator) key() []byte { return binary.BigEndian.AppendUint32(v.Place.key(), v.Index) }

func (v *L1Validator) bytes() []byte {
	w := row.New(512)
	w.Number(v.Height)
	w.Number(uint64(v.Number))
	w.Number(uint64(v.Index))
	w.ID(v.SubnetID)
	w.B = append(w.B, v.NodeID[:]...)
	w.ID(v.TxID)
	w.Time(v.Created)
	w.Bytes(v.PublicKey)
	w.Bytes(v.ProofOfPossession)
	w.Number(v.Weight)
	w.Number(v.MinNonce)
	for _, o := range []*ledger.Owners{&v.RemainingBalanceOwner, &v.DeactivationOwner} {
		w.Number(uint64(o.Threshold))
		w.Addresses(o.Addresses)
	}
	w.Number(v.Ends)
	w.Time(v.Removed)
	if !v.Removed.IsZero() {
		w.ID(v.RemovedBy)
	}
	return w.B
}

func parseL1Validator(validationID ids.ID, b []byte) (*L1Validator, error) {
	r := row.Read(b)
	v := &L1Validator{ValidationID: validationID, Place: Place{r.Number(), r.Uint32()}, Index: r.Uint32(), SubnetID: r.ID()}
	copy(v.NodeID[:], r.Take(len(v.NodeID)))
	v.TxID, v.Created, v.PublicKey, v.ProofOfPossession, v.Weight, v.MinNonce = r.ID(), r.Time(), r.Bytes(), r.Bytes(), r.Number(), r.Number()
	for _, o := range []*ledger.Owners{&v.RemainingBalanceOwner, &v.DeactivationOwner} {
		o.Threshold, o.Addresses = r.Uint32(), r.Addresses()
	}
	v.Ends = r.Number()
	if v.Removed = r.Time(); !v.Removed.IsZero() {
		v.RemovedBy = r.ID()
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("L1 validator %s: %w", validationID, err)
	}
	return v, nil
}

// l1s holds the L1 validators that have not been removed. A block changes only these.
type l1s struct {
	known map[ids.ID]*L1Validator
	// before has the list that an L1 validator is in in the store, for those that changed; it lacks new ones.
	before map[ids.ID]byte
	dirty  map[ids.ID]*L1Validator
}

func (s *l1s) load(ctx context.Context, r store.Reader, networkID uint32) error {
	*s = l1s{known: make(map[ids.ID]*L1Validator), before: make(map[ids.ID]byte), dirty: make(map[ids.ID]*L1Validator)}
	for _, status := range []L1Status{L1Active, L1Inactive} {
		var failed error
		var page []ids.ID
		for one := range rows(ctx, r, store.FamilyL1ValidatorList, allOf(networkID, l1Lists[status]), &failed) {
			id, err := ids.ToID(one.V)
			if err != nil {
				return fmt.Errorf("%w: list of L1 validators: %w", store.ErrCorrupt, err)
			}
			page = append(page, id)
		}
		if failed != nil {
			return failed
		}
		all, err := readL1Validators(ctx, r, networkID, page)
		if err != nil {
			return err
		}
		for _, v := range all {
			s.known[v.ValidationID] = v
		}
	}
	return nil
}

// readL1Validators reads the rows of validators, which must exist.
func readL1Validators(ctx context.Context, r store.Reader, networkID uint32, all []ids.ID) ([]*L1Validator, error) {
	keys := make([]store.PK, len(all))
	for i, id := range all {
		keys[i].P = row.Network(networkID, id[:])
	}
	values, err := r.Get(ctx, store.FamilyL1Validator, keys)
	if err != nil {
		return nil, fmt.Errorf("reading L1 validators: %w", err)
	}
	found := make([]*L1Validator, len(all))
	for i, b := range values {
		if b == nil {
			return nil, fmt.Errorf("reading L1 validators: %w: %s is in a list but has no row", store.ErrCorrupt, all[i])
		}
		if found[i], err = parseL1Validator(all[i], b); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// touch returns a known validator, which the caller changes.
func (s *l1s) touch(validationID ids.ID) (*L1Validator, error) {
	v := s.known[validationID]
	if v == nil {
		return nil, fmt.Errorf("%w: L1 validator %s", ErrMissing, validationID)
	}
	if s.dirty[validationID] == nil {
		s.dirty[validationID], s.before[validationID] = v, v.list()
	}
	return v, nil
}

func (s *l1s) begin(v *L1Validator) {
	s.known[v.ValidationID], s.dirty[v.ValidationID] = v, v
}

// l1 indexes a transaction that registers L1 validators or changes a weight. refund is the balance that it returns.
func (b *application) l1(tx *txs.Tx, refund uint64, number uint32) error {
	event, err := pchain.L1EventOf(tx.Unsigned)
	if err != nil {
		return err
	}
	v := L1Validator{Place: Place{b.block.Height, number}, TxID: tx.ID(), Created: b.block.Time}
	switch u := tx.Unsigned.(type) {
	case *txs.ConvertSubnetToL1Tx:
		for i, one := range u.Validators {
			v := v
			v.Index, v.ValidationID, v.SubnetID, v.Weight = uint32(i), u.Subnet.Append(uint32(i)), u.Subnet, one.Weight
			if v.NodeID, err = ids.ToNodeID(one.NodeID); err != nil {
				return fmt.Errorf("validator %d: %w", i, err)
			}
			v.PublicKey, v.ProofOfPossession = one.Signer.PublicKey[:], one.Signer.ProofOfPossession[:]
			v.RemainingBalanceOwner, v.DeactivationOwner = ownersOf(one.RemainingBalanceOwner), ownersOf(one.DeactivationOwner)
			b.begin(&v)
			b.registered(&v, one.Balance)
		}
	case *txs.RegisterL1ValidatorTx:
		m, err := message.ParseRegisterL1Validator(event.(*pchain.Registration).Message)
		if err != nil {
			return err
		}
		v.ValidationID, v.SubnetID, v.Weight = m.ValidationID(), m.SubnetID, m.Weight
		if v.NodeID, err = ids.ToNodeID(m.NodeID); err != nil {
			return err
		}
		v.PublicKey, v.ProofOfPossession = m.BLSPublicKey[:], u.ProofOfPossession[:]
		v.RemainingBalanceOwner, v.DeactivationOwner = ownersOf(m.RemainingBalanceOwner), ownersOf(m.DisableOwner)
		b.begin(&v)
		b.registered(&v, u.Balance)
	case *txs.SetL1ValidatorWeightTx:
		change := event.(*pchain.WeightChange)
		v, err := b.touch(change.ValidationID)
		if err != nil {
			return err
		}
		v.Weight, v.MinNonce = change.Weight, change.Nonce+1
		if v.Weight == 0 {
			v.Removed, v.RemovedBy = b.block.Time, tx.ID()
			b.l1Event(Retired, v.RemovedBy, v, refund)
		}
	}
	return nil
}

func ownersOf(o message.PChainOwner) ledger.Owners {
	return ledger.Owners{Addresses: o.Addresses, Threshold: o.Threshold}
}

// accounts applies changes of balances.
func (b *application) accounts(changes []pchain.L1Change) error {
	for _, c := range changes {
		v, err := b.touch(c.ValidationID)
		if err != nil {
			return err
		}
		id := c.ValidationID
		if c.Ends == 0 && !c.Removed && !b.disabled[id] && (v.Ends != 0 || b.funded[id]) {
			b.l1Event(Disabled, ids.Empty, v, 0) // the balance is used up
		}
		v.Ends = c.Ends
		b.batch.Put(store.FamilyValidatorActivity, store.PK{P: endsPartition(b.networkID, id), K: row.Uint64(b.block.Height)},
			binary.BigEndian.AppendUint64(nil, c.Ends))
		if c.Removed != (v.Weight == 0) {
			return fmt.Errorf("L1 validator %s has weight %d, and its account is removed: %t", c.ValidationID, v.Weight, c.Removed)
		}
	}
	return nil
}

// writeL1s writes the rows of changed L1 validators.
func (b *application) writeL1s() {
	for id, v := range b.dirty {
		k, list := v.key(), v.list()
		was, listed := b.before[id]
		b.batch.Put(store.FamilyL1Validator, store.PK{P: row.Network(b.networkID, id[:])}, v.bytes())
		if listed && was != list {
			for _, p := range v.lists(b.networkID, was) {
				b.batch.Delete(store.FamilyL1ValidatorList, store.PK{P: p, K: k})
			}
		}
		if !listed || was != list {
			for _, p := range v.lists(b.networkID, list) {
				b.batch.Put(store.FamilyL1ValidatorList, store.PK{P: p, K: k}, id[:])
			}
		}
		if v.Weight == 0 {
			delete(b.known, id)
		}
	}
	clear(b.dirty)
	clear(b.before)
}

func (v *L1Validator) lists(networkID uint32, list byte) [][]byte {
	return [][]byte{allOf(networkID, list), ofSubnet(networkID, list, v.SubnetID), ofNode(networkID, list, v.NodeID)}
}
