// Package storetest is the test suite for implementations of store.Store: the rules of the interface one by one, random
// histories compared with the in-memory store, and the bounded families built on top.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// Engine opens stores for the suite.
type Engine struct {
	// Place returns a function that opens the store of one empty place. The suite closes a store before it opens the
	// same place again.
	Place func(t testing.TB) (open func() store.Store)
	// Persistent reports whether a place keeps its rows while it is closed.
	Persistent bool
}

// Run runs the suite.
func Run(t *testing.T, engine Engine) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Engine)
	}{
		{"fresh", testFresh},
		{"rows", testRows},
		{"get orders", testGetOrders},
		{"families apart", testFamiliesApart},
		{"order in a batch", testOrderInBatch},
		{"scan", testScan},
		{"floor", testFloor},
		{"walk", testWalk},
		{"cursors", testCursors},
		{"race for a cursor", testCursorRace},
		{"limits", testLimits},
		{"big values", testBigValues},
		{"ownership", testOwnership},
		{"view", testView},
		{"scans", testScans},
		{"readers during commits", testConcurrentReaders},
		{"context", testContext},
		{"close", testClose},
		{"histories", testHistories},
		{"bounded", testBounded},
		{"bounded: replacing", testBoundedReplace},
		{"bounded: lowered", testBoundedLowered},
		{"bounded: history", testBoundedHistory},
		{"bounded: two at once", testBoundedTwo},
		{"log", testLog},
		{"log: bounded", testLogIsBounded},
		{"log: several writers", testLogWriters},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, engine) })
	}
	if engine.Persistent {
		t.Run("reopen", func(t *testing.T) { testReopen(t, engine) })
	}
}

// fresh opens an empty store and closes it when the test ends.
func fresh(t *testing.T, engine Engine) store.Store {
	t.Helper()
	s := engine.Place(t)()
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Errorf("closing the store: got %v, want nil", err)
		}
	})
	return s
}

func pk(p, k string) store.PK { return store.PK{P: []byte(p), K: []byte(k)} }

// put commits rows given as p, k, v, p, k, v...
func put(t testing.TB, s store.Store, parts ...string) {
	t.Helper()
	var b store.Batch
	for i := 0; i < len(parts); i += 3 {
		b.Put(store.FamilyMessage, pk(parts[i], parts[i+1]), []byte(parts[i+2]))
	}
	require.NoError(t, s.Commit(t.Context(), &b))
}

// get returns the value of a row of the message family, or "absent".
func get(t testing.TB, r store.Reader, p, k string) string {
	t.Helper()
	values, err := r.Get(t.Context(), store.FamilyMessage, []store.PK{pk(p, k)})
	require.NoError(t, err)
	require.Len(t, values, 1)
	if values[0] == nil {
		return "absent"
	}
	return string(values[0])
}

// awkward lists key parts that expose encoding errors: empty, prefixes of one another, and the bytes at both ends.
var awkward = []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x01", "a\x00\xff", "a\x01", "a\xff", "ab", "b", "\xff", "\xff\x00", "\xff\xff"}

// bounds returns awkward and nil, the absence of a bound.
func bounds() [][]byte {
	all := [][]byte{nil}
	for _, b := range awkward {
		all = append(all, []byte(b))
	}
	return all
}

func testFresh(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	require.Equal(t, "absent", get(t, s, "", ""))
	values, err := s.Get(t.Context(), store.FamilyMessage, nil)
	require.NoError(t, err)
	require.Empty(t, values)
	for _, dir := range []store.Direction{store.Ascending, store.Descending} {
		rows, err := s.Scan(t.Context(), store.FamilyMessage, nil, nil, nil, dir, 10)
		require.NoError(t, err)
		require.Empty(t, rows)
	}
	rows, err := s.Floor(t.Context(), store.FamilyMessage, nil, []store.Range{{}})
	require.NoError(t, err)
	require.Equal(t, []store.Row{{}}, rows)
	cursor, err := store.ReadCursor(t.Context(), s, "x")
	require.NoError(t, err)
	require.Zero(t, cursor)
	require.Equal(t, hash(t, store.NewMemory()), hash(t, s), "dump hash of an empty store")
	require.NotEmpty(t, s.Stats().Engine)
	require.NoError(t, s.Commit(t.Context(), &store.Batch{}))
}

func testRows(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	var b store.Batch
	for _, p := range awkward {
		for _, k := range awkward {
			b.Put(store.FamilyMessage, pk(p, k), fmt.Appendf(nil, "%x/%x", p, k))
			b.Put(store.FamilySignature, pk(p, k), nil)
		}
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	var keys []store.PK
	for _, p := range awkward {
		for _, k := range awkward {
			keys = append(keys, pk(p, k))
		}
	}
	keys = append(keys, pk("absent", ""), pk("a", "absent"), keys[3])
	values, err := s.Get(t.Context(), store.FamilyMessage, keys)
	require.NoError(t, err)
	for i, key := range keys {
		want := fmt.Appendf(nil, "%x/%x", key.P, key.K)
		if i == len(keys)-3 || i == len(keys)-2 {
			want = nil
		}
		require.Equal(t, want, values[i], "value of %x/%x", key.P, key.K)
	}
	values, err = s.Get(t.Context(), store.FamilySignature, keys[:2])
	require.NoError(t, err)
	require.Equal(t, [][]byte{{}, {}}, values, "empty values")
	require.Equal(t, "absent", get(t, s, "\x00", "absent"))

	b.Reset()
	b.Delete(store.FamilyMessage, pk("a", ""))
	b.Delete(store.FamilyMessage, pk("never", "there"))
	b.Put(store.FamilyMessage, pk("a\x00", ""), []byte("new"))
	require.NoError(t, s.Commit(t.Context(), &b))
	require.Equal(t, "absent", get(t, s, "a", ""))
	require.Equal(t, "new", get(t, s, "a\x00", ""))
	require.Equal(t, "61/00", get(t, s, "a", "\x00"))
	require.Equal(t, "/", get(t, s, "", ""))
}

// testGetOrders reads keys of two partitions in each order, among them keys without a row.
func testGetOrders(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	rows := map[string]string{"p/": "0", "p/b": "1", "p/d": "2", "p/e": "3", "p\x00/c": "4", "q/b": "5"}
	for at, v := range rows {
		p, k, _ := strings.Cut(at, "/")
		put(t, s, p, k, v)
	}
	var b store.Batch
	b.Put(store.FamilySignature, pk("p", "c"), nil)
	require.NoError(t, s.Commit(t.Context(), &b))
	check := func(keys ...store.PK) {
		values, err := s.Get(t.Context(), store.FamilyMessage, keys)
		require.NoError(t, err)
		for i, key := range keys {
			var want []byte
			if v, ok := rows[string(key.P)+"/"+string(key.K)]; ok {
				want = []byte(v)
			}
			require.Equal(t, want, values[i], "%q in %q", key, keys)
		}
	}
	var keys []store.PK
	for _, k := range []string{"", "a", "b", "c", "d", "e", "f"} {
		keys = append(keys, pk("p", k), pk("q", k))
	}
	for _, first := range keys {
		for _, second := range keys {
			for _, third := range keys {
				check(first, second, third)
			}
		}
	}
}

// testFamiliesApart uses the same partition in every family, so that a read beyond a family's end finds rows that look
// right.
func testFamiliesApart(t *testing.T, engine Engine) {
	for _, p := range []string{"", "p", "\xff\xff"} {
		s := fresh(t, engine)
		var families []store.Family
		for _, family := range store.Families() {
			if family != store.FamilyMeta && family != store.FamilyCursor {
				families = append(families, family)
			}
		}
		var b store.Batch
		for _, family := range families {
			for _, k := range []string{"1", "2"} {
				b.Put(family, pk(p, k), []byte(family.String()+k))
			}
		}
		require.NoError(t, s.Commit(t.Context(), &b))
		for _, family := range families {
			one, two := family.String()+"1", family.String()+"2"
			for _, hi := range [][]byte{nil, []byte("\xff")} {
				rows, err := s.Scan(t.Context(), family, []byte(p), nil, hi, store.Ascending, 10)
				require.NoError(t, err)
				require.Equal(t, []store.Row{{K: []byte("1"), V: []byte(one)}, {K: []byte("2"), V: []byte(two)}}, rows)
				rows, err = s.Scan(t.Context(), family, []byte(p), nil, hi, store.Descending, 10)
				require.NoError(t, err)
				require.Equal(t, []store.Row{{K: []byte("2"), V: []byte(two)}, {K: []byte("1"), V: []byte(one)}}, rows)
			}
			rows, err := s.Floor(t.Context(), family, []byte(p), []store.Range{{}, {Hi: []byte("0")}, {Lo: []byte("3")}})
			require.NoError(t, err)
			require.Equal(t, []store.Row{{K: []byte("2"), V: []byte(two)}, {}, {}}, rows)
			records, err := s.Walk(t.Context(), family, nil, 10)
			require.NoError(t, err)
			require.Equal(t, []store.Entry{{PK: pk(p, "1"), V: []byte(one)}, {PK: pk(p, "2"), V: []byte(two)}}, records)
			last := pk(p, "2")
			records, err = s.Walk(t.Context(), family, &last, 10)
			require.NoError(t, err)
			require.Empty(t, records)
		}
	}
}

func testOrderInBatch(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	var b store.Batch
	b.Put(store.FamilyMessage, pk("p", "1"), []byte("old"))
	b.Put(store.FamilyMessage, pk("p", "2"), []byte("x"))
	b.Delete(store.FamilyMessage, pk("p", "3"))
	b.Put(store.FamilyMessage, pk("p", "1"), []byte("new"))
	b.Delete(store.FamilyMessage, pk("p", "2"))
	b.Put(store.FamilyMessage, pk("p", "3"), []byte("y"))
	require.Equal(t, 6, b.Len())
	require.NoError(t, s.Commit(t.Context(), &b))
	require.Equal(t, []string{"new", "absent", "y"}, []string{get(t, s, "p", "1"), get(t, s, "p", "2"), get(t, s, "p", "3")})

	// Consecutive operations on the same row count once.
	b.Reset()
	size := b.Bytes()
	b.Put(store.FamilyMessage, pk("p", "1"), []byte("longer"))
	b.Put(store.FamilySignature, pk("p", "1"), []byte("other"))
	b.Put(store.FamilyMessage, pk("p", "1"), []byte("z"))
	b.Put(store.FamilyMessage, pk("p1", ""), []byte("not the same"))
	b.Delete(store.FamilyMessage, pk("p", "2"))
	b.Put(store.FamilyMessage, pk("p", "2"), []byte("there"))
	b.Put(store.FamilyMessage, pk("p", "3"), []byte("there"))
	b.Delete(store.FamilyMessage, pk("p", "3"))
	require.Equal(t, 5, b.Len())
	require.Equal(t, size+len("p1z")+len("p1other")+len("p1not the same")+len("p2there")+len("p3"), b.Bytes())
	require.NoError(t, s.Commit(t.Context(), &b))
	require.Equal(t, []string{"z", "there", "absent"}, []string{get(t, s, "p", "1"), get(t, s, "p", "2"), get(t, s, "p", "3")})
	b.Reset()
	b.Delete(store.FamilyMessage, pk("p", "1"))
	require.Equal(t, 1, b.Len())
	require.Equal(t, len("p1"), b.Bytes())

	// A row that the batch deletes may be added as new afterwards, and deleted again.
	b.Reset()
	b.Delete(store.FamilyMessage, pk("p", "1"))
	b.Add(store.FamilyMessage, pk("p", "1"), []byte("anew"))
	b.Put(store.FamilyMessage, pk("p", "2"), []byte("between"))
	b.Delete(store.FamilyMessage, pk("p", "1"))
	require.NoError(t, s.Commit(t.Context(), &b))
	require.Equal(t, []string{"absent", "between"}, []string{get(t, s, "p", "1"), get(t, s, "p", "2")})
}

// populate puts every second awkward key into every awkward partition, and
// returns the keys of a partition in order.
func populate(t *testing.T, s store.Store) []string {
	t.Helper()
	var keys []string
	for i, k := range awkward {
		if i%3 != 1 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var b store.Batch
	for _, p := range awkward {
		for _, k := range keys {
			b.Put(store.FamilyMessage, pk(p, k), []byte(p+"|"+k))
		}
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	return keys
}

func testScan(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	keys := populate(t, s)
	for _, p := range append(slices.Clone(awkward), "absent") {
		for _, lo := range bounds() {
			for _, hi := range bounds() {
				var want []string
				for _, k := range keys {
					if p != "absent" && k >= string(lo) && (hi == nil || k < string(hi)) {
						want = append(want, k)
					}
				}
				for _, dir := range []store.Direction{store.Ascending, store.Descending} {
					if dir == store.Descending {
						slices.Reverse(want)
					}
					for _, limit := range []int{-1, 0, 1, 3, 1000} {
						rows, err := s.Scan(t.Context(), store.FamilyMessage, []byte(p), lo, hi, dir, limit)
						if err != nil {
							t.Fatal(err)
						}
						var got []string
						for _, row := range rows {
							got = append(got, string(row.K))
							if want := p + "|" + string(row.K); string(row.V) != want {
								t.Fatalf("value of %q in %q: got %q, want %q", row.K, p, row.V, want)
							}
						}
						if want := want[:max(0, min(limit, len(want)))]; !slices.Equal(got, want) {
							t.Fatalf("scan of %q from %q to %q, direction %d, limit %d: got %q, want %q", p, lo, hi, dir, limit, got, want)
						}
					}
				}
			}
		}
	}
}

func testFloor(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	keys := populate(t, s)
	for _, p := range append(slices.Clone(awkward), "absent") {
		var ranges []store.Range
		var want []store.Row
		for _, lo := range bounds() {
			for _, hi := range bounds() {
				ranges = append(ranges, store.Range{Lo: lo, Hi: hi})
				var row store.Row
				for _, k := range keys {
					if p != "absent" && k >= string(lo) && (hi == nil || k <= string(hi)) {
						row = store.Row{K: []byte(k), V: []byte(p + "|" + k)}
					}
				}
				want = append(want, row)
			}
		}
		got, err := s.Floor(t.Context(), store.FamilyMessage, []byte(p), ranges)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			if !bytes.Equal(got[i].K, want[i].K) || !bytes.Equal(got[i].V, want[i].V) || (got[i].V == nil) != (want[i].V == nil) {
				t.Fatalf("floor of %q in %q to %q: got %q, want %q", p, ranges[i].Lo, ranges[i].Hi, got[i], want[i])
			}
		}
	}
}

func testWalk(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	keys := populate(t, s)
	partitions := slices.Sorted(slices.Values(awkward))
	var want []string
	for _, p := range partitions {
		for _, k := range keys {
			want = append(want, fmt.Sprintf("%q/%q", p, k))
		}
	}
	for _, limit := range []int{1, 7, 10_000} {
		var got []string
		var after *store.PK
		for {
			page, err := s.Walk(t.Context(), store.FamilyMessage, after, limit)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(t, len(page), limit)
			for _, r := range page {
				got = append(got, fmt.Sprintf("%q/%q", r.P, r.K))
				require.Equal(t, string(r.P)+"|"+string(r.K), string(r.V))
			}
			after = &page[len(page)-1].PK
		}
		require.Equal(t, want, got, "walk in pages of %d", limit)
	}
	page, err := s.Walk(t.Context(), store.FamilyMessage, nil, 0)
	require.NoError(t, err)
	require.Empty(t, page)
	between := pk("a\x00", "zz")
	page, err = s.Walk(t.Context(), store.FamilyMessage, &between, 1)
	require.NoError(t, err)
	require.Len(t, page, 1)
	if got := page[0].PK; string(got.P) <= "a\x00" && string(got.K) <= "zz" {
		t.Errorf("walk after a key that is not there: got %q/%q, want one that is greater", got.P, got.K)
	}
}

func cursorAt(t testing.TB, r store.Reader, name string) store.Cursor {
	t.Helper()
	c, err := store.ReadCursor(t.Context(), r, name)
	require.NoError(t, err)
	return c
}

func testCursors(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	move := func(name string, from, to store.Cursor, row string) error {
		var b store.Batch
		b.Put(store.FamilyMessage, pk(row, ""), []byte(row))
		b.Move(name, from, to)
		return s.Commit(t.Context(), &b)
	}
	require.NoError(t, move("c", store.Cursor{}, store.Cursor{Next: 5}, "first"))
	require.Equal(t, store.Cursor{Next: 5}, cursorAt(t, s, "c"))
	require.Equal(t, "first", get(t, s, "first", ""))

	for name, from := range map[string]store.Cursor{
		"too low":     {},
		"too high":    {Next: 6},
		"other epoch": {Next: 5, Epoch: 1},
	} {
		err := move("c", from, store.Cursor{Next: 9}, name)
		require.ErrorIs(t, err, store.ErrFenced, name)
		require.Equal(t, "absent", get(t, s, name, ""), "row of a fenced batch")
	}
	require.Equal(t, store.Cursor{Next: 5}, cursorAt(t, s, "c"))

	// Another writer takes over; the first one fails at its next batch.
	require.NoError(t, move("c", store.Cursor{Next: 5}, store.Cursor{Next: 5, Epoch: 1}, "second"))
	require.ErrorIs(t, move("c", store.Cursor{Next: 5}, store.Cursor{Next: 6}, "late"), store.ErrFenced)
	require.NoError(t, move("c", store.Cursor{Next: 5, Epoch: 1}, store.Cursor{Next: 6, Epoch: 1}, "third"))

	var both store.Batch
	both.Move("c", store.Cursor{Next: 6, Epoch: 1}, store.Cursor{Next: 7, Epoch: 1})
	both.Move("d", store.Cursor{Next: 1}, store.Cursor{Next: 2})
	require.ErrorIs(t, s.Commit(t.Context(), &both), store.ErrFenced)
	require.Equal(t, store.Cursor{Next: 6, Epoch: 1}, cursorAt(t, s, "c"), "first of two cursors, the second of which is fenced")
	both.Reset()
	both.Move("c", store.Cursor{Next: 6, Epoch: 1}, store.Cursor{Next: 7, Epoch: 1})
	both.Move("d", store.Cursor{}, store.Cursor{Next: 1<<64 - 1, Epoch: 1<<64 - 1})
	both.NoSync = true
	require.NoError(t, s.Commit(t.Context(), &both))
	require.Equal(t, store.Cursor{Next: 1<<64 - 1, Epoch: 1<<64 - 1}, cursorAt(t, s, "d"))

	var broken store.Batch
	broken.Put(store.FamilyCursor, pk("e", ""), []byte("short"))
	require.NoError(t, s.Commit(t.Context(), &broken))
	_, err := store.ReadCursor(t.Context(), s, "e")
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorIs(t, move("e", store.Cursor{}, store.Cursor{Next: 1}, "x"), store.ErrCorrupt)
}

func testCursorRace(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	const writers, steps = 4, 25
	var wg sync.WaitGroup
	won := make([]int, writers)
	for w := range writers {
		wg.Go(func() {
			for {
				at, err := store.ReadCursor(t.Context(), s, "race")
				if err != nil {
					t.Errorf("reading the cursor: got %v, want nil", err)
					return
				}
				if at.Next >= steps {
					return
				}
				var b store.Batch
				b.Put(store.FamilyMessage, pk("race", fmt.Sprintf("%03d/%d", at.Next, w)), nil)
				b.Move("race", at, store.Cursor{Next: at.Next + 1})
				switch err := s.Commit(t.Context(), &b); {
				case err == nil:
					won[w]++
				case !errors.Is(err, store.ErrFenced):
					t.Errorf("committing: got %v, want nil or ErrFenced", err)
					return
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range won {
		total += n
	}
	rows, err := s.Scan(t.Context(), store.FamilyMessage, []byte("race"), nil, nil, store.Ascending, 1000)
	require.NoError(t, err)
	require.Equal(t, []int{steps, steps}, []int{total, len(rows)}, "commits that won, rows written")
	for i, row := range rows {
		require.Equal(t, fmt.Sprintf("%03d", i), string(row.K[:3]))
	}
}

func testLimits(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	unknown := store.Family(250)
	long := make([]byte, store.MaxKey)
	for name, fill := range map[string]func(*store.Batch){
		"unknown family": func(b *store.Batch) { b.Put(unknown, pk("p", ""), nil) },
		"family zero":    func(b *store.Batch) { b.Delete(0, pk("p", "")) },
		"long key":       func(b *store.Batch) { b.Put(store.FamilyMessage, store.PK{P: long, K: []byte{1}}, nil) },
		"long value":     func(b *store.Batch) { b.Put(store.FamilyMessage, pk("p", ""), make([]byte, store.MaxValue+1)) },
		"nameless":       func(b *store.Batch) { b.Move("", store.Cursor{}, store.Cursor{Next: 1}) },
		"long name":      func(b *store.Batch) { b.Move(string(long)+"x", store.Cursor{}, store.Cursor{Next: 1}) },
		"moved twice": func(b *store.Batch) {
			b.Move("c", store.Cursor{}, store.Cursor{Next: 1})
			b.Move("c", store.Cursor{Next: 1}, store.Cursor{Next: 2})
		},
	} {
		var b store.Batch
		b.Put(store.FamilyMessage, pk("fine", ""), nil)
		fill(&b)
		require.ErrorIs(t, s.Commit(t.Context(), &b), store.ErrInvalid, name)
		require.Equal(t, "absent", get(t, s, "fine", ""), name)
	}
	for name, err := range reads(t.Context(), s, unknown) {
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	for _, fillByte := range []byte{0, 0xff} {
		longest := bytes.Repeat([]byte{fillByte}, store.MaxKey)
		for _, split := range []int{0, 1, store.MaxKey / 2, store.MaxKey} {
			var b store.Batch
			key := store.PK{P: longest[:split], K: longest[split:]}
			b.Put(store.FamilyMessage, key, []byte{fillByte, byte(split)})
			require.NoError(t, s.Commit(t.Context(), &b))
			values, err := s.Get(t.Context(), store.FamilyMessage, []store.PK{key})
			require.NoError(t, err)
			require.Equal(t, [][]byte{{fillByte, byte(split)}}, values)
		}
	}
}

// reads calls every read method of a reader.
func reads(ctx context.Context, r store.Reader, family store.Family) map[string]error {
	_, get := r.Get(ctx, family, []store.PK{{}})
	_, gets := r.Get(ctx, family, []store.PK{{}, {}})
	_, scan := r.Scan(ctx, family, nil, nil, nil, store.Ascending, 1)
	_, floor := r.Floor(ctx, family, nil, []store.Range{{}})
	_, walk := r.Walk(ctx, family, nil, 1)
	return map[string]error{"get": get, "get of two": gets, "scan": scan, "floor": floor, "walk": walk}
}

func testBigValues(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	big := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 3), 0xff, 0}, 1<<20) }
	var b store.Batch
	for i := range 6 {
		b.Put(store.FamilyMessage, pk("big", string(rune('a'+i))), big(i))
	}
	require.NoError(t, s.Commit(t.Context(), &b))
	rows, err := s.Scan(t.Context(), store.FamilyMessage, []byte("big"), nil, nil, store.Descending, 10)
	require.NoError(t, err)
	require.Len(t, rows, 6)
	for i, row := range rows {
		require.True(t, bytes.Equal(big(5-i), row.V), "value %d of 4 MiB", 5-i)
	}
}

func testOwnership(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	key, value := pk("p", "k"), []byte("value")
	var b store.Batch
	b.Put(store.FamilyMessage, key, value)
	require.NoError(t, s.Commit(t.Context(), &b))
	copy(value, "XXXXX")
	key.P[0], key.K[0] = 'X', 'X'
	b.Reset()
	require.Zero(t, b.Len()+b.Bytes())
	require.Equal(t, "value", get(t, s, "p", "k"), "after the caller changed its slices")
	spoil := func(slices ...[]byte) {
		for _, s := range slices {
			for i := range s {
				s[i] = '!'
			}
			_ = append(s, '!')
		}
	}
	values, err := s.Get(t.Context(), store.FamilyMessage, []store.PK{pk("p", "k")})
	require.NoError(t, err)
	spoil(values...)
	values, err = s.Get(t.Context(), store.FamilyMessage, []store.PK{pk("p", "k"), pk("p", "k")})
	require.NoError(t, err)
	spoil(values[0])
	require.Equal(t, "value", string(values[1]), "one of two values after the other was changed")
	spoil(values[1])
	rows, err := s.Scan(t.Context(), store.FamilyMessage, []byte("p"), nil, nil, store.Ascending, 1)
	require.NoError(t, err)
	spoil(rows[0].K, rows[0].V)
	rows, err = s.Floor(t.Context(), store.FamilyMessage, []byte("p"), []store.Range{{}})
	require.NoError(t, err)
	spoil(rows[0].K, rows[0].V)
	records, err := s.Walk(t.Context(), store.FamilyMessage, nil, 1)
	require.NoError(t, err)
	spoil(records[0].P, records[0].K, records[0].V)
	require.Equal(t, "value", get(t, s, "p", "k"), "after the caller changed what it was given")
}

func testView(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	put(t, s, "p", "1", "a", "p", "2", "b")
	before := hash(t, s)
	view, err := s.View(t.Context())
	require.NoError(t, err)
	put(t, s, "p", "1", "changed", "p", "3", "c")
	var b store.Batch
	b.Delete(store.FamilyMessage, pk("p", "2"))
	b.Move("c", store.Cursor{}, store.Cursor{Next: 1})
	require.NoError(t, s.Commit(t.Context(), &b))

	require.Equal(t, []string{"a", "b", "absent"}, []string{get(t, view, "p", "1"), get(t, view, "p", "2"), get(t, view, "p", "3")})
	require.Equal(t, before, hash(t, view), "dump hash of the view")
	require.NotEqual(t, before, hash(t, s), "dump hash of the store")
	rows, err := view.Scan(t.Context(), store.FamilyMessage, []byte("p"), nil, nil, store.Descending, 9)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	floor, err := view.Floor(t.Context(), store.FamilyMessage, []byte("p"), []store.Range{{}})
	require.NoError(t, err)
	require.Equal(t, "b", string(floor[0].V))
	require.Zero(t, cursorAt(t, view, "c"))

	require.NoError(t, view.Close())
	require.NoError(t, view.Close())
	for name, err := range reads(t.Context(), view, store.FamilyMessage) {
		require.ErrorIs(t, err, store.ErrClosed, "%s of a closed view", name)
	}
	require.Equal(t, "changed", get(t, s, "p", "1"))
}

// testScans runs several scans in one call, in a view and while opening one.
func testScans(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	put(t, s, "p", "1", "a", "p", "2", "b", "q", "1", "c")
	queries := []store.Query{
		{Family: store.FamilyMessage, P: []byte("p"), Limit: 9},
		{Family: store.FamilySignature, P: []byte("p"), Limit: 9},
		{Family: store.FamilyMessage, P: []byte("q"), Limit: 0},
		{Family: store.FamilyMessage, P: []byte("p"), Lo: []byte("2"), Hi: []byte("2"), Limit: 9},
		{Family: store.FamilyMessage, P: []byte("p"), Dir: store.Descending, Limit: 1},
		{Family: store.FamilyMessage, P: []byte("q"), Hi: []byte("2"), Limit: 9},
	}
	values := func(found [][]store.Row) (all []string) {
		require.Len(t, found, len(queries))
		for _, rows := range found {
			one := ""
			for _, row := range rows {
				one += string(row.V)
			}
			all = append(all, one)
		}
		return all
	}
	before, after := []string{"ab", "", "", "", "b", "c"}, []string{"xb", "", "", "", "b", "cd"}
	view, found, err := store.ViewScans(t.Context(), s, queries...)
	require.NoError(t, err)
	require.Equal(t, before, values(found))
	put(t, s, "p", "1", "x", "q", "11", "d")
	for r, want := range map[store.Reader][]string{s: after, view: before} {
		found, err = store.Scans(t.Context(), r, queries...)
		require.NoError(t, err)
		require.Equal(t, want, values(found))
	}
	for _, r := range []store.Reader{s, view} {
		found, err = store.Scans(t.Context(), r, queries[2:4]...)
		require.NoError(t, err)
		require.Equal(t, [][]store.Row{nil, nil}, found, "nothing to look for")
		_, err = store.Scans(t.Context(), r, queries[0], store.Query{Limit: 1})
		require.ErrorIs(t, err, store.ErrInvalid)
	}
	_, _, err = store.ViewScans(t.Context(), s, store.Query{Limit: 1})
	require.ErrorIs(t, err, store.ErrInvalid)
	require.NoError(t, view.Close())
	_, err = store.Scans(t.Context(), view, queries...)
	require.ErrorIs(t, err, store.ErrClosed)
	require.NoError(t, s.Close())
	_, _, err = store.ViewScans(t.Context(), s, queries...)
	require.ErrorIs(t, err, store.ErrClosed)
}

// testConcurrentReaders commits generations of rows with the same number. A reader that sees two numbers in one call,
// or an older number than before, has seen part of a batch.
func testConcurrentReaders(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	const rows, generations = 50, 60
	commit := func(generation int) error {
		var b store.Batch
		b.NoSync = generation%8 != 0
		for i := range rows {
			b.Put(store.FamilyMessage, pk("g", fmt.Sprintf("%03d", i)), fmt.Appendf(nil, "%05d", generation))
		}
		b.Move("g", store.Cursor{Next: uint64(generation)}, store.Cursor{Next: uint64(generation) + 1})
		return s.Commit(t.Context(), &b)
	}
	require.NoError(t, commit(0))
	var keys []store.PK
	for i := range rows {
		keys = append(keys, pk("g", fmt.Sprintf("%03d", i)))
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for generation := 1; generation < generations; generation++ {
			if err := commit(generation); err != nil {
				t.Errorf("committing generation %d: got %v, want nil", generation, err)
				return
			}
		}
	})
	read := map[string]func() ([]string, error){
		"get": func() (all []string, err error) {
			values, err := s.Get(t.Context(), store.FamilyMessage, keys)
			for _, v := range values {
				all = append(all, string(v))
			}
			return all, err
		},
		"view": func() (all []string, err error) {
			view, err := s.View(t.Context())
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, view.Close()) }()
			for _, dir := range []store.Direction{store.Ascending, store.Descending} {
				page, err := view.Scan(t.Context(), store.FamilyMessage, []byte("g"), nil, nil, dir, rows)
				if err != nil {
					return nil, err
				}
				for _, row := range page {
					all = append(all, string(row.V))
				}
			}
			cursor, err := store.ReadCursor(t.Context(), view, "g")
			return append(all, fmt.Sprintf("%05d", cursor.Next-1)), err
		},
	}
	for _, dir := range []store.Direction{store.Ascending, store.Descending} {
		read[fmt.Sprintf("scan %d", dir)] = func() (all []string, err error) {
			page, err := s.Scan(t.Context(), store.FamilyMessage, []byte("g"), nil, nil, dir, rows)
			for _, row := range page {
				all = append(all, string(row.V))
			}
			return all, err
		}
	}
	for name, read := range read {
		wg.Go(func() {
			last := ""
			for stop := false; !stop; {
				select {
				case <-done:
					stop = true
				default:
				}
				all, err := read()
				if err != nil || len(all) < rows {
					t.Errorf("%s: got %d rows and error %v, want %d and nil", name, len(all), err, rows)
					return
				}
				slices.Sort(all)
				if all[0] != all[len(all)-1] || all[0] < last {
					t.Errorf("%s: got generations %s to %s after %s, want one, and none older", name, all[0], all[len(all)-1], last)
					return
				}
				last = all[0]
			}
		})
	}
	wg.Wait()
}

func testContext(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b store.Batch
	b.Put(store.FamilyMessage, pk("p", ""), nil)
	require.ErrorIs(t, s.Commit(ctx, &b), context.Canceled)
	for name, err := range reads(ctx, s, store.FamilyMessage) {
		require.ErrorIs(t, err, context.Canceled, name)
	}
	_, err := s.View(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "absent", get(t, s, "p", ""))
}

func testClose(t *testing.T, engine Engine) {
	s := fresh(t, engine)
	put(t, s, "p", "", "v")
	view, err := s.View(t.Context())
	require.NoError(t, err)

	// Calls in progress when the store closes succeed or return ErrClosed.
	var wg sync.WaitGroup
	started := make(chan struct{}, 3)
	for range 3 {
		wg.Go(func() {
			started <- struct{}{}
			for {
				var b store.Batch
				b.NoSync = true
				b.Put(store.FamilyMessage, pk("p", ""), []byte("v"))
				_, viewErr := view.Get(t.Context(), store.FamilyMessage, []store.PK{{}})
				err := s.Commit(t.Context(), &b)
				if errors.Is(err, store.ErrClosed) {
					return
				}
				if err != nil || (viewErr != nil && !errors.Is(viewErr, store.ErrClosed)) {
					t.Errorf("while closing: got %v and %v, want nil or ErrClosed", err, viewErr)
					return
				}
			}
		})
	}
	for range 3 {
		<-started
	}
	require.NoError(t, s.Close())
	wg.Wait()
	require.ErrorIs(t, s.Close(), store.ErrClosed)
	for _, r := range []store.Reader{s, view} {
		for name, err := range reads(t.Context(), r, store.FamilyMessage) {
			require.ErrorIs(t, err, store.ErrClosed, name)
		}
	}
	_, err = s.View(t.Context())
	require.ErrorIs(t, err, store.ErrClosed)
	require.NoError(t, view.Close())
	require.NotEmpty(t, s.Stats().Engine)
}

func testReopen(t *testing.T, engine Engine) {
	open := engine.Place(t)
	var want [32]byte
	for round := range 3 {
		s := open()
		if round > 0 {
			require.Equal(t, want, hash(t, s), "dump hash after reopening")
			require.Equal(t, "v", get(t, s, "a\x00", "\xff"))
		}
		put(t, s, "a\x00", "\xff", "v", "round", fmt.Sprint(round), "x")
		var b store.Batch
		b.NoSync = true
		b.Move("c", store.Cursor{Next: uint64(round)}, store.Cursor{Next: uint64(round) + 1})
		require.NoError(t, s.Commit(t.Context(), &b))
		want = hash(t, s)
		require.NoError(t, s.Close())
	}
}

func hash(t testing.TB, r store.Reader) [32]byte {
	t.Helper()
	h, err := store.DumpHash(t.Context(), r)
	require.NoError(t, err)
	return h
}
