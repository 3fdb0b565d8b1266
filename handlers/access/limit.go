package access

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"quorate/internal/store"
)

// Class is an allowance of requests. Each API key of the class has the full allowance. For DefaultClass, so does each
// client IP address without an API key.
type Class struct {
	// PerSecond is the sustained rate of requests per second.
	PerSecond float64
	// Burst is the number of requests that may arrive at once; 0 means PerSecond, rounded up.
	Burst int
	// PerDay is the number of requests per UTC day; 0 means no such limit. Without Options.Shared the count starts at
	// 0 when the process starts.
	PerDay int
}

// DefaultClass is the class of clients without an API key, and of API keys whose class is not configured.
const DefaultClass = "default"

// Validate returns an error if the class is invalid.
func (c Class) Validate() error {
	var err error
	if !(c.PerSecond > 0) || c.PerSecond > 1e6 {
		err = errors.Join(err, fmt.Errorf("per_second: %v is not above 0 and at most 1000000", c.PerSecond))
	}
	if c.Burst < 0 || c.Burst > 1e6 {
		err = errors.Join(err, fmt.Errorf("burst: %d is not between 1 and 1000000", c.Burst))
	}
	if c.PerDay < 0 {
		err = errors.Join(err, fmt.Errorf("per_day: %d is negative", c.PerDay))
	}
	return err
}

func (c Class) burst() int {
	if c.Burst > 0 {
		return c.Burst
	}
	return max(1, int(math.Ceil(c.PerSecond)))
}

// policy returns the value of a ratelimit-policy header: requests, and the window in seconds.
func (c Class) policy() string {
	text := strconv.Itoa(c.burst()) + ";w=" + strconv.Itoa(max(1, int(math.Round(float64(c.burst())/c.PerSecond))))
	if c.PerDay > 0 {
		text += ", " + strconv.Itoa(c.PerDay) + ";w=86400"
	}
	return text
}

// allowance is the remaining allowance of one client. It is safe for concurrent use.
type allowance struct {
	class  Class
	policy []string // the value of the ratelimit-policy header
	// account shares the allowance with other processes; nil if it is not shared.
	account *account

	mu   sync.Mutex
	used store.Cursor // guarded by mu; see Class.draw
}

// newAllowance returns the allowance of a client of class c. It continues before, which may be nil.
func newAllowance(c Class, before *allowance) *allowance {
	if before == nil {
		return &allowance{class: c, policy: []string{c.policy()}}
	}
	a := &allowance{class: c, policy: before.policy, account: before.account}
	if c != before.class {
		a.policy = []string{c.policy()}
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	a.used = before.used
	return a
}

// verdict is the result of charging a request.
type verdict struct {
	allowed bool
	// daily reports that the allowance of the day is exhausted.
	daily bool
	// remaining is the number of further requests that are allowed now.
	remaining int
	// owes reports that requests which were charged afterwards exceed the allowance.
	owes bool
	// reset is the time until the requests will be allowed; 0 if they are allowed.
	reset time.Duration
}

const day = 24 * time.Hour

// use is take for an allowance that processes may share.
func (a *allowance) use(ctx context.Context, n int, now time.Time) verdict {
	if a.account != nil {
		if v, ok := a.account.use(ctx, a.class, n, now); ok {
			return v
		}
	}
	return a.take(n, now)
}

// take charges n requests, at most a burst, all or none.
func (a *allowance) take(n int, now time.Time) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	var d draw
	a.used, d = a.class.draw(a.used, n, n, now)
	return d.verdict
}

// owe charges n requests even if they exceed the allowance; see Class.owe.
func (a *allowance) owe(ctx context.Context, n int, now time.Time) {
	if a.account != nil && a.account.owe(ctx, a.class, n, now) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = a.class.owe(a.used, n, now)
}

// debtTime bounds how far requests that are charged after they were served exceed an allowance: it is the time in
// which the debt is restored.
const debtTime = 30 * time.Second

// usage is the state that a cursor of an allowance stores, at a moment: full is the time, in microseconds since 1970, at which the full
// burst is available again (the generic cell rate algorithm), and used is the number of requests today.
type usage struct {
	at, each, full float64 // now, and the time that restores one request, in microseconds
	today          uint64  // days since 1970
	used           int
}

// usage reads a cursor. Next holds full, Epoch the day and its requests.
func (c Class) usage(was store.Cursor, now time.Time) usage {
	u := usage{at: float64(now.UnixMicro()), each: 1e6 / c.PerSecond, today: uint64(now.Unix()) / uint64(day/time.Second)}
	// Bound the effect of a clock that was far ahead.
	u.full = min(max(float64(was.Next), u.at), u.at+c.limit(u.each))
	if was.Epoch>>32 == u.today {
		u.used = int(was.Epoch & math.MaxUint32)
	}
	return u
}

// limit returns the time, in microseconds, that restores the full burst after the largest debt.
func (c Class) limit(each float64) float64 {
	return each*float64(c.burst()) + float64(debtTime/time.Microsecond)
}

// cursor returns the cursor after n further requests.
func (u usage) cursor(n int) store.Cursor {
	return store.Cursor{Next: uint64(math.Ceil(u.full + u.each*float64(n))), Epoch: u.today<<32 | uint64(min(u.used+n, math.MaxUint32))}
}

// owe returns the cursor after n requests that were served already. They may exceed the allowance by what debtTime
// restores; the rest is not charged to the rate, but to the day.
func (c Class) owe(was store.Cursor, n int, now time.Time) store.Cursor {
	u := c.usage(was, now)
	next := u.cursor(n)
	next.Next = min(next.Next, uint64(math.Ceil(u.at+c.limit(u.each))))
	return next
}

// seconds rounds up, so that a client that waits this long is not too early.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}
