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

// ownedRows are the output's in the lists of its owners, whatever its threshold.
func (o *Output) ownedRows(networkID uint32, g *group) []store.PK {
	rows := make([]store.PK, len(g.addresses))
	for i, address := range g.addresses {
		rows[i] = store.PK{P: ownedList(networkID, o.DestinationID, o.ChainID, address), K: o.ID[:]}
	}
	return rows
}

// ownedList is the key of the list of an address, in a hash to be short.
func ownedList(networkID uint32, chainID, sourceID ids.ID, address ids.ShortID) []byte {
	var b [4 + 2*ids.IDLen + ids.ShortIDLen]byte
	binary.BigEndian.PutUint32(b[:], networkID)
	n := 4 + copy(b[4:], chainID[:])
	n += copy(b[n:], sourceID[:])
	copy(b[n:], address[:])
	digest := sha256.Sum256(b[:])
	return bytes.Clone(digest[:len(accountID{})])
}

// OwnedQuery asks for the outputs that an address has a part in.
type OwnedQuery struct {
	// ChainID is where they can be consumed, SourceID what made them: the same chain, or
	// the one from which they were exported.
	ChainID, SourceID ids.ID
	Address           ids.ShortID
	// After is the last output that is not wanted, whether it exists or not. It is
	// without effect if it is empty.
	After ids.ID
	Limit int
}

// Owned is an output that can be consumed.
type Owned struct {
	ID ids.ID
	// Bytes are the codec's form of the UTXO, version included.
	Bytes []byte
}

// Owned returns outputs that can be consumed and that an address is among the owners
// of, alone or with others, locked or not, in the order of their IDs. What is staked is
// not among them. There are more exactly if it returns as many as the limit.
func (r *Record) Owned(ctx context.Context, q OwnedQuery) ([]Owned, error) {
	p := ownedList(r.networkID, q.ChainID, q.SourceID, q.Address)
	var found []Owned
	lo := []byte(nil)
	if q.After != ids.Empty {
		lo = store.After(q.After[:])
	}
	if reader, ok := r.viewer.(store.Reader); ok && q.SourceID == q.ChainID {
		// One scan sees one state without a view of it, which costs as much again.
		n := min(q.Limit, scanRows)
		rows, err := reader.Scan(ctx, store.FamilyOwned, p, lo, nil, store.Ascending, n)
		if err != nil {
			return nil, fmt.Errorf("reading what an address owns: %w", err)
		}
		if len(rows) < n || n == q.Limit {
			return appendOwned(make([]Owned, 0, len(rows)), rows)
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
			return nil, fmt.Errorf("reading what an address owns: %w", err)
		}
		if found == nil {
			found = make([]Owned, 0, len(rows))
		}
		from := len(found)
		if found, err = appendOwned(found, rows); err != nil {
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

func appendOwned(to []Owned, rows []store.Row) ([]Owned, error) {
	for _, one := range rows {
		if len(one.K) != ids.IDLen {
			return nil, fmt.Errorf("reading what an address owns: %w: key of %d bytes", store.ErrCorrupt, len(one.K))
		}
		to = append(to, Owned{ids.ID(one.K), one.V})
	}
	return to, nil
}

// withoutArrived leaves out what arrived without the Matcher having noticed yet.
func (r *Record) withoutArrived(ctx context.Context, v store.Reader, found []Owned, from int) ([]Owned, error) {
	keys := make([]store.PK, len(found)-from)
	for i := range keys {
		keys[i] = outputRow(r.networkID, found[from+i].ID, spentKey)
	}
	if len(keys) == 0 {
		return found, nil
	}
	values, err := v.Get(ctx, store.FamilyOutput, keys)
	if err != nil {
		return nil, fmt.Errorf("reading what arrived: %w", err)
	}
	kept := found[:from]
	for i, spent := range values {
		if spent == nil {
			kept = append(kept, found[from+i])
		}
	}
	return kept, nil
}
