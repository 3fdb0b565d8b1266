package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/internal/chain/evm"
	"quorate/internal/node"
)

// EVMChain is the name of an EVM chain in cursors, errors and logs, by its EIP-155 ID.
func EVMChain(chainID uint64) string { return "evm-" + strconv.FormatUint(chainID, 10) }

// EVMNode is the Ethereum API of an upstream node; *node.EVM implements it.
type EVMNode interface {
	Tip(ctx context.Context) (uint64, error)
	Blocks(ctx context.Context, from uint64, n int, traces bool) ([]node.EVMBlock, error)
	Has(ctx context.Context, height uint64) (bool, error)
}

// EVMOptions configures an EVMSource. Node and Chain are required.
type EVMOptions struct {
	Node EVMNode
	// Chain is the chain's name in logs.
	Chain string
	// VerifySenders makes the source verify the senders of transactions, which takes several times as long as the rest.
	VerifySenders bool
	// Indexed returns the height of the last indexed block; nil if unknown. A source whose Tip is not called uses it to
	// judge whether a pruned node can trace a block.
	Indexed func() uint64
	// Log may be nil.
	Log *slog.Logger
}

// EVMSource fetches the blocks of an EVM chain with their receipts and, where a node serves them, their call traces. If
// the traces of a block are unavailable after a bounded number of attempts, the block comes without them and its Traced
// is false. EVMSource implements Source, Noter and Beginner.
type EVMSource struct {
	node          EVMNode
	chain         string
	verifySenders bool
	indexed       func() uint64
	log           *slog.Logger

	// atOnce is the number of blocks per request, times growth. Each failure halves it, each success adds one.
	atOnce atomic.Int64
	// tip is the height that the node last reported.
	tip atomic.Uint64

	mu sync.Mutex
	// traced is set once this run has traced a block with transactions; guarded by mu.
	traced bool
	// untraced is the reason why blocks come without traces, or nil if they come with them. Traces are requested again
	// at retryAt, pause after the last request. Guarded by mu.
	untraced error
	retryAt  time.Time
	pause    time.Duration
	// refused counts the blocks that were indexed without traces since one was traced; guarded by mu.
	refused int
	// attempts counts failures by height; guarded by mu.
	attempts map[uint64]int
	// retyped is set while the provider's headers do not hash to their blocks' hashes; guarded by mu.
	retyped bool
	// unchecked is set after a block whose transactions or receipts could not be verified; guarded by mu.
	unchecked bool
}

const (
	// maxEVMBlocks is the maximum number of blocks per request. With receipts and traces, it makes a tenth of the calls
	// that nodes accept in one batch.
	maxEVMBlocks = 32
	// growth is the number of successes after which a request has one more block, so that few requests are refused by a
	// provider that limits them.
	growth = 8
	// traceAttempts is the number of requests for a block's traces before the block is indexed without them. Anyone can
	// send a transaction whose traces exceed every response limit.
	traceAttempts = 5
	// hashAttempts is the number of requests for a block whose header does not hash to its stated hash. After them, the
	// source verifies hashes by the parent hash of the child block.
	hashAttempts = 3
	// maxRefused is the number of blocks without traces, one after the other, after which the node is taken for one that
	// does not trace.
	maxRefused = 3
	// firstAttempts is the number of requests for block 1, firstPause apart, before it is taken for missing.
	firstAttempts = 3
	firstPause    = 500 * time.Millisecond
	// maxAttempts bounds the heights whose failures are counted.
	maxAttempts = 4096
	// prunedStates is the approximate number of blocks before its tip that a pruned node can trace (avalanchego
	// vms/saevm/saedb).
	prunedStates = 128
	// syncedBlocks is the number of blocks that a state-synced node has without receipts (avalanchego
	// vms/saevm/statesync).
	syncedBlocks = 512

	// The operator may enable tracing and restart the node, so traces are requested again with growing pauses.
	firstTraceRetry = time.Minute
	lastTraceRetry  = time.Hour
)

// NewEVMSource returns a source. It sends no request.
func NewEVMSource(o EVMOptions) *EVMSource {
	s := &EVMSource{node: o.Node, chain: o.Chain, verifySenders: o.VerifySenders, indexed: o.Indexed, log: o.Log, attempts: make(map[uint64]int)}
	if s.indexed == nil {
		s.indexed = func() uint64 { return 0 }
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.atOnce.Store(maxEVMBlocks * growth)
	return s
}

// Tip implements Source.
func (s *EVMSource) Tip(ctx context.Context) (uint64, error) {
	tip, err := s.node.Tip(ctx)
	if err != nil {
		return 0, err
	}
	s.tip.Store(tip)
	if s.childConfirms() {
		return max(tip, 1) - 1, nil // the block's child must exist
	}
	return tip, nil
}

// First implements Beginner. A state-synced node has the genesis block and all blocks from some height on, but not the
// blocks between them. First searches for that height.
func (s *EVMSource) First(ctx context.Context) (uint64, error) {
	tip, err := s.node.Tip(ctx)
	if err != nil || tip == 0 {
		return 0, err
	}
	// One of several nodes behind an address may lack the first blocks.
	for attempt := range firstAttempts {
		if attempt > 0 {
			if err := wait(ctx, firstPause); err != nil {
				return 0, err
			}
		}
		if has, err := s.node.Has(ctx, 1); has || err != nil {
			return 0, err
		}
	}
	if has, err := s.node.Has(ctx, tip); err != nil {
		return 0, err
	} else if !has {
		return 0, fmt.Errorf("block 1 and block %d, the last one, are %w", tip, node.ErrPruned)
	}
	lacks, first := uint64(1), tip
	for first-lacks > 1 {
		middle := lacks + (first-lacks)/2
		has, err := s.node.Has(ctx, middle)
		if err != nil {
			return 0, err
		}
		if has {
			first = middle
		} else {
			lacks = middle
		}
	}
	// Blocks that came with the state sync lack receipts. Those without transactions look complete.
	atOnce := uint64(maxEVMBlocks)
	for height, end := first, min(first+syncedBlocks, tip); height <= end; {
		blocks, err := s.node.Blocks(ctx, height, int(min(atOnce, end-height+1)), false)
		switch {
		case atOnce > 1 && node.RefusesBatch(err):
			atOnce /= 2
		case errors.Is(err, node.ErrPruned):
			height++
			first = height
		case err != nil:
			return 0, err
		default:
			height += uint64(len(blocks))
		}
	}
	s.log.Warn("the node lacks the first blocks of the chain, and the index begins later",
		slog.String("chain", s.chain), slog.Uint64("first", first), slog.Uint64("tip", tip))
	return first, nil
}

// Note implements Noter.
func (s *EVMSource) Note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var notes []string
	if s.untraced != nil {
		notes = append(notes, "call traces are not indexed: "+s.untraced.Error())
	}
	if s.retyped {
		notes = append(notes, "header fields dropped by the provider; hashes confirmed by children")
	}
	if s.unchecked {
		notes = append(notes, "transactions or receipts of some blocks are not checked against the header: the provider drops their fields, or their type is unknown")
	}
	return strings.Join(notes, "; ")
}

func (s *EVMSource) childConfirms() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retyped
}

// nearTip reports whether a pruned node has the state to trace a block.
func (s *EVMSource) nearTip(height uint64) bool {
	return height+prunedStates >= max(s.tip.Load(), s.indexed())
}

// wantsTraces reports whether to request traces of the blocks from height on.
func (s *EVMSource) wantsTraces(height uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untraced == nil || !time.Now().Before(s.retryAt) || errors.Is(s.untraced, node.ErrNoState) && s.nearTip(height)
}

// tracesCame resets the trace failure state after a response with traces.
func (s *EVMSource) tracesCame() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.untraced == nil {
		return
	}
	s.untraced, s.pause = nil, 0
	s.log.Info("call traces are indexed from now on", slog.String("chain", s.chain))
}

// noTraces stores the reason why the node gives no traces.
func (s *EVMSource) noTraces(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); !now.Before(s.retryAt) {
		s.pause = min(max(2*s.pause, firstTraceRetry), lastTraceRetry)
		s.retryAt = now.Add(s.pause)
	}
	if s.untraced == nil {
		s.log.Warn("call traces are not indexed", slog.String("chain", s.chain), slog.Any("cause", cause))
	}
	if s.untraced == nil || errors.Is(cause, node.ErrNoTraces) {
		s.untraced = cause
	}
}

// failed counts a failure to fetch the block at height and returns the number of failures.
func (s *EVMSource) failed(height uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.attempts) >= maxAttempts {
		clear(s.attempts)
	}
	s.attempts[height]++
	return s.attempts[height]
}

// hasTraced reports whether this run has traced blocks and traces still arrive.
func (s *EVMSource) hasTraced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traced && s.untraced == nil
}

// refuses counts a block that is indexed without traces. It reports whether there are so many since the last block with
// traces that the node seems to refuse all, with an error text that is not known for nodes that do not trace.
func (s *EVMSource) refuses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
	return s.refused >= maxRefused
}

// Fetch implements Source.
func (s *EVMSource) Fetch(ctx context.Context, from uint64, n int) ([]Block[*evm.Block], error) {
	size := s.atOnce.Load()
	n = min(n, int(size/growth))
	traces := s.wantsTraces(from)
	blocks, err := s.fetch(ctx, from, n, traces)
	switch {
	case err == nil:
		s.atOnce.Store(min(size+1, maxEVMBlocks*growth))
		s.mu.Lock()
		delete(s.attempts, from)
		s.mu.Unlock()
		if traces {
			s.tracesCame()
		}
		return blocks, nil
	case ctx.Err() != nil:
		return nil, err
	case errors.Is(err, evm.ErrHash):
		return nil, s.unhashed(from, err)
	case errors.Is(err, node.ErrUnavailable), errors.Is(err, node.ErrMalformed), errors.Is(err, evm.ErrInconsistent), node.RefusesBatch(err):
		s.atOnce.Store(max(size/2, growth)) // the request may have been too large
	}
	if !traces {
		return nil, err
	}
	return s.traceless(ctx, from, n, err)
}

// hasUntraced reports whether the node is known not to trace.
func (s *EVMSource) hasUntraced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untraced != nil
}

// traceless handles a response without traces: it retries, or fetches the blocks without traces.
func (s *EVMSource) traceless(ctx context.Context, from uint64, n int, cause error) ([]Block[*evm.Block], error) {
	known := s.hasUntraced()
	lost := false // whether the block counts as one whose traces the node refuses
	switch {
	case errors.Is(cause, node.ErrNoState) && s.nearTip(from):
		n = 1 // the state of the next block may be available
	case errors.Is(cause, node.ErrNoTraces):
		if attempt := s.failed(from); s.hasTraced() && attempt < traceAttempts && !errors.Is(cause, node.ErrNoState) {
			return nil, fmt.Errorf("waiting for a node that traces, attempt %d of %d, after which the block is indexed without call traces: %w", attempt, traceAttempts, cause)
		}
		s.noTraces(cause)
	case known:
		// A trace failure must not prevent indexing without traces.
		s.noTraces(cause)
	case errors.Is(cause, node.ErrTraceRefused), n == 1 && (errors.Is(cause, node.ErrUnavailable) || errors.Is(cause, node.ErrMalformed) || errors.Is(cause, evm.ErrInconsistent) || node.RefusesBatch(cause)):
		if attempt := s.failed(from); attempt < traceAttempts {
			return nil, fmt.Errorf("attempt %d of %d to get call traces: %w", attempt, traceAttempts, cause)
		}
		n, lost = 1, true
	default:
		return nil, cause
	}
	blocks, err := s.fetch(ctx, from, n, false)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.attempts, from)
	s.mu.Unlock()
	if lost && s.refuses() {
		s.noTraces(cause)
	}
	if !s.hasUntraced() {
		s.log.Warn("a block is indexed without its call traces", slog.String("chain", s.chain), slog.Uint64("height", from), slog.Any("cause", cause))
	}
	return blocks, nil
}

// unhashed handles a block whose header does not hash to its stated hash. The response may have been damaged. If the
// mismatch persists, the provider rewrites the JSON and omits fields; from then on the child's parent hash decides.
func (s *EVMSource) unhashed(height uint64, cause error) error {
	if s.failed(height) < hashAttempts {
		return cause
	}
	s.mu.Lock()
	first := !s.retyped
	s.retyped = true
	delete(s.attempts, height)
	s.mu.Unlock()
	if first {
		s.log.Warn("the provider drops header fields; the hashes of blocks are confirmed by their children", slog.String("chain", s.chain), slog.Uint64("height", height), slog.Any("cause", cause))
	}
	return cause
}

// hashed notes that a header hashes to its block's hash.
func (s *EVMSource) hashed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retyped {
		s.retyped = false
		s.log.Info("the headers of blocks have their hashes again", slog.String("chain", s.chain))
	}
}

// fetch fetches 1 to n blocks, with or without traces.
func (s *EVMSource) fetch(ctx context.Context, from uint64, n int, traces bool) ([]Block[*evm.Block], error) {
	answers, err := s.node.Blocks(ctx, from, n, traces)
	if err != nil {
		return nil, err
	}
	blocks := make([]Block[*evm.Block], 0, len(answers))
	for i := range answers {
		height := from + uint64(i)
		a := evm.Answers{Block: answers[i].Block, Receipts: answers[i].Receipts, Traces: answers[i].Traces, Senders: s.verifySenders}
		b, err := s.decode(height, a)
		switch {
		case errors.Is(err, evm.ErrHash) && s.childConfirms():
			var child []byte
			if i+1 < len(answers) {
				child = answers[i+1].Block
			}
			b, err = s.confirmed(ctx, height, a, child)
		case err == nil:
			s.hashed()
		}
		if err != nil {
			return before(blocks, err)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// confirmed decodes a block whose hash equals the parent hash of its child. It fetches the child if child is nil.
func (s *EVMSource) confirmed(ctx context.Context, height uint64, a evm.Answers, child []byte) (b Block[*evm.Block], err error) {
	if child == nil {
		next, err := s.node.Blocks(ctx, height+1, 1, false)
		if err != nil {
			return b, fmt.Errorf("confirming the hash of block %d by its child: %w", height, err)
		}
		child = next[0].Block
	}
	hash, err := evm.ParentHash(child)
	if err != nil {
		return b, fmt.Errorf("confirming the hash of block %d by its child: %w", height, err)
	}
	a.Confirmed = &hash
	return s.decode(height, a)
}

// ErrTraces reports a block whose call traces are unavailable while its other parts are available.
var ErrTraces = errors.New("the call traces of the block are unavailable")

// Traced fetches 1 to n blocks from a height on, as Fetch does, but only with call traces. It returns the errors of the
// node, node.ErrNoTraces among them, evm.ErrInconsistent, and, for a single block, ErrTraces.
func (s *EVMSource) Traced(ctx context.Context, from uint64, n int) ([]Block[*evm.Block], error) {
	blocks, err := s.fetch(ctx, from, n, true)
	switch {
	case err == nil:
		s.tracesAreBack()
	case errors.Is(err, node.ErrTraceRefused):
		err = fmt.Errorf("%w: %w", ErrTraces, err)
	case n == 1 && !errors.Is(err, node.ErrNoTraces) && ctx.Err() == nil:
		if _, plain := s.fetch(ctx, from, n, false); plain == nil {
			err = fmt.Errorf("%w: %w", ErrTraces, err)
		}
	}
	return blocks, err
}

// tracesAreBack makes the source request traces of new blocks soon, because traces of old blocks have arrived.
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
	if len(content.Transactions) > 0 {
		s.mu.Lock()
		if content.Traced {
			s.traced, s.refused = true, 0
		}
		s.unchecked = s.unchecked || content.Unchecked
		s.mu.Unlock()
	}
	return Block[*evm.Block]{Height: height, ID: ids.ID(content.Hash), ParentID: ids.ID(content.ParentHash), Size: content.Size(), Content: content}, nil
}
