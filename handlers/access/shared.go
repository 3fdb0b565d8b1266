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
// burst.
func (s *Shared) take(ctx context.Context, key string, c Class, least, n int, now time.Time) (draw, error) {
	return s.move(ctx, key, func(was store.Cursor) (store.Cursor, draw) { return c.draw(was, least, n, now) })
}

// owe charges n requests to an API key's allowance even if they exceed it; see Class.owe.
func (s *Shared) owe(ctx context.Context, key string, c Class, n int, now time.Time) error {
	_, err := s.move(ctx, key, func(was store.Cursor) (store.Cursor, draw) { return c.owe(was, n, now), draw{} })
	return err
}

// move is replace within drawTime. A commit that the store does not answer takes longer, and goes on by itself.
func (s *Shared) move(ctx context.Context, key string, step func(store.Cursor) (store.Cursor, draw)) (draw, error) {
	// A client that leaves costs no more than one that stays.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drawTime)
	defer cancel()
	type result struct {
		draw draw
		err  error
	}
	done := make(chan result, 1)
	go func() {
		d, err := s.replace(ctx, key, step)
		done <- result{d, err}
	}()
	select {
	case r := <-done:
		return r.draw, r.err
	case <-ctx.Done():
		return draw{}, fmt.Errorf("using the allowance of key %s: %w", key, ctx.Err())
	}
}

// replace replaces the cursor of an API key, which stores the use of its allowance, by what step returns. It calls step
// again if another process was first.
func (s *Shared) replace(ctx context.Context, key string, step func(store.Cursor) (store.Cursor, draw)) (draw, error) {
	name := "allowance/" + key
	for range drawTries {
		was, err := store.ReadCursor(ctx, s.store, name)
		if err != nil {
			return draw{}, err
		}
		next, d := step(was)
		if next == was {
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

// draw computes the result of take and the new cursor, which is the old one if nothing is granted.
func (c Class) draw(was store.Cursor, least, n int, now time.Time) (store.Cursor, draw) {
	u := c.usage(was, now)
	burst := u.each * float64(c.burst())
	room := int(math.Floor((u.at+burst-u.full)/u.each + 1e-6))
	if c.PerDay > 0 && u.used+least > c.PerDay {
		return was, draw{verdict: verdict{daily: true, reset: now.UTC().Truncate(day).Add(day).Sub(now)}}
	}
	if room < least {
		wait := u.full + u.each*float64(least) - u.at - burst
		const rounding = 1000 // of cursors, in microseconds
		return was, draw{verdict: verdict{owes: u.full > u.at+burst+rounding, reset: time.Duration(wait * float64(time.Microsecond))}}
	}
	left := room
	if c.PerDay > 0 {
		left = min(left, c.PerDay-u.used)
	}
	granted := min(n, left)
	return u.cursor(granted), draw{granted: granted, verdict: verdict{allowed: true, remaining: left - granted}}
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
		a.failed(now, err)
		return verdict{}, false
	}
	if d.granted == 0 {
		return d.verdict, true
	}
	a.inHand, a.beyond, a.until = d.granted-least, d.remaining, now.Add(drawnLife)
	return verdict{allowed: true, remaining: a.inHand + a.beyond}, true
}

// owe charges n requests even if they exceed the allowance. It returns false if the store fails.
func (a *account) owe(ctx context.Context, c Class, n int, now time.Time) (ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.silence) {
		return false
	}
	if err := a.shared.owe(ctx, a.key, c, n, now); err != nil {
		a.failed(now, err)
		return false
	}
	a.inHand, a.beyond = 0, 0 // so that the next request notices a debt
	return true
}

// failed notes a failure of the store at now. The caller holds a.mu.
func (a *account) failed(now time.Time, err error) {
	a.silence = now.Add(drawAgain)
	a.shared.log.Warn("the shared allowance of an API key cannot be read; meanwhile this process grants all of it", slog.String("key", a.key), slog.Any("error", err))
}
