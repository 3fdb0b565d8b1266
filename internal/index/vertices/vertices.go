// Package vertices records the vertices that the X-Chain accepted before it was
// linearised (Cortina), from the index of a node that has been there. There are no
// new ones, so that a record is complete once and for all.
package vertices

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/node"
	"quorate/internal/store"
)

var (
	// ErrIncomplete says that the record is not finished.
	ErrIncomplete = errors.New("not all vertices are recorded")
	// ErrPosition says that a position cannot be read.
	ErrPosition = errors.New("not a position in a list of vertices")
)

// Source is the index of a node.
type Source interface {
	// Vertices are up to n of all vertices, in the order in which one and the same
	// node accepted them, from a place on: at least one, the last of all being a stop
	// vertex; or none, and no error, where there never were any.
	Vertices(ctx context.Context, start uint64, n int) ([]node.Container, error)
}

// Record keeps the vertices of one network. Safe for concurrent use.
type Record struct {
	// Keep has the vertices themselves kept, too, so that the record can be made again
	// without a node. It is set before Run.
	Keep bool
	// Now tells when a vertex came to be kept; time.Now unless it is set before Run.
	Now func() time.Time

	store     store.Store
	networkID uint32
	// trouble is what ended Run, or keeps it from going on.
	trouble atomic.Pointer[string]
	// told is the place after that of the damaged vertex that was told of last.
	told atomic.Uint64
}

// Trouble says why vertices are not recorded at the moment; empty if they are.
func (r *Record) Trouble() string {
	if text := r.trouble.Load(); text != nil {
		return *text
	}
	return ""
}

func (r *Record) troubled(err error) {
	text := fmt.Sprintf("vertices are not recorded: %v", err)
	r.trouble.Store(&text)
}

const cursorPrefix = "vertices/"

// Form is that of the record's rows. Version 1 is the first; a record of version 1 that
// was not finished may go on with another node's order than it was begun with.
func Form() index.Form {
	return index.Form{
		Name: "vertices", Version: 2, Families: []store.Family{store.FamilyVertex},
		Cursor: func(name string) bool { return strings.HasPrefix(name, cursorPrefix) },
	}
}

// New makes a record, which may be there from earlier.
func New(s store.Store, networkID uint32) *Record {
	return &Record{Now: time.Now, store: s, networkID: networkID}
}

// cursor is the name of the place in the index that the record goes on from.
func (r *Record) cursor() string { return fmt.Sprintf("%s%d", cursorPrefix, r.networkID) }

// complete marks a record to which nothing is added.
const complete = 1 << 63

// Run records vertices until there are no more or ctx ends; it waits for a node that
// is away or keeps no such index. A vertex that cannot be read is an error.
func (r *Record) Run(ctx context.Context, from Source, log *slog.Logger) error {
	const shortest, longest = time.Second, 5 * time.Minute
	for pause := shortest; ; pause = min(2*pause, longest) {
		done, err := r.fill(ctx, from, log)
		if err == nil {
			r.trouble.Store(nil)
		}
		if done || ctx.Err() != nil {
			return nil //nolint:nilerr // it was asked to end
		}
		if err != nil {
			r.troubled(err)
		}
		switch {
		case err == nil:
			pause = shortest / 2
			continue
		case errors.Is(err, xchain.ErrVertex), errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrClosed):
			return fmt.Errorf("recording vertices: %w", err)
		}
		if pause == shortest {
			log.Info("vertices of the X-Chain cannot be recorded at the moment", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// kept are the vertices from a place on that are kept and whole; none if they have to
// be fetched. damaged is why the one at that place is not whole.
func (r *Record) kept(ctx context.Context, chain container.Chain, start uint64) (whole []node.Container, damaged, err error) {
	found, err := chain.Range(ctx, r.store, start, node.MaxBlockRange)
	if errors.Is(err, store.ErrCorrupt) {
		// One by one, because one that cannot be read hides those before it.
		found = nil
		one, oneErr := chain.Get(ctx, r.store, start)
		if oneErr != nil {
			return nil, err, nil
		}
		found, err = append(found, one), nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, c := range found {
		if _, err := xchain.ParseVertex(c.Bytes, c.Height, c.Time); err != nil {
			if len(whole) == 0 {
				damaged = fmt.Errorf("%w: kept vertex %d: %w", store.ErrCorrupt, c.Height, err)
			}
			break
		}
		whole = append(whole, node.Container{ID: c.ID, Index: c.Height, Bytes: c.Bytes, Accepted: c.Time})
	}
	return whole, damaged, nil
}

// fill records one range, and reports whether it was the last.
func (r *Record) fill(ctx context.Context, from Source, log *slog.Logger) (done bool, err error) {
	at, err := store.ReadCursor(ctx, r.store, r.cursor())
	if err != nil {
		return false, err
	}
	if at.Next >= complete {
		return true, nil
	}
	var batch store.Batch
	next := store.Cursor{Next: at.Next, Epoch: at.Epoch}
	chain := container.Chain{NetworkID: r.networkID, Name: container.Vertices}
	kept, damaged, err := r.kept(ctx, chain, at.Next)
	if err != nil {
		return false, err
	}
	containers, most := kept, node.MaxBlockRange
	if damaged != nil {
		most = 1 // those that follow may be whole
		if place := at.Next + 1; r.told.Swap(place) != place {
			log.Warn("what is kept of a vertex cannot be read; asking a node for it", slog.Uint64("index", at.Next), slog.Any("error", damaged))
		}
	}
	if len(kept) == 0 {
		if containers, err = from.Vertices(ctx, at.Next, most); err != nil {
			return false, err
		}
	}
	if len(containers) == 0 {
		next.Next = complete
	}
	for _, c := range containers {
		v, err := xchain.ParseVertex(c.Bytes, c.Index, c.Accepted)
		if err != nil {
			return false, fmt.Errorf("vertex %d: %w", c.Index, err)
		}
		batch.Put(store.FamilyVertex, store.PK{P: r.partition(v.Height), K: key(v.Index, v.ID)}, encode(v))
		if r.Keep && len(kept) == 0 {
			chain.Put(&batch, &container.Container{Height: c.Index, Form: container.Accepted, ID: v.ID, Time: c.Accepted, Kept: r.Now(), Bytes: c.Bytes})
		}
		next.Next++
		if v.Stop {
			next.Next = complete
			break
		}
	}
	batch.Move(r.cursor(), at, next)
	if err := r.store.Commit(ctx, &batch); err != nil {
		return false, err
	}
	return next.Next >= complete, nil
}

// Vertex is a recorded vertex.
type Vertex struct {
	ID        ids.ID
	ParentIDs []ids.ID
	Height    uint64
	// Index is the place in the order of acceptance, Accepted when the node that was
	// asked accepted it.
	Index    uint64
	Accepted time.Time
	TxIDs    []ids.ID
	// Size is in bytes.
	Size int
}

// At returns at most limit vertices of a height in the order of their index, or
// against it, those after a position (nil: from the first on), and the position of
// the next page, nil if there is none. Errors are ErrIncomplete, ErrPosition, or the
// store's.
func (r *Record) At(ctx context.Context, height uint64, ascending bool, limit int, after []byte) (page []Vertex, next []byte, err error) {
	at, err := store.ReadCursor(ctx, r.store, r.cursor())
	if err != nil {
		return nil, nil, err
	}
	if at.Next < complete {
		return nil, nil, ErrIncomplete
	}
	if after != nil && len(after) != keySize {
		return nil, nil, ErrPosition
	}
	var lo, hi []byte
	direction := store.Descending
	switch {
	case ascending && after != nil:
		direction, lo = store.Ascending, store.After(after)
	case ascending:
		direction = store.Ascending
	case after != nil:
		hi = after
	}
	rows, err := r.store.Scan(ctx, store.FamilyVertex, r.partition(height), lo, hi, direction, limit+1)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].K
	}
	for _, row := range rows {
		v, err := decode(height, row)
		if err != nil {
			return nil, nil, err
		}
		page = append(page, v)
	}
	return page, next, nil
}

func (r *Record) partition(height uint64) []byte {
	p := binary.BigEndian.AppendUint32(nil, r.networkID)
	return binary.BigEndian.AppendUint64(p, height)
}

const keySize = 8 + ids.IDLen

func key(index uint64, id ids.ID) []byte {
	return append(binary.BigEndian.AppendUint64(nil, index), id[:]...)
}

// rowVersion begins every value.
const rowVersion = 1

// encode writes time, size, parents and transactions.
func encode(v *xchain.Vertex) []byte {
	b := []byte{rowVersion}
	b = binary.AppendVarint(b, v.Accepted.Unix())
	b = binary.AppendUvarint(b, uint64(v.Size))
	for _, list := range [][]ids.ID{v.ParentIDs, v.TxIDs} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, id := range list {
			b = append(b, id[:]...)
		}
	}
	return b
}

func decode(height uint64, row store.Row) (Vertex, error) {
	bad := fmt.Errorf("%w: vertex at height %d", store.ErrCorrupt, height)
	if len(row.K) != keySize || len(row.V) == 0 || row.V[0] != rowVersion {
		return Vertex{}, bad
	}
	v := Vertex{Height: height, Index: binary.BigEndian.Uint64(row.K), ID: ids.ID(row.K[8:])}
	b := row.V[1:]
	accepted, n := binary.Varint(b)
	if n <= 0 {
		return Vertex{}, bad
	}
	b = b[n:]
	v.Accepted = time.Unix(accepted, 0).UTC()
	size, n := binary.Uvarint(b)
	if n <= 0 {
		return Vertex{}, bad
	}
	b = b[n:]
	v.Size = int(size)
	for _, list := range []*[]ids.ID{&v.ParentIDs, &v.TxIDs} {
		count, n := binary.Uvarint(b)
		if n <= 0 || count > uint64(len(b)-n)/ids.IDLen {
			return Vertex{}, bad
		}
		b = b[n:]
		for range count {
			*list = append(*list, ids.ID(b[:ids.IDLen]))
			b = b[ids.IDLen:]
		}
	}
	return v, nil
}
