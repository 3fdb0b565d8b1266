package aggregator

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/snow/engine/common"

	"quorate/bls"
	"quorate/validators"
)

// round is the decision core of one signing round: who was asked, what came
// back, what to do next. It does no I/O, starts nothing and reads no clock: the
// runner that owns it feeds it events and carries out the actions it returns.
// Not safe for concurrent use.
//
// Durations named at or until are measured from the start of the round.
type round struct {
	set     *validators.Set
	limits  Limits
	plan    planner
	source  ids.ID // source blockchain of the message: gives refusal codes their meaning
	members []member
	waiters []*waiter
	joins   int           // waiters that ever joined
	checkAt time.Duration // when the plan is looked at again
	slips   int           // plans that had to be widened because time passed
	planAt  time.Duration // when to plan again because the members that can sign changed; never if they did not
	sleep   sleep
	// missedAt is when a member last lost its connection, or when the sleep ended.
	missedAt time.Duration

	// Weights of signatures at hand: verified, unverified of trusted signers, and unverified of
	// others, which do not count. pendingN is the number of unverified ones, untestedN that of
	// the last kind.
	verified, presumed, untested uint64
	pendingN, untestedN          int

	// The following fields avoid a pass over all members for each answer.
	weights weights
	weighed bool          // weights are current
	dueAt   time.Duration // no member is out of time before
}

// Limits are the timeouts of a round.
type Limits struct {
	// AnswerTimeout is how long one validator may take before the round goes on
	// as if it would never answer. The wire allows at most 10 s.
	AnswerTimeout time.Duration
	// ConnectGrace is how long a waiter waits for validators without a connection, from when it joined. A waiter that
	// waits for an unseen message also waits that long after each lost connection.
	ConnectGrace time.Duration
	// BufferTimeout is how long a round waits for the buffer after the quorum is met.
	BufferTimeout time.Duration
	// PollMin and PollMax bound the pause before a validator that answered
	// "not accepted yet" is asked again.
	PollMin, PollMax time.Duration
	// ProbeMax bounds the pause between probes while no validator has signed.
	ProbeMax time.Duration
	// UnseenTimeout is the least time that a request waits for a message that validators
	// have not seen.
	UnseenTimeout time.Duration
	// VerifyBatch is how many signatures of untrusted validators are collected
	// before they are verified while the round waits anyway.
	VerifyBatch int
}

// DefaultLimits suit the public networks.
func DefaultLimits() Limits {
	return Limits{
		AnswerTimeout: 5 * time.Second,
		ConnectGrace:  3 * time.Second,
		BufferTimeout: 500 * time.Millisecond,
		PollMin:       100 * time.Millisecond,
		PollMax:       4 * time.Second,
		ProbeMax:      5 * time.Second,
		UnseenTimeout: 2500 * time.Millisecond,
		VerifyBatch:   32,
	}
}

type memberState uint8

const (
	idle     memberState = iota // not asked, or to be asked again
	waiting                     // asked, no answer yet
	pending                     // a signature is at hand, unverified
	signed                      // its signature is verified
	refused                     // refused for good
	notYet                      // refused for now; asked again at retryAt
	invalid                     // answered with something that is no signature
	timedOut                    // asked, and out of time
)

// member is one entry of the canonical set, possibly run by several nodes.
type member struct {
	weight    uint64
	state     memberState
	trusted   bool // the signature at hand counts before it is verified
	struck    bool // sent invalid signatures: asked last
	avoid     bool // about to leave the set: asked late and chosen last
	node      int  // index into NodeIDs of the node last asked
	author    int  // index into NodeIDs of the node that sent signature
	tried     int  // how many of its nodes have failed in this round
	online    bool // at least one of its nodes is believed to be connected
	down      int  // requests that found a node of it disconnected since one connected or answered
	polls     int  // how often it answered "not accepted yet"
	expect    expectation
	askedAt   time.Duration
	retryAt   time.Duration
	judgedIn  int  // joins of the round when its answer turned out invalid
	recalled  bool // its signature was verified in an earlier round
	included  bool // its signature is part of a message that verified
	signature *bls.Signature
	refusal   *common.AppError
	later     bool // refusal is the last answer, and may change
}

// waiter is one request that shares the round.
type waiter struct {
	need, want  uint64 // weight of the quorum, and with the buffer
	joinedAt    time.Duration
	nth         int           // position among all waiters that joined, from 1
	bufferUntil time.Duration // set once need is met
	wait        time.Duration // for a message that validators have not seen
	sent        bool          // knows that the message was sent
	progress    func(Account) // may be nil
	reported    bool          // progress was called
	requests    float64       // its share of the requests to validators
	outcome     chan<- outcome
}

// outcome ends a waiter's wait: the signed message, or why there is none.
type outcome struct {
	result *Result
	err    *Error
}

// unpack returns the outcome in the form of Sign.
func (o outcome) unpack() (*Result, error) {
	if o.err != nil {
		return nil, o.err
	}
	return o.result, nil
}

type actionKind uint8

const (
	actWait   actionKind = iota // nothing to do before until, or the next event
	actAsk                      // ask nodes
	actVerify                   // verify the signatures of these members one by one
	actFinish                   // build and verify a message of at least weight
	actFail                     // the waiter cannot be served
	actSearch                   // search for the message on its chain
)

// action is what the runner has to do next.
type action struct {
	kind    actionKind
	until   time.Duration
	members []int
	waiter  *waiter
	target  uint64
	code    Code
}

// connectivity says which nodes can be asked now.
type connectivity func(ids.NodeID) bool

func newRound(set *validators.Set, source ids.ID, limits Limits, plan planner, connected connectivity) *round {
	r := &round{
		set: set, limits: limits, plan: plan, source: source, members: make([]member, len(set.Validators)),
		dueAt: never,
	}
	for i, v := range set.Validators {
		m := &r.members[i]
		m.weight = v.Weight
		for n, nodeID := range v.NodeIDs {
			if connected(nodeID) {
				m.node, m.online = n, true
				break
			}
		}
	}
	return r
}

func (r *round) nodeID(i int) ids.NodeID {
	return r.set.Validators[i].NodeIDs[r.members[i].node]
}

// signer returns the node of a member that is asked, with the member's key.
func (r *round) signer(i int) signer { return signer{r.nodeID(i), keyOf(r.set.Validators[i])} }

// author returns the signer of the signature at hand. Its node is not the one asked last if
// another node of the key was asked since.
func (r *round) author(i int) signer {
	v := r.set.Validators[i]
	return signer{v.NodeIDs[r.members[i].author], keyOf(v)}
}

// join adds a waiter at now.
func (r *round) join(c *waiter, now time.Duration) {
	r.joins++
	c.nth, c.joinedAt = r.joins, now
	r.waiters = append(r.waiters, c)
	r.planAt = 0
	r.sleep.sent = r.sleep.sent || c.sent
	if r.sleep.on {
		r.sleep.probeAt = min(r.sleep.probeAt, now+r.limits.PollMin)
	}
}

// reopen makes the members candidates again that failed before c joined, and reports
// whether there are any. A timeout counts against c if at least half of it passed since c
// joined. A refusal for good counts: it would be the same for c.
func (r *round) reopen(c *waiter) bool {
	late := func(askedAt time.Duration) bool { return askedAt < c.joinedAt-r.limits.AnswerTimeout/2 }
	if w := r.weigh(); !late(w.lateAt) && w.judgedIn >= c.nth {
		return false // without a pass over all members, as there may be many waiters
	}
	for i := range r.members {
		if m := &r.members[i]; m.state == timedOut && late(m.askedAt) || m.state == invalid && m.judgedIn < c.nth {
			r.retry(i)
		}
	}
	r.changed()
	return true
}

// retry makes a member a candidate again that refused for now or has failed, at the next node of its key. If the member
// refused for now, it stays with its node if others have failed.
func (r *round) retry(i int) {
	m := &r.members[i]
	if m.state == notYet && m.tried > 0 {
		m.state = idle
		return
	}
	m.state, m.tried = idle, 0
	m.node = (m.node + 1) % len(r.set.Validators[i].NodeIDs)
}

// charge divides requests that were sent to validators among the waiters.
func (r *round) charge(requests int) {
	for _, c := range r.waiters {
		c.requests += float64(requests) / float64(len(r.waiters))
	}
}

// leave removes a waiter.
func (r *round) leave(c *waiter) {
	r.waiters = slices.DeleteFunc(r.waiters, func(o *waiter) bool { return o == c })
}

// changed makes the round plan again, because other members can sign than before.
func (r *round) changed() {
	r.planAt = 0
	r.weighed = false
}

// planPause, times the number of members, is the time from a refusal, or from the end of a pause
// after one, to the next plan. A plan takes about 0.3 µs per member, so plans take at most a tenth
// of the time, however many validators refuse one after the other.
const planPause = 3 * time.Microsecond

// changedSoon makes the round plan again after planPause, because many members may change one after
// the other.
func (r *round) changedSoon(now time.Duration) {
	r.weighed = false
	r.planAt = min(r.planAt, now+planPause*time.Duration(len(r.members)))
}

// connected notes that a node can be asked from now on, also if it timed out before. If another node of its key is asked
// now and then lost, the round tries all nodes of the key again.
func (r *round) connected(nodeID ids.NodeID) {
	i, ok := r.set.Index(nodeID)
	if !ok {
		return
	}
	m := &r.members[i]
	m.down = 0
	switch {
	case m.state == timedOut:
		r.retry(i)
	case m.online:
		return
	}
	m.online = true
	m.node = slices.Index(r.set.Validators[i].NodeIDs, nodeID)
	r.changed()
}

// known adds a signature that was verified earlier.
func (r *round) known(i int, signature *bls.Signature) {
	m := &r.members[i]
	if m.state == signed {
		return
	}
	r.drop(i)
	m.state, m.signature, m.recalled = signed, signature, true
	r.verified += m.weight
}

// avoid notes members that are about to leave the set.
func (r *round) avoid(members map[int]struct{}) {
	for i := range members {
		r.members[i].avoid = true
	}
}

// have is the weight of the signatures that count.
func (r *round) have() uint64 { return r.verified + r.presumed }

// addPending adds a pending signature to the sums.
func (r *round) addPending(m *member) {
	r.pendingN++
	if m.trusted {
		r.presumed += m.weight
		return
	}
	r.untested += m.weight
	r.untestedN++
}

// removePending subtracts a pending signature from the sums.
func (r *round) removePending(m *member) {
	r.pendingN--
	if m.trusted {
		r.presumed -= m.weight
		return
	}
	r.untested -= m.weight
	r.untestedN--
}

// drop forgets a signature at hand.
func (r *round) drop(i int) {
	m := &r.members[i]
	if m.state == pending {
		r.removePending(m)
	}
	m.signature = nil
}

// answered records a well-formed signature of a node. It ignores a second one. A trusted
// signature counts at once, others count when they are verified.
func (r *round) answered(nodeID ids.NodeID, signature *bls.Signature, trusted bool) {
	i, ok := r.set.Index(nodeID)
	if !ok {
		return
	}
	m := &r.members[i]
	switch m.state {
	case pending, signed:
		return
	case waiting: // possible before, and still
		r.weighed = r.weighed && !m.later
	default:
		r.weighed = false
	}
	m.state, m.signature, m.later = pending, signature, false
	m.author, m.trusted = slices.Index(r.set.Validators[i].NodeIDs, nodeID), trusted
	r.addPending(m)
}

// failed records a refusal, an invalid answer or a lost connection.
func (r *round) failed(nodeID ids.NodeID, state memberState, refusal *common.AppError, now time.Duration) {
	i, ok := r.set.Index(nodeID)
	if !ok {
		return
	}
	m := &r.members[i]
	if m.state != waiting && m.state != timedOut || r.nodeID(i) != nodeID {
		return
	}
	r.changedSoon(now)
	if state == idle { // connection lost
		r.lost(i, now)
		return
	}
	m.down = 0
	if state == refused {
		m.refusal = refusal
		if !definite(r.source, refusal) {
			m.state, m.later = notYet, true
			m.retryAt = now + min(r.limits.PollMin<<min(m.polls, 8), r.limits.PollMax)
			r.dueAt = min(r.dueAt, m.retryAt)
			m.polls++
			return
		}
	}
	m.state, m.judgedIn = state, r.joins
	r.nextNode(i)
}

// nextNode selects another node of the same key, if there is one left.
func (r *round) nextNode(i int) {
	m := &r.members[i]
	m.later = false
	m.tried++
	if nodes := len(r.set.Validators[i].NodeIDs); m.tried < nodes {
		m.node = (m.node + 1) % nodes
		m.state = idle
		// Whether that node is connected shows when it is asked.
		m.online = true
	}
}

// unreachable takes back a request that could not be handed to the network. It reports whether to send it to the next
// node of the key.
func (r *round) unreachable(i int, now time.Duration) (again bool) {
	m := &r.members[i]
	if m.state != waiting {
		return false
	}
	r.changed()
	r.lost(i, now)
	if m.online {
		m.state = waiting
	}
	return m.online
}

// withdraw takes back a request that was not sent in time, or before the last caller left.
func (r *round) withdraw(i int) {
	if m := &r.members[i]; m.state == waiting {
		m.state = idle
		r.changed()
	}
}

// lost turns to the next node of a key after the connection to one was found
// missing; when all are, the member waits for one of them to connect.
func (r *round) lost(i int, now time.Duration) {
	m := &r.members[i]
	nodes := len(r.set.Validators[i].NodeIDs)
	m.state = idle
	m.node = (m.node + 1) % nodes
	m.down++
	m.online = m.down < nodes
	if !m.online {
		r.missedAt = now
	}
}

// markVerified records the verification of members, each of which had a pending signature;
// bad is ascending.
func (r *round) markVerified(members, bad []int) {
	for _, i := range members {
		m := &r.members[i]
		if m.state != pending {
			continue
		}
		if _, found := slices.BinarySearch(bad, i); found {
			r.drop(i)
			m.state, m.judgedIn, m.struck = invalid, r.joins, true
			r.nextNode(i)
			r.changed()
			continue
		}
		r.removePending(m)
		r.verified += m.weight
		m.state = signed
	}
}

// weights groups the set's weight by what can still come of it.
type weights struct {
	// possible may still sign: all but refusals for good, invalid answers, timeouts and
	// missing connections.
	possible uint64
	// struck is the part of possible that is asked only for the quorum: members with strikes that were not asked.
	struck uint64
	// offline has no connection and was not asked, timedOut did not answer in time.
	offline, timedOut uint64
	// blocked was refused for good.
	blocked uint64
	// notYet is the part of possible that refuses for now, unseen the part of notYet that
	// has not seen the message.
	notYet, unseen uint64
	// candidates says that a member can be asked and was not.
	candidates bool
	// lateAt is when the first member that timed out was asked, and judgedIn the least judgedIn of a member whose
	// answer is invalid. Both are beyond all others if there is no such member.
	lateAt   time.Duration
	judgedIn int
}

// weigh looks at every member, unless nothing has changed since it last did.
func (r *round) weigh() weights {
	if r.weighed {
		return r.weights
	}
	w := weights{lateAt: never, judgedIn: math.MaxInt}
	for i := range r.members {
		m := &r.members[i]
		if m.refusesNow() {
			w.notYet += m.weight
			if unseen(r.source, m.refusal) {
				w.unseen += m.weight
			}
		}
		switch m.state {
		case refused:
			w.blocked += m.weight
		case invalid:
			w.judgedIn = min(w.judgedIn, m.judgedIn)
		case timedOut:
			w.timedOut += m.weight
			w.lateAt = min(w.lateAt, m.askedAt)
		case idle:
			if !m.online {
				w.offline += m.weight
				continue
			}
			w.candidates = true
			w.possible += m.weight
			if m.struck {
				w.struck += m.weight
			}
		default:
			w.possible += m.weight
		}
	}
	r.weights, r.weighed = w, true
	return w
}

// refusesNow reports whether the member's last answer was a refusal that may change.
func (m *member) refusesNow() bool {
	return m.later && (m.state == notYet || m.state == waiting || m.state == idle && m.online)
}

// possible returns the weight that may still sign for c. Members without a connection count
// during c's grace period. While the round sleeps and c waits, so do members that timed out.
func (r *round) possible(c *waiter, now time.Duration) uint64 {
	w := r.weigh()
	switch {
	case r.sleep.on && r.waits(c, now):
		return w.possible + w.offline + w.timedOut
	case now < r.grace(c, now):
		return w.possible + w.offline
	}
	return w.possible
}

// grace returns the end of c's grace period for members without a connection.
func (r *round) grace(c *waiter, now time.Duration) time.Duration {
	since := c.joinedAt
	if r.sleep.since > 0 && r.waits(c, now) {
		since = max(since, r.missedAt)
	}
	return since + r.limits.ConnectGrace
}

// next returns the next action at now. The runner calls it again after each action, until
// it returns actWait.
func (r *round) next(now time.Duration) action {
	r.expire(now)
	if len(r.waiters) == 0 {
		return action{kind: actWait, until: never}
	}
	if a, ok := r.rest(now); ok {
		return a
	}
	if a, ok := r.settle(now); ok {
		return a
	}
	if r.sleep.on {
		return r.asleep(now)
	}
	// While the round waits anyway, untrusted signatures are verified in small batches.
	if r.untestedN >= r.limits.VerifyBatch {
		return action{kind: actVerify, members: r.untestedMembers()}
	}
	if now >= min(r.planAt, r.checkAt) {
		if members := r.choose(now); len(members) > 0 {
			return action{kind: actAsk, members: members}
		}
	}
	return action{kind: actWait, until: r.wake(now)}
}

const never = time.Duration(1<<63 - 1)

// expire marks validators that did not answer in time, and makes validators that answered
// "not accepted yet" candidates again after their pause.
func (r *round) expire(now time.Duration) {
	if now < r.dueAt {
		return
	}
	r.dueAt = never
	for i := range r.members {
		m := &r.members[i]
		switch m.state {
		case waiting:
			if due := m.askedAt + r.limits.AnswerTimeout; now < due {
				r.dueAt = min(r.dueAt, due)
				continue
			}
			m.state = timedOut
			r.changed()
			r.nextNode(i)
		case notYet:
			if r.sleep.on {
				continue
			}
			if now < m.retryAt {
				r.dueAt = min(r.dueAt, m.retryAt)
				continue
			}
			r.retry(i)
			r.changedSoon(now)
		}
	}
}

// settle returns the action for a waiter that can be served or must be refused.
func (r *round) settle(now time.Duration) (action, bool) {
	have := r.have()
	for _, c := range r.waiters {
		if have >= c.want {
			return action{kind: actFinish, waiter: c, target: c.want}, true
		}
		if r.decisive(c) {
			return action{kind: actVerify, members: r.untestedMembers()}, true
		}
		if have >= c.need && c.bufferUntil == 0 {
			c.bufferUntil = max(now+r.limits.BufferTimeout, 1)
		}
		if r.unseen(c) && r.pendingN == 0 && now >= r.unseenAt(c) {
			return action{kind: actFail, waiter: c, code: CodeNotSeen}, true
		}
		possible := r.possible(c, now)
		if possible < c.want && r.reopen(c) {
			possible = r.possible(c, now)
		}
		// A buffer that is out of reach still collects what can sign.
		w := r.weigh()
		waits := have < c.need || now < c.bufferUntil && have+r.untested < min(w.possible-w.struck, c.want)
		if possible >= c.need && waits {
			continue
		}
		if have >= c.need {
			return r.short(c), true
		}
		if r.pendingN > 0 {
			// Only verified signatures are reported as such.
			return action{kind: actVerify, members: r.pendingMembers(nil)}, true
		}
		code := CodeQuorumNotReached
		if w.blocked > r.set.TotalWeight-c.need {
			code = CodeRefused
		}
		return action{kind: actFail, waiter: c, code: code}, true
	}
	return action{}, false
}

// short returns the action for a waiter whose quorum is met, and whose buffer is out of reach or out of time: a message with
// all of the signatures at hand, as a part of the buffer also lets validators leave the set.
func (r *round) short(c *waiter) action {
	if r.untested > 0 {
		return action{kind: actVerify, members: r.untestedMembers()}
	}
	return action{kind: actFinish, waiter: c, target: min(r.have(), c.want)}
}

// decisive reports whether the untrusted signatures at hand, if they are valid, meet c's quorum
// or its buffer.
func (r *round) decisive(c *waiter) bool {
	have, all := r.have(), r.have()+r.untested
	return have < c.need && c.need <= all || have < c.want && c.want <= all
}

// late returns the code for a waiter that was not served in time.
func (r *round) late(c *waiter) Code {
	var refusing uint64
	for i := range r.members {
		if m := &r.members[i]; m.state == refused || m.refusesNow() {
			refusing += m.weight
		}
	}
	switch {
	case refusing <= r.set.TotalWeight-c.need:
		return CodeQuorumNotReached
	case r.unseen(c):
		return CodeNotSeen
	}
	return CodeRefused
}

// goals returns the largest quorum of a waiter, and the largest weight that one wants.
func (r *round) goals() (need, want uint64) {
	for _, c := range r.waiters {
		need, want = max(need, c.need), max(want, c.want)
	}
	return need, want
}

// choose returns the members that the planner picks, and marks them as asked.
func (r *round) choose(now time.Duration) []int {
	slipped := r.planAt == never
	r.planAt = never
	picked, horizon := r.plan.pick(r, now)
	// The plan is looked at again half way to its end, and then half way to the end of the next one.
	switch left := horizon - now; {
	case left <= time.Millisecond:
		r.checkAt = now + 5*time.Millisecond
	default:
		r.checkAt = now + max(left/2, time.Millisecond)
	}
	if slipped && len(picked) > 0 {
		r.slips++
	}
	for _, i := range picked {
		m := &r.members[i]
		m.state, m.askedAt = waiting, now
	}
	if len(picked) > 0 {
		r.weighed = false // for candidates; what is possible remains
		r.dueAt = min(r.dueAt, now+r.limits.AnswerTimeout)
	}
	return picked
}

// wake is the next moment at which time alone changes something.
func (r *round) wake(now time.Duration) time.Duration {
	until := r.dueAt
	w := r.weigh()
	switch {
	case r.sleep.on:
		until = min(until, r.sleep.probeAt)
		if r.mustSearch() {
			until = min(until, r.sleep.searchAt)
		}
	case w.candidates:
		until = min(until, r.planAt, r.checkAt)
	}
	for _, c := range r.waiters {
		if grace := r.grace(c, now); w.offline > 0 && now < grace {
			until = min(until, grace)
		}
		if c.bufferUntil > now {
			until = min(until, c.bufferUntil)
		}
		if at := r.unseenAt(c); r.sleep.on && !r.sleep.sent && now < at {
			until = min(until, at)
		}
	}
	return until
}

func (r *round) pendingMembers(keep func(*member) bool) []int {
	var members []int
	for i := range r.members {
		if m := &r.members[i]; m.state == pending && (keep == nil || keep(m)) {
			members = append(members, i)
		}
	}
	return members
}

// untestedMembers returns the members with an untrusted signature at hand: those without
// strikes if there are any, else those with strikes.
func (r *round) untestedMembers() []int {
	members := r.pendingMembers(func(m *member) bool { return !m.trusted && !m.struck })
	if len(members) == 0 {
		members = r.pendingMembers(func(m *member) bool { return !m.trusted })
	}
	return members
}

// signers returns members whose signatures count and that carry at least target, in canonical
// order, and their weight. It prefers members that stay in the set, then verified signatures,
// then heavy members, so that the number of signers is small.
func (r *round) signers(target uint64) (members []int, weight uint64) {
	rank := func(m *member) (n int) {
		if m.avoid {
			n += 2
		}
		if m.state != signed {
			n++
		}
		return n
	}
	for i := range r.members {
		if m := &r.members[i]; m.state == signed || m.state == pending && m.trusted {
			members = append(members, i)
		}
	}
	slices.SortFunc(members, func(a, b int) int {
		ma, mb := &r.members[a], &r.members[b]
		return cmp.Or(cmp.Compare(rank(ma), rank(mb)), cmp.Compare(mb.weight, ma.weight), cmp.Compare(a, b))
	})
	for n, i := range members {
		if weight >= target {
			members = members[:n]
			break
		}
		weight += r.members[i].weight
	}
	slices.Sort(members)
	return members, weight
}
