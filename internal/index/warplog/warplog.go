// Package warplog follows the Warp messages sent on an EVM chain by reading the logs of the Warp precompile. It starts
// a configurable number of blocks before the chain's tip.
package warplog

import (
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
	// Path is the path of the chain's Ethereum API on the nodes.
	Path string
	// Lookback is the number of blocks before the tip that Follow reads at the start; 0 means 1,024.
	Lookback uint64
	// Poll is the interval between requests for the chain's height; 0 means 250 ms.
	Poll time.Duration
	// QuietPoll is the maximum interval while there are no new blocks. The interval grows to a sixteenth of the time
	// since the last block. Default Poll.
	QuietPoll time.Duration
	// OnMessage is called once for each message, in order. It must not block.
	OnMessage func(node.SentMessage)
	// Log receives a line when the source fails or recovers; nil discards them.
	Log *slog.Logger
	// OnStatus is called with each new Status; nil ignores them. It must not block.
	OnStatus func(Status)
}

const (
	// maxRange is the number of blocks per call; nodes refuse many more.
	maxRange = 1024
	// maxPause is the longest pause between attempts while the source fails.
	maxPause = 15 * time.Second
	// quietPart divides the time since the last block to give the poll interval.
	quietPart = 16
)

// Follow reports messages until ctx ends and returns its error. While the source fails, Follow retries with growing
// pauses and skips no block.
func Follow(ctx context.Context, o Options) error {
	if o.Lookback == 0 {
		o.Lookback = 1024
	}
	if o.Poll <= 0 {
		o.Poll = 250 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.QuietPoll = max(o.QuietPoll, o.Poll)
	f := follower{Options: o, size: maxRange, lookback: o.Lookback}
	pause, heard := o.Poll, time.Now()
	for {
		before := f.next
		err := f.attempt(ctx)
		if f.next != before {
			heard = time.Now()
		}
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if pause == o.Poll {
				o.Log.Log(ctx, levelOf(err), "the Warp messages of an EVM chain cannot be followed at the moment", slog.String("path", o.Path), slog.Any("error", err))
			}
			pause = min(2*pause, maxPause)
			wait = pause
		case pause != o.Poll:
			o.Log.Info("the Warp messages of an EVM chain are followed again", slog.String("path", o.Path))
			pause, wait = o.Poll, o.Poll
		default:
			wait = min(max(time.Since(heard)/quietPart, o.Poll), o.QuietPoll)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
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

type follower struct {
	Options
	account

	started bool   // blocks have been read
	next    uint64 // first unread block
	size    uint64 // size of a range; less than maxRange after a refusal
	// lookback is the number of blocks before the tip to read at the start. It is less than Lookback if no node has
	// them.
	lookback uint64
}

// advance reads up to the tip.
func (f *follower) advance(ctx context.Context) error {
	height, err := f.Source.EVMHeight(ctx, f.Path)
	if err != nil {
		return err
	}
	if !f.started {
		// Until a block was read, the height is an unverified report of one node.
		f.next = height - min(height, f.lookback)
	}
	for f.next <= height {
		through := min(height, f.next+f.size-1)
		sent, last, err := f.Source.SentMessages(ctx, f.Path, f.next, through)
		switch {
		case errors.Is(err, node.ErrBeyondTip):
			return nil // the node lags behind; retry later
		case errors.Is(err, node.ErrPruned) && !f.started && f.lookback > 0:
			f.lookback /= 2 // the node lacks the earlier blocks
			return err
		case err != nil:
			// Nodes and proxies limit the size of a range.
			f.size = max(f.size/2, 1)
			return err
		}
		f.started = true
		f.size = min(2*f.size, maxRange)
		for _, m := range sent {
			f.OnMessage(m)
		}
		f.next = last + 1
	}
	return nil
}
