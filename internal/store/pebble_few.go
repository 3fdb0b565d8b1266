package store

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// fewRows is how many rows are read from the first one on before it is known that a
// partition has more of them than a few.
const fewRows = 8

// scanFew adds the rows of a partition that has a few in descending order, as scanPart
// does, and reports false if there are more. It reads them from the first one on, as only
// so bloom filters are asked, and most lists of most accounts are in one or two of the
// tables that they might be in.
func (s *Pebble) scanFew(use *scratch, it *pebble.Iterator, within part, prefix, limit int) (done bool, err error) {
	slot, hash := s.long.slot(within.lo[:prefix])
	if slot.Load() == hash {
		return false, nil
	}
	begun, few := len(use.rows), min(fewRows, limit-len(use.rows))
	n, before := 0, stepped(it)
	for valid := it.SeekPrefixGE(within.lo); valid; valid = it.Next() {
		if n++; n > few {
			use.back(begun)
			if n > fewRows || stepped(it)-before > 4*fewRows {
				slot.Store(hash)
			}
			return false, nil
		}
		v, err := s.value(it)
		if err != nil {
			return false, err
		}
		use.add(it.Key()[prefix:], v)
	}
	if err := it.Error(); err != nil {
		return false, s.wrap(err)
	}
	use.reverse(begun)
	return true, nil
}

// longLists remember partitions that have more rows than a few, or had: one that has
// deleted rows before them by the thousand is walked through in vain once, not each time.
// Some are forgotten again, and what is remembered wrongly is only read more slowly.
type longLists struct {
	seed   maphash.Seed
	hashes [4096]atomic.Uint64
}

func newLongLists() *longLists { return &longLists{seed: maphash.MakeSeed()} }

// slot is where it is remembered of a partition, if it has this hash.
func (l *longLists) slot(prefix []byte) (slot *atomic.Uint64, hash uint64) {
	hash = maphash.Bytes(l.seed, prefix) | 1 // zero is nobody's
	return &l.hashes[hash>>1%uint64(len(l.hashes))], hash
}
