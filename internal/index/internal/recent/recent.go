// Package recent caches the rows that a projection wrote last, at least until the store shows them.
package recent

// Map caches the latest values. It holds at least all uncommitted values, and up to about twice a limit if there are
// more. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	limit      int
	young, old map[K]V
	// youngTo and oldTo are the greatest heights in the maps.
	youngTo, oldTo uint64
}

// New returns a Map of about limit entries.
func New[K comparable, V any](limit int) *Map[K, V] {
	return &Map[K, V]{limit: limit, young: make(map[K]V), old: make(map[K]V)}
}

// Get returns the cached value of k.
func (m *Map[K, V]) Get(k K) (V, bool) {
	v, ok := m.young[k]
	if !ok {
		v, ok = m.old[k]
	}
	return v, ok
}

// Put caches a value derived from the block at a height, or from a committed row if height is 0.
func (m *Map[K, V]) Put(k K, v V, height uint64) {
	m.young[k] = v
	m.youngTo = max(m.youngTo, height)
}

// Full reports whether to call Forget.
func (m *Map[K, V]) Full() bool { return len(m.young) >= m.limit }

// Forget drops the older half if all of it is committed.
func (m *Map[K, V]) Forget(committed uint64) {
	if m.Full() && m.oldTo <= committed {
		m.old, m.oldTo = m.young, m.youngTo
		m.young, m.youngTo = make(map[K]V), 0
	}
}
