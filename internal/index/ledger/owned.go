package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/store"
)

// ownedRows returns the output's rows in the lists of its owners, regardless of its threshold.
func (o *Output) ownedRows(networkID uint32, g *group) []store.PK {
	rows := make([]store.PK, len(g.addresses))
	for i, address := range g.addresses {
		rows[i] = store.PK{P: ownedList(networkID, o.DestinationID, o.ChainID, address), K: o.ID[:]}
	}
	return rows
}

// manyOwners is the number of owners above which neither an output nor the group of its owners is stored for each owner: one
// transaction can make an output with 3,200 owners, which would take 400 MB.
const manyOwners = 16

// owned returns the output's value in the lists of its owners, empty if they are many.
func (o *Output) owned(at *place) []byte {
	if len(at.owned) > manyOwners {
		return nil
	}
	return o.Bytes
}

// ownedList returns the key of an address's list. The key is a hash to be short.
func ownedList(networkID uint32, chainID, sourceID ids.ID, address ids.ShortID) []byte {
	var b [4 + 2*ids.IDLen + ids.ShortIDLen]byte
	binary.BigEndian.PutUint32(b[:], networkID)
	n := 4 + copy(b[4:], chainID[:])
	n += copy(b[n:], sourceID[:])
	copy(b[n:], address[:])
	digest := sha256.Sum256(b[:])
	return bytes.Clone(digest[:len(accountID{})])
}

// OwnedQuery selects outputs that an address owns alone or with others.
type OwnedQuery struct {
	// ChainID is the chain on which the outputs are spendable. SourceID is the chain that created them: the same chain,
	// or the chain that exported them.
	ChainID, SourceID ids.ID
	Address           ids.ShortID
	// After is the last output of the previous page, whether it still exists or not. An empty After starts at the
	// beginning.
	After ids.ID
	Limit int
}

// Owned is a spendable output.
type Owned struct {
	ID ids.ID
	// Bytes is the UTXO as the codec encodes it, with the codec version.
	Bytes []byte
}

// Owned returns spendable outputs that have an address among their owners, locked or not, in ID order. It omits staked
// outputs. More outputs exist exactly if it returns as many as the limit.
func (r *Index) Owned(ctx context.Context, q OwnedQuery) ([]Owned, error) {
	p := ownedList(r.networkID, q.ChainID, q.SourceID, q.Address)
	var found []Owned
	lo := []byte(nil)
	if q.After != ids.Empty {
		lo = store.After(q.After[:])
	}
	if reader, ok := r.viewer.(store.Reader); ok && q.SourceID == q.ChainID {
		// A single scan is consistent without a view, which would double the cost.
		n := min(q.Limit, scanRows)
		rows, err := reader.Scan(ctx, store.FamilyOwned, p, lo, nil, store.Ascending, n)
		if err != nil {
			return nil, fmt.Errorf("reading outputs of an address: %w", err)
		}
		if len(rows) < n || n == q.Limit {
			return r.appendOwned(ctx, reader, make([]Owned, 0, len(rows)), rows)
		}
	}
	v, err := r.viewer.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	defer func() { _ = v.Close() }()
	for len(found) < q.Limit {
		n := min(q.Limit-len(found), scanRows)
		rows, err := v.Scan(ctx, store.FamilyOwned, p, lo, nil, store.Ascending, n)
		if err != nil {
			return nil, fmt.Errorf("reading outputs of an address: %w", err)
		}
		if found == nil {
			found = make([]Owned, 0, len(rows))
		}
		from := len(found)
		if found, err = r.appendOwned(ctx, v, found, rows); err != nil {
			return nil, err
		}
		if q.SourceID != q.ChainID {
			if found, err = r.withoutArrived(ctx, v, found, from); err != nil {
				return nil, err
			}
		}
		if len(rows) < n {
			return found, nil
		}
		lo = store.After(rows[len(rows)-1].K)
	}
	return found, nil
}

// appendOwned appends the outputs of rows. It reads those with many owners where they are stored once.
func (r *Index) appendOwned(ctx context.Context, from store.Reader, to []Owned, rows []store.Row) ([]Owned, error) {
	first := len(to)
	var keys []store.PK
	var at []int
	for _, one := range rows {
		if len(one.K) != ids.IDLen {
			return nil, fmt.Errorf("reading outputs of an address: %w: key of %d bytes", store.ErrCorrupt, len(one.K))
		}
		if len(one.V) == 0 {
			keys, at = append(keys, outputRow(r.networkID, ids.ID(one.K), madeKey)), append(at, len(to))
		}
		to = append(to, Owned{ids.ID(one.K), one.V})
	}
	if len(keys) == 0 {
		return to, nil
	}
	values, err := from.Get(ctx, store.FamilyOutput, keys)
	if err != nil {
		return to[:first], fmt.Errorf("reading outputs with many owners: %w", err)
	}
	for i, v := range values {
		o, err := parseOutput(to[at[i]].ID, v)
		if err != nil {
			return to[:first], err
		}
		to[at[i]].Bytes = o.Bytes
	}
	return to, nil
}

// withoutArrived removes outputs that arrived on another chain before the Matcher processed them.
func (r *Index) withoutArrived(ctx context.Context, v store.Reader, found []Owned, from int) ([]Owned, error) {
	keys := make([]store.PK, len(found)-from)
	for i := range keys {
		keys[i] = outputRow(r.networkID, found[from+i].ID, spentKey)
	}
	if len(keys) == 0 {
		return found, nil
	}
	values, err := v.Get(ctx, store.FamilyOutput, keys)
	if err != nil {
		return nil, fmt.Errorf("reading imported outputs: %w", err)
	}
	kept := found[:from]
	for i, spent := range values {
		if spent == nil {
			kept = append(kept, found[from+i])
		}
	}
	return kept, nil
}
