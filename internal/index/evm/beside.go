package evm

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/store"
)

// Lacks returns what the index of a chain in one store has and the index in another store, which is as far, lacks: first
// blocks, or the call traces of blocks. Both may come from other nodes than those of today. It returns an empty string
// if nothing is missing.
func Lacks(ctx context.Context, has, lacks store.Store, networkID uint32, blockchainID ids.ID) (string, error) {
	before, err := coverageOf(ctx, has, networkID, blockchainID)
	if err != nil || before.head == nil {
		return "", err
	}
	now, err := coverageOf(ctx, lacks, networkID, blockchainID)
	switch {
	case err != nil:
		return "", err
	case now.head == nil || now.head.first > before.head.first:
		first := before.head.tip.Number + 1
		if now.head != nil {
			first = now.head.first
		}
		return fmt.Sprintf("blocks %d to %d of chain %s are indexed and the node does not have them any more; configure a node that has them, or cancel the rebuild",
			before.head.first, first-1, blockchainID), nil
	}
	count, first, last := lost(before, now)
	if count == 0 {
		return "", nil
	}
	return fmt.Sprintf("call traces of %d blocks of chain %s, from %d to %d, are indexed and the node has not returned them again; configure a node that traces them, or cancel the rebuild",
		count, blockchainID, first, last), nil
}

// coverage describes which blocks and traces an index has.
type coverage struct {
	head     *head  // nil without blocks
	untraced []span // the blocks without traces; they may overlap
}

func coverageOf(ctx context.Context, s store.Store, networkID uint32, blockchainID ids.ID) (c coverage, err error) {
	v, err := s.View(ctx)
	if err != nil {
		return c, fmt.Errorf("reading the index of chain %s: %w", blockchainID, err)
	}
	defer func() { _ = v.Close() }()
	key := keyOf(networkID, blockchainID)
	if c.head, err = readHead(ctx, v, &key); err != nil || c.head == nil {
		return c, err
	}
	all, err := gaps(ctx, v, &key, c.head)
	if err != nil {
		return c, err
	}
	for i := range all {
		c.untraced = append(c.untraced, all[i].left()...)
	}
	for row, err := range partitionRows(ctx, v, key.partition([]byte{untracedLost})) {
		if err != nil {
			return c, err
		}
		number := binary.BigEndian.Uint64(row.K)
		c.untraced = append(c.untraced, span{number, number})
	}
	return c, nil
}

// lost counts the blocks with traces in before that have none in now, and returns the first and the last of them.
func lost(before, now coverage) (count, first, last uint64) {
	note := func(from, to uint64) {
		if count == 0 {
			first = from
		}
		count, last = count+to-from+1, to
	}
	known := merged(before.untraced)
	for _, missing := range merged(now.untraced) {
		from, to := max(missing.from, before.head.first), min(missing.to, before.head.tip.Number)
		for _, k := range known {
			if k.to < from || k.from > to {
				continue
			}
			if k.from > from {
				note(from, k.from-1)
			}
			from = k.to + 1
		}
		if from <= to {
			note(from, to)
		}
	}
	return count, first, last
}

// merged returns spans in order and without overlaps.
func merged(spans []span) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var all []span
	for _, s := range spans {
		if n := len(all); n > 0 && s.from <= all[n-1].to {
			all[n-1].to = max(all[n-1].to, s.to)
			continue
		}
		all = append(all, s)
	}
	return all
}
