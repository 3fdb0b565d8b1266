// Package vertices indexes what the X-Chain accepted before it was linearised (Cortina). It fetches the vertices from
// validators, from the last one, the stop vertex, to its ancestors. The ID of a vertex is the hash of its bytes, so the
// validators need not be trusted. Then it sorts vertices and transactions. The order depends only on the vertices, so all
// indexes have the same.
//
// Vertices are ordered by height and ID. A transaction has the place of the first vertex that contains it, but follows all
// transactions whose outputs it consumes.
//
// There are no new vertices, so a complete index stays complete.
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
	"github.com/ava-labs/avalanchego/proto/pb/p2p"

	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/retry"
	"quorate/internal/store"
)

var (
	// ErrIncomplete means that vertices are missing or not sorted yet.
	ErrIncomplete = errors.New("not all vertices are indexed")
)

// Peers are nodes of the network. *p2p.Network implements it.
type Peers interface {
	// ConnectedNodes returns the nodes that accept requests now.
	ConnectedNodes() []ids.NodeID
	// Ancestors returns what a node sends as a container and its ancestors, unverified.
	Ancestors(ctx context.Context, nodeID ids.NodeID, chainID, containerID ids.ID, engine p2p.EngineType) ([][]byte, error)
}

// Options configures an Index. All fields but Peers, Now and Log are required.
type Options struct {
	Store     store.Store
	NetworkID uint32
	// ChainID is the X-Chain's.
	ChainID ids.ID
	// Begin returns the beginning of the chain's blocks.
	Begin func(ctx context.Context) (index.XChainBegin, error)
	// Dependencies returns the transactions that must precede a transaction.
	Dependencies func(tx []byte) ([]ids.ID, error)
	// Peers supply the vertices. It may be nil for an Index that does not Run.
	Peers Peers
	// Now returns the time at which a vertex is stored; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Index indexes the vertices of one network. It is safe for concurrent use.
type Index struct {
	o      Options
	cursor string
	log    *slog.Logger
	// trouble is why the vertices are not complete, nil if unknown.
	trouble atomic.Pointer[string]
	// totals caches the totals of a complete index, which do not change.
	totals atomic.Pointer[totals]
}

// New returns an index, which may be in the store already.
func New(o Options) *Index {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Index{o: o, cursor: fmt.Sprintf("%s%d", cursorPrefix, o.NetworkID), log: o.Log}
}

// Trouble returns why the vertices are not complete, with their number so far. It is empty if they are complete or were not
// requested.
func (r *Index) Trouble() string {
	if text := r.trouble.Load(); text != nil {
		return *text
	}
	return ""
}

func (r *Index) troubled(format string, args ...any) {
	text := "pre-Cortina vertices: " + fmt.Sprintf(format, args...)
	r.trouble.Store(&text)
}

const cursorPrefix = "vertices/"

// Form returns the format of the rows. Versions 1 and 2 had the order of the node that the vertices came from.
func Form() index.Form {
	return index.Form{
		Name: "vertices", Version: 3,
		Families: []store.Family{store.FamilyVertex, store.FamilyVertexTx, store.FamilyVertexFetched},
		Cursor:   func(name string) bool { return strings.HasPrefix(name, cursorPrefix) },
	}
}

// The cursor counts the vertices while they are fetched. It is at complete when they are sorted, and at cleared when the
// rows that sorting needed are deleted.
const (
	complete = 1 << 62
	cleared  = 1 << 63
)

// Run fetches and sorts vertices until all are sorted or ctx ends. After an interruption it continues with the vertices
// that are stored. It returns store.ErrFenced if another process took over, store.ErrClosed, or an error about vertices that
// cannot be decoded. It retries after other errors.
func (r *Index) Run(ctx context.Context) error {
	err := retry.Pauses{First: time.Second, Longest: time.Minute}.Do(ctx, func() error {
		err := r.run(ctx)
		switch {
		case err == nil:
			r.trouble.Store(nil)
			return nil
		case ctx.Err() == nil:
			r.troubled("%v", err)
		}
		if errors.Is(err, xchain.ErrVertex) || errors.Is(err, xchain.ErrTransaction) || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrClosed) {
			return retry.Final(fmt.Errorf("indexing vertices: %w", err))
		}
		return err
	}, func(err error, pause time.Duration) {
		r.log.Info("X-Chain vertices cannot be indexed at the moment", slog.Duration("retryIn", pause), slog.Any("error", err))
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // Run was asked to end
	}
	return err
}

func (r *Index) run(ctx context.Context) error {
	begin, err := r.o.Begin(ctx)
	if err != nil {
		return err
	}
	at, err := store.ReadCursor(ctx, r.o.Store, r.cursor)
	if err != nil {
		return err
	}
	if begin.Linear && at.Next < complete {
		return r.finish(ctx, at, totals{}, new(store.Batch))
	}
	if at.Next < complete {
		if at, err = r.fetch(ctx, begin.StopVertexID, at); err != nil {
			return err
		}
		if err = r.sort(ctx, begin, at); err != nil {
			return err
		}
		if at, err = store.ReadCursor(ctx, r.o.Store, r.cursor); err != nil {
			return err
		}
	}
	if at.Next < cleared {
		return r.clear(ctx, at)
	}
	return nil
}

// totals are the numbers of vertices and transactions in a complete index.
type totals struct{ vertices, txs uint64 }

const totalsVersion = 1

func (t totals) bytes() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{totalsVersion}, t.vertices), t.txs)
}

func parseTotals(v []byte) (t totals, ok bool) {
	if len(v) != 1+2*8 || v[0] != totalsVersion {
		return t, false
	}
	return totals{vertices: binary.BigEndian.Uint64(v[1:]), txs: binary.BigEndian.Uint64(v[9:])}, true
}

// finish marks the index as complete, in a batch that has its last rows.
func (r *Index) finish(ctx context.Context, at store.Cursor, all totals, batch *store.Batch) error {
	batch.Put(store.FamilyIndexed, store.PK{P: []byte(r.cursor)}, all.bytes())
	next := uint64(complete)
	if all.vertices == 0 {
		next = cleared
	}
	batch.Move(r.cursor, at, store.Cursor{Next: next, Epoch: at.Epoch})
	return r.o.Store.Commit(ctx, batch)
}

// counts returns the totals. The error is ErrIncomplete while the index is not complete.
func (r *Index) counts(ctx context.Context) (totals, error) {
	if known := r.totals.Load(); known != nil {
		return *known, nil
	}
	at, err := store.ReadCursor(ctx, r.o.Store, r.cursor)
	if err != nil {
		return totals{}, err
	}
	if at.Next < complete {
		return totals{}, fmt.Errorf("%w: %d are fetched", ErrIncomplete, at.Next)
	}
	values, err := r.o.Store.Get(ctx, store.FamilyIndexed, []store.PK{{P: []byte(r.cursor)}})
	if err != nil {
		return totals{}, err
	}
	all, ok := parseTotals(values[0])
	if !ok {
		return totals{}, fmt.Errorf("%w: number of vertices", store.ErrCorrupt)
	}
	r.totals.Store(&all)
	return all, nil
}

// Await reports whether vertices must be fetched. It returns false if the chain has none or all are stored. It retries until
// the node and the store respond or ctx ends.
func (r *Index) Await(ctx context.Context) (needed bool, err error) {
	for {
		_, err := r.counts(ctx)
		if err == nil {
			return false, nil
		}
		if begin, beginErr := r.o.Begin(ctx); beginErr == nil && errors.Is(err, ErrIncomplete) {
			return !begin.Linear, nil
		}
		if err := pause(ctx); err != nil {
			return false, err
		}
	}
}

// Complete waits until the vertices are complete, also if another process fetches them, or ctx ends.
func (r *Index) Complete(ctx context.Context) error {
	for {
		if _, err := r.counts(ctx); err == nil {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits before the store is read again for progress of another process.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}

// Count returns the number of vertices, or index.ErrVerticesMissing until they are complete.
func (r *Index) Count(ctx context.Context) (uint64, error) {
	all, err := r.counts(ctx)
	return all.vertices, missing(err)
}

// TxCount implements index.PreCortinaTxs.
func (r *Index) TxCount(ctx context.Context) (uint64, error) {
	all, err := r.counts(ctx)
	return all.txs, missing(err)
}

// missing adds index.ErrVerticesMissing to ErrIncomplete.
func missing(err error) error {
	if errors.Is(err, ErrIncomplete) {
		return fmt.Errorf("%w: %w", index.ErrVerticesMissing, err)
	}
	return err
}

// Vertex is an indexed vertex. Vertices have no time.
type Vertex struct {
	ID        ids.ID
	ParentIDs []ids.ID
	Height    uint64
	// Index is the vertex's number in the order of all vertices.
	Index uint64
	TxIDs []ids.ID
	// Size is in bytes.
	Size int
}

// At returns at most limit vertices of a height, ordered by index, the smallest first if ascending is set. The page begins
// after a position, nil for the first page. next is the position of the next page, nil if there is none. Errors are
// ErrIncomplete, index.ErrPosition, or come from the store.
func (r *Index) At(ctx context.Context, height uint64, ascending bool, limit int, after []byte) (page []Vertex, next []byte, err error) {
	if _, err := r.counts(ctx); err != nil {
		return nil, nil, err
	}
	if after != nil && len(after) != keySize {
		return nil, nil, index.ErrPosition
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
	rows, err := r.o.Store.Scan(ctx, store.FamilyVertex, r.partition(height), lo, hi, direction, limit+1)
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

func (r *Index) partition(height uint64) []byte {
	p := binary.BigEndian.AppendUint32(nil, r.o.NetworkID)
	return binary.BigEndian.AppendUint64(p, height)
}

const keySize = 8 + ids.IDLen

func key(index uint64, id ids.ID) []byte {
	return append(binary.BigEndian.AppendUint64(nil, index), id[:]...)
}

// rowVersion begins every value.
const rowVersion = 2

// encode writes size, parents and transactions.
func encode(v *xchain.Vertex) []byte {
	b := []byte{rowVersion}
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
