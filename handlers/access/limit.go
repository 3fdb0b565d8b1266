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

// Class is an allowance of requests. It is had in full by each key of the class and,
// for the class DefaultClass, by each client address without a key.
type Class struct {
	// PerSecond is how many requests a second are allowed in the long run.
	PerSecond float64
	// Burst is how many may come at once after a rest; 0 stands for PerSecond,
	// rounded up.
	Burst int
	// PerDay bounds the requests of a day (UTC), besides; 0 means no such bound. What
	// was used of it is forgotten when the process ends.
	PerDay int
}

// DefaultClass is the class of clients without a key, and of keys whose class is not
// configured.
const DefaultClass = "default"

// Validate says what is wrong with the class.
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

// policy is the class in a ratelimit-policy header: requests and the window in
// seconds over which they are allowed.
func (c Class) policy() string {
	text := strconv.Itoa(c.burst()) + ";w=" + strconv.Itoa(max(1, int(math.Round(float64(c.burst())/c.PerSecond))))
	if c.PerDay > 0 {
		text += ", " + strconv.Itoa(c.PerDay) + ";w=86400"
	}
	return text
}

// allowance is what one client has left of a class. Safe for concurrent use.
type allowance struct {
	class Class
	rate  *rate.Limiter
	// account is where the allowance is shared with other processes; nil if it is not.
	account *account

	mu   sync.Mutex
	day  int64 // guarded by mu; UTC day since 1970 that used is of
	used int   // guarded by mu
}

func newAllowance(c Class) *allowance {
	return &allowance{class: c, rate: rate.NewLimiter(rate.Limit(c.PerSecond), c.burst())}
}

// verdict is what became of a request.
type verdict struct {
	allowed bool
	// daily says that the day's allowance is what is used up.
	daily bool
	// remaining is how many further requests would be allowed now.
	remaining int
	// reset is after how long as much will be allowed; 0 if this is.
	reset time.Duration
}

const day = 24 * time.Hour

// use is take, of what all processes together may use.
func (a *allowance) use(ctx context.Context, n int, now time.Time) verdict {
	if a.account != nil {
		if v, ok := a.account.use(ctx, a.class, n, now); ok {
			return v
		}
	}
	return a.take(n, now)
}

// take uses n requests up, at most a burst, if there are so many.
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

// seconds rounds up, so that who waits for as long is not too early.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}
