package aggregator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/bls"
	"quorate/p2p"
)

// flight runs one round: it owns the round's state on a single goroutine, feeds
// it what happens and carries out what it decides. It ends when its last caller
// has left. Answers that come later still teach the history.
type flight struct {
	agg     *Aggregator
	key     flightKey
	message *warp.UnsignedMessage
	request []byte
	start   time.Time
	inbox   inbox
	ended   atomic.Bool
	heard   atomic.Bool // a signature has arrived

	// Owned by the goroutine of run.
	round *round
	built map[uint64]*Result // finished messages by target weight
	// filed and filedResult are what file kept last.
	filed       finishedID
	filedResult *Result
	watched     watched
}

// event changes the round; it runs on the flight's goroutine.
type event func(now time.Duration)

// inbox is an unbounded queue; what bounds it is that every node asked answers
// at most once and every caller joins and leaves once.
type inbox struct {
	mu     sync.Mutex
	events []event
	closed bool
	signal chan struct{} // holds one token while events wait
}

// put queues e and reports false if the flight has ended.
func (b *inbox) put(e event) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.events = append(b.events, e)
	b.mu.Unlock()
	select {
	case b.signal <- struct{}{}:
	default:
	}
	return true
}

func (b *inbox) take(spare []event) []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = spare[:0]
	return events
}

// closeIfEmpty ends the queue unless something arrived meanwhile.
func (b *inbox) closeIfEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) > 0 {
		return false
	}
	b.closed = true
	return true
}

func (b *inbox) close() []event {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	events := b.events
	b.events = nil
	return events
}

func (f *flight) now() time.Duration { return time.Since(f.start) }

// run carries the round until no caller is left or ctx, the aggregator's own
// life, ends.
func (f *flight) run(ctx context.Context) {
	defer f.ended.Store(true)
	stop := f.agg.transport.OnConnect(func(nodeID ids.NodeID) {
		if _, ok := f.round.set.Index(nodeID); ok {
			f.inbox.put(func(time.Duration) { f.round.connected(nodeID) })
		}
	})
	defer stop()
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
		if len(f.round.callers) == 0 && f.inbox.closeIfEmpty() {
			f.agg.land(f)
			f.show(f.now(), true)
			f.learn()
			return
		}
		a := f.round.next(f.now())
		switch a.kind {
		case actAsk:
			f.ask(ctx, a.members)
		case actProve:
			f.prove(a.members)
		case actFinish:
			f.finish(a)
		case actFail:
			f.fail(a)
		case actWait:
			until := min(a.until, f.report(f.now()), f.show(f.now(), false))
			if until != never {
				timer.Reset(until - f.now())
			}
			select {
			case <-f.inbox.signal:
			case <-timer.C:
			case <-ctx.Done():
				f.abandon()
				return
			}
		}
	}
}

// report tells the callers that want to know how the round stands, and returns
// when to look again; never if nobody does.
func (f *flight) report(now time.Duration) time.Duration {
	again := never
	for _, c := range f.round.callers {
		if c.progress == nil {
			continue
		}
		if now-c.reportedAt >= ProgressInterval {
			c.reportedAt = now
			c.progress(f.round.account(c.need))
		}
		again = min(again, c.reportedAt+ProgressInterval)
	}
	return again
}

// abandon ends the flight while callers wait: the service is stopping.
func (f *flight) abandon() {
	f.agg.land(f)
	for _, e := range f.inbox.close() {
		e(f.now())
	}
	for _, c := range f.round.callers {
		c.outcome <- outcome{err: &Error{Code: CodeShutdown, Message: "the service is shutting down; send the request again"}}
	}
	f.round.callers = nil
	f.show(f.now(), true)
}

// ask sends one request to the node of each member.
func (f *flight) ask(life context.Context, members []int) {
	nodes := make([]ids.NodeID, len(members))
	for n, i := range members {
		nodes[n] = f.round.nodeID(i)
	}
	w := &wave{flight: f, left: make(map[ids.NodeID]struct{}, len(nodes))}
	for _, nodeID := range nodes {
		w.left[nodeID] = struct{}{}
	}
	// A wave outlives the round that sent it, so that a slow answer is still
	// measured; it never outlives the answer timeout.
	ctx, cancel := context.WithTimeout(life, f.agg.limits.AnswerTimeout)
	w.cancel = cancel
	sent := f.agg.transport.Request(ctx, f.message.SourceChainID, nodes, f.request, w.answer)
	f.agg.metrics.asked.Add(float64(len(sent)))
	if len(sent) < len(nodes) {
		ok := make(map[ids.NodeID]struct{}, len(sent))
		for _, nodeID := range sent {
			ok[nodeID] = struct{}{}
		}
		for n, i := range members {
			if _, handed := ok[nodes[n]]; !handed {
				f.round.unreachable(i)
				w.forget(nodes[n])
			}
		}
	}
	context.AfterFunc(ctx, w.expire)
}

// wave is one fan-out: which of its nodes still owe an answer.
type wave struct {
	flight *flight
	cancel context.CancelFunc
	mu     sync.Mutex
	left   map[ids.NodeID]struct{}
}

// forget strikes nodeID off and reports whether it owed an answer.
func (w *wave) forget(nodeID ids.NodeID) bool {
	w.mu.Lock()
	_, owed := w.left[nodeID]
	delete(w.left, nodeID)
	done := len(w.left) == 0
	w.mu.Unlock()
	if done {
		w.cancel()
	}
	return owed
}

// expire counts those that stayed silent against them, unless the service stops.
func (w *wave) expire() {
	w.cancel()
	w.mu.Lock()
	left := w.left
	w.left = nil
	w.mu.Unlock()
	agg := w.flight.agg
	if agg.life.Err() != nil {
		return
	}
	for nodeID := range left {
		agg.history.failed(nodeID, time.Now())
	}
}

// answer takes what a node sent back. It runs on the connection's own reader,
// which makes the readers the worker pool: one node's garbage costs only itself.
func (w *wave) answer(a p2p.Answer) {
	f := w.flight
	if !w.forget(a.NodeID) {
		return
	}
	if a.Err != nil {
		var refusal *common.AppError
		if errors.As(a.Err, &refusal) {
			f.agg.metrics.refusals.WithLabelValues(refusalLabel(refusal.Code)).Inc()
			f.inbox.put(func(now time.Duration) { f.round.failed(a.NodeID, refused, refusal, now) })
			return
		}
		f.agg.history.failed(a.NodeID, time.Now())
		f.inbox.put(func(now time.Duration) { f.round.failed(a.NodeID, idle, nil, now) })
		return
	}
	if f.ended.Load() {
		f.agg.history.answered(a.NodeID, a.Elapsed, time.Now())
		return
	}
	signature, err := parseAnswer(a.Bytes)
	if err != nil {
		f.agg.metrics.invalid.Inc()
		f.agg.history.judged(a.NodeID, false, time.Now())
		f.inbox.put(func(now time.Duration) { f.round.failed(a.NodeID, invalid, nil, now) })
		return
	}
	f.agg.history.answered(a.NodeID, a.Elapsed, time.Now())
	if !f.heard.Swap(true) {
		f.agg.metrics.stages.WithLabelValues("first_answer").Observe(f.now().Seconds())
	}
	f.inbox.put(func(time.Duration) { f.round.answered(a.NodeID, signature) })
}

// parseAnswer reads an ACP-118 response. The signature is a point on the curve;
// its subgroup is checked with the finished message, or when it is proven.
func parseAnswer(b []byte) (*bls.Signature, error) {
	var response sdk.SignatureResponse
	if err := proto.Unmarshal(b, &response); err != nil {
		return nil, err
	}
	return bls.ParseUnchecked(response.Signature)
}

// prove checks signatures one by one in a batch and names the culprits.
func (f *flight) prove(members []int) {
	started := time.Now()
	bad := f.agg.proveSignatures(f.message, f.round, members)
	f.round.proved(members, bad)
	f.agg.metrics.proofs.Observe(time.Since(started).Seconds())
	for _, i := range bad {
		f.agg.metrics.invalid.Inc()
		f.agg.history.judged(f.round.author(i), false, time.Now())
		f.agg.log.Warn("invalid signature", slog.String("nodeID", f.round.author(i).String()), slog.String("messageID", f.message.ID().String()))
	}
}

// finish builds the message for a caller; signatures that spoil it are found
// and struck off, and the round goes on.
func (f *flight) finish(a action) {
	result, ok := f.built[a.target]
	if !ok {
		members, weight := f.round.signers(a.target)
		signatures := make([]*bls.Signature, len(members))
		for n, i := range members {
			signatures[n] = f.round.members[i].signature
		}
		started := time.Now()
		if len(f.built) == 0 {
			f.agg.metrics.stages.WithLabelValues("quorum").Observe(started.Sub(f.start).Seconds())
		}
		signed, err := assemble(f.message, f.round.set, members, signatures, a.target)
		f.agg.metrics.stages.WithLabelValues("verify").Observe(time.Since(started).Seconds())
		if err != nil {
			unproven := f.round.pendingMembers(nil)
			if len(unproven) == 0 {
				f.agg.log.Error("proven signatures do not make a valid message", slog.Any("error", err))
				f.answer(a.caller, outcome{err: &Error{Code: CodeInternal, Message: "the signatures at hand do not make a valid message", Err: err}})
				return
			}
			f.prove(unproven)
			return
		}
		for _, i := range members {
			f.round.members[i].included = true
			f.agg.history.presumed(f.round.author(i), time.Now())
		}
		result = &Result{
			Message:         signed,
			SigningSubnetID: f.round.set.SubnetID,
			PChainHeight:    f.round.set.Height,
			Signers:         len(members),
			Weight:          weight,
			TotalWeight:     f.round.set.TotalWeight,
			Account:         f.round.account(a.target),
			AskedWeight:     f.round.askedWeight(),
			made:            time.Now(),
		}
		f.built[a.target] = result
	}
	f.file(a.caller, result)
	f.answer(a.caller, outcome{result: result})
}

// file keeps the message for those who ask again. It is done here, not by the
// caller, so that whoever finds the flight gone finds its message.
func (f *flight) file(c *caller, result *Result) {
	id := finishedID{message: f.key.message, set: f.key.set, need: c.need, want: c.want}
	if id == f.filed && result == f.filedResult {
		return
	}
	f.filed, f.filedResult = id, result
	f.agg.finished.put(id, result)
	// A message short of its buffer is only good until more validators sign.
	if f.agg.archive != nil && result.Weight >= c.want {
		f.agg.archive.putMessage(id, result)
	}
}

// serveLate gives a caller whose time is up the quorum, if that is at hand: it was
// only the buffer that it still waited for. False if it is not.
func (f *flight) serveLate(c *caller) bool {
	for slices.Contains(f.round.callers, c) {
		if f.round.proven+f.round.pending < c.need {
			return false
		}
		f.finish(action{kind: actFinish, caller: c, target: c.need})
	}
	return true
}

func (f *flight) fail(a action) {
	account := f.round.account(a.caller.need)
	f.answer(a.caller, outcome{err: failure(a.code, account)})
}

// answer hands a caller its outcome, which has room for it, and lets it go.
func (f *flight) answer(c *caller, o outcome) {
	f.watched.note(c, o)
	c.outcome <- o
	f.round.leave(c)
}

// learn draws the round's lessons once it is over: who failed while others
// signed, and whether the plan held. What is at hand unproven is handed to the
// prover, since only proven signatures are kept.
func (f *flight) learn() {
	if len(f.built) == 0 {
		return
	}
	now := time.Now()
	for i := range f.round.members {
		if f.round.members[i].state == refused {
			f.agg.history.failed(f.round.nodeID(i), now)
		}
	}
	if f.round.slips > 0 {
		f.agg.history.slipped()
	} else {
		f.agg.history.kept()
	}
	f.agg.keep(f)
}
