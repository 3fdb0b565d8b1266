package store

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// gaps remember where partitions have nothing but deleted rows. The engine steps over
// those one by one until compactions have rid it of them, and an address that spends
// as it receives has ten thousands of them for each row that is left: what a scan has
// found empty is not walked through again.
//
// A gap is without rows in each state of the store from some moment on until a row is
// put into it. Moments are told apart by a clock that goes on whenever something
// happens here. A gap is learned only where no commit can have slipped in between: the
// partition was watched before the state came to be that was scanned, no commit is being
// applied, and none has put a row into the partition since. A commit cuts what it puts
// out of gaps before it is applied, so that a state in which a row can be seen is never
// older than the gap's end.
type gaps struct {
	// slow is how many deleted rows a scan steps over for its partition to be watched,
	// and least how many make a gap.
	slow, least uint64

	clock atomic.Uint64
	// families count the partitions watched, for most reads and rows to see at once that
	// they are not concerned.
	families [256]atomic.Int32

	mu       sync.Mutex
	applying int                 // commits; guarded by mu
	watched  map[string]*watched // by what keys of the partition begin with; guarded by mu, see begin
}

// watched is a partition; its fields are guarded by the mutex of gaps.
type watched struct {
	// since is when it came to be watched, and put when a row of it was last put and had
	// become visible.
	since, put uint64
	// known are in order and do not touch. The slice is never changed, but replaced.
	known []gap
}

// gap is where nothing is, lo <= key < hi, for states made at a moment or later.
type gap struct {
	lo, hi []byte
	from   uint64
	rows   uint64 // deleted ones, that it saves walking through
}

// Together they bound the memory: 5 MiB, if all keys are as long as they may be.
const (
	maxWatched = 512 // partitions
	maxGaps    = 32  // of a partition
	maxGapKey  = 128 // bytes

	slowScan = 1024
	leastGap = 128
)

func newGaps() *gaps {
	return &gaps{slow: slowScan, least: leastGap, watched: make(map[string]*watched)}
}

// now is the moment of a state that is made afterwards.
func (g *gaps) now() uint64 { return g.clock.Load() }

// of returns the gaps of a partition, of which those hold in a state that are not from
// after its moment, and whether the partition is watched.
func (g *gaps) of(prefix []byte) (known []gap, isWatched bool) {
	if g.families[prefix[0]].Load() == 0 {
		return nil, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.watched[string(prefix)]; w != nil {
		return w.known, true
	}
	return nil, false
}

// watch begins to watch a partition, unless a commit is under way that would not notice.
func (g *gaps) watch(prefix []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.applying > 0 || g.watched[string(prefix)] != nil || Family(prefix[0]) == FamilyCursor {
		return // a batch moves cursors without putting their rows
	}
	if len(g.watched) == maxWatched {
		for other := range g.watched { // any
			delete(g.watched, other)
			g.families[other[0]].Add(-1)
			break
		}
	}
	g.watched[string(prefix)] = &watched{since: g.clock.Add(1)}
	g.families[prefix[0]].Add(1)
}

// learn adds what a scan of a state, made at a moment, found to be empty.
func (g *gaps) learn(prefix []byte, made uint64, found []gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.watched[string(prefix)]
	if w == nil || g.applying > 0 || w.since > made || w.put > made {
		return
	}
	from := g.clock.Add(1)
	known := slices.Clone(w.known)
	for _, one := range found {
		if len(one.lo) <= maxGapKey && len(one.hi) <= maxGapKey && bytes.Compare(one.lo, one.hi) < 0 {
			one.from = from
			known = append(known, one)
		}
	}
	slices.SortFunc(known, func(a, b gap) int { return bytes.Compare(a.lo, b.lo) })
	joined := known[:0]
	for _, one := range known {
		if last := len(joined) - 1; last >= 0 && bytes.Compare(one.lo, joined[last].hi) <= 0 {
			before := &joined[last]
			if bytes.Compare(one.hi, before.hi) > 0 {
				before.hi = one.hi
			}
			before.from, before.rows = max(before.from, one.from), before.rows+one.rows
			continue
		}
		joined = append(joined, one)
	}
	w.known = fewest(joined)
}

// fewest drops the gaps that save least, until there are not too many.
func fewest(known []gap) []gap {
	for len(known) > maxGaps {
		least := 0
		for i := range known {
			if known[i].rows < known[least].rows {
				least = i
			}
		}
		known = slices.Delete(known, least, least+1)
	}
	return known
}

// apply has a batch, in order, applied, and gaps not reach over what it puts.
func (g *gaps) apply(b *Batch, apply func() error) error {
	put := g.begin(b)
	defer g.end(put)
	return apply()
}

// begin takes what is put out of gaps. While commits are being applied no partition comes
// to be watched or ceases to be, so that looking them up takes no lock.
func (g *gaps) begin(b *Batch) (put []*watched) {
	g.mu.Lock()
	g.applying++
	g.mu.Unlock()
	var key []byte
	var w *watched
	for at, one := range b.sorted {
		op := &b.ops[one.op]
		if g.families[op.family].Load() == 0 {
			continue
		}
		if at == 0 || !b.ops[b.sorted[at-1].op].beside(op) {
			key = appendPrefix(key[:0], op.family, op.pk.P)
			w = g.watched[string(key)]
		}
		if w == nil || op.delete {
			continue
		}
		if len(put) == 0 || put[len(put)-1] != w {
			put = append(put, w)
		}
		n := len(key)
		key = append(key, op.pk.K...)
		g.mu.Lock()
		w.cut(key)
		g.mu.Unlock()
		key = key[:n]
	}
	return put
}

// beside says whether two operations are on the same partition.
func (o *op) beside(other *op) bool {
	return o.family == other.family && bytes.Equal(o.pk.P, other.pk.P)
}

func (g *gaps) end(put []*watched) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.applying--
	now := g.clock.Add(1)
	for _, w := range put {
		w.put = now
	}
}

// cut takes a key out of the gap that it is in.
func (w *watched) cut(key []byte) {
	for i, one := range w.known {
		if bytes.Compare(key, one.lo) < 0 || bytes.Compare(key, one.hi) >= 0 {
			continue
		}
		rest := slices.Clone(w.known[:i])
		if bytes.Compare(one.lo, key) < 0 {
			rest = append(rest, gap{one.lo, bytes.Clone(key), one.from, one.rows / 2})
		}
		if after := After(key); bytes.Compare(after, one.hi) < 0 {
			rest = append(rest, gap{after, one.hi, one.from, one.rows / 2})
		}
		w.known = fewest(append(rest, w.known[i+1:]...))
		return
	}
}

// part is where a scan has to look: lo <= key < hi.
type part struct{ lo, hi []byte }

// partsOf appends what is left of lo <= key < hi without the gaps that hold in a state
// made at a moment, in the order of a scan.
func partsOf(parts []part, lo, hi []byte, known []gap, made uint64, dir Direction) []part {
	first := len(parts)
	for _, one := range known {
		if one.from > made || bytes.Compare(one.hi, lo) <= 0 {
			continue
		}
		if bytes.Compare(one.lo, hi) >= 0 {
			break
		}
		if bytes.Compare(lo, one.lo) < 0 {
			parts = append(parts, part{lo, one.lo})
		}
		lo = one.hi
	}
	if bytes.Compare(lo, hi) < 0 {
		parts = append(parts, part{lo, hi})
	}
	if dir == Descending {
		slices.Reverse(parts[first:])
	}
	return parts
}

// stepped is how many rows an iterator has come by, deleted ones and others.
func stepped(it *pebble.Iterator) uint64 {
	stats := it.Stats()
	return stats.InternalStats.PointCount
}
