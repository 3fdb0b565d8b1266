package lookup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/envelope"
	"quorate/internal/index/container"
	"quorate/internal/store"
)

// ErrNoLists means that an older version, which wrote no lists, began the index.
var ErrNoLists = errors.New("blocks by proposer and transactions by asset are not indexed until the index is rebuilt")

// withLists is the first version with lists.
const withLists = 4

// listed is a row of a list.
type listed struct {
	family store.Family
	store.PK

	// missing says what the list lacks without the row.
	missing func() string
}

// lists returns the rows of lists that a block adds.
func (t *Projection[B]) lists(e *entries) []listed {
	var all []listed
	if e.proposer != ids.EmptyNodeID {
		all = append(all, listed{
			family: store.FamilyProposed, PK: store.PK{P: partition(t.prefix, e.proposer[:]), K: binary.BigEndian.AppendUint64(nil, e.height)},
			missing: func() string {
				return fmt.Sprintf("block %d is not in the list of its proposer %s", e.height, e.proposer)
			},
		})
	}
	for i, moved := range e.assets {
		for _, id := range moved {
			all = append(all, listed{
				family: store.FamilyAssetTx, PK: store.PK{P: partition(t.prefix, id[:]), K: placeKey(Place{e.height, i})},
				missing: func() string {
					return fmt.Sprintf("transaction %s of block %d is not in the list of asset %s", e.txs[i], e.height, id)
				},
			})
		}
	}
	return all
}

// checkLists calls wrong for each list that lacks the block. Rows of older versions have no lists.
func (t *Projection[B]) checkLists(ctx context.Context, c *Chain, e *entries, wrong func(what string)) error {
	rows := t.lists(e)
	if len(rows) == 0 {
		return nil
	}
	switch err := c.hasLists(ctx); {
	case errors.Is(err, ErrNoLists):
		return nil
	case err != nil:
		return err
	}
	for _, row := range rows {
		values, err := c.reader.Get(ctx, row.family, []store.PK{row.PK})
		if err != nil {
			return fmt.Errorf("reading lists of block %d: %w", e.height, err)
		}
		if values[0] != nil {
			continue
		}
		if row.family == store.FamilyProposed {
			signed, err := c.signed(ctx, e)
			if err != nil {
				return err
			}
			if !signed {
				continue
			}
		}
		wrong(row.missing())
	}
	return nil
}

// signed reports whether the stored container has the envelope that the block's proposer signed. A node without an index
// removes envelopes.
func (c *Chain) signed(ctx context.Context, e *entries) (bool, error) {
	kept, err := container.Chain{NetworkID: binary.BigEndian.Uint32(c.prefix), Name: string(c.prefix[4:])}.Get(ctx, c.reader, e.height)
	if errors.Is(err, container.ErrMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	around, ok := envelope.Open(kept.Bytes)
	return ok && around.Proposer == e.proposer, nil
}

// partition clips the shared prefix, so that appending copies it.
func partition(prefix, of []byte) []byte { return append(slices.Clip(prefix), of...) }

func placeKey(at Place) []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, 12), at.Height)
	return binary.BigEndian.AppendUint32(k, uint32(at.Index))
}

// hasLists returns ErrNoLists if an older version indexed some of the blocks.
func (c *Chain) hasLists(ctx context.Context) error {
	form := Form()
	switch oldest, err := form.Oldest(ctx, c.reader); {
	case err != nil:
		return err
	case 0 < oldest && oldest < withLists:
		return ErrNoLists
	}
	return nil
}

// Proposed returns the heights from first until, not including, end of at most limit containers whose envelope a node
// signed, the greatest first. It returns ErrNoLists if the index lacks them.
func (c *Chain) Proposed(ctx context.Context, by ids.NodeID, first, end uint64, limit int) ([]uint64, error) {
	if err := c.hasLists(ctx); err != nil {
		return nil, err
	}
	lo, hi := binary.BigEndian.AppendUint64(nil, first), binary.BigEndian.AppendUint64(nil, end)
	rows, err := c.reader.Scan(ctx, store.FamilyProposed, partition(c.prefix, by[:]), lo, hi, store.Descending, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the blocks that %s proposed: %w", by, err)
	}
	heights := make([]uint64, len(rows))
	for i, row := range rows {
		if len(row.K) != 8 {
			return nil, fmt.Errorf("%w: blocks that %s proposed", store.ErrCorrupt, by)
		}
		heights[i] = binary.BigEndian.Uint64(row.K)
	}
	return heights, nil
}

// OfAsset returns the places from first until, not including, end of at most limit transactions that move an asset. It
// returns ErrNoLists if the index lacks them.
func (c *Chain) OfAsset(ctx context.Context, asset ids.ID, first, end Place, dir store.Direction, limit int) ([]Place, error) {
	if err := c.hasLists(ctx); err != nil {
		return nil, err
	}
	rows, err := c.reader.Scan(ctx, store.FamilyAssetTx, partition(c.prefix, asset[:]), placeKey(first), placeKey(end), dir, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the transactions of asset %s: %w", asset, err)
	}
	places := make([]Place, len(rows))
	for i, row := range rows {
		if len(row.K) != 12 {
			return nil, fmt.Errorf("%w: transactions of asset %s", store.ErrCorrupt, asset)
		}
		places[i] = Place{Height: binary.BigEndian.Uint64(row.K), Index: int(binary.BigEndian.Uint32(row.K[8:]))}
	}
	return places, nil
}
