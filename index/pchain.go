package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"quorate/chain/pchain"
	"quorate/node"
)

// PChain is the name of the P-Chain in cursors, errors and logs.
const PChain = "P"

// PChainNode is what is asked of an upstream node; *node.Client has it.
type PChainNode interface {
	Height(ctx context.Context) (uint64, error)
	BlockByHeight(ctx context.Context, height uint64) ([]byte, error)
	BlockRange(ctx context.Context, start uint64, n int) ([]node.Container, error)
}

// PChainSource fetches P-Chain blocks: in ranges where the node keeps an index,
// else one by one. Which of them works is found out by trying.
type PChainSource struct {
	node PChainNode
	log  *slog.Logger

	// ranges is how many blocks a range may have: fewer after each failure.
	ranges atomic.Int64
	// retry is when ranges are tried again, as Unix nanoseconds; 0 while they work.
	retry atomic.Int64
}

var _ Source[*pchain.Block] = (*PChainSource)(nil)

const (
	// atOnce is how many blocks are asked for at a time where there are no ranges.
	atOnce = 8
	// singles is how many of them make an answer.
	singles = 64
	// rangesAgain is how long ranges are not tried after they did not work.
	rangesAgain = time.Minute
	// smallestRange is what a range that fails is made smaller to.
	smallestRange = 16
)

// NewPChainSource makes a source; a nil log drops what it has to say.
func NewPChainSource(n PChainNode, log *slog.Logger) *PChainSource {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &PChainSource{node: n, log: log}
	s.ranges.Store(node.MaxBlockRange)
	return s
}

// Tip implements Source.
func (s *PChainSource) Tip(ctx context.Context) (uint64, error) { return s.node.Height(ctx) }

// Fetch implements Source.
func (s *PChainSource) Fetch(ctx context.Context, from uint64, n int) ([]Block[*pchain.Block], error) {
	if from == 0 {
		return s.singly(ctx, from, 1) // no index has the genesis block
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
			s.log.Info("P-Chain blocks come in ranges again")
		}
		return blocks, nil
	case ctx.Err() != nil, errors.Is(err, node.ErrBeyondTip), errors.Is(err, ErrUnreadable):
		return nil, err
	case errors.Is(err, node.ErrUnavailable), errors.Is(err, node.ErrMalformed):
		// The node, or only the range: too much at once, or refused by what stands
		// before the node.
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

// errIncomplete is an index that was not there from the beginning of the chain.
var errIncomplete = errors.New("the node's index of blocks is not complete")

func (s *PChainSource) inRange(ctx context.Context, from uint64, n int) ([]Block[*pchain.Block], error) {
	// A complete index begins with the block after genesis.
	containers, err := s.node.BlockRange(ctx, from-1, n)
	if err != nil {
		return nil, err
	}
	blocks := make([]Block[*pchain.Block], 0, len(containers))
	for i := range containers {
		want := from + uint64(i)
		b, err := parse(want, containers[i].Bytes)
		if err == nil && b.Height != want {
			err = fmt.Errorf("%w: it has block %d at %d", errIncomplete, b.Height, want-1)
		}
		if err != nil && i == 0 {
			return nil, err
		}
		if err != nil {
			break // the next fetch begins with it
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func (s *PChainSource) withoutRanges(cause error) {
	if s.retry.Swap(time.Now().Add(rangesAgain).UnixNano()) == 0 {
		s.log.Info("P-Chain blocks come one by one, which is slower: the node gives no ranges", slog.Any("cause", cause))
	}
}

// singly fetches blocks by height, as many as can be had before one fails.
func (s *PChainSource) singly(ctx context.Context, from uint64, n int) ([]Block[*pchain.Block], error) {
	blocks, failures := make([]Block[*pchain.Block], min(n, singles)), make([]error, min(n, singles))
	var failed atomic.Bool
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range blocks {
		group.Go(func() error {
			if i > 0 && failed.Load() {
				failures[i] = errSkipped
				return nil
			}
			if blocks[i], failures[i] = s.single(ctx, from+uint64(i)); failures[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	for i, err := range failures {
		switch {
		case err == nil:
		case i > 0:
			return blocks[:i], nil
		default:
			return nil, err
		}
	}
	return blocks, nil
}

// errSkipped is of blocks that would be of no use without the one that failed.
var errSkipped = errors.New("not asked for after a failure")

func (s *PChainSource) single(ctx context.Context, height uint64) (Block[*pchain.Block], error) {
	b, err := s.node.BlockByHeight(ctx, height)
	if err != nil {
		return Block[*pchain.Block]{}, err
	}
	block, err := parse(height, b)
	if err == nil && block.Height != height {
		err = fmt.Errorf("%w: asked for block %d, got %d", node.ErrMalformed, height, block.Height)
	}
	return block, err
}

func parse(height uint64, b []byte) (Block[*pchain.Block], error) {
	content, err := pchain.ParseBlock(b)
	if err != nil {
		return Block[*pchain.Block]{}, fmt.Errorf("%w: height %d: %w", ErrUnreadable, height, err)
	}
	return Block[*pchain.Block]{Height: content.Height, ID: content.ID, ParentID: content.ParentID, Size: len(b), Content: content}, nil
}
