package vertices

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/index/container"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// The kinds of rows in FamilyVertexFetched, after the network ID in p.
const (
	// rowBytes holds a vertex: p continues with a part of its height, k is height and ID.
	rowBytes byte = iota
	// rowKnown holds the height of a vertex that is fetched: p continues with its ID.
	rowKnown
	// rowWanted holds the height of a child of a vertex that is not fetched: k is its ID.
	rowWanted
	// rowPlace holds the place of a transaction: p continues with its ID. It exists until the vertices are sorted.
	rowPlace
)

// bucketBits is the binary logarithm of the number of heights, or of places, in a partition.
const bucketBits = 10

func (r *Index) fetchedKey(kind byte, parts ...[]byte) []byte {
	p := row.Network(r.o.NetworkID, []byte{kind})
	for _, part := range parts {
		p = append(p, part...)
	}
	return p
}

func (r *Index) bytesKey(height uint64, id ids.ID) store.PK {
	return store.PK{P: r.fetchedKey(rowBytes, row.Uint64(height>>bucketBits)), K: row.Uint64(height, id[:])}
}

func (r *Index) knownKey(id ids.ID) store.PK { return store.PK{P: r.fetchedKey(rowKnown, id[:])} }

func (r *Index) wantedKey(id ids.ID) store.PK {
	return store.PK{P: r.fetchedKey(rowWanted), K: id[:]}
}

func (r *Index) placeKey(txID ids.ID) store.PK {
	return store.PK{P: r.fetchedKey(rowPlace, txID[:])}
}

// txKey returns the key in FamilyVertexTx of a place.
func (r *Index) txKey(place uint64) store.PK {
	return store.PK{P: row.Network(r.o.NetworkID, row.Uint64(place>>bucketBits)), K: row.Uint64(place)}
}

func (r *Index) chain() container.Chain {
	return container.Chain{NetworkID: r.o.NetworkID, Name: container.Vertices}
}

// numbers reads rows whose values are numbers. It returns the existing ones by their index in keys.
func (r *Index) numbers(ctx context.Context, keys []store.PK) (map[int]uint64, error) {
	found := make(map[int]uint64)
	const most = 2048
	for from := 0; from < len(keys); from += most {
		values, err := r.o.Store.Get(ctx, store.FamilyVertexFetched, keys[from:min(from+most, len(keys))])
		if err != nil {
			return nil, fmt.Errorf("reading what is fetched of vertices: %w", err)
		}
		for i, v := range values {
			if v == nil {
				continue
			}
			if len(v) != 8 {
				return nil, fmt.Errorf("%w: what is fetched of vertices", store.ErrCorrupt)
			}
			found[from+i] = binary.BigEndian.Uint64(v)
		}
	}
	return found, nil
}
