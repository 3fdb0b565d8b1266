package aggregator

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	ava "github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// runner runs one round. It owns the round's state on a single goroutine, passes it the
// events and carries out its actions. It ends when the last waiter has left. Later answers
// still update the history.
type runner struct {
	agg          *Aggregator
	key          roundKey
	client       string // that started it; empty if no client did
	origin       Origin // of the request that started it
	callers      int    // that wait for an outcome; guarded by agg.mu
	end          context.CancelFunc
	message      *warp.UnsignedMessage
	request      []byte
	start        time.Time
	inbox        inbox
	ended        atomic.Bool
	answeredOnce atomic.Bool // a signature has arrived
	signing      atomic.Bool // the message seems to have been sent, so that validators sign it

	// Owned by the goroutine of run.
	round *round
	awake bool             // counted in agg.awake; set before run
	built map[goal]*Result // finished messages
	// filed and filedResult are the latest arguments of file.
	filed       finishedID
	filedResult *Result
	watched     watched
	reported    reported
	due         []delivery // outcomes that answer has queued
	// cachedWeight is the verified weight at the last call of cacheVerified.
	cachedWeight uint64
}

// goal is the weight that a message reaches, for a waiter that needs a weight.
type goal struct{ weight, need uint64 }

// reported is the latest report of progress.
type reported struct {
	account         Account       // of no waiter: it has no target
	madeAt, checkAt time.Duration // checkAt is when to look for changes again, at the earliest
}

// delivery is an outcome on its way to its waiter.
type delivery struct {
	to *waiter
	outcome
}

func (f *runner) now() time.Duration { return time.Since(f.start) }

// run runs the round until no waiter is left, or until the aggregator is closed. ctx ends in
// both cases: with the last caller, whose leave is then in the inbox, or with the aggregator.
// The caller ends ctx after the round.
func (f *runner) run(ctx context.Context) {
	defer f.ended.Store(true)
	defer f.setAwake(false)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var spare []event
	for {
		events := f.inbox.take(spare)
		now := f.now()
		for i, e := range events {
			e(now)
			events[i] = nil
		}
		spare = events
		if len(f.round.waiters) == 0 {
			if !f.inbox.closeIfEmpty() {
				continue
			}
			// Before the last outcome is delivered, so that a request that follows it
			// starts a round of its own.
			f.agg.remove(f)
			f.deliver()
			f.show(f.now(), true)
			f.learn()
			return
		}
		if f.agg.life.Err() != nil {
			f.abandon()
			return
		}
		f.deliver()
		f.signing.Store(f.round.sleep.sent || !f.round.few(f.round.have()+f.round.untested))
		f.round.plan.Price = f.agg.requestPrice()
		a := f.round.next(f.now())
		f.setAwake(!f.round.sleep.on)
		switch a.kind {
		case actAsk:
			f.ask(ctx, a.members)
		case actVerify:
			f.verify(a.members)
		case actFinish:
			f.finish(a)
		case actFail:
			f.fail(a)
		case actSearch:
			f.search(ctx)
		case actWait:
			until := min(a.until, f.report(f.now()), f.show(f.now(), false))
			if until != never {
				timer.Reset(until - f.now())
			}
			select {
			case <-f.inbox.signal:
			case <-timer.C:
			case <-ctx.Done():
			}
		}
	}
}

// setAwake counts the round among those that share the processors, or no longer.
func (f *runner) setAwake(awake bool) {
	if awake == f.awake {
		return
	}
	f.awake = awake
	f.agg.mu.Lock()
	defer f.agg.mu.Unlock()
	f.agg.countAwake(awake)
}

// report calls the progress functions if the account of the round has changed or progressRepeat has
// passed, and those of new waiters. It returns when to call it again if nothing else happens before; never
// if there are no progress functions.
func (f *runner) report(now time.Duration) time.Duration {
	if !slices.ContainsFunc(f.round.waiters, func(c *waiter) bool { return c.progress != nil }) {
		return never
	}
	r := &f.reported
	if now < r.checkAt {
		return r.checkAt
	}
	r.checkAt = now + ProgressInterval
	account := f.round.account(0)
	due := now >= r.madeAt+progressRepeat || !reflect.DeepEqual(account, r.account)
	if due {
		r.account, r.madeAt = account, now
	}
	for _, c := range f.round.waiters {
		if c.progress != nil && (due || !c.reported) {
			c.reported = true
			account.TargetWeight = c.need
			c.progress(account)
		}
	}
	return r.madeAt + progressRepeat
}

// abandon ends the round because the service is stopping.
func (f *runner) abandon() {
	f.agg.remove(f)
	for _, e := range f.inbox.close() {
		e(f.now())
	}
	f.deliver()
	for _, c := range f.round.waiters {
		c.outcome <- outcome{err: &Error{Code: CodeShutdown, Message: "the service is shutting down; send the request again"}}
	}
	f.round.waiters = nil
	f.show(f.now(), true)
}

// verify verifies the signatures of members in one batch and marks the invalid ones.
func (f *runner) verify(members []int) {
	started := time.Now()
	bad := verifyMembers(f.message, f.round, members)
	f.agg.metrics.verifications.Observe(time.Since(started).Seconds())
	f.judge(members, bad)
}

// blame finds the trusted signers whose signatures make a message of members invalid. Signatures
// that it does not blame are not verified.
func (f *runner) blame(members []int) {
	started := time.Now()
	bad := culprits(f.message, f.round, members)
	f.agg.metrics.verifications.Observe(time.Since(started).Seconds())
	if len(bad) == 0 {
		f.verify(members)
		return
	}
	f.judge(bad, bad)
}

// judge records that the signatures of members were verified, and that those of bad are invalid.
func (f *runner) judge(members, bad []int) {
	f.round.markVerified(members, bad)
	now := time.Now()
	for _, i := range members {
		_, invalid := slices.BinarySearch(bad, i)
		author := f.round.author(i)
		f.agg.history.judged(author, !invalid, now)
		if invalid {
			f.agg.metrics.invalid.Inc()
			f.agg.log.Warn("invalid signature", slog.String("nodeID", author.node.String()), slog.String("messageID", f.message.ID().String()))
		}
	}
}

// finish builds the message for a waiter. If the message is invalid, finish removes the invalid
// signatures; the round then goes on.
func (f *runner) finish(a action) {
	what := goal{weight: a.target, need: a.waiter.need}
	result, ok := f.built[what]
	if !ok {
		members, weight := f.round.signers(a.target)
		_, signatures := f.round.signaturesOf(members)
		started := time.Now()
		if len(f.built) == 0 {
			f.agg.metrics.stages.WithLabelValues("quorum").Observe(started.Sub(f.start).Seconds())
		}
		message, err := assemble(f.message, f.round.set, members, signatures, a.target)
		f.agg.metrics.stages.WithLabelValues("verify").Observe(time.Since(started).Seconds())
		if err != nil {
			unverified := slices.DeleteFunc(members, func(i int) bool { return f.round.members[i].state == signed })
			if len(unverified) == 0 {
				f.agg.log.Error("verified signatures do not make a valid message", slog.Any("error", err))
				f.answer(a.waiter, outcome{err: &Error{Code: CodeInternal, Message: "the verified signatures do not make a valid message", Err: err}})
				return
			}
			f.blame(unverified)
			return
		}
		for _, i := range members {
			f.round.members[i].included = true
		}
		result = &Result{
			Message:         message,
			SigningSubnetID: f.round.set.SubnetID,
			PChainHeight:    f.round.set.Height,
			Signers:         len(members),
			Weight:          weight,
			TotalWeight:     f.round.set.TotalWeight,
			Account:         f.round.account(a.waiter.need),
			made:            time.Now(),
		}
		f.built[what] = result
	}
	f.file(a.waiter, result)
	f.answer(a.waiter, outcome{result: result})
}

// file puts the message into the caches. The runner does so, not the waiter: a request that
// no longer finds the round then finds its message.
func (f *runner) file(c *waiter, result *Result) {
	id := finishedID{message: f.key.message, set: f.key.set, need: c.need, want: c.want}
	if id == f.filed && result == f.filedResult {
		return
	}
	f.filed, f.filedResult = id, result
	f.agg.finished.put(id, result)
	if f.agg.archive == nil {
		return
	}
	f.agg.archive.putStream(id, result, f.origin)
	// A message short of its buffer is only good until more validators sign.
	if result.Weight >= c.want {
		f.agg.archive.putMessage(id, result)
	}
}

// serveLate serves a waiter whose time is up, if the quorum is met and only the buffer is
// missing. Otherwise it returns false.
func (f *runner) serveLate(c *waiter) bool {
	for slices.Contains(f.round.waiters, c) {
		if f.round.have() < c.need && !f.round.decisive(c) {
			return false
		}
		if a := f.round.short(c); a.kind == actVerify {
			f.verify(a.members)
		} else {
			f.finish(a)
		}
	}
	return true
}

func (f *runner) fail(a action) {
	f.cacheVerified()
	failed := f.round.failure(a.code, a.waiter.need, f.agg.transport.Failure)
	if a.code == CodeNotSeen {
		f.agg.unseen.put(f.key, a.waiter.need, failed)
	}
	f.answer(a.waiter, outcome{err: failed})
}

// cacheVerified caches the verified signatures before a waiter fails, so that its request can use them with another
// validator set.
func (f *runner) cacheVerified() {
	if f.cachedWeight == f.round.verified {
		return
	}
	f.cachedWeight = f.round.verified
	for i := range f.round.members {
		if m := &f.round.members[i]; m.state == signed && !m.recalled {
			f.agg.verified.put(f.key.message, keyOf(f.round.set.Validators[i]), [ava.SignatureLen]byte(m.signature.Compress()))
		}
	}
}

// search looks for the message on its chain, concurrently with the round. It ends with life.
func (f *runner) search(life context.Context) {
	if f.agg.find == nil {
		f.round.searchDone(false)
		return
	}
	f.agg.running.Go(func() {
		ctx, cancel := context.WithTimeout(life, searchTimeout)
		defer cancel()
		found, err := f.agg.find(ctx, f.message)
		if err != nil && life.Err() == nil {
			f.agg.log.Debug("cannot search for a message on its chain", slog.String("messageID", f.key.message.String()), slog.Any("error", err))
		}
		f.inbox.put(func(time.Duration) { f.round.searchDone(found) })
	})
}

// answer queues a waiter's outcome for deliver and removes the waiter.
func (f *runner) answer(c *waiter, o outcome) {
	f.watched.note(c, o)
	f.due = append(f.due, delivery{to: c, outcome: o})
	f.round.leave(c)
}

// deliver sends the queued outcomes. The channels have room for them.
func (f *runner) deliver() {
	for _, d := range f.due {
		d.to.outcome <- d.outcome
	}
	f.due = nil
}

// leave removes a waiter whose context has ended. After a deadline, its outcome is what was
// reached. After a cancellation it gets none, and leave closes gone.
func (f *runner) leave(ctx context.Context, c *waiter, gone chan<- struct{}) {
	if !slices.Contains(f.round.waiters, c) {
		return // its outcome is on its way
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.round.leave(c)
		close(gone)
		return
	}
	if f.serveLate(c) {
		return
	}
	if members := f.round.pendingMembers(nil); len(members) > 0 {
		f.verify(members)
	}
	f.fail(action{waiter: c, code: f.round.late(c)})
}

// learn updates the history after a round with a signed message: which validators refused, also
// if only for now, and whether the plan held. It passes the signatures to the verifier, because only
// verified ones are cached.
func (f *runner) learn() {
	if len(f.built) == 0 {
		return
	}
	now := time.Now()
	for i := range f.round.members {
		if m := &f.round.members[i]; m.state == refused || m.state == notYet {
			f.agg.history.failed(f.round.signer(i), now)
		}
	}
	if f.round.slips > 0 {
		f.agg.history.planSlipped()
	} else {
		f.agg.history.planHeld()
	}
	f.agg.verifier.keep(f)
}
