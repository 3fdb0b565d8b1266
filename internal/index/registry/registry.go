// Package registry indexes what the P-Chain registers: blockchains, the validations of the primary network and of subnets,
// and L1 validators with their balances (ACP-77). A Projection of the P-Chain's pipeline writes the rows, an Index reads
// them. Counts and states equal those of a node at the same height.
package registry

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/internal/chain/ledger"
	"quorate/internal/chain/pchain"
	"quorate/internal/index"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Name is the name of the projection in cursors.
const Name = "registry"

// Form returns the format of the rows. Version 2 added the activity of validators, version 3 the stake by day, rewards of
// delegations, and the supply. Until version 4, payments to renewing validators had the weight and times of the next
// period.
func Form() index.Form {
	return index.Form{
		Name: Name, Version: 4, Reads: 3, Cursor: index.CursorOf(Name),
		Families: []store.Family{
			store.FamilyRegistryState, store.FamilyBlockchain, store.FamilyRegistered, store.FamilyValidator,
			store.FamilyL1Validator, store.FamilyL1ValidatorList, store.FamilyValidatorActivity, store.FamilyStakeDay,
		},
	}
}

// Projection writes the index of one network. It serves one pipeline. It decodes blocks with a state of its own, so that
// an index of stakes and balances and this one can be rebuilt independently.
type Projection struct {
	networkID uint32
	decoder   *pchain.Decoder
	maxStake  uint64 // on the primary network, delegations included

	state *pchain.State // nil before the first block
	validations
	l1s
	stakes
}

var _ index.Projection[*pchain.Block] = (*Projection)(nil)

// NewProjection returns the projection that indexes a network's P-Chain. The decoder should omit outputs.
func NewProjection(networkID uint32, decoder *pchain.Decoder) *Projection {
	return &Projection{networkID: networkID, decoder: decoder, maxStake: genesis.GetStakingConfig(networkID).MaxValidatorStake}
}

// Name implements index.Projection.
func (*Projection) Name() string { return Name }

// Apply implements index.Projection. All errors are final.
func (t *Projection) Apply(ctx context.Context, r store.Reader, block *pchain.Block, batch *store.Batch) error {
	if t.state == nil {
		if err := t.load(ctx, r); err != nil {
			return err
		}
	}
	before := t.state.AccruedFees().Accrued
	said, err := t.decoder.Ledger(ctx, t.state, block)
	if err != nil {
		return err
	}
	b := &application{Projection: t, batch: batch, block: said, activity: newActivity()}
	b.expire()
	for i := range said.Txs {
		tx := &said.Txs[i]
		if tx.Aborted && tx.Settled == nil {
			continue
		}
		b.register(tx, uint32(i))
		b.validation(tx, uint32(i))
		if i < len(block.Txs) {
			if err := b.raw(block.Txs[i], tx, uint32(i)); err != nil {
				return fmt.Errorf("transaction %s: %w", tx.ID, err)
			}
		}
	}
	changes := t.state.StakerChanges()
	if err := b.stakers(changes); err != nil {
		return err
	}
	if err := b.staked(changes); err != nil {
		return err
	}
	if err := b.accounts(t.state.L1Changes()); err != nil {
		return err
	}
	b.writeActivity(before)
	b.write()
	return nil
}

// application is one block being applied.
type application struct {
	*Projection
	activity
	batch *store.Batch
	block *ledger.Block
}

// register indexes a new subnet or blockchain. The genesis block creates the primary network.
func (b *application) register(tx *ledger.Tx, number uint32) {
	if b.block.Height == 0 && number == 0 {
		b.created(constants.PrimaryNetworkID, constants.PrimaryNetworkID, 0)
	}
	change := tx.Subnet
	if change == nil {
		return
	}
	if change.Created {
		b.created(change.SubnetID, change.SubnetID, number)
	}
	if c := change.Chain; c != nil {
		b.created(tx.ID, change.SubnetID, number)
		w := row.New(128)
		w.ID(tx.ID)
		w.ID(change.SubnetID)
		w.ID(c.VMID)
		w.Bytes([]byte(c.Name))
		w.Time(b.block.Time)
		b.batch.Put(store.FamilyBlockchain, store.PK{P: row.Network(b.networkID), K: Place{b.block.Height, number}.key()}, w.B)
	}
}

func (b *application) created(id, subnetID ids.ID, number uint32) {
	w := row.New(64)
	w.ID(subnetID)
	w.Time(b.block.Time)
	w.Number(b.block.Height)
	w.Number(uint64(number))
	b.batch.Put(store.FamilyRegistered, store.PK{P: row.Network(b.networkID, id[:])}, w.B)
}

// write writes the rows that changed.
func (b *application) write() {
	b.writeDays()
	b.writeValidations()
	b.writeL1s()
	for _, one := range b.state.TakeChanges() {
		pk := store.PK{P: row.Network(b.networkID), K: one.Key}
		if one.Value == nil {
			b.batch.Delete(store.FamilyRegistryState, pk)
		} else {
			b.batch.Put(store.FamilyRegistryState, pk, one.Value)
		}
	}
	fees := b.state.AccruedFees()
	w := row.New(48)
	w.Number(b.block.Height)
	w.Time(b.block.Time)
	w.Number(fees.Accrued)
	w.Number(uint64(fees.State.Current))
	w.Number(uint64(fees.State.Excess))
	w.Number(b.state.Supply(constants.PrimaryNetworkID))
	b.batch.Put(store.FamilyRegistryState, store.PK{P: headPartition(b.networkID)}, w.B)
}

// headPartition is apart from the rows of the decoder's state.
func headPartition(networkID uint32) []byte { return row.Network(networkID, []byte("head")) }

// Place is the position of a transaction: the height of its block and its number there.
type Place struct {
	Height uint64
	Number uint32
}

const placeSize = 12

func (p Place) key() []byte {
	return binary.BigEndian.AppendUint32(row.Uint64(p.Height), p.Number)
}

func parsePlace(k []byte) (Place, error) {
	if len(k) != placeSize {
		return Place{}, fmt.Errorf("%w: key of %d bytes", store.ErrCorrupt, len(k))
	}
	return Place{binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[8:])}, nil
}

// statePage is the number of rows of one read.
const statePage = 1024

// load reads the decoder's state, and the validations that have not ended.
func (t *Projection) load(ctx context.Context, r store.Reader) error {
	var failed error
	state, err := pchain.LoadState(func(yield func(pchain.Row) bool) {
		for one := range rows(ctx, r, store.FamilyRegistryState, row.Network(t.networkID), &failed) {
			if !yield(pchain.Row{Key: one.K, Value: one.V}) {
				return
			}
		}
	})
	if failed != nil {
		err = failed
	}
	if err == nil {
		err = t.validations.load(ctx, r, t.networkID)
	}
	if err == nil {
		err = t.l1s.load(ctx, r, t.networkID)
	}
	var head Head
	if err == nil {
		head, err = readHead(ctx, r, t.networkID)
	}
	if err != nil {
		return fmt.Errorf("reading the state of the registry: %w", err)
	}
	t.count(head)
	t.state = state
	return nil
}

// rows iterates over a partition in ascending order. It sets failed if a read fails.
func rows(ctx context.Context, r store.Reader, family store.Family, p []byte, failed *error) iter.Seq[store.Row] {
	return func(yield func(store.Row) bool) {
		var lo []byte
		for {
			page, err := r.Scan(ctx, family, p, lo, nil, store.Ascending, statePage)
			if err != nil {
				*failed = err
				return
			}
			for _, one := range page {
				if !yield(one) {
					return
				}
			}
			if len(page) < statePage {
				return
			}
			lo = store.After(page[len(page)-1].K)
		}
	}
}
