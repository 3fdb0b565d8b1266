package aggregator

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"quorate/internal/bounded"
)

// A message that validators have not seen was never sent, or its block is not accepted yet.
// The round then sleeps: it looks for the message on its chain and asks few validators with
// growing pauses, until one of them signs. It sleeps again if at most a tenth of the weight follows,
// because faulty validators may sign what was never sent.

const (
	// probeSize is the number of validators that a probe asks: one half from the
	// probeHeaviest heaviest ones in turn, the other half at random.
	probeSize     = 16
	probeHeaviest = 32
	// lookPause is the least time between two searches for a message on its chain.
	lookPause = time.Second
	// wakeTime is the time without a further valid signature after which a round sleeps again.
	wakeTime = 250 * time.Millisecond
	// fewSigned is the most weight, as one part of so many, whose signatures do not show that a
	// message was sent.
	fewSigned = 10
)

// sleep is the state of a stuck round: each quorum needs validators whose refusals may change, and no
// signatures arrive. A valid signature ends it.
type sleep struct {
	on      bool
	since   time.Duration // start of the first sleep, 0 before
	probeAt time.Duration // of the next probe
	// verified is the verified weight, and grewAt is when it last grew.
	verified uint64
	grewAt   time.Duration
	heavy    []int // the heaviest members
	turn     int   // position in heavy of the next probe

	// sent says that the message is known to have been sent.
	sent      bool
	searching bool
	searchAt  time.Duration // not before
	searched  int           // joins of the round at the last search
}

// rest begins or ends the sleep of the round. Before it begins a further one, it returns an action
// that verifies the signatures at hand.
func (r *round) rest(now time.Duration) (action, bool) {
	s := &r.sleep
	grew := r.verified > s.verified
	if grew {
		s.verified, s.grewAt = r.verified, now
	}
	if s.on {
		if grew {
			r.wakeUp(now)
		}
		return action{}, false
	}
	if !r.stuck(now) || r.verified > 0 && !r.mayRest(now) {
		return action{}, false
	}
	if r.verified > 0 && r.pendingN > 0 {
		return action{kind: actVerify, members: r.pendingMembers(nil)}, true
	}
	s.on, s.probeAt = true, now+r.limits.PollMin
	if s.since == 0 {
		s.since = max(now, 1)
	}
	return action{}, false
}

// wakeUp ends the sleep: members that refused or timed out are candidates again.
func (r *round) wakeUp(now time.Duration) {
	r.sleep.on, r.missedAt = false, now
	for i := range r.members {
		if m := &r.members[i]; m.state == notYet || m.state == timedOut {
			r.retry(i)
			m.polls = 0
		}
	}
	r.changed()
}

// mayRest reports whether a round with signatures sleeps if it is stuck: few validators have signed, none within wakeTime,
// or a waiter that waits for the message would fail because others are away.
func (r *round) mayRest(now time.Duration) bool {
	return !r.sleep.sent && r.few(r.have()) && now >= r.sleep.grewAt+wakeTime ||
		slices.ContainsFunc(r.waiters, func(c *waiter) bool { return r.waits(c, now) && r.possible(c, now) < c.need })
}

// few reports whether signatures of a weight do not show that the message was sent.
func (r *round) few(signed uint64) bool { return signed <= r.set.TotalWeight/fewSigned }

// stuck reports whether no waiter can be served without a validator that refuses for now.
func (r *round) stuck(now time.Duration) bool {
	w := r.weigh()
	if w.notYet == 0 {
		return false
	}
	for _, c := range r.waiters {
		if r.possible(c, now)-w.notYet >= c.need {
			return false
		}
	}
	return true
}

// asleep returns the next action of a sleeping round.
func (r *round) asleep(now time.Duration) action {
	s := &r.sleep
	if r.pendingN > 0 { // one valid signature ends the sleep
		return action{kind: actVerify, members: r.pendingMembers(nil)}
	}
	if r.mustSearch() && now >= s.searchAt {
		s.searching, s.searched, s.searchAt = true, r.joins, now+lookPause
		return action{kind: actSearch}
	}
	if now >= s.probeAt {
		s.probeAt = now + r.probePause(now)
		if members := r.probe(now); len(members) > 0 {
			return action{kind: actAsk, members: members}
		}
	}
	return action{kind: actWait, until: r.wake(now)}
}

func (r *round) mustSearch() bool {
	s := &r.sleep
	return !s.searching && !s.sent && s.searched < r.joins
}

// probePause grows with the time since the round first fell asleep, a validator signed or the
// last waiter joined.
func (r *round) probePause(now time.Duration) time.Duration {
	since := max(r.sleep.since, r.sleep.grewAt)
	for _, c := range r.waiters {
		since = max(since, c.joinedAt)
	}
	return min(max((now-since)/2, r.limits.PollMin), r.limits.ProbeMax)
}

// probe picks the members to ask and marks them as asked. It picks members that timed out if there
// are too few others.
func (r *round) probe(now time.Duration) (picked []int) {
	may := func(i int) bool {
		m := &r.members[i]
		return m.state == notYet || m.state == idle && m.online
	}
	take := func(i int) {
		m := &r.members[i]
		if m.state != idle {
			r.retry(i)
		}
		m.state, m.askedAt = waiting, now
		picked = append(picked, i)
	}
	s := &r.sleep
	if s.heavy == nil {
		s.heavy = make([]int, len(r.members))
		for i := range s.heavy {
			s.heavy[i] = i
		}
		slices.SortStableFunc(s.heavy, func(a, b int) int { return cmp.Compare(r.members[b].weight, r.members[a].weight) })
		s.heavy = slices.Clip(s.heavy[:min(len(s.heavy), probeHeaviest)])
	}
	for range s.heavy {
		if len(picked) == probeSize/2 {
			break
		}
		i := s.heavy[s.turn%len(s.heavy)]
		s.turn++
		if may(i) {
			take(i)
		}
	}
	late := func(i int) bool { return r.members[i].state == timedOut }
	for _, may := range []func(int) bool{may, late} {
		for _, i := range rand.Perm(len(r.members)) {
			if len(picked) == probeSize {
				break
			}
			if may(i) {
				take(i)
			}
		}
	}
	if len(picked) > 0 {
		r.weighed = false
		r.dueAt = min(r.dueAt, now+r.limits.AnswerTimeout)
	}
	return picked
}

// searchDone records whether the message was found on its chain.
func (r *round) searchDone(found bool) {
	r.sleep.searching = false
	r.sleep.sent = r.sleep.sent || found
}

// unseen reports whether validators that have not seen the message keep c from its quorum,
// and nothing shows that it was sent.
func (r *round) unseen(c *waiter) bool {
	return r.sleep.on && !r.sleep.sent && r.few(r.have()) && r.weigh().unseen > r.set.TotalWeight-c.need
}

// waits reports whether c waits for validators to see the message. Members that have no connection
// or that timed out may then return.
func (r *round) waits(c *waiter, now time.Duration) bool {
	return r.sleep.sent || c.wait > r.limits.UnseenTimeout && now < r.unseenAt(c)
}

// unseenAt returns when the round gives up for c while the message is unseen. A signature begins the wait again.
func (r *round) unseenAt(c *waiter) time.Duration {
	return max(c.joinedAt, r.sleep.since, r.sleep.grewAt) + c.wait
}

const (
	// searchTimeout bounds one search for a message on its chain.
	searchTimeout = 2 * time.Second
	// unseenMemory is how long requests for an unseen message fail without asking
	// validators again, unless they ask to wait.
	unseenMemory = 2 * time.Second
	// maxUnseen is the number of messages in this memory.
	maxUnseen = 4096
)

// unseenMessages remembers for a short time which messages validators have not seen. It is
// safe for concurrent use.
type unseenMessages struct {
	failures *bounded.Cache[unseenKey, unseenFailure]
}

type unseenKey struct {
	round roundKey
	need  uint64
}

type unseenFailure struct {
	failed *Error
	until  time.Time
}

func newUnseenMessages() *unseenMessages {
	return &unseenMessages{bounded.New(bounded.Options[unseenKey, unseenFailure]{Entries: maxUnseen})}
}

func (u *unseenMessages) put(round roundKey, need uint64, failed *Error) {
	stored := *failed
	account := *failed.Account
	stored.Account, stored.missing = &account, nil // the reasons in groups are enough
	u.failures.Set(unseenKey{round, need}, unseenFailure{&stored, time.Now().Add(unseenMemory)})
}

// get returns the failure of a request that ended a moment ago, or nil.
func (u *unseenMessages) get(round roundKey, need uint64) *Error {
	f, ok := u.failures.Get(unseenKey{round, need})
	left := time.Until(f.until)
	if !ok || left <= 0 {
		return nil
	}
	failed := *f.failed
	account := *failed.Account
	failed.Account, failed.RetryAfter = &account, left
	return &failed
}
