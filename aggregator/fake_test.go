package aggregator

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/p2p"
	"quorate/validators"
)

const testNetworkID = 54321

var testChain = ids.ID{'c', 'h', 'a', 'i', 'n'}

// behave is what one fake validator does with a signature request: it returns
// the answer and how long it takes; ok is false if it never answers.
type behave func(v *fakeValidator, message *warp.UnsignedMessage) (answer []byte, err error, after time.Duration, ok bool)

// fakeValidator holds real keys, so that everything it signs is real.
type fakeValidator struct {
	nodeIDs  []ids.NodeID
	signer   *localsigner.LocalSigner
	weight   uint64
	offline  bool
	do       behave
	requests int
	// takeOver, if set, answers in place of do through deliver: when, as often
	// and in whose name it likes. It may deliver before it returns.
	takeOver func(nodeID ids.NodeID, m *warp.UnsignedMessage, deliver func(p2p.Answer))
}

// fakeNetwork is a Transport and a Sets over a handful of validators. Time is
// that of the caller, usually of a synctest bubble.
type fakeNetwork struct {
	mu         sync.Mutex
	validators []*fakeValidator
	keyless    uint64
	subnetID   ids.ID
	height     uint64
	epoch      uint64
	avoid      map[int]struct{}
	down       []ids.NodeID // nodes without a connection, of validators that have others
	onConnect  map[int]func(ids.NodeID)
	nextHook   int
	requests   int
	late       int // requests in a row whose context had ended
	asked      []question
	sets       func(height uint64) (*validators.Set, error)
	setsOf     []ids.ID          // subnets whose set was asked for, in order
	owners     map[ids.ID]ids.ID // subnet of each blockchain; nil: the primary network
	failures   map[ids.NodeID]p2p.Failure
	tracked    map[ids.NodeID][]ids.ID // nil: every node tracks every subnet
	incapable  validators.Incapable
}

// question is one request as it reached a validator.
type question struct {
	nodeID           ids.NodeID
	chainID, message ids.ID
	at               time.Time
}

func newFakeNetwork(t testing.TB, weights ...uint64) *fakeNetwork {
	n := &fakeNetwork{height: 10, onConnect: make(map[int]func(ids.NodeID))}
	for i, w := range weights {
		signer, err := localsigner.New()
		require.NoError(t, err)
		n.validators = append(n.validators, &fakeValidator{
			nodeIDs: []ids.NodeID{{byte(i >> 8), byte(i), 1}},
			signer:  signer,
			weight:  w,
			do:      honest(10 * time.Millisecond),
		})
	}
	return n
}

func (n *fakeNetwork) set() *validators.Set {
	output := make(map[ids.NodeID]*snow.GetValidatorOutput)
	for _, v := range n.validators {
		for _, nodeID := range v.nodeIDs {
			output[nodeID] = &snow.GetValidatorOutput{NodeID: nodeID, PublicKey: v.signer.PublicKey(), Weight: v.weight / uint64(len(v.nodeIDs))}
		}
	}
	if n.keyless > 0 {
		output[ids.NodeID{255}] = &snow.GetValidatorOutput{NodeID: ids.NodeID{255}, Weight: n.keyless}
	}
	flat, err := snow.FlattenValidatorSet(output)
	if err != nil {
		panic(err)
	}
	for _, v := range flat.Validators { // the library leaves their order to chance
		slices.SortFunc(v.NodeIDs, ids.NodeID.Compare)
	}
	return validators.NewSet(n.subnetID, n.height, flat)
}

func (n *fakeNetwork) Set(_ context.Context, subnetID ids.ID, height uint64) (*validators.Set, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setsOf = append(n.setsOf, subnetID)
	if n.sets != nil {
		return n.sets(height)
	}
	return n.set(), nil
}

func (n *fakeNetwork) SubnetOf(_ context.Context, chainID ids.ID) (ids.ID, error) {
	if n.owners == nil {
		return constants.PrimaryNetworkID, nil
	}
	owner, ok := n.owners[chainID]
	if !ok {
		return ids.Empty, validators.ErrUnknownBlockchain
	}
	return owner, nil
}

func (n *fakeNetwork) EpochSet(ctx context.Context, subnetID, _ ids.ID) (*validators.Set, error) {
	n.mu.Lock()
	epoch := n.epoch
	n.mu.Unlock()
	return n.Set(ctx, subnetID, epoch)
}

func (n *fakeNetwork) Underfunded(context.Context, *validators.Set) (map[int]struct{}, error) {
	return n.avoid, nil
}

func (n *fakeNetwork) Incapable(context.Context, *validators.Set) (validators.Incapable, error) {
	return n.incapable, nil
}

func (n *fakeNetwork) Failure(nodeID ids.NodeID) p2p.Failure {
	f, ok := n.failures[nodeID]
	if !ok {
		f.Obstacle = p2p.ObstacleUntried
	}
	return f
}

func (n *fakeNetwork) Tracks(nodeID ids.NodeID, subnetID ids.ID) (tracks, known bool) {
	return n.tracked == nil || slices.Contains(n.tracked[nodeID], subnetID), n.Connected(nodeID)
}

func (n *fakeNetwork) by(nodeID ids.NodeID) *fakeValidator {
	for _, v := range n.validators {
		if slices.Contains(v.nodeIDs, nodeID) {
			return v
		}
	}
	return nil
}

func (n *fakeNetwork) Connected(nodeID ids.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.by(nodeID)
	return v != nil && !v.offline && !slices.Contains(n.down, nodeID)
}

func (n *fakeNetwork) OnConnect(f func(ids.NodeID)) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := n.nextHook
	n.nextHook++
	n.onConnect[id] = f
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.onConnect, id)
	}
}

// connect brings validator i back.
func (n *fakeNetwork) connect(i int) {
	n.mu.Lock()
	v := n.validators[i]
	v.offline = false
	n.mu.Unlock()
	n.announce(v.nodeIDs...)
}

// announce tells rounds of new connections.
func (n *fakeNetwork) announce(nodeIDs ...ids.NodeID) {
	n.mu.Lock()
	hooks := slices.Collect(maps.Values(n.onConnect))
	n.mu.Unlock()
	for _, f := range hooks {
		for _, nodeID := range nodeIDs {
			f(nodeID)
		}
	}
}

func (n *fakeNetwork) Request(ctx context.Context, chainID ids.ID, nodes []ids.NodeID, request []byte, onAnswer func(p2p.Answer)) (sent []ids.NodeID) {
	var r sdk.SignatureRequest
	if err := proto.Unmarshal(request[1:], &r); err != nil {
		panic(err)
	}
	message, err := warp.ParseUnsignedMessage(r.Message)
	if err != nil {
		panic(err)
	}
	if chainID != message.SourceChainID {
		panic("asked the wrong chain")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if ctx.Err() != nil {
		if n.late++; n.late > 10_000 { // otherwise a round that ignores its context hangs the test
			panic("requests go on after their context ended")
		}
		return nil
	}
	n.late = 0
	for _, nodeID := range nodes {
		v := n.by(nodeID)
		if v == nil || v.offline || slices.Contains(n.down, nodeID) {
			continue
		}
		n.requests++
		v.requests++
		n.asked = append(n.asked, question{nodeID: nodeID, chainID: chainID, message: message.ID(), at: time.Now()})
		sent = append(sent, nodeID)
		if v.takeOver != nil {
			v.takeOver(nodeID, message, onAnswer)
			continue
		}
		answer, err, after, ok := v.do(v, message)
		if !ok {
			continue
		}
		time.AfterFunc(after, func() {
			if ctx.Err() == nil {
				onAnswer(p2p.Answer{NodeID: nodeID, Bytes: answer, Err: err, Elapsed: after})
			}
		})
	}
	return sent
}

func sign(v *fakeValidator, b []byte) []byte {
	s, err := v.signer.Sign(b)
	if err != nil {
		panic(err)
	}
	return bls.SignatureToBytes(s)
}

func respond(signature []byte) []byte {
	b, err := proto.Marshal(&sdk.SignatureResponse{Signature: signature})
	if err != nil {
		panic(err)
	}
	return b
}

func honest(after time.Duration) behave {
	return func(v *fakeValidator, m *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		return respond(sign(v, m.Bytes())), nil, after, true
	}
}

func mute(*fakeValidator, *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
	return nil, nil, 0, false
}

func refuse(code int32, text string, after time.Duration) behave {
	return func(*fakeValidator, *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		return nil, &common.AppError{Code: code, Message: text}, after, true
	}
}

func answer(b []byte) behave {
	return func(*fakeValidator, *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
		return b, nil, 10 * time.Millisecond, true
	}
}

// forge signs another message.
func forge(v *fakeValidator, _ *warp.UnsignedMessage) ([]byte, error, time.Duration, bool) {
	return respond(sign(v, []byte("another message"))), nil, 10 * time.Millisecond, true
}

func testMessage(t testing.TB, text string) *warp.UnsignedMessage {
	return testMessageFrom(t, testNetworkID, testChain, text)
}

func testMessageFrom(t testing.TB, networkID uint32, chainID ids.ID, text string) *warp.UnsignedMessage {
	call, err := payload.NewAddressedCall([]byte{1}, []byte(text))
	require.NoError(t, err)
	m, err := warp.NewUnsignedMessage(networkID, chainID, call.Bytes())
	require.NoError(t, err)
	return m
}

func newTestAggregator(t testing.TB, n *fakeNetwork) *Aggregator {
	a, err := New(Options{Transport: n, Sets: n, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	return a
}

// requireValid checks a result as a verifying chain would.
func requireValid(t testing.TB, n *fakeNetwork, r *Result, quorum uint64) {
	t.Helper()
	signature, ok := r.Message.Signature.(*warp.BitSetSignature)
	require.True(t, ok)
	require.NoError(t, signature.Verify(&r.Message.UnsignedMessage, testNetworkID, n.set().WarpSet, quorum, 100))
	requireAddsUp(t, r.Account)
}

func requireAddsUp(t testing.TB, a Account) {
	t.Helper()
	require.Equal(t, a.TotalWeight, a.SignedWeight+a.UnprovenWeight+a.RefusedWeight+a.InvalidWeight+a.SilentWeight+a.UnansweredWeight+a.UnaskedWeight+a.DisconnectedWeight+a.KeylessWeight, "account must add up: %+v", a)
}

func requireFailure(t testing.TB, err error, code Code) *Error {
	t.Helper()
	var failed *Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, code, failed.Code, "%v", err)
	if a := failed.Account; a != nil {
		requireAddsUp(t, *a)
		missing := a.SignedWeight + a.UnprovenWeight
		for _, s := range a.Reasons {
			missing += s.Weight
			require.NotEmpty(t, s.Remedy)
		}
		require.Equal(t, a.TotalWeight, missing, "the reasons add up: %+v", a)
	}
	return failed
}

func randomWeights(rng *rand.Rand, n int) []uint64 {
	weights := make([]uint64, n)
	for i := range weights {
		weights[i] = 1 + rng.Uint64N(1000)
	}
	return weights
}

// settle waits, in simulated time, until what rounds have left is verified.
func settle() {
	synctest.Wait()
	time.Sleep(idleTime + time.Millisecond)
	synctest.Wait()
}
