package index

import (
	"context"
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
	indexed := now.Next > max(now.From, 1) && now.Next >= now.Kept
	return s.before && indexed && !now.TipKnown && asking != nil && time.Since(asking.since) >= unreachableAfter
}

// caughtUpKey is the key of a row that exists while the index has caught up, as far as its commits know.
func (p *Pipeline[B]) caughtUpKey() store.PK {
	return store.PK{P: fmt.Appendf(nil, "caughtup/%d/%s", p.options.NetworkID, p.options.Chain)}
}

// readCaughtUp reads whether the index had caught up before this pipeline began.
func (p *Pipeline[B]) readCaughtUp(ctx context.Context) error {
	return p.withStore(ctx, "opening the index", func() error {
		values, err := p.options.Store.Get(ctx, store.FamilyMeta, []store.PK{p.caughtUpKey()})
		if err != nil {
			return fmt.Errorf("reading whether the index had caught up: %w", err)
		}
		p.status.mu.Lock()
		defer p.status.mu.Unlock()
		p.status.before = values[0] != nil
		return nil
	})
}

// putCaughtUp adds to batch whether the index has caught up with it, if that has changed.
func (c *committer[B]) putCaughtUp(batch *store.Batch) {
	if !c.options.StoreCaughtUp {
		return
	}
	s := &c.status
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.current.TipKnown { // blocks come from the store
		return
	}
	after := s.current
	after.Next = c.next
	near := after.near()
	switch {
	case near == s.before:
	case near:
		batch.Put(store.FamilyMeta, c.caughtUpKey(), []byte{1})
	default:
		batch.Delete(store.FamilyMeta, c.caughtUpKey())
	}
	s.before = near
}
