// Package evmchain makes up an EVM chain of Avalanche, the C-Chain or an L1's: blocks,
// receipts and call traces of all kinds of traffic that an index has to cope with,
// and what balances, tokens and contracts are at each of its blocks. A Node serves it
// as an avalanchego node does. It is for tests, demonstrations and measurements of
// whoever reads EVM chains, from a handful of transactions to millions.
//
// No code runs: transactions do what they are drawn to do, and their calls, logs and
// balances follow from that. What fits together on a real chain does so here, too:
// signatures, hashes, addresses of contracts, parent hashes, blooms, gas, and value,
// which is never made or lost but for gas, which is burnt. Three things a node would
// not accept: state and receipt roots are random, codes of contracts mean
// nothing, and gas is about what things cost, and not exactly.
package evmchain

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/crypto"

	"quorate/internal/chain/evm"
)

// Options of a Generator; the zero value is a small C-Chain of some network.
type Options struct {
	// Seed decides everything: equal options make equal bytes.
	Seed uint64
	// ChainID is that of transactions (EIP-155); 0 means 43112, the local network's.
	ChainID uint64
	// NetworkID and BlockchainID are those of Warp messages; 0 means 54321 and
	// one that is drawn.
	NetworkID    uint32
	BlockchainID ids.ID
	// L1 makes headers those of subnet-evm in place of coreth's.
	L1 bool
	// Txs is about how many transactions will be made in all. A Generator goes on
	// beyond it; it is what Span and Accounts refer to. Default 2,000.
	Txs int
	// TxsPerBlock is how many transactions blocks have on average, one in 16 has none;
	// default 12.
	TxsPerBlock int
	// Start is the time of the genesis; zero means the beginning of 2025.
	Start time.Time
	// Span is the time over which Txs are spread, with a pause of some days in the
	// middle if it is long enough; default 45 days.
	Span time.Duration
	// Accounts is how many send transactions and own something: a few of them do most,
	// as drawn by Zipf's law. Default Txs/20, at least 64, at most 50,000.
	Accounts int
	// MetadataURL is where the token URIs over HTTP point to; the default leads nowhere.
	MetadataURL string
	// Record keeps the Truth, in memory: about 500 bytes a transaction.
	Record bool
}

func (o Options) withDefaults() Options {
	if o.ChainID == 0 {
		o.ChainID = 43112
	}
	if o.NetworkID == 0 {
		o.NetworkID = 54321
	}
	if o.BlockchainID == ids.Empty {
		o.BlockchainID = ids.ID(crypto.Keccak256Hash(packed(nil).number(o.Seed).number(o.ChainID)))
	}
	if o.Txs <= 0 {
		o.Txs = 2000
	}
	if o.TxsPerBlock <= 0 {
		o.TxsPerBlock = 12
	}
	if o.Start.IsZero() {
		o.Start = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	if o.Span <= 0 {
		o.Span = 45 * 24 * time.Hour
	}
	if o.Accounts <= 0 {
		o.Accounts = min(max(o.Txs/20, 64), 50_000)
	}
	if o.MetadataURL == "" {
		o.MetadataURL = "http://metadata.invalid"
	}
	return o
}

// Block is an accepted block, as the Ethereum API of a node tells it.
type Block struct {
	Number uint64
	Hash   common.Hash
	Time   time.Time
	// Text is eth_getBlockByNumber's with whole transactions, Receipts is
	// eth_getBlockReceipts', Traces is debug_traceBlockByNumber's by callTracer, all
	// in JSON.
	Text, Receipts, Traces []byte
	// Txs are the hashes of the transactions.
	Txs []common.Hash
	// Decoded is the same as whoever reads it should have it; nil unless
	// Options.Record.
	Decoded *evm.Block
}

// Generator makes a chain block by block. Next belongs to one goroutine; the rest is
// safe for concurrent use. In memory are about 250 bytes a transaction: each balance
// at each block.
type Generator struct {
	o     Options
	rng   *rand.Rand
	zipf  *rand.Zipf
	truth *Truth

	mu sync.RWMutex // state changes under it
	*state
	x execution

	// clock is in milliseconds since 1970, end when Txs should be made, gap the mean
	// between two blocks.
	clock, end, gap float64
	paused          bool
	isPresent       bool
	txs             int
	parent          common.Hash
	number          uint64

	keys     uint256.Int // the first secret key, the others follow
	people   []*account  // by rank, nil until somebody needs them
	treasury []*account  // those that the genesis gives money, and keys
	pool     [kinds][]*contract
	all      []*contract
	teleport *contract
	warp     *account
	foreign  []ids.ID // blockchains that messages come from and go to

	contracts int
	messages  map[ids.ID]uint64 // Teleporter messages by source
	poor      bool              // nobody could pay for a transaction
	out       rendering
}

// Treasuries are how many accounts have money from the genesis on, each of them
// Treasury wei.
const Treasuries = 16

// Treasury is explained at Treasuries: 100 million AVAX.
var Treasury = *new(uint256.Int).Mul(uint256.NewInt(100_000_000), uint256.NewInt(1e18))

// Teleporter is the address of the Teleporter contract, the same on all chains
// (ava-labs/icm-contracts).
var Teleporter = common.HexToAddress("0x253b2784c75e510dD0fF1da844684a1aC0aa5fcf")

// Warp is the address of the Warp precompile (avalanchego
// graft/coreth/precompile/contracts/warp).
var Warp = common.HexToAddress("0x0200000000000000000000000000000000000005")

// New makes a generator.
func New(o Options) (*Generator, error) {
	o = o.withDefaults()
	if o.Txs > 1<<28 || o.Accounts > 1<<22 {
		return nil, fmt.Errorf("a chain of %d transactions and %d accounts is too large", o.Txs, o.Accounts)
	}
	if o.TxsPerBlock > 2000 {
		return nil, fmt.Errorf("blocks of %d transactions are too large", o.TxsPerBlock)
	}
	g := &Generator{
		o:        o,
		rng:      rand.New(rand.NewPCG(o.Seed, 0x65766d^o.ChainID<<24)),
		state:    newState(o.Record),
		clock:    float64(o.Start.UnixMilli()),
		messages: make(map[ids.ID]uint64),
	}
	g.x.state = g.state
	g.end = g.clock + float64(o.Span.Milliseconds())
	g.zipf = rand.NewZipf(g.rng, 1.1, 8, uint64(o.Accounts-1))
	g.people = make([]*account, o.Accounts)
	g.keys = g.wide()
	g.keys.Rsh(&g.keys, 1) // so that what follows stays below the order of the curve
	if o.Record {
		g.truth = &Truth{g: g}
	}
	for range 3 {
		g.foreign = append(g.foreign, ids.ID(g.hash()))
	}
	g.begin()
	return g, nil
}

// begin makes what the genesis has.
func (g *Generator) begin() {
	for i := range Treasuries {
		a := g.keyed(len(g.people) + i)
		g.set(&a.balance, &Treasury)
		g.treasury = append(g.treasury, a)
	}
	g.warp = g.account(Warp)
	g.teleport = g.newContract(messenger)
	g.place(g.teleport, Teleporter)
	// A token that no transaction made.
	wrapped := g.newContract(erc20)
	wrapped.name, wrapped.symbol, wrapped.decimals, wrapped.odd = "Wrapped AVAX", "WAVAX", 18, 0
	g.place(wrapped, common.HexToAddress("0xB31f66AA3C1e785363F0875A1B74E27b85FD66c7"))
	supply := new(uint256.Int).Mul(uint256.NewInt(1_000_000), uint256.NewInt(1e18))
	g.set(g.holding(wrapped, &g.nobody, new(uint256.Int)), supply)
	g.set(g.holding(wrapped, g.treasury[0], new(uint256.Int)), supply)
	g.pool[erc20] = append(g.pool[erc20], wrapped)
	g.all = append(g.all, wrapped)
	g.hold(wrapped, g.treasury[0], new(uint256.Int))
	g.journal = g.journal[:0]
}

// place gives an account code from the genesis on.
func (g *Generator) place(c *contract, at common.Address) {
	c.at = g.account(at)
	c.at.code, c.at.nonce = c, 1
}

// keyed is the account of a secret key.
func (g *Generator) keyed(i int) *account {
	secret := new(uint256.Int).AddUint64(&g.keys, uint64(i))
	b := secret.Bytes32()
	key, err := crypto.ToECDSA(b[:])
	if err != nil {
		panic(fmt.Sprintf("evmchain: secret key %d: %v", i, err)) // which would be a mistake here
	}
	a := g.account(crypto.PubkeyToAddress(key.PublicKey))
	a.key = new(uint256.Int).MulMod(secret, &generatorX, &curveOrder)
	return a
}

// ChainID is that of transactions, BlockchainID that of the chain.
func (g *Generator) ChainID() uint64 { return g.o.ChainID }

// BlockchainID is explained at ChainID.
func (g *Generator) BlockchainID() ids.ID { return g.o.BlockchainID }

// Txs is how many transactions were made.
func (g *Generator) Txs() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.txs
}

// Truth is what is known of all blocks that were made; nil unless Options.Record.
func (g *Generator) Truth() *Truth { return g.truth }

// errPoor says that a chain has gone on for so long that its genesis accounts have no
// money left.
var errPoor = errors.New("nobody has money left to pay for a transaction")

// errFull says that there are as many blocks as there can be.
var errFull = errors.New("the chain has as many blocks as it can have")

// Next makes the next block, first the genesis. There is no end to them.
func (g *Generator) Next() (*Block, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.number == math.MaxUint32 {
		return nil, errFull
	}
	g.block = uint32(g.number)
	b := g.out.begin(g)
	if g.number > 0 {
		g.pass()
		for range g.batch() {
			if err := g.transaction(); err != nil {
				return nil, fmt.Errorf("making block %d: %w", g.number, err)
			}
			if g.poor {
				return nil, fmt.Errorf("making block %d: %w", g.number, errPoor)
			}
		}
	}
	g.out.end(g, b)
	g.txs += len(b.Txs)
	g.parent = b.Hash
	g.number++
	return b, nil
}

// pause is how long nothing happens once.
const pause = 60 * time.Hour

// pass lets time pass before a block, so that Txs take as long as they should.
func (g *Generator) pass() {
	left := g.o.Txs - g.txs
	if g.isPresent || left <= 0 {
		g.clock += max(g.rng.ExpFloat64()*g.gap, 1)
		return
	}
	if !g.paused && 2*left < g.o.Txs {
		g.paused = true
		if g.o.Span > 10*pause {
			g.clock += float64(pause.Milliseconds())
		}
	}
	g.gap = float64(g.o.TxsPerBlock) * (g.end - g.clock) / float64(left+g.o.TxsPerBlock)
	g.clock = min(g.clock+max(g.rng.ExpFloat64()*g.gap, 1), max(g.end, g.clock+1))
}

// present ends the past: from now on blocks are of the time they are made.
func (g *Generator) present(now time.Time) {
	g.isPresent, g.clock, g.gap = true, max(g.clock, float64(now.UnixMilli())), 0
}

// batch is how many transactions a block has.
func (g *Generator) batch() int {
	if g.chance(1. / 16) {
		return 0
	}
	return g.between(1, 2*g.o.TxsPerBlock)
}

func (g *Generator) chance(p float64) bool { return g.rng.Float64() < p }

// between draws from lo to hi, both possible.
func (g *Generator) between(lo, hi int) int { return lo + g.rng.IntN(hi-lo+1) }

func (g *Generator) wide() uint256.Int {
	return uint256.Int{g.rng.Uint64(), g.rng.Uint64(), g.rng.Uint64(), g.rng.Uint64()}
}

func (g *Generator) hash() common.Hash {
	n := g.wide()
	return n.Bytes32()
}

func (g *Generator) bytes(n int) []byte {
	b := make([]byte, 0, n+32)
	for len(b) < n {
		h := g.hash()
		b = append(b, h[:]...)
	}
	return b[:n]
}

// ether is an amount of AVAX in wei, to the last digit.
func (g *Generator) ether(lo, hi float64) uint256.Int {
	amount := lo + (hi-lo)*g.rng.Float64()*g.rng.Float64()
	n := uint256.NewInt(uint64(amount * 1e9))
	n.Mul(n, uint256.NewInt(1e9))
	return *n.AddUint64(n, g.rng.Uint64N(1e9))
}
