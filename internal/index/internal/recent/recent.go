// Package recent remembers what a tenant wrote last, for as long as the store does
// not show it, and somewhat longer.
package recent

// Map remembers what was put last: at least what a store does not show yet because it
// is not committed, and up to about twice a limit if there is more. It is not safe
// for concurrent use.
type Map[K comparable, V any] struct {
	limit      int
	young, old map[K]V
	// youngTo and oldTo are the greatest heights that the maps have something of.
	youngTo, oldTo uint64
}

// New makes a map of about limit entries.
func New[K comparable, V any](limit int) *Map[K, V] {
	return &Map[K, V]{limit: limit, young: make(map[K]V), old: make(map[K]V)}
}

// Get returns what is remembered.
func (m *Map[K, V]) Get(k K) (V, bool) {
	v, ok := m.young[k]
	if !ok {
		v, ok = m.old[k]
	}
	return v, ok
}

// Put remembers what follows from a block of a height, 0 for what is committed.
func (m *Map[K, V]) Put(k K, v V, height uint64) {
	m.young[k] = v
	m.youngTo = max(m.youngTo, height)
}

// Full reports whether it is time to Forget.
func (m *Map[K, V]) Full() bool { return len(m.young) >= m.limit }

// Forget drops the older half if all of it is committed.
func (m *Map[K, V]) Forget(committed uint64) {
	if m.Full() && m.oldTo <= committed {
		m.old, m.oldTo = m.young, m.youngTo
		m.young, m.youngTo = make(map[K]V), 0
	}
}
