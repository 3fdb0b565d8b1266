package aggregator

import (
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/validators"
)

// Observer receives the state of rounds.
type Observer interface {
	// Watching reports whether Observe should be called. It is called whenever a round
	// pauses, so it must be cheap.
	Watching() bool
	// Observe receives a snapshot of a round. Snapshots of one round arrive in order, those
	// of several concurrently. Observe must not block. Replies and Set are shared and must
	// not be changed.
	Observe(Snapshot)
}

// SnapshotInterval is the least time between two snapshots of a round, except before the last.
const SnapshotInterval = 5 * time.Millisecond

// Snapshot is the state of a round.
type Snapshot struct {
	// Round numbers the rounds of an Aggregator that were watched.
	Round         uint64
	MessageID     ids.ID
	SourceChainID ids.ID
	Set           *validators.Set
	// TargetWeight is the largest quorum that a waiter of the round asked for.
	TargetWeight uint64
	Started      time.Time
	Elapsed      time.Duration
	// Replies has what is known of each validator of the set, in canonical order.
	Replies []Reply
	// Outcome is empty while the round goes on; then it is OutcomeSigned,
	// OutcomeAbandoned, or the Code of a failure.
	Outcome Code
}

// How a round may end besides the failures.
const (
	OutcomeSigned    Code = "SIGNED"
	OutcomeAbandoned Code = "ABANDONED" // every waiter left
)

// Reply is what is known of a validator in a round.
type Reply byte

// The replies, in letters so that a list of them can be read.
const (
	Unasked  Reply = 'u' // connected, and not asked
	Offline  Reply = 'o' // no connection
	Asked    Reply = 'a' // has not answered yet
	Signed   Reply = 's' // its signature is verified, or part of the finished message
	Unproven Reply = 'p' // its signature is at hand and was not checked
	Refused  Reply = 'r' // refused for good
	NotYet   Reply = 'n' // refused for now, and is asked again
	Invalid  Reply = 'i' // answered with something that is no signature
	Silent   Reply = 't' // asked, and timed out
)

// replies returns the state of each member.
func (r *round) replies() []Reply {
	all := make([]Reply, len(r.members))
	for i := range r.members {
		all[i] = r.members[i].reply()
	}
	return all
}

func (m *member) reply() Reply {
	switch {
	case m.state == signed || m.state == pending && m.included:
		return Signed
	case m.state == pending:
		return Unproven
	case m.state == invalid:
		return Invalid
	case m.state == refused:
		return Refused
	case m.state == timedOut:
		return Silent
	case m.refusesNow():
		return NotYet
	case m.state == waiting:
		return Asked
	case !m.online:
		return Offline
	}
	return Unasked
}

// watched holds what the observer has received of a round. Owned by the runner's goroutine.
type watched struct {
	round   uint64 // 0 before the first snapshot
	at      time.Duration
	replies []Reply
	target  uint64
	outcome Code
}

// show gives the observer a snapshot of the round, the last one if it is over, and returns
// when to do so again if nothing else happens before; never if there is no observer or
// nothing is new.
func (f *runner) show(now time.Duration, over bool) time.Duration {
	o := f.agg.observer
	if o == nil || !o.Watching() {
		return never
	}
	w := &f.watched
	if next := w.at + SnapshotInterval; w.round != 0 && !over && now < next {
		return next
	}
	for _, c := range f.round.waiters {
		w.target = max(w.target, c.need)
	}
	replies := f.round.replies()
	w.at = now
	if w.round != 0 && !over && slices.Equal(replies, w.replies) {
		return never
	}
	if w.round == 0 {
		w.round = f.agg.observed.Add(1)
	}
	w.replies = replies
	snapshot := Snapshot{
		Round: w.round, MessageID: f.key.message, SourceChainID: f.message.SourceChainID, Set: f.round.set,
		TargetWeight: w.target, Started: f.start, Elapsed: now, Replies: replies,
	}
	if over {
		snapshot.Outcome = w.outcome
		if snapshot.Outcome == "" {
			snapshot.Outcome = OutcomeAbandoned
		}
	}
	o.Observe(snapshot)
	return never
}

// note keeps how the round ended for a waiter: a failure of one does not count if
// another was served.
func (w *watched) note(c *waiter, o outcome) {
	w.target = max(w.target, c.need)
	switch {
	case o.err == nil:
		w.outcome = OutcomeSigned
	case w.outcome != OutcomeSigned:
		w.outcome = o.err.Code
	}
}
