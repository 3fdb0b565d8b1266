package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/evm"
	"quorate/internal/node"
)

// EVMChain is the name of an EVM chain in cursors, errors and logs, by its EIP-155 ID.
func EVMChain(chainID uint64) string { return "evm-" + strconv.FormatUint(chainID, 10) }

// EVMNode is what is asked of an upstream node; *node.EVM has it.
type EVMNode interface {
	Tip(ctx context.Context) (uint64, error)
	Blocks(ctx context.Context, from uint64, n int, traces bool) ([]node.EVMBlock, error)
}

// EVMOptions of an EVMSource. Node and Chain are required.
type EVMOptions struct {
	Node EVMNode
	// Chain is for logs.
	Chain string
	// Traced reports whether all that was recorded in earlier runs has the calls inside
	// transactions; nil means that nothing was recorded. It is asked if the node
	// gives no traces.
	Traced func(ctx context.Context) (bool, error)
	// Log may be nil.
	Log *slog.Logger
}

// EVMSource fetches the blocks of an EVM chain with their receipts and, where the node
// gives them, the calls inside transactions. What does not fit together is asked for
// again. It implements Source and Noter.
type EVMSource struct {
	node   EVMNode
	chain  string
	before func(ctx context.Context) (bool, error)
	log    *slog.Logger

	// atOnce is how many blocks are asked for in one request: fewer after each
	// failure.
	atOnce atomic.Int64

	mu sync.Mutex
	// traced says that this run has traced blocks; guarded by mu.
	traced bool
	// untraced is why blocks come without traces, nil while they do not. They are asked
	// for again at retryAt, pause after the last time. Guarded by mu.
	untraced error
	retryAt  time.Time
	pause    time.Duration
	// gaps says that this run has recorded blocks without traces; guarded by mu.
	gaps bool
	// stuck is how often the block at stuckAt could not be had; guarded by mu.
	stuckAt uint64
	stuck   int
}

// maxEVMBlocks is how many blocks are asked for in one request at most: with receipts
// and traces a tenth of what nodes take in one batch.
const maxEVMBlocks = 32

// NewEVMSource makes a source. It asks nothing yet.
func NewEVMSource(o EVMOptions) *EVMSource {
	s := &EVMSource{node: o.Node, chain: o.Chain, before: o.Traced, log: o.Log}
	if s.before == nil {
		s.before = func(context.Context) (bool, error) { return false, nil }
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.atOnce.Store(maxEVMBlocks)
	return s
}

// Tip implements Source.
func (s *EVMSource) Tip(ctx context.Context) (uint64, error) { return s.node.Tip(ctx) }

// Note implements Noter.
func (s *EVMSource) Note() string {
	if err := s.whyUntraced(); err != nil {
		return "calls inside transactions are not recorded: " + err.Error()
	}
	return ""
}

func (s *EVMSource) whyUntraced() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untraced
}

// A node may be restarted with its tracing on: it is asked for traces again, ever more
// rarely.
const (
	firstTraceRetry = time.Minute
	lastTraceRetry  = time.Hour
)

// traces reports whether to ask for them.
func (s *EVMSource) traces() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untraced == nil || !time.Now().Before(s.retryAt)
}

// later puts off when to ask for traces again; mu is held.
func (s *EVMSource) later() {
	if now := time.Now(); !now.Before(s.retryAt) {
		s.pause = min(max(2*s.pause, firstTraceRetry), lastTraceRetry)
		s.retryAt = now.Add(s.pause)
	}
}

// postpone is later if blocks are recorded without traces; false if they are not.
func (s *EVMSource) postpone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.untraced == nil {
		return false
	}
	s.later()
	return true
}

// tracesCame notes that they did.
func (s *EVMSource) tracesCame() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.untraced == nil {
		return
	}
	s.untraced, s.pause, s.gaps = nil, 0, false
	s.log.Info("calls inside transactions are recorded from now on", slog.String("chain", s.chain))
}

// Fetch implements Source.
func (s *EVMSource) Fetch(ctx context.Context, from uint64, n int) ([]Block[*evm.Block], error) {
	size := s.atOnce.Load()
	n = min(n, int(size))
	traces := s.traces()
	blocks, err := s.fetch(ctx, from, n, traces)
	if err != nil && traces && ctx.Err() == nil && s.postpone() {
		// Whatever is wrong with the traces, it must not end what goes without them.
		blocks, err = s.fetch(ctx, from, n, false)
	}
	switch {
	case err == nil:
		s.atOnce.Store(min(2*size, maxEVMBlocks))
	case errors.Is(err, node.ErrUnavailable), errors.Is(err, node.ErrMalformed), errors.Is(err, evm.ErrInconsistent):
		// It may have been too much at once.
		s.atOnce.Store(max(size/2, 1))
		if n == 1 && s.failed(from) >= traceAttempts {
			return s.withoutTraces(ctx, from, err)
		}
	}
	return blocks, err
}

// traceAttempts is how often a block is asked for with its traces before it is tried
// without: anybody can send a transaction whose traces are too large for any answer.
const traceAttempts = 10

// failed counts failures to get the one block at a height, one height at a time.
func (s *EVMSource) failed(height uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuckAt != height {
		s.stuckAt, s.stuck = height, 0
	}
	s.stuck++
	return s.stuck
}

// withoutTraces gets a block that cannot be had with them, if it can be had at all.
func (s *EVMSource) withoutTraces(ctx context.Context, height uint64, cause error) ([]Block[*evm.Block], error) {
	if s.whyUntraced() != nil {
		return nil, cause
	}
	blocks, err := s.fetch(ctx, height, 1, false)
	if err != nil {
		return nil, cause
	}
	s.log.Warn("the calls inside a block's transactions cannot be had and are not recorded", slog.String("chain", s.chain), slog.Uint64("height", height), slog.Any("cause", cause))
	return blocks, nil
}

func (s *EVMSource) fetch(ctx context.Context, from uint64, n int, traces bool) ([]Block[*evm.Block], error) {
	answers, err := s.node.Blocks(ctx, from, n, traces)
	if traces && errors.Is(err, node.ErrNoTraces) {
		if err := s.doWithout(ctx, err); err != nil {
			return nil, err
		}
		answers, err = s.node.Blocks(ctx, from, n, false)
	} else if traces && err == nil {
		s.tracesCame()
	}
	if err != nil {
		return nil, err
	}
	return s.read(from, answers)
}

// read reads what a node says of blocks from a height on.
func (s *EVMSource) read(from uint64, answers []node.EVMBlock) ([]Block[*evm.Block], error) {
	blocks := make([]Block[*evm.Block], 0, len(answers))
	for i := range answers {
		b, err := s.decode(from+uint64(i), evm.Answers(answers[i]))
		if err != nil {
			return before(blocks, err)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// ErrTraces says that the calls inside a block's transactions cannot be had, while the
// rest of the block can: they may be too much for any answer.
var ErrTraces = errors.New("the calls inside the block's transactions cannot be had")

// Traced fetches 1 to n blocks from a height on, as Fetch does, with the calls inside
// their transactions or not at all. Errors are those of the node, node.ErrNoTraces among
// them, evm.ErrInconsistent, and, of a single block, ErrTraces.
func (s *EVMSource) Traced(ctx context.Context, from uint64, n int) ([]Block[*evm.Block], error) {
	blocks, err := s.with(ctx, from, n, true)
	switch {
	case err == nil:
		s.tracesAreBack()
	case n == 1 && !errors.Is(err, node.ErrNoTraces) && ctx.Err() == nil:
		if _, plain := s.with(ctx, from, n, false); plain == nil {
			err = fmt.Errorf("%w: %w", ErrTraces, err)
		}
	}
	return blocks, err
}

func (s *EVMSource) with(ctx context.Context, from uint64, n int, traces bool) ([]Block[*evm.Block], error) {
	answers, err := s.node.Blocks(ctx, from, n, traces)
	if err != nil {
		return nil, err
	}
	return s.read(from, answers)
}

// tracesAreBack has new blocks asked for with traces soon, as those of old ones came.
func (s *EVMSource) tracesAreBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if soon := time.Now().Add(firstTraceRetry); s.untraced != nil && s.retryAt.After(soon) {
		s.retryAt, s.pause = soon, firstTraceRetry
	}
}

func (s *EVMSource) decode(height uint64, a evm.Answers) (Block[*evm.Block], error) {
	content, err := evm.Decode(a)
	if err == nil && content.Number != height {
		err = fmt.Errorf("%w: asked for block %d, got %d", evm.ErrInconsistent, height, content.Number)
	}
	if err != nil {
		return Block[*evm.Block]{}, err
	}
	if content.Traced && len(content.Transactions) > 0 {
		s.mu.Lock()
		s.traced = true
		s.mu.Unlock()
	}
	return Block[*evm.Block]{Height: height, ID: ids.ID(content.Hash), ParentID: ids.ID(content.ParentHash), Size: content.Size(), Content: content}, nil
}

// doWithout goes on without traces, unless those of earlier blocks were there: a record
// that is complete stays so, and waits for a node that has them.
func (s *EVMSource) doWithout(ctx context.Context, cause error) error {
	before, err := s.before(ctx)
	if err != nil {
		return fmt.Errorf("looking whether blocks were traced: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gaps && (s.traced || before) {
		return fmt.Errorf("waiting for a node that traces, as the blocks before were traced: %w", cause)
	}
	s.gaps = true
	s.later()
	if s.untraced == nil {
		s.untraced = cause
		s.log.Warn("calls inside transactions are not recorded", slog.String("chain", s.chain), slog.Any("cause", cause))
	}
	return nil
}
