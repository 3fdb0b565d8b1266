package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"quorate/internal/store"
)

// Shared counts the use of API keys in a store for all processes that share it. Each process draws a few requests at a
// time, so that it admits most requests without access to the store. What it draws and does not use within a second is
// lost to the API key. The clocks of the machines must agree within a fraction of a second. Shared is safe for
// concurrent use.
type Shared struct {
	store store.Store
	log   *slog.Logger
}

// NewShared returns a Shared in s. Log gets failures of the store; nil discards them. While the store fails, each
// process grants the whole allowance.
func NewShared(s store.Store, log *slog.Logger) *Shared {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Shared{store: s, log: log}
}

const (
	// drawTime is the timeout of a draw.
	drawTime = 250 * time.Millisecond
	// drawAgain is the time between a failure of the store and the next draw.
	drawAgain = 2 * time.Second
	// drawTries is how often a draw is tried if other processes draw at the same time.
	drawTries = 16
	// drawnLife is how long drawn requests may be used.
	drawnLife = time.Second
	// drawsPerSecond is the number of draws into which the allowance of a second is divided.
	drawsPerSecond = 20
)

// draw is the result of drawing requests.
type draw struct {
	granted int
	verdict // of the least number of requests; remaining counts what is left after the draw
}

// take draws up to n requests from an API key's allowance, or none if fewer than least are left. least is at most a
// burst. The cursor stores the use: Next is the time, in microseconds since 1970, at which the full burst is available
// again (the generic cell rate algorithm); Epoch holds the day since 1970 and its requests.
func (s *Shared) take(ctx context.Context, key string, c Class, least, n int, now time.Time) (draw, error) {
	name := "allowance/" + key
	ctx, cancel := context.WithTimeout(ctx, drawTime)
	defer cancel()
	for range drawTries {
		was, err := store.ReadCursor(ctx, s.store, name)
		if err != nil {
			return draw{}, err
		}
		next, d := c.draw(was, least, n, now)
		if d.granted == 0 {
			return d, nil
		}
		batch := store.Batch{NoSync: true}
		batch.Move(name, was, next)
		if err = s.store.Commit(ctx, &batch); err == nil {
			return d, nil
		}
		if !errors.Is(err, store.ErrFenced) {
			return draw{}, fmt.Errorf("using the allowance of key %s: %w", key, err)
		}
	}
	return draw{}, fmt.Errorf("using the allowance of key %s: too many processes draw on it at a time", key)
}

// draw computes the result of take and the new cursor.
func (c Class) draw(was store.Cursor, least, n int, now time.Time) (store.Cursor, draw) {
	each := 1e6 / c.PerSecond
	at := float64(now.UnixMicro())
	full := max(float64(was.Next), at)
	// Bound the effect of a clock that was far ahead to the time that a burst takes.
	full = min(full, at+each*float64(c.burst()))
	room := int(math.Floor((at+each*float64(c.burst())-full)/each + 1e-6))
	today := uint64(now.Unix()) / uint64(day/time.Second)
	used := 0
	if was.Epoch>>32 == today {
		used = int(was.Epoch & math.MaxUint32)
	}
	if c.PerDay > 0 && used+least > c.PerDay {
		return was, draw{verdict: verdict{daily: true, reset: now.UTC().Truncate(day).Add(day).Sub(now)}}
	}
	if room < least {
		wait := full + each*float64(least) - at - each*float64(c.burst())
		return was, draw{verdict: verdict{reset: time.Duration(wait * float64(time.Microsecond))}}
	}
	left := room
	if c.PerDay > 0 {
		left = min(left, c.PerDay-used)
	}
	granted := min(n, left)
	next := store.Cursor{Next: uint64(math.Ceil(full + each*float64(granted))), Epoch: today<<32 | uint64(used+granted)}
	return next, draw{granted: granted, verdict: verdict{allowed: true, remaining: left - granted}}
}

// account is the part of an API key's allowance that one process has drawn.
type account struct {
	shared *Shared
	key    string

	mu      sync.Mutex
	inHand  int       // drawn and not used; guarded by mu
	beyond  int       // left in the store after the draw; guarded by mu
	until   time.Time // when inHand expires; guarded by mu
	silence time.Time // until when the store is not asked; guarded by mu
}

// use charges n requests, all or none. It returns false for ok if the store fails.
func (a *account) use(ctx context.Context, c Class, n int, now time.Time) (v verdict, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !now.Before(a.until) {
		a.inHand = 0
	}
	if a.inHand >= n {
		a.inHand -= n
		return verdict{allowed: true, remaining: a.inHand + a.beyond}, true
	}
	if now.Before(a.silence) {
		return verdict{}, false
	}
	least := n - a.inHand
	lot := least
	if c.PerDay == 0 && a.inHand == 0 { // a daily allowance must not lose drawn requests
		lot = max(n, min(c.burst(), int(c.PerSecond/drawsPerSecond)))
	}
	d, err := a.shared.take(ctx, a.key, c, least, lot, now)
	if err != nil {
		if ctx.Err() == nil {
			a.silence = now.Add(drawAgain)
			a.shared.log.Warn("the shared allowance of a key cannot be asked for; this process gives the whole of it meanwhile", slog.String("key", a.key), slog.Any("error", err))
		}
		return verdict{}, false
	}
	if d.granted == 0 {
		return d.verdict, true
	}
	a.inHand, a.beyond, a.until = d.granted-least, d.remaining, now.Add(drawnLife)
	return verdict{allowed: true, remaining: a.inHand + a.beyond}, true
}
