// Package bounded provides Cache, a map that is bounded by entries or by weight and evicts what is used least. It wraps otter
// with one pair of types, because the compiler takes seconds for each pair of types that otter is used with.
package bounded

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

// Options configures a Cache. Either Entries or Weight is positive.
type Options[K comparable, V any] struct {
	// Entries is the maximum number of entries.
	Entries int
	// Weight is the maximum sum of what Weigh returns.
	Weight uint64
	Weigh  func(K, V) uint32
	// Life returns how long a value is cached after it was set; nil means until there is no room.
	Life func(V) time.Duration
}

// Cache maps keys to values. It is safe for concurrent use.
type Cache[K comparable, V any] struct{ entries *otter.Cache[any, any] }

// New returns an empty Cache. It panics if the options contradict each other.
func New[K comparable, V any](o Options[K, V]) *Cache[K, V] {
	inner := &otter.Options[any, any]{MaximumSize: o.Entries, MaximumWeight: o.Weight}
	if o.Weigh != nil {
		inner.Weigher = func(k, v any) uint32 { return o.Weigh(k.(K), v.(V)) }
	}
	if o.Life != nil {
		inner.ExpiryCalculator = otter.ExpiryWritingFunc(func(e otter.Entry[any, any]) time.Duration { return o.Life(e.Value.(V)) })
	}
	return &Cache[K, V]{otter.Must(inner)}
}

// Get returns the value of a key.
func (c *Cache[K, V]) Get(k K) (value V, ok bool) {
	found, ok := c.entries.GetIfPresent(k)
	if ok {
		value = found.(V)
	}
	return value, ok
}

// Glance is Get without noting that the key is used.
func (c *Cache[K, V]) Glance(k K) (value V, ok bool) {
	found, ok := c.entries.GetEntryQuietly(k)
	if ok {
		value = found.Value.(V)
	}
	return value, ok
}

// Set sets the value of a key.
func (c *Cache[K, V]) Set(k K, v V) { c.entries.Set(k, v) }

// Load returns the values of keys, and has from return missing ones, which concurrent callers share.
func (c *Cache[K, V]) Load(ctx context.Context, keys []K, from func(context.Context, []K) (map[K]V, error)) (map[K]V, error) {
	asked := make([]any, len(keys))
	for i, k := range keys {
		asked[i] = k
	}
	found, err := c.entries.BulkGet(ctx, asked, otter.BulkLoaderFunc[any, any](func(ctx context.Context, missing []any) (map[any]any, error) {
		keys := make([]K, len(missing))
		for i, k := range missing {
			keys[i] = k.(K)
		}
		loaded, err := from(ctx, keys)
		if err != nil {
			return nil, err
		}
		values := make(map[any]any, len(loaded))
		for k, v := range loaded {
			values[k] = v
		}
		return values, nil
	}))
	values := make(map[K]V, len(found))
	for k, v := range found {
		values[k.(K)] = v.(V)
	}
	return values, err
}

// Delete removes a key.
func (c *Cache[K, V]) Delete(k K) { c.entries.Invalidate(k) }

// Clear removes all keys.
func (c *Cache[K, V]) Clear() { c.entries.InvalidateAll() }

// Len returns the number of entries, about.
func (c *Cache[K, V]) Len() int { return c.entries.EstimatedSize() }

// Weight returns the sum of the entries' weights.
func (c *Cache[K, V]) Weight() uint64 { return c.entries.WeightedSize() }

// Trim does now what the cache otherwise does soon: it drops what has no room or is too old.
func (c *Cache[K, V]) Trim() { c.entries.CleanUp() }

// Close stops the goroutine that drops old values. The Cache is not used afterwards.
func (c *Cache[K, V]) Close() { c.entries.StopAllGoroutines() }
