package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"quorate/internal/index/container"
	"quorate/internal/node"
)

// NodeSource fetches a chain's blocks from upstream nodes: in ranges if the node has an index of containers, else one
// by one. It finds out which works by trying.
type NodeSource[B any] struct {
	chain chainAPI[B]
	log   *slog.Logger

	// ranges is the maximum number of blocks in a range. It shrinks after each failure.
	ranges atomic.Int64
	// retry is the time, in Unix nanoseconds, at which ranges are tried again; 0 while they work.
	retry atomic.Int64
}

const (
	// atOnce is the number of concurrent requests for single blocks.
	atOnce = 8
	// singles is the number of single blocks that one Fetch returns.
	singles = 64
	// rangesAgain is how long NodeSource fetches single blocks after ranges failed.
	rangesAgain = time.Minute
	// parsedSize is the memory of a parsed block relative to its encoding, measured with blocks of one transaction.
	parsedSize = 4
	// smallestRange is the size down to which a failing range shrinks.
	smallestRange = 16
)

// chainAPI holds the node's methods for one chain.
type chainAPI[B any] struct {
	name string
	tip  func(ctx context.Context) (uint64, error)
	// one fetches the block at a height.
	one func(ctx context.Context, height uint64) (Block[B], error)
	// some fetches containers of the node's index from start on. The container of height h is at h-1.
	some func(ctx context.Context, start uint64, n int) ([]node.Container, error)
	// read decodes a container. The node states that it holds the block at height.
	read func(height uint64, c *node.Container) (Block[B], error)
	// part decodes the stored part of a block where ranges are unavailable; nil if whole blocks are stored.
	part func(height uint64, b []byte) (Block[B], error)
	// whole reports whether containers are stored whole rather than in part.
	whole bool
}

func newNodeSource[B any](chain chainAPI[B], log *slog.Logger) *NodeSource[B] {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &NodeSource[B]{chain: chain, log: log}
	s.ranges.Store(node.MaxBlockRange)
	return s
}

// Tip implements Source.
func (s *NodeSource[B]) Tip(ctx context.Context) (uint64, error) {
	height, err := s.chain.tip(ctx)
	return height, notOffered(err)
}

// Fetch implements Source.
func (s *NodeSource[B]) Fetch(ctx context.Context, from uint64, n int) ([]Block[B], error) {
	blocks, err := s.fetch(ctx, from, n)
	return blocks, notOffered(err)
}

func (s *NodeSource[B]) fetch(ctx context.Context, from uint64, n int) ([]Block[B], error) {
	if from == 0 {
		return s.singly(ctx, from, 1) // no node's index contains the genesis block
	}
	if time.Now().UnixNano() < s.retry.Load() {
		return s.singly(ctx, from, n)
	}
	size := s.ranges.Load()
	blocks, err := s.inRange(ctx, from, min(n, int(size)))
	switch {
	case err == nil:
		s.ranges.Store(min(2*size, node.MaxBlockRange))
		if s.retry.Swap(0) != 0 {
			s.log.Info("blocks come in ranges again", slog.String("chain", s.chain.name))
		}
		return blocks, nil
	case ctx.Err() != nil, errors.Is(err, ErrUnreadable):
		return nil, err
	case errors.Is(err, node.ErrBeyondTip):
		// An index that began after the chain has fewer entries than the chain has blocks, so only the chain API shows
		// whether the block exists.
		blocks, err := s.singly(ctx, from, n)
		if err == nil {
			s.withoutRanges(errIncomplete)
		}
		return blocks, err
	case errors.Is(err, node.ErrUnavailable), errors.Is(err, node.ErrMalformed):
		// Find out whether the node failed or only the range, which may be too large or refused by a proxy.
		blocks, singleErr := s.singly(ctx, from, 1)
		if singleErr != nil {
			return nil, fmt.Errorf("%w; %w", err, singleErr)
		}
		if size > smallestRange {
			s.ranges.Store(size / 2)
		} else {
			s.withoutRanges(err)
		}
		return blocks, nil
	}
	s.withoutRanges(err)
	return s.singly(ctx, from, n)
}

// Again implements ContainerSource.
func (s *NodeSource[B]) Again(_ context.Context, c container.Container) (b Block[B], err error) {
	if c.Form == container.Part {
		if s.chain.part == nil {
			return b, unreadable(c.Height, errors.New("only a part of it is stored"))
		}
		b, err = s.chain.part(c.Height, c.Bytes)
	} else {
		// Restore the position in the node's index, which has no genesis block.
		b, err = s.chain.read(c.Height, &node.Container{ID: c.ID, Index: max(c.Height, 1) - 1, Bytes: c.Bytes, Accepted: c.Time})
	}
	if err == nil && b.Height != c.Height {
		err = unreadable(c.Height, fmt.Errorf("the stored block is block %d", b.Height))
	}
	b.Container = c
	return b, err
}

// errIncomplete means that the node's index lacks the beginning of the chain.
var errIncomplete = errors.New("the node's index of blocks is not complete")

func (s *NodeSource[B]) inRange(ctx context.Context, from uint64, n int) ([]Block[B], error) {
	// A complete index begins with the block after genesis.
	containers, err := s.chain.some(ctx, from-1, n)
	if err != nil {
		return nil, err
	}
	blocks := make([]Block[B], 0, len(containers))
	for i := range containers {
		want := from + uint64(i)
		runtime.Gosched() // lets requests run, as committer.apply does
		b, err := s.chain.read(want, &containers[i])
		if err == nil && b.Height != want {
			err = fmt.Errorf("%w: it has block %d at %d", errIncomplete, b.Height, want-1)
		}
		if s.chain.whole {
			b.Container = container.Container{Height: want, Form: container.Accepted, ID: containers[i].ID, Time: containers[i].Accepted, Bytes: containers[i].Bytes, Digest: containers[i].Digest}
			b.Size += len(containers[i].Bytes)
		}
		if err != nil {
			return before(blocks, err)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// before returns the blocks before the failed one, or err if there are none.
func before[B any](blocks []Block[B], err error) ([]Block[B], error) {
	if len(blocks) > 0 {
		return blocks, nil // the next fetch begins with the failed block
	}
	return nil, err
}

func (s *NodeSource[B]) withoutRanges(cause error) {
	if s.retry.Swap(time.Now().Add(rangesAgain).UnixNano()) == 0 {
		s.log.Info("blocks come one by one, which is slower: the node gives no ranges", slog.String("chain", s.chain.name), slog.Any("cause", cause))
	}
}

// singly fetches blocks one by one and returns those before the first failure.
func (s *NodeSource[B]) singly(ctx context.Context, from uint64, n int) ([]Block[B], error) {
	blocks, failures := make([]Block[B], min(n, singles)), make([]error, min(n, singles))
	var mu sync.Mutex
	first := len(blocks) // first failed block; guarded by mu
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range blocks {
		group.Go(func() error {
			mu.Lock()
			skip := i > first
			mu.Unlock()
			if skip {
				return nil // unusable without the failed block
			}
			if blocks[i], failures[i] = s.single(ctx, from+uint64(i)); failures[i] != nil {
				mu.Lock()
				first = min(first, i)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	if first < len(blocks) {
		return before(blocks[:first], failures[first])
	}
	return blocks, nil
}

func (s *NodeSource[B]) single(ctx context.Context, height uint64) (Block[B], error) {
	block, err := s.chain.one(ctx, height)
	if err == nil && block.Height != height {
		err = fmt.Errorf("%w: asked for block %d, got %d", node.ErrMalformed, height, block.Height)
	}
	return block, err
}
