// Package aggregator turns an unsigned Warp message into a signed one: it asks
// the validators of the signing subnet (ACP-118), verifies their signatures,
// chooses the signers and verifies the result before it returns it. One round
// per message serves any number of waiters.
package aggregator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	avap2p "github.com/ava-labs/avalanchego/network/p2p"
	"github.com/ava-labs/avalanchego/network/p2p/acp118"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	ava "github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/bls"
	"quorate/p2p"
	"quorate/validators"
)

// Transport carries signature requests to validators.
type Transport interface {
	// Connected reports whether a request can be sent to nodeID now.
	Connected(nodeID ids.NodeID) bool
	// OnConnect calls f for every new connection until stop is called. f must not block.
	OnConnect(f func(ids.NodeID)) (stop func())
	// Request sends the request to each of nodes that is connected, until ctx ends, and
	// returns these nodes, also those that do not read it. It calls onAnswer at most once for
	// each of them, from any goroutine, until ctx ends. onAnswer must not block.
	Request(ctx context.Context, chainID ids.ID, nodes []ids.NodeID, request []byte, onAnswer func(p2p.Answer)) (sent []ids.NodeID)
	// Failure returns why a node that is not connected could not be connected.
	Failure(nodeID ids.NodeID) p2p.Failure
	// Tracks reports whether a node tracks a subnet; known is false if it is not connected.
	Tracks(nodeID ids.NodeID, subnetID ids.ID) (tracks, known bool)
}

// Sets resolves validator sets.
type Sets interface {
	// Set returns the canonical set of a subnet at a P-Chain height. Height 0 means the
	// proposed height.
	Set(ctx context.Context, subnetID ids.ID, height uint64) (*validators.Set, error)
	// SubnetOf returns the subnet that validates a blockchain.
	SubnetOf(ctx context.Context, blockchainID ids.ID) (ids.ID, error)
	// EpochSet returns a subnet's set at the P-Chain height of a blockchain's current
	// epoch.
	EpochSet(ctx context.Context, subnetID, blockchainID ids.ID) (*validators.Set, error)
	// Underfunded lists the canonical indexes of L1 validators that are about
	// to become inactive.
	Underfunded(ctx context.Context, set *validators.Set) (map[int]struct{}, error)
	// Incapable lists the validators of a set that cannot sign, or may have stopped.
	Incapable(ctx context.Context, set *validators.Set) (validators.Incapable, error)
}

// Options of an Aggregator. Transport, Sets and Log are required.
type Options struct {
	Transport Transport
	Sets      Sets
	Log       *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Limits of a round; the zero value means DefaultLimits.
	Limits Limits
	// Rounds returns the most rounds at a time, of all clients and of one (see WithClient). 0 is no bound, and so is
	// a nil Rounds. It is called for each new round, under a lock. Requests that join a round are not bounded. If
	// perClient is not 0, the bytes of a client's new messages are bounded, too.
	Rounds func() (all, perClient int)
	// SignatureCacheBytes and MessageCacheBytes bound the caches; 0 means 64 MiB and
	// 32 MiB.
	SignatureCacheBytes, MessageCacheBytes uint64
	// Archive stores finished messages and verified signatures; nil means that a restart
	// forgets them.
	Archive *Archive
	// Strikes stores the validators that sent invalid signatures; nil means that a restart
	// forgets them.
	Strikes StrikeStore
	// Observer receives the state of rounds; may be nil.
	Observer Observer
	// Find searches for a message on its chain: it reports whether the message was sent. The
	// aggregator calls it when validators have not seen a message. May be nil.
	Find func(ctx context.Context, message *warp.UnsignedMessage) (found bool, err error)
}

// Aggregator signs Warp messages of one network. Safe for concurrent use.
type Aggregator struct {
	transport Transport
	sets      Sets
	log       *slog.Logger
	metrics   *metrics
	limits    Limits
	history   *history
	verified  *signatures
	finished  *finished
	archive   *Archive // may be nil
	observer  Observer // may be nil
	find      func(ctx context.Context, message *warp.UnsignedMessage) (bool, error)
	unseen    *unseenMessages
	observed  atomic.Uint64 // rounds that the observer has seen
	verifier  *verifier

	processors int
	awake      atomic.Int64 // rounds that do not sleep; written with mu held

	// life is the context of all rounds. New creates it, Close cancels it.
	life    context.Context //nolint:containedctx // see above
	end     context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	runners  map[roundKey]*runner // guarded by mu
	admitted admission            // guarded by mu
	idle     chan struct{}        // guarded by mu; closed while no round is awake
}

// roundKey identifies the requests that can share a round.
type roundKey struct {
	message, justification, set, nodes ids.ID
}

// New makes an Aggregator; Close ends it.
func New(o Options) (*Aggregator, error) {
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	verified := newSignatures(cmp.Or(o.SignatureCacheBytes, 64<<20))
	done := newFinished(cmp.Or(o.MessageCacheBytes, 32<<20))
	m, err := newMetrics(o.Metrics, verified, done)
	if err != nil {
		return nil, fmt.Errorf("registering the aggregator's metrics: %w", err)
	}
	a := &Aggregator{
		transport:  o.Transport,
		sets:       o.Sets,
		log:        o.Log,
		metrics:    m,
		limits:     cmp.Or(o.Limits, DefaultLimits()),
		history:    newHistory(),
		verified:   verified,
		finished:   done,
		archive:    o.Archive,
		observer:   o.Observer,
		find:       o.Find,
		unseen:     newUnseenMessages(),
		runners:    make(map[roundKey]*runner),
		processors: runtime.GOMAXPROCS(0),
		admitted:   newAdmission(o.Rounds),
	}
	a.idle = make(chan struct{})
	close(a.idle)
	a.life, a.end = context.WithCancel(context.Background())
	a.verifier = &verifier{
		jobs: make(chan verifyJob, maxVerifyJobs), history: a.history, verified: verified, invalid: m.invalid, archive: o.Archive, idle: a.idleNow,
	}
	a.running.Go(func() { a.verifier.run(a.life) })
	if o.Strikes != nil {
		a.running.Go(func() { a.keepStrikes(o.Strikes) })
	}
	return a, nil
}

// idleNow returns a channel that is closed while no round is awake.
func (a *Aggregator) idleNow() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.idle
}

// AnswerTime returns the median time in which a node of a validator answered the latest requests for the validator's
// signature, estimated from the last 20 or so. It returns false if the node has not answered since the aggregator began.
func (a *Aggregator) AnswerTime(nodeID ids.NodeID, v *snow.Warp) (time.Duration, bool) {
	return a.history.answerTime(signer{nodeID, keyOf(v)})
}

// Close ends all rounds, whose waiters get CodeShutdown, and waits for them.
func (a *Aggregator) Close() {
	a.mu.Lock() // so that no round starts
	a.end()
	a.mu.Unlock()
	a.running.Wait()
}

// maxMoves bounds how often a request starts over because the validator set
// changed while it was being signed.
const maxMoves = 3

// moveTimeout bounds the check whether the validator set changed while a message was signed.
const moveTimeout = 500 * time.Millisecond

// Sign returns the signed message that req asks for, verified against the
// validator set it names. It waits until ctx ends; a failure is an *Error,
// unless ctx was cancelled.
func (a *Aggregator) Sign(ctx context.Context, req Request) (*Result, error) {
	started := time.Now()
	result, err := a.sign(ctx, req)
	if err == nil && !req.Ahead {
		a.metrics.signed.Observe(time.Since(started).Seconds())
		return result, nil
	}
	outcome := "cancelled"
	var failed *Error
	switch {
	case err == nil:
		outcome = "signed"
	case errors.As(err, &failed):
		outcome = string(failed.Code)
		if a.archive != nil && !errors.Is(ctx.Err(), context.Canceled) { // a client that has left
			a.archive.putFailure(started, req, failed)
		}
	}
	a.metrics.latency.WithLabelValues(outcome, req.origin().String()).Observe(time.Since(started).Seconds())
	return result, err
}

func (a *Aggregator) sign(ctx context.Context, req Request) (*Result, error) {
	set, err := a.resolve(ctx, req)
	if err != nil {
		return nil, err
	}
	var earlier *Result // for the set before it changed
	failed := false     // for a set before it changed
	for moves := 0; ; moves++ {
		result, atHand, err := a.signFor(ctx, req, set)
		if err != nil && earlier != nil {
			return earlier, nil // the message is valid for the set it names
		}
		again := moves < maxMoves
		if err == nil {
			result = result.at(set.Height)
		} else {
			again = !failed && dependsOnSet(err) // sets may change often, and validators that refuse for good are not asked on and on
		}
		if again && !atHand {
			// A message is valid for all sets with an equal fingerprint. After a failure, other nodes may answer.
			latest := a.latest(ctx, req, set)
			if latest.Fingerprint() != set.Fingerprint() || err != nil && latest.Nodes() != set.Nodes() {
				set, earlier, failed = latest, result, err != nil
				continue
			}
		}
		// A round is shared with requests for an equal set at another height.
		var explained *Error
		if errors.As(err, &explained) && explained.Account != nil {
			explained.Account.PChainHeight = set.Height
			a.explain(ctx, req, set, explained)
		}
		return result, err
	}
}

// dependsOnSet reports whether a request failed that may succeed with another validator set.
func dependsOnSet(err error) bool {
	var failed *Error
	return errors.As(err, &failed) &&
		(failed.Code == CodeQuorumNotReached || failed.Code == CodeRefused || failed.Code == CodeQuorumImpossible)
}

// latest returns the validator set that req is to be signed by now. It returns set if ctx has ended, or if the latest
// set cannot be resolved within moveTimeout.
func (a *Aggregator) latest(ctx context.Context, req Request, set *validators.Set) *validators.Set {
	if ctx.Err() != nil {
		return set
	}
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	latest, err := a.resolve(ctx, req)
	if err != nil {
		return set
	}
	return latest
}

// resolve finds the validator set that req is to be signed by.
func (a *Aggregator) resolve(ctx context.Context, req Request) (*validators.Set, error) {
	defer func(started time.Time) {
		a.metrics.resolved.Observe(time.Since(started).Seconds())
	}(time.Now())
	subnetID, err := a.signingSubnet(ctx, req)
	if err != nil {
		return nil, err
	}
	if req.VerifyingBlockchainID == nil {
		set, err := a.sets.Set(ctx, subnetID, req.PChainHeight)
		if err != nil {
			return nil, setFailure(ctx, err, subnetID, req.PChainHeight)
		}
		return set, nil
	}
	set, err := a.sets.EpochSet(ctx, subnetID, *req.VerifyingBlockchainID)
	if errors.Is(err, validators.ErrUnknownBlockchain) {
		return nil, &Error{Code: CodeUnknownBlockchain, Message: fmt.Sprintf("verifyingBlockchainId: the upstream node runs no blockchain %s, so its epoch is not known; give pChainHeight instead", *req.VerifyingBlockchainID), Err: err}
	}
	if err != nil {
		return nil, setFailure(ctx, err, subnetID, 0)
	}
	return set, nil
}

func (a *Aggregator) signingSubnet(ctx context.Context, req Request) (ids.ID, error) {
	if req.SigningSubnetID != nil {
		return *req.SigningSubnetID, nil
	}
	chainID := req.Message.SourceChainID
	if chainID == constants.PlatformChainID {
		return constants.PrimaryNetworkID, nil
	}
	subnetID, err := a.sets.SubnetOf(ctx, chainID)
	if errors.Is(err, validators.ErrUnknownBlockchain) {
		return ids.Empty, &Error{Code: CodeUnknownBlockchain, Message: fmt.Sprintf("message: no subnet of this network validates its source blockchain %s", chainID), Err: err}
	}
	if err != nil {
		return ids.Empty, NodeFailure(ctx, err)
	}
	return subnetID, nil
}

// signFor serves req from a cache, or from a round with set. atHand reports that it did
// not wait.
func (a *Aggregator) signFor(ctx context.Context, req Request, set *validators.Set) (r *Result, atHand bool, err error) {
	quorum := cmp.Or(req.QuorumPercentage, DefaultQuorumPercentage)
	need := set.MinWeight(quorum)
	want := set.MinWeight(min(quorum+min(req.QuorumPercentageBuffer, 100), 100)) // a sum that wraps around would be below the quorum
	if len(set.Validators) == 0 {
		return nil, false, &Error{Code: CodeNoValidators, Message: fmt.Sprintf("signingSubnetId: no validator of subnet %s has a BLS key at P-Chain height %d, so no validator can sign", set.SubnetID, set.Height)}
	}
	if set.TotalWeight == 0 { // a quorum would be 0
		return nil, false, &Error{Code: CodeQuorumImpossible, Message: fmt.Sprintf("the validators of subnet %s have no weight at P-Chain height %d, so there is no quorum; wait until a validator has weight", set.SubnetID, set.Height)}
	}
	if keyed := set.KeyedWeight(); keyed < need {
		r := newRound(set, req.Message.SourceChainID, a.limits, planner{}, a.transport.Connected)
		return nil, false, r.failure(CodeQuorumImpossible, need, a.transport.Failure)
	}
	id := finishedID{message: req.Message.ID(), set: set.Fingerprint(), need: need, want: want}
	if r, ok := a.finished.get(id); ok {
		a.metrics.fromMemory.Inc()
		return r, true, nil
	}
	if r := a.recall(ctx, id, req.Message, set); r != nil {
		a.metrics.served.WithLabelValues("archive").Inc()
		a.finished.put(id, r)
		return r, false, nil
	}
	a.metrics.served.WithLabelValues("round").Inc()
	r, err = a.runRound(ctx, req, set, id)
	return r, false, err
}

// recall returns the message from the archive, or nil if it has none.
func (a *Aggregator) recall(ctx context.Context, id finishedID, msg *warp.UnsignedMessage, set *validators.Set) *Result {
	if a.archive == nil {
		return nil
	}
	r, err := a.archive.message(ctx, id, msg, set)
	if err != nil && ctx.Err() == nil {
		a.log.Warn("cannot read a finished message from the archive; validators sign it again", slog.Any("error", err))
	}
	return r
}

// runRound joins the round for req, or starts it, and waits for the outcome.
func (a *Aggregator) runRound(ctx context.Context, req Request, set *validators.Set, id finishedID) (*Result, error) {
	req.Justification = a.justification(ctx, req)
	outcomes := make(chan outcome, 1)
	c := &waiter{need: id.need, want: id.want, wait: max(req.Wait, a.limits.UnseenTimeout), sent: req.Sent, outcome: outcomes}
	if req.Progress != nil {
		c.progress = func(account Account) {
			account.PChainHeight = set.Height
			req.Progress(account)
		}
	}
	client := clientOf(ctx)
	f, finished, err := a.joinRound(req, set, id, c, client)
	if err != nil || finished != nil {
		return finished, err
	}
	charge := func(signed bool) {
		chargeOf(ctx)(Usage{Requests: c.requests, Size: len(f.request), Validators: len(set.Validators), Signed: signed})
	}
	select {
	case o := <-outcomes:
		a.release(f, client)
		charge(o.err == nil)
		return o.unpack()
	case <-ctx.Done():
	}
	// The outcome may arrive meanwhile. If the inbox is closed, it is on its way.
	gone := make(chan struct{})
	f.inbox.put(func(time.Duration) { f.leave(ctx, c, gone) })
	a.release(f, client)
	select {
	case <-gone:
		charge(false)
		return nil, fmt.Errorf("waiting for signatures: %w", ctx.Err())
	case o := <-outcomes:
		charge(o.err == nil)
		return o.unpack()
	}
}

// joinRound adds c to the round for req and starts the round if there is none. If the round
// has ended since c looked into the cache, joinRound returns the message of that round. A new
// round counts for client.
func (a *Aggregator) joinRound(req Request, set *validators.Set, id finishedID, c *waiter, client string) (joined *runner, finished *Result, err error) {
	key := roundKey{message: id.message, justification: hashing.ComputeHash256Array(req.Justification), set: id.set, nodes: set.Nodes()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Err() != nil {
		return nil, nil, &Error{Code: CodeShutdown, Message: "the service is shutting down; send the request again"}
	}
	f, running := a.runners[key]
	if signing := running && f.signing.Load(); !signing && req.Wait == 0 && !req.Sent {
		if failed := a.unseen.get(key, id.need); failed != nil {
			return nil, nil, failed
		}
	}
	if busy := a.admitted.wait(client); busy != nil {
		return nil, nil, busy
	}
	defer func() {
		if joined == nil {
			a.admitted.done(client)
		}
	}()
	if running && f.inbox.put(func(now time.Duration) { f.round.join(c, now) }) {
		f.callers++
		return f, nil, nil
	}
	if r, ok := a.finished.look(id); ok {
		return nil, r, nil
	}
	request, err := proto.Marshal(&sdk.SignatureRequest{Message: req.Message.Bytes(), Justification: req.Justification})
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the signature request: %w", err)
	}
	request = avap2p.PrefixMessage(avap2p.ProtocolPrefix(acp118.HandlerID), request)
	if busy := a.admitted.enter(client, len(request)); busy != nil {
		return nil, nil, busy
	}
	ctx, end := context.WithCancel(a.life)
	f = &runner{
		agg:     a,
		key:     key,
		client:  client,
		origin:  req.origin(),
		callers: 1,
		end:     end,
		message: req.Message,
		request: request,
		start:   time.Now(),
		inbox:   inbox{signal: make(chan struct{}, 1)},
		built:   make(map[goal]*Result),
		// A round that ends sooner reports nothing.
		reported: reported{checkAt: ProgressInterval},
	}
	f.inbox.put(func(now time.Duration) { f.round.join(c, now) })
	f.awake = true
	a.countAwake(true)
	a.runners[key] = f
	a.metrics.rounds.Inc()
	a.running.Go(func() {
		defer end()
		// This precedes newRound, which reads the connections and then the archive: the inbox holds nodes that connect
		// meanwhile.
		stop := a.transport.OnConnect(func(nodeID ids.NodeID) {
			if _, ok := set.Index(nodeID); ok {
				f.inbox.put(func(time.Duration) { f.round.connected(nodeID) })
			}
		})
		defer stop()
		f.round = a.newRound(req.Message, set)
		a.watchFunds(ctx, f, set)
		f.run(ctx)
	})
	return f, nil, nil
}

// release removes a caller of f, which has its outcome or has put its leave into the inbox. After
// the last caller, no request can join the round, and f stops what it does.
func (a *Aggregator) release(f *runner, client string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admitted.done(client)
	if f.callers--; f.callers == 0 {
		a.close(f)
		f.end()
	}
}

// remove ends the round of f: no waiter can join it any more.
func (a *Aggregator) remove(f *runner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.close(f)
	a.admitted.leave(f.client)
	a.metrics.rounds.Dec()
}

// close makes requests that come later start a round of their own. The caller holds a.mu.
func (a *Aggregator) close(f *runner) {
	if a.runners[f.key] == f {
		delete(a.runners, f.key)
	}
}

// countAwake adds a round to those that share the processors, or removes one. The caller holds a.mu.
func (a *Aggregator) countAwake(awake bool) {
	switch {
	case !awake:
		if a.awake.Add(-1) == 0 {
			close(a.idle)
		}
	case a.awake.Add(1) == 1:
		a.idle = make(chan struct{})
	}
}

// requestPrice is the time that one request costs all rounds that are awake.
func (a *Aggregator) requestPrice() time.Duration {
	return requestCost * time.Duration(a.awake.Load()) / time.Duration(a.processors)
}

func (a *Aggregator) newRound(msg *warp.UnsignedMessage, set *validators.Set) *round {
	var plan planner // the runner sets the price
	a.history.mu.Lock()
	plan.Margin = a.history.margin
	a.history.mu.Unlock()
	r := newRound(set, msg.SourceChainID, a.limits, plan, a.transport.Connected)
	now := time.Now()
	a.history.mu.Lock()
	for i, v := range set.Validators {
		m := &r.members[i]
		m.expect, m.struck = a.history.expect(r.signer(i), now)
		for n := m.node + 1; n < len(v.NodeIDs); n++ { // another node of the key may be better
			if !a.transport.Connected(v.NodeIDs[n]) {
				continue
			}
			e, struck := a.history.expect(signer{v.NodeIDs[n], keyOf(v)}, now)
			better := e.by(a.limits.AnswerTimeout) > m.expect.by(a.limits.AnswerTimeout)
			if m.struck && !struck || m.struck == struck && better {
				m.node, m.expect, m.struck = n, e, struck
			}
		}
	}
	a.history.mu.Unlock()
	id := msg.ID()
	recalled := a.recallSignatures(r, id)
	if a.archive != nil && recalled < len(set.Validators) {
		err := a.archive.eachSignature(a.life, id, func(key publicKey, signature [ava.SignatureLen]byte) {
			a.verified.put(id, key, signature)
			recalled = -1
		})
		if err != nil && a.life.Err() == nil {
			a.log.Warn("cannot read signatures from the archive; validators are asked again", slog.Any("error", err))
		}
		if recalled < 0 {
			a.recallSignatures(r, id)
		}
	}
	return r
}

// recallSignatures adds the cached signatures to the round and returns their number.
func (a *Aggregator) recallSignatures(r *round, message ids.ID) (n int) {
	for i, v := range r.set.Validators {
		if b, ok := a.verified.get(message, v); ok {
			if s, err := bls.ParseUnchecked(b[:]); err == nil {
				r.known(i, s)
				n++
			}
		}
	}
	return n
}

// watchFunds finds out, concurrently with the round, which L1 validators to ask last. It ends
// with life.
func (a *Aggregator) watchFunds(life context.Context, f *runner, set *validators.Set) {
	if set.SubnetID == constants.PrimaryNetworkID {
		return
	}
	a.running.Go(func() {
		ctx, cancel := context.WithTimeout(life, a.limits.AnswerTimeout)
		defer cancel()
		avoid, err := a.sets.Underfunded(ctx, set)
		if err != nil || len(avoid) == 0 {
			return // only a preference: the set itself is what counts
		}
		f.inbox.put(func(time.Duration) { f.round.avoid(avoid) })
	})
}
