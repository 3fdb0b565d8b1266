package aggregator

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/snow/engine/common"

	"quorate/bls"
	"quorate/p2p"
)

// ask sends one request to a connected node of each member, until round ends.
func (f *runner) ask(round context.Context, members []int) {
	nodes := make([]ids.NodeID, len(members))
	for n, i := range members {
		nodes[n] = f.round.nodeID(i)
	}
	w := &wave{runner: f, left: make(map[ids.NodeID]struct{}, len(nodes))}
	for _, nodeID := range nodes {
		w.left[nodeID] = struct{}{}
	}
	// A wave may outlive its round, so that slow answers are measured. It ends with the
	// answer timeout.
	ctx, cancel := context.WithTimeout(f.agg.life, f.agg.limits.AnswerTimeout)
	w.cancel = cancel
	stop := context.AfterFunc(round, cancel)
	sent := f.agg.transport.Request(ctx, f.message.SourceChainID, nodes, f.request, w.answer)
	stop()
	cut := ctx.Err() != nil
	f.agg.metrics.asked.Add(float64(len(sent)))
	f.round.charge(len(sent))
	var again []int // members whose next node is to be asked
	if len(sent) < len(nodes) {
		ok := make(map[ids.NodeID]struct{}, len(sent))
		for _, nodeID := range sent {
			ok[nodeID] = struct{}{}
		}
		for n, i := range members {
			if _, handed := ok[nodes[n]]; handed {
				continue
			}
			if cut {
				f.round.withdraw(i)
			} else if f.round.unreachable(i, f.now()) {
				again = append(again, i)
			}
			w.forget(nodes[n])
		}
	}
	context.AfterFunc(ctx, func() { w.expire(ctx) })
	if len(again) > 0 {
		f.ask(round, again)
	}
}

// wave is one fan-out and the nodes that have not answered yet.
type wave struct {
	runner *runner
	cancel context.CancelFunc
	mu     sync.Mutex
	left   map[ids.NodeID]struct{} // guarded by mu
}

// forget removes nodeID and reports whether its answer was outstanding.
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

// expire ends the wave. If ctx, the wave's, reached its deadline, expire records that the
// remaining nodes did not answer in time.
func (w *wave) expire(ctx context.Context) {
	w.cancel()
	w.mu.Lock()
	left := w.left
	w.left = nil
	w.mu.Unlock()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	agg := w.runner.agg
	agg.metrics.timeouts.Add(float64(len(left)))
	for nodeID := range left {
		agg.history.failed(w.runner.signerOf(nodeID), time.Now())
	}
}

// answer handles a node's answer. It runs on the goroutine that reads the connection, so
// that parsing is concurrent and malformed answers delay no other node.
func (w *wave) answer(a p2p.Answer) {
	f := w.runner
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
		f.agg.history.failed(f.signerOf(a.NodeID), time.Now())
		f.inbox.put(func(now time.Duration) { f.round.failed(a.NodeID, idle, nil, now) })
		return
	}
	from := f.signerOf(a.NodeID)
	if f.ended.Load() {
		f.agg.history.answered(from, a.Elapsed, time.Now())
		return
	}
	signature, err := parseAnswer(a.Bytes)
	if err != nil {
		f.agg.metrics.invalid.Inc()
		f.agg.history.judged(from, false, time.Now())
		f.inbox.put(func(now time.Duration) { f.round.failed(a.NodeID, invalid, nil, now) })
		return
	}
	trusted := f.agg.history.answered(from, a.Elapsed, time.Now())
	if !f.answeredOnce.Swap(true) {
		f.agg.metrics.stages.WithLabelValues("first_answer").Observe(f.now().Seconds())
	}
	f.inbox.put(func(time.Duration) { f.round.answered(a.NodeID, signature, trusted) })
}

// signerOf returns a node that was asked, with the key of its validator.
func (f *runner) signerOf(nodeID ids.NodeID) signer {
	i, _ := f.round.set.Index(nodeID)
	return signer{nodeID, keyOf(f.round.set.Validators[i])}
}

// parseAnswer reads an ACP-118 response. The signature is a point on the curve;
// its subgroup is checked with the finished message, or when it is verified.
func parseAnswer(b []byte) (*bls.Signature, error) {
	var response sdk.SignatureResponse
	if err := proto.Unmarshal(b, &response); err != nil {
		return nil, err
	}
	return bls.ParseUnchecked(response.Signature)
}
