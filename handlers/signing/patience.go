package signing

import (
	"context"
	"sync"
	"time"
)

// patience is a context.WithTimeout whose timer is not set before somebody waits
// for it, as most requests are answered before anybody does. End ends it.
type patience struct {
	context.Context // of the client's request

	until time.Time

	mu     sync.Mutex
	timed  context.Context    //nolint:containedctx // what it is once somebody waits; guarded by mu
	cancel context.CancelFunc // guarded by mu
	over   bool               // guarded by mu
}

func newPatience(client context.Context, timeout time.Duration) *patience {
	return &patience{Context: client, until: time.Now().Add(timeout)}
}

// settled is the context with a timer, which is made if force says so.
func (p *patience) settled(force bool) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timed == nil {
		if !force {
			return nil
		}
		p.timed, p.cancel = context.WithDeadline(p.Context, p.until)
		if p.over {
			p.cancel()
		}
	}
	return p.timed
}

// Deadline implements context.Context.
func (p *patience) Deadline() (time.Time, bool) {
	if earlier, ok := p.Context.Deadline(); ok && earlier.Before(p.until) {
		return earlier, true
	}
	return p.until, true
}

// Done implements context.Context.
func (p *patience) Done() <-chan struct{} { return p.settled(true).Done() }

// Err implements context.Context.
func (p *patience) Err() error {
	if timed := p.settled(p.ripe()); timed != nil {
		return timed.Err()
	}
	return p.Context.Err()
}

// ripe reports whether it has ended by itself.
func (p *patience) ripe() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over || !time.Now().Before(p.until)
}

// Value implements context.Context.
func (p *patience) Value(key any) any {
	if timed := p.settled(false); timed != nil {
		return timed.Value(key) // so that contexts made of this one need no goroutine
	}
	return p.Context.Value(key)
}

// end is to be called when the work is done.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.cancel != nil {
		p.cancel()
	}
}
