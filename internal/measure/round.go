package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	avap2p "github.com/ava-labs/avalanchego/network/p2p"
	"github.com/ava-labs/avalanchego/network/p2p/acp118"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/aggregator"
	"quorate/bls"
	"quorate/p2p"
	"quorate/validators"
)

// outcome is what one node did in one round.
type outcome uint8

const (
	unanswered   outcome = iota
	signed               // its signature is valid
	invalid              // it answered with something other than a valid signature
	refused              // it answered with an error
	notYet               // it answered that it has not accepted the block
	timedOut             // it did not answer in time
	lost                 // the connection was lost before an answer
	notConnected         // the request could not be sent
	outcomes             // the number of outcomes
)

// member is one node in one round.
type member struct {
	nodeID ids.NodeID
	// validator is the index of its key in the set.
	validator int
	outcome   outcome
	elapsed   time.Duration
	refusal   *common.AppError
	// reason is why there is no valid signature, detail what is known beyond it.
	reason aggregator.Reason
	detail string
}

// round is one request to every node of a set.
type round struct {
	block   block
	set     *validators.Set
	message *warp.UnsignedMessage
	at      time.Time
	members []member
	index   map[ids.NodeID]int // of members
	over    chan struct{}      // closed when no more answers are expected
	cancel  context.CancelFunc // ends the request

	mu      sync.Mutex
	answers []p2p.Answer // guarded by mu; to judge
	left    int          // guarded by mu; number of nodes that may answer
	ended   bool         // guarded by mu; over is closed
	cut     bool         // guarded by mu; the run ended before the round
}

// nodesOf returns the nodes of all validators that have a key.
func nodesOf(set *validators.Set) (nodes []ids.NodeID) {
	for _, v := range set.Validators {
		nodes = append(nodes, v.NodeIDs...)
	}
	return nodes
}

// ask begins a round: it asks all nodes of set to sign a block, in random order, because
// answers are timed from when the first request is sent.
func (r *runner) ask(ctx context.Context, b block, set *validators.Set) (*round, error) {
	hash, err := payload.NewHash(b.hash)
	if err != nil {
		return nil, fmt.Errorf("encoding block hash %s: %w", b.hash, err)
	}
	o := &round{block: b, set: set, index: make(map[ids.NodeID]int), over: make(chan struct{})}
	if o.message, err = warp.NewUnsignedMessage(r.NetworkID, r.BlockchainID, hash.Bytes()); err != nil {
		return nil, fmt.Errorf("encoding the message of block %s: %w", b.hash, err)
	}
	request, err := proto.Marshal(&sdk.SignatureRequest{Message: o.message.Bytes()})
	if err != nil {
		return nil, fmt.Errorf("encoding the signature request: %w", err)
	}
	for i, v := range set.Validators {
		for _, nodeID := range v.NodeIDs {
			o.index[nodeID] = len(o.members)
			o.members = append(o.members, member{nodeID: nodeID, validator: i, outcome: notConnected})
		}
	}
	nodes := nodesOf(set)
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	o.left = len(nodes)

	ctx, o.cancel = context.WithTimeout(ctx, r.Timeout)
	context.AfterFunc(ctx, func() { o.end(!errors.Is(ctx.Err(), context.DeadlineExceeded)) })
	o.at = time.Now()
	sent := r.Transport.Request(ctx, r.BlockchainID, nodes, avap2p.PrefixMessage(avap2p.ProtocolPrefix(acp118.HandlerID), request), o.answer)
	o.mu.Lock()
	o.left -= len(nodes) - len(sent)
	o.mu.Unlock()
	for _, nodeID := range sent {
		o.members[o.index[nodeID]].outcome = unanswered
	}
	for i := range o.members {
		if m := &o.members[i]; m.outcome == notConnected {
			m.reason, m.detail = r.obstacle(m.nodeID)
		}
	}
	o.answered()
	return o, nil
}

// obstacle returns why a request was not sent to a node.
func (r *runner) obstacle(nodeID ids.NodeID) (aggregator.Reason, string) {
	if r.Transport.Connected(nodeID) {
		return aggregator.ReasonNotConnected, "the node does not read what it is sent, or was connected only just now"
	}
	return aggregator.ReasonOf(r.Transport.Failure(nodeID))
}

// maxAnswer is the length of the longest answer that may hold a signature, in bytes.
const maxAnswer = 1 << 10

// answer receives a node's answer, which judge looks at later: parsing takes processor time,
// which would delay answers that arrive meanwhile.
func (o *round) answer(a p2p.Answer) {
	if len(a.Bytes) > maxAnswer {
		a.Bytes = nil
	}
	o.mu.Lock()
	if !o.ended {
		o.answers = append(o.answers, a)
		o.left--
	}
	o.mu.Unlock()
	o.answered()
}

// answered ends the round if all nodes have answered.
func (o *round) answered() {
	o.mu.Lock()
	all := o.left == 0
	o.mu.Unlock()
	if all {
		o.end(false)
	}
}

func (o *round) end(cut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended, o.cut = true, cut
		close(o.over)
		o.cancel()
	}
}

// state reports whether the round is over, and whether it was cut short.
func (o *round) state() (over, cut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended, o.cut
}

// judge sets the outcomes of the nodes that have answered since it was last called.
func (o *round) judge() {
	o.mu.Lock()
	answers := o.answers
	o.answers = nil
	o.mu.Unlock()
	var signers []*member
	var keys []*bls.PublicKey
	var signatures []*bls.Signature
	for _, a := range answers {
		m := &o.members[o.index[a.NodeID]]
		m.elapsed = a.Elapsed
		signature := m.read(a)
		if signature != nil {
			signers = append(signers, m)
			keys = append(keys, o.set.Validators[m.validator].PublicKey)
			signatures = append(signatures, signature)
		}
	}
	if len(signers) == 0 {
		return
	}
	for _, i := range bls.NewVerifier(o.message.Bytes()).Verify(keys, signatures) {
		signers[i].outcome = invalid
	}
}

// read sets the outcome of an answer. It returns the signature, if there is one, which is
// not verified.
func (m *member) read(a p2p.Answer) *bls.Signature {
	if a.Err != nil {
		m.outcome = lost
		if errors.As(a.Err, &m.refusal) {
			m.outcome = refused
			if notAccepted(m.refusal) {
				m.outcome = notYet
			}
		}
		return nil
	}
	var response sdk.SignatureResponse
	err := proto.Unmarshal(a.Bytes, &response)
	if err == nil {
		var signature *bls.Signature
		if signature, err = bls.ParseUnchecked(response.Signature); err == nil {
			m.outcome = signed
			return signature
		}
	}
	m.outcome = invalid
	return nil
}

// finish sets the outcomes of the nodes that have not answered, and the reasons of those that
// have not signed. The round must be over.
func (r *runner) finish(o *round) {
	for i := range o.members {
		m := &o.members[i]
		if m.outcome == unanswered {
			m.outcome = timedOut
		}
		switch m.outcome {
		case timedOut:
			m.reason, m.detail = r.silence(m.nodeID)
		case invalid:
			m.reason = aggregator.ReasonInvalidSignature
		case notYet:
			m.reason = aggregator.ReasonNotAccepted
		case refused:
			m.reason, m.detail = aggregator.ReasonRefused, fmt.Sprintf("%s (code %d)", printable(m.refusal.Message), m.refusal.Code)
		case lost:
			m.reason, m.detail = aggregator.ReasonNotConnected, p2p.ErrDisconnected.Error()
		}
	}
}

// silence returns why a node did not answer. Nodes drop requests for chains that they do not
// run.
func (r *runner) silence(nodeID ids.NodeID) (aggregator.Reason, string) {
	if tracks, known := r.Transport.Tracks(nodeID, r.SourceSubnetID); !known || tracks {
		return aggregator.ReasonNoAnswer, ""
	}
	if r.SourceSubnetID != constants.PrimaryNetworkID && r.SourceSubnetID != r.SubnetID {
		return aggregator.ReasonWrongSigningSubnet, fmt.Sprintf("the subnet of the chain is %s", r.SourceSubnetID)
	}
	return aggregator.ReasonNotTracked, fmt.Sprintf("subnet %s", r.SourceSubnetID)
}
