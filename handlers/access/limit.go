package access

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
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
	class Class
	rate  *rate.Limiter
	// account shares the allowance with other processes; nil if it is not shared.
	account *account

	mu   sync.Mutex
	day  int64 // guarded by mu; the UTC day since 1970 that used counts
	used int   // guarded by mu
}

func newAllowance(c Class) *allowance {
	return &allowance{class: c, rate: rate.NewLimiter(rate.Limit(c.PerSecond), c.burst())}
}

// verdict is the result of charging a request.
type verdict struct {
	allowed bool
	// daily reports that the allowance of the day is exhausted.
	daily bool
	// remaining is the number of further requests that are allowed now.
	remaining int
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
	if today := now.Unix() / int64(day/time.Second); a.class.PerDay > 0 && a.day != today {
		a.day, a.used = today, 0
	}
	if a.class.PerDay > 0 && a.used+n > a.class.PerDay {
		return verdict{daily: true, reset: now.UTC().Truncate(day).Add(day).Sub(now)}
	}
	if !a.rate.AllowN(now, n) {
		lack := float64(n) - a.rate.TokensAt(now)
		return verdict{reset: time.Duration(lack / a.class.PerSecond * float64(time.Second))}
	}
	v := verdict{allowed: true, remaining: max(0, int(a.rate.TokensAt(now)))}
	if a.class.PerDay > 0 {
		a.used += n
		v.remaining = min(v.remaining, a.class.PerDay-a.used)
	}
	return v
}

// seconds rounds up, so that a client that waits this long is not too early.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}
