// Package simnet is a simulated Avalanche network in one process, for tests, demonstrations
// and benchmarks. Its validators are real endpoints of the peer-to-peer protocol on
// loopback (TLS, handshake, ACP-118 with real BLS signatures), and it serves the node API
// over HTTP. A seed determines all of it. Tests with real nodes decide what is correct;
// simnet adds scale, faults and speed.
package simnet

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/message"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/compression"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	proposerblock "github.com/ava-labs/avalanchego/vms/proposervm/block"

	"quorate/internal/simnet/evmchain"
	"quorate/internal/simnet/history"
)

// Network is a running simulated network. It is safe for concurrent use.
type Network struct {
	options    Options
	log        *slog.Logger
	validators []*Validator
	liars      []int // validators with the behaviour WrongSignature at the start, by index
	keys       progression
	messages   message.Creator
	chains     map[ids.ID]ids.ID // subnet of each blockchain
	chain      ids.ID            // an EVM chain of the primary network
	l1, l1Main ids.ID            // the L1 and its chain; zero if there is none
	api        *http.Server
	apiURL     string
	apiFault   atomic.Pointer[APIFault]
	running    sync.WaitGroup
	requests   atomic.Uint64
	repeated   atomic.Uint64
	calls      atomic.Uint64

	past   *history.Node // nil without a history
	xChain ids.ID        // with a history
	evm    []*evmchain.Node
	cChain *evmchain.Node     // the one of evm that is the C-Chain, nil if none is
	cancel context.CancelFunc // stops chains that grow by themselves

	mu     sync.Mutex
	states []dated              // guarded by mu; by height, the first one from height 1 on
	blocks []block.Block        // guarded by mu; P-Chain blocks requested so far, without a history
	signed map[ids.ID]*signing  // guarded by mu; of recent messages
	recent []ids.ID             // guarded by mu; keys of signed, oldest first
	clock  clock                // guarded by mu
	tips   map[ids.ID]*chainTip // guarded by mu, by blockchain; without an entry, that of the clock
}

// state is the validators of each subnet at a P-Chain height.
type state map[ids.ID]map[ids.NodeID]Member

// dated is a state with the first P-Chain height at which it holds.
type dated struct {
	from uint64
	state
}

// Member is a validator of a subnet at some height.
type Member struct {
	Validator *Validator // nil if it has no key
	Weight    uint64
	// Balance of an L1 validator, in nAVAX.
	Balance uint64

	nonce uint64 // lowest nonce of the next change of the weight
}

const (
	// recentMessages is how many messages a validator remembers as requested.
	recentMessages = 4096
	// RecentSignings is how many messages' signatures are cached, about 120 bytes a
	// validator each.
	RecentSignings = 256
)

// Start starts a network. Close ends it.
func Start(o Options) (*Network, error) {
	if o.Validators == 0 {
		o.Validators = 5
	}
	if o.NetworkID == 0 {
		o.NetworkID = DefaultNetworkID
	}
	n := &Network{
		options: o,
		log:     o.Log,
		keys:    newProgression(o.Seed),
		chain:   draw(o.Seed, "chain", 0),
		chains:  make(map[ids.ID]ids.ID),
		signed:  make(map[ids.ID]*signing),
		tips:    make(map[ids.ID]*chainTip),
	}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	var err error
	if n.messages, err = message.NewCreator(prometheus.NewRegistry(), compression.TypeNone, constants.DefaultNetworkMaximumInboundTimeout); err != nil {
		return nil, fmt.Errorf("making the message codec: %w", err)
	}
	genesis, err := n.populate()
	if err != nil {
		n.Close()
		return nil, err
	}
	n.states = []dated{{from: 1, state: genesis}}
	n.clock = newClock(n.options, 1)
	if err := n.open(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// populate creates the validators and returns their weights at genesis.
func (n *Network) populate() (state, error) {
	o := n.options
	n.chains[n.chain] = constants.PrimaryNetworkID
	primary := make(map[ids.NodeID]Member, o.Validators)
	genesis := state{constants.PrimaryNetworkID: primary}
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	ranks := rng.Perm(o.Validators)
	behaviours := deal(rng, o.Validators, o.Faults)
	for i := range o.Validators {
		v, err := newValidator(n, i, behaviours[i])
		if err != nil {
			return nil, err
		}
		n.validators = append(n.validators, v)
		if v.behaviour == WrongSignature {
			n.liars = append(n.liars, i)
		}
		weight := o.Weights.of(ranks[i])
		if len(o.ExplicitWeights) > 0 {
			weight = o.ExplicitWeights[i]
		}
		primary[v.NodeID] = Member{Validator: v, Weight: weight}
	}
	if o.Keyless > 0 {
		keyless := draw(o.Seed, "keyless", 0)
		primary[ids.NodeID(keyless[:ids.NodeIDLen])] = Member{Weight: o.Keyless}
	}
	if o.L1Validators > 0 {
		n.l1, n.l1Main = draw(o.Seed, "subnet", 0), draw(o.Seed, "chain", 1)
		n.chains[n.l1Main] = n.l1
		members := make(map[ids.NodeID]Member)
		for _, v := range n.validators[:min(o.L1Validators, o.Validators)] {
			members[v.NodeID] = Member{Validator: v, Weight: 100, Balance: 1_000_000_000}
		}
		genesis[n.l1] = members
	}
	return genesis, nil
}

// open starts the chains, the validators that are online, and the API of the node.
func (n *Network) open() error {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	if n.options.History != nil {
		if err := n.remember(ctx, *n.options.History); err != nil {
			return err
		}
	}
	for _, c := range n.options.EVM {
		if err := n.addEVM(ctx, c); err != nil {
			return err
		}
	}
	for _, v := range n.validators {
		if v.behaviour != Offline {
			if err := v.Start(); err != nil {
				return err
			}
		}
	}
	return n.serveAPI()
}

// deal chooses the faulty validators, in exactly the given fractions.
func deal(rng *rand.Rand, n int, f Faults) []Behaviour {
	dealt := make([]Behaviour, 0, n)
	for _, fault := range []struct {
		share     float64
		behaviour Behaviour
	}{{f.Offline, Offline}, {f.Refusing, Refusing}, {f.Silent, Silent}, {f.WrongSignature, WrongSignature}, {f.Malformed, Malformed}} {
		for range int(math.Round(fault.share * float64(n))) {
			dealt = append(dealt, fault.behaviour)
		}
	}
	dealt = append(dealt, make([]Behaviour, max(n-len(dealt), 0))...)[:n]
	rng.Shuffle(n, func(i, j int) { dealt[i], dealt[j] = dealt[j], dealt[i] })
	return dealt
}

// Close ends the network and waits for all its goroutines.
func (n *Network) Close() {
	if n.api != nil {
		_ = n.api.Close()
	}
	if n.cancel != nil {
		n.cancel()
	}
	for _, v := range n.validators {
		v.Stop()
	}
	n.running.Wait()
	if n.past != nil {
		if err := n.past.Close(); err != nil {
			n.log.Warn("giving up the history", slog.Any("error", err))
		}
	}
	for _, node := range n.evm {
		if err := node.Close(); err != nil {
			n.log.Warn("giving up an EVM chain", slog.Any("error", err))
		}
	}
}

// NodeURL returns the base URL of the node API.
func (n *Network) NodeURL() string { return n.apiURL }

// NetworkID returns the ID in the network's messages.
func (n *Network) NetworkID() uint32 { return n.options.NetworkID }

// Blockchain returns an EVM chain that the primary network validates.
func (n *Network) Blockchain() ids.ID { return n.chain }

// L1 returns the L1's subnet and blockchain; both are zero if there is none.
func (n *Network) L1() (subnetID, blockchainID ids.ID) { return n.l1, n.l1Main }

// Validators returns the validators in the order of their creation.
func (n *Network) Validators() []*Validator { return n.validators }

// Message returns an unsigned message as a contract on Blockchain would send it.
func (n *Network) Message(content []byte) *warp.UnsignedMessage {
	return n.MessageFrom(n.chain, content)
}

// MessageFrom returns an unsigned message of another source blockchain.
func (n *Network) MessageFrom(chainID ids.ID, content []byte) *warp.UnsignedMessage {
	call, err := payload.NewAddressedCall(make([]byte, 20), content)
	if err != nil {
		panic(fmt.Sprintf("simnet: content of %d bytes: %v", len(content), err))
	}
	m, err := warp.NewUnsignedMessage(n.options.NetworkID, chainID, call.Bytes())
	if err != nil {
		panic(fmt.Sprintf("simnet: %v", err))
	}
	return m
}

// Height returns the height of the P-Chain.
func (n *Network) Height() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.height()
}

// height is Height for callers that hold mu.
func (n *Network) height() uint64 {
	if n.past != nil {
		return n.past.Height(history.P)
	}
	return n.states[len(n.states)-1].from
}

// ProposedHeight returns the P-Chain height that the node proposes.
func (n *Network) ProposedHeight() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.clock.proposed(time.Now())
}

// tip returns the last block of a blockchain. The caller holds mu.
func (n *Network) tip(chainID ids.ID) *chainTip {
	t := n.tips[chainID]
	if t == nil {
		first := n.clock.first
		t = &first
		n.tips[chainID] = t
	}
	return t
}

// madeBlock notes that a blockchain has a new block. The caller holds mu.
func (n *Network) madeBlock(chainID ids.ID, now time.Time) {
	n.tip(chainID).accept(n.options.upgrades(), now, n.clock.proposed(now))
}

// epoch returns the epoch of a blockchain's next block. A blockchain whose blocks simnet does not make counts as having made
// one just now.
func (n *Network) epoch(chainID ids.ID) proposerblock.Epoch {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	made := chainID == constants.PlatformChainID || n.past != nil && (chainID == n.chain || chainID == n.xChain) ||
		slices.ContainsFunc(n.evm, func(node *evmchain.Node) bool { return node.Generator().BlockchainID() == chainID })
	if !made {
		n.madeBlock(chainID, now)
	}
	return n.tip(chainID).next(n.options.upgrades(), now)
}

// upgrades returns the network's upgrades.
func (o Options) upgrades() upgrade.Config {
	c := upgrade.GetConfig(o.NetworkID)
	if o.EpochDuration > 0 {
		c.GraniteEpochDuration = o.EpochDuration
	}
	return c
}

// stateAt returns the state at a height. The caller holds mu.
func (n *Network) stateAt(height uint64) state {
	for _, s := range slices.Backward(n.states) {
		if s.from <= height {
			return s.state
		}
	}
	return n.states[0].state
}

// Advance adds a P-Chain block. change may alter the members of a subnet in a copy for the
// new height. With a history, which adds blocks by itself, the change comes with the next
// block.
func (n *Network) Advance(subnetID ids.ID, change func(members map[ids.NodeID]Member)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	from := n.height() + 1
	next := make(state)
	for id, members := range n.states[len(n.states)-1].state {
		next[id] = maps.Clone(members)
	}
	if change != nil {
		before := maps.Clone(next[subnetID])
		change(next[subnetID])
		for nodeID, m := range next[subnetID] {
			old, ok := before[nodeID]
			if m.nonce = old.nonce; ok && m.Weight != old.Weight {
				m.nonce++
			}
			next[subnetID][nodeID] = m
		}
	}
	n.states = append(n.states, dated{from: from, state: next})
	if n.past == nil {
		now := time.Now()
		n.clock.accept(from, now)
		n.madeBlock(constants.PlatformChainID, now)
	}
}

// Set returns the canonical validator set of a subnet at a height.
func (n *Network) Set(subnetID ids.ID, height uint64) snow.WarpSet {
	n.mu.Lock()
	defer n.mu.Unlock()
	flat, err := snow.FlattenValidatorSet(n.outputs(n.stateAt(height)[subnetID]))
	if err != nil {
		panic(fmt.Sprintf("simnet: %v", err))
	}
	return flat
}

func (n *Network) outputs(members map[ids.NodeID]Member) map[ids.NodeID]*snow.GetValidatorOutput {
	outputs := make(map[ids.NodeID]*snow.GetValidatorOutput, len(members))
	for nodeID, m := range members {
		o := &snow.GetValidatorOutput{NodeID: nodeID, Weight: m.Weight}
		if m.Validator != nil {
			o.PublicKey = m.Validator.signer.PublicKey()
		}
		outputs[nodeID] = o
	}
	return outputs
}

// Requests counts received signature requests, Repeated those for a message that the same
// validator had been asked for before.
func (n *Network) Requests() uint64 { return n.requests.Load() }

// Repeated counts repeated requests; see Requests.
func (n *Network) Repeated() uint64 { return n.repeated.Load() }

// Calls counts HTTP requests to the node API; a batch counts once.
func (n *Network) Calls() uint64 { return n.calls.Load() }

// signing is the signatures of all validators on one message, made on first use.
type signing struct {
	once       sync.Once
	signatures [][]byte // compressed, by validator
}

// signature returns validator i's signature on a message.
func (n *Network) signature(m *warp.UnsignedMessage, i int) []byte {
	return n.sign(m).signatures[n.options.key(i)]
}

// Prepare makes the signatures of all validators on a message ahead of requests, so that a
// benchmark measures only the requester. The newest RecentSignings messages are cached.
func (n *Network) Prepare(m *warp.UnsignedMessage) { n.sign(m) }

func (n *Network) sign(m *warp.UnsignedMessage) *signing {
	id := m.ID()
	n.mu.Lock()
	s, ok := n.signed[id]
	if !ok {
		s = new(signing)
		if len(n.recent) >= RecentSignings {
			delete(n.signed, n.recent[0])
			n.recent = n.recent[1:]
		}
		n.signed[id] = s
		n.recent = append(n.recent, id)
	}
	n.mu.Unlock()
	s.once.Do(func() { s.signatures = n.keys.sign(m.Bytes(), len(n.validators)) })
	return s
}

// AnswerTime returns how long validator i takes to answer for a message.
func (n *Network) AnswerTime(i int, messageID ids.ID) time.Duration {
	return n.options.AnswerTime(i, messageID)
}

// AnswerTime returns how long validator i of a network with these options takes to answer
// for a message. It depends only on its arguments.
func (o Options) AnswerTime(i int, messageID ids.ID) time.Duration {
	l := o.Latency
	if l.Median <= 0 {
		return 0
	}
	const z99 = 2.3263478740408408
	sigma := math.Log(float64(l.P99)/float64(l.Median)) / z99
	own := normal(draw(o.Seed, "distance", uint64(i)))
	each := normal(draw(o.Seed^binary.BigEndian.Uint64(messageID[:]), "answer", uint64(i)))
	x := sigma * (math.Sqrt(l.Persistent)*own + math.Sqrt(1-l.Persistent)*each)
	return time.Duration(float64(l.Median) * math.Exp(x))
}

// normal derives a standard normal number from random bytes (Box and Muller).
func normal(b [32]byte) float64 {
	u := (float64(binary.BigEndian.Uint64(b[:])>>11) + 0.5) / (1 << 53)
	v := (float64(binary.BigEndian.Uint64(b[8:])>>11) + 0.5) / (1 << 53)
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}

// Floor returns when the fastest possible quorum of the newest primary set has answered for
// a message if all honest validators are asked at once. It returns false if they do not
// form a quorum.
func (n *Network) Floor(messageID ids.ID, quorum uint64) (time.Duration, bool) {
	n.mu.Lock()
	members := n.states[len(n.states)-1].state[constants.PrimaryNetworkID]
	n.mu.Unlock()
	type share struct {
		at     time.Duration
		weight uint64
	}
	var shares []share
	var total float64
	for _, m := range members {
		total += float64(m.Weight)
		if m.Validator != nil && m.Validator.Behaviour() == Honest {
			shares = append(shares, share{at: n.AnswerTime(m.Validator.Index, messageID), weight: m.Weight})
		}
	}
	slices.SortFunc(shares, func(a, b share) int { return cmp.Compare(a.at, b.at) })
	var sum float64
	for _, s := range shares {
		sum += float64(s.weight)
		if sum*100 >= total*float64(quorum) {
			return s.at, true
		}
	}
	return 0, false
}

// APIFault makes the node API misbehave.
type APIFault struct {
	// Delay is added before every response.
	Delay time.Duration
	// Status, if not 0, is returned instead, with an empty body.
	Status int
	// Garbage, if not empty, is returned instead.
	Garbage string
}

// SetAPIFault changes the node API's behaviour; nil ends the fault.
func (n *Network) SetAPIFault(f *APIFault) { n.apiFault.Store(f) }

func (n *Network) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
