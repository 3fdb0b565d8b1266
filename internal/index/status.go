package index

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// State is what a pipeline does.
type State string

// The states of a pipeline.
const (
	// Idle means that the pipeline does not run, or that its node has not answered yet.
	Idle State = "idle"
	// Rebuilding means that the pipeline reads blocks whose containers are in the store.
	Rebuilding State = "rebuilding"
	// CatchingUp means that the tip is far.
	CatchingUp State = "catching up"
	// Following means that the tip is a few blocks away at most.
	Following State = "following"
	// Retrying means that something fails that may work again without the operator.
	Retrying State = "retrying"
	// Waiting means that the nodes lack what the index needs: see MissingError.
	Waiting State = "waiting"
	// Stalled means that something fails since the index was Following: what is indexed is
	// right, but later blocks are missing.
	Stalled State = "stalled"
	// Stopped means that the pipeline ended with an error and nothing else indexes the chain. It does not go on by itself.
	Stopped State = "stopped"
	// NotIndexed is the state of a chain without a pipeline, whose Status has only a Note.
	NotIndexed State = "not indexed"
)

// NearTip is the lag, in blocks, up to which an index is Following.
const NearTip = 64

// Status is the state of a pipeline.
type Status struct {
	State State
	// From is the first height that all projections index, Next the first that one of them has
	// not indexed yet.
	From, Next uint64
	// Kept is the first height whose container is not in the store.
	Kept uint64
	// Tip is the last accepted height that the node reported. A lower report replaces it
	// only after a while: the node may lag, or the earlier report was wrong. TipKnown is
	// false before the first report.
	Tip      uint64
	TipKnown bool
	// BlocksPerSecond is the rate over the last seconds with a commit; 0 if the last commit is long ago.
	BlocksPerSecond float64
	// CaughtUp says that the pipeline was Following since it began to run. Failures leave
	// it set. The end of the pipeline clears it, unless another one has taken over, because
	// the height of the chain is unknown from then on.
	CaughtUp bool
	// Err is why the pipeline is Retrying, Waiting, Stalled or Stopped; nil otherwise. Failing
	// names the work that fails, such as "fetching blocks", and FailingSince says since
	// when; both are zero if the pipeline Stopped.
	Err          error
	Failing      string
	FailingSince time.Time
	// Note is the source's remark; see Noter.
	Note string
	// Gaps is how many blocks are indexed without a part that a node did not give, such as
	// call traces, and wait for it.
	Gaps uint64
	// Proof is nil if no blocks are proven by stake.
	Proof *Proof
}

// Proof states which blocks of an EVM chain's index are proven by stake: their transactions, receipts and logs follow from
// a block hash that validators signed. See package anchor.
type Proof struct {
	// From and To are the first and the last proven block.
	From, To uint64
	// Height and Hash are those of the block that validators signed. Message is the signed Warp message. The validator set
	// is that of SigningSubnetID at PChainHeight.
	Height          uint64
	Hash            ids.ID
	Message         []byte
	SigningSubnetID ids.ID
	PChainHeight    uint64
}

// Needs returns what the nodes lack and what the operator must do, empty if the index goes on
// without the operator or has stopped. It is fit for clients.
func (s Status) Needs() string {
	var missing *MissingError
	if s.State == Stopped || !errors.As(s.Err, &missing) {
		return ""
	}
	return missing.Reason()
}

// Lag returns the number of accepted blocks that are not indexed.
func (s Status) Lag() uint64 {
	if !s.TipKnown || s.Next > s.Tip {
		return 0
	}
	return s.Tip - s.Next + 1
}

// Ready reports whether the index has caught up and goes on, so that it can answer for the chain.
func (s Status) Ready() bool { return s.CaughtUp && s.State != Stopped }

// near reports whether the tip is at most NearTip blocks away, as far as is known. An index without any block from a
// node is not near, however short the chain is: the nodes may lack its blocks. The block at height 0 comes from the
// genesis.
func (s Status) near() bool {
	begun := s.Next > max(s.From, 1) || s.Lag() == 0
	return begun && s.TipKnown && s.Next >= s.Kept && s.Lag() <= NearTip
}

// Rebuilt returns the progress of a Rebuilding index in percent.
func (s Status) Rebuilt() int {
	if s.Kept <= s.From || s.Next >= s.Kept {
		return 100
	}
	return int(100 * (max(s.Next, s.From) - s.From) / (s.Kept - s.From))
}

// status is the state that the goroutines of a pipeline report.
type status struct {
	mu      sync.Mutex
	current Status            // without State; guarded by mu
	running bool              // or another pipeline has taken over; guarded by mu
	trouble map[task]*trouble // guarded by mu
	lanes   map[string]reach  // by projection; guarded by mu
	caught  map[string]bool   // projections that have been near the tip; guarded by mu
	lower   lower             // guarded by mu
	// inherited is set until Run begins if the status is that of another pipeline's index. Guarded by mu.
	inherited bool
	// before is set if the store says that the index had caught up. Guarded by mu.
	before bool
	// atTip is set once the pipeline has had nothing left to index in this run. Guarded by mu.
	atTip bool

	// since and then are the time and the height at which measuring the rate began. The fields ending in Before belong
	// to the preceding measurement. Guarded by mu.
	since, sinceBefore time.Time
	then, thenBefore   uint64
	// last is the time of the last commit. Guarded by mu.
	last time.Time
}

// task identifies work that may fail and the goroutine that does it.
type task struct {
	doing string
	by    int
}

// trouble holds why a task fails and since when.
type trouble struct {
	err   error
	since time.Time
}

// lower counts consecutive reports below the tip.
type lower struct {
	since time.Time
	times int
	most  uint64
}

const (
	// A lower tip counts after this many reports and this much time, or sooner if the difference exceeds any node's
	// lag.
	lowerTimes    = 3
	lowerLag      = 5 * time.Minute
	lowerNonsense = 30 * time.Second
)

// reach is the range of blocks that a projection has indexed.
type reach struct{ from, next uint64 }

// rateWindow is the minimum time over which a rate is measured.
const rateWindow = 5 * time.Second

// rateLife is how long a rate is valid after the last commit.
const rateLife = 2 * rateWindow

func (s *status) read() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(s.current)
}

// readOf returns the status of one projection.
func (s *status) readOf(projection string) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current
	if l, ok := s.lanes[projection]; ok {
		now.From, now.Next = l.from, l.next
		// The projection may be ahead of the others.
		now.CaughtUp = now.CaughtUp || s.caught[projection]
	}
	return s.at(now)
}

// at fills in the State. Requires mu.
func (s *status) at(now Status) Status {
	if time.Since(s.last) > rateLife {
		now.BlocksPerSecond = 0
	}
	switch {
	case now.Err != nil:
		now.State = Stopped
	case !s.running:
		now.State = Idle
	case len(s.trouble) > 0:
		s.explain(&now)
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

// explain fills in the cause of a failure: missing data if any, else the oldest failure. Requires mu and a trouble.
func (s *status) explain(now *Status) {
	missing := false
	for what, t := range s.trouble {
		var lack *MissingError
		lacks := errors.As(t.err, &lack)
		if now.Err != nil && (missing && !lacks || missing == lacks && !t.since.Before(now.FailingSince)) {
			continue
		}
		missing, now.Err, now.Failing, now.FailingSince = lacks, t.err, what.doing, t.since
	}
	now.CaughtUp = now.CaughtUp || s.unreachable(now)
	// A short chain is near its tip from the beginning, even if the next block never arrives.
	now.CaughtUp = now.CaughtUp && (!missing || s.atTip)
	switch {
	case now.CaughtUp:
		now.State = Stalled
	case missing:
		now.State = Waiting
	default:
		now.State = Retrying
	}
}

func (s *status) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.trouble = true, make(map[task]*trouble)
	if s.inherited {
		s.inherited = false
		return
	}
	s.current, s.lanes, s.caught, s.lower, s.atTip, s.before = Status{}, nil, make(map[string]bool), lower{}, false, false
}

// inherit takes over what is known of an index that another pipeline leaves to this one.
func (s *status) inherit(from *status) {
	from.mu.Lock()
	current, lanes, caught := from.current, from.lanes, maps.Clone(from.caught)
	running, atTip, before, last := from.running, from.atTip, from.before, from.last
	from.mu.Unlock()
	if caught == nil {
		caught = make(map[string]bool)
	}
	current.Err = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.lanes, s.caught, s.running, s.atTip, s.before, s.inherited = current, lanes, caught, running, atTip, before, true
	s.last = last
}

func (s *status) position(from, next, kept uint64, lanes map[string]reach) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next < s.current.Next { // other rows
		s.current.CaughtUp, s.atTip = false, false
		clear(s.caught)
	}
	s.lanes = lanes
	s.current.From, s.current.Next, s.current.Kept = from, next, kept
	s.since, s.then = time.Now(), next
	s.sinceBefore, s.thenBefore = s.since, s.then
	s.catchUp()
}

// end stores why the pipeline ended, or nil if it was asked to. If another pipeline follows, the state remains what it
// was.
func (s *status) end(err error, follows bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.trouble)
	if follows {
		return
	}
	s.running, s.current.Err, s.current.CaughtUp = false, err, false
	clear(s.caught)
}

// tip stores the node's height and returns the height to use.
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

// below handles a report below the tip. Repeated reports replace the tip, which never falls below the indexed height.
// Requires mu.
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

// catchUp sets CaughtUp once the tip is near, for the pipeline and for each projection. Requires mu.
func (s *status) catchUp() {
	s.current.CaughtUp = s.current.CaughtUp || s.current.near()
	s.atTip = s.atTip || s.current.near() && s.current.Lag() == 0
	for projection, l := range s.lanes {
		own := s.current
		own.From, own.Next = l.from, l.next
		if own.near() {
			s.caught[projection] = true
		}
	}
}

// committed stores the position of the index. In a watching process a lower position than the known one has no effect.
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
	s.last = now
	if now.Sub(s.since) >= rateWindow {
		s.sinceBefore, s.thenBefore = s.since, s.then
		s.since, s.then = now, next
	}
	if passed := now.Sub(s.sinceBefore).Seconds(); passed > 0 {
		s.current.BlocksPerSecond = float64(next-s.thenBefore) / passed
	}
}

// failing stores the result of a task. With an error, it reports whether this is news: all goroutines succeeded before,
// or the nodes turn out to lack data. With a nil error, it reports whether the task failed before and now succeeds in
// all goroutines.
func (s *status) failing(what task, err error) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, own := s.trouble[what]
	reason := func(err error) string {
		var missing *MissingError
		if errors.As(err, &missing) {
			return missing.Reason()
		}
		return ""
	}
	news = own || err != nil
	switch {
	case err == nil:
		delete(s.trouble, what)
	case !own:
		t = &trouble{since: time.Now()}
		s.trouble[what] = t
	}
	for other, of := range s.trouble {
		if other.doing == what.doing && of.err != nil && (err == nil || reason(of.err) == reason(err) || reason(err) == "") {
			news = false
		}
	}
	if err != nil {
		t.err = err
	}
	return news
}
