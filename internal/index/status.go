package index

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"quorate/internal/store"
)

// State is what a pipeline does.
type State string

// The states of a pipeline.
const (
	// Idle is a pipeline that does not run, or whose node has not answered yet.
	Idle State = "idle"
	// Rebuilding is at blocks whose containers are kept: a record is made again.
	Rebuilding State = "rebuilding"
	// CatchingUp is far from the tip.
	CatchingUp State = "catching up"
	// Following is at the tip, or a few blocks away.
	Following State = "following"
	// Retrying has no node or store that answers, and goes on by itself.
	Retrying State = "retrying"
	// Stalled is Retrying after it had been Following: what is recorded is good, and
	// what came after it is missing.
	Stalled State = "stalled"
	// Stopped has ended with an error; somebody must look at it.
	Stopped State = "stopped"
)

// NearTip is how many blocks from the tip are no longer a matter of catching up.
const NearTip = 64

// Status is how a pipeline stands.
type Status struct {
	State State
	// From is the first height that all tenants record, Next the first that one of
	// them has not recorded yet.
	From, Next uint64
	// Kept is the first height for which a node has to be asked.
	Kept uint64
	// Tip is the node's last accepted height as it was last heard. A lower one than
	// before counts only when nothing else was heard for a while: a node may lag behind,
	// or the earlier answer was wrong. TipKnown is false before the first.
	Tip      uint64
	TipKnown bool
	// BlocksPerSecond is over the last seconds in which there was a commit.
	BlocksPerSecond float64
	// CaughtUp says that the pipeline was Following since it began to run. Trouble
	// changes nothing about it, but the end of the pipeline does, unless another one has
	// taken over: then nobody knows any more how far the chain is.
	CaughtUp bool
	// Err is why the pipeline is Retrying, Stalled or Stopped. Failing names the work
	// that fails while it is Retrying or Stalled.
	Err     error
	Failing string
	// Note is what the source has to say; see Noter.
	Note string
	// Gaps is how many blocks are indexed without a part that a node did not give, such as
	// call traces, and wait for it.
	Gaps uint64
}

// Lag is the number of blocks that are accepted and not recorded.
func (s Status) Lag() uint64 {
	if !s.TipKnown || s.Next > s.Tip {
		return 0
	}
	return s.Tip - s.Next + 1
}

// near reports whether the tip is a few blocks away at most, as far as is known. An index with
// none of the nodes' blocks is not near, however short the chain is: the nodes may lack them.
// The block at height 0 comes from the genesis.
func (s Status) near() bool {
	begun := s.Next > max(s.From, 1) || s.Lag() == 0
	return begun && s.TipKnown && s.Next >= s.Kept && s.Lag() <= NearTip
}

// Rebuilt is how much of a Rebuilding record is made again, in percent.
func (s Status) Rebuilt() int {
	if s.Kept <= s.From || s.Next >= s.Kept {
		return 100
	}
	return int(100 * (max(s.Next, s.From) - s.From) / (s.Kept - s.From))
}

// status is what the goroutines of a pipeline say about themselves.
type status struct {
	mu      sync.Mutex
	current Status           // without State; guarded by mu
	running bool             // guarded by mu
	trouble map[string]error // by what goes wrong; guarded by mu
	lanes   map[string]reach // by tenant; guarded by mu
	caught  map[string]bool  // the tenants whose own records were near the tip; guarded by mu
	lower   lower            // guarded by mu

	// since and then are when counting for the rate began, and at which block;
	// those ending in Before are of the count before that one. Guarded by mu.
	since, sinceBefore time.Time
	then, thenBefore   uint64
}

// lower counts the answers below the tip since the last one that was not.
type lower struct {
	since time.Time
	times int
	most  uint64
}

const (
	// A lower tip counts after so many answers, and so long; sooner if it is so much
	// lower that no node lags like that.
	lowerTimes    = 3
	lowerLag      = 5 * time.Minute
	lowerNonsense = 30 * time.Second
)

// reach is which blocks a tenant has.
type reach struct{ from, next uint64 }

// rateWindow is the least time that a rate is taken over.
const rateWindow = 5 * time.Second

func (s *status) read() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(s.current)
}

// readOf is how one tenant stands.
func (s *status) readOf(tenant string) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current
	if l, ok := s.lanes[tenant]; ok {
		now.From, now.Next = l.from, l.next
		// It may be where the others still have to get to.
		now.CaughtUp = now.CaughtUp || s.caught[tenant]
	}
	return s.at(now)
}

// at adds the State; mu is held.
func (s *status) at(now Status) Status {
	switch {
	case now.Err != nil:
		now.State = Stopped
	case !s.running:
		now.State = Idle
	case len(s.trouble) > 0:
		now.State = Retrying
		if now.CaughtUp {
			now.State = Stalled
		}
		// If several things fail, always the same one is shown.
		now.Failing = slices.Min(slices.Collect(maps.Keys(s.trouble)))
		now.Err = s.trouble[now.Failing]
	case now.Next < now.Kept:
		now.State = Rebuilding
	case !now.TipKnown:
		now.State = Idle
	case !now.near():
		now.State = CatchingUp
	default:
		now.State = Following
	}
	return now
}

func (s *status) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.trouble, s.current = true, make(map[string]error), Status{}
	s.lanes, s.caught, s.lower = nil, make(map[string]bool), lower{}
}

func (s *status) position(from, next, kept uint64, lanes map[string]reach) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes = lanes
	s.current.From, s.current.Next, s.current.Kept = from, next, kept
	s.since, s.then = time.Now(), next
	s.sinceBefore, s.thenBefore = s.since, s.then
}

// end notes why the pipeline ended, nil if it was asked to. Whoever fenced it goes on
// where it ended: what is known of the tip stays.
func (s *status) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.current.Err = false, err
	if !errors.Is(err, store.ErrFenced) {
		s.current.CaughtUp = false
		clear(s.caught)
	}
}

// tip notes the node's height, and returns the one to go by.
func (s *status) tip(height uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.current.TipKnown || height >= s.current.Tip {
		s.current.Tip, s.current.TipKnown, s.lower = height, true, lower{}
	} else {
		s.below(height)
	}
	s.catchUp()
	return s.current.Tip
}

// below notes an answer that lies below the tip. In the end it replaces the tip, which
// never falls below what is recorded. It needs mu.
func (s *status) below(height uint64) {
	l := &s.lower
	if l.times == 0 {
		l.since = time.Now()
	}
	l.times++
	l.most = max(l.most, height)
	wait := lowerLag
	if s.current.Tip-l.most > NearTip {
		wait = lowerNonsense
	}
	if l.times < lowerTimes || time.Since(l.since) < wait {
		return
	}
	s.current.Tip = max(l.most, max(s.current.Next, 1)-1)
	for _, lane := range s.lanes {
		s.current.Tip = max(s.current.Tip, max(lane.next, 1)-1)
	}
	s.lower = lower{}
}

// catchUp notes once that the tip is near, of all and of each tenant. It needs mu.
func (s *status) catchUp() {
	s.current.CaughtUp = s.current.CaughtUp || s.current.near()
	for tenant, l := range s.lanes {
		own := s.current
		own.From, own.Next = l.from, l.next
		if own.near() {
			s.caught[tenant] = true
		}
	}
}

// committed notes how far the record is. A process that only watches may be told less
// than it knows already, which changes nothing.
func (s *status) committed(next uint64, lanes map[string]reach) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next <= s.current.Next {
		return
	}
	s.lanes = lanes
	s.current.Next = next
	s.catchUp()
	now := time.Now()
	if now.Sub(s.since) >= rateWindow {
		s.sinceBefore, s.thenBefore = s.since, s.then
		s.since, s.then = now, next
	}
	if passed := now.Sub(s.sinceBefore).Seconds(); passed > 0 {
		s.current.BlocksPerSecond = float64(next-s.thenBefore) / passed
	}
}

// failing notes that something goes wrong, and reports whether that is news; a nil
// error says that it works, and whether it did not before.
func (s *status) failing(what string, err error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, before := s.trouble[what]
	if err == nil {
		delete(s.trouble, what)
		return before
	}
	s.trouble[what] = err
	return !before
}
