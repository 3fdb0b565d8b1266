// Package history generates the history of a network: blocks of the P-Chain, the X-Chain and the C-Chain (atomic
// transactions only) in avalanchego's encoding and in proposer envelopes, with all past and present kinds of blocks and
// transactions. It serves tests, demonstrations and benchmarks of block readers, from a few transactions to millions.
//
// Transactions spend existing outputs exactly once, and amounts balance: inputs equal outputs plus burned fees. Rewards
// are computed like a node's, and envelopes have valid signatures. A node would reject three things: credentials are
// random bytes; the order of old P-Chain block kinds and of auto-renewed validators ignores the network's upgrade
// times; and the manager of an L1 is not a contract.
package history

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	avagenesis "github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	avmblock "github.com/ava-labs/avalanchego/vms/avm/block"
	"github.com/ava-labs/avalanchego/vms/avm/fxs"
	"github.com/ava-labs/avalanchego/vms/nftfx"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/propertyfx"
	"github.com/ava-labs/avalanchego/vms/secp256k1fx"
)

// Chain is one of the three chains.
type Chain uint8

// The chains of the primary network.
const (
	P Chain = iota
	X
	C
	chains // number of chains
)

func (c Chain) String() string { return [...]string{"P", "X", "C"}[c] }

// Options configures a Generator. The zero value generates a small history.
type Options struct {
	// Seed determines the history: equal options generate equal bytes.
	Seed uint64
	// NetworkID is the ID in all transactions; 0 selects 54321.
	NetworkID uint32
	// Genesis is the genesis of the network. Nil selects avalanchego's genesis for the NetworkID, whose start time
	// avalanchego moves forward from time to time.
	Genesis *avagenesis.Config
	// Txs is the approximate number of transactions to which Span, Addresses and BusyEvents refer. A Generator can
	// generate more. Default 2,000.
	Txs int
	// Span is the time over which Txs are spread. Default 180 days.
	Span time.Duration
	// Addresses is the number of addresses with outputs. By Zipf's law a few of them own most. Default Txs/20, at least
	// 64, at most 100,000.
	Addresses int
	// BusyEvents is the number of P-Chain balance changes of one additional address, at most about Txs. See
	// Generator.Busy.
	BusyEvents int
	// EarlyTxs is the approximate number of transactions that the X-Chain accepts in vertices before it has blocks, at
	// most Txs/5. With 0 it has blocks from the beginning.
	EarlyTxs int
	// Record keeps the Truth in memory, about 500 bytes per transaction.
	Record bool
}

func (o Options) withDefaults() Options {
	if o.NetworkID == 0 {
		o.NetworkID = 54321
	}
	if o.Genesis == nil {
		o.Genesis = avagenesis.GetConfig(o.NetworkID)
	}
	if o.Txs <= 0 {
		o.Txs = 2000
	}
	if o.Span <= 0 {
		o.Span = 180 * 24 * time.Hour
	}
	if o.Addresses <= 0 {
		o.Addresses = min(max(o.Txs/20, 64), 100_000)
	}
	return o
}

// Block is an accepted block.
type Block struct {
	Chain        Chain
	Height       uint64
	ID, ParentID ids.ID
	// Time is the chain's time from this block on, with a resolution of one second.
	Time time.Time
	// Bytes is the block without its envelope.
	Bytes []byte
	// Container is the envelope, or the block itself if it has none. ContainerID is its ID. The Sealer sets both,
	// except for the block at height 0.
	ContainerID ids.ID
	Container   []byte
	// Txs are the transactions, including proposals.
	Txs []Tx
	// Early marks a batch of transactions that the X-Chain accepted before it had blocks, in order of acceptance, with
	// the Vertices that contain them. The last batch has no Txs; the first block follows it.
	Early    bool
	Vertices []Vertex
	// Rewarded are the reward outputs that a node lists from this block on.
	Rewarded []Reward
	// Began are stakes that begin with this block. Ended are the transactions of stakes that end.
	Began []Stake
	Ended []ids.ID
	// L1 are the transactions that convert subnets and change the validators of L1s.
	L1 []txs.UnsignedTx

	envelope envelopeKind
}

// Tx is a transaction of a block.
type Tx struct {
	ID    ids.ID
	Bytes []byte
}

// Reward is the result of platform.getRewardUTXOs for a transaction.
type Reward struct {
	TxID  ids.ID
	UTXOs [][]byte
}

// Stake is the entry of a primary network validation or delegation in platform.getCurrentValidators.
type Stake struct {
	TxID       ids.ID
	NodeID     ids.NodeID
	Delegator  bool
	Start, End time.Time
	// Weight and PotentialReward are in nAVAX.
	Weight, PotentialReward uint64
}

// Generator generates a history block by block. Its memory does not grow with the history unless Options.Record is set:
// outputs that exceed a wallet's room are never spent. It is not safe for concurrent use.
type Generator struct {
	o       Options
	rng     *rand.Rand
	zipf    *rand.Zipf
	network network
	genesis []Tx // P-Chain genesis transactions
	xParser avmblock.Parser
	truth   *Truth

	// clock is a Unix time. end is the time at which Txs should be reached. gap is the mean time between two rounds.
	clock, end, gap float64
	isPresent       bool
	tips            [chains]tip
	queue           []*Block // generated blocks in order
	txs             int

	purse  purse
	stakes stakes
	l1s    l1s
	assets []asset // assets[0] is AVAX
	onX    xState
	evm    evmState
	legacy legacy
	early  early

	busyMade, busySpent uint64 // last heights at which the busy address was counted
	busyEvents          int
}

// network holds the IDs that transactions name.
type network struct {
	id       uint32
	chainIDs [chains]ids.ID
}

// tip is the last block of a chain.
type tip struct {
	height uint64
	id     ids.ID
	time   int64
}

// New returns a generator and generates the genesis.
func New(o Options) (*Generator, error) {
	o = o.withDefaults()
	if o.Txs > 1<<30 || o.Addresses > 1<<24 {
		return nil, fmt.Errorf("history of %d transactions and %d addresses is too large", o.Txs, o.Addresses)
	}
	if o.BusyEvents < 0 || o.BusyEvents > o.Txs {
		return nil, fmt.Errorf("%d busy events exceed the %d transactions", o.BusyEvents, o.Txs)
	}
	if o.EarlyTxs < 0 || o.EarlyTxs > o.Txs/5 {
		return nil, fmt.Errorf("%d of %d transactions in vertices; at most a fifth is possible", o.EarlyTxs, o.Txs)
	}
	g := &Generator{
		o:     o,
		rng:   rand.New(rand.NewPCG(o.Seed, 0x686973746f7279)),
		clock: float64(o.Genesis.StartTime),
	}
	g.end = g.clock + o.Span.Seconds()
	g.zipf = rand.NewZipf(g.rng, 1.1, 8, uint64(o.Addresses-1))
	g.network.id = o.NetworkID
	g.early = early{left: o.EarlyTxs, over: o.EarlyTxs == 0, edge: make(map[ids.ID]bool)}
	if o.Record {
		g.truth = newTruth()
	}
	var err error
	if g.xParser, err = avmblock.NewParser([]fxs.Fx{&secp256k1fx.Fx{}, &nftfx.Fx{}, &propertyfx.Fx{}}); err != nil {
		return nil, fmt.Errorf("creating the X-Chain: %w", err)
	}
	if g.evm, err = newEVMState(); err != nil {
		return nil, fmt.Errorf("creating the C-Chain: %w", err)
	}
	if err := g.stakes.init(o.Seed); err != nil {
		return nil, err
	}
	if err := g.begin(); err != nil {
		return nil, fmt.Errorf("generating the genesis: %w", err)
	}
	g.legacy.left = min(max(o.Txs/100, 40), 1000)
	return g, nil
}

// NetworkID returns the network ID of all transactions.
func (g *Generator) NetworkID() uint32 { return g.network.id }

// ChainID returns the ID of a chain.
func (g *Generator) ChainID(c Chain) ids.ID { return g.network.chainIDs[c] }

// AVAXAssetID returns the asset of fees and stakes.
func (g *Generator) AVAXAssetID() ids.ID { return g.assets[avax0].id }

// Genesis returns the P-Chain's genesis transactions, which no block contains.
func (g *Generator) Genesis() []Tx { return g.genesis }

// Addresses returns the addresses that may have outputs, busiest first.
func (g *Generator) Addresses() []ids.ShortID {
	all := make([]ids.ShortID, g.o.Addresses)
	for i := range all {
		all[i] = g.purse.parties[g.purse.first+i].addresses[0]
	}
	return all
}

// Busy returns the address whose balance changes Options.BusyEvents times, and the number of changes so far. A block
// that both creates and consumes outputs of the address counts twice.
func (g *Generator) Busy() (address ids.ShortID, events int) {
	return g.purse.parties[g.purse.busy].addresses[0], g.busyEvents
}

// Txs returns the number of generated transactions, including those of blocks that Next has not returned yet.
func (g *Generator) Txs() int { return g.txs }

// Pending returns the number of generated blocks that Next has not returned yet. Blocks are generated a few at a time.
func (g *Generator) Pending() int { return len(g.queue) }

// Sums returns the AVAX totals of all generated blocks.
func (g *Generator) Sums() Sums { return g.purse.sums }

// Truth returns all outputs of all generated blocks, or nil unless Options.Record is set. It must not be read while
// Next runs.
func (g *Generator) Truth() *Truth { return g.truth }

// errPoor means that fees have consumed the funds of all parties.
var errPoor = errors.New("no party can pay a fee")

// Next returns the next accepted block of any chain. The first three blocks are the genesis blocks; with EarlyTxs the
// X-Chain's genesis block comes later. A history has no end, but Next fails when no party can pay fees.
func (g *Generator) Next() (*Block, error) {
	for len(g.queue) == 0 {
		if err := g.round(); err != nil {
			return nil, fmt.Errorf("generating history after %d transactions: %w", g.txs, err)
		}
	}
	b := g.queue[0]
	g.queue = g.queue[1:]
	return b, nil
}

// round generates one block or a few.
func (g *Generator) round() error {
	g.pass()
	now := int64(g.clock)
	if g.legacy.left > 0 {
		if g.chance(0.8) {
			return g.legacyRound(now)
		}
	} else if err := g.settleUntil(now); err != nil {
		return err
	}
	onP := max(0.55, min(1.4*g.busyShare(), 0.9))
	switch n := g.rng.Float64(); {
	case n < onP:
		if g.legacy.left > 0 {
			return nil
		}
		return g.standard(now)
	case n < onP+0.89*(1-onP):
		return g.xBlock(now)
	default:
		return g.cBlock(now)
	}
}

// pass advances the clock before a round, so that Txs take Options.Span.
func (g *Generator) pass() {
	if left := g.o.Txs - g.txs; left > 0 && !g.isPresent {
		// A round generates about 1.4 transactions, including rewards.
		g.gap = 1.4 * (g.end - g.clock) / float64(left+1)
		g.clock = min(g.clock+g.rng.ExpFloat64()*g.gap, g.end)
		return
	}
	g.clock += g.rng.ExpFloat64() * g.gap
}

// present moves the clock to the present. Later blocks have the time of their generation.
func (g *Generator) present(now time.Time) {
	g.isPresent, g.clock, g.gap = true, max(g.clock, float64(now.Unix())), 0
}

// busyShare returns the share of transactions that must involve the busy address. Most of them change its balance
// twice.
func (g *Generator) busyShare() float64 {
	left := g.o.BusyEvents - g.busyEvents
	return float64(max(left, 0)) / (1.75 * float64(max(g.o.Txs-g.txs, 1)))
}

// open starts a block on top of a chain.
func (g *Generator) open(c Chain, at int64) *Block {
	t := &g.tips[c]
	return &Block{Chain: c, Height: t.height + 1, ParentID: t.id, Time: time.Unix(max(at, t.time), 0).UTC(), envelope: g.envelopeOf(c)}
}

// accept completes a block.
func (g *Generator) accept(b *Block, id ids.ID, bytes []byte) {
	b.ID, b.Bytes = id, bytes
	g.tips[b.Chain] = tip{height: b.Height, id: id, time: b.Time.Unix()}
	g.txs += len(b.Txs)
	g.queue = append(g.queue, b)
}

func (g *Generator) chance(p float64) bool { return g.rng.Float64() < p }

// between draws a number from lo to hi, inclusive.
func (g *Generator) between(lo, hi int) int { return lo + g.rng.IntN(hi-lo+1) }

// share draws a part of an amount.
func (g *Generator) share(amount uint64, lo, hi float64) uint64 {
	return uint64(float64(amount) * (lo + (hi-lo)*g.rng.Float64()))
}

// fill fills b with random bytes.
func (g *Generator) fill(b []byte) {
	for len(b) > 0 {
		var eight [8]byte
		binary.LittleEndian.PutUint64(eight[:], g.rng.Uint64())
		b = b[copy(b, eight[:]):]
	}
}

func (g *Generator) bytes(n int) []byte {
	b := make([]byte, n)
	g.fill(b)
	return b
}

func (g *Generator) id() (id ids.ID) {
	g.fill(id[:])
	return id
}

func (g *Generator) nodeID() (id ids.NodeID) {
	g.fill(id[:])
	return id
}

// batch draws the number of transactions of a block.
func (g *Generator) batch() int {
	if g.chance(0.88) {
		return 1
	}
	return g.between(2, 4)
}

// draw derives 32 bytes from a seed, a purpose and a number.
func draw(seed uint64, purpose string, n uint64) [32]byte {
	b := binary.BigEndian.AppendUint64([]byte("history"), seed)
	b = binary.BigEndian.AppendUint64(b, n)
	return sha256.Sum256(append(b, purpose...))
}
