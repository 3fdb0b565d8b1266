package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"quorate/internal/store"
)

// testHistories runs random histories on the engine and in memory. All results and dumps must be equal.
func testHistories(t *testing.T, engine Engine) {
	seeds, steps := 6, 1500
	if testing.Short() {
		seeds, steps = 2, 400
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { history(t, engine, uint64(seed), steps) })
	}
}

func history(t *testing.T, engine Engine, seed uint64, steps int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	open := engine.Place(t)
	memory, tested := store.NewMemory(), open()
	defer func() { require.NoError(t, tested.Close()) }()

	families := store.Families()
	part := func() []byte {
		if rng.IntN(4) == 0 {
			return nil
		}
		alphabet := []byte{0, 1, 'a', 0xfe, 0xff}
		b := make([]byte, rng.IntN(4))
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		return b
	}
	// Use few partitions, so that ranges and replacements hit rows.
	partitions := [][]byte{nil, {0}, {0, 1}, {0, 0xff}, {'a'}, {'a', 0}, {0xff}, part()}
	partition := func() []byte { return partitions[rng.IntN(len(partitions))] }
	family := func() store.Family {
		for {
			if f := families[rng.IntN(len(families))]; f != store.FamilyCursor && f != store.FamilyMeta {
				return f
			}
		}
	}
	key := func() store.PK { return store.PK{P: partition(), K: part()} }
	value := func() []byte {
		v := make([]byte, rng.IntN(40)*rng.IntN(40))
		for i := range v {
			v[i] = byte(rng.Uint32())
		}
		return v
	}
	cursors := []string{"x", "\x00", "long name of a cursor"}

	type reader struct{ memory, tested store.Reader }
	type view struct {
		reader
		close func()
	}
	var views []view
	both := func() reader {
		if n := rng.IntN(3 + len(views)); n >= 3 {
			return views[n-3].reader
		}
		return reader{memory, tested}
	}
	same := func(step int, want, got any, wantErr, gotErr error, what string, args ...any) {
		t.Helper()
		if wantErr != nil || gotErr != nil {
			t.Fatalf("step %d, %s: got error %v, in memory %v, want none", step, fmt.Sprintf(what, args...), gotErr, wantErr)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("step %d, %s: got %#v, want %#v", step, fmt.Sprintf(what, args...), got, want)
		}
	}
	closeViews := func() {
		for _, v := range views {
			v.close()
		}
		views = nil
	}
	defer closeViews()

	for step := range steps {
		ctx := t.Context()
		switch n := rng.IntN(100); {
		case n < 40:
			var b store.Batch
			b.NoSync = rng.IntN(8) != 0
			for range rng.IntN(12) {
				if rng.IntN(3) == 0 {
					b.Delete(family(), key())
				} else {
					b.Put(family(), key(), value())
				}
			}
			for _, name := range cursors {
				if rng.IntN(3) != 0 {
					continue
				}
				from := cursorAt(t, memory, name)
				if rng.IntN(4) == 0 {
					from.Epoch++
				}
				b.Move(name, from, store.Cursor{Next: from.Next + rng.Uint64N(3), Epoch: from.Epoch + rng.Uint64N(2)})
			}
			want, got := memory.Commit(ctx, &b), tested.Commit(ctx, &b)
			if (want == nil) != (got == nil) || errors.Is(want, store.ErrFenced) != errors.Is(got, store.ErrFenced) {
				t.Fatalf("step %d, commit: got %v, want %v", step, got, want)
			}
		case n < 50:
			f, r := family(), both()
			keys := make([]store.PK, rng.IntN(6))
			for i := range keys {
				keys[i] = key()
			}
			want, wantErr := r.memory.Get(ctx, f, keys)
			got, gotErr := r.tested.Get(ctx, f, keys)
			same(step, want, got, wantErr, gotErr, "get %s %q", f, keys)
		case n < 70:
			q := func() store.Query {
				return store.Query{Family: family(), P: partition(), Lo: part(), Hi: part(), Dir: store.Direction(rng.IntN(2)), Limit: rng.IntN(20) - 1}
			}
			r, queries := both(), []store.Query{q()}
			for rng.IntN(2) == 0 {
				queries = append(queries, q())
			}
			want, wantErr := store.Scans(ctx, r.memory, queries...)
			got, gotErr := store.Scans(ctx, r.tested, queries...)
			same(step, want, got, wantErr, gotErr, "scans %+v", queries)
		case n < 80:
			f, p, r := family(), partition(), both()
			ranges := make([]store.Range, rng.IntN(6))
			for i := range ranges {
				ranges[i] = store.Range{Lo: part(), Hi: part()}
			}
			want, wantErr := r.memory.Floor(ctx, f, p, ranges)
			got, gotErr := r.tested.Floor(ctx, f, p, ranges)
			same(step, want, got, wantErr, gotErr, "floor %s %q in %q", f, p, ranges)
		case n < 90:
			f, r, limit := family(), both(), rng.IntN(30)-1
			var after *store.PK
			if rng.IntN(3) != 0 {
				pk := key()
				after = &pk
			}
			want, wantErr := r.memory.Walk(ctx, f, after, limit)
			got, gotErr := r.tested.Walk(ctx, f, after, limit)
			same(step, want, got, wantErr, gotErr, "walk %s after %q, limit %d", f, after, limit)
		case n < 93:
			want, err := memory.View(ctx)
			require.NoError(t, err)
			got, err := tested.View(ctx)
			require.NoError(t, err)
			views = append(views, view{reader{want, got}, func() {
				require.NoError(t, want.Close())
				require.NoError(t, got.Close())
			}})
		case n < 96 && len(views) > 0:
			i := rng.IntN(len(views))
			views[i].close()
			views = append(views[:i], views[i+1:]...)
		case n < 98:
			r := both()
			same(step, hash(t, r.memory), hash(t, r.tested), nil, nil, "dump hash")
		case engine.Persistent && rng.IntN(4) == 0:
			closeViews()
			require.NoError(t, tested.Close())
			tested = open()
		}
	}
	same(steps, hash(t, memory), hash(t, tested), nil, nil, "dump hash at the end")
}
