package warplog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"quorate/internal/node"
)

// Status is the state of a followed chain.
type Status struct {
	// Err is why messages cannot be read at the moment, nil if they can. Since is when that began.
	Err   error
	Since time.Time
	// Lost counts the blocks that were skipped because no node has them any more. The last of these gaps is from
	// LostFrom through LostThrough.
	Lost, LostFrom, LostThrough uint64
}

// Note describes in words what does not work or is missing. It is empty if all messages were read.
func (s Status) Note() string {
	switch {
	case s.Err != nil:
		return fmt.Sprintf("Warp messages are not followed since %s: %v", s.Since.UTC().Format(time.TimeOnly), s.Err)
	case s.Lost > 0:
		return fmt.Sprintf("Warp messages sent in %d blocks were not read, the last time in blocks %d to %d, which no node has any more; they are signed on request", s.Lost, s.LostFrom, s.LostThrough)
	}
	return ""
}

// prunedAttempts is the number of times that all nodes must lack a block before Follow skips it. Another node may be
// away for a moment.
const prunedAttempts = 10

// account is what a follower knows about its success.
type account struct {
	status Status
	noted  string // the note of the last status that was reported
	pruned int    // consecutive attempts at blocks that no node has
}

// attempt reads up to the tip, or skips blocks that no node has any more, and reports a new status.
func (f *follower) attempt(ctx context.Context) error {
	err := f.advance(ctx)
	if f.started && errors.Is(err, node.ErrPruned) {
		err = f.skipPruned(ctx, err)
	} else {
		f.pruned = 0
	}
	if ctx.Err() != nil {
		return err
	}
	switch {
	case err == nil:
		f.status.Since = time.Time{}
	case f.status.Err == nil:
		f.status.Since = time.Now()
	}
	f.status.Err = err
	if note := f.status.Note(); f.OnStatus != nil && note != f.noted {
		f.noted = note
		f.OnStatus(f.status)
	}
	return err
}

// skipPruned handles blocks that no node has. After some attempts it skips those up to the first one that a node has,
// and marks the gap.
func (f *follower) skipPruned(ctx context.Context, cause error) error {
	if f.pruned++; f.pruned < prunedAttempts {
		return fmt.Errorf("attempt %d of %d, after which the blocks are skipped: %w", f.pruned, prunedAttempts, cause)
	}
	height, err := f.Source.EVMHeight(ctx, f.Path)
	if err != nil {
		return err
	}
	has := func(block uint64) (bool, error) {
		_, _, err := f.Source.SentMessages(ctx, f.Path, block, block)
		if errors.Is(err, node.ErrPruned) {
			return false, nil
		}
		return err == nil, err
	}
	if height <= f.next {
		return cause
	}
	for _, block := range []uint64{f.next, height} {
		if found, err := has(block); err != nil || found != (block == height) {
			return errors.Join(cause, err) // not a gap, or nothing to continue with
		}
	}
	lacks, first := f.next, height
	for first-lacks > 1 {
		middle := lacks + (first-lacks)/2
		found, err := has(middle)
		switch {
		case err != nil:
			return err
		case found:
			first = middle
		default:
			lacks = middle
		}
	}
	f.status.Lost, f.status.LostFrom, f.status.LostThrough = f.status.Lost+first-f.next, f.next, first-1
	f.Log.Warn("no node has some blocks of an EVM chain any more; the Warp messages sent in them are not signed ahead",
		slog.String("chain", f.Chain), slog.Uint64("from", f.next), slog.Uint64("through", first-1))
	f.next, f.pruned = first, 0
	return nil
}
