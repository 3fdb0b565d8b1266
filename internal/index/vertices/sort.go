package vertices

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// pageVertices is the number of vertices that are sorted together.
const pageVertices = 256

// sorter numbers the vertices and their transactions. Its rows depend only on the vertices, so after an interruption it
// starts again and writes the same rows.
type sorter struct {
	*Index
	begin index.XChainBegin
	at    store.Cursor
	// next are the numbers of the next vertex and transaction.
	next totals
	// waiting lists delayed transactions by each transaction that must precede them, in the order in which they were found.
	// delayed has their IDs.
	waiting map[ids.ID][]*delayedTx
	delayed map[ids.ID]bool

	// batch and placed belong to the current page.
	batch  *store.Batch
	placed map[ids.ID]uint64 // places of transactions
}

// delayedTx is a transaction in a vertex that precedes some of the transactions it depends on.
type delayedTx struct {
	id       ids.ID
	vertex   uint64
	position int
	missing  int
}

// sort numbers the fetched vertices and completes the index.
func (r *Index) sort(ctx context.Context, begin index.XChainBegin, at store.Cursor) error {
	r.log.Info("putting pre-Cortina vertices in order", slog.Uint64("vertices", at.Next))
	s := &sorter{
		Index: r, begin: begin, at: at,
		waiting: make(map[ids.ID][]*delayedTx), delayed: make(map[ids.ID]bool),
	}
	err := r.eachPage(ctx, func(rows []store.Entry) error { return s.page(ctx, rows) })
	if err != nil {
		return err
	}
	if s.next.vertices != at.Next {
		return fmt.Errorf("%w: %d vertices were fetched, %d are there", store.ErrCorrupt, at.Next, s.next.vertices)
	}
	for id, all := range s.waiting {
		return fmt.Errorf("%w: transaction %s consumes outputs of %s, which no vertex has", xchain.ErrTransaction, all[0].id, id)
	}
	r.log.Info("pre-Cortina vertices are complete", slog.Uint64("vertices", s.next.vertices), slog.Uint64("transactions", s.next.txs))
	return r.finish(ctx, at, s.next, new(store.Batch))
}

// eachPage calls f for fetched vertices in the order of height and ID.
func (r *Index) eachPage(ctx context.Context, f func(rows []store.Entry) error) error {
	prefix := r.fetchedKey(rowBytes)
	after := store.PK{P: prefix}
	for {
		rows, err := r.o.Store.Walk(ctx, store.FamilyVertexFetched, &after, pageVertices)
		if err != nil {
			return fmt.Errorf("reading fetched vertices: %w", err)
		}
		for i := range rows {
			if !bytes.HasPrefix(rows[i].P, prefix) {
				rows = rows[:i]
				break
			}
		}
		if len(rows) == 0 {
			return nil
		}
		if err := f(rows); err != nil {
			return err
		}
		after = rows[len(rows)-1].PK
	}
}

// fetchedVertex reads a row of eachPage.
func fetchedVertex(one *store.Entry) (*xchain.Vertex, error) {
	v, err := xchain.ParseVertex(one.V)
	if err != nil {
		return nil, fmt.Errorf("%w: a fetched vertex: %w", store.ErrCorrupt, err)
	}
	if !bytes.Equal(one.K, row.Uint64(v.Height, v.ID[:])) {
		return nil, fmt.Errorf("%w: vertex %s is not what was fetched", store.ErrCorrupt, v.ID)
	}
	return v, nil
}

// page numbers the vertices of a page and their transactions.
func (s *sorter) page(ctx context.Context, rows []store.Entry) error {
	all := make([]*xchain.Vertex, len(rows))
	after := make(map[ids.ID][]ids.ID) // what transactions depend on
	for i := range rows {
		v, err := fetchedVertex(&rows[i])
		if err != nil {
			return err
		}
		all[i] = v
		for j, tx := range v.Txs {
			if _, ok := after[v.TxIDs[j]]; ok {
				continue
			}
			if after[v.TxIDs[j]], err = s.o.Dependencies(tx); err != nil {
				return fmt.Errorf("vertex %s: %w", v.ID, err)
			}
		}
	}
	if err := s.readPlaces(ctx, after); err != nil {
		return err
	}
	s.batch = new(store.Batch)
	for i, v := range all {
		number := s.next.vertices
		s.batch.Put(store.FamilyVertex, store.PK{P: s.partition(v.Height), K: key(number, v.ID)}, encode(v))
		chain := s.chain()
		chain.Put(s.batch, &container.Container{
			Height: number, Form: container.Accepted, ID: v.ID, Digest: v.ID, Time: s.begin.Time, Kept: s.o.Now(), Bytes: rows[i].V,
		})
		for j, id := range v.TxIDs {
			s.found(id, number, j, after[id])
		}
		s.next.vertices++
	}
	// Fail if another process writes to the index.
	s.batch.Move(s.cursor, s.at, s.at)
	if err := s.o.Store.Commit(ctx, s.batch); err != nil {
		return fmt.Errorf("putting vertices in order: %w", err)
	}
	s.troubled("%d of %d are in order", s.next.vertices, s.at.Next)
	return nil
}

// readPlaces reads the places of transactions. It ignores places at or after the next one, which an interrupted attempt
// wrote.
func (s *sorter) readPlaces(ctx context.Context, after map[ids.ID][]ids.ID) error {
	s.placed = make(map[ids.ID]uint64)
	asked := make(map[ids.ID]bool)
	var about []ids.ID
	var keys []store.PK
	ask := func(id ids.ID) {
		if !asked[id] {
			asked[id] = true
			about, keys = append(about, id), append(keys, s.placeKey(id))
		}
	}
	for id, all := range after {
		ask(id)
		for _, one := range all {
			ask(one)
		}
	}
	found, err := s.numbers(ctx, keys)
	if err != nil {
		return err
	}
	for i, place := range found {
		if place < s.next.txs {
			s.placed[about[i]] = place
		}
	}
	return nil
}

// found assigns a place to a transaction, unless it has one. A transaction that depends on others without a place is
// delayed.
func (s *sorter) found(id ids.ID, vertex uint64, position int, after []ids.ID) {
	if _, ok := s.placed[id]; ok || s.delayed[id] {
		return
	}
	tx := &delayedTx{id: id, vertex: vertex, position: position}
	for _, one := range after {
		if _, ok := s.placed[one]; !ok {
			s.waiting[one] = append(s.waiting[one], tx)
			tx.missing++
		}
	}
	if tx.missing > 0 {
		s.delayed[id] = true
		return
	}
	for free := []*delayedTx{tx}; len(free) > 0; {
		tx, free = free[0], free[1:]
		s.place(tx)
		for _, other := range s.waiting[tx.id] {
			if other.missing--; other.missing == 0 {
				delete(s.delayed, other.id)
				free = append(free, other)
			}
		}
		delete(s.waiting, tx.id)
	}
}

func (s *sorter) place(tx *delayedTx) {
	place := s.next.txs
	s.next.txs++
	s.placed[tx.id] = place
	s.batch.Put(store.FamilyVertexFetched, s.placeKey(tx.id), row.Uint64(place))
	at := s.txKey(place)
	s.batch.Put(store.FamilyVertexTx, at, binary.AppendUvarint(binary.AppendUvarint(nil, tx.vertex), uint64(tx.position)))
}

// clear deletes the rows that sorting needed.
func (r *Index) clear(ctx context.Context, at store.Cursor) error {
	err := r.eachPage(ctx, func(rows []store.Entry) error {
		var batch store.Batch
		for i := range rows {
			v, err := fetchedVertex(&rows[i])
			if err != nil {
				return err
			}
			for _, id := range v.TxIDs {
				batch.Delete(store.FamilyVertexFetched, r.placeKey(id))
			}
			batch.Delete(store.FamilyVertexFetched, r.knownKey(v.ID))
			batch.Delete(store.FamilyVertexFetched, rows[i].PK)
		}
		batch.Move(r.cursor, at, at)
		return r.o.Store.Commit(ctx, &batch)
	})
	if err != nil {
		return fmt.Errorf("clearing up after vertices: %w", err)
	}
	var batch store.Batch
	batch.Move(r.cursor, at, store.Cursor{Next: cleared, Epoch: at.Epoch})
	return r.o.Store.Commit(ctx, &batch)
}

// Txs implements index.PreCortinaTxs.
func (r *Index) Txs(ctx context.Context, start uint64, n int) ([]index.PreCortinaTx, error) {
	at := r.txKey(start)
	rows, err := r.o.Store.Scan(ctx, store.FamilyVertexTx, at.P, at.K, nil, store.Ascending, min(n, 1<<bucketBits))
	if err != nil {
		return nil, fmt.Errorf("reading pre-Cortina transactions: %w", err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%w: pre-Cortina transaction %d is not there", store.ErrCorrupt, start)
	}
	vertices := make(map[uint64]*xchain.Vertex)
	all := make([]index.PreCortinaTx, 0, len(rows))
	for i, one := range rows {
		place := start + uint64(i)
		number, size := binary.Uvarint(one.V)
		position, rest := binary.Uvarint(one.V[max(size, 0):])
		if !bytes.Equal(one.K, row.Uint64(place)) || size <= 0 || rest <= 0 {
			return nil, fmt.Errorf("%w: place of pre-Cortina transaction %d", store.ErrCorrupt, place)
		}
		if vertices[number] == nil {
			if err := r.readVertices(ctx, number, len(rows)-i, vertices); err != nil {
				return nil, err
			}
		}
		v := vertices[number]
		if position >= uint64(len(v.Txs)) {
			return nil, fmt.Errorf("%w: pre-Cortina transaction %d", store.ErrCorrupt, place)
		}
		all = append(all, index.PreCortinaTx{ID: v.TxIDs[position], Bytes: v.Txs[position]})
	}
	return all, nil
}

// readVertices reads a vertex and some that follow it.
func (r *Index) readVertices(ctx context.Context, number uint64, n int, into map[uint64]*xchain.Vertex) error {
	found, err := r.chain().Range(ctx, r.o.Store, number, min(n, pageVertices))
	if err != nil {
		return fmt.Errorf("reading pre-Cortina vertices: %w", err)
	}
	for _, c := range found {
		v, err := xchain.ParseVertex(c.Bytes)
		if err != nil || v.ID != c.ID {
			return fmt.Errorf("%w: pre-Cortina vertex %d", store.ErrCorrupt, c.Height)
		}
		into[c.Height] = v
	}
	if into[number] == nil {
		return fmt.Errorf("%w: pre-Cortina vertex %d is not there", store.ErrCorrupt, number)
	}
	return nil
}
