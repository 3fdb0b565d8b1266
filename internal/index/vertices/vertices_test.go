package vertices

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/snow/engine/avalanche/vertex"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/store"
)

var (
	xChainID = ids.ID{'X'}
	cortina  = time.Unix(1_682_434_800, 0).UTC()
)

// dag is a random graph of vertices. A transaction of it is the IDs of those that it has
// to come after, and a number.
type dag struct {
	stop     ids.ID
	vertices map[ids.ID]*xchain.Vertex
	bytes    map[ids.ID][]byte
	txs      map[ids.ID][]byte
}

func newDAG(t *testing.T, seed uint64, n int) *dag {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	d := &dag{vertices: make(map[ids.ID]*xchain.Vertex), bytes: make(map[ids.ID][]byte), txs: make(map[ids.ID][]byte)}
	var all []*xchain.Vertex
	var made [][]byte
	for i := range n {
		var parents []ids.ID
		height := uint64(0)
		recent := all[max(0, len(all)-6):]
		for _, at := range rng.Perm(len(recent))[:min(len(recent), 1+rng.IntN(3))] {
			parents = append(parents, recent[at].ID)
			height = max(height, recent[at].Height+1)
		}
		var txs [][]byte
		for range 1 + rng.IntN(3) {
			// What it depends on need not be in an ancestor of the vertex.
			var tx []byte
			for range rng.IntN(3) {
				if len(made) > 0 {
					id := hashing.ComputeHash256Array(made[max(0, len(made)-1-rng.IntN(12))])
					tx = append(tx, id[:]...)
				}
			}
			tx = append(tx, byte(i), byte(i>>8), byte(len(txs)))
			made, txs = append(made, tx), append(txs, tx)
		}
		if again := made[rng.IntN(len(made))]; rng.IntN(4) == 0 && !slices.ContainsFunc(txs, func(tx []byte) bool { return bytes.Equal(tx, again) }) {
			txs = append(txs, again)
		}
		v, err := vertex.Build(xChainID, height, parents, txs)
		require.NoError(t, err)
		all = append(all, d.add(t, v.Bytes()))
	}
	parents := make(map[ids.ID]bool)
	for _, v := range all {
		for _, id := range v.ParentIDs {
			parents[id] = true
		}
	}
	var edge []ids.ID
	height := uint64(0)
	for _, v := range all {
		if !parents[v.ID] {
			edge = append(edge, v.ID)
			height = max(height, v.Height+1)
		}
	}
	stop, err := vertex.BuildStopVertex(xChainID, height, edge)
	require.NoError(t, err)
	d.stop = d.add(t, stop.Bytes()).ID
	return d
}

func (d *dag) add(t *testing.T, b []byte) *xchain.Vertex {
	t.Helper()
	v, err := xchain.ParseVertex(b)
	require.NoError(t, err)
	if len(v.ParentIDs) == 0 {
		v.ParentIDs = nil // as rows have it
	}
	d.vertices[v.ID], d.bytes[v.ID] = v, b
	for i, id := range v.TxIDs {
		d.txs[id] = v.Txs[i]
	}
	return v
}

func dependencies(tx []byte) (all []ids.ID, err error) {
	for ; len(tx) >= ids.IDLen; tx = tx[ids.IDLen:] {
		if id := ids.ID(tx[:ids.IDLen]); !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all, nil
}

// order are the vertices as an index must have them.
func (d *dag) order() (vertices []*xchain.Vertex) {
	for _, v := range d.vertices {
		vertices = append(vertices, v)
	}
	slices.SortFunc(vertices, func(a, b *xchain.Vertex) int {
		if a.Height != b.Height {
			return int(a.Height) - int(b.Height)
		}
		return a.ID.Compare(b.ID)
	})
	return vertices
}

// peers are nodes that have the vertices.
type peers struct {
	d     *dag
	nodes []ids.NodeID
	// most is how many vertices an answer has.
	most int
	// treat returns what a node answers in place of the right thing.
	treat func(ctx context.Context, nodeID ids.NodeID, id ids.ID, right [][]byte) ([][]byte, error)

	mu    sync.Mutex
	asked map[ids.NodeID]int
}

func newPeers(d *dag, n, most int) *peers {
	p := &peers{d: d, most: most, asked: make(map[ids.NodeID]int)}
	for i := range n {
		p.nodes = append(p.nodes, ids.NodeID{byte(i + 1)})
	}
	return p
}

// count returns how often a node was asked.
func (p *peers) count(nodeID ids.NodeID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[nodeID]
}

func (p *peers) ConnectedNodes() []ids.NodeID {
	all := slices.Clone(p.nodes)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (p *peers) Ancestors(ctx context.Context, nodeID ids.NodeID, chainID, id ids.ID, engine p2p.EngineType) ([][]byte, error) {
	if chainID != xChainID || engine != p2p.EngineType_ENGINE_TYPE_DAG {
		return nil, errors.New("a node drops this")
	}
	p.mu.Lock()
	p.asked[nodeID]++
	p.mu.Unlock()
	var right [][]byte
	queue, seen := []ids.ID{id}, map[ids.ID]bool{id: true}
	for len(queue) > 0 && len(right) < p.most {
		v := p.d.vertices[queue[0]]
		queue = queue[1:]
		right = append(right, p.d.bytes[v.ID])
		for _, parent := range v.ParentIDs {
			if !seen[parent] {
				seen[parent] = true
				queue = append(queue, parent)
			}
		}
	}
	if p.treat != nil {
		return p.treat(ctx, nodeID, id, right)
	}
	return right, nil
}

func newRecord(d *dag, p Peers, s store.Store) *Index {
	return New(Options{
		Store: s, NetworkID: 5, ChainID: xChainID, Dependencies: dependencies, Peers: p,
		Begin: func(context.Context) (index.XChainBegin, error) {
			if d == nil {
				return index.XChainBegin{Linear: true}, nil
			}
			return index.XChainBegin{StopVertexID: d.stop, BlockID: ids.ID{'b'}, Time: cortina}, nil
		},
		Now: func() time.Time { return cortina.Add(3 * 365 * 24 * time.Hour) },
	})
}

// rowsOf are all rows of a store.
func rowsOf(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	rows := make(map[string]string)
	for _, family := range store.Families() {
		for row, err := range store.Rows(t.Context(), s, family) {
			require.NoError(t, err)
			rows[fmt.Sprintf("%s %x/%x", family, row.P, row.K)] = fmt.Sprintf("%x", row.V)
		}
	}
	return rows
}

// check compares an index with the graph.
func check(t *testing.T, d *dag, r *Index) {
	t.Helper()
	vertices := d.order()
	count, err := r.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, len(vertices), count)
	seen := make(map[uint64]bool)
	place := make(map[ids.ID]int) // of vertices
	for i, v := range vertices {
		place[v.ID] = i
		if seen[v.Height] {
			continue
		}
		seen[v.Height] = true
		for _, ascending := range []bool{true, false} {
			var want []Vertex
			for j, one := range vertices {
				if one.Height == v.Height {
					want = append(want, Vertex{ID: one.ID, ParentIDs: one.ParentIDs, Height: one.Height, Index: uint64(j), TxIDs: one.TxIDs, Size: one.Size})
				}
			}
			if !ascending {
				slices.Reverse(want)
			}
			var got []Vertex
			var after []byte
			for {
				page, next, err := r.At(t.Context(), v.Height, ascending, 2, after)
				require.NoError(t, err)
				if got = append(got, page...); next == nil {
					break
				}
				after = next
			}
			require.Equal(t, want, got)
		}
	}
	checkTxs(t, d, r, vertices)
	chain := r.chain()
	for i, v := range vertices {
		c, err := chain.Get(t.Context(), r.o.Store, uint64(i))
		require.NoError(t, err)
		require.Equal(t, v.ID, c.ID)
		require.Equal(t, cortina.Unix(), c.Time.Unix(), "vertex %d has the time of the first block, however late it is indexed", i)
	}
	for row, err := range store.Rows(t.Context(), r.o.Store, store.FamilyVertexFetched) {
		require.NoError(t, err)
		t.Fatalf("what was fetched is still there: %x/%x", row.P, row.K)
	}
}

// checkTxs compares the order of transactions with the rule: the first free one in the
// order of vertices, where what waited comes as soon as it is free.
func checkTxs(t *testing.T, d *dag, r *Index, vertices []*xchain.Vertex) {
	t.Helper()
	n, err := r.TxCount(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, len(d.txs), n)
	var got []ids.ID
	for uint64(len(got)) < n {
		some, err := r.Txs(t.Context(), uint64(len(got)), 7)
		require.NoError(t, err)
		require.NotEmpty(t, some)
		for _, tx := range some {
			require.Equal(t, d.txs[tx.ID], tx.Bytes)
			got = append(got, tx.ID)
		}
	}
	at := make(map[ids.ID]int)
	for i, id := range got {
		require.NotContains(t, at, id, "twice")
		at[id] = i
	}
	first := make(map[ids.ID]int) // where a transaction is first, in the order of vertices
	for _, v := range vertices {
		for _, id := range v.TxIDs {
			if _, ok := first[id]; !ok {
				first[id] = len(first)
			}
		}
	}
	// free is when the last of all that a transaction has to come after is there.
	var free func(id ids.ID) int
	memo := make(map[ids.ID]int)
	free = func(id ids.ID) int {
		if known, ok := memo[id]; ok {
			return known
		}
		when := first[id]
		after, _ := dependencies(d.txs[id])
		for _, one := range after {
			when = max(when, free(one))
		}
		memo[id] = when
		return when
	}
	for i, id := range got {
		after, _ := dependencies(d.txs[id])
		for _, one := range after {
			require.Less(t, at[one], i, "comes before what it consumes")
		}
		if i > 0 {
			require.LessOrEqual(t, free(got[i-1]), free(id), "at place %d", i)
		}
	}
}

func TestOrderFollowsFromTheVertices(t *testing.T) {
	delayed := false
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			d := newDAG(t, seed, 150)
			s := store.NewMemory()
			r := newRecord(d, newPeers(d, 4, 9), s)
			_, _, err := r.At(t.Context(), 1, true, 10, nil)
			require.ErrorIs(t, err, ErrIncomplete)
			_, err = r.TxCount(t.Context())
			require.ErrorIs(t, err, index.ErrVerticesMissing)
			require.NoError(t, r.Run(t.Context()))
			require.Empty(t, r.Trouble())
			check(t, d, r)

			// Other nodes, with other limits, give the same rows.
			other := store.NewMemory()
			require.NoError(t, newRecord(d, newPeers(d, 1, 1+int(seed)), other).Run(t.Context()))
			require.Equal(t, rowsOf(t, s), rowsOf(t, other))

			vertices := d.order()
			at := make(map[ids.ID]bool)
			for _, v := range vertices {
				for i, id := range v.TxIDs {
					after, _ := dependencies(v.Txs[i])
					for _, one := range after {
						delayed = delayed || !at[one]
					}
					at[id] = true
				}
			}
		})
	}
	require.True(t, delayed, "no transaction had to wait for one in a later vertex")
}

// dying is a store whose process ends with a commit, before it is written or after.
type dying struct {
	store.Store
	left    int
	written bool
}

func (s *dying) Commit(ctx context.Context, b *store.Batch) error {
	if s.left--; s.left < 0 {
		if s.written && s.left == -1 {
			if err := s.Store.Commit(ctx, b); err != nil {
				return err
			}
		}
		return fmt.Errorf("killed: %w", store.ErrClosed)
	}
	return s.Store.Commit(ctx, b)
}

func TestKilledAgainAndAgain(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			d := newDAG(t, 100+seed, 700)
			whole := store.NewMemory()
			require.NoError(t, newRecord(d, newPeers(d, 3, 40), whole).Run(t.Context()))
			for _, lives := range []int{1, 2, 5, 17} {
				s := store.NewMemory()
				deaths := 0
				for ; ; deaths++ {
					// The longer it takes, the longer a life, so that it ends.
					err := newRecord(d, newPeers(d, 3, 40), &dying{Store: s, left: lives + deaths/4, written: deaths%2 == 0}).Run(t.Context())
					if err == nil {
						break
					}
					require.ErrorIs(t, err, store.ErrClosed)
				}
				require.Positive(t, deaths)
				require.Equal(t, rowsOf(t, whole), rowsOf(t, s))
			}
		})
	}
}

// TestHostileNodes has nodes that lie in every way, stay silent, or fail: one honest node is enough,
// and the index is the same.
func TestHostileNodes(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			d, foreign := newDAG(t, 200+seed, 300), newDAG(t, 900+seed, 50)
			whole := store.NewMemory()
			require.NoError(t, newRecord(d, newPeers(d, 1, 2000), whole).Run(t.Context()))
			p := newPeers(d, 9, 30)
			honest := p.nodes[8]
			p.treat = func(ctx context.Context, nodeID ids.NodeID, id ids.ID, right [][]byte) ([][]byte, error) {
				switch nodeID[0] {
				case 1: // silent
					<-ctx.Done()
					return nil, ctx.Err()
				case 2:
					return nil, errors.New("connection lost")
				case 3:
					return nil, nil
				case 4:
					return [][]byte{[]byte("garbage")}, nil
				case 5: // another vertex of the same graph
					return [][]byte{d.bytes[d.vertices[id].ParentIDs[0]]}, nil
				case 6: // of another graph, after the right one
					return [][]byte{right[0], foreign.bytes[foreign.stop]}, nil
				case 7: // a changed byte in the middle
					changed := slices.Clone(right)
					changed[len(changed)/2] = append(slices.Clone(changed[len(changed)/2]), 0)
					return changed, nil
				case 8: // the same again and again
					return [][]byte{right[0], right[0], right[0]}, nil
				}
				return right, nil
			}
			s := store.NewMemory()
			r := newRecord(d, p, s)
			require.NoError(t, r.Run(t.Context()))
			check(t, d, r)
			require.Equal(t, rowsOf(t, whole), rowsOf(t, s))
			for _, nodeID := range p.nodes[:5] {
				require.Less(t, p.count(nodeID), 8, "node %d lied or failed and was asked on", nodeID[0])
			}
			require.Greater(t, p.count(honest), p.count(p.nodes[0]))
		})
	}
}

// TestNoNodeAnswers: the status says why indexing waits, and indexing continues once a node answers.
func TestNoNodeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDAG(t, 1, 50)
		p := newPeers(d, 1, 10)
		var mu sync.Mutex
		away := true
		p.treat = func(ctx context.Context, _ ids.NodeID, _ ids.ID, right [][]byte) ([][]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			if away {
				return nil, errors.New("away")
			}
			return right, nil
		}
		r := newRecord(d, p, store.NewMemory())
		done := make(chan error, 1)
		go func() { done <- r.Run(t.Context()) }()
		<-time.After(5 * time.Minute) // of synctest's clock
		require.Contains(t, r.Trouble(), errNoPeers.Error())
		require.Less(t, p.count(p.nodes[0]), 10)
		mu.Lock()
		away = false
		mu.Unlock()
		require.NoError(t, <-done)
		require.Empty(t, r.Trouble())
		check(t, d, r)
	})
}

// TestAnOlderIndexIsEnough rebuilds the index from the vertices that an earlier one stored, in any
// order, and requests only damaged ones from nodes.
func TestAnOlderIndexIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDAG(t, 3, 400)
		s := store.NewMemory()
		r := newRecord(d, newPeers(d, 1, 100), s)
		require.NoError(t, r.Run(t.Context()))
		want := rowsOf(t, s)
		again := func(p Peers) error {
			var batch store.Batch
			at, err := store.ReadCursor(t.Context(), s, r.cursor)
			require.NoError(t, err)
			batch.Move(r.cursor, at, store.Cursor{Epoch: at.Epoch})
			batch.Delete(store.FamilyIndexed, store.PK{P: []byte(r.cursor)})
			require.NoError(t, s.Commit(t.Context(), &batch))
			for _, family := range Form().Families {
				require.NoError(t, store.Clear(t.Context(), s, family, "", store.Cursor{}))
			}
			return newRecord(d, p, s).Run(t.Context())
		}
		require.NoError(t, again(newPeers(d, 0, 0)))
		require.Equal(t, want, rowsOf(t, s))

		for row, err := range store.Rows(t.Context(), s, store.FamilyContainer) {
			require.NoError(t, err)
			var batch store.Batch
			batch.Put(store.FamilyContainer, row.PK, append(slices.Clone(row.V[:len(row.V)-1]), row.V[len(row.V)-1]^1))
			require.NoError(t, s.Commit(t.Context(), &batch))
			break
		}
		p := newPeers(d, 1, 1)
		require.NoError(t, again(p))
		require.Equal(t, 1, p.count(p.nodes[0]))
		require.Equal(t, want, rowsOf(t, s))
	})
}

func TestChainThatAlwaysHadBlocks(t *testing.T) {
	r := newRecord(nil, nil, store.NewMemory())
	require.NoError(t, r.Run(t.Context()))
	page, _, err := r.At(t.Context(), 0, false, 10, nil)
	require.NoError(t, err)
	require.Empty(t, page)
	n, err := r.TxCount(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	needed, err := r.Await(t.Context())
	require.NoError(t, err)
	require.False(t, needed)
}

func TestPositionsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDAG(t, 1, 20)
		s := store.NewMemory()
		r := newRecord(d, newPeers(d, 1, 100), s)
		needed, err := r.Await(t.Context())
		require.NoError(t, err)
		require.True(t, needed)
		require.NoError(t, r.Run(t.Context()))
		require.NoError(t, r.Complete(t.Context()))
		_, _, err = r.At(t.Context(), 1, true, 10, []byte("nonsense"))
		require.ErrorIs(t, err, index.ErrPosition)
		none, next, err := r.At(t.Context(), 1<<40, true, 10, nil)
		require.NoError(t, err)
		require.Empty(t, none)
		require.Nil(t, next)
		// Other networks have indexes of their own.
		other := New(Options{Store: s, NetworkID: 1, ChainID: xChainID, Begin: r.o.Begin, Dependencies: dependencies})
		_, _, err = other.At(t.Context(), 1, true, 10, nil)
		require.ErrorIs(t, err, ErrIncomplete)
	})
}

// TestWhatNoVertexHas stops the index: a transaction consumes something that does not exist.
func TestWhatNoVertexHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDAG(t, 1, 5)
		lost := ids.ID{9, 9}
		v, err := vertex.Build(xChainID, 50, []ids.ID{d.stop}, [][]byte{lost[:]})
		require.NoError(t, err)
		d.stop = d.add(t, v.Bytes()).ID
		r := newRecord(d, newPeers(d, 1, 100), store.NewMemory())
		require.ErrorIs(t, r.Run(t.Context()), xchain.ErrTransaction)
		require.Contains(t, r.Trouble(), lost.String())
	})
}

// Each vertex is found by its ID, and the latest are in the order of their indexes.
func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDAG(t, 3, 150)
		r := newRecord(d, newPeers(d, 4, 9), store.NewMemory())
		_, err := r.Vertex(t.Context(), d.stop)
		require.ErrorIs(t, err, ErrIncomplete)
		_, _, err = r.Latest(t.Context(), 1, nil)
		require.ErrorIs(t, err, ErrIncomplete)
		require.NoError(t, r.Run(t.Context()))
		var want []Vertex
		for i, v := range d.order() {
			at, _, err := r.At(t.Context(), v.Height, true, len(d.vertices), nil)
			require.NoError(t, err)
			n := slices.IndexFunc(at, func(one Vertex) bool { return one.ID == v.ID })
			require.Equal(t, uint64(i), at[n].Index)
			want = append(want, at[n])
			got, err := r.Vertex(t.Context(), v.ID)
			require.NoError(t, err)
			require.ElementsMatch(t, at[n].ParentIDs, got.ParentIDs)
			got.ParentIDs = at[n].ParentIDs // nil or empty
			require.Equal(t, at[n], *got)
		}
		slices.Reverse(want)
		for _, limit := range []int{1, 2, 64, len(want), len(want) + 1} {
			var got []Vertex
			var below *uint64
			for more := true; more; {
				var page []Vertex
				page, more, err = r.Latest(t.Context(), limit, below)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				got = append(got, page...)
				below = &page[len(page)-1].Index
			}
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, want[i].ID, got[i].ID)
			}
		}
		got, err := r.Vertex(t.Context(), ids.ID{1})
		require.NoError(t, err)
		require.Nil(t, got)
	})
	r := newRecord(nil, nil, store.NewMemory())
	require.NoError(t, r.Run(t.Context()))
	page, more, err := r.Latest(t.Context(), 10, nil)
	require.NoError(t, err)
	require.False(t, more)
	require.Empty(t, page)
}
