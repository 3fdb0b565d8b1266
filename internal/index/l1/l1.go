// Package l1 indexes P-Chain transactions that changed L1s (ACP-77): conversions, registrations and weight
// changes, by transaction, by validation and by subnet. A Projection of the P-Chain's pipeline writes the rows, an Index
// reads them.
package l1

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/pchain"
	"quorate/internal/index"
	"quorate/internal/store"
)

// name is the name of the projection in cursors.
const name = "l1"

// Form returns the format of the rows. The first version is 1.
func Form() index.Form {
	return index.Form{
		Name: name, Version: 1, Cursor: index.CursorOf(name),
		Families: []store.Family{store.FamilyL1Tx, store.FamilyL1Height, store.FamilyL1Subnet, store.FamilyL1Validation},
	}
}

// Index reads the L1 index of one network; a store may contain several networks. It is safe for concurrent use. Reads
// see committed rows. Errors come from the store.
type Index struct {
	reader    store.Reader
	networkID uint32
}

// New returns a reader of a network's index, which may be empty.
func New(r store.Reader, networkID uint32) *Index { return &Index{reader: r, networkID: networkID} }

// Projection writes the L1 index of one network.
type Projection struct{ networkID uint32 }

var _ index.Projection[*pchain.Block] = Projection{}

// NewProjection returns the projection that writes a network's L1 index.
func NewProjection(networkID uint32) Projection { return Projection{networkID: networkID} }

// Name implements index.Projection.
func (Projection) Name() string { return name }

// Apply implements index.Projection. It reads only the block's own transactions: a genesis contains no L1s, and proposals
// concern stakers only.
func (t Projection) Apply(_ context.Context, _ store.Reader, block *pchain.Block, batch *store.Batch) error {
	for i, tx := range block.Txs {
		event, err := pchain.L1EventOf(tx.Unsigned)
		if err != nil {
			return fmt.Errorf("transaction %s: %w", tx.ID(), err)
		}
		if event == nil {
			continue
		}
		txID := tx.ID()
		batch.Put(store.FamilyL1Tx, store.PK{P: t.key(txID)},
			encodeTransaction(&pchain.L1Transaction{TxID: txID, Height: block.Height, Time: block.Time, Event: event}))
		batch.Put(store.FamilyL1Height, store.PK{P: t.network(), K: heightKey(block.Height, uint32(i))}, txID[:])
		switch event := event.(type) {
		case *pchain.Conversion:
			batch.Put(store.FamilyL1Subnet, store.PK{P: t.key(event.SubnetID)}, txID[:])
			for i := range event.Validators {
				b := beginning{SubnetID: event.SubnetID, Index: uint32(i), TxID: txID}
				batch.Put(store.FamilyL1Validation, store.PK{P: t.key(event.SubnetID.Append(uint32(i))), K: beginningKey}, b.bytes())
			}
		case *pchain.Registration:
			b := beginning{SubnetID: event.SubnetID, TxID: txID, Message: event.Message}
			batch.Put(store.FamilyL1Validation, store.PK{P: t.key(event.ValidationID), K: beginningKey}, b.bytes())
		case *pchain.WeightChange:
			c := change{TxID: txID, Height: block.Height, Weight: event.Weight}
			batch.Put(store.FamilyL1Validation, store.PK{P: t.key(event.ValidationID), K: changeKey(event.Nonce)}, c.bytes())
		}
	}
	return nil
}

// Transaction returns the effect of a transaction on an L1, or nil without an error if none is indexed.
func (r *Index) Transaction(ctx context.Context, txID ids.ID) (*pchain.L1Transaction, error) {
	found, err := r.transactions(ctx, txID)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// transactions returns nil for transactions that are not indexed.
func (r *Index) transactions(ctx context.Context, txIDs ...ids.ID) ([]*pchain.L1Transaction, error) {
	keys := make([]store.PK, len(txIDs))
	for i, txID := range txIDs {
		keys[i].P = r.key(txID)
	}
	values, err := r.reader.Get(ctx, store.FamilyL1Tx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading L1 transactions: %w", err)
	}
	found := make([]*pchain.L1Transaction, len(txIDs))
	for i, v := range values {
		if v == nil {
			continue
		}
		if found[i], err = decodeTransaction(txIDs[i], v); err != nil {
			return nil, fmt.Errorf("reading L1 transaction %s: %w", txIDs[i], err)
		}
	}
	return found, nil
}

// Conversion returns the transaction that converted a subnet to an L1, or nil without an error if none is indexed.
func (r *Index) Conversion(ctx context.Context, subnetID ids.ID) (*pchain.L1Transaction, error) {
	values, err := r.reader.Get(ctx, store.FamilyL1Subnet, []store.PK{{P: r.key(subnetID)}})
	if err != nil {
		return nil, fmt.Errorf("reading the conversion of subnet %s: %w", subnetID, err)
	}
	if values[0] == nil {
		return nil, nil
	}
	txID, err := ids.ToID(values[0])
	if err != nil {
		return nil, fmt.Errorf("reading the conversion of subnet %s: %w: %w", subnetID, store.ErrCorrupt, err)
	}
	return r.Transaction(ctx, txID)
}

// Validation returns the first transaction and the last weight change of an L1 validator, or nil without an error if
// the validator is not indexed.
func (r *Index) Validation(ctx context.Context, validationID ids.ID) (*pchain.Validation, error) {
	rows, err := r.reader.Floor(ctx, store.FamilyL1Validation, r.key(validationID), []store.Range{
		{Lo: beginningKey, Hi: beginningKey},
		{Lo: changeKey(0), Hi: changeKey(math.MaxUint64)},
	})
	if err != nil {
		return nil, fmt.Errorf("reading validation %s: %w", validationID, err)
	}
	if rows[0].V == nil {
		return nil, nil
	}
	v, err := decodeValidation(validationID, rows[0], rows[1])
	if err != nil {
		return nil, fmt.Errorf("reading validation %s: %w", validationID, err)
	}
	return v, nil
}

// Since returns the transactions of blocks from a height on, in order, and the height at which to continue. It reads
// about limit transactions and always whole blocks.
func (r *Index) Since(ctx context.Context, height uint64, limit int) (found []*pchain.L1Transaction, next uint64, err error) {
	rows, err := r.scan(ctx, heightKey(height, 0), nil, limit)
	if err != nil {
		return nil, 0, err
	}
	if len(rows) == 0 {
		return nil, height, nil
	}
	last := binary.BigEndian.Uint64(rows[len(rows)-1].K)
	if len(rows) == limit {
		// Read the rest of the last block.
		rest, err := r.scan(ctx, store.After(rows[len(rows)-1].K), heightKey(last+1, 0), math.MaxInt)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, rest...)
	}
	txIDs := make([]ids.ID, len(rows))
	for i, row := range rows {
		txIDs[i] = ids.ID(row.V)
	}
	if found, err = r.transactions(ctx, txIDs...); err != nil {
		return nil, 0, err
	}
	for i, tx := range found {
		if tx == nil {
			return nil, 0, fmt.Errorf("reading L1 transactions: %w: %s is in the list but has no row", store.ErrCorrupt, txIDs[i])
		}
	}
	return found, last + 1, nil
}

// scan reads the list of transactions.
func (r *Index) scan(ctx context.Context, lo, hi []byte, limit int) ([]store.Row, error) {
	rows, err := r.reader.Scan(ctx, store.FamilyL1Height, r.network(), lo, hi, store.Ascending, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the list of L1 transactions: %w", err)
	}
	for _, row := range rows {
		if len(row.K) != heightKeySize || len(row.V) != ids.IDLen {
			return nil, fmt.Errorf("reading the list of L1 transactions: %w: %d bytes at a key of %d", store.ErrCorrupt, len(row.V), len(row.K))
		}
	}
	return rows, nil
}

// Height returns the next height to index: all blocks below it are indexed.
func (r *Index) Height(ctx context.Context) (next uint64, err error) {
	c, err := store.ReadCursor(ctx, r.reader, index.Cursor(r.networkID, index.PChain, name))
	return c.Next, err
}

func (r *Index) network() []byte          { return networkKey(r.networkID) }
func (r *Index) key(id ids.ID) []byte     { return append(networkKey(r.networkID), id[:]...) }
func (t Projection) network() []byte      { return networkKey(t.networkID) }
func (t Projection) key(id ids.ID) []byte { return append(networkKey(t.networkID), id[:]...) }

func networkKey(networkID uint32) []byte {
	return binary.BigEndian.AppendUint32(make([]byte, 0, 4+ids.IDLen), networkID)
}

func heightKey(height uint64, number uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(make([]byte, 0, heightKeySize), height), number)
}

const heightKeySize = 12

// beginningKey and changeKey are the clustering keys of a validation.
var beginningKey = []byte{0}

func changeKey(nonce uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{1}, nonce)
}
