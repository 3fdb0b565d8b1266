// Package history makes up what a network accepted in the past: the blocks of the
// P-Chain, the X-Chain and the C-Chain (of the last, the atomic transactions), as
// avalanchego encodes them, in the envelopes in which consensus accepted them, of
// all kinds there are and ever were. It is for tests, demonstrations and
// measurements of whoever reads blocks, from a handful of transactions to millions.
//
// Transactions spend real outputs, once, and money is kept: what goes in comes out
// or is burned. Three things a node would not accept: credentials are random bytes
// and not signatures; the old kinds of P-Chain blocks stand at the beginning, and
// validators renew themselves, whatever the network's upgrade times; and an L1's manager
// is nobody's contract. Rewards are those that a node would pay.
// Envelopes are signed genuinely.
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
	chains // how many there are
)

func (c Chain) String() string { return [...]string{"P", "X", "C"}[c] }

// Options of a Generator; the zero value is a small history of some network.
type Options struct {
	// Seed decides everything: equal options make equal bytes.
	Seed uint64
	// NetworkID of all transactions; 0 means 54321.
	NetworkID uint32
	// Genesis is what the network began with; nil means what avalanchego has for the
	// NetworkID, which moves its beginning from time to time.
	Genesis *avagenesis.Config
	// Txs is about how many transactions will be made in all. A Generator goes on
	// beyond it; it is what Span, Addresses and BusyEvents refer to. Default 2,000.
	Txs int
	// Span is the time over which Txs are spread; default 180 days.
	Span time.Duration
	// Addresses is how many own something: a few of them own most, as drawn by
	// Zipf's law. Default Txs/20, at least 64, at most 100,000.
	Addresses int
	// BusyEvents is how often the P-Chain balance of one more address changes: at
	// most about once for each of Txs. See Generator.Busy.
	BusyEvents int
	// EarlyTxs is about how many transactions the X-Chain accepts in vertices, before it
	// has blocks; at most Txs/5. 0 means that it has blocks from the beginning.
	EarlyTxs int
	// Record keeps the Truth, in memory: about 500 bytes a transaction.
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
	// Time is the chain's from this block on, to the second.
	Time time.Time
	// Bytes are the block's own, without an envelope.
	Bytes []byte
	// Container is what consensus accepted, and ContainerID its ID: the envelope, or
	// the block itself from before there were envelopes. Both are made by Sealer; the
	// block at height 0 has none.
	ContainerID ids.ID
	Container   []byte
	// Txs are the transactions, proposals included.
	Txs []Tx
	// Early says that this is no block, but Txs that the X-Chain accepted before it had
	// blocks, in this order, and the Vertices that brought them. The first block comes
	// after the last of these, which has no Txs.
	Early    bool
	Vertices []Vertex
	// Rewarded are the outputs that a node reports from this block on.
	Rewarded []Reward
	// Began are stakes that begin with this block, Ended those that end, by their
	// transactions.
	Began []Stake
	Ended []ids.ID

	envelope envelopeKind
}

// Tx is a transaction of a block.
type Tx struct {
	ID    ids.ID
	Bytes []byte
}

// Reward is what platform.getRewardUTXOs says about a transaction.
type Reward struct {
	TxID  ids.ID
	UTXOs [][]byte
}

// Stake is what platform.getCurrentValidators says about a validation or delegation
// of the primary network.
type Stake struct {
	TxID       ids.ID
	NodeID     ids.NodeID
	Delegator  bool
	Start, End time.Time
	// Weight and PotentialReward are in nAVAX.
	Weight, PotentialReward uint64
}

// Generator makes a history block by block, in memory that does not grow with it
// (unless it is to Record): outputs that nobody has room for are never spent. It
// belongs to one goroutine.
type Generator struct {
	o       Options
	rng     *rand.Rand
	zipf    *rand.Zipf
	network network
	genesis []Tx // of the P-Chain
	xParser avmblock.Parser
	truth   *Truth

	// clock is in seconds since 1970, end when Txs should be made, gap the mean between
	// two rounds.
	clock, end, gap float64
	isPresent       bool
	tips            [chains]tip
	queue           []*Block // already made, in order
	txs             int

	purse  purse
	stakes stakes
	l1s    l1s
	assets []asset // the first is AVAX
	onX    xState
	evm    evmState
	legacy legacy
	early  early

	busyMade, busySpent uint64 // heights at which the busy address was counted last
	busyEvents          int
}

// network is what transactions name.
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

// New makes a generator, and with it the genesis.
func New(o Options) (*Generator, error) {
	o = o.withDefaults()
	if o.Txs > 1<<30 || o.Addresses > 1<<24 {
		return nil, fmt.Errorf("a history of %d transactions and %d addresses is too large", o.Txs, o.Addresses)
	}
	if o.BusyEvents < 0 || o.BusyEvents > o.Txs {
		return nil, fmt.Errorf("%d changes of one balance in %d transactions, at most one each is possible", o.BusyEvents, o.Txs)
	}
	if o.EarlyTxs < 0 || o.EarlyTxs > o.Txs/5 {
		return nil, fmt.Errorf("%d transactions of %d in vertices, at most a fifth is possible", o.EarlyTxs, o.Txs)
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
		return nil, fmt.Errorf("preparing the X-Chain: %w", err)
	}
	if g.evm, err = newEVMState(); err != nil {
		return nil, fmt.Errorf("preparing the C-Chain: %w", err)
	}
	if err := g.stakes.init(o.Seed); err != nil {
		return nil, err
	}
	if err := g.begin(); err != nil {
		return nil, fmt.Errorf("making the genesis: %w", err)
	}
	g.legacy.left = min(max(o.Txs/100, 40), 1000)
	return g, nil
}

// NetworkID is that of all transactions.
func (g *Generator) NetworkID() uint32 { return g.network.id }

// ChainID is the ID of a chain.
func (g *Generator) ChainID(c Chain) ids.ID { return g.network.chainIDs[c] }

// AVAXAssetID is the asset of fees and stakes.
func (g *Generator) AVAXAssetID() ids.ID { return g.assets[avax0].id }

// Genesis are the P-Chain's transactions that no block has.
func (g *Generator) Genesis() []Tx { return g.genesis }

// Addresses are those that may own something, the busiest ones first.
func (g *Generator) Addresses() []ids.ShortID {
	all := make([]ids.ShortID, g.o.Addresses)
	for i := range all {
		all[i] = g.purse.parties[g.purse.first+i].addresses[0]
	}
	return all
}

// Busy is the address whose balance changes as often as Options.BusyEvents says, and
// Events how often it did. A block counts twice if it has outputs of that address
// both made and consumed.
func (g *Generator) Busy() (address ids.ShortID, events int) {
	return g.purse.parties[g.purse.busy].addresses[0], g.busyEvents
}

// Txs is how many transactions were made, and Pending how many blocks that Next has
// not returned yet: blocks are made a few at a time.
func (g *Generator) Txs() int { return g.txs }

// Pending is explained at Txs.
func (g *Generator) Pending() int { return len(g.queue) }

// Sums are what became of all AVAX so far, in all blocks that were made.
func (g *Generator) Sums() Sums { return g.purse.sums }

// Truth is what is known of all outputs, in all blocks that were made; nil unless
// Options.Record. It must not be read while Next runs.
func (g *Generator) Truth() *Truth { return g.truth }

// errPoor says that a history has gone on for so long that nobody can pay fees.
var errPoor = errors.New("nobody has money left to pay a fee")

// Next makes the block that is accepted next, whichever chain's. The first three are
// the genesis blocks, unless the X-Chain's comes later because of EarlyTxs. There is no
// end, but an error if fees have eaten up everything.
func (g *Generator) Next() (*Block, error) {
	for len(g.queue) == 0 {
		if err := g.round(); err != nil {
			return nil, fmt.Errorf("making up history after %d transactions: %w", g.txs, err)
		}
	}
	b := g.queue[0]
	g.queue = g.queue[1:]
	return b, nil
}

// round makes a block or a few.
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

// pass lets time pass before a round, so that Txs take as long as they should.
func (g *Generator) pass() {
	if left := g.o.Txs - g.txs; left > 0 && !g.isPresent {
		// A round makes about 1.4 transactions, rewards included.
		g.gap = 1.4 * (g.end - g.clock) / float64(left+1)
		g.clock = min(g.clock+g.rng.ExpFloat64()*g.gap, g.end)
		return
	}
	g.clock += g.rng.ExpFloat64() * g.gap
}

// present ends the past: from now on blocks are of the time they are made.
func (g *Generator) present(now time.Time) {
	g.isPresent, g.clock, g.gap = true, max(g.clock, float64(now.Unix())), 0
}

// busyShare is the share of transactions that the busy address must have a part in.
// Most of them change its balance twice.
func (g *Generator) busyShare() float64 {
	left := g.o.BusyEvents - g.busyEvents
	return float64(max(left, 0)) / (1.75 * float64(max(g.o.Txs-g.txs, 1)))
}

// open begins a block on top of a chain.
func (g *Generator) open(c Chain, at int64) *Block {
	t := &g.tips[c]
	return &Block{Chain: c, Height: t.height + 1, ParentID: t.id, Time: time.Unix(max(at, t.time), 0).UTC(), envelope: g.envelopeOf(c)}
}

// accept ends a block.
func (g *Generator) accept(b *Block, id ids.ID, bytes []byte) {
	b.ID, b.Bytes = id, bytes
	g.tips[b.Chain] = tip{height: b.Height, id: id, time: b.Time.Unix()}
	g.txs += len(b.Txs)
	g.queue = append(g.queue, b)
}

func (g *Generator) chance(p float64) bool { return g.rng.Float64() < p }

// between draws from lo to hi, both possible.
func (g *Generator) between(lo, hi int) int { return lo + g.rng.IntN(hi-lo+1) }

// share draws a part of an amount.
func (g *Generator) share(amount uint64, lo, hi float64) uint64 {
	return uint64(float64(amount) * (lo + (hi-lo)*g.rng.Float64()))
}

// fill draws bytes.
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

// batch is how many transactions a block has.
func (g *Generator) batch() int {
	if g.chance(0.88) {
		return 1
	}
	return g.between(2, 4)
}

// draw makes 32 bytes of a seed, a purpose and a number.
func draw(seed uint64, purpose string, n uint64) [32]byte {
	b := binary.BigEndian.AppendUint64([]byte("history"), seed)
	b = binary.BigEndian.AppendUint64(b, n)
	return sha256.Sum256(append(b, purpose...))
}
