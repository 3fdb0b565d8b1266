// Package memo caches immutable values that are expensive to compute. It may evict any value at any time.
package memo

import (
	"hash/maphash"
	"sync/atomic"
)

// Table is a cache with a fixed number of slots. The hash of a key selects the slot, and a new value replaces the old
// one. Its memory is bounded by the number of slots times the size of an entry, and reading takes no lock. Table is
// safe for concurrent use.
type Table[K comparable, V any] struct {
	seed   maphash.Seed // random, so that clients cannot choose colliding keys
	places []atomic.Pointer[entry[K, V]]
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// New returns a Table with room slots, but at least one.
func New[K comparable, V any](room int) *Table[K, V] {
	return &Table[K, V]{seed: maphash.MakeSeed(), places: make([]atomic.Pointer[entry[K, V]], max(room, 1))}
}

func (t *Table[K, V]) place(k K) *atomic.Pointer[entry[K, V]] {
	return &t.places[maphash.Comparable(t.seed, k)%uint64(len(t.places))]
}

// Get returns the value of k if it is still cached.
func (t *Table[K, V]) Get(k K) (v V, ok bool) {
	if e := t.place(k).Load(); e != nil && e.key == k {
		return e.value, true
	}
	return v, false
}

// Put caches a value.
func (t *Table[K, V]) Put(k K, v V) { t.place(k).Store(&entry[K, V]{k, v}) }
