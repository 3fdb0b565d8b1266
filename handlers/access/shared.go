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

// Shared keeps what is used of the allowances of keys in a store, for all processes that
// share it. Each draws requests in small lots, so that most are let in without asking:
// what it drew and has not used within a second is lost to the key. The clocks of their
// machines have to agree within a fraction of a second, as those of machines do that
// keep the network's time. Safe for concurrent use.
type Shared struct {
	store store.Store
	log   *slog.Logger
}

// NewShared makes it. Log gets when the store does not answer, during which each process
// gives a key the whole allowance; nil drops that.
func NewShared(s store.Store, log *slog.Logger) *Shared {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Shared{store: s, log: log}
}

const (
	// drawTime bounds how long a request waits for the store.
	drawTime = 250 * time.Millisecond
	// drawAgain is how long the store is left alone after it did not answer.
	drawAgain = 2 * time.Second
	// drawTries is how often a draw is repeated that others came before.
	drawTries = 16
	// drawnLife is how long what was drawn may be used.
	drawnLife = time.Second
	// drawsPerSecond is how many lots make the allowance of a second.
	drawsPerSecond = 20
)

// draw is what came of asking for requests.
type draw struct {
	granted int
	verdict // of as many as were needed; remaining is after all that was granted
}

// take uses up to n requests of a key's allowance, or none if there are fewer than least,
// which is at most a burst. A cursor has what was used: Next is
// when, in microseconds since 1970, all of it would be there again at the class's rate
// (the generic cell rate algorithm), Epoch the day since 1970, and its requests.
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

// draw is the arithmetic of take.
func (c Class) draw(was store.Cursor, least, n int, now time.Time) (store.Cursor, draw) {
	each := 1e6 / c.PerSecond
	at := float64(now.UnixMicro())
	full := max(float64(was.Next), at)
	// A clock that was far ahead must not shut a key out for longer than a burst lasts.
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

// account is a key's allowance in one process, drawn from the shared one.
type account struct {
	shared *Shared
	key    string

	mu      sync.Mutex
	inHand  int       // drawn and not used; guarded by mu
	beyond  int       // what was left when it was drawn; guarded by mu
	until   time.Time // when that is lost; guarded by mu
	silence time.Time // until when the store is not asked; guarded by mu
}

// use uses n requests up, if there are so many; ok is false if the store does not tell.
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
	if c.PerDay == 0 && a.inHand == 0 { // of a day's nothing may be lost
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
