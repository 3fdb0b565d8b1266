package store_test

import (
	"context"
	"errors"
	"fmt"

	"quorate/internal/store"
)

// A writer commits rows together with the cursor that says how far it came, and
// learns that another one took over from it.
func Example() {
	ctx := context.Background()
	s := store.NewMemory()
	defer s.Close()

	at, _ := store.ReadCursor(ctx, s, "fuji/P")
	var b store.Batch
	b.Put(store.FamilyMessage, store.PK{P: []byte("block"), K: []byte{7}}, []byte("seven"))
	b.Move("fuji/P", at, store.Cursor{Next: 8, Epoch: at.Epoch})
	fmt.Println("first:", s.Commit(ctx, &b))
	fmt.Println("again:", errors.Is(s.Commit(ctx, &b), store.ErrFenced))

	rows, _ := s.Scan(ctx, store.FamilyMessage, []byte("block"), nil, nil, store.Descending, 100)
	fmt.Printf("%s\n", rows[0].V)
	// Output:
	// first: <nil>
	// again: true
	// seven
}

// A cache that survives restarts and never exceeds its bound.
func ExampleBounded() {
	ctx := context.Background()
	s := store.NewMemory()
	defer s.Close()

	cache, _ := store.NewBounded(ctx, s, store.FamilySignature, 1<<20)
	key := store.PK{P: []byte("message"), K: []byte("public key")}
	_ = cache.Put(ctx, store.Entry{PK: key, V: []byte("signature")})
	values, _ := cache.Get(ctx, key)
	fmt.Printf("%s\n", values[0])
	// Output: signature
}
