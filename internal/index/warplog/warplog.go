// Package warplog follows the Warp messages sent on an EVM chain by reading the logs of the Warp precompile. It starts
// a configurable number of blocks before the chain's tip.
package warplog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"quorate/internal/node"
)

// Source is the Ethereum API of the followed chain.
type Source interface {
	// EVMHeight returns the height of the last block that a node has executed.
	EVMHeight(ctx context.Context, path string) (uint64, error)
	// SentMessages returns, in order, the messages sent in the blocks between two heights, both included. last is the
	// last of these blocks that the node has executed. It returns node.ErrBeyondTip if the node has not executed the
	// first block, and node.ErrPruned if the node lacks it.
	SentMessages(ctx context.Context, path string, from, through uint64) (sent []node.SentMessage, last uint64, err error)
}

// Options configures Follow. Source, Path and OnMessage are required.
type Options struct {
	Source Source
	// Path is the path of the chain's Ethereum API on the nodes, Chain its name in logs.
	Path, Chain string
	// Lookback is the number of blocks before the tip that Follow reads at the start; 0 means 1,024.
	Lookback uint64
	// Poll is the interval between requests for the chain's height; 0 means 500 ms.
	Poll time.Duration
	// QuietPoll is the maximum interval while there are no new blocks. The interval grows to a quarter of the time since
	// the last block. Default Poll.
	QuietPoll time.Duration
	// Wake, unless nil, ends a pause when there may be a new block.
	Wake <-chan struct{}
	// OnMessage is called once for each message: in order, except for messages that a node left out of its first reply.
	// It must not block.
	OnMessage func(node.SentMessage)
	// Metrics may be nil.
	Metrics *Metrics
	// Log receives a line when the source fails for a while and when it recovers; nil discards them.
	Log *slog.Logger
	// OnStatus is called with each new Status; nil ignores them. It must not block.
	OnStatus func(Status)
}

const (
	// maxRange is the number of blocks per call; nodes refuse many more.
	maxRange = 1024
	// sizeLife is how long a follower avoids the size of a range that a node refused.
	sizeLife = time.Hour
	// maxPause is the longest pause between attempts while the source fails.
	maxPause = 15 * time.Second
	// quietPart divides the time since the last block to give the poll interval.
	quietPart = 4
	// overlap is the number of blocks before the first unread one that are read again with it, and rereadAfter the time
	// after which the last blocks are read again if none follow. A load balancer may ask different nodes for the height
	// and for the logs, and a node that has not executed a block answers that the block has no logs.
	overlap     = 8
	rereadAfter = 3 * time.Second
	// logAfter is how long the source must fail before the log says so.
	logAfter = 10 * time.Second
)

// Follow reports messages until ctx ends and returns its error. While the source fails, Follow retries with growing
// pauses and skips no block.
func Follow(ctx context.Context, o Options) error {
	o.Lookback = cmp.Or(o.Lookback, 1024)
	o.Poll = cmp.Or(max(o.Poll, 0), 500*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = newMetrics("")
	}
	defer o.Metrics.lag.Reset() // another process may follow the chain
	o.QuietPoll = max(o.QuietPoll, o.Poll)
	f := follower{Options: o, lookback: o.Lookback, size: maxRange, seen: make(map[position]struct{})}
	pause, changed := o.Poll, time.Now()
	var failing time.Time // since when; zero while the source works
	logged := false
	for {
		before := f.next
		err := f.attempt(ctx)
		if f.next != before {
			changed = time.Now()
		}
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if failing.IsZero() {
				failing = time.Now()
			}
			if !logged && time.Since(failing) >= logAfter {
				logged = true
				o.Log.Log(ctx, levelOf(err), "the Warp messages of an EVM chain cannot be followed at the moment", slog.String("chain", o.Chain), slog.Any("error", err))
			}
			pause = min(2*pause, maxPause)
			wait = pause
		default:
			if logged {
				o.Log.Info("the Warp messages of an EVM chain are followed again", slog.String("chain", o.Chain))
			}
			pause, failing, logged = o.Poll, time.Time{}, false
			wait = min(max(time.Since(changed)/quietPart, o.Poll), o.QuietPoll)
			if f.started && !f.reread.IsZero() {
				due := time.Until(f.reread)
				if due <= 0 { // a node that lags could not be asked again
					due = o.Poll
				}
				wait = min(wait, due)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-o.Wake:
			changed = time.Now() // a block is accepted before it is executed
		case <-timer.C:
		}
		timer.Stop()
	}
}

// levelOf returns the log level of err. A node without this API is misconfigured; other failures are temporary.
func levelOf(err error) slog.Level {
	var refused *node.RPCError
	if errors.As(err, &refused) && refused.NotOffered() {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// position identifies a message.
type position struct{ block, index uint64 }

type follower struct {
	Options
	account

	started bool   // blocks have been read
	first   uint64 // first block that was read and may be read again
	next    uint64 // first unread block
	// lookback is the number of blocks before the tip to read at the start. It is less than Lookback if no node has
	// them.
	lookback uint64
	// seen are the messages of the blocks that are read again, reread is when the last blocks are; zero if they were.
	seen   map[position]struct{}
	reread time.Time

	// size is the size of the next range, accepted the largest size that was accepted, and refused the smallest that was
	// refused, at refusedAt; 0 if none was.
	size, accepted, refused uint64
	refusedAt               time.Time
}

// advance reads up to the tip.
func (f *follower) advance(ctx context.Context) error {
	height, err := f.Source.EVMHeight(ctx, f.Path)
	if err != nil {
		f.Metrics.lag.Reset()
		return err
	}
	if !f.started {
		// Until a block was read, the height is an unverified report of one node.
		f.next = height - min(height, f.lookback)
		f.first = f.next
	}
	for f.next <= height {
		f.Metrics.lag.WithLabelValues().Set(float64(height + 1 - f.next))
		from := f.next
		if height-from < f.size { // the last range
			from -= min(overlap, f.size/2, from-f.first)
		}
		last, err := f.read(ctx, from, height)
		if errors.Is(err, node.ErrBeyondTip) {
			return nil // the node lags behind; retry later
		}
		if f.started && from < f.next && errors.Is(err, node.ErrPruned) {
			f.first = f.next // the earlier blocks cannot be read again
			continue
		}
		if err != nil {
			return err
		}
		if last < f.next {
			return nil // the same
		}
		f.next = last + 1
		f.reread = time.Now().Add(rereadAfter)
	}
	f.Metrics.lag.WithLabelValues().Set(0)
	if !f.reread.IsZero() && !time.Now().Before(f.reread) {
		if n := min(overlap, f.size, f.next-f.first); n > 0 {
			_, err := f.read(ctx, f.next-n, f.next-1)
			switch {
			case err == nil:
			case errors.Is(err, node.ErrBeyondTip):
				return nil
			case errors.Is(err, node.ErrPruned):
				f.first = f.next
			default:
				return err
			}
		}
		f.reread = time.Time{}
	}
	return nil
}

// read reports the messages of as many blocks as one call may ask for, from a block on through another one at most, and
// returns the last of them. It finds out the size of a range that the nodes accept.
func (f *follower) read(ctx context.Context, from, through uint64) (last uint64, err error) {
	if f.refused > 0 && time.Since(f.refusedAt) > sizeLife {
		f.refused = 0
	}
	for refused := uint64(0); ; {
		size := min(f.size, through-from+1)
		sent, last, err := f.Source.SentMessages(ctx, f.Path, from, from+size-1)
		switch {
		case err == nil:
			f.accept(size, refused)
			f.started = true
			f.report(sent)
			return last, nil
		case errors.Is(err, node.ErrPruned) && !f.started && f.lookback > 0:
			f.Metrics.skipped.Add(float64(f.lookback - f.lookback/2)) // the node lacks the earlier blocks
			f.lookback /= 2
			return 0, err
		case ctx.Err() != nil, errors.Is(err, node.ErrBeyondTip), errors.Is(err, node.ErrPruned):
			return 0, err
		case size > 1 && mayBeTooLarge(err):
			refused = size
			if f.size = size / 2; f.accepted < size {
				f.size = max(f.size, f.accepted)
			}
		case refused > 0 && size == 1: // the size does not matter
			f.size, f.accepted, f.refused = maxRange, 0, 0
			return 0, err
		default:
			f.size = max(size/2, 1) // it may have taken too long
			return 0, err
		}
	}
}

// mayBeTooLarge reports whether a node refused a range, or its response, as too large. There is no code for it.
func mayBeTooLarge(err error) bool {
	return node.RefusesBatch(err) || errors.Is(err, node.ErrMalformed)
}

// accept notes that a range was accepted, after a larger one was refused unless refused is 0, and sets the size of the
// next one. It approaches the limit of the nodes by halves, and keeps to it then.
func (f *follower) accept(size, refused uint64) {
	if refused > 0 {
		if refused <= f.accepted {
			f.accepted = 0 // another node accepts less
		}
		f.refused, f.refusedAt = refused, time.Now()
	}
	full := size >= f.size
	f.accepted = max(f.accepted, size)
	switch {
	case f.refused == 0:
		f.size = min(2*f.size, maxRange)
	case f.refused <= f.accepted: // the limit was raised
		f.refused, f.size = 0, f.accepted
	case full:
		f.size = max(f.accepted, (f.accepted+f.refused)/2)
	}
}

// report passes on the messages that are new.
func (f *follower) report(sent []node.SentMessage) {
	for _, m := range sent {
		at := position{m.Block, m.Index}
		if _, ok := f.seen[at]; ok {
			continue
		}
		f.seen[at] = struct{}{}
		if m.Block < f.next {
			f.Metrics.late.Inc()
			f.Log.Debug("a node left a Warp message out of its first reply", slog.String("chain", f.Chain), slog.Uint64("block", m.Block))
		}
		f.OnMessage(m)
	}
	for at := range f.seen {
		if at.block+2*overlap < f.next {
			delete(f.seen, at)
		}
	}
}
