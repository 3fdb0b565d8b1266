package vertices

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/avalanche/vertex"

	"quorate/internal/chain/xchain"
	"quorate/internal/index"
	"quorate/internal/node"
	"quorate/internal/store"
)

// dag is a node's index of vertices.
type dag struct {
	all   [][]byte
	fails int // calls before one works
	most  int // of a range
}

func (d *dag) Vertices(_ context.Context, start uint64, n int) ([]node.Container, error) {
	if d.fails > 0 {
		d.fails--
		return nil, errors.New("away")
	}
	var found []node.Container
	for i := start; i < uint64(len(d.all)) && len(found) < min(n, d.most); i++ {
		found = append(found, node.Container{Index: i, Bytes: d.all[i], Accepted: time.Unix(int64(1000+i), 0)})
	}
	return found, nil
}

// newDAG makes vertices of which each third shares a height with the one before,
// and one that ends them.
func newDAG(t *testing.T, n int) (*dag, []*xchain.Vertex) {
	d := &dag{most: 7}
	var want []*xchain.Vertex
	parents := []ids.ID{{1}}
	height := uint64(1)
	for i := range n {
		v, err := vertex.Build(ids.ID{'X'}, height, parents, [][]byte{{byte(i)}, {byte(i), 1}})
		require.NoError(t, err)
		d.all = append(d.all, v.Bytes())
		if i%3 != 0 {
			height++
			parents = []ids.ID{v.ID()}
		}
	}
	stop, err := vertex.BuildStopVertex(ids.ID{'X'}, height, parents)
	require.NoError(t, err)
	d.all = append(d.all, stop.Bytes())
	for i, b := range d.all {
		v, err := xchain.ParseVertex(b, uint64(i), time.Unix(int64(1000+i), 0).UTC())
		require.NoError(t, err)
		want = append(want, v)
	}
	return d, want
}

func TestEveryVertexIsRecordedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, want := newDAG(t, 50)
		s := store.NewMemory()
		r := New(s, 5)
		_, _, err := r.At(t.Context(), 1, true, 10, nil)
		require.ErrorIs(t, err, ErrIncomplete)
		d.fails = 20
		// Interrupted after each range.
		for range 4 {
			_, _ = r.fill(t.Context(), d, slog.New(slog.DiscardHandler))
		}
		require.NoError(t, New(s, 5).Run(t.Context(), d, slog.New(slog.DiscardHandler)))
		byHeight := make(map[uint64][]*xchain.Vertex)
		for _, v := range want {
			byHeight[v.Height] = append(byHeight[v.Height], v)
		}
		several := false
		for height, vertices := range byHeight {
			several = several || len(vertices) > 1
			for _, ascending := range []bool{true, false} {
				var got []Vertex
				var after []byte
				for {
					page, next, err := r.At(t.Context(), height, ascending, 1, after)
					require.NoError(t, err)
					got = append(got, page...)
					if next == nil {
						break
					}
					after = next
				}
				require.Len(t, got, len(vertices))
				for i, v := range vertices {
					at := i
					if !ascending {
						at = len(vertices) - 1 - i
					}
					require.Equal(t, Vertex{ID: v.ID, ParentIDs: v.ParentIDs, Height: v.Height, Index: v.Index, Accepted: v.Accepted, TxIDs: v.TxIDs, Size: v.Size}, got[at])
				}
			}
		}
		require.True(t, several, "no height has several vertices")
		none, next, err := r.At(t.Context(), 1<<40, true, 10, nil)
		require.NoError(t, err)
		require.Empty(t, none)
		require.Nil(t, next)
		_, _, err = r.At(t.Context(), 1, true, 10, []byte("nonsense"))
		require.ErrorIs(t, err, ErrPosition)
		// Other networks have records of their own.
		_, _, err = New(s, 1).At(t.Context(), 1, true, 10, nil)
		require.ErrorIs(t, err, ErrIncomplete)
	})
}

func TestChainThatAlwaysHadBlocks(t *testing.T) {
	r := New(store.NewMemory(), 12345)
	require.NoError(t, r.Run(t.Context(), &dag{}, slog.New(slog.DiscardHandler)))
	page, _, err := r.At(t.Context(), 0, false, 10, nil)
	require.NoError(t, err)
	require.Empty(t, page)
}

func TestUnreadableVertexEndsTheRecord(t *testing.T) {
	r := New(store.NewMemory(), 5)
	err := r.Run(t.Context(), &dag{all: [][]byte{{1, 2, 3}}, most: 5}, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, xchain.ErrVertex)
	require.Contains(t, r.Trouble(), "vertex 0")
}

// TestDamagedVertexIsFetchedAgain makes a record again from what is kept, of which some
// is damaged.
func TestDamagedVertexIsFetchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, want := newDAG(t, 30)
		log := slog.New(slog.DiscardHandler)
		s := store.NewMemory()
		now := func() time.Time { return time.Unix(1, 0) } // what is fetched again is kept from then on
		r := New(s, 5)
		r.Keep, r.Now = true, now
		require.NoError(t, r.Run(t.Context(), d, log))
		right, err := store.DumpHash(t.Context(), s)
		require.NoError(t, err)

		var rows []store.Record
		for row, err := range store.Rows(t.Context(), s, store.FamilyContainer) {
			require.NoError(t, err)
			rows = append(rows, row)
		}
		require.Len(t, rows, len(want))
		at, err := store.ReadCursor(t.Context(), s, r.cursor())
		require.NoError(t, err)
		var b store.Batch
		b.Put(store.FamilyContainer, rows[0].PK, nil)
		b.Put(store.FamilyContainer, rows[5].PK, []byte{0xff})
		b.Put(store.FamilyContainer, rows[9].PK, rows[9].V[:len(rows[9].V)/2])
		b.Delete(store.FamilyContainer, rows[20].PK)
		b.Move(r.cursor(), at, store.Cursor{Epoch: at.Epoch})
		require.NoError(t, s.Commit(t.Context(), &b))
		require.NoError(t, store.Clear(t.Context(), s, store.FamilyVertex))

		var said bytes.Buffer
		d.fails = 4 // the node is away at first
		r = New(s, 5)
		r.Keep, r.Now = true, now
		require.NoError(t, r.Run(t.Context(), d, slog.New(slog.NewTextHandler(&said, nil))))
		require.Empty(t, r.Trouble())
		for _, place := range []string{"index=0 ", "index=5 ", "index=9 "} {
			require.Equal(t, 1, strings.Count(said.String(), place), "%s in:\n%s", place, said.String())
		}
		again, err := store.DumpHash(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, right, again, "the record is another than before")
	})
}

// TestRecordsOfBeforeBeginAnew upgrades a store with the beginning of a record that an
// older version made.
func TestRecordsOfBeforeBeginAnew(t *testing.T) {
	d, want := newDAG(t, 30)
	log := slog.New(slog.DiscardHandler)
	s := store.NewMemory()
	r := New(s, 5)
	done, err := r.fill(t.Context(), d, log)
	require.NoError(t, err)
	require.False(t, done)
	older := Form()
	older.Version = 1
	require.NoError(t, index.Upgrade(t.Context(), s, log, older))
	require.NoError(t, index.Upgrade(t.Context(), s, log, Form()))
	at, err := store.ReadCursor(t.Context(), s, r.cursor())
	require.NoError(t, err)
	require.Zero(t, at.Next)
	rows, err := s.Walk(t.Context(), store.FamilyVertex, nil, 1)
	require.NoError(t, err)
	require.Empty(t, rows)
	require.NoError(t, New(s, 5).Run(t.Context(), d, log))
	rows, err = s.Walk(t.Context(), store.FamilyVertex, nil, 1000)
	require.NoError(t, err)
	require.Len(t, rows, len(want))
}

func FuzzDecode(f *testing.F) {
	v := &xchain.Vertex{ParentIDs: []ids.ID{{1}}, TxIDs: []ids.ID{{2}, {3}}, Size: 7, Accepted: time.Unix(5, 0)}
	f.Add(key(1, ids.ID{1}), encode(v))
	f.Fuzz(func(t *testing.T, k, b []byte) {
		_, err := decode(1, store.Row{K: k, V: b})
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
