package peernode

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/database/memdb"
	"github.com/ava-labs/avalanchego/ids"
)

// countingDB counts what is done with a database.
type countingDB struct {
	database.Database
	deletes, iterators, steps int
	compacted                 [][2][]byte
	// write is called before each write.
	write func() error
}

func newCountingDB() *countingDB {
	return &countingDB{Database: memdb.New(), write: func() error { return nil }}
}

func (c *countingDB) Delete(key []byte) error {
	c.deletes++
	if err := c.write(); err != nil {
		return err
	}
	return c.Database.Delete(key)
}

func (c *countingDB) Compact(start, limit []byte) error {
	c.compacted = append(c.compacted, [2][]byte{start, limit})
	return c.Database.Compact(start, limit)
}

func (c *countingDB) NewIterator() database.Iterator { return c.NewIteratorWithStart(nil) }

func (c *countingDB) NewIteratorWithPrefix(prefix []byte) database.Iterator {
	c.iterators++
	return &countingIterator{c.Database.NewIteratorWithPrefix(prefix), c}
}

func (c *countingDB) NewIteratorWithStart(start []byte) database.Iterator {
	c.iterators++
	return &countingIterator{c.Database.NewIteratorWithStart(start), c}
}

func (c *countingDB) NewBatch() database.Batch { return &countingBatch{c.Database.NewBatch(), c} }

type countingIterator struct {
	database.Iterator
	db *countingDB
}

func (i *countingIterator) Next() bool {
	i.db.steps++
	return i.Iterator.Next()
}

type countingBatch struct {
	database.Batch
	db *countingDB
}

func (b *countingBatch) Delete(key []byte) error {
	b.db.deletes++
	return b.Batch.Delete(key)
}

func (b *countingBatch) Write() error {
	if err := b.db.write(); err != nil {
		return err
	}
	return b.Batch.Write()
}

// downloaded stores blocks, and returns a follower that has executed them.
func downloaded(t testing.TB, db database.Database, lowest, height uint64) *follower {
	t.Helper()
	f := &follower{following: following{name: "P-Chain"}, progress: &progress{}, blocks: &spool{"P-Chain", db}}
	download(t, f, lowest, height)
	return f
}

func download(t testing.TB, f *follower, lowest, height uint64) {
	t.Helper()
	blocks := make(map[uint64][]byte)
	for h := lowest; h <= height; h++ {
		blocks[h] = []byte{1}
	}
	f.descents = []*descent{{top: ids.GenerateTestID(), wanted: ids.GenerateTestID(), lowest: lowest, height: height}}
	require.NoError(t, f.blocks.put(f.descents, blocks))
}

func requireEmpty(t testing.TB, db database.Database) {
	t.Helper()
	rows := db.NewIterator()
	defer rows.Release()
	require.False(t, rows.Next(), "%q", rows.Key())
	require.NoError(t, rows.Error())
}

// TestFinishIsLinear removes blocks and four times as many. The work is proportional, and for one more block it is the same.
func TestFinishIsLinear(t *testing.T) {
	for _, n := range []int{2 * removeBatch, 8 * removeBatch} {
		db := newCountingDB()
		f := downloaded(t, db, 1, uint64(n))
		require.NoError(t, f.finish(t.Context()))
		requireEmpty(t, db.Database)
		require.Equal(t, n+1, db.deletes, "the blocks and the list of downloads")
		require.LessOrEqual(t, db.steps, 1, "nothing else is left")
		require.Len(t, db.compacted, 1)

		*db = countingDB{Database: db.Database, write: db.write}
		download(t, f, uint64(n+1), uint64(n+1))
		require.NoError(t, f.finish(t.Context()))
		requireEmpty(t, db.Database)
		require.Equal(t, 2, db.deletes)
		require.Zero(t, db.iterators)
		require.Empty(t, db.compacted)

		// Another process left the blocks, without a list of downloads.
		*db = countingDB{Database: db.Database, write: db.write}
		downloaded(t, db, 1, uint64(n))
		f = downloaded(t, db, uint64(n+1), uint64(n+1))
		require.NoError(t, f.finish(t.Context()))
		requireEmpty(t, db.Database)
		require.Equal(t, n+2, db.deletes)
		require.LessOrEqual(t, db.steps, n+1)
		require.LessOrEqual(t, db.iterators, n/removeBatch+1)
		require.Len(t, db.compacted, 1)
	}
}

// TestFinishCompacts compacts the range of many removed blocks after parts of it, and that of a few not.
func TestFinishCompacts(t *testing.T) {
	removed := func(n uint64) [][2][]byte {
		db := newCountingDB()
		require.NoError(t, (&spool{"P-Chain", db}).finish(t.Context(), []*descent{{lowest: 1, height: n}}, false))
		return db.compacted
	}
	through := func(height uint64) []byte { return append(blockKey(height), 0) }
	require.Empty(t, removed(removeBatch-1))
	require.Equal(t, [][2][]byte{{blockKey(1), through(removeBatch)}}, removed(removeBatch))
	const n = compactAfter + removeBatch + 1
	require.Equal(t, [][2][]byte{{blockKey(1), through(compactAfter)}, {blockKey(compactAfter + 1), through(n)}}, removed(n))
}

// TestFinishIsCutOff ends a process, or its context, after each write of finish. No block of an unfinished download is
// missing then. The first finish of the next process, or the next finish of this one, removes the rest.
func TestFinishIsCutOff(t *testing.T) {
	const blocks = 2*removeBatch + 1
	errKilled := errors.New("killed")
	for writes := range 4 {
		for _, killed := range []bool{false, true} {
			db := newCountingDB()
			f := downloaded(t, db, 1, blocks)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done, want := 0, context.Canceled
			if killed {
				want = errKilled
			}
			db.write = func() error {
				if done == writes {
					cancel()
					if killed {
						return errKilled
					}
				}
				done++
				return nil
			}
			require.ErrorContains(t, f.finish(ctx), want.Error())
			require.LessOrEqual(t, done, writes+1, "it went on")
			db.write = func() error { return nil }
			left, err := f.blocks.descents()
			require.NoError(t, err)
			require.Equal(t, killed && writes == 0, len(left) > 0)
			for _, d := range left {
				for height := d.lowest; height <= d.height; height++ {
					b, err := f.blocks.block(height)
					require.NoError(t, err)
					require.NotNil(t, b)
				}
			}
			if killed {
				f = &follower{blocks: f.blocks}
			}
			download(t, f, blocks+1, blocks+1)
			require.NoError(t, f.finish(t.Context()))
			requireEmpty(t, db.Database)
		}
	}
}
