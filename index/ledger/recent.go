package ledger

// recent remembers what was put last: at least what a store does not show yet
// because it is not committed, and up to about twice a limit if there is more.
type recent[K comparable, V any] struct {
	limit      int
	young, old map[K]V
	// youngTo and oldTo are the greatest heights that the maps have something of.
	youngTo, oldTo uint64
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{limit: limit, young: make(map[K]V), old: make(map[K]V)}
}

func (c *recent[K, V]) get(k K) (V, bool) {
	v, ok := c.young[k]
	if !ok {
		v, ok = c.old[k]
	}
	return v, ok
}

// put remembers what follows from a block of a height, 0 for what is committed.
func (c *recent[K, V]) put(k K, v V, height uint64) {
	c.young[k] = v
	c.youngTo = max(c.youngTo, height)
}

// full reports whether it is time to forget.
func (c *recent[K, V]) full() bool { return len(c.young) >= c.limit }

// forget drops the older half if all of it is committed.
func (c *recent[K, V]) forget(committed uint64) {
	if c.full() && c.oldTo <= committed {
		c.old, c.oldTo = c.young, c.youngTo
		c.young, c.youngTo = make(map[K]V), 0
	}
}
