package measure

import (
	"context"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// maxBack is how far below the chosen block an unused one is searched. State-synced nodes
// have the 256 blocks below the one that they synced to (avalanchego, graft/evm/sync/engine).
const maxBack = 128

// block is what a round asks validators to sign.
type block struct {
	height uint64
	hash   ids.ID
	// repeated says that an earlier round had the same block, because the chain has no
	// others: validators cache their signatures.
	repeated bool
}

// blocks chooses the block of each round.
type blocks struct {
	chain  Chain
	behind uint64
	settle time.Duration

	seen []sighting // of new tips; the first one is the newest settled one
	used map[uint64]struct{}
}

// sighting is when the chain's tip was first known.
type sighting struct {
	height uint64
	at     time.Time
}

// next returns the newest block that is settled and was not returned before. It waits for
// the first block to settle.
func (b *blocks) next(ctx context.Context) (block, error) {
	if err := b.look(ctx); err != nil {
		return block{}, err
	}
	if left := b.settle - time.Since(b.seen[0].at); left > 0 {
		select {
		case <-ctx.Done():
			return block{}, ctx.Err()
		case <-time.After(left):
		}
		if err := b.look(ctx); err != nil {
			return block{}, err
		}
	}
	chosen := b.choose(b.seen[0].height)
	var err error
	if chosen.hash, err = b.chain.BlockHash(ctx, chosen.height); err != nil {
		return block{}, err
	}
	if b.used == nil {
		b.used = make(map[uint64]struct{})
	}
	b.used[chosen.height] = struct{}{}
	return chosen, nil
}

// look notes the chain's tip.
func (b *blocks) look(ctx context.Context) error {
	tip, err := b.chain.Tip(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	if n := len(b.seen); n == 0 || b.seen[n-1].height < tip {
		b.seen = append(b.seen, sighting{tip, now})
	}
	for len(b.seen) > 1 && now.Sub(b.seen[1].at) >= b.settle {
		b.seen = b.seen[1:]
	}
	return nil
}

// choose returns the newest unused block at or below settled less behind, or a used one if
// the newest maxBack are used.
func (b *blocks) choose(settled uint64) block {
	newest := settled - min(settled, b.behind)
	oldest := newest - min(newest, maxBack-1)
	for height := newest; ; height-- {
		if _, used := b.used[height]; !used {
			return block{height: height}
		}
		if height == oldest {
			return block{height: newest, repeated: true}
		}
	}
}
