// Package warplog follows the Warp messages that are sent on an EVM chain, as the
// logs of the Warp precompile tell them, from a little before the present on.
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
	// EVMHeight is the height of the last block that a node has executed.
	EVMHeight(ctx context.Context, path string) (uint64, error)
	// SentMessages are the messages sent in blocks from one height through another, in
	// order, as far as one node has executed them, which is until last. Errors are
	// node.ErrBeyondTip if it has not executed the first, and node.ErrPruned if it lacks it.
	SentMessages(ctx context.Context, path string, from, through uint64) (sent []node.SentMessage, last uint64, err error)
}

// Options of Follow. Source, Path and OnMessage are required.
type Options struct {
	Source Source
	// Path is where the nodes have the chain's Ethereum API.
	Path string
	// Lookback is how many blocks before the present are read at the start, so
	// that what was sent while nobody followed is found; 0 means 1,024.
	Lookback uint64
	// Poll is the time between two looks at the chain's height; 0 means 250 ms.
	Poll time.Duration
	// QuietPoll is what that becomes, little by little, while there are no new blocks: a
	// sixteenth of the time since the last, at most this. Default Poll.
	QuietPoll time.Duration
	// OnMessage is called once for each message, in order; it does not block.
	OnMessage func(node.SentMessage)
	// Log gets a line when the source fails or comes back; nil drops them.
	Log *slog.Logger
}

const (
	// maxRange is how many blocks one call covers; nodes refuse many more.
	maxRange = 1024
	// maxPause is the longest time between two attempts while the source fails.
	maxPause = 15 * time.Second
	// quietPart is the part of the time since the last block that is let pass until the
	// next look.
	quietPart = 16
)

// Follow reports messages until ctx ends, whose error it returns. While the
// source fails it waits, ever longer; no block is left out.
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
		err := f.advance(ctx)
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

// levelOf tells a node that fails from one that has no such API, which is a
// matter of configuration.
func levelOf(err error) slog.Level {
	var refused *node.RPCError
	if errors.As(err, &refused) && refused.NotOffered() {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

type follower struct {
	Options
	started bool   // blocks have been read
	next    uint64 // the first block that was not read
	size    uint64 // of a range; less than maxRange after one was refused
	// lookback is how many blocks before the present are read at the start; less than
	// Lookback if no node has them.
	lookback uint64
}

// advance reads up to the present.
func (f *follower) advance(ctx context.Context) error {
	height, err := f.Source.EVMHeight(ctx, f.Path)
	if err != nil {
		return err
	}
	if !f.started {
		// Until something was read, a height is no more than what one node says.
		f.next = height - min(height, f.lookback)
	}
	for f.next <= height {
		through := min(height, f.next+f.size-1)
		sent, last, err := f.Source.SentMessages(ctx, f.Path, f.next, through)
		switch {
		case errors.Is(err, node.ErrBeyondTip):
			return nil // a node that is behind answered; the blocks come later
		case errors.Is(err, node.ErrPruned) && !f.started && f.lookback > 0:
			f.lookback /= 2 // the node begins with later blocks
			return err
		case err != nil:
			// Nodes, and what stands before them, have limits of their own.
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
