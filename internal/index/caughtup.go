package index

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"quorate/internal/store"
)

// askingHeight names the work of requesting the node's height.
const askingHeight = "asking for the height"

// unreachableAfter is how long the node must fail to report a height before an index that had caught up before a restart
// counts as caught up again.
const unreachableAfter = 10 * time.Second

// unreachable reports whether the node has not reported a height since the start, and the index had caught up before.
// Requires mu.
func (s *status) unreachable(now *Status) bool {
	asking := s.trouble[task{doing: askingHeight}]
	return !now.TipKnown && s.before > 0 && now.Next >= max(s.before, now.Kept) && asking != nil && time.Since(asking.since) >= unreachableAfter
}

// caughtUpKey is the key of a row with the first height that was not indexed when the index caught up. It does not exist
// while the index is known to be behind.
func (p *Pipeline[B]) caughtUpKey() store.PK {
	return store.PK{P: fmt.Appendf(nil, "caughtup/%d/%s", p.options.NetworkID, p.options.Chain)}
}

// readCaughtUp reads whether the index had caught up before this pipeline began.
func (p *Pipeline[B]) readCaughtUp(ctx context.Context) error {
	var before uint64
	err := p.withStore(ctx, "opening the index", func() error {
		values, err := p.options.Store.Get(ctx, store.FamilyMeta, []store.PK{p.caughtUpKey()})
		if err != nil {
			return fmt.Errorf("reading whether the index had caught up: %w", err)
		}
		if before = 0; len(values[0]) == 8 {
			before = binary.BigEndian.Uint64(values[0])
		}
		return nil
	})
	p.status.mu.Lock()
	defer p.status.mu.Unlock()
	p.status.before = before
	return err
}

// putCaughtUp adds to batch whether the index is near the node's height after it, if that has changed.
func (c *committer[B]) putCaughtUp(batch *store.Batch) {
	if !c.options.StoreCaughtUp {
		return
	}
	s := &c.status
	s.mu.Lock()
	defer s.mu.Unlock()
	after := s.current
	after.Next = c.next
	switch near := after.near(); {
	case near && s.before == 0:
		s.before = c.next
		batch.Put(store.FamilyMeta, c.caughtUpKey(), binary.BigEndian.AppendUint64(nil, c.next))
	case !near && s.before > 0:
		s.before = 0
		batch.Delete(store.FamilyMeta, c.caughtUpKey())
	}
}
