// Package memo remembers what costs to find out again and does not change. It forgets
// what it likes, so that whoever asks it must be able to do without.
package memo

import (
	"hash/maphash"
	"sync/atomic"
)

// Table remembers values by keys, in a fixed number of places: a value goes where its
// key's hash says, and drives out what was there. So its memory is that number times
// the size of an entry, whatever is put into it, and reading it takes no lock. Safe for
// concurrent use.
type Table[K comparable, V any] struct {
	seed   maphash.Seed // of its own, so that nobody can choose keys that meet
	places []atomic.Pointer[entry[K, V]]
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// New makes a Table with room for so many values, at least one.
func New[K comparable, V any](room int) *Table[K, V] {
	return &Table[K, V]{seed: maphash.MakeSeed(), places: make([]atomic.Pointer[entry[K, V]], max(room, 1))}
}

func (t *Table[K, V]) place(k K) *atomic.Pointer[entry[K, V]] {
	return &t.places[maphash.Comparable(t.seed, k)%uint64(len(t.places))]
}

// Get returns what was put under a key, if it is still there.
func (t *Table[K, V]) Get(k K) (v V, ok bool) {
	if e := t.place(k).Load(); e != nil && e.key == k {
		return e.value, true
	}
	return v, false
}

// Put remembers a value.
func (t *Table[K, V]) Put(k K, v V) { t.place(k).Store(&entry[K, V]{k, v}) }
